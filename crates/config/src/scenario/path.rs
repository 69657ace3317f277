//! What lies between clients and the layer.

use weir_core::{Instant, Span};

/// The way from a client to the server and back, and the server's one thread on it.
///
/// The thread lives in turns, as the live server's does: a turn takes everything in that is there when it begins, shows it to the
/// layer as of that instant, and its answers leave when it ends; what comes meanwhile waits for the next turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Path {
    /// From the client to the server, and as long back.
    pub latency: Span,
    /// Time of a turn, whatever it does.
    pub turn: Span,
    /// Time that each request adds to turns: half of it to the one in which it comes, half to the one in which it is answered.
    pub processor: Span,
}

impl Path {
    /// No way at all: clients call the layer.
    pub const DIRECT: Self = Self {
        latency: Span::ZERO,
        turn: Span::ZERO,
        processor: Span::ZERO,
    };
}

/// What the machine does to the server's thread.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Machine {
    /// How late the thread is, when it sleeps, to notice that the drive has ended something or that a timer is due: this time after
    /// time, from the beginning again when they are used up. Never, if there are none.
    pub late: Vec<Span>,
    /// When it gets no processor: in order, one after the other.
    pub stalls: Vec<Stall>,
}

/// A time in which the server's thread gets no processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stall {
    /// When it begins.
    pub at: Instant,
    /// How long it is.
    pub length: Span,
}
