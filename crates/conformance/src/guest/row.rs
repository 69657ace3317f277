//! What is played: rows, and the jobs and policies that they name.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use weir_drive::Config;

/// Where each client's part of the drive begins after the one before it, GiB.
pub const APART_GIB: u32 = 2;

/// Where the target's part begins, GiB: behind those of all others.
pub const TARGET_GIB: u32 = 40;

/// Bytes of a client's part. What writers write is kept in the guest's memory.
pub const PART: &str = "128MiB";

/// The part of the target, which no cache of a drive holds.
pub const TARGET_PART: &str = "2000MiB";

/// Milliseconds from the beginning of the clients to that of the measurement.
pub const WARM_UP_MS: u32 = 500;

/// The file of rows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// How policies are set up, by the name of Weir's policy.
    pub policy: BTreeMap<String, Setting>,
    /// What runs beside the target.
    pub job: BTreeMap<String, Job>,
    /// What is played, in the order of the page.
    pub row: Vec<Row>,
}

/// How a policy is set up on both sides.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Setting {
    /// Each client is in a group: the target of weight 300, the others of weight 100 each.
    pub weights: bool,
    /// The target is of the realtime class.
    pub realtime: bool,
    /// MB/s that each of the others may read, and write, at most; 0: no bound.
    pub limit_mb: u32,
    /// `io.cost.qos` on flash; on a disk io.cost sets it by itself.
    pub qos: Option<String>,
    /// BFQ's `low_latency`, if not its default. Weir's policy has it as stated here.
    pub low_latency: Option<u8>,
}

impl Setting {
    /// Whether each client has a group of its own.
    pub fn has_groups(&self) -> bool {
        self.weights || self.limit_mb > 0
    }

    /// What `io.cost.qos` is told on a drive.
    pub fn qos(&self, drive: &Config) -> Option<&str> {
        self.qos.as_deref().filter(|_| !drive.shape().rotational)
    }
}

/// Clients beside the target, which go past the page cache. Words are fio's and scenarios'.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Number of clients.
    pub numjobs: u32,
    /// What they do.
    pub rw: String,
    /// KiB of a request.
    pub bs_kib: u32,
    /// Requests of each at a time.
    pub iodepth: u32,
}

/// One run on each side.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// A drive of Weir's.
    pub drive: String,
    /// Weir's policy; Linux is set up like it.
    pub policy: String,
    /// What runs beside the target.
    pub job: String,
    /// Seconds for which the drive is read in sequence before, so that a policy has learned of it.
    #[serde(default)]
    pub run_in: u32,
    /// Seconds measured.
    pub seconds: u32,
    /// Why the two sides differ, where they do.
    #[serde(default)]
    pub why: String,
}

impl Row {
    /// Its name in the file of Linux's figures.
    pub fn name(&self) -> String {
        format!("{}: {}: {}", self.drive, self.policy, self.job)
    }
}

impl Rows {
    /// Reads the file.
    ///
    /// # Errors
    /// What is wrong with it; a row names a job or a policy that is not there.
    pub fn read(file: &Path) -> Result<Self, String> {
        let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
        let text = fs::read_to_string(file).map_err(|e| wrong(&e))?;
        let rows: Self = toml::from_str(&text).map_err(|e| wrong(&e))?;
        for row in &rows.row {
            if !rows.job.contains_key(&row.job) || !rows.policy.contains_key(&row.policy) {
                return Err(wrong(&format!("{}: no such job or policy", row.name())));
            }
        }
        Ok(rows)
    }
}
