//! What the server's notification says, for a ring in virtual time.

use weir_config::scenario as said;
use weir_core::{Instant, Span};
use weir_wire::notify::{
    CallPolicy, Calls as Machine, Decision, Gather, KickPolicy, Kicks, Plan, Spdk, Vic,
};

/// XSA-332 counts in jiffies: 4 ms, with 250 of them a second.
const JIFFY: Span = Span::from_millis(4);

/// Wake-ups that a throttled guest may have ahead of its rate; assumed.
const BURST: u32 = 16;

/// The queue's machine for kicks, enabled.
pub(super) fn kicks(policy: said::Kicks) -> Kicks {
    let policy = match policy {
        said::Kicks::AtOnce => KickPolicy::AtOnce,
        said::Kicks::Spin(span) => KickPolicy::Spin { span },
        said::Kicks::Sleep(span) => KickPolicy::Sleep { span },
        said::Kicks::Throttle(rate) => KickPolicy::Throttle {
            interval: Span::from_nanos(1_000_000_000 / u64::from(rate.max(1))),
            burst: BURST,
            jiffy: JIFFY,
        },
    };
    let mut kicks = Kicks::new(policy);
    kicks.enable(Instant::ZERO);
    kicks
}

/// When the machine wants to hear of its instant, if nothing happens before.
pub(super) fn instant(kicks: &Kicks) -> Option<Instant> {
    match kicks.plan() {
        Plan::Wait(until) | Plan::Spin(until) => Some(until),
        Plan::Look | Plan::Arm | Plan::Nothing => None,
    }
}

/// Calls of a queue.
#[derive(Debug)]
pub(super) struct Calls {
    machine: Machine,
    /// The guest is to be called now.
    owed: bool,
}

impl Calls {
    pub(super) fn new(policy: said::Calls) -> Self {
        let policy = match policy {
            said::Calls::AtOnce => CallPolicy::AtOnce,
            said::Calls::Delay { time: delay, count } => {
                CallPolicy::Gather(Gather { count, delay })
            }
            said::Calls::Vic => CallPolicy::Vic(Vic::default()),
            said::Calls::Spdk(base) => CallPolicy::Spdk(Spdk {
                base,
                ..Spdk::default()
            }),
        };
        Self {
            machine: Machine::new(policy, Gather::MOST),
            owed: false,
        }
    }

    /// A response can be seen, and `in_flight` requests are yet to be answered. `wanted`: the guest has asked to be told of it.
    pub(super) fn answered(&mut self, now: Instant, in_flight: u64, wanted: bool) {
        let decision = self.machine.published(now, 1, in_flight as u32, wanted);
        self.owed |= decision == Decision::Call;
    }

    /// The guest is to be called now; true once.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        self.owed |= self.machine.timer(now) == Decision::Call;
        std::mem::take(&mut self.owed)
    }

    /// When it is to be called, if nothing happens before; the beginning of time if now.
    pub(super) fn next(&self) -> Option<Instant> {
        if self.owed {
            return Some(Instant::ZERO);
        }
        self.machine.due()
    }
}
