//! The journal of changes to a host, from which they can be undone.
//!
//! Each change is on disk before it is made, so that an interrupted run can be undone as well. The
//! file has one line of JSON for each step. The order of calls for a change is
//! [`ApplyJournal::change`], the change itself, [`ApplyJournal::done`]. For its reversal, it is
//! [`ApplyJournal::undoing`], the reversal, [`ApplyJournal::undone`].

mod error;

use crate::change::{HostChange, Ident, JournalEntry};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use weir_config::trusted::{self, Dir};

pub use error::JournalError;

/// The default path of the journal. Only root can write to its directory, which is empty after a
/// reboot. The journal can be lost then, because a reboot also resets everything in it.
pub const JOURNAL: &str = "/run/weir-apply/apply.journal";

/// The permissions of the journal's directory, if it is created.
const FOLDER_MODE: u32 = 0o755;
/// The permissions of the journal. Any user can read it, for `--dry-run`.
const MODE: u32 = 0o644;
/// The permissions of the lock's file. Only root may open it, because any user that can open the
/// file can hold the lock.
const LOCK_MODE: u32 = 0o600;

/// The number of lines, in addition to four for each change, above which the journal is rewritten.
const LINES_MAX: usize = 1024;

/// The version of the format, which the first line states. A later version is refused.
const VERSION: u32 = 1;

/// One line of the journal.
#[expect(clippy::large_enum_variant, reason = "one is alive at a time")]
#[derive(Serialize, Deserialize)]
// The names are part of the journal's format.
#[serde(rename_all = "snake_case")]
enum JournalRecord {
    Journal {
        version: u32,
    },
    Change {
        id: u64,
        boot: String,
        // Cgroups and drop-ins belong to no device.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<Ident>,
        change: HostChange,
    },
    Done {
        id: u64,
        now: String,
    },
    Undoing {
        id: u64,
    },
    Undone {
        id: u64,
    },
}

/// The journal of a host, with the changes that are not undone yet.
#[derive(Debug)]
pub struct ApplyJournal {
    path: PathBuf,
    /// The directory of the journal, or `None` if it does not exist.
    dir: Option<Dir>,
    /// The file, opened for appending. `None` if nothing has been written yet.
    file: Option<File>,
    /// The lock that excludes other processes. It is released when the file is closed.
    lock: Option<File>,
    /// The changes that are not undone yet, by their numbers.
    entries: BTreeMap<u64, JournalEntry>,
    /// The numbers of the entries for each path.
    by_path: BTreeMap<String, BTreeSet<u64>>,
    next: u64,
    /// The number of lines in the file.
    lines: usize,
    /// The numbers of complete lines that cannot be parsed.
    damaged: Vec<usize>,
}

impl ApplyJournal {
    /// Opens the journal at a path for exclusive use. The directory is created if it does not
    /// exist. The file is created by the first write.
    ///
    /// # Errors
    /// Returns an error if another process uses the journal, if it cannot be read, or if other
    /// users can change it or its directory.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let failed = |tried| move |error| JournalError::File(path.to_owned(), tried, error);
        let (folder, name) = trusted::split(path).map_err(failed("open"))?;
        let dir = Dir::create_trusted(folder, FOLDER_MODE);
        let dir = dir.map_err(failed("open the directory of"))?;
        // The lock has a file of its own, because the journal's file is replaced and removed.
        let mut lock = name.to_owned();
        lock.push(".lock");
        let lock = dir.create(&lock, LOCK_MODE).map_err(failed("lock"))?;
        // The kernel releases the lock when the process ends, even if it is killed.
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(JournalError::Busy(path.to_owned())),
            Err(error) => return Err(failed("lock")(error.into())),
        }
        let mut journal = Self::read_in(path, Some(dir))?;
        journal.lock = Some(lock);
        Ok(journal)
    }

    /// Reads the journal at a path without locking it. A journal that does not exist is empty.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read, or if other users can change it or its
    /// directory.
    pub fn read(path: &Path) -> Result<Self, JournalError> {
        let failed = |error| JournalError::File(path.to_owned(), "read", error);
        let (folder, _) = trusted::split(path).map_err(failed)?;
        let dir = match Dir::trusted(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            dir => Some(dir.map_err(failed)?),
        };
        Self::read_in(path, dir)
    }

    /// An empty journal, for a host on which nothing was changed, such as a recorded one.
    pub fn empty() -> Self {
        Self::new(Path::new(""), None)
    }

    fn new(path: &Path, dir: Option<Dir>) -> Self {
        Self {
            path: path.to_owned(),
            dir,
            file: None,
            lock: None,
            entries: BTreeMap::new(),
            by_path: BTreeMap::new(),
            next: 0,
            lines: 0,
            damaged: Vec::new(),
        }
    }

    /// Reads the file in a directory. A file that does not exist is an empty journal.
    fn read_in(path: &Path, dir: Option<Dir>) -> Result<Self, JournalError> {
        let mut journal = Self::new(path, dir);
        let mut text = Vec::new();
        let Ok((dir, name)) = journal.place() else {
            return Ok(journal);
        };
        match dir
            .read(name)
            .and_then(|mut file| file.read_to_end(&mut text))
        {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(journal),
            Err(error) => return Err(JournalError::File(path.to_owned(), "read", error)),
        }
        let text = String::from_utf8_lossy(&text);
        // A last line without a line feed was being written when the process or the machine
        // stopped. If it announces a change, that change had not been made yet, because a change
        // follows its line.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for (number, line) in whole.lines().enumerate() {
            journal.lines = number + 1;
            match serde_json::from_str(line) {
                // Records of a later version could have to be undone in another way.
                Ok(JournalRecord::Journal { version }) if version > VERSION => {
                    return Err(JournalError::Version(path.to_owned(), version));
                }
                Ok(record) => journal.take(record),
                // The other lines are still needed to undo their changes.
                Err(_) => journal.damaged.push(number + 1),
            }
        }
        Ok(journal)
    }

    /// Returns the changes that are not undone yet, in order.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &JournalEntry> + ExactSizeIterator {
        self.entries.values()
    }

    /// Returns the changes of a path that are not undone yet, in order.
    pub(crate) fn entries_of(&self, path: &str) -> impl DoubleEndedIterator<Item = &JournalEntry> {
        let numbers = self.by_path.get(path).into_iter().flatten();
        numbers.filter_map(|id| self.entries.get(id))
    }

    /// Returns the first complete line that cannot be parsed, as an error.
    pub fn damage(&self) -> Option<JournalError> {
        let line = self.damaged.first()?;
        Some(JournalError::Damaged(self.path.clone(), *line))
    }

    /// Applies a record to the entries in memory.
    fn take(&mut self, record: JournalRecord) {
        match record {
            JournalRecord::Journal { .. } => {}
            JournalRecord::Change {
                id,
                boot,
                device,
                change,
            } => {
                // Saturating, because the number comes from a file that could be damaged.
                self.next = self.next.max(id.saturating_add(1));
                let path = change.path().to_owned();
                self.by_path.entry(path).or_default().insert(id);
                let entry = JournalEntry {
                    id,
                    boot,
                    device,
                    change,
                    now: None,
                    undoing: false,
                };
                self.entries.insert(id, entry);
            }
            JournalRecord::Done { id, now } => {
                if let Some(entry) = self.entries.get_mut(&id) {
                    entry.now = Some(now);
                }
            }
            JournalRecord::Undoing { id } => {
                if let Some(entry) = self.entries.get_mut(&id) {
                    entry.undoing = true;
                }
            }
            JournalRecord::Undone { id } => {
                let path = self.entries.remove(&id);
                let path = path.map(|entry| entry.change.path().to_owned());
                if let Some(numbers) = path.and_then(|path| self.by_path.get_mut(&path)) {
                    numbers.remove(&id);
                }
            }
        }
    }

    /// Records that something will be changed. The record is on disk when this returns.
    ///
    /// # Errors
    /// Returns an error if the record cannot be written. The change must not be made in that case.
    pub(crate) fn change(
        &mut self,
        boot: &str,
        device: Option<Ident>,
        change: HostChange,
    ) -> Result<u64, JournalError> {
        let id = self.next;
        self.append(JournalRecord::Change {
            id,
            boot: boot.to_owned(),
            device,
            change,
        })?;
        Ok(id)
    }

    /// Records the value that was read back after a change.
    ///
    /// # Errors
    /// Returns an error if the record cannot be written.
    pub(crate) fn done(&mut self, id: u64, now: String) -> Result<(), JournalError> {
        self.append(JournalRecord::Done { id, now })
    }

    /// Records that a change is about to be undone.
    ///
    /// # Errors
    /// Returns an error if the record cannot be written.
    pub(crate) fn undoing(&mut self, id: u64) -> Result<(), JournalError> {
        self.append(JournalRecord::Undoing { id })
    }

    /// Records that a change is undone.
    ///
    /// # Errors
    /// Returns an error if the record cannot be written.
    pub(crate) fn undone(&mut self, id: u64) -> Result<(), JournalError> {
        self.append(JournalRecord::Undone { id })
    }

    /// Removes the file, unless it has changes that are not undone, or damaged lines that could be
    /// such changes.
    ///
    /// # Errors
    /// Returns an error if the file cannot be removed.
    pub(crate) fn close(&mut self) -> Result<(), JournalError> {
        if !self.entries.is_empty() || !self.damaged.is_empty() {
            return Ok(());
        }
        self.file = None;
        let removed = self.place().and_then(|(dir, name)| dir.remove(name));
        removed.map_err(|error| JournalError::File(self.path.clone(), "remove", error))
    }

    /// Returns the journal's directory, and its name there.
    fn place(&self) -> io::Result<(&Dir, &OsStr)> {
        let (_, name) = trusted::split(&self.path)?;
        Ok((self.dir.as_ref().ok_or(Errno::NOENT)?, name))
    }

    /// Writes a record durably, and then applies it to the entries in memory.
    fn append(&mut self, record: JournalRecord) -> Result<(), JournalError> {
        let written = self.write(&record);
        written.map_err(|error| JournalError::File(self.path.clone(), "write", error))?;
        // The entries in memory must not be ahead of the file.
        self.take(record);
        // Damaged lines are kept for the user to examine, so that such a journal is not rewritten.
        if self.lines > LINES_MAX + 4 * self.entries.len() && self.damaged.is_empty() {
            let shortened = self.shorten();
            shortened.map_err(|error| JournalError::File(self.path.clone(), "shorten", error))?;
        }
        Ok(())
    }

    /// Rewrites the journal with the changes that are not undone. A watch that sets a value again
    /// each second adds a line each time.
    fn shorten(&mut self) -> io::Result<()> {
        let mut records = vec![JournalRecord::Journal { version: VERSION }];
        for entry in self.entries.values().cloned() {
            let id = entry.id;
            records.push(JournalRecord::Change {
                id,
                boot: entry.boot,
                device: entry.device,
                change: entry.change,
            });
            records.extend(entry.now.map(|now| JournalRecord::Done { id, now }));
            if entry.undoing {
                records.push(JournalRecord::Undoing { id });
            }
        }
        let mut text = String::new();
        for record in &records {
            text = text + &serde_json::to_string(record)? + "\n";
        }
        let (dir, name) = self.place()?;
        dir.replace(name, text.as_bytes(), MODE)?;
        self.lines = records.len();
        // The descriptor refers to the file that was replaced.
        self.file = None;
        Ok(())
    }

    fn write(&mut self, record: &JournalRecord) -> io::Result<()> {
        let mut text = String::new();
        if self.file.is_none() {
            let (file, is_new) = self.open_end()?;
            if is_new {
                let first = JournalRecord::Journal { version: VERSION };
                text = serde_json::to_string(&first)? + "\n";
                self.lines = 1;
            }
            self.file = Some(file);
        }
        text = text + &serde_json::to_string(record)? + "\n";
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        // The order of changes depends on this: the line must be durable before the host is
        // changed.
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_all());
        self.lines += 1;
        if written.is_err() {
            // Part of the line could have been written. `open_end` cuts it off when the file is
            // opened again.
            self.file = None;
        }
        written
    }

    /// Opens the file after its last complete line. Returns true as well if the file has no line
    /// yet.
    fn open_end(&self) -> io::Result<(File, bool)> {
        let (dir, name) = self.place()?;
        let mut file = dir.create(name, MODE)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let end = text
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1);
        file.set_len(end as u64)?;
        file.seek(SeekFrom::Start(end as u64))?;
        // The name of a new file must be as durable as its content.
        dir.sync()?;
        Ok((file, end == 0))
    }
}

#[cfg(test)]
mod tests;
