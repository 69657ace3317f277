//! The order in which a shard takes the requests of its clients. Processor time is shared like the
//! drive's time.
//!
//! A *flow* is all connections and queues through which one peer uses one volume. Only one flow is
//! served at a time, for a bounded *visit*. Every request is charged with its cost for the
//! processor, whether it does I/O or not. Two rules select the next of the flows that have
//! requests, and a third rule throttles some flows:
//!
//! 1. **A volume that is behind its min goes first**, the one furthest behind before the others.
//!    Each min has a clock, like the reservation clock of mClock (Gulati et al., OSDI 2010). Every
//!    request advances the clock by the time for which the min pays for the request, even if the
//!    second rule has selected the request. A request that moves no bytes advances it too, so that
//!    invalid requests use up the reservation like I/O.
//! 2. **Otherwise the order follows the weights.** Each flow has a tag that advances by cost
//!    divided by weight, and the flow with the least tag goes first (start-time fair queueing,
//!    Goyal et al., SIGCOMM 1996). This gives each flow the same service as deficit round robin,
//!    without rounds. Rounds would not work well, because weights differ by up to a factor of
//!    10,000 and the cost of a visit is known only afterwards. A flow that returns keeps its debt,
//!    but never has a credit.
//! 3. **Overhead is throttled** while another volume has a min. Overhead is the cost of requests
//!    that move no data (refused requests, flushes, look-ups, zeroing), and of the part of a page
//!    that a small request does not move. All flows together can use 10 % of the processor for it
//!    ([`OVERHEAD`]). A flood of such requests costs the drive nothing, so nothing else slows it
//!    down. It would occupy not only the shard but also the processors on which other clients run.
//!
//! The peers of one volume share its weight equally, and the connections of one flow are served in
//! turn. The schedule has no clock of its own. The time is passed by the callers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use weir_core::{Instant, Op, Span};
use weir_measure::promise::{PromisedRate, Units};

use crate::places::Peer;
use crate::slab::Slab;

/// Processor time in nanoseconds, estimated for a typical server. The order of flows depends only
/// on proportions. Throttling and the bounds of a turn use the estimate as time.
pub(super) type ProcessorCost = u64;

// Costs are estimated and not measured. A measurement would charge a client for the time that the
// thread was preempted, and a test could not repeat it (docs/decisions/processor-time.md).

/// Cost of parsing a request and answering it.
pub(crate) const REQUEST: ProcessorCost = 200;
/// Cost of a message to a client, either a send or the signal that notifies a guest. Both wake a
/// thread of the client.
const MESSAGE: ProcessorCost = 4_000;
/// Cost of the work of the core and the backend for a request.
const CORE: ProcessorCost = 600;
/// Cost of a look-up of extents in memory, which walks many chunks.
const LOOK_UP: ProcessorCost = 10_000;
/// The number of bytes per nanosecond when data is copied between memory and a socket or guest.
const COPY: u64 = 8;

/// The largest cost of one flow before others are served.
pub(super) const VISIT: ProcessorCost = 25_000;
/// The largest cost of all flows together before answers are sent and new requests are collected.
pub(super) const TURN: ProcessorCost = 100_000;

/// The reciprocal of the fraction of the processor that overhead may use, which is 10 %.
const OVERHEAD: u64 = 10;
/// The time that a flow may use its fraction in advance.
const OVERHEAD_BURST: Span = Span::from_millis(50);
/// The smallest number of bytes that makes a request free of overhead.
const PAGE: u64 = 4096;

/// The largest lag of the clock of a min. Service that a client did not request earlier is not owed
/// later.
const LAG: Span = Span::from_millis(100);
/// The largest lead of the clock. It bounds the debt of a request that is large for a small min.
const LEAD: Span = Span::from_secs(10);
/// A min is served first up to its rate and 1/16 of it, so that a client that lags catches up.
const HEADROOM: u64 = 16;

/// Scale of the tags, so that a cost divided by the largest weight is not zero.
const SCALE: u64 = 1 << 20;

/// Returns the cost of copying `bytes`.
pub(crate) const fn copy_cost(bytes: u64) -> ProcessorCost {
    bytes / COPY
}

/// The work that a client caused for the shard.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct ProcessorWork {
    pub(super) cost: ProcessorCost,
    /// The part of the cost that belongs to requests without data. A request that moves less than
    /// [`PAGE`] counts in proportion to the missing bytes.
    pub(super) overhead: ProcessorCost,
    /// The number of requests that count for a min, and their bytes.
    pub(super) requests: u64,
    pub(super) bytes: u64,
}

impl ProcessorWork {
    /// Adds a message to the client for requests that transferred `bytes`.
    pub(super) fn send(&mut self, bytes: u64) {
        self.cost += MESSAGE;
        self.overhead += MESSAGE * PAGE.saturating_sub(bytes) / PAGE;
    }

    /// Adds a request that enters the core. [`REQUEST`] was added when the request was parsed.
    pub(super) fn add(&mut self, op: Op, length: u32) {
        let bytes = op.transfer(length.into());
        let look_up = if op == Op::Extents { LOOK_UP } else { 0 };
        let cost = CORE + copy_cost(bytes) + look_up;
        self.cost += cost;
        self.overhead += (REQUEST + cost) * PAGE.saturating_sub(bytes) / PAGE;
        self.requests += u64::from(op != Op::Flush);
        self.bytes += op.charge(length.into());
    }
}

/// The terms of a volume's use of the shard's processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessorTerms {
    /// The weight relative to the other volumes of the shard, for the time that the mins leave. At
    /// least 1.
    pub(super) weight: u64,
    /// The min of the volume itself.
    pub(super) min: Option<PromisedRate>,
    /// The number of its tenant on its drive, if the tenant has a min.
    pub(super) tenant: Option<usize>,
}

/// The terms of all volumes of a drive.
#[derive(Clone, Debug, Default)]
pub(super) struct DriveTerms {
    /// The terms by the number of the space.
    pub(super) volumes: Vec<Option<ProcessorTerms>>,
    /// The mins of the drive's tenants.
    pub(super) tenants: Vec<Option<PromisedRate>>,
}

/// A volume of the shard: its drive and its space.
pub(super) type VolumeId = (usize, u32);

/// The flows of a shard.
#[derive(Debug, Default)]
pub(super) struct ClientSchedule {
    drives: Vec<DriveAccount>,
    flows: Slab<Flow>,
    /// Flows with requests by their tag. A flow has at most one entry, with a tag that may be lower
    /// than that of the flow.
    by_weight: BinaryHeap<Reverse<FlowEntry>>,
    /// Flows with requests and a min by its clock, with entries of the same kind.
    by_min: BinaryHeap<Reverse<FlowEntry>>,
    /// Throttled flows by the end of their throttling. Each has one entry.
    throttled: BinaryHeap<Reverse<FlowEntry>>,
    overheads: Overheads,
    /// The tag of the flow that was last chosen by weight.
    virtual_time: u64,
    /// The number of entries made so far. Flows with equal tags are served in the order of their
    /// entries.
    order: u64,
    /// The sum of all mins, in bytes per second.
    promised: u64,
    /// The number of flows with requests that are not throttled.
    ready: usize,
    /// The sum of all costs so far.
    spent: ProcessorCost,
}

/// The number of flows that had overhead recently.
#[derive(Debug, Default)]
struct Overheads {
    /// The number of the current time window. A window is [`OVERHEAD_BURST`] long.
    number: u64,
    /// The number of flows with overhead in the current window, and in the one before.
    flows: u64,
    before: u64,
}

/// The accounts of a drive's volumes and tenants.
#[derive(Debug, Default)]
struct DriveAccount {
    volumes: Vec<VolumeAccount>,
    tenants: Vec<Option<MinClock>>,
    /// The sum of the volumes' mins for each tenant, in bytes per second. The last entry is the sum
    /// of volumes without a tenant.
    sums: Vec<u64>,
}

/// The processor account of a volume.
#[derive(Debug, Default)]
struct VolumeAccount {
    weight: u64,
    min: Option<MinClock>,
    tenant: Option<usize>,
    /// The number of its flows with requests that are not throttled.
    ready: u64,
    /// The costs since [`ClientSchedule::take_spent`] was last called.
    spent: ProcessorCost,
}

/// The reservation clock of a min.
#[derive(Clone, Copy, Debug)]
struct MinClock {
    rate: PromisedRate,
    /// The time up to which the min is fulfilled by past service.
    at: Instant,
}

/// An entry in one of the heaps, ordered by tag and then by age.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct FlowEntry {
    tag: u64,
    order: u64,
    flow: u32,
}

/// The state of a flow (see the head of this file).
#[derive(Debug)]
struct Flow {
    volume: VolumeId,
    peer: Peer,
    /// The number of clients that belong to the flow.
    clients: u32,
    /// The clients with requests, in the order of service.
    ready: VecDeque<u32>,
    tag: u64,
    /// The time up to which past overhead uses up the flow's fraction of the processor.
    overhead_until: Instant,
    /// The last time window in which the flow had overhead.
    overhead_seen: u64,
    is_throttled: bool,
    is_in_weights: bool,
    is_in_mins: bool,
}

impl Flow {
    /// Returns true if the flow can be chosen.
    fn is_ready(&self) -> bool {
        !self.ready.is_empty() && !self.is_throttled
    }
}

impl MinClock {
    /// Returns true if the service by `now` is less than the min.
    fn is_behind(&self, now: Instant) -> bool {
        self.at <= now
    }

    /// Returns the min in bytes per second, with a request counted as a page.
    fn size(&self) -> u64 {
        match self.rate.units {
            Units::Bytes => self.rate.a_second,
            Units::Requests => self.rate.a_second.saturating_mul(4096),
        }
    }

    /// Advances the clock for `work`. `promised` is the sum of all mins.
    ///
    /// The clock advances by the time in which the min pays for the bytes or requests. It advances
    /// at least by the time in which this min's part of the processor, among all mins, pays for the
    /// cost.
    fn advance(&mut self, now: Instant, work: ProcessorWork, promised: u64) {
        let amount = match self.rate.units {
            Units::Bytes => work.bytes,
            Units::Requests => work.requests,
        };
        let rate = self
            .rate
            .a_second
            .saturating_add(self.rate.a_second / HEADROOM);
        let paid = ratio(amount, 1_000_000_000, rate);
        let least = ratio(work.cost, promised, self.size());
        let paid = Span::from_nanos(paid.max(least)).min(LEAD);
        // A clock that lags further than `LAG` has lost the difference.
        self.at = (self.at.max(now.saturating_sub(LAG)) + paid).min(now + LEAD);
    }
}

/// Returns `value * numerator / denominator`, rounded down. The product cannot overflow.
fn ratio(value: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(value) * u128::from(numerator);
    u64::try_from(product / u128::from(denominator.max(1))).unwrap_or(u64::MAX >> 2)
}

impl ClientSchedule {
    /// Replaces the terms of a drive's volumes. The clocks of mins that remain continue.
    pub(super) fn set_terms(&mut self, drive: usize, terms: DriveTerms) {
        while self.drives.len() <= drive {
            self.drives.push(DriveAccount::default());
        }
        let old = &mut self.drives[drive];
        let tenants = terms.tenants.len().max(old.tenants.len());
        old.tenants.resize(tenants, None);
        for (tenant, rate) in old.tenants.iter_mut().zip(terms.tenants) {
            *tenant = renewed(rate, *tenant);
        }
        // Accounts of removed volumes stay, because a flow can still refer to them.
        old.volumes.resize_with(
            terms.volumes.len().max(old.volumes.len()),
            VolumeAccount::default,
        );
        old.sums = vec![0; tenants + 1];
        for (account, terms) in old.volumes.iter_mut().zip(terms.volumes) {
            let terms = terms.unwrap_or_default();
            account.weight = terms.weight.max(1);
            account.min = renewed(terms.min, account.min);
            account.tenant = terms.tenant;
            old.sums[account.tenant.unwrap_or(tenants)] += size(account.min);
        }
        self.promised = self.drives.iter().map(DriveAccount::promised).sum();
        self.list_ready();
    }

    /// Replaces the min of a volume, whose clock continues. The time is proportional to the number
    /// of tenants, unless the volume had no min before.
    pub(super) fn set_min(&mut self, (drive, space): VolumeId, min: Option<PromisedRate>) {
        let drive = &mut self.drives[drive];
        let account = &mut drive.volumes[space as usize];
        let before = account.min;
        account.min = renewed(min, before);
        let tenant = account.tenant.unwrap_or(drive.tenants.len());
        let is_new = before.is_none() && account.ready > 0;
        drive.sums[tenant] = drive.sums[tenant] - size(before) + size(account.min);
        self.promised = self.drives.iter().map(DriveAccount::promised).sum();
        if is_new {
            self.list_ready();
        }
    }

    /// Lists the flows with requests again, because flows may have got a min.
    fn list_ready(&mut self) {
        for number in self.flows.slots() {
            let flow = &self.flows[number];
            if !flow.ready.is_empty() && !flow.is_throttled {
                self.list(number);
            }
        }
    }

    /// Returns the flow of a client that begins to use a volume. It must be left with
    /// [`ClientSchedule::leave`].
    pub(super) fn join(&mut self, volume: VolumeId, peer: Peer) -> u32 {
        let slots = self.flows.slots();
        let mut same = slots.into_iter().filter(|slot| {
            let flow = &self.flows[*slot];
            flow.volume == volume && flow.peer == peer
        });
        if let Some(slot) = same.next() {
            self.flows[slot].clients += 1;
            return slot;
        }
        self.flows.insert(Flow {
            volume,
            peer,
            clients: 1,
            ready: VecDeque::new(),
            tag: self.virtual_time,
            overhead_until: Instant::ZERO,
            overhead_seen: u64::MAX,
            is_throttled: false,
            is_in_weights: false,
            is_in_mins: false,
        })
    }

    /// Removes a client from its flow, and the flow if the client was its last.
    pub(super) fn leave(&mut self, flow: u32, client: u32) {
        self.withdraw(flow, client);
        let of = &mut self.flows[flow];
        of.clients -= 1;
        if of.clients == 0 {
            self.by_weight.retain(|entry| entry.0.flow != flow);
            self.by_min.retain(|entry| entry.0.flow != flow);
            self.throttled.retain(|entry| entry.0.flow != flow);
            self.flows.remove(flow);
        }
    }

    /// Removes a client from those with requests.
    fn withdraw(&mut self, flow: u32, client: u32) {
        let of = &mut self.flows[flow];
        let before = of.ready.len();
        of.ready.retain(|other| *other != client);
        if before > 0 && of.ready.is_empty() && !of.is_throttled {
            self.note_empty(flow);
        }
    }

    /// Lists a client that has or may have requests. It must not be listed yet.
    pub(super) fn push(&mut self, flow: u32, client: u32) {
        let of = &mut self.flows[flow];
        of.ready.push_back(client);
        if of.ready.len() == 1 && !of.is_throttled {
            self.begin(flow);
        }
    }

    /// Makes a flow ready that has requests and is not throttled.
    fn begin(&mut self, flow: u32) {
        let of = &mut self.flows[flow];
        // A flow that was idle gets no credit for the time without requests.
        of.tag = of.tag.max(self.virtual_time);
        self.account(flow).ready += 1;
        self.ready += 1;
        self.list(flow);
    }

    /// Ends the throttling of flows that have waited long enough.
    pub(super) fn release(&mut self, now: Instant) {
        while let Some(Reverse(first)) = self.throttled.peek()
            && first.tag <= now.as_nanos()
        {
            let number = first.flow;
            self.throttled.pop();
            let flow = &mut self.flows[number];
            flow.is_throttled = false;
            if !flow.ready.is_empty() {
                self.begin(number);
            }
        }
    }

    /// Returns the time of the next call of [`ClientSchedule::release`].
    pub(super) fn release_at(&self) -> Option<Instant> {
        let Reverse(first) = self.throttled.peek()?;
        Some(Instant::from_nanos(first.tag))
    }

    /// Returns true if the flow is throttled.
    pub(super) fn is_throttled(&self, flow: u32) -> bool {
        self.flows[flow].is_throttled
    }

    /// Returns true if no client that could be served has requests.
    pub(super) fn is_empty(&self) -> bool {
        self.ready == 0
    }

    /// Removes and returns the client that is served next.
    pub(super) fn pop(&mut self, now: Instant) -> Option<u32> {
        let flow = self.pop_behind_min(now).or_else(|| self.pop_least_tag())?;
        let of = &mut self.flows[flow];
        let client = of.ready.pop_front();
        if of.ready.is_empty() {
            self.note_empty(flow);
        } else {
            self.list(flow);
        }
        client
    }

    /// Counts a flow that is no longer ready.
    fn note_empty(&mut self, flow: u32) {
        self.account(flow).ready -= 1;
        self.ready -= 1;
    }

    /// Charges a flow for work of the processor.
    #[inline]
    pub(super) fn charge(&mut self, flow: u32, now: Instant, work: ProcessorWork) {
        self.spent += work.cost;
        let of = &mut self.flows[flow];
        let DriveAccount {
            volumes, tenants, ..
        } = &mut self.drives[of.volume.0];
        let account = &mut volumes[of.volume.1 as usize];
        account.spent += work.cost;
        let tenant = account.tenant.and_then(|at| tenants.get_mut(at)?.as_mut());
        let (mut is_behind, mut own) = (false, 0);
        for reservation in [account.min.as_mut(), tenant].into_iter().flatten() {
            is_behind |= reservation.is_behind(now);
            own = own.max(reservation.size());
            reservation.advance(now, work, self.promised);
        }
        if !is_behind {
            // Work that a min pays for is not charged to the weight. A flow is counted among the
            // ready ones of its volume only if it has more requests, so it is added here.
            let peers = account.ready + u64::from(!of.is_ready());
            let advance = ratio(work.cost.saturating_mul(peers), SCALE, account.weight);
            of.tag = of.tag.saturating_add(advance);
        }
        // Overhead is limited only for the sake of other mins, and not for that of the flow's
        // own.
        if work.overhead > 0 && self.promised > own {
            self.charge_overhead(flow, now, work.overhead);
        }
    }

    /// Throttles a flow if its overhead has used too much of the processor. All flows with overhead
    /// share the permitted fraction equally.
    fn charge_overhead(&mut self, number: u32, now: Instant, cost: ProcessorCost) {
        let share = OVERHEAD * self.count_overhead(number, now);
        let flow = &mut self.flows[number];
        let used = Span::from_nanos(cost.saturating_mul(share));
        flow.overhead_until = (flow.overhead_until.max(now) + used).min(now + LEAD);
        let until = flow.overhead_until.saturating_sub(OVERHEAD_BURST);
        if flow.is_throttled || until <= now {
            return;
        }
        flow.is_throttled = true;
        let is_ready = !flow.ready.is_empty();
        self.order += 1;
        self.throttled.push(Reverse(FlowEntry {
            tag: until.as_nanos(),
            order: self.order,
            flow: number,
        }));
        if is_ready {
            self.note_empty(number);
        }
    }

    /// Counts a flow that has overhead now. Returns the number of flows with overhead in this time
    /// window or the previous one, whichever is larger.
    fn count_overhead(&mut self, flow: u32, now: Instant) -> u64 {
        let number = now.as_nanos() / OVERHEAD_BURST.as_nanos();
        let window = &mut self.overheads;
        if window.number != number {
            let is_next = window.number + 1 == number;
            *window = Overheads {
                number,
                flows: 0,
                before: if is_next { window.flows } else { 0 },
            };
        }
        if std::mem::replace(&mut self.flows[flow].overhead_seen, number) != number {
            window.flows += 1;
        }
        window.flows.max(window.before)
    }

    /// Returns the sum of the costs of all volumes so far.
    pub(super) fn total(&self) -> ProcessorCost {
        self.spent
    }

    /// Returns the cost of a volume since the previous call.
    pub(super) fn take_spent(&mut self, (drive, space): VolumeId) -> ProcessorCost {
        let volumes = self.drives.get_mut(drive).map(|drive| &mut drive.volumes);
        let account = volumes.and_then(|volumes| volumes.get_mut(space as usize));
        account.map_or(0, |account| std::mem::take(&mut account.spent))
    }

    fn account(&mut self, flow: u32) -> &mut VolumeAccount {
        let (drive, space) = self.flows[flow].volume;
        &mut self.drives[drive].volumes[space as usize]
    }

    /// Returns the earliest clock of the mins that pay for a flow, which is the one furthest
    /// behind.
    fn clock(&self, flow: &Flow) -> Option<Instant> {
        let drive = &self.drives[flow.volume.0];
        let account = &drive.volumes[flow.volume.1 as usize];
        let tenant = account.tenant.and_then(|at| *drive.tenants.get(at)?);
        let clocks = [account.min, tenant].into_iter().flatten();
        clocks.map(|reservation| reservation.at).min()
    }

    /// Lists a flow that has requests, in the order by weight and in the order by min.
    fn list(&mut self, number: u32) {
        self.order += 1;
        let order = self.order;
        let clock = self.clock(&self.flows[number]);
        let flow = &mut self.flows[number];
        if !std::mem::replace(&mut flow.is_in_weights, true) {
            let tag = flow.tag;
            self.by_weight.push(Reverse(FlowEntry {
                tag,
                order,
                flow: number,
            }));
        }
        if let Some(at) = clock
            && !std::mem::replace(&mut flow.is_in_mins, true)
        {
            let tag = at.as_nanos();
            self.by_min.push(Reverse(FlowEntry {
                tag,
                order,
                flow: number,
            }));
        }
    }

    /// Removes and returns the flow that is furthest behind a min.
    fn pop_behind_min(&mut self, now: Instant) -> Option<u32> {
        loop {
            let Reverse(first) = *self.by_min.peek()?;
            let flow = &self.flows[first.flow];
            let clock = self.clock(flow).filter(|_| flow.is_ready());
            let Some(at) = clock else {
                self.by_min.pop();
                self.flows[first.flow].is_in_mins = false;
                continue;
            };
            if at.as_nanos() > first.tag {
                // The flow was served after it was listed, so its entry moves back.
                self.by_min.pop();
                let tag = at.as_nanos();
                self.by_min.push(Reverse(FlowEntry { tag, ..first }));
                continue;
            }
            // The first clock is ahead of its min, and all others are later.
            if at > now {
                return None;
            }
            self.by_min.pop();
            self.flows[first.flow].is_in_mins = false;
            return Some(first.flow);
        }
    }

    /// Removes and returns the flow with the least tag.
    fn pop_least_tag(&mut self) -> Option<u32> {
        loop {
            let Reverse(first) = self.by_weight.pop()?;
            let flow = &mut self.flows[first.flow];
            if !flow.is_ready() {
                flow.is_in_weights = false;
                continue;
            }
            // The flow was charged after it was listed, so its entry moves back.
            if flow.tag > first.tag {
                let tag = flow.tag;
                self.by_weight.push(Reverse(FlowEntry { tag, ..first }));
                continue;
            }
            flow.is_in_weights = false;
            self.virtual_time = self.virtual_time.max(flow.tag);
            return Some(first.flow);
        }
    }
}

impl DriveAccount {
    /// Returns the sum of the mins of volumes and tenants, in bytes per second. A tenant counts
    /// with its own min or the sum of its members' mins, whichever is larger.
    fn promised(&self) -> u64 {
        let alone = self.sums.last().copied().unwrap_or_default();
        let tenants = self.tenants.iter().zip(&self.sums);
        let tenants = tenants.map(|(own, members)| size(*own).max(*members));
        alone.saturating_add(tenants.sum())
    }
}

/// Returns a min in bytes per second, with a request counted as a page.
fn size(min: Option<MinClock>) -> u64 {
    min.as_ref().map_or(0, MinClock::size)
}

/// Returns a reservation with a new rate that continues the clock of the old one.
fn renewed(rate: Option<PromisedRate>, was: Option<MinClock>) -> Option<MinClock> {
    let at = was.map_or(Instant::ZERO, |was| was.at);
    rate.map(|rate| MinClock { rate, at })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::random::Rng;

    const MB: u64 = 1_000_000;
    /// The work of a refused request.
    const REFUSED: ProcessorWork = ProcessorWork {
        cost: REQUEST,
        overhead: REQUEST,
        requests: 0,
        bytes: 0,
    };
    /// The work of a read of 4 KiB.
    const READ: ProcessorWork = ProcessorWork {
        cost: 1000,
        overhead: 0,
        requests: 1,
        bytes: 4096,
    };

    fn volume(weight: u64, min: u64) -> ProcessorTerms {
        ProcessorTerms {
            weight,
            min: PromisedRate::new(min, 0),
            tenant: None,
        }
    }

    /// Creates a schedule of volumes on one drive with these weights and mins. Each volume has one
    /// flow with one client of the same number.
    fn schedule(volumes: &[(u64, u64)]) -> ClientSchedule {
        let mut schedule = ClientSchedule::default();
        let terms = DriveTerms {
            volumes: volumes
                .iter()
                .map(|(weight, min)| Some(volume(*weight, *min)))
                .collect(),
            tenants: Vec::new(),
        };
        schedule.set_terms(0, terms);
        for space in 0..volumes.len() as u32 {
            assert_eq!(schedule.join((0, space), Peer::unknown()), space);
        }
        schedule
    }

    fn at(us: u64) -> Instant {
        Instant::ZERO + Span::from_micros(us)
    }

    /// Serves one visit after another for a second. Each client always has requests, and a visit
    /// does its `work`. Returns the number of visits of each client, and the time without work for
    /// the processor in nanoseconds.
    fn serve(schedule: &mut ClientSchedule, work: &[ProcessorWork]) -> (Vec<u64>, u64) {
        for client in 0..work.len() as u32 {
            schedule.push(client, client);
        }
        let (mut served, mut idle) = (vec![0; work.len()], 0);
        let mut now = at(0);
        while now < at(1_000_000) {
            schedule.release(now);
            let Some(client) = schedule.pop(now) else {
                let until = schedule.release_at().expect("somebody has requests");
                idle += until.since(now).as_nanos();
                now = until;
                continue;
            };
            let work = work[client as usize];
            schedule.charge(client, now, work);
            schedule.push(client, client);
            served[client as usize] += 1;
            now += Span::from_nanos(work.cost);
        }
        (served, idle)
    }

    #[test]
    fn weights_divide_the_processor() {
        let mut schedule = schedule(&[(100, 0), (300, 0), (10_000, 0)]);
        let (served, idle) = serve(&mut schedule, &[READ; 3]);
        let part = |n: usize| served[n] as f64 / served.iter().sum::<u64>() as f64;
        // The weights add up to 10,400.
        for (n, weight) in [(0, 100.0), (1, 300.0), (2, 10_000.0)] {
            let expected = weight / 10_400.0;
            assert!((part(n) / expected - 1.0).abs() < 0.01, "{served:?}");
        }
        assert_eq!(idle, 0);
    }

    #[test]
    fn a_client_behind_its_min_is_served_first_up_to_its_min() {
        let mut volumes = vec![(100, 0); 100];
        volumes[7].1 = 400 * MB;
        let (served, _) = serve(&mut schedule(&volumes), &[READ; 100]);
        // A second has a million requests of 1,000 ns each. The client gets its min and the
        // headroom of 1/16, which is 425 MB/s. The service that its weight would give is contained
        // in that.
        let rest = (1_000_000 - served[7]) / 99;
        let expected = 425 * MB / 4096;
        assert!(served[7].abs_diff(expected) < expected / 20, "{served:?}");
        for other in [0, 50, 99] {
            assert!(served[other].abs_diff(rest) < rest / 20, "{served:?}");
        }
    }

    #[test]
    fn requests_without_data_use_a_tenth_of_the_processor_beside_a_min() {
        for floods in [1, 3, 50] {
            let mut volumes = vec![(100, 0); floods + 1];
            volumes[0].1 = 10 * MB;
            let mut schedule = schedule(&volumes);
            for client in 1..=floods as u32 {
                schedule.push(client, client);
            }
            let visit = ProcessorWork {
                cost: VISIT,
                overhead: VISIT,
                ..ProcessorWork::default()
            };
            // The client with the min sends nothing.
            let (mut now, mut used) = (at(0), 0);
            while now < at(10_000_000) {
                schedule.release(now);
                let Some(client) = schedule.pop(now) else {
                    now = schedule.release_at().unwrap();
                    continue;
                };
                schedule.charge(client, now, visit);
                schedule.push(client, client);
                used += visit.cost;
                now += Span::from_nanos(visit.cost);
            }
            // Ten seconds are 1e10 ns. The limit is 10 %, and the burst comes on top of it.
            let part = used as f64 / 1e10;
            assert!((0.05..0.12).contains(&part), "{floods} floods: {part}");
        }
    }

    #[test]
    fn a_client_is_not_throttled_without_another_min() {
        for mins in [[0, 0], [10 * MB, 0]] {
            let mut schedule = schedule(&[(100, mins[0]), (100, mins[1])]);
            for _ in 0..1000 {
                schedule.charge(0, at(0), REFUSED);
            }
            assert!(!schedule.is_throttled(0), "{mins:?}");
        }
    }

    #[test]
    fn a_min_does_not_permit_a_flood() {
        // Both have the same min. The client that moves no data gets its part, and the other one
        // still reaches its min.
        let mut schedule = schedule(&[(100, 100 * MB), (100, 100 * MB)]);
        let (served, _) = serve(&mut schedule, &[READ, REFUSED]);
        assert!(served[0] > 100 * MB / 4096, "{served:?}");
        assert!(served[1] * REQUEST < 200 * MB, "{served:?}");
    }

    #[test]
    fn a_small_request_has_the_overhead_of_its_missing_bytes() {
        let work = |op, length| {
            let mut work = ProcessorWork::default();
            work.add(op, length);
            work
        };
        let page = work(Op::Read, 4096);
        assert_eq!((page.overhead, page.requests, page.bytes), (0, 1, 4096));
        let small = work(Op::Read, 1024).overhead;
        assert_eq!(small, (REQUEST + CORE + copy_cost(1024)) * 3 / 4);
        let flush = work(Op::Flush, 0);
        assert_eq!((flush.overhead, flush.requests), (REQUEST + CORE, 0));
    }

    /// A client with requests is served once for each time it was listed, and none waits for ever.
    #[test]
    fn every_client_is_served_in_the_end() {
        let mut rng = Rng::new(7);
        for _ in 0..200 {
            let count = rng.range(1, 20) as u32;
            let volumes: Vec<_> = (0..count)
                .map(|_| {
                    (
                        rng.range(1, 10_000),
                        [0, rng.range(1, 500 * MB)][rng.range(0, 1) as usize],
                    )
                })
                .collect();
            let mut schedule = schedule(&volumes);
            let (mut listed, mut now) = (vec![false; count as usize], at(0));
            let mut waits = vec![0_u64; count as usize];
            for _ in 0..2000 {
                let client = rng.range(0, u64::from(count) - 1) as u32;
                if !std::mem::replace(&mut listed[client as usize], true) {
                    schedule.push(client, client);
                }
                schedule.release(now);
                if rng.range(0, 2) > 0
                    && let Some(client) = schedule.pop(now)
                {
                    assert!(std::mem::take(&mut listed[client as usize]), "listed once");
                    let work = [READ, REFUSED][rng.range(0, 1) as usize];
                    schedule.charge(client, now, work);
                    waits[client as usize] = 0;
                }
                if rng.range(0, 99) == 0 {
                    let terms = DriveTerms {
                        volumes: volumes
                            .iter()
                            .map(|(w, _)| Some(volume(*w, rng.range(0, 9) * MB)))
                            .collect(),
                        tenants: Vec::new(),
                    };
                    schedule.set_terms(0, terms);
                }
                if rng.range(0, 20) == 0 {
                    schedule.set_min((0, client), PromisedRate::new(rng.range(0, 9) * MB, 0));
                    let mins = schedule.drives[0].volumes.iter().map(|v| size(v.min));
                    assert_eq!(schedule.promised, mins.sum::<u64>());
                }
                now += Span::from_nanos(rng.range(0, 100_000));
            }
            // No more requests arrive, so all clients must be served.
            while listed.iter().any(|listed| *listed) {
                schedule.release(now);
                match schedule.pop(now) {
                    Some(client) => assert!(std::mem::take(&mut listed[client as usize])),
                    None => {
                        now = schedule
                            .release_at()
                            .expect("it is throttled, not forgotten");
                    }
                }
            }
            assert!(schedule.is_empty() && schedule.pop(now).is_none());
            for client in 0..count {
                schedule.leave(client, client);
            }
            assert_eq!(schedule.flows.len(), 0);
        }
    }

    #[test]
    fn peers_of_one_volume_share_its_weight() {
        let mut schedule = schedule(&[(100, 0), (100, 0)]);
        let other = Peer::host(Some("10.0.0.2:1".parse().unwrap()));
        assert_eq!(schedule.join((0, 1), other), 2);
        assert_eq!(
            schedule.join((0, 1), other),
            2,
            "a second connection of the peer"
        );
        let (served, _) = serve(&mut schedule, &[READ; 3]);
        let volume = served[1] + served[2];
        assert!(served[0].abs_diff(volume) < volume / 20, "{served:?}");
        assert!(served[1].abs_diff(served[2]) < volume / 20, "{served:?}");
    }
}
