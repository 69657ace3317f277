//! Range locks for read-modify-write: the parts of a volume that are being changed.
//!
//! A write that does not cover whole blocks reads its first and last block, changes them in memory,
//! and writes them back. If another job changed such a block in the meantime, that change would be
//! undone. Every change therefore holds a lock on its range. The lock is *shared* if the change
//! covers whole blocks (such changes may overlap, as on any drive), and *exclusive* if it must read
//! first.
//!
//! A job waits for all earlier jobs that overlap with it, whether they hold or wait for their
//! range, if it or the earlier job is exclusive. The order depends on the arrival only, so that no
//! job waits forever. Each job acquires one range at once, so that no deadlock is possible.

use std::ops::Range;

/// The mode of a range lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LockMode {
    /// Together with other shared locks.
    Shared,
    /// Without any other lock.
    Exclusive,
}

/// The ranges that are held or waited for. The caller numbers them with small, unused numbers.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    entries: Vec<Option<RangeLock>>,
    arrivals: u64,
    exclusive: u32,
    waiting: u32,
}

#[derive(Clone, Copy, Debug)]
struct RangeLock {
    start: u64,
    end: u64,
    mode: LockMode,
    arrival: u64,
    /// The number of earlier conflicting entries that have not been released.
    blockers: u32,
}

impl RangeLock {
    fn conflicts(&self, other: &Self) -> bool {
        (self.mode == LockMode::Exclusive || other.mode == LockMode::Exclusive)
            && self.start < other.end
            && other.start < self.end
    }
}

impl Ranges {
    /// Requests a range, which must not be empty. Returns true if it is held now. Otherwise a later
    /// [`Self::release`] returns `number`.
    pub(super) fn acquire(&mut self, number: u32, range: Range<u64>, mode: LockMode) -> bool {
        let mut entry = RangeLock {
            start: range.start,
            end: range.end,
            mode,
            arrival: self.arrivals,
            blockers: 0,
        };
        self.arrivals += 1;
        // Without an exclusive entry there is no conflict, which is the usual case.
        if mode == LockMode::Exclusive || self.exclusive > 0 {
            let earlier = self.entries.iter().flatten();
            entry.blockers = earlier.filter(|e| e.conflicts(&entry)).count() as u32;
        }
        self.exclusive += u32::from(mode == LockMode::Exclusive);
        self.waiting += u32::from(entry.blockers > 0);
        let index = number as usize;
        if self.entries.len() <= index {
            self.entries.resize(index + 1, None);
        }
        debug_assert!(self.entries[index].is_none(), "the number is in use");
        self.entries[index] = Some(entry);
        entry.blockers == 0
    }

    /// Releases a range. Appends the numbers of the entries that hold their range now to `granted`,
    /// in the order of their arrival.
    pub(super) fn release(&mut self, number: u32, granted: &mut impl Extend<u32>) {
        let Some(gone) = self.entries[number as usize].take() else {
            return;
        };
        self.exclusive -= u32::from(gone.mode == LockMode::Exclusive);
        debug_assert_eq!(gone.blockers, 0, "given back before it was held");
        // The scan below takes time in proportion to all entries, and is usually unnecessary.
        if self.waiting == 0 {
            return;
        }
        let mut freed = Vec::new();
        for (entry, number) in self.entries.iter_mut().zip(0u32..) {
            let Some(entry) = entry else { continue };
            // Exactly these entries counted `gone` among their blockers.
            if entry.arrival > gone.arrival && entry.conflicts(&gone) {
                entry.blockers -= 1;
                if entry.blockers == 0 {
                    freed.push((entry.arrival, number));
                }
            }
        }
        self.waiting -= freed.len() as u32;
        freed.sort_unstable();
        granted.extend(freed.into_iter().map(|(_, number)| number));
    }
}

#[cfg(test)]
mod tests {
    use weir_core::random::Rng;

    use super::*;

    #[test]
    fn whole_blocks_may_overlap_and_parts_of_blocks_may_not() {
        let mut ranges = Ranges::default();
        let mut granted = Vec::new();
        assert!(ranges.acquire(0, 0..8, LockMode::Shared));
        assert!(ranges.acquire(1, 4..12, LockMode::Shared));
        assert!(!ranges.acquire(2, 8..12, LockMode::Exclusive));
        assert!(!ranges.acquire(3, 0..4, LockMode::Exclusive));
        assert!(ranges.acquire(4, 12..16, LockMode::Exclusive));
        // This range waits after the job that waits, although the present holder would permit it.
        assert!(!ranges.acquire(5, 8..9, LockMode::Shared));
        ranges.release(0, &mut granted);
        assert_eq!(granted, [3]);
        ranges.release(1, &mut granted);
        assert_eq!(granted, [3, 2]);
        ranges.release(2, &mut granted);
        assert_eq!(granted, [3, 2, 5]);
    }

    /// Compares random sequences with a model that checks every pair: conflicting jobs never hold
    /// at the same time, and every job that can hold does, in order.
    #[test]
    fn conflicting_ranges_are_granted_in_order() {
        let mut rng = Rng::new(1);
        let mut draw = |below: u64| rng.range(0, below - 1);
        for round in 0..200 {
            let mut ranges = Ranges::default();
            // In order of arrival: number, range, mode, held.
            let mut model: Vec<(u32, Range<u64>, LockMode, bool)> = Vec::new();
            let space = 4 + draw(40);
            for _ in 0..300 {
                if draw(2) == 0 && model.len() < 20 {
                    let start = draw(space);
                    let range = start..start + 1 + draw(6);
                    let mode = [LockMode::Shared, LockMode::Exclusive][draw(2) as usize];
                    let number = (0..21).find(|n| model.iter().all(|m| m.0 != *n)).unwrap();
                    let free = model.iter().all(|m| !meet(m, &range, mode));
                    assert_eq!(ranges.acquire(number, range.clone(), mode), free, "{round}");
                    model.push((number, range, mode, free));
                    continue;
                }
                let held: Vec<usize> = (0..model.len()).filter(|n| model[*n].3).collect();
                if held.is_empty() {
                    assert!(model.is_empty(), "the first to come always holds");
                    continue;
                }
                let gone = model.remove(held[draw(held.len() as u64) as usize]);
                let mut granted = Vec::new();
                ranges.release(gone.0, &mut granted);
                let mut expected = Vec::new();
                for at in 0..model.len() {
                    let (_, range, mode, held) = model[at].clone();
                    if !held && model[..at].iter().all(|m| !meet(m, &range, mode)) {
                        model[at].3 = true;
                        expected.push(model[at].0);
                    }
                }
                assert_eq!(granted, expected, "{round}");
            }
        }
    }

    fn meet(one: &(u32, Range<u64>, LockMode, bool), range: &Range<u64>, mode: LockMode) -> bool {
        (one.2 == LockMode::Exclusive || mode == LockMode::Exclusive)
            && one.1.start < range.end
            && range.start < one.1.end
    }
}
