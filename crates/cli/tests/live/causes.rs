//! Plants twelve causes on a live server, and checks that metrics, `weir top`, the dashboard, `weir
//! explain` and the recording name the right one.

use crate::browser::{BrowserPage, DashboardSite, TOKEN, browse};
use crate::common::running::fleet;
use crate::common::{Scratch, free_port, get, run, wait, works};
use crate::raw::{self, Raw};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use weir_core::Span;
use weir_measure::promise::{Cause, Excuse};
use weir_model::client::Address;
use weir_model::load::{Arrival, Program};

/// The number of whole promised seconds before the causes are compared.
const SECONDS: u64 = 2;

/// A disturbance that is planted besides the clients.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Disturbance {
    Nothing,
    /// Another server, whose storage fails every read.
    Failing,
    /// Another server, which is slower than its stated capacity.
    SlowServer,
    /// Programs that occupy the CPUs for most of the time.
    Burners,
    /// A client that sends requests but does not read its replies.
    Deaf,
}

/// A planted cause, from which the volume `alpha` suffers: the configuration of drives and volumes,
/// and the programs of clients.
struct PlantedCause {
    name: &'static str,
    cause: Cause,
    neighbour: Option<&'static str>,
    drive: &'static str,
    policy: &'static str,
    /// True if all volumes belong to a tenant with a max of 8 MB/s.
    of_tenant: bool,
    /// The volumes, with their mins in MB/s.
    volumes: Vec<(&'static str, u32)>,
    clients: Vec<(&'static str, Program)>,
    beside: Disturbance,
}

/// A drive of 100 MB/s, which is also its stated capacity.
const FAST: &str =
    "model = { kind = \"null\", service = \"30us\", tags = 32, link = \"100MB/s\" }\n";
/// The same drive with a queue of two requests, so that others wait in the elevator.
const NARROW: &str =
    "model = { kind = \"null\", service = \"30us\", tags = 2, link = \"100MB/s\" }\n";
/// A disk for which the sequential rate was stated as its capacity. Random reads reach a fraction
/// of that.
const SLOW: &str =
    "model = \"hitachi-hts72755\"\ncapacity = { read = \"80MB/s\", write = \"80MB/s\" }\n";
/// A drive on another server, with a stated capacity of 100 MB/s.
const REMOTE: &str =
    "capacity = { read = \"100MB/s\", write = \"100MB/s\" }\ncontract = { remote = \"40ms\" }\n";

fn reads(kib: u32, depth: u32) -> Program {
    Program::random_reads(kib << 10, depth)
}

/// Returns a plant with one client on one volume.
fn alone(
    name: &'static str,
    cause: Cause,
    drive: &'static str,
    min: u32,
    program: Program,
) -> PlantedCause {
    PlantedCause {
        name,
        cause,
        neighbour: None,
        drive,
        policy: "contract",
        of_tenant: false,
        volumes: vec![("alpha", min)],
        clients: vec![("alpha", program)],
        beside: Disturbance::Nothing,
    }
}

/// Returns the plants with neighbours, mostly in order of arrival.
fn beside_neighbours() -> Vec<PlantedCause> {
    let behind = |name, drive, neighbour, others: &[(&'static str, Program)]| {
        let plain = alone(name, Cause::Neighbour, drive, 60, reads(32, 2));
        let volumes = others.iter().map(|(name, _)| (*name, 0));
        PlantedCause {
            neighbour: Some(neighbour),
            policy: "none",
            volumes: plain.volumes.iter().copied().chain(volumes).collect(),
            clients: [&plain.clients[..], others].concat(),
            ..plain
        }
    };
    let hog = reads(128, 24);
    let beta = [("beta", hog)];
    let two = [("beta", reads(64, 4)), ("gamma", hog)];
    vec![
        behind("a neighbour in the drive's queue", FAST, "beta", &beta),
        behind("a neighbour in the elevator", NARROW, "beta", &beta),
        behind("the larger of two neighbours", FAST, "gamma", &two),
        PlantedCause {
            policy: "none",
            of_tenant: true,
            volumes: vec![("alpha", 6), ("beta", 0)],
            clients: vec![("alpha", reads(64, 4)), ("beta", reads(64, 16))],
            ..alone("its tenant's max", Cause::OwnMax, FAST, 6, hog)
        },
    ]
}

fn plants() -> Vec<PlantedCause> {
    let deep = reads(64, 16);
    let thinks = Program {
        arrival: Arrival::Closed {
            think: Span::from_millis(100),
        },
        ..reads(4, 1)
    };
    let shared = "a slow drive that a neighbour uses, too";
    let remote = "a remote server slower than stated";
    let idle = "a client that does not ask";
    let deaf = "a client that does not read";
    let mut plants = beside_neighbours();
    plants.extend([
        alone("its own depth", Cause::OwnDepth, FAST, 80, reads(4, 1)),
        alone("a slow drive", Cause::SlowDrive, SLOW, 60, deep),
        PlantedCause {
            volumes: vec![("alpha", 30), ("beta", 30)],
            clients: vec![("alpha", deep), ("beta", deep)],
            ..alone(shared, Cause::SlowDrive, SLOW, 30, deep)
        },
        PlantedCause {
            beside: Disturbance::Burners,
            ..alone("a busy host", Cause::HostBusy, FAST, 80, deep)
        },
        PlantedCause {
            beside: Disturbance::Failing,
            clients: Vec::new(),
            ..alone("errors", Cause::Errors, REMOTE, 20, deep)
        },
        PlantedCause {
            beside: Disturbance::SlowServer,
            ..alone(remote, Cause::SlowDrive, REMOTE, 80, deep)
        },
        alone(idle, Cause::ClientIdle, FAST, 20, thinks),
        PlantedCause {
            beside: Disturbance::Deaf,
            clients: Vec::new(),
            ..alone(deaf, Cause::NotReading, FAST, 20, deep)
        },
    ]);
    plants
}

impl PlantedCause {
    /// Returns the configuration of the server.
    fn file(&self, scratch: &Scratch, port: u16) -> String {
        let path = |name| scratch.at(name);
        let mut text = format!(
            "[listen]\nnbd = [\"unix:{}\"]\nmetrics = \"127.0.0.1:{port}\"\n\
             [manage]\nsocket = \"{}\"\nhttp = \"127.0.0.1:0\"\ntoken_file = \"{}\"\n\
             [drive.d]\npolicy = \"{}\"\n{}",
            path("nbd.sock"),
            path("manage.sock"),
            path("token"),
            self.policy,
            self.drive
        );
        let storage = if self.drive == REMOTE {
            format!("nbd = \"nbd+unix:///?socket={}\"", path("pool.sock"))
        } else {
            "size = \"64MiB\"".to_owned()
        };
        let mut tenant = "";
        if self.of_tenant {
            text += "[tenant.t]\ndrive = \"d\"\nmax = \"8MB/s\"\n";
            tenant = "tenant = \"t\"\n";
        }
        let volumes = self.volumes.iter().flat_map(|(name, min)| {
            let volume = format!("[volume.{name}]\ndrive = \"d\"\n{storage}\n{tenant}");
            let min = (*min > 0).then(|| format!("min = \"{min}MB/s\"\n"));
            [Some(volume), min]
        });
        text.extend(volumes.flatten());
        text
    }
}

/// Threads and processes that run until this value is dropped.
struct BackgroundLoad {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    children: Vec<Child>,
}

impl BackgroundLoad {
    fn new() -> Self {
        Self {
            stop: Arc::default(),
            threads: Vec::new(),
            children: Vec::new(),
        }
    }

    fn run(&mut self, run: impl FnOnce(&AtomicBool) + Send + 'static) {
        let stop = Arc::clone(&self.stop);
        self.threads.push(thread::spawn(move || run(&stop)));
    }
}

impl Drop for BackgroundLoad {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        for thread in self.threads.drain(..) {
            // If a thread failed, the failure of the test itself is more informative.
            let _ = thread.join();
        }
    }
}

/// Starts the other server that the plant needs, if any.
fn before(plant: &PlantedCause, scratch: &Scratch) -> BackgroundLoad {
    let mut until = BackgroundLoad::new();
    let socket = scratch.path("pool.sock");
    let filters: &[&str] = match plant.beside {
        Disturbance::Failing => &["--filter=error", "memory", "64M", "error-pread-rate=100%"],
        Disturbance::SlowServer => &["--filter=rate", "memory", "64M", "rate=100M"],
        _ => return until,
    };
    let mut command = Command::new("nbdkit");
    command.args(["-f", "-U"]).arg(&socket).args(filters);
    until
        .children
        .push(command.stderr(Stdio::null()).spawn().unwrap());
    wait("the other server listens", || socket.exists());
    until
}

/// Starts the load of the clients, and the disturbance.
fn load(plant: &PlantedCause, address: &Address) -> BackgroundLoad {
    let mut until = BackgroundLoad::new();
    let fleet = fleet(address, &plant.clients, Duration::from_mins(10));
    if !fleet.members.is_empty() {
        until.run(move |stop| {
            let read = fleet.run_while(|_| !stop.load(Ordering::Relaxed));
            assert!(read.unwrap().is_none(), "it was told to end");
        });
    }
    let address = match address {
        Address::Unix(path) => weir_config::ListenAddress::Unix(path.clone()),
        Address::Tcp(_) => unreachable!("the file names a socket"),
    };
    match plant.beside {
        Disturbance::Failing => until.run(move |stop| {
            let mut raw = Raw::open(&address, "alpha").unwrap();
            while !stop.load(Ordering::Relaxed) {
                let _ = raw.read(0, 1 << 20);
            }
        }),
        Disturbance::Deaf => until.run(move |stop| {
            let _raw = raw::deaf(&address, "alpha", 1 << 20);
            while !stop.load(Ordering::Relaxed) {
                thread::park_timeout(Duration::from_millis(10));
            }
        }),
        Disturbance::Burners => {
            let processors = thread::available_parallelism().unwrap().get();
            until.children.extend((0..processors).map(|_| burner()));
        }
        Disturbance::Nothing | Disturbance::SlowServer => {}
    }
    until
}

/// Starts a program that occupies a CPU for most of the time, with a higher priority than all
/// others.
fn burner() -> Child {
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new("chrt");
    // The real-time class SCHED_FIFO precedes all normal threads.
    command.args(["-f", "5"]).arg(this);
    command.args(["--exact", "causes::burn", "--ignored"]);
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.spawn().expect("chrt(1) is there, and this is root")
}

/// The program of a [`burner`], which is not a test.
#[test]
#[ignore = "takes a processor for a minute"]
fn burn() {
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_mins(1) {
        let round = std::time::Instant::now();
        // A burner runs for 70 of every 95 ms.
        while round.elapsed() < Duration::from_millis(70) {
            std::hint::spin_loop();
        }
        thread::park_timeout(Duration::from_millis(25));
    }
}

/// A named cause, with the neighbour if one is named.
type NamedCause = (String, Option<String>);

fn named(value: &Value, cause: &str) -> NamedCause {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    (
        text(&value[cause]).unwrap_or_default(),
        text(&value["neighbour"]),
    )
}

/// Returns the value with the largest sum of counts.
fn most<T: Ord>(counts: impl IntoIterator<Item = (T, u64)>) -> Option<T> {
    let mut sums = BTreeMap::new();
    for (what, count) in counts {
        *sums.entry(what).or_insert(0) += count;
    }
    let most = sums.into_iter().max_by_key(|(_, count)| *count);
    most.filter(|(_, count)| *count > 0).map(|(what, _)| what)
}

/// Returns the samples of a metric family that have a label, each as the label's value and the
/// number.
fn samples(page: &str, family: &str, label: &str) -> Vec<(String, u64)> {
    let lines = page.lines().filter(|line| line.starts_with(family));
    let alphas = lines.filter(|line| line.contains("volume=\"alpha\""));
    let sample = |line: &str| {
        let (_, rest) = line.split_once(&format!("{label}=\""))?;
        let (value, rest) = rest.split_once('"')?;
        let count = rest.split_whitespace().last()?.parse::<f64>().ok()?;
        Some((value.to_owned(), count as u64))
    };
    alphas.filter_map(sample).collect()
}

fn count(page: &str, family: &str) -> u64 {
    let sample = format!("{family}{{volume=\"alpha\"}} ");
    let found = page.lines().find_map(|line| line.strip_prefix(&sample));
    found.map_or(0, |text| text.parse::<f64>().unwrap() as u64)
}

/// Returns the cause that the metrics name: that of the short seconds, or otherwise that of the
/// seconds in which the promise did not apply.
fn by_metrics(page: &str) -> NamedCause {
    let neighbour = most(samples(
        page,
        "weir_short_neighbour_seconds_total",
        "neighbour",
    ));
    if let Some(cause) = most(samples(page, "weir_short_reason_seconds_total", "reason")) {
        return (cause, neighbour);
    }
    let excused = samples(page, "weir_excused_seconds_total", "reason");
    let excused = excused.into_iter().map(|(reason, count)| {
        let mut all = Excuse::ALL.into_iter();
        let excuse = all.find(|e| e.name() == reason).expect("a known reason");
        (excuse.cause().name(), count)
    });
    let unasked = [(
        Cause::ClientIdle.name(),
        count(page, "weir_unasked_seconds_total"),
    )];
    let most = most(excused.chain(unasked));
    (most.unwrap_or_default().to_owned(), None)
}

fn json(scratch: &Scratch, line: &str) -> Value {
    let said = run(scratch, line).ended(0);
    serde_json::from_str(&said.out).expect("one object")
}

/// Returns the causes that `weir top` and the dashboard show for `alpha` in most of the last
/// seconds.
async fn by_seconds(scratch: &Scratch, page: &BrowserPage, url: &str) -> [NamedCause; 2] {
    page.0.goto(&format!("{url}#token={TOKEN}")).await.unwrap();
    let row = "[...document.querySelectorAll('#list > li')].find(r => r.querySelector('h3').textContent === 'alpha')";
    page.wait(&format!("({row})?.querySelector('.limited')?.innerText"))
        .await;
    let (mut tops, mut pages) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let shown = format!("return ({row}).querySelector('.limited').innerText");
        let shown = page.ask(&shown).await;
        pages.push((of_words(shown.as_str().unwrap()), 1));
        tops.push((by_top(scratch), 1));
        thread::sleep(Duration::from_millis(800));
    }
    page.0.goto("about:blank").await.unwrap();
    [most(tops).unwrap(), most(pages).unwrap()]
}

/// Returns the cause that `weir top` shows for `alpha` now.
fn by_top(scratch: &Scratch) -> NamedCause {
    let status = json(scratch, "top --once --json --socket manage.sock");
    let mut volumes = status["volumes"].as_array().unwrap().iter();
    let alpha = volumes.find(|volume| volume["name"] == "alpha");
    named(&alpha.unwrap()["now"], "limited_by")
}

/// Returns the cause that these words of the dashboard stand for.
fn of_words(shown: &str) -> NamedCause {
    if shown.starts_with("its client had nothing outstanding for ") {
        return (Cause::ClientIdle.name().to_owned(), None);
    }
    let of = |cause: Cause| {
        let rest = shown
            .strip_prefix("limited by ")?
            .strip_prefix(cause.words())?;
        let neighbour = rest.strip_prefix(": ").map(str::to_owned);
        Some((cause.name().to_owned(), neighbour))
    };
    let found = Cause::ALL.into_iter().find_map(of);
    found.unwrap_or_else(|| (shown.to_owned(), None))
}

/// Plants a cause, and returns the cause that each of the outputs names.
async fn play(plant: &PlantedCause, page: &BrowserPage) -> Vec<(&'static str, NamedCause)> {
    let scratch = Scratch::new();
    let port = free_port();
    let other = before(plant, &scratch);
    let text = plant.file(&scratch, port);
    let site = DashboardSite::of(&scratch, &text, "--record record");
    let clients = load(plant, &site.address);
    let promised = || {
        let page = get(port, "/metrics").unwrap_or_default();
        count(&page, "weir_promised_seconds_total")
    };
    wait("seconds pass", || {
        thread::sleep(Duration::from_millis(100));
        promised() > SECONDS
    });
    let [top, dashboard] = by_seconds(&scratch, page, &site.url).await;
    let metrics = by_metrics(&get(port, "/metrics").unwrap());
    let live = json(&scratch, "explain alpha --json --socket manage.sock");
    drop(clients);
    site.end();
    drop(other);
    let recorded = "explain alpha --record record --config weir.toml --json";
    let recorded = json(&scratch, recorded);
    vec![
        ("metrics", metrics),
        ("weir top", top),
        ("dashboard", dashboard),
        ("weir explain", by_explanation(&live)),
        ("the record", by_explanation(&recorded)),
    ]
}

/// Returns the cause of an explanation, with the most frequent neighbour of its short seconds.
fn by_explanation(explanation: &Value) -> NamedCause {
    let (cause, _) = named(explanation, "cause");
    let short = explanation["promise"]["short"].as_array();
    let short = short.into_iter().flatten();
    let of_cause = short.filter(|short| short["cause"] == cause.as_str());
    let neighbours = of_cause.filter_map(|short| {
        let name = short["neighbour"].as_str()?.to_owned();
        Some((name, short["seconds"].as_u64()?))
    });
    let neighbour = most(neighbours.collect::<Vec<_>>());
    (cause, neighbour)
}

/// Prints a row of the table for each output, and returns those that name another cause than the
/// planted one.
fn other_than(
    wanted: &NamedCause,
    plant: &str,
    found: Vec<(&'static str, NamedCause)>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (by, named) in found {
        println!("{plant:<42} {by:<12} {named:?}");
        if named != *wanted {
            wrong.push(format!("{plant}: {by} names {named:?}, not {wanted:?}"));
        }
    }
    wrong
}

/// Prints a table with `cargo test -p weir --test live causes:: -- --nocapture`.
#[test]
fn twelve_planted_causes_are_named_alike_everywhere() {
    if !works("nbdkit", &["--version"]) || !works("chrt", &["-f", "5", "true"]) {
        return;
    }
    browse(|page| async move {
        let mut wrong = Vec::new();
        for plant in plants() {
            let wanted = (
                plant.cause.name().to_owned(),
                plant.neighbour.map(str::to_owned),
            );
            // Other activity on the machine is a cause as well, so one of three runs must be
            // undisturbed.
            let mut said = Vec::new();
            for _ in 0..3 {
                said = other_than(&wanted, plant.name, play(&plant, &page).await);
                if said.is_empty() {
                    break;
                }
            }
            wrong.extend(said);
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}
