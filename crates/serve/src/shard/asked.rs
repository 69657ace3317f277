//! What is kept of a piece that a remote server has, and of how long such servers take.

use weir_core::{Instant, Op, Span};

/// A server hangs that has not answered a request for this time, and for four times as long as it
/// usually takes.
const LATE: Span = Span::from_secs(1);
const LATE_FACTOR: u64 = 4;
/// A flush may take as long as everything that was written before.
const FLUSH_LATE: Span = Span::from_secs(10);

/// A piece that a remote server has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) at: Instant,
    /// It was late, and the core does without it.
    pub(super) stalled: bool,
}

/// How long a remote server takes to answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    /// On average; what takes longer than [`LATE`] counts as that.
    usual: Span,
    /// It hangs, and has answered nothing since that was seen: the next request is not waited for.
    pub(super) silent: bool,
    /// The time before which it is not logged again that it hangs.
    pub(super) quiet_until: Instant,
}

impl Answers {
    /// A request was answered after that time.
    pub(super) fn observe(&mut self, took: Span) {
        let (usual, took) = (self.usual.as_nanos(), took.min(LATE).as_nanos());
        self.usual = Span::from_nanos(usual - usual / 8 + took / 8);
    }

    /// How long a request may take.
    pub(super) fn longest(&self, op: Op) -> Span {
        if self.silent {
            return Span::ZERO;
        }
        let longest = LATE.max(self.usual.saturating_mul(LATE_FACTOR));
        match op {
            Op::Flush => longest.max(FLUSH_LATE),
            _ => longest,
        }
    }
}
