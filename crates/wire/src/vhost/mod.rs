//! The messages of `vhost-user`, the protocol with which a VMM sets up a disk in a back end.
//!
//! The source of all rules is QEMU's `docs/interop/vhost-user.rst`. The front end (the VMM) uses a
//! Unix socket to tell the back end the location of the guest's memory, the location of the queues
//! in it, and the descriptors through which both sides notify each other. The requests themselves
//! are in the guest's memory. All numbers are in the byte order of the machine.
//!
//! Descriptors arrive next to the bytes of the message to which they belong. This module accepts
//! any type for them. The caller decides which features to offer. [`VhostRequest`] contains the
//! messages that a disk can need, and all others result in [`MessageError::Unknown`].
//!
//! ```
//! use weir_wire::vhost::{Assembler, MessageCode, VhostReply, VhostRequest};
//!
//! let mut from_socket = [1u32, 1, 0].into_iter().flat_map(u32::to_ne_bytes);
//! let mut assembler = Assembler::<()>::default();
//! let room = assembler.room();
//! let count = room.len();
//! room.iter_mut().for_each(|byte| *byte = from_socket.next().unwrap());
//! let message = assembler.on_received(count, [])?.expect("a message without a payload");
//! assert_eq!(message.code, MessageCode::GET_FEATURES);
//! assert_eq!(message.request, Ok(VhostRequest::GetFeatures));
//!
//! let mut answer = Vec::new();
//! VhostReply::Value(1 << 32).append(message.code, &mut answer);
//! assert_eq!(answer.len(), 20);
//! # Ok::<(), weir_wire::vhost::FrameError>(())
//! ```

mod constants;
mod message;
mod region;
mod reply;
#[cfg(test)]
mod tests;

pub use constants::*;
pub use message::{
    Assembler, FrameError, Inflight, Message, MessageError, RingAddresses, VhostRequest,
};
pub use region::{Region, RegionError, check_joining};
pub use reply::{CALL_ANSWER_LEN, VhostReply, append_call, append_config_changed};
