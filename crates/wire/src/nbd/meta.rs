//! Extents, the content of the reply to `BLOCK_STATUS`.

use super::flags::ExtentFlags;

/// A range of an export with a uniform state, in the format of a `BLOCK_STATUS` chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes. It is never zero on the wire.
    pub length: u32,
    /// State of the range in the selected context.
    pub flags: ExtentFlags,
}

impl Extent {
    /// Length of an extent on the wire, in bytes.
    pub const LEN: usize = 8;

    /// Decodes an extent from its bytes on the wire.
    pub const fn decode(bytes: [u8; Self::LEN]) -> Self {
        // Length and flags are two numbers of 32 bits, the length first.
        let word = u64::from_be_bytes(bytes);
        Self {
            length: (word >> 32) as u32,
            flags: ExtentFlags::from_bits(word as u32),
        }
    }

    /// Encodes the extent in the format of the wire.
    pub const fn encode(self) -> [u8; Self::LEN] {
        ((self.length as u64) << 32 | self.flags.bits() as u64).to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_survive_encoding() {
        let extent = |length, flags| Extent { length, flags };
        let hole = extent(512, ExtentFlags::HOLE | ExtentFlags::ZERO);
        let bytes = [0, 0, 2, 0, 0, 0, 0, 3];
        assert_eq!(Extent::decode(bytes), hole);
        assert_eq!(hole.encode(), bytes);
        let all = extent(u32::MAX, ExtentFlags::from_bits(0x8000_0001));
        assert_eq!(Extent::decode(all.encode()), all);
    }
}
