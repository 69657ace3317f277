//! Constants of the `vhost-user` protocol (QEMU, `docs/interop/vhost-user.rst`).

/// The length of a message's header in bytes.
pub const HEADER_LEN: usize = 12;
/// The maximum length of a payload in bytes. The longest payload is a whole configuration space. A
/// table of eight regions is 4 bytes shorter.
pub const PAYLOAD_MAX: usize = CONFIG_HEADER_LEN + CONFIG_MAX;
/// The maximum number of descriptors with a message: one for each region of a table.
pub const DESCRIPTORS_MAX: usize = 8;
/// The maximum number of regions in one table. With `CONFIGURE_MEM_SLOTS`, further regions can be
/// added one by one.
pub const TABLE_REGIONS_MAX: usize = 8;
/// The maximum length of a configuration space in bytes.
pub const CONFIG_MAX: usize = 256;
/// The length in bytes of the fields before the content of a configuration space.
pub(super) const CONFIG_HEADER_LEN: usize = 12;

// The flags in a message's header. The two lowest bits are the version.
pub(super) const VERSION: u32 = 1;
pub(super) const VERSION_MASK: u32 = 3;
pub(super) const REPLY: u32 = 1 << 2;
pub(super) const NEED_REPLY: u32 = 1 << 3;
/// The flag in a queue number which states that the message has no descriptor.
pub(super) const NO_DESCRIPTOR: u64 = 1 << 8;
/// The back end's message that the configuration space has changed.
pub(super) const BACKEND_CONFIG_CHANGE: u32 = 2;
/// The back end's message that there are responses, if notifications are messages.
pub(super) const BACKEND_VRING_CALL: u32 = 4;

/// The maximum number of entries of a split queue.
pub const QUEUE_SIZE_MAX: u16 = 1 << 15;

/// The bit among virtio's features which states that `vhost-user` has features of its own.
pub const PROTOCOL_FEATURES: u64 = 1 << 30;

/// Features of the protocol as bits of a 64-bit number.
pub mod feature {
    /// The device may have several queues.
    pub const MQ: u64 = 1 << 0;
    /// The front end may request a reply to any message.
    pub const REPLY_ACK: u64 = 1 << 3;
    /// The back end has a channel for requests of its own.
    pub const BACKEND_REQ: u64 = 1 << 5;
    /// The back end provides the configuration space.
    pub const CONFIG: u64 = 1 << 9;
    /// Requests in flight are recorded in shared memory, so that they survive the back end.
    pub const INFLIGHT_SHMFD: u64 = 1 << 12;
    /// The device can be reset.
    pub const RESET_DEVICE: u64 = 1 << 13;
    /// Kicks and calls are messages instead of signals of a descriptor.
    pub const INBAND_NOTIFICATIONS: u64 = 1 << 14;
    /// Regions of memory can be added and removed one by one.
    pub const CONFIGURE_MEM_SLOTS: u64 = 1 << 15;
}

/// The code of a message, as a number of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct MessageCode(pub u32);

macro_rules! codes {
    ($($name:ident = $number:literal,)*) => {
        #[allow(missing_docs)]
        impl MessageCode {
            $(pub const $name: Self = Self($number);)*
        }

        impl std::fmt::Display for MessageCode {
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
