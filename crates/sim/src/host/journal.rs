//! The metadata that a file system writes for its files: ext4's journal and btrfs's log.
//!
//! ext4 has its default mount options (Linux's Documentation/filesystems/ext4). Blocks are
//! allocated when data are written out (`delalloc`), and a transaction commits after the data of
//! all files that got blocks in it are on the drive (`data=ordered`). One transaction gathers
//! changes while at most one commits (Documentation/filesystems/journalling.rst). A commit writes a
//! descriptor and the changed blocks of metadata, then a flush and a commit block
//! (Documentation/filesystems/ext4/journal.rst). It begins when an `fdatasync` needs it, or 5 s
//! after the transaction began (`commit=`).
//!
//! btrfs never overwrites data: each write goes to the next free position. An `fdatasync` waits
//! only for the data of its own file. After that, the log of the file is written, in one write for
//! all waiting calls, followed by a flush and a superblock (btrfs.readthedocs.io, "tree-log",
//! "flushoncommit").
//!
//! The model leaves out the times of files (`fsync` is the same as `fdatasync`), blocks of metadata
//! that must be read first, checkpoints, btrfs's commit every 30 s, its checksums, and direct I/O,
//! which overwrites allocated blocks.

use super::process::{Continuation, ProcessCommand};
use super::read_ahead::PAGE;
use std::collections::{BTreeMap, BTreeSet};
use weir_config::scenario::{Filesystem, FilesystemKind, LOG};
use weir_core::{Flags, Instant, Op, Span};

/// The age at which a transaction of ext4 commits without an `fdatasync`: ext4's default for
/// `commit=`.
const PERIOD: Span = Span::from_secs(5);

/// The number of files whose inodes share a block of metadata: 256-byte inodes in a block of 4 KiB.
const INODES: usize = 16;

/// The maximum number of blocks of metadata in a commit.
const BLOCKS: usize = 32;

/// The transactions of a file system, between processes and the layer.
#[derive(Debug)]
pub(crate) struct FilesystemJournal {
    filesystem: Filesystem,
    /// The position of the next block of the log in its region, and of the next data of btrfs after
    /// the log.
    head: u64,
    free: u64,
    /// The pages of the device that have an allocated block.
    allocated: BTreeSet<u64>,
    /// The last transaction of each client that has got new blocks since its last sync.
    joined: BTreeMap<u32, u64>,
    running: Transaction,
    commit: Option<Commit>,
    /// The next command of the commit.
    next: Option<ProcessCommand>,
    commands: u64,
}

#[derive(Debug, Default)]
struct Transaction {
    number: u64,
    /// The time at which the transaction got its first file.
    began: Option<Instant>,
    files: BTreeSet<u32>,
    /// The outstanding commands that write data of the transaction's files, by client and number.
    data: BTreeSet<(u32, u64)>,
    /// The flushes of clients that the commit answers.
    waiters: Vec<(u32, u64)>,
}

#[derive(Debug)]
struct Commit {
    transaction: Transaction,
    stage: CommitStage,
}

/// The step of a commit that is in progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CommitStage {
    Data,
    Log,
    Flush,
    Record,
}

impl FilesystemJournal {
    pub(crate) fn new(filesystem: Filesystem) -> Self {
        Self {
            filesystem,
            // The first block of the region is the superblock.
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

    /// Processes a command of a process. Returns true for a flush that waits for a commit, which
    /// the layer must not receive.
    pub(crate) fn intercept(
        &mut self,
        now: Instant,
        client: u32,
        command: &mut ProcessCommand,
    ) -> bool {
        match command.op {
            Op::Write => self.write(now, client, command),
            Op::Flush => return self.sync(now, client, command.number),
            _ => {}
        }
        false
    }

    fn write(&mut self, now: Instant, client: u32, command: &mut ProcessCommand) {
        match self.filesystem.kind {
            FilesystemKind::Ext4 => {
                let (first, pages) = (command.offset / PAGE, u64::from(command.length) / PAGE);
                let before = self.allocated.len();
                self.allocated.extend(first..first + pages);
                // An overwrite of allocated blocks changes no metadata, so it joins no transaction.
                if self.allocated.len() == before {
                    return;
                }
                self.running.began.get_or_insert(now);
                self.running.files.insert(client);
                self.running.data.insert((client, command.number));
            }
            FilesystemKind::Btrfs => {
                // btrfs does not overwrite, so the write is moved to the next free position.
                let region = self.filesystem.region;
                command.offset = region.start + next(&mut self.free, LOG, region.length, command);
            }
        }
        self.joined.insert(client, self.running.number);
    }

    /// Processes the sync of a process that has written its data. Returns false if the metadata are
    /// durable already, so that a flush is sufficient.
    fn sync(&mut self, now: Instant, client: u32, number: u64) -> bool {
        let Some(joined) = self.joined.remove(&client) else {
            return false;
        };
        let transaction = match (self.filesystem.kind, &mut self.commit) {
            // The log of the file is written from now on.
            (FilesystemKind::Btrfs, _) => {
                self.running.began.get_or_insert(now);
                self.running.files.insert(client);
                &mut self.running
            }
            (FilesystemKind::Ext4, Some(commit)) if commit.transaction.number == joined => {
                &mut commit.transaction
            }
            (FilesystemKind::Ext4, _) if self.running.number == joined => &mut self.running,
            // The transaction has committed already.
            (FilesystemKind::Ext4, _) => return false,
        };
        transaction.waiters.push((client, number));
        true
    }

    /// Completes a command of a process. Returns true if a commit may have waited for it.
    pub(crate) fn on_data_written(&mut self, client: u32, number: u64) -> bool {
        self.each(|t| t.data.remove(&(client, number)));
        self.commit.is_some()
    }

    /// Removes a client that has left. No commit waits for its commands, and its flushes are not
    /// answered.
    pub(crate) fn on_client_left(&mut self, client: u32) {
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

    /// Continues the commit at `now`. Adds the next command to `commands`, and returns when to call
    /// again.
    pub(crate) fn run(&mut self, now: Instant, commands: &mut Vec<ProcessCommand>) -> Continuation {
        if self.commit.is_none() {
            let Some(began) = self.running.began else {
                return Continuation::Answer;
            };
            if self.running.waiters.is_empty() && now < began + PERIOD {
                return Continuation::At(began + PERIOD);
            }
            let gathering = Transaction {
                number: self.running.number + 1,
                ..Transaction::default()
            };
            self.commit = Some(Commit {
                transaction: std::mem::replace(&mut self.running, gathering),
                stage: CommitStage::Data,
            });
        }
        if let Some(Commit { transaction, stage }) = &mut self.commit
            && *stage == CommitStage::Data
            && transaction.data.is_empty()
        {
            *stage = CommitStage::Log;
            let leaves = transaction.files.len().div_ceil(INODES);
            let blocks = match self.filesystem.kind {
                // A descriptor, a block bitmap, the descriptor of its group, and blocks of inodes.
                FilesystemKind::Ext4 => 3 + leaves,
                // The nodes of btrfs have 16 KiB, which are four pages: one per leaf, and one for
                // the root of logs.
                FilesystemKind::Btrfs => 4 * (leaves + 1),
            };
            self.log(Flags::NONE, blocks.min(BLOCKS) as u32);
        }
        commands.extend(self.next.take());
        Continuation::Answer
    }

    /// Completes the commit's command. If the commit ends with it, returns the flushes that it
    /// answers.
    pub(crate) fn on_answer(&mut self, well: bool) -> Vec<(u32, u64)> {
        let Some(commit) = &mut self.commit else {
            return Vec::new();
        };
        commit.stage = match commit.stage {
            CommitStage::Log if well => CommitStage::Flush,
            CommitStage::Flush if well => CommitStage::Record,
            // The record was the last step. A failed command also ends the commit, and its error is
            // passed to the waiting flushes.
            _ => {
                let over = self.commit.take();
                return over.map_or_else(Vec::new, |over| over.transaction.waiters);
            }
        };
        match (commit.stage, self.filesystem.kind) {
            (CommitStage::Flush, _) => self.send(Op::Flush, Flags::NONE, 0, 0),
            // The commit block and the superblock are written with FUA, so that the transaction is
            // durable when they complete.
            (_, FilesystemKind::Ext4) => self.log(Flags::FUA, 1),
            (_, FilesystemKind::Btrfs) => {
                let superblock = self.filesystem.region.start;
                self.send(Op::Write, Flags::FUA, superblock, PAGE as u32);
            }
        }
        Vec::new()
    }

    /// Writes the next `blocks` blocks of the log, which is used as a ring.
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
        self.next = Some(ProcessCommand {
            number: self.commands,
            op,
            flags: flags.with(Flags::SYNC).with(of_op),
            offset,
            length,
        });
        self.commands += 1;
    }
}

/// Allocates the next position for a command's data between `start` and `end`, and starts again at
/// `start` if the rest is too short.
fn next(place: &mut u64, start: u64, end: u64, command: &ProcessCommand) -> u64 {
    let length = u64::from(command.length);
    if *place + length > end {
        *place = start;
    }
    *place += length;
    *place - length
}

#[cfg(test)]
mod tests;
