//! The disks and the throttle groups that an input describes.

use super::throttle::ThrottleLimits;
use crate::nearest;
use crate::problem::Problem;
use crate::text::quoted;

/// The maximum number of disks, and of throttle groups.
const COUNT_MAX: usize = 4096;

/// The line and the column of a part of the input, counted from 1.
pub(super) type Place = (u32, u32);

/// The storage of a disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// A raw image.
    File(String),
    /// A block device.
    Device(String),
    /// An image in another format, which must be converted first.
    Image {
        /// The path of the image.
        path: String,
        /// The name of the format, such as `qcow2`.
        format: String,
    },
    /// Storage that Weir cannot use, or that the input does not contain. Has a description.
    Other(String),
}

impl Source {
    /// Returns the storage with this path and format. Without a format, it is raw, unless the name
    /// ends in another one.
    pub(super) fn of(path: &str, format: Option<&str>) -> Self {
        let ending = path
            .rsplit('/')
            .next()
            .and_then(|name| name.rsplit_once('.'));
        let known = ["qcow2", "qcow", "qed", "vdi", "vhdx", "vmdk", "vpc"];
        let ending = ending.map(|(_, end)| end).filter(|end| known.contains(end));
        let path = path.to_owned();
        match format.or(ending) {
            // The server requires absolute paths, because it does not run in the directory in which
            // QEMU was started.
            _ if !path.starts_with('/') => {
                Self::Other(format!("{} is not an absolute path", quoted(&path)))
            }
            None | Some("raw") if path.starts_with("/dev/") => Self::Device(path),
            None | Some("raw") => Self::File(path),
            Some(format) => Self::Image {
                path,
                format: format.to_owned(),
            },
        }
    }
}

/// A disk of a virtual machine.
#[derive(Clone, Debug)]
pub(super) struct ImportedDisk {
    /// The name, which becomes the name of a volume.
    pub(super) name: String,
    /// The storage of the disk.
    pub(super) source: Source,
    /// Limits of this disk alone.
    pub(super) own: Option<ThrottleLimits>,
    /// The names of the throttle groups through which all requests of the disk pass.
    pub(super) groups: Vec<String>,
    /// The place of the disk in the input.
    pub(super) place: Place,
}

/// A throttle group.
#[derive(Clone, Debug)]
pub(super) struct ThrottleGroup {
    /// The name, which becomes the name of a tenant.
    pub(super) name: String,
    /// The limits of all disks of the group together.
    pub(super) limits: ThrottleLimits,
    /// The place of the group in the input.
    pub(super) place: Place,
}

/// The contents of an input.
#[derive(Clone, Debug)]
pub(super) struct ImportedInput {
    /// The name of the input in problems.
    pub(super) file: String,
    /// The place of the part that is read. Options and JSON have no other place than their
    /// beginning, so the names in problems tell where they are.
    pub(super) place: Place,
    /// The throttle groups, in the order of the input.
    pub(super) groups: Vec<ThrottleGroup>,
    /// The disks, in the order of the input.
    pub(super) disks: Vec<ImportedDisk>,
    /// Reasons for which the input is refused.
    pub(super) problems: Vec<Problem>,
    /// Differences between the input and the contracts.
    pub(super) remarks: Vec<Problem>,
}

impl ImportedInput {
    /// An input of which nothing is read yet.
    pub(super) fn new(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            place: (1, 1),
            groups: Vec::new(),
            disks: Vec::new(),
            problems: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// Reports a problem at the present place.
    pub(super) fn refuse(&mut self, key: &str, message: impl Into<String>, help: &str) {
        // A text of 16 MiB can have a problem in every byte.
        const SHOWN: usize = 100;
        if self.problems.len() < SHOWN {
            let key = crate::text::one_line(key);
            let problem = Problem::new(&self.file, self.place, &key, message.into(), help);
            self.problems.push(problem);
        }
    }

    /// Sets a limit of a disk or a group, or reports the reason for which it cannot be set. `None`
    /// stands for a value that is not a text.
    pub(super) fn set(
        &mut self,
        limits: &mut ThrottleLimits,
        at: (&str, &str),
        value: Option<&str>,
    ) {
        let path = format!("{}.{}", at.0, at.1);
        let Some(value) = value else {
            return self.refuse(&path, "is not a number", "write a whole number");
        };
        match limits.set(at.1, value) {
            Ok(()) => {}
            Err(Some(what)) => self.refuse(&path, what, "correct the limit"),
            Err(None) => {
                let names = limits.dialect.names();
                let help = nearest::help(at.1, names.iter().map(String::as_str));
                self.refuse(&path, "is not a limit", &help);
            }
        }
    }

    /// Checks limits, and returns true if they limit something and break no rule of QEMU.
    fn applies(&mut self, key: &str, limits: &ThrottleLimits) -> bool {
        let broken = limits.broken();
        for (name, rule) in &broken {
            let help = "QEMU refuses these limits too; correct them";
            self.refuse(&format!("{key}.{name}"), rule, help);
        }
        broken.is_empty() && limits.is_limited()
    }

    /// Adds a group that must have a name of its own. A group without limits has no effect.
    pub(super) fn add_group(&mut self, name: &str, limits: ThrottleLimits) {
        if !self.applies(name, &limits) {
            return;
        }
        if self.groups.iter().any(|other| other.name == name) {
            let what = format!("two throttle groups have the name {}", quoted(name));
            return self.refuse(name, what, "rename one of the two");
        }
        self.push_group(name, limits);
    }

    /// Adds a disk that states its limits itself. In a group, the last limits apply to all disks,
    /// and a disk without limits is not in the group, as in QEMU.
    pub(super) fn add_limited(
        &mut self,
        mut disk: ImportedDisk,
        limits: ThrottleLimits,
        group: Option<String>,
    ) {
        if self.applies(&disk.name, &limits) {
            match group.filter(|group| !group.is_empty()) {
                Some(group) => {
                    self.join_group(&disk.name, &group, limits);
                    disk.groups.push(group);
                }
                None => disk.own = Some(limits),
            }
        }
        self.add_disk(disk);
    }

    /// Adds the limits that a disk states for a group.
    fn join_group(&mut self, disk: &str, name: &str, limits: ThrottleLimits) {
        let Some(other) = self.groups.iter_mut().find(|other| other.name == name) else {
            return self.push_group(name, limits);
        };
        if !other.limits.equals(&limits) {
            other.limits = limits;
            let what = format!(
                "states other limits for the group {} than a disk before it. QEMU applies the last limits to all disks of a group, and so does \
                 the tenant",
                quoted(name)
            );
            let problem = Problem::new(&self.file, self.place, disk, what, "");
            self.remarks.push(problem);
        }
    }

    /// Adds a disk. Its name must be its own, and its groups must differ.
    pub(super) fn add_disk(&mut self, disk: ImportedDisk) {
        self.place = disk.place;
        // QEMU would count each request twice, which halves the limit, and a tenant counts it once.
        let mut groups = disk.groups.iter().enumerate();
        if let Some((_, twice)) = groups.find(|(at, group)| disk.groups[..*at].contains(group)) {
            let what = format!("passes the throttle group {} twice", quoted(twice));
            self.refuse(&disk.name, what, "remove one of the two");
        }
        // Two tables of one name would not be TOML.
        if self.disks.iter().any(|other| other.name == disk.name) {
            let what = format!("two disks have the name {}", quoted(&disk.name));
            self.refuse(&disk.name, what, "rename one of the two");
        } else if self.disks.len() == COUNT_MAX {
            self.refuse(
                "",
                format!("has more than {COUNT_MAX} disks"),
                "split the input",
            );
        } else {
            self.disks.push(disk);
        }
    }

    fn push_group(&mut self, name: &str, limits: ThrottleLimits) {
        let (name, place) = (name.to_owned(), self.place);
        if self.groups.len() == COUNT_MAX {
            self.refuse(
                "",
                format!("has more than {COUNT_MAX} throttle groups"),
                "split the input",
            );
        } else {
            self.groups.push(ThrottleGroup {
                name,
                limits,
                place,
            });
        }
    }
}
