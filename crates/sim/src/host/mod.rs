//! The virtual host: the parts of an operating system between a program and the block layer, and
//! between the block layer and the drive.
//!
//! A client with `buffered` in its [`ClientSpec`](crate::ClientSpec) is a process with one open
//! file. The reads and writes of its program are system calls that use the page cache with Linux's
//! read-ahead, and its flushes are `fdatasync`. Such a process makes one system call at a time.
//! Processes whose regions overlap have the same file open and share its pages, so that one can
//! wait for a page that another fetches. Other clients do direct I/O: each request of the program
//! goes to the layer.
//!
//! The model covers the requests that the layer receives for a file with contiguous blocks: pages
//! of 4 KiB, read-ahead windows as single requests of up to the drive's maximum transfer, and the
//! data and flush of an `fdatasync`. The pages of one system call are sent as one request, so
//! Linux's plug would find nothing more to merge. Data of a process that never calls `fdatasync`
//! are written back by the flusher of its group ([`WriteBack`]). The model leaves out memory
//! pressure (files fit into memory). Unless a scenario names a file system, blocks
//! are already allocated, so that `fdatasync` after an overwrite needs no commit in ext4. If a
//! scenario names a file system, writes to new blocks and flushes of processes pass its
//! [`FilesystemJournal`].

mod ata;
mod cache;
mod files;
mod journal;
mod process;
mod read_ahead;
mod write_back;

pub(crate) use ata::Ata;
pub(crate) use cache::Fetch;
pub(crate) use files::Files;
pub(crate) use journal::FilesystemJournal;
pub(crate) use process::{Continuation, Process, ProcessCommand};
pub(crate) use write_back::WriteBack;
