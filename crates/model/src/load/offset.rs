//! The offsets and lengths of requests.

use crate::load::program::{Pattern, Program, Region, Size, Zones};
use crate::load::shuffle::Shuffle;
use crate::load::skew::Skewed;
use core::num::NonZeroU64;
use std::vec;
use weir_core::Op;
use weir_core::random::Rng;

const PERCENT: NonZeroU64 = NonZeroU64::new(100).expect("not zero");

/// Chooses the offset and the length of each request.
#[derive(Clone, Debug)]
pub(crate) struct Offsets {
    region: Region,
    size: Size,
    zones: Option<Zones>,
    /// The length of a file in bytes.
    file: u64,
    /// The order of offsets in each file.
    orders: Vec<OffsetOrder>,
    /// The index of the file for the next request.
    next: usize,
}

#[derive(Clone, Debug)]
enum OffsetOrder {
    /// The offset of the next request within the file.
    Sequential(u64),
    /// A length, and the number of offsets that a request of this length can have. Both are kept
    /// until another length occurs.
    Random(u32, NonZeroU64),
    Shuffled(Shuffle),
    Skewed(Skewed),
    /// For reads and for writes: the percentage of random offsets, and the end of the last request.
    Partly([(u64, u64); 2]),
}

impl Offsets {
    /// Creates the state for a program that has been validated for `region`.
    pub(crate) fn new(program: &Program, region: Region) -> Self {
        let most = program.size.most();
        let file = region.length / u64::from(program.files);
        let places = offset_count(file, program.size, most);
        let order = match program.pattern {
            Pattern::Sequential => OffsetOrder::Sequential(0),
            Pattern::Random => OffsetOrder::Random(most, places),
            Pattern::Shuffled => OffsetOrder::Shuffled(Shuffle::new(places)),
            Pattern::Skewed(skew) => OffsetOrder::Skewed(Skewed::new(skew, places)),
            Pattern::Partly { reads, writes } => {
                OffsetOrder::Partly([reads, writes].map(|random| (random.into(), 0)))
            }
        };
        Self {
            region,
            size: program.size,
            zones: program.zones,
            file,
            orders: vec![order; program.files as usize],
            next: 0,
        }
    }

    /// Returns true if the offset depends on the operation.
    pub(crate) fn depends_on_op(&self) -> bool {
        matches!(self.orders[0], OffsetOrder::Partly(_))
    }

    /// Chooses the offset and the length of the next request, which is a read or a write.
    #[inline]
    pub(crate) fn draw(&mut self, op: Op, rng: &mut Rng) -> (u64, u32) {
        let (length, step) = match self.size {
            Size::Fixed(size) => (size, size),
            Size::Range { min, max, step } => {
                // Both bounds of the range are included. If `max` is not a multiple of `step` above
                // `min`, it does not occur.
                let steps = rng.range(0, u64::from((max - min) / step)) as u32;
                (min + steps * step, step)
            }
            Size::Split(split) => (split.at(rng.below(PERCENT)), self.size.least()),
        };
        let file = self.next;
        self.next = if file + 1 < self.orders.len() {
            file + 1
        } else {
            0
        };
        let within = match &mut self.orders[file] {
            OffsetOrder::Sequential(next) => {
                let begin = self.zones.map_or(*next, |zones| zones.fit(*next, length));
                let fits = begin + u64::from(length) <= self.file;
                // A request never crosses the end of the file.
                let within = if fits { begin } else { 0 };
                *next = within + u64::from(length);
                within
            }
            OffsetOrder::Random(of, count) => {
                // The number of offsets costs a division, and most programs have one length.
                if *of != length {
                    (*of, *count) = (length, offset_count(self.file, self.size, length));
                }
                rng.below(*count) * u64::from(step)
            }
            OffsetOrder::Shuffled(shuffle) => shuffle.next_position(rng) * u64::from(step),
            OffsetOrder::Skewed(skewed) => skewed.draw_position(rng) * u64::from(step),
            OffsetOrder::Partly(kinds) => {
                // Reads and writes have a position each, as in fio.
                let (random, next) = &mut kinds[usize::from(op == Op::Write)];
                let fits = *next + u64::from(length) <= self.file;
                let within = if rng.ratio(*random, PERCENT) {
                    rng.below(offset_count(self.file, self.size, length)) * u64::from(step)
                } else if fits {
                    *next
                } else {
                    0
                };
                *next = within + u64::from(length);
                within
            }
        };
        let start = self.region.start + file as u64 * self.file;
        (start + within, length)
    }
}

impl Offsets {
    /// The offset and length of the next request, and the number of requests of this length that
    /// fit into the rest of the file. Returns `None` if requests are not sequential or differ in
    /// length.
    #[inline]
    pub(crate) fn streak(&self) -> Option<(u64, u32, u64)> {
        // Only one file: with several, the requests of a streak would not be adjacent.
        let (Size::Fixed(length), None, [OffsetOrder::Sequential(next)]) =
            (self.size, self.zones, &self.orders[..])
        else {
            return None;
        };
        // A streak ends at the end of the file, so that the wrap is left to `draw`.
        let fit = self.file.saturating_sub(*next) / u64::from(length);
        Some((self.region.start + next, length, fit))
    }

    /// Skips `count` requests of a streak, as if they had been chosen.
    pub(crate) fn skip(&mut self, count: u64) {
        if let (Size::Fixed(length), Some(OffsetOrder::Sequential(next))) =
            (self.size, self.orders.first_mut())
        {
            *next += count * u64::from(length);
        }
    }
}

impl Zones {
    /// The offset of a request of `length` bytes that follows a request with the end `next`.
    fn fit(&self, next: u64, length: u32) -> u64 {
        let stride = self.size.saturating_add(self.skip);
        // Zones start at the beginning of the file, and each is followed by a skipped part.
        let inside = next % stride;
        if inside + u64::from(length) <= self.size {
            return next;
        }
        (next - inside).saturating_add(stride)
    }
}

/// The number of offsets that a request of `length` bytes can have in a file of `file` bytes.
fn offset_count(file: u64, size: Size, length: u32) -> NonZeroU64 {
    let step = u64::from(size.bounds().2);
    debug_assert!(u64::from(length) <= file, "the largest request fits");
    let last = (file - u64::from(length)) / step;
    // Offset zero is one of the offsets, in addition to `last` further ones.
    NonZeroU64::MIN.saturating_add(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::program::Split;
    use std::collections::BTreeSet;

    fn offsets(pattern: Pattern, size: Size, start: u64, length: u64) -> Offsets {
        let program = Program {
            pattern,
            size,
            ..Program::random_reads(1, 1)
        };
        let region = Region { start, length };
        program.validate(region).unwrap();
        Offsets::new(&program, region)
    }

    #[test]
    fn sequential_wraps_before_the_end_of_the_region() {
        let mut o = offsets(Pattern::Sequential, Size::Fixed(400), 1_000, 1_000);
        let mut rng = Rng::new(0);
        let drawn: Vec<u64> = (0..5).map(|_| o.draw(Op::Read, &mut rng).0).collect();
        assert_eq!(drawn, [1_000, 1_400, 1_000, 1_400, 1_000]);
    }

    #[test]
    fn random_reaches_every_place_and_no_other() {
        let mut rng = Rng::new(1);
        let partly = Pattern::Partly {
            reads: 50,
            writes: 0,
        };
        for pattern in [Pattern::Random, Pattern::Shuffled, Pattern::ZIPF, partly] {
            let mut o = offsets(pattern, Size::Fixed(512), 512, 512 * 9 + 511);
            let seen: BTreeSet<u64> = (0..2_000).map(|_| o.draw(Op::Read, &mut rng).0).collect();
            assert_eq!(seen, (1..=9).map(|k| k * 512).collect());
        }
    }

    #[test]
    fn shuffled_draws_each_place_once_before_any_again() {
        let mut o = offsets(Pattern::Shuffled, Size::Fixed(512), 0, 512 * 1_000);
        let mut rng = Rng::new(3);
        let mut pass = || -> Vec<u64> {
            (0..1_000)
                .map(|_| o.draw(Op::Read, &mut rng).0 / 512)
                .collect()
        };
        let (first, second) = (pass(), pass());
        for drawn in [&first, &second] {
            assert_eq!(drawn.iter().copied().collect::<BTreeSet<_>>().len(), 1_000);
        }
        assert_ne!(first, second, "another order each time");
    }

    #[test]
    fn sequential_requests_continue_where_the_last_of_their_kind_ended() {
        let pattern = Pattern::Partly {
            reads: 100,
            writes: 0,
        };
        let mut o = offsets(pattern, Size::Fixed(512), 4_096, 512 * 1_000);
        let mut rng = Rng::new(4);
        let mut drawn = |op| (o.draw(op, &mut rng).0 - 4_096) / 512;
        let both: Vec<(u64, u64)> = (0..2_000)
            .map(|_| (drawn(Op::Read), drawn(Op::Write)))
            .collect();
        assert!(both.iter().map(|b| b.1).eq((0..1_000).chain(0..1_000)));
        let on = both.windows(2).filter(|w| w[1].0 == w[0].0 + 1).count();
        assert!(on < 20, "{on} reads in sequence by chance");
        // A quarter of the reads is random, so three of four continue where the last read ended.
        let pattern = Pattern::Partly {
            reads: 25,
            writes: 100,
        };
        let mut o = offsets(pattern, Size::Fixed(512), 0, 512 * 100_000);
        let reads: Vec<u64> = (0..8_000).map(|_| o.draw(Op::Read, &mut rng).0).collect();
        let on = reads.windows(2).filter(|w| w[1] == w[0] + 512).count();
        assert!((5_800..6_200).contains(&on), "{on}");
    }

    #[test]
    fn clients_with_zones_interleave() {
        let reader = |number: u64| {
            let program = Program {
                zones: Some(Zones {
                    size: 1_024,
                    skip: 2 * 1_024,
                }),
                ..Program::sequential_reads(512, 1)
            };
            let start = number * 1_024;
            let length = 9 * 1_024 - start;
            Offsets::new(&program, Region { start, length })
        };
        let mut rng = Rng::new(0);
        let mut drawn = |mut o: Offsets| -> Vec<u64> {
            (0..7).map(|_| o.draw(Op::Read, &mut rng).0 / 512).collect()
        };
        assert_eq!(drawn(reader(0)), [0, 1, 6, 7, 12, 13, 0]);
        assert_eq!(drawn(reader(2)), [4, 5, 10, 11, 16, 17, 4]);
        // A request that does not end in its zone begins the next zone.
        let zones = Zones {
            size: 1_000,
            skip: 24,
        };
        assert_eq!(zones.fit(600, 512), 1_024);
        assert_eq!(zones.fit(488, 512), 488);
    }

    #[test]
    fn files_take_turns_and_each_continues_at_its_previous_position() {
        let program = Program {
            files: 3,
            ..Program::sequential_reads(512, 1)
        };
        let region = Region::new(100, 3 * 1_024 + 2);
        let mut o = Offsets::new(&program, region);
        let mut rng = Rng::new(0);
        let drawn: Vec<u64> = (0..7).map(|_| o.draw(Op::Read, &mut rng).0 - 100).collect();
        assert_eq!(drawn, [0, 1_024, 2_048, 512, 1_536, 2_560, 0]);
    }

    #[test]
    fn a_split_draws_each_size_as_often_as_it_says() {
        let split = Split::new(&[(512, 70), (4_096, 30)]).unwrap();
        let mut o = offsets(Pattern::Random, Size::Split(split), 0, 1 << 20);
        let mut rng = Rng::new(6);
        let drawn: Vec<(u64, u32)> = (0..10_000).map(|_| o.draw(Op::Read, &mut rng)).collect();
        assert!(drawn.iter().all(|(at, length)| at % 512 == 0
            && [512, 4_096].contains(length)
            && at + u64::from(*length) <= 1 << 20));
        let small = drawn.iter().filter(|d| d.1 == 512).count();
        assert!((6_800..7_200).contains(&small), "{small}");
    }

    #[test]
    fn ranges_of_sizes_stay_inside_and_on_their_grid() {
        let size = Size::Range {
            min: 512,
            max: 2_100,
            step: 512,
        };
        let mut rng = Rng::new(2);
        for pattern in [
            Pattern::Sequential,
            Pattern::Random,
            Pattern::Shuffled,
            Pattern::ZIPF,
        ] {
            let mut o = offsets(pattern, size, 4_096, 5_000);
            let mut lengths = BTreeSet::new();
            let mut last = 0;
            for _ in 0..3_000 {
                let (offset, length) = o.draw(Op::Read, &mut rng);
                assert!(offset >= 4_096 && offset + u64::from(length) <= 9_096);
                assert_eq!(offset % 512, 0);
                lengths.insert(length);
                last = last.max(offset + u64::from(length));
            }
            assert_eq!(lengths, [512, 1_024, 1_536, 2_048].into());
            assert_eq!(last, 4_096 + 4_608, "the last place is used");
        }
    }
}
