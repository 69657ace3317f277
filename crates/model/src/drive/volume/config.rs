//! The parameters of a volume on several drives.

use super::{Layout, Volume};
use weir_core::rule::{self, RuleViolation};
use weir_core::{Capacity, DriveShape, rules};

/// The maximum number of drives in a volume, including those of its members.
const DRIVES_MAX: u64 = 64;
/// The default chunk size of LVM, 64 KiB.
const CHUNK: u64 = 64 << 10;

/// The parameters of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeConfig {
    /// The layout of the volume on its members.
    pub layout: Layout,
    /// The drives: 1 to 64, including those of members that are volumes themselves.
    ///
    /// In a linear volume, all members except the last one must have a size. In a stripe, each
    /// member is used only up to the size of the smallest one.
    pub members: Vec<crate::drive::DriveConfig>,
}

impl VolumeConfig {
    /// A volume that is striped in chunks of 64 KiB, as by LVM's `lvcreate --stripes`.
    pub fn stripe(members: Vec<crate::drive::DriveConfig>) -> Self {
        Self {
            layout: Layout::Stripe { chunk: CHUNK },
            members,
        }
    }

    /// A volume that concatenates its members.
    pub fn linear(members: Vec<crate::drive::DriveConfig>) -> Self {
        Self {
            layout: Layout::Linear,
            members,
        }
    }

    /// Checks every parameter.
    ///
    /// # Errors
    /// The first parameter of a member, or of the volume itself, outside the range that its
    /// documentation states.
    pub fn validate(&self) -> Result<(), RuleViolation> {
        self.members
            .iter()
            .try_for_each(crate::drive::DriveConfig::validate)?;
        let drives = self.count_drives();
        let smallest = self
            .members
            .iter()
            .filter_map(crate::drive::DriveConfig::size)
            .min();
        let but_last = self.members.split_last().map_or(&[][..], |m| m.1);
        let unknown = but_last.iter().position(|m| m.size().is_none());
        let chunk = match self.layout {
            Layout::Stripe { chunk } => chunk,
            // A linear volume has no chunk. This value satisfies the rules.
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

    /// Builds the volume with empty drives.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn build(&self) -> Result<Volume, RuleViolation> {
        self.build_seeded(0)
    }

    /// Builds the volume with drives whose random service differs from each other and depends on
    /// `seed`.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub(in crate::drive) fn build_seeded(&self, seed: u64) -> Result<Volume, RuleViolation> {
        self.validate()?;
        Volume::new(self, seed)
    }

    /// The size in bytes, or `None` if the members accept any offset.
    pub fn size(&self) -> Option<u64> {
        let sizes = self.members.iter().map(crate::drive::DriveConfig::size);
        match self.layout {
            Layout::Stripe { chunk } => {
                let smallest = sizes.flatten().min()?;
                let members = self.members.len() as u64;
                // A stripe over one member is linear (see `LayoutMap::new`) and uses the last
                // partial chunk, too.
                if members == 1 {
                    return Some(smallest);
                }
                Some((smallest / chunk * chunk).saturating_mul(members))
            }
            Layout::Linear => sizes.sum(),
        }
    }

    /// The shape of the volume: one queue with the tags of all members, and the smallest of their
    /// maximum transfers.
    pub fn shape(&self) -> DriveShape {
        let shapes = || self.members.iter().map(crate::drive::DriveConfig::shape);
        let tags = shapes().map(|s| u32::from(s.queues) * u32::from(s.tags));
        DriveShape {
            queues: 1,
            tags: tags.sum::<u32>().min(u16::MAX.into()) as u16,
            max_transfer: shapes().map(|s| s.max_transfer).min().unwrap_or(0),
            rotational: shapes().any(|s| s.rotational),
            capacity: self.capacity(),
        }
    }

    /// The worst-case capacity, in which all requests are on the weakest member.
    pub fn capacity(&self) -> Option<Capacity> {
        let all: Option<Vec<_>> = self
            .members
            .iter()
            .map(crate::drive::DriveConfig::capacity)
            .collect();
        // Zero stands for no bound.
        let least = |a: u64, b: u64| if a == 0 || b == 0 { a.max(b) } else { a.min(b) };
        let weakest = all?.into_iter().reduce(|a, b| a.zip(b, least));
        Some(weakest.unwrap_or(Capacity::NONE))
    }

    /// The number of drives in the volume and in its members. Volumes themselves are not counted.
    fn count_drives(&self) -> u64 {
        let drives = self.members.iter().map(|m| match m {
            crate::drive::DriveConfig::Volume(volume) => volume.count_drives(),
            _ => 1,
        });
        drives.sum()
    }
}
