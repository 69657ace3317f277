//! A drive and what was found of it so far.

use crate::calibrate::found::Found;
use crate::calibrate::plan::step;
use serde::{Deserialize, Serialize};

/// Sizes and depths beyond these there are none.
const SIZE_MAX: u64 = 1 << 62;
pub(crate) const DEPTH_MAX: u32 = 1 << 16;

/// Random reads of 4 KiB a second beyond which a drive is not a rotating disk. A disk with 15,000 revolutions a minute and 32 requests in
/// flight does about 600, an array of eight such disks less than 5,000.
const DISK_MOST: f64 = 5_000.0;
/// The mean time in microseconds that a random read takes on a rotating disk at least, one at a time. Half a revolution at 15,000 a
/// minute takes 2,000.
const DISK_ACCESS_US: f64 = 1_500.0;

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
    /// Whether the kernel, or the server of an export, states that it is a rotating disk. [`Calibration::rotates`] is what results from
    /// the measurement.
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
            return Some("the target has impossible properties".to_owned());
        }
        let wrong = self.steps.iter().find(|found| !found.is_possible())?;
        Some(format!("{} is not a possible result", wrong.name))
    }

    /// Whether the drive is a rotating disk: as the kernel states it, unless the measured random reads are faster than those of any disk.
    pub fn rotates(&self) -> bool {
        let rate = self.step(step::READ_RANDOM).map(Found::requests_per_second);
        let access = self.step(step::READ_ONE).and_then(|found| found.latency_us);
        let fast = rate.is_some_and(|rate| rate > DISK_MOST);
        let near = access.is_some_and(|access| access.mean < DISK_ACCESS_US);
        self.target.rotational && !fast && !near
    }

    /// What a step found.
    pub fn step(&self, name: &str) -> Option<&Found> {
        self.steps.iter().find(|found| found.name == name)
    }
}
