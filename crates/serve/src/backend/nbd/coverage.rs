//! The received bytes of a read. A server may send parts in any order, but must send every byte
//! exactly once.

use std::ops::Range;

/// The received parts of a range, relative to its first byte.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    /// The end of the contiguous part from the start on.
    prefix: u64,
    /// Received ranges behind `prefix` that do not touch it, in arbitrary order.
    beyond: Vec<Range<u64>>,
}

impl Coverage {
    /// Adds a range, which must not be empty. Returns false if a part of it was received before.
    pub(super) fn add(&mut self, range: Range<u64>) -> bool {
        let overlaps = |other: &Range<u64>| range.start < other.end && other.start < range.end;
        if range.start < self.prefix || self.beyond.iter().any(overlaps) {
            return false;
        }
        if range.start > self.prefix {
            self.beyond.push(range);
            return true;
        }
        self.prefix = range.end;
        // The range may have closed the gap to ranges that arrived earlier.
        while let Some(at) = self.beyond.iter().position(|r| r.start == self.prefix) {
            self.prefix = self.beyond.swap_remove(at).end;
        }
        true
    }

    /// Returns true if exactly `length` bytes were received.
    pub(super) fn is_whole(&self, length: u64) -> bool {
        self.prefix == length && self.beyond.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_come_once_in_any_order() {
        let mut coverage = Coverage::default();
        for range in [4..6, 0..2, 8..9, 2..4] {
            assert!(coverage.add(range));
            assert!(!coverage.is_whole(9));
        }
        for again in [0..1, 5..7, 7..9, 8..9] {
            assert!(!coverage.add(again));
        }
        assert!(coverage.add(6..8));
        assert!(coverage.is_whole(9) && !coverage.is_whole(10));
    }
}
