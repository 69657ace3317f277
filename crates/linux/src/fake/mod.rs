//! A recorded host that behaves as the kernel does where that matters to the order of writes and to what is read back.

mod cgroup;
mod queue;
mod recording;

use crate::files::Files;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// What is at a path.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Node {
    Folder,
    File(String),
    /// Refuses writes.
    Fixed(String),
    Link(String),
    /// A block device of this number.
    Device(String),
}

/// What unwinds where a process is killed ([`Fake::kill`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Killed;

/// When a process that works on the host is killed: before its n-th change from here on, or just after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Death {
    changes: u64,
    after: bool,
}

/// A host's files from a recording, as the kernel keeps them:
///
/// - another scheduler resets `nr_requests`, what is below `iosched`, weights of bfq and write-back throttling; bfq and io.cost switch the
///   latter off;
/// - the files of the controller `io` are in a cgroup while its parent has it on for what is below, which a cgroup with processes cannot;
/// - numbers of devices must be those of whole devices; values that the kernel rounds are rounded, those out of bounds refused;
/// - `io.bfq.weight` is there while bfq is loaded, and takes weights of devices that have it as scheduler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fake {
    nodes: BTreeMap<String, Node>,
    attributes: BTreeMap<(String, String), String>,
    /// Files of the controller `io` that the kernel was built with.
    built: BTreeSet<String>,
    /// Elevators that are loaded when somebody asks for them.
    loadable: BTreeSet<String>,
    /// Tags of a device, by its directory.
    tags: BTreeMap<String, u32>,
    /// Devices with a target of write-back throttling that somebody set, by their directories.
    manual_wbt: BTreeSet<String>,
    death: Option<Death>,
    reloads: u64,
}

impl Fake {
    /// The host of a recording, in lines:
    ///
    /// - `PATH = TEXT`: a file; more lines of it follow behind tabs. `PATH ! TEXT` is one that refuses writes;
    /// - `PATH/`: a directory, `PATH -> TARGET`: a link, `PATH % NUMBER`: a block device, `PATH @NAME TEXT`: an extended attribute;
    /// - `built WORDS`: files of the controller `io` that the kernel has, `loadable WORDS`: its elevators that are modules and not loaded yet,
    ///   `tags FOLDER NUMBER`: a device's tags (64 where nothing is said);
    /// - `#`: nothing.
    ///
    /// # Panics
    /// It is none.
    pub fn new(recording: &str) -> Self {
        recording::read(recording)
    }

    /// The process that works on the host is killed before its change of this number (0 is the next), or just after it: the call unwinds
    /// with [`Killed`]. The next process is not.
    pub fn kill(&mut self, changes: u64, after: bool) {
        self.death = Some(Death { changes, after });
    }

    /// Nobody is killed any more. Returns whether somebody was to be.
    pub fn spare(&mut self) -> bool {
        self.death.take().is_some()
    }

    /// Something that a program would not do: makes or replaces a file without the kernel's rules, as udev or an administrator does.
    pub fn put(&mut self, path: &str, text: &str) {
        let path = self.resolve(path);
        self.nodes.insert(path, Node::File(text.to_owned()));
    }

    /// Takes away whatever is at a path and below it, as a device that goes.
    pub fn take(&mut self, path: &str) {
        let below = format!("{path}/");
        self.nodes
            .retain(|p, _| p != path && !p.starts_with(&below));
    }

    /// Every file with its text, to be compared.
    pub fn texts(&self) -> BTreeMap<String, String> {
        let files = self.nodes.iter().map(|(path, node)| match node {
            Node::File(text) | Node::Fixed(text) => (path.clone(), text.clone()),
            Node::Folder => (format!("{path}/"), String::new()),
            Node::Link(target) => (format!("{path} ->"), target.clone()),
            Node::Device(number) => (path.clone(), number.clone()),
        });
        files.collect()
    }

    /// How often systemd was told to read its units again.
    pub fn reloads(&self) -> u64 {
        self.reloads
    }

    /// The path without links.
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
                Some(Node::Link(target)) if depth < 16 => {
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
            Some(Node::File(text) | Node::Fixed(text)) => Ok(text),
            Some(_) => Err(Errno::ISDIR.into()),
            None => Err(Errno::NOENT.into()),
        }
    }

    fn set(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.nodes.insert(path.into(), Node::File(text.into()));
    }

    /// Names in a directory.
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
                    // Whether the kernel takes it, nobody is there to hear.
                    let _ = change(self);
                }
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

impl Files for Fake {
    fn read(&self, path: &str) -> io::Result<String> {
        self.text(&self.resolve(path)).map(str::to_owned)
    }

    fn write(&mut self, path: &str, text: &str) -> io::Result<()> {
        self.change(|fake| {
            let path = fake.resolve(path);
            match fake.nodes.get(&path) {
                Some(Node::File(_)) => {}
                Some(Node::Fixed(_)) => return Err(Errno::ROFS.into()),
                Some(_) => return Err(Errno::ISDIR.into()),
                None => return Err(Errno::NOENT.into()),
            }
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
        if names.is_empty() && self.nodes.get(&path) != Some(&Node::Folder) {
            return Err(Errno::NOENT.into());
        }
        Ok(names)
    }

    fn link(&self, path: &str) -> io::Result<String> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        match self.nodes.get(&format!("{}/{name}", self.resolve(folder))) {
            Some(Node::Link(target)) => Ok(target.clone()),
            Some(_) => Err(Errno::INVAL.into()),
            None => Err(Errno::NOENT.into()),
        }
    }

    fn number(&self, path: &str) -> io::Result<String> {
        let path = self.resolve(path);
        match self.nodes.get(&path) {
            Some(Node::Device(number)) => Ok(number.clone()),
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
            if fake.nodes.contains_key(&format!("{parent}/cgroup.procs")) {
                cgroup::make(fake, &path);
            } else {
                fake.nodes.insert(path, Node::Folder);
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
