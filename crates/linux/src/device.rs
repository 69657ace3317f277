//! The block devices of a host, and how they are stacked on each other.

use crate::files::HostFiles;
use std::fmt;
use std::io;
use weir_core::DriveShape;

/// A block device that is not a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostDevice {
    /// The device's name in `/sys/block`.
    pub name: String,
    /// The device's number in the form `MAJOR:MINOR`, for example `8:16`.
    pub number: String,
    /// The sequence number, which no other device has until the next boot. `None` before Linux
    /// 5.15.
    pub diskseq: Option<u64>,
    /// The elevators that can be chosen. Empty if the device has no request queue of its own.
    pub schedulers: Vec<String>,
    /// The kind of a device that is stacked on others, or `None` for a plain device.
    pub layer: Option<StackKind>,
    /// True if the kernel treats the device as one that seeks (`queue/rotational`).
    pub rotational: bool,
    /// The queue depth by which the kernel chooses a profile of io.cost. `None` if no file states
    /// it.
    pub depth: Option<u16>,
    /// The names of the devices that this one is stacked on.
    pub below: Vec<String>,
    /// The names of the devices that are stacked on this one or on its partitions.
    pub above: Vec<String>,
}

/// A kind of device that is stacked on others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StackKind {
    /// A target of the device mapper, such as LVM or dm-crypt.
    Mapper,
    /// A software RAID (md).
    Raid,
}

/// The reason why a path does not name a device whose attributes can be set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoDevice {
    /// The path does not exist, or cannot be read. Has the error's text.
    Missing(String),
    /// The path is a partition of the device with this name.
    Partition(String),
}

impl fmt::Display for NoDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(why) => f.write_str(why),
            Self::Partition(of) => write!(
                f,
                "is a partition of {of}; the kernel's controls apply to whole devices only"
            ),
        }
    }
}

impl HostDevice {
    /// Finds the device with a path such as `/dev/disk/by-id/x`.
    ///
    /// # Errors
    /// Returns an error if the path is not a block device, or is a partition.
    pub fn find(files: &dyn HostFiles, path: &str) -> Result<Self, NoDevice> {
        let missing = |error: &io::Error| NoDevice::Missing(error_text(error));
        let number = files.number(path).map_err(|e| missing(&e))?;
        // The number identifies the device, whichever link or node the path is.
        let link = files.link(&format!("/sys/dev/block/{number}"));
        let link = link.map_err(|e| missing(&e))?;
        let mut parts = link.rsplit('/');
        let name = parts.next().unwrap_or_default();
        if files.exists(&format!("/sys/dev/block/{number}/partition")) {
            // The link of a partition ends in DISK/PARTITION.
            let of = parts.next().unwrap_or_default();
            return Err(NoDevice::Partition(of.to_owned()));
        }
        Ok(Self::named(files, name, &number))
    }

    /// Returns all block devices of the host that are not partitions, by name.
    ///
    /// # Errors
    /// Returns the system's error if `/sys/block` cannot be read.
    pub fn all(files: &dyn HostFiles) -> io::Result<Vec<Self>> {
        let names = files.list("/sys/block")?.into_iter();
        let all = names.filter_map(|name| {
            // A device can be removed between the listing and this read, and is then left out.
            let number = files.read(&format!("/sys/block/{name}/dev")).ok()?;
            Some(Self::named(files, &name, number.trim()))
        });
        Ok(all.collect())
    }

    /// Reads the attributes of the device with a name and number.
    fn named(files: &dyn HostFiles, name: &str, number: &str) -> Self {
        let directory = format!("/sys/block/{name}");
        let number_in = |file: &str| {
            let text = files.read(&format!("{directory}/{file}")).ok()?;
            text.trim().parse().ok()
        };
        let names = |folder: &str| {
            files
                .list(&format!("{directory}/{folder}"))
                .unwrap_or_default()
        };
        let mut above = names("holders");
        // The kernel records a holder at the partition that it is stacked on, not at the whole
        // device.
        for part in files.list(&directory).unwrap_or_default() {
            if files.exists(&format!("{directory}/{part}/partition")) {
                above.extend(names(&format!("{part}/holders")));
            }
        }
        // A device without `mq` takes bios directly (device mapper, md), so that there is no
        // elevator to choose. Older kernels still list "none" for it.
        let has_queue = files.exists(&format!("{directory}/mq"));
        let schedulers = files.read(&format!("{directory}/queue/scheduler"));
        let schedulers = schedulers.ok().filter(|_| has_queue).unwrap_or_default();
        let words = schedulers.split_whitespace();
        let layer = ["dm", "md"].map(|folder| files.exists(&format!("{directory}/{folder}")));
        Self {
            name: name.to_owned(),
            number: number.to_owned(),
            diskseq: number_in("diskseq"),
            schedulers: words
                .map(|w| w.trim_matches(['[', ']']).to_owned())
                .collect(),
            rotational: number_in("queue/rotational") == Some(1),
            // As in the kernel's `blk_queue_depth`: the driver's own depth if it has set one
            // (SCSI), and otherwise nr_requests.
            depth: number_in("device/queue_depth")
                .or_else(|| number_in("queue/nr_requests"))
                // io.cost only distinguishes a depth of 1 from greater ones, so that saturation is
                // harmless.
                .map(|depth| u16::try_from(depth).unwrap_or(u16::MAX)),
            layer: match layer {
                [true, _] => Some(StackKind::Mapper),
                [_, true] => Some(StackKind::Raid),
                _ => None,
            },
            below: names("slaves"),
            above,
        }
    }

    /// Returns the device's shape, as far as Linux's io.cost chooses its profile by it.
    pub(crate) fn shape(&self) -> DriveShape {
        let known = DriveShape::default();
        DriveShape {
            rotational: self.rotational,
            tags: self.depth.unwrap_or(known.tags).max(1),
            ..known
        }
    }

    /// Returns the device's directory in `/sys/block`.
    pub fn directory(&self) -> String {
        format!("/sys/block/{}", self.name)
    }
}

/// Returns the system's message for an error, without the number of the error.
pub(crate) fn error_text(error: &io::Error) -> String {
    weir_config::os_error::message(error)
}
