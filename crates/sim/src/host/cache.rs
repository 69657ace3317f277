//! The pages of one file that are in memory, or on their way there.

use std::collections::BTreeSet;

/// Pages of a file: which are there, which are on their way, which carry a marker.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    /// A bit for each page that is there or on its way.
    bits: Vec<u64>,
    pages: u64,
    /// Pages that the next window begins with, or is fetched at.
    markers: BTreeSet<u64>,
    /// What is on its way, by the number of the fetch.
    coming: Vec<Coming>,
}

#[derive(Clone, Copy, Debug)]
struct Coming {
    fetch: u64,
    start: u64,
    end: u64,
}

/// How it stands with a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Page {
    /// It can be read.
    Present,
    /// It can be waited for: it is part of this fetch.
    Coming(u64),
    /// It is nowhere.
    Missing,
}

impl Cache {
    pub(super) fn new(pages: u64) -> Self {
        Self {
            bits: vec![0; pages.div_ceil(64) as usize],
            pages,
            markers: BTreeSet::new(),
            coming: Vec::new(),
        }
    }

    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    #[inline]
    pub(super) fn look(&self, page: u64) -> Page {
        if !self.holds(page) {
            return Page::Missing;
        }
        let of = |c: &&Coming| (c.start..c.end).contains(&page);
        match self.coming.iter().find(of) {
            Some(coming) => Page::Coming(coming.fetch),
            None => Page::Present,
        }
    }

    /// There, or on its way.
    #[inline]
    pub(super) fn holds(&self, page: u64) -> bool {
        self.bits[(page / 64) as usize] >> (page % 64) & 1 == 1
    }

    /// Fetches on their way.
    pub(super) fn coming(&self) -> usize {
        self.coming.len()
    }

    pub(super) fn mark(&mut self, page: u64) {
        self.markers.insert(page);
    }

    #[inline]
    pub(super) fn is_marked(&self, page: u64) -> bool {
        self.markers.contains(&page)
    }

    /// Takes a marker away.
    pub(super) fn unmark(&mut self, page: u64) {
        self.markers.remove(&page);
    }

    /// The pages from `start` to `end` are on their way from now on.
    pub(super) fn fetch(&mut self, fetch: u64, start: u64, end: u64) {
        self.set(start, end, true);
        self.coming.push(Coming { fetch, start, end });
    }

    /// A fetch has ended: its pages are there, or are not after all. False if there is no such fetch.
    pub(super) fn arrived(&mut self, fetch: u64, well: bool) -> bool {
        let Some(at) = self.coming.iter().position(|c| c.fetch == fetch) else {
            return false;
        };
        let Coming { start, end, .. } = self.coming.remove(at);
        if !well {
            self.set(start, end, false);
        }
        true
    }

    /// The pages were written by the process: they are there.
    pub(super) fn written(&mut self, start: u64, end: u64) {
        self.set(start, end, true);
    }

    /// Forgets all that is there. What is on its way is kept (Linux: pages that are locked).
    pub(super) fn drop_all(&mut self) {
        self.bits.fill(0);
        self.markers.clear();
        for at in 0..self.coming.len() {
            let Coming { start, end, .. } = self.coming[at];
            self.set(start, end, true);
        }
    }

    /// The first page from `from` on that is neither there nor on its way, looking at so many.
    pub(super) fn missing_after(&self, from: u64, most: u64) -> u64 {
        let end = from.saturating_add(most).min(self.pages);
        (from..end).find(|&page| !self.holds(page)).unwrap_or(end)
    }

    /// Pages held right before `page`, looking at so many.
    pub(super) fn history(&self, page: u64, most: u64) -> u64 {
        let back = (1..=most.min(page)).take_while(|back| self.holds(page - back));
        back.count() as u64
    }

    fn set(&mut self, start: u64, end: u64, held: bool) {
        for page in start..end {
            let (word, bit) = ((page / 64) as usize, 1 << (page % 64));
            if held {
                self.bits[word] |= bit;
            } else {
                self.bits[word] &= !bit;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_comes_and_goes() {
        let mut cache = Cache::new(100);
        cache.fetch(7, 60, 70);
        assert_eq!(
            (cache.look(59), cache.look(60)),
            (Page::Missing, Page::Coming(7))
        );
        assert_eq!(
            (cache.look(69), cache.look(70)),
            (Page::Coming(7), Page::Missing)
        );
        cache.written(10, 12);
        cache.drop_all();
        assert_eq!(
            (cache.look(10), cache.look(64)),
            (Page::Missing, Page::Coming(7))
        );
        assert!(cache.arrived(7, true) && !cache.arrived(7, true));
        assert_eq!(cache.look(64), Page::Present);
        assert_eq!(
            (cache.missing_after(62, 32), cache.missing_after(62, 3)),
            (70, 65)
        );
        assert_eq!((cache.history(70, 32), cache.history(70, 4)), (10, 4));
        cache.fetch(8, 80, 81);
        assert!(cache.arrived(8, false));
        assert_eq!(cache.look(80), Page::Missing);
    }
}
