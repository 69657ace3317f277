//! How much must be in flight to keep the drive busy, and no more: then it is the elevator that decides, not the drive's queue.
//!
//! As a sender finds a network's capacity (BBR: Cardwell et al., "BBR: congestion-based congestion control", 2016): the drive is a
//! pipe with a *delay*, and less than that much work in flight leaves it idle, more only waits in it. The bound is twice the
//! delay and the largest piece. Costs are learned (`cost`) and follow the speed, so that while more in flight means more done, costs
//! fall and the bound lets in more.
//!
//! Only a piece that has the drive to itself shows the delay, so at the beginning a few are sent one by one, and where none has been
//! alone for long the drive is let run dry for one; neither for longer than 50 ms, and a client with a promise passes meanwhile.
//! Until then it is taken to be no more than the least time that any piece took.
//!
//! A drive on which places matter chooses better among more: there is no bound, once that is known. A driver that is late (its thread waits for a processor)
//! finds the drive dry: then more is sent ahead, until that happens no longer.

use super::cost::{Model, Place, Round};
use crate::elevator::contract::constants::{
    BOUND_MIN, GAIN, LATE_FIRST, LATE_MAX, LATE_PART, MEASURE, MEASURED_PIECES, MEMORY, PARALLEL,
    PATIENCE, SEEK_CHOOSES, SEVERAL,
};
use crate::elevator::contract::unit::Cost;
use crate::table::Piece;
use crate::{Instant, Op, Span};

/// The most of the last one to two spans of memory.
#[derive(Clone, Copy, Debug, Default)]
struct Most {
    now: Cost,
    before: Cost,
    since: Instant,
}

impl Most {
    fn add(&mut self, now: Instant, sample: Cost) {
        if now.since(self.since) >= MEMORY {
            self.before = self.now;
            self.now = Cost::ZERO;
            self.since = now;
        }
        self.now = self.now.max(sample);
    }

    fn get(&self) -> Cost {
        self.now.max(self.before)
    }
}

/// The least of the last one to two spans in which the delay is measured.
#[derive(Clone, Copy, Debug)]
struct Least {
    now: u64,
    before: u64,
    since: Instant,
}

impl Least {
    const NONE: Self = Self {
        now: u64::MAX,
        before: u64::MAX,
        since: Instant::ZERO,
    };

    #[inline]
    fn add(&mut self, now: Instant, sample: u64) {
        if sample < self.now || now.since(self.since) >= MEASURE {
            if now.since(self.since) >= MEASURE {
                (self.before, self.since) = (self.now, now);
            }
            self.now = sample;
        }
    }

    fn get(&self) -> Option<u64> {
        Some(self.now.min(self.before)).filter(|&least| least < u64::MAX)
    }
}

/// A piece that had the drive to itself.
#[derive(Clone, Copy, Debug)]
struct Sample {
    time: u64,
    op: Op,
    place: Place,
    bytes: u64,
}

/// The last of them.
#[derive(Clone, Copy, Debug, Default)]
struct Alone {
    samples: [Option<Sample>; MEASURED_PIECES as usize],
    next: usize,
}

impl Alone {
    fn add(&mut self, sample: Sample) {
        self.samples[self.next] = Some(sample);
        self.next = (self.next + 1) % self.samples.len();
    }

    /// The least time beyond what the piece costs: a late driver or a hiccup of the drive only adds to it (as BBR takes the least
    /// round trip).
    fn delay(&self, model: &Model) -> Option<u64> {
        let delay = |s: &Sample| {
            s.time
                .saturating_sub(model.cost(s.op, s.place, s.bytes).as_nanos())
        };
        self.samples.iter().flatten().map(delay).min()
    }
}

/// The estimate and the bound that follows from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// What is kept in flight of a server across a network, about which it says nothing what one piece takes alone; else zero.
    remote: Span,
    /// For reads and for the rest.
    delays: [Alone; 2],
    /// The least time that any piece took, for reads and for the rest: the delay is no more.
    least: [Least; 2],
    /// Costs of pieces.
    largest: Most,
    /// A piece is in the drive and nothing else has been since it was sent.
    alone: bool,
    /// Number of pieces that are still to be sent alone; when the last one was, and since when one is to be.
    unmeasured: u32,
    measured: Instant,
    /// Somebody was held back for want of room in the window since the last piece was sent.
    full: bool,
    late: Cost,
    /// What follows: the delay of reads, of the rest, and the larger one; the bound.
    each: [u64; 2],
    delay: u64,
    bound: Cost,
}

impl Window {
    /// `remote` is what is kept in flight if the drive is a server across a network, else zero.
    pub(crate) fn new(remote: Span) -> Self {
        Self {
            remote,
            delays: [Alone::default(); 2],
            least: [Least::NONE; 2],
            largest: Most::default(),
            alone: false,
            unmeasured: MEASURED_PIECES,
            measured: Instant::ZERO,
            full: false,
            late: Cost::ZERO,
            each: [0; 2],
            delay: 0,
            bound: Cost::MAX,
        }
    }

    /// True if a piece of `cost` may join `flight`.
    #[inline]
    pub(crate) fn has_room(&mut self, now: Instant, flight: Cost, cost: Cost) -> bool {
        let bound = if self.is_measuring(now) {
            Cost::ZERO
        } else {
            // The piece may be the first that is so large.
            self.bound.max((Cost::from_nanos(self.delay) + cost) * GAIN)
        };
        let room = flight == Cost::ZERO || flight.saturating_add(cost) <= bound;
        self.full |= !room;
        room
    }

    /// True while pieces are sent one by one.
    #[inline]
    fn is_measuring(&mut self, now: Instant) -> bool {
        let since = now.since(self.measured);
        if self.remote > Span::ZERO || self.unmeasured == 0 && since <= MEASURE {
            return false;
        }
        let begun = if self.unmeasured > 0 {
            Span::ZERO
        } else {
            MEASURE
        };
        if since > begun + PATIENCE {
            // It does not run dry: there are others that must not wait.
            (self.unmeasured, self.measured) = (0, now);
            return false;
        }
        true
    }

    /// What may be in flight.
    pub(crate) fn bound(&self) -> Cost {
        self.bound
    }

    /// What is in flight where the drive is just busy: the delay and the largest piece.
    pub(crate) fn needed(&self) -> Cost {
        Cost::from_nanos(self.delay).saturating_add(self.largest.get())
    }

    /// How long the drive takes for a piece beyond what it costs: it does that for many at a time.
    pub(crate) fn delay(&self) -> Span {
        Span::from_nanos(self.delay)
    }

    /// The least time of any piece of late that reads, or that does not, as `op` does; zero if there was none.
    pub(crate) fn least(&self, op: Op) -> Span {
        let least = &self.least[usize::from(!op.is_read())];
        Span::from_nanos(least.get().unwrap_or(0))
    }

    /// The cost of the largest piece of late.
    pub(crate) fn largest(&self) -> Cost {
        self.largest.get()
    }

    /// A piece goes to the drive, which has `flight`.
    #[inline]
    pub(crate) fn observe_dispatch(&mut self, flight: Cost) {
        self.alone = flight == Cost::ZERO;
        self.full = false;
    }

    /// A piece of `cost` came back of `flight`, its own included. True if it had the drive to itself all the time.
    #[inline]
    pub(crate) fn observe_completion(
        &mut self,
        now: Instant,
        piece: &Piece,
        place: Place,
        cost: Cost,
        flight: Cost,
        model: &Model,
    ) -> bool {
        let mut alone = false;
        // A look-up of extents says nothing about how long a read takes.
        let tells = piece.op != Op::Extents;
        if tells {
            self.least[usize::from(!piece.op.is_read())]
                .add(now, now.since(piece.dispatched).as_nanos());
        }
        if flight == cost {
            if core::mem::take(&mut self.full) {
                // Somebody was told that there is enough in the drive, and now it has nothing.
                self.late = (self.late * 2).clamp(LATE_FIRST, LATE_MAX);
                self.settle(model);
            }
            alone = core::mem::take(&mut self.alone) && tells;
            if alone {
                self.add(now, piece, place);
                self.settle(model);
            }
        }
        if cost > self.largest.now {
            self.largest.add(now, cost);
            self.settle(model);
        }
        alone
    }

    fn add(&mut self, now: Instant, piece: &Piece, place: Place) {
        let sample = Sample {
            time: now.since(piece.dispatched).as_nanos(),
            op: piece.op,
            place,
            bytes: piece.length.into(),
        };
        self.delays[usize::from(!piece.op.is_read())].add(sample);
        self.unmeasured = self.unmeasured.saturating_sub(1);
        self.measured = now;
    }

    /// True if pieces waited for one another in a round, instead of for somebody to ask.
    pub(crate) fn is_telling(&self, round: Round) -> bool {
        let delay = Cost::from_nanos(self.each[usize::from(!round.reads)]);
        round.flight >= delay * GAIN + round.piece
    }

    /// Whether the drive does several things at once, if a round in which it had several tells: one of them ended in less than two thirds
    /// of the shortest time of all.
    pub(crate) fn is_parallel(&self, round: Round) -> Option<bool> {
        let least = self.least[usize::from(!round.reads)].get()?;
        let parallel = round.time.saturating_mul(PARALLEL) <= least.saturating_mul(round.depth);
        (round.far && round.depth >= SEVERAL).then_some(parallel)
    }

    /// A round has ended: costs are others now.
    pub(crate) fn settle_round(&mut self, now: Instant, model: &Model) {
        self.late -= self.late / LATE_PART;
        if !model.is_settled() {
            // What it was taken to cost before says nothing.
            self.largest = Most::default();
        }
        self.largest.add(now, Cost::ZERO);
        self.settle(model);
    }

    fn settle(&mut self, model: &Model) {
        for op in 0..2 {
            let least = self.least[op].get();
            let alone = self.delays[op].delay(model);
            self.each[op] = least.into_iter().chain(alone).min().unwrap_or(0);
        }
        self.delay = self.each[0].max(self.each[1]);
        let least = BOUND_MIN.max(Cost::of(self.remote));
        self.bound = if model.seek_cost() >= SEEK_CHOOSES && model.is_settled() {
            Cost::MAX
        } else {
            (self.needed() * GAIN).max(least) + self.late
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_whose_pieces_wait_for_the_link_alone_does_many_things_at_once() {
        let mut window = Window::new(Span::ZERO);
        window.least[0].add(Instant::ZERO, 3_000_000);
        let round = |time: u64, at_once: u64| Round {
            flight: Cost::ZERO,
            piece: Cost::ZERO,
            time,
            depth: 16 * at_once,
            reads: true,
            far: true,
        };
        assert_eq!(window.is_parallel(round(4_000_000, 4)), Some(true));
        // 1.2 ms of the link each, 40 in the drive.
        assert_eq!(window.is_parallel(round(48_000_000, 40)), Some(true));
        // A disk that takes 8 at a time ends one in 10 ms.
        assert_eq!(window.is_parallel(round(80_000_000, 8)), Some(false));
        assert_eq!(window.is_parallel(round(3_000_000, 1)), None);
    }

    #[test]
    fn the_least_is_that_of_the_span_that_runs_and_of_the_one_before() {
        let mut least = Least::NONE;
        let half = MEASURE.as_nanos() / 2;
        let at = |halves| Instant::from_nanos(halves * half);
        for (now, sample, expected) in [
            (at(0), 10, 10),
            (at(1), 5, 5),
            (at(2), 20, 5),
            (at(3), 40, 5),
            (at(4), 30, 20),
        ] {
            least.add(now, sample);
            assert_eq!(least.get(), Some(expected), "{now:?}");
        }
    }
}
