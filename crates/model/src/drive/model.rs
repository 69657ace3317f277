//! The trait that every drive model implements.

use core::fmt;
use weir_core::{Completion, Dispatch, DriveShape, Instant};

/// A drive as a state machine, with exactly one completion for each command.
///
/// Calls carry `now`, which never decreases. A `now` before the latest one counts as the latest.
/// Completions have a total order: by time, and completions of the same time by the order of
/// submission.
pub trait DriveModel: fmt::Debug {
    /// Submits a command, whose tag must not be in flight.
    ///
    /// # Errors
    /// [`QueueFull`] if all tags of the command's queue are in flight. The drive has not changed,
    /// and the command can be submitted again after a completion.
    fn submit(&mut self, now: Instant, command: &Dispatch) -> Result<(), QueueFull>;

    /// The time of the next completion or internal event if nothing else is submitted, or `None`
    /// while the drive is idle. After an internal event, [`Self::pop`] can return `None`.
    ///
    /// A later submission may end earlier, so the caller must query the time again after each.
    fn next_completion(&self) -> Option<Instant>;

    /// Removes the next command that has ended by `now`, if any. Call it until it returns `None`.
    fn pop(&mut self, now: Instant) -> Option<TimedCompletion>;

    /// The number of commands in flight in the drive.
    fn in_flight(&self) -> u32;

    /// The drive's queues and limits, for the layer in front of it.
    fn shape(&self) -> DriveShape;
}

/// A completion with the times of its command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimedCompletion {
    /// The time at which the command ended, by the drive's clock. It is not later than the `now` of
    /// the [`DriveModel::pop`] that returned it.
    pub at: Instant,
    /// The time at which the drive began to serve the command. Before that, the command waited in
    /// the drive's queue.
    ///
    /// Work that the drive does for several commands in parallel counts for each of them.
    pub began: Instant,
    /// The command that ended and its result: the argument of
    /// [`Layer::complete`](weir_core::Layer::complete).
    pub completion: Completion,
}

/// The error of a submission to a full queue, which changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueFull;

impl fmt::Display for QueueFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the drive's queue is full")
    }
}

impl core::error::Error for QueueFull {}
