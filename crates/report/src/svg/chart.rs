//! A plot: marks over a common axis of values.

use std::fmt::Write;

use super::axis::{Axis, ends, usable};
use super::canvas::{Anchor, Canvas};
use super::frame::{Frame, text_width};
use super::{DASHES, Ink, Scale};
use crate::html::escape;
use crate::number::{figure, short};

/// A plot: data, and the marks that show them.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    /// Heading.
    pub title: String,
    /// A description for screen readers.
    pub description: String,
    /// Unit of the values.
    pub unit: String,
    /// Scale of the values. On a log scale bars start at its lower end.
    pub scale: Scale,
    /// Values that the axis must include beside those shown, so that several plots can have the same axis.
    pub reach: Vec<f64>,
    /// What the values are of.
    pub along: Along,
    /// Width and height, if they are not those of the plots in a row of the page.
    pub size: Option<(f64, f64)>,
    /// What shows the values. Lines lie above areas, those with a larger dash above the others, later ones above earlier ones.
    pub marks: Vec<Mark>,
}

/// What values are of.
#[derive(Debug, Clone)]
pub enum Along {
    /// A quantity, from left to right: its name with its unit, and the ends of its axis, if they differ from those of the data.
    Quantity(String, Option<(f64, f64)>),
    /// Groups from left to right: the name of each, below it.
    Groups(Vec<String>),
    /// Rows from top to bottom: the name of each, and what stands at its end. They show [`Shape::Parts`] only.
    Rows(Vec<(String, String)>),
}

/// Values that belong together.
#[derive(Debug, Clone)]
pub struct Mark {
    /// Their name in the legend.
    pub name: String,
    /// Their colour.
    pub ink: Ink,
    /// The values, and how they are drawn.
    pub shape: Shape,
}

/// How values are drawn.
#[derive(Debug, Clone)]
pub enum Shape {
    /// A line over a quantity.
    Line {
        /// Points (x, y), in the order of x. The line is interrupted where y is not finite.
        points: Vec<(f64, f64)>,
        /// Drawn thin, in the background.
        quiet: bool,
        /// Its pattern: 0 is solid; a pattern on top of a solid line does not hide it.
        dash: usize,
    },
    /// The area between two values over a quantity, such as the minimum and the maximum of several clients: points (x, low, high),
    /// in the order of x.
    Band(Vec<(f64, f64, f64)>),
    /// A line across the plot, such as a promise.
    Rule {
        /// Its place on the axis of values.
        value: f64,
        /// Dashed, in the colour of text.
        dashed: bool,
    },
    /// A bar in each group, beside those of other marks; `None` without a value.
    Bars(Vec<Option<Bar>>),
    /// A part of each group's or row's bar, on top of those before; a value that is negative or infinite counts as 0.
    Parts(Vec<f64>),
}

/// One bar.
#[derive(Debug, Clone, Copy)]
pub struct Bar {
    /// Its height.
    pub value: f64,
    /// Ends of its error bar.
    pub range: Option<(f64, f64)>,
}

/// Width and minimum height of a plot on a phone.
const NARROW: (f64, f64) = (330.0, 300.0);

impl Chart {
    /// The plot as HTML, for pages: in its own size, or `size` where it has none, and in that of a phone, on which the text of the
    /// other would be too small. The page shows the one that fits.
    pub(crate) fn html(&self, size: (f64, f64)) -> String {
        let size = self.size.unwrap_or(size);
        let narrow = (NARROW.0.min(size.0), NARROW.1.max(size.1));
        format!("<div>\n{}{}</div>\n", self.svg(size), self.svg(narrow))
    }

    /// The plot as SVG of this width and height. On a page with [`crate::html::Page`]'s script lines show their values under the pointer.
    pub fn svg(&self, size: (f64, f64)) -> String {
        let mut canvas = Canvas::new(size.0, size.1, &self.title, &self.description);
        let unit = match self.scale {
            Scale::Linear => self.unit.clone(),
            Scale::Log => format!("{}, log scale", self.unit),
        };
        // Bars of one kind have the name of their plot.
        let legend = match &self.marks[..] {
            [one] if matches!(one.shape, Shape::Bars(_)) => &[],
            all => all,
        };
        let frame = Frame::new(&mut canvas, size, (&self.title, &unit), legend);
        match &self.along {
            Along::Quantity(name, ends) => self.write_over(&mut canvas, frame, name, *ends),
            Along::Groups(names) => self.write_groups(&mut canvas, frame, names),
            Along::Rows(rows) => self.write_rows(&mut canvas, frame, rows, size.0),
        }
        canvas.finish()
    }

    /// Every value that the axis must show.
    fn values(&self) -> Vec<f64> {
        let groups = self.marks.iter().map(|m| match &m.shape {
            Shape::Parts(values) => values.len(),
            _ => 0,
        });
        let sums = (0..groups.max().unwrap_or(0)).map(|at| self.sum(at));
        let mut values: Vec<f64> = self.reach.iter().copied().chain(sums).collect();
        for mark in &self.marks {
            match &mark.shape {
                Shape::Line { points, .. } => values.extend(points.iter().map(|p| p.1)),
                Shape::Band(points) => values.extend(points.iter().flat_map(|p| [p.1, p.2])),
                Shape::Rule { value, .. } => values.push(*value),
                Shape::Bars(bars) => values.extend(bars.iter().flatten().flat_map(Bar::values)),
                Shape::Parts(_) => {}
            }
        }
        values
    }

    /// The parts of a group or row that have a length: the mark, and where the part begins and ends.
    fn parts(&self, at: usize) -> impl Iterator<Item = (&Mark, f64, f64)> {
        let mut sum = 0.0;
        self.marks.iter().filter_map(move |mark| {
            let Shape::Parts(values) = &mark.shape else {
                return None;
            };
            let value = values.get(at).filter(|v| v.is_finite() && **v > 0.0)?;
            let from = sum;
            sum += value;
            Some((mark, from, sum))
        })
    }

    /// What the parts of a group or row come to.
    fn sum(&self, at: usize) -> f64 {
        self.parts(at).last().map_or(0.0, |(.., to)| to)
    }

    /// Bands, lines and rules over a quantity.
    fn write_over(&self, canvas: &mut Canvas, frame: Frame, name: &str, at: Option<(f64, f64)>) {
        let values = self.values().into_iter();
        let y = Axis::around(self.scale, values, frame.bottom, frame.top);
        let places = self.marks.iter().flat_map(|mark| match &mark.shape {
            Shape::Line { points, .. } => points.iter().map(|p| p.0).collect(),
            Shape::Band(points) => points.iter().map(|p| p.0).collect(),
            _ => Vec::new(),
        });
        let at = at.or_else(|| ends(places.filter(|x| usable(*x))));
        let (low, high) = at.unwrap_or((0.0, 1.0));
        let x = Axis::exact(low, high, frame.left, frame.right);
        frame.vertical(canvas, &y);
        frame.horizontal(canvas, &x, name);
        // Later lines are drawn on top of earlier ones, which are visible through the gaps.
        let mut marks: Vec<&Mark> = self.marks.iter().collect();
        marks.sort_by_key(|mark| match mark.shape {
            Shape::Line { dash, .. } => 1 + dash,
            Shape::Rule { .. } => usize::MAX,
            _ => 0,
        });
        for mark in marks {
            match &mark.shape {
                Shape::Line { points, .. } => self.write_line(canvas, mark, points, (&x, &y)),
                Shape::Band(points) => write_band(canvas, mark.ink, points, (&x, &y)),
                _ => write_rule(canvas, mark, frame, &y),
            }
        }
        canvas.put(format_args!(
            "<path class=\"cursor\" data-name=\"{}\" d=\"M0 {:.1}V{:.1}\"/>\n",
            escape(name),
            frame.top,
            frame.bottom
        ));
    }

    /// The line, with its points as attributes for the page's script.
    fn write_line(
        &self,
        canvas: &mut Canvas,
        mark: &Mark,
        points: &[(f64, f64)],
        (x, y): (&Axis, &Axis),
    ) {
        let (mut path, mut tips) = (String::new(), String::new());
        let mut pen = 'M';
        for (px, py) in points {
            if !py.is_finite() {
                pen = 'M';
                continue;
            }
            let at = x.place(*px);
            let _ = write!(path, "{pen}{at:.1} {:.1}", y.place(*py));
            let _ = write!(tips, "{at:.1}:{}:{};", figure(*px), figure(*py));
            pen = 'L';
        }
        canvas.put(format_args!(
            "<path class=\"{}\" data-name=\"{}\" data-unit=\"{}\" data-tips=\"{}\" d=\"{path}\"/>\n",
            mark.line_class().unwrap_or_default(),
            escape(&mark.name),
            escape(&self.unit),
            tips.trim_end_matches(';')
        ));
    }

    /// Bars side by side and stacked parts, in groups from left to right, and rules across them.
    fn write_groups(&self, canvas: &mut Canvas, mut frame: Frame, names: &[String]) {
        // The axis of groups has no name, but values are above the bars. Names that are too long for one row take turns in two.
        let width = (frame.right - frame.left) / names.len().max(1) as f64;
        let longest = names.iter().map(|name| text_width(name));
        let staggered = longest.fold(0.0, f64::max) > width;
        frame.top += 8.0;
        frame.bottom += if staggered { 0.0 } else { 14.0 };
        let mut values = self.values();
        // Where everything is a whole number, it is a number of things.
        let whole = self.marks.iter().all(|mark| match &mark.shape {
            Shape::Bars(bars) => {
                (bars.iter().flatten().flat_map(Bar::values)).all(|v| v.fract() == 0.0)
            }
            Shape::Parts(values) => values.iter().all(|v| v.fract() == 0.0),
            _ => true,
        });
        // On a log scale the smallest bar must not end at the start of the axis.
        let least = values.iter().copied().filter(|v| *v > 0.0);
        let least = least.reduce(f64::min);
        values.extend(least.filter(|_| self.scale == Scale::Log).map(|v| v * 0.7));
        let y = Axis::around(self.scale, values.into_iter(), frame.bottom, frame.top);
        frame.vertical(canvas, &y);
        let mut tops = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let left = frame.left + width * at as f64;
            let group = Group {
                chart: self,
                at,
                name,
                whole,
            };
            tops.extend(group.write(canvas, (left, width), &y));
            let row = if staggered && at % 2 == 1 { 34.0 } else { 18.0 };
            let below = (left + width / 2.0, frame.bottom + row);
            canvas.text("", below, Anchor::Middle, name);
        }
        for mark in &self.marks {
            if matches!(mark.shape, Shape::Rule { .. }) {
                write_rule(canvas, mark, frame, &y);
            }
        }
        // What is above the bars is above the rules, too.
        for (place, class, value) in tops {
            canvas.text(class, place, Anchor::Middle, &value);
        }
        let foot = frame.bottom;
        canvas.line("axis", (frame.left, foot), (frame.right, foot));
    }

    /// Stacked parts, in rows from top to bottom.
    fn write_rows(
        &self,
        canvas: &mut Canvas,
        mut frame: Frame,
        rows: &[(String, String)],
        width: f64,
    ) {
        let widest = |texts: &mut dyn Iterator<Item = &String>| {
            texts.map(|t| text_width(t)).fold(0.0, f64::max)
        };
        // Long names must leave at least a third of the width for the bars.
        let third = width / 3.0;
        frame.left = (widest(&mut rows.iter().map(|r| &r.0)) + 16.0).min(third);
        frame.right -= (widest(&mut rows.iter().map(|r| &r.1)) + 8.0).min(third);
        // The axis has no name.
        frame.bottom += 12.0;
        let height = (frame.bottom - frame.top) / rows.len().max(1) as f64;
        let thick = (height * 0.7).min(40.0);
        let values = self.values().into_iter();
        let x = Axis::around(self.scale, values, frame.left, frame.right);
        for (at, label) in x.ticks() {
            canvas.line("rule", (at, frame.top), (at, frame.bottom));
            canvas.text("soft", (at, frame.bottom + 17.0), Anchor::Middle, &label);
        }
        for (at, (name, end)) in rows.iter().enumerate() {
            let middle = frame.top + height * (at as f64 + 0.5);
            canvas.text("", (frame.left - 10.0, middle + 4.0), Anchor::End, name);
            for (mark, from, to) in self.parts(at) {
                let tip = self.tip(name, mark, &short(to - from));
                let (from, to) = (x.place(from), x.place(to));
                let corner = (from, middle - thick / 2.0);
                canvas.bar(mark.ink, corner, (to - from, thick), &tip);
            }
            let place = (x.place(self.sum(at)) + 8.0, middle + 4.0);
            canvas.text("halo head", place, Anchor::Start, end);
        }
        canvas.line("axis", (frame.left, frame.top), (frame.left, frame.bottom));
    }

    fn tip(&self, group: &str, mark: &Mark, value: &str) -> String {
        format!("{group}, {}: {value} {}", mark.name, self.unit)
    }
}

impl Mark {
    /// The classes of a mark that is a line.
    pub(super) fn line_class(&self) -> Option<String> {
        let ink = self.ink.class();
        match self.shape {
            Shape::Line { quiet, dash, .. } => {
                let thin = if quiet { "thin " } else { "" };
                Some(format!("line {thin}dash{} {ink}", dash % DASHES))
            }
            Shape::Rule { dashed: true, .. } => Some("mark".into()),
            Shape::Rule { .. } => Some(format!("line thin {ink}")),
            _ => None,
        }
    }
}

impl Bar {
    /// A bar without error bar.
    pub fn new(value: f64) -> Self {
        Self { value, range: None }
    }

    fn values(&self) -> [f64; 3] {
        let (low, high) = self.range.unwrap_or((self.value, self.value));
        [self.value, low, high]
    }
}

impl Default for Along {
    fn default() -> Self {
        Self::Quantity(String::new(), None)
    }
}

/// One group of bars.
struct Group<'a> {
    chart: &'a Chart,
    at: usize,
    name: &'a str,
    /// Values are numbers of things.
    whole: bool,
}

/// What stands above a bar: the place, the class, the text.
type Top = ((f64, f64), &'static str, String);

impl Group<'_> {
    /// Writes the bars within (left, width); what stands above them is for the caller to write.
    fn write(&self, canvas: &mut Canvas, place: (f64, f64), y: &Axis) -> Vec<Top> {
        let marks = || self.chart.marks.iter();
        let beside = marks().filter(|m| matches!(m.shape, Shape::Bars(_)));
        let stacked = marks().any(|m| matches!(m.shape, Shape::Parts(_)));
        let count = beside.count() + usize::from(stacked);
        let width = (place.1 * 0.72 / count.max(1) as f64).min(56.0);
        let mut left = place.0 + (place.1 - width * count as f64) / 2.0;
        let mut tops = Vec::new();
        for mark in marks() {
            let Shape::Bars(bars) = &mark.shape else {
                continue;
            };
            if let Some(bar) = bars.get(self.at).copied().flatten() {
                self.write_bar(
                    canvas,
                    mark,
                    (left, width),
                    (y.origin(), y.place(bar.value)),
                    bar.value,
                );
                let middle = left + width / 2.0;
                let top = y
                    .place(bar.value)
                    .min(write_whisker(canvas, middle, bar.range, y));
                tops.push(self.top(bar.value, (middle, top), width));
            }
            left += width;
        }
        for (mark, from, to) in self.chart.parts(self.at) {
            self.write_bar(
                canvas,
                mark,
                (left, width),
                (y.place(from), y.place(to)),
                to - from,
            );
        }
        if stacked {
            let sum = self.chart.sum(self.at);
            tops.push(self.top(sum, (left + width / 2.0, y.place(sum)), width));
        }
        tops
    }

    fn write_bar(
        &self,
        canvas: &mut Canvas,
        mark: &Mark,
        (left, width): (f64, f64),
        (foot, top): (f64, f64),
        value: f64,
    ) {
        let tip = self.chart.tip(self.name, mark, &self.text(value));
        let size = (width - 2.0, (foot - top).max(0.0));
        canvas.bar(mark.ink, (left + 1.0, top), size, &tip);
    }

    fn top(&self, value: f64, (x, y): (f64, f64), width: f64) -> Top {
        let text = self.text(value);
        // On narrow bars, values are drawn narrow, too.
        let class = if text_width(&text) > width {
            "halo small"
        } else {
            "halo"
        };
        ((x, y - 5.0), class, text)
    }

    fn text(&self, value: f64) -> String {
        if self.whole {
            format!("{value:.0}")
        } else {
            short(value)
        }
    }
}

/// An error bar; returns its upper end.
fn write_whisker(canvas: &mut Canvas, x: f64, range: Option<(f64, f64)>, y: &Axis) -> f64 {
    let Some((low, high)) = range else {
        return f64::INFINITY;
    };
    let (low, high) = (y.place(low), y.place(high));
    canvas.line("whisker", (x, low), (x, high));
    for end in [low, high] {
        canvas.line("whisker", (x - 4.0, end), (x + 4.0, end));
    }
    high
}

fn write_rule(canvas: &mut Canvas, mark: &Mark, frame: Frame, y: &Axis) {
    if let (Shape::Rule { value, .. }, Some(class)) = (&mark.shape, mark.line_class()) {
        let at = y.place(*value);
        canvas.line(&class, (frame.left, at), (frame.right, at));
    }
}

/// The area: along the upper values and back along the lower ones.
fn write_band(canvas: &mut Canvas, ink: Ink, points: &[(f64, f64, f64)], (x, y): (&Axis, &Axis)) {
    let upper = points.iter().map(|p| (p.0, p.2));
    let lower = points.iter().rev().map(|p| (p.0, p.1));
    let mut path = String::new();
    for (i, (px, py)) in upper.chain(lower).enumerate() {
        let pen = if i == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{pen}{:.1} {:.1}", x.place(px), y.place(py));
    }
    let ink = ink.class();
    canvas.put(format_args!("<path class=\"band {ink}\" d=\"{path}Z\"/>\n"));
}
