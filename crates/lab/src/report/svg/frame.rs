//! The frame of plots: heading, legend and axes.

use super::canvas::{Anchor, Canvas};
use super::{ChartMark, MarkShape};
use crate::report::html::escape;

/// The area of a plot that shows the data.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlotFrame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl PlotFrame {
    /// Writes heading and legend. The data get the rest of `size`.
    pub(super) fn new(
        canvas: &mut Canvas,
        size: (f64, f64),
        heading: (&str, &str),
        legend: &[&ChartMark],
    ) -> Self {
        let room = size.0 - 2.0 * MARGIN - 12.0 - text_width(heading.1);
        // Headings are bold and therefore wider.
        let title = escape(&fitted(heading.0, room / 1.1));
        let unit = escape(heading.1);
        canvas.put(format_args!(
            "<text x=\"{MARGIN:.1}\" y=\"{HEADING:.1}\"><tspan class=\"head\">{title}</tspan> <tspan class=\"soft\" dx=\"6\">{unit}</tspan></text>\n"
        ));
        for (mark, (x, y)) in legend.iter().zip(places(size.0, legend)) {
            write_sample(canvas, mark, (x, y - 4.0));
            canvas.text("", (x + SWATCH + 6.0, y), Anchor::Start, &mark.name);
        }
        Self {
            left: 54.0,
            right: size.0 - 14.0,
            top: top(size.0, legend),
            bottom: size.1 - 38.0,
        }
    }

    /// Writes the vertical axis: rules across the data, and their labels.
    pub(super) fn vertical(&self, canvas: &mut Canvas, ticks: Vec<(f64, String)>) {
        for (y, label) in ticks {
            canvas.line("rule", (self.left, y), (self.right, y));
            canvas.text("soft", (self.left - 8.0, y + 4.0), Anchor::End, &label);
        }
    }

    /// Writes the horizontal axis: a line, ticks, labels and its name.
    pub(super) fn horizontal(&self, canvas: &mut Canvas, ticks: Vec<(f64, String)>, name: &str) {
        let y = self.bottom;
        canvas.line("axis", (self.left, y), (self.right, y));
        for (x, label) in spaced(ticks) {
            canvas.line("axis", (x, y), (x, y + 4.0));
            canvas.text("soft", (x, y + 17.0), Anchor::Middle, &label);
        }
        canvas.text("soft", (self.right, y + 33.0), Anchor::End, name);
    }
}

/// Returns every tick from left to right, or every second, third and so on, so that the labels
/// below them have space.
pub(super) fn spaced(ticks: Vec<(f64, String)>) -> Vec<(f64, String)> {
    let widest = ticks.iter().map(|t| text_width(&t.1)).fold(0.0, f64::max);
    let apart = ticks.windows(2).map(|two| (two[1].0 - two[0].0).abs());
    let apart = apart.fold(f64::INFINITY, f64::min).max(1.0);
    // Labels need a gap of eight pixels.
    let every = ((widest + 8.0) / apart).ceil().max(1.0) as usize;
    ticks.into_iter().step_by(every).collect()
}

/// Returns the top of the data below heading and legend.
pub(super) fn top(width: f64, legend: &[&ChartMark]) -> f64 {
    places(width, legend).last().map_or(HEADING, |(_, y)| y) + 16.0
}

/// Returns the position of each mark of a legend.
fn places(width: f64, legend: &[&ChartMark]) -> impl Iterator<Item = (f64, f64)> {
    let (mut x, mut y) = (MARGIN, HEADING + 22.0);
    legend.iter().map(move |mark| {
        let length = SWATCH + 6.0 + text_width(&mark.name);
        // A sample that does not fit begins a new line, unless it is the first of its line.
        if x > MARGIN && x + length > width - MARGIN {
            (x, y) = (MARGIN, y + LINE);
        }
        let place = (x, y);
        x += length + 14.0;
        place
    })
}

/// Writes a mark's sample in the legend.
fn write_sample(canvas: &mut Canvas, mark: &ChartMark, (x, middle): (f64, f64)) {
    if let Some(class) = mark.line_class() {
        return canvas.line(&class, (x, middle), (x + SWATCH, middle));
    }
    let (class, height) = match mark.shape {
        MarkShape::Band(_) => ("band", 10.0),
        _ => ("fill", 12.0),
    };
    canvas.put(format_args!(
        "<rect class=\"{class} {}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{SWATCH:.1}\" height=\"{height:.1}\"/>\n",
        mark.ink.class(),
        middle - height / 2.0
    ));
}

/// Returns an estimate of the width of a text of 12 pixels, which is rather too large than too
/// small.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// Shortens a text to at most this width. An ellipsis replaces the rest.
pub(super) fn fitted(text: &str, width: f64) -> String {
    if text_width(text) <= width + 0.1 {
        return text.to_owned();
    }
    let room = (width / CHARACTER).floor().max(2.0) as usize - 1;
    let begin: String = text.chars().take(room).collect();
    format!("{}\u{2026}", begin.trim_end())
}

/// The vertical position of the heading.
const HEADING: f64 = 15.0;

/// The width of a character in a text of 12 pixels, in a wide font.
const CHARACTER: f64 = 6.9;

/// The space on both sides of heading and legend.
pub(super) const MARGIN: f64 = 4.0;

/// The distance between two lines of a legend.
const LINE: f64 = 18.0;

/// The width of a sample in a legend.
const SWATCH: f64 = 20.0;
