//! Calls: the decision when to notify the guest of responses.

use weir_core::{Instant, Span};

/// The policy by which the guest is notified of responses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallPolicy {
    /// Calls once for each response, or for all responses that are published together.
    AtOnce,
    /// Calls when a number of responses wait, or when the first of them has waited for a time. This
    /// is the interrupt coalescing of `NVMe`.
    Gather(Gather),
    /// Calls for a part of the responses that depends on the number of commands in flight (Ahmad,
    /// Gulati, Mashtizadeh, "vIC: Interrupt Coalescing for Virtual Machine Storage Device IO",
    /// USENIX ATC 2011).
    Vic(Vic),
    /// Keeps a distance between calls that depends on the rate of responses, as SPDK's vhost target
    /// does.
    Spdk(Spdk),
}

/// A number of responses and a time, one of which triggers a call.
///
/// `NVMe` expresses them as THR (the number minus one) and TIME (in units of 100 us). As in `NVMe`,
/// a count of at most 1 or a delay of 0 means that every response is notified at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gather {
    /// The number of waiting responses that triggers a call.
    pub count: u32,
    /// The time after which the first waiting response triggers a call.
    pub delay: Span,
}

/// The parameters of vIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vic {
    /// With fewer other commands in flight than this, every response is notified at once (the
    /// paper's `cifThreshold`, 4). At least 1.
    pub threshold: u32,
    /// With fewer responses per second than this, every response is notified at once
    /// (`iopsThreshold`, 2000).
    pub rate: u32,
    /// The interval at which the ratio of calls to responses is computed again (200 ms).
    pub epoch: Span,
}

impl Default for Vic {
    fn default() -> Self {
        Self {
            threshold: 4,
            rate: 2000,
            epoch: Span::from_millis(200),
        }
    }
}

/// The parameters of SPDK's rule: the time between calls is `base · (rate − threshold) /
/// threshold`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spdk {
    /// The time between calls at twice the threshold. Zero switches the rule off, which is SPDK's
    /// default.
    pub base: Span,
    /// The number of responses per second up to which nothing is delayed (60,000). At least 1.
    pub threshold: u32,
    /// The interval at which responses are counted (10 ms). It must not be zero.
    pub period: Span,
}

impl Default for Spdk {
    fn default() -> Self {
        Self {
            base: Span::ZERO,
            threshold: 60_000,
            period: Span::from_millis(10),
        }
    }
}

impl Gather {
    /// The default limit of every policy: no more responses wait than this, and none waits for
    /// longer.
    pub const MOST: Self = Self {
        count: 256,
        delay: Span::from_millis(10),
    };
}

/// The action that the caller must take now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Call the guest now.
    Call,
    /// Do not call yet, but call [`Calls::on_timer`] at this instant.
    Wait(Instant),
    /// There are no responses of which the guest must be notified.
    Nothing,
}

/// The state machine that decides when the guest of one queue is called.
#[derive(Clone, Debug)]
pub struct Calls {
    policy: CallPolicy,
    /// The limit of every policy on the number of waiting responses and on their waiting time.
    most: Gather,
    /// The number of responses that wait for a call.
    waiting: u32,
    /// The time since which the first of them has been waiting.
    since: Instant,
    /// The time of the last call.
    called: Option<Instant>,
    /// The time by which the guest must be called.
    due: Option<Instant>,
    /// The start of the current epoch or period, to which the two counts refer.
    began: Instant,
    responses: u64,
    outstanding: u32,
    /// vIC's ratio: out of every `ratio.1` responses, `ratio.0` are notified.
    ratio: (u32, u32),
    /// The position of the next response among these, modulo `ratio.1`.
    place: u32,
    /// The time between calls by SPDK's rule.
    delay: Span,
}

impl Calls {
    /// Creates the machine of a new queue. `most` is the limit that no policy exceeds.
    pub const fn new(policy: CallPolicy, most: Gather) -> Self {
        Self {
            policy,
            most,
            waiting: 0,
            since: Instant::ZERO,
            called: None,
            due: None,
            began: Instant::ZERO,
            responses: 0,
            outstanding: 0,
            ratio: (1, 1),
            place: 0,
            delay: Span::ZERO,
        }
    }

    /// Returns the time at which to call [`Self::on_timer`], if nothing happens earlier.
    pub const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns the number of responses that wait for a call.
    pub const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Reports that `responses` were published. `in_flight` commands of the guest are not yet
    /// answered. `wanted` is true if the guest needs a call for the published responses, and false
    /// if it polls.
    pub fn on_published(
        &mut self,
        now: Instant,
        responses: u32,
        in_flight: u32,
        wanted: bool,
    ) -> Decision {
        self.count(now, responses, in_flight);
        // Responses that already wait need a call even if the guest does not need one for the
        // new ones.
        if self.waiting == 0 {
            if !wanted || responses == 0 {
                return Decision::Nothing;
            }
            self.since = now;
        }
        self.waiting = self.waiting.saturating_add(responses);
        let until = self.until(now, responses, in_flight);
        let longest = self.since + self.most.delay;
        let full = self.waiting >= self.most.count;
        match until {
            Some(until) if now < until && now < longest && !full => {
                self.put_off(until.min(longest))
            }
            _ => self.call(now),
        }
    }

    /// Reports that the time of the last decision may have come.
    pub fn on_timer(&mut self, now: Instant) -> Decision {
        match self.due {
            Some(due) if now >= due => self.call(now),
            Some(due) => Decision::Wait(due),
            None => Decision::Nothing,
        }
    }

    /// Returns the time until which the waiting responses may wait, or `None` if they may not wait
    /// at all.
    fn until(&mut self, now: Instant, responses: u32, in_flight: u32) -> Option<Instant> {
        match self.policy {
            CallPolicy::AtOnce => None,
            CallPolicy::Gather(Gather { count, delay }) => {
                (self.waiting < count).then(|| self.since + delay)
            }
            CallPolicy::Vic(vic) => {
                // The counter advances for all responses, so that responses that are notified at
                // once count towards the ratio.
                let told = self.advance(responses);
                let few = in_flight < vic.threshold.max(1);
                // vIC has no timer of its own. The limit of all policies ends the wait.
                (!told && !few).then_some(Instant::MAX)
            }
            CallPolicy::Spdk(_) => self
                .called
                .map(|called| called + self.delay)
                .filter(|until| now < *until),
        }
    }

    /// Advances vIC's counter by `responses`. Returns true if at least one of them must be
    /// notified.
    fn advance(&mut self, responses: u32) -> bool {
        let (calls, of) = self.ratio;
        let first = self.place % of;
        self.place = ((u64::from(first) + u64::from(responses)) % u64::from(of)) as u32;
        // True if the first response is one of the `calls`, or if the range extends into the next
        // cycle and thus contains its start.
        first < calls || u64::from(first) + u64::from(responses) > u64::from(of)
    }

    /// Counts the responses, and computes the parameters of the policy again at the end of an epoch
    /// or period.
    fn count(&mut self, now: Instant, responses: u32, in_flight: u32) {
        match self.policy {
            CallPolicy::Vic(vic) if now >= self.began + vic.epoch => {
                let per_second = rate(self.responses, now.since(self.began));
                self.ratio = ratio(&vic, self.outstanding, per_second);
                self.begin(now);
            }
            CallPolicy::Spdk(spdk) if now >= self.began + spdk.period => {
                // If more than one period has passed, the last one had no responses.
                let lately = now < self.began + spdk.period.saturating_mul(2);
                let counted = if lately { self.responses } else { 0 };
                self.delay = delay(&spdk, counted);
                self.begin(now);
            }
            _ => {}
        }
        self.responses += u64::from(responses);
        // The commands that the guest has sent and not yet been notified of, whether they are
        // completed or not.
        let outstanding = in_flight
            .saturating_add(responses)
            .saturating_add(self.waiting);
        self.outstanding = self.outstanding.max(outstanding);
    }

    const fn begin(&mut self, now: Instant) {
        self.began = now;
        self.responses = 0;
        self.outstanding = 0;
    }

    const fn call(&mut self, now: Instant) -> Decision {
        self.waiting = 0;
        self.due = None;
        self.called = Some(now);
        Decision::Call
    }

    fn put_off(&mut self, until: Instant) -> Decision {
        self.due = Some(until);
        Decision::Wait(until)
    }
}

/// Returns `count` in `span` as a rate per second, saturated at the maximum.
fn rate(count: u64, span: Span) -> u64 {
    let per_second = u128::from(count) * 1_000_000_000 / u128::from(span.as_nanos().max(1));
    u64::try_from(per_second).unwrap_or(u64::MAX)
}

/// Returns vIC's ratio of calls to responses for the maximum of outstanding commands: 1, 4/5, 3/4,
/// 2/3, and then 2 · threshold / outstanding.
fn ratio(vic: &Vic, outstanding: u32, per_second: u64) -> (u32, u32) {
    let threshold = vic.threshold.max(1);
    if per_second < u64::from(vic.rate) {
        return (1, 1);
    }
    match outstanding / threshold {
        0 => (1, 1),
        1 => (4, 5),
        2 => (3, 4),
        3 => (2, 3),
        // The denominator is rounded up, so that there are at most as many calls as the ratio
        // permits.
        _ => (1, outstanding.div_ceil(threshold.saturating_mul(2))),
    }
}

/// Returns SPDK's time between calls after a period with `responses` responses.
fn delay(spdk: &Spdk, responses: u64) -> Span {
    // Numerator and denominator are multiplied by the period, so that no rate has to be rounded.
    let period = spdk.period.as_nanos().max(1);
    let threshold = u128::from(spdk.threshold.max(1)) * u128::from(period);
    let counted = u128::from(responses) * 1_000_000_000;
    let beyond = counted.saturating_sub(threshold);
    let product = u128::from(spdk.base.as_nanos()).saturating_mul(beyond);
    let delay = product / threshold;
    Span::from_nanos(u64::try_from(delay).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_of_vic_matches_the_paper_at_each_step() {
        let vic = Vic::default();
        let steps = [
            (0, (1, 1)),
            (3, (1, 1)),
            // With a threshold of 4, the ratio changes at 4, 8, 12 and 16 outstanding commands.
            (4, (4, 5)),
            (7, (4, 5)),
            (8, (3, 4)),
            (12, (2, 3)),
            (15, (2, 3)),
            (16, (1, 2)),
            // 17 / (2 · 4) is 2.1, rounded up to 3.
            (17, (1, 3)),
            (32, (1, 4)),
            (33, (1, 5)),
            (u32::MAX, (1, 1 << 29)),
        ];
        for (outstanding, expected) in steps {
            assert_eq!(ratio(&vic, outstanding, 2000), expected, "{outstanding}");
            assert_eq!(ratio(&vic, outstanding, 1999), (1, 1), "{outstanding}");
        }
    }

    /// In every cycle of responses, the configured number is notified, however they are grouped
    /// into publications. The expectation is counted response by response.
    #[test]
    fn vic_notifies_its_part_of_the_responses() {
        for ratio in [(1, 1), (4, 5), (3, 4), (2, 3), (1, 2), (1, 4)] {
            for together in 1..8 {
                let policy = CallPolicy::Vic(Vic::default());
                let mut calls = Calls::new(policy, Gather::MOST);
                calls.ratio = ratio;
                for first in (0..40).step_by(together) {
                    // The expected result comes from checking each response alone.
                    let mut these = first..first + together as u32;
                    let expected = these.any(|response| response % ratio.1 < ratio.0);
                    let told = calls.advance(together as u32);
                    assert_eq!(told, expected, "{ratio:?} {together} {first}");
                }
            }
        }
    }

    #[test]
    fn rates_and_delays_are_exact_and_do_not_overflow() {
        assert_eq!(rate(3, Span::from_millis(2)), 1500);
        assert_eq!(rate(u64::MAX, Span::ZERO), u64::MAX);
        let spdk = |base| Spdk {
            base,
            ..Spdk::default()
        };
        // 60,000 responses per second, the threshold, are 600 in 10 ms.
        for (responses, micros) in [(0, 0), (600, 0), (900, 20), (1200, 40), (1800, 80)] {
            let span = delay(&spdk(Span::from_micros(40)), responses);
            assert_eq!(span, Span::from_micros(micros), "{responses}");
        }
        // The largest values must saturate instead of overflowing.
        let most = delay(&spdk(Span::MAX), u64::MAX);
        assert_eq!(most, Span::MAX);
    }

    /// The delay of a period that has just ended applies. It ends after a period without responses.
    #[test]
    fn spdks_delay_lasts_for_a_period() {
        let spdk = Spdk {
            base: Span::from_micros(40),
            ..Spdk::default()
        };
        let ms = |n| Instant::ZERO + Span::from_millis(n);
        // 1200 responses in 10 ms are twice the threshold, so the delay is the base of 40 us. From
        // 20 ms on, a whole period without responses has passed.
        for (next, expected) in [(10, 40), (19, 40), (20, 0)] {
            let mut calls = Calls::new(CallPolicy::Spdk(spdk), Gather::MOST);
            calls.on_published(ms(1), 1200, 0, true);
            calls.on_published(ms(next), 1, 0, true);
            assert_eq!(calls.delay, Span::from_micros(expected), "{next} ms");
        }
    }

    /// The limits are 50 us and three responses.
    #[test]
    fn limits_apply_exactly_at_their_time_and_count() {
        let most = Gather {
            count: 3,
            delay: Span::from_micros(50),
        };
        let mut calls = Calls::new(CallPolicy::Vic(Vic::default()), most);
        // vIC would notify one of 100 responses, so only the limit causes the other calls.
        calls.ratio = (1, 100);
        // The first response of the cycle is notified at once. The second waits until the limit of
        // 50 us has passed.
        let us = |n| Instant::ZERO + Span::from_micros(n);
        assert_eq!(calls.on_published(us(0), 1, 9, true), Decision::Call);
        assert_eq!(
            calls.on_published(us(1), 1, 9, true),
            Decision::Wait(us(51))
        );
        assert_eq!(calls.on_published(us(51), 1, 9, true), Decision::Call);
        // The third waiting response reaches the limit of 3.
        for (now, decision) in [(60, None), (61, None), (62, Some(Decision::Call))] {
            let expected = decision.unwrap_or_else(|| Decision::Wait(us(110)));
            assert_eq!(calls.on_published(us(now), 1, 9, true), expected);
        }
    }
}
