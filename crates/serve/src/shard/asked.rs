//! Pieces that remote servers have, and the time that such servers usually take.

use weir_core::{Instant, Op, Span};

/// A remote server is treated as hanging if a request has taken longer than this time, and longer
/// than [`LATE_FACTOR`] times the usual time.
const LATE: Span = Span::from_secs(1);
/// The factor of the usual response time that makes a request late.
const LATE_FACTOR: u64 = 4;
/// The limit for a flush, which may have to make everything durable that was written before it.
const FLUSH_LATE: Span = Span::from_secs(10);

/// A piece that a remote server has not answered yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemotePiece {
    pub(super) at: Instant,
    /// True if the piece was late, so that the core no longer counts it as in the drive.
    pub(super) stalled: bool,
}

/// The response times of a remote server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResponseTimes {
    /// The average response time. A response that took longer than [`LATE`] counts as [`LATE`].
    usual: Span,
    /// True if the server hangs and has not answered since that was noticed. Further requests then
    /// count as late immediately.
    pub(super) silent: bool,
    /// The earliest time of the next log line about a hang.
    pub(super) quiet_until: Instant,
}

impl ResponseTimes {
    /// Records a request that was answered after the time `took`.
    pub(super) fn observe(&mut self, took: Span) {
        // One hang must not raise the average so far that the next one is noticed late.
        let (usual, took) = (self.usual.as_nanos(), took.min(LATE).as_nanos());
        // An exponential average with a weight of 1/8 for the new value.
        self.usual = Span::from_nanos(usual - usual / 8 + took / 8);
    }

    /// Returns the time after which a request counts as late.
    pub(super) fn time_limit(&self, op: Op) -> Span {
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
