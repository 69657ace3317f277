//! How much must be in flight to keep the drive busy, and no more: then it is the elevator that decides, not the drive's queue.
//!
//! As a sender finds a network's capacity (BBR: Cardwell et al., "BBR: congestion-based congestion control", 2016): the bound is
//! twice the drive's delay times its speed, with the delay taken as the least seen in a while and the speed as the most. While
//! more in flight still means more done, the speed rises and the bound with it. Only a piece that found the drive empty shows
//! the delay, so where none has for long the drive is let run dry for one.

use crate::layer::Piece;
use crate::time::{mul_div_ceil, mul_div_floor};
use crate::{Instant, Span};

/// Twice the product: room to grow into.
const GAIN: u64 = 2;
/// The bound is never below this much drive time: a live host is this late now and then.
const FLOOR: u64 = 250_000;
/// The speed is averaged over rounds of this length.
const ROUND: Span = Span::from_millis(10);
/// The speed and the largest piece are forgotten after one to two of these.
const MEMORY: Span = Span::from_millis(500);
/// The delay is forgotten after one to two of these, and measured on purpose when it has not been for so long.
const DELAY_MEMORY: Span = Span::from_secs(5);
/// Speed one: the drive does what its capacity says. Speeds are in these units.
const UNIT: u64 = 1 << 10;

/// The extreme of the last one to two spans of memory.
#[derive(Clone, Copy, Debug)]
struct Extreme {
    now: u64,
    before: u64,
    since: Instant,
    none: u64,
}

impl Extreme {
    const fn new(none: u64) -> Self {
        Self {
            now: none,
            before: none,
            since: Instant::ZERO,
            none,
        }
    }

    fn turn(&mut self, now: Instant, memory: Span) {
        if now.since(self.since) >= memory {
            self.before = self.now;
            self.now = self.none;
            self.since = now;
        }
    }
}

/// The estimate and the bound that follows from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Least time of a piece beyond its modelled cost, for reads and for the rest.
    delays: [Extreme; 2],
    /// Most modelled cost done in a unit of time.
    speed: Extreme,
    /// Largest cost of a piece.
    largest: Extreme,
    /// The piece in flight that found the drive empty: its request, and where in it it begins.
    alone: Option<(u32, u32)>,
    measured: Instant,
    round: Instant,
    done: u64,
    bound: u64,
}

impl Window {
    pub(super) const fn new() -> Self {
        Self {
            delays: [Extreme::new(u64::MAX); 2],
            speed: Extreme::new(0),
            largest: Extreme::new(0),
            alone: None,
            measured: Instant::ZERO,
            round: Instant::ZERO,
            done: 0,
            bound: u64::MAX,
        }
    }

    /// The most modelled cost in flight that the drive needs, in nanoseconds; zero to let it run dry.
    #[inline]
    pub(super) fn bound(&self, now: Instant) -> u64 {
        if now.since(self.measured) > DELAY_MEMORY {
            0
        } else {
            self.bound
        }
    }

    /// Time that a piece takes beyond its modelled cost even when it is alone.
    pub(super) fn delay(&self) -> u64 {
        let known = self
            .delays
            .iter()
            .map(|d| d.now.min(d.before))
            .filter(|&d| d != u64::MAX);
        known.max().unwrap_or(0)
    }

    /// A piece goes to the empty drive: the request's, from `within` on.
    pub(super) fn wake(&mut self, now: Instant, request: u32, within: u32) {
        self.alone = Some((request, within));
        self.round = now;
        self.done = 0;
    }

    /// A piece of `cost` came back.
    pub(super) fn complete(&mut self, now: Instant, piece: &Piece, cost: u64) {
        if self.alone == Some((piece.request, piece.within)) {
            let delay = &mut self.delays[usize::from(!piece.op.is_read())];
            delay.turn(now, DELAY_MEMORY);
            delay.now = delay
                .now
                .min(now.since(piece.dispatched).as_nanos().saturating_sub(cost));
            self.alone = None;
            self.measured = now;
        }
        self.speed.turn(now, MEMORY);
        self.largest.turn(now, MEMORY);
        self.largest.now = self.largest.now.max(cost);
        self.done = self.done.saturating_add(cost);
        let round = now.since(self.round);
        if round >= ROUND {
            let speed = mul_div_floor(self.done, UNIT, round.as_nanos());
            self.speed.now = self.speed.now.max(speed);
            self.round = now;
            self.done = 0;
        }
        let speed = self.speed.now.max(self.speed.before).max(UNIT);
        let largest = self.largest.now.max(self.largest.before);
        let needed = mul_div_ceil(self.delay(), speed, UNIT).saturating_add(largest);
        self.bound = needed.saturating_mul(GAIN).max(FLOOR);
    }
}
