//! Whose pieces were in the drive while requests waited, from single pieces and requests.
//!
//! One pass over the instants at which anything begins or ends. While a request waits and `n` pieces are in the drive, each of these has
//! an `n`th of the request's time.

use crate::late::Late;
use crate::rows::{Piece, Request};
use crate::share::Share;
use std::collections::BTreeMap;
use weir_measure::SECOND_NS;

/// The division of one second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Divided {
    /// Of the time of requests in the elevator, and of that in the drive.
    pub(crate) elevator: Share,
    pub(crate) drive: Share,
}

/// Something begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Second,
    PieceEnds(u32),
    PieceBegins(u32),
    Elevator(bool),
    Drive(bool),
    Late(bool),
}

/// Divides the time of `requests` by `pieces`, for each second in which they waited, from `since` on.
pub(crate) fn divide<'a>(
    since: u64,
    requests: impl Iterator<Item = &'a Request>,
    pieces: impl Iterator<Item = &'a Piece>,
    late: &Late,
) -> BTreeMap<u32, Divided> {
    let mut marks = Vec::new();
    for request in requests {
        let [cleared, dispatched, ended] = request.stages();
        marks.push((cleared, Mark::Elevator(true)));
        marks.push((dispatched, Mark::Elevator(false)));
        marks.push((dispatched, Mark::Drive(true)));
        marks.push((ended, Mark::Drive(false)));
    }
    let Some(last) = marks.iter().map(|m| m.0).max() else {
        return BTreeMap::new();
    };
    let mut groups = Vec::new();
    for piece in pieces.filter(|p| p.to > since && p.to > p.from) {
        let number = groups.len() as u32;
        groups.push(piece.group);
        marks.push((piece.from, Mark::PieceBegins(number)));
        marks.push((piece.to, Mark::PieceEnds(number)));
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

/// The pass.
#[derive(Debug)]
struct Sweep {
    since: u64,
    now: u64,
    /// Requests in the elevator and in the drive; whether the process is late.
    waiting: [u32; 2],
    late: bool,
    /// Request time for each piece in the drive so far: of those in the elevator, and of those in the drive.
    passed: [f64; 2],
    idle: f64,
    /// By piece: its group, and `passed` when it began or was last looked at.
    groups: Vec<u32>,
    begun: Vec<[f64; 2]>,
    /// Pieces in the drive.
    flying: Vec<u32>,
    place: Vec<u32>,
    open: Divided,
    all: BTreeMap<u32, Divided>,
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
            open: Divided::default(),
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
            self.idle += passed * f64::from(self.waiting[0]);
            return;
        }
        let pieces = self.flying.len() as f64;
        for (passed_for, waiting) in self.passed.iter_mut().zip(self.waiting) {
            *passed_for += passed * f64::from(waiting) / pieces;
        }
    }

    fn mark(&mut self, at: u64, mark: Mark) {
        match mark {
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

    /// Gives a piece's group the time since the piece was last looked at.
    fn credit(&mut self, piece: u32) {
        let (group, begun) = (self.groups[piece as usize], self.begun[piece as usize]);
        self.open.elevator.add(group, self.passed[0] - begun[0]);
        self.open.drive.add(group, self.passed[1] - begun[1]);
        self.begun[piece as usize] = self.passed;
    }

    /// The second of `at` is over.
    fn end_second(&mut self, at: u64) {
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
    *waiting = if begins { *waiting + 1 } else { waiting.saturating_sub(1) };
}
