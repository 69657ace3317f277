//! What a device accepts.

/// What a device accepts; what the driver was told, and is held to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// The disk's size in sectors.
    pub capacity: u64,
    /// What ranges of reads and writes have to be a multiple of, in bytes: a power of two, at least 512.
    pub block: u32,
    /// Nothing can be written.
    pub read_only: bool,
    /// How many buffers of data a request has at most.
    pub segments: u32,
    /// How many bytes of data a request has at most.
    pub length: u32,
    /// The limits of discards; `None` if there are none.
    pub discard: Option<RangeLimits>,
    /// The limits of requests that write zeroes; `None` if there are none.
    pub write_zeroes: Option<RangeLimits>,
}

/// The limits of requests that carry ranges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeLimits {
    /// How many sectors a range has at most.
    pub sectors: u32,
    /// How many ranges a request has at most.
    pub ranges: u32,
}
