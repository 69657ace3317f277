//! What screens look alike by: colours, sparklines, texts that fit.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;
use ratatui::widgets::{RenderDirection, Sparkline};

/// Fewest columns of a screen on which rows have a sparkline.
pub(super) const WIDE: u16 = 110;
/// Fewest columns that a name has.
pub(super) const NAME_MIN: u16 = 10;

/// How it may look. Nothing is said by colour alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) colour: bool,
}

impl Look {
    /// What is bad.
    pub(super) fn bad(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// In a colour, where there may be any.
    pub(super) fn coloured(self, colour: Color) -> Style {
        if self.colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }
}

/// The last seconds that fit, the last one at the right.
pub(super) fn draw_sparkline(
    frame: &mut Frame<'_>,
    area: Rect,
    values: &[u64],
    most: Option<u64>,
    look: Look,
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

/// A name that fits, with a mark where it was cut.
pub(super) fn clipped(name: &str, width: u16) -> String {
    let width = usize::from(width);
    if Span::raw(name).width() <= width {
        return name.to_owned();
    }
    let mut clipped = String::new();
    for c in name.chars() {
        clipped.push(c);
        if Span::raw(clipped.as_str()).width() >= width {
            clipped.pop();
            break;
        }
    }
    clipped + "…"
}

/// A number of things, with their word.
pub(super) fn counted(number: usize, word: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {word}{s}")
}
