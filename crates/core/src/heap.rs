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
        self.clear(slot);
        let place = self.entries.len();
        self.entries.push(Entry { at, ticket, slot });
        self.places[slot as usize] = place as u32;
        self.sift_up(place);
        self.set_next();
    }

    /// Takes the slot's timer away, if it has one.
    pub(crate) fn clear(&mut self, slot: u32) {
        let place = self.places[slot as usize];
        if place == OUT {
            return;
        }
        self.places[slot as usize] = OUT;
        let place = place as usize;
        let last = self.entries.pop().expect("a place is within the heap");
        if place < self.entries.len() {
            self.entries[place] = last;
            self.places[last.slot as usize] = place as u32;
            self.sift_up(place);
            self.sift_down(self.places[last.slot as usize] as usize);
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

    fn less(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.entries[a], &self.entries[b]);
        (a.at, a.ticket) < (b.at, b.ticket)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.entries.swap(a, b);
        self.places[self.entries[a].slot as usize] = a as u32;
        self.places[self.entries[b].slot as usize] = b as u32;
    }

    fn sift_up(&mut self, mut at: usize) {
        while at > 0 && self.less(at, (at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.entries.len() && self.less(child, least) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.swap(at, least);
            at = least;
        }
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
