//! The common appearance of the screens: colours, sparklines, and texts that are clipped to their
//! space.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;
use ratatui::widgets::{RenderDirection, Sparkline};

/// The smallest width of a screen, in columns, on which rows have a sparkline.
pub(super) const WIDE: u16 = 110;
/// The smallest width of a name, in columns.
pub(super) const NAME_MIN: u16 = 10;

/// The style of the display. Colour is never the only sign of something.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScreenStyle {
    pub(super) colour: bool,
}

impl ScreenStyle {
    /// Returns the style for problems.
    pub(super) fn bad(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Returns the style with a foreground colour, unless colours are turned off.
    pub(super) fn coloured(self, colour: Color) -> Style {
        if self.colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }
}

/// Draws the most recent values that fit into an area, with the latest one at the right.
pub(super) fn draw_sparkline(
    frame: &mut Frame<'_>,
    area: Rect,
    values: &[u64],
    most: Option<u64>,
    look: ScreenStyle,
) {
    let values = values.iter().rev().take(usize::from(area.width));
    let mut sparkline = Sparkline::default()
        .data(values.copied())
        .direction(RenderDirection::RightToLeft)
        .style(look.coloured(Color::Blue));
    if let Some(most) = most {
        sparkline = sparkline.max(most);
    }
    frame.render_widget(sparkline, area);
}

/// Clips a name to a width, with an ellipsis if it was cut.
pub(super) fn clipped(name: &str, width: u16) -> String {
    let width = usize::from(width);
    // Some characters take two columns, so the width is that on the terminal and not the number of
    // characters.
    if Span::raw(name).width() <= width {
        return name.to_owned();
    }
    let mut clipped = String::new();
    for c in name.chars() {
        clipped.push(c);
        if Span::raw(clipped.as_str()).width() >= width {
            // The ellipsis takes the place of the last character.
            clipped.pop();
            break;
        }
    }
    clipped + "…"
}

/// Returns a number with a noun, in the plural if it is not 1.
pub(super) fn counted(number: usize, word: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {word}{s}")
}
