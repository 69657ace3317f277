//! Lines over time.

use std::fmt::Write;

use super::axis::{Axis, ends, usable};
use super::canvas::Canvas;
use super::frame::{Entry, Frame, Shape};
use super::{Ink, Scale, either};
use crate::html::escape;
use crate::number::figure;

/// Several lines over a common horizontal axis.
#[derive(Debug, Clone, Default)]
pub struct LineChart {
    /// Heading.
    pub title: String,
    /// A description for screen readers.
    pub description: String,
    /// Name of the horizontal axis, with its unit.
    pub x_name: String,
    /// Unit of the vertical axis.
    pub y_unit: String,
    /// Scale of the vertical axis.
    pub scale: Scale,
    /// Values that the vertical axis must include beside those shown, so that several plots can have the same axis.
    pub reach: Vec<f64>,
    /// The ends of the horizontal axis, if they differ from those of the data.
    pub x_range: Option<(f64, f64)>,
    /// Width and height.
    pub size: (f64, f64),
    /// Areas, drawn below the lines.
    pub bands: Vec<Band>,
    /// Lines; those with a larger [`Line::dash`] above the others, later ones above earlier ones.
    pub lines: Vec<Line>,
    /// Reference lines.
    pub marks: Vec<Mark>,
}

/// One line.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its colour.
    pub ink: Ink,
    /// Drawn thin, in the background.
    pub quiet: bool,
    /// Its pattern: 0 is solid; a pattern on top of a solid line does not hide it.
    pub dash: usize,
    /// Points (x, y), in the order of x. The line is interrupted where y is not finite.
    pub points: Vec<(f64, f64)>,
}

/// The area between two values, such as the minimum and the maximum of several clients.
#[derive(Debug, Clone)]
pub struct Band {
    /// Its name in the legend.
    pub name: String,
    /// Its colour.
    pub ink: Ink,
    /// Points (x, low, high), in the order of x.
    pub points: Vec<(f64, f64, f64)>,
}

/// A horizontal reference line, such as a promise.
#[derive(Debug, Clone)]
pub struct Mark {
    /// Its name in the legend.
    pub name: String,
    /// Its value.
    pub value: f64,
}

impl LineChart {
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

    /// The plot as SVG. On a page with [`crate::html::Page`]'s script it shows its values under the pointer.
    pub fn svg(&self) -> String {
        let mut canvas = Canvas::new(self.size.0, self.size.1, &self.title, &self.description);
        let unit = match self.scale {
            Scale::Linear => self.y_unit.clone(),
            Scale::Log => format!("{}, log scale", self.y_unit),
        };
        let frame = Frame::new(&mut canvas, self.size, (&self.title, &unit), &self.legend());
        let y = Axis::around(self.scale, self.values(), frame.bottom, frame.top);
        let x = self.x_axis(frame);
        frame.vertical(&mut canvas, &y);
        frame.horizontal(&mut canvas, &x, &self.x_name);
        for band in &self.bands {
            write_band(&mut canvas, band, &x, &y);
        }
        // Later lines are drawn on top of earlier ones, which are visible through the gaps.
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        lines.sort_by_key(|line| line.dash);
        for line in lines {
            self.write_line(&mut canvas, line, &x, &y);
        }
        for mark in &self.marks {
            let at = y.place(mark.value);
            canvas.line("mark", (frame.left, at), (frame.right, at));
        }
        canvas.put(format_args!(
            "<path class=\"cursor\" data-name=\"{}\" d=\"M0 {:.1}V{:.1}\"/>\n",
            escape(&self.x_name),
            frame.top,
            frame.bottom
        ));
        canvas.finish()
    }

    fn legend(&self) -> Vec<Entry<'_>> {
        let lines = self.lines.iter().map(|l| Entry {
            name: &l.name,
            ink: l.ink,
            shape: Shape::Line(class(l)),
        });
        let bands = self.bands.iter().map(|b| Entry {
            name: &b.name,
            ink: b.ink,
            shape: Shape::Band,
        });
        let marks = self.marks.iter().map(|m| Entry {
            name: &m.name,
            ink: Ink::QUIET,
            shape: Shape::Mark,
        });
        lines.chain(bands).chain(marks).collect()
    }

    /// Every value the vertical axis must show.
    fn values(&self) -> impl Iterator<Item = f64> + '_ {
        let lines = self.lines.iter().flat_map(|l| &l.points).map(|p| p.1);
        let bands = self.bands.iter().flat_map(|b| &b.points);
        let bands = bands.flat_map(|p| [p.1, p.2]);
        let marks = self.marks.iter().map(|m| m.value);
        lines
            .chain(bands)
            .chain(marks)
            .chain(self.reach.iter().copied())
    }

    fn x_axis(&self, frame: Frame) -> Axis {
        if let Some((low, high)) = self.x_range {
            return Axis::exact(low, high, frame.left, frame.right);
        }
        let lines = self.lines.iter().flat_map(|l| &l.points).map(|p| p.0);
        let bands = self.bands.iter().flat_map(|b| &b.points).map(|p| p.0);
        let (low, high) = ends(lines.chain(bands).filter(|x| usable(*x))).unwrap_or((0.0, 1.0));
        Axis::exact(low, high, frame.left, frame.right)
    }

    /// The line, with its points as attributes for the page's script.
    fn write_line(&self, canvas: &mut Canvas, line: &Line, x: &Axis, y: &Axis) {
        let (mut path, mut tips) = (String::new(), String::new());
        let mut pen = 'M';
        for (px, py) in &line.points {
            if !py.is_finite() {
                pen = 'M';
                continue;
            }
            let (at, tip) = (
                x.place(*px),
                format_args!("{}:{}", figure(*px), figure(*py)),
            );
            write!(path, "{pen}{at:.1} {:.1}", y.place(*py)).expect("memory takes every byte");
            write!(tips, "{at:.1}:{tip};").expect("memory takes every byte");
            pen = 'L';
        }
        canvas.put(format_args!(
            "<path class=\"line {} {}\" data-name=\"{}\" data-unit=\"{}\" data-tips=\"{}\" d=\"{path}\"/>\n",
            class(line),
            line.ink.class(),
            escape(&line.name),
            escape(&self.y_unit),
            tips.trim_end_matches(';')
        ));
    }
}

/// How many line patterns there are.
pub(crate) const DASHES: usize = 7;

fn class(line: &Line) -> &'static str {
    const STRONG: [&str; DASHES] = ["", "dash1", "dash2", "dash3", "dash4", "dash5", "dash6"];
    const THIN: [&str; DASHES] = [
        "thin",
        "thin dash1",
        "thin dash2",
        "thin dash3",
        "thin dash4",
        "thin dash5",
        "thin dash6",
    ];
    let all = if line.quiet { THIN } else { STRONG };
    all[line.dash % DASHES]
}

/// The area: along the upper values and back along the lower ones.
fn write_band(canvas: &mut Canvas, band: &Band, x: &Axis, y: &Axis) {
    let upper = band.points.iter().map(|p| (p.0, p.2));
    let lower = band.points.iter().rev().map(|p| (p.0, p.1));
    let mut path = String::new();
    for (i, (px, py)) in upper.chain(lower).enumerate() {
        let pen = if i == 0 { 'M' } else { 'L' };
        write!(path, "{pen}{:.1} {:.1}", x.place(px), y.place(py))
            .expect("memory takes every byte");
    }
    let ink = band.ink.class();
    canvas.put(format_args!("<path class=\"band {ink}\" d=\"{path}Z\"/>\n"));
}
