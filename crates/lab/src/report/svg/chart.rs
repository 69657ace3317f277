//! Plots: marks over a common axis of values.

use std::fmt::Write;

use super::axis::{Axis, ends, usable};
use super::canvas::{Canvas, SvgPath};
use super::frame::{self, PlotFrame};
use super::{DASHES, Ink, Scale, rows};
use crate::report::html::escape;
use weir_measure::number::{duration, figure, tick, time_tick};

/// A plot: data, and the marks that show them.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    /// The heading of the plot.
    pub title: String,
    /// A description for screen readers.
    pub description: String,
    /// The unit of the values. Values in `us` are written with the unit that fits: `410 us`, `4.40
    /// ms`, `1.20 s`.
    pub unit: String,
    /// The scale of the values. A log scale has no zero at which a bar could start, so
    /// [`MarkShape::Bars`] are dots on it.
    pub scale: Scale,
    /// Values that the axis must include in addition to those shown, so that several plots can have
    /// the same axis.
    pub reach: Vec<f64>,
    /// The other axis of the plot.
    pub along: Along,
    /// The width and height, if they differ from those of the plots in a row of the page. Rows
    /// determine the height of their plot.
    pub size: Option<(f64, f64)>,
    /// The marks that show the values. Lines are on top of areas, lines with a larger dash on top
    /// of others, and later ones on top of earlier ones.
    pub marks: Vec<ChartMark>,
}

/// The axis along which values are shown.
#[derive(Debug, Clone)]
pub enum Along {
    /// A quantity, from left to right: its name with its unit, and the ends of its axis, if they
    /// differ from those of the data.
    Quantity(String, Option<(f64, f64)>),
    /// Groups, from top to bottom: the name of each, and the text at the end of its parts (if
    /// empty, the sum of the parts). A group has a row for each mark with [`MarkShape::Bars`] or
    /// [`MarkShape::Runs`], and one for all marks with [`MarkShape::Parts`].
    Rows(Vec<(String, String)>),
}

/// Values that belong together.
#[derive(Debug, Clone)]
pub struct ChartMark {
    /// The name of the values in the legend.
    pub name: String,
    /// The colour of the values.
    pub ink: Ink,
    /// The values, with the form in which they are drawn.
    pub shape: MarkShape,
}

/// The form in which values are drawn.
#[derive(Debug, Clone)]
pub enum MarkShape {
    /// A line over a quantity.
    Line {
        /// The points (x, y), in the order of x. The line is interrupted where y is not finite.
        points: Vec<(f64, f64)>,
        /// True if the line is drawn thin, in the background.
        quiet: bool,
        /// The pattern, where 0 is solid. A pattern on top of a solid line does not hide it.
        dash: usize,
    },
    /// The area between two values over a quantity, such as the minimum and the maximum of several
    /// clients. It has points (x, low, high), in the order of x.
    Band(Vec<(f64, f64, f64)>),
    /// A line across the plot, such as a promise.
    Rule {
        /// The position on the axis of values.
        value: f64,
        /// True if the line is dashed, in the colour of text.
        dashed: bool,
    },
    /// Dots (x, y) over a quantity.
    Dots(Vec<(f64, f64)>),
    /// A bar in each group, or a dot on a log scale. `None` without a value.
    Bars(Vec<Option<Bar>>),
    /// The values of single runs in each group: a tick for each, and a dot at their median.
    Runs(Vec<Vec<f64>>),
    /// A part of each group's bar, after the parts of previous marks. A value that is negative or
    /// infinite counts as 0.
    Parts(Vec<f64>),
}

/// A bar with an optional error bar.
#[derive(Debug, Clone, Copy)]
pub struct Bar {
    /// The length of the bar.
    pub value: f64,
    /// The ends of its error bar.
    pub range: Option<(f64, f64)>,
}

/// The width of a column of a page with two columns. A wider plot spans the page.
const COLUMN: f64 = 520.0;

/// The width and minimum height of a plot on a phone.
const NARROW: (f64, f64) = (330.0, 300.0);

impl Chart {
    /// Returns the plot as HTML for pages, in two sizes: its own (or `size` if it has none), and
    /// that of a phone, on which the text of the other would be too small. The page shows the one
    /// that fits.
    pub(crate) fn html(&self, size: (f64, f64)) -> String {
        let size = self.size.unwrap_or(size);
        // A plot on a phone is narrower and higher.
        let narrow = (NARROW.0.min(size.0), NARROW.1.max(size.1));
        let class = if size.0 > COLUMN {
            " class=\"whole\""
        } else {
            ""
        };
        format!(
            "<div{class}>\n{}{}</div>\n",
            self.svg(size),
            self.svg(narrow)
        )
    }

    /// Returns the plot as SVG of this width and height. On a page with the script of
    /// [`crate::report::html::HtmlPage`], lines show their values under the pointer.
    pub fn svg(&self, size: (f64, f64)) -> String {
        // Rows of bars have their names in front of them, so that they need no legend.
        let is_named = |m: &&ChartMark| !matches!(m.shape, MarkShape::Bars(_) | MarkShape::Runs(_));
        let legend: Vec<&ChartMark> = self.marks.iter().filter(is_named).collect();
        let size = match &self.along {
            Along::Quantity(..) => size,
            Along::Rows(groups) => (
                size.0,
                frame::top(size.0, &legend) + rows::height(self, groups),
            ),
        };
        let mut canvas = Canvas::new(size.0, size.1, &self.title, &self.description);
        let unit = if self.is_time() { "" } else { &self.unit };
        let scale = match self.scale {
            Scale::Linear => "",
            Scale::Log => "log scale",
        };
        let unit = [unit, scale].into_iter().filter(|text| !text.is_empty());
        let unit = unit.collect::<Vec<_>>().join(", ");
        let frame = PlotFrame::new(&mut canvas, size, (&self.title, &unit), &legend);
        match &self.along {
            Along::Quantity(name, ends) => self.write_over(&mut canvas, frame, name, *ends),
            Along::Rows(groups) => rows::write(self, &mut canvas, frame, groups),
        }
        canvas.finish()
    }

    /// Returns true if values are microseconds, which are written with the unit that fits each.
    pub(super) fn is_time(&self) -> bool {
        self.unit == "us"
    }

    /// Returns the ticks of an axis of values, as (position, label).
    pub(super) fn ticks(&self, axis: &Axis) -> Vec<(f64, String)> {
        axis.ticks(if self.is_time() {
            |us, _| time_tick(us)
        } else {
            tick
        })
    }

    /// Returns every value that the axis must show.
    pub(crate) fn values(&self) -> Vec<f64> {
        let groups = self.marks.iter().map(|m| match &m.shape {
            MarkShape::Parts(values) => values.len(),
            _ => 0,
        });
        let sums = (0..groups.max().unwrap_or(0)).map(|at| self.sum(at));
        let mut values: Vec<f64> = self.reach.iter().copied().chain(sums).collect();
        for mark in &self.marks {
            match &mark.shape {
                MarkShape::Line { points, .. } => values.extend(points.iter().map(|p| p.1)),
                MarkShape::Band(points) => values.extend(points.iter().flat_map(|p| [p.1, p.2])),
                MarkShape::Rule { value, .. } => values.push(*value),
                MarkShape::Dots(dots) => values.extend(dots.iter().map(|dot| dot.1)),
                MarkShape::Bars(bars) => values.extend(bars.iter().flatten().flat_map(Bar::values)),
                MarkShape::Runs(groups) => values.extend(groups.iter().flatten()),
                MarkShape::Parts(_) => {}
            }
        }
        values
    }

    /// Returns the parts of a group or row that have a length: the mark, and the beginning and end
    /// of the part.
    pub(super) fn parts(&self, at: usize) -> impl Iterator<Item = (&ChartMark, f64, f64)> {
        let mut sum = 0.0;
        self.marks.iter().filter_map(move |mark| {
            let MarkShape::Parts(values) = &mark.shape else {
                return None;
            };
            // Parts without a length are left out of bars and sums.
            let value = values.get(at).filter(|v| v.is_finite() && **v > 0.0)?;
            let from = sum;
            sum += value;
            Some((mark, from, sum))
        })
    }

    /// Returns the sum of the parts of a group or row.
    pub(super) fn sum(&self, at: usize) -> f64 {
        self.parts(at).last().map_or(0.0, |(.., to)| to)
    }

    /// Writes bands, lines and rules over a quantity.
    fn write_over(
        &self,
        canvas: &mut Canvas,
        frame: PlotFrame,
        name: &str,
        at: Option<(f64, f64)>,
    ) {
        let values = self.values().into_iter();
        let y = Axis::around(self.scale, values, frame.bottom, frame.top);
        let places = self.marks.iter().flat_map(|mark| match &mark.shape {
            MarkShape::Line { points, .. } => points.iter().map(|p| p.0).collect(),
            MarkShape::Band(points) => points.iter().map(|p| p.0).collect(),
            MarkShape::Dots(dots) => dots.iter().map(|p| p.0).collect(),
            _ => Vec::new(),
        });
        let at = at.or_else(|| ends(places.filter(|x| usable(*x))));
        let (low, high) = at.unwrap_or((0.0, 1.0));
        let x = Axis::exact(low, high, frame.left, frame.right);
        frame.vertical(canvas, self.ticks(&y));
        frame.horizontal(canvas, x.ticks(tick), name);
        // Later lines are drawn on top of earlier ones, which are visible through the gaps of their
        // patterns.
        let mut marks: Vec<&ChartMark> = self.marks.iter().collect();
        // Areas first, then lines by their pattern, and rules on top.
        marks.sort_by_key(|mark| match mark.shape {
            MarkShape::Line { dash, .. } => 1 + dash,
            MarkShape::Rule { .. } | MarkShape::Dots(_) => usize::MAX,
            _ => 0,
        });
        for mark in marks {
            match &mark.shape {
                MarkShape::Line { points, .. } => self.write_line(canvas, mark, points, (&x, &y)),
                MarkShape::Band(points) => write_band(canvas, mark.ink, points, (&x, &y)),
                MarkShape::Rule { value, .. } => {
                    let at = y.place(*value);
                    let class = mark.line_class().unwrap_or_default();
                    canvas.line(&class, (frame.left, at), (frame.right, at));
                }
                MarkShape::Dots(dots) => {
                    for dot in dots {
                        let said = format!("{} at {}", figure(dot.1), figure(dot.0));
                        let tip = self.tip("", mark, &said);
                        canvas.dot(mark.ink, (x.place(dot.0), y.place(dot.1)), DOT, &tip);
                    }
                }
                MarkShape::Bars(_) | MarkShape::Runs(_) | MarkShape::Parts(_) => {}
            }
        }
        // The page's script finds the quantity at a position from the ends of the axis.
        canvas.put(format_args!(
            "<path class=\"cursor\" data-name=\"{}\" data-ends=\"{:.1} {low} {:.1} {high}\" d=\"M0 {:.1}V{:.1}\"/>\n",
            escape(name),
            x.place(low),
            x.place(high),
            frame.top,
            frame.bottom
        ));
    }

    /// Writes a line, with the values at its points as an attribute for the page's script. The
    /// script takes their positions from the path.
    fn write_line(
        &self,
        canvas: &mut Canvas,
        mark: &ChartMark,
        points: &[(f64, f64)],
        (x, y): (&Axis, &Axis),
    ) {
        let most = (x.length() / POINT_WIDTH) as usize;
        let mut path = SvgPath::default();
        let mut tips = String::new();
        for (px, py) in thinned(points, most) {
            if !py.is_finite() {
                path.lift();
                continue;
            }
            path.to(x.place(px), y.place(py));
            let said = if self.is_time() { duration } else { figure };
            let _ = write!(tips, "{};", said(py));
        }
        let unit = if self.is_time() { "" } else { &self.unit };
        canvas.put(format_args!(
            "<path class=\"{}\" data-name=\"{}\" data-unit=\"{}\" data-tips=\"{}\" d=\"{path}\"/>\n",
            mark.line_class().unwrap_or_default(),
            escape(&mark.name),
            escape(unit),
            tips.trim_end_matches(';')
        ));
    }

    /// Returns the tooltip of a bar or a part.
    pub(super) fn tip(&self, group: &str, mark: &ChartMark, value: &str) -> String {
        let of = match group {
            "" => mark.name.clone(),
            group => format!("{group}, {}", mark.name),
        };
        let unit = if self.is_time() { "" } else { &self.unit };
        format!("{of}: {value} {unit}").trim_end().to_owned()
    }
}

impl ChartMark {
    /// Returns the classes of a mark that is a line.
    pub(super) fn line_class(&self) -> Option<String> {
        let ink = self.ink.class();
        match self.shape {
            MarkShape::Line { quiet, dash, .. } => {
                let thin = if quiet { "thin " } else { "" };
                Some(format!("line {thin}dash{} {ink}", dash % DASHES))
            }
            MarkShape::Rule { dashed: true, .. } => Some("mark".into()),
            MarkShape::Rule { .. } => Some(format!("line thin {ink}")),
            _ => None,
        }
    }
}

impl Bar {
    /// Creates a bar without an error bar.
    pub fn new(value: f64) -> Self {
        Self { value, range: None }
    }

    pub(super) fn values(&self) -> [f64; 3] {
        let (low, high) = self.range.unwrap_or((self.value, self.value));
        [self.value, low, high]
    }
}

impl Default for Along {
    fn default() -> Self {
        Self::Quantity(String::new(), None)
    }
}

/// Reduces more than `most` points to the highest and the lowest of each stretch, in their order,
/// because a plot has no space for more. Points between others of the same value are left out.
fn thinned(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    let most = most.max(2);
    let kept: Vec<(f64, f64)> = if points.len() > most {
        let stretches = points.chunks(points.len().div_ceil(most / 2));
        stretches.flat_map(ends_of).collect()
    } else {
        points.to_vec()
    };
    let is_between = |at: usize| {
        // Without a predecessor the index wraps, and `get` returns nothing.
        let around = kept.get(at.wrapping_sub(1)).zip(kept.get(at + 1));
        around.is_some_and(|(a, b)| [a, b].iter().all(|p| p.1.to_bits() == kept[at].1.to_bits()))
    };
    (0..kept.len())
        .filter(|at| !is_between(*at))
        .map(|at| kept[at])
        .collect()
}

/// Returns the lowest and the highest point of a stretch, and a gap if there is one in it, in their
/// order.
fn ends_of(stretch: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let known = (0..stretch.len()).filter(|at| stretch[*at].1.is_finite());
    let by_value = |a: &usize, b: &usize| stretch[*a].1.total_cmp(&stretch[*b].1);
    let ends = [known.clone().min_by(by_value), known.max_by(by_value)];
    let gap = stretch.iter().position(|p| !p.1.is_finite());
    let mut places: Vec<usize> = ends.into_iter().flatten().chain(gap).collect();
    places.sort_unstable();
    places.dedup();
    places.into_iter().map(|at| stretch[at]).collect()
}

/// Writes an area, along the upper values and back along the lower ones.
fn write_band(canvas: &mut Canvas, ink: Ink, points: &[(f64, f64, f64)], (x, y): (&Axis, &Axis)) {
    let most = (x.length() / POINT_WIDTH) as usize;
    let edge = |of: fn(&(f64, f64, f64)) -> f64| {
        let points: Vec<(f64, f64)> = points.iter().map(|p| (p.0, of(p))).collect();
        thinned(&points, most)
    };
    let (upper, lower) = (edge(|p| p.2), edge(|p| p.1));
    let mut path = SvgPath::default();
    for (px, py) in upper.into_iter().chain(lower.into_iter().rev()) {
        path.to(x.place(px), y.place(py));
    }
    let ink = ink.class();
    canvas.put(format_args!("<path class=\"band {ink}\" d=\"{path}Z\"/>\n"));
}

/// The radius of a dot over a quantity, in pixels.
const DOT: f64 = 6.0;

/// The minimum width of a point of a line, in pixels.
const POINT_WIDTH: f64 = 2.2;
