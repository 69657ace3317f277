//! What lies between clients and the layer.

use weir_core::{Instant, Span};

pub use crate::key::Path;

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
