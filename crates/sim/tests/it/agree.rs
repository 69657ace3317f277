//! The server's metrics and the records come to the same verdicts about every client in every
//! second of random runs.
//!
//! The two differ only in the time at which they learn of an event. A server counts requests at the
//! layer, as they arrive and complete. A record is made from the client's view, after completion.
//! Therefore, in this test, requests go to the layer directly, and none is longer than a command,
//! because a server counts each piece of a request when it completes. Neither side knows what a
//! client would get without contention.
//!
//! The two may differ for good reasons:
//!
//! - A record knows where a request was in each second of its life. A server knows that only after
//!   the completion, and until then only whether the request is throttled.
//! - Therefore, a second that is short because of the elevator on one side can be short because of
//!   the drive on the other.
//! - A second that is excused for a max on one side can be short on the other.
//! - If the layer splits requests, the work in flight between two seconds is a piece for the server
//!   and a request for the client. The missing amounts then differ by the difference of their
//!   lengths.
//!
//! `WEIR_DRAWS=1000 cargo test -p weir-sim --test it agree:: -- --nocapture` tests more scenarios,
//! starting with the seed `WEIR_FUZZ_SEED`.

use std::collections::BTreeMap;
use weir_config::policy::find;
use weir_core::random::Rng;
use weir_core::record::{Call, Observer};
use weir_core::{
    Capacity, Class, Contract, Dispatch, Done, Instant, Layer, Max, Op, Outcome, Output, Span,
    StreamId,
};
use weir_measure::promise::{Cause, Excuse, Promise, PromisedRate, Seconds};
use weir_measure::{SECOND_NS, WindowTotals};
use weir_model::drive::{DriveConfig, hdd, null, ssd};
use weir_model::load::{Arrival, Pattern, Program, Size, SyncMode};
use weir_sim::{Scenario, SimRun};

/// The state that a server keeps for a client, from the beginning of the measurement on.
struct ClientMetrics {
    rate: Option<PromisedRate>,
    stream: Option<StreamId>,
    /// The number of outstanding requests, without flushes.
    live: u32,
    /// The length of the longest request that was sent, and of the longest command that was served,
    /// in bytes.
    longest: [u64; 2],
    promise: Option<Promise>,
    /// The verdicts up to the end of each second, and the [slack](Self::slack) at that time.
    seconds: Vec<(Seconds, u64)>,
}

impl ClientMetrics {
    fn observe_length(&mut self, what: usize, bytes: u64) {
        self.longest[what] = self.longest[what].max(bytes);
    }

    /// The number of bytes by which the missing amounts may differ because requests were split.
    fn slack(&self) -> u64 {
        self.longest[0].saturating_sub(self.longest[1])
    }
}

/// The state that a server keeps for a drive.
struct DriveMetrics {
    clients: Vec<ClientMetrics>,
    start: u64,
    /// The end of the current second, and the amount that all clients received in it.
    ends: u64,
    drive: WindowTotals,
    /// The commands in flight in the drive, by tag.
    dispatched: BTreeMap<u32, Dispatch>,
}

impl DriveMetrics {
    fn new(scenario: &Scenario) -> Self {
        let clients = (0..scenario.clients.len()).map(|client| {
            let contract = scenario.contract(client);
            ClientMetrics {
                rate: PromisedRate::of(&contract),
                stream: None,
                live: 0,
                longest: [0; 2],
                promise: None,
                seconds: Vec::new(),
            }
        });
        let start = scenario.warm_up.as_nanos();
        Self {
            clients: clients.collect(),
            start,
            ends: start + SECOND_NS,
            drive: WindowTotals::default(),
            dispatched: BTreeMap::new(),
        }
    }

    /// Advances to `now`. The function `limited` returns the number of throttled requests of a
    /// stream.
    fn pass(&mut self, now: u64, limited: impl Fn(StreamId) -> u32) {
        if now < self.start {
            return;
        }
        for client in &mut self.clients {
            client.promise.get_or_insert_with(|| {
                let mut promise = Promise::new(self.start, client.rate);
                (0..client.live).for_each(|_| promise.sent(false));
                promise
            });
        }
        while self.ends <= now {
            // Only in a second in which none of the client's requests completed does it matter
            // whether they are throttled.
            for client in &mut self.clients {
                let promise = client.promise.as_mut().expect("it has begun");
                let limited = match client.stream {
                    Some(stream) if promise.is_still() => limited(stream),
                    _ => 0,
                };
                promise.pass(self.ends, self.drive, limited);
                let seconds = *promise.seconds();
                client.seconds.push((seconds, client.slack()));
            }
            self.drive = WindowTotals::default();
            self.ends += SECOND_NS;
        }
    }

    /// Applies an event to a client's promise at `now`.
    fn tell(&mut self, now: u64, stream: StreamId, tell: impl FnOnce(&mut Promise)) {
        let client = self.client(stream);
        if let Some(promise) = &mut client.promise {
            promise.pass(now, WindowTotals::default(), 0);
            tell(promise);
        }
    }

    fn client(&mut self, stream: StreamId) -> &mut ClientMetrics {
        let mut clients = self.clients.iter_mut();
        let client = clients.find(|client| client.stream == Some(stream));
        client.expect("it has been opened")
    }

    /// Counts a command that the drive has completed.
    fn returned(&mut self, now: u64, piece: &Dispatch) {
        if piece.op != Op::Flush {
            let bytes = u64::from(piece.length);
            self.drive.bytes += if now < self.start { 0 } else { bytes };
            if now >= self.start {
                self.client(piece.stream).observe_length(1, bytes);
            }
            self.tell(now, piece.stream, |promise| promise.served(bytes));
        }
    }

    /// Counts a request that the layer has answered.
    fn answered(&mut self, now: u64, done: &Done) {
        self.drive.requests += u64::from(now >= self.start);
        self.client(done.stream).live -= 1;
        self.tell(now, done.stream, |promise| {
            promise.ended(done, false, false);
        });
    }
}

impl Observer for DriveMetrics {
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        let now = now.as_nanos();
        self.pass(now, |stream| layer.gauges(stream).map_or(0, |g| g.limited));
        match call {
            Call::Open { spec, result } => {
                let client = &mut self.clients[spec.group.0 as usize - 1];
                client.stream = Some(result.expect("there is room"));
            }
            Call::Submit { batch, result } => {
                assert!(result.is_ok(), "there is room for all that clients ask");
                for request in batch.iter().filter(|r| r.op != Op::Flush) {
                    let client = self.client(request.stream);
                    client.live += 1;
                    client.observe_length(0, request.length.into());
                    self.tell(now, request.stream, |promise| promise.sent(false));
                }
            }
            Call::Complete { batch } => {
                for completion in *batch {
                    let piece = self.dispatched.remove(&completion.tag.0);
                    if completion.outcome == Some(Outcome::Ok) {
                        self.returned(now, &piece.expect("it was dispatched"));
                    }
                }
            }
            Call::Poll { outputs, .. } => {
                for output in *outputs {
                    match output {
                        Output::Dispatch(piece) => {
                            self.dispatched.insert(piece.tag.0, *piece);
                        }
                        Output::Done(done) if done.op != Op::Flush => {
                            self.answered(now, done);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

/// The verdict about one second, with the missing bytes and requests.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SecondVerdict {
    Kept,
    Short(Cause, WindowTotals),
    Excused(Excuse),
}

/// The verdict that was added between two consecutive seconds.
fn verdict(before: &Seconds, after: &Seconds) -> SecondVerdict {
    assert_eq!(after.promised, before.promised + 1, "one second");
    let grew = |why: usize| after.short[why] > before.short[why];
    if let Some(why) = Cause::ALL.into_iter().find(|why| grew(*why as usize)) {
        let lacking = WindowTotals {
            bytes: after.lacking.bytes - before.lacking.bytes,
            requests: after.lacking.requests - before.lacking.requests,
        };
        return SecondVerdict::Short(why, lacking);
    }
    let grew = |why: usize| after.excused[why] > before.excused[why];
    let excuse = Excuse::ALL.into_iter().find(|why| grew(*why as usize));
    excuse.map_or(SecondVerdict::Kept, SecondVerdict::Excused)
}

/// Returns true if two verdicts are equal, except for facts that only one side can know. For
/// `slack`, see [`ClientMetrics::slack`].
fn agrees(metrics: SecondVerdict, record: SecondVerdict, is_limited: bool, slack: u64) -> bool {
    let is_wait = |why| matches!(why, Cause::Idling | Cause::SlowDrive);
    match (metrics, record) {
        (SecondVerdict::Short(a, lacking), SecondVerdict::Short(b, too)) => {
            lacking.requests == too.requests
                && lacking.bytes.abs_diff(too.bytes) <= slack
                && (a == b || is_wait(a) && is_wait(b))
        }
        (SecondVerdict::Short(..), SecondVerdict::Excused(Excuse::Limit))
        | (SecondVerdict::Excused(Excuse::Limit), SecondVerdict::Short(..)) => is_limited,
        _ => metrics == record,
    }
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.range(0, from.len() as u64 - 1) as usize]
}

fn one_in(rng: &mut Rng, n: u64) -> bool {
    rng.range(1, n) == 1
}

fn program(rng: &mut Rng, longest: u32, iops: u64) -> Program {
    let size = pick(rng, &[4, 16, 64, 128]) * 1024;
    let mut program = Program::random_reads(size.min(longest), pick(rng, &[1, 1, 2, 4, 16, 32]));
    if one_in(rng, 2) {
        program.pattern = Pattern::Sequential;
    }
    if one_in(rng, 4) {
        let (min, max) = (4096, size.min(longest));
        program.size = Size::Range {
            min,
            max,
            step: 4096,
        };
    }
    program.writes = pick(rng, &[0, 0, 30, 100, 100]);
    if program.writes > 0 {
        let every = pick(rng, &[1, 4, 16]);
        program.sync = match rng.range(0, 3) {
            0 => SyncMode::Fdatasync(every),
            1 => SyncMode::Flush(every),
            _ => SyncMode::Never,
        };
    }
    let interval = Span::from_nanos(SECOND_NS / rng.range(1, iops / 4));
    program.arrival = match rng.range(0, 7) {
        0 => Arrival::Even { interval },
        1 => Arrival::Poisson { interval },
        2 => Arrival::Closed {
            think: Span::from_millis(pick(rng, &[1, 20, 300])),
        },
        _ => program.arrival,
    };
    program.start = Span::from_millis(pick(rng, &[0, 0, 0, 0, 700, 1300, 9000]));
    if one_in(rng, 6) {
        program.requests = Some(rng.range(1, 3_000));
    }
    program
}

fn contract(rng: &mut Rng, bytes: u64, iops: u64) -> Contract {
    let mut contract = Contract::DEFAULT.with_share(pick(rng, &[10, 100, 100, 1000]));
    match rng.range(0, 5) {
        0 => {}
        1 | 2 => contract.min_iops = rng.range(1, iops),
        _ => contract.min = rng.range(1_000, bytes),
    }
    let least = contract.min.max(contract.min_iops * 64 * 1024).max(100_000);
    let max = Max::of_bandwidth(least * rng.range(1, 6));
    match rng.range(0, 9) {
        0 => (contract.class, contract.max) = (Class::Realtime, max),
        1 | 2 => contract.max = max,
        3 => contract.max.iops = (2 * contract.min_iops).max(rng.range(1, iops)),
        4 if contract.min + contract.min_iops == 0 => contract.class = Class::Idle,
        _ => {}
    }
    contract
}

/// The random scenario of a seed.
fn draw(seed: u64) -> Scenario {
    let rng = &mut Rng::new(seed);
    let (drive, bytes, iops) = match rng.range(0, 3) {
        0 => (DriveConfig::Hdd(hdd::HddConfig::generic()), 50_000_000, 200),
        1 => (
            DriveConfig::Ssd(ssd::SsdConfig::generic()),
            200_000_000,
            10_000,
        ),
        _ => (
            DriveConfig::Null(null::NullConfig::demo()),
            250_000_000,
            10_000,
        ),
    };
    let longest = drive.shape().max_transfer;
    let mut scenario = Scenario::new("drawn", drive, Span::from_millis(rng.range(1000, 4000)));
    scenario.name = format!("drawn-{seed}");
    scenario.warm_up = Span::from_secs(rng.range(0, 1));
    scenario.capacity = Some(Capacity {
        read: bytes,
        write: bytes,
        iops,
        ..Capacity::NONE
    });
    let clients = rng.range(1, 6);
    for client in 0..clients {
        // The promises of all clients together use at most 90 % of the capacity, the limit of
        // admission.
        let share = 90 * rng.range(1, 100) / 100;
        let (bytes, iops) = (bytes * share / 100, iops * share / 100);
        let contract = contract(rng, bytes / clients + 1_000, iops / clients + 1);
        let program = program(rng, longest, iops.max(8));
        scenario.add_client_with_group(format!("c{client}"), contract, 64 << 20, program);
    }
    scenario
}

/// Runs a scenario. Returns the number of compared seconds and a message for each disagreement, or
/// `None` if the promises are refused.
fn compare(scenario: &Scenario, policy: &str) -> Option<(u64, Vec<String>)> {
    let policy = find(policy).expect("there is one of that name");
    let mut metrics = DriveMetrics::new(scenario);
    let results = SimRun::observed(scenario, &policy, 0, vec![&mut metrics]).ok()?;
    let results = results.run(|_| {}).expect("it comes to its end");
    let (mut seconds, mut faults) = (0, Vec::new());
    for (at, counted) in metrics.clients.iter().enumerate() {
        let Some(rate) = counted.rate else { continue };
        let is_limited = scenario.contract(at).max.is_limited();
        let whole = results.judge(at, rate).seconds.promised;
        let (mut before, mut slack) = ([Seconds::default(); 2], 0);
        // The last second may have ended with no event after it, so the server does not know of it.
        let known = counted.seconds.iter().take(whole as usize);
        for (second, (after, now)) in (1..).zip(known) {
            let mut cut = results.clone();
            cut.clients[at]
                .meter
                .cut(scenario.warm_up.as_nanos() + second * SECOND_NS);
            let judged = cut.judge(at, rate).seconds;
            let [metrics, record] = [verdict(&before[0], after), verdict(&before[1], &judged)];
            // An amount that was credited to the previous second counts in this one.
            slack = slack.max(*now);
            if !agrees(metrics, record, is_limited, slack) {
                let (name, drive) = (&scenario.name, scenario.drive.name());
                faults.push(format!(
                    "{name} on {drive}, {}, client {at}, second {second}: metrics say {metrics:?}, the record {record:?}",
                    policy.name
                ));
            }
            before = [*after, judged];
            seconds += 1;
        }
    }
    Some((seconds, faults))
}

fn number(variable: &str, default: u64) -> u64 {
    let number = std::env::var(variable);
    number.map_or(default, |n| n.parse().expect("a number"))
}

#[test]
fn metrics_and_records_have_the_same_verdicts() {
    let (first, draws) = (number("WEIR_FUZZ_SEED", 1), number("WEIR_DRAWS", 40));
    let (mut runs, mut clients, mut seconds, mut faults) = (0, 0, 0, Vec::new());
    for seed in first..first + draws {
        let scenario = draw(seed);
        for policy in ["none", "bfq", "contract"] {
            let Some((more, found)) = compare(&scenario, policy) else {
                continue;
            };
            runs += 1;
            clients += scenario.clients.len();
            seconds += more;
            faults.extend(found);
        }
    }
    println!(
        "{runs} runs of {draws} scenarios, {clients} clients in them, {seconds} promised seconds"
    );
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
    assert!(runs >= 2 * draws, "most are admitted");
    assert!(seconds > 2 * draws, "something is promised");
}
