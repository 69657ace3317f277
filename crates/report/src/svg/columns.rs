//! Columns of stacked parts, with lines across them.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas};
use super::frame::{Entry, Frame, Shape, text_width};
use super::{Ink, Scale, either};
use crate::number::short;

/// Columns side by side, each of several parts one above the other.
#[derive(Debug, Clone, Default)]
pub struct ColumnChart {
    /// Heading.
    pub title: String,
    /// A description for screen readers.
    pub description: String,
    /// Unit of the vertical axis.
    pub unit: String,
    /// Width and height.
    pub size: (f64, f64),
    /// Name and colour of each part, from below.
    pub parts: Vec<(String, Ink)>,
    /// The name of each column, and its parts.
    pub columns: Vec<(String, Vec<f64>)>,
    /// Lines across all columns: name, colour and value. One without a colour is a dashed mark.
    pub lines: Vec<(String, Option<Ink>, f64)>,
}

impl ColumnChart {
    /// The plot as HTML, for pages: in two sizes, one of them for phones.
    pub fn html(&self) -> String {
        either(&self.svg(), self.size, |size| {
            let narrow = Self {
                size,
                ..self.clone()
            };
            narrow.svg()
        })
    }

    /// The plot as SVG.
    pub fn svg(&self) -> String {
        let fill = |(name, ink): &'_ (String, Ink)| (name.clone(), *ink, Shape::Fill);
        let line = |(name, ink, _): &(String, Option<Ink>, f64)| match ink {
            Some(ink) => (name.clone(), *ink, Shape::Line("")),
            None => (name.clone(), Ink::STRONG, Shape::Mark),
        };
        let parts = self.parts.iter().map(fill);
        let legend: Vec<_> = parts.chain(self.lines.iter().map(line)).collect();
        let legend: Vec<Entry<'_>> = (legend.iter())
            .map(|(name, ink, shape)| Entry {
                name,
                ink: *ink,
                shape: *shape,
            })
            .collect();
        let mut canvas = Canvas::new(self.size.0, self.size.1, &self.title, &self.description);
        let mut frame = Frame::new(&mut canvas, self.size, (&self.title, &self.unit), &legend);
        frame.top += 8.0;
        let width = (frame.right - frame.left) / self.columns.len().max(1) as f64;
        // Names that are too long for one row take turns in two.
        let longest = self.columns.iter().map(|c| text_width(&c.0));
        let staggered = longest.fold(0.0, f64::max) > width;
        frame.bottom += if staggered { 0.0 } else { 14.0 };
        let sums = self.columns.iter().map(|c| sum(&c.1));
        let values = sums.chain(self.lines.iter().map(|l| l.2));
        let y = Axis::around(Scale::Linear, values, frame.bottom, frame.top);
        frame.vertical(&mut canvas, &y);
        for (at, column) in self.columns.iter().enumerate() {
            let left = frame.left + width * at as f64;
            self.write_column(&mut canvas, column, (left, width), &y);
            let row = if staggered && at % 2 == 1 { 34.0 } else { 18.0 };
            let below = (left + width / 2.0, frame.bottom + row);
            canvas.text("", below, Anchor::Middle, &column.0);
        }
        let (left, right) = (frame.left, frame.right);
        for (_, ink, value) in &self.lines {
            let class = ink.map_or_else(
                || "mark".to_owned(),
                |ink| format!("line thin {}", ink.class()),
            );
            canvas.line(&class, (left, y.place(*value)), (right, y.place(*value)));
        }
        // What is above the columns is above the lines, too.
        for (at, column) in self.columns.iter().enumerate() {
            let top = y.place(sum(&column.1));
            let place = (left + width * (at as f64 + 0.5), top - 5.0);
            canvas.text("halo", place, Anchor::Middle, &short(sum(&column.1)));
        }
        canvas.line("axis", (left, frame.bottom), (right, frame.bottom));
        canvas.finish()
    }

    /// One column within (left, width).
    fn write_column(
        &self,
        canvas: &mut Canvas,
        (name, values): &(String, Vec<f64>),
        place: (f64, f64),
        y: &Axis,
    ) {
        let width = (place.1 * 0.62).min(64.0);
        let left = place.0 + (place.1 - width) / 2.0;
        let mut below = 0.0;
        for (value, (part, ink)) in values.iter().zip(&self.parts) {
            let foot = y.place(below);
            below += length(*value);
            let top = y.place(below);
            if foot > top {
                let tip = format!("{name}, {part}: {} {}", short(*value), self.unit);
                canvas.bar(*ink, (left, top), (width, foot - top), &tip);
            }
        }
    }
}

fn sum(values: &[f64]) -> f64 {
    values.iter().copied().map(length).sum()
}

fn length(value: f64) -> f64 {
    if value.is_finite() {
        value.max(0.0)
    } else {
        0.0
    }
}
