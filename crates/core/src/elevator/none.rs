//! The elevator `none`: requests are dispatched in the order of arrival.

mod queues;

use crate::merge::Join;
use crate::table::Table;
use alloc::boxed::Box;
use alloc::vec;
pub(crate) use queues::Queues;
use queues::TRIED;

/// The queue of `none`: a ring with space for every live request.
#[derive(Debug)]
pub(crate) struct Fifo {
    /// The ring. Its length is a power of two, so that a mask converts a count into an index.
    places: Box<[u32]>,
    /// Number of requests that have left so far, modulo 2^32.
    left: u32,
    /// Number of requests that have entered so far, modulo 2^32.
    entered: u32,
}

impl Fifo {
    pub(super) fn new(table: &Table) -> Self {
        let places = table.requests.capacity().next_power_of_two();
        Self {
            places: vec![0; places as usize].into_boxed_slice(),
            left: 0,
            entered: 0,
        }
    }

    /// Adds a request at the end.
    #[inline]
    pub(super) fn insert(&mut self, request: u32) {
        let place = self.place(self.entered);
        self.places[place] = request;
        self.entered = self.entered.wrapping_add(1);
    }

    /// Removes and returns the oldest request.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        if self.left == self.entered {
            return None;
        }
        let place = self.place(self.left);
        self.left = self.left.wrapping_add(1);
        Some(self.places[place])
    }

    /// Returns the number of requests in the queue.
    #[cfg(debug_assertions)]
    pub(super) fn len(&self) -> u32 {
        self.entered.wrapping_sub(self.left)
    }

    /// Puts the request that was removed last back to the front.
    pub(crate) fn unpop(&mut self) {
        self.left = self.left.wrapping_sub(1);
    }

    /// Returns a command that a request can join. Only the last few requests are candidates, and
    /// only if the drive has no room (Linux: `blk_bio_list_merge` tries the software queue, where a
    /// request waits only while it cannot be issued directly).
    pub(crate) fn find_join(&self, table: &Table, request: u32) -> Option<Join> {
        // Both counts wrap, and so does their difference.
        let waits = self.entered.wrapping_sub(self.left);
        if !table.pieces.is_full() {
            return None;
        }
        let last =
            (1..=waits.min(TRIED)).map(|n| self.places[self.place(self.entered.wrapping_sub(n))]);
        table.first_join(last, request)
    }

    /// Removes a request without dispatching it, and moves the later ones up. The search is linear
    /// because this is rare.
    pub(super) fn remove(&mut self, request: u32) {
        let mut at = self.left;
        while self.places[self.place(at)] != request {
            at = at.wrapping_add(1);
            debug_assert!(at != self.entered, "request {request} is not here");
        }
        self.entered = self.entered.wrapping_sub(1);
        while at != self.entered {
            let next = at.wrapping_add(1);
            self.places[self.place(at)] = self.places[self.place(next)];
            at = next;
        }
    }

    /// Returns the index of the request with this count.
    #[inline]
    fn place(&self, count: u32) -> usize {
        count as usize & (self.places.len() - 1)
    }
}
