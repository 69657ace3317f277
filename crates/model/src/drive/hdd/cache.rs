//! The read cache of a disk, and its read-ahead.

/// A segment of the cache with the data of one stream: the bytes from `start` to `end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheSegment {
    pub(super) start: u64,
    pub(super) end: u64,
    used: u64,
}

/// All segments of the cache. `current` is the segment that was last read into, whose end advances
/// while the head reads ahead.
#[derive(Debug)]
pub(super) struct Segments {
    list: Vec<CacheSegment>,
    most: usize,
    size: u64,
    current: Option<usize>,
    clock: u64,
}

impl Segments {
    pub(super) fn new(most: usize, size: u64) -> Self {
        Self {
            list: Vec::with_capacity(most),
            most,
            size,
            current: None,
            clock: 0,
        }
    }

    /// Returns true if one segment contains the whole range.
    pub(super) fn holds(&mut self, start: u64, end: u64) -> bool {
        let found = self
            .list
            .iter()
            .position(|s| s.start <= start && end <= s.end);
        if let Some(at) = found {
            self.touch(at);
        }
        found.is_some()
    }

    /// The segment that was last read into, if any.
    pub(super) fn current(&self) -> Option<&CacheSegment> {
        self.current.map(|at| &self.list[at])
    }

    /// Adds a range that was read from the platters. It extends the segment of its stream, or
    /// replaces the least recently used segment.
    pub(super) fn read(&mut self, start: u64, end: u64) {
        // A disk without a read cache has segments of size zero.
        if self.size == 0 {
            return;
        }
        let continued = self
            .list
            .iter()
            // A read that begins at the end of a segment continues the segment's stream.
            .position(|s| s.start <= start && start <= s.end);
        let at = continued.unwrap_or_else(|| self.slot_for_new_stream());
        if continued.is_none() {
            self.list[at].start = start;
        }
        self.current = Some(at);
        self.touch(at);
        self.extend(end);
    }

    /// Extends the current segment to `end`, up to which the head has read. The oldest bytes are
    /// dropped if the segment is full.
    pub(super) fn extend(&mut self, end: u64) {
        if let Some(at) = self.current {
            let segment = &mut self.list[at];
            segment.end = end;
            segment.start = segment.start.max(end.saturating_sub(self.size));
        }
    }

    /// Invalidates the segments that a write has overwritten, even in part.
    pub(super) fn invalidate(&mut self, start: u64, end: u64) {
        for segment in &mut self.list {
            if start < segment.end && segment.start < end {
                // The whole segment is dropped, because a segment holds one contiguous range.
                segment.end = segment.start;
            }
        }
    }

    fn touch(&mut self, at: usize) {
        self.clock += 1;
        self.list[at].used = self.clock;
    }

    /// The index of the segment to fill next: a free one, or the least recently used one.
    fn slot_for_new_stream(&mut self) -> usize {
        if self.list.len() < self.most {
            self.list.push(CacheSegment {
                start: 0,
                end: 0,
                used: 0,
            });
            return self.list.len() - 1;
        }
        let ages = self.list.iter().enumerate();
        // The list is never empty here, because a disk has at least one segment.
        ages.min_by_key(|(_, s)| s.used).map_or(0, |(at, _)| at)
    }
}
