//! The parameters of a device, which become the limits of its queue in Linux.

use super::control::at;

/// The length of encoded [`DeviceParams`] in bytes. This is the part of the kernel's structure that
/// is used here.
pub const PARAMS_LEN: usize = 60;

// The parts of the structure that are present (`UBLK_PARAM_TYPE_*`).
const TYPE_BASIC: u32 = 1;
const TYPE_DISCARD: u32 = 2;

// The attributes of the device (`UBLK_ATTR_*`).
const READ_ONLY: u32 = 1;
const ROTATIONAL: u32 = 2;
const VOLATILE_CACHE: u32 = 4;
const FUA: u32 = 8;

/// The parameters of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceParams {
    /// The size of the device in sectors.
    pub sectors: u64,
    /// True if the device cannot be written.
    pub read_only: bool,
    /// True if the medium rotates, so that seeks are expensive.
    pub rotational: bool,
    /// True if writes are on stable storage only after a flush, or if they have the flag FUA.
    pub cached: bool,
    /// The logical block size in bytes, a power of two from 512 to 4096.
    pub logical_block: u32,
    /// The preferred block size in bytes, a power of two that is at least the logical block size.
    pub physical_block: u32,
    /// The longest request in sectors, at least 8.
    pub longest: u32,
    /// The limits of discarding and zeroing, or `None` if neither is supported.
    pub discard: Option<Discard>,
}

/// The limits of requests that discard or zero ranges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Discard {
    /// The granularity of a discard in bytes, a power of two.
    pub granularity: u32,
    /// The longest discard in sectors, or 0 if discards are not supported.
    pub discard: u32,
    /// The longest range to zero in sectors, or 0 if that is not supported.
    pub write_zeroes: u32,
}

impl DeviceParams {
    /// Encodes the parameters in the driver's format.
    pub fn encode(&self) -> [u8; PARAMS_LEN] {
        let mut bytes = [0; PARAMS_LEN];
        let when = |set: bool, bit: u32| if set { bit } else { 0 };
        let types = TYPE_BASIC | when(self.discard.is_some(), TYPE_DISCARD);
        let attributes = when(self.read_only, READ_ONLY)
            | when(self.rotational, ROTATIONAL)
            // Without a volatile cache, Linux would not send FUA anyway.
            | when(self.cached, VOLATILE_CACHE | FUA);
        bytes[0..4].copy_from_slice(&(PARAMS_LEN as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&types.to_ne_bytes());
        bytes[8..12].copy_from_slice(&attributes.to_ne_bytes());
        bytes[12] = self.logical_block.ilog2() as u8;
        // The preferred block size serves as the physical block, the optimal and the minimum I/O
        // size.
        bytes[13..16].fill(self.physical_block.ilog2() as u8);
        bytes[16..20].copy_from_slice(&self.longest.to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.sectors.to_ne_bytes());
        if let Some(discard) = self.discard {
            bytes[44..48].copy_from_slice(&discard.granularity.to_ne_bytes());
            bytes[48..52].copy_from_slice(&discard.discard.to_ne_bytes());
            bytes[52..56].copy_from_slice(&discard.write_zeroes.to_ne_bytes());
            // One range per request (`max_discard_segments`).
            bytes[56..58].copy_from_slice(&1u16.to_ne_bytes());
        }
        bytes
    }

    /// Decodes the parameters that the driver has stored. Returns `None` if the server had not set
    /// them, or if a block size is invalid.
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
            // The shifts come from the driver, and one of 32 or more is not valid.
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

    fn params() -> impl Strategy<Value = DeviceParams> {
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
                    DeviceParams {
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
        fn parameters_survive_encoding(params in params()) {
            prop_assert_eq!(DeviceParams::parse(&params.encode()), Some(params));
        }

        #[test]
        fn any_bytes_are_read_to_an_end(bytes in any::<[[u8; 15]; 4]>()) {
            let flat: Vec<u8> = bytes.concat();
            let _ = DeviceParams::parse(&flat.try_into().unwrap());
        }
    }
}
