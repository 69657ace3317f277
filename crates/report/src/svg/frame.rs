//! The frame of plots: heading, legend, axes.

use super::Ink;
use super::axis::Axis;
use super::canvas::{Anchor, Canvas};
use crate::html::escape;

/// The area for the data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// One entry of a legend.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    pub(super) ink: Ink,
    pub(super) shape: Shape,
}

/// How an entry of a legend is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// A line with further classes.
    Line(&'static str),
    /// A reference line.
    Mark,
    /// The area between two lines.
    Band,
    /// A filled area.
    Fill,
}

impl Frame {
    /// Writes heading and legend; the data get the rest of `width` by `height`.
    pub(super) fn new(
        canvas: &mut Canvas,
        size: (f64, f64),
        heading: (&str, &str),
        legend: &[Entry<'_>],
    ) -> Self {
        let (title, unit) = (escape(heading.0), escape(heading.1));
        canvas.put(format_args!(
            "<text x=\"{MARGIN:.1}\" y=\"{HEADING:.1}\"><tspan class=\"head\">{title}</tspan> <tspan class=\"soft\" dx=\"6\">{unit}</tspan></text>\n"
        ));
        write_legend(canvas, legend, size.0);
        Self {
            left: 44.0,
            right: size.0 - 14.0,
            top: places(size.0, legend).last().map_or(HEADING, |p| p.1) + 16.0,
            bottom: size.1 - 38.0,
        }
    }

    /// The vertical axis: rules across the data, and their labels.
    pub(super) fn vertical(&self, canvas: &mut Canvas, axis: &Axis) {
        for (y, label) in axis.ticks() {
            canvas.line("rule", (self.left, y), (self.right, y));
            canvas.text("soft", (self.left - 8.0, y + 4.0), Anchor::End, &label);
        }
    }

    /// The horizontal axis: a line, ticks, labels and its name.
    pub(super) fn horizontal(&self, canvas: &mut Canvas, axis: &Axis, name: &str) {
        let y = self.bottom;
        canvas.line("axis", (self.left, y), (self.right, y));
        for (x, label) in axis.ticks() {
            canvas.line("axis", (x, y), (x, y + 4.0));
            canvas.text("soft", (x, y + 17.0), Anchor::Middle, &label);
        }
        canvas.text("soft", (self.right, y + 33.0), Anchor::End, name);
    }
}

/// The positions of a legend's entries: side by side, in as many lines as needed.
fn places(width: f64, legend: &[Entry<'_>]) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (MARGIN, HEADING + 22.0);
    let place = |entry: &Entry<'_>| {
        let length = SWATCH + 6.0 + text_width(entry.name);
        if x > MARGIN && x + length > width - MARGIN {
            (x, y) = (MARGIN, y + LINE);
        }
        let at = (x, y);
        x += length + 14.0;
        at
    };
    legend.iter().map(place).collect()
}

fn write_legend(canvas: &mut Canvas, legend: &[Entry<'_>], width: f64) {
    for (entry, (x, y)) in legend.iter().zip(places(width, legend)) {
        let (middle, ink) = (y - 4.0, entry.ink.class());
        let area = |class: &str, height: f64| {
            format!(
                "<rect class=\"{class} {ink}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{SWATCH:.1}\" height=\"{height:.1}\"/>\n",
                middle - height / 2.0
            )
        };
        match entry.shape {
            Shape::Line(class) => {
                let class = format!("line {class} {ink}");
                canvas.line(&class, (x, middle), (x + SWATCH, middle));
            }
            Shape::Mark => canvas.line("mark", (x, middle), (x + SWATCH, middle)),
            Shape::Band => canvas.put(area("band", 10.0)),
            Shape::Fill => canvas.put(area("fill", 12.0)),
        }
        canvas.text("", (x + SWATCH + 6.0, y), Anchor::Start, entry.name);
    }
}

/// The approximate width of a text of 12 pixels, rounded up.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 6.4
}

/// The position of the heading.
const HEADING: f64 = 15.0;

/// Space on both sides of heading and legend.
const MARGIN: f64 = 4.0;

/// Distance between two lines of a legend.
const LINE: f64 = 18.0;

/// Width of a sample in a legend.
const SWATCH: f64 = 20.0;
