//! One queue of a disk: where it lies, by which descriptors both sides wake each other, and how far it was served.

use std::collections::VecDeque;

use weir_config::{CallRule, Wakes};
use weir_core::{Instant, Span};
use weir_uring::{GuestMemory, Handle, OpId, Part};
use weir_wire::notify::{CallPolicy, Calls, Decision, Gather, KickPolicy, Kicks, Plan, Spdk, Vic};
use weir_wire::ring::split::{Areas, Device, LayoutError, Settings, lengths};
use weir_wire::ring::{Load, Shared};
use weir_wire::vhost::RingAddresses;

use super::inflight::Log;

/// Where the used index stands in its area.
const USED_INDEX: usize = 2;

/// A queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) size: u16,
    /// The available index up to which it was served when it was last stopped, or was told.
    pub(super) base: u16,
    pub(super) addresses: Option<RingAddresses>,
    /// A kick's descriptor was told, or that there is none: it is to be served.
    pub(super) started: bool,
    pub(super) enabled: bool,
    pub(super) kick: Option<Handle>,
    pub(super) call: Option<Handle>,
    pub(super) error: Option<Handle>,
    /// The descriptor of kicks is another than that which is polled.
    pub(super) exchanged: bool,
    /// The operations on them.
    pub(super) polling: Option<OpId>,
    pub(super) calling: Option<OpId>,
    /// The guest is to be called again once the call under way has ended.
    pub(super) call_again: bool,
    /// While it is served.
    pub(super) device: Option<Device<Part>>,
    pub(super) log: Option<Log<Part>>,
    /// Heads that were in flight when the process that served the queue before went away.
    pub(super) left: VecDeque<u16>,
    /// It cannot go on, and the guest was told.
    pub(super) broken: bool,
    /// Heads were returned that are not published.
    pub(super) dirty: bool,
    /// `GET_VRING_BASE` waits for what is in flight.
    pub(super) stopping: bool,
    /// When it is looked at, and when its guest is called.
    pub(super) kicks: Option<Kicks>,
    pub(super) calls: Option<Calls>,
    /// Heads returned that are not published.
    pub(super) returned: u32,
    /// Counts how often it was made anew: answers to requests from before belong to nobody.
    pub(super) generation: u32,
}

/// When queues are looked at, and when guests are called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notify {
    pub(super) kicks: KickPolicy,
    pub(super) calls: CallPolicy,
    pub(super) limits: Gather,
}

impl Notify {
    pub(super) fn new(notify: &weir_config::Notify) -> Self {
        let kicks = match notify.wakes {
            // A guest that kicks again and again without work is listened to later and later, but once in a second.
            Wakes::AtOnce => KickPolicy::Throttle {
                interval: Span::from_micros(1),
                burst: 1000,
                jiffy: Span::from_millis(1),
            },
            Wakes::Spin(span) => KickPolicy::Spin { span },
            Wakes::Sleep(span) => KickPolicy::Sleep { span },
        };
        let gather = Gather {
            count: notify.call_count,
            delay: notify.call_delay,
        };
        let mut limits = Gather::MOST;
        if notify.calls != CallRule::Gather && gather.count > 1 {
            limits.count = gather.count;
        }
        let calls = match notify.calls {
            CallRule::Gather if gather.count > 1 && gather.delay > Span::ZERO => {
                CallPolicy::Gather(gather)
            }
            CallRule::Gather => CallPolicy::AtOnce,
            CallRule::Vic => {
                if gather.delay > Span::ZERO {
                    limits.delay = gather.delay;
                }
                CallPolicy::Vic(Vic::default())
            }
            CallRule::Spdk => CallPolicy::Spdk(Spdk {
                base: gather.delay,
                ..Spdk::default()
            }),
        };
        Self {
            kicks,
            calls,
            limits,
        }
    }
}

/// Why a queue cannot be served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error("the queue size is not set")]
    Size,
    #[error("the queue addresses are not set")]
    Addresses,
    #[error("the {area} of the queue at {address:#x} are not in one region of the guest's memory")]
    Outside { area: &'static str, address: u64 },
    #[error("the {area} of the queue at {address:#x} are not aligned")]
    Misaligned { area: &'static str, address: u64 },
    #[error("{0}")]
    Layout(LayoutError),
    #[error("the memory of the requests in flight belongs to another queue")]
    Log,
}

impl Queue {
    pub(super) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            ..Self::default()
        }
    }

    /// Whether requests are to be taken from it.
    pub(super) fn is_active(&self) -> bool {
        self.device.is_some() && self.enabled && !self.broken && !self.stopping
    }

    /// It is to be served, and it is not known yet whether it can be.
    pub(super) fn is_due(&self) -> bool {
        self.started && self.enabled && self.device.is_none() && !self.broken
    }

    /// Begins to serve it. `log` is its part of the memory in which is noted what is in flight.
    pub(super) fn start(
        &mut self,
        memory: &GuestMemory,
        settings: Settings,
        log: Option<Part>,
        (notify, now): (&Notify, Instant),
    ) -> Result<(), StartError> {
        if self.size == 0 {
            return Err(StartError::Size);
        }
        let at = self.addresses.ok_or(StartError::Addresses)?;
        let [descriptors, available, used] = lengths(self.size);
        let area = |area, address, length, align| {
            let part = memory.user_part(address, length);
            let part = part.ok_or(StartError::Outside { area, address })?;
            if part.is_aligned(align) {
                Ok(part)
            } else {
                Err(StartError::Misaligned { area, address })
            }
        };
        let areas = Areas {
            descriptors: area("descriptors", at.descriptors, descriptors, 16)?,
            available: area("available entries", at.available, available, 2)?,
            used: area("used entries", at.used, used, 4)?,
        };
        let published = areas.used.load16(USED_INDEX, Load::Acquire);
        if let Some(part) = log {
            let (log, left) = Log::open(part, self.size, published).ok_or(StartError::Log)?;
            self.log = Some(log);
            // What is in flight was taken after what is in the used ring, and nothing else was: the notes know better than a monitor
            // that was not told where its queue stopped.
            if left.is_resumed {
                self.base = published.wrapping_add(left.heads.len() as u16);
            }
            self.left = left.heads.into();
        }
        let settings = Settings {
            size: self.size,
            ..settings
        };
        let device = Device::new(areas, settings, self.base).map_err(StartError::Layout)?;
        self.device = Some(device);
        self.dirty = false;
        let mut kicks = Kicks::new(notify.kicks);
        kicks.enable(now);
        self.kicks = Some(kicks);
        self.calls = Some(Calls::new(notify.calls, notify.limits));
        Ok(())
    }

    /// It is not served any more; how far it was is in `base`.
    pub(super) fn stop(&mut self) {
        if let Some(device) = self.device.take() {
            self.base = device.base();
        }
        self.log = None;
        (self.kicks, self.calls, self.returned) = (None, None, 0);
        self.left.clear();
        self.started = false;
        self.stopping = false;
        self.broken = false;
        self.dirty = false;
        self.generation = self.generation.wrapping_add(1);
    }

    /// Chains taken and not returned.
    pub(super) fn in_flight(&self) -> u32 {
        self.device.as_ref().map_or(0, Device::in_flight)
    }

    /// Returns a head.
    pub(super) fn finish(&mut self, head: u16, written: u32) {
        let Some(device) = &mut self.device else {
            return;
        };
        if let Some(log) = &mut self.log {
            log.finish(head);
        }
        device.finish(head, written);
        self.returned += 1;
        self.dirty = true;
    }

    /// Lets the guest see what was returned; true if it is to be called.
    pub(super) fn publish(&mut self, now: Instant) -> bool {
        self.dirty = false;
        let (Some(device), Some(calls)) = (&mut self.device, &mut self.calls) else {
            return false;
        };
        let wanted = device.publish();
        if let Some(log) = &mut self.log {
            log.published(device.used_index());
        }
        let returned = std::mem::take(&mut self.returned);
        calls.published(now, returned, device.in_flight(), wanted) == Decision::Call
    }

    /// A look found `found` requests.
    pub(super) fn looked(&mut self, now: Instant, found: u32) {
        // Once for each kick: to be looked at by the way is no look that it has caused.
        if let Some(kicks) = &mut self.kicks
            && (found > 0 || kicks.plan() == Plan::Look)
        {
            kicks.looked(now, found);
        }
    }

    /// A kick was heard.
    pub(super) fn kicked(&mut self, now: Instant) {
        if let Some(kicks) = &mut self.kicks {
            kicks.kicked(now, now);
        }
    }

    /// Its guest's kicks are not listened to now.
    pub(super) fn is_waiting(&self) -> bool {
        let plan = self.kicks.as_ref().map(Kicks::plan);
        matches!(plan, Some(Plan::Wait(_)))
    }

    /// When it has to be looked at, or its guest called.
    pub(super) fn due(&self) -> Option<Instant> {
        let wait = match self.kicks.as_ref().map(Kicks::plan) {
            Some(Plan::Wait(until)) => Some(until),
            // It is looked at all the time.
            Some(Plan::Spin(_)) => Some(Instant::ZERO),
            _ => None,
        };
        let call = self.calls.as_ref().and_then(Calls::due);
        [wait, call].into_iter().flatten().min()
    }

    /// Does what is due; true if its guest is to be called.
    pub(super) fn run_timers(&mut self, now: Instant) -> bool {
        if let Some(kicks) = &mut self.kicks {
            kicks.timer(now);
        }
        let calls = self.calls.as_mut();
        calls.is_some_and(|calls| calls.timer(now) == Decision::Call)
    }

    /// Whether there may be something to take; what is wrong with the queue counts, since it is to be said.
    pub(super) fn has_more(&mut self) -> bool {
        let left = !self.left.is_empty();
        self.ask(|device| {
            let more = left || device.look() != Ok(0);
            if more {
                device.disarm();
            }
            more
        })
    }

    /// Asks for a kick; true if there is something to take already.
    pub(super) fn arm(&mut self) -> bool {
        let left = !self.left.is_empty();
        self.ask(|device| left || device.arm() != Ok(false))
    }

    /// Asks the rings of a queue that is served and waits for nothing; of one that is to be begun, whether that is due.
    fn ask(&mut self, ask: impl FnOnce(&mut Device<Part>) -> bool) -> bool {
        if !self.is_active() {
            return self.is_due();
        }
        let waits = self.is_waiting();
        self.device.as_mut().filter(|_| !waits).is_some_and(ask)
    }
}
