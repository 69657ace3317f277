//! What was changed of a host, with what is needed to put it back.

use crate::device::Device;
use serde::{Deserialize, Serialize};

/// A device as it is found again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ident {
    /// The path by which it was named.
    pub link: String,
    /// What it was called in `/sys/block`.
    pub name: String,
    /// Its number.
    pub number: String,
    /// The number of its life, where the kernel has one.
    pub diskseq: Option<u64>,
}

impl Ident {
    /// How a device is found again that was named by this path.
    pub fn of(link: &str, device: &Device) -> Self {
        Self {
            link: link.to_owned(),
            name: device.name.clone(),
            number: device.number.clone(),
            diskseq: device.diskseq,
        }
    }
}

/// A value that a change of another takes along.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Also {
    /// Its file.
    pub file: String,
    /// The value that it had.
    pub old: String,
}

/// What was changed, with what is needed to put it back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A knob of a device.
    Set {
        /// Its file.
        file: String,
        /// The knob's name.
        knob: String,
        /// The value that it had, in the kernel's form.
        old: String,
        /// The value that it was to have.
        new: String,
        /// What the kernel resets with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        also: Vec<Also>,
    },
    /// A cgroup was made, or a directory for systemd.
    Make {
        /// Its directory.
        folder: String,
    },
    /// The controller `io` was switched on below the cgroup of this directory.
    Enable {
        /// Its directory.
        folder: String,
    },
    /// A file of systemd was written.
    Unit {
        /// The file.
        file: String,
        /// What it said; `None`: it was not there.
        old: Option<String>,
        /// What it says.
        new: String,
    },
}

impl Change {
    /// The file or directory that it is about.
    pub fn path(&self) -> &str {
        match self {
            Self::Set { file, .. } | Self::Unit { file, .. } => file,
            Self::Make { folder } | Self::Enable { folder } => folder,
        }
    }
}

/// A change with what became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its number, from 0.
    pub id: u64,
    /// The boot in which it was made.
    pub boot: String,
    /// The device that it is about.
    pub device: Option<Ident>,
    /// What was changed.
    pub change: Change,
    /// What was read back after it; `None`: nobody came to read.
    pub now: Option<String>,
    /// Putting it back has begun.
    pub undoing: bool,
}
