//! Protocols as parsers and encoders: bytes in, values out.
//!
//! No sockets, no clocks, no threads: the caller moves the bytes. [`nbd`] is the Network Block
//! Device protocol, for the server and for the client. [`ring`] is the memory that a guest shares with
//! its back end, [`virtio_blk`] what stands in it, [`notify`] when either side is told, and [`vhost`] sets all up. [`ublk`] is
//! how the kernel asks a program to be a block device.
#![forbid(unsafe_code)]

pub mod nbd;
pub mod notify;
pub mod ring;
pub mod ublk;
pub mod vhost;
pub mod virtio_blk;
