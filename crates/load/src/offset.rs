//! Where requests are, and how long.

use crate::program::{Pattern, Program, Region, Size};
use crate::rng::Rng;
use crate::shuffle::Shuffle;
use crate::zipf::Zipf;
use core::num::NonZeroU64;

/// Draws the offset and the length of each request.
#[derive(Clone, Debug)]
pub(crate) struct Offsets {
    region: Region,
    size: Size,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    /// The offset of the next request within the region.
    Sequential(u64),
    /// A length drawn before, and the places that a request of this length has.
    Random(u32, NonZeroU64),
    Shuffled(Shuffle),
    Zipf(Zipf),
}

impl Offsets {
    /// `program` has been validated for `region`.
    pub(crate) fn new(program: &Program, region: Region) -> Self {
        let most = program.size.bounds().1;
        let places = places(region, program.size, most);
        let place = match program.pattern {
            Pattern::Sequential => Place::Sequential(0),
            Pattern::Random => Place::Random(most, places),
            Pattern::Shuffled => Place::Shuffled(Shuffle::new(places)),
            Pattern::Zipf => Place::Zipf(Zipf::new(places)),
        };
        Self {
            region,
            size: program.size,
            place,
        }
    }

    /// The offset and the length of the next request.
    #[inline]
    pub(crate) fn draw(&mut self, rng: &mut Rng) -> (u64, u32) {
        let (length, step) = match self.size {
            Size::Fixed(size) => (size, size),
            Size::Range { min, max, step } => {
                let steps = rng.range(0, u64::from((max - min) / step)) as u32;
                (min + steps * step, step)
            }
        };
        let within = match &mut self.place {
            Place::Sequential(next) => {
                let fits = *next + u64::from(length) <= self.region.length;
                let within = if fits { *next } else { 0 };
                *next = within + u64::from(length);
                within
            }
            Place::Random(of, count) => {
                if *of != length {
                    (*of, *count) = (length, places(self.region, self.size, length));
                }
                rng.below(*count) * u64::from(step)
            }
            Place::Shuffled(shuffle) => shuffle.place(rng) * u64::from(step),
            Place::Zipf(zipf) => zipf.place(rng) * u64::from(step),
        };
        (self.region.start + within, length)
    }
}

/// How many offsets a request of `length` can have.
fn places(region: Region, size: Size, length: u32) -> NonZeroU64 {
    let step = u64::from(size.bounds().2);
    let last = (region.length - u64::from(length)) / step;
    NonZeroU64::MIN.saturating_add(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

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
        let drawn: Vec<u64> = (0..5).map(|_| o.draw(&mut rng).0).collect();
        assert_eq!(drawn, [1_000, 1_400, 1_000, 1_400, 1_000]);
    }

    #[test]
    fn random_reaches_every_place_and_no_other() {
        let mut rng = Rng::new(1);
        for pattern in [Pattern::Random, Pattern::Shuffled, Pattern::Zipf] {
            let mut o = offsets(pattern, Size::Fixed(512), 512, 512 * 9 + 511);
            let seen: BTreeSet<u64> = (0..2_000).map(|_| o.draw(&mut rng).0).collect();
            assert_eq!(seen, (1..=9).map(|k| k * 512).collect());
        }
    }

    #[test]
    fn shuffled_draws_each_place_once_before_any_again() {
        let mut o = offsets(Pattern::Shuffled, Size::Fixed(512), 0, 512 * 1_000);
        let mut rng = Rng::new(3);
        let mut pass = || -> Vec<u64> { (0..1_000).map(|_| o.draw(&mut rng).0 / 512).collect() };
        let (first, second) = (pass(), pass());
        for drawn in [&first, &second] {
            assert_eq!(drawn.iter().copied().collect::<BTreeSet<_>>().len(), 1_000);
        }
        assert_ne!(first, second, "another order each time");
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
            Pattern::Zipf,
        ] {
            let mut o = offsets(pattern, size, 4_096, 5_000);
            let mut lengths = BTreeSet::new();
            let mut last = 0;
            for _ in 0..3_000 {
                let (offset, length) = o.draw(&mut rng);
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
