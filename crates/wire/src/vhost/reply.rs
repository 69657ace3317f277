//! Answers, and what the back end says by itself.

use super::constants::{
    BACKEND_CONFIG_CHANGE, BACKEND_VRING_CALL, Code, NEED_REPLY, REPLY, VERSION,
};
use super::message::Inflight;

/// An answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply<'a> {
    /// A number: features, how many queues or regions there may be.
    Value(u64),
    /// What came of a message whose sender asked (`REPLY_ACK`).
    Ack {
        /// It was carried out.
        done: bool,
    },
    /// How far a queue was served.
    Base {
        /// Number of the queue.
        queue: u32,
        /// The next entry of the available ring.
        base: u16,
    },
    /// Part of the configuration space; `None` if there is no such part.
    Config {
        /// First byte.
        offset: u32,
        /// What is there.
        data: Option<&'a [u8]>,
    },
    /// The memory in which is noted what is in flight. Its descriptor is sent with it.
    Inflight {
        /// What it is.
        inflight: Inflight,
        /// Bytes that the question had, which the answer has, too.
        length: u32,
    },
}

impl Reply<'_> {
    /// Appends the answer to a message.
    pub fn append(&self, code: Code, out: &mut Vec<u8>) {
        let start = out.len();
        header(code, REPLY, out);
        match self {
            Self::Value(value) => out.extend(value.to_ne_bytes()),
            Self::Ack { done } => out.extend(u64::from(!done).to_ne_bytes()),
            Self::Base { queue, base } => {
                out.extend(queue.to_ne_bytes());
                out.extend(u32::from(*base).to_ne_bytes());
            }
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

/// Appends what the back end says when its configuration space has changed.
pub fn append_config_changed(out: &mut Vec<u8>) {
    header(Code(BACKEND_CONFIG_CHANGE), 0, out);
}

/// Bytes of the front end's answer to [`append_call`].
pub const CALL_ANSWER_LEN: usize = super::HEADER_LEN + 8;

/// Appends what the back end says when a queue has answers, and asks to be told when that was heard
/// ([`INBAND_NOTIFICATIONS`](super::feature::INBAND_NOTIFICATIONS)).
pub fn append_call(queue: u32, out: &mut Vec<u8>) {
    let start = out.len();
    header(Code(BACKEND_VRING_CALL), NEED_REPLY, out);
    out.extend(queue.to_ne_bytes());
    out.extend(0u32.to_ne_bytes());
    out[start + 8..start + 12].copy_from_slice(&8u32.to_ne_bytes());
}

fn header(code: Code, flags: u32, out: &mut Vec<u8>) {
    out.extend(code.0.to_ne_bytes());
    out.extend((VERSION | flags).to_ne_bytes());
    out.extend(0u32.to_ne_bytes());
}
