//! Requests that a guest cuts, since they are too long for its ring.

use weir_core::{Cookie, Outcome};

/// Which piece belongs to which request, by cookies.
#[derive(Debug)]
pub(crate) struct Pieces {
    longest: u32,
    wholes: Vec<Option<Cookie>>,
    /// Of a request that was cut: pieces that are not done, and the first error.
    left: Vec<(u32, Outcome)>,
}

impl Pieces {
    /// Of at most `longest` bytes each; there are at most `requests` requests, and as many pieces.
    pub(super) fn new(longest: u32, requests: u32) -> Self {
        Self {
            longest,
            wholes: vec![None; requests as usize],
            left: vec![(0, Outcome::Ok); requests as usize],
        }
    }

    /// Bytes of a piece.
    pub(crate) fn longest(&self) -> u32 {
        self.longest
    }

    /// A piece is sent of a request.
    pub(crate) fn add(&mut self, piece: Cookie, whole: Cookie) {
        self.wholes[piece as usize] = Some(whole);
        let (left, outcome) = &mut self.left[whole as usize];
        if *left == 0 {
            *outcome = Outcome::Ok;
        }
        *left += 1;
    }

    /// The request that a piece belongs to, which is done; `None` for a request that is whole.
    pub(crate) fn take_whole(&mut self, piece: Cookie) -> Option<Cookie> {
        self.wholes[piece as usize].take()
    }

    /// A piece of a request ended so. What came of the request, if it was the last.
    pub(crate) fn ended(&mut self, whole: Cookie, outcome: Outcome) -> Option<Outcome> {
        let (left, first) = &mut self.left[whole as usize];
        if *first == Outcome::Ok {
            *first = outcome;
        }
        *left -= 1;
        (*left == 0).then_some(*first)
    }
}
