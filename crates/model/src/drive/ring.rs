//! A FIFO queue of fixed capacity.

/// A FIFO whose memory is allocated once. To push beyond the capacity is a bug of the caller.
#[derive(Debug)]
pub(crate) struct FixedQueue<T> {
    slots: Vec<T>,
    /// The capacity minus one. The capacity is a power of two, so that a bit mask replaces the
    /// remainder.
    mask: usize,
    head: usize,
    len: usize,
}

impl<T: Copy> FixedQueue<T> {
    /// Creates a queue for at least `capacity` entries. The value `blank` fills the unused ones.
    pub(crate) fn new(capacity: usize, blank: T) -> Self {
        let room = capacity.max(1).next_power_of_two();
        Self {
            slots: std::vec![blank; room],
            mask: room - 1,
            head: 0,
            len: 0,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        debug_assert!(self.len <= self.mask, "the ring has room");
        let at = (self.head + self.len) & self.mask;
        self.slots[at] = value;
        self.len += 1;
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<&T> {
        (self.len > 0).then(|| &self.slots[self.head])
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let value = *self.first()?;
        self.head = (self.head + 1) & self.mask;
        self.len -= 1;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_in_first_out_across_the_end() {
        let mut ring = FixedQueue::new(3, 0);
        let mut next = 0;
        for round in 0..20 {
            for i in 0..3 {
                ring.push(round * 3 + i);
            }
            for _ in 0..3 {
                assert_eq!(ring.first(), Some(&next));
                assert_eq!(ring.pop(), Some(next));
                next += 1;
            }
        }
        assert_eq!(ring.pop(), None);
    }
}
