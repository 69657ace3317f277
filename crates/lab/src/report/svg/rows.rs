//! Rows of bars, dots and stacked parts, from top to bottom, with their names in front and their
//! values at the end.

use super::axis::{Axis, Scale};
use super::canvas::{Anchor, Canvas};
use super::chart::{Bar, Chart, ChartMark, MarkShape};
use super::frame::{MARGIN, PlotFrame, fitted, spaced, text_width};
use weir_measure::number::{duration, fine};

/// A group, with its name and the text at the end of its parts.
type NamedGroup = (String, String);

/// The content of a row.
enum Content<'a> {
    /// The name of a group.
    Head,
    /// The bar of a mark.
    Bar(&'a ChartMark, Option<Bar>),
    /// The runs of a mark.
    Runs(&'a ChartMark, &'a [f64]),
    /// The stacked parts of a group.
    Parts(&'a str),
}

/// A row of a plot.
struct PlotRow<'a> {
    group: usize,
    name: &'a str,
    content: Content<'a>,
}

/// Returns the height of rows and the axis below them.
pub(super) fn height(chart: &Chart, groups: &[NamedGroup]) -> f64 {
    rows(chart, groups).len() as f64 * ROW + AXIS
}

/// Writes rows, and rules across them.
pub(super) fn write(
    chart: &Chart,
    canvas: &mut Canvas,
    mut frame: PlotFrame,
    groups: &[NamedGroup],
) {
    let rows = rows(chart, groups);
    let plot = Plot::new(chart, groups, &rows);
    let widest = |texts: &mut dyn Iterator<Item = f64>| texts.fold(0.0, f64::max);
    // Long names are shortened, so that most of the width is left for the bars.
    let width = frame.right;
    let names = widest(
        &mut rows
            .iter()
            .filter(|r| !r.is_head())
            .map(|r| text_width(r.name)),
    );
    let values = widest(&mut rows.iter().map(|row| text_width(&plot.value(row))));
    // Names get at most half of the width, and values at most 30 %.
    frame.left = (names + MARGIN + 14.0).min(width * 0.5);
    let end = width + 10.0;
    frame.right = (end - values - 10.0).max(width * 0.7);
    frame.bottom = frame.top + rows.len() as f64 * ROW;
    let axis = Axis::around(
        chart.scale,
        chart.values().into_iter(),
        frame.left,
        frame.right,
    );
    let ticks = chart.ticks(&axis);
    for (at, _) in &ticks {
        canvas.line("rule", (*at, frame.top), (*at, frame.bottom));
    }
    for (at, label) in spaced(ticks) {
        canvas.text("soft", (at, frame.bottom + 17.0), Anchor::Middle, &label);
    }
    for (at, row) in rows.iter().enumerate() {
        let middle = frame.top + ROW * (at as f64 + 0.5);
        let base = middle + 4.0;
        if row.is_head() {
            let name = fitted(row.name, width - MARGIN);
            canvas.text("halo head", (MARGIN, base), Anchor::Start, &name);
            continue;
        }
        let name = fitted(row.name, frame.left - MARGIN - 14.0);
        canvas.text("", (frame.left - 8.0, base), Anchor::End, &name);
        plot.write(canvas, &axis, row, middle);
        canvas.text("", (end, base), Anchor::End, &plot.value(row));
    }
    for mark in &chart.marks {
        if let (MarkShape::Rule { value, .. }, Some(class)) = (&mark.shape, mark.line_class()) {
            let at = axis.place(*value);
            canvas.line(&class, (at, frame.top), (at, frame.bottom));
        }
    }
    if chart.scale == Scale::Linear {
        let zero = axis.place(0.0);
        canvas.line("axis", (zero, frame.top), (zero, frame.bottom));
    }
}

/// Returns the rows of all groups. A group of several rows has a head, unless it is the only group.
fn rows<'a>(chart: &'a Chart, groups: &'a [NamedGroup]) -> Vec<PlotRow<'a>> {
    let bars = chart.marks.iter();
    let bars: Vec<&ChartMark> = bars
        .filter(|mark| matches!(mark.shape, MarkShape::Bars(_) | MarkShape::Runs(_)))
        .collect();
    let has_parts = chart
        .marks
        .iter()
        .any(|m| matches!(m.shape, MarkShape::Parts(_)));
    let mut rows = Vec::new();
    for (group, (name, end)) in groups.iter().enumerate() {
        let mut row = |name, content| {
            rows.push(PlotRow {
                group,
                name,
                content,
            });
        };
        // A single group needs no heading.
        if bars.len() > 1 && groups.len() > 1 {
            row(name, Content::Head);
        }
        for mark in &bars {
            let own = if bars.len() > 1 { &mark.name } else { name };
            let content = match &mark.shape {
                MarkShape::Runs(runs) => {
                    Content::Runs(mark, runs.get(group).map_or(&[], Vec::as_slice))
                }
                MarkShape::Bars(bars) => Content::Bar(mark, bars.get(group).copied().flatten()),
                _ => continue,
            };
            row(own, content);
        }
        if has_parts {
            row(name, Content::Parts(end));
        }
    }
    rows
}

impl PlotRow<'_> {
    fn is_head(&self) -> bool {
        matches!(self.content, Content::Head)
    }
}

/// The data from which rows are drawn.
struct Plot<'a> {
    chart: &'a Chart,
    groups: &'a [NamedGroup],
    /// True if all values are whole numbers.
    whole: bool,
}

impl<'a> Plot<'a> {
    fn new(chart: &'a Chart, groups: &'a [NamedGroup], rows: &[PlotRow<'_>]) -> Self {
        let is_whole = |row: &PlotRow<'_>| match &row.content {
            Content::Head => true,
            Content::Bar(_, bar) => bar.iter().flat_map(Bar::values).all(|v| v.fract() == 0.0),
            Content::Runs(_, runs) => runs.iter().all(|v| v.fract() == 0.0),
            Content::Parts(_) => chart.parts(row.group).all(|(_, _, to)| to.fract() == 0.0),
        };
        Self {
            chart,
            groups,
            whole: rows.iter().all(is_whole),
        }
    }

    /// Returns the text at the end of a row.
    fn value(&self, row: &PlotRow<'_>) -> String {
        match row.content {
            Content::Head => String::new(),
            Content::Bar(_, bar) => bar.map_or_else(|| "-".into(), |bar| self.text(bar.value)),
            Content::Runs(_, runs) => median(runs).map_or_else(|| "-".into(), |m| self.text(m)),
            // Without a text of its own, the row shows the sum of its parts.
            Content::Parts("") => self.text(self.chart.sum(row.group)),
            Content::Parts(text) => text.to_owned(),
        }
    }

    fn text(&self, value: f64) -> String {
        match (self.chart.is_time(), self.whole) {
            (true, _) => duration(value),
            (false, true) => format!("{value:.0}"),
            (false, false) => fine(value),
        }
    }

    /// Writes the bar, the dot or the parts of a row.
    fn write(&self, canvas: &mut Canvas, axis: &Axis, row: &PlotRow<'_>, middle: f64) {
        let chart = self.chart;
        let group = match &self.groups {
            [_] => "",
            groups => groups[row.group].0.as_str(),
        };
        let mut bar = |mark: &ChartMark, from: f64, to: f64| {
            let tip = chart.tip(group, mark, &self.text(to - from));
            let (from, to) = (axis.place(from), axis.place(to));
            let corner = (from.min(to), middle - THICK / 2.0);
            canvas.bar(mark.ink, corner, ((to - from).abs(), THICK), &tip);
        };
        match row.content {
            Content::Head | Content::Bar(_, None) => {}
            Content::Runs(mark, runs) => {
                write_ticks(
                    canvas,
                    mark,
                    middle,
                    runs.iter().map(|run| axis.place(*run)),
                );
                if let Some(median) = median(runs) {
                    let value = chart.tip(group, mark, &self.text(median));
                    let tip = format!("{value}, the median of {} runs", runs.len());
                    canvas.dot(mark.ink, (axis.place(median), middle), 4.0, &tip);
                }
            }
            Content::Parts(_) => chart
                .parts(row.group)
                .for_each(|(m, from, to)| bar(m, from, to)),
            Content::Bar(mark, Some(of)) => {
                if chart.scale == Scale::Linear {
                    bar(mark, 0.0, of.value);
                }
                write_whisker(canvas, middle, of.range, axis);
                if chart.scale == Scale::Log {
                    let tip = chart.tip(group, mark, &self.text(of.value));
                    canvas.dot(mark.ink, (axis.place(of.value), middle), 5.0, &tip);
                }
            }
        }
    }
}

/// Returns the value in the middle, or the lower one of two.
fn median(runs: &[f64]) -> Option<f64> {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

/// Writes a tick at each position. Ticks in the same place are written once.
fn write_ticks(
    canvas: &mut Canvas,
    mark: &ChartMark,
    middle: f64,
    places: impl Iterator<Item = f64>,
) {
    let mut places: Vec<String> = places.map(|x| format!("{x:.1}")).collect();
    places.sort_unstable();
    places.dedup();
    let (top, ink) = (middle - THICK / 2.0, mark.ink.class());
    let path = places.iter().map(|x| format!("M{x} {top:.1}v{THICK:.0}"));
    let path = path.collect::<String>();
    canvas.put(format_args!("<path class=\"run {ink}\" d=\"{path}\"/>\n"));
}

/// Writes an error bar.
fn write_whisker(canvas: &mut Canvas, y: f64, range: Option<(f64, f64)>, axis: &Axis) {
    let Some((low, high)) = range else { return };
    let (low, high) = (axis.place(low), axis.place(high));
    canvas.line("whisker", (low, y), (high, y));
    for end in [low, high] {
        canvas.line("whisker", (end, y - 4.0), (end, y + 4.0));
    }
}

/// The height of a row in pixels.
const ROW: f64 = 20.0;

/// The height of a bar in pixels.
const THICK: f64 = 14.0;

/// The height of the labels below the rows.
const AXIS: f64 = 24.0;
