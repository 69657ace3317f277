//! The capacity of a drive, derived from the results of its steps.

use crate::calibrate::calibration::Calibration;
use crate::calibrate::found::StepResult;
use crate::calibrate::plan::step;

/// A rate of a drive, in bytes or requests per second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CapacityFigure {
    /// The lower end of the confidence interval of the slowest step of its kind.
    pub least: f64,
    /// The highest rate that any step of its kind reached for three windows.
    pub most: f64,
    /// Half of the width of the confidence interval of the slowest step, as a part of its mean.
    /// `None` if the interval is not known.
    pub uncertainty: Option<f64>,
    /// True if every step of its kind was steady.
    pub steady: bool,
}

/// The rates that a drive reaches. Rates that were not measured are `None`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MeasuredCapacity {
    /// Sequential reads, in bytes per second.
    pub read: Option<CapacityFigure>,
    /// Sequential writes, in bytes per second.
    pub write: Option<CapacityFigure>,
    /// Random reads of 4 KiB per second.
    pub read_iops: Option<CapacityFigure>,
    /// Random writes of 4 KiB per second.
    pub write_iops: Option<CapacityFigure>,
    /// Random requests of 4 KiB per second, of which 30 % are writes.
    pub mixed_iops: Option<CapacityFigure>,
    /// The smallest depth at which random reads reach 97 % of their highest rate at any depth.
    pub tags: Option<u32>,
}

/// The part of the highest rate that random reads reach at a sufficient depth.
const FULL: f64 = 0.97;

impl MeasuredCapacity {
    /// Derives the capacity from the results so far.
    pub fn of(known: &Calibration) -> Self {
        let figure = |names: &[&str], requests: bool| {
            let steps: Vec<&StepResult> =
                names.iter().filter_map(|name| known.step(name)).collect();
            CapacityFigure::of(&steps, requests)
        };
        Self {
            read: figure(&[step::READ, step::READ_END], false),
            write: figure(&[step::WRITE, step::WRITE_END], false),
            read_iops: figure(&[step::READ_RANDOM], true),
            write_iops: figure(&[step::WRITE_RANDOM], true),
            mixed_iops: figure(&[step::MIXED], true),
            tags: tags(known),
        }
    }

    /// Returns the rate of requests of any kind: the lowest of reads, writes and both mixed.
    /// Returns `None` unless reads and writes were measured.
    pub fn iops(&self) -> Option<f64> {
        let (read, write) = (self.read_iops?.least, self.write_iops?.least);
        // The mixed step comes last, and may be missing.
        let mixed = self.mixed_iops.map_or(f64::INFINITY, |f| f.least);
        Some(read.min(write).min(mixed))
    }
}

impl CapacityFigure {
    fn of(steps: &[&StepResult], requests: bool) -> Option<Self> {
        let unit = |found: &StepResult| {
            if requests {
                f64::from(found.load.length)
            } else {
                1.0
            }
        };
        // A capacity is a promise for the whole drive, so that its slowest part counts.
        let slowest = steps
            .iter()
            .min_by(|a, b| a.at_least().total_cmp(&b.at_least()))?;
        let most = steps.iter().map(|s| s.at_best() / unit(s));
        Some(Self {
            least: slowest.at_least() / unit(slowest),
            most: most.fold(0.0, f64::max),
            uncertainty: slowest.uncertainty(),
            steady: steps.iter().all(|s| s.steady),
        })
    }
}

fn tags(known: &Calibration) -> Option<u32> {
    let reads = known.steps.iter().filter(|found| {
        let like = found.name == step::READ_RANDOM || found.name.starts_with("read-random-depth-");
        // A rate that still changes says nothing about the depth.
        like && found.steady
    });
    let mut reads: Vec<_> = reads
        .map(|found| (found.load.depth, found.bytes_per_second))
        .collect();
    reads.sort_by_key(|read| read.0);
    // Two depths or fewer do not show at which one the rate stops rising.
    let most = reads.iter().map(|read| read.1).fold(0.0, f64::max);
    let enough = reads.iter().find(|read| read.1 >= FULL * most)?;
    (reads.len() > 2).then_some(enough.0)
}

/// Rounds a rate down to three digits, because the others are within the uncertainty.
pub fn floor_to_three(figure: f64) -> u64 {
    let figure = figure.max(0.0) as u64;
    // Zero has no logarithm.
    let digits = figure.checked_ilog10().unwrap_or(0);
    let unit = 10_u64.pow(digits.saturating_sub(2));
    figure / unit * unit
}
