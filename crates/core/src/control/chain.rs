//! The chain of controllers that a request passes in front of the elevator, and the times at which
//! they must be called.
//!
//! A request climbs from one controller to the next until one of them holds it or it has passed the
//! last. Somewhere in the chain is the *gate*: a stream on hold sends no request past it.
//! Controllers in front of the gate see a request once, when it is submitted, and charge it (Linux:
//! `blk-throttle`, in `submit_bio`). Controllers behind the gate count the requests under way
//! (Linux: `rq_qos`, in `blk_mq_submit_bio`). If a stream is put on hold, its requests therefore
//! give up their places there, and enter again later.

use super::config::Config;
use super::controller::{Controller, Verdict};
use super::cost::CostController;
use super::latency::LatencyController;
use super::low::LowController;
use super::max::Throttle;
use super::slices::SlicesController;
use crate::contract::MaxDebt;
use crate::cx::Cx;
use crate::id::GroupId;
use crate::sample::Take;
use crate::table::Table;
use crate::time::{Instant, Span};
use crate::wake::Wake;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The controllers of a layer, numbered in the order in which a request passes them.
#[derive(Debug)]
pub(crate) struct Chain {
    controllers: Vec<Box<dyn Controller>>,
    /// The number of the first controller behind the gate.
    gate: u8,
    /// The earliest time at which a controller must be called, or [`Instant::MAX`]. Every call into
    /// the layer checks it.
    due: Instant,
}

impl Chain {
    /// Creates the controllers that `config` selects. `has_elevator` means that requests behind
    /// them have scheduler tags.
    pub(crate) fn new(config: &Config, table: &Table, has_elevator: bool) -> Self {
        let mut controllers: Vec<Box<dyn Controller>> = Vec::new();
        match &config.slices {
            _ if !config.max => {}
            None => controllers.push(Box::new(Throttle::new(table))),
            Some(slices) => controllers.push(Box::new(SlicesController::new(slices, table))),
        }
        if let Some(low) = &config.low {
            controllers.push(Box::new(LowController::new(low, table)));
        }
        let gate = controllers.len();
        if config.latency {
            controllers.push(Box::new(LatencyController::new(table)));
        }
        if let Some(cost) = &config.cost {
            controllers.push(Box::new(CostController::new(cost, table, !has_elevator)));
        }
        Self::of(controllers, gate)
    }

    fn of(controllers: Vec<Box<dyn Controller>>, gate: usize) -> Self {
        Self {
            controllers,
            gate: gate as u8,
            due: Instant::MAX,
        }
    }

    /// Returns the number of controllers.
    pub(crate) fn len(&self) -> u8 {
        self.controllers.len() as u8
    }

    /// Returns the number of the first controller behind the gate.
    pub(crate) fn gate(&self) -> u8 {
        self.gate
    }

    /// Applies changed groups, contracts and knobs ([`Controller::set`]).
    pub(crate) fn set(&mut self, cx: &mut Cx) {
        for controller in &mut self.controllers {
            controller.set(cx);
        }
        self.update_due();
    }

    /// Replaces the debts of a group ([`Controller::set_debt`]).
    pub(crate) fn set_debt(&mut self, cx: &mut Cx, group: GroupId, debt: &MaxDebt) {
        for controller in &mut self.controllers {
            controller.set_debt(cx, group, debt);
        }
        self.update_due();
    }

    /// Returns the debts of a group, which at most one controller has.
    pub(crate) fn debt(&self, now: Instant, group: GroupId) -> MaxDebt {
        let mut debts = self.controllers.iter().map(|c| c.debt(now, group));
        debts
            .find(|debt| *debt != MaxDebt::NONE)
            .unwrap_or_default()
    }

    /// Returns true if requests of a group must enter the chain, because a controller covers the
    /// group.
    pub(crate) fn covers(&self, group: GroupId) -> bool {
        self.controllers.iter().any(|c| c.covers(group))
    }

    /// Returns true if a controller must be notified of the end of every request.
    pub(crate) fn counts(&self) -> bool {
        self.controllers.iter().any(|c| c.counts())
    }

    /// Takes a request from controller `from` up to `to`, exclusively. Returns the controller that
    /// holds it, or `None` if it has passed.
    pub(crate) fn climb(&mut self, cx: &mut Cx, request: u32, from: u8, to: u8) -> Option<u8> {
        debug_assert!(to <= self.len(), "the chain has no such controller");
        if from >= to {
            return None;
        }
        // `find` stops at the first controller that holds the request, so the later ones do not see
        // it yet.
        let holder = (from..to).find(|&n| self.at(n).enter(cx, request) == Verdict::Hold);
        self.update_due();
        holder
    }

    /// Returns the next held request that may continue, and the number of the controller that held
    /// it. Earlier controllers come first.
    pub(crate) fn next_passed(&mut self, cx: &mut Cx) -> Option<(u32, u8)> {
        let numbered = (0..).zip(&mut self.controllers);
        let mut passed = numbered.filter_map(|(n, c)| c.next_passed(cx).map(|id| (id, n)));
        passed.next()
    }

    /// Notifies the controllers behind the gate of a scheduler tag ([`Controller::tagged`]).
    pub(crate) fn tagged(&mut self, cx: &mut Cx, request: u32, waited: Span) {
        for controller in self.behind_gate() {
            controller.tagged(cx, request, waited);
        }
        self.update_due();
    }

    /// Notifies the controllers behind the gate of a merged request ([`Controller::merged`]).
    pub(crate) fn merged(&mut self, cx: &mut Cx, request: u32, leader: u32) {
        for controller in self.behind_gate() {
            controller.merged(cx, request, leader);
        }
        self.update_due();
    }

    /// Notifies the controllers of the end of a request ([`Controller::ended`]). Those in front of
    /// the gate are notified only of served requests.
    pub(crate) fn ended(&mut self, cx: &mut Cx, request: u32, took: Option<Span>) -> bool {
        // Controllers in front of the gate have charged a request that was put on hold, and see it
        // only once.
        let told = if took.is_some() {
            &mut self.controllers[..]
        } else {
            self.behind_gate()
        };
        let mut passes = false;
        for controller in told {
            passes |= controller.ended(cx, request, took);
        }
        self.update_due();
        passes
    }

    /// Removes a request that controller `holder` holds from the chain.
    pub(crate) fn remove(&mut self, cx: &mut Cx, request: u32, holder: u8) {
        self.at(holder).remove(cx, request);
        // The controllers between the gate and the holder count the request as under way. Those in
        // front of the gate have charged it for good.
        for n in self.gate..holder {
            self.at(n).ended(cx, request, None);
        }
        self.update_due();
    }

    /// Runs a controller whose time has come.
    pub(crate) fn run(&mut self, cx: &mut Cx, number: u8) {
        self.at(number).run(cx);
        self.update_due();
    }

    /// Returns the time at which a controller must be called, or [`Instant::MAX`].
    #[inline]
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Returns the time at which a controller must be called, and the reason.
    pub(crate) fn wake(&self) -> Option<Wake> {
        let first = self.controllers.iter().find(|c| c.due() == self.due)?;
        (self.due < Instant::MAX).then(|| Wake {
            at: self.due,
            reason: first.reason(),
        })
    }

    /// Returns the longest backlog of a stream at any controller.
    pub(crate) fn backlog(&self, table: &Table, stream: u32) -> Span {
        let backlogs = self.controllers.iter().map(|c| c.backlog(table, stream));
        backlogs.max().unwrap_or(Span::ZERO)
    }

    /// Samples the state of all groups in all controllers.
    pub(crate) fn sample(&self, cx: &Cx, take: &mut Take<'_>) {
        for controller in &self.controllers {
            controller.sample(cx, take);
        }
    }

    fn at(&mut self, number: u8) -> &mut dyn Controller {
        &mut *self.controllers[usize::from(number)]
    }

    fn behind_gate(&mut self) -> &mut [Box<dyn Controller>] {
        &mut self.controllers[usize::from(self.gate)..]
    }

    /// Updates the time of the next call, after any controller may have changed its own.
    fn update_due(&mut self) {
        let dues = self.controllers.iter().map(|c| c.due());
        self.due = dues.min().unwrap_or(Instant::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{DriveShape, Sizes};
    use std::sync::{Arc, Mutex};
    use std::vec;

    /// The calls in order: number of the controller, name of the call, request.
    type Log = Arc<Mutex<Vec<(u8, &'static str, u32)>>>;

    /// A controller that logs its calls, holds requests of one number, and passes them when it
    /// runs.
    #[derive(Debug)]
    struct Spy {
        number: u8,
        holds: u32,
        due: u64,
        passed: Option<u32>,
        log: Log,
    }

    impl Spy {
        fn note(&self, what: &'static str, request: u32) {
            self.log
                .lock()
                .expect("no test panics with it")
                .push((self.number, what, request));
        }
    }

    impl Controller for Spy {
        fn set(&mut self, _cx: &mut Cx) {}
        fn covers(&self, _group: GroupId) -> bool {
            self.number == 1
        }
        fn enter(&mut self, _cx: &mut Cx, request: u32) -> Verdict {
            self.note("enter", request);
            if request == self.holds {
                Verdict::Hold
            } else {
                Verdict::Pass
            }
        }
        fn next_passed(&mut self, _cx: &mut Cx) -> Option<u32> {
            self.passed.take()
        }
        fn tagged(&mut self, _cx: &mut Cx, request: u32, _waited: Span) {
            self.note("tagged", request);
        }
        fn ended(&mut self, _cx: &mut Cx, request: u32, _took: Option<Span>) -> bool {
            self.note("ended", request);
            false
        }
        fn remove(&mut self, _cx: &mut Cx, request: u32) {
            self.note("remove", request);
        }
        fn run(&mut self, _cx: &mut Cx) {
            self.passed = Some(self.holds);
            self.due = u64::MAX;
        }
        fn due(&self) -> Instant {
            Instant::from_nanos(self.due)
        }
        fn backlog(&self, _table: &Table, _stream: u32) -> Span {
            Span::from_nanos(u64::from(self.number))
        }
    }

    /// Creates three controllers with the gate in front of the second. Controller n holds request
    /// n.
    fn chain(log: &Log) -> Chain {
        let spy = |number: u8| -> Box<dyn Controller> {
            Box::new(Spy {
                number,
                holds: number.into(),
                due: 100 - 10 * u64::from(number),
                passed: None,
                log: log.clone(),
            })
        };
        Chain::of((0..3).map(spy).collect(), 1)
    }

    fn cx() -> Cx {
        Cx::bare(Sizes::default(), DriveShape::default(), &[])
    }

    #[test]
    fn a_released_request_continues_after_its_throttling_controller() {
        let log = Log::default();
        let mut chain = chain(&log);
        let cx = &mut cx();
        assert_eq!(chain.climb(cx, 1, 0, 3), Some(1));
        chain.run(cx, 1);
        assert_eq!(chain.next_passed(cx), Some((1, 1)));
        assert_eq!(chain.next_passed(cx), None);
        assert_eq!(chain.climb(cx, 1, 2, 3), None);
        chain.tagged(cx, 1, Span::ZERO);
        chain.ended(cx, 1, None);
        let enters = vec![(0, "enter", 1), (1, "enter", 1), (2, "enter", 1)];
        let behind_gate = [
            (1, "tagged", 1),
            (2, "tagged", 1),
            (1, "ended", 1),
            (2, "ended", 1),
        ];
        assert_eq!(
            *log.lock().expect("no test panics with it"),
            [enters, behind_gate.to_vec()].concat()
        );
    }

    #[test]
    fn a_cancelled_request_leaves_its_controller_and_the_passed_ones() {
        let log = Log::default();
        let mut chain = chain(&log);
        let cx = &mut cx();
        assert_eq!(chain.climb(cx, 2, 0, 3), Some(2));
        log.lock().expect("no test panics with it").clear();
        chain.remove(cx, 2, 2);
        assert_eq!(
            *log.lock().expect("no test panics with it"),
            [(2, "remove", 2), (1, "ended", 2)]
        );
    }

    #[test]
    fn the_earliest_wake_and_the_longest_backlog_count() {
        let log = Log::default();
        let mut chain = chain(&log);
        assert_eq!(chain.due(), Instant::MAX);
        let cx = &mut cx();
        chain.set(cx);
        assert_eq!(chain.due(), Instant::from_nanos(80));
        chain.run(cx, 2);
        assert_eq!(chain.due(), Instant::from_nanos(90));
        assert_eq!(chain.wake().map(|w| w.at), Some(chain.due()));
        assert_eq!(chain.backlog(&cx.table, 0), Span::from_nanos(2));
        assert!(chain.covers(GroupId(0)) && !chain.counts());
    }
}
