//! Linux's read-ahead (`mm/readahead.c` of Linux 5.3): chooses the pages that are fetched beyond
//! those that are read.
//!
//! A read that misses its page at the beginning of a file, or right after the last read, opens a
//! *window*, whose size [`initial`] computes: four pages for a read of one page. The first page of
//! the window beyond the read carries a *marker*. When the process reads that page, the next window
//! is fetched while the process continues. Each window is larger than the previous one, up to the
//! maximum ([`next`]).

pub(super) use weir_config::scenario::PAGE;

/// The kernel's read-ahead state of an open file (`struct file_ra_state`), in pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadAhead {
    start: u64,
    size: u64,
    /// The number of pages at the end of the window that are beyond the read (`async_size`).
    extra: u64,
}

/// A range of pages to fetch, and the page that gets the marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ReadAheadWindow {
    pub(super) start: u64,
    pub(super) pages: u64,
    pub(super) marker: Option<u64>,
}

/// A read that misses a page or reaches a marker.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadAheadNeed {
    /// The page that is missing or has the marker.
    pub(super) page: u64,
    /// The number of pages of the read from that page on.
    pub(super) pages: u64,
    /// The first page after it that is not in the cache. Only for a read that reached a marker.
    pub(super) missing: Option<u64>,
    /// The page that was read before, if any.
    pub(super) previous: Option<u64>,
    /// The number of pages in the cache right before it, at most one window.
    pub(super) history: u64,
}

impl ReadAhead {
    /// Returns the pages to fetch for a read (`ondemand_readahead`), with windows of at most `most`
    /// pages.
    pub(super) fn window(&mut self, need: &ReadAheadNeed, most: u64) -> Option<ReadAheadWindow> {
        let ReadAheadNeed { page, pages, .. } = *need;
        // A second read within the same page is adjacent, too.
        let adjacent = need
            .previous
            .is_some_and(|last| page.saturating_sub(last) <= 1 && page >= last);
        // The page is the marker of the present window or the page after it, so that the stream
        // continues.
        let goes_on = page == self.start + self.size - self.extra || page == self.start + self.size;
        if page == 0 {
            self.begin(page, pages, most);
        } else if goes_on && self.size > 0 {
            self.start += self.size;
            self.size = next(self.size, most);
            self.extra = self.size;
        } else if let Some(missing) = need.missing {
            // The marker was left by another stream or by an older window, so the state of this
            // file does not apply.
            let ahead = missing - page;
            // Pages up to there are in the cache, which is a full window. Nothing has to be fetched
            // yet.
            if ahead > most {
                return None;
            }
            self.start = missing;
            self.size = next(ahead + pages, most);
            self.extra = self.size;
        } else if pages > most || adjacent {
            self.begin(page, pages, most);
        } else if need.history > pages {
            // Two streams share the open file. The cached pages before the read identify the stream
            // that it continues (`try_context_readahead`).
            // If the cached pages reach back to the beginning of the file, the stream counts as
            // long, and gets twice the size.
            let history = if need.history >= page {
                2 * need.history
            } else {
                need.history
            };
            self.start = page;
            self.size = (history + pages).min(most);
            self.extra = 1;
        } else {
            // A random read is fetched without read-ahead, and leaves the state as it is.
            return Some(ReadAheadWindow {
                start: page,
                pages,
                marker: None,
            });
        }
        if page == self.start && self.size == self.extra {
            // The marker would be reached at once, so the next window is joined to this one.
            let more = next(self.size, most);
            if self.size + more <= most {
                self.extra = more;
                self.size += more;
            } else {
                self.size = most;
                self.extra = most / 2;
            }
        }
        Some(ReadAheadWindow {
            start: self.start,
            pages: self.size,
            marker: Some(self.start + self.size - self.extra),
        })
    }

    fn begin(&mut self, page: u64, pages: u64, most: u64) {
        self.start = page;
        self.size = initial(pages, most);
        self.extra = if self.size > pages {
            self.size - pages
        } else {
            self.size
        };
    }
}

/// The size of the first window for a read of `pages` pages (`get_init_ra_size`).
fn initial(pages: u64, most: u64) -> u64 {
    let size = pages.next_power_of_two();
    if size <= most / 32 {
        size * 4
    } else if size <= most / 4 {
        size * 2
    } else {
        most
    }
}

/// The size of the window after one of `size` pages (`get_next_ra_size`).
fn next(size: u64, most: u64) -> u64 {
    if size < most / 16 {
        4 * size
    } else if size <= most / 2 {
        2 * size
    } else {
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_next_windows() {
        let firsts: Vec<u64> = [1, 2, 4, 8, 9, 32].map(|p| initial(p, 32)).to_vec();
        assert_eq!(firsts, [4, 4, 8, 16, 32, 32]);
        assert_eq!(
            [1, 2, 3, 16, 17, 32].map(|p| next(p, 32)),
            [4, 4, 6, 32, 32, 32]
        );
        assert_eq!([1, 2, 3, 4].map(|p| initial(p, 64)), [4, 8, 8, 8]);
    }
}
