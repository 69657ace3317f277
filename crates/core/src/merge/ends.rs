//! A hash table of the commands in the elevator by their ends, to find those that a request can
//! join at the back (Linux: `elv_rqhash`, `q->last_merge`).
//!
//! A command that is dispatched remains in the table until it is over, so that dispatching costs no
//! more than without merging. Searches skip commands of which something was dispatched.

use crate::id::SpaceId;
use crate::list::NIL;
use alloc::vec;
use alloc::vec::Vec;

/// A command in its bucket.
#[derive(Clone, Copy, Debug)]
struct EndNode {
    /// The bucket of the command, or [`NIL`].
    bucket: u32,
    /// The neighbours in the bucket, which is ordered from the newest to the oldest.
    newer: u32,
    older: u32,
    space: SpaceId,
    end: u64,
}

impl EndNode {
    const OUT: Self = Self {
        bucket: NIL,
        newer: NIL,
        older: NIL,
        space: SpaceId(0),
        end: 0,
    };
}

/// The commands of an elevator. Without merging the table is empty, and none of its methods may be
/// called.
#[derive(Debug)]
pub(super) struct Ends {
    /// The newest command of each bucket. The number of buckets is a power of two.
    buckets: Vec<u32>,
    nodes: Vec<EndNode>,
    /// The command that was merged last, or [`NIL`].
    last: u32,
}

impl Ends {
    /// Creates a table for `requests` requests.
    pub(super) fn new(requests: u32) -> Self {
        let buckets = if requests == 0 {
            0
        } else {
            requests.next_power_of_two()
        };
        Self {
            buckets: vec![NIL; buckets as usize],
            nodes: vec![EndNode::OUT; requests as usize],
            last: NIL,
        }
    }

    /// Adds a command, or moves it after its end has changed.
    pub(super) fn put(&mut self, id: u32, space: SpaceId, end: u64) {
        // A command that has grown at its end is in another bucket.
        self.unlink(id);
        let bucket = self.bucket(end);
        let older = core::mem::replace(&mut self.buckets[bucket], id);
        if older != NIL {
            self.nodes[older as usize].newer = id;
        }
        self.nodes[id as usize] = EndNode {
            bucket: bucket as u32,
            newer: NIL,
            older,
            space,
            end,
        };
    }

    /// Removes a command, if it is in the table.
    pub(super) fn remove(&mut self, id: u32) {
        if self.last == id {
            self.last = NIL;
        }
        self.unlink(id);
    }

    /// Returns the command that was merged last.
    pub(super) fn last(&self) -> Option<u32> {
        (self.last != NIL).then_some(self.last)
    }

    /// Sets the command that was merged last.
    pub(super) fn set_last(&mut self, id: u32) {
        self.last = id;
    }

    /// Returns the first command that ends at `end` and satisfies `will_do`, starting with the
    /// newest.
    #[inline]
    pub(super) fn find(
        &self,
        space: SpaceId,
        end: u64,
        will_do: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let mut id = self.buckets[self.bucket(end)];
        while id != NIL {
            let node = &self.nodes[id as usize];
            if node.end == end && node.space == space && will_do(id) {
                return Some(id);
            }
            id = node.older;
        }
        None
    }

    #[inline]
    fn unlink(&mut self, id: u32) {
        let node = &mut self.nodes[id as usize];
        let bucket = core::mem::replace(&mut node.bucket, NIL);
        if bucket != NIL {
            let node = *node;
            self.unlink_from(bucket, node);
        }
    }

    /// Removes a node from its bucket.
    fn unlink_from(&mut self, bucket: u32, node: EndNode) {
        if node.older != NIL {
            self.nodes[node.older as usize].newer = node.newer;
        }
        if node.newer == NIL {
            self.buckets[bucket as usize] = node.older;
        } else {
            self.nodes[node.newer as usize].older = node.older;
        }
    }

    fn bucket(&self, end: u64) -> usize {
        // A multiplicative hash with the constant of the golden ratio. Sectors are hashed instead
        // of bytes, because the lowest bits of an end are mostly zero.
        let hash = (end / 512).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> 32) as usize & (self.buckets.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_where_they_end_the_newest_first() {
        let mut ends = Ends::new(6);
        for id in 0..6 {
            ends.put(id, SpaceId(id % 2), 4096);
        }
        ends.put(4, SpaceId(0), 8192);
        ends.remove(0);
        let at = |ends: &Ends, space, end| {
            let found = core::cell::RefCell::new(Vec::new());
            let all = ends.find(SpaceId(space), end, |id| {
                found.borrow_mut().push(id);
                false
            });
            assert_eq!(all, None);
            found.into_inner()
        };
        assert_eq!(at(&ends, 0, 4096), [2]);
        assert_eq!(at(&ends, 0, 8192), [4]);
        assert_eq!(at(&ends, 1, 4096), [5, 3, 1]);
        ends.set_last(3);
        ends.remove(5);
        assert_eq!(ends.last(), Some(3));
        ends.remove(3);
        assert_eq!((ends.last(), at(&ends, 1, 4096)), (None, vec![1]));
    }
}
