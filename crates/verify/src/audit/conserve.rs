//! Audits work conservation: if the drive has space and requests wait, they are sent, unless the
//! elevator is allowed to wait.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::{LayerModel, ModelStream};
use weir_core::{Class, Config, Contract, Instant, Op, Reason, Span, Wake, elevator};

/// The longest time for which promises may delay a flush, counted from the time at which the flush
/// could have been dispatched.
const FLUSH_MOST: Span = Span::from_secs(1);

/// The degree to which an elevator must keep the drive busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Conservation {
    /// Every tag is used while requests wait.
    Full,
    /// The drive is never empty while requests wait, unless the elevator idles for a stream.
    Busy,
}

/// The auditor of work conservation, see the module's documentation.
#[derive(Debug)]
pub struct Conserve {
    promise: Conservation,
    /// True if the elevator may delay flushes.
    holds_flushes: bool,
    /// The time from which on a flush could have been dispatched, with none dispatched or completed
    /// since then.
    held: Option<Instant>,
}

impl Conserve {
    pub(crate) fn new(config: &Config) -> Self {
        let promise = match config.elevator {
            // Only `none` has no reason to keep a request that a tag is free for.
            elevator::Config::None => Conservation::Full,
            _ => Conservation::Busy,
        };
        Self {
            promise,
            holds_flushes: matches!(config.elevator, elevator::Config::Contract(_)),
            held: None,
        }
    }

    #[inline]
    fn check(&mut self, model: &LayerModel, wake: Option<Wake>) -> Option<&'static str> {
        if wake.is_some_and(|w| w.reason == Reason::Answers) {
            // The auditor [`WakesAuditor`](crate::audit::WakesAuditor) checks that this wake-up is
            // justified. The next poll sends the requests.
            return None;
        }
        // A queue that returned a piece as busy has no space: that piece is sent again first, when
        // its time comes.
        if !(0..model.queues.len()).any(|queue| model.has_room(queue)) {
            return None;
        }
        if !model.flush_sendable() {
            self.held = None;
        } else if let Some(fault) = self.check_flush(model, wake) {
            return Some(fault);
        }
        if model.sendable == 0 {
            return None;
        }
        match self.promise {
            Conservation::Full => {
                // A stream whose queue has no free scheduler tag cannot reach the elevator.
                let tags = model.config.sizes.scheduler_tags;
                let waits = |s: &ModelStream| {
                    let queue = model.layout.queue_of(s.id);
                    s.sendable > 0 && model.has_room(queue) && model.queues[queue].requests < tags
                };
                let waits = model.streams().any(waits);
                waits.then_some("requests wait and tags are free")
            }
            // How many pieces an elevator keeps in flight is its own decision. It must only not
            // leave the drive empty.
            Conservation::Busy if model.in_flight + model.busy > 0 => None,
            Conservation::Busy => {
                // If flushes are delayed, the elevator may idle for longer than the next flush
                // waits. Its wake-up for the flush then hides the one for idling. If the elevator
                // idled without a reason, the violation shows after the flush was sent.
                let idles = wake.is_some_and(|w| match w.reason {
                    // A retry waits for the drive and not for a stream, so that it justifies no
                    // idling.
                    Reason::Retry => false,
                    Reason::Flush => self.holds_flushes,
                    _ => true,
                });
                (!idles).then_some("requests wait and the drive is empty")
            }
        }
    }

    /// Checks a flush that could have been dispatched and was not.
    fn check_flush(&mut self, model: &LayerModel, wake: Option<Wake>) -> Option<&'static str> {
        let promised = |contract: &Contract| {
            contract.class == Class::Realtime || contract.min > 0 || contract.min_iops > 0
        };
        // Only a promise is a reason to delay a flush.
        if !self.holds_flushes || !model.tree.iter().any(|g| promised(&g.1.contract)) {
            return Some("a flush waits");
        }
        let end = *self.held.get_or_insert(model.now) + FLUSH_MOST;
        if model.now >= end {
            return Some("a flush has waited for too long");
        }
        let asks = wake.is_some_and(|w| w.at <= end);
        (!asks).then_some("a flush waits, and nothing will wake it")
    }
}

impl Auditor for Conserve {
    const NAME: &'static str = "conserve";

    #[inline]
    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
        match *fact {
            Fact::Dispatched(_, piece, _) if piece.op == Op::Flush => self.held = None,
            Fact::Returned(_, Some(flight)) if flight.dispatch.op == Op::Flush => self.held = None,
            Fact::Polled(_, wake) => {
                if let Some(fault) = self.check(model, wake) {
                    found.add(format_args!(
                        "{fault}: {} in the drive, {wake:?}",
                        model.in_flight
                    ));
                }
            }
            _ => {}
        }
    }
}
