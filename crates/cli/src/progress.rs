//! The progress of a command: a bar on a terminal, and lines with a forecast elsewhere.

use crate::output;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The progress of an amount of work, which is measured as time in steps of 100 ms. On a terminal
/// it is a bar on standard error. Elsewhere, a line with the remaining time is printed as soon as
/// the work is known to take long, and then every 30 s.
#[derive(Debug)]
pub(crate) struct WorkProgress {
    bar: ProgressBar,
    /// The amount of work in words, for example `180 runs`.
    work: String,
    /// True if the amount of work is an upper bound.
    bound: Arc<AtomicBool>,
    /// The position of the bar at which the present part of the work begins.
    base: u64,
    /// The time of the next line, in milliseconds since the start.
    due: AtomicU64,
}

/// The unit of the bar, in milliseconds.
const TENTH: u128 = 100;
/// The interval between two drawings while the position does not change.
const TICK: Duration = Duration::from_millis(250);
/// The longest work for which no forecast is necessary.
const LONG: Duration = Duration::from_secs(5);
/// The interval between two lines where there is no terminal, in milliseconds.
const BETWEEN: u64 = 30_000;

impl WorkProgress {
    /// Creates a bar with the length `total`. `work` is the amount of work in words.
    pub(crate) fn new(total: Duration, work: String) -> Self {
        let bar = ProgressBar::with_draw_target(Some(tenths(total)), ProgressDrawTarget::stderr());
        let style =
            ProgressStyle::with_template("{prefix:>10} [{bar:40}] {percent:>3}%  {msg}{left}");
        let bound = Arc::new(AtomicBool::new(false));
        if let Ok(style) = style {
            let bound = bound.clone();
            let left = move |state: &ProgressState, text: &mut dyn Write| {
                let eta = left(state.fraction(), state.elapsed(), state.eta());
                let most = if bound.load(Ordering::Relaxed) {
                    "at most "
                } else {
                    ""
                };
                let _ = eta.map_or(Ok(()), |eta| {
                    write!(text, ", {most}{} left", HumanDuration(eta))
                });
            };
            bar.set_style(style.with_key("left", left).progress_chars("=> "));
        }
        // The regular drawing shows that the command is active even if no part has been completed.
        bar.enable_steady_tick(TICK);
        Self {
            bar,
            work,
            bound,
            base: 0,
            due: AtomicU64::new(LONG.as_millis() as u64),
        }
    }

    /// Declares the amount of work to be an upper bound until [`Self::resize`] is called.
    pub(crate) fn at_most(self) -> Self {
        self.bound.store(true, Ordering::Relaxed);
        self
    }

    /// Creates a progress that is never shown.
    pub(crate) fn silent() -> Self {
        Self {
            bar: ProgressBar::hidden(),
            work: String::new(),
            bound: Arc::default(),
            base: 0,
            due: AtomicU64::new(u64::MAX),
        }
    }

    /// Sets the name of the present part of the work.
    pub(crate) fn name(&mut self, what: &str, note: &str) {
        self.bar.set_prefix(what.to_owned());
        self.bar.set_message(note.to_owned());
        self.bar.tick();
    }

    /// Sets the description of the present step. It can be called by any thread.
    pub(crate) fn note(&self, note: String) {
        if self.bar.is_hidden() {
            self.print_forecast(&note);
        } else {
            self.bar.set_message(note);
        }
    }

    /// Changes the amount of work. The work so far is assumed to be a representative sample, so the
    /// remaining time follows from it.
    pub(crate) fn resize(&mut self, total: Duration, work: String) {
        self.bar.set_length(tenths(total));
        self.work = work;
        if self.bound.swap(false, Ordering::Relaxed) {
            // The lines before had an upper bound, so a new line is printed at once.
            self.due.fetch_min(0, Ordering::Relaxed);
        }
        self.print_forecast("");
    }

    /// Changes the amount of work to an estimate. Unlike with [`Self::resize`], it remains an upper
    /// bound.
    pub(crate) fn estimate(&self, total: Duration) {
        self.bar.set_length(tenths(total));
    }

    /// Sets the completed amount of the present part. The position never decreases, in whatever
    /// order threads call this function.
    pub(crate) fn set(&self, passed: Duration) {
        let position = self.base + tenths(passed);
        // Threads report in any order, and a bar that goes back would look like an error.
        self.bar.set_position(position.max(self.bar.position()));
        self.print_forecast("");
    }

    /// Completes the present part. `planned` is the length that it had on the bar.
    pub(crate) fn next(&mut self, planned: Duration) {
        self.base += tenths(planned);
        self.bar.set_position(self.base);
    }

    /// Removes the bar from the terminal.
    pub(crate) fn clear(self) {
        self.bar.finish_and_clear();
    }

    /// Prints a line with the remaining time if there is no bar and a line is due.
    fn print_forecast(&self, note: &str) {
        let elapsed = self.bar.elapsed();
        let now = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let due = self.due.load(Ordering::Relaxed);
        if now < due || !self.bar.is_hidden() {
            return;
        }
        let done = (self.bar.position(), self.bar.length().unwrap_or_default());
        let bound = self.bound.load(Ordering::Relaxed);
        let Some(line) = line(done, elapsed, (&self.work, bound), note) else {
            return;
        };
        // If several threads get here at once, only one of them succeeds in moving `due`, and
        // prints the line.
        let next = now.saturating_add(BETWEEN);
        let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
        if self.due.compare_exchange(due, next, set, read).is_ok() {
            output::print_message(&line);
        }
    }
}

/// Returns the line for work of which `done` of `all` took `elapsed`: the remaining time at the
/// present speed. `bound` is true if `all` is an upper bound.
///
/// Returns `None` if the whole work is short or almost completed.
fn line(
    (done, all): (u64, u64),
    elapsed: Duration,
    (work, bound): (&str, bool),
    note: &str,
) -> Option<String> {
    let note = if note.is_empty() {
        String::new()
    } else {
        format!(": {note}")
    };
    // There is no speed from which the remaining time could be computed.
    if done == 0 {
        let after = HumanDuration(elapsed);
        return (elapsed >= LONG)
            .then(|| format!("after {after} the first of {work} is not done{note}"));
    }
    let left = rest(done, all, elapsed)?;
    let (about, percent) = (if bound { "at most" } else { "about" }, done * 100 / all);
    Some(format!(
        "{about} {} left for {work}, {percent} % done{note}",
        HumanDuration(left)
    ))
}

/// Returns the remaining time if `done` of `all` took `elapsed`, or `None` if the whole work is
/// short or the rest is.
fn rest(done: u64, all: u64, elapsed: Duration) -> Option<Duration> {
    let part = done as f64 / all as f64;
    let whole = (part > 0.0 && part < 1.0).then(|| elapsed.div_f64(part))?;
    let rest = whole.saturating_sub(elapsed);
    (whole > LONG && rest >= Duration::from_secs(1)).then_some(rest)
}

/// Returns the remaining time as soon as enough work has been done for an estimate.
fn left(done: f32, elapsed: Duration, eta: Duration) -> Option<Duration> {
    // An estimate from less than 2 % of the work, or from less than 2 s, would vary too much.
    const ENOUGH: (f32, Duration) = (0.02, Duration::from_secs(2));
    let enough = done >= ENOUGH.0 && done < 1.0 && elapsed >= ENOUGH.1;
    (enough && eta >= Duration::from_secs(1)).then_some(eta)
}

fn tenths(time: Duration) -> u64 {
    u64::try_from(time.as_millis() / TENTH).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_time_is_estimated_only_from_enough_progress() {
        let seconds = Duration::from_secs;
        assert_eq!(left(0.0, seconds(60), seconds(9)), None);
        assert_eq!(left(0.5, Duration::from_millis(100), seconds(9)), None);
        assert_eq!(left(0.5, seconds(9), seconds(9)), Some(seconds(9)));
        assert_eq!(left(1.0, seconds(9), seconds(9)), None);
        assert_eq!(left(0.7, seconds(9), seconds(0)), None);
    }

    #[test]
    fn short_or_almost_completed_work_has_no_forecast() {
        let seconds = Duration::from_secs;
        // 10 % took 4 s, so 90 % take 36 s.
        assert_eq!(rest(18, 180, seconds(4)), Some(seconds(36)));
        assert_eq!(rest(0, 180, seconds(60)), None);
        // The whole takes 3 s, which is too short.
        assert_eq!(rest(60, 180, seconds(1)), None);
        // The rest takes less than 1 s.
        assert_eq!(rest(90, 100, seconds(6)), None);
        assert_eq!(rest(180, 180, seconds(60)), None);
        assert_eq!(rest(0, 0, seconds(60)), None);
    }

    #[test]
    fn a_progress_line_shows_an_estimate_or_a_bound_of_the_remaining_time() {
        let seconds = Duration::from_secs;
        let of = |done, elapsed, bound| line(done, seconds(elapsed), ("180 runs", bound), "");
        // 10 % took 5 s, so 90 % take 45 s.
        let about = "about 45 seconds left for 180 runs, 10 % done".to_owned();
        assert_eq!(of((18, 180), 5, false), Some(about.clone()));
        assert_eq!(
            of((18, 180), 5, true),
            Some(about.replace("about", "at most"))
        );
        let noted = line(
            (0, 9),
            seconds(30),
            ("9 searches", false),
            "bfq on 4 drives",
        );
        let text = "after 30 seconds the first of 9 searches is not done: bfq on 4 drives";
        assert_eq!(noted, Some(text.to_owned()));
    }
}
