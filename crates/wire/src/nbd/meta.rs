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
        let word = u64::from_be_bytes(bytes);
        Self {
            length: (word >> 32) as u32,
            flags: ExtentFlags::from_bits(word as u32),
        }
    }

    /// The bytes of the extent.
    pub const fn encode(self) -> [u8; Self::LEN] {
        ((self.length as u64) << 32 | self.flags.bits() as u64).to_be_bytes()
    }
}

/// Collects the extents of one answer from what the backend reports: neighbours of equal state
/// become one, nothing is reported beyond the request, `REQ_ONE` and the limit on the number of
/// extents are obeyed.
#[derive(Debug, Clone)]
pub struct ExtentList {
    extents: Vec<Extent>,
    /// Bytes of the request not yet covered.
    wanted: u32,
    limit: usize,
    full: bool,
}

impl ExtentList {
    /// For a request of `length` bytes; `one` is its flag `REQ_ONE`; at most `limit` extents (at
    /// least one).
    pub fn new(length: u32, one: bool, limit: usize) -> Self {
        let limit = if one { 1 } else { limit.max(1) };
        Self {
            extents: Vec::new(),
            wanted: length,
            limit,
            full: length == 0,
        }
    }

    /// Adds the next range, `length` bytes long. Returns whether more is wanted: once it is false,
    /// the backend need not be asked any further and what is pushed is dropped. A range of no bytes
    /// changes nothing.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DATA: ExtentFlags = ExtentFlags::EMPTY;
    const HOLE: ExtentFlags = ExtentFlags::HOLE.with(ExtentFlags::ZERO);

    fn extent(length: u32, flags: ExtentFlags) -> Extent {
        Extent { length, flags }
    }

    #[test]
    fn an_extent_is_its_length_and_its_state() {
        let bytes = [0, 0, 2, 0, 0, 0, 0, 3];
        assert_eq!(Extent::decode(bytes), extent(512, HOLE));
        assert_eq!(extent(512, HOLE).encode(), bytes);
        let all = extent(u32::MAX, ExtentFlags::from_bits(0x8000_0001));
        assert_eq!(Extent::decode(all.encode()), all);
    }

    #[test]
    fn neighbours_of_equal_state_become_one_and_the_end_is_cut() {
        let mut list = ExtentList::new(4096, false, 16);
        assert!(list.push(512, DATA));
        assert!(list.push(512, DATA));
        assert!(list.push(0, HOLE));
        assert!(list.push(1024, HOLE));
        assert!(!list.push(1 << 40, DATA));
        assert!(!list.push(512, HOLE));
        let expected = [extent(1024, DATA), extent(1024, HOLE), extent(2048, DATA)];
        assert_eq!(list.extents(), expected);
    }

    #[test]
    fn the_limit_ends_the_list_but_not_its_last_extent() {
        let mut list = ExtentList::new(4096, true, 16);
        assert!(list.push(512, HOLE));
        assert!(list.push(512, HOLE));
        assert!(!list.push(512, DATA));
        assert!(!list.push(512, HOLE));
        assert_eq!(list.extents(), [extent(1024, HOLE)]);
    }

    #[test]
    fn a_whole_export_is_one_extent_of_the_request() {
        let mut list = ExtentList::new(u32::MAX, false, 1);
        assert!(!list.push(u64::MAX, DATA));
        assert_eq!(list.extents(), [extent(u32::MAX, DATA)]);
    }

    proptest! {
        /// Against a model with one state for each byte.
        #[test]
        fn lists_say_what_was_pushed(
            length in 1..600u32,
            limit in 1..8usize,
            one in any::<bool>(),
            ranges in prop::collection::vec((0..200u64, 0..4u32), 0..12),
        ) {
            let mut list = ExtentList::new(length, one, limit);
            let mut bytes = Vec::new();
            let mut wanted = true;
            for &(length, bits) in &ranges {
                let flags = ExtentFlags::from_bits(bits);
                if wanted {
                    bytes.extend(std::iter::repeat_n(flags, length as usize));
                }
                wanted = list.push(length, flags);
            }
            let listed: Vec<ExtentFlags> = list
                .extents()
                .iter()
                .flat_map(|extent| std::iter::repeat_n(extent.flags, extent.length as usize))
                .collect();
            prop_assert!(listed.len() <= length as usize);
            prop_assert_eq!(&listed[..], &bytes[..listed.len()]);
            let limit = if one { 1 } else { limit };
            prop_assert!(list.extents().len() <= limit);
            prop_assert!(list.extents().iter().all(|extent| extent.length > 0));
            prop_assert!(list.extents().windows(2).all(|pair| pair[0].flags != pair[1].flags));
            let full = listed.len() == length as usize;
            let limited = listed.len() < bytes.len();
            prop_assert_eq!(wanted, !full && !limited);
            prop_assert_eq!(list.extents().is_empty(), bytes.is_empty());
        }
    }
}
