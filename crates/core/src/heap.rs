//! Timers: an indexed binary heap over slot numbers, ordered by (time, ticket).

use crate::Instant;
use alloc::vec;
use alloc::vec::Vec;

const OUT: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Instant,
    ticket: u64,
    slot: u32,
}

impl Entry {
    #[inline]
    fn is_before(&self, other: &Self) -> bool {
        (self.at, self.ticket) < (other.at, other.ticket)
    }
}

/// Up to `capacity` timers, at most one a slot. Of equal times, the smaller ticket comes first.
#[derive(Debug)]
pub(crate) struct Heap {
    entries: Vec<Entry>,
    places: Vec<u32>,
    tickets: u64,
    /// The time of the first entry: asked far more often than entries come and go.
    next: Instant,
}

impl Heap {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            entries: Vec::with_capacity(capacity as usize),
            places: vec![OUT; capacity as usize],
            tickets: 0,
            next: Instant::MAX,
        }
    }

    /// A ticket later than all before it.
    pub(crate) fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Sets the slot's timer, replacing what it had.
    pub(crate) fn set(&mut self, slot: u32, at: Instant, ticket: u64) {
        let entry = Entry { at, ticket, slot };
        let place = self.places[slot as usize];
        if place == OUT {
            self.entries.push(entry);
            self.sift_up(self.entries.len() - 1, entry);
        } else {
            self.sift(place as usize, entry);
        }
        self.set_next();
    }

    /// Takes the slot's timer away, if it has one.
    pub(crate) fn clear(&mut self, slot: u32) {
        let place = self.places[slot as usize];
        if place == OUT {
            return;
        }
        self.places[slot as usize] = OUT;
        let last = self.entries.pop().expect("a place is within the heap");
        if last.slot != slot {
            self.sift(place as usize, last);
        }
        self.set_next();
    }

    /// The earliest time; [`Instant::MAX`] if no timer is set.
    #[inline]
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    fn set_next(&mut self) {
        self.next = self.entries.first().map_or(Instant::MAX, |e| e.at);
    }

    /// The earliest timer: its time and slot.
    pub(crate) fn first(&self) -> Option<(Instant, u32)> {
        self.entries.first().map(|e| (e.at, e.slot))
    }

    /// The slot's timer and ticket.
    pub(crate) fn get(&self, slot: u32) -> Option<(Instant, u64)> {
        let place = self.places[slot as usize];
        (place != OUT).then(|| {
            let entry = self.entries[place as usize];
            (entry.at, entry.ticket)
        })
    }

    /// Puts an entry at a place from which another has gone, or where it belongs then.
    fn sift(&mut self, place: usize, entry: Entry) {
        if place > 0 && entry.is_before(&self.entries[(place - 1) / 2]) {
            self.sift_up(place, entry);
        } else {
            self.sift_down(place, entry);
        }
    }

    /// Those above that come later move down to make room for an entry.
    fn sift_up(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let above = (place - 1) / 2;
            let other = self.entries[above];
            if !entry.is_before(&other) {
                break;
            }
            self.put(place, other);
            place = above;
        }
        self.put(place, entry);
    }

    /// Those below that come sooner move up to make room for an entry.
    fn sift_down(&mut self, mut place: usize, entry: Entry) {
        loop {
            let mut below = 2 * place + 1;
            let Some(&first) = self.entries.get(below) else {
                break;
            };
            let mut least = first;
            if let Some(&second) = self.entries.get(below + 1)
                && second.is_before(&first)
            {
                (below, least) = (below + 1, second);
            }
            if !least.is_before(&entry) {
                break;
            }
            self.put(place, least);
            place = below;
        }
        self.put(place, entry);
    }

    #[inline]
    fn put(&mut self, place: usize, entry: Entry) {
        self.entries[place] = entry;
        self.places[entry.slot as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_random::Rng;

    #[test]
    fn agrees_with_a_scan() {
        let mut heap = Heap::new(32);
        let mut model: [Option<(Instant, u64)>; 32] = [None; 32];
        let mut rng = Rng::new(3);
        for _ in 0..20_000 {
            let state = rng.next_u64();
            let slot = (state >> 33) as u32 % 32;
            if (state >> 60) < 5 {
                heap.clear(slot);
                model[slot as usize] = None;
            } else {
                let (at, ticket) = (Instant::from_nanos((state >> 40) % 50), heap.ticket());
                heap.set(slot, at, ticket);
                model[slot as usize] = Some((at, ticket));
            }
            let least = (0..32u32)
                .filter(|&s| model[s as usize].is_some())
                .min_by_key(|&s| model[s as usize]);
            assert_eq!(heap.first().map(|f| f.1), least);
            assert_eq!(heap.get(slot), model[slot as usize]);
        }
    }
}
