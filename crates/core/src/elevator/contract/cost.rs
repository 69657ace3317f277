//! What a request costs the drive, learned from the drive.
//!
//! Four kinds of pieces: reads and writes, each *near* (it goes on where the piece before it ended) or *far*. A kind costs so much a
//! request and so much a byte, in nanoseconds of a busy drive. At the beginning both follow from the stated capacity; from then on
//! every round of 10 ms or more in which the drive was never idle says that what ended in it took as long as the round. The error is
//! shared out in proportion to what each part explains (normalised least mean squares; Widrow, Hoff, 1960), so requests that never
//! occur alone are told apart as soon as their mixture changes.
//!
//! A drive that does many things at once shows what it can do only when it has enough to do. So "cheaper than thought" is believed at
//! once, and "dearer" at once only if there was enough in flight that pieces waited for one another. What is believed too dear lets
//! less into the drive, never nothing, and what there is shows it to be cheaper: cost is the time from one end to the next, and so the
//! modelled cost of all that is in flight is the time until it is done (Little's law).

use crate::time::mul_div_floor;
use crate::{Capacity, Instant, Op, Span};

/// Fraction bits of nanoseconds a byte.
const SHIFT: u32 = 20;
/// Of a drive of unknown capacity: bytes a second.
const UNKNOWN: u64 = 1_000_000_000;
/// A far request is first taken to cost as much as so many bytes.
const FAR_BYTES: u64 = 32 << 10;
/// A near one as so many.
const NEAR_BYTES: u64 = 2 << 10;
/// A round lasts at least this long and has so many ends in it, or lasts this long at the most.
const ROUND: Span = Span::from_millis(10);
const ENDS: u32 = 8;
const LONGEST: Span = Span::from_millis(100);
/// In so many rounds at the beginning everything is believed.
const NEW: u32 = 12;
/// What a part can cost: 50 ns to 10 s a request; a byte up to 256 times more or less than at the beginning.
const REQUEST: core::ops::RangeInclusive<u64> = 50..=10_000_000_000;
const BYTE: u64 = 256;
/// Fraction bits of ratios.
const RATIO: u32 = 16;
const ONE: i64 = 1 << RATIO;

/// Where a piece is, as seen from the piece that went to the drive before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// It goes on where that one ended.
    Near,
    /// Somewhere else.
    Far,
}

/// What one kind of piece costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    /// Nanoseconds a request.
    request: u64,
    /// Nanoseconds a byte, with [`SHIFT`] fraction bits.
    byte: u64,
}

impl Line {
    #[inline]
    fn moved(&self, bytes: u64) -> u64 {
        match bytes.checked_mul(self.byte) {
            Some(product) => product >> SHIFT,
            None => mul_div_floor(bytes, self.byte, 1 << SHIFT),
        }
    }

    #[inline]
    fn cost(&self, bytes: u64) -> u64 {
        self.request.saturating_add(self.moved(bytes))
    }
}

/// What ended in the round, by kind.
#[derive(Clone, Copy, Debug, Default)]
struct Ended {
    requests: u64,
    bytes: u64,
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    lines: [Line; 4],
    /// Nanoseconds a byte at the beginning, of reads and of writes.
    stated: [u64; 2],
    ended: [Ended; 4],
    ends: u32,
    /// The drive has been busy for so long in this round, up to `until`.
    busy: u64,
    until: Instant,
    /// What was in flight times how long it was.
    area: u64,
    /// Something ended whose cost is not learned here.
    spoilt: bool,
    rounds: u32,
}

const fn kind(op: Op, place: Place) -> usize {
    let write = !matches!(op, Op::Read);
    (write as usize) << 1 | matches!(place, Place::Far) as usize
}

/// What a finished round was like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Round {
    /// Modelled cost in flight, on average.
    pub(super) flight: u64,
    /// Modelled cost of the average piece.
    pub(super) piece: u64,
}

impl Model {
    /// The model of a drive of which no more is known than what is stated.
    pub(super) fn new(capacity: Option<Capacity>) -> Self {
        let c = capacity.unwrap_or(Capacity {
            read: UNKNOWN,
            write: UNKNOWN,
            iops: 0,
        });
        let byte = |rate: u64| ((1_000_000_000u64 << SHIFT) / rate.max(1)).max(1);
        let line = |byte: u64, bytes: u64| Line {
            request: (bytes * byte >> SHIFT).max(*REQUEST.start()),
            byte,
        };
        let stated = [byte(c.read), byte(c.write)];
        let mut lines = [NEAR_BYTES, FAR_BYTES, NEAR_BYTES, FAR_BYTES];
        let mut kinds = [line(1, 0); 4];
        for (i, bytes) in lines.iter_mut().enumerate() {
            kinds[i] = line(stated[i / 2], *bytes);
            if let Some(request) = 1_000_000_000u64.checked_div(c.iops)
                && i % 2 == 1
            {
                kinds[i].request = request.max(*REQUEST.start());
            }
        }
        Self {
            lines: kinds,
            stated,
            ended: [Ended::default(); 4],
            ends: 0,
            busy: 0,
            until: Instant::ZERO,
            area: 0,
            spoilt: false,
            rounds: 0,
        }
    }

    /// The cost of moving `bytes` in one piece, at least one nanosecond.
    #[inline]
    pub(super) fn cost(&self, op: Op, place: Place, bytes: u64) -> u64 {
        let bytes = match op {
            Op::Read | Op::Write | Op::WriteZeroes => bytes,
            Op::Discard => 512,
            Op::Flush => 0,
        };
        self.lines[kind(op, place)].cost(bytes)
    }

    /// What it costs to go elsewhere: how much more a far piece of usual length costs than a near one.
    pub(super) fn away(&self, op: Op) -> u64 {
        const USUAL: u64 = 64 << 10;
        let [near, far] = [Place::Near, Place::Far].map(|p| self.cost(op, p, USUAL));
        far.saturating_sub(near)
    }

    /// The bytes of a piece that costs no more than `nanos`.
    pub(super) fn bytes_in(&self, op: Op, nanos: u64) -> u64 {
        let line = self.lines[kind(op, Place::Far)];
        mul_div_floor(nanos.saturating_sub(line.request), 1 << SHIFT, line.byte)
    }

    /// The bytes below which a piece costs the drive mostly what every request costs: cut smaller it is not done much sooner, and the
    /// drive does less.
    pub(super) fn efficient(&self, op: Op) -> u64 {
        let line = self.lines[kind(op, Place::Far)];
        mul_div_floor(line.request, 2 << SHIFT, line.byte)
    }

    /// A piece goes to the drive, which has nothing else.
    #[inline]
    pub(super) fn begins(&mut self, now: Instant) {
        self.until = now;
    }

    /// The drive works on something that is not to be learned from.
    pub(super) fn spoil(&mut self) {
        self.spoilt = true;
    }

    /// A piece came back of `flight` in the drive, its own cost included. Gives what the round was like if that was its last.
    #[inline]
    pub(super) fn ends(&mut self, now: Instant, op: Op, place: Place, bytes: u64, flight: u64) -> Option<Round> {
        let passed = now.since(self.until).as_nanos();
        self.until = now;
        self.busy += passed;
        self.area = self.area.saturating_add(passed.saturating_mul(flight));
        self.spoilt |= !matches!(op, Op::Read | Op::Write);
        let ended = &mut self.ended[kind(op, place)];
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
            flight: self.area / self.busy.max(1),
            piece: all / u64::from(self.ends.max(1)),
        }
    }

    /// What the model says that each part of what ended took: by kind, first the requests, then the bytes.
    fn parts(&self) -> [u64; 8] {
        let mut parts = [0; 8];
        for (i, (ended, line)) in self.ended.iter().zip(&self.lines).enumerate() {
            parts[2 * i] = ended.requests.saturating_mul(line.request).min(1 << 40);
            parts[2 * i + 1] = line.moved(ended.bytes).min(1 << 40);
        }
        parts
    }

    /// The round is over: what is learned from it, if pieces waited for one another in it (`telling`). The next one begins.
    pub(super) fn learn(&mut self, telling: bool) {
        if !core::mem::take(&mut self.spoilt) {
            self.adjust(telling);
        }
        self.ended = [Ended::default(); 4];
        (self.ends, self.busy, self.area) = (0, 0, 0);
    }

    fn adjust(&mut self, telling: bool) {
        let parts = self.parts();
        let all: u64 = parts.iter().sum::<u64>().max(1);
        let squares: u128 = parts.iter().map(|&p| u128::from(p) * u128::from(p)).sum();
        let ratio = |a: u64, b: u64| mul_div_floor(a, ONE as u64, b).min(1 << 40) as i64;
        let error = ratio(self.busy, all) - ONE;
        self.rounds = self.rounds.saturating_add(1);
        for (i, part) in parts.into_iter().enumerate().filter(|p| p.1 > 0) {
            let write = i >= 4;
            let belief = if self.rounds <= NEW || (error < 0 && !write) {
                2
            } else if error < 0 {
                8
            } else if telling {
                4
            } else {
                64
            };
            let explains = (u128::from(part) * u128::from(all) << RATIO) / squares.max(1);
            let explains = i64::try_from(explains).unwrap_or(ONE).min(8 * ONE);
            let step = i128::from(error) * i128::from(explains) / i128::from(belief * ONE);
            let factor = (i128::from(ONE) + step).clamp(i128::from(ONE / 2), i128::from(4 * ONE)) as u64;
            let line = &mut self.lines[i / 2];
            let scaled = |value: u64| mul_div_floor(value, factor, ONE as u64);
            if i % 2 == 0 {
                line.request = scaled(line.request).clamp(*REQUEST.start(), *REQUEST.end());
            } else {
                let stated = self.stated[i / 4];
                line.byte = scaled(line.byte).clamp((stated / BYTE).max(1), stated.saturating_mul(BYTE));
            }
        }
    }
}
