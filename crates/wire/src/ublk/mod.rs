//! ublk: the kernel asks a program to be a block device, `/dev/ublkbN`.
//!
//! Numbers and layouts are those of `linux/ublk_cmd.h` (Linux 6.12), which gives them for use by programs; what they mean stands in
//! the kernel's `Documentation/block/ublk.rst`. Everything is in the byte order of the machine.
//!
//! A device is added, described ([`Params`]) and started by commands to `/dev/ublk-control` ([`ControlCommand`]). Its requests stand in
//! memory of the driver, one place for each queue and tag ([`Descriptor`]); the program gives the driver a command for each of them
//! ([`IoCommand`]), which ends when there is a request in that place, and which brings the last one's result back. Payloads are copied
//! by reading and writing `/dev/ublkcN` at [`payload_offset`].

mod constants;
mod control;
mod params;
mod request;

pub use constants::{
    DESCRIPTOR_LEN, FETCH, MAX_DEPTH, MAX_QUEUES, PATH_CONTROL, RESULT_OK, State, feature,
};
pub use control::{CONTROL_LEN, ControlCommand, Device, INFO_LEN, Verb};
pub use params::{Discard, PARAMS_LEN, Params};
pub use request::{
    Descriptor, IoCommand, Operation, Refused, Request, Rules, descriptors_len, descriptors_offset,
    payload_offset,
};

/// Bytes of a sector, in which sizes and places are counted.
pub const SECTOR: u64 = 512;
