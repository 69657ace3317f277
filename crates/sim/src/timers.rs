//! When each client wants to be asked again: an indexed 4-ary heap.

use weir_core::Instant;

const OUT: u32 = u32::MAX;
const ARITY: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: Instant,
    sequence: u64,
    client: u32,
}

/// At most one timer for each client. Of equal times, the one set first comes first.
#[derive(Debug)]
pub(crate) struct Timers {
    heap: Vec<Entry>,
    /// Where each client's entry is.
    places: Vec<u32>,
    sequence: u64,
}

impl Timers {
    /// For clients 0 to `clients` less one.
    pub(crate) fn new(clients: usize) -> Self {
        Self {
            heap: Vec::with_capacity(clients),
            places: vec![OUT; clients],
            sequence: 0,
        }
    }

    /// Sets the client's timer; one that was set to the same time before keeps its place.
    pub(crate) fn set(&mut self, client: u32, at: Instant) {
        let place = self.places[client as usize];
        if place != OUT && self.heap[place as usize].at == at {
            return;
        }
        self.clear(client);
        self.sequence += 1;
        let entry = Entry {
            at,
            sequence: self.sequence,
            client,
        };
        self.heap.push(entry);
        self.up(self.heap.len() - 1, entry);
    }

    /// Takes the client's timer away, if it has one.
    #[inline]
    pub(crate) fn clear(&mut self, client: u32) {
        let place = self.places[client as usize];
        if place == OUT {
            return;
        }
        self.places[client as usize] = OUT;
        let (place, last) = (place as usize, self.heap.pop().expect("a place is taken"));
        if place < self.heap.len() {
            self.up(place, last);
            self.down(self.places[last.client as usize] as usize, last);
        }
    }

    /// When the first timer runs out.
    #[inline]
    pub(crate) fn first(&self) -> Option<Instant> {
        self.heap.first().map(|entry| entry.at)
    }

    /// The first client whose timer has run out by `now`; its timer is gone.
    #[inline]
    pub(crate) fn pop(&mut self, now: Instant) -> Option<u32> {
        let first = self.heap.first().filter(|entry| entry.at <= now)?;
        let client = first.client;
        self.clear(client);
        Some(client)
    }

    /// Moves `entry`, for which there is a hole at `place`, towards the root.
    fn up(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.heap[parent] < entry {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    /// Moves `entry`, for which there is a hole at `place`, away from the root.
    fn down(&mut self, mut place: usize, entry: Entry) {
        loop {
            let children = place * ARITY + 1..(place * ARITY + 1 + ARITY).min(self.heap.len());
            match children.min_by_key(|&child| self.heap[child]) {
                Some(least) if self.heap[least] < entry => {
                    self.put(place, self.heap[least]);
                    place = least;
                }
                _ => break,
            }
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.places[entry.client as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::load::Rng;

    #[test]
    fn agrees_with_a_scan() {
        let mut timers = Timers::new(40);
        let mut model = [None::<(Instant, u64)>; 40];
        let mut rng = Rng::new(1);
        for step in 0..50_000 {
            let client = rng.range(0, 39) as u32;
            let slot = &mut model[client as usize];
            match rng.range(0, 3) {
                0 => {
                    timers.clear(client);
                    *slot = None;
                }
                1 => {
                    let now = Instant::from_nanos(rng.range(0, 60));
                    let due = |m: &Option<(Instant, u64)>| m.filter(|m| m.0 <= now);
                    let want = (0..40)
                        .filter(|&c| due(&model[c]).is_some())
                        .min_by_key(|&c| model[c]);
                    assert_eq!(timers.pop(now), want.map(|c| c as u32));
                    if let Some(c) = want {
                        model[c] = None;
                    }
                }
                _ => {
                    let at = Instant::from_nanos(rng.range(0, 60));
                    timers.set(client, at);
                    if slot.is_none_or(|m| m.0 != at) {
                        *slot = Some((at, step));
                    }
                }
            }
            let first = model.iter().flatten().min().map(|m| m.0);
            assert_eq!(timers.first(), first);
        }
    }
}
