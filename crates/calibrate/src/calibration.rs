//! A drive and what was found of it so far.

use crate::found::Found;
use serde::{Deserialize, Serialize};

/// Sizes and depths beyond these there are none.
const SIZE_MAX: u64 = 1 << 62;
pub(crate) const DEPTH_MAX: u32 = 1 << 16;

/// What is measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Target {
    /// Its path, or the URI of an export.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// The number of the device that it is or lies on, as `259:0`; `None` of an export.
    pub device: Option<String>,
    /// The most requests in flight.
    pub depth: u32,
    /// Whether it is a disk that turns.
    pub rotational: bool,
    /// Whether it is written to.
    pub write: bool,
    /// Whether it takes flushes.
    pub flush: bool,
    /// Whether only what was written before is read: what was never written is read without the drive's medium.
    pub sparse: bool,
}

/// What was found of a target so far: the contents of the state file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// The version of this form.
    pub weir_calibration: u32,
    /// What is measured.
    pub target: Target,
    /// Bytes from the beginning on that were written by measurements.
    pub written: u64,
    /// What each step found, in the order of their ends.
    pub steps: Vec<Found>,
}

impl Calibration {
    /// The version that this program reads and writes.
    pub const VERSION: u32 = 1;

    /// Nothing was found so far.
    pub fn new(target: Target) -> Self {
        Self {
            weir_calibration: Self::VERSION,
            target,
            written: 0,
            steps: Vec::new(),
        }
    }

    /// What no measurement finds: it was written by something else. `None` if everything can have been found.
    pub fn nonsense(&self) -> Option<String> {
        if self.target.size > SIZE_MAX || !(1..=DEPTH_MAX).contains(&self.target.depth) {
            return Some("there is no such target".to_owned());
        }
        let wrong = self.steps.iter().find(|found| !found.is_possible())?;
        Some(format!("{} cannot have been found", wrong.name))
    }

    /// What a step found.
    pub fn step(&self, name: &str) -> Option<&Found> {
        self.steps.iter().find(|found| found.name == name)
    }
}
