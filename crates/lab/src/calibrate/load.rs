//! The requests of one step.

use serde::{Deserialize, Serialize};

/// In which order the places come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// One behind the other, and again from the beginning of the area.
    Sequential,
    /// Each place with the same probability.
    Random,
}

/// A part of the drive, in bytes: multiples of the length of its requests are used, from its beginning on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    /// Its first byte.
    pub from: u64,
    /// The byte behind its last.
    pub to: u64,
}

/// Requests that are kept in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Load {
    /// Their order.
    pub pattern: Pattern,
    /// How many of a hundred are writes.
    pub writes: u8,
    /// The length of each in bytes: a multiple of 4096.
    pub length: u32,
    /// How many are in flight, at least 1.
    pub depth: u32,
    /// The most that are issued in a second; none where as many are issued as the drive takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
}

impl Area {
    /// How many requests of `length` bytes have a place of their own.
    pub fn places(self, length: u32) -> u64 {
        self.to.saturating_sub(self.from) / u64::from(length.max(1))
    }
}

impl Load {
    /// Reads at random places.
    pub const fn random(length: u32, depth: u32) -> Self {
        Self {
            pattern: Pattern::Random,
            writes: 0,
            length,
            depth,
            rate: None,
        }
    }

    /// Reads one behind the other.
    pub const fn sequential(length: u32, depth: u32) -> Self {
        Self {
            pattern: Pattern::Sequential,
            ..Self::random(length, depth)
        }
    }

    /// The same with this many writes of a hundred.
    pub const fn writing(self, writes: u8) -> Self {
        Self { writes, ..self }
    }
}
