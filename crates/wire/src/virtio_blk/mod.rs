//! virtio's block device: what a chain of buffers asks for, and what the device says of itself.
//!
//! Source: the virtio specification 1.2, section 5.2. A request is a header of 16 bytes that the device reads, data, and a byte of
//! status that the device writes last; how these are spread over buffers is the driver's choice.

pub mod feature;
