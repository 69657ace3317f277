//! Flow control: a paused stream is resumed when its queue has drained, a stream that was refused for lack of room is told when
//! there is room, and a stream on hold sends nothing. A stream whose throttled requests need more than five seconds at a max
//! above it is paused.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Found;
use crate::audit::model::{Live, Model, State};
use crate::audit::slices::commands;
use weir_core::{Config, GroupId, Max, Reject, StreamId};

#[derive(Clone, Copy, Debug, Default)]
struct Told {
    paused: bool,
    /// Refused for lack of room, and to be notified.
    starved: bool,
    /// Refused for having too much queued; by the end of the next poll it must have been paused, or resumed.
    overfull: bool,
    /// Reads and writes held back: requests and bytes.
    held: [[u64; 2]; 2],
    /// In the list of those with such.
    listed: bool,
}

/// The most that may be held back, in nanoseconds at the max.
const QUEUE_MAX: u128 = 5_000_000_000;

/// See the module's documentation.
#[derive(Debug)]
pub struct Flow {
    told: Vec<Told>,
    /// Streams to look at when the poll ends; each at most once a fact.
    touched: Vec<StreamId>,
    /// Streams with requests held back.
    queued: Vec<StreamId>,
    /// Limits count in slices, and the commands of this many bytes that a request is split into; `None`: what clients sent.
    commands: Option<u32>,
}

impl Flow {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            // One more, for names that no layer of these limits can have given.
            told: vec![Told::default(); config.sizes.streams as usize + 1],
            touched: Vec::with_capacity(config.sizes.requests as usize),
            queued: Vec::with_capacity(config.sizes.streams as usize),
            commands: config
                .controllers
                .slices
                .as_ref()
                .map(|_| config.drive.max_transfer),
        }
    }

    fn told(&mut self, id: StreamId) -> &mut Told {
        let slot = (id.slot() as usize).min(self.told.len() - 1);
        &mut self.told[slot]
    }

    fn notice(&mut self, model: &Model, id: StreamId, pause: bool, found: &mut Found) {
        if model.stream(id).is_none() {
            found.add(format_args!("{id:?} is told something and does not exist"));
        }
        let told = self.told(id);
        if pause && told.paused {
            found.add(format_args!("{id:?} is told to pause twice"));
        }
        told.paused = pause;
        told.starved &= pause;
        told.overfull = false;
        if pause {
            self.touched.push(id);
        }
    }

    /// At the end of a poll: a stream with nothing left is not paused, a stream with too much is.
    fn check(&mut self, model: &Model, found: &mut Found) {
        while let Some(id) = self.touched.pop() {
            let Some(stream) = model.stream(id) else {
                continue;
            };
            let live = stream.live;
            let told = self.told(id);
            if told.paused && live == 0 && stream.state != State::Closing {
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

    /// A request begins to be held back by its limits, or is no longer.
    fn count(&mut self, live: &Live, more: bool) {
        let request = &live.request;
        let requests = match self.commands {
            Some(longest) => commands(request, longest),
            None => u64::from(request.within == 0),
        };
        let told = self.told(request.stream);
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

    fn given_up(&mut self, live: &Live) {
        if !live.released && !live.given_up {
            self.count(live, false);
        }
    }

    /// At the end of a poll: a stream with more than five seconds of throttled requests must be paused.
    fn check_queues(&mut self, model: &Model, found: &mut Found) {
        let mut next = 0;
        while let Some(&id) = self.queued.get(next) {
            let told = *self.told(id);
            let exact = self.commands.is_none();
            let Some(stream) = model.stream(id).filter(|_| told.held != [[0; 2]; 2]) else {
                self.queued.swap_remove(next);
                self.told(id).listed = false;
                continue;
            };
            next += 1;
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

/// How long requests held back take at the max of a group; `exact`: long requests count as several where the max says so.
fn queue_time(model: &Model, group: GroupId, held: &[[u64; 2]; 2], exact: bool) -> u128 {
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

impl Auditor for Flow {
    const NAME: &'static str = "flow";

    #[inline]
    fn fact(&mut self, model: &Model, fact: &Fact<'_>, found: &mut Found) {
        match *fact {
            Fact::Opened(id, _) => *self.told(id) = Told::default(),
            Fact::Accepted(slot) => {
                self.told(model.request(slot).request.stream).starved = false;
                self.count(model.request(slot), true);
            }
            Fact::Released(Some(slot), _) => self.count(model.request(slot), false),
            Fact::Cancelled(Some(slot), true) => self.given_up(model.request(slot)),
            Fact::Closed(id) => {
                let stream = model.stream(id);
                for slot in stream.into_iter().flat_map(|s| model.requests_of(s)) {
                    self.given_up(model.request(slot));
                }
            }
            Fact::Refused(request, Reject::Full) => self.told(request.stream).starved = true,
            Fact::Refused(request, Reject::StreamFull) => {
                self.told(request.stream).overfull = true;
                self.touched.push(request.stream);
            }
            // What was on its way to the drive before goes there.
            Fact::Dispatched(slot, piece, false)
                if slot.is_none_or(|s| model.request(s).ahead == 0)
                    && (model.stream(piece.stream)).is_some_and(|s| s.state == State::Held) =>
            {
                found.add(format_args!("a stream on hold sends: {piece:?}"));
            }
            Fact::Done(_, done) if self.told(done.stream).paused => self.touched.push(done.stream),
            Fact::Pause(id) => self.notice(model, id, true, found),
            Fact::Resume(id) => self.notice(model, id, false, found),
            Fact::Polled(..) => {
                self.check(model, found);
                self.check_queues(model, found);
            }
            Fact::End => {
                for stream in model.streams() {
                    let Told {
                        paused, starved, ..
                    } = *self.told(stream.id);
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
