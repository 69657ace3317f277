//! The window: how much work must be in flight to keep the drive busy.
//!
//! Keeping no more than that in flight leaves the order of requests to the elevator instead of the
//! drive's own queue. The window is found in the way in which BBR (Cardwell et al., "BBR:
//! congestion-based congestion control", 2016) finds the capacity of a network path: the drive is a
//! pipe with a *delay*. With less work in flight than the delay, the drive is sometimes idle. Any
//! more only waits inside the drive. The window is twice the sum of the delay and the largest
//! piece. Costs are learned ([`cost`](super::cost)) and follow the speed of the drive. So if more
//! work in flight leads to more throughput, costs fall and the window admits more.
//!
//! Only a piece that has the drive to itself shows the delay. Therefore the first pieces are sent
//! one at a time. If no piece has been alone for a long time, the drive runs empty for one more
//! measurement. Each round of learning counts as one of these pieces, so that this soon ends.
//! Promised clients do not wait for it. Until there is a measurement, the delay is assumed to be
//! the shortest time of any piece.
//!
//! The latency of a server across a network varies by itself, so its shortest time is luck. Pieces
//! in a queue all take at least the time of the queue. Therefore the delay of such a server is the
//! average time of a piece beyond the shortest one, and the window follows a server that is slow
//! for reasons other than its queue.
//!
//! A drive with expensive seeks orders requests better if it can choose among many, so it has no
//! window once that is known. If the thread of the driver is late, because it waits for a
//! processor, it finds the drive empty. Then more work is dispatched in advance, until this no
//! longer happens.

use super::cost::{DriveCostModel, Locality, Round};
use crate::elevator::contract::constants::{
    AVERAGE_PART, BOUND_MIN, GAIN, MEASURE, MEASURED_PIECES, MEMORY, PARALLEL, ROUND, SECOND,
    SEEK_CHOOSES, SEVERAL,
};
use crate::elevator::contract::learned::average;
use crate::elevator::contract::unit::Cost;
use crate::table::Piece;
use crate::{Instant, Op, Span};

/// The maximum of the samples in the last one to two times [`MEMORY`].
#[derive(Clone, Copy, Debug, Default)]
struct RecentMax {
    now: Cost,
    before: Cost,
    since: Instant,
}

impl RecentMax {
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

/// The minimum of the samples in the last one to two times [`SECOND`].
#[derive(Clone, Copy, Debug)]
struct RecentMin {
    now: u64,
    before: u64,
    since: Instant,
}

impl RecentMin {
    const NONE: Self = Self {
        now: u64::MAX,
        before: u64::MAX,
        since: Instant::ZERO,
    };

    #[inline]
    fn add(&mut self, now: Instant, sample: u64) {
        if sample < self.now || now.since(self.since) >= SECOND {
            if now.since(self.since) >= SECOND {
                (self.before, self.since) = (self.now, now);
            }
            self.now = sample;
        }
    }

    fn get(&self) -> Option<u64> {
        Some(self.now.min(self.before)).filter(|&least| least < u64::MAX)
    }
}

/// A piece that had the drive to itself, with its time in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct SoloSample {
    time: u64,
    op: Op,
    place: Locality,
    bytes: u64,
}

/// The last pieces that had the drive to themselves, in a ring.
#[derive(Clone, Copy, Debug, Default)]
struct SoloSamples {
    samples: [Option<SoloSample>; MEASURED_PIECES as usize],
    next: usize,
}

impl SoloSamples {
    fn add(&mut self, sample: SoloSample) {
        self.samples[self.next] = Some(sample);
        self.next = (self.next + 1) % self.samples.len();
    }

    /// Returns the shortest time beyond the cost of a piece. The minimum is used because a late
    /// driver or a hiccup of the drive can only add to the time (BBR uses the shortest round trip
    /// for this reason).
    fn delay(&self, model: &DriveCostModel) -> Option<u64> {
        let delay = |s: &SoloSample| {
            s.time
                .saturating_sub(model.cost(s.op, s.place, s.bytes).as_nanos())
        };
        self.samples.iter().flatten().map(delay).min()
    }
}

/// The learned delay, and the window that follows from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// The work to keep in flight for a server across a network, as a time. Zero for a local drive.
    remote: Span,
    /// The last pieces that were alone: reads, then all others.
    delays: [SoloSamples; 2],
    /// The shortest time of any piece: reads, then all others. It limits the delay.
    least: [RecentMin; 2],
    /// The largest recent cost of a piece.
    largest: RecentMax,
    /// True while a piece is in the drive that was alone when it was dispatched, and no other has
    /// been dispatched since.
    alone: bool,
    /// Number of pieces that are still to be sent alone.
    unmeasured: u32,
    /// The time at which the last piece was alone, or was to be sent alone.
    measured: Instant,
    /// True if a piece was stopped by the window since the last dispatch.
    full: bool,
    /// Additional work in the window for a late driver.
    late: Cost,
    /// Average time of a piece in recent rounds, in nanoseconds. Zero for a local drive.
    mean: u64,
    /// Result: the delay of reads and of all others, in nanoseconds.
    each: [u64; 2],
    /// Result: the larger one of these delays, in nanoseconds.
    delay: u64,
    /// Result: the window.
    bound: Cost,
}

impl Window {
    /// Creates a window. `remote` is the work to keep in flight for a server across a network, and
    /// zero for a local drive.
    pub(crate) fn new(remote: Span) -> Self {
        Self {
            remote,
            delays: [SoloSamples::default(); 2],
            least: [RecentMin::NONE; 2],
            largest: RecentMax::default(),
            alone: false,
            // The time of a single piece shows nothing about a remote drive.
            unmeasured: if remote > Span::ZERO {
                0
            } else {
                MEASURED_PIECES
            },
            measured: Instant::ZERO,
            full: false,
            late: Cost::ZERO,
            mean: 0,
            each: [0; 2],
            delay: 0,
            bound: Cost::MAX,
        }
    }

    /// Returns true if a piece of `cost` may be dispatched in addition to `flight`.
    #[inline]
    pub(crate) fn has_room(&mut self, now: Instant, flight: Cost, cost: Cost) -> bool {
        if self.remote == Span::ZERO && now.since(self.measured) > MEASURE {
            (self.measured, self.unmeasured) = (now, self.unmeasured.max(1));
        }
        let bound = if self.unmeasured > 0 {
            // While a delay is measured, a piece may be dispatched to an empty drive only.
            Cost::ZERO
        } else {
            // The piece may be the first one of its size, which `largest` does not include yet.
            self.bound.max((Cost::from_nanos(self.delay) + cost) * GAIN)
        };
        let room = flight == Cost::ZERO || flight.saturating_add(cost) <= bound;
        self.full |= !room;
        room
    }

    /// Returns the window: the work that may be in flight.
    pub(crate) fn bound(&self) -> Cost {
        self.bound
    }

    /// Returns the work that is just enough to keep the drive busy: the delay and the largest
    /// piece.
    pub(crate) fn needed(&self) -> Cost {
        Cost::from_nanos(self.delay).saturating_add(self.largest.get())
    }

    /// Returns the time that a piece takes beyond its cost. The drive can spend this time on many
    /// pieces in parallel.
    pub(crate) fn delay(&self) -> Span {
        Span::from_nanos(self.delay)
    }

    /// Returns the shortest recent time of a read, or of any other piece, depending on `op`. Zero
    /// if there was none.
    pub(crate) fn least(&self, op: Op) -> Span {
        let least = &self.least[usize::from(!op.is_read())];
        Span::from_nanos(least.get().unwrap_or(0))
    }

    /// Returns the largest recent cost of a piece.
    pub(crate) fn largest(&self) -> Cost {
        self.largest.get()
    }

    /// Accounts for a piece that is dispatched while `flight` is in the drive.
    #[inline]
    pub(crate) fn observe_dispatch(&mut self, flight: Cost) {
        // Any further piece ends the time in which the previous one was alone.
        self.alone = flight == Cost::ZERO;
        self.full = false;
    }

    /// Accounts for a completed piece of `cost`. `flight` includes the piece.
    #[inline]
    pub(crate) fn observe_completion(
        &mut self,
        now: Instant,
        piece: &Piece,
        place: Locality,
        cost: Cost,
        flight: Cost,
        model: &DriveCostModel,
    ) {
        let time = now.since(piece.dispatched).as_nanos();
        // The duration of a look-up of extents shows nothing about the latency of reads.
        let tells = piece.op != Op::Extents;
        if tells {
            self.least[usize::from(!piece.op.is_read())].add(now, time);
        }
        // The drive is empty after this piece.
        if flight == cost {
            if core::mem::take(&mut self.full) {
                // The window stopped a piece, and now the drive has nothing to do: the driver was
                // late.
                self.late = (self.late * 2).clamp(BOUND_MIN, Cost::of(ROUND));
                self.settle(model);
            }
            if core::mem::take(&mut self.alone) && tells {
                self.add(now, piece, place);
                self.settle(model);
            }
        }
        if cost > self.largest.now {
            self.largest.add(now, cost);
            self.settle(model);
        }
    }

    /// Records a piece that was alone.
    fn add(&mut self, now: Instant, piece: &Piece, place: Locality) {
        let sample = SoloSample {
            time: now.since(piece.dispatched).as_nanos(),
            op: piece.op,
            place,
            bytes: piece.length.into(),
        };
        self.delays[usize::from(!piece.op.is_read())].add(sample);
        self.unmeasured = self.unmeasured.saturating_sub(1);
        self.measured = now;
    }

    /// Returns true if pieces waited for one another in a round, and not for clients to send
    /// requests.
    pub(crate) fn is_saturated(&self, round: Round) -> bool {
        let delay = Cost::from_nanos(self.each[usize::from(!round.reads)]);
        round.flight >= delay * GAIN + round.piece
    }

    /// Returns true if the drive works on several pieces in parallel: pieces completed at intervals
    /// of at most two thirds of the shortest time of any piece. `None` if a round does not show
    /// this, because it had too few pieces in flight or hardly any far ones.
    pub(crate) fn is_parallel(&self, round: Round) -> Option<bool> {
        let least = self.least[usize::from(!round.reads)].get()?;
        // By Little's law the interval between completions is time / depth. Both sides are
        // multiplied by the depth, and both factors are in 16ths.
        let parallel = round.time.saturating_mul(PARALLEL) <= least.saturating_mul(round.depth);
        (round.far && round.depth >= SEVERAL).then_some(parallel)
    }

    /// Adapts the window after a round of learning, because costs have changed.
    pub(crate) fn settle_round(&mut self, now: Instant, round: Round, model: &DriveCostModel) {
        if self.remote > Span::ZERO {
            self.mean = average(self.mean, round.time);
        }
        self.late -= self.late / AVERAGE_PART;
        // A round counts like a measurement, so that pieces do not wait for ever for a drive that
        // never runs empty.
        self.unmeasured = self.unmeasured.saturating_sub(1);
        if model.is_new() {
            // Costs that were assumed earlier are obsolete as long as the model changes quickly.
            self.largest = RecentMax::default();
        }
        // A sample of zero only ages the maximum.
        self.largest.add(now, Cost::ZERO);
        self.settle(model);
    }

    /// Derives the delay and the window from the measurements.
    fn settle(&mut self, model: &DriveCostModel) {
        for op in 0..2 {
            let least = self.least[op].get();
            let alone = self.delays[op].delay(model);
            // The time beyond the shortest one is not spent in a queue.
            self.each[op] = least
                .into_iter()
                .chain(alone)
                .min()
                .map_or(0, |least| least.max(self.mean.saturating_sub(least)));
        }
        self.delay = self.each[0].max(self.each[1]);
        let least = BOUND_MIN.max(Cost::of(self.remote));
        // A drive with expensive seeks orders requests better if it can choose among many.
        self.bound = if model.seek_cost() >= SEEK_CHOOSES {
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
    fn a_drive_with_pieces_that_wait_only_for_the_link_is_parallel() {
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
        // With four pieces of 4 ms in flight, one completes each ms. Two thirds of the shortest
        // time are 2 ms.
        assert_eq!(window.is_parallel(round(4_000_000, 4)), Some(true));
        // With 40 pieces of 48 ms in flight, the link completes one each 1.2 ms.
        assert_eq!(window.is_parallel(round(48_000_000, 40)), Some(true));
        // With 8 pieces of 80 ms in flight, a disk completes one each 10 ms.
        assert_eq!(window.is_parallel(round(80_000_000, 8)), Some(false));
        // A round with one piece in flight shows nothing.
        assert_eq!(window.is_parallel(round(3_000_000, 1)), None);
    }

    #[test]
    fn the_recent_minimum_covers_the_current_and_the_previous_span() {
        let mut least = RecentMin::NONE;
        let half = SECOND.as_nanos() / 2;
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
