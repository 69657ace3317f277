//! Runs rows on either side.

use super::row::{GuestRow, RowSetup};
use super::{LinuxResult, PROGRAM, RowFigures};
use weir_linux::play::guest::Lab;
use weir_linux::play::measure;
use weir_measure::Meter;
use weir_sim::SimRun;

/// The number of repetitions in the simulator, which differ in their random numbers.
pub const RUNS: u32 = 8;

/// The number of repetitions in a guest whose kernel is a program, each of which takes half a
/// minute. The simulator runs the same ones, so that clients begin at the same times on both sides.
pub const PROGRAM_RUNS: u32 = 3;

/// Runs a row in the simulator several times, and returns the means.
///
/// # Errors
/// Returns an error if scenario, case, drive and policy do not fit together.
pub fn weir(row: &GuestRow) -> Result<RowFigures, String> {
    let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", row.name());
    let RowSetup {
        scenario,
        policy,
        target,
    } = row.build()?;
    let mut sum = RunSums::default();
    let runs = if row.kernel == PROGRAM {
        PROGRAM_RUNS
    } else {
        RUNS
    };
    for run in 1..=runs {
        let results = SimRun::new(&scenario, &policy, run).and_then(|run| run.run(|_| {}));
        let results = results.map_err(|e| wrong(&e))?;
        sum.add(&results.clients[target].meter, &results.total);
    }
    Ok(sum.figures())
}

/// Runs a row in a guest: once, or [`PROGRAM_RUNS`] times if the kernel is a program. The values of
/// the path and the processor are those of the last run.
///
/// # Errors
/// Returns an error if the row cannot be run there.
pub fn linux(row: &GuestRow, lab: &Lab) -> Result<LinuxResult, String> {
    let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", row.name());
    let RowSetup {
        scenario,
        policy,
        target,
    } = row.build()?;
    let is_program = lab.kernel().program().is_some();
    // The runs of a program have the numbers of the simulator's runs, so that clients begin at the
    // same times.
    let runs = if is_program { 1..=PROGRAM_RUNS } else { 0..=0 };
    let mut sum = RunSums::default();
    let mut linux = LinuxResult {
        figures: sum.figures(),
        path_us: 0.0,
        left_us: 0.0,
        processor: None,
    };
    for run in runs {
        let outcome = lab.play(&scenario, &policy, run, || true);
        let outcome = outcome.map_err(|e| wrong(&e))?;
        let played = &outcome.played;
        let measured = measure(&scenario, run, &played.logs, played.began_ns, None);
        sum.add(&measured.clients[target].meter, &measured.total);
        linux.path_us = outcome.path_ns as f64 / 1e3;
        linux.left_us = outcome.left_ns as f64 / 1e3;
        linux.processor = (!is_program).then_some(played.processor_percent);
    }
    linux.figures = sum.figures();
    Ok(linux)
}

/// The sums of several runs, from which means are taken.
#[derive(Default)]
struct RunSums {
    requests: u64,
    waited_us: f64,
    target_mb: f64,
    total_mb: f64,
    runs: f64,
}

impl RunSums {
    fn add(&mut self, target: &Meter, total: &Meter) {
        let mb_per_s = |m: &Meter| weir_measure::mb_per_s(m.bytes(), m.length_ns());
        self.requests += target.requests();
        // Latencies are weighted by requests, and bandwidths by runs.
        self.waited_us += target.latency().mean() / 1e3 * target.requests() as f64;
        self.target_mb += mb_per_s(target);
        self.total_mb += mb_per_s(total);
        self.runs += 1.0;
    }

    fn figures(&self) -> RowFigures {
        let runs = self.runs.max(1.0);
        RowFigures {
            requests: self.requests,
            latency_us: self.waited_us / (self.requests as f64).max(1.0),
            target_mb: self.target_mb / runs,
            total_mb: self.total_mb / runs,
        }
    }
}
