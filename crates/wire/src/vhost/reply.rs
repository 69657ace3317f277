//! Replies of the back end, and the messages that it sends on its own.

use super::constants::{
    BACKEND_CONFIG_CHANGE, BACKEND_VRING_CALL, MessageCode, NEED_REPLY, REPLY, VERSION,
};
use super::message::Inflight;

/// A reply to a message of the front end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VhostReply<'a> {
    /// A number, such as features or the maximum number of queues or regions.
    Value(u64),
    /// The result of a message whose sender requested it (`REPLY_ACK`).
    Ack {
        /// True if the message was executed.
        done: bool,
    },
    /// The index up to which a queue was served.
    Base {
        /// The number of the queue.
        queue: u32,
        /// The index of the next entry of the available ring.
        base: u16,
    },
    /// A range of the configuration space, or `None` if there is no such range.
    Config {
        /// The first byte of the range.
        offset: u32,
        /// The content of the range.
        data: Option<&'a [u8]>,
    },
    /// The memory in which requests in flight are recorded. Its descriptor must be sent with the
    /// reply.
    Inflight {
        /// The description of the memory.
        inflight: Inflight,
        /// The length of the request's payload in bytes, which the reply must have as well.
        length: u32,
    },
}

impl VhostReply<'_> {
    /// Appends the reply to the message with this code.
    pub fn append(&self, code: MessageCode, out: &mut Vec<u8>) {
        let start = out.len();
        header(code, REPLY, out);
        match self {
            Self::Value(value) => out.extend(value.to_ne_bytes()),
            // `REPLY_ACK`: zero means success, and any other value an error.
            Self::Ack { done } => out.extend(u64::from(!done).to_ne_bytes()),
            Self::Base { queue, base } => {
                out.extend(queue.to_ne_bytes());
                out.extend(u32::from(*base).to_ne_bytes());
            }
            // An empty payload reports an error (`vhost-user.rst`, `VHOST_USER_GET_CONFIG`).
            Self::Config { data: None, .. } => {}
            Self::Config {
                offset,
                data: Some(data),
            } => {
                out.extend(offset.to_ne_bytes());
                out.extend((data.len() as u32).to_ne_bytes());
                out.extend(0u32.to_ne_bytes());
                out.extend(*data);
            }
            Self::Inflight { inflight, length } => {
                out.extend(inflight.size.to_ne_bytes());
                out.extend(inflight.offset.to_ne_bytes());
                out.extend(inflight.queues.to_ne_bytes());
                out.extend(inflight.queue_size.to_ne_bytes());
                out.resize(start + super::HEADER_LEN + *length as usize, 0);
            }
        }
        let length = (out.len() - start - super::HEADER_LEN) as u32;
        out[start + 8..start + 12].copy_from_slice(&length.to_ne_bytes());
    }
}

/// Appends the message that the configuration space has changed.
pub fn append_config_changed(out: &mut Vec<u8>) {
    header(MessageCode(BACKEND_CONFIG_CHANGE), 0, out);
}

/// The length in bytes of the front end's reply to [`append_call`].
pub const CALL_ANSWER_LEN: usize = super::HEADER_LEN + 8;

/// Appends the message that a queue has responses, and requests a reply
/// ([`INBAND_NOTIFICATIONS`](super::feature::INBAND_NOTIFICATIONS)).
pub fn append_call(queue: u32, out: &mut Vec<u8>) {
    let start = out.len();
    header(MessageCode(BACKEND_VRING_CALL), NEED_REPLY, out);
    out.extend(queue.to_ne_bytes());
    out.extend(0u32.to_ne_bytes());
    out[start + 8..start + 12].copy_from_slice(&8u32.to_ne_bytes());
}

fn header(code: MessageCode, flags: u32, out: &mut Vec<u8>) {
    out.extend(code.0.to_ne_bytes());
    out.extend((VERSION | flags).to_ne_bytes());
    out.extend(0u32.to_ne_bytes());
}
