//! Tests of notification: golden decisions, and models that check the bounds for random guests
//! under random policies.

use proptest::prelude::*;
use std::fmt::Write as _;
use weir_core::{Instant, Span};
use weir_wire::notify::{CallPolicy, Calls, Decision, Gather, KickPolicy, Kicks, Plan, Spdk, Vic};

const SECOND: u64 = 1_000_000_000;

fn ns(n: u64) -> Instant {
    Instant::from_nanos(n)
}

fn us(n: u64) -> Instant {
    Instant::from_nanos(n * 1000)
}

fn span(us: u64) -> Span {
    Span::from_micros(us)
}

/// A guest: the times of its requests, and of kicks that were not requested.
struct ScriptedGuest {
    requests: Vec<u64>,
    storms: Vec<u64>,
}

/// The record of a run.
#[derive(Default)]
struct QueueRecord {
    /// The time at which each request was taken.
    taken: Vec<u64>,
    /// The time of each wake-up.
    wakes: Vec<u64>,
    /// The number of kicks that the queue had requested.
    kicks: usize,
}

/// Runs a guest against a queue until all requests are taken. Each request takes `work` ns, and
/// checking takes no time.
fn run(policy: KickPolicy, guest: &ScriptedGuest, work: u64) -> QueueRecord {
    let mut kicks = Kicks::new(policy);
    let mut seen = QueueRecord::default();
    let mut plan = kicks.enable(ns(0));
    let (mut now, mut storm) = (0, 0);
    // Takes the requests that have arrived by `now`.
    let take = |seen: &mut QueueRecord, now: &mut u64| {
        let mut found = 0;
        while guest
            .requests
            .get(seen.taken.len())
            .is_some_and(|at| at <= now)
        {
            seen.taken.push(*now);
            *now += work;
            found += 1;
        }
        found
    };
    for _ in 0..1_000_000 {
        let next = guest.requests.get(seen.taken.len()).copied();
        plan = match plan {
            Plan::Look => {
                let found = take(&mut seen, &mut now);
                kicks.on_checked(ns(now), found)
            }
            Plan::Spin(until) => match next {
                Some(at) if at < until.as_nanos() => {
                    now = now.max(at);
                    let found = take(&mut seen, &mut now);
                    kicks.on_checked(ns(now), found)
                }
                _ => {
                    now = now.max(until.as_nanos());
                    kicks.on_timer(ns(now))
                }
            },
            Plan::Arm => {
                let found = take(&mut seen, &mut now);
                if found > 0 {
                    plan = kicks.on_checked(ns(now), found);
                    continue;
                }
                // Kicks that arrived while the queue ignored them count as one kick now.
                let empty = guest.storms.get(storm).copied().map(|at| at.max(now));
                storm += guest.storms[storm..]
                    .iter()
                    .take_while(|at| **at <= now)
                    .count();
                let Some(at) = next.into_iter().chain(empty).min() else {
                    return seen;
                };
                // A kick without a request at the same time as a requested one is the same kick.
                seen.kicks += usize::from(next == Some(at));
                storm += usize::from(guest.storms.get(storm) == Some(&at));
                now = at;
                seen.wakes.push(now);
                kicks.on_kick(ns(now), ns(now))
            }
            Plan::Wait(until) => {
                assert!(until > ns(now), "a wait that is over");
                now = until.as_nanos();
                seen.wakes.push(now);
                kicks.on_timer(ns(now))
            }
            Plan::Nothing => panic!("an enabled queue has something to do"),
        };
    }
    // No policy may need more steps than this for a few hundred events.
    panic!("it goes on for ever: {policy:?}");
}

/// Returns the maximum time that a request waits, and the interval and the burst of wake-ups in the
/// long run, as `docs/rings.md` states them.
fn bounds(policy: KickPolicy) -> (u64, u64, u64) {
    match policy {
        KickPolicy::AtOnce | KickPolicy::Spin { .. } => (0, 0, 0),
        KickPolicy::Sleep { span } => (2 * span.as_nanos(), span.as_nanos(), 0),
        KickPolicy::Throttle {
            interval,
            burst,
            jiffy,
        } => {
            let (interval, jiffy) = (interval.as_nanos(), jiffy.as_nanos());
            // With a jiffy of 0, kicks without requests cause no delay.
            let late = if jiffy > 0 { SECOND } else { 0 };
            (late.max(2 * interval), interval, u64::from(burst))
        }
    }
}

fn kick_policy() -> impl Strategy<Value = KickPolicy> {
    let micros = || (1u64..2000).prop_map(span);
    prop_oneof![
        Just(KickPolicy::AtOnce),
        micros().prop_map(|span| KickPolicy::Spin { span }),
        micros().prop_map(|span| KickPolicy::Sleep { span }),
        (micros(), 0u32..20, micros()).prop_map(|(interval, burst, jiffy)| {
            KickPolicy::Throttle {
                interval,
                burst,
                jiffy,
            }
        }),
    ]
}

/// Random increasing times, with gaps of all sizes.
fn times(most: usize) -> impl Strategy<Value = Vec<u64>> {
    let gap = prop_oneof![0u64..10, 0u64..10_000, 0u64..1_000_000, 0u64..50_000_000];
    prop::collection::vec(gap, 0..most).prop_map(|gaps| {
        let mut at = 0;
        let sum = |gap| {
            at += gap;
            at
        };
        gaps.into_iter().map(sum).collect()
    })
}

proptest! {
    /// Every request is taken in time, and there are no more wake-ups than the policy permits.
    #[test]
    fn a_kick_is_served_late_but_never_lost(
        policy in kick_policy(),
        requests in times(100),
        storms in times(200),
        work in 0u64..20_000,
    ) {
        let guest = ScriptedGuest { requests, storms };
        let seen = run(policy, &guest, work);
        prop_assert_eq!(seen.taken.len(), guest.requests.len());
        let (wait, interval, burst) = bounds(policy);
        let mut free = 0;
        for (taken, came) in seen.taken.iter().zip(&guest.requests) {
            // Behind other requests, a request also waits for their work.
            let ready = free.max(*came);
            prop_assert!(*taken >= *came && *taken <= ready + wait, "{} {}", came, taken);
            free = taken + work;
        }
        for (first, from) in seen.wakes.iter().enumerate() {
            for (wakes, to) in (1..).zip(&seen.wakes[first..]) {
                // Any sequence of wake-ups may exceed the rate by the burst and two
                // (`docs/rings.md`, Kicks).
                let most = (to - from).checked_div(interval).map_or(u64::MAX, |paid| paid + burst + 2);
                prop_assert!(wakes <= most, "{} wake-ups in {} ns", wakes, to - from);
            }
        }
    }
}

#[test]
fn empty_kicks_are_checked_with_growing_delays() {
    let jiffy = Span::from_millis(4);
    let policy = KickPolicy::Throttle {
        interval: Span::ZERO,
        burst: 0,
        jiffy,
    };
    let mut kicks = Kicks::new(policy);
    kicks.enable(ns(0));
    assert_eq!(kicks.on_checked(ns(0), 0), Plan::Arm);
    let mut now = us(1);
    let mut delays = Vec::new();
    // The first kick without a request has no delay. From the second on, the delays are 4 ms · 2^n,
    // at most 1 s.
    for _ in 0..14 {
        assert_eq!(kicks.on_kick(now, now), Plan::Look);
        if let Plan::Wait(until) = kicks.on_checked(now, 0) {
            delays.push(until.since(now).as_nanos() / 1_000_000);
            // A kick during the wait changes nothing, and the check after the wait finds nothing,
            // so the queue arms.
            assert_eq!(kicks.on_kick(now, now), Plan::Wait(until), "nobody listens");
            assert_eq!(kicks.on_timer(until), Plan::Look);
            assert_eq!(kicks.on_checked(until, 0), Plan::Arm);
            now = until;
        }
    }
    let expected = [
        4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000, 1000, 1000,
    ];
    assert_eq!(delays, expected);
    // One request ends the distrust.
    assert_eq!(kicks.on_kick(now, now), Plan::Look);
    assert_eq!(kicks.on_checked(now, 1), Plan::Arm);
    // The pass of the event loop has lasted exactly two jiffies when the kick arrives, and then
    // slightly more than two.
    let turn = now.saturating_sub(jiffy.saturating_mul(2));
    assert_eq!(kicks.on_kick(now, turn), Plan::Look);
    assert_eq!(kicks.on_checked(now, 1), Plan::Arm);
    // Two jiffies of 4 ms are 8,000,000 ns.
    let turn = now.saturating_sub(Span::from_nanos(8_000_001));
    assert_eq!(kicks.on_kick(now, turn), Plan::Look);
    assert_eq!(
        kicks.on_checked(now, 1),
        Plan::Wait(now + jiffy.saturating_mul(10))
    );
}

#[test]
fn a_wait_that_has_already_elapsed_is_skipped() {
    // The work takes as long as the sleep would, from 10 us to 210 us, so the queue arms at once.
    let mut kicks = Kicks::new(KickPolicy::Sleep { span: span(200) });
    kicks.enable(us(0));
    kicks.on_checked(us(0), 0);
    assert_eq!(kicks.on_kick(us(10), us(10)), Plan::Look);
    assert_eq!(kicks.on_checked(us(210), 1), Plan::Arm);
    let mut kicks = Kicks::new(KickPolicy::Spin { span: Span::ZERO });
    kicks.enable(us(0));
    assert_eq!(kicks.on_checked(us(0), 1), Plan::Arm);
    // The queue does not spin if there has never been a request.
    let mut kicks = Kicks::new(KickPolicy::Spin { span: span(20) });
    kicks.enable(us(0));
    assert_eq!(kicks.on_checked(us(0), 0), Plan::Arm);
    let most = Gather {
        count: 9,
        delay: span(50),
    };
    let gather = Gather {
        count: 8,
        delay: span(100),
    };
    // The limit of 50 us is shorter than the policy's delay of 100 us.
    let mut calls = Calls::new(CallPolicy::Gather(gather), most);
    assert_eq!(
        calls.on_published(us(0), 1, 9, true),
        Decision::Wait(us(50))
    );
    assert_eq!(calls.on_timer(us(49)), Decision::Wait(us(50)), "not yet");
    assert_eq!(calls.on_published(us(50), 1, 9, true), Decision::Call);
    assert_eq!(calls.on_timer(us(50)), Decision::Nothing);
}

#[test]
fn vic_delays_nothing_below_its_rate() {
    let mut calls = Calls::new(CallPolicy::Vic(Vic::default()), Gather::MOST);
    let mut now = ns(0);
    // 1000 responses per second are below the rate of 2000, and 2500 (one in 400 us) are above it.
    for (gap, delayed) in [(1_000, false), (400, true), (1_000, false)] {
        let mut waits = 0;
        for step in 0..2000u64 {
            now += span(gap);
            if calls.due().is_some_and(|due| due <= now) {
                calls.on_timer(now);
            }
            let waited = calls.on_published(now, 1, 31, true) != Decision::Call;
            // The ratio of the previous epoch still applies for up to one more, so the first 400 ms
            // do not count.
            waits += u64::from(waited && step * gap > 400_000);
        }
        assert_eq!(waits > 0, delayed, "one in {gap} us");
    }
}

#[test]
fn policies_delay_a_request_by_at_most_two_seconds() {
    // Each time of a policy counts as at most one second, so these times are in fact one second.
    let ever = Span::MAX;
    let throttle = KickPolicy::Throttle {
        interval: ever,
        burst: u32::MAX,
        jiffy: ever,
    };
    for policy in [
        KickPolicy::Spin { span: ever },
        KickPolicy::Sleep { span: ever },
        throttle,
    ] {
        let guest = ScriptedGuest {
            requests: vec![10, 20, 3 * SECOND, 9 * SECOND],
            storms: vec![30; 5],
        };
        let seen = run(policy, &guest, 1);
        for (taken, came) in seen.taken.iter().zip(&guest.requests) {
            // The bound is two seconds, plus the work of the two requests.
            assert!(
                *taken <= came + 2 * SECOND + 2,
                "{policy:?}: {taken} after {came}"
            );
        }
    }
}

#[test]
fn a_kick_before_the_queue_is_enabled_is_not_lost() {
    let mut kicks = Kicks::new(KickPolicy::AtOnce);
    assert_eq!(kicks.on_kick(us(1), us(1)), Plan::Nothing);
    assert_eq!(kicks.on_checked(us(1), 1), Plan::Nothing);
    assert_eq!(kicks.enable(us(2)), Plan::Look);
    assert_eq!(kicks.on_checked(us(2), 1), Plan::Arm);
    // Kicks mean nothing while the queue is disabled, and enabling it checks it.
    kicks.disable();
    assert_eq!(kicks.on_kick(us(3), us(3)), Plan::Nothing);
    assert_eq!(kicks.enable(us(4)), Plan::Look);
}

/// The record of a guest with a fixed number of commands in flight.
struct ClosedLoopRecord {
    calls: u64,
    responses: u64,
    /// The longest time that a response waited for its call, in ns.
    longest: u64,
}

/// Runs a guest for 4 s that keeps `depth` commands in flight. Each takes `service` ns on one of
/// `servers` servers. The guest sends the next command when it is called. Events before `from` are
/// not counted.
fn closed(
    calls: &mut Calls,
    depth: u32,
    (servers, service): (u32, u64),
    from: u64,
) -> ClosedLoopRecord {
    let mut seen = ClosedLoopRecord {
        calls: 0,
        responses: 0,
        longest: 0,
    };
    let mut busy = std::collections::BinaryHeap::<std::cmp::Reverse<u64>>::new();
    let (mut queued, mut told) = (depth, Vec::new());
    let mut now = 0;
    while now < 4 * SECOND {
        while queued > 0 && (busy.len() as u32) < servers {
            busy.push(std::cmp::Reverse(now + service));
            queued -= 1;
        }
        let due = calls.due().map(Instant::as_nanos);
        let next = busy.peek().map(|reverse| reverse.0);
        now = due
            .into_iter()
            .chain(next)
            .min()
            // If neither a call nor a completion is due, the guest would wait forever.
            .expect("nobody sleeps for ever");
        let decision = if next == Some(now) {
            busy.pop();
            told.push(now);
            seen.responses += u64::from(now >= from);
            calls.on_published(ns(now), 1, queued + busy.len() as u32, true)
        } else {
            calls.on_timer(ns(now))
        };
        if decision == Decision::Call {
            seen.calls += u64::from(now >= from);
            for response in told.drain(..) {
                seen.longest = seen.longest.max(now - response);
                queued += 1;
            }
        }
    }
    seen
}

fn adaptive() -> [CallPolicy; 2] {
    let spdk = Spdk {
        base: span(40),
        ..Spdk::default()
    };
    [CallPolicy::Vic(Vic::default()), CallPolicy::Spdk(spdk)]
}

#[test]
fn adaptive_policies_delay_no_call_below_their_threshold_at_depth_1() {
    for policy in adaptive() {
        // At depth 1, 17 us per request are 58,800 responses per second, slightly below SPDK's
        // threshold of 60,000.
        for service in [17_000, 50_000, 4_000_000] {
            let mut calls = Calls::new(policy, Gather::MOST);
            let seen = closed(&mut calls, 1, (1, service), 0);
            assert_eq!(
                (seen.longest, seen.calls),
                (0, seen.responses),
                "{policy:?} {service}"
            );
            let (each, longest) = (service / 1000, seen.longest);
            println!("depth 1, {each} us each, {policy:?}: longest delay {longest} ns");
        }
    }
}

#[test]
fn adaptive_policies_send_a_call_per_four_requests_at_depth_32() {
    let gather = Gather {
        count: 8,
        delay: span(100),
    };
    let spdk = Spdk {
        base: span(20),
        ..Spdk::default()
    };
    for policy in [
        CallPolicy::Vic(Vic::default()),
        CallPolicy::Gather(gather),
        CallPolicy::Spdk(spdk),
    ] {
        for (servers, service) in [(1, 5_000), (4, 20_000), (32, 80_000)] {
            let mut calls = Calls::new(policy, Gather::MOST);
            // The first epoch of vIC (200 ms) does not count, because nothing is known before its
            // end.
            let seen = closed(&mut calls, 32, (servers, service), SECOND / 4);
            let calls = seen.calls;
            // At most one call for four responses, with four more for the ends of the interval.
            assert!(4 * calls <= seen.responses + 4, "{policy:?}: {calls}");
            let ratio = calls as f64 / seen.responses as f64;
            println!("depth 32, {servers} servers, {policy:?}: {ratio:.3} calls a request");
        }
    }
}

#[test]
fn spdks_delay_ends_with_the_load() {
    let spdk = Spdk {
        base: span(100),
        ..Spdk::default()
    };
    let most = Gather::MOST;
    let mut calls = Calls::new(CallPolicy::Spdk(spdk), most);
    // Twice the threshold, 120,000 responses per second (one in 8.333 us), for 30 ms.
    let mut delayed = 0;
    for step in 0..3600u64 {
        let decision = calls.on_published(ns(step * 8_333), 1, 32, true);
        delayed += u64::from(decision != Decision::Call);
    }
    assert!(delayed > 1000, "{delayed} of 3600 were delayed");
    // One response a second later and another one directly after it are not delayed, because the
    // period without responses ended the delay.
    assert_eq!(calls.on_timer(ns(SECOND)), Decision::Call);
    assert_eq!(
        calls.on_published(ns(2 * SECOND), 1, 0, true),
        Decision::Call
    );
    assert_eq!(
        calls.on_published(ns(2 * SECOND + 1), 1, 0, true),
        Decision::Call
    );
    // The delay also ends after a period with few responses.
    let mut calls = Calls::new(CallPolicy::Spdk(spdk), most);
    for step in 0..2400u64 {
        calls.on_published(ns(step * 8_333), 1, 32, true);
    }
    for step in 0..20u64 {
        calls.on_timer(ns(20_000_000 + step * SECOND / 1000));
        calls.on_published(ns(20_000_000 + step * SECOND / 1000), 1, 1, true);
    }
    let at = 41_000_000;
    assert_eq!(calls.on_published(ns(at), 1, 1, true), Decision::Call);
    assert_eq!(calls.on_published(ns(at + 1), 1, 1, true), Decision::Call);
}

fn call_policy() -> impl Strategy<Value = CallPolicy> {
    let micros = || (0u64..3000).prop_map(span);
    prop_oneof![
        Just(CallPolicy::AtOnce),
        (0u32..40, micros()).prop_map(|(count, delay)| CallPolicy::Gather(Gather { count, delay })),
        (0u32..10, 0u32..5000, micros()).prop_map(|(threshold, rate, epoch)| CallPolicy::Vic(
            Vic {
                threshold,
                rate,
                epoch
            }
        )),
        (micros(), 0u32..100_000, micros()).prop_map(|(base, threshold, period)| CallPolicy::Spdk(
            Spdk {
                base,
                threshold,
                period
            }
        )),
    ]
}

proptest! {
    /// A response for which the guest needs a call is followed by a call within the limits, by the
    /// time that was returned. There are no other calls.
    #[test]
    fn every_response_is_notified_in_time(
        policy in call_policy(),
        (count, delay) in (0u32..50, 0u64..5000),
        steps in prop::collection::vec((0u64..300_000, 0u32..6, 0u32..40, any::<bool>()), 1..200),
    ) {
        let most = Gather { count, delay: span(delay) };
        let mut calls = Calls::new(policy, most);
        let (mut now, mut waits) = (0, None::<u64>);
        for (gap, responses, in_flight, wanted) in steps {
            let next = now + gap;
            // If the time of the last decision has come, the timer is called first, as a caller
            // would.
            if let Some(due) = calls.due().filter(|due| due.as_nanos() <= next) {
                prop_assert!(waits.is_some(), "an instant for nothing");
                prop_assert_eq!(calls.on_timer(due), Decision::Call);
                waits = None;
            }
            now = next;
            let before = waits;
            if wanted && responses > 0 {
                waits = waits.or(Some(now));
            }
            match calls.on_published(ns(now), responses, in_flight, wanted) {
                Decision::Call => {
                    prop_assert!(waits.is_some(), "a call for nothing");
                    waits = None;
                }
                Decision::Wait(until) => {
                    let since = waits.expect("something waits");
                    // No response waits for longer than the limit, whatever the policy is.
                    prop_assert!(until > ns(now) && until <= ns(since) + span(delay));
                    prop_assert_eq!(calls.due(), Some(until));
                    prop_assert!((1..count).contains(&calls.waiting()));
                    prop_assert!(policy != CallPolicy::AtOnce);
                }
                Decision::Nothing => prop_assert_eq!(before.or(waits), None),
            }
            prop_assert_eq!(calls.due().is_some(), waits.is_some());
        }
    }
}

/// The decisions of each policy for the same small loads are recorded in a file, so that a change
/// is noticed. `WEIR_BLESS=1` writes the file again.
#[test]
fn decisions_are_as_written_down() {
    let mut table = String::new();
    kick_table(&mut table);
    call_table(&mut table);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/notify.txt");
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(path, &table).expect("it can be written");
    }
    let written = std::fs::read_to_string(path).expect("it can be read");
    assert_eq!(table, written, "{path} is out of date");
}

fn at(instant: Instant) -> String {
    format!("{} us", instant.as_nanos() / 1000)
}

fn kick_table(table: &mut String) {
    let policies = [
        ("at once", KickPolicy::AtOnce),
        ("spin 20us", KickPolicy::Spin { span: span(20) }),
        ("sleep 200us", KickPolicy::Sleep { span: span(200) }),
        (
            "throttle 10000/s, burst 2, jiffy 4ms",
            KickPolicy::Throttle {
                interval: span(100),
                burst: 2,
                jiffy: span(4000),
            },
        ),
    ];
    // The time of each step in us, and the number of requests at that time.
    let steps = [
        (10, 1),
        (15, 0),
        (18, 2),
        (30, 1),
        (45, 0),
        (46, 0),
        (700, 1),
        (5000, 0),
        (9100, 3),
    ];
    for (name, policy) in policies {
        let _ = writeln!(table, "kicks, {name}");
        let mut kicks = Kicks::new(policy);
        kicks.enable(us(0));
        kicks.on_checked(us(0), 0);
        for (now, found) in steps {
            let now = us(now);
            kicks.on_timer(now);
            let (heard, plan) = match kicks.on_kick(now, now) {
                Plan::Look | Plan::Spin(_) => ("looks", kicks.on_checked(now, found)),
                plan => ("sleeps", plan),
            };
            let then = match plan {
                Plan::Spin(until) => format!("spins until {}", at(until)),
                Plan::Wait(until) => format!("listens again at {}", at(until)),
                Plan::Arm => "arms".into(),
                plan => format!("{plan:?}"),
            };
            let _ = writeln!(
                table,
                "  {:>8}  kick, {found} requests: {heard}, {then}",
                at(now)
            );
        }
    }
}

fn call_table(table: &mut String) {
    let gather = Gather {
        count: 4,
        delay: span(100),
    };
    let vic = Vic {
        epoch: span(1000),
        ..Vic::default()
    };
    let spdk = Spdk {
        base: span(100),
        threshold: 10_000,
        period: span(1000),
    };
    let policies = [
        ("at once", CallPolicy::AtOnce),
        ("gather 4 in 100us", CallPolicy::Gather(gather)),
        ("vic, epoch 1ms", CallPolicy::Vic(vic)),
        ("spdk 100us at 10000/s, period 1ms", CallPolicy::Spdk(spdk)),
    ];
    for (name, policy) in policies {
        let _ = writeln!(table, "calls, {name}");
        let mut calls = Calls::new(policy, Gather::MOST);
        // 2 ms with 32 commands in flight, then four single requests.
        let busy = (0..100u64).map(|step| (step * 20, 31));
        let idle = (0..4u64).map(|step| (2500 + 500 * step, 0));
        let mut line = String::new();
        for (now, in_flight) in busy.chain(idle) {
            if calls.due().is_some_and(|due| due <= us(now)) {
                calls.on_timer(us(now));
                line.push('t');
            }
            line.push(match calls.on_published(us(now), 1, in_flight, true) {
                Decision::Call => 'C',
                Decision::Wait(_) => '.',
                Decision::Nothing => '-',
            });
        }
        for chunk in line.as_bytes().chunks(50) {
            let _ = writeln!(table, "  {}", String::from_utf8_lossy(chunk));
        }
    }
}
