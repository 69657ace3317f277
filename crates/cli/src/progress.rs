//! How far a command is: a bar on a terminal, a forecast off it.

use crate::output;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A bar over an amount of work, in steps of a tenth of a second; on standard error if that is a terminal. Otherwise a line there states how much is
/// left, once that is known and long, and again every half minute.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    /// What is done, counted: `180 runs`.
    work: String,
    /// The amount of work is a bound: there may be less to do.
    bound: Arc<AtomicBool>,
    /// Where the part of the work begins that is running.
    base: u64,
    /// When the next line is printed, in milliseconds from the start.
    due: AtomicU64,
}

const TENTH: u128 = 100;
/// From one drawing to the next where nothing happens.
const TICK: Duration = Duration::from_millis(250);
/// What takes less needs no forecast.
const LONG: Duration = Duration::from_secs(5);
/// From one line to the next where there is no terminal, in milliseconds.
const BETWEEN: u64 = 30_000;

impl Progress {
    /// A bar that ends after `total`, over `work` in words.
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
        // It shows that something is done also while nothing is finished.
        bar.enable_steady_tick(TICK);
        Self {
            bar,
            work,
            bound,
            base: 0,
            due: AtomicU64::new(LONG.as_millis() as u64),
        }
    }

    /// The amount of work is a bound until it is known better ([`Self::resize`]).
    pub(crate) fn at_most(self) -> Self {
        self.bound.store(true, Ordering::Relaxed);
        self
    }

    /// One that nobody sees.
    pub(crate) fn silent() -> Self {
        Self {
            bar: ProgressBar::hidden(),
            work: String::new(),
            bound: Arc::default(),
            base: 0,
            due: AtomicU64::new(u64::MAX),
        }
    }

    /// What is done from here on.
    pub(crate) fn name(&mut self, what: &str, note: &str) {
        self.bar.set_prefix(what.to_owned());
        self.bar.set_message(note.to_owned());
        self.bar.tick();
    }

    /// Says what is being done, from any thread.
    pub(crate) fn note(&self, note: String) {
        if self.bar.is_hidden() {
            self.foretell(&note);
        } else {
            self.bar.set_message(note);
        }
    }

    /// There is less or more to be done than was thought. What was done so far is a fair sample of the work, so the time that the rest takes
    /// follows from it.
    pub(crate) fn resize(&mut self, total: Duration, work: String) {
        self.bar.set_length(tenths(total));
        self.work = work;
        if self.bound.swap(false, Ordering::Relaxed) {
            // What was printed before was a bound.
            self.due.fetch_min(0, Ordering::Relaxed);
        }
        self.foretell("");
    }

    /// As [`Self::resize`], where the rest is only estimated: the bound stays one.
    pub(crate) fn estimate(&self, total: Duration) {
        self.bar.set_length(tenths(total));
    }

    /// How much of the part that is running has passed. It never goes back, in whatever order threads tell.
    pub(crate) fn set(&self, passed: Duration) {
        let position = self.base + tenths(passed);
        self.bar.set_position(position.max(self.bar.position()));
        self.foretell("");
    }

    /// The part that was running, which was to take `planned`, is done.
    pub(crate) fn next(&mut self, planned: Duration) {
        self.base += tenths(planned);
        self.bar.set_position(self.base);
    }

    /// Takes the bar away.
    pub(crate) fn clear(self) {
        self.bar.finish_and_clear();
    }

    /// Prints a line where there is no bar, if one is due.
    fn foretell(&self, note: &str) {
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
        // One of several threads prints the line.
        let next = now.saturating_add(BETWEEN);
        let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
        if self.due.compare_exchange(due, next, set, read).is_ok() {
            output::tell(&line);
        }
    }
}

/// Returns the line about work of which `done` of `all` took `elapsed`: how long the rest takes at the speed so far. `None`: the whole is short, or
/// almost done. `bound`: there may be less to do.
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

/// How long the rest of `all` takes if `done` took `elapsed`, where the whole is long and there is something left.
fn rest(done: u64, all: u64, elapsed: Duration) -> Option<Duration> {
    let part = done as f64 / all as f64;
    let whole = (part > 0.0 && part < 1.0).then(|| elapsed.div_f64(part))?;
    let rest = whole.saturating_sub(elapsed);
    (whole > LONG && rest >= Duration::from_secs(1)).then_some(rest)
}

/// What is left, once enough has been done to tell.
fn left(done: f32, elapsed: Duration, eta: Duration) -> Option<Duration> {
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
    fn nothing_is_estimated_from_nothing() {
        let seconds = Duration::from_secs;
        assert_eq!(left(0.0, seconds(60), seconds(9)), None);
        assert_eq!(left(0.5, Duration::from_millis(100), seconds(9)), None);
        assert_eq!(left(0.5, seconds(9), seconds(9)), Some(seconds(9)));
        assert_eq!(left(1.0, seconds(9), seconds(9)), None);
        assert_eq!(left(0.7, seconds(9), seconds(0)), None);
    }

    #[test]
    fn what_is_short_or_almost_over_is_not_foretold() {
        let seconds = Duration::from_secs;
        assert_eq!(rest(18, 180, seconds(4)), Some(seconds(36)));
        assert_eq!(rest(0, 180, seconds(60)), None);
        assert_eq!(rest(60, 180, seconds(1)), None);
        assert_eq!(rest(90, 100, seconds(6)), None);
        assert_eq!(rest(180, 180, seconds(60)), None);
        assert_eq!(rest(0, 0, seconds(60)), None);
    }

    #[test]
    fn a_line_says_what_is_left_and_whether_it_is_a_bound() {
        let seconds = Duration::from_secs;
        let of = |done, elapsed, bound| line(done, seconds(elapsed), ("180 runs", bound), "");
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
