//! What a file system writes beside the data of files, so that they are found again: ext4's journal, btrfs's log.
//!
//! ext4 is as mounted by default (Linux's Documentation/filesystems/ext4): blocks are allocated when data are written out (`delalloc`), and
//! a transaction commits once the data of all files that got blocks in it are on the drive (`data=ordered`). One transaction gathers while
//! one at most commits (Documentation/filesystems/journalling.rst). A commit is a descriptor and the changed blocks of metadata, then a
//! commit block behind a flush (Documentation/filesystems/ext4/journal.rst). It begins when a call of `fdatasync` needs it, or 5 s after
//! the transaction began (`commit=`).
//!
//! btrfs never overwrites: what is written goes to the next free place. `fdatasync` waits for its own file's data alone; then the file's
//! log is written, in one write for all that wait, and a superblock behind a flush (btrfs.readthedocs.io, "tree-log", "flushoncommit").
//!
//! The model leaves out times of files (`fsync` is as `fdatasync`), blocks of metadata that must be read first, checkpoints, btrfs's
//! commit each 30 s, its checksums, and direct I/O: that overwrites what has been allocated.

use super::process::{Command, Then};
use super::read_ahead::PAGE;
use std::collections::{BTreeMap, BTreeSet};
use weir_config::scenario::{Filesystem, FilesystemKind, LOG};
use weir_core::{Flags, Instant, Op, Span};

/// How old a transaction of ext4 becomes.
const PERIOD: Span = Span::from_secs(5);

/// Files whose inodes share a block of metadata.
const INODES: usize = 16;

/// Blocks of metadata in a commit at most.
const BLOCKS: usize = 32;

/// A file system's transactions, between processes and the layer.
#[derive(Debug)]
pub(crate) struct Journal {
    filesystem: Filesystem,
    /// Where the next block of the log goes in its region, and the next of btrfs's data behind that.
    head: u64,
    free: u64,
    /// Pages of the device that have a block.
    allocated: BTreeSet<u64>,
    /// By client that has had new blocks since it last synced: the transaction of the last.
    joined: BTreeMap<u32, u64>,
    running: Transaction,
    commit: Option<Commit>,
    /// The commit's next command.
    next: Option<Command>,
    commands: u64,
}

#[derive(Debug, Default)]
struct Transaction {
    number: u64,
    /// When it got its first file.
    began: Option<Instant>,
    files: BTreeSet<u32>,
    /// Commands that write its files' data: clients and their numbers.
    data: BTreeSet<(u32, u64)>,
    /// Flushes of clients that its commit answers.
    waiters: Vec<(u32, u64)>,
}

#[derive(Debug)]
struct Commit {
    transaction: Transaction,
    stage: Stage,
}

/// What a commit waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Data,
    Log,
    Flush,
    Record,
}

impl Journal {
    pub(crate) fn new(filesystem: Filesystem) -> Self {
        Self {
            filesystem,
            // The first block of the region is a superblock.
            head: PAGE,
            free: LOG,
            allocated: BTreeSet::new(),
            joined: BTreeMap::new(),
            running: Transaction::default(),
            commit: None,
            next: None,
            commands: 0,
        }
    }

    /// A process asks for a command. True if it is a flush that waits for a commit: the layer is not to see it.
    pub(crate) fn asked(&mut self, now: Instant, client: u32, command: &mut Command) -> bool {
        match command.op {
            Op::Write => self.write(now, client, command),
            Op::Flush => return self.sync(now, client, command.number),
            _ => {}
        }
        false
    }

    fn write(&mut self, now: Instant, client: u32, command: &mut Command) {
        match self.filesystem.kind {
            FilesystemKind::Ext4 => {
                let (first, pages) = (command.offset / PAGE, u64::from(command.length) / PAGE);
                let before = self.allocated.len();
                self.allocated.extend(first..first + pages);
                if self.allocated.len() == before {
                    return;
                }
                self.running.began.get_or_insert(now);
                self.running.files.insert(client);
                self.running.data.insert((client, command.number));
            }
            FilesystemKind::Btrfs => {
                let region = self.filesystem.region;
                command.offset = region.start + next(&mut self.free, LOG, region.length, command);
            }
        }
        self.joined.insert(client, self.running.number);
    }

    /// A process has written its data, and wants to know them found again. False if they are, and a flush is all that it needs.
    fn sync(&mut self, now: Instant, client: u32, number: u64) -> bool {
        let Some(joined) = self.joined.remove(&client) else {
            return false;
        };
        let transaction = match (self.filesystem.kind, &mut self.commit) {
            // Its log is written from now on.
            (FilesystemKind::Btrfs, _) => {
                self.running.began.get_or_insert(now);
                self.running.files.insert(client);
                &mut self.running
            }
            (FilesystemKind::Ext4, Some(commit)) if commit.transaction.number == joined => {
                &mut commit.transaction
            }
            (FilesystemKind::Ext4, _) if self.running.number == joined => &mut self.running,
            (FilesystemKind::Ext4, _) => return false,
        };
        transaction.waiters.push((client, number));
        true
    }

    /// A process's command is over. True if a commit may have waited for it.
    pub(crate) fn written(&mut self, client: u32, number: u64) -> bool {
        self.each(|t| t.data.remove(&(client, number)));
        self.commit.is_some()
    }

    /// A client has left: nothing that it asked for is waited for, nor answered.
    pub(crate) fn left(&mut self, client: u32) {
        self.joined.remove(&client);
        self.each(|t| {
            t.data.retain(|d| d.0 != client);
            t.waiters.retain(|w| w.0 != client);
        });
    }

    fn each<T>(&mut self, mut change: impl FnMut(&mut Transaction) -> T) {
        let committing = self.commit.as_mut().map(|c| &mut c.transaction);
        for transaction in committing.into_iter().chain([&mut self.running]) {
            change(transaction);
        }
    }

    /// Goes on at `now`: adds to `commands` what is to be written next, and says when to call again.
    pub(crate) fn run(&mut self, now: Instant, commands: &mut Vec<Command>) -> Then {
        if self.commit.is_none() {
            let Some(began) = self.running.began else {
                return Then::Answer;
            };
            if self.running.waiters.is_empty() && now < began + PERIOD {
                return Then::At(began + PERIOD);
            }
            let gathering = Transaction {
                number: self.running.number + 1,
                ..Transaction::default()
            };
            self.commit = Some(Commit {
                transaction: std::mem::replace(&mut self.running, gathering),
                stage: Stage::Data,
            });
        }
        if let Some(Commit { transaction, stage }) = &mut self.commit
            && *stage == Stage::Data
            && transaction.data.is_empty()
        {
            *stage = Stage::Log;
            let leaves = transaction.files.len().div_ceil(INODES);
            let blocks = match self.filesystem.kind {
                // A descriptor, a bitmap, its group's descriptor, and blocks of inodes.
                FilesystemKind::Ext4 => 3 + leaves,
                // Nodes of 16 KiB: a leaf, and the root of logs.
                FilesystemKind::Btrfs => 4 * (leaves + 1),
            };
            self.log(Flags::NONE, blocks.min(BLOCKS) as u32);
        }
        commands.extend(self.next.take());
        Then::Answer
    }

    /// The commit's command is over. If the commit is, the answer is the flushes that are.
    pub(crate) fn answered(&mut self, well: bool) -> Vec<(u32, u64)> {
        let Some(commit) = &mut self.commit else {
            return Vec::new();
        };
        commit.stage = match commit.stage {
            Stage::Log if well => Stage::Flush,
            Stage::Flush if well => Stage::Record,
            _ => {
                let over = self.commit.take();
                return over.map_or_else(Vec::new, |over| over.transaction.waiters);
            }
        };
        match (commit.stage, self.filesystem.kind) {
            (Stage::Flush, _) => self.send(Op::Flush, Flags::NONE, 0, 0),
            (_, FilesystemKind::Ext4) => self.log(Flags::FUA, 1),
            (_, FilesystemKind::Btrfs) => {
                let superblock = self.filesystem.region.start;
                self.send(Op::Write, Flags::FUA, superblock, PAGE as u32);
            }
        }
        Vec::new()
    }

    /// Writes the next blocks of the log.
    fn log(&mut self, flags: Flags, blocks: u32) {
        self.send(Op::Write, flags, 0, blocks * PAGE as u32);
        if let Some(command) = &mut self.next {
            let place = next(&mut self.head, PAGE, LOG, command);
            command.offset = self.filesystem.region.start + place;
        }
    }

    fn send(&mut self, op: Op, flags: Flags, offset: u64, length: u32) {
        let of_op = if op == Op::Write {
            Flags::META
        } else {
            Flags::NONE
        };
        self.next = Some(Command {
            number: self.commands,
            op,
            flags: flags.with(Flags::SYNC).with(of_op),
            offset,
            length,
        });
        self.commands += 1;
    }
}

/// The next place for what a command writes, between `start` and `end`.
fn next(place: &mut u64, start: u64, end: u64, command: &Command) -> u64 {
    let length = u64::from(command.length);
    if *place + length > end {
        *place = start;
    }
    *place += length;
    *place - length
}

#[cfg(test)]
mod tests;
