//! The virtual host: what an operating system puts between a program's system calls and the block layer, and between the block
//! layer and the drive.
//!
//! A client whose [`ClientSpec`](crate::ClientSpec) says `buffered` is a process with one open file: its program's reads and writes
//! are system calls that go through the page cache, with Linux's read-ahead; its program's flushes are `fdatasync`. Such a process
//! asks for one thing at a time. Clients without it do direct I/O: every request of the program goes to the layer.
//!
//! What is modelled is what the layer gets to see of a file whose blocks lie one behind the other: pages of 4 KiB, windows of
//! read-ahead as single requests up to the drive's largest transfer, data and flush of an `fdatasync`. What one system call asks for leaves
//! as one request, so that Linux's plug would find nothing left to merge. What is not modelled: memory
//! pressure (files fit), write-back without `fdatasync`, and commits of the file system's journal: on a file whose blocks are
//! allocated, `fdatasync` after overwriting needs none in ext4.

mod ata;
mod cache;
mod process;
mod read_ahead;

pub(crate) use ata::Ata;
pub(crate) use process::{Command, Process, Then};
