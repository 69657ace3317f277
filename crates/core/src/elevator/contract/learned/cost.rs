//! The cost model: the drive time that each piece takes, learned from the drive.
//!
//! Pieces are of four kinds: reads and writes, each *near* (it continues where the previous piece
//! ended) or *far*. Each kind has a cost per request, and reads and writes have a cost per byte, in
//! Pieces are of four kinds: reads and writes, each *near* (it continues where the previous piece
//! ended) or *far*. Each kind has a cost per request, and reads and writes have a cost per byte, in
//! nanoseconds of a busy drive. The initial values follow from the stated capacity. After that, the
//! model learns in rounds in which the drive was busy for at least 10 ms: all pieces that completed
//! in a round must together have cost as much as the drive was busy. The error is divided among the
//! parameters according to their parts in the prediction (normalised least mean squares: Widrow,
//! Hoff, 1960). Therefore requests that never occur alone are told apart as soon as their mixture
//! changes.
//! A drive that works on many pieces in parallel shows its speed only if it has enough work. So if
//! pieces were cheaper than predicted, the error is corrected at once. If they were more expensive,
//! it is corrected at once only if enough was in flight that pieces waited for one another. A cost
//! that is too high admits less work to the drive, but never none, and the admitted work then shows
//! the lower cost. Cost is the time between two completions, and so the modelled cost of everything
//! in flight is the time until it is completed (Little's law).
//!
//! `observe_completion` returns a [`Round`] at the end of a round, and the caller passes its
//! judgement of the round to `learn`.

use crate::elevator::contract::constants::{
    BYTE_PART, CHEAPER, DEAR, DEARER, DEARER_UNTOLD, EFFICIENT, ENDS, ERROR_MAX, FAR_BYTES, FULL,
    GRAIN, KNOWN, LONGEST, ROUND, SEEK_COSTLY, SLOWEST,
};
use crate::elevator::contract::kind::{DriveKind, PLAIN, REMOTE, SEEKING, UNSETTLED};
use crate::elevator::contract::learned::average;
use crate::elevator::contract::unit::{Bytes, Cost};
use crate::time::{mul_div_ceil, mul_div_floor};
use crate::{Capacity, Instant, Op, Span};

/// Fraction bits of nanoseconds per byte.
const SHIFT: u32 = 20;
/// Number of size classes: pieces of 4 KiB up to 8 KiB, of 8 KiB up to 16 KiB, and so on. The last
/// class has no upper limit.
const SIZES: usize = 9;
/// Fraction bits of ratios.
const RATIO: u32 = 16;
const ONE: i64 = 1 << RATIO;
/// Upper limit of a learned cost, and of one part of a prediction: 18 minutes. It keeps the squares
/// and products of parts within 128 bits.
const PART_MAX: u64 = 1 << 40;

/// The place of a piece relative to the piece that was dispatched before it.
// As wide as its neighbours in an offer, so that an offer is copied in a few words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u32)]
pub(crate) enum Locality {
    /// The piece continues where the previous one ended, or shortly after.
    Near,
    /// The piece begins anywhere else.
    #[default]
    Far,
}

/// Pieces of one kind that completed in the current round.
#[derive(Clone, Copy, Debug, Default)]
struct CompletedSum {
    requests: u64,
    bytes: u64,
}

/// The learned costs, and the measurements of the current round. Arrays of four are indexed by
/// [`kind`], and arrays of two by operation: reads, then writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DriveCostModel {
    /// Nanoseconds per request, by kind.
    requests: [u64; 4],
    /// Nanoseconds per byte with [`SHIFT`] fraction bits, by operation.
    bytes: [u64; 2],
    /// Pieces that completed in the round, by kind.
    ended: [CompletedSum; 4],
    /// Number of pieces that completed in the round.
    ends: u32,
    /// The time for which the drive has been busy in this round, up to `until`, in nanoseconds.
    busy: u64,
    until: Instant,
    /// Cost in flight, integrated over the time of the round.
    area: u64,
    /// Sum of the latencies of the pieces that completed in the round.
    times: u64,
    /// True if the drive works on several far pieces in parallel, by operation. Then a seek delays
    /// only its own piece.
    parallel: [bool; 2],
    kind: &'static DriveKind,
    /// The seek cost that follows from the parameters. It is stored because each piece needs it
    /// several times.
    away: Cost,
    /// True if something completed in the round whose cost is not learned here.
    spoilt: bool,
    /// Number of rounds that contained pieces of a kind.
    rounds: [u32; 4],
    /// Pieces that completed in the round, by operation and size class.
    sizes: [[CompletedSum; SIZES]; 2],
    /// The observed cost per byte with [`SHIFT`] fraction bits, by operation and size class. Zero
    /// if it is not known.
    each: [[u64; SIZES]; 2],
}

/// Returns the index of a kind: near reads, far reads, near writes, far writes.
const fn kind(op: Op, place: Locality) -> usize {
    let write = !op.is_read();
    (write as usize) << 1 | matches!(place, Locality::Far) as usize
}

/// The measurements of a round that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Round {
    /// Average cost in flight, as modelled.
    pub(crate) flight: Cost,
    /// Average cost of a piece, as modelled.
    pub(crate) piece: Cost,
    /// Average latency of a piece, in nanoseconds.
    pub(crate) time: u64,
    /// Average number of pieces in flight, in 16ths.
    pub(crate) depth: u64,
    /// True if at least half of the pieces were reads.
    pub(crate) reads: bool,
    /// True if more than half of the pieces were far.
    pub(crate) far: bool,
}

impl Round {
    /// Returns true if hardly any of the `tags` tags was free, so that the drive cannot have been
    /// given more work.
    pub(crate) fn fills_tags(&self, tags: u32) -> bool {
        self.depth >= FULL * u64::from(tags)
    }
}

impl DriveCostModel {
    /// Creates the model of a drive of which only the stated capacity is known. A `remote` drive
    /// never has turns.
    pub(crate) fn new(capacity: Option<Capacity>, remote: bool) -> Self {
        // A stated bandwidth is the worst case, so the drive is assumed to reach at least
        // `SLOWEST`.
        let c = capacity.unwrap_or(Capacity::NONE);
        let byte = |rate: u64| ((1_000_000_000u64 << SHIFT) / rate.max(SLOWEST)).max(1);
        let bytes = [byte(c.read), byte(c.write)];
        let request = |kind: usize| {
            let far = kind % 2 == 1;
            let moved = if far { FAR_BYTES } else { GRAIN };
            // A rate may be stated for both operations or for one of them. The larger one is used.
            let iops = c.iops.max([c.read_iops, c.write_iops][kind / 2]);
            let request = match 1_000_000_000u64.checked_div(iops) {
                Some(request) if far => request,
                _ => transfer_cost(moved, bytes[kind / 2]),
            };
            // A cost of zero would never change.
            request.max(1)
        };
        Self {
            requests: [request(0), request(1), request(2), request(3)],
            bytes,
            ended: [CompletedSum::default(); 4],
            ends: 0,
            busy: 0,
            until: Instant::ZERO,
            area: 0,
            times: 0,
            parallel: [false; 2],
            kind: if remote { &REMOTE } else { &UNSETTLED },
            away: Cost::ZERO,
            spoilt: false,
            rounds: [0; 4],
            sizes: [[CompletedSum::default(); SIZES]; 2],
            each: [[0; SIZES]; 2],
        }
    }

    /// Returns the cost of a piece of `bytes`, at least one nanosecond.
    #[inline]
    pub(crate) fn cost(&self, op: Op, place: Locality, bytes: u64) -> Cost {
        // A discard and a look-up of extents move no data, so they count as one sector. A flush is
        // charged by its duration instead.
        let bytes = match op {
            Op::Read | Op::Write | Op::WriteZeroes => bytes,
            Op::Discard | Op::Extents => 512,
            Op::Flush => 0,
        };
        let kind = kind(op, place);
        let moved = transfer_cost(bytes, self.bytes[kind / 2]);
        Cost::from_nanos(self.requests[kind].saturating_add(moved))
    }

    /// Returns the seek cost: the additional cost of a far piece compared with a near one, once it
    /// is known.
    ///
    /// Reads determine it once enough rounds had far reads. The cost of writes depends on the
    /// cache, and their place may not matter even if they are slow. If the drive works on far
    /// pieces in parallel, the seek cost is zero, because such a drive only has a long latency.
    #[inline]
    pub(crate) fn seek_cost(&self) -> Cost {
        self.away
    }

    /// Returns the kind of the drive, as far as it is known.
    #[inline]
    pub(crate) fn kind(&self) -> &'static DriveKind {
        self.kind
    }

    /// Creates the model of a drive with a known seek cost.
    #[cfg(test)]
    pub(crate) fn with_seek_cost(away: Cost) -> Self {
        Self {
            away,
            kind: &SEEKING,
            ..Self::new(None, false)
        }
    }

    /// Derives the seek cost and the kind of the drive from the parameters.
    fn settle_kind(&mut self) {
        // The kind of a remote drive is stated and not learned.
        if self.kind.varies {
            return;
        }
        self.away = self.find_seek_cost();
        self.kind = if self.away >= SEEK_COSTLY {
            &SEEKING
        } else if self.is_new() {
            &UNSETTLED
        } else {
            &PLAIN
        };
    }

    /// Returns the seek cost that follows from the parameters, or zero if too few rounds had far
    /// pieces.
    fn find_seek_cost(&self) -> Cost {
        let kind = if self.rounds[1] > KNOWN { 0 } else { 2 };
        if self.rounds[kind + 1] <= KNOWN || self.parallel[kind / 2] {
            return Cost::ZERO;
        }
        Cost::from_nanos(self.requests[kind + 1].saturating_sub(self.requests[kind]))
    }

    /// Returns true while too little is known about the drive, because too few rounds with far
    /// pieces have been learned.
    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        self.rounds[1].max(self.rounds[3]) <= KNOWN
    }

    /// Records whether the drive works on several far reads, or far writes, in parallel.
    pub(crate) fn set_parallel(&mut self, reads: bool, parallel: bool) {
        self.parallel[usize::from(!reads)] = parallel;
        self.settle_kind();
    }

    /// Returns the size of a far piece that costs `cost`, in bytes. Zero if even an empty piece
    /// costs more.
    pub(crate) fn bytes_in(&self, op: Op, cost: Cost) -> u64 {
        let kind = kind(op, Locality::Far);
        let left = cost.as_nanos().saturating_sub(self.requests[kind]);
        mul_div_floor(left, 1 << SHIFT, self.bytes[kind / 2])
    }

    /// Returns the size in bytes of a piece whose transfer costs [`EFFICIENT`] times as much as its
    /// request, within limits. A smaller piece would not complete much sooner, and the drive would
    /// lose throughput.
    pub(crate) fn efficient(&self, op: Op) -> u64 {
        let kind = kind(op, Locality::Far);
        mul_div_floor(
            self.requests[kind],
            EFFICIENT << SHIFT,
            self.bytes[kind / 2],
        )
        .min(FAR_BYTES)
    }

    /// Returns the smallest size of at least `bytes` that is not known to be inefficient. Smaller
    /// pieces would reduce the throughput of the drive.
    pub(crate) fn worthwhile(&self, op: Op, bytes: u64) -> u64 {
        let each = &self.each[usize::from(!op.is_read())];
        let first = size(bytes);
        let too_small = |class: usize| {
            let larger = each[class + 1..].iter().filter(|&&cost| cost > 0).min();
            larger.is_some_and(|&best| each[class] > best + best / DEAR)
        };
        match (first..SIZES).find(|&class| !too_small(class)) {
            Some(class) if class > first => GRAIN << class,
            _ => bytes,
        }
    }

    /// Begins a busy period: a piece is dispatched to an idle drive.
    #[inline]
    pub(crate) fn begin_busy(&mut self, now: Instant) {
        self.until = now;
    }

    /// Excludes the current round from learning, because the drive works on something that has no
    /// cost in this model.
    pub(crate) fn spoil_round(&mut self) {
        self.spoilt = true;
    }

    /// Accounts for a completed piece. `flight` is the cost in flight, including this piece.
    /// Returns the measurements of the round if this piece ends it.
    #[inline]
    pub(crate) fn observe_completion(
        &mut self,
        now: Instant,
        op: Op,
        place: Locality,
        bytes: Bytes,
        time: Span,
        flight: Cost,
    ) -> Option<Round> {
        let passed = now.since(self.until).as_nanos();
        self.until = now;
        self.busy += passed;
        self.area = self
            .area
            .saturating_add(passed.saturating_mul(flight.as_nanos()));
        self.times = self.times.saturating_add(time.as_nanos());
        self.spoilt |= !matches!(op, Op::Read | Op::Write);
        let bytes = bytes.0;
        let ended = &mut self.ended[kind(op, place)];
        ended.requests += 1;
        ended.bytes += bytes;
        let ended = &mut self.sizes[usize::from(!op.is_read())][size(bytes)];
        ended.requests += 1;
        ended.bytes += bytes;
        self.ends += 1;
        // A slow drive ends a round with fewer pieces, so that learning does not stop.
        let enough = self.ends >= ENDS || self.busy >= LONGEST.as_nanos();
        if self.busy < ROUND.as_nanos() || !enough {
            return None;
        }
        Some(self.close())
    }

    /// Returns the measurements of the round that ends now.
    #[inline(never)]
    fn close(&self) -> Round {
        let parts = self.parts();
        let all: u64 = parts.iter().sum();
        Round {
            flight: Cost::from_nanos(self.area / self.busy.max(1)),
            piece: Cost::from_nanos(all / u64::from(self.ends.max(1))),
            time: self.times / u64::from(self.ends.max(1)),
            depth: self.times.saturating_mul(16) / self.busy.max(1),
            far: 2 * (self.ended[1].requests + self.ended[3].requests) > u64::from(self.ends),
            reads: 2 * (self.ended[0].requests + self.ended[1].requests) >= u64::from(self.ends),
        }
    }

    /// Returns the prediction for the round in six parts: the cost of requests by kind, and the
    /// cost of bytes by operation.
    fn parts(&self) -> [u64; 6] {
        let mut parts = [0; 6];
        for (kind, ended) in self.ended.iter().enumerate() {
            let requests = ended.requests.saturating_mul(self.requests[kind]);
            parts[kind] = requests.min(PART_MAX);
            parts[4 + kind / 2] += transfer_cost(ended.bytes, self.bytes[kind / 2]).min(PART_MAX);
        }
        parts
    }

    /// Learns from the round that has ended, and begins the next one. `telling` is true if pieces
    /// waited for one another in the round.
    pub(crate) fn learn(&mut self, telling: bool) {
        if !core::mem::take(&mut self.spoilt) {
            self.adjust(telling);
            if telling {
                self.weigh_sizes();
            }
        }
        self.ended = [CompletedSum::default(); 4];
        self.sizes = [[CompletedSum::default(); SIZES]; 2];
        (self.ends, self.busy, self.area, self.times) = (0, 0, 0, 0);
    }

    /// Updates the cost per byte of the size class that had at least half of the work in the round,
    /// if there is one.
    fn weigh_sizes(&mut self) {
        let modelled = |op: usize, ended: &CompletedSum| {
            let requests = ended.requests.saturating_mul(self.requests[2 * op + 1]);
            requests.saturating_add(transfer_cost(ended.bytes, self.bytes[op]))
        };
        let all: u64 = (0..2)
            .flat_map(|op| self.sizes[op].iter().map(move |ended| modelled(op, ended)))
            .sum();
        for op in 0..2 {
            for class in 0..SIZES {
                let ended = self.sizes[op][class];
                // The round shows the cost of the class that most of its time was for.
                let part = modelled(op, &ended);
                if ended.bytes == 0 || 2 * part < all {
                    continue;
                }
                let took = mul_div_floor(self.busy, part, all.max(1));
                let cost = mul_div_floor(took, 1 << SHIFT, ended.bytes).max(1);
                let each = &mut self.each[op][class];
                *each = average(*each, cost);
            }
        }
    }

    /// Corrects the parameters by the error of the round.
    fn adjust(&mut self, telling: bool) {
        let parts = self.parts();
        let all: u64 = parts.iter().sum::<u64>().max(1);
        let squares: u128 = parts.iter().map(|&p| u128::from(p) * u128::from(p)).sum();
        // The error is relative to the prediction: positive if the pieces were more expensive than
        // predicted. A single round, such as one with a hiccup of the drive, must not change a cost
        // by orders of magnitude.
        let took = mul_div_floor(self.busy, ONE as u64, all).min(PART_MAX);
        let error = (took.cast_signed() - ONE).min(ERROR_MAX * ONE);
        for (i, part) in parts.into_iter().enumerate().filter(|p| p.1 > 0) {
            // Least mean squares: the error is divided in proportion to each part's own size. The
            // factor all / squares makes the corrected prediction match if all of the error is
            // corrected. With six parts it is at most 1.72, for any of them.
            let explains = ((u128::from(part) * u128::from(all)) << RATIO) / squares.max(1);
            let belief = self.belief(i, error, telling);
            let step = i128::from(error) * explains.cast_signed() * i128::from(belief);
            let factor = i128::from(ONE) + (step >> (2 * RATIO));
            // Rounding up keeps costs above zero, so that they can grow again.
            let scaled = |value: u64| mul_div_ceil(value, factor as u64, ONE as u64).min(PART_MAX);
            if let Some(byte) = i.checked_sub(4) {
                self.bytes[byte] = scaled(self.bytes[byte]);
            } else {
                self.requests[i] = scaled(self.requests[i]);
                self.rounds[i] = self.rounds[i].saturating_add(1);
            }
        }
        self.settle_kind();
    }

    /// Returns the part of the error that is corrected in one of the six parameters.
    fn belief(&self, part: usize, error: i64, telling: bool) -> i64 {
        // The bytes of an operation go by the number of rounds of its far kind.
        let (kind, byte) = match part.checked_sub(4) {
            Some(byte) => (2 * byte + 1, true),
            None => (part, false),
        };
        let (is_new, is_read, is_cheaper) = (self.rounds[kind] <= KNOWN, kind < 2, error < 0);
        let divisor = if is_new || is_read && is_cheaper {
            CHEAPER
        } else if is_cheaper || telling {
            DEARER
        } else {
            DEARER_UNTOLD
        };
        ONE / if byte { BYTE_PART * divisor } else { divisor }
    }
}

/// Returns the size class of a piece.
#[inline]
fn size(bytes: u64) -> usize {
    ((bytes / GRAIN).max(1).ilog2() as usize).min(SIZES - 1)
}

/// Returns the cost of moving `bytes`, at `byte` nanoseconds for each with [`SHIFT`] fraction bits.
#[inline]
fn transfer_cost(bytes: u64, byte: u64) -> u64 {
    match bytes.checked_mul(byte) {
        Some(product) => product >> SHIFT,
        // The quotient fits into 64 bits even if the product does not.
        None => mul_div_floor(bytes, byte, 1 << SHIFT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Span = Span::from_millis(1);
    const FLIGHT: Cost = Cost::from_nanos(1_000_000);

    /// Plays pieces on a drive that takes 1 ms for each write, regardless of its size.
    fn rounds(model: &mut DriveCostModel, bytes: &[u64], count: u64) {
        let mut now = Instant::ZERO;
        model.begin_busy(now);
        for n in 0..count {
            now += Span::from_millis(1);
            let bytes = bytes[n as usize % bytes.len()];
            let ended =
                model.observe_completion(now, Op::Write, Locality::Far, Bytes(bytes), TIME, FLIGHT);
            if ended.is_some() {
                model.learn(true);
            }
        }
    }

    #[test]
    fn a_size_with_costlier_bytes_than_larger_sizes_is_too_small() {
        let mut model = DriveCostModel::new(None, false);
        rounds(&mut model, &[4096], 100);
        assert_eq!(
            model.worthwhile(Op::Write, 4096),
            4096,
            "nothing is known of larger ones"
        );
        rounds(&mut model, &[16_384], 100);
        assert_eq!(
            model.worthwhile(Op::Write, 4096),
            8192,
            "which is not known to be too small"
        );
        assert_eq!(model.worthwhile(Op::Read, 4096), 4096);
    }

    #[test]
    fn a_round_is_a_sample_of_its_most_frequent_size() {
        let mut model = DriveCostModel::new(None, false);
        rounds(&mut model, &[4096, 65_536, 65_536, 65_536], 10);
        let each = model.each[1];
        assert!(each[size(65_536)] > 0);
        assert_eq!(each[size(4096)], 0);
    }

    #[test]
    fn sizes_have_classes() {
        // The classes begin at 4, 8, 16 KiB and so on. Smaller pieces belong to the first class,
        // and all large ones to the last.
        let classes = [1, GRAIN, 2 * GRAIN - 1, 2 * GRAIN, 1 << 40].map(size);
        assert_eq!(classes, [0, 0, 0, 1, SIZES - 1]);
    }

    #[test]
    fn transfer_costs_are_exact_beyond_64_bits() {
        assert_eq!(transfer_cost(3, 1 << SHIFT), 3);
        assert_eq!(transfer_cost(3 << 40, 1 << 30), 3 << (70 - SHIFT));
    }
}
