//! The mapping of a volume's bytes to its members.

/// The layout of a volume on its members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// Striped: one chunk of each member in turn.
    Stripe {
        /// The size of a chunk in bytes: a power of two, 4 KiB to 4 MiB. LVM's default is 64 KiB.
        chunk: u64,
    },
    /// Concatenated: one member after the other.
    Linear,
}

/// The part of a command that belongs to one member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MemberPart {
    pub(super) member: usize,
    pub(super) offset: u64,
    pub(super) length: u32,
}

/// A layout with members of known sizes.
#[derive(Debug)]
pub(super) enum LayoutMap {
    Stripe {
        chunk: u64,
        members: u64,
    },
    Linear {
        /// The offset at which each member begins.
        starts: Vec<u64>,
    },
}

impl LayoutMap {
    /// Creates the map. `sizes` has the sizes of all members except the last one.
    pub(super) fn new(layout: Layout, members: usize, sizes: impl Iterator<Item = u64>) -> Self {
        match layout {
            // With one member, there is nothing to stripe over. LVM makes a linear volume in that
            // case.
            Layout::Stripe { chunk } if members > 1 => Self::Stripe {
                chunk,
                members: members as u64,
            },
            Layout::Stripe { .. } => Self::Linear {
                starts: std::vec![0],
            },
            Layout::Linear => {
                let ends = sizes.scan(0, |end, size| {
                    *end += size;
                    Some(*end)
                });
                Self::Linear {
                    starts: core::iter::once(0).chain(ends).collect(),
                }
            }
        }
    }

    /// The part that begins at `offset`, with at most `length` bytes.
    pub(super) fn part(&self, offset: u64, length: u32) -> MemberPart {
        let (member, within, left) = match self {
            Self::Stripe { chunk, members } => {
                let (turn, within) = (offset / chunk, offset % chunk);
                // A round is one chunk of each member.
                let (round, member) = (turn / members, turn % members);
                (member as usize, round * chunk + within, chunk - within)
            }
            // The last member has no end here: it may accept any offset.
            Self::Linear { starts } => {
                let member = starts.partition_point(|s| *s <= offset) - 1;
                let left = starts.get(member + 1).map_or(u64::MAX, |end| end - offset);
                (member, offset - starts[member], left)
            }
        };
        MemberPart {
            member,
            offset: within,
            length: u64::from(length).min(left) as u32,
        }
    }

    /// All bytes of a range that are on one member, as one part. Commands without data need not be
    /// split at every chunk.
    pub(super) fn whole(&self, offset: u64, length: u32, member: usize) -> Option<MemberPart> {
        let end = offset + u64::from(length);
        let (from, to) = (self.below(member, offset), self.below(member, end));
        (from < to).then_some(MemberPart {
            member,
            offset: from,
            length: (to - from) as u32,
        })
    }

    /// The number of bytes of a member that are before an offset of the volume.
    fn below(&self, member: usize, place: u64) -> u64 {
        match self {
            Self::Stripe { chunk, members } => {
                let round = chunk * members;
                let rest = (place % round).saturating_sub(member as u64 * chunk);
                place / round * chunk + rest.min(*chunk)
            }
            Self::Linear { starts } => {
                let size = starts
                    .get(member + 1)
                    .map_or(u64::MAX, |end| end - starts[member]);
                place.saturating_sub(starts[member]).min(size)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn maps() -> impl Strategy<Value = (LayoutMap, usize, u64)> {
        let stripe = (1usize..6, 1u64..5, 1u64..9).prop_map(|(members, chunk, rounds)| {
            let layout = Layout::Stripe { chunk };
            let map = LayoutMap::new(layout, members, core::iter::empty());
            (map, members, rounds * chunk * members as u64)
        });
        let linear = prop::collection::vec(1u64..30, 1..6).prop_map(|sizes| {
            let members = sizes.len();
            let but_last = sizes[..members - 1].iter().copied();
            let map = LayoutMap::new(Layout::Linear, members, but_last);
            (map, members, sizes.iter().sum())
        });
        prop_oneof![stripe, linear]
    }

    proptest! {
        /// Each byte has a position of its own, parts follow one another without a gap, and a
        /// member's whole part of a range covers the same bytes as its single parts.
        #[test]
        fn every_byte_has_one_place((map, members, size) in maps(), from in 0u64..200, length in 1u32..200) {
            let place = |byte: u64| {
                let part = map.part(byte, 1);
                (part.member, part.offset)
            };
            let places: BTreeSet<_> = (0..size).map(place).collect();
            prop_assert_eq!(places.len() as u64, size);
            for member in 0..members {
                // The bytes of a member are used from the first to the last one, without holes.
                let used: Vec<u64> = places.iter().filter(|p| p.0 == member).map(|p| p.1).collect();
                prop_assert!(used.iter().copied().eq(0..used.len() as u64));
            }
            let from = from % size;
            let end = (from + u64::from(length)).min(size);
            let mut at = from;
            let mut pieces = Vec::new();
            while at < end {
                let part = map.part(at, (end - at) as u32);
                prop_assert!(part.length > 0);
                for byte in 0..u64::from(part.length) {
                    prop_assert_eq!(place(at + byte), (part.member, part.offset + byte));
                }
                at += u64::from(part.length);
                pieces.push(part);
            }
            prop_assert_eq!(at, end);
            for member in 0..members {
                let own = pieces.iter().filter(|p| p.member == member);
                let bytes: u32 = own.clone().map(|p| p.length).sum();
                let whole = map.whole(from, (end - from) as u32, member);
                prop_assert_eq!(whole.map_or(0, |w| w.length), bytes);
                prop_assert_eq!(whole.map(|w| w.offset), own.map(|p| p.offset).min());
            }
        }
    }
}
