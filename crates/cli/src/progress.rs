//! A bar on the terminal, and only there.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
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
        let style = ProgressStyle::with_template(
            "{prefix:>10} [{bar:40}] {percent:>3}%  {msg}, {eta} left",
        );
        if let Ok(style) = style {
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

fn tenths(time: Duration) -> u64 {
    u64::try_from(time.as_millis() / TENTH).unwrap_or(u64::MAX)
}
