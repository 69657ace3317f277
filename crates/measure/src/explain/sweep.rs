//! Divides the time for which requests waited among the groups whose pieces were in the drive, from
//! single pieces and requests.
//!
//! This is one pass over the times at which anything begins or ends. While a request waits and `n`
//! pieces are in the drive, each of these has an `n`th of the request's time.

use crate::SECOND_NS;
use crate::explain::late::LateIntervals;
use crate::explain::rows::{PieceTrace, RequestTrace};
use crate::explain::share::Share;
use std::collections::BTreeMap;

/// The division of one second's waiting time.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimeDivision {
    /// The time of requests in the elevator, by group.
    pub(crate) elevator: Share,
    /// The time of requests in the drive, by group.
    pub(crate) drive: Share,
}

/// The maximum length of the divided time, before the last request. It bounds the work for a
/// recording with absurd times.
const LONGEST: u64 = 1_000_000 * SECOND_NS;

/// The beginning or end of something. At the same time, marks are processed in this order: a second
/// ends before anything else, and pieces and requests end before others begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Second,
    PieceEnds(u32),
    PieceBegins(u32),
    Elevator(bool),
    Drive(bool),
    Late(bool),
}

/// Divides the time of `requests` among `pieces`, for each second in which they waited, from
/// `since` on.
pub(crate) fn divide<'a>(
    since: u64,
    requests: impl Iterator<Item = &'a RequestTrace>,
    pieces: impl Iterator<Item = &'a PieceTrace>,
    late: &LateIntervals,
) -> BTreeMap<u32, TimeDivision> {
    let mut marks = Vec::new();
    for request in requests {
        let [cleared, dispatched, ended] = request.stages();
        // A stage of no length would end before it begins, because ends come first at the same
        // time.
        if cleared < dispatched {
            marks.push((cleared, Mark::Elevator(true)));
            marks.push((dispatched, Mark::Elevator(false)));
        }
        if dispatched < ended {
            marks.push((dispatched, Mark::Drive(true)));
            marks.push((ended, Mark::Drive(false)));
        }
    }
    let Some(last) = marks.iter().map(|m| m.0).max() else {
        return BTreeMap::new();
    };
    let since = since.max(last.saturating_sub(LONGEST));
    let mut groups = Vec::new();
    for piece in pieces.filter(|p| p.to() > since && p.to() > p.from) {
        let number = groups.len() as u32;
        groups.push(piece.group);
        marks.push((piece.from, Mark::PieceBegins(number)));
        marks.push((piece.to(), Mark::PieceEnds(number)));
    }
    for (from, to) in late.intervals().filter(|i| i.1 > since) {
        marks.push((from, Mark::Late(true)));
        marks.push((to, Mark::Late(false)));
    }
    let mut second = (since / SECOND_NS + 1) * SECOND_NS;
    while second <= last {
        marks.push((second, Mark::Second));
        second += SECOND_NS;
    }
    marks.sort_unstable();
    let mut sweep = Sweep::new(since, groups);
    for (at, mark) in marks {
        sweep.advance(at);
        sweep.mark(at, mark);
    }
    sweep.end_second(last);
    sweep.all
}

/// The state of the pass over the marks.
#[derive(Debug)]
struct Sweep {
    since: u64,
    now: u64,
    /// The number of requests in the elevator and in the drive.
    waiting: [u32; 2],
    /// True while the process is late.
    late: bool,
    /// The time of requests for each piece in the drive so far: of requests in the elevator, and of
    /// requests in the drive.
    passed: [f64; 2],
    idle: f64,
    /// The group of each piece, and `passed` when the piece began or was last credited.
    groups: Vec<u32>,
    begun: Vec<[f64; 2]>,
    /// The pieces in the drive.
    flying: Vec<u32>,
    place: Vec<u32>,
    open: TimeDivision,
    all: BTreeMap<u32, TimeDivision>,
}

impl Sweep {
    fn new(since: u64, groups: Vec<u32>) -> Self {
        Self {
            since,
            now: 0,
            waiting: [0; 2],
            late: false,
            passed: [0.0; 2],
            idle: 0.0,
            begun: vec![[0.0; 2]; groups.len()],
            place: vec![0; groups.len()],
            groups,
            flying: Vec::new(),
            open: TimeDivision::default(),
            all: BTreeMap::new(),
        }
    }

    fn advance(&mut self, at: u64) {
        let from = self.now.max(self.since);
        self.now = self.now.max(at);
        if self.late || self.now <= from {
            return;
        }
        let passed = (self.now - from) as f64;
        if self.flying.is_empty() {
            // Only requests in the elevator can wait for an idle drive.
            self.idle += passed * f64::from(self.waiting[0]);
            return;
        }
        let pieces = self.flying.len() as f64;
        // One sum for all pieces in the drive makes the cost of a mark independent of their number.
        for (passed_for, waiting) in self.passed.iter_mut().zip(self.waiting) {
            *passed_for += passed * f64::from(waiting) / pieces;
        }
    }

    fn mark(&mut self, at: u64, mark: Mark) {
        match mark {
            // The mark is at the first nanosecond of the next second.
            Mark::Second => self.end_second(at - 1),
            Mark::PieceBegins(piece) => {
                self.begun[piece as usize] = self.passed;
                self.place[piece as usize] = self.flying.len() as u32;
                self.flying.push(piece);
            }
            Mark::PieceEnds(piece) => self.land(piece),
            Mark::Elevator(begins) => count(&mut self.waiting[0], begins),
            Mark::Drive(begins) => count(&mut self.waiting[1], begins),
            Mark::Late(begins) => self.late = begins,
        }
    }

    fn land(&mut self, piece: u32) {
        let place = self.place[piece as usize] as usize;
        self.flying.swap_remove(place);
        if let Some(moved) = self.flying.get(place) {
            self.place[*moved as usize] = place as u32;
        }
        self.credit(piece);
    }

    /// Adds the time since the piece was last credited to the piece's group.
    fn credit(&mut self, piece: u32) {
        let (group, begun) = (self.groups[piece as usize], self.begun[piece as usize]);
        self.open.elevator.add(group, self.passed[0] - begun[0]);
        self.open.drive.add(group, self.passed[1] - begun[1]);
        self.begun[piece as usize] = self.passed;
    }

    /// Ends the second that contains `at`.
    fn end_second(&mut self, at: u64) {
        // Pieces that stay in the drive are credited with their time in this second.
        for at in 0..self.flying.len() {
            self.credit(self.flying[at]);
        }
        let mut open = std::mem::take(&mut self.open);
        open.elevator.idle = std::mem::take(&mut self.idle);
        if open.elevator.total() + open.drive.total() > 0.0 {
            self.all.insert((at / SECOND_NS) as u32, open);
        }
    }
}

fn count(waiting: &mut u32, begins: bool) {
    *waiting = if begins {
        *waiting + 1
    } else {
        waiting.saturating_sub(1)
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::rows::Length;
    use proptest::prelude::*;

    /// The number of nanoseconds of a unit in which everything is generated.
    const UNIT: u64 = 64;

    /// The requests, each as its start and its units at each stage. The pieces, each as start,
    /// length and group. The intervals in which the process was late.
    type RandomTimes = (Vec<(u64, [u64; 3])>, Vec<(u64, u64, u32)>, Vec<(u64, u64)>);

    fn drawn() -> impl Strategy<Value = RandomTimes> {
        let requests = prop::collection::vec((0_u64..300, [0_u64..50, 0..90, 0..90]), 1..8);
        let pieces = prop::collection::vec((0_u64..400, 0_u64..90, 1_u32..4), 0..12);
        let late = prop::collection::vec((1_u64..200, 1_u64..30), 0..3);
        (requests, pieces, late)
    }

    /// Divides time like [`divide`], but from one unit to the next: for each group (0 stands for
    /// none) and both stages.
    fn slowly(
        since: u64,
        requests: &[RequestTrace],
        pieces: &[PieceTrace],
        late: &LateIntervals,
    ) -> BTreeMap<(u32, usize), f64> {
        let mut all = BTreeMap::new();
        for at in (since / UNIT..600)
            .map(|at| at * UNIT)
            .filter(|at| late.within(*at, at + UNIT) == 0)
        {
            let within = |from: u64, to: u64| from <= at && at < to;
            let flying: Vec<u32> = pieces
                .iter()
                .filter(|p| within(p.from, p.to()))
                .map(|p| p.group)
                .collect();
            for request in requests {
                let [cleared, dispatched, ended] = request.stages();
                for (stage, waits) in [within(cleared, dispatched), within(dispatched, ended)]
                    .into_iter()
                    .enumerate()
                {
                    if waits && flying.is_empty() && stage == 0 {
                        *all.entry((0, stage)).or_default() += UNIT as f64;
                    }
                    for group in flying.iter().filter(|_| waits) {
                        *all.entry((*group, stage)).or_default() +=
                            UNIT as f64 / flying.len() as f64;
                    }
                }
            }
        }
        all
    }

    proptest! {
        #[test]
        fn the_division_of_time_agrees_with_a_slow_count((requests, pieces, lates) in drawn(), since in 0_u64..200) {
            let since = since * UNIT;
            let length = |units: u64| Length::new(units * UNIT);
            let request = |(submitted, [limit, elevator, drive]): (u64, [u64; 3])| RequestTrace {
                submitted: submitted * UNIT,
                limit: length(limit),
                elevator: length(elevator),
                drive: length(drive),
                group: 9,
                bytes: 4096,
            };
            let requests: Vec<RequestTrace> = requests.into_iter().map(request).collect();
            let piece = |(from, length, group): (u64, u64, u32)| PieceTrace {
                from: from * UNIT, length: Length::new(length * UNIT), group,
            };
            let pieces: Vec<PieceTrace> = pieces.into_iter().map(piece).collect();
            let (mut late, mut at) = (LateIntervals::new(), 0);
            for (gap, length) in lates {
                late.add((at + gap) * UNIT, (at + gap + length) * UNIT);
                at += gap + length;
            }
            let divided = divide(since, requests.iter(), pieces.iter(), &late);
            let mut quickly: BTreeMap<(u32, usize), f64> = BTreeMap::new();
            for second in divided.values() {
                for (stage, share) in [&second.elevator, &second.drive].into_iter().enumerate() {
                    let none = (share.idle > 0.0).then_some((0, share.idle));
                    for (group, time) in share.groups().chain(none) {
                        *quickly.entry((group, stage)).or_default() += time;
                    }
                }
            }
            let slowly = slowly(since, &requests, &pieces, &late);
            for key in slowly.keys().chain(quickly.keys()) {
                let of = |all: &BTreeMap<_, f64>| all.get(key).copied().unwrap_or(0.0);
                prop_assert!((of(&slowly) - of(&quickly)).abs() < 1e-3, "{key:?}: {slowly:?} {quickly:?}");
            }
        }
    }
}
