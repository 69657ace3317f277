//! Reads, writes and flushes of one client, each for itself.

use crate::Histogram;
use weir_core::Op;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It flushes.
    Flush,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Flush];

    /// The kind of an operation, if operations like it are measured apart.
    pub const fn of(op: Op) -> Option<Self> {
        match op {
            Op::Read => Some(Self::Read),
            Op::Write => Some(Self::Write),
            Op::Flush => Some(Self::Flush),
            Op::Discard | Op::WriteZeroes | Op::Extents => None,
        }
    }

    /// Operations of this kind, in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::Write => "writes",
            Self::Flush => "flushes",
        }
    }
}

/// The operations of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Apart {
    bytes: u64,
    latency: Histogram,
}

impl Apart {
    pub(crate) fn add(&mut self, latency_ns: u64, bytes: u64) {
        self.bytes += bytes;
        self.latency.record(latency_ns);
    }

    /// Bytes moved by those that were answered.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Their latency.
    pub fn latency(&self) -> &Histogram {
        &self.latency
    }
}
