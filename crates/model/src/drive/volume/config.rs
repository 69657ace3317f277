//! Parameters of a volume over several drives.

use super::{Layout, Volume};
use weir_core::rule::{self, Broken};
use weir_core::{Capacity, DriveShape, rules};

/// Maximum number of drives in a volume, including those of its members.
const DRIVES_MAX: u64 = 64;
/// LVM's default.
const CHUNK: u64 = 64 << 10;

/// Parameters of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// How the volume is laid out over its members.
    pub layout: Layout,
    /// The drives: 1 to 64, including those of members that are volumes themselves. All but the last one of a linear volume need
    /// a size; of each member of a stripe, only as much as the smallest has is used.
    pub members: Vec<crate::drive::Config>,
}

impl Config {
    /// Striped in chunks of 64 KiB, as LVM's `lvcreate --stripes` does it.
    pub fn stripe(members: Vec<crate::drive::Config>) -> Self {
        Self {
            layout: Layout::Stripe { chunk: CHUNK },
            members,
        }
    }

    /// Concatenated.
    pub fn linear(members: Vec<crate::drive::Config>) -> Self {
        Self {
            layout: Layout::Linear,
            members,
        }
    }

    /// Checks every parameter.
    ///
    /// # Errors
    /// The first parameter of a member, or of the volume itself, outside the range that its documentation states.
    pub fn validate(&self) -> Result<(), Broken> {
        self.members
            .iter()
            .try_for_each(crate::drive::Config::validate)?;
        let drives = self.drives();
        let smallest = self
            .members
            .iter()
            .filter_map(crate::drive::Config::size)
            .min();
        let but_last = self.members.split_last().map_or(&[][..], |m| m.1);
        let unknown = but_last.iter().position(|m| m.size().is_none());
        let chunk = match self.layout {
            Layout::Stripe { chunk } => chunk,
            // A linear volume has no chunk.
            Layout::Linear => 4096,
        };
        let known = self.layout != Layout::Linear || unknown.is_none();
        let power = chunk.is_power_of_two() && (4096..=4 << 20).contains(&chunk);
        rule::check(rules! {
            "members", drives, !self.members.is_empty() && drives <= DRIVES_MAX, "1 to 64 drives";
            "chunk", chunk, power, "a power of two, 4096 to 4194304 bytes (4 KiB to 4 MiB)";
            "members", unknown.unwrap_or(0) as u64, known, "drives with a size but for the last, counted from zero";
            "chunk", chunk, 0..=smallest.unwrap_or(u64::MAX), "at most the size of the smallest member";
        })
    }

    /// Builds the volume, with empty drives.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn build(&self) -> Result<Volume, Broken> {
        self.validate()?;
        Volume::new(self)
    }

    /// Size in bytes; `None` if its members accept any offset.
    pub fn size(&self) -> Option<u64> {
        let sizes = self.members.iter().map(crate::drive::Config::size);
        match self.layout {
            Layout::Stripe { chunk } => {
                let smallest = sizes.flatten().min()?;
                let members = self.members.len() as u64;
                if members == 1 {
                    return Some(smallest);
                }
                Some((smallest / chunk * chunk).saturating_mul(members))
            }
            Layout::Linear => sizes.sum(),
        }
    }

    /// One queue with the tags of all members, and the smallest of their maximum transfers.
    pub fn shape(&self) -> DriveShape {
        let shapes = || self.members.iter().map(crate::drive::Config::shape);
        let tags = shapes().map(|s| u32::from(s.queues) * u32::from(s.tags));
        DriveShape {
            queues: 1,
            tags: tags.sum::<u32>().min(u16::MAX.into()) as u16,
            max_transfer: shapes().map(|s| s.max_transfer).min().unwrap_or(0),
            rotational: shapes().any(|s| s.rotational),
            capacity: self.capacity(),
        }
    }

    /// The worst-case capacity: all requests may be on its weakest member.
    pub fn capacity(&self) -> Option<Capacity> {
        let all: Option<Vec<_>> = self
            .members
            .iter()
            .map(crate::drive::Config::capacity)
            .collect();
        // Zero is no bound.
        let least = |a: u64, b: u64| if a == 0 || b == 0 { a.max(b) } else { a.min(b) };
        let weakest = all?.into_iter().reduce(|a, b| a.zip(b, least));
        Some(weakest.unwrap_or(Capacity::NONE))
    }

    /// Number of drives in it and in its members, volumes not counted.
    fn drives(&self) -> u64 {
        let drives = self.members.iter().map(|m| match m {
            crate::drive::Config::Volume(volume) => volume.drives(),
            _ => 1,
        });
        drives.sum()
    }
}
