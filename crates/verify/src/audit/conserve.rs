//! Work conservation: if the drive has room and there is something to send, it is sent, unless the layer waits on purpose and
//! is allowed to.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Found;
use crate::audit::model::{Model, Stream};
use weir_core::{Class, Config, Contract, Instant, Op, Reason, Span, Wake, elevator};

/// Promises may delay a flush by at most this long, counted from the end of the previous flush.
const FLUSH_MOST: Span = Span::from_secs(1);

/// How busy an elevator must keep the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Promise {
    /// Every tag is used.
    Full,
    /// The drive is not idle, unless the elevator idles for a stream.
    Busy,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Conserve {
    promise: Promise,
    /// The elevator may hold flushes back.
    holds_flushes: bool,
    /// Since when no flush has been dispatched or completed although one could have been.
    held: Option<Instant>,
}

impl Conserve {
    pub(crate) fn new(config: &Config) -> Self {
        let promise = match config.elevator {
            elevator::Config::None => Promise::Full,
            _ => Promise::Busy,
        };
        Self {
            promise,
            holds_flushes: matches!(config.elevator, elevator::Config::Contract(_)),
            held: None,
        }
    }

    #[inline]
    fn check(&mut self, model: &Model, wake: Option<Wake>) -> Option<&'static str> {
        if wake.is_some_and(|w| w.reason == Reason::Answers) {
            // Whether that may be is for the auditor of wakes to say; the next poll sends.
            return None;
        }
        // What a queue of the drive returned as busy is sent again first, when its time comes.
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
            Promise::Full => {
                let tags = model.config.sizes.scheduler_tags;
                let waits = |s: &Stream| {
                    let queue = model.layout.queue_of(s.id);
                    s.sendable > 0 && model.has_room(queue) && model.queues[queue].requests < tags
                };
                let waits = model.streams().any(waits);
                waits.then_some("requests wait and tags are free")
            }
            Promise::Busy if model.in_flight + model.busy > 0 => None,
            Promise::Busy => {
                // Where flushes are held back, the elevator may idle for longer than the next of them waits. Then only that is
                // visible; if the elevator idled for nobody, this shows once the flush has gone.
                let idles = wake.is_some_and(|w| match w.reason {
                    Reason::Retry => false,
                    Reason::Flush => self.holds_flushes,
                    _ => true,
                });
                (!idles).then_some("requests wait and the drive is empty")
            }
        }
    }

    /// A flush could be dispatched and was not.
    fn check_flush(&mut self, model: &Model, wake: Option<Wake>) -> Option<&'static str> {
        let promised = |contract: &Contract| {
            contract.class == Class::Realtime || contract.min > 0 || contract.min_iops > 0
        };
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
    fn fact(&mut self, model: &Model, fact: &Fact<'_>, found: &mut Found) {
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
