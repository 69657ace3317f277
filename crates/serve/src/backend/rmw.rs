//! Which parts of a volume are being changed, so that a job that reads a block to write it back changed misses nothing.
//!
//! A write that is not whole blocks is done by reading its first and last block, changing them in memory and writing them back.
//! Whatever else changes such a block meanwhile would be undone. So every change holds a lock on its range: *shared* where it
//! covers whole blocks (such changes may overlap each other, as on any drive), *exclusive* where it must read first.
//!
//! A job that overlaps with an earlier one, holding or waiting, and is exclusive or meets an exclusive one, waits for all of these. The
//! order of arrival alone decides, so nobody waits for ever; everybody takes one range at once, so nobody waits in a circle.

use std::ops::Range;

/// How a range is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// Together with others that are shared.
    Shared,
    /// Alone.
    Exclusive,
}

/// The ranges held and waited for, each under a number of its owner's: small and not in use.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    entries: Vec<Option<Entry>>,
    arrivals: u64,
    exclusive: u32,
    waiting: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    end: u64,
    mode: Mode,
    arrival: u64,
    /// Earlier entries that must go first.
    blockers: u32,
}

impl Entry {
    fn conflicts(&self, other: &Self) -> bool {
        (self.mode == Mode::Exclusive || other.mode == Mode::Exclusive)
            && self.start < other.end
            && other.start < self.end
    }
}

impl Ranges {
    /// Asks for a range that is not empty. True if it is held now; false if `number` will come out of a later [`Self::release`].
    pub(super) fn acquire(&mut self, number: u32, range: Range<u64>, mode: Mode) -> bool {
        let mut entry = Entry {
            start: range.start,
            end: range.end,
            mode,
            arrival: self.arrivals,
            blockers: 0,
        };
        self.arrivals += 1;
        if mode == Mode::Exclusive || self.exclusive > 0 {
            let earlier = self.entries.iter().flatten();
            entry.blockers = earlier.filter(|e| e.conflicts(&entry)).count() as u32;
        }
        self.exclusive += u32::from(mode == Mode::Exclusive);
        self.waiting += u32::from(entry.blockers > 0);
        let index = number as usize;
        if self.entries.len() <= index {
            self.entries.resize(index + 1, None);
        }
        debug_assert!(self.entries[index].is_none(), "the number is in use");
        self.entries[index] = Some(entry);
        entry.blockers == 0
    }

    /// Gives a range back and appends to `granted` the jobs that hold theirs now, in the order in which they came.
    pub(super) fn release(&mut self, number: u32, granted: &mut impl Extend<u32>) {
        let Some(gone) = self.entries[number as usize].take() else {
            return;
        };
        self.exclusive -= u32::from(gone.mode == Mode::Exclusive);
        debug_assert_eq!(gone.blockers, 0, "given back before it was held");
        if self.waiting == 0 {
            return;
        }
        let mut freed = Vec::new();
        for (entry, number) in self.entries.iter_mut().zip(0u32..) {
            let Some(entry) = entry else { continue };
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
        assert!(ranges.acquire(0, 0..8, Mode::Shared));
        assert!(ranges.acquire(1, 4..12, Mode::Shared));
        assert!(!ranges.acquire(2, 8..12, Mode::Exclusive));
        assert!(!ranges.acquire(3, 0..4, Mode::Exclusive));
        assert!(ranges.acquire(4, 12..16, Mode::Exclusive));
        // Behind a job that waits, although the holder would let it pass.
        assert!(!ranges.acquire(5, 8..9, Mode::Shared));
        ranges.release(0, &mut granted);
        assert_eq!(granted, [3]);
        ranges.release(1, &mut granted);
        assert_eq!(granted, [3, 2]);
        ranges.release(2, &mut granted);
        assert_eq!(granted, [3, 2, 5]);
    }

    /// Against a model that looks at every pair: no two jobs that conflict hold at a time, a job that could hold does, in order.
    #[test]
    fn nobody_is_forgotten_and_nobody_overtakes() {
        let mut rng = Rng::new(1);
        let mut draw = |below: u64| rng.range(0, below - 1);
        for round in 0..200 {
            let mut ranges = Ranges::default();
            // In order of arrival: number, range, mode, held.
            let mut model: Vec<(u32, Range<u64>, Mode, bool)> = Vec::new();
            let space = 4 + draw(40);
            for _ in 0..300 {
                if draw(2) == 0 && model.len() < 20 {
                    let start = draw(space);
                    let range = start..start + 1 + draw(6);
                    let mode = [Mode::Shared, Mode::Exclusive][draw(2) as usize];
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

    fn meet(one: &(u32, Range<u64>, Mode, bool), range: &Range<u64>, mode: Mode) -> bool {
        (one.2 == Mode::Exclusive || mode == Mode::Exclusive)
            && one.1.start < range.end
            && range.start < one.1.end
    }
}
