//! How much must be in flight to keep the drive busy, and no more: then it is the elevator that decides, not the drive's queue.
//!
//! As a sender finds a network's capacity (BBR: Cardwell et al., "BBR: congestion-based congestion control", 2016): the drive is a
//! pipe of a *speed* and a *delay*, and less than their product in flight leaves it idle, more only waits in it. The bound is
//! twice that, so that while more in flight still means more done, the speed rises and the bound with it.
//!
//! The speed is the most that was done in a while, in modelled cost by time: one if the drive does what its capacity says, four on
//! a drive four times as fast. What was done with too little in flight to wait for one another says nothing about the drive,
//! unless it is more than was known (BBR's application-limited samples). Where promises leave so little for long, they are set
//! aside for one round in fifty, and at the beginning, and for as long as that shows a higher speed (BBR's probing). Only a piece
//! that has the drive to itself shows the delay, so at the beginning three are sent one by one, and where none has been alone for
//! long the drive is let run dry for one.

use crate::layer::Piece;
use crate::time::mul_div_floor;
use crate::{Instant, Span};

/// Twice the product: room to grow into.
const GAIN: u64 = 2;
/// The bound is never below what the drive does in this long: a live host is this late now and then.
const FLOOR: u64 = 250_000;
/// The speed is averaged over rounds of this length.
const ROUND: Span = Span::from_millis(10);
/// A probe goes on while it finds the speed higher by this part.
const MORE: u64 = 4;
/// The speed and the largest piece are forgotten after one to two of these; so long it is from one probe to the next.
const MEMORY: Span = Span::from_millis(500);
/// The delay is measured on purpose when it has not been for so long.
const MEASURE: Span = Span::from_secs(5);
/// Speed one.
const UNIT: u64 = 1 << 10;

/// The most of the last one to two spans of memory.
#[derive(Clone, Copy, Debug)]
struct Most {
    now: u64,
    before: u64,
    since: Instant,
}

impl Most {
    const NONE: Self = Self {
        now: 0,
        before: 0,
        since: Instant::ZERO,
    };

    fn add(&mut self, now: Instant, sample: u64) {
        if now.since(self.since) >= MEMORY {
            self.before = self.now;
            self.now = 0;
            self.since = now;
        }
        self.now = self.now.max(sample);
    }

    fn get(&self) -> u64 {
        self.now.max(self.before)
    }
}

/// The last three pieces that had the drive to themselves: the time each took, and its modelled cost.
#[derive(Clone, Copy, Debug)]
struct Alone {
    samples: [Option<(u64, u64)>; 3],
    next: usize,
}

impl Alone {
    const NONE: Self = Self {
        samples: [None; 3],
        next: 0,
    };

    fn add(&mut self, time: u64, cost: u64) {
        self.samples[self.next] = Some((time, cost));
        self.next = (self.next + 1) % self.samples.len();
    }

    /// The least time beyond what the cost takes at a speed: a late driver or a hiccup of the drive only adds to it (as BBR takes the
    /// least round trip).
    fn delay(&self, speed: Speed) -> u64 {
        let delay = |s: &(u64, u64)| s.0.saturating_sub(speed.time(s.1));
        let samples = self.samples.iter().flatten();
        samples.map(delay).min().unwrap_or(u64::MAX)
    }
}

/// Modelled cost done in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Speed(u64);

impl Speed {
    /// What the stated capacity says.
    pub(super) const STATED: Self = Self(UNIT);

    /// The cost that is done in `time`.
    pub(super) fn cost(self, time: u64) -> u64 {
        mul_div_floor(time, self.0, UNIT)
    }

    /// The time in which `cost` is done.
    fn time(self, cost: u64) -> u64 {
        mul_div_floor(cost, UNIT, self.0.max(1))
    }
}

/// The estimate and the bound that follows from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// For reads and for the rest.
    delays: [Alone; 2],
    speeds: Most,
    /// Costs of pieces.
    largest: Most,
    /// A piece is in the drive and nothing else has been since it was sent.
    alone: bool,
    /// So many pieces more are to be sent alone, and when the last one was.
    unmeasured: u32,
    measured: Instant,
    /// The round: when it began, the cost done in it, how many pieces came back and the sum of what was in
    /// flight then, whether promises held any back.
    round: Instant,
    done: u64,
    pieces: u64,
    flights: u64,
    held: bool,
    /// Promises are set aside to find the speed; and when that or else the drive's work showed it last.
    probing: bool,
    shown: Instant,
    /// What follows.
    speed: Speed,
    delay: u64,
    product: u64,
    bound: u64,
}

impl Window {
    pub(super) const fn new() -> Self {
        Self {
            delays: [Alone::NONE; 2],
            speeds: Most::NONE,
            largest: Most::NONE,
            alone: false,
            unmeasured: 3,
            measured: Instant::ZERO,
            round: Instant::ZERO,
            done: 0,
            pieces: 0,
            flights: 0,
            held: false,
            probing: true,
            shown: Instant::ZERO,
            speed: Speed::STATED,
            delay: 0,
            product: 0,
            bound: u64::MAX,
        }
    }

    /// The most modelled cost in flight that the drive needs, with one more piece of `cost`, in nanoseconds; zero to let it run dry.
    #[inline]
    pub(super) fn bound(&self, now: Instant, cost: u64) -> u64 {
        if self.measuring(now) {
            0
        } else {
            // The piece may be the first that is so large.
            self.bound.max(GAIN * (self.product + cost))
        }
    }

    /// True while pieces are sent one by one, whoever is behind.
    #[inline]
    pub(super) fn measuring(&self, now: Instant) -> bool {
        self.unmeasured > 0 || now.since(self.measured) > MEASURE
    }

    /// The speed at which the drive does what it has.
    pub(super) fn speed(&self) -> Speed {
        self.speed
    }

    /// The modelled cost that the drive works on at a time, however little waits in it: its speed times its delay.
    pub(super) fn product(&self) -> u64 {
        self.product
    }

    /// A piece goes to the drive, which has so much.
    #[inline]
    pub(super) fn sent(&mut self, now: Instant, flight: u64) {
        self.alone = flight == 0;
        if self.alone {
            self.begin(now);
        }
    }

    /// Somebody was held back for the sake of a promise.
    pub(super) fn held(&mut self) {
        self.held = true;
    }

    /// True while promises are set aside to find the speed.
    pub(super) fn probing(&self) -> bool {
        self.probing
    }

    /// A piece of `cost` came back of `flight`, its own included.
    pub(super) fn complete(&mut self, now: Instant, piece: &Piece, cost: u64, flight: u64) {
        self.pieces += 1;
        self.flights = self.flights.saturating_add(flight);
        self.done += cost;
        let round = now.since(self.round);
        let alone = self.alone && flight == cost;
        if !alone && round < ROUND && cost <= self.largest.now {
            return;
        }
        if alone {
            let time = now.since(piece.dispatched).as_nanos();
            self.delays[usize::from(!piece.op.is_read())].add(time, cost);
            self.alone = false;
            self.unmeasured = self.unmeasured.saturating_sub(1);
            self.measured = now;
        }
        self.largest.add(now, cost);
        if round >= ROUND {
            self.end(now, mul_div_floor(self.done, UNIT, round.as_nanos()));
            self.begin(now);
        }
        self.settle();
    }

    fn begin(&mut self, now: Instant) {
        self.round = now;
        self.done = 0;
        (self.pieces, self.flights, self.held) = (0, 0, false);
    }

    /// A round ends in which the drive did its work at `speed`.
    fn end(&mut self, now: Instant, speed: u64) {
        let known = self.speed.0;
        // Pieces took twice the delay: they waited for one another, not for somebody to ask.
        let pieces = self.pieces.max(1);
        let enough = GAIN * Speed(speed).cost(self.delay) + self.done / pieces;
        let telling = self.flights / pieces >= enough;
        if telling || speed > known {
            self.speeds.add(now, speed);
            self.speed = Speed(self.speeds.get());
        }
        if telling || self.probing {
            self.shown = now;
        }
        self.probing = if self.probing {
            speed > known + known / MORE
        } else {
            self.held && now.since(self.shown) >= MEMORY
        };
    }

    fn settle(&mut self) {
        let known = self.delays.map(|d| d.delay(self.speed));
        let known = known.into_iter().filter(|&d| d != u64::MAX).max();
        self.delay = known.unwrap_or(0);
        self.product = self.speed.cost(self.delay);
        let needed = self.product.saturating_add(self.largest.get());
        self.bound = needed.saturating_mul(GAIN).max(self.speed.cost(FLOOR));
    }
}
