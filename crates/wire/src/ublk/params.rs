//! What a device is like: the limits of its queue in Linux.

use super::control::at;

/// Bytes of [`Params`]: as much of the kernel's structure as is used here.
pub const PARAMS_LEN: usize = 60;

const TYPE_BASIC: u32 = 1;
const TYPE_DISCARD: u32 = 2;

const READ_ONLY: u32 = 1;
const ROTATIONAL: u32 = 2;
const VOLATILE_CACHE: u32 = 4;
const FUA: u32 = 8;

/// What a device is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// Its size in sectors.
    pub sectors: u64,
    /// Nothing can be written.
    pub read_only: bool,
    /// It turns.
    pub rotational: bool,
    /// Writes are on stable storage only after a flush, or if they say so themselves (FUA).
    pub cached: bool,
    /// Bytes of its blocks, a power of two from 512 to 4096.
    pub logical_block: u32,
    /// Bytes of the blocks that it prefers, a power of two and no less.
    pub physical_block: u32,
    /// Sectors of the longest request, at least 8.
    pub longest: u32,
    /// What can be given back and zeroed; `None` for nothing.
    pub discard: Option<Discard>,
}

/// How ranges can be given back and zeroed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Discard {
    /// Bytes that are given back at once, a power of two.
    pub granularity: u32,
    /// Sectors that a request gives back at most; 0 if none can be.
    pub discard: u32,
    /// Sectors that a request zeroes at most; 0 if none can be.
    pub write_zeroes: u32,
}

impl Params {
    /// As the driver reads them.
    pub fn encode(&self) -> [u8; PARAMS_LEN] {
        let mut bytes = [0; PARAMS_LEN];
        let when = |set: bool, bit: u32| if set { bit } else { 0 };
        let types = TYPE_BASIC | when(self.discard.is_some(), TYPE_DISCARD);
        let attributes = when(self.read_only, READ_ONLY)
            | when(self.rotational, ROTATIONAL)
            | when(self.cached, VOLATILE_CACHE | FUA);
        bytes[0..4].copy_from_slice(&(PARAMS_LEN as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&types.to_ne_bytes());
        bytes[8..12].copy_from_slice(&attributes.to_ne_bytes());
        bytes[12] = self.logical_block.ilog2() as u8;
        // What it prefers is the least and the best at once.
        bytes[13..16].fill(self.physical_block.ilog2() as u8);
        bytes[16..20].copy_from_slice(&self.longest.to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.sectors.to_ne_bytes());
        if let Some(discard) = self.discard {
            bytes[44..48].copy_from_slice(&discard.granularity.to_ne_bytes());
            bytes[48..52].copy_from_slice(&discard.discard.to_ne_bytes());
            bytes[52..56].copy_from_slice(&discard.write_zeroes.to_ne_bytes());
            bytes[56..58].copy_from_slice(&1u16.to_ne_bytes());
        }
        bytes
    }

    /// What the driver has of a device; `None` if its server had not said it, or no block that there is.
    pub fn parse(bytes: &[u8; PARAMS_LEN]) -> Option<Self> {
        let types = u32::from_ne_bytes(at(bytes, 4));
        let attributes = u32::from_ne_bytes(at(bytes, 8));
        if types & TYPE_BASIC == 0 {
            return None;
        }
        let discard = (types & TYPE_DISCARD != 0).then(|| Discard {
            granularity: u32::from_ne_bytes(at(bytes, 44)),
            discard: u32::from_ne_bytes(at(bytes, 48)),
            write_zeroes: u32::from_ne_bytes(at(bytes, 52)),
        });
        Some(Self {
            sectors: u64::from_ne_bytes(at(bytes, 24)),
            read_only: attributes & READ_ONLY != 0,
            rotational: attributes & ROTATIONAL != 0,
            cached: attributes & VOLATILE_CACHE != 0,
            logical_block: 1u32.checked_shl(bytes[12].into())?,
            physical_block: 1u32.checked_shl(bytes[13].into())?,
            longest: u32::from_ne_bytes(at(bytes, 16)),
            discard,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn params() -> impl Strategy<Value = Params> {
        let discard = proptest::option::of((9u32..21, any::<u32>(), any::<u32>()));
        let flags = any::<[bool; 3]>();
        (
            any::<u64>(),
            flags,
            9u32..13,
            0u32..8,
            any::<u32>(),
            discard,
        )
            .prop_map(
                |(sectors, [read_only, rotational, cached], block, wider, longest, discard)| {
                    Params {
                        sectors,
                        read_only,
                        rotational,
                        cached,
                        logical_block: 1 << block,
                        physical_block: 1 << (block + wider),
                        longest,
                        discard: discard.map(|(granularity, discard, write_zeroes)| Discard {
                            granularity: 1 << granularity,
                            discard,
                            write_zeroes,
                        }),
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn what_is_said_is_understood(params in params()) {
            prop_assert_eq!(Params::parse(&params.encode()), Some(params));
        }

        #[test]
        fn any_bytes_are_read_to_an_end(bytes in any::<[[u8; 15]; 4]>()) {
            let flat: Vec<u8> = bytes.concat();
            let _ = Params::parse(&flat.try_into().unwrap());
        }
    }
}
