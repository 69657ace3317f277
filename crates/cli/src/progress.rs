//! How far a command is: a bar on a terminal, a forecast off it.

use crate::output;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A bar over a known amount of work, in steps of a tenth of a second; on standard error if that is a terminal. Else a line there says how
/// long it is going to take, once, if that is long.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    /// What is done, counted: `180 runs`.
    work: String,
    /// Where the part of the work begins that is running.
    base: u64,
    /// The line was said.
    forecast: AtomicBool,
}

const TENTH: u128 = 100;
/// From one drawing to the next where nothing happens.
const TICK: Duration = Duration::from_millis(250);
/// What takes less needs no forecast.
const LONG: Duration = Duration::from_secs(5);

impl Progress {
    /// A bar that ends after `total`, over `work` in words.
    pub(crate) fn new(total: Duration, work: String) -> Self {
        let bar = ProgressBar::with_draw_target(Some(tenths(total)), ProgressDrawTarget::stderr());
        let style =
            ProgressStyle::with_template("{prefix:>10} [{bar:40}] {percent:>3}%  {msg}{left}");
        if let Ok(style) = style {
            let left = |state: &ProgressState, text: &mut dyn Write| {
                let eta = left(state.fraction(), state.elapsed(), state.eta());
                let _ = eta.map_or(Ok(()), |eta| write!(text, ", {} left", HumanDuration(eta)));
            };
            bar.set_style(style.with_key("left", left).progress_chars("=> "));
        }
        // It shows that something is done also while nothing is finished.
        bar.enable_steady_tick(TICK);
        Self {
            bar,
            work,
            base: 0,
            forecast: AtomicBool::new(false),
        }
    }

    /// One that nobody sees.
    pub(crate) fn silent() -> Self {
        Self {
            bar: ProgressBar::hidden(),
            work: String::new(),
            base: 0,
            forecast: AtomicBool::new(true),
        }
    }

    /// What is done from here on.
    pub(crate) fn name(&mut self, what: &str, note: &str) {
        self.bar.set_prefix(what.to_owned());
        self.bar.set_message(note.to_owned());
        self.bar.tick();
    }

    /// There is less or more to be done than was thought. What was done so far is a fair sample of it, so that it can be said how long
    /// the rest takes.
    pub(crate) fn resize(&mut self, total: Duration, work: String) {
        self.bar.set_length(tenths(total));
        self.work = work;
        self.foretell();
    }

    /// How much of the part that is running has passed. It never goes back, in whatever order threads tell.
    pub(crate) fn set(&self, passed: Duration) {
        let position = self.base + tenths(passed);
        self.bar.set_position(position.max(self.bar.position()));
        if self.bar.elapsed() >= LONG {
            self.foretell();
        }
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

    /// Says once how long it takes, where there is no bar that does.
    fn foretell(&self) {
        if self.forecast.load(Ordering::Relaxed) || !self.bar.is_hidden() {
            return;
        }
        let all = self.bar.length().unwrap_or_default();
        if let Some(whole) = whole(self.bar.position(), all, self.bar.elapsed())
            && !self.forecast.swap(true, Ordering::Relaxed)
        {
            output::tell(&format!("about {} for {}", HumanDuration(whole), self.work));
        }
    }
}

/// How long `all` takes if `done` took `elapsed`, where that is long and there is something left.
fn whole(done: u64, all: u64, elapsed: Duration) -> Option<Duration> {
    let part = done as f64 / all as f64;
    let whole = (part > 0.0 && part < 1.0).then(|| elapsed.div_f64(part))?;
    (whole > LONG && whole.saturating_sub(elapsed) >= Duration::from_secs(1)).then_some(whole)
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
        assert_eq!(whole(18, 180, seconds(4)), Some(seconds(40)));
        assert_eq!(whole(0, 180, seconds(60)), None);
        assert_eq!(whole(60, 180, seconds(1)), None);
        assert_eq!(whole(90, 100, seconds(6)), None);
        assert_eq!(whole(180, 180, seconds(60)), None);
        assert_eq!(whole(0, 0, seconds(60)), None);
    }
}
