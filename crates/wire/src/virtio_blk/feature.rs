//! Features that a device offers and a driver accepts: bits of a 64-bit number.

/// The device states the most segments that a request may have.
pub const SEG_MAX: u64 = 1 << 2;
/// Nothing can be written.
pub const RO: u64 = 1 << 5;
/// The block size is told.
pub const BLK_SIZE: u64 = 1 << 6;
/// There are flushes.
pub const FLUSH: u64 = 1 << 9;
/// Alignment and best sizes are told.
pub const TOPOLOGY: u64 = 1 << 10;
/// The driver may switch between write-back and write-through.
pub const CONFIG_WCE: u64 = 1 << 11;
/// There are several queues.
pub const MQ: u64 = 1 << 12;
/// There are discards.
pub const DISCARD: u64 = 1 << 13;
/// There are requests that write zeroes.
pub const WRITE_ZEROES: u64 = 1 << 14;
/// Chains may end in a table of descriptors ([`Settings::indirect`](crate::ring::split::Settings::indirect)).
pub const INDIRECT: u64 = 1 << 28;
/// Events by index and not by flag ([`Settings::event_idx`](crate::ring::split::Settings::event_idx)).
pub const EVENT_IDX: u64 = 1 << 29;
/// The specification from 1.0 on: little-endian, this layout.
pub const VERSION_1: u64 = 1 << 32;
