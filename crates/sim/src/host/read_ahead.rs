//! Linux's read-ahead: which pages are fetched beyond those that are read (`mm/readahead.c`, as of 5.3).
//!
//! A read that misses its page at the beginning of a file, or right after the last read, opens a *window*: four pages for a
//! read of one, or as many as the rules of [`initial`] say. The first page of the window beyond the read carries a
//! *marker*; when the process reads that page, the next window, of twice the size up to the maximum, is fetched while it reads on.

pub(super) use weir_config::scenario::PAGE;

/// The kernel's read-ahead state of an open file (`struct file_ra_state`). All in pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadAhead {
    start: u64,
    size: u64,
    /// How many pages at the window's end are beyond the read.
    extra: u64,
}

/// Pages to fetch, and which of them gets the marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    pub(super) start: u64,
    pub(super) pages: u64,
    pub(super) marker: Option<u64>,
}

/// A read that misses a page or reaches a marker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// The page.
    pub(super) page: u64,
    /// Pages of the read from there on.
    pub(super) pages: u64,
    /// The first page after it that is not in the cache, if it reached a marker.
    pub(super) missing: Option<u64>,
    /// The page read before, if any.
    pub(super) previous: Option<u64>,
    /// Pages in the cache right before it, at most one window.
    pub(super) history: u64,
}

impl ReadAhead {
    /// What to fetch for a read (`ondemand_readahead`), with windows of at most `most` pages.
    pub(super) fn window(&mut self, need: &Need, most: u64) -> Option<Window> {
        let Need { page, pages, .. } = *need;
        let adjacent = need
            .previous
            .is_some_and(|last| page.saturating_sub(last) <= 1 && page >= last);
        let goes_on = page == self.start + self.size - self.extra || page == self.start + self.size;
        if page == 0 {
            self.begin(page, pages, most);
        } else if goes_on && self.size > 0 {
            self.start += self.size;
            self.size = next(self.size, most);
            self.extra = self.size;
        } else if let Some(missing) = need.missing {
            // A marker left by another stream, or by an older window.
            let ahead = missing - page;
            if ahead > most {
                return None;
            }
            self.start = missing;
            self.size = next(ahead + pages, most);
            self.extra = self.size;
        } else if pages > most || adjacent {
            self.begin(page, pages, most);
        } else if need.history > pages {
            // Two streams in one file: the cached pages before it tell them apart.
            let history = if need.history >= page {
                2 * need.history
            } else {
                need.history
            };
            self.start = page;
            self.size = (history + pages).min(most);
            self.extra = 1;
        } else {
            return Some(Window {
                start: page,
                pages,
                marker: None,
            });
        }
        if page == self.start && self.size == self.extra {
            // The marker would be reached at once, so the next window becomes part of this one.
            let more = next(self.size, most);
            if self.size + more <= most {
                self.extra = more;
                self.size += more;
            } else {
                self.size = most;
                self.extra = most / 2;
            }
        }
        Some(Window {
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
