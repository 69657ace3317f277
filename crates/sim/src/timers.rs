//! The timers of clients: an indexed heap with four children per node.

use weir_core::Instant;

// The position of a client without a timer.
const OUT: u32 = u32::MAX;
// Four children per node halve the depth of a binary heap.
const ARITY: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TimerEntry {
    at: Instant,
    sequence: u64,
    client: u32,
}

/// The timers of all clients, at most one per client. Among equal times, the timer that was set
/// first is first.
#[derive(Debug)]
pub(crate) struct Timers {
    heap: Vec<TimerEntry>,
    /// The position of each client's entry in the heap.
    places: Vec<u32>,
    sequence: u64,
}

impl Timers {
    /// Creates a heap for the clients 0 to `clients - 1`.
    pub(crate) fn new(clients: usize) -> Self {
        Self {
            heap: Vec::with_capacity(clients),
            places: vec![OUT; clients],
            sequence: 0,
        }
    }

    /// Sets the client's timer. A timer that already has the same time keeps its place in the
    /// order.
    pub(crate) fn set(&mut self, client: u32, at: Instant) {
        let place = self.places[client as usize];
        if place != OUT && self.heap[place as usize].at == at {
            return;
        }
        self.clear(client);
        self.sequence += 1;
        let entry = TimerEntry {
            at,
            sequence: self.sequence,
            client,
        };
        self.heap.push(entry);
        self.sift_up(self.heap.len() - 1, entry);
    }

    /// Removes the client's timer, if it has one.
    #[inline]
    pub(crate) fn clear(&mut self, client: u32) {
        let place = self.places[client as usize];
        if place == OUT {
            return;
        }
        self.places[client as usize] = OUT;
        let (place, last) = (place as usize, self.heap.pop().expect("a place is taken"));
        // The last entry fills the hole. It may belong above or below it.
        if place < self.heap.len() {
            self.sift_up(place, last);
            self.sift_down(self.places[last.client as usize] as usize, last);
        }
    }

    /// The time of the first timer.
    #[inline]
    pub(crate) fn first(&self) -> Option<Instant> {
        self.heap.first().map(|entry| entry.at)
    }

    /// Removes the first timer that has expired by `now`, and returns its client.
    #[inline]
    pub(crate) fn pop(&mut self, now: Instant) -> Option<u32> {
        let first = self.heap.first().filter(|entry| entry.at <= now)?;
        let client = first.client;
        self.clear(client);
        Some(client)
    }

    /// Moves `entry` towards the root, from the hole at `place`.
    fn sift_up(&mut self, mut place: usize, entry: TimerEntry) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.heap[parent] < entry {
                break;
            }
            self.place_entry(place, self.heap[parent]);
            place = parent;
        }
        self.place_entry(place, entry);
    }

    /// Moves `entry` away from the root, from the hole at `place`.
    fn sift_down(&mut self, mut place: usize, entry: TimerEntry) {
        loop {
            let children = place * ARITY + 1..(place * ARITY + 1 + ARITY).min(self.heap.len());
            match children.min_by_key(|&child| self.heap[child]) {
                Some(least) if self.heap[least] < entry => {
                    self.place_entry(place, self.heap[least]);
                    place = least;
                }
                _ => break,
            }
        }
        self.place_entry(place, entry);
    }

    fn place_entry(&mut self, place: usize, entry: TimerEntry) {
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
