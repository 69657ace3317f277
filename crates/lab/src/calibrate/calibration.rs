//! The calibration of a drive: its target and the results of all steps so far.

use crate::calibrate::found::StepResult;
use crate::calibrate::plan::step;
use serde::{Deserialize, Serialize};

/// Upper bounds of sizes in bytes, and of depths. A state file with larger values was not written
/// by a calibration.
const SIZE_MAX: u64 = 1 << 62;
pub(crate) const DEPTH_MAX: u32 = 1 << 16;

/// The largest rate of random 4 KiB reads per second of a rotating disk. A disk with 15,000
/// revolutions per minute and 32 requests in flight reaches about 600, and an array of eight such
/// disks less than 5,000.
const DISK_MOST: f64 = 5_000.0;
/// The shortest mean time in microseconds of a random read on a rotating disk, with one at a time.
/// Half a revolution at 15,000 per minute takes 2,000.
const DISK_ACCESS_US: f64 = 1_500.0;

/// The drive, file or export that is measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CalibrationTarget {
    /// The path of the target, or the URI of an export.
    pub path: String,
    /// The size of the target in bytes.
    pub size: u64,
    /// The number of the device that contains the target, for example `259:0`. `None` for an
    /// export.
    pub device: Option<String>,
    /// The maximum number of requests in flight.
    pub depth: u32,
    /// True if the kernel, or the server of an export, reports a rotating disk.
    /// [`Calibration::is_rotating`] also takes the measurement into account.
    pub rotational: bool,
    /// True if measurements may write to the target.
    pub write: bool,
    /// True if the target supports flushes.
    pub flush: bool,
    /// True if only written data is read. Reads of data that was never written do not reach the
    /// drive's medium.
    pub sparse: bool,
}

/// The results of a target so far, which are the contents of the state file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// The version of the file's format.
    pub weir_calibration: u32,
    /// The drive, file or export that is measured.
    pub target: CalibrationTarget,
    /// The number of bytes from the beginning of the target that measurements have written.
    pub written: u64,
    /// The result of each step, in the order of their ends.
    pub steps: Vec<StepResult>,
}

impl Calibration {
    /// The version of the format that this program reads and writes.
    pub const VERSION: u32 = 1;

    /// Creates a calibration without results.
    pub fn new(target: CalibrationTarget) -> Self {
        Self {
            weir_calibration: Self::VERSION,
            target,
            written: 0,
            steps: Vec::new(),
        }
    }

    /// Returns a description of a value that no measurement produces, which shows that the file was
    /// written by something else. Returns `None` if all values are possible.
    pub fn invalid_value(&self) -> Option<String> {
        if self.target.size > SIZE_MAX || !(1..=DEPTH_MAX).contains(&self.target.depth) {
            return Some("the target has impossible properties".to_owned());
        }
        let wrong = self.steps.iter().find(|found| !found.is_possible())?;
        Some(format!("{} is not a possible result", wrong.name))
    }

    /// Returns true if the drive is a rotating disk. It is one if the kernel reports it, unless the
    /// measured random reads are faster than those of any disk.
    pub fn is_rotating(&self) -> bool {
        let rate = self
            .step(step::READ_RANDOM)
            .map(StepResult::requests_per_second);
        let access = self.step(step::READ_ONE).and_then(|found| found.latency_us);
        let fast = rate.is_some_and(|rate| rate > DISK_MOST);
        let near = access.is_some_and(|access| access.mean < DISK_ACCESS_US);
        self.target.rotational && !fast && !near
    }

    /// Returns the result of a step, if it was measured.
    pub fn step(&self, name: &str) -> Option<&StepResult> {
        self.steps.iter().find(|found| found.name == name)
    }
}
