//! Bars in groups, with error bars.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas};
use super::frame::{Entry, Frame, Shape, text_width};
use super::{Ink, Scale, either};
use crate::number::short;

/// Groups of bars: in each group one bar for each series.
#[derive(Debug, Clone, Default)]
pub struct BarChart {
    /// Heading.
    pub title: String,
    /// A description for screen readers.
    pub description: String,
    /// Unit of the vertical axis.
    pub unit: String,
    /// Scale of the vertical axis. On a log scale bars start at its lower end.
    pub scale: Scale,
    /// Width and height.
    pub size: (f64, f64),
    /// Name and colour of each series; a single one gets no legend.
    pub series: Vec<(String, Ink)>,
    /// The groups, from left to right.
    pub groups: Vec<BarGroup>,
}

/// One group of bars.
#[derive(Debug, Clone)]
pub struct BarGroup {
    /// Its name, below it.
    pub name: String,
    /// A bar for each series, or `None` without a value.
    pub bars: Vec<Option<Bar>>,
}

/// One bar.
#[derive(Debug, Clone, Copy)]
pub struct Bar {
    /// Its height.
    pub value: f64,
    /// Ends of its error bar.
    pub range: Option<(f64, f64)>,
}

impl Bar {
    /// A bar without error bar.
    pub fn new(value: f64) -> Self {
        Self { value, range: None }
    }
}

impl BarChart {
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
        let mut canvas = Canvas::new(self.size.0, self.size.1, &self.title, &self.description);
        let unit = match self.scale {
            Scale::Linear => self.unit.clone(),
            Scale::Log => format!("{}, log scale", self.unit),
        };
        let legend: Vec<Entry<'_>> = self.series.iter().map(entry).collect();
        let legend = if legend.len() > 1 { &legend[..] } else { &[] };
        let mut frame = Frame::new(&mut canvas, self.size, (&self.title, &unit), legend);
        // A horizontal axis of groups has no name, but values are above the bars.
        frame.top += 8.0;
        frame.bottom += 14.0;
        // On a log scale the smallest bar must not end at the start of the axis.
        let least = self.values().filter(|v| *v > 0.0).reduce(f64::min);
        let below = least.filter(|_| self.scale == Scale::Log).map(|v| v * 0.7);
        let values = self.values().chain(below);
        let y = Axis::around(self.scale, values, frame.bottom, frame.top);
        frame.vertical(&mut canvas, &y);
        let width = (frame.right - frame.left) / self.groups.len().max(1) as f64;
        for (i, group) in self.groups.iter().enumerate() {
            let left = frame.left + width * i as f64;
            self.write_group(&mut canvas, group, (left, width), &y);
            let below = (left + width / 2.0, frame.bottom + 18.0);
            canvas.text("", below, Anchor::Middle, &group.name);
        }
        let foot = frame.bottom;
        canvas.line("axis", (frame.left, foot), (frame.right, foot));
        canvas.finish()
    }

    fn values(&self) -> impl Iterator<Item = f64> + '_ {
        let bars = self.groups.iter().flat_map(|g| &g.bars).flatten();
        bars.flat_map(|b| {
            let (low, high) = b.range.unwrap_or((b.value, b.value));
            [b.value, low, high]
        })
    }

    /// The bars of one group within (left, width).
    fn write_group(&self, canvas: &mut Canvas, group: &BarGroup, place: (f64, f64), y: &Axis) {
        // Where everything is a whole number, it is a number of things.
        let whole = self.values().all(|v| v.fract() == 0.0);
        let count = self.series.len().max(1) as f64;
        let width = (place.1 * 0.72 / count).min(56.0);
        let left = place.0 + (place.1 - width * count) / 2.0;
        for (i, (bar, (name, ink))) in group.bars.iter().zip(&self.series).enumerate() {
            let Some(bar) = bar else { continue };
            let (x, top) = (left + width * i as f64, y.place(bar.value));
            let value = if whole {
                format!("{:.0}", bar.value)
            } else {
                short(bar.value)
            };
            let tip = format!("{}, {name}: {value} {}", group.name, self.unit);
            let foot = y.origin();
            canvas.bar(
                *ink,
                (x + 1.0, top),
                (width - 2.0, (foot - top).max(0.0)),
                &tip,
            );
            let mut above = top;
            if let Some((low, high)) = bar.range {
                let (low, high) = (y.place(low), y.place(high));
                let middle = x + width / 2.0;
                canvas.line("whisker", (middle, low), (middle, high));
                for end in [low, high] {
                    canvas.line("whisker", (middle - 4.0, end), (middle + 4.0, end));
                }
                above = above.min(high);
            }
            let at = (x + width / 2.0, above - 5.0);
            // On narrow bars, values are drawn narrow, too.
            let class = if text_width(&value) > width {
                "halo small"
            } else {
                "halo"
            };
            canvas.text(class, at, Anchor::Middle, &value);
        }
    }
}

fn entry((name, ink): &(String, Ink)) -> Entry<'_> {
    Entry {
        name,
        ink: *ink,
        shape: Shape::Fill,
    }
}
