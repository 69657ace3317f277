//! A bar on the terminal, and only there.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt;
use std::time::Duration;

/// A bar over a known time, in steps of a tenth of a second; on standard error if that is a terminal, else nowhere.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Where the part of the work begins that is under way.
    base: u64,
}

const TENTH: u128 = 100;

impl Progress {
    /// A bar that ends after `total`.
    pub(crate) fn new(total: Duration) -> Self {
        let bar = ProgressBar::with_draw_target(Some(tenths(total)), ProgressDrawTarget::stderr());
        let style =
            ProgressStyle::with_template("{prefix:>10} [{bar:40}] {percent:>3}%  {msg}{left}");
        if let Ok(style) = style {
            let style = style.with_key(
                "left",
                |state: &ProgressState, text: &mut dyn fmt::Write| {
                    let all = state.len().unwrap_or_default();
                    if let Some(left) = left(state.elapsed(), state.pos(), all) {
                        // A bar that cannot be drawn is no reason to stop.
                        let _ = write!(text, ", {} s left", left.as_secs().max(1));
                    }
                },
            );
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar, base: 0 }
    }

    /// What is done from here on.
    pub(crate) fn name(&mut self, what: &str, note: &str) {
        self.bar.set_prefix(what.to_owned());
        self.bar.set_message(note.to_owned());
        self.bar.tick();
    }

    /// How much of the part under way has passed.
    pub(crate) fn set(&self, passed: Duration) {
        self.bar.set_position(self.base + tenths(passed));
    }

    /// The part under way, which was to take `planned`, is done.
    pub(crate) fn next(&mut self, planned: Duration) {
        self.base += tenths(planned);
        self.bar.set_position(self.base);
    }

    /// Takes the bar away.
    pub(crate) fn clear(self) {
        self.bar.finish_and_clear();
    }
}

/// How long it will take yet, going by what was done so far; `None` while that says too little.
fn left(elapsed: Duration, done: u64, all: u64) -> Option<Duration> {
    const ENOUGH: Duration = Duration::from_secs(1);
    if elapsed < ENOUGH || done == 0 || done >= all {
        return None;
    }
    let each = elapsed.as_secs_f64() / done as f64;
    Some(Duration::from_secs_f64(each * (all - done) as f64))
}

fn tenths(time: Duration) -> u64 {
    u64::try_from(time.as_millis() / TENTH).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_estimated_from_nothing() {
        let second = Duration::from_secs(1);
        assert_eq!(left(Duration::from_millis(20), 1, 100), None);
        assert_eq!(left(second * 5, 0, 100), None);
        assert_eq!(left(second * 5, 100, 100), None);
        assert_eq!(left(second * 5, 20, 100), Some(second * 20));
    }
}
