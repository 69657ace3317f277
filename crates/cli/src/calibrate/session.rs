//! A calibration under way.

use super::medium::Medium;
use super::state;
use super::watched::Watched;
use crate::failure::Failure;
use crate::leftovers::Leftovers;
use crate::output;
use crate::progress::Progress;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_core::{Op, Span};
use weir_lab::calibrate::{Calibration, Found, Measurement, Plan, Survey, Verdict};
use weir_model::load::{Io, Source};

/// Blocks that a survey looks at: a disk that turns takes milliseconds for each.
const MANY: u64 = 4096;
const FEW: u64 = 1024;
/// The nice value of what measures.
const PRIORITY: i32 = -10;

/// A calibration under way.
pub(super) struct Session<'a> {
    began: Instant,
    limit: Duration,
    state: &'a Path,
    leftovers: &'a Leftovers,
    progress: Progress,
    known: Calibration,
    /// By how much steps took longer than they should, of late: connecting, what is in flight at the end, a flush.
    over: Duration,
}

impl<'a> Session<'a> {
    /// Goes on with what is known, for as long after its beginning as the limit says.
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
            progress: Progress::new(limit, "the calibration".into()).at_most(),
            known,
            over: Duration::ZERO,
        }
    }

    /// Measures what is not known. Returns what is then, and the signal of an interrupt.
    pub(super) fn carry_out(
        mut self,
        medium: &mut Medium,
    ) -> Result<(Calibration, Option<i32>), Failure> {
        // As the server's threads: what waits for a processor measures that. Where it is not permitted, it stays as it is.
        let _ = rustix::process::setpriority_process(None, PRIORITY);
        self.leftovers.interrupt().hold();
        let ended = self.survey(medium).and_then(|()| self.steps(medium));
        self.leftovers.interrupt().release();
        self.progress.clear();
        ended?;
        Ok((self.known, self.leftovers.interrupt().signal()))
    }

    /// Finds out whether the target may be written to, or whether there is anything on it to be read.
    fn survey(&mut self, medium: &mut Medium) -> Result<(), Failure> {
        let target = self.known.target.clone();
        if target.rotational && !target.write {
            return Ok(());
        }
        let blocks = if target.rotational { FEW } else { MANY };
        let data = medium.data(target.size)?;
        let mut survey = Survey::new(target.size, &data, blocks);
        self.run(medium, "looks at what is there", &mut survey)?;
        if self.leftovers.interrupt().signal().is_some() {
            return Ok(());
        }
        let path = &target.path;
        match (target.write, survey.verdict()) {
            (true, Verdict::Foreign(at)) => Err(Failure::Run(format!(
                "{path} has data, the first at offset {at}: --write overwrites only empty storage, or its own data; nothing was written. \
                 Use an empty file or drive"
            ))),
            (_, Verdict::Unreadable(at)) => {
                Err(Failure::Run(format!("cannot read {path} at offset {at}")))
            }
            (true, Verdict::Empty) if self.known.written > 0 => {
                output::tell(
                    "note: starting from the beginning, because the data that was written before is gone",
                );
                self.known = Calibration::new(target);
                Ok(())
            }
            (false, Verdict::Empty) => {
                output::tell(&format!(
                    "warning: {path} contains only zeroes; ranges that were never written are often read faster, because the drive does not read \
                     its medium for them; use --write to fill it first"
                ));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Measures step after step, and saves each.
    fn steps(&mut self, medium: &mut Medium) -> Result<(), Failure> {
        let plan = Plan::new(&self.known.target);
        let (mut took, mut done) = (Duration::ZERO, 0);
        while self.leftovers.interrupt().signal().is_none() {
            let left = self.left(plan.left(&self.known));
            let Some((step, part)) = plan.next(&self.known, left) else {
                break;
            };
            let mut measurement = Measurement::new(&step, part);
            let (began, waited) = (Instant::now(), waited());
            self.run(medium, &step.name, &mut measurement)?;
            let wait = share(waited, began.elapsed());
            let over = began
                .elapsed()
                .saturating_sub(Duration::from_nanos(part.as_nanos()));
            self.over = over.max((self.over + over) / 2);
            // Also of a step that was broken off: it is there.
            self.known.written = self.known.written.max(measurement.written());
            if let Some(io) = measurement.failed() {
                return Err(failed(&self.known.target.path, io));
            }
            let found = measurement.found().map(|found| Found {
                processor_wait: wait,
                ..found
            });
            let ended = found.is_none() || self.leftovers.interrupt().signal().is_some();
            self.known.steps.extend(found.filter(|_| !ended));
            state::save(self.state, &self.known)?;
            took += began.elapsed();
            done += 1;
            self.estimate(took / done, plan.left(&self.known));
            // The time is over.
            if ended {
                break;
            }
        }
        Ok(())
    }

    /// The whole takes as long as it has taken, and the mean of its steps for each that is left; no longer than the limit.
    fn estimate(&self, each: Duration, left: usize) {
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        let whole = self
            .began
            .elapsed()
            .saturating_add(each.saturating_mul(left));
        self.progress.estimate(whole.min(self.limit));
    }

    /// The time for this number of steps: what is left without what they will take beside it, but half of that at the least.
    fn left(&self, steps: usize) -> Span {
        let left = self.limit.saturating_sub(self.began.elapsed());
        let beside = self
            .over
            .saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX));
        let left = left.saturating_sub(beside.min(left / 2));
        Span::from_nanos(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))
    }

    fn run<S: Source>(
        &mut self,
        medium: &mut Medium,
        name: &str,
        source: &mut S,
    ) -> Result<(), Failure> {
        self.progress.name("calibrate", name);
        let mut watched = Watched {
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

/// For how long this thread has waited for a processor so far (`/proc/thread-self/schedstat`).
fn waited() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

/// Which part of `time` has been waited since `before`.
fn share(before: Option<Duration>, time: Duration) -> Option<f64> {
    let waited = waited()?.saturating_sub(before?);
    Some(waited.as_secs_f64() / time.as_secs_f64().max(1e-9))
}

/// Says which request failed: a drive with errors is not calibrated.
fn failed(path: &str, io: &Io) -> Failure {
    let what = if io.op == Op::Read { "read" } else { "write" };
    Failure::Run(format!(
        "{path}: a {what} of {} bytes at offset {} failed",
        io.length, io.offset
    ))
}
