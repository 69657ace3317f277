//! Numbers of the protocol.

/// Bytes of a message's header.
pub const HEADER_LEN: usize = 12;
/// Most bytes behind a header: a table of eight regions is the longest message but one, a configuration space the longest.
pub const PAYLOAD_MAX: usize = CONFIG_HEADER_LEN + CONFIG_MAX;
/// Most descriptors that may come with a message: one for each region of a table.
pub const DESCRIPTORS_MAX: usize = 8;
/// Most regions of one table; with `CONFIGURE_MEM_SLOTS` there may be more, added one by one.
pub const TABLE_REGIONS_MAX: usize = 8;
/// Most bytes of a configuration space.
pub const CONFIG_MAX: usize = 256;
/// Bytes before the contents of a configuration space.
pub(super) const CONFIG_HEADER_LEN: usize = 12;

pub(super) const VERSION: u32 = 1;
pub(super) const VERSION_MASK: u32 = 3;
pub(super) const REPLY: u32 = 1 << 2;
pub(super) const NEED_REPLY: u32 = 1 << 3;
/// In the number of a queue that a descriptor belongs to: there is none.
pub(super) const NO_DESCRIPTOR: u64 = 1 << 8;
/// What a back end says of a changed configuration space.
pub(super) const BACKEND_CONFIG_CHANGE: u32 = 2;
/// What a back end says when there are answers, where notifications are messages.
pub(super) const BACKEND_VRING_CALL: u32 = 4;

/// Most entries of a split queue.
pub const QUEUE_SIZE_MAX: u16 = 1 << 15;

/// Bit of the features of virtio with which `vhost-user` says that it has features of its own.
pub const PROTOCOL_FEATURES: u64 = 1 << 30;

/// Features of the protocol, as bits.
pub mod feature {
    /// Several queues.
    pub const MQ: u64 = 1 << 0;
    /// A front end may ask to be told what came of any message.
    pub const REPLY_ACK: u64 = 1 << 3;
    /// The back end has a way to say something by itself.
    pub const BACKEND_REQ: u64 = 1 << 5;
    /// The configuration space is the back end's.
    pub const CONFIG: u64 = 1 << 9;
    /// What is in flight is noted in shared memory, and survives the back end.
    pub const INFLIGHT_SHMFD: u64 = 1 << 12;
    /// The device can be reset.
    pub const RESET_DEVICE: u64 = 1 << 13;
    /// Kicks and calls are messages, and not signals of a descriptor.
    pub const INBAND_NOTIFICATIONS: u64 = 1 << 14;
    /// Regions of memory come and go one by one.
    pub const CONFIGURE_MEM_SLOTS: u64 = 1 << 15;
}

/// Names what a message asks for, as numbers of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Code(pub u32);

macro_rules! codes {
    ($($name:ident = $number:literal,)*) => {
        #[allow(missing_docs)]
        impl Code {
            $(pub const $name: Self = Self($number);)*
        }

        impl std::fmt::Display for Code {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.0 {
                    $($number => f.write_str(stringify!($name)),)*
                    other => write!(f, "message {other}"),
                }
            }
        }
    };
}

codes! {
    GET_FEATURES = 1,
    SET_FEATURES = 2,
    SET_OWNER = 3,
    RESET_OWNER = 4,
    SET_MEM_TABLE = 5,
    SET_LOG_BASE = 6,
    SET_LOG_FD = 7,
    SET_VRING_NUM = 8,
    SET_VRING_ADDR = 9,
    SET_VRING_BASE = 10,
    GET_VRING_BASE = 11,
    SET_VRING_KICK = 12,
    SET_VRING_CALL = 13,
    SET_VRING_ERR = 14,
    GET_PROTOCOL_FEATURES = 15,
    SET_PROTOCOL_FEATURES = 16,
    GET_QUEUE_NUM = 17,
    SET_VRING_ENABLE = 18,
    SET_BACKEND_REQ_FD = 21,
    GET_CONFIG = 24,
    SET_CONFIG = 25,
    GET_INFLIGHT_FD = 31,
    SET_INFLIGHT_FD = 32,
    RESET_DEVICE = 34,
    VRING_KICK = 35,
    GET_MAX_MEM_SLOTS = 36,
    ADD_MEM_REG = 37,
    REM_MEM_REG = 38,
}
