//! Compares models with the published figures of the drives that they represent.

use crate::fit::ensemble::threads;
use crate::fit::fitting::{FigureRow, compare};
use crate::fit::search::REPETITIONS;
use crate::fit::{DriveFigure, FitError, Measure, ensemble};
use rayon::prelude::*;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use weir_config::sheet::Sheet;
use weir_measure::number::short;
use weir_model::drive::DriveConfig;
use weir_sim::scenario::{COMPARED, Interferers};

/// The percentage of sets whose figures are within an interval. The outliers on either side are
/// dropped.
const INNER: f64 = 90.0;

/// A drive's model, compared with all published figures of the drive.
#[derive(Clone, Debug)]
pub struct Validation {
    /// The name of the drive.
    pub name: String,
    /// A description of the drive in one line.
    pub summary: String,
    /// The published figures, in the order of the sheet.
    pub rows: Vec<FigureRow>,
    /// The interval of the other sets, for each figure that was not used in the fit.
    pub intervals: Vec<Option<FigureInterval>>,
    /// The number of sets that fit as well as the profile.
    pub sets: usize,
    /// The total bandwidth with readers and without control, relative to the sequential peak.
    /// `None` for a drive without published figures of the `latency` scenario.
    pub share: Option<f64>,
    /// The target's mean read latency with single reads at long intervals, in nanoseconds, for each
    /// case under each policy.
    pub sporadic: Vec<(Interferers, &'static str, f64)>,
}

/// The interval of a figure over many sets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FigureInterval {
    /// The lower end, after 5 % of the sets were dropped below it.
    pub low: f64,
    /// The upper end, after 5 % of the sets were dropped above it.
    pub high: f64,
}

/// Measures a drive and `sets` sets that fit as well. Passes the progress to `done`, in
/// thousandths.
///
/// # Errors
/// Returns the errors of [`fit`](crate::fit::fit).
pub fn validate(
    sheet: &Sheet,
    drive: &DriveConfig,
    sets: usize,
    jobs: usize,
    done: &(dyn Fn(usize) + Sync),
) -> Result<Validation, FitError> {
    let rows = compare(sheet, drive)?;
    // If every parameter is determined by a figure, there is only one set.
    let sets = if sheet.plausible.is_empty() { 0 } else { sets };
    let sets = ensemble(sheet, drive, sets, jobs, &|n| done(n * 700 / sets.max(1)))?;
    // A figure without a tolerance was not used in the fit.
    let predicted = rows.iter().map(|r| r.published.within.is_none());
    let figures: Vec<_> = rows
        .iter()
        .zip(predicted.clone())
        .filter(|r| r.1)
        .map(|r| r.0.figure)
        .collect();
    let count = AtomicUsize::new(0);
    let measure = |set| {
        let figures = figures.iter().map(|f| f.of(set, REPETITIONS));
        let figures = figures.collect::<Result<Vec<_>, _>>();
        // The ensemble takes about 70 % of the time. The counter orders nothing else.
        done(700 + count.fetch_add(1, Ordering::Relaxed) * 300 / sets.len());
        figures
    };
    let measured: Vec<_> = threads(jobs).install(|| sets.par_iter().map(measure).collect());
    let measured = measured.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut columns =
        (0..figures.len()).map(|i| FigureInterval::of(measured.iter().map(|m| m[i]).collect()));
    let intervals = predicted.map(|p| if p { columns.next().flatten() } else { None });
    let intervals = intervals.collect();
    // Only sheets with figures of the `latency` scenario get its further tables.
    let latency = rows
        .iter()
        .any(|r| matches!(r.figure, DriveFigure::Latency(..)));
    Ok(Validation {
        name: sheet.profile.name.clone(),
        summary: sheet.profile.summary().to_owned(),
        rows,
        intervals,
        sets: sets.len(),
        share: latency.then(|| share(drive)).transpose()?,
        sporadic: if latency {
            sporadic(drive)?
        } else {
            Vec::new()
        },
    })
}

impl FigureInterval {
    fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        // The same number of sets is dropped on either side.
        let out = (figures.len() as f64 * (100.0 - INNER) / 200.0) as usize;
        let inner = figures.get(out..figures.len() - out)?;
        Some(Self {
            low: *inner.first()?,
            high: *inner.last()?,
        })
    }
}

fn share(drive: &DriveConfig) -> Result<f64, FitError> {
    let total = DriveFigure::Total(Interferers::Readers, "none").of(drive, 2)?;
    Ok(total / DriveFigure::SequentialRead.of(drive, 1)?)
}

fn sporadic(drive: &DriveConfig) -> Result<Vec<(Interferers, &'static str, f64)>, FitError> {
    let cases = Interferers::ALL
        .into_iter()
        .flat_map(|i| COMPARED.map(|c| (i, c)));
    let mean = |(i, c)| Ok((i, c, DriveFigure::Sporadic(i, c).of(drive, REPETITIONS)?));
    cases.map(mean).collect()
}

/// The published ratios of the `latency` scenario, as their source rounds them: no control relative
/// to BFQ, with readers and with writers.
const RATIOS: [(&str, [f64; 2]); 3] = [
    ("samsung-970-pro", [27.0, 13.0]),
    ("plextor-px-256m5s", [53.0, 14.0]),
    ("hitachi-hts72755", [420.0, 4.0]),
];

/// Returns the document: every published figure, the model's figure, its error, and whether it was
/// fitted or is predicted.
pub fn document(drives: &[Validation]) -> String {
    let mut text = String::from(HEAD);
    for drive in drives {
        drive.section(&mut text);
    }
    ratios(&mut text, drives);
    write_single_reads(&mut text, drives);
    text
}

const HEAD: &str = include_str!("validation.md");

/// The results of Linux on the models, as `weir-lab validation` stores them.
const LINUX: &str = include_str!("linux.txt");

/// Returns the result of Linux for a figure on the model of a drive, if it was measured.
fn linux(drive: &str, figure: DriveFigure) -> Option<String> {
    let key = format!("{drive}: {}", figure.name());
    let mut lines = LINUX.lines().map(|line| line.split(" | "));
    // The line begins with the key. The number of reads follows, and then the mean.
    let mut own = lines.find_map(|mut fields| (fields.next()? == key).then_some(fields))?;
    let mean = own.nth(1)?.parse().ok()?;
    Some(figure.measure().text(mean))
}

impl Validation {
    fn section(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "\n## {}\n\n{}.\n",
            self.name,
            self.summary.trim_end_matches('.')
        );
        text.push_str(
            "| Figure | Published | Model | Error | Linux on this model | Status | Source |\n|---|---:|---:|---:|---:|---|---|\n",
        );
        for (row, interval) in self.rows.iter().zip(&self.intervals) {
            let how = match (row.is_within_tolerance(), interval) {
                (Some(true), _) => "fitted".to_owned(),
                (Some(false), _) => "fitted, **too far off**".to_owned(),
                (None, Some(i)) => {
                    let (low, high) = (i.low, i.high);
                    let includes = (low..=high).contains(&row.published.value);
                    let side = if includes { "inside" } else { "outside" };
                    format!(
                        "predicted, {}, published {side}",
                        i.text(row.figure.measure())
                    )
                }
                (None, None) => "predicted".to_owned(),
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {:+.0} % | {} | {how} | {} |",
                row.figure.name(),
                row.figure.measure().text(row.published.value),
                row.figure.measure().text(row.model),
                row.relative_error() * 100.0,
                linux(&self.name, row.figure).unwrap_or_default(),
                row.published.source,
            );
        }
        if let Some(share) = self.share {
            let _ = writeln!(
                text,
                "\nWithout control and with readers, all clients together get {:.1} % of the sequential peak. Intervals: {} other sets of parameters.",
                share * 100.0,
                self.sets,
            );
        }
        self.notes(text);
    }

    /// Writes the notes about predictions that are off.
    fn notes(&self, text: &mut String) {
        let notes = self
            .rows
            .iter()
            .filter_map(|r| Some((r.figure.name(), r.published.note.as_ref()?)));
        for (figure, note) in notes {
            let _ = writeln!(text, "\n`{figure}`: {note}");
        }
    }

    fn model(&self, figure: DriveFigure) -> Option<f64> {
        self.rows
            .iter()
            .find(|r| r.figure == figure)
            .map(|r| r.model)
    }
}

impl FigureInterval {
    fn text(self, measure: Measure) -> String {
        format!("{} to {}", measure.text(self.low), measure.text(self.high))
    }
}

fn ratios(text: &mut String, drives: &[Validation]) {
    text.push_str(
        "\n## Ratios\n\nThis table has two ratios of the target's mean latency: without control relative to BFQ, and under io.latency relative to no control.\n\n\
         | Drive | Case | none / BFQ, published | none / BFQ, model | io.latency / none, published | io.latency / none, model |\n|---|---|---:|---:|---:|---:|\n",
    );
    for drive in drives {
        let Some((_, published)) = RATIOS.iter().find(|r| r.0 == drive.name) else {
            continue;
        };
        for (interferers, published) in Interferers::ALL.into_iter().zip(published) {
            let [none, io_latency, bfq] = COMPARED.map(|c| DriveFigure::Latency(interferers, c));
            let was = |f: DriveFigure| {
                drive
                    .rows
                    .iter()
                    .find(|r| r.figure == f)
                    .map(|r| r.published.value)
            };
            let ratio = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
            let cells = [
                Some(*published),
                ratio(drive.model(none), drive.model(bfq)),
                ratio(was(io_latency), was(none)),
                ratio(drive.model(io_latency), drive.model(none)),
            ];
            let cells = cells.map(|c| c.map_or(String::new(), short)).join(" | ");
            let _ = writeln!(
                text,
                "| {} | {} | {cells} |",
                drive.name,
                interferers.name()
            );
        }
    }
}

/// Appends the section about single reads at long intervals, in the columns of [`COMPARED`].
fn write_single_reads(text: &mut String, drives: &[Validation]) {
    text.push_str(
        "\n## Single reads at long intervals\n\nThis table has the model's mean latencies for the load in the appendix of the comparison, which is one read every 100 ms.\n\
         According to the appendix, a read takes about 1 ms on the Samsung under any policy, and the policy makes no difference on the Plextor with writers either.\n\
         All figures are predictions.\n\n\
         | Drive | Case | none | io.latency | bfq-5.3 |\n|---|---|---:|---:|---:|\n",
    );
    for drive in drives {
        for interferers in Interferers::ALL {
            let cells = drive.sporadic.iter().filter(|s| s.0 == interferers);
            let cells: Vec<_> = cells.map(|s| Measure::Time.text(s.2)).collect();
            if !cells.is_empty() {
                let _ = writeln!(
                    text,
                    "| {} | {} | {} |",
                    drive.name,
                    interferers.name(),
                    cells.join(" | ")
                );
            }
        }
    }
}

impl Measure {
    /// Formats a value with three digits and a unit, for example `39.2 ms` or `515 MB/s`.
    pub fn text(self, value: f64) -> String {
        let units: &[(f64, &str)] = match self {
            Self::Rate => &[(1e6, "MB/s"), (1e3, "kB/s")],
            Self::Time => &[(1e6, "ms"), (1e3, "us")],
        };
        let (unit, name) = units.iter().find(|u| value >= u.0).unwrap_or(&units[1]);
        format!("{} {name}", short(value / unit))
    }
}
