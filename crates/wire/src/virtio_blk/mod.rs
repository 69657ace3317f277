//! virtio's block device: what a chain of buffers asks for, and what the device says of itself.
//!
//! Source: the virtio specification 1.2, section 5.2. A request is a header of 16 bytes that the device reads, data, and a byte of
//! status that the device writes last; how these are spread over buffers is the driver's choice.
//!
//! # A request
//! 1. Take a chain from the queue ([`Device::take`](crate::ring::split::Device::take)).
//! 2. [`Request::parse`] reads what has to be read of guest memory, once, and checks everything against [`Rules`] and the guest's
//!    regions. What is refused has a name ([`RequestError`]) and a status.
//! 3. Carry it out between [`Request::data`] and the drive; write the [`Status`] to [`Request::status`]; return the head with
//!    [`Request::written`].

mod config;
pub mod feature;
mod request;
mod rules;

pub use config::{CONFIG_LEN, Config};
pub use request::{Command, HEADER, ID_LEN, RANGE, Range, Refused, Request, RequestError, Status};
pub use rules::{RangeLimits, Rules};

/// How long a sector is in bytes: what positions, capacities and limits count in, whatever the block size.
pub const SECTOR: u64 = 512;
