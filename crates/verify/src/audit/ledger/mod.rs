//! Audits exact limits. In no window does a limit let more pass than it may, and no limit throttles
//! a request that may pass. Limits on requests count those that clients sent: a request that the
//! driver split passes with its first part, and is charged part by part.
//!
//! The computation is exact in 128 bits. If the driver was late for a wake-up, throttled requests
//! are charged as of the time at which they were due, up to five milliseconds ago. A window may
//! exceed its limit by that much, and no more.

mod bucket;

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::{LayerModel, LiveRequest};
use crate::audit::wake::WakesAuditor;
use bucket::LeakyBucket;
use weir_core::record::Call;
use weir_core::{Config, Edit, GroupId, Instant, Max, MaxDebt, Reason, Request, Span, Wake};

/// The maximum lateness of a driver that is not charged to the client, in nanoseconds.
const LATENESS_MAX: u64 = 5_000_000;

/// The limits of a group: read, write and common ones, of bytes and of requests.
#[derive(Clone, Debug, Default)]
struct GroupLimits {
    bytes: [LeakyBucket; 3],
    requests: [LeakyBucket; 3],
    /// The number of bytes that count as one request, or zero.
    iops_size: u64,
    limited: bool,
    exists: bool,
    /// The number of throttled requests: reads and writes.
    waiting: [u32; 2],
    /// The groups with limits, from this one up.
    path: Vec<u32>,
}

/// The index of the limit on reads and writes together.
const COMMON: usize = 2;

/// The auditor of limits, see the module's documentation.
#[derive(Debug)]
pub struct LimitLedger {
    nodes: Vec<GroupLimits>,
    /// The groups with throttled requests, each at most once.
    queues: Vec<u32>,
    /// The time for which the layer requested a poll.
    wake: Option<Instant>,
    /// The time of the first call since the last poll.
    unpolled: Option<Instant>,
    /// The lateness of the current call, in nanoseconds.
    late: u64,
    /// True if limits are exact. Limits in slices are audited by [`crate::audit::SlicesAuditor`].
    exact: bool,
}

/// Returns how many requests of the client begin in `request`, if each `size` bytes of the client's
/// request count as one. With a `size` of zero, only the first part counts.
pub(crate) fn counted(request: &Request, size: u64) -> u64 {
    let first = u64::from(request.within);
    let end = first + request.charge();
    match size {
        _ if first == 0 && end <= 1 => 1,
        0 => u64::from(first == 0),
        size => (end - 1) / size + u64::from(first == 0) - first.saturating_sub(1) / size,
    }
}

impl LimitLedger {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            nodes: vec![GroupLimits::default(); config.sizes.groups as usize],
            queues: Vec::with_capacity(config.sizes.groups as usize),
            wake: None,
            unpolled: None,
            late: 0,
            exact: config.controllers.slices.is_none(),
        }
    }

    /// Copies the limits of every group from the model.
    fn set(&mut self, model: &LayerModel) {
        for (i, node) in self.nodes.iter_mut().enumerate() {
            let id = GroupId(i as u32);
            let max = model.tree.get(id).map_or(Max::NONE, |g| g.contract.max);
            node.exists = model.tree.get(id).is_some();
            node.limited = max.is_limited();
            node.iops_size = max.iops_size;
            let burst = max.burst.as_nanos();
            for (bucket, rate) in
                node.bytes
                    .iter_mut()
                    .zip([max.read_bandwidth, max.write_bandwidth, max.bandwidth])
            {
                bucket.set(model.now, rate, burst);
            }
            for (bucket, rate) in
                node.requests
                    .iter_mut()
                    .zip([max.read_iops, max.write_iops, max.iops])
            {
                bucket.set(model.now, rate, burst);
            }
        }
        // The paths are computed after all limits are known, because they contain only limited
        // groups.
        for i in 0..self.nodes.len() {
            let path = model.tree.path(GroupId(i as u32)).map(|g| g.0);
            let limited: Vec<u32> = path.filter(|&g| self.nodes[g as usize].limited).collect();
            self.nodes[i].path = limited;
        }
    }

    /// Replaces the content of a group's buckets, as another layer left them.
    fn set_debt(&mut self, now: Instant, id: GroupId, debt: &MaxDebt) {
        // An accepted change can remove the group after it has set its debt.
        let node = self.nodes.get_mut(id.0 as usize);
        let Some(node) = node.filter(|node| node.exists) else {
            return;
        };
        let bytes = [debt.read_bandwidth, debt.write_bandwidth, debt.bandwidth];
        for (bucket, debt) in node.bytes.iter_mut().zip(bytes) {
            bucket.set_debt(now, debt.as_nanos());
        }
        let requests = [debt.read_iops, debt.write_iops, debt.iops];
        for (bucket, debt) in node.requests.iter_mut().zip(requests) {
            bucket.set_debt(now, debt.as_nanos());
        }
    }

    /// Counts a request that starts to wait, or (without `more`) that no longer waits.
    #[inline]
    fn count(&mut self, live: &LiveRequest, more: bool) {
        let node = &mut self.nodes[live.group.0 as usize];
        let before = node.waiting[0] + node.waiting[1];
        let side = &mut node.waiting[usize::from(!live.request.op.is_read())];
        if more {
            *side += 1;
            // The list of queues contains a group while it has throttled requests.
            if before == 0 {
                self.queues.push(live.group.0);
            }
        } else {
            *side = side.saturating_sub(1);
            if before == 1 {
                self.queues.retain(|&g| g != live.group.0);
            }
        }
    }

    #[inline]
    fn released(
        &mut self,
        model: &LayerModel,
        live: &LiveRequest,
        bytes: u64,
        found: &mut Violations,
    ) {
        let request = &live.request;
        if live.released {
            found.add(format_args!("charged twice: {live:?}"));
        }
        // The layer and the client must agree on the size of a request.
        if bytes != request.charge() {
            found.add(format_args!("charged with {bytes} bytes: {request:?}"));
        }
        self.count(live, false);
        let direction = usize::from(!request.op.is_read());
        for i in 0..self.nodes[live.group.0 as usize].path.len() {
            let group = self.nodes[live.group.0 as usize].path[i];
            let node = &mut self.nodes[group as usize];
            let mut above = 0;
            // A request is charged to the limit of its direction and to the common one.
            for side in [direction, COMMON] {
                let late = self.late;
                if node.bytes[side].is_limited() {
                    above = above.max(node.bytes[side].charge(model.now, bytes, late));
                }
                if node.requests[side].is_limited() {
                    let counted = counted(request, node.iops_size);
                    let beyond = node.requests[side].charge(model.now, counted, late);
                    // Later parts of a split request pass with the first one, so they may exceed
                    // the limit on requests.
                    if request.within == 0 {
                        above = above.max(beyond);
                    }
                }
            }
            if above > 0 {
                found.add(format_args!(
                    "group {group} is {above} billionths above its limit before {request:?}"
                ));
            }
        }
    }

    /// Checks that no request is throttled although all limits let it pass before the layer's next
    /// wake-up.
    #[inline]
    fn polled(&mut self, model: &LayerModel, wake: Option<Wake>, found: &mut Violations) {
        self.wake = wake.map(|w| w.at);
        self.unpolled = None;
        // The last nanosecond at which the layer is not yet awake.
        let before = self
            .wake
            .unwrap_or(Instant::MAX)
            .saturating_sub(Span::from_nanos(1))
            .max(model.now);
        for &group in &self.queues {
            let node = &self.nodes[group as usize];
            for direction in [0, 1] {
                if node.waiting[direction] == 0 || !self.all_ready(node, direction, before) {
                    continue;
                }
                let what = ["reads", "writes"][direction];
                // If the wake-up is the limit's own and it is late, the limit throttles too much.
                // If another wake-up hides the limit's, the wake-up is wrong.
                let late = self.all_ready(node, direction, model.now)
                    || wake.is_some_and(|w| w.reason == Reason::Limit);
                found.auditor = if late { Self::NAME } else { WakesAuditor::NAME };
                found.add(format_args!(
                    "{what} of group {group} wait although all limits let them pass, {wake:?}"
                ));
            }
        }
    }

    #[inline]
    fn all_ready(&self, node: &GroupLimits, direction: usize, at: Instant) -> bool {
        node.path.iter().all(|&group| {
            let node = &self.nodes[group as usize];
            [direction, COMMON].iter().all(|&side| {
                let ready = |b: &LeakyBucket| !b.is_limited() || b.is_ready(at);
                ready(&node.bytes[side]) && ready(&node.requests[side])
            })
        })
    }

    fn begin(&mut self, model: &LayerModel, call: &Call<'_>) {
        // The layer is late from its wake-up on, or from the first call after which it was not
        // polled.
        let due = [self.wake, self.unpolled].into_iter().flatten().min();
        self.late = due.map_or(0, |due| model.now.since(due).as_nanos().min(LATENESS_MAX));
        if !matches!(call, Call::Poll { .. }) {
            self.unpolled.get_or_insert(model.now);
        }
    }
}

impl Auditor for LimitLedger {
    const NAME: &'static str = "ledger";

    #[inline]
    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
        match *fact {
            Fact::Begin(call) => self.begin(model, call),
            Fact::Changed(edits, Ok(_)) if self.exact => {
                self.set(model);
                for edit in edits {
                    if let Edit::SetDebt { id, debt } = edit {
                        self.set_debt(model.now, *id, debt);
                    }
                }
            }
            Fact::Accepted(slot) => self.count(model.request(slot), true),
            Fact::Cancelled(Some(slot), true) => {
                let live = model.request(slot);
                if !live.released && !live.given_up {
                    self.count(live, false);
                }
            }
            Fact::Closed(id) => {
                let Some(stream) = model.stream(id) else {
                    return;
                };
                for slot in model.requests_of(stream) {
                    let live = model.request(slot);
                    if !live.released && !live.given_up {
                        self.count(live, false);
                    }
                }
            }
            Fact::Released(Some(slot), bytes) => {
                self.released(model, model.request(slot), bytes, found);
            }
            Fact::Dispatched(Some(slot), piece, false) if !model.request(slot).released => {
                found.add(format_args!("dispatched before it was released: {piece:?}"));
            }
            Fact::Polled(_, wake) if self.exact => self.polled(model, wake, found),
            _ => {}
        }
    }
}
