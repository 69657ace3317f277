//! A comparison of simulated and live runs of a scenario: both give the same results if the path
//! between clients and server is measured.
//!
//! The path is measured on this machine, and none of the compared figures enters the measurement.
//! There are two measurements:
//!
//! - One client alone on the server, with one request at a time and with several. These give the
//!   time that a request is on its way, and the processor time of a turn and of a request.
//! - A thread that only sleeps while clients are served. It gives the lateness of timers over time,
//!   and the stalls of the machine (a virtual machine stalls if its host is busy). The simulated
//!   server has the same lateness and the same stalls.
//!
//! Live rounds and measurements alternate, so that a change in the machine's speed affects both.
//!
//! The bandwidth of each client, and the mean times of its requests in the elevator and in the
//! drive, are printed for the live and the simulated run, with a verdict. They agree only on
//! processors that no other program uses. The test is therefore run by `./bench twin`. It waits for
//! a quiet second, and prints how quiet that second was. `twin.rs` has the test that the decisions
//! are identical, which holds on a busy machine too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::tools::metrics::MetricsSnapshot;
use crate::tools::{TestSite, load, process};
use weir_core::{Contract, Max, Span};
use weir_measure::Meter;
use weir_model::drive::null;
use weir_model::load::{Arrival, Program};
use weir_sim::{CpuStall, Machine, Path, Policy, Scenario, SimRun};

/// The tolerance between live and simulated figures, as a fraction, in the best of some attempts.
/// Other processes can only increase the difference.
const TOLERANCE: f64 = 0.1;
/// The number of attempts. One of them has to agree.
const ATTEMPTS: u32 = 3;
/// Times that differ by less than 10 % of a service time agree as well. A request waits in the
/// elevator either not at all, if a tag is free, or for most of a service time. A short mean is
/// therefore the fraction of requests that wait, and whether one in ten of a client's requests
/// meets another's is chance.
const SLACK_US: f64 = 50.0;
/// The size of each volume, in bytes.
const SIZE: u64 = 16 << 20;
/// The number of rounds in an attempt. In each round, all clients are served for [`LENGTH`], and
/// one client alone for twice [`ALONE`].
const ROUNDS: u32 = 4;
const LENGTH: Duration = Duration::from_secs(2);
const WARM_UP: Duration = Duration::from_millis(500);
const ALONE: Duration = Duration::from_millis(500);
/// The length of one nap of the sleeping thread. If it is late by [`STALL`] or more, the machine
/// has stalled.
const NAP: Duration = Duration::from_micros(250);
const STALL: Duration = Duration::from_micros(100);
/// The lateness of the sleeping thread that 99 % of its naps in a quiet second do not exceed. The
/// test waits for a quiet second for at most [`PATIENCE`] seconds.
const QUIET: Duration = Duration::from_micros(150);
const PATIENCE: u32 = 30;

/// The drive, with 4 tags and a service time of 500 us.
const DRIVE: null::NullConfig = null::NullConfig {
    service: Span::from_micros(500),
    tags: 4,
    queues: 1,
    link: 250_000_000,
    tick: Span::ZERO,
    wake: Span::ZERO,
    command: null::NullConfig::COMMAND,
};

/// A client with its contract, also in the form of the configuration.
struct TwinClient {
    name: &'static str,
    text: &'static str,
    contract: Contract,
    program: Program,
}

/// Returns eight clients that demand more than the drive can do. They have different queue depths,
/// promises, limits, rates and shares.
fn clients() -> Vec<TwinClient> {
    let client = |name, text, contract, program| TwinClient {
        name,
        text,
        contract,
        program,
    };
    let none = Contract::DEFAULT;
    let reads = Program::random_reads;
    let share = |share| Contract { share, ..none };
    let min = |min| Contract { min, ..none };
    let paced = Program {
        arrival: Arrival::Even {
            interval: Span::from_millis(2),
        },
        ..reads(4096, 4)
    };
    let max = Contract {
        max: Max {
            iops: 400,
            ..Max::NONE
        },
        ..none
    };
    let writes = Program {
        writes: 100,
        ..reads(16 << 10, 4)
    };
    vec![
        client(
            "a-promised",
            "min = \"2MB/s\"",
            min(2_000_000),
            reads(4096, 2),
        ),
        client(
            "b-promised",
            "min = \"10MB/s\"",
            min(10_000_000),
            reads(16 << 10, 4),
        ),
        client("c-single", "share = 100", none, reads(4096, 1)),
        client("d-paced", "share = 100", none, paced),
        client("e-limited", "max = { iops = 400 }", max, reads(8192, 4)),
        client("f-double", "share = 200", share(200), reads(16 << 10, 8)),
        client("g-writes", "share = 100", none, writes),
        client(
            "h-streams",
            "share = 400",
            share(400),
            Program::sequential_reads(32 << 10, 4),
        ),
    ]
}

/// The results of a client: bytes per second, and the mean times of its requests in microseconds.
#[derive(Clone, Copy, Debug)]
struct TwinFigures {
    bandwidth: f64,
    elevator: f64,
    drive: f64,
}

impl TwinFigures {
    fn of(served: &VolumeService, seconds: f64) -> Self {
        let mean = |sum: f64| 1e6 * sum / served.requests;
        Self {
            bandwidth: served.bytes / seconds,
            elevator: mean(served.elevator),
            drive: mean(served.drive),
        }
    }
}

/// The increase of a volume's metrics.
#[derive(Clone, Copy, Debug, Default)]
struct VolumeService {
    requests: f64,
    bytes: f64,
    /// The sum over the requests, in seconds.
    elevator: f64,
    drive: f64,
}

impl VolumeService {
    fn between(volume: &str, before: &MetricsSnapshot, after: &MetricsSnapshot) -> Self {
        let volume = ("volume", volume);
        let grown = |name, labels: &[_]| after.sum(name, labels) - before.sum(name, labels);
        let waited = |stage| grown("weir_wait_seconds_total", &[volume, ("stage", stage)]);
        Self {
            requests: grown("weir_latency_seconds_count", &[volume]),
            bytes: grown("weir_bytes_total", &[volume]),
            elevator: waited("elevator"),
            drive: waited("drive"),
        }
    }

    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.elevator += other.elevator;
        self.drive += other.drive;
    }
}

/// A live round: its measured length, and the naps of the sleeping thread during it.
#[derive(Debug)]
struct LiveRound {
    seconds: f64,
    naps: Naps,
}

/// Serves the load once, and adds the results of each client to `served`.
fn live(site: &TestSite, clients: &[TwinClient], served: &mut [VolumeService]) -> LiveRound {
    let members = clients.iter().map(|c| load::member(c.name, c.program));
    let mut samples = Vec::new();
    let sleeper = Sleeper::start();
    load::run(&site.unix, members.collect(), LENGTH, |passed| {
        if passed >= WARM_UP && samples.is_empty() || passed >= WARM_UP + LENGTH {
            samples.push((passed, MetricsSnapshot::of(&site.server)));
        }
    });
    let naps = sleeper.end();
    let [(from, before), (to, after)] = &samples[..] else {
        panic!("two samples");
    };
    for (client, served) in clients.iter().zip(served) {
        served.add(&VolumeService::between(client.name, before, after));
    }
    LiveRound {
        seconds: to.saturating_sub(*from).as_secs_f64(),
        naps,
    }
}

/// Simulates the same load for as many rounds.
fn simulated(clients: &[TwinClient], path: Path, rounds: &[LiveRound]) -> Vec<TwinFigures> {
    let mut meters: Vec<Meter> = Vec::new();
    for (number, round) in (0..).zip(rounds) {
        let drive = weir_model::drive::DriveConfig::Null(DRIVE);
        let mut scenario = Scenario::new("twin", drive, span(LENGTH));
        scenario.capacity = DRIVE.capacity();
        scenario.warm_up = span(WARM_UP);
        scenario.path = path;
        scenario.machine = round.naps.machine();
        for client in clients {
            scenario.add_client_with_group(client.name, client.contract, SIZE, client.program);
        }
        let run = SimRun::new(&scenario, &Policy::contract(), number).unwrap();
        let results = run.run(|_| {}).unwrap();
        for (i, client) in results.clients.into_iter().enumerate() {
            match meters.get_mut(i) {
                Some(meter) => meter.merge(&client.meter),
                None => meters.push(client.meter),
            }
        }
    }
    let seconds = LENGTH.as_secs_f64() * rounds.len() as f64;
    let figures = meters.iter().map(|meter| {
        let split = meter.split().mean_us().unwrap_or_default();
        TwinFigures {
            bandwidth: meter.bytes() as f64 / seconds,
            elevator: split.elevator,
            drive: split.drive,
        }
    });
    figures.collect()
}

fn span(duration: Duration) -> Span {
    Span::from_nanos(duration.as_nanos() as u64)
}

/// The measurements of a client that was alone on the server. Times are sums over its requests, in
/// nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct LoneClient {
    requests: f64,
    in_drive: f64,
    latency: f64,
    /// The processor time of the server, and the number of times it slept.
    processor: f64,
    sleeps: f64,
}

impl LoneClient {
    /// Serves random reads of 4 KiB with a queue depth of `depth`.
    fn measure(&mut self, site: &TestSite, volume: &str, depth: u32) {
        let usage = || (process::shard_nanos(), process::shard_sleeps());
        let before = (MetricsSnapshot::of(&site.server), usage());
        let member = load::member(volume, Program::random_reads(4096, depth));
        let outcome = &load::run(&site.unix, vec![member], ALONE, |_| {})[0];
        let after = (MetricsSnapshot::of(&site.server), usage());
        let served = VolumeService::between(volume, &before.0, &after.0);
        self.requests += served.requests;
        self.in_drive += served.drive * 1e9;
        self.latency += outcome.meter.latency().mean() * served.requests;
        self.processor += (after.1.0 - before.1.0) as f64;
        self.sleeps += (after.1.1 - before.1.1) as f64;
    }
}

/// Computes the path between clients and drive from a client with one request at a time and a
/// client with several.
///
/// A server that is not busy sleeps after each turn. Processor time as a function of sleeps, both
/// per request, is therefore a line with the time of a turn as its slope. A lone request arrives in
/// one turn and is answered in another. The time of the first turn passes while the drive is idle,
/// and the client sees that of the second. Timer lateness is not measured with a lone client,
/// because processors that sleep long wake up slowly.
fn path(one: &LoneClient, several: &LoneClient) -> Path {
    let processor = |a: &LoneClient| a.processor / a.requests;
    let sleeps = |a: &LoneClient| a.sleeps / a.requests;
    let turn = (processor(one) - processor(several)) / (sleeps(one) - sleeps(several));
    // Noise can make the slope negative, or larger than all of the processor time.
    let turn = turn.clamp(0.0, processor(several) / sleeps(several));
    let request = processor(one) - turn * sleeps(one);
    // The latency outside of the drive consists of one turn, half of the processor time of a
    // request, and the way in both directions.
    let way = (one.latency - one.in_drive) / one.requests - turn - request / 2.0;
    let span = |nanos: f64| Span::from_nanos(nanos.max(0.0) as u64);
    Path {
        latency: span(way / 2.0),
        turn: span(turn),
        processor: span(request),
    }
}

fn site(clients: &[TwinClient]) -> TestSite {
    let model = "{ kind = \"null\", service = \"500us\", tags = 4, link = \"250MB/s\" }";
    let volumes = clients.iter().map(|client| {
        let TwinClient { name, text, .. } = client;
        format!("[volume.{name}]\ndrive = \"d\"\nmodel = {model}\nsize = \"16MiB\"\n{text}\n")
    });
    let volumes: String = volumes.collect();
    TestSite::start(&format!(
        "[drive.d]\nmodel = {model}\npolicy = \"contract\"\n{volumes}"
    ))
}

#[test]
#[ignore = "needs a quiet machine: ./bench twin"]
fn a_simulated_scenario_comes_out_as_the_live_one() {
    let clients = clients();
    let site = site(&clients);
    let mut apart = Vec::new();
    for attempt in 1..=ATTEMPTS {
        println!("-- attempt {attempt} of at most {ATTEMPTS}");
        apart = compare(&site, &clients);
        if apart.is_empty() {
            return;
        }
    }
    panic!("live and simulated are too far apart: {}", apart.join(", "));
}

/// Serves, measures, simulates and compares. Returns the clients with figures that differ too much,
/// and these figures.
fn compare(site: &TestSite, clients: &[TwinClient]) -> Vec<String> {
    let quiet = (0..PATIENCE).any(|_| {
        let sleeper = Sleeper::start();
        std::thread::sleep(Duration::from_secs(1));
        sleeper.end().late(990) <= QUIET
    });
    if !quiet {
        println!("the machine is not quiet");
    }
    let mut served = vec![VolumeService::default(); clients.len()];
    let (mut rounds, mut one, mut several) =
        (Vec::new(), LoneClient::default(), LoneClient::default());
    for _ in 0..ROUNDS {
        rounds.push(live(site, clients, &mut served));
        one.measure(site, "c-single", 1);
        several.measure(site, "c-single", 8);
    }
    let naps = Naps(rounds.iter().flat_map(|r| r.naps.0.clone()).collect());
    println!(
        "a thread that only slept was late by {:?} (median), {:?} (99 %), {:?} (99.9 %)",
        naps.late(500),
        naps.late(990),
        naps.late(999)
    );
    let path = path(&one, &several);
    println!("{path:?}");
    let seconds = rounds.iter().map(|round| round.seconds).sum();
    let live: Vec<TwinFigures> = served.iter().map(|s| TwinFigures::of(s, seconds)).collect();
    table(clients, &live, &simulated(clients, path, &rounds))
}

/// Prints live and simulated figures next to each other. Returns the clients that differ.
fn table(clients: &[TwinClient], live: &[TwinFigures], simulated: &[TwinFigures]) -> Vec<String> {
    let columns = ["MB/s live", "elevator us", "drive us"]
        .map(|c| format!("{c:>11}{:>11}{:>9}", "simulated", "apart"));
    println!("{:12}{}  verdict", "client", columns.concat());
    let mut apart = Vec::new();
    for (client, (l, s)) in clients.iter().zip(live.iter().zip(simulated)) {
        let figures = [
            ("bandwidth", l.bandwidth / 1e6, s.bandwidth / 1e6, 0.0),
            ("elevator", l.elevator, s.elevator, SLACK_US),
            ("drive", l.drive, s.drive, 0.0),
        ];
        // NaN compares as false, so it counts as a difference.
        let agree = |live: f64, simulated: f64, slack: f64| {
            (live - simulated).abs() <= (TOLERANCE * simulated).max(slack)
        };
        let far = figures.iter().filter(|f| !agree(f.1, f.2, f.3));
        let far: Vec<&str> = far.map(|f| f.0).collect();
        let columns = figures.map(|(_, live, simulated, _)| {
            format!(
                "{live:11.2}{simulated:11.2}{:+8.1}%",
                100.0 * (live / simulated - 1.0)
            )
        });
        let verdict = if far.is_empty() {
            "agree".to_owned()
        } else {
            format!("APART: {}", far.join(", "))
        };
        println!("{:12}{}  {verdict}", client.name, columns.concat());
        apart.extend((!far.is_empty()).then(|| format!("{} ({})", client.name, far.join(", "))));
    }
    apart
}

/// The naps of a thread that only sleeps. Each has its intended end, relative to the start of the
/// first, and its lateness.
#[derive(Debug)]
struct Naps(Vec<(Duration, Duration)>);

impl Naps {
    /// Returns the lateness that `times` of a thousand naps do not exceed.
    fn late(&self, times: usize) -> Duration {
        let mut late: Vec<Duration> = self.0.iter().map(|nap| nap.1).collect();
        late.sort_unstable();
        late[late.len() * times / 1000]
    }

    /// Returns the behaviour of the machine: its stalls, and the lateness of timers otherwise.
    fn machine(&self) -> Machine {
        let is_stall = |nap: &&(Duration, Duration)| nap.1 >= STALL;
        let stalls = self.0.iter().filter(is_stall).map(|&(at, late)| CpuStall {
            at: weir_core::Instant::ZERO + span(at),
            length: span(late),
        });
        let late = self.0.iter().filter(|nap| !is_stall(nap));
        Machine {
            late: late.map(|nap| span(nap.1)).collect(),
            stalls: stalls.collect(),
        }
    }
}

/// A thread that only sleeps and records its lateness.
#[derive(Debug)]
struct Sleeper {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Naps>,
}

impl Sleeper {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            // The server sets the timer slack of its threads too, so both have the same lateness.
            weir_uring::precise_timers().expect("the server has them, too");
            let (first, mut naps) = (Instant::now(), Vec::new());
            while !told.load(Ordering::Relaxed) {
                let due = first.elapsed() + NAP;
                std::thread::sleep(NAP);
                naps.push((due, first.elapsed().saturating_sub(due)));
            }
            Naps(naps)
        });
        Self { stop, thread }
    }

    fn end(self) -> Naps {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("a thread that only sleeps")
    }
}
