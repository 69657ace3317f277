//! Checks of the elevator's state between calls, for debug builds. The checks of the layer call
//! them.

use super::Contracts;
use super::promised::is_outstanding;
use super::unit::{Cost, ShareEntity};
use crate::Op;
use crate::cx::Cx;
use crate::table::Stage;

impl Contracts {
    /// Checks the state of the elevator. `queued` is the number of requests in the elevator. `sums`
    /// is scratch space with an element for each stream or group.
    pub(super) fn check(&self, cx: &Cx, queued: u32, sums: &mut [u64]) {
        self.check_queues(cx, queued);
        self.check_flight(cx);
        self.check_streams(cx, sums);
        self.check_groups(cx, sums);
        self.shares.invariants(sums);
        self.reservations
            .invariants(cx, sums, |group| self.shares.is_active(ShareEntity(group)));
        let most = |request: u32| self.sent[request as usize].cost.as_nanos();
        self.reservations.check_flight(cx, sums, most);
    }

    /// Checks that the queues contain exactly the requests in the elevator, and that exactly the
    /// streams with requests are active or parked.
    fn check_queues(&self, cx: &Cx, queued: u32) {
        assert_eq!(self.queued, queued, "requests in the elevator");
        let mut inside = 0;
        for (stream, queue) in (0..).zip(&self.queues) {
            for request in self.links.checked(queue) {
                let live = &cx.table.requests[request];
                assert_eq!(live.request.stream.slot(), stream, "request {request}");
                assert_eq!(live.stage, Stage::Elevator, "request {request}");
                inside += 1;
            }
            let active = self.shares.is_active(self.shares.of_stream(stream));
            let parked = self.is_parked[stream as usize];
            assert!(
                !active || !queue.is_empty(),
                "stream {stream} has nothing to send"
            );
            assert!(
                active || queue.is_empty() || parked,
                "stream {stream} has no turn"
            );
        }
        assert_eq!(inside, self.queued, "requests in queues");
        let parked = self.is_parked.iter().filter(|&&parked| parked);
        assert_eq!(parked.count(), self.parked.len(), "parked streams");
    }

    /// Checks that the cost in flight is the sum over all requests with pieces in the drive.
    fn check_flight(&self, cx: &Cx) {
        let (mut flight, mut writes) = (Cost::ZERO, Cost::ZERO);
        let live = cx.table.all_live();
        for (request, _) in live.filter(|(_, l)| l.pieces > 0 && l.request.op != Op::Flush) {
            let sent = &self.sent[request as usize];
            flight += sent.cost;
            writes += if sent.lingers { sent.cost } else { Cost::ZERO };
        }
        assert_eq!(
            (self.flight, self.writes),
            (flight, writes),
            "cost in the drive"
        );
        let flushes = cx.table.pieces.iter().filter(|(_, p)| p.op == Op::Flush);
        assert_eq!(
            self.pace.running(),
            flushes.count() as u64,
            "flushes in the drive"
        );
    }

    /// Checks the outstanding requests and the cost in flight of each group against its requests.
    fn check_groups(&self, cx: &Cx, sums: &mut [u64]) {
        sums.fill(0);
        for (_, live) in cx.table.all_live() {
            sums[live.group.0 as usize] += u64::from(is_outstanding(live));
        }
        for (group, presence) in (0..).zip(self.shares.all_presence()) {
            let outstanding = u64::from(presence.arrivals.outstanding());
            assert_eq!(
                outstanding, sums[group as usize],
                "requests of group {group}"
            );
        }
        sums.fill(0);
        let live = cx.table.all_live();
        for (request, live) in live.filter(|(_, l)| l.pieces > 0 && l.request.op != Op::Flush) {
            sums[live.group.0 as usize] += self.sent[request as usize].cost.as_nanos();
        }
        for (group, presence) in (0..).zip(self.shares.all_presence()) {
            let flight = presence.flight().as_nanos();
            assert_eq!(
                flight, sums[group as usize],
                "cost in the drive of group {group}"
            );
        }
    }

    /// Checks the outstanding requests of each stream against its requests.
    fn check_streams(&self, cx: &Cx, sums: &mut [u64]) {
        sums.fill(0);
        for (_, live) in cx.table.all_live() {
            sums[live.request.stream.slot() as usize] += u64::from(is_outstanding(live));
        }
        for (stream, _) in cx.table.streams.iter() {
            let live = u64::from(self.turn.outstanding(stream));
            assert_eq!(live, sums[stream as usize], "requests of stream {stream}");
        }
    }
}
