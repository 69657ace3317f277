//! A recorded host that reacts to writes in the way that the kernel does.
//!
//! It models the reactions that affect the order of writes and the values that are read back. See
//! [`FakeHost`].

mod cgroup;
mod queue;
mod recording;

use crate::files::HostFiles;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// An object at a path.
#[derive(Clone, PartialEq, Eq, Debug)]
enum FakeNode {
    Folder,
    File(String),
    /// A file that refuses writes.
    Fixed(String),
    Link(String),
    /// A block device with this number.
    Device(String),
}

/// The payload with which a killed process unwinds (see [`FakeHost::kill`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Killed;

/// The point at which a process that changes the host is killed, counted in changes from here on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Death {
    changes: u64,
    after: bool,
}

/// The files of a host, read from a recording, with the kernel's reactions to writes:
///
/// - Another elevator resets `nr_requests`, the tunables below `iosched`, weights of bfq and
///   write-back throttling. bfq and io.cost switch write-back throttling off.
/// - A cgroup has the files of the controller `io` while its parent passes the controller on. A
///   parent with processes cannot.
/// - Numbers of devices must be those of whole devices. Values that the kernel rounds are rounded.
///   Values out of bounds are refused, or clamped in the case of an elevator's tunables.
/// - `io.bfq.weight` exists while bfq is loaded. It accepts weights for devices whose elevator is
///   bfq.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FakeHost {
    nodes: BTreeMap<String, FakeNode>,
    attributes: BTreeMap<(String, String), String>,
    /// The files of the controller `io` that the kernel was built with.
    built: BTreeSet<String>,
    /// The elevators whose modules are loaded on demand.
    loadable: BTreeSet<String>,
    /// The number of tags of a device, by its directory.
    tags: BTreeMap<String, u32>,
    /// The directories of devices whose target of write-back throttling was set explicitly.
    manual_wbt: BTreeSet<String>,
    death: Option<Death>,
    reloads: u64,
}

impl FakeHost {
    /// Reads the host of a recording, which has one entry in a line:
    ///
    /// - `PATH = TEXT`: a file. Further lines of the file follow, each after a tab. `PATH ! TEXT`
    ///   is a file that refuses writes.
    /// - `PATH/`: a directory, `PATH -> TARGET`: a link, `PATH % NUMBER`: a block device, `PATH
    ///   @NAME TEXT`: an extended attribute.
    /// - `built WORDS`: the files of the controller `io` that the kernel has, `loadable WORDS`: the
    ///   elevators whose modules are not loaded yet, `tags FOLDER NUMBER`: the tags of a device (64
    ///   by default).
    /// - `#`: a comment.
    ///
    /// # Panics
    /// Panics if a line has none of these forms.
    pub fn new(recording: &str) -> Self {
        recording::read(recording)
    }

    /// Kills the process before its change with this number (0 is the next one), or just after it.
    /// The call unwinds with [`Killed`]. Only one process is killed.
    pub fn kill(&mut self, changes: u64, after: bool) {
        self.death = Some(Death { changes, after });
    }

    /// Cancels the kill. Returns true if one was pending.
    pub fn cancel_kill(&mut self) -> bool {
        self.death.take().is_some()
    }

    /// Makes or replaces a file without the kernel's rules, as udev or an administrator would.
    pub fn put(&mut self, path: &str, text: &str) {
        let path = self.resolve(path);
        self.nodes.insert(path, FakeNode::File(text.to_owned()));
    }

    /// Removes a path and everything below it, as when a device is unplugged.
    pub fn remove_tree(&mut self, path: &str) {
        let below = format!("{path}/");
        self.nodes
            .retain(|p, _| p != path && !p.starts_with(&below));
    }

    /// Returns every file with its content, for comparisons.
    pub fn texts(&self) -> BTreeMap<String, String> {
        let files = self.nodes.iter().map(|(path, node)| match node {
            FakeNode::File(text) | FakeNode::Fixed(text) => (path.clone(), text.clone()),
            FakeNode::Folder => (format!("{path}/"), String::new()),
            FakeNode::Link(target) => (format!("{path} ->"), target.clone()),
            FakeNode::Device(number) => (path.clone(), number.clone()),
        });
        files.collect()
    }

    /// Returns how often systemd was told to read its units again.
    pub fn reloads(&self) -> u64 {
        self.reloads
    }

    /// Returns the path with all symbolic links resolved.
    fn resolve(&self, path: &str) -> String {
        self.resolve_from(path, 0)
    }

    fn resolve_from(&self, path: &str, depth: u32) -> String {
        let mut whole = String::new();
        for part in path.split('/').filter(|p| !p.is_empty() && *p != ".") {
            if part == ".." {
                whole.truncate(whole.rfind('/').unwrap_or(0));
                continue;
            }
            let next = format!("{whole}/{part}");
            whole = match self.nodes.get(&next) {
                // The limit ends loops of links. The kernel's own limit is 40 (MAXSYMLINKS).
                Some(FakeNode::Link(target)) if depth < 16 => {
                    let target = if target.starts_with('/') {
                        target.clone()
                    } else {
                        format!("{whole}/{target}")
                    };
                    self.resolve_from(&target, depth + 1)
                }
                _ => next,
            };
        }
        whole
    }

    fn text(&self, path: &str) -> io::Result<&str> {
        match self.nodes.get(path) {
            Some(FakeNode::File(text) | FakeNode::Fixed(text)) => Ok(text),
            Some(_) => Err(Errno::ISDIR.into()),
            None => Err(Errno::NOENT.into()),
        }
    }

    fn set(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.nodes.insert(path.into(), FakeNode::File(text.into()));
    }

    /// Returns the names in a directory, sorted and without duplicates.
    fn names(&self, path: &str) -> Vec<String> {
        let below = format!("{path}/");
        let after = self.nodes.range(below.clone()..);
        let inside = after.take_while(|(p, _)| p.starts_with(&below));
        let names = inside.map(|(p, _)| &p[below.len()..]);
        let names = names.filter_map(|p| p.split('/').next());
        names
            .collect::<BTreeSet<_>>()
            .into_iter()
            .map(str::to_owned)
            .collect()
    }

    /// Makes a change, unless the process is killed before it.
    fn change(&mut self, change: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        match &mut self.death {
            Some(Death { changes: 0, after }) => {
                let after = *after;
                self.death = None;
                if after {
                    // The killed process cannot see the result, so that an error has no receiver.
                    let _ = change(self);
                }
                // Unlike panic!, this prints no message. The death was planned.
                std::panic::resume_unwind(Box::new(Killed))
            }
            Some(death) => {
                death.changes -= 1;
                change(self)
            }
            None => change(self),
        }
    }
}

impl HostFiles for FakeHost {
    fn read(&self, path: &str) -> io::Result<String> {
        self.text(&self.resolve(path)).map(str::to_owned)
    }

    fn write(&mut self, path: &str, text: &str) -> io::Result<()> {
        self.change(|fake| {
            let path = fake.resolve(path);
            match fake.nodes.get(&path) {
                Some(FakeNode::File(_)) => {}
                Some(FakeNode::Fixed(_)) => return Err(Errno::ROFS.into()),
                Some(_) => return Err(Errno::ISDIR.into()),
                None => return Err(Errno::NOENT.into()),
            }
            // The kernel ignores a line feed at the end of a value.
            let text = text.trim_end_matches('\n');
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
            if let Some((device, file)) = path.split_once("/queue/") {
                queue::write(fake, device, file, text)
            } else if name.starts_with("io.") || name.starts_with("cgroup.") {
                cgroup::write(fake, folder, name, text)
            } else {
                fake.set(path, text);
                Ok(())
            }
        })
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let path = self.resolve(path);
        let names = self.names(&path);
        if names.is_empty() && self.nodes.get(&path) != Some(&FakeNode::Folder) {
            return Err(Errno::NOENT.into());
        }
        Ok(names)
    }

    fn link(&self, path: &str) -> io::Result<String> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        match self.nodes.get(&format!("{}/{name}", self.resolve(folder))) {
            Some(FakeNode::Link(target)) => Ok(target.clone()),
            // readlink(2): not a symbolic link.
            Some(_) => Err(Errno::INVAL.into()),
            None => Err(Errno::NOENT.into()),
        }
    }

    fn number(&self, path: &str) -> io::Result<String> {
        let path = self.resolve(path);
        match self.nodes.get(&path) {
            Some(FakeNode::Device(number)) => Ok(number.clone()),
            // `FileTree` returns the same error for a file that is not a block device.
            Some(_) => Err(Errno::NOTBLK.into()),
            None => Err(Errno::NOENT.into()),
        }
    }

    fn exists(&self, path: &str) -> bool {
        let path = self.resolve(path);
        self.nodes.contains_key(&path) || !self.names(&path).is_empty()
    }

    fn attribute(&self, path: &str, name: &str) -> Option<String> {
        let key = (self.resolve(path), name.to_owned());
        self.attributes.get(&key).cloned()
    }

    fn make(&mut self, path: &str) -> io::Result<()> {
        self.change(|fake| {
            let path = fake.resolve(path);
            let (parent, _) = path.rsplit_once('/').unwrap_or(("", ""));
            if fake.nodes.contains_key(&path) || !fake.names(&path).is_empty() {
                return Err(Errno::EXIST.into());
            }
            if !parent.is_empty() && !fake.exists(parent) {
                return Err(Errno::NOENT.into());
            }
            // mkdir in a cgroup makes a cgroup.
            if fake.nodes.contains_key(&format!("{parent}/cgroup.procs")) {
                cgroup::make(fake, &path);
            } else {
                fake.nodes.insert(path, FakeNode::Folder);
            }
            Ok(())
        })
    }

    fn remove(&mut self, path: &str) -> io::Result<()> {
        self.change(|fake| {
            let path = fake.resolve(path);
            if fake.nodes.contains_key(&format!("{path}/cgroup.procs")) {
                return cgroup::remove(fake, &path);
            }
            if !fake.names(&path).is_empty() {
                return Err(Errno::NOTEMPTY.into());
            }
            match fake.nodes.remove(&path) {
                Some(_) => Ok(()),
                None => Err(Errno::NOENT.into()),
            }
        })
    }

    fn replace(&mut self, path: &str, text: &str) -> io::Result<()> {
        self.change(|fake| {
            let path = fake.resolve(path);
            let (parent, _) = path.rsplit_once('/').unwrap_or(("", ""));
            if !parent.is_empty() && !fake.exists(parent) {
                return Err(Errno::NOENT.into());
            }
            fake.set(path, text);
            Ok(())
        })
    }

    fn unlink(&mut self, path: &str) -> io::Result<()> {
        self.change(|fake| {
            let path = fake.resolve(path);
            match fake.nodes.remove(&path) {
                Some(_) => Ok(()),
                None => Err(Errno::NOENT.into()),
            }
        })
    }

    fn reload_units(&mut self) -> io::Result<()> {
        self.change(|fake| {
            fake.reloads += 1;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
