//! The limits of a virtio block device.

/// The limits of a device. The driver learns them from the features and the configuration space,
/// and its requests are checked against them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlkRules {
    /// The disk's size in sectors.
    pub capacity: u64,
    /// The block size in bytes, to which ranges of reads and writes must be aligned. It is a power
    /// of two of at least 512.
    pub block: u32,
    /// True if the driver can only read.
    pub read_only: bool,
    /// The maximum number of data buffers of a request.
    pub segments: u32,
    /// The maximum length of the data of a request in bytes.
    pub length: u32,
    /// The limits of discards, or `None` if they are not supported.
    pub discard: Option<RangeLimits>,
    /// The limits of requests that write zeroes, or `None` if they are not supported.
    pub write_zeroes: Option<RangeLimits>,
}

/// The limits of requests that carry ranges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeLimits {
    /// The maximum length of a range in sectors.
    pub sectors: u32,
    /// The maximum number of ranges of a request.
    pub ranges: u32,
}
