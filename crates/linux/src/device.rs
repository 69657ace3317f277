//! Block devices of a host: what each is, and what it is made of.

use crate::files::Files;
use std::fmt;
use std::io;
use weir_core::DriveShape;

/// A block device that is no partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// Its name in `/sys/block`.
    pub name: String,
    /// Its number, as `8:16`.
    pub number: String,
    /// The number of its life, which no other device has until the next boot. Kernels before 5.15 have none.
    pub diskseq: Option<u64>,
    /// Elevators to choose; none where it has no queue of requests of its own.
    pub schedulers: Vec<String>,
    /// Its own name for itself, where it has one: of a device mapper, of an md.
    pub layer: Option<Layer>,
    /// Whether the kernel treats it as a drive that seeks (`queue/rotational`).
    pub rotational: bool,
    /// Requests that it takes at a time, as the kernel's profiles of io.cost count them; `None` where no file states it.
    pub depth: Option<u16>,
    /// Devices that it is made of.
    pub below: Vec<String>,
    /// Devices that are made of it or of its partitions.
    pub above: Vec<String>,
}

/// What stands above other devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layer {
    /// Device mapper.
    Mapper,
    /// md.
    Raid,
}

/// Why a path names no device that can be set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoDevice {
    /// Nothing is there, or it cannot be looked at.
    Missing(String),
    /// It is a partition of this device.
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

impl Device {
    /// The device of a path as `/dev/disk/by-id/x`.
    ///
    /// # Errors
    /// It is none, or a partition.
    pub fn find(files: &dyn Files, path: &str) -> Result<Self, NoDevice> {
        let missing = |error: &io::Error| NoDevice::Missing(said(error));
        let number = files.number(path).map_err(|e| missing(&e))?;
        let link = files.link(&format!("/sys/dev/block/{number}"));
        let link = link.map_err(|e| missing(&e))?;
        let mut parts = link.rsplit('/');
        let name = parts.next().unwrap_or_default();
        if files.exists(&format!("/sys/dev/block/{number}/partition")) {
            let of = parts.next().unwrap_or_default();
            return Err(NoDevice::Partition(of.to_owned()));
        }
        Ok(Self::named(files, name, &number))
    }

    /// All of them, by name.
    ///
    /// # Errors
    /// As the system says.
    pub fn all(files: &dyn Files) -> io::Result<Vec<Self>> {
        let names = files.list("/sys/block")?.into_iter();
        let all = names.filter_map(|name| {
            let number = files.read(&format!("/sys/block/{name}/dev")).ok()?;
            Some(Self::named(files, &name, number.trim()))
        });
        Ok(all.collect())
    }

    fn named(files: &dyn Files, name: &str, number: &str) -> Self {
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
        for part in files.list(&directory).unwrap_or_default() {
            if files.exists(&format!("{directory}/{part}/partition")) {
                above.extend(names(&format!("{part}/holders")));
            }
        }
        // Where requests are not queued by the block layer there is nothing to choose, and older kernels say "none".
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
            depth: number_in("device/queue_depth")
                .or_else(|| number_in("queue/nr_requests"))
                .map(|depth| u16::try_from(depth).unwrap_or(u16::MAX)),
            layer: match layer {
                [true, _] => Some(Layer::Mapper),
                [_, true] => Some(Layer::Raid),
                _ => None,
            },
            below: names("slaves"),
            above,
        }
    }

    /// Its shape, as far as Linux's io.cost chooses a profile by it.
    pub(crate) fn shape(&self) -> DriveShape {
        let known = DriveShape::default();
        DriveShape {
            rotational: self.rotational,
            tags: self.depth.unwrap_or(known.tags).max(1),
            ..known
        }
    }

    /// Its directory.
    pub fn directory(&self) -> String {
        format!("/sys/block/{}", self.name)
    }
}

/// What the system said, without the number of the error.
pub(crate) fn said(error: &io::Error) -> String {
    weir_config::os_error::message(error)
}
