//! Features that a device offers and a driver accepts, as bits of a 64-bit number.

/// The device states the maximum number of segments of a request.
pub const SEG_MAX: u64 = 1 << 2;
/// The disk is read-only.
pub const RO: u64 = 1 << 5;
/// The device states its block size.
pub const BLK_SIZE: u64 = 1 << 6;
/// The device supports flushes.
pub const FLUSH: u64 = 1 << 9;
/// The device states its alignment and its optimal request sizes.
pub const TOPOLOGY: u64 = 1 << 10;
/// The driver may switch between write-back and write-through.
pub const CONFIG_WCE: u64 = 1 << 11;
/// The device has several queues.
pub const MQ: u64 = 1 << 12;
/// The device supports discards.
pub const DISCARD: u64 = 1 << 13;
/// The device supports requests that write zeroes.
pub const WRITE_ZEROES: u64 = 1 << 14;
/// Chains may end in a table of descriptors
/// ([`Settings::indirect`](crate::ring::split::Settings::indirect)).
pub const INDIRECT: u64 = 1 << 28;
/// Events are requested by index and not by flag
/// ([`Settings::event_idx`](crate::ring::split::Settings::event_idx)).
pub const EVENT_IDX: u64 = 1 << 29;
/// The device follows the specification from version 1.0 on, in which everything is little-endian.
pub const VERSION_1: u64 = 1 << 32;
