//! Audits the priorities of `mq-deadline`: a lower one waits while a higher one has requests, and a
//! request that has waited for long enough does not wait any longer.
//!
//! A piece of a request of a lower priority is sent only if no request of a higher one could be
//! sent or is in the drive, or if its request has waited for `prio_aging_expire`. If all sendable
//! requests of a lower priority have waited for that long, no request of the realtime priority goes
//! before them. The model does not show when a request reached the elevator. It was after the
//! request's submission, and before the last time at which a request of its stream reached the
//! elevator.
//!
//! The elevator does not see requests that wait for a scheduler tag, and a command is as old as the
//! oldest request in it. Where tags are limited or requests are merged, nothing is checked.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::LayerModel;
use weir_core::{
    Config, Dispatch, Event, Instant, Op, PriorityClass, Span, StreamId, StreamSpec, elevator,
};

/// The priority of a stream, and the latest time at which one of its requests reached the elevator.
#[derive(Clone, Copy, Debug)]
struct StreamArrival {
    /// The rank of the priority class, where 0 is the highest.
    priority: usize,
    /// The last time at which one of its requests may have reached the elevator.
    came: Instant,
}

/// The auditor of `mq-deadline`'s priorities, see the module's documentation.
#[derive(Debug)]
pub struct Priorities {
    /// The tunable `prio_aging_expire`, or `None` if nothing is checked.
    age: Option<Span>,
    streams: Vec<StreamArrival>,
}

impl Priorities {
    pub(crate) fn new(config: &Config) -> Self {
        let sizes = &config.sizes;
        // Merged requests would have the age of their oldest member.
        let sees_all = !config.merge.is_on() && !config.merge.ahead;
        let age = match config.elevator {
            elevator::Config::MqDeadline(tunables) if sees_all => {
                // Linux: `dd_depth_updated` sets `async_depth` to three quarters of the requests.
                let tags = sizes.scheduler_tags;
                let for_writes = match tunables.async_depth {
                    0 => (u64::from(tags) * 3 / 4) as u32,
                    stated => stated.min(tags),
                };
                // With as many tags as requests, no request ever waits for a tag unseen by the
                // elevator.
                (for_writes >= sizes.requests).then_some(tunables.prio_aging_expire)
            }
            _ => None,
        };
        let unknown = StreamArrival {
            priority: 0,
            came: Instant::ZERO,
        };
        Self {
            age,
            streams: vec![unknown; sizes.streams as usize],
        }
    }

    fn opened(&mut self, id: StreamId, spec: StreamSpec) {
        if let Some(known) = self.streams.get_mut(id.slot() as usize) {
            known.priority = match spec.priority.class {
                PriorityClass::Realtime => 0,
                PriorityClass::BestEffort => 1,
                PriorityClass::Idle => 2,
            };
        }
    }

    fn of(&self, id: StreamId) -> &StreamArrival {
        &self.streams[id.slot() as usize]
    }

    /// Records that a request of a stream may have reached the elevator.
    fn note_arrival(&mut self, model: &LayerModel, slot: Option<u32>) {
        if let Some(slot) = slot {
            let id = model.request(slot).request.stream;
            self.streams[id.slot() as usize].came = model.now;
        }
    }

    /// Returns true if a request of a higher priority than this one could be sent or is in the
    /// drive.
    fn is_higher_busy(&self, model: &LayerModel, priority: usize) -> bool {
        let mut streams = model.streams();
        let mut tags = model.tags.iter().flatten();
        streams.any(|s| s.sendable > 0 && self.of(s.id).priority < priority)
            || tags.any(|flight| {
                let piece = &flight.dispatch;
                // Flushes have no priority, and a stalled piece occupies no place in the drive.
                let counts = piece.op != Op::Flush && !flight.stalled;
                counts && self.of(piece.stream).priority < priority
            })
    }

    /// Returns true if a request of a priority may have reached the elevator unseen. A stalled
    /// space admits its next request without an event, so the waiting time of that request is not
    /// known.
    fn may_be_fresh(&self, model: &LayerModel, priority: usize) -> bool {
        let of_priority = model
            .streams()
            .filter(|s| self.of(s.id).priority == priority);
        let stalls = model.spaces.iter().any(|space| space.stalls);
        let mut requests = of_priority.flat_map(|stream| model.requests_of(stream));
        stalls && requests.any(|slot| model.request(slot).in_stalled_space)
    }

    /// Returns true if the priority has sendable requests and all of them have waited for `age`.
    fn is_aged(&self, model: &LayerModel, priority: usize, age: Span) -> bool {
        if self.may_be_fresh(model, priority) {
            return false;
        }
        let mut some = false;
        for stream in model.streams().filter(|s| s.sendable > 0) {
            let known = self.of(stream.id);
            if known.priority == priority {
                if model.now.since(known.came) < age {
                    return false;
                }
                some = true;
            }
        }
        some
    }

    fn dispatched(
        &self,
        model: &LayerModel,
        age: Span,
        piece: &Dispatch,
        slot: u32,
        found: &mut Violations,
    ) {
        let priority = self.of(piece.stream).priority;
        let waited = model.now.since(model.request(slot).submitted);
        if priority > 0 && waited < age && self.is_higher_busy(model, priority) {
            found.add(format_args!(
                "{:?} goes after {waited:?} though a higher priority is not done",
                piece.stream
            ));
        }
        if priority == 0 && (1..3).any(|lower| self.is_aged(model, lower, age)) {
            found.add(format_args!(
                "{:?} goes before what has waited for {age:?}",
                piece.stream
            ));
        }
    }
}

impl Auditor for Priorities {
    const NAME: &'static str = "priority";

    #[inline]
    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
        let Some(age) = self.age else { return };
        match *fact {
            Fact::Opened(id, spec) => self.opened(id, spec),
            Fact::Accepted(slot) => self.note_arrival(model, Some(slot)),
            Fact::Released(slot, _) | Fact::Parted(slot) => self.note_arrival(model, slot),
            Fact::Held(id, _) => {
                if let Some(known) = self.streams.get_mut(id.slot() as usize) {
                    known.came = model.now;
                }
            }
            Fact::Event(Event::Passed { stream, .. }) => {
                if let Some(known) = self.streams.get_mut(stream.slot() as usize) {
                    known.came = model.now;
                }
            }
            Fact::Dispatched(Some(slot), piece, false) if piece.op != Op::Flush => {
                self.dispatched(model, age, piece, slot, found);
            }
            _ => {}
        }
    }
}
