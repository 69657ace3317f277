//! The files that `weir apply` can change. Entries of a journal that name other files are not
//! undone.
//!
//! A journal that was tampered with could otherwise make root write to any file.

use crate::cgroups::Cgroups;
use crate::change::HostChange;
use crate::files::HostFiles;
use crate::knob::{Knob, Scope};
use crate::plan::{UNIT_FILE, UNIT_FOLDER};
use weir_config::apply::UNITS;

/// The files and directories of a host that a plan can name.
#[derive(Debug)]
pub(super) struct Allowlist {
    /// The directory at which cgroups are mounted, if they are.
    cgroups: Option<String>,
}

impl Allowlist {
    pub(super) fn of(files: &dyn HostFiles) -> Self {
        let cgroups = Cgroups::of(files).ok().and_then(|found| found.root);
        Self { cgroups }
    }

    /// Returns true if a plan can have made a change.
    pub(super) fn permits(&self, change: &HostChange) -> bool {
        match change {
            HostChange::Set { file, also, .. } => {
                self.is_setting(file) && also.iter().all(|also| self.is_setting(&also.file))
            }
            HostChange::Make { folder } => self.is_cgroup(folder) || is_unit_folder(folder),
            HostChange::Enable { folder } => {
                self.is_cgroup(folder) || Some(folder) == self.cgroups.as_ref()
            }
            HostChange::Unit { file, .. } => file
                .strip_suffix(UNIT_FILE)
                .and_then(|folder| folder.strip_suffix('/'))
                .is_some_and(is_unit_folder),
        }
    }

    /// Returns true if a directory is a cgroup below the root.
    fn is_cgroup(&self, directory: &str) -> bool {
        self.in_cgroups(directory).is_some_and(is_plain)
    }

    fn in_cgroups<'a>(&self, path: &'a str) -> Option<&'a str> {
        below(path, self.cgroups.as_ref()?)
    }

    /// Returns true if a file is that of a knob, or of a tunable of an elevator.
    fn is_setting(&self, file: &str) -> bool {
        if let Some(path) = self.in_cgroups(file) {
            let name = path.rsplit('/').next().and_then(Knob::find);
            return is_plain(path) && name.is_some_and(|knob| knob.scope() != Scope::Device);
        }
        let device = below(file, "/sys/block").and_then(|path| path.split_once('/'));
        device.is_some_and(|(name, knob)| {
            // Elevators have more tunables than there are knobs, and a change of elevator resets
            // all.
            let is_tunable = below(knob, "queue/iosched").is_some_and(is_name);
            let is_knob = || Knob::find(knob).is_some_and(|k| k.scope() == Scope::Device);
            is_name(name) && (is_tunable || is_knob())
        })
    }
}

/// Returns the part of a path below a directory.
fn below<'a>(path: &'a str, directory: &str) -> Option<&'a str> {
    path.strip_prefix(directory)?.strip_prefix('/')
}

/// Returns true if a path is the drop-in directory of a systemd unit.
fn is_unit_folder(path: &str) -> bool {
    let unit = below(path, UNIT_FOLDER).and_then(|name| name.strip_suffix(".d"));
    unit.is_some_and(|unit| is_name(unit) && UNITS.iter().any(|end| unit.ends_with(end)))
}

/// Returns true if no part of a path leads upwards.
fn is_plain(path: &str) -> bool {
    path.split('/').all(is_name)
}

fn is_name(part: &str) -> bool {
    !matches!(part, "" | "." | "..") && !part.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::SideEffect;

    #[test]
    fn only_changes_that_a_plan_can_contain_are_permitted() {
        let list = Allowlist {
            cgroups: Some("/cg".to_owned()),
        };
        let set = |file: &str, also: &[&str]| {
            let also = also.iter().map(|file| SideEffect {
                file: (*file).to_owned(),
                old: String::new(),
            });
            HostChange::Set {
                file: file.to_owned(),
                knob: "io.max".to_owned(),
                old: String::new(),
                new: String::new(),
                also: also.collect(),
            }
        };
        let make = |folder: &str| HostChange::Make {
            folder: folder.to_owned(),
        };
        let enable = |folder: &str| HostChange::Enable {
            folder: folder.to_owned(),
        };
        let unit = |file: &str| HostChange::Unit {
            file: file.to_owned(),
            old: None,
            new: String::new(),
        };
        for change in [
            set("/cg/a/b/io.max", &[]),
            set("/cg/io.cost.qos", &["/sys/block/sda/queue/wbt_lat_usec"]),
            set(
                "/sys/block/sda/queue/scheduler",
                &["/sys/block/sda/queue/iosched/any", "/cg/a/io.bfq.weight"],
            ),
            make("/cg/a"),
            make("/run/systemd/system/a.service.d"),
            enable("/cg"),
            enable("/cg/a/b"),
            unit("/run/systemd/system/a b.slice.d/50-weir.conf"),
        ] {
            assert!(list.permits(&change), "{change:?}");
        }
        for change in [
            set("/etc/passwd", &[]),
            set("/cg/a/cgroup.procs", &[]),
            set("/cg/a/../../etc/io.max", &[]),
            set("/cg/queue/scheduler", &[]),
            set("/cga/io.max", &[]),
            set("/sys/block/../../etc/queue/scheduler", &[]),
            set("/sys/block/sda/queue/iosched/../../../x", &[]),
            set("/sys/block/sda/device/delete", &[]),
            set("/sys/block/sda/io.max", &[]),
            set("/cg/a/io.max", &["/proc/sys/kernel/core_pattern"]),
            make("/cg"),
            make("/cg/"),
            make("/cg/a//b"),
            make("/root/a.service.d"),
            make("/run/systemd/system/../a.service.d"),
            make("/run/systemd/system/a.timer.d"),
            enable("/cg/.."),
            unit("/etc/cron.d/50-weir.conf"),
            unit("/run/systemd/system/a.service.d/other.conf"),
            unit("/run/systemd/system/a.service.d/x/50-weir.conf"),
            unit("/run/systemd/system/a.service"),
        ] {
            assert!(!list.permits(&change), "{change:?}");
        }
    }
}
