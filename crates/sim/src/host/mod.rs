//! The virtual host: what an operating system puts between a program's system calls and the block layer, and between the block
//! layer and the drive.
//!
//! A client whose [`ClientSpec`](crate::ClientSpec) says `buffered` is a process with one open file: its program's reads and writes
//! are system calls that go through the page cache, with Linux's read-ahead; its program's flushes are `fdatasync`. Such a process
//! makes one system call at a time. Processes whose regions overlap have the same file open and share its pages: one waits for what
//! another fetches. Other clients do direct I/O: every request of the program goes to the layer.
//!
//! The model covers what the layer sees of a file whose blocks are contiguous: pages of 4 KiB, read-ahead windows as single
//! requests up to the drive's maximum transfer, data and flush of an `fdatasync`. The pages of one system call leave as one
//! request, so Linux's plug would find nothing more to merge. The model leaves out memory pressure (files fit into memory)
//! and write-back without `fdatasync`. Unless a scenario names a file system, blocks are allocated: `fdatasync` after an overwrite needs
//! no commit in ext4. Where it names one, writes to new blocks and flushes of processes pass its [`Journal`].

mod ata;
mod cache;
mod files;
mod journal;
mod process;
mod read_ahead;

pub(crate) use ata::Ata;
pub(crate) use cache::Fetch;
pub(crate) use files::Files;
pub(crate) use journal::Journal;
pub(crate) use process::{Command, Process, Then};
