//! A change of a host, with the values that are needed to undo it.

use crate::device::HostDevice;
use serde::{Deserialize, Serialize};

/// The identity of a device, by which it is found again later.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ident {
    /// The path by which the user named the device.
    pub link: String,
    /// The device's name in `/sys/block` at the time of the change.
    pub name: String,
    /// The device's number at the time of the change, for example `8:16`.
    pub number: String,
    /// The sequence number of the device, if the kernel has one. No other device of the same boot
    /// has it.
    pub diskseq: Option<u64>,
}

impl Ident {
    /// Returns the identity of a device that was named by this path.
    pub fn of(link: &str, device: &HostDevice) -> Self {
        Self {
            link: link.to_owned(),
            name: device.name.clone(),
            number: device.number.clone(),
            diskseq: device.diskseq,
        }
    }
}

/// A value that the kernel resets as a side effect of a change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SideEffect {
    /// The file that has the value.
    pub file: String,
    /// The value before the change.
    pub old: String,
}

/// A change of a host, with the values that are needed to undo it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
// The names are part of the journal's format.
#[serde(rename_all = "snake_case")]
pub enum HostChange {
    /// A knob of a device was set.
    Set {
        /// The file of the knob.
        file: String,
        /// The knob's name.
        knob: String,
        /// The value before the change, in the kernel's form.
        old: String,
        /// The value that was to be set.
        new: String,
        /// Other values that the kernel resets with this one, for example the tunables of an
        /// elevator.
        // Most knobs have no side effects.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        also: Vec<SideEffect>,
    },
    /// A cgroup, or a directory for systemd's files, was made.
    Make {
        /// The directory that was made.
        folder: String,
    },
    /// The controller `io` was enabled for the cgroups below a directory.
    Enable {
        /// The directory of the parent cgroup.
        folder: String,
    },
    /// A file of systemd was written, for example a drop-in of a unit.
    Unit {
        /// The path of the file.
        file: String,
        /// The earlier content, or `None` if the file did not exist.
        old: Option<String>,
        /// The new content of the file.
        new: String,
    },
}

impl HostChange {
    /// Returns the file or directory that was changed.
    pub fn path(&self) -> &str {
        match self {
            Self::Set { file, .. } | Self::Unit { file, .. } => file,
            Self::Make { folder } | Self::Enable { folder } => folder,
        }
    }
}

/// A change in the journal, with its present state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalEntry {
    /// The number of the change, counted from 0.
    pub id: u64,
    /// The boot in which the change was made.
    pub boot: String,
    /// The device that the change concerns, if any.
    pub device: Option<Ident>,
    /// The change itself, with the values before it.
    pub change: HostChange,
    /// The value of a knob that was read back afterwards. `None` for other changes, and if the
    /// process ended before it could read the value.
    pub now: Option<String>,
    /// True if the change is being undone, or has been undone in part.
    pub undoing: bool,
}
