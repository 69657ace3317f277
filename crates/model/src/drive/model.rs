//! The trait that every drive model implements.

use core::fmt;
use weir_core::{Completion, Dispatch, DriveShape, Instant};

/// A drive as a state machine: commands go in, completions come out, exactly one for each command.
///
/// Calls carry `now`, which never goes back; a `now` before the last one counts as the last one. Completions have a total order:
/// by time, and completions of the same time by the order of submission.
pub trait Drive: fmt::Debug {
    /// Submits a command. Its tag must not be in flight.
    ///
    /// # Errors
    /// [`Busy`] if all tags of the command's queue are in flight. Nothing has changed; submit it again after a completion.
    fn submit(&mut self, now: Instant, command: &Dispatch) -> Result<(), Busy>;

    /// The time of the next completion if nothing else is submitted; `None` while the drive is idle. A later submission may end
    /// earlier, so ask again after each.
    fn next_completion(&self) -> Option<Instant>;

    /// Takes the next command that has ended by `now`, if any. Call it until it returns `None`.
    fn pop(&mut self, now: Instant) -> Option<Ended>;

    /// Commands in flight in the drive.
    fn in_flight(&self) -> u32;

    /// The drive's queues and limits, for the layer in front of it.
    fn shape(&self) -> DriveShape;
}

/// A completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// When the command ended, by the drive's clock: at or before the `now` of the [`Drive::pop`] that returned it.
    pub at: Instant,
    /// When the drive began to serve the command; before that the command waited in the drive's queue. Work that the drive does
    /// for several commands in parallel counts for each of them.
    pub began: Instant,
    /// Which command ended, and how: the argument of [`Layer::complete`](weir_core::Layer::complete).
    pub completion: Completion,
}

/// The queue is full; the submission changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the drive's queue is full")
    }
}

impl core::error::Error for Busy {}
