//! What a request costs the drive, learned from the drive.
//!
//! Four kinds of pieces: reads and writes, each *near* (it goes on where the piece before it ended) or *far*. A kind has a cost for each
//! request, and reads and writes one for each byte, in nanoseconds of a busy drive. At the beginning all follows from the stated
//! capacity; from then on every round of 10 ms or more in which the drive was never idle says that what ended in it took as long as the round. The error is
//! shared out in proportion to what each part explains (normalised least mean squares; Widrow, Hoff, 1960), so requests that never
//! occur alone are told apart as soon as their mixture changes.
//!
//! A drive that does many things at once shows what it can do only when it has enough to do. So "cheaper than thought" is believed at
//! once, and "dearer" at once only if there was enough in flight that pieces waited for one another. What is believed too dear lets
//! less into the drive, never nothing, and what there is shows it to be cheaper: cost is the time from one end to the next, and so the
//! modelled cost of all that is in flight is the time until it is done (Little's law).

use crate::elevator::contract::constants::{
    BYTE, BYTE_PART, CHEAPER, CHEAPER_WRITE, DEAR, DEARER, DEARER_UNTOLD, EFFICIENT, ENDS,
    EXPLAINS_MAX, FAR_BYTES, FULL, GRAIN, GROWTH_MAX, LONGEST, NEAR_PART, NEW, PIECE, REQUEST_MAX,
    REQUEST_MIN, ROUND, SEEK_COSTLY, SHRINK_MAX, SIZE_PART, SLOWEST, TELLS, UNKNOWN,
};
use crate::elevator::contract::kind::{DriveKind, PLAIN, REMOTE, SEEKING, UNSETTLED};
use crate::elevator::contract::unit::{Bytes, Cost};
use crate::time::mul_div_floor;
use crate::{Capacity, Instant, Op, Span};

/// Fraction bits of nanoseconds a byte.
const SHIFT: u32 = 20;
/// Pieces of one to two times 4 KiB, two to four times, and so on.
const SIZES: usize = 9;
/// Fraction bits of ratios.
const RATIO: u32 = 16;
const ONE: i64 = 1 << RATIO;

/// Where a piece is, as seen from the piece that went to the drive before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Place {
    /// It goes on where that one ended.
    Near,
    /// Somewhere else.
    #[default]
    Far,
}

/// What ended in the round, by kind.
#[derive(Clone, Copy, Debug, Default)]
struct Ended {
    requests: u64,
    bytes: u64,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    /// Nanoseconds a request, by kind.
    requests: [u64; 4],
    /// Nanoseconds a byte with [`SHIFT`] fraction bits, of reads and of writes; and the same at the beginning.
    bytes: [u64; 2],
    stated: [u64; 2],
    ended: [Ended; 4],
    ends: u32,
    /// How long the drive has been busy in this round, up to `until`.
    busy: u64,
    until: Instant,
    /// What was in flight times how long it was.
    area: u64,
    /// How long the pieces that ended were in the drive, in all.
    times: u64,
    /// The drive does many things at once as fast as one, going elsewhere included: reads, and writes.
    parallel: [bool; 2],
    kind: &'static DriveKind,
    /// What follows for what it costs to go elsewhere: asked several times for each piece.
    away: Cost,
    /// Something ended whose cost is not learned here.
    spoilt: bool,
    /// Rounds in which there was something of a kind.
    rounds: [u32; 4],
    /// What ended by operation and size, and what a byte of a piece of that size costs, as seen; zero: not seen.
    sizes: [[Ended; SIZES]; 2],
    each: [[u64; SIZES]; 2],
}

const fn kind(op: Op, place: Place) -> usize {
    let write = !op.is_read();
    (write as usize) << 1 | matches!(place, Place::Far) as usize
}

/// What a finished round was like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Round {
    /// Modelled cost in flight, on average.
    pub(crate) flight: Cost,
    /// Modelled cost of the average piece.
    pub(crate) piece: Cost,
    /// How long the average piece was in the drive.
    pub(crate) time: u64,
    /// Pieces that were there on average, in 16ths.
    pub(crate) depth: u64,
    /// Most of them were reads.
    pub(crate) reads: bool,
    /// Most of them were somewhere else than the one before.
    pub(crate) far: bool,
}

impl Round {
    /// Hardly a tag was free: the drive cannot have been given more to do.
    pub(crate) fn fills_tags(&self, tags: u32) -> bool {
        self.depth >= FULL * u64::from(tags)
    }
}

impl Model {
    /// The model of a drive of which no more is known than what is stated. A `remote` one never has turns.
    pub(crate) fn new(capacity: Option<Capacity>, remote: bool) -> Self {
        let c = capacity.unwrap_or(Capacity::NONE.read(UNKNOWN).write(UNKNOWN));
        let byte = |rate: u64| ((1_000_000_000u64 << SHIFT) / rate.max(SLOWEST)).max(1);
        let stated = [byte(c.read), byte(c.write)];
        let request = |kind: usize| {
            let far = kind % 2 == 1;
            let bytes = if far {
                FAR_BYTES
            } else {
                FAR_BYTES / NEAR_PART
            };
            let iops = c.iops.max([c.read_iops, c.write_iops][kind / 2]);
            let request = match 1_000_000_000u64.checked_div(iops) {
                Some(request) if far => request,
                _ => moved(bytes, stated[kind / 2]),
            };
            request.max(REQUEST_MIN)
        };
        Self {
            requests: [request(0), request(1), request(2), request(3)],
            bytes: stated,
            stated,
            ended: [Ended::default(); 4],
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
            sizes: [[Ended::default(); SIZES]; 2],
            each: [[0; SIZES]; 2],
        }
    }

    /// The cost of moving `bytes` in one piece, at least one nanosecond.
    #[inline]
    pub(crate) fn cost(&self, op: Op, place: Place, bytes: u64) -> Cost {
        let bytes = match op {
            Op::Read | Op::Write | Op::WriteZeroes => bytes,
            Op::Discard | Op::Extents => 512,
            Op::Flush => 0,
        };
        let kind = kind(op, place);
        let moved = moved(bytes, self.bytes[kind / 2]);
        Cost::from_nanos(self.requests[kind].saturating_add(moved))
    }

    /// What it costs to go elsewhere: how much more a far piece costs than a near one, once that is known. Reads tell, if there have
    /// been some: what writes cost is the cache's doing, and where they are may not matter even if they are slow. A drive that goes
    /// to two places in the time in which it goes to one is only slow to answer.
    #[inline]
    pub(crate) fn seek_cost(&self) -> Cost {
        self.away
    }

    /// The kind of the drive, as far as it is known.
    #[inline]
    pub(crate) fn kind(&self) -> &'static DriveKind {
        self.kind
    }

    /// A drive on which going elsewhere costs `away`.
    #[cfg(test)]
    pub(crate) fn with_seek_cost(away: Cost) -> Self {
        Self {
            away,
            kind: &SEEKING,
            ..Self::new(None, false)
        }
    }

    /// What was learned may have shown another seek cost, and with it another kind.
    fn settle_kind(&mut self) {
        if self.kind.varies {
            return;
        }
        self.away = self.find_seek_cost();
        self.kind = if self.away >= SEEK_COSTLY {
            &SEEKING
        } else if self.is_settled() {
            &PLAIN
        } else {
            &UNSETTLED
        };
    }

    fn find_seek_cost(&self) -> Cost {
        let kind = if self.rounds[1] > TELLS { 0 } else { 2 };
        if self.rounds[kind + 1] <= TELLS || self.parallel[kind / 2] {
            return Cost::ZERO;
        }
        Cost::from_nanos(self.requests[kind + 1].saturating_sub(self.requests[kind]))
    }

    /// True once enough has been seen of far pieces.
    pub(crate) fn is_settled(&self) -> bool {
        self.rounds[1].max(self.rounds[3]) > NEW
    }

    /// True while next to nothing is known.
    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        self.rounds[1].max(self.rounds[3]) <= TELLS
    }

    /// It was seen whether the drive goes to many places at once, to read or to write.
    pub(crate) fn set_parallel(&mut self, reads: bool, parallel: bool) {
        self.parallel[usize::from(!reads)] = parallel;
        self.settle_kind();
    }

    /// The bytes of a piece that costs no more than `cost`.
    pub(crate) fn bytes_in(&self, op: Op, cost: Cost) -> u64 {
        let kind = kind(op, Place::Far);
        let left = cost.as_nanos().saturating_sub(self.requests[kind]);
        mul_div_floor(left, 1 << SHIFT, self.bytes[kind / 2])
    }

    /// The bytes below which a piece costs the drive mostly what every request costs: cut smaller it is not done much sooner, and the
    /// drive does less.
    pub(crate) fn efficient(&self, op: Op) -> u64 {
        let kind = kind(op, Place::Far);
        mul_div_floor(
            self.requests[kind],
            EFFICIENT << SHIFT,
            self.bytes[kind / 2],
        )
        .clamp(PIECE, FAR_BYTES)
    }

    /// The least bytes of a piece, `bytes` or more, that is not known to be too small: the drive would do less if it were cut so.
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

    /// A piece goes to the drive, which has nothing else.
    #[inline]
    pub(crate) fn begin_busy(&mut self, now: Instant) {
        self.until = now;
    }

    /// The drive works on something that is not to be learned from.
    pub(crate) fn spoil_round(&mut self) {
        self.spoilt = true;
    }

    /// A piece came back of `flight` in the drive, its own cost included. Gives what the round was like if that was its last.
    #[inline]
    pub(crate) fn observe_completion(
        &mut self,
        now: Instant,
        op: Op,
        place: Place,
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
        let enough = self.ends >= ENDS || self.busy >= LONGEST.as_nanos();
        if self.busy < ROUND.as_nanos() || !enough {
            return None;
        }
        Some(self.close())
    }

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

    /// What the model says that each part of what ended took: requests by kind, then the bytes read and written.
    fn parts(&self) -> [u64; 6] {
        let mut parts = [0; 6];
        for (kind, ended) in self.ended.iter().enumerate() {
            parts[kind] = ended
                .requests
                .saturating_mul(self.requests[kind])
                .min(1 << 40);
            parts[4 + kind / 2] += moved(ended.bytes, self.bytes[kind / 2]).min(1 << 40);
        }
        parts
    }

    /// The round is over: what is learned from it, if pieces waited for one another in it (`telling`). The next one begins.
    pub(crate) fn learn(&mut self, telling: bool) {
        if !core::mem::take(&mut self.spoilt) {
            self.adjust(telling);
            if telling {
                self.weigh_sizes();
            }
        }
        self.ended = [Ended::default(); 4];
        self.sizes = [[Ended::default(); SIZES]; 2];
        (self.ends, self.busy, self.area, self.times) = (0, 0, 0, 0);
    }

    /// The size of which most was done in the round took its part of it.
    fn weigh_sizes(&mut self) {
        let modelled = |op: usize, ended: &Ended| {
            let requests = ended.requests.saturating_mul(self.requests[2 * op + 1]);
            requests.saturating_add(moved(ended.bytes, self.bytes[op]))
        };
        let all: u64 = (0..2)
            .flat_map(|op| self.sizes[op].iter().map(move |ended| modelled(op, ended)))
            .sum();
        for op in 0..2 {
            for class in 0..SIZES {
                let ended = self.sizes[op][class];
                let part = modelled(op, &ended);
                if ended.bytes == 0 || 2 * part < all {
                    continue;
                }
                let took = mul_div_floor(self.busy, part, all.max(1));
                let cost = mul_div_floor(took, 1 << SHIFT, ended.bytes).max(1);
                let each = &mut self.each[op][class];
                *each = if *each == 0 {
                    cost
                } else {
                    *each - *each / SIZE_PART + cost / SIZE_PART
                };
            }
        }
    }

    fn adjust(&mut self, telling: bool) {
        let parts = self.parts();
        let all: u64 = parts.iter().sum::<u64>().max(1);
        let squares: u128 = parts.iter().map(|&p| u128::from(p) * u128::from(p)).sum();
        let ratio = |a: u64, b: u64| mul_div_floor(a, ONE as u64, b).min(1 << 40).cast_signed();
        let error = ratio(self.busy, all) - ONE;
        for (i, part) in parts.into_iter().enumerate().filter(|p| p.1 > 0) {
            let explains = ((u128::from(part) * u128::from(all)) << RATIO) / squares.max(1);
            let explains = i64::try_from(explains)
                .unwrap_or(ONE)
                .min(EXPLAINS_MAX * ONE);
            let belief = self.belief(i, error, telling);
            let step = i128::from(error) * i128::from(explains) * i128::from(belief);
            let step = step >> (2 * RATIO);
            let (least, most) = (ONE / SHRINK_MAX, GROWTH_MAX * ONE);
            let factor = (i128::from(ONE) + step).clamp(least.into(), most.into());
            let scaled = |value: u64| mul_div_floor(value, factor as u64, ONE as u64);
            if let Some(byte) = i.checked_sub(4) {
                let stated = self.stated[byte];
                let range = (stated / BYTE).max(1)..=stated.saturating_mul(BYTE);
                self.bytes[byte] = scaled(self.bytes[byte]).clamp(*range.start(), *range.end());
            } else {
                self.requests[i] = scaled(self.requests[i]).clamp(REQUEST_MIN, REQUEST_MAX);
                self.rounds[i] = self.rounds[i].saturating_add(1);
            }
        }
        self.settle_kind();
    }

    /// How much of the error is corrected in a part.
    fn belief(&self, part: usize, error: i64, telling: bool) -> i64 {
        let (kind, byte) = match part.checked_sub(4) {
            Some(byte) => (2 * byte + 1, true),
            None => (part, false),
        };
        let divisor = if self.rounds[kind] <= NEW {
            CHEAPER
        } else if error < 0 {
            if kind >= 2 { CHEAPER_WRITE } else { CHEAPER }
        } else if telling {
            DEARER
        } else {
            DEARER_UNTOLD
        };
        ONE / if byte { BYTE_PART * divisor } else { divisor }
    }
}

/// The class of a piece's size.
#[inline]
fn size(bytes: u64) -> usize {
    ((bytes / GRAIN).max(1).ilog2() as usize).min(SIZES - 1)
}

/// What moving `bytes` bytes costs at `byte` for each.
#[inline]
fn moved(bytes: u64, byte: u64) -> u64 {
    match bytes.checked_mul(byte) {
        Some(product) => product >> SHIFT,
        None => mul_div_floor(bytes, byte, 1 << SHIFT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Span = Span::from_millis(1);
    const FLIGHT: Cost = Cost::from_nanos(1_000_000);

    /// Rounds of a drive that takes a millisecond for each write, whatever its size.
    fn rounds(model: &mut Model, bytes: &[u64], count: u64) {
        let mut now = Instant::ZERO;
        model.begin_busy(now);
        for n in 0..count {
            now += Span::from_millis(1);
            let bytes = bytes[n as usize % bytes.len()];
            let ended =
                model.observe_completion(now, Op::Write, Place::Far, Bytes(bytes), TIME, FLIGHT);
            if ended.is_some() {
                model.learn(true);
            }
        }
    }

    #[test]
    fn a_size_whose_bytes_cost_more_than_those_of_larger_ones_is_too_small() {
        let mut model = Model::new(None, false);
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
    fn a_round_tells_of_the_size_that_most_of_it_was_for() {
        let mut model = Model::new(None, false);
        rounds(&mut model, &[4096, 65_536, 65_536, 65_536], 10);
        let each = model.each[1];
        assert!(each[size(65_536)] > 0);
        assert_eq!(each[size(4096)], 0);
    }

    #[test]
    fn sizes_have_classes() {
        let classes = [1, GRAIN, 2 * GRAIN - 1, 2 * GRAIN, 1 << 40].map(size);
        assert_eq!(classes, [0, 0, 0, 1, SIZES - 1]);
    }

    #[test]
    fn what_moving_costs_is_exact_beyond_64_bits() {
        assert_eq!(moved(3, 1 << SHIFT), 3);
        assert_eq!(moved(3 << 40, 1 << 30), 3 << (70 - SHIFT));
    }
}
