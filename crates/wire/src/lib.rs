//! Storage protocols as parsers and encoders without I/O.
//!
//! No module here opens a socket, reads a clock or starts a thread. The caller moves the bytes and
//! passes the time.
//!
//! - [`nbd`] is the Network Block Device protocol, for servers and for clients.
//! - [`ring`] is the memory that a guest shares with its back end. [`virtio_blk`] decodes the
//!   requests in that memory, [`notify`] decides when each side notifies the other, and [`vhost`]
//!   decodes the messages that set all of this up.
//! - [`ublk`] is the interface through which the Linux kernel lets a program serve a block device.
#![forbid(unsafe_code)]

pub mod nbd;
pub mod notify;
pub mod ring;
pub mod ublk;
pub mod vhost;
pub mod virtio_blk;
