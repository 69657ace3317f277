//! The messages of `vhost-user`, as a back end hears and says them: how a virtual machine's disk is set up.
//!
//! Source of all rules: QEMU, `docs/interop/vhost-user.rst`. A front end (the virtual machine monitor) says over a Unix socket where
//! the guest's memory is, where its queues lie in it and by which descriptors both sides wake each other; requests themselves are in
//! that memory. Numbers are in the byte order of the machine.
//!
//! Descriptors come beside the bytes of the message they belong to; here they are whatever type the caller has for them. What is offered
//! is decided by the user of this module: [`Request`] has what there can be of a disk, the rest is [`MessageError::Unknown`].
//!
//! ```
//! use weir_wire::vhost::{Assembler, Code, Reply, Request};
//!
//! let mut from_socket = [1u32, 1, 0].into_iter().flat_map(u32::to_ne_bytes);
//! let mut assembler = Assembler::<()>::default();
//! let room = assembler.room();
//! let count = room.len();
//! room.iter_mut().for_each(|byte| *byte = from_socket.next().unwrap());
//! let message = assembler.filled(count, [])?.expect("a message without a payload");
//! assert_eq!((message.code, message.request), (Code::GET_FEATURES, Ok(Request::GetFeatures)));
//!
//! let mut answer = Vec::new();
//! Reply::Value(1 << 32).append(message.code, &mut answer);
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
pub use message::{Assembler, FrameError, Inflight, Message, MessageError, Request, RingAddresses};
pub use region::{Region, RegionError, check_joining};
pub use reply::{CALL_ANSWER_LEN, Reply, append_call, append_config_changed};
