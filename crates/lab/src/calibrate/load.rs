//! The requests of a calibration step.

use serde::{Deserialize, Serialize};

/// The order of the positions of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadPattern {
    /// One after the other, and again from the beginning of the area.
    Sequential,
    /// Each position with the same probability.
    Random,
}

/// A part of the drive, in bytes. Requests are at multiples of their length from its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    /// The first byte of the area.
    pub from: u64,
    /// The byte after the last one.
    pub to: u64,
}

/// A closed loop of requests that keeps a number of them in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepLoad {
    /// The order of the requests.
    pub pattern: LoadPattern,
    /// The percentage of writes among the requests.
    pub writes: u8,
    /// The length of each request in bytes, a multiple of 4096.
    pub length: u32,
    /// The number of requests in flight, at least 1.
    pub depth: u32,
    /// The maximum number of requests per second. `None` issues as many as the drive takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
}

impl Area {
    /// Returns the number of requests of `length` bytes that do not overlap.
    pub fn places(self, length: u32) -> u64 {
        self.to.saturating_sub(self.from) / u64::from(length.max(1))
    }
}

impl StepLoad {
    /// Returns random reads of this length and depth.
    pub const fn random(length: u32, depth: u32) -> Self {
        Self {
            pattern: LoadPattern::Random,
            writes: 0,
            length,
            depth,
            rate: None,
        }
    }

    /// Returns sequential reads of this length and depth.
    pub const fn sequential(length: u32, depth: u32) -> Self {
        Self {
            pattern: LoadPattern::Sequential,
            ..Self::random(length, depth)
        }
    }

    /// Returns the load with this percentage of writes.
    pub const fn writing(self, writes: u8) -> Self {
        Self { writes, ..self }
    }
}
