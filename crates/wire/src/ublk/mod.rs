//! ublk, the interface through which the Linux kernel lets a program serve the block device
//! `/dev/ublkbN`.
//!
//! Constants and layouts are those of `linux/ublk_cmd.h` (Linux 6.12, and 6.16 for
//! [`Verb::UpdateSize`]), which is published for use by programs. Their meaning is documented in
//! the kernel's `Documentation/block/ublk.rst`. All numbers are in the byte order of the machine.
//!
//! Commands to `/dev/ublk-control` add, describe ([`DeviceParams`]) and start a device
//! ([`ControlCommand`]). Its requests are in memory of the driver, which has one [`UblkDescriptor`]
//! for each queue and tag. For each of them, the server gives the driver a command ([`IoCommand`]).
//! The command completes when a request has arrived, and also returns the result of the previous
//! request of the same tag. The server copies payloads by reading and writing `/dev/ublkcN` at
//! [`payload_offset`].

mod constants;
mod control;
mod params;
mod request;

pub use constants::{
    DESCRIPTOR_LEN, FETCH, MAX_DEPTH, MAX_QUEUES, PATH_CONTROL, RESULT_OK, UblkDeviceState, feature,
};
pub use control::{CONTROL_LEN, ControlCommand, DeviceInfo, INFO_LEN, Verb};
pub use params::{DeviceParams, Discard, PARAMS_LEN};
pub use request::{
    IoCommand, UblkDescriptor, UblkOperation, UblkRequest, UblkRequestError, UblkRules,
    descriptors_len, descriptors_offset, payload_offset,
};

/// The length of a sector in bytes, in which sizes and positions are counted.
pub const SECTOR: u64 = 512;
