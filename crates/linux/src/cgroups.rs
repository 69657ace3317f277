//! The tree of cgroups of a host, and the part of it that systemd manages.

use crate::files::HostFiles;
use std::collections::BTreeMap;
use std::io;
use weir_config::apply::UNITS;

/// The cgroup mounts of a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cgroups {
    /// The directory at which version 2 is mounted, if it is.
    pub root: Option<String>,
    /// True if version 1 has the controller for storage (`blkio`). Version 2 does not have it then.
    pub v1: bool,
    /// True if systemd runs, and therefore owns the tree.
    pub systemd: bool,
}

/// The maximum depth of a cgroup below the root that is searched. It bounds the walk over the tree.
const DEPTH: usize = 12;

impl Cgroups {
    /// Reads the mounts of this host.
    ///
    /// # Errors
    /// Returns an error if the list of mounts cannot be read.
    pub fn of(files: &dyn HostFiles) -> io::Result<Self> {
        let mounts = files.read("/proc/self/mounts")?;
        let mut found = Self {
            root: None,
            v1: false,
            systemd: files.exists("/run/systemd/system"),
        };
        for mount in mounts.lines() {
            // proc_pid_mounts(5): device, mount point, type, options.
            let mut words = mount.split(' ').skip(1);
            let (at, kind, options) = (words.next(), words.next(), words.next());
            // The kernel attaches a controller to one hierarchy only, so that a version 1 mount
            // hides `io`.
            match kind {
                // Every mount of version 2 shows the same tree, so that the first one is enough.
                Some("cgroup2") if found.root.is_none() => found.root = at.map(str::to_owned),
                Some("cgroup") => {
                    found.v1 |= options.is_some_and(|o| o.split(',').any(|o| o == "blkio"));
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Returns the path below the root of each cgroup that is named like a unit of systemd, by the
    /// unit's name. systemd makes a cgroup for each running unit. If several cgroups have the name,
    /// the one that is nearest to the root is returned.
    pub fn units(&self, files: &dyn HostFiles) -> BTreeMap<String, String> {
        let mut units = BTreeMap::new();
        let root = self.root.as_deref().unwrap_or_default();
        for directory in self.all(files) {
            let path = &directory[root.len()..];
            let name = path.rsplit('/').next().unwrap_or_default();
            if UNITS.iter().any(|suffix| name.ends_with(suffix)) {
                let found = units.entry(name.to_owned());
                // Parents come first, so that the one nearest to the root stays.
                found.or_insert_with(|| path.to_owned());
            }
        }
        units
    }

    /// Returns the unit of systemd that a path belongs to, and true if the path is the unit's own
    /// cgroup.
    ///
    /// Returns `None` if systemd does not run, if no part of the path is a unit, or if a unit on
    /// the way has the path delegated to it (`Delegate=`), so that systemd leaves it to others.
    pub fn owner<'a>(&self, files: &dyn HostFiles, path: &'a str) -> Option<(&'a str, bool)> {
        let root = self.root.as_deref().filter(|_| self.systemd)?;
        let mut whole = String::new();
        let mut owner = None;
        for part in path.split('/').filter(|p| !p.is_empty()) {
            whole = format!("{whole}/{part}");
            if UNITS.iter().any(|suffix| part.ends_with(suffix)) {
                // A unit inside another one takes its place.
                owner = Some((part, whole == path));
            } else if let Some((unit, _)) = owner {
                owner = Some((unit, false));
            }
            // Below a delegated cgroup, systemd changes nothing, whichever units are nested there.
            if is_delegated(files, &format!("{root}{whole}")) {
                return None;
            }
        }
        owner
    }

    /// Returns the controllers that are available in a cgroup, given by its directory.
    pub fn controllers(files: &dyn HostFiles, directory: &str) -> Vec<String> {
        words(files, &format!("{directory}/cgroup.controllers"))
    }

    /// Returns true if a cgroup has processes of its own, apart from those in cgroups below it.
    pub fn has_processes(files: &dyn HostFiles, directory: &str) -> bool {
        let text = files.read(&format!("{directory}/cgroup.procs"));
        text.is_ok_and(|t| !t.trim().is_empty())
    }

    /// Returns true if the cgroups below this one have the controller `io`.
    pub fn is_enabled(files: &dyn HostFiles, directory: &str) -> bool {
        let all = words(files, &format!("{directory}/cgroup.subtree_control"));
        all.iter().any(|c| c == "io")
    }

    /// Returns the directories of the cgroups directly below this one.
    pub fn below(files: &dyn HostFiles, directory: &str) -> Vec<String> {
        let names = files.list(directory).unwrap_or_default().into_iter();
        let below = names.map(|name| format!("{directory}/{name}"));
        below
            // `list` returns the files of the cgroup, too. Only a cgroup contains this file.
            .filter(|path| files.exists(&format!("{path}/cgroup.procs")))
            .collect()
    }

    /// Returns the directories of all cgroups except the root, parents first.
    pub fn all(&self, files: &dyn HostFiles) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let mut level: Vec<String> = self.root.iter().cloned().collect();
        for _ in 0..DEPTH {
            level = level.iter().flat_map(|d| Self::below(files, d)).collect();
            all.extend(level.iter().cloned());
        }
        all
    }
}

fn words(files: &dyn HostFiles, path: &str) -> Vec<String> {
    let text = files.read(path).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Returns true if systemd has marked a cgroup as delegated to others. It sets the first of these
/// extended attributes since version 236, and the second in addition since 251
/// (`cgroup_delegate_xattr_apply`).
fn is_delegated(files: &dyn HostFiles, directory: &str) -> bool {
    let noted = |name| files.attribute(directory, name).is_some_and(|v| v == "1");
    noted("trusted.delegate") || noted("user.delegate")
}
