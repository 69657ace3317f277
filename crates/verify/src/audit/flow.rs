//! Audits flow control. A paused stream is resumed when its queue has drained. A stream that was
//! refused because the layer was full is notified when there is space again. A stream on hold sends
//! nothing. A stream is paused if its throttled requests need more than five seconds at a max above
//! it.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::{LayerModel, LiveRequest, StreamState};
use crate::audit::slices::commands;
use weir_core::{Config, GroupId, Max, Reject, StreamId};

/// The notices that a stream has received, and its throttled requests.
#[derive(Clone, Copy, Debug, Default)]
struct StreamFlow {
    /// True if the stream was paused and not resumed.
    paused: bool,
    /// True if the stream was refused because the layer was full. It must be notified later.
    starved: bool,
    /// True if the stream was refused because it had too many requests queued. By the end of the
    /// next poll it must have been paused or resumed.
    overfull: bool,
    /// The throttled reads and writes, each as requests and bytes.
    held: [[u64; 2]; 2],
    /// True if the stream is in [`FlowAuditor::queued`].
    listed: bool,
}

/// The maximum of throttled requests of a stream that is read from, as the time that they need at
/// the max, in nanoseconds.
const QUEUE_MAX: u128 = 5_000_000_000;

/// The auditor of flow control, see the module's documentation.
#[derive(Debug)]
pub struct FlowAuditor {
    told: Vec<StreamFlow>,
    /// The streams to check when the poll ends. Each fact adds a stream at most once.
    touched: Vec<StreamId>,
    /// The streams with throttled requests.
    queued: Vec<StreamId>,
    /// The longest command in bytes, if limits count commands in slices (`io.max`). `None` if
    /// limits count the requests that clients sent.
    commands: Option<u32>,
}

impl FlowAuditor {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            // The additional entry is for names that no layer of these sizes can have given.
            told: vec![StreamFlow::default(); config.sizes.streams as usize + 1],
            touched: Vec::with_capacity(config.sizes.requests as usize),
            queued: Vec::with_capacity(config.sizes.streams as usize),
            commands: config
                .controllers
                .slices
                .as_ref()
                .map(|_| config.drive.max_transfer),
        }
    }

    fn stream_flow(&mut self, id: StreamId) -> &mut StreamFlow {
        // A forged id may name a slot beyond the table, which the auditor must survive.
        let slot = (id.slot() as usize).min(self.told.len() - 1);
        &mut self.told[slot]
    }

    fn on_notice(&mut self, model: &LayerModel, id: StreamId, pause: bool, found: &mut Violations) {
        if model.stream(id).is_none() {
            found.add(format_args!("{id:?} is told something and does not exist"));
        }
        let told = self.stream_flow(id);
        if pause && told.paused {
            found.add(format_args!("{id:?} is told to pause twice"));
        }
        told.paused = pause;
        // A resume tells the stream that there is space again.
        told.starved &= pause;
        told.overfull = false;
        if pause {
            self.touched.push(id);
        }
    }

    /// Checks at the end of a poll that no stream without requests is paused, and that a stream
    /// with too many is.
    fn check(&mut self, model: &LayerModel, found: &mut Violations) {
        while let Some(id) = self.touched.pop() {
            let Some(stream) = model.stream(id) else {
                continue;
            };
            let live = stream.live;
            let told = self.stream_flow(id);
            if told.paused && live == 0 && stream.state != StreamState::Closing {
                found.add(format_args!("{id:?} is paused and has nothing left"));
            }
            if told.overfull && !told.paused {
                found.add(format_args!(
                    "{id:?} was refused as full and told neither to pause nor to go on"
                ));
            }
            told.overfull = false;
        }
    }

    /// Counts a request that begins to be throttled, or (without `more`) that is no longer
    /// throttled.
    fn count(&mut self, live: &LiveRequest, more: bool) {
        let request = &live.request;
        let requests = match self.commands {
            Some(longest) => commands(request, longest),
            None => u64::from(request.within == 0),
        };
        let told = self.stream_flow(request.stream);
        let held = &mut told.held[usize::from(!request.op.is_read())];
        for (sum, amount) in held.iter_mut().zip([requests, request.charge()]) {
            *sum = if more {
                *sum + amount
            } else {
                sum.saturating_sub(amount)
            };
        }
        if more && !std::mem::replace(&mut told.listed, true) {
            self.queued.push(request.stream);
        }
    }

    /// Stops counting a request that is given up while it is throttled.
    fn on_given_up(&mut self, live: &LiveRequest) {
        if !live.released && !live.given_up {
            self.count(live, false);
        }
    }

    /// Checks at the end of a poll that each stream with more than five seconds of throttled
    /// requests is paused.
    fn check_queues(&mut self, model: &LayerModel, found: &mut Violations) {
        let mut next = 0;
        while let Some(&id) = self.queued.get(next) {
            let told = *self.stream_flow(id);
            let exact = self.commands.is_none();
            let Some(stream) = model.stream(id).filter(|_| told.held != [[0; 2]; 2]) else {
                self.queued.swap_remove(next);
                self.stream_flow(id).listed = false;
                continue;
            };
            next += 1;
            // Every group above the stream throttles its requests, so the slowest one decides.
            let takes = model
                .tree
                .path(stream.group)
                .map(|g| queue_time(model, g, &told.held, exact));
            if !told.paused && takes.fold(0, u128::max) > QUEUE_MAX {
                found.add(format_args!(
                    "{id:?} is read from with more than five seconds held back: {:?}",
                    told.held
                ));
            }
        }
    }
}

/// Returns the time that throttled requests need at the max of a group, in nanoseconds. With
/// `exact`, a long request counts as several if the max specifies a size.
fn queue_time(model: &LayerModel, group: GroupId, held: &[[u64; 2]; 2], exact: bool) -> u128 {
    let max = model.tree.get(group).map_or(Max::NONE, |g| g.contract.max);
    if !max.is_limited() {
        return 0;
    }
    let counted = held.map(|[requests, bytes]| match max.iops_size {
        0 => [requests, bytes],
        size if exact => [requests.max(bytes / size), bytes],
        _ => [requests, bytes],
    });
    let [[reads, read_bytes], [writes, write_bytes]] = counted;
    let time = |amount: u64, rate: u64| match rate {
        0 => 0,
        rate => u128::from(amount) * 1_000_000_000 / u128::from(rate),
    };
    [
        time(reads, max.read_iops),
        time(writes, max.write_iops),
        time(reads + writes, max.iops),
        time(read_bytes, max.read_bandwidth),
        time(write_bytes, max.write_bandwidth),
        time(read_bytes + write_bytes, max.bandwidth),
    ]
    .into_iter()
    .fold(0, u128::max)
}

impl Auditor for FlowAuditor {
    const NAME: &'static str = "flow";

    #[inline]
    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
        match *fact {
            Fact::Opened(id, _) => *self.stream_flow(id) = StreamFlow::default(),
            Fact::Accepted(slot) => {
                self.stream_flow(model.request(slot).request.stream).starved = false;
                self.count(model.request(slot), true);
            }
            Fact::Released(Some(slot), _) => self.count(model.request(slot), false),
            Fact::Cancelled(Some(slot), true) => self.on_given_up(model.request(slot)),
            Fact::Closed(id) => {
                let stream = model.stream(id);
                for slot in stream.into_iter().flat_map(|s| model.requests_of(s)) {
                    self.on_given_up(model.request(slot));
                }
            }
            Fact::Refused(request, Reject::Full) => self.stream_flow(request.stream).starved = true,
            Fact::Refused(request, Reject::StreamFull) => {
                self.stream_flow(request.stream).overfull = true;
                self.touched.push(request.stream);
            }
            // Pieces that were already on their way to the drive when the hold began still go
            // there.
            Fact::Dispatched(slot, piece, false)
                if slot.is_none_or(|s| model.request(s).ahead == 0)
                    && (model.stream(piece.stream))
                        .is_some_and(|s| s.state == StreamState::Held) =>
            {
                found.add(format_args!("a stream on hold sends: {piece:?}"));
            }
            Fact::Done(_, done) if self.stream_flow(done.stream).paused => {
                self.touched.push(done.stream);
            }
            Fact::Pause(id) => self.on_notice(model, id, true, found),
            Fact::Resume(id) => self.on_notice(model, id, false, found),
            Fact::Polled(..) => {
                self.check(model, found);
                self.check_queues(model, found);
            }
            Fact::End => {
                for stream in model.streams() {
                    let StreamFlow {
                        paused, starved, ..
                    } = *self.stream_flow(stream.id);
                    if paused || starved {
                        let what = if paused { "paused" } else { "waiting for room" };
                        found.add(format_args!("{:?} is {what} for ever", stream.id));
                    }
                }
            }
            _ => {}
        }
    }
}
