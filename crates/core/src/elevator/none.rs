//! `none`: first come, first served.

mod queues;

use crate::merge::Join;
use crate::table::Table;
use alloc::boxed::Box;
use alloc::vec;
pub(crate) use queues::Queues;
use queues::TRIED;

/// One queue for all: a ring with room for every live request.
#[derive(Debug)]
pub(crate) struct Fifo {
    /// A power of two of places, so that a mask finds the place of a count.
    places: Box<[u32]>,
    /// Requests that have left and entered so far, modulo 2^32.
    left: u32,
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

    /// A request enters.
    #[inline]
    pub(super) fn insert(&mut self, request: u32) {
        let place = self.place(self.entered);
        self.places[place] = request;
        self.entered = self.entered.wrapping_add(1);
    }

    /// The request that entered first of those that are here leaves.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        if self.left == self.entered {
            return None;
        }
        let place = self.place(self.left);
        self.left = self.left.wrapping_add(1);
        Some(self.places[place])
    }

    /// Requests that are here.
    #[cfg(debug_assertions)]
    pub(super) fn len(&self) -> u32 {
        self.entered.wrapping_sub(self.left)
    }

    /// The request that left last is the first again.
    pub(crate) fn unpop(&mut self) {
        self.left = self.left.wrapping_sub(1);
    }

    /// The command that a request may join: of the last few, and only of those for which the drive has no room (Linux tries the
    /// software queue, where a request is only while it cannot be issued directly: `blk_bio_list_merge`).
    pub(crate) fn find_join(&self, table: &Table, request: u32) -> Option<Join> {
        let waits = self.entered.wrapping_sub(self.left);
        if !table.pieces.is_full() {
            return None;
        }
        let last =
            (1..=waits.min(TRIED)).map(|n| self.places[self.place(self.entered.wrapping_sub(n))]);
        table.first_join(last, request)
    }

    /// A request leaves undispatched; those behind it move up. Nothing is kept to find it sooner, because this is rare.
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

    #[inline]
    fn place(&self, count: u32) -> usize {
        count as usize & (self.places.len() - 1)
    }
}
