//! Events: the decisions of the core, published for plots, traces and auditors.

use crate::{Cookie, GroupId, Instant, Op, Span, StreamId};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A set of kinds of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mask(u8);

impl Mask {
    /// No events. Publishing costs one comparison then.
    pub const NONE: Self = Self(0);
    /// [`Event::Released`], [`Event::Throttled`] and [`Event::Passed`].
    pub const LIMITS: Self = Self(1);
    /// Turns of streams: [`Event::Selected`] and [`Event::Expired`].
    pub const TURNS: Self = Self(2);
    /// Changes of bounds: [`Event::Bound`].
    pub const BOUNDS: Self = Self(4);
    /// [`Event::Merged`], [`Event::Parted`] and [`Event::Taken`].
    pub const MERGES: Self = Self(8);
    /// Events of all kinds.
    pub const ALL: Self = Self(15);

    const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// A decision of the core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A request passed all limits that apply to it and was charged once, with `bytes` and one
    /// request.
    Released {
        /// The stream that sent the request.
        stream: StreamId,
        /// The driver's name for the request.
        cookie: Cookie,
        /// The group of the stream.
        group: GroupId,
        /// The operation, which determines whether read or write limits apply.
        op: Op,
        /// The bytes that were charged.
        bytes: u64,
    },
    /// A request that has passed its max is delayed by `io.low`, `io.latency` or `io.cost` in
    /// favour of other groups.
    /// other groups.
    Throttled {
        /// The stream that sent the request.
        stream: StreamId,
        /// The driver's name for the request.
        cookie: Cookie,
    },
    /// A request that was delayed in favour of other groups continues.
    Passed {
        /// The stream that sent the request.
        stream: StreamId,
        /// The driver's name for the request.
        cookie: Cookie,
    },
    /// A request, or the command that it leads, has become part of another request's command.
    Merged {
        /// The stream that sent the request.
        stream: StreamId,
        /// The driver's name for the request.
        cookie: Cookie,
        /// The stream whose request leads the command.
        leader: StreamId,
        /// The cookie of the leading request.
        command: Cookie,
    },
    /// The requests of a command were separated again, because one of them was given up or its
    /// stream was put on hold.
    Parted {
        /// The stream whose request led the command.
        stream: StreamId,
        /// The cookie of the leading request.
        cookie: Cookie,
    },
    /// The next piece of a request waits in front of the drive for a tag and can no longer be
    /// stopped ([`merge::Config::ahead`](crate::merge::Config::ahead)).
    Taken {
        /// The stream that sent the request.
        stream: StreamId,
        /// The driver's name for the request.
        cookie: Cookie,
        /// The length of the piece in bytes.
        bytes: u32,
    },
    /// A stream was selected for service, with a budget in bytes.
    Selected {
        /// The stream that was selected.
        stream: StreamId,
        /// The budget of the turn in bytes.
        budget: u64,
    },
    /// The turn of a stream ended.
    Expired {
        /// The stream that was in service.
        stream: StreamId,
        /// The reason for the end of the turn.
        reason: Expiry,
        /// Bytes that were served in the turn.
        served: u64,
        /// Bytes that were charged for the turn.
        charged: u64,
    },
    /// The drive time that other clients may have in flight for the sake of a group's promise
    /// changed.
    Bound {
        /// The group with the promise.
        group: GroupId,
        /// The new bound as drive time.
        span: Span,
    },
}

/// The reason why a turn ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    /// The drive idled for the stream in vain.
    TooIdle,
    /// The time of the turn was over.
    BudgetTimeout,
    /// The budget of the turn was used up.
    BudgetExhausted,
    /// The stream had no more requests and was not worth idling for.
    NoMoreRequests,
    /// A more important stream took the drive.
    Preempted,
}

impl Event {
    const fn kind(&self) -> Mask {
        match self {
            Self::Released { .. } | Self::Throttled { .. } | Self::Passed { .. } => Mask::LIMITS,
            Self::Selected { .. } | Self::Expired { .. } => Mask::TURNS,
            Self::Bound { .. } => Mask::BOUNDS,
            Self::Merged { .. } | Self::Parted { .. } | Self::Taken { .. } => Mask::MERGES,
        }
    }
}

/// A receiver of events.
pub trait Publish {
    /// Receives one event. Events arrive in the order of the decisions.
    fn publish(&mut self, now: Instant, event: Event);
}

/// The identifier of a listener, returned by [`Layer::listen`](crate::Layer::listen). It is valid
/// only for the layer that returned it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Listener(usize);

/// The position of a listener in the sequence of events.
#[derive(Clone, Copy, Debug)]
struct EventCursor {
    mask: Mask,
    /// The number of the first event that the listener has not received.
    next: u64,
    /// The number of events of its mask that were dropped before the listener received them.
    lost: u64,
}

/// A bounded queue of events that at least one listener has not received yet. If it is full, the
/// oldest event is dropped and counted.
#[derive(Debug)]
pub(crate) struct Events {
    /// The union of the masks of all listeners.
    mask: Mask,
    readers: Vec<EventCursor>,
    kept: VecDeque<(Instant, Event)>,
    /// The number of the oldest event in the queue.
    first: u64,
    capacity: usize,
}

impl Events {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            mask: Mask::NONE,
            readers: Vec::new(),
            kept: VecDeque::new(),
            first: 0,
            capacity: capacity as usize,
        }
    }

    /// Adds a listener, which receives the events from now on.
    pub(crate) fn listen(&mut self, mask: Mask) -> Listener {
        self.readers.push(EventCursor {
            mask,
            next: self.end(),
            lost: 0,
        });
        // The mask of all listeners is kept, so that publishing without any costs one comparison.
        self.set_mask();
        // The queue is allocated with the first listener and never grows afterwards, because
        // publishing must not allocate.
        self.kept.reserve(self.capacity - self.kept.len());
        Listener(self.readers.len() - 1)
    }

    /// Stops a listener from receiving events.
    pub(crate) fn dismiss(&mut self, listener: Listener) {
        if let Some(reader) = self.readers.get_mut(listener.0) {
            // The entry remains, because the identifiers of later listeners are indices into the
            // same list.
            reader.mask = Mask::NONE;
            self.set_mask();
            self.trim();
        }
    }

    /// Returns true if any listener exists that wants events.
    #[inline]
    pub(crate) fn has_listeners(&self) -> bool {
        self.mask != Mask::NONE
    }

    #[inline]
    pub(crate) fn publish(&mut self, now: Instant, event: impl FnOnce() -> Event) {
        if self.mask != Mask::NONE {
            self.push_event(now, event());
        }
    }

    /// Passes a listener the events that it has not received, and returns how many of them were
    /// dropped.
    pub(crate) fn drain(&mut self, listener: Listener, out: &mut dyn Publish) -> u64 {
        let end = self.end();
        let Some(reader) = self.readers.get_mut(listener.0) else {
            return 0;
        };
        // A listener with an empty mask does not keep events in the queue, so its position may be
        // before the oldest event.
        let seen = reader.next.saturating_sub(self.first) as usize;
        for (at, event) in self.kept.iter().skip(seen) {
            if reader.mask.has(event.kind()) {
                out.publish(*at, *event);
            }
        }
        reader.next = end;
        let lost = core::mem::take(&mut reader.lost);
        self.trim();
        lost
    }

    /// Returns the number of the next event.
    fn end(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    fn set_mask(&mut self) {
        let masks = self.readers.iter().map(|r| r.mask.0);
        self.mask = Mask(masks.fold(0, |all, mask| all | mask));
    }

    /// Removes the events that every listener has received.
    fn trim(&mut self) {
        let end = self.end();
        let listening = self.readers.iter().filter(|r| r.mask != Mask::NONE);
        let next = listening.map(|r| r.next).min().unwrap_or(end);
        debug_assert!(self.first <= next && next <= end);
        self.kept.drain(..(next - self.first) as usize);
        self.first = next;
    }

    fn push_event(&mut self, now: Instant, event: Event) {
        if !self.mask.has(event.kind()) {
            return;
        }
        self.kept.push_back((now, event));
        if self.kept.len() > self.capacity {
            self.drop_oldest();
        }
    }

    #[cold]
    fn drop_oldest(&mut self) {
        let Some((_, dropped)) = self.kept.pop_front() else {
            return;
        };
        // Only listeners that have not received the oldest event lose it.
        for reader in self.readers.iter_mut().filter(|r| r.next == self.first) {
            reader.next += 1;
            reader.lost += u64::from(reader.mask.has(dropped.kind()));
        }
        self.first += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GroupId;

    impl Publish for Vec<u64> {
        fn publish(&mut self, now: Instant, _event: Event) {
            self.push(now.as_nanos());
        }
    }

    fn bound() -> Event {
        let (group, span) = (GroupId(1), Span::ZERO);
        Event::Bound { group, span }
    }

    fn selected() -> Event {
        let (stream, budget) = (StreamId::from_bits(0), 1);
        Event::Selected { stream, budget }
    }

    /// Returns the events that a listener receives now, as their times, and how many it lost.
    fn drained(events: &mut Events, listener: Listener) -> (Vec<u64>, u64) {
        let mut seen = Vec::new();
        let lost = events.drain(listener, &mut seen);
        (seen, lost)
    }

    fn publish(events: &mut Events, from: u64, to: u64) {
        for n in from..to {
            let event = if n % 2 == 0 { bound() } else { selected() };
            events.publish(Instant::from_nanos(n), || event);
        }
    }

    #[test]
    fn listeners_take_no_events_from_each_other() {
        let mut events = Events::new(8);
        publish(&mut events, 0, 2);
        let all = events.listen(Mask::ALL);
        publish(&mut events, 2, 4);
        let turns = events.listen(Mask::TURNS);
        publish(&mut events, 4, 6);
        // Even events are bounds and odd ones are turns.
        assert_eq!(drained(&mut events, turns), (alloc::vec![5], 0));
        assert_eq!(drained(&mut events, all), (alloc::vec![2, 3, 4, 5], 0));
        assert!(events.kept.is_empty(), "all have seen all");
        publish(&mut events, 6, 8);
        assert_eq!(drained(&mut events, all), (alloc::vec![6, 7], 0));
        assert_eq!(drained(&mut events, turns), (alloc::vec![7], 0));
    }

    #[test]
    fn each_listener_receives_the_number_of_its_lost_events() {
        let mut events = Events::new(4);
        let slow = events.listen(Mask::ALL);
        let turns = events.listen(Mask::TURNS);
        let quick = events.listen(Mask::ALL);
        publish(&mut events, 0, 3);
        assert_eq!(drained(&mut events, quick), (alloc::vec![0, 1, 2], 0));
        // Seven events are more than the four that are kept.
        publish(&mut events, 3, 7);
        assert_eq!(drained(&mut events, quick), (alloc::vec![3, 4, 5, 6], 0));
        // Events 0 to 2 were dropped, of which event 1 was a turn.
        assert_eq!(drained(&mut events, turns), (alloc::vec![3, 5], 1));
        assert_eq!(drained(&mut events, slow), (alloc::vec![3, 4, 5, 6], 3));
        assert_eq!(drained(&mut events, slow), (alloc::vec![], 0));
    }

    #[test]
    fn a_dismissed_listener_keeps_no_events() {
        let mut events = Events::new(4);
        let [gone, stays] = [Mask::ALL, Mask::BOUNDS].map(|mask| events.listen(mask));
        publish(&mut events, 0, 2);
        events.dismiss(gone);
        assert_eq!(drained(&mut events, stays), (alloc::vec![0], 0));
        assert!(events.kept.is_empty());
        publish(&mut events, 2, 4);
        assert_eq!(drained(&mut events, gone), (alloc::vec![], 0));
        events.dismiss(stays);
        assert!(!events.has_listeners());
    }

    #[test]
    fn without_capacity_every_event_is_lost() {
        let mut events = Events::new(0);
        let all = events.listen(Mask::ALL);
        publish(&mut events, 0, 3);
        assert_eq!(drained(&mut events, all), (alloc::vec![], 3));
    }
}
