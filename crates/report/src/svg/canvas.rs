//! SVG text: elements, escaped and with a fixed number of digits.

use std::fmt::{Display, Write};

use super::Ink;
use crate::html::escape;

/// An SVG document while it is written.
pub(super) struct Canvas {
    text: String,
}

/// Which end of a text is at its position.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    /// A document of `width` by `height`, with a description for screen readers.
    pub(super) fn new(width: f64, height: f64, title: &str, description: &str) -> Self {
        let mut canvas = Self {
            text: String::new(),
        };
        let (title, description) = (escape(title), escape(description));
        // Text is readable from the drawn size to a third larger; a page does not stretch a plot beyond that.
        let most = width * 1.3;
        canvas.put(format_args!(
            "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"100%\" style=\"max-width:{most:.0}px\" role=\"img\" aria-label=\"{title}\">\n\
             <title>{title}</title>\n<desc>{description}</desc>\n"
        ));
        canvas
    }

    /// The finished document.
    pub(super) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }

    /// Writes text unchanged.
    pub(super) fn put(&mut self, text: impl Display) {
        write!(self.text, "{text}").expect("memory takes every byte");
    }

    /// A straight line.
    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.put(format_args!(
            "<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"/>\n"
        ));
    }

    /// A filled rectangle with a tooltip.
    pub(super) fn bar(&mut self, ink: Ink, corner: (f64, f64), size: (f64, f64), tip: &str) {
        let ((x, y), (width, height)) = (corner, size);
        let (class, tip) = (ink.class(), escape(tip));
        self.put(format_args!(
            "<rect class=\"fill {class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">\
             <title>{tip}</title></rect>\n"
        ));
    }

    /// A text.
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
