//! Stamped blocks, by which data of measurements is recognised later.
//!
//! Every block of 4096 bytes begins with a mark and with its own offset on the drive. The rest is
//! the same for the same offset, and looks random to a drive that compresses data. So a block that
//! a measurement wrote differs from all other data, even after an interruption, and no two blocks
//! are equal.

use std::sync::LazyLock;
use weir_core::random::Rng;

/// The length of a block in bytes.
pub const BLOCK: u64 = 4096;

const MARK: &[u8; 16] = b"weir calibrate\n\0";
const HEAD: usize = MARK.len() + 8;
/// The number of random bytes from which the contents of blocks are cut.
const FILLER: usize = 64 << 10;

static FILLING: LazyLock<Vec<u8>> = LazyLock::new(|| {
    // The seed is "weir" in ASCII. It must not change, or older blocks would no longer be
    // recognised.
    let mut rng = Rng::new(0x77_65_69_72);
    let words = std::iter::repeat_with(|| rng.next_u64().to_le_bytes());
    words.take(FILLER / 8).flatten().collect()
});

/// Appends the block whose first byte is at `offset`.
pub(crate) fn block(offset: u64, into: &mut Vec<u8>) {
    into.extend_from_slice(MARK);
    into.extend_from_slice(&offset.to_le_bytes());
    into.extend_from_slice(filling(offset));
}

/// Returns true if `bytes` are the block at `offset`.
pub(crate) fn is_own(offset: u64, bytes: &[u8]) -> bool {
    bytes.len() as u64 == BLOCK
        && bytes.starts_with(MARK)
        && bytes[MARK.len()..HEAD] == offset.to_le_bytes()
        && &bytes[HEAD..] == filling(offset)
}

fn filling(offset: u64) -> &'static [u8] {
    let length = BLOCK as usize - HEAD;
    // Neighbouring blocks begin 61 bytes apart in the random bytes, so that their contents differ.
    let places = (FILLER - length) as u64;
    let from = ((offset / BLOCK).wrapping_mul(61) % places) as usize;
    &FILLING[from..from + length]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamped_block_is_recognised_only_at_its_own_offset() {
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
