//! A bar on the terminal, and only there.

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::time::Duration;

/// A bar over a known time, in steps of a tenth of a second; on standard error if that is a terminal, else nowhere.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Where the part of the work begins that is running.
    base: u64,
}

const TENTH: u128 = 100;
/// From one drawing to the next where nothing happens.
const TICK: Duration = Duration::from_millis(250);

impl Progress {
    /// A bar that ends after `total`.
    pub(crate) fn new(total: Duration) -> Self {
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
        Self { bar, base: 0 }
    }

    /// What is done from here on.
    pub(crate) fn name(&mut self, what: &str, note: &str) {
        self.bar.set_prefix(what.to_owned());
        self.bar.set_message(note.to_owned());
        self.bar.tick();
    }

    /// How much of the part that is running has passed. It never goes back, in whatever order threads tell.
    pub(crate) fn set(&self, passed: Duration) {
        let position = self.base + tenths(passed);
        self.bar.set_position(position.max(self.bar.position()));
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
}
