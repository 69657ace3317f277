//! A list of the last entries in a fixed number of bytes, of which a view can be taken quickly.

use std::collections::VecDeque;
use std::sync::Arc;

/// The maximum length of a chunk, in bytes.
const CHUNK: usize = 256 << 10;
/// The minimum number of chunks of a ring.
const CHUNKS: usize = 8;

/// The last entries that were pushed. All chunks are allocated at construction, so that a push does
/// not allocate unless a view still holds the oldest chunk. Pages that were never written to do not
/// take up memory.
#[derive(Debug)]
pub(crate) struct EntryRing<T> {
    /// The full chunks, the oldest first. Views share them.
    full: VecDeque<Arc<Vec<T>>>,
    /// The chunk to which entries are added, which no view shares.
    open: Vec<T>,
    /// The empty chunks.
    free: Vec<Arc<Vec<T>>>,
    /// The number of chunks, including the open and the empty ones.
    chunks: usize,
    /// The number of entries of a chunk.
    length: usize,
    /// True if entries were dropped to make room.
    wrapped: bool,
}

/// The contents of a ring at one time.
#[derive(Clone, Debug)]
pub(crate) struct RingContents<T> {
    chunks: Vec<Arc<Vec<T>>>,
    /// True if earlier entries were dropped.
    pub(crate) wrapped: bool,
}

impl<T: Copy> EntryRing<T> {
    /// Creates a ring that takes up at most `bytes`, but has room for at least one entry per chunk.
    pub(crate) fn new(bytes: usize) -> Self {
        let size = size_of::<T>();
        let length = (bytes.min(CHUNKS * CHUNK) / CHUNKS / size).max(1);
        let chunks = (bytes / (length * size)).max(CHUNKS);
        Self {
            full: VecDeque::with_capacity(chunks),
            open: Vec::with_capacity(length),
            // One of the chunks is `open`.
            free: (1..chunks)
                .map(|_| Arc::new(Vec::with_capacity(length)))
                .collect(),
            chunks,
            length,
            wrapped: false,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: T) {
        if self.open.len() == self.length {
            self.seal();
        }
        self.open.push(entry);
    }

    /// Starts another chunk, which replaces the oldest one if no other is free.
    #[cold]
    fn seal(&mut self) {
        let mut place = self.free.pop().or_else(|| {
            self.wrapped = true;
            self.full.pop_front()
        });
        if let Some(place) = &mut place
            && let Some(next) = Arc::get_mut(place)
        {
            next.clear();
            std::mem::swap(next, &mut self.open);
        } else {
            // A view holds the oldest chunk, so it is freed with the view.
            let next = Vec::with_capacity(self.length);
            place = Some(Arc::new(std::mem::replace(&mut self.open, next)));
        }
        self.full.extend(place);
    }

    /// Returns the current contents. The open chunk is copied, the others are shared.
    pub(crate) fn kept(&self) -> RingContents<T> {
        let mut chunks: Vec<Arc<Vec<T>>> = self.full.iter().cloned().collect();
        chunks.push(Arc::new(self.open.clone()));
        RingContents {
            chunks,
            wrapped: self.wrapped,
        }
    }

    /// Returns the bytes that all chunks together take up.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks * self.length * size_of::<T>()
    }
}

impl<T> RingContents<T> {
    /// Iterates over the entries, the oldest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// Appends entries that have not been pushed to the ring yet.
    pub(crate) fn append(&mut self, entries: Vec<T>) {
        self.chunks.push(Arc::new(entries));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_ring_keeps_the_last_entries_within_its_bytes(bytes in 0_usize..40_000, pushed in 0_u64..20_000, looks in 1_u64..5_000) {
            let mut ring = EntryRing::new(bytes);
            let mut view = ring.kept();
            for n in 0..pushed {
                ring.push(n);
                if n % looks == 0 {
                    view = ring.kept();
                }
                prop_assert!(ring.bytes() <= bytes.max(8 * 8), "{} of {bytes}", ring.bytes());
                prop_assert!(ring.full.len() < ring.chunks);
            }
            let kept: Vec<u64> = ring.kept().iter().copied().collect();
            let first = pushed - kept.len() as u64;
            prop_assert_eq!(&kept, &(first..pushed).collect::<Vec<_>>());
            prop_assert_eq!(first > 0, ring.kept().wrapped);
            // All entries are still there, except those of the chunk that was given up.
            let most = bytes / size_of::<u64>();
            prop_assert!(kept.len() as u64 == pushed || kept.len() + most / 4 + 8 >= most, "{} of {most}", kept.len());
            // The contents of a view do not change.
            let seen: Vec<u64> = view.iter().copied().collect();
            prop_assert!(seen.windows(2).all(|pair| pair[0] + 1 == pair[1]));
        }
    }
}
