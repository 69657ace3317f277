//! The page cache of one file, which all processes with that file open share.

use std::collections::BTreeSet;

/// The state of a file's pages: present, in flight or missing, and with or without a read-ahead
/// marker.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    /// One bit per page, which is set if the page is present or in flight.
    bits: Vec<u64>,
    pages: u64,
    /// The pages with a read-ahead marker, at which the next window is fetched.
    markers: BTreeSet<u64>,
    /// The fetches in flight, with their ranges of pages.
    coming: Vec<PendingFetch>,
}

/// A read of pages in flight, identified by its process and number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fetch {
    /// The client whose process sent the read.
    pub(crate) client: u32,
    /// The number of the process's command.
    pub(crate) number: u64,
}

#[derive(Clone, Copy, Debug)]
struct PendingFetch {
    fetch: Fetch,
    start: u64,
    end: u64,
}

/// The state of a page, as a read sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Page {
    /// The page can be read.
    Present,
    /// The page is in flight: a process can wait for this fetch.
    Coming(Fetch),
    /// The page is neither present nor in flight.
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
    pub(super) fn page_state(&self, page: u64) -> Page {
        if !self.holds(page) {
            return Page::Missing;
        }
        let of = |c: &&PendingFetch| (c.start..c.end).contains(&page);
        match self.coming.iter().find(of) {
            Some(coming) => Page::Coming(coming.fetch),
            None => Page::Present,
        }
    }

    /// The number of pages from `page` on that can be read one after the other, among the next
    /// `most`: present ones without a marker.
    pub(super) fn readable(&self, page: u64, most: u64) -> u64 {
        // Markers are checked first: at a marker, the reader must stop to fetch the next window.
        let end = page.saturating_add(most).min(self.pages);
        let end = self
            .markers
            .range(page..end)
            .next()
            .map_or(end, |&marker| marker);
        // Pages in flight have their bit set as well, so the range ends at the first of them.
        let others = self.coming.iter().filter(|coming| coming.end > page);
        let end = others.fold(end, |end, coming| end.min(coming.start.max(page)));
        let mut at = page;
        while at < end {
            let (word, bit) = (self.bits[(at / 64) as usize], at % 64);
            // Counts up to 64 pages at a time.
            let held = u64::from((word >> bit).trailing_ones());
            at += held;
            // The run of set bits ended inside the word.
            if bit + held < 64 {
                break;
            }
        }
        at.min(end) - page
    }

    /// Returns true if the page is present or in flight.
    #[inline]
    pub(super) fn holds(&self, page: u64) -> bool {
        self.bits[(page / 64) as usize] >> (page % 64) & 1 == 1
    }

    /// The number of fetches in flight for a client's process.
    pub(super) fn fetches_in_flight(&self, client: u32) -> usize {
        let its = |c: &&PendingFetch| c.fetch.client == client;
        self.coming.iter().filter(its).count()
    }

    pub(super) fn mark(&mut self, page: u64) {
        self.markers.insert(page);
    }

    #[inline]
    pub(super) fn is_marked(&self, page: u64) -> bool {
        self.markers.contains(&page)
    }

    /// Removes the marker of a page.
    pub(super) fn unmark(&mut self, page: u64) {
        self.markers.remove(&page);
    }

    /// Starts to fetch the pages from `start` to `end`. Their bits are set from now on, so that no
    /// process fetches them twice.
    pub(super) fn fetch(&mut self, fetch: Fetch, start: u64, end: u64) {
        self.set(start, end, true);
        self.coming.push(PendingFetch { fetch, start, end });
    }

    /// Ends a fetch. Its pages are present, or missing if the fetch failed. Returns false if the
    /// fetch is unknown.
    pub(super) fn complete_fetch(&mut self, fetch: Fetch, well: bool) -> bool {
        let Some(at) = self.coming.iter().position(|c| c.fetch == fetch) else {
            return false;
        };
        // The order is kept, so that `first_fetch` returns the oldest fetch.
        let PendingFetch { start, end, .. } = self.coming.remove(at);
        if !well {
            self.set(start, end, false);
        }
        true
    }

    /// The first fetch in flight of a client's process.
    pub(crate) fn first_fetch(&self, client: u32) -> Option<Fetch> {
        let its = |f: &Fetch| f.client == client;
        self.coming.iter().map(|c| c.fetch).find(its)
    }

    /// Marks pages that a process has written as present.
    pub(super) fn mark_written(&mut self, start: u64, end: u64) {
        self.set(start, end, true);
    }

    /// Drops all present pages. Pages in flight are kept, because Linux has them locked.
    pub(super) fn drop_all(&mut self) {
        self.bits.fill(0);
        self.markers.clear();
        for at in 0..self.coming.len() {
            let PendingFetch { start, end, .. } = self.coming[at];
            self.set(start, end, true);
        }
    }

    /// The first missing page from `from` on, among the next `most`.
    pub(super) fn missing_after(&self, from: u64, most: u64) -> u64 {
        let end = from.saturating_add(most).min(self.pages);
        (from..end).find(|&page| !self.holds(page)).unwrap_or(end)
    }

    /// The number of consecutive pages before `page` that are present or in flight, at most `most`.
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
    fn readable_pages_agree_with_a_scan() {
        let mut rng = weir_model::load::Rng::new(3);
        for _ in 0..2_000 {
            let mut cache = Cache::new(rng.range(1, 300));
            for number in 0..rng.range(0, 6) {
                let start = rng.range(0, cache.pages() - 1);
                let end = rng.range(start + 1, cache.pages());
                match rng.range(0, 3) {
                    0 => cache.fetch(Fetch { client: 0, number }, start, end),
                    1 => cache.mark(start),
                    _ => cache.mark_written(start, end),
                }
            }
            let (page, most) = (rng.range(0, cache.pages() - 1), rng.range(0, 200));
            let free = |p: &u64| cache.page_state(*p) == Page::Present && !cache.is_marked(*p);
            let scanned = (page..cache.pages()).take(most as usize).take_while(free);
            assert_eq!(cache.readable(page, most), scanned.count() as u64);
        }
    }

    #[test]
    fn a_page_is_missing_then_being_read_then_present() {
        let mut cache = Cache::new(100);
        let [seven, eight] = [7, 8].map(|number| Fetch { client: 1, number });
        cache.fetch(seven, 60, 70);
        assert_eq!(
            (cache.page_state(59), cache.page_state(60)),
            (Page::Missing, Page::Coming(seven))
        );
        assert_eq!(
            (cache.page_state(69), cache.page_state(70)),
            (Page::Coming(seven), Page::Missing)
        );
        cache.mark_written(10, 12);
        cache.drop_all();
        assert_eq!(
            (cache.page_state(10), cache.page_state(64)),
            (Page::Missing, Page::Coming(seven))
        );
        assert_eq!(
            (cache.fetches_in_flight(0), cache.fetches_in_flight(1)),
            (0, 1)
        );
        assert_eq!(
            (cache.first_fetch(0), cache.first_fetch(1)),
            (None, Some(seven))
        );
        assert!(cache.complete_fetch(seven, true) && !cache.complete_fetch(seven, true));
        assert_eq!(cache.page_state(64), Page::Present);
        assert_eq!(
            (cache.missing_after(62, 32), cache.missing_after(62, 3)),
            (70, 65)
        );
        assert_eq!((cache.history(70, 32), cache.history(70, 4)), (10, 4));
        cache.fetch(eight, 80, 81);
        assert!(cache.complete_fetch(eight, false));
        assert_eq!(cache.page_state(80), Page::Missing);
    }
}
