//! What the core decides, for those who listen: plots, traces, auditors.

use crate::{Cookie, GroupId, Instant, Op, Span, StreamId};
use alloc::collections::VecDeque;

/// Kinds of events, as a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mask(u8);

impl Mask {
    /// Nobody listens: publishing costs one test.
    pub const NONE: Self = Self(0);
    /// [`Event::Released`], [`Event::Throttled`] and [`Event::Passed`].
    pub const LIMITS: Self = Self(1);
    /// [`Event::Selected`] and [`Event::Expired`].
    pub const TURNS: Self = Self(2);
    /// [`Event::Bound`].
    pub const BOUNDS: Self = Self(4);
    /// [`Event::Learned`].
    pub const LEARNED: Self = Self(8);
    /// Everything.
    pub const ALL: Self = Self(15);

    const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Something the core decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A request passed every limit above it and was charged once, with `bytes` and one request.
    Released {
        /// Whose.
        stream: StreamId,
        /// Its cookie.
        cookie: Cookie,
        /// The stream's group.
        group: GroupId,
        /// Read or write side, by its operation.
        op: Op,
        /// Bytes charged.
        bytes: u32,
    },
    /// A request that has passed every limit is held back for the sake of another group's latency.
    Throttled {
        /// Whose.
        stream: StreamId,
        /// Its cookie.
        cookie: Cookie,
    },
    /// A request that was held back so goes on.
    Passed {
        /// Whose.
        stream: StreamId,
        /// Its cookie.
        cookie: Cookie,
    },
    /// A stream got the drive, with a budget of so many bytes.
    Selected {
        /// Whose turn.
        stream: StreamId,
        /// Its budget.
        budget: u64,
    },
    /// A stream's turn ended.
    Expired {
        /// Whose turn.
        stream: StreamId,
        /// Why.
        reason: Expiry,
        /// Bytes served in the turn.
        served: u64,
        /// Bytes charged for it.
        charged: u64,
    },
    /// What an elevator has learned of the drive, sampled as often as it learns: drive time that pieces take up.
    Learned {
        /// A read of 64 KiB that does not go on where the drive is.
        read: Span,
        /// A write of 64 KiB, likewise.
        write: Span,
        /// What going elsewhere costs.
        away: Span,
        /// How long the drive takes for a piece beyond that: it works on many at a time.
        delay: Span,
        /// What it still has to do for requests that it has answered.
        hidden: Span,
    },
    /// The drive time that others may have in flight for the sake of a group's promise changed.
    Bound {
        /// The group.
        group: GroupId,
        /// The bound.
        span: Span,
    },
}

/// Why a turn ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    /// It was idled for in vain.
    TooIdle,
    /// Its time was up.
    BudgetTimeout,
    /// Its budget was used up.
    BudgetExhausted,
    /// It had no more requests and was not worth idling for.
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
            Self::Learned { .. } => Mask::LEARNED,
        }
    }
}

/// Someone who listens.
pub trait Publish {
    /// Takes one event. Events come in the order in which they were decided.
    fn publish(&mut self, now: Instant, event: Event);
}

/// Events decided since the last [`Layer::drain`](crate::Layer::drain); bounded, the oldest are dropped and counted.
#[derive(Debug)]
pub(crate) struct Events {
    mask: Mask,
    kept: VecDeque<(Instant, Event)>,
    capacity: usize,
    lost: u64,
}

impl Events {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            mask: Mask::NONE,
            kept: VecDeque::new(),
            capacity: capacity as usize,
            lost: 0,
        }
    }

    pub(crate) fn listen(&mut self, mask: Mask) {
        self.mask = mask;
        if mask != Mask::NONE {
            self.kept.reserve(self.capacity);
        }
    }

    /// True if somebody listens to anything.
    #[inline]
    pub(crate) fn listening(&self) -> bool {
        self.mask != Mask::NONE
    }

    #[inline]
    pub(crate) fn publish(&mut self, now: Instant, event: impl FnOnce() -> Event) {
        if self.mask != Mask::NONE {
            self.keep(now, event());
        }
    }

    pub(crate) fn drain(&mut self, listener: &mut dyn Publish) -> u64 {
        for (at, event) in self.kept.drain(..) {
            listener.publish(at, event);
        }
        core::mem::take(&mut self.lost)
    }

    fn keep(&mut self, now: Instant, event: Event) {
        if !self.mask.has(event.kind()) {
            return;
        }
        if self.kept.len() == self.capacity {
            self.kept.pop_front();
            self.lost += 1;
        }
        self.kept.push_back((now, event));
    }
}
