//! The path between the clients and the layer, and the machine of the server on it.

use weir_core::{Instant, Span};

pub use crate::key::Path;

impl Path {
    /// The path of clients that call the layer directly.
    pub const DIRECT: Self = Self {
        latency: Span::ZERO,
        turn: Span::ZERO,
        processor: Span::ZERO,
    };
}

/// The disturbances of the server's thread by its machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Machine {
    /// The delays until the sleeping thread notices a completion of the drive or a due timer. They
    /// are used one after the other, and from the beginning again after the last one. Without
    /// delays, the thread is never late.
    pub late: Vec<Span>,
    /// The periods without a CPU for the thread, in order and without overlap.
    pub stalls: Vec<CpuStall>,
}

/// A period without a CPU for the server's thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuStall {
    /// The beginning of the period.
    pub at: Instant,
    /// The length of the period.
    pub length: Span,
}
