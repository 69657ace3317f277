//! Timers: an indexed heap of slot numbers, ordered by time and then by ticket. Each entry has four
//! children, which occupy two cache lines.

use crate::Instant;
use alloc::vec;
use alloc::vec::Vec;

/// The place of a slot without a timer.
const OUT: u32 = u32::MAX;

/// The number of children of each entry.
const BELOW: usize = 4;

/// A timer of a slot.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The time in the upper 64 bits and the ticket in the lower ones, so that one comparison
    /// orders entries.
    key: u128,
    slot: u32,
}

impl Entry {
    fn new(at: Instant, ticket: u64, slot: u32) -> Self {
        let key = u128::from(at.as_nanos()) << 64 | u128::from(ticket);
        Self { key, slot }
    }

    fn at(&self) -> Instant {
        Instant::from_nanos((self.key >> 64) as u64)
    }
}

/// Up to `capacity` timers, at most one for each slot. Of timers with equal times, the one with the
/// smaller ticket comes first.
#[derive(Debug)]
pub(crate) struct Heap {
    entries: Vec<Entry>,
    places: Vec<u32>,
    tickets: u64,
    /// The time of the first entry. It is cached because it is read far more often than entries
    /// change.
    next: Instant,
    /// True while entries are appended without being ordered.
    is_loose: bool,
}

impl Heap {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            entries: Vec::with_capacity(capacity as usize),
            places: vec![OUT; capacity as usize],
            tickets: 0,
            next: Instant::MAX,
            is_loose: false,
        }
    }

    /// Returns a ticket that is larger than all earlier ones. Of timers with the same time, the one
    /// with the smaller ticket is first, so a new ticket puts a timer last. A caller can also keep
    /// a timer's ticket, or set bits above it as a rank.
    pub(crate) fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Stops ordering until [`Self::tighten`] is called, so that setting many timers is cheaper.
    /// The first timer must not be queried in the meantime.
    pub(crate) fn loosen(&mut self) {
        self.is_loose = true;
    }

    /// Orders the timers again, if they were loosened.
    pub(crate) fn tighten(&mut self) {
        if core::mem::take(&mut self.is_loose) {
            // Only the first quarter of the places can have children. They are ordered from the
            // last to the first, so that the subtrees below a place are ordered already.
            for place in (0..self.entries.len().div_ceil(BELOW)).rev() {
                self.sift_down(place, self.entries[place]);
            }
            self.set_next();
        }
    }

    /// Sets the timer of a slot and replaces an earlier one. A time of [`Instant::MAX`] counts as
    /// no timer.
    pub(crate) fn set(&mut self, slot: u32, at: Instant, ticket: u64) {
        let entry = Entry::new(at, ticket, slot);
        let place = self.places[slot as usize];
        if place == OUT {
            self.entries.push(entry);
            self.sift(self.entries.len() - 1, entry);
        } else if self.is_loose {
            // Only the entry changes. Its place in the order is found when the heap is tightened.
            self.entries[place as usize] = entry;
            return;
        } else {
            self.sift(place as usize, entry);
        }
        self.set_next();
    }

    /// Removes the timer of a slot, if it has one.
    pub(crate) fn clear(&mut self, slot: u32) {
        let place = self.places[slot as usize];
        if place == OUT {
            return;
        }
        self.places[slot as usize] = OUT;
        let last = self.entries.pop().expect("a place is within the heap");
        // The last entry fills the gap, unless it was the removed one.
        if last.slot != slot {
            self.sift(place as usize, last);
        }
        self.set_next();
    }

    /// Returns the earliest time, or [`Instant::MAX`] if no timer is set.
    #[inline]
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    fn set_next(&mut self) {
        self.next = self.entries.first().map_or(Instant::MAX, Entry::at);
    }

    /// Returns the time and slot of the earliest timer.
    pub(crate) fn first(&self) -> Option<(Instant, u32)> {
        self.entries.first().map(|e| (e.at(), e.slot))
    }

    /// Passes the slots of all timers before `end` to `show`, in no particular order.
    pub(crate) fn each_before(&self, end: Instant, show: &mut impl FnMut(u32)) {
        self.each_below(0, end, show);
    }

    fn each_below(&self, place: usize, end: Instant, show: &mut impl FnMut(u32)) {
        if let Some(entry) = self.entries.get(place).filter(|entry| entry.at() < end) {
            show(entry.slot);
            for below in BELOW * place + 1..=BELOW * place + BELOW {
                self.each_below(below, end, show);
            }
        }
    }

    /// Returns the time and ticket of a slot's timer.
    pub(crate) fn get(&self, slot: u32) -> Option<(Instant, u64)> {
        let place = self.places[slot as usize];
        (place != OUT).then(|| {
            let entry = self.entries[place as usize];
            (entry.at(), entry.key as u64)
        })
    }

    /// Puts an entry at a free place, or moves it up or down from there to where it belongs.
    fn sift(&mut self, place: usize, entry: Entry) {
        if self.is_loose {
            self.put(place, entry);
        } else if place > 0 && entry.key < self.entries[(place - 1) / BELOW].key {
            self.sift_up(place, entry);
        } else {
            self.sift_down(place, entry);
        }
    }

    /// Moves an entry up from `place`, and each later entry above it one level down.
    fn sift_up(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let above = (place - 1) / BELOW;
            let other = self.entries[above];
            if entry.key >= other.key {
                break;
            }
            self.put(place, other);
            place = above;
        }
        self.put(place, entry);
    }

    /// Moves an entry down from `place`, and the earliest entry below it one level up.
    fn sift_down(&mut self, mut place: usize, entry: Entry) {
        let mut first = BELOW * place + 1;
        while let Some(below) = self.entries.get(first..).and_then(|all| all.first_chunk()) {
            let least = least(below);
            let sooner = below[least];
            if sooner.key >= entry.key {
                return self.put(place, entry);
            }
            self.put(place, sooner);
            place = first + least;
            first = BELOW * place + 1;
        }
        // The last entry with children may have fewer than four.
        let few = self.entries.get(first..).unwrap_or_default();
        let least = few.iter().zip(first..).min_by_key(|(other, _)| other.key);
        if let Some((&sooner, at)) = least
            && sooner.key < entry.key
        {
            self.put(place, sooner);
            place = at;
        }
        self.put(place, entry);
    }

    #[inline]
    fn put(&mut self, place: usize, entry: Entry) {
        self.entries[place] = entry;
        self.places[entry.slot as usize] = place as u32;
    }
}

/// Returns the index of the entry with the smallest key. Two independent comparisons and a third
/// allow the processor to avoid branches.
#[inline]
fn least(all: &[Entry; BELOW]) -> usize {
    let left = usize::from(all[1].key < all[0].key);
    let right = 2 + usize::from(all[3].key < all[2].key);
    let is_right = all[right].key < all[left].key;
    if is_right { right } else { left }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    #[test]
    fn agrees_with_a_scan() {
        let mut heap = Heap::new(32);
        let mut model: [Option<(Instant, u64)>; 32] = [None; 32];
        let mut rng = Rng::new(3);
        for _ in 0..20_000 {
            let state = rng.next_u64();
            let slot = (state >> 33) as u32 % 32;
            // Loosened in 1 of 16 steps and tightened in 3 of 16, so that the heap is in either
            // state for a while.
            match (state >> 20) % 16 {
                0 => heap.loosen(),
                1..4 => heap.tighten(),
                _ => {}
            }
            if (state >> 60) < 5 {
                heap.clear(slot);
                model[slot as usize] = None;
            } else {
                // Only 50 different times for 32 slots, so that tickets often decide.
                let (at, ticket) = (Instant::from_nanos((state >> 40) % 50), heap.ticket());
                heap.set(slot, at, ticket);
                model[slot as usize] = Some((at, ticket));
            }
            assert_eq!(heap.get(slot), model[slot as usize]);
            // The first timer is not known while the heap is loose.
            if heap.is_loose {
                continue;
            }
            let least = (0..32u32)
                .filter(|&s| model[s as usize].is_some())
                .min_by_key(|&s| model[s as usize]);
            assert_eq!(heap.first().map(|f| f.1), least);
            let end = Instant::from_nanos((state >> 20) % 60);
            let (mut shown, mut before) = (0u32, 0u32);
            heap.each_before(end, &mut |slot| shown |= 1 << slot);
            for (slot, timer) in model.iter().enumerate() {
                let is_before = timer.is_some_and(|timer| timer.0 < end);
                before |= u32::from(is_before) << slot;
            }
            assert_eq!(shown, before);
        }
    }
}
