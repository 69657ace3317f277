//! A simulated scenario, with the way between clients and server measured, comes out as the live one does.
//!
//! What lies between clients and drive is measured on this machine, and nothing that is compared is among it. While one client has
//! the server for itself, with one request at a time and with several: how long a request is on its way, and the processor time of
//! a turn and of a request. By a thread that only sleeps while the clients are served: how late timers are, time after time, and
//! when the machine stops for a while (a virtual machine does, on a host with others); the simulated server then is as late, and
//! stops, too. Live rounds and measurements take turns, so that a machine whose speed changes changes both.
//!
//! Each client's bandwidth and its requests' mean time in the elevator and in the drive, live and simulated, are printed with the
//! verdict. They agree only on processors that nobody else uses, so the test runs from `./bench twin`, waits for a quiet second, and
//! prints how quiet it was. That the decisions are the same, to the byte and however busy the machine, is `twin.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::tools::metrics::Metrics;
use crate::tools::{Site, load, process};
use weir_core::{Contract, Max, Span};
use weir_measure::Meter;
use weir_model::drive::null;
use weir_model::load::{Arrival, Program};
use weir_sim::{Machine, Path, Policy, Run, Scenario, Stall};

/// How far live and simulated may be apart, in the best of some attempts: other processes only push them apart.
const TOLERANCE: f64 = 0.1;
const ATTEMPTS: u32 = 3;
/// Times that are apart by less than a tenth of a service agree, too: a request that finds one of the tags free waits for nothing in
/// the elevator and one that does not waits for most of a service, so a short mean is the share of those that do, and one in ten of
/// a client's requests meeting another's is chance.
const SLACK_US: f64 = 50.0;
const SIZE: u64 = 16 << 20;
/// An attempt is a number of rounds; in each, all clients are served for the one time, one alone for twice the other.
const ROUNDS: u32 = 4;
const LENGTH: Duration = Duration::from_secs(2);
const WARM_UP: Duration = Duration::from_millis(500);
const ALONE: Duration = Duration::from_millis(500);
/// A thread that only sleeps does so this long at a time. Later than this is a stall of the machine.
const NAP: Duration = Duration::from_micros(250);
const STALL: Duration = Duration::from_micros(100);
/// A second is quiet in which a thread that only sleeps was this late at most, but for one time in a hundred. It is waited for, but
/// not for longer than this many.
const QUIET: Duration = Duration::from_micros(150);
const PATIENCE: u32 = 30;

/// The drive: 4 tags, 500 us.
const DRIVE: null::Config = null::Config {
    service: Span::from_micros(500),
    tags: 4,
    queues: 1,
    link: 250_000_000,
    tick: Span::ZERO,
    wake: Span::ZERO,
    command: null::Config::COMMAND,
};

/// A client with its contract, and how the file says it.
struct Client {
    name: &'static str,
    text: &'static str,
    contract: Contract,
    program: Program,
}

/// Eight clients that want more than there is: one at a time and many, promised, limited, paced, with large shares and small.
fn clients() -> Vec<Client> {
    let client = |name, text, contract, program| Client {
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

/// What became of a client: bytes a second, and the mean times of its requests in microseconds.
#[derive(Clone, Copy, Debug)]
struct Figures {
    bandwidth: f64,
    elevator: f64,
    drive: f64,
}

impl Figures {
    fn of(served: &Served, seconds: f64) -> Self {
        let mean = |sum: f64| 1e6 * sum / served.requests;
        Self {
            bandwidth: served.bytes / seconds,
            elevator: mean(served.elevator),
            drive: mean(served.drive),
        }
    }
}

/// What a volume's metrics have grown by.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    requests: f64,
    bytes: f64,
    /// Seconds, added up over the requests.
    elevator: f64,
    drive: f64,
}

impl Served {
    fn between(volume: &str, before: &Metrics, after: &Metrics) -> Self {
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

/// A round: how long it was measured, and how late a thread was meanwhile that only sleeps.
#[derive(Debug)]
struct Round {
    seconds: f64,
    naps: Naps,
}

/// Serves the load once, and adds what became of each client to `served`.
fn live(site: &Site, clients: &[Client], served: &mut [Served]) -> Round {
    let members = clients.iter().map(|c| load::member(c.name, c.program));
    let mut samples = Vec::new();
    let sleeper = Sleeper::start();
    load::run(&site.unix, members.collect(), LENGTH, |passed| {
        if passed >= WARM_UP && samples.is_empty() || passed >= WARM_UP + LENGTH {
            samples.push((passed, Metrics::of(&site.server)));
        }
    });
    let naps = sleeper.end();
    let [(from, before), (to, after)] = &samples[..] else {
        panic!("two samples");
    };
    for (client, served) in clients.iter().zip(served) {
        served.add(&Served::between(client.name, before, after));
    }
    Round {
        seconds: to.saturating_sub(*from).as_secs_f64(),
        naps,
    }
}

/// Plays the same in virtual time, as many rounds.
fn simulated(clients: &[Client], path: Path, rounds: &[Round]) -> Vec<Figures> {
    let mut meters: Vec<Meter> = Vec::new();
    for (number, round) in (0..).zip(rounds) {
        let drive = weir_model::drive::Config::Null(DRIVE);
        let mut scenario = Scenario::new("twin", drive, span(LENGTH));
        scenario.capacity = DRIVE.capacity();
        scenario.warm_up = span(WARM_UP);
        scenario.path = path;
        scenario.machine = round.naps.machine();
        for client in clients {
            scenario.tenant(client.name, client.contract, SIZE, client.program);
        }
        let run = Run::new(&scenario, &Policy::contract(), number).unwrap();
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
        Figures {
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

/// A client that had the server for itself. Sums over its requests, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Alone {
    requests: f64,
    in_drive: f64,
    latency: f64,
    /// Processor time of the server, and how often it slept.
    processor: f64,
    sleeps: f64,
}

impl Alone {
    /// Serves random reads of 4 KiB, `depth` at a time.
    fn measure(&mut self, site: &Site, volume: &str, depth: u32) {
        let usage = || (process::shard_nanos(), process::shard_sleeps());
        let before = (Metrics::of(&site.server), usage());
        let member = load::member(volume, Program::random_reads(4096, depth));
        let outcome = &load::run(&site.unix, vec![member], ALONE, |_| {})[0];
        let after = (Metrics::of(&site.server), usage());
        let served = Served::between(volume, &before.0, &after.0);
        self.requests += served.requests;
        self.in_drive += served.drive * 1e9;
        self.latency += outcome.meter.latency().mean() * served.requests;
        self.processor += (after.1.0 - before.1.0) as f64;
        self.sleeps += (after.1.1 - before.1.1) as f64;
    }
}

/// What lies between clients and drive: from a client that had one request at a time, and one that had several.
///
/// A server that is not busy sleeps after each turn, so that processor time against sleeps, both for each request, is a line
/// whose slope is the time of a turn. A lone request comes in one turn and is answered in another: its drive's time hides the
/// first, its client sees the second. How late a timer is for a lone client is no measure: processors that sleep long wake slowly.
fn path(one: &Alone, several: &Alone) -> Path {
    let processor = |a: &Alone| a.processor / a.requests;
    let sleeps = |a: &Alone| a.sleeps / a.requests;
    let turn = (processor(one) - processor(several)) / (sleeps(one) - sleeps(several));
    let turn = turn.clamp(0.0, processor(several) / sleeps(several));
    let request = processor(one) - turn * sleeps(one);
    let way = (one.latency - one.in_drive) / one.requests - turn - request / 2.0;
    let span = |nanos: f64| Span::from_nanos(nanos.max(0.0) as u64);
    Path {
        latency: span(way / 2.0),
        turn: span(turn),
        processor: span(request),
    }
}

fn site(clients: &[Client]) -> Site {
    let model = "{ kind = \"null\", service = \"500us\", tags = 4, link = \"250MB/s\" }";
    let volumes = clients.iter().map(|client| {
        let Client { name, text, .. } = client;
        format!("[volume.{name}]\ndrive = \"d\"\nmodel = {model}\nsize = \"16MiB\"\n{text}\n")
    });
    let volumes: String = volumes.collect();
    Site::start(&format!(
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

/// Serves, measures, simulates and compares; returns whose figures are too far apart, and which.
fn compare(site: &Site, clients: &[Client]) -> Vec<String> {
    let quiet = (0..PATIENCE).any(|_| {
        let sleeper = Sleeper::start();
        std::thread::sleep(Duration::from_secs(1));
        sleeper.end().late(990) <= QUIET
    });
    if !quiet {
        println!("the machine is not quiet");
    }
    let mut served = vec![Served::default(); clients.len()];
    let (mut rounds, mut one, mut several) = (Vec::new(), Alone::default(), Alone::default());
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
    let live: Vec<Figures> = served.iter().map(|s| Figures::of(s, seconds)).collect();
    table(clients, &live, &simulated(clients, path, &rounds))
}

/// Prints live and simulated side by side.
fn table(clients: &[Client], live: &[Figures], simulated: &[Figures]) -> Vec<String> {
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
        // What is no number is apart, too.
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

/// Naps of a thread that only sleeps: when each was to end, counted from the first, and how late it ended.
#[derive(Debug)]
struct Naps(Vec<(Duration, Duration)>);

impl Naps {
    /// How late it was, at most, in that part of a thousand times.
    fn late(&self, times: usize) -> Duration {
        let mut late: Vec<Duration> = self.0.iter().map(|nap| nap.1).collect();
        late.sort_unstable();
        late[late.len() * times / 1000]
    }

    /// What the machine did: when it did not run the thread, and how late the thread was otherwise.
    fn machine(&self) -> Machine {
        let is_stall = |nap: &&(Duration, Duration)| nap.1 >= STALL;
        let stalls = self.0.iter().filter(is_stall).map(|&(at, late)| Stall {
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

/// The thread.
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
