//! Doubly linked lists of slot numbers. The links are in one table, so nothing is allocated and
//! removal takes constant time.

use alloc::vec;
use alloc::vec::Vec;

/// The slot number that means "no slot".
pub(crate) const NIL: u32 = u32::MAX;

/// The neighbours of a slot in its list, or [`NIL`] at the ends.
#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u32,
    next: u32,
}

/// The ends of a list. A list belongs to one [`Links`] table, and a slot is in at most one list of
/// a table at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl List {
    pub(crate) const EMPTY: Self = Self {
        head: NIL,
        tail: NIL,
        len: 0,
    };

    pub(crate) fn is_empty(&self) -> bool {
        self.head == NIL
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn first(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }
}

/// A table with the links of up to `capacity` slots.
#[derive(Debug)]
pub(crate) struct Links {
    links: Vec<Link>,
}

/// The link of a slot that is in no list.
const OUT: u32 = u32::MAX - 1;

impl Links {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            links: vec![
                Link {
                    prev: OUT,
                    next: OUT
                };
                capacity as usize
            ],
        }
    }

    /// Returns true if the slot is in a list of this table.
    pub(crate) fn contains(&self, slot: u32) -> bool {
        self.links[slot as usize].prev != OUT
    }

    #[inline]
    pub(crate) fn push_back(&mut self, list: &mut List, slot: u32) {
        debug_assert!(!self.contains(slot), "slot {slot} is in a list already");
        self.links[slot as usize] = Link {
            prev: list.tail,
            next: NIL,
        };
        if list.tail == NIL {
            list.head = slot;
        } else {
            self.links[list.tail as usize].next = slot;
        }
        list.tail = slot;
        list.len += 1;
    }

    #[inline]
    pub(crate) fn pop_front(&mut self, list: &mut List) -> Option<u32> {
        let slot = list.first()?;
        let link = &mut self.links[slot as usize];
        let next = link.next;
        *link = Link {
            prev: OUT,
            next: OUT,
        };
        list.head = next;
        list.len -= 1;
        if next == NIL {
            list.tail = NIL;
        } else {
            self.links[next as usize].prev = NIL;
        }
        Some(slot)
    }

    /// Removes `slot` from `list`, which must contain it.
    #[inline]
    pub(crate) fn remove(&mut self, list: &mut List, slot: u32) {
        let Link { prev, next } = self.links[slot as usize];
        debug_assert!(prev != OUT, "slot {slot} is in no list");
        if prev == NIL {
            list.head = next;
        } else {
            self.links[prev as usize].next = next;
        }
        if next == NIL {
            list.tail = prev;
        } else {
            self.links[next as usize].prev = prev;
        }
        self.links[slot as usize] = Link {
            prev: OUT,
            next: OUT,
        };
        list.len -= 1;
    }

    /// Inserts `slot` into `list` in front of `before`, which must be in the list.
    pub(crate) fn insert_before(&mut self, list: &mut List, before: u32, slot: u32) {
        debug_assert!(!self.contains(slot), "slot {slot} is in a list already");
        let prev = core::mem::replace(&mut self.links[before as usize].prev, slot);
        self.links[slot as usize] = Link { prev, next: before };
        if prev == NIL {
            list.head = slot;
        } else {
            self.links[prev as usize].next = slot;
        }
        list.len += 1;
    }

    /// Returns the slots of `list` from first to last, after checking that the links in both
    /// directions and the length agree.
    #[cfg(debug_assertions)]
    pub(crate) fn checked<'a>(&'a self, list: &List) -> impl Iterator<Item = u32> + 'a {
        let (mut prev, mut len) = (NIL, 0);
        for slot in self.iter(list) {
            assert_eq!(self.links[slot as usize].prev, prev, "slot {slot}");
            (prev, len) = (slot, len + 1);
            assert!(len <= list.len, "a list is longer than its count");
        }
        assert_eq!((prev, len), (list.tail, list.len), "a list's end");
        self.iter(list)
    }

    /// Returns the slot after `slot` in its list.
    pub(crate) fn next(&self, slot: u32) -> Option<u32> {
        let next = self.links[slot as usize].next;
        // Both `NIL` and `OUT` are at the top of the range, so one comparison excludes them.
        (next < OUT).then_some(next)
    }

    /// Returns the slots of `list` from last to first.
    pub(crate) fn iter_back<'a>(&'a self, list: &List) -> impl Iterator<Item = u32> + 'a {
        let last = Some(list.tail).filter(|&slot| slot != NIL);
        core::iter::successors(last, move |&slot| {
            Some(self.links[slot as usize].prev).filter(|&prev| prev < OUT)
        })
    }

    /// Returns the slots of `list` from first to last.
    pub(crate) fn iter<'a>(&'a self, list: &List) -> impl Iterator<Item = u32> + 'a {
        core::iter::successors(list.first(), move |&slot| self.next(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;
    use std::collections::VecDeque;

    #[test]
    fn behaves_as_two_deques() {
        let mut links = Links::new(64);
        let mut lists = [List::EMPTY; 2];
        let mut model = [VecDeque::new(), VecDeque::new()];
        let mut rng = Rng::new(1);
        for _ in 0..20_000 {
            let state = rng.next_u64();
            // Separate bits of one random word serve as independent random numbers.
            let (slot, which, act) = (
                (state >> 33) as u32 % 64,
                (state >> 40) as usize % 2,
                (state >> 50) % 4,
            );
            // A slot that is in no list has no successor, although its link has a value there.
            if !links.contains(slot) {
                assert_eq!(links.next(slot), None);
            }
            if links.contains(slot) {
                let which = usize::from(model[1].contains(&slot));
                if act == 0 {
                    assert_eq!(links.pop_front(&mut lists[which]), model[which].pop_front());
                } else {
                    links.remove(&mut lists[which], slot);
                    model[which].retain(|&s| s != slot);
                }
            } else {
                links.push_back(&mut lists[which], slot);
                model[which].push_back(slot);
            }
            for i in 0..2 {
                assert_eq!(lists[i].len() as usize, model[i].len());
                assert!(links.iter(&lists[i]).eq(model[i].iter().copied()));
            }
        }
    }
}
