//! The text of SVG documents: elements, escaped and with a fixed number of digits.

use std::fmt::{Display, Write};

use super::Ink;
use crate::report::html::escape;

/// An SVG document in progress.
pub(super) struct Canvas {
    text: String,
}

/// The end of a text that is at its position.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    /// Begins a document of `width` by `height`, with a description for screen readers.
    pub(super) fn new(width: f64, height: f64, title: &str, description: &str) -> Self {
        let mut canvas = Self {
            text: String::new(),
        };
        let (title, description) = (escape(title), escape(description));
        // Text is readable from the drawn size to a third larger, so that a page does not stretch a
        // plot beyond that.
        let most = width * 1.3;
        canvas.put(format_args!(
            "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"100%\" style=\"max-width:{most:.0}px\" role=\"img\" aria-label=\"{title}\">\n\
             <title>{title}</title>\n<desc>{description}</desc>\n"
        ));
        canvas
    }

    /// Ends the document and returns its text.
    pub(super) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }

    /// Writes text unchanged.
    pub(super) fn put(&mut self, text: impl Display) {
        write!(self.text, "{text}").expect("memory takes every byte");
    }

    /// Writes a straight line.
    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.put(format_args!(
            "<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"/>\n"
        ));
    }

    /// Writes a filled dot with a tooltip.
    pub(super) fn dot(&mut self, ink: Ink, (x, y): (f64, f64), radius: f64, tip: &str) {
        let (class, tip) = (ink.class(), escape(tip));
        self.put(format_args!(
            "<circle class=\"fill {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\"><title>{tip}</title></circle>\n"
        ));
    }

    /// Writes a filled rectangle with a tooltip.
    pub(super) fn bar(&mut self, ink: Ink, corner: (f64, f64), size: (f64, f64), tip: &str) {
        let ((x, y), (width, height)) = (corner, size);
        let (class, tip) = (ink.class(), escape(tip));
        self.put(format_args!(
            "<rect class=\"fill {class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">\
             <title>{tip}</title></rect>\n"
        ));
    }

    /// Writes a text at a position.
    pub(super) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let ((x, y), text) = (at, escape(text));
        self.put(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>\n"
        ));
    }
}

/// The data of a path of straight lines, in tenths of a pixel and as few characters as possible,
/// because pages have hundreds of thousands of points.
#[derive(Default)]
pub(super) struct SvgPath {
    text: String,
    /// The last point, in tenths of a pixel.
    at: (i64, i64),
    /// True if the line continues from the last point.
    is_down: bool,
}

impl SvgPath {
    /// Draws a line to this point. The first point, and the first after [`SvgPath::lift`], begins a
    /// line.
    pub(super) fn to(&mut self, x: f64, y: f64) {
        let to = ((x * 10.0).round() as i64, (y * 10.0).round() as i64);
        let (pen, values) = if self.is_down {
            ("l", [to.0 - self.at.0, to.1 - self.at.1])
        } else {
            ("M", [to.0, to.1])
        };
        self.text.push_str(pen);
        for (i, value) in values.into_iter().enumerate() {
            // A minus sign separates two numbers without a space.
            if i > 0 && value >= 0 {
                self.text.push(' ');
            }
            self.tenths(value);
        }
        (self.at, self.is_down) = (to, true);
    }

    /// Ends the line, so that the next point begins a new one.
    pub(super) fn lift(&mut self) {
        self.is_down = false;
    }

    fn tenths(&mut self, value: i64) {
        let (sign, size) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
        let (whole, rest) = (size / 10, size % 10);
        let written = match (whole, rest) {
            (_, 0) => write!(self.text, "{sign}{whole}"),
            (0, _) => write!(self.text, "{sign}.{rest}"),
            _ => write!(self.text, "{sign}{whole}.{rest}"),
        };
        written.expect("memory takes every byte");
    }
}

impl Display for SvgPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}
