//! A calibration in progress. It examines the target first, and then measures and saves one step
//! after the other.

use super::medium::TargetMedium;
use super::state;
use super::watched::WatchedSource;
use crate::failure::Failure;
use crate::leftovers::Leftovers;
use crate::output;
use crate::progress::WorkProgress;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_core::{Op, Span};
use weir_lab::calibrate::{
    Calibration, CalibrationPlan, StepMeasurement, StepResult, Survey, SurveyVerdict,
};
use weir_model::load::{Io, RequestSource};

/// The number of blocks that are examined on flash. On a rotating disk, each takes milliseconds, so
/// [`FEW`] are examined there.
const MANY: u64 = 4096;
const FEW: u64 = 1024;
/// The nice value of the measuring thread.
const PRIORITY: i32 = -10;

/// The state of a calibration.
pub(super) struct CalibrationSession<'a> {
    began: Instant,
    /// The time after `began` at which the measurement ends.
    limit: Duration,
    state: &'a Path,
    leftovers: &'a Leftovers,
    progress: WorkProgress,
    /// The results so far, which are saved after each step.
    known: Calibration,
    /// The recent overhead of a step in addition to its planned time: connecting, completing the
    /// requests in flight, and a flush.
    over: Duration,
}

impl<'a> CalibrationSession<'a> {
    /// Prepares to continue with the results in `known`. The measurement ends when `limit` has
    /// passed since `began`.
    pub(super) fn new(
        (began, limit): (Instant, Duration),
        known: Calibration,
        state: &'a Path,
        leftovers: &'a Leftovers,
    ) -> Self {
        Self {
            began,
            limit,
            state,
            leftovers,
            progress: WorkProgress::new(limit, "the calibration".into()).at_most(),
            known,
            over: Duration::ZERO,
        }
    }

    /// Measures the missing figures. Returns all results, and the signal if an interrupt has ended
    /// the measurement.
    pub(super) fn carry_out(
        mut self,
        medium: &mut TargetMedium,
    ) -> Result<(Calibration, Option<i32>), Failure> {
        // The priority is that of the server's threads. A thread that waits for a processor would
        // measure its own wait. Without the permission to raise it, the priority stays as it is.
        let _ = rustix::process::setpriority_process(None, PRIORITY);
        // From here on, an interrupt ends the present step, and its predecessors are kept.
        self.leftovers.interrupt().hold();
        let ended = self.survey(medium).and_then(|()| self.steps(medium));
        self.leftovers.interrupt().release();
        self.progress.clear();
        ended?;
        Ok((self.known, self.leftovers.interrupt().signal()))
    }

    /// Examines whether the target may be written to, or whether it has data to read.
    fn survey(&mut self, medium: &mut TargetMedium) -> Result<(), Failure> {
        let target = self.known.target.clone();
        // A rotating disk reads unwritten blocks like all others, so there is nothing to find out.
        if target.rotational && !target.write {
            return Ok(());
        }
        let blocks = if target.rotational { FEW } else { MANY };
        // Holes of a file have no data to find.
        let data = medium.data(target.size)?;
        let mut survey = Survey::new(target.size, &data, blocks);
        self.run(medium, "looks at what is there", &mut survey)?;
        if self.leftovers.interrupt().signal().is_some() {
            return Ok(());
        }
        let path = &target.path;
        match (target.write, survey.verdict()) {
            (true, SurveyVerdict::Foreign(at)) => Err(Failure::Run(format!(
                "{path} has data, the first at offset {at}: --write overwrites only empty storage, or its own data; nothing was written. \
                 Use an empty file or drive"
            ))),
            (_, SurveyVerdict::Unreadable(at)) => {
                Err(Failure::Run(format!("cannot read {path} at offset {at}")))
            }
            // The target has been replaced or discarded, so the earlier results refer to data that
            // no longer exists.
            (true, SurveyVerdict::Empty) if self.known.written > 0 => {
                output::print_message(
                    "note: starting from the beginning, because the data that was written before is gone",
                );
                self.known = Calibration::new(target);
                Ok(())
            }
            (false, SurveyVerdict::Empty) => {
                output::print_message(&format!(
                    "warning: {path} contains only zeroes; ranges that were never written are often read faster, because the drive does not read \
                     its medium for them; use --write to fill it first"
                ));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Measures the steps of the plan and saves each of them.
    fn steps(&mut self, medium: &mut TargetMedium) -> Result<(), Failure> {
        let plan = CalibrationPlan::new(&self.known.target);
        let (mut took, mut done) = (Duration::ZERO, 0);
        while self.leftovers.interrupt().signal().is_none() {
            let left = self.left(plan.steps_left(&self.known));
            let Some((step, part)) = plan.next(&self.known, left) else {
                break;
            };
            let mut measurement = StepMeasurement::new(&step, part);
            let (began, waited) = (Instant::now(), waited());
            self.run(medium, &step.name, &mut measurement)?;
            // The wait is measured for each step, because other programs can be busy at times.
            let wait = share(waited, began.elapsed());
            let over = began
                .elapsed()
                .saturating_sub(Duration::from_nanos(part.as_nanos()));
            // A rise of the overhead counts at once. A fall counts by half in each step.
            self.over = over.max((self.over + over) / 2);
            // Data that an interrupted step has written is on the target as well.
            self.known.written = self.known.written.max(measurement.written());
            if let Some(io) = measurement.failed() {
                return Err(failed(&self.known.target.path, io));
            }
            let found = measurement.found().map(|found| StepResult {
                processor_wait: wait,
                ..found
            });
            // A step that an interrupt has cut short is not a result.
            let ended = found.is_none() || self.leftovers.interrupt().signal().is_some();
            self.known.steps.extend(found.filter(|_| !ended));
            state::save(self.state, &self.known)?;
            took += began.elapsed();
            done += 1;
            self.estimate(took / done, plan.steps_left(&self.known));
            // The time has been used up, or the step was interrupted.
            if ended {
                break;
            }
        }
        Ok(())
    }

    /// Estimates the duration of the whole calibration from the mean duration of the steps so far,
    /// up to the limit.
    fn estimate(&self, each: Duration, left: usize) {
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        let whole = self
            .began
            .elapsed()
            .saturating_add(each.saturating_mul(left));
        self.progress.estimate(whole.min(self.limit));
    }

    /// Returns the time for measuring `steps` steps. It is the remaining time without the overhead
    /// of these steps, but at least half of the remaining time.
    fn left(&self, steps: usize) -> Span {
        let left = self.limit.saturating_sub(self.began.elapsed());
        let beside = self
            .over
            .saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX));
        let left = left.saturating_sub(beside.min(left / 2));
        Span::from_nanos(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Plays a source on the target, with its progress and until an interrupt.
    fn run<S: RequestSource>(
        &mut self,
        medium: &mut TargetMedium,
        name: &str,
        source: &mut S,
    ) -> Result<(), Failure> {
        self.progress.name("calibrate", name);
        let mut watched = WatchedSource {
            source,
            interrupt: self.leftovers.interrupt(),
            progress: &self.progress,
            began: self.began,
            told: self.began,
            flying: 0,
        };
        medium.run(&mut watched)
    }
}

/// Returns the time for which this thread has waited for a processor since its start, in
/// `/proc/thread-self/schedstat`.
fn waited() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

/// Returns the fraction of `time` that this thread has waited since `before`.
fn share(before: Option<Duration>, time: Duration) -> Option<f64> {
    let waited = waited()?.saturating_sub(before?);
    Some(waited.as_secs_f64() / time.as_secs_f64().max(1e-9))
}

/// Returns the failure for a request with an error. A drive with errors is not calibrated.
fn failed(path: &str, io: &Io) -> Failure {
    let what = if io.op == Op::Read { "read" } else { "write" };
    Failure::Run(format!(
        "{path}: a {what} of {} bytes at offset {} failed",
        io.length, io.offset
    ))
}
