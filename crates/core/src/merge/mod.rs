//! Merging: adjacent requests are sent to the drive as one command, and each is completed on its
//! own.
//!
//! A request that has passed the limits is compared with the last command in the plug (the requests
//! of one stream in one call of [`Layer::submit`](crate::Layer::submit)), and then with the
//! commands in the elevator. As in Linux, the elevator selects the candidate. One request of a
//! command is its *leader*: it holds the scheduler tag, and the elevator and the drive refer to the
//! command by it. The others are its *members*. They hold nothing and wait for the leader.
//!
//! A command grows only while it waits. If one of its requests is cancelled or its stream is put on
//! hold before the command is dispatched, the command is separated: each of its requests waits on
//! its own again and is not merged any more. Linux has neither of these cases.

mod commands;
mod config;
mod ends;
mod join;

pub(crate) use commands::Commands;
pub use config::Config;

/// The side of a command on which another joins it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// The other begins where the command ends.
    Back,
    /// The other ends where the command begins.
    Front,
}

/// A command in the elevator that a request can join.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Join {
    /// The leader of the command.
    pub(crate) leader: u32,
    pub(crate) side: Side,
}
