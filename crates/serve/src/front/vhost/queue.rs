//! One virtqueue of a disk: its ring in the guest's memory, the descriptors for notifications, and
//! its progress.

use std::collections::BTreeMap;

use weir_config::{CallRule, WakeRule};
use weir_core::{Instant, Span};
use weir_uring::{GuestMemory, Handle, MappingPart, OpId};
use weir_wire::notify::{CallPolicy, Calls, Decision, Gather, KickPolicy, Kicks, Plan, Spdk, Vic};
use weir_wire::ring::split::{
    Areas, BufferChain, Device, LayoutError, Settings, TakeError, lengths,
};
use weir_wire::ring::{Load, Shared};
use weir_wire::vhost::RingAddresses;

use super::inflight::{InflightLog, InflightState};

/// The offset of the used index in the used area (virtio 1.2, section 2.7.8).
const USED_INDEX: usize = 2;

/// The state of one virtqueue.
#[derive(Debug, Default)]
pub(super) struct Virtqueue {
    pub(super) size: u16,
    /// The available index where service begins, as set by the VMM or left by the last stop.
    pub(super) base: u16,
    pub(super) addresses: Option<RingAddresses>,
    /// True if the VMM has set a kick descriptor. From then on the queue is to be served.
    pub(super) started: bool,
    pub(super) enabled: bool,
    pub(super) kick: Option<Handle>,
    pub(super) call: Option<Handle>,
    pub(super) error: Option<Handle>,
    /// True if the kick descriptor is not the one that is being polled.
    pub(super) exchanged: bool,
    /// The operations on the kick and call descriptors.
    pub(super) polling: Option<OpId>,
    pub(super) calling: Option<OpId>,
    /// True if the guest is to be called again when the current call has ended.
    pub(super) call_again: bool,
    /// The device side of the ring, while the queue is being served.
    pub(super) device: Option<Device<MappingPart>>,
    pub(super) log: Option<InflightLog<MappingPart>>,
    /// Heads that were taken and have to be taken again, by their number. They were in flight when
    /// the previous server of the queue ended, or were taken back for a hand-over.
    pub(super) left: BTreeMap<u64, u16>,
    /// True if `left` is complete and the next start continues at `base`, because another process
    /// has handed the queue over. Otherwise the start reads `left` from the memory that records
    /// requests in flight.
    pub(super) is_inherited: bool,
    /// The number of the next head. Numbers have the order in which heads are taken.
    next: u64,
    /// True if the queue cannot be served any more after an error.
    pub(super) broken: bool,
    /// True if heads were returned that are not published.
    pub(super) dirty: bool,
    /// True if `GET_VRING_BASE` waits for requests in flight.
    pub(super) stopping: bool,
    /// The policies for listening to kicks and for calling the guest, while the queue is being
    /// served.
    pub(super) kicks: Option<Kicks>,
    pub(super) calls: Option<Calls>,
    /// The number of returned heads that are not published.
    pub(super) returned: u32,
    /// A number that changes whenever the queue is set up again, so that requests from before are
    /// recognised.
    pub(super) generation: u32,
}

/// A head that was taken from a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TakenHead {
    pub(super) head: u16,
    /// The number of the head in the order in which heads are taken.
    pub(super) number: u64,
}

/// The policies for notifications between guest and server.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotifyPolicies {
    pub(super) kicks: KickPolicy,
    pub(super) calls: CallPolicy,
    pub(super) limits: Gather,
}

impl NotifyPolicies {
    pub(super) fn new(notify: &weir_config::NotifyRules) -> Self {
        let kicks = match notify.wakes {
            // A guest that kicks repeatedly without requests is listened to less and less often,
            // but at least once per second.
            WakeRule::AtOnce => KickPolicy::Throttle {
                interval: Span::from_micros(1),
                burst: 1000,
                jiffy: Span::from_millis(1),
            },
            WakeRule::Spin(span) => KickPolicy::Spin { span },
            WakeRule::Sleep(span) => KickPolicy::Sleep { span },
        };
        let gather = Gather {
            count: notify.call_count,
            delay: notify.call_delay,
        };
        // The limits bound every policy. For a policy other than gathering, the configured count
        // is one of them.
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

/// The reason why a queue cannot be served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum QueueStartError {
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

impl Virtqueue {
    pub(super) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            ..Self::default()
        }
    }

    /// Returns true if requests are to be taken from the queue.
    pub(super) fn is_active(&self) -> bool {
        self.device.is_some() && !self.broken && (self.accepts() || !self.left.is_empty())
    }

    /// Returns true if new requests are to be taken, and not only those that are left.
    fn accepts(&self) -> bool {
        self.enabled && !self.stopping
    }

    /// Returns true if the queue is to be served and has not been started.
    pub(super) fn is_due(&self) -> bool {
        let wanted = self.enabled || self.is_inherited;
        self.started && wanted && self.device.is_none() && !self.broken
    }

    /// Returns true if nothing has to be done for the queue before it can stop.
    pub(super) fn can_stop(&self) -> bool {
        // The heads that are left in a broken queue are never taken.
        let left = !self.left.is_empty() && !self.broken;
        self.in_flight() == 0 && !self.dirty && !left
    }

    /// Starts serving the queue. `log` is its region of the memory that records requests in flight.
    pub(super) fn start(
        &mut self,
        memory: &GuestMemory,
        settings: Settings,
        log: Option<MappingPart>,
        (notify, now): (&NotifyPolicies, Instant),
    ) -> Result<(), QueueStartError> {
        if self.size == 0 {
            return Err(QueueStartError::Size);
        }
        let at = self.addresses.ok_or(QueueStartError::Addresses)?;
        let [descriptors, available, used] = lengths(self.size);
        let area = |area, address, length, align| {
            let part = memory.user_part(address, length);
            let part = part.ok_or(QueueStartError::Outside { area, address })?;
            if part.is_aligned(align) {
                Ok(part)
            } else {
                Err(QueueStartError::Misaligned { area, address })
            }
        };
        let areas = Areas {
            // Alignments are those of virtio 1.2, section 2.7: 16, 2 and 4 bytes.
            descriptors: area("descriptors", at.descriptors, descriptors, 16)?,
            available: area("available entries", at.available, available, 2)?,
            used: area("used entries", at.used, used, 4)?,
        };
        let published = areas.used.load16(USED_INDEX, Load::Acquire);
        if let Some(part) = log {
            let (log, left) =
                InflightLog::open(part, self.size, published).ok_or(QueueStartError::Log)?;
            self.log = Some(log);
            if !self.is_inherited {
                self.adopt(published, left);
            }
        }
        self.is_inherited = false;
        let settings = Settings {
            size: self.size,
            ..settings
        };
        let device = Device::new(areas, settings, self.base).map_err(QueueStartError::Layout)?;
        self.device = Some(device);
        self.dirty = false;
        let mut kicks = Kicks::new(notify.kicks);
        kicks.enable(now);
        self.kicks = Some(kicks);
        self.calls = Some(Calls::new(notify.calls, notify.limits));
        Ok(())
    }

    /// Continues with the state that an earlier server has left in the memory that records requests
    /// in flight. `published` is the used index.
    fn adopt(&mut self, published: u16, state: InflightState) {
        // Every head that was taken is either in the used ring or in flight, so the two numbers
        // add up to the available index. The record is therefore more reliable than the index
        // of a VMM that was not notified of the last stop.
        if state.is_resumed {
            self.base = published.wrapping_add(state.heads.len() as u16);
        }
        self.set_left(state.heads);
    }

    /// Sets the heads that have to be taken again, in the order in which they were taken.
    pub(super) fn set_left(&mut self, heads: Vec<u16>) {
        self.next = heads.len() as u64;
        self.left = (0..).zip(heads).collect();
    }

    /// Takes the next chain, and reads it into `chain`. Chains that are left come first.
    ///
    /// # Errors
    /// Returns the reason why no chain can be taken, or why the chain is invalid.
    pub(super) fn take(
        &mut self,
        memory: &GuestMemory,
        chain: &mut BufferChain,
    ) -> Result<Option<TakenHead>, TakeError> {
        let accepts = self.accepts();
        let Some(device) = &mut self.device else {
            return Ok(None);
        };
        if let Some((number, head)) = self.left.pop_first() {
            device.retake(head, memory, chain)?;
            return Ok(Some(TakenHead { head, number }));
        }
        let head = if accepts {
            device.take(memory, chain)?
        } else {
            None
        };
        let taken = head.map(|head| TakenHead {
            head,
            number: self.next,
        });
        self.next += u64::from(taken.is_some());
        Ok(taken)
    }

    /// Takes back a chain for which nothing was done. It is taken again before all later ones.
    pub(super) fn put_back(&mut self, taken: TakenHead) {
        if let Some(device) = &mut self.device {
            device.put_back(taken.head);
            self.left.insert(taken.number, taken.head);
        }
    }

    /// Stops serving the queue. Its progress is in `base` afterwards.
    pub(super) fn stop(&mut self) {
        if let Some(device) = self.device.take() {
            self.base = device.base();
        }
        self.log = None;
        (self.kicks, self.calls, self.returned) = (None, None, 0);
        self.left.clear();
        self.is_inherited = false;
        self.started = false;
        self.stopping = false;
        self.broken = false;
        self.dirty = false;
        self.generation = self.generation.wrapping_add(1);
    }

    /// Returns the number of chains that were taken and not returned.
    pub(super) fn in_flight(&self) -> u32 {
        self.device.as_ref().map_or(0, Device::in_flight)
    }

    /// Returns a head with the number of bytes written.
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

    /// Publishes the returned heads to the guest. Returns true if the guest is to be called.
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
        calls.on_published(now, returned, device.in_flight(), wanted) == Decision::Call
    }

    /// Records that polling the queue found `found` requests.
    pub(super) fn record_poll(&mut self, now: Instant, found: u32) {
        // An empty poll counts only if a kick caused it. The shard also polls this queue whenever
        // it runs for other reasons.
        if let Some(kicks) = &mut self.kicks
            && (found > 0 || kicks.plan() == Plan::Look)
        {
            kicks.on_checked(now, found);
        }
    }

    /// Records that a kick was received.
    pub(super) fn on_kick(&mut self, now: Instant) {
        if let Some(kicks) = &mut self.kicks {
            kicks.on_kick(now, now);
        }
    }

    /// Returns true if kicks of the guest are being ignored for now.
    pub(super) fn is_waiting(&self) -> bool {
        let plan = self.kicks.as_ref().map(Kicks::plan);
        matches!(plan, Some(Plan::Wait(_)))
    }

    /// Returns the deadline for polling the queue or calling its guest.
    pub(super) fn due(&self) -> Option<Instant> {
        let wait = match self.kicks.as_ref().map(Kicks::plan) {
            Some(Plan::Wait(until)) => Some(until),
            // The queue is polled all the time, so the shard must not sleep.
            Some(Plan::Spin(_)) => Some(Instant::ZERO),
            _ => None,
        };
        let call = self.calls.as_ref().and_then(Calls::due);
        [wait, call].into_iter().flatten().min()
    }

    /// Runs the timers of both policies. Returns true if the guest is to be called.
    pub(super) fn run_timers(&mut self, now: Instant) -> bool {
        if let Some(kicks) = &mut self.kicks {
            kicks.on_timer(now);
        }
        let calls = self.calls.as_mut();
        calls.is_some_and(|calls| calls.on_timer(now) == Decision::Call)
    }

    /// Returns true if there may be requests to take. An error of the ring counts too, because
    /// taking requests reports it.
    pub(super) fn has_more(&mut self) -> bool {
        let left = !self.left.is_empty();
        self.query_ring(|device| {
            // The server is polling, so the guest need not kick.
            let more = left || device.poll_available() != Ok(0);
            if more {
                device.disarm();
            }
            more
        })
    }

    /// Enables kicks. Returns true if there are already requests to take.
    pub(super) fn arm(&mut self) -> bool {
        let left = !self.left.is_empty();
        self.query_ring(|device| left || device.arm() != Ok(false))
    }

    /// Calls `ask` with the device's side of a queue that is being served and whose kicks are not
    /// throttled. For a queue that is not being served, returns true if it is to be started.
    fn query_ring(&mut self, ask: impl FnOnce(&mut Device<MappingPart>) -> bool) -> bool {
        if !self.is_active() {
            return self.is_due();
        }
        let waits = self.is_waiting();
        self.device.as_mut().filter(|_| !waits).is_some_and(ask)
    }
}
