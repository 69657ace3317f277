//! What every drive model can do.

use core::fmt;
use weir_core::{Completion, Dispatch, DriveShape, Instant};

/// A drive as a state machine: commands in, completions out, one of each for every tag.
///
/// Calls carry `now`, which never goes back; a `now` before the last one counts as the last one. Completions have a total order:
/// by their time, and among equal times by the order of submission.
pub trait Drive: fmt::Debug {
    /// A command arrives. Its tag must not be in flight.
    ///
    /// # Errors
    /// The command's queue holds as many commands as it has tags. Nothing was done; submit it again after a completion.
    fn submit(&mut self, now: Instant, command: &Dispatch) -> Result<(), Busy>;

    /// When [`Self::pop`] has something to give if nothing else arrives; `None` while the drive is empty. A later submission may
    /// end earlier: ask again after each.
    fn next_completion(&self) -> Option<Instant>;

    /// The next command that has ended by `now`, if any. Call until it gives nothing.
    fn pop(&mut self, now: Instant) -> Option<Ended>;

    /// Commands in the drive.
    fn in_flight(&self) -> u32;

    /// Its queues and what it can do, for the layer in front of it.
    fn shape(&self) -> DriveShape;
}

/// A command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// When, on the drive's own account: at or before the `now` of the [`Drive::pop`] that gave it.
    pub at: Instant,
    /// When the drive began to work on it: before that it waited in the drive for others. What the drive then does for several
    /// commands side by side counts for each of them.
    pub began: Instant,
    /// Which, and how: what [`Layer::complete`](weir_core::Layer::complete) takes.
    pub completion: Completion,
}

/// The queue is full; nothing was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the drive's queue is full")
    }
}

impl core::error::Error for Busy {}
