//! The reads, writes and flushes of one client, measured separately.

use crate::Histogram;
use weir_core::Op;

/// The kind of an operation, as records distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasuredKind {
    /// A read of data.
    Read,
    /// A write of data.
    Write,
    /// A flush of the write cache.
    Flush,
}

impl MeasuredKind {
    /// All kinds, in the order in which records list them.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Flush];

    /// Returns the kind of an operation, or `None` if operations like it are not measured
    /// separately.
    pub const fn of(op: Op) -> Option<Self> {
        match op {
            Op::Read => Some(Self::Read),
            Op::Write => Some(Self::Write),
            Op::Flush => Some(Self::Flush),
            Op::Discard | Op::WriteZeroes | Op::Extents => None,
        }
    }

    /// Returns the key of this kind in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::Write => "writes",
            Self::Flush => "flushes",
        }
    }
}

/// The measurements of one client's operations of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KindMeter {
    bytes: u64,
    latency: Histogram,
}

impl KindMeter {
    pub(crate) fn add(&mut self, latency_ns: u64, bytes: u64) {
        self.bytes += bytes;
        self.latency.record(latency_ns);
    }

    /// Returns the bytes that completed operations transferred.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the latency of completed operations.
    pub fn latency(&self) -> &Histogram {
        &self.latency
    }
}
