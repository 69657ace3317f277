//! A buddy allocator for numbered units. It accesses no memory except its own tables.
//!
//! The algorithm is the binary buddy system (Knuth, The Art of Computer Programming 1, section
//! 2.5). Freed blocks stay whole on a short stack for each size, so that a server that keeps
//! allocating and freeing the same sizes neither splits nor merges. The stacks are merged when an
//! allocation would otherwise fail.

/// The number of block sizes. A block of an order has `1 << order` units.
const ORDERS: usize = 22;
/// The number of freed blocks of each order that are kept unmerged.
const STACK: usize = 64;
/// The end of a list, or an empty place.
const NIL: u32 = u32::MAX;

/// A buddy allocator. A block is identified by its first unit.
pub(crate) struct Buddy {
    blocks: Vec<Block>,
    /// The first free block of each order.
    heads: [u32; ORDERS],
    stacks: [Stack; ORDERS],
    /// The number of units that are not in use.
    free: u32,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    state: BlockState,
    order: u8,
    /// The number of references while the block is in use.
    refs: u32,
    /// The neighbours in the free list while the block is free.
    next: u32,
    prev: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockState {
    /// A unit that is not the first of a block, or whose block was merged.
    Inside,
    Free,
    Stacked,
    Used,
}

#[derive(Clone, Copy, Debug)]
struct Stack {
    units: [u32; STACK],
    len: usize,
}

impl Buddy {
    /// The order of the largest block.
    pub(crate) const MAX_ORDER: u32 = ORDERS as u32 - 1;

    /// Creates an allocator for `units` units, all of them free.
    pub(crate) fn new(units: u32) -> Self {
        let inside = Block {
            state: BlockState::Inside,
            order: 0,
            refs: 0,
            next: NIL,
            prev: NIL,
        };
        let mut buddy = Self {
            blocks: vec![inside; units as usize],
            heads: [NIL; ORDERS],
            stacks: [Stack {
                units: [NIL; STACK],
                len: 0,
            }; ORDERS],
            free: units,
        };
        buddy.seed(units);
        buddy
    }

    /// Allocates a block of `1 << order` units with one reference. Returns `None` if no such block
    /// is free.
    pub(crate) fn take(&mut self, order: u32) -> Option<u32> {
        if order > Self::MAX_ORDER {
            return None;
        }
        // The stack first, then the free lists, and only if both have nothing, the blocks on all
        // stacks.
        let unit = match self.stacks[order as usize].pop() {
            Some(unit) => unit,
            None => self.split(order).or_else(|| {
                self.merge_stacks();
                self.split(order)
            })?,
        };
        self.free -= 1 << order;
        let block = &mut self.blocks[unit as usize];
        block.state = BlockState::Used;
        block.order = order as u8;
        block.refs = 1;
        Some(unit)
    }

    /// Adds a reference to a block in use.
    pub(crate) fn share(&mut self, unit: u32) {
        let block = &mut self.blocks[unit as usize];
        assert_eq!(
            block.state,
            BlockState::Used,
            "only a block in use is shared"
        );
        block.refs = block
            .refs
            .checked_add(1)
            .expect("fewer than 2^32 references");
    }

    /// Drops a reference. The block is freed with the last one.
    pub(crate) fn release(&mut self, unit: u32) {
        let block = &mut self.blocks[unit as usize];
        assert_eq!(
            block.state,
            BlockState::Used,
            "only a block in use is released"
        );
        block.refs -= 1;
        if block.refs > 0 {
            return;
        }
        let order = block.order;
        self.free += 1 << order;
        if self.stacks[order as usize].push(unit) {
            block.state = BlockState::Stacked;
        } else {
            self.merge(unit, order);
        }
    }

    /// Returns the number of units that are not in use.
    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// Divides the units into the largest aligned blocks. It starts at the end, so that the first
    /// units are first in the free lists and are allocated first.
    fn seed(&mut self, units: u32) {
        let mut end = units;
        while end > 0 {
            // The largest block that ends here and is aligned to its size.
            let order = end.trailing_zeros().min(Self::MAX_ORDER);
            end -= 1 << order;
            self.link(end, order as u8);
        }
    }

    /// Takes a block from the free lists, and splits a larger one if necessary.
    fn split(&mut self, order: u32) -> Option<u32> {
        let mut from = (order as usize..ORDERS).find(|&from| self.heads[from] != NIL)? as u8;
        let unit = self.heads[usize::from(from)];
        self.unlink(unit);
        while u32::from(from) > order {
            from -= 1;
            self.link(unit + (1 << from), from);
        }
        Some(unit)
    }

    /// Returns a block to the free lists, merged with its buddy as long as the buddy is free.
    fn merge(&mut self, mut unit: u32, mut order: u8) {
        self.blocks[unit as usize].state = BlockState::Inside;
        while u32::from(order) < Self::MAX_ORDER {
            // Buddies differ in the bit of their order. The buddy of a block near the end may not
            // exist, which `get` detects.
            let buddy = unit ^ (1 << order);
            match self.blocks.get(buddy as usize) {
                Some(block) if block.state == BlockState::Free && block.order == order => {}
                _ => break,
            }
            self.unlink(buddy);
            unit = unit.min(buddy);
            order += 1;
        }
        self.link(unit, order);
    }

    fn merge_stacks(&mut self) {
        for order in 0..ORDERS {
            while let Some(unit) = self.stacks[order].pop() {
                self.merge(unit, order as u8);
            }
        }
    }

    fn link(&mut self, unit: u32, order: u8) {
        let head = std::mem::replace(&mut self.heads[usize::from(order)], unit);
        if head != NIL {
            self.blocks[head as usize].prev = unit;
        }
        self.blocks[unit as usize] = Block {
            state: BlockState::Free,
            order,
            refs: 0,
            next: head,
            prev: NIL,
        };
    }

    fn unlink(&mut self, unit: u32) {
        let Block {
            order, next, prev, ..
        } = self.blocks[unit as usize];
        if prev == NIL {
            self.heads[usize::from(order)] = next;
        } else {
            self.blocks[prev as usize].next = next;
        }
        if next != NIL {
            self.blocks[next as usize].prev = prev;
        }
        self.blocks[unit as usize].state = BlockState::Inside;
    }
}

impl Stack {
    fn push(&mut self, unit: u32) -> bool {
        // A full stack leaves the block to the free lists.
        let Some(place) = self.units.get_mut(self.len) else {
            return false;
        };
        *place = unit;
        self.len += 1;
        true
    }

    fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        Some(self.units[self.len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_are_taken_in_order_and_aligned() {
        let mut buddy = Buddy::new(128);
        assert_eq!(buddy.take(0), Some(0));
        assert_eq!(buddy.take(0), Some(1));
        // Four units are aligned to four, so units 2 and 3 are left out.
        assert_eq!(buddy.take(2), Some(4));
    }

    #[test]
    fn released_units_merge_into_the_whole_block_again() {
        let mut buddy = Buddy::new(1024);
        let mut pieces = Vec::new();
        while let Some(unit) = buddy.take(0) {
            pieces.push(unit);
        }
        assert_eq!((pieces.len(), buddy.free()), (1024, 0));
        for unit in pieces {
            buddy.release(unit);
        }
        assert_eq!(buddy.free(), 1024);
        // The stacks and the free lists are merged into one block of 1024 units.
        assert_eq!(buddy.take(10), Some(0));
        assert_eq!(buddy.take(0), None);
    }

    #[test]
    fn a_shared_block_is_free_after_its_last_reference() {
        let mut buddy = Buddy::new(1);
        let unit = buddy.take(0).unwrap();
        buddy.share(unit);
        buddy.release(unit);
        assert_eq!((buddy.blocks[unit as usize].refs, buddy.take(0)), (1, None));
        buddy.release(unit);
        assert_eq!(buddy.take(0), Some(unit));
    }

    proptest! {
        /// Compares the allocator with a map of the units: blocks never overlap and are aligned to
        /// their size. At the end, everything can be allocated in the largest blocks, so no block
        /// is lost.
        #[test]
        fn blocks_are_disjoint_aligned_and_come_back(
            units in 1u32..3000,
            steps in proptest::collection::vec((0u32..13, any::<bool>(), any::<usize>()), 0..600),
        ) {
            let mut buddy = Buddy::new(units);
            let mut owner = vec![false; units as usize];
            let mut held: Vec<(u32, u32)> = Vec::new();
            // Each step takes a block, or releases a random one.
            for (order, take, pick) in steps {
                if take || held.is_empty() {
                    let Some(unit) = buddy.take(order) else { continue };
                    prop_assert_eq!(unit % (1 << order), 0);
                    for used in &mut owner[unit as usize..(unit + (1 << order)) as usize] {
                        prop_assert!(!std::mem::replace(used, true));
                    }
                    held.push((unit, order));
                } else {
                    let (unit, order) = held.swap_remove(pick % held.len());
                    owner[unit as usize..(unit + (1 << order)) as usize].fill(false);
                    buddy.release(unit);
                }
                prop_assert_eq!(
                    buddy.free() as usize,
                    owner.iter().filter(|used| !**used).count()
                );
            }
            for (unit, _) in held {
                buddy.release(unit);
            }
            // The binary digits of the number of units are the largest blocks.
            for order in (0..ORDERS as u32).rev() {
                if units & (1 << order) != 0 {
                    prop_assert!(buddy.take(order).is_some());
                }
            }
            prop_assert_eq!(buddy.free(), 0);
        }
    }
}
