//! What measurements write: blocks that are known again.
//!
//! Every block of 4096 bytes begins with a mark and with its own place on the drive; the rest looks random to a drive that
//! compresses, and is the same for the same place. So a block that a measurement wrote is told from everything else, also after a
//! break, and no two of them are equal.

use std::sync::LazyLock;
use weir_core::random::Rng;

/// Bytes of a block.
pub const BLOCK: u64 = 4096;

const MARK: &[u8; 16] = b"weir calibrate\n\0";
const HEAD: usize = MARK.len() + 8;
/// Bytes that blocks are cut from.
const FILLER: usize = 64 << 10;

static FILLING: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut rng = Rng::new(0x77_65_69_72);
    let words = std::iter::repeat_with(|| rng.next_u64().to_le_bytes());
    words.take(FILLER / 8).flatten().collect()
});

/// Appends the block whose first byte lies at `offset`.
pub(crate) fn block(offset: u64, into: &mut Vec<u8>) {
    into.extend_from_slice(MARK);
    into.extend_from_slice(&offset.to_le_bytes());
    into.extend_from_slice(filling(offset));
}

/// Whether `bytes` are the block at `offset`.
pub(crate) fn is_own(offset: u64, bytes: &[u8]) -> bool {
    bytes.len() as u64 == BLOCK
        && bytes.starts_with(MARK)
        && bytes[MARK.len()..HEAD] == offset.to_le_bytes()
        && &bytes[HEAD..] == filling(offset)
}

fn filling(offset: u64) -> &'static [u8] {
    let length = BLOCK as usize - HEAD;
    let places = (FILLER - length) as u64;
    let from = ((offset / BLOCK).wrapping_mul(61) % places) as usize;
    &FILLING[from..from + length]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_known_at_its_own_place_only() {
        for offset in [0, BLOCK, 7 * BLOCK, u64::MAX / BLOCK * BLOCK] {
            let mut bytes = Vec::new();
            block(offset, &mut bytes);
            assert_eq!(bytes.len() as u64, BLOCK);
            assert!(is_own(offset, &bytes));
            assert!(!is_own(offset ^ BLOCK, &bytes));
            assert!(!is_own(offset, &bytes[1..]));
            for at in [0, 20, 100, 4095] {
                bytes[at] ^= 1;
                assert!(!is_own(offset, &bytes), "{at}");
                bytes[at] ^= 1;
            }
        }
        assert!(!is_own(0, &[0; 4096]));
    }
}
