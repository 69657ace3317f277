//! Kicks: the decision when to check a queue for requests.

use weir_core::{Instant, Span};

/// The policy by which a guest's kicks are served. Times of more than one second count as one
/// second, so that no guest waits forever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KickPolicy {
    /// Checks the queue at once, and arms again as soon as it is empty.
    AtOnce,
    /// Continues to check the queue for `span` after the last request before it arms. Requests in
    /// that time need neither a kick nor a wake-up, at the cost of processor time. Tens of
    /// microseconds reduce latency.
    Spin {
        /// The time to continue after the last request.
        span: Span,
    },
    /// Ignores kicks for `span` after each wake-up and then checks the queue. In the long run,
    /// there is at most one wake-up per `span`. Hundreds of microseconds save processor time.
    Sleep {
        /// The time to ignore kicks after a wake-up.
        span: Span,
    },
    /// Arms late if wake-ups exceed the rate, or if kicks arrive without requests. Linux's back
    /// ends use this rule against hostile guests (XSA-332).
    Throttle {
        /// The time for each wake-up in the long run.
        interval: Span,
        /// The number of wake-ups that may exceed that rate in a burst.
        burst: u32,
        /// Linux's unit of time. From the second consecutive kick without a request on, the queue
        /// arms after 1, 2, 4, … jiffies, at most after one second. If a kick is received after
        /// more than two jiffies of the same pass of the event loop, the queue arms after ten
        /// jiffies.
        jiffy: Span,
    },
}

/// XSA-332: kicks without a request are delayed from this number of consecutive ones on.
const SPURIOUS: u32 = 2;
/// XSA-332 (`event_loop_timeout`): the permitted duration of a pass of the event loop, in jiffies.
const TURN: u64 = 2;
/// XSA-332 (`event_eoi_delay`): the delay in jiffies before the queue arms after a longer pass.
const TURN_DELAY: u64 = 10;
/// XSA-332: the maximum delay for kicks without requests. Here it limits the times of all policies.
const LONGEST: Span = Span::from_secs(1);

/// The action that the caller must take now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plan {
    /// Take all requests from the queue, then call [`Kicks::on_checked`].
    Look,
    /// Keep checking the queue without requesting a kick. If a request is found, take all requests
    /// and call [`Kicks::on_checked`]. Otherwise call [`Kicks::on_timer`] at this instant.
    Spin(Instant),
    /// Request a kick and check the queue once more. If there are requests, take all of them and
    /// call [`Kicks::on_checked`]. Otherwise sleep until a kick arrives, and call
    /// [`Kicks::on_kick`].
    Arm,
    /// Sleep without requesting a kick and ignore any that arrive. Call [`Kicks::on_timer`] at this
    /// instant.
    Wait(Instant),
    /// Continue with the current action.
    Nothing,
}

/// The state machine that decides when one queue is checked.
#[derive(Clone, Debug)]
pub struct Kicks {
    policy: KickPolicy,
    enabled: bool,
    /// The current action, or [`Plan::Nothing`] before the queue is enabled.
    plan: Plan,
    /// True if a kick caused the last wake-up, and not the end of a wait.
    by_kick: bool,
    /// True if the pass of the event loop had already lasted too long when the kick was received.
    late: bool,
    /// The number of requests found since the last wake-up.
    found: u64,
    /// The time at which a request was last found.
    worked: Instant,
    /// The time up to which wake-ups are paid for: each wake-up adds one interval.
    paid: Instant,
    /// The number of consecutive kicks without a request.
    spurious: u32,
}

impl Kicks {
    /// Creates the machine of a queue that is not yet enabled.
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

    /// Enables the queue and checks it, because a kick may have arrived before.
    pub fn enable(&mut self, now: Instant) -> Plan {
        self.enabled = true;
        // The guest did not cause this wake-up, so it is not charged for it.
        let paid = self.paid;
        let plan = self.wake(now, false);
        self.paid = paid;
        plan
    }

    /// Disables the queue. Kicks are ignored until it is enabled again.
    pub fn disable(&mut self) {
        self.enabled = false;
        self.plan = Plan::Nothing;
    }

    /// Returns the current action, which was returned last.
    pub const fn plan(&self) -> Plan {
        self.plan
    }

    /// Reports a kick that was received in a pass of the event loop that began at `turn`. Pass
    /// `now` if the caller has no passes.
    ///
    /// During a [`Plan::Wait`], a kick changes nothing. The requests that it announces are found at
    /// the end of the wait.
    pub fn on_kick(&mut self, now: Instant, turn: Instant) -> Plan {
        match self.plan {
            _ if !self.enabled => Plan::Nothing,
            Plan::Wait(_) => self.on_timer(now),
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

    /// Reports that the time of the current action may have come.
    pub fn on_timer(&mut self, now: Instant) -> Plan {
        match self.plan {
            Plan::Wait(until) if now >= until => self.wake(now, false),
            Plan::Spin(until) if now >= until => self.set(Plan::Arm),
            plan => plan,
        }
    }

    /// Reports that the queue was checked and is now empty. `found` requests were taken, whether
    /// after [`Plan::Look`], during [`Plan::Spin`] or in the last check of [`Plan::Arm`].
    pub fn on_checked(&mut self, now: Instant, found: u32) -> Plan {
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
            KickPolicy::Sleep { .. } => self.rate_limited_until(0),
            KickPolicy::Throttle { burst, jiffy, .. } => self
                .rate_limited_until(burst)
                .max(self.distrusted_until(now, jiffy)),
        };
        // If nobody kicked and nothing was found, the queue arms. Otherwise an idle guest would
        // wake the back end forever.
        let until = until.filter(|until| *until > now && (self.by_kick || self.found > 0));
        self.set(until.map_or(Plan::Arm, Plan::Wait))
    }

    /// Returns the time until which the queue must sleep to keep the rate of wake-ups, except for
    /// `burst` of them.
    fn rate_limited_until(&self, burst: u32) -> Option<Instant> {
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

    /// Returns the time until which kicks are ignored, because they came without requests or
    /// because the event loop is late already.
    fn distrusted_until(&mut self, now: Instant, jiffy: Span) -> Option<Instant> {
        if self.found > 0 {
            self.spurious = 0;
        } else if self.by_kick {
            self.spurious = self.spurious.saturating_add(1);
        }
        let turn = self
            .late
            .then(|| jiffy.saturating_mul(TURN_DELAY).min(LONGEST));
        // The delay applies once for each kick. The last check of `Plan::Arm` is not another kick.
        self.late = false;
        let doubled = self.spurious.checked_sub(SPURIOUS).filter(|_| self.by_kick);
        // Shifts that would lose bits are far beyond the maximum delay, so the exponent is limited
        // instead.
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
