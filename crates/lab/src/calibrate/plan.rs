//! The plan of a calibration: the order of its steps and the time for each.

use crate::calibrate::calibration::{Calibration, CalibrationTarget};
use crate::calibrate::found::StepResult;
use crate::calibrate::load::{Area, StepLoad};
use crate::calibrate::stamp::BLOCK;
use weir_core::Span;

/// The names of steps that provide parameters.
pub mod step {
    /// Sequential reads of 128 KiB, from the beginning of the drive.
    pub const READ: &str = "read-sequential";
    /// Sequential reads of 128 KiB at the end of the drive.
    pub const READ_END: &str = "read-sequential-end";
    /// Random reads of 4 KiB, with as many in flight as permitted.
    pub const READ_RANDOM: &str = "read-random";
    /// Random reads of 4 KiB, one at a time.
    pub const READ_ONE: &str = "read-random-depth-1";
    /// Sequential reads of 4 KiB.
    pub const READ_SHORT: &str = "read-sequential-4KiB";
    /// Sequential reads of 128 KiB, one at a time.
    pub const READER: &str = "read-sequential-depth-1";
    /// Random reads of 4 KiB at 90 % of the rate that the drive reaches.
    pub const READ_PACED: &str = "read-random-at-90-percent";
    /// Sequential writes of 128 KiB, from the beginning of the drive.
    pub const WRITE: &str = "write-sequential";
    /// Sequential writes of 128 KiB at the end of the drive, after random writes.
    pub const WRITE_END: &str = "write-sequential-end";
    /// Random writes of 4 KiB, with as many in flight as permitted.
    pub const WRITE_RANDOM: &str = "write-random";
    /// Random writes of 4 KiB, one at a time.
    pub const WRITE_ONE: &str = "write-random-depth-1";
    /// Sequential writes of 4 KiB.
    pub const WRITE_SHORT: &str = "write-sequential-4KiB";
    /// Random writes of 4 KiB at 90 % of the rate that the drive reaches.
    pub const WRITE_PACED: &str = "write-random-at-90-percent";
    /// Random requests of 4 KiB, of which 70 % are reads and 30 % writes.
    pub const MIXED: &str = "mixed-random";
}

/// The length of a long request and of a short one, in bytes.
const LONG: u32 = 128 << 10;
const SHORT: u32 = BLOCK as u32;

/// The maximum number of bytes in flight. More would only wait in queues, which must be empty
/// before the next step.
const FLYING: u32 = 4 << 20;

/// The weight from which on a step takes all its time.
const LONG_STEP: u32 = 3;

/// The depths between one request at a time and the maximum.
const DEPTHS: [u32; 7] = [2, 4, 8, 16, 32, 64, 128];

/// The number of bytes that must have been written before a sparse target is read.
const ENOUGH: u64 = 4 << 20;

/// A step of a calibration, as [`CalibrationPlan::next`] returns it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CalibrationStep {
    /// The name of the step in results.
    pub name: String,
    /// The requests of the step.
    pub load: StepLoad,
    /// The part of the drive that is used.
    pub area: Area,
    /// The weight by which the remaining time is divided among steps.
    pub weight: u32,
    /// True if the step ends as soon as its result is certain. Steps of a capacity do not, because
    /// a drive may change after a while.
    pub early: bool,
    /// True if the step ends with a flush. The next step then does not wait for data in the drive's
    /// buffer.
    pub flush: bool,
}

/// The part of the drive to which a step's requests go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StepPlace {
    All,
    /// The last sixteenth of the target.
    End,
}

/// A step whose area and rate are not known before it begins.
#[derive(Clone, PartialEq, Eq, Debug)]
struct StepDraft {
    name: String,
    load: StepLoad,
    place: StepPlace,
    weight: u32,
    /// The step at 90 % of whose rate this one issues its requests.
    pace: Option<&'static str>,
}

/// The steps that can be measured on a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CalibrationPlan {
    target: CalibrationTarget,
    drafts: Vec<StepDraft>,
}

impl CalibrationPlan {
    /// Creates the plan of all steps that can be measured on the target, the most important first.
    pub fn new(target: &CalibrationTarget) -> Self {
        let deep = target.depth.max(1);
        let (fill, mut drafts) = (writes_in_sequence(deep), reads(deep, target.rotational));
        if target.write {
            // Data must be written before it is read, if the target is sparse.
            let at = if target.sparse { 0 } else { drafts.len() };
            drafts.insert(at, fill);
            drafts.extend(writes(deep));
        }
        Self {
            target: target.clone(),
            drafts,
        }
    }

    /// Returns the next step, and the part of the remaining time that it may take. Returns `None`
    /// when no step is left.
    pub fn next(&self, known: &Calibration, left: Span) -> Option<(CalibrationStep, Span)> {
        let open = self.remaining_steps(known);
        let (first, step) = open.first()?;
        let weights: u64 = open.iter().map(|(d, _)| u64::from(d.weight)).sum();
        // The remaining time is divided again at each step, so that time saved by one step goes to
        // all others.
        let part = u128::from(left.as_nanos()) * u128::from(first.weight) / u128::from(weights);
        let part = Span::from_nanos(u64::try_from(part).unwrap_or(u64::MAX));
        let mut step = step.clone();
        // No step follows the last one that would have to wait for the drive's buffer.
        step.flush &= open.len() > 1;
        Some((step, part))
    }

    /// Returns the number of steps that are left.
    pub fn steps_left(&self, known: &Calibration) -> usize {
        self.remaining_steps(known).len()
    }

    /// Returns the steps that are left and can be measured.
    fn remaining_steps(&self, known: &Calibration) -> Vec<(&StepDraft, CalibrationStep)> {
        let left = self.drafts.iter().filter(|d| known.step(&d.name).is_none());
        left.filter_map(|draft| Some((draft, self.step(draft, known)?)))
            .collect()
    }

    fn step(&self, draft: &StepDraft, known: &Calibration) -> Option<CalibrationStep> {
        let area = self.area(draft, known)?;
        // The rate is known when the step begins, and is not used before.
        let rate = draft.pace.map(|of| {
            let found = known.step(of).map(StepResult::requests_per_second);
            found.map_or(u64::MAX, |rate| (rate * 0.9).max(1.0) as u64)
        });
        Some(CalibrationStep {
            name: draft.name.clone(),
            load: StepLoad { rate, ..draft.load },
            area,
            weight: draft.weight,
            flush: self.target.flush && draft.load.writes > 0,
            early: draft.load.writes == 0 && draft.weight < LONG_STEP,
        })
    }

    /// Returns the area of a step's requests, or `None` if the step has none on this target.
    fn area(&self, draft: &StepDraft, known: &Calibration) -> Option<Area> {
        let target = &self.target;
        let reads = draft.load.writes < 100;
        let filled = known.written.min(target.size);
        // If the step that fills the target is still to come, it will have written enough.
        let filling = known.step(step::WRITE).is_none();
        // Reads of a sparse target must stay within written data.
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
            StepPlace::All => 0,
            // The end of a sparse target was not written.
            StepPlace::End if to < target.size / BLOCK * BLOCK => return None,
            StepPlace::End => (to - to / 16) / u64::from(LONG) * u64::from(LONG),
        };
        let area = Area { from, to };
        (area.places(draft.load.length) > 0).then_some(area)
    }
}

fn draft(name: &str, load: StepLoad, weight: u32) -> StepDraft {
    // Long requests get a smaller depth.
    let depth = load.depth.min(FLYING / load.length).max(1);
    StepDraft {
        name: name.to_owned(),
        load: StepLoad { depth, ..load },
        place: StepPlace::All,
        weight,
        pace: None,
    }
}

fn at_the_end(draft: StepDraft) -> StepDraft {
    StepDraft {
        place: StepPlace::End,
        ..draft
    }
}

fn paced(draft: StepDraft, of: &'static str) -> StepDraft {
    StepDraft {
        pace: Some(of),
        ..draft
    }
}

fn reads(deep: u32, rotational: bool) -> Vec<StepDraft> {
    let sequential = StepLoad::sequential(LONG, deep);
    let random = StepLoad::random(SHORT, deep);
    let at = |depth| StepLoad { depth, ..random };
    let mut all = vec![
        draft(step::READ, sequential, 3),
        at_the_end(draft(step::READ_END, sequential, 3)),
        draft(step::READ_RANDOM, random, 8),
        draft(step::READ_ONE, at(1), 2),
        draft(step::READER, StepLoad::sequential(LONG, 1), 1),
        draft(step::READ_SHORT, StepLoad::sequential(SHORT, deep), 1),
        paced(draft(step::READ_PACED, random, 2), step::READ_RANDOM),
    ];
    // A disk serves few requests per second, so that each measurement takes long. The depths at
    // both ends and one between suffice.
    let between = DEPTHS
        .into_iter()
        .filter(|depth| *depth < deep && (!rotational || *depth == 8));
    all.extend(between.map(|depth| draft(&depth_name("read", depth), at(depth), 1)));
    let lengths: &[u32] = if rotational { &[64] } else { &[16, 64, 256] };
    let longer = lengths
        .iter()
        .map(|kib| (kib, StepLoad::random(kib << 10, deep)));
    all.extend(longer.map(|(kib, load)| draft(&format!("read-random-{kib}KiB"), load, 1)));
    all
}

/// Returns sequential writes with a large weight, because a drive may have faster cells or a buffer
/// in front of slower ones.
fn writes_in_sequence(deep: u32) -> StepDraft {
    draft(
        step::WRITE,
        StepLoad::sequential(LONG, deep).writing(100),
        8,
    )
}

fn writes(deep: u32) -> Vec<StepDraft> {
    let sequential = StepLoad::sequential(LONG, deep).writing(100);
    let random = StepLoad::random(SHORT, deep).writing(100);
    let at = |depth| StepLoad { depth, ..random };
    let mut all = vec![
        draft(step::WRITE_RANDOM, random, 12),
        at_the_end(draft(step::WRITE_END, sequential, 4)),
        draft(step::WRITE_ONE, at(1), 2),
        draft(
            step::WRITE_SHORT,
            StepLoad::sequential(SHORT, deep).writing(100),
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
