//! virtio's block device: the requests in chains of buffers, and the device's configuration space.
//!
//! The source is the virtio specification 1.2, section 5.2. A request consists of a header of 16
//! bytes that the device reads, the data, and a status byte that the device writes last. The driver
//! chooses how these are spread over buffers.
//!
//! # Serving a request
//! 1. Take a chain from the queue ([`Device::take`](crate::ring::split::Device::take)).
//! 2. Parse it with [`BlkRequest::parse`], which reads the necessary parts of guest memory exactly
//!    once and checks everything against [`BlkRules`] and the guest's regions. A refused request
//!    has a reason ([`BlkRequestError`]) and a status.
//! 3. Transfer the data between [`BlkRequest::data`] and the drive, write the [`Status`] to
//!    [`BlkRequest::status`], and return the head with [`BlkRequest::written`].

mod config;
pub mod feature;
mod request;
mod rules;

pub use config::{CONFIG_LEN, ConfigSpace};
pub use request::{
    BlkCommand, BlkRequest, BlkRequestError, DiskRange, HEADER, ID_LEN, RANGE, RefusedBlkRequest,
    Status,
};
pub use rules::{BlkRules, RangeLimits};

/// The length of a sector in bytes. Positions, capacities and limits are counted in sectors,
/// whatever the block size is.
pub const SECTOR: u64 = 512;
