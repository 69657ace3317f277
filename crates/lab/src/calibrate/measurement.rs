//! The measurement of one calibration step.

use crate::calibrate::found::StepResult;
use crate::calibrate::load::{Area, LoadPattern, StepLoad};
use crate::calibrate::plan::CalibrationStep;
use crate::calibrate::stamp::{self, BLOCK};
use crate::calibrate::steady::{self, tail};
use weir_core::{Flags, Instant, Op, Span};
use weir_measure::Histogram;
use weir_model::load::{Io, RequestSource, Rng};

/// The number of windows of a step that takes all its time.
const WINDOWS: u64 = 24;
/// The minimum length of a window, and its minimum number of completions.
const SHORTEST: Span = Span::from_millis(10);
const ANSWERS: u64 = 8;
/// The number of steady windows after which a step may end early, and the half-width of their
/// confidence interval, as a part of the mean, that is required for it.
const ENOUGH: usize = 8;
const SURE: f64 = 0.01;

/// A step in progress: a source of requests that ends when its time is over or, if it may end
/// early, when its mean is certain.
#[derive(Debug)]
pub struct StepMeasurement {
    name: String,
    load: StepLoad,
    area: Area,
    early: bool,
    /// True if a flush must still be issued when all requests have completed.
    flush: bool,
    /// True while that flush is in flight.
    is_flushing: bool,
    limit: Span,
    rng: Rng,
    /// The time at which the step began.
    began: Option<Instant>,
    /// The time of the last completion so far.
    now: Instant,
    issued: u64,
    answered: u64,
    /// True if the step issues no further requests.
    over: bool,
    /// The number of the next position of sequential requests.
    place: u64,
    /// The latency of the last completion. Requests in flight take about as long.
    latest: Span,
    /// The time at which the next request may be issued, if there is a rate.
    due: Instant,
    window: OpenWindow,
    windows: Vec<steady::RateWindow>,
    latencies: Vec<Histogram>,
    failed: Option<Io>,
}

/// The window in progress. It begins and ends with a completion.
#[derive(Debug)]
struct OpenWindow {
    began: Option<Instant>,
    bytes: u64,
    answers: u64,
    latency: Histogram,
}

impl OpenWindow {
    fn new(began: Option<Instant>) -> Self {
        Self {
            began,
            bytes: 0,
            answers: 0,
            latency: Histogram::new(),
        }
    }
}

impl StepMeasurement {
    /// Creates the measurement of a step that takes about `limit` at most. It stops early enough
    /// that the requests in flight complete by then.
    pub fn new(step: &CalibrationStep, limit: Span) -> Self {
        Self {
            name: step.name.clone(),
            load: step.load,
            area: step.area,
            early: step.early,
            flush: step.flush,
            is_flushing: false,
            limit,
            rng: Rng::new(weir_model::load::seed(&step.name, 0, 0)),
            began: None,
            now: Instant::ZERO,
            issued: 0,
            answered: 0,
            over: false,
            place: 0,
            latest: Span::ZERO,
            due: Instant::ZERO,
            window: OpenWindow::new(None),
            windows: Vec::new(),
            latencies: Vec::new(),
            failed: None,
        }
    }

    /// Returns the first request that failed. The step ends with it and has no result.
    pub fn failed(&self) -> Option<&Io> {
        self.failed.as_ref()
    }

    /// Returns the time from the beginning of the step to its last completion.
    pub fn elapsed(&self) -> Span {
        self.began.map_or(Span::ZERO, |began| self.now.since(began))
    }

    /// Returns the number of bytes from the beginning of the drive that the step wrote without a
    /// gap.
    pub fn written(&self) -> u64 {
        let fills = self.load.pattern == LoadPattern::Sequential && self.load.writes == 100;
        if !fills || self.area.from > 0 || self.failed.is_some() {
            return 0;
        }
        let places = self.area.places(self.load.length).min(self.answered);
        places * u64::from(self.load.length)
    }

    /// Returns the result of a finished step, or `None` if no request completed or one failed.
    pub fn found(&self) -> Option<StepResult> {
        if self.failed.is_some() || self.answered == 0 {
            return None;
        }
        let seconds = self.elapsed().as_nanos() as f64 / 1e9;
        Some(StepResult::new(
            &self.name,
            self.load,
            self.windows.clone(),
            &self.latencies,
            (seconds, self.answered),
        ))
    }

    /// Ends the step, with a flush if one is required.
    fn end(&mut self, now: Instant) -> weir_model::load::Step {
        if self.outstanding() > 0 || self.is_flushing {
            return weir_model::load::Step::WaitForCompletion;
        }
        if !self.flush || self.issued == 0 || self.failed.is_some() {
            return weir_model::load::Step::Finished;
        }
        (self.flush, self.is_flushing) = (false, true);
        weir_model::load::Step::Issue(Io {
            number: self.issued,
            op: Op::Flush,
            flags: Flags::NONE,
            offset: 0,
            length: 0,
            due: now,
        })
    }

    fn outstanding(&self) -> u64 {
        self.issued - self.answered
    }

    fn request(&mut self, now: Instant) -> Io {
        let places = self.area.places(self.load.length).max(1);
        let place = match self.load.pattern {
            LoadPattern::Sequential => {
                // Sequential requests start again at the beginning of the area.
                self.place += 1;
                (self.place - 1) % places
            }
            LoadPattern::Random => self.rng.range(0, places - 1),
        };
        // No random number is drawn for pure reads and writes, so that their positions stay the
        // same.
        let writes = match self.load.writes {
            0 => false,
            100.. => true,
            some => self.rng.range(0, 99) < u64::from(some),
        };
        let io = Io {
            number: self.issued,
            op: if writes { Op::Write } else { Op::Read },
            flags: Flags::NONE,
            offset: self.area.from + place * u64::from(self.load.length),
            length: self.load.length,
            due: now,
        };
        self.issued += 1;
        io
    }

    /// Closes the window if it is long enough, and ends the step if its mean is certain.
    fn close(&mut self, now: Instant) {
        let Some(began) = self.window.began else {
            // The first completions may all have waited for this process, so the first window
            // begins after a full depth of them.
            if self.answered >= u64::from(self.load.depth) {
                self.window = OpenWindow::new(Some(now));
            }
            return;
        };
        let length = now.since(began);
        // A window is a 24th of the step, unless that is shorter than the minimum.
        let whole = SHORTEST.max(Span::from_nanos(self.limit.as_nanos() / WINDOWS));
        if length < whole || self.window.answers < ANSWERS {
            return;
        }
        let ended = std::mem::replace(&mut self.window, OpenWindow::new(Some(now)));
        let seconds = length.as_nanos() as f64 / 1e9;
        self.windows.push(steady::RateWindow {
            seconds,
            bytes_per_second: ended.bytes as f64 / seconds,
        });
        self.latencies.push(ended.latency);
        self.over |= self.early && self.is_sure();
    }

    fn is_sure(&self) -> bool {
        tail(&self.windows).is_some_and(|tail| {
            let counted = self.windows.len() - tail.skipped;
            tail.steady && counted >= ENOUGH && tail.interval.half <= SURE * tail.interval.mean
        })
    }
}

impl RequestSource for StepMeasurement {
    fn next(&mut self, now: Instant) -> weir_model::load::Step {
        let began = *self.began.get_or_insert(now);
        // Requests in flight must complete before the limit.
        self.over |= now.since(began) + self.latest >= self.limit;
        if self.over {
            return self.end(now);
        }
        if self.outstanding() >= u64::from(self.load.depth) {
            return weir_model::load::Step::WaitForCompletion;
        }
        if let Some(rate) = self.load.rate {
            // The first request is due when the step begins.
            let due = self.due.max(began);
            if now < due {
                return weir_model::load::Step::WaitUntil(due);
            }
            self.due = due + Span::from_nanos(1_000_000_000 / rate.max(1));
        }
        weir_model::load::Step::Issue(self.request(now))
    }

    fn completed(&mut self, now: Instant, io: &Io, failed: bool) {
        if io.op == Op::Flush {
            self.is_flushing = false;
        } else {
            self.answered += 1;
            self.now = self.now.max(now);
        }
        // The latest completion is the best guess for the requests in flight.
        self.latest = now.since(io.due);
        if failed {
            self.failed.get_or_insert(*io);
            self.over = true;
        }
        if self.over {
            return;
        }
        // Completions before the first window are only counted.
        if self.window.began.is_some() {
            self.window.bytes += u64::from(io.length);
            self.window.answers += 1;
            self.window.latency.record(now.since(io.due).as_nanos());
        }
        self.close(now);
    }

    fn payload(&mut self, io: &Io, into: &mut Vec<u8>) {
        let end = into.len() + io.length as usize;
        let mut offset = io.offset;
        while into.len() < end {
            stamp::block(offset, into);
            offset += BLOCK;
        }
        into.truncate(end);
    }
}
