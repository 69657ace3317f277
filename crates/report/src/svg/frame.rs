//! The frame of plots: heading, legend, axes.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas};
use super::{Mark, Shape};
use crate::html::escape;

/// The area for the data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Frame {
    /// Writes heading and legend; the data get the rest of `size`.
    pub(super) fn new(
        canvas: &mut Canvas,
        size: (f64, f64),
        heading: (&str, &str),
        legend: &[Mark],
    ) -> Self {
        let (title, unit) = (escape(heading.0), escape(heading.1));
        canvas.put(format_args!(
            "<text x=\"{MARGIN:.1}\" y=\"{HEADING:.1}\"><tspan class=\"head\">{title}</tspan> <tspan class=\"soft\" dx=\"6\">{unit}</tspan></text>\n"
        ));
        let (mut x, mut y) = (MARGIN, HEADING + 22.0);
        for mark in legend {
            let length = SWATCH + 6.0 + text_width(&mark.name);
            if x > MARGIN && x + length > size.0 - MARGIN {
                (x, y) = (MARGIN, y + LINE);
            }
            write_sample(canvas, mark, (x, y - 4.0));
            canvas.text("", (x + SWATCH + 6.0, y), Anchor::Start, &mark.name);
            x += length + 14.0;
        }
        Self {
            left: 44.0,
            right: size.0 - 14.0,
            top: if legend.is_empty() { HEADING } else { y } + 16.0,
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

/// A mark's sample in the legend.
fn write_sample(canvas: &mut Canvas, mark: &Mark, (x, middle): (f64, f64)) {
    if let Some(class) = mark.line_class() {
        return canvas.line(&class, (x, middle), (x + SWATCH, middle));
    }
    let (class, height) = match mark.shape {
        Shape::Band(_) => ("band", 10.0),
        _ => ("fill", 12.0),
    };
    canvas.put(format_args!(
        "<rect class=\"{class} {}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{SWATCH:.1}\" height=\"{height:.1}\"/>\n",
        mark.ink.class(),
        middle - height / 2.0
    ));
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
