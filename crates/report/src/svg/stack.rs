//! Horizontal stacked bars: where time was spent.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas};
use super::frame::{Entry, Frame, Shape, text_width};
use super::{Ink, Scale, either};
use crate::number::short;

/// A horizontal bar for each row, with the same parts.
#[derive(Debug, Clone, Default)]
pub struct StackChart {
    /// Heading.
    pub title: String,
    /// A description for screen readers.
    pub description: String,
    /// Unit of the values.
    pub unit: String,
    /// Width and height; the rows share the height.
    pub size: (f64, f64),
    /// Name and colour of each part, from left to right.
    pub parts: Vec<(String, Ink)>,
    /// The rows, from top to bottom.
    pub rows: Vec<StackRow>,
}

/// One bar.
#[derive(Debug, Clone)]
pub struct StackRow {
    /// Its name, on its left.
    pub name: String,
    /// The label at its end, such as its sum with a unit.
    pub sum: String,
    /// A value for each part; negative or infinite values count as 0.
    pub values: Vec<f64>,
}

impl StackChart {
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
        let legend: Vec<Entry<'_>> = self.parts.iter().map(entry).collect();
        let mut canvas = Canvas::new(self.size.0, self.size.1, &self.title, &self.description);
        let mut frame = Frame::new(&mut canvas, self.size, (&self.title, &self.unit), &legend);
        let widest = |texts: &mut dyn Iterator<Item = &String>| {
            texts.map(|t| text_width(t)).fold(0.0, f64::max)
        };
        // Long names must leave at least a third of the width for the bars.
        let third = self.size.0 / 3.0;
        frame.left = (widest(&mut self.rows.iter().map(|r| &r.name)) + 16.0).min(third);
        frame.right -= (widest(&mut self.rows.iter().map(|r| &r.sum)) + 8.0).min(third);
        // The axis has no name.
        frame.bottom += 12.0;
        let height = (frame.bottom - frame.top) / self.rows.len().max(1) as f64;
        let sums = self
            .rows
            .iter()
            .map(|r| r.values.iter().copied().map(length).sum());
        let x = Axis::around(Scale::Linear, sums, frame.left, frame.right);
        for (at, label) in x.ticks() {
            canvas.line("rule", (at, frame.top), (at, frame.bottom));
            canvas.text("soft", (at, frame.bottom + 17.0), Anchor::Middle, &label);
        }
        for (i, row) in self.rows.iter().enumerate() {
            let top = frame.top + height * i as f64;
            self.write_row(&mut canvas, row, (top, height), &x);
        }
        canvas.line("axis", (frame.left, frame.top), (frame.left, frame.bottom));
        canvas.finish()
    }

    /// One row within (top, height).
    fn write_row(&self, canvas: &mut Canvas, row: &StackRow, place: (f64, f64), x: &Axis) {
        let middle = place.0 + place.1 / 2.0;
        let text = middle + 4.0;
        let thick = (place.1 * 0.7).min(40.0);
        canvas.text("", (x.origin() - 10.0, text), Anchor::End, &row.name);
        let mut sum = 0.0;
        for (value, (name, ink)) in row.values.iter().zip(&self.parts) {
            let from = x.place(sum);
            sum += length(*value);
            let width = x.place(sum) - from;
            if width > 0.0 {
                let tip = format!("{}, {name}: {} {}", row.name, short(*value), self.unit);
                canvas.bar(*ink, (from, middle - thick / 2.0), (width, thick), &tip);
            }
        }
        canvas.text(
            "halo head",
            (x.place(sum) + 8.0, text),
            Anchor::Start,
            &row.sum,
        );
    }
}

fn entry((name, ink): &(String, Ink)) -> Entry<'_> {
    Entry {
        name,
        ink: *ink,
        shape: Shape::Fill,
    }
}

fn length(value: f64) -> f64 {
    if value.is_finite() {
        value.max(0.0)
    } else {
        0.0
    }
}
