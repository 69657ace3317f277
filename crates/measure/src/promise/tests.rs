use super::*;
use proptest::prelude::*;
use weir_core::Span;

const MS: u64 = 1_000_000;
const MIN: u64 = 10_000_000;

fn bytes(min: u64) -> Option<PromisedRate> {
    PromisedRate::new(min, 0)
}

/// Returns the verdicts on the seconds of one promise as (promised, kept, short, excused).
fn sums(seconds: &Seconds) -> (u64, u64, u64, u64) {
    assert_eq!(
        seconds.promised,
        seconds.kept + seconds.all_short() + seconds.all_excused()
    );
    let (short, excused) = (seconds.all_short(), seconds.all_excused());
    (seconds.promised, seconds.kept, short, excused)
}

/// Judges a client with a queue depth of 1 and requests of 4 KiB, over five seconds. Each request
/// spends these microseconds in each place, and the next one follows after `think`. Others are
/// served `others` bytes per second at the same time. `alone` is the time of a request with the
/// drive to itself, in microseconds.
fn closed(waits: [u64; 3], think: u64, others: u64, alone: Option<u64>) -> Seconds {
    let mut promise = Promise::new(0, bytes(MIN));
    if let Some(alone) = alone {
        (0..ALONE).for_each(|_| promise.alone(alone * 1_000, 4096));
    }
    let [limit, elevator, drive] = waits.map(|us| us * 1_000);
    let (mut now, mut own, mut second) = (0, 0, 0);
    let mut pass = |promise: &mut Promise, now: u64, own: &mut u64| {
        let all = WindowTotals {
            bytes: others + *own,
            requests: 0,
        };
        promise.pass(now, all, 0);
        if now / SECOND_NS > second {
            (second, *own) = (now / SECOND_NS, 0);
        }
    };
    while now < 5 * SECOND_NS {
        pass(&mut promise, now, &mut own);
        promise.sent(false);
        now += limit + elevator + drive;
        pass(&mut promise, now, &mut own);
        promise.end_request(false);
        promise.served(4096);
        own += 4096;
        promise.answered(Waits {
            limit: Span::from_nanos(limit),
            elevator: Span::from_nanos(elevator),
            drive: Span::from_nanos(drive),
        });
        now += think * 1_000;
    }
    pass(&mut promise, now, &mut own);
    *promise.seconds()
}

#[test]
fn a_second_below_the_min_is_short_and_has_a_cause() {
    // 4096 bytes in 360 us are 11 MB/s.
    assert_eq!(sums(&closed([0, 200, 160], 0, 0, None)), (5, 5, 0, 0));
    // 4096 bytes per 1 ms are 4.096 MB/s, so 5.9 MB are missing in each second.
    for (waits, others, why) in [
        ([0, 900, 100], 200_000_000, Cause::Neighbour),
        ([0, 0, 1000], 200_000_000, Cause::Neighbour),
        // Others were served less than the missing amount.
        ([0, 900, 100], 5_000_000, Cause::Idling),
        ([0, 100, 900], 0, Cause::SlowDrive),
    ] {
        let seconds = closed(waits, 0, others, None);
        assert_eq!(sums(&seconds), (5, 0, 5, 0));
        assert_eq!(seconds.main_short(), Some(why));
        let lacking = 5 * (MIN - 4_096_000);
        assert!(
            seconds.lacking.bytes.abs_diff(lacking) <= 5 * 4096,
            "{seconds:?}"
        );
    }
}

#[test]
fn a_single_late_request_without_contention_excuses_no_second() {
    let mut promise = Promise::new(0, bytes(MIN));
    // The host was late for 50 ms, and then the latency was as usual.
    promise.alone(50_000_000, 4096);
    promise.sent(false);
    let all = WindowTotals {
        bytes: 200_000_000,
        requests: 0,
    };
    let mut second = 0;
    let mut next = |promise: &mut Promise| {
        promise.served(400_000);
        second += SECOND_NS;
        promise.pass(second, all, 0);
        promise.seconds().all_excused()
    };
    assert_eq!(next(&mut promise), 0, "one request is too few");
    (0..100).for_each(|_| promise.alone(100_000, 4096));
    assert_eq!(next(&mut promise), 0, "it would get 40 MB/s");
    // After 100 such requests, the mean is close to 10 ms.
    (0..100).for_each(|_| promise.alone(10_000_000, 4096));
    assert_eq!(next(&mut promise), 1, "it would get 0.4 MB/s");
}

#[test]
fn a_min_of_less_than_a_request_a_second_is_kept_on_average() {
    let mut promise = Promise::new(0, bytes(300_000));
    // A request in flight may be missing: 1 MB is more than the min of three seconds (0.9 MB), but
    // less than the min of four seconds even without the tolerated 1 %.
    promise.sent(false);
    promise.note_request_bytes(1_000_000);
    promise.pass(4 * SECOND_NS, WindowTotals::default(), 0);
    assert_eq!(promise.seconds().kept, 3);
    assert_eq!(promise.seconds().short.iter().sum::<u64>(), 1);
}

#[test]
fn a_client_is_excused_by_its_max_and_by_its_bandwidth_alone() {
    let limited = closed([900, 50, 100], 0, 200_000_000, None);
    assert_eq!(limited.excused[Excuse::Limit as usize], 5);
    // With the drive to itself, the client gets 5 MB/s. It gets most of that.
    let slow = closed([0, 200, 800], 0, 200_000_000, Some(800));
    assert_eq!(slow.excused[Excuse::Depth as usize], 5);
    // Without contention it would get 40 MB/s, but others occupy the drive, so that it was never
    // that fast.
    let behind = closed([0, 0, 10_000], 0, 200_000_000, Some(100));
    assert_eq!(behind.short[Cause::Neighbour as usize], 5);
    // In one second it gets nothing of the 8 MB/s that it would get without contention.
    let mut hung = Promise::new(0, bytes(MIN));
    (0..ALONE).for_each(|_| hung.alone(512_000, 4096));
    hung.sent(false);
    let all = WindowTotals {
        bytes: 200_000_000,
        requests: 0,
    };
    hung.pass(SECOND_NS, all, 0);
    assert_eq!(hung.seconds().short[Cause::Neighbour as usize], 1);
    assert_eq!(hung.seconds().lacking.bytes, 8_000_000);
    // Without contention it would get 8 MB/s, which is less than its min, and it gets 5 % of that.
    // It is short of the 8 MB/s, and not of the min of 10 MB/s.
    let starved = closed([0, 0, 10_000], 0, 200_000_000, Some(512));
    assert_eq!(starved.short[Cause::Neighbour as usize], 5);
    assert!(
        (37_000_000..39_000_000).contains(&starved.lacking.bytes),
        "{starved:?}"
    );
}

#[test]
fn think_time_is_excluded_from_a_promised_second() {
    // 4 KiB in 350 us, followed by 3 ms of think time, are 11.7 MB/s while the client waits.
    assert_eq!(sums(&closed([0, 200, 150], 3_000, 0, None)), (5, 5, 0, 0));
    // 4 KiB in 1 ms are 4 MB/s while the client waits, which is 25 % of the time. Others get the
    // rest.
    let short = closed([0, 900, 100], 3_000, 200_000_000, None);
    assert_eq!(sums(&short), (5, 0, 5, 0));
    assert!(short.lacking.bytes.abs_diff(5 * (2_500_000 - 1_024_000)) <= 5 * 2 * 4096);
}

/// Judges five seconds in which others get `others` of the 100 bytes that the client lacks, with a
/// remote storage in state `pool`.
fn of_pool(pool: RemoteStorage, others: u64) -> (u64, u64) {
    let mut promise = Promise::new(0, PromisedRate::new(1000, 0));
    promise.sent(false);
    for second in 1..=5 {
        // 900 of 1,000 bytes are served in parts of 10 bytes. The shortfall is more than the
        // tolerance (10 bytes) and the part in flight (10 bytes).
        (0..90).for_each(|_| promise.served(10));
        promise.pool(pool);
        let all = WindowTotals {
            bytes: 900 + others,
            requests: 1,
        };
        promise.pass(second * SECOND_NS, all, 0);
    }
    let seconds = promise.seconds();
    (seconds.excused[Excuse::Pool as usize], seconds.all_short())
}

#[test]
fn a_slow_pool_is_an_excuse_unless_others_got_the_missing_bytes() {
    assert_eq!(of_pool(RemoteStorage::Fit, 0), (0, 5));
    assert_eq!(of_pool(RemoteStorage::Slow, 0), (5, 0));
    assert_eq!(of_pool(RemoteStorage::Away, 0), (5, 0));
    assert_eq!(of_pool(RemoteStorage::Slow, 500), (0, 5));
    assert_eq!(of_pool(RemoteStorage::Away, 500), (0, 5));
}

#[test]
fn idle_seconds_are_excused_and_hangs_are_short() {
    let mut promise = Promise::new(0, bytes(MIN));
    let pass = |promise: &mut Promise, ms: u64| promise.pass(ms * MS, WindowTotals::default(), 0);
    // Nothing is outstanding for 100 seconds.
    pass(&mut promise, 100_500);
    assert_eq!(promise.seconds().excused[Excuse::Idle as usize], 100);
    promise.sent(false);
    // The request hangs for half of a second and three whole ones: 3.5 s at 10 MB/s are 35 MB.
    pass(&mut promise, 104_500);
    assert_eq!(sums(promise.seconds()), (104, 0, 4, 100));
    assert_eq!(promise.seconds().main_short(), Some(Cause::SlowDrive));
    assert_eq!(promise.seconds().lacking.bytes, 35_000_000);
    promise.end_request(false);
    promise.watch.failed(4_096);
    promise.sent(true);
    pass(&mut promise, 107_500);
    assert_eq!(promise.seconds().excused[Excuse::Suspended as usize], 2);
    // A client that does not read its replies sends no more requests, so that in the end only
    // replies remain.
    promise.suspend(0, true);
    promise.end_request(true);
    pass(&mut promise, 109_500);
    assert_eq!(promise.seconds().excused[Excuse::Suspended as usize], 4);
    promise.suspend(0, false);
    pass(&mut promise, 112_500);
    assert_eq!(promise.seconds().excused[Excuse::Suspended as usize], 5);
}

#[test]
fn a_throttled_hang_is_excused_and_storage_errors_are_a_cause() {
    let mut promise = Promise::new(0, bytes(MIN));
    promise.sent(false);
    // The only outstanding request is throttled, so all of its time counts as throttled.
    promise.pass(2 * SECOND_NS, WindowTotals::default(), 1);
    assert_eq!(promise.seconds().excused[Excuse::Limit as usize], 2);
    // The failed bytes are more than the min of the next second.
    promise.watch.failed(20_000_000);
    promise.pass(3 * SECOND_NS, WindowTotals::default(), 0);
    assert_eq!(promise.seconds().short[Cause::Errors as usize], 1);
}

#[test]
fn a_long_request_counts_once_in_the_second_that_needs_it() {
    // 4 MB every 400 ms are 10 MB/s, in seconds of 8 and 12 MB. 4 MB every 450 ms are 8.9 MB/s.
    let run = |every: u64| {
        let mut promise = Promise::new(0, bytes(MIN));
        for n in 0..100 {
            promise.pass(n * every * MS, WindowTotals::default(), 0);
            if n > 0 {
                promise.end_request(false);
                promise.served(4_000_000);
                promise.answered(Waits::default());
            }
            promise.sent(false);
        }
        *promise.seconds()
    };
    let seconds = run(400);
    assert_eq!(seconds.kept, seconds.promised, "just enough: {seconds:?}");
    let seconds = run(450);
    let whole = seconds.promised * MIN;
    let got = seconds.promised * 4_000_000_000 / 450;
    assert!(seconds.all_short() > 10, "{seconds:?}");
    assert!(
        seconds.lacking.bytes.abs_diff(whole - got) <= 8_000_000,
        "{seconds:?}"
    );
}

#[test]
fn only_whole_seconds_of_a_promise_count_and_a_change_counts_in_its_place() {
    let mut promise = Promise::new(500 * MS, bytes(MIN));
    let pass = |promise: &mut Promise, ms: u64| promise.pass(ms * MS, WindowTotals::default(), 0);
    promise.sent(false);
    // Between 0.5 s and 2.25 s, only the second from 1 s to 2 s is a whole one.
    pass(&mut promise, 2_250);
    assert_eq!(promise.seconds().promised, 1, "not the one it began in");
    promise.change(bytes(2 * MIN));
    pass(&mut promise, 3_000);
    assert_eq!(
        promise.seconds().lacking.bytes,
        // One quarter of the third second is owed at the old rate, and the rest at twice that rate.
        MIN + MIN / 4 + 2 * MIN * 3 / 4
    );
    // A change of units within a second leaves that second without a verdict.
    promise.change(PromisedRate::new(0, 100));
    pass(&mut promise, 3_500);
    promise.change(None);
    pass(&mut promise, 9_000);
    assert_eq!(
        promise.seconds().promised,
        2,
        "nothing was promised throughout"
    );
}

#[test]
fn a_promise_in_requests_counts_requests() {
    let mut promise = Promise::new(0, PromisedRate::new(0, 1_000));
    promise.sent(false);
    for n in 1..=3_000 {
        promise.pass(n * MS - 1, WindowTotals::default(), 0);
        promise.end_request(false);
        // The first 1,500 requests are served, and then every second one, so that the rate is 1,000
        // per second at first and then 500.
        if n <= 1_500 || n % 2 == 0 {
            promise.served(1);
            promise.answered(Waits::default());
        } else {
            promise.watch.failed(1);
        }
        promise.sent(false);
    }
    promise.pass(3 * SECOND_NS, WindowTotals::default(), 0);
    assert_eq!((promise.seconds().promised, promise.seconds().kept), (3, 1));
    assert_eq!(promise.seconds().short[Cause::Errors as usize], 2);
    assert_eq!(
        promise.seconds().lacking.requests,
        // Half of the second second and all of the third run at half of the rate: 250 + 500.
        750 - 1,
        "one is under way"
    );
}

/// A request of the history: its time of sending and its latency in milliseconds, and its bytes.
type HistoryRequest = (u64, u64, u64);

proptest! {
    /// Compares the verdicts with a slow computation of each second from the whole history.
    #[test]
    fn seconds_agree_with_a_slow_count(
        sent in prop::collection::vec((0u64..6_000, 0u64..2_500, 1u64..60_000), 0..200),
        min in 1u64..1_000_000,
    ) {
        let mut events: Vec<(u64, bool, u64)> = Vec::new();
        for (at, took, size) in &sent {
            events.extend([(*at, false, *size), (at + took, true, *size)]);
        }
        events.sort_by_key(|e| (e.0, e.1));
        let mut promise = Promise::new(0, bytes(min));
        for (at, over, size) in events {
            promise.pass(at * MS, WindowTotals::default(), 0);
            if over {
                promise.end_request(false);
                promise.served(size);
                promise.answered(Waits::default());
            } else {
                promise.sent(false);
                promise.note_request_bytes(size);
            }
        }
        promise.pass(9 * SECOND_NS, WindowTotals::default(), 0);
        let (promised, kept, short, excused) = sums(promise.seconds());
        prop_assert_eq!(promised, 9);
        prop_assert_eq!((kept, short, excused), slow(&sent, min));
    }
}

/// Returns the number of kept, short and excused seconds among the first nine, computed from the
/// whole history.
fn slow(sent: &[HistoryRequest], min: u64) -> (u64, u64, u64) {
    let (mut kept, mut short, mut excused) = (0, 0, 0);
    let mut before = 0;
    for k in 0..9 {
        let (from, to) = (k * 1_000, (k + 1) * 1_000);
        let waits = |ms: u64| {
            sent.iter()
                .any(|(at, took, _)| (*at..at + took).contains(&ms))
        };
        let waited = (from..to).filter(|ms| waits(*ms)).count() as u64;
        let ended = |s: &&HistoryRequest| (from..to).contains(&(s.0 + s.1));
        let got: u64 = sent.iter().filter(ended).map(|s| s.2).sum();
        let longest = sent.iter().filter(|s| s.0 < to).map(|s| s.2).max();
        // A request that ends exactly at the end of the second is in flight until then.
        let under_way = sent.iter().any(|s| s.0 < to && s.0 + s.1 >= to);
        let spare = if under_way { longest.unwrap_or(0) } else { 0 };
        if waited == 0 {
            // A request that ended exactly at the beginning means that all of the min without a
            // wait is kept.
            let enough = got > 0 && got >= min - min / 100 + before;
            (kept, excused) = (kept + u64::from(enough), excused + u64::from(!enough));
            before = 0;
            continue;
        }
        let missing = (min * waited / 1_000).saturating_sub(min / 100) + before;
        let missing = missing.saturating_sub(got);
        before = missing.min(spare);
        if missing <= spare {
            kept += 1;
        } else {
            short += 1;
        }
    }
    (kept, short, excused)
}

/// Judges three seconds of a client that is served 4 KiB whenever it has waited for `waits`
/// microseconds before the server found its request. The server's thread spent `server` in each
/// second.
fn found_late(waits: u64, server: ServerTime) -> Seconds {
    let mut promise = Promise::new(0, bytes(MIN));
    let mut now = 0;
    while now < 3 * SECOND_NS {
        let arrived = now;
        now += waits * 1_000;
        if now / SECOND_NS > arrived / SECOND_NS {
            promise.server(server);
        }
        promise.pass(now, WindowTotals::default(), 0);
        promise.waits_since(arrived);
        promise.sent(false);
        now += 10_000;
        if now / SECOND_NS > (now - 10_000) / SECOND_NS {
            promise.server(server);
        }
        promise.pass(now, WindowTotals::default(), 0);
        promise.end_request(false);
        promise.served(4096);
        promise.answered(Waits {
            drive: Span::from_micros(10),
            ..Waits::default()
        });
    }
    *promise.seconds()
}

#[test]
fn a_request_that_the_server_found_late_has_waited_since_it_arrived() {
    let busy = ServerTime {
        others_ns: 900 * MS,
        stalled_ns: 0,
    };
    let stalled = ServerTime {
        others_ns: 900 * MS,
        stalled_ns: 800 * MS,
    };
    // 4096 bytes per 310 us are 13.2 MB/s.
    assert_eq!(found_late(300, busy).kept, 3, "it got its min");
    // 4096 bytes per 1,010 us are 4.1 MB/s.
    let seconds = found_late(1_000, busy);
    assert_eq!(seconds.short[Cause::ServerBusy as usize], 3, "{seconds:?}");
    let seconds = found_late(1_000, stalled);
    assert_eq!(seconds.short[Cause::HostBusy as usize], 3, "{seconds:?}");
}

#[test]
fn only_time_without_another_request_is_added_to_the_wait() {
    let mut watch = SecondWatch::new(0);
    watch.advance(100);
    watch.sent(false);
    watch.advance(200);
    watch.waits_since(50);
    watch.sent(false);
    watch.advance(300);
    watch.end_request(false);
    watch.end_request(false);
    watch.advance(400);
    // The time before the last reply was counted already.
    watch.waits_since(250);
    assert_eq!(watch.end().waited_ns, 200 + 100);
    watch.advance(SECOND_NS + 50);
    watch.waits_since(0);
    assert_eq!(watch.end().waited_ns, 50, "of the second under way");
}
