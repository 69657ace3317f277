//! Merging: neighbouring requests go to the drive as one command, and each is answered on its own.
//!
//! A request that is past the limits is tried with the last one in the plug (what one call of
//! [`Layer::submit`](crate::Layer::submit) brings of one stream), then with what waits in the elevator: there the elevator says
//! which, as in Linux. Of the requests of a command one is the *leader*: it holds the scheduler tag, and the elevator and the drive
//! know the command by it. The others are its *members*; they hold nothing and wait for it.
//!
//! A command is made larger only while it waits. Where a request of it is given up or its stream is put on hold before the drive
//! has it, the command is taken apart: each of the others waits for itself again and merges with nothing any more. (In Linux there
//! is neither.)

mod commands;
mod config;
mod ends;
mod join;

pub(crate) use commands::Commands;
pub use config::Config;

/// On which side of a command a request joins it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// It begins where the command ends.
    Back,
    /// It ends where the command begins.
    Front,
}

/// A command that waits in the elevator and that a request may join.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Join {
    /// Its leader.
    pub(crate) leader: u32,
    pub(crate) side: Side,
}
