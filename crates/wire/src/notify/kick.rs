//! Kicks: when the queue is looked at.

use weir_core::{Instant, Span};

/// How a guest's kicks are answered. Every time in it counts as a second if it is longer: nobody is forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KickPolicy {
    /// Look at once, listen again as soon as the queue is empty.
    AtOnce,
    /// After the last request go on looking for `span` before listening: no kick and no wake-up for what comes meanwhile, for
    /// processor time. For latency, tens of microseconds.
    Spin {
        /// How long.
        span: Span,
    },
    /// After each wake-up sleep for `span` without listening, then look: at most one wake-up in `span`, in the long run. For processor
    /// time, hundreds of microseconds.
    Sleep {
        /// How long.
        span: Span,
    },
    /// Listen again late, if wake-ups come faster than the rate, or if kicks come without work: the rule with which Linux's back ends
    /// answer hostile guests (XSA-332).
    Throttle {
        /// One wake-up in `interval`, in the long run.
        interval: Span,
        /// How many wake-ups may come ahead of that.
        burst: u32,
        /// Linux's unit of time: from the second kick in a row without work on, listen again after 1, 2, 4, … of them, at most a second;
        /// a kick that is only heard when the turn of events is in its third: after 10.
        jiffy: Span,
    },
}

/// XSA-332: kicks without work from this one on are answered late.
const SPURIOUS: u32 = 2;
/// XSA-332 (`event_loop_timeout`): how many jiffies a turn of events may last.
const TURN: u64 = 2;
/// XSA-332 (`event_eoi_delay`): after how many jiffies a kick beyond that is listened for again.
const TURN_DELAY: u64 = 10;
/// XSA-332: the longest delay for kicks without work; and here the longest time of any policy.
const LONGEST: Span = Span::from_secs(1);

/// What to do now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plan {
    /// Take everything there is in the queue, then tell [`Kicks::looked`].
    Look,
    /// Stay awake and look again and again, without asking for a kick. When something is found, take everything and tell
    /// [`Kicks::looked`]; else, at this instant, [`Kicks::timer`].
    Spin(Instant),
    /// Ask for a kick and look once more. If there is something, take everything and tell [`Kicks::looked`]; else sleep until a kick comes,
    /// and tell [`Kicks::kicked`].
    Arm,
    /// Sleep without asking for a kick and without listening to any; at this instant, [`Kicks::timer`].
    Wait(Instant),
    /// Nothing: go on with what was to be done.
    Nothing,
}

/// Decides when a queue is looked at.
#[derive(Clone, Debug)]
pub struct Kicks {
    policy: KickPolicy,
    enabled: bool,
    /// What is to be done; [`Plan::Nothing`] before the queue is enabled.
    plan: Plan,
    /// Whether it was a kick that we woke for, and none that was heard late.
    by_kick: bool,
    /// Whether the turn of events had lasted too long when the kick was heard.
    late: bool,
    /// How many requests were found since we woke.
    found: u64,
    /// When a request was last found.
    worked: Instant,
    /// Up to when wake-ups are paid for.
    paid: Instant,
    /// How many kicks in a row came without work.
    spurious: u32,
}

impl Kicks {
    /// A queue that is not yet enabled.
    pub const fn new(policy: KickPolicy) -> Self {
        Self {
            policy,
            enabled: false,
            plan: Plan::Nothing,
            by_kick: false,
            late: false,
            found: 0,
            worked: Instant::ZERO,
            paid: Instant::ZERO,
            spurious: 0,
        }
    }

    /// The queue is enabled: look, since a kick may have come before.
    pub fn enable(&mut self, now: Instant) -> Plan {
        self.enabled = true;
        // It was not the guest that woke us: nothing is charged to it.
        let paid = self.paid;
        let plan = self.wake(now, false);
        self.paid = paid;
        plan
    }

    /// The queue is disabled: kicks mean nothing until it is enabled.
    pub fn disable(&mut self) {
        self.enabled = false;
        self.plan = Plan::Nothing;
    }

    /// What is to be done, as last told.
    pub const fn plan(&self) -> Plan {
        self.plan
    }

    /// A kick was heard, in a turn of events that began at `turn` (`now` if the caller knows no turns). While a [`Plan::Wait`] lasts it
    /// changes nothing: what it stands for is found when the wait is over.
    pub fn kicked(&mut self, now: Instant, turn: Instant) -> Plan {
        match self.plan {
            _ if !self.enabled => Plan::Nothing,
            Plan::Wait(_) => self.timer(now),
            Plan::Look | Plan::Spin(_) => self.plan,
            Plan::Arm | Plan::Nothing => {
                let plan = self.wake(now, true);
                if let KickPolicy::Throttle { jiffy, .. } = self.policy {
                    self.late = now.since(turn) > jiffy.saturating_mul(TURN);
                }
                plan
            }
        }
    }

    /// The instant of the plan is there, or may be.
    pub fn timer(&mut self, now: Instant) -> Plan {
        match self.plan {
            Plan::Wait(until) if now >= until => self.wake(now, false),
            Plan::Spin(until) if now >= until => self.set(Plan::Arm),
            plan => plan,
        }
    }

    /// The queue was looked at, and is empty now: `found` requests were taken, be it after [`Plan::Look`], in [`Plan::Spin`] or in the last
    /// look of [`Plan::Arm`].
    pub fn looked(&mut self, now: Instant, found: u32) -> Plan {
        if !self.enabled {
            return Plan::Nothing;
        }
        self.found += u64::from(found);
        if found > 0 {
            self.worked = now;
        }
        let until = match self.policy {
            KickPolicy::AtOnce => None,
            KickPolicy::Spin { span } => {
                let until = self.worked + span.min(LONGEST);
                let spins = self.found > 0 && now < until;
                return self.set(if spins { Plan::Spin(until) } else { Plan::Arm });
            }
            KickPolicy::Sleep { .. } => self.paid_for(0),
            KickPolicy::Throttle { burst, jiffy, .. } => {
                self.paid_for(burst).max(self.distrust(now, jiffy))
            }
        };
        // A look that nobody asked for and that found nothing: the next request may wake us, else we would wake for ever.
        let until = until.filter(|until| *until > now && (self.by_kick || self.found > 0));
        self.set(until.map_or(Plan::Arm, Plan::Wait))
    }

    /// Until when we sleep, so that wake-ups do not come faster than is paid for, but for `burst`.
    fn paid_for(&self, burst: u32) -> Option<Instant> {
        let ahead = self.interval()?.saturating_mul(u64::from(burst));
        Some(self.paid.saturating_sub(ahead))
    }

    fn interval(&self) -> Option<Span> {
        match self.policy {
            KickPolicy::Sleep { span: interval } | KickPolicy::Throttle { interval, .. } => {
                Some(interval.min(LONGEST))
            }
            KickPolicy::AtOnce | KickPolicy::Spin { .. } => None,
        }
    }

    /// Until when a guest is not listened to that kicks without work, or when we are late already.
    fn distrust(&mut self, now: Instant, jiffy: Span) -> Option<Instant> {
        if self.found > 0 {
            self.spurious = 0;
        } else if self.by_kick {
            self.spurious = self.spurious.saturating_add(1);
        }
        let turn = self
            .late
            .then(|| jiffy.saturating_mul(TURN_DELAY).min(LONGEST));
        // Told once for each kick: the last look of `Plan::Arm` is no other.
        self.late = false;
        let doubled = self.spurious.checked_sub(SPURIOUS).filter(|_| self.by_kick);
        // A shift that loses bits is beyond the longest delay anyway.
        let delay = doubled.map(|n| jiffy.saturating_mul(1 << n.min(62)).min(LONGEST));
        turn.max(delay).map(|delay| now + delay)
    }

    fn wake(&mut self, now: Instant, by_kick: bool) -> Plan {
        (self.by_kick, self.late, self.found) = (by_kick, false, 0);
        if let Some(interval) = self.interval() {
            self.paid = self.paid.max(now) + interval;
        }
        self.set(Plan::Look)
    }

    const fn set(&mut self, plan: Plan) -> Plan {
        self.plan = plan;
        plan
    }
}
