//! Extents: the answer to `BLOCK_STATUS`.

use super::flags::ExtentFlags;

/// A range of an export with one state, as it stands in a `BLOCK_STATUS` chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes, never zero on the wire.
    pub length: u32,
    /// State of the range.
    pub flags: ExtentFlags,
}

impl Extent {
    /// Length of an extent on the wire, in bytes.
    pub const LEN: usize = 8;

    /// The extent in these bytes.
    pub const fn decode(bytes: [u8; Self::LEN]) -> Self {
        let [a, b, c, d, e, f, g, h] = bytes;
        Self {
            length: u32::from_be_bytes([a, b, c, d]),
            flags: ExtentFlags::from_bits(u32::from_be_bytes([e, f, g, h])),
        }
    }

    /// The bytes of the extent.
    pub const fn encode(self) -> [u8; Self::LEN] {
        let [a, b, c, d] = self.length.to_be_bytes();
        let [e, f, g, h] = self.flags.bits().to_be_bytes();
        [a, b, c, d, e, f, g, h]
    }
}

/// Collects the extents of one answer from what the backend reports: neighbours of equal state become one, nothing is
/// reported beyond the request, `REQ_ONE` and the limit on the number of extents are obeyed.
#[derive(Debug, Clone)]
pub struct ExtentList {
    extents: Vec<Extent>,
    /// Bytes of the request not yet covered.
    wanted: u32,
    limit: usize,
    full: bool,
}

impl ExtentList {
    /// For a request of `length` bytes; `one` is its flag `REQ_ONE`; at most `limit` extents (at least one).
    pub fn new(length: u32, one: bool, limit: usize) -> Self {
        let limit = if one { 1 } else { limit.max(1) };
        Self {
            extents: Vec::new(),
            wanted: length,
            limit,
            full: length == 0,
        }
    }

    /// Adds the next range, `length` bytes long. Returns whether more is wanted: once it is false, the backend need not
    /// be asked any further and what is pushed is dropped. A range of no bytes changes nothing.
    pub fn push(&mut self, length: u64, flags: ExtentFlags) -> bool {
        if self.full || length == 0 {
            return !self.full;
        }
        let length = u32::try_from(length).unwrap_or(u32::MAX).min(self.wanted);
        match self.extents.last_mut() {
            // No overflow: all lengths together are at most the request's.
            Some(last) if last.flags == flags => last.length += length,
            _ => {
                if self.extents.len() == self.limit {
                    self.full = true;
                    return false;
                }
                self.extents.push(Extent { length, flags });
            }
        }
        self.wanted -= length;
        self.full = self.wanted == 0;
        !self.full
    }

    /// The extents so far; empty only if nothing was pushed.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }
}
