//! The record of requests in flight, in memory that the VMM keeps. A process that serves a queue
//! after this one has ended or crashed reads there which heads were taken and not returned.
//!
//! The layout and the order of steps are those for split virtqueues in `vhost-user`, "Inflight I/O
//! tracking". Each queue has a region. It begins with a header of 16 bytes: features (u64), version
//! (u16), entries (u16), head of the last batch (u16) and used index (u16). Then there are 16 bytes
//! for each descriptor: in flight (u8), padding (5 bytes), next of the batch (u16) and counter
//! (u64).

use weir_wire::ring::{Load, Shared, Store};

/// The length of the header of a region.
const HEADER: usize = 16;
/// The length of the entry of a descriptor.
const ENTRY: usize = 16;
/// The offset of the version in the header, which is followed by those of the other fields.
const VERSION: usize = 8;
const ENTRIES: usize = 10;
const LAST: usize = 12;
const USED: usize = 14;

/// The offset of the in-flight flag in an entry, which is followed by those of its next head and
/// its counter. The flag is accessed together with a byte of padding.
const IN_FLIGHT: usize = 0;
const NEXT: usize = 6;
const COUNTER: usize = 8;

/// Returns the length of a queue's region in bytes.
pub(super) const fn length(queue_size: u16) -> usize {
    // Whole cache lines, so that queues do not share any.
    (HEADER + ENTRY * queue_size as usize).next_multiple_of(64)
}

/// The record of one queue.
#[derive(Debug)]
pub(super) struct InflightLog<M> {
    memory: M,
    size: u16,
    counter: u64,
    /// The heads that were returned since the last publication.
    batch: Vec<u16>,
}

/// The state that an earlier server has left in the record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct InflightState {
    /// The heads in flight in the order in which they were taken.
    pub(super) heads: Vec<u16>,
    /// True if the queue was served before with this record.
    pub(super) is_resumed: bool,
}

impl<M: Shared> InflightLog<M> {
    /// Opens the record of a queue of `size` entries, whose ring has the used index `used`. Also
    /// returns the state that an earlier server has left. Returns `None` if the memory is too
    /// short, has another version, or belongs to a queue of another size.
    pub(super) fn open(memory: M, size: u16, used: u16) -> Option<(Self, InflightState)> {
        if memory.len() < length(size) {
            return None;
        }
        // Memory that was never used is zeroed, so it has version 0.
        let version = memory.load16(VERSION, Load::Relaxed);
        match version {
            0 => {
                memory.store16(VERSION, 1, Store::Relaxed);
                memory.store16(ENTRIES, size, Store::Relaxed);
                memory.store16(USED, used, Store::Relaxed);
            }
            1 if memory.load16(ENTRIES, Load::Relaxed) == size => {}
            _ => return None,
        }
        let mut log = Self {
            memory,
            size,
            counter: 0,
            batch: Vec::new(),
        };
        log.end_batch(used);
        let mut found = log.found();
        found.sort_unstable();
        log.counter = found
            .last()
            .map_or(0, |(counter, _)| counter.wrapping_add(1));
        let heads = found.into_iter().map(|(_, head)| head).collect();
        let is_resumed = version != 0;
        Some((log, InflightState { heads, is_resumed }))
    }

    /// Completes a batch that was published but not recorded as published.
    fn end_batch(&self, used: u16) {
        let noted = self.memory.load16(USED, Load::Relaxed);
        let count = used.wrapping_sub(noted);
        // The batch is linked from its last head on. Memory is shared with the VMM, so the
        // number of steps is bounded.
        let mut head = self.memory.load16(LAST, Load::Relaxed);
        for _ in 0..count.min(self.size) {
            if head >= self.size {
                break;
            }
            self.memory
                .store16(self.at(head, IN_FLIGHT), 0, Store::Relaxed);
            head = self.memory.load16(self.at(head, NEXT), Load::Relaxed);
        }
        // Released last, so that a crash before this repeats the step.
        self.memory.store16(USED, used, Store::Release);
    }

    /// Returns the counter and the head of each entry that is marked as in flight.
    fn found(&self) -> Vec<(u64, u16)> {
        let all = 0..self.size;
        all.filter(|head| self.memory.load16(self.at(*head, IN_FLIGHT), Load::Relaxed) & 0xff == 1)
            .map(|head| {
                let at = self.at(head, COUNTER);
                let low = self.memory.load32(at, Load::Relaxed);
                let high = self.memory.load32(at + 4, Load::Relaxed);
                (u64::from(high) << 32 | u64::from(low), head)
            })
            .collect()
    }

    /// Returns the offset of a field in a head's entry.
    fn at(&self, head: u16, field: usize) -> usize {
        // The modulo keeps any index of a corrupt record within the region.
        HEADER + ENTRY * usize::from(head % self.size) + field
    }

    /// Records that a head is taken. Must be called before anything is done for it.
    pub(super) fn take(&mut self, head: u16) {
        let at = self.at(head, COUNTER);
        self.memory.store32(at, self.counter as u32, Store::Relaxed);
        let high = (self.counter >> 32) as u32;
        self.memory.store32(at + 4, high, Store::Relaxed);
        self.counter = self.counter.wrapping_add(1);
        self.memory
            // The flag is stored after the counter, so that an entry in flight always has a
            // valid counter.
            .store16(self.at(head, IN_FLIGHT), 1, Store::Release);
    }

    /// Records that a head is returned and not yet published.
    pub(super) fn finish(&mut self, head: u16) {
        let last = self.memory.load16(LAST, Load::Relaxed);
        self.memory
            .store16(self.at(head, NEXT), last, Store::Relaxed);
        // The link must exist before the batch begins with this head.
        self.memory.store16(LAST, head, Store::Release);
        self.batch.push(head);
    }

    /// Records that the returned heads are published, with `used` as the used index.
    pub(super) fn published(&mut self, used: u16) {
        for head in std::mem::take(&mut self.batch) {
            self.memory
                .store16(self.at(head, IN_FLIGHT), 0, Store::Relaxed);
        }
        self.memory.store16(USED, used, Store::Release);
    }
}

#[cfg(test)]
mod tests {
    use weir_core::random::Rng;
    use weir_wire::ring::plain::Memory;

    use super::*;

    const SIZE: u16 = 8;

    fn open(memory: &Memory, used: u16) -> (InflightLog<Memory>, Vec<u16>) {
        let (log, left) = InflightLog::open(memory.part(0, length(SIZE)), SIZE, used).unwrap();
        (log, left.heads)
    }

    #[test]
    fn heads_in_flight_are_found_in_order() {
        let memory = Memory::new(length(SIZE));
        let (mut log, left) = open(&memory, 0);
        assert!(left.is_empty());
        for head in [5, 0, 7, 2] {
            log.take(head);
        }
        log.finish(0);
        log.published(1);
        assert_eq!(open(&memory, 1).1, [5, 7, 2]);
        // Heads that are taken later have a higher counter.
        let (mut log, _) = open(&memory, 1);
        log.take(1);
        assert_eq!(open(&memory, 1).1, [5, 7, 2, 1]);
    }

    #[test]
    fn a_region_of_another_size_or_version_is_none() {
        let memory = Memory::new(length(SIZE));
        open(&memory, 0);
        assert!(InflightLog::open(memory.part(0, length(4)), 4, 0).is_none());
        assert!(InflightLog::open(memory.part(0, length(4)), SIZE, 0).is_none());
        memory.store16(VERSION, 2, Store::Relaxed);
        assert!(InflightLog::open(memory.part(0, length(SIZE)), SIZE, 0).is_none());
    }

    #[test]
    fn any_record_is_read_to_its_end() {
        let mut rng = Rng::new(7);
        for _ in 0..1000 {
            let memory = Memory::new(length(SIZE));
            let mut bytes = vec![0; length(SIZE)];
            bytes.fill_with(|| rng.range(0, 255) as u8);
            // A valid version (1) and number of entries (8), so that the rest is read.
            bytes[VERSION..VERSION + 4].copy_from_slice(&[1, 0, 8, 0]);
            memory.write(0, &bytes);
            let (_, left) = open(&memory, rng.range(0, 65_535) as u16);
            assert!(left.len() <= usize::from(SIZE));
        }
    }

    /// At whatever step the server crashes, each head is either returned in the used ring or found
    /// in the record, but never both or neither.
    #[test]
    fn a_crash_at_any_step_loses_and_repeats_no_head() {
        for end in 0..200 {
            let memory = Memory::new(length(SIZE));
            let mut rng = Rng::new(end);
            let (mut log, _) = open(&memory, 0);
            let (mut used, mut free) = (0u16, (0..SIZE).collect::<Vec<_>>());
            let (mut taken, mut batch) = (Vec::new(), Vec::new());
            for _ in 0..end {
                match rng.range(0, 3) {
                    0 if !free.is_empty() => {
                        let head = free.remove(rng.range(0, free.len() as u64 - 1) as usize);
                        log.take(head);
                        taken.push(head);
                    }
                    1 if !taken.is_empty() => {
                        let head = taken.remove(rng.range(0, taken.len() as u64 - 1) as usize);
                        log.finish(head);
                        batch.push(head);
                    }
                    2 => {
                        used = used.wrapping_add(batch.len() as u16);
                        // The guest sees the heads from here on. In one of ten cases the server
                        // crashes at this point.
                        free.append(&mut batch);
                        if rng.range(0, 9) == 0 {
                            break;
                        }
                        log.published(used);
                    }
                    _ => {}
                }
            }
            // Returned heads that were not published count as in flight.
            let (_, mut left) = open(&memory, used);
            left.sort_unstable();
            taken.append(&mut batch);
            taken.sort_unstable();
            assert_eq!(left, taken, "after {end} steps");
        }
    }
}
