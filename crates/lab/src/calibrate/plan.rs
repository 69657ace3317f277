//! Which step comes next, and how long it may take.

use crate::calibrate::calibration::{Calibration, Target};
use crate::calibrate::found::Found;
use crate::calibrate::load::{Area, Load};
use crate::calibrate::stamp::BLOCK;
use weir_core::Span;

/// The names of steps that figures are taken from.
pub mod step {
    /// Reads of 128 KiB one behind the other, from the beginning of the drive.
    pub const READ: &str = "read-sequential";
    /// The same at the end of the drive.
    pub const READ_END: &str = "read-sequential-end";
    /// Reads of 4 KiB at random places, as many in flight as are permitted.
    pub const READ_RANDOM: &str = "read-random";
    /// The same, one at a time.
    pub const READ_ONE: &str = "read-random-depth-1";
    /// Reads of 4 KiB one behind the other.
    pub const READ_SHORT: &str = "read-sequential-4KiB";
    /// Reads of 128 KiB one behind the other, one at a time.
    pub const READER: &str = "read-sequential-depth-1";
    /// Reads of 4 KiB at random places, nine tenths as many a second as the drive does.
    pub const READ_PACED: &str = "read-random-at-90-percent";
    /// Writes of 128 KiB one behind the other, from the beginning of the drive.
    pub const WRITE: &str = "write-sequential";
    /// The same at the end of the drive, after random writes.
    pub const WRITE_END: &str = "write-sequential-end";
    /// Writes of 4 KiB at random places.
    pub const WRITE_RANDOM: &str = "write-random";
    /// The same, one at a time.
    pub const WRITE_ONE: &str = "write-random-depth-1";
    /// Writes of 4 KiB one behind the other.
    pub const WRITE_SHORT: &str = "write-sequential-4KiB";
    /// Writes of 4 KiB at random places, nine tenths as many a second as the drive does.
    pub const WRITE_PACED: &str = "write-random-at-90-percent";
    /// Seven reads of 4 KiB to three writes, at random places.
    pub const MIXED: &str = "mixed-random";
}

/// The length of a long request, and of a short one.
const LONG: u32 = 128 << 10;
const SHORT: u32 = BLOCK as u32;

/// Bytes in flight at most: more would only wait in queues, which must be empty before the next step.
const FLYING: u32 = 4 << 20;

/// The weight of steps that take all their time.
const LONG_STEP: u32 = 3;

/// The depths between one request at a time and as many as are permitted.
const DEPTHS: [u32; 7] = [2, 4, 8, 16, 32, 64, 128];

/// Bytes that must have been written before anything is read of a sparse target.
const ENOUGH: u64 = 4 << 20;

/// A part of a calibration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Its name in results.
    pub name: String,
    /// Its requests.
    pub load: Load,
    /// Where.
    pub area: Area,
    /// Its part of the time, beside other steps.
    pub weight: u32,
    /// It ends as soon as its figure is sure. A capacity's does not: a drive may change after a while.
    pub early: bool,
    /// It ends with a flush, so that the next step does not wait for what it left in the drive's buffer.
    pub flush: bool,
}

/// Where a step's requests go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    All,
    /// The last sixteenth.
    End,
}

/// A step whose place and rate are not known before its turn.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Draft {
    name: String,
    load: Load,
    place: Place,
    weight: u32,
    /// Nine tenths of the rate of this step.
    pace: Option<&'static str>,
}

/// The steps of a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    target: Target,
    drafts: Vec<Draft>,
}

impl Plan {
    /// Every step that can be carried out on the target, the most important first.
    pub fn new(target: &Target) -> Self {
        let deep = target.depth.max(1);
        let (fill, mut drafts) = (writes_in_sequence(deep), reads(deep, target.rotational));
        if target.write {
            // What is read must have been written.
            let at = if target.sparse { 0 } else { drafts.len() };
            drafts.insert(at, fill);
            drafts.extend(writes(deep));
        }
        Self {
            target: target.clone(),
            drafts,
        }
    }

    /// The next step, and how long it may take of the time that is left. `None` when nothing is left to be found.
    pub fn next(&self, known: &Calibration, left: Span) -> Option<(Step, Span)> {
        let open = self.open(known);
        let (first, step) = open.first()?;
        let weights: u64 = open.iter().map(|(d, _)| u64::from(d.weight)).sum();
        let part = u128::from(left.as_nanos()) * u128::from(first.weight) / u128::from(weights);
        let part = Span::from_nanos(u64::try_from(part).unwrap_or(u64::MAX));
        let mut step = step.clone();
        // Behind the last one nothing waits.
        step.flush &= open.len() > 1;
        Some((step, part))
    }

    /// How many steps are left.
    pub fn left(&self, known: &Calibration) -> usize {
        self.open(known).len()
    }

    /// The steps that are left and can be carried out.
    fn open(&self, known: &Calibration) -> Vec<(&Draft, Step)> {
        let left = self.drafts.iter().filter(|d| known.step(&d.name).is_none());
        left.filter_map(|draft| Some((draft, self.step(draft, known)?)))
            .collect()
    }

    fn step(&self, draft: &Draft, known: &Calibration) -> Option<Step> {
        let area = self.area(draft, known)?;
        // It is known when its turn comes, which is all that it is needed for.
        let rate = draft.pace.map(|of| {
            let found = known.step(of).map(Found::requests_per_second);
            found.map_or(u64::MAX, |rate| (rate * 0.9).max(1.0) as u64)
        });
        Some(Step {
            name: draft.name.clone(),
            load: Load { rate, ..draft.load },
            area,
            weight: draft.weight,
            flush: self.target.flush && draft.load.writes > 0,
            early: draft.load.writes == 0 && draft.weight < LONG_STEP,
        })
    }

    /// Where a step's requests go; `None` if that is no place for them.
    fn area(&self, draft: &Draft, known: &Calibration) -> Option<Area> {
        let target = &self.target;
        let reads = draft.load.writes < 100;
        let filled = known.written.min(target.size);
        // A step that fills it, and is to come, will have written enough.
        let filling = known.step(step::WRITE).is_none();
        let to = if reads && target.sparse && !filling {
            filled
        } else {
            target.size
        } / BLOCK
            * BLOCK;
        if reads && target.sparse && (to < ENOUGH.min(target.size) || !target.write) {
            return None;
        }
        let from = match draft.place {
            Place::All => 0,
            Place::End if to < target.size / BLOCK * BLOCK => return None,
            Place::End => (to - to / 16) / u64::from(LONG) * u64::from(LONG),
        };
        let area = Area { from, to };
        (area.places(draft.load.length) > 0).then_some(area)
    }
}

fn draft(name: &str, load: Load, weight: u32) -> Draft {
    let depth = load.depth.min(FLYING / load.length).max(1);
    Draft {
        name: name.to_owned(),
        load: Load { depth, ..load },
        place: Place::All,
        weight,
        pace: None,
    }
}

fn at_the_end(draft: Draft) -> Draft {
    Draft {
        place: Place::End,
        ..draft
    }
}

fn paced(draft: Draft, of: &'static str) -> Draft {
    Draft {
        pace: Some(of),
        ..draft
    }
}

fn reads(deep: u32, rotational: bool) -> Vec<Draft> {
    let sequential = Load::sequential(LONG, deep);
    let random = Load::random(SHORT, deep);
    let at = |depth| Load { depth, ..random };
    let mut all = vec![
        draft(step::READ, sequential, 3),
        at_the_end(draft(step::READ_END, sequential, 3)),
        draft(step::READ_RANDOM, random, 8),
        draft(step::READ_ONE, at(1), 2),
        draft(step::READER, Load::sequential(LONG, 1), 1),
        draft(step::READ_SHORT, Load::sequential(SHORT, deep), 1),
        paced(draft(step::READ_PACED, random, 2), step::READ_RANDOM),
    ];
    // A disk answers few requests a second, so that each figure takes long: those at the ends will do.
    let between = DEPTHS
        .into_iter()
        .filter(|depth| *depth < deep && (!rotational || *depth == 8));
    all.extend(between.map(|depth| draft(&depth_name("read", depth), at(depth), 1)));
    let lengths: &[u32] = if rotational { &[64] } else { &[16, 64, 256] };
    let longer = lengths
        .iter()
        .map(|kib| (kib, Load::random(kib << 10, deep)));
    all.extend(longer.map(|(kib, load)| draft(&format!("read-random-{kib}KiB"), load, 1)));
    all
}

/// Long, since faster cells or a buffer may stand before slower ones.
fn writes_in_sequence(deep: u32) -> Draft {
    draft(step::WRITE, Load::sequential(LONG, deep).writing(100), 8)
}

fn writes(deep: u32) -> Vec<Draft> {
    let sequential = Load::sequential(LONG, deep).writing(100);
    let random = Load::random(SHORT, deep).writing(100);
    let at = |depth| Load { depth, ..random };
    let mut all = vec![
        draft(step::WRITE_RANDOM, random, 12),
        at_the_end(draft(step::WRITE_END, sequential, 4)),
        draft(step::WRITE_ONE, at(1), 2),
        draft(
            step::WRITE_SHORT,
            Load::sequential(SHORT, deep).writing(100),
            2,
        ),
        paced(draft(step::WRITE_PACED, random, 2), step::WRITE_RANDOM),
        draft(step::MIXED, random.writing(30), 4),
    ];
    let some = [8, 32].into_iter().filter(|depth| *depth < deep);
    all.extend(some.map(|depth| draft(&depth_name("write", depth), at(depth), 1)));
    all
}

fn depth_name(what: &str, depth: u32) -> String {
    format!("{what}-random-depth-{depth}")
}
