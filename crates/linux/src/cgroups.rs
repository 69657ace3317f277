//! The tree of cgroups of a host, and which of them are systemd's.

use crate::files::Files;
use std::collections::BTreeMap;
use std::io;
use weir_config::apply::UNITS;

/// How a host has its cgroups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cgroups {
    /// Where version 2 is mounted.
    pub root: Option<String>,
    /// Version 1 has the controller for storage (`blkio`), which version 2 then has not.
    pub v1: bool,
    /// systemd owns the tree.
    pub systemd: bool,
}

/// How deep a unit may be below the root.
const DEPTH: usize = 12;

impl Cgroups {
    /// How this host has them.
    ///
    /// # Errors
    /// Mounts cannot be read.
    pub fn of(files: &dyn Files) -> io::Result<Self> {
        let mounts = files.read("/proc/self/mounts")?;
        let mut found = Self {
            root: None,
            v1: false,
            systemd: files.exists("/run/systemd/system"),
        };
        for mount in mounts.lines() {
            let mut words = mount.split(' ').skip(1);
            let (at, kind, options) = (words.next(), words.next(), words.next());
            match kind {
                Some("cgroup2") if found.root.is_none() => found.root = at.map(str::to_owned),
                Some("cgroup") => {
                    found.v1 |= options.is_some_and(|o| o.split(',').any(|o| o == "blkio"));
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// The path below the root of each cgroup that is named like a unit of systemd, by its name. A
    /// unit that runs has one. The nearest to the root counts.
    pub fn units(&self, files: &dyn Files) -> BTreeMap<String, String> {
        let mut units = BTreeMap::new();
        let root = self.root.as_deref().unwrap_or_default();
        for directory in self.all(files) {
            let path = &directory[root.len()..];
            let name = path.rsplit('/').next().unwrap_or_default();
            if UNITS.iter().any(|suffix| name.ends_with(suffix)) {
                let found = units.entry(name.to_owned());
                found.or_insert_with(|| path.to_owned());
            }
        }
        units
    }

    /// The unit of systemd that a path belongs to, and whether the path is that unit's own cgroup; `None` where systemd has nothing to say:
    /// there is none, no part is a unit, or a unit on the way has it delegated (`Delegate=`).
    pub fn owner<'a>(&self, files: &dyn Files, path: &'a str) -> Option<(&'a str, bool)> {
        let root = self.root.as_deref().filter(|_| self.systemd)?;
        let mut whole = String::new();
        let mut owner = None;
        for part in path.split('/').filter(|p| !p.is_empty()) {
            whole = format!("{whole}/{part}");
            if UNITS.iter().any(|suffix| part.ends_with(suffix)) {
                owner = Some((part, whole == path));
            } else if let Some((unit, _)) = owner {
                owner = Some((unit, false));
            }
            if is_delegated(files, &format!("{root}{whole}")) {
                return None;
            }
        }
        owner
    }

    /// The controllers that a cgroup has, by its directory.
    pub fn controllers(files: &dyn Files, directory: &str) -> Vec<String> {
        words(files, &format!("{directory}/cgroup.controllers"))
    }

    /// Whether a cgroup has processes of its own.
    pub fn has_processes(files: &dyn Files, directory: &str) -> bool {
        let text = files.read(&format!("{directory}/cgroup.procs"));
        text.is_ok_and(|t| !t.trim().is_empty())
    }

    /// Whether what is below a cgroup has the controller `io`.
    pub fn is_enabled(files: &dyn Files, directory: &str) -> bool {
        let all = words(files, &format!("{directory}/cgroup.subtree_control"));
        all.iter().any(|c| c == "io")
    }

    /// The directories of the cgroups directly below one.
    pub fn below(files: &dyn Files, directory: &str) -> Vec<String> {
        let names = files.list(directory).unwrap_or_default().into_iter();
        let below = names.map(|name| format!("{directory}/{name}"));
        below
            .filter(|path| files.exists(&format!("{path}/cgroup.procs")))
            .collect()
    }

    /// The directories of all cgroups but the root, parents first.
    pub fn all(&self, files: &dyn Files) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let mut level: Vec<String> = self.root.iter().cloned().collect();
        for _ in 0..DEPTH {
            level = level.iter().flat_map(|d| Self::below(files, d)).collect();
            all.extend(level.iter().cloned());
        }
        all
    }
}

fn words(files: &dyn Files, path: &str) -> Vec<String> {
    let text = files.read(path).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// What systemd notes on a cgroup that it leaves to others (`cg_set_access`: since version 236, and as a user's attribute since 251).
fn is_delegated(files: &dyn Files, directory: &str) -> bool {
    let noted = |name| files.attribute(directory, name).is_some_and(|v| v == "1");
    noted("trusted.delegate") || noted("user.delegate")
}
