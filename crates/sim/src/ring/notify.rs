//! The notification policies of the server, for a ring in virtual time.

use weir_config::scenario as said;
use weir_core::{Instant, Span};
use weir_wire::notify::{
    CallPolicy, Calls as Machine, Decision, Gather, KickPolicy, Kicks, Plan, Spdk, Vic,
};

/// The unit in which XSA-332 counts delays: a jiffy of a kernel with 250 of them per second
/// (`CONFIG_HZ=250`).
const JIFFY: Span = Span::from_millis(4);

/// The number of wake-ups by which a throttled guest may be ahead of its rate. The value is an
/// assumption.
const BURST: u32 = 16;

/// Creates the state machine for a queue's kicks, in the enabled state.
pub(super) fn kicks(policy: said::KickReaction) -> Kicks {
    let policy = match policy {
        said::KickReaction::AtOnce => KickPolicy::AtOnce,
        said::KickReaction::Spin(span) => KickPolicy::Spin { span },
        said::KickReaction::Sleep(span) => KickPolicy::Sleep { span },
        said::KickReaction::Throttle(rate) => KickPolicy::Throttle {
            interval: Span::from_nanos(1_000_000_000 / u64::from(rate.max(1))),
            burst: BURST,
            jiffy: JIFFY,
        },
    };
    let mut kicks = Kicks::new(policy);
    kicks.enable(Instant::ZERO);
    kicks
}

/// The time of the machine's own timer, if it has one.
pub(super) fn instant(kicks: &Kicks) -> Option<Instant> {
    match kicks.plan() {
        Plan::Wait(until) | Plan::Spin(until) => Some(until),
        Plan::Look | Plan::Arm | Plan::Nothing => None,
    }
}

/// The state machine for a queue's calls.
#[derive(Debug)]
pub(super) struct CallState {
    machine: Machine,
    /// True if the guest must be called now.
    owed: bool,
}

impl CallState {
    pub(super) fn new(policy: said::CallTiming) -> Self {
        let policy = match policy {
            said::CallTiming::AtOnce => CallPolicy::AtOnce,
            said::CallTiming::Delay { time: delay, count } => {
                CallPolicy::Gather(Gather { count, delay })
            }
            said::CallTiming::Vic => CallPolicy::Vic(Vic::default()),
            said::CallTiming::Spdk(base) => CallPolicy::Spdk(Spdk {
                base,
                ..Spdk::default()
            }),
        };
        Self {
            machine: Machine::new(policy, Gather::MOST),
            owed: false,
        }
    }

    /// Notes a response that the guest can see. `in_flight` is the number of requests without a
    /// response. `wanted` is true if the guest has asked for a call.
    pub(super) fn answered(&mut self, now: Instant, in_flight: u64, wanted: bool) {
        let decision = self.machine.on_published(now, 1, in_flight as u32, wanted);
        self.owed |= decision == Decision::Call;
    }

    /// Returns true if the guest must be called now, once for each call.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        self.owed |= self.machine.on_timer(now) == Decision::Call;
        std::mem::take(&mut self.owed)
    }

    /// The time of the next call even if nothing happens before. A call that is already owed has
    /// the time zero.
    pub(super) fn next(&self) -> Option<Instant> {
        if self.owed {
            return Some(Instant::ZERO);
        }
        self.machine.due()
    }
}
