//! The configuration space, in which the device describes itself to the driver.

/// The length of the configuration space in bytes.
pub const CONFIG_LEN: usize = 60;

/// The content of the configuration space. Fields whose feature is not offered are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConfigSpace {
    /// The disk's size in sectors.
    pub capacity: u64,
    /// The maximum number of segments of a request (`SEG_MAX`).
    pub segments: u32,
    /// The block size in bytes (`BLK_SIZE`).
    pub block: u32,
    /// The number of blocks of a physical block, as an exponent of two (`TOPOLOGY`).
    pub physical: u8,
    /// The offset of the first aligned block (`TOPOLOGY`).
    pub alignment: u8,
    /// The smallest efficient request in blocks (`TOPOLOGY`).
    pub least: u16,
    /// The optimal request in blocks (`TOPOLOGY`).
    pub best: u32,
    /// True if writes may be answered before they are on stable storage. The driver may change it
    /// (`CONFIG_WCE`).
    pub write_back: bool,
    /// The number of queues of the device (`MQ`).
    pub queues: u16,
    /// The limits of discards (`DISCARD`).
    pub discard: Option<super::RangeLimits>,
    /// The optimal alignment of a discard, in sectors (`DISCARD`).
    pub discard_alignment: u32,
    /// The limits of requests that write zeroes (`WRITE_ZEROES`).
    pub write_zeroes: Option<super::RangeLimits>,
    /// True if writing zeroes may deallocate the space (`WRITE_ZEROES`).
    pub may_unmap: bool,
}

impl ConfigSpace {
    /// The position of [`write_back`](Self::write_back), the only byte that a driver may write.
    pub const WRITE_BACK: usize = 32;

    /// Encodes the configuration space.
    pub fn encode(&self) -> [u8; CONFIG_LEN] {
        let mut out = [0; CONFIG_LEN];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        // Positions as in `struct virtio_blk_config` (virtio 1.2, section 5.2.4). The gaps belong
        // to features that are not offered (`SIZE_MAX` at 8 and `GEOMETRY` at 16), or are unused.
        put(0, &self.capacity.to_le_bytes());
        put(12, &self.segments.to_le_bytes());
        put(20, &self.block.to_le_bytes());
        put(24, &[self.physical, self.alignment]);
        put(26, &self.least.to_le_bytes());
        put(28, &self.best.to_le_bytes());
        put(Self::WRITE_BACK, &[u8::from(self.write_back)]);
        put(34, &self.queues.to_le_bytes());
        if let Some(limits) = self.discard {
            put(36, &limits.sectors.to_le_bytes());
            put(40, &limits.ranges.to_le_bytes());
            put(44, &self.discard_alignment.to_le_bytes());
        }
        if let Some(limits) = self.write_zeroes {
            put(48, &limits.sectors.to_le_bytes());
            put(52, &limits.ranges.to_le_bytes());
            put(56, &[u8::from(self.may_unmap)]);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virtio_blk::RangeLimits;

    /// Offsets as in the specification's `struct virtio_blk_config` (virtio 1.2, section 5.2.4).
    #[test]
    fn the_configuration_space_has_the_offsets_of_the_specification() {
        let config = ConfigSpace {
            capacity: 0x0102_0304_0506_0708,
            segments: 0x1112_1314,
            block: 0x1000,
            physical: 3,
            alignment: 1,
            least: 0x2122,
            best: 0x3132_3334,
            write_back: true,
            queues: 0x4142,
            discard: Some(RangeLimits {
                sectors: 0x5152_5354,
                ranges: 0x6162_6364,
            }),
            discard_alignment: 8,
            write_zeroes: Some(RangeLimits {
                sectors: 0x7172_7374,
                ranges: 2,
            }),
            may_unmap: true,
        };
        let expected = [
            [8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0],
            [0x14, 0x13, 0x12, 0x11, 0, 0, 0, 0, 0, 0x10, 0, 0],
            [3, 1, 0x22, 0x21, 0x34, 0x33, 0x32, 0x31, 1, 0, 0x42, 0x41],
            [0x54, 0x53, 0x52, 0x51, 0x64, 0x63, 0x62, 0x61, 8, 0, 0, 0],
            [0x74, 0x73, 0x72, 0x71, 2, 0, 0, 0, 1, 0, 0, 0],
        ];
        assert_eq!(config.encode()[..], expected.concat());
        assert_eq!(config.encode()[ConfigSpace::WRITE_BACK], 1);
    }
}
