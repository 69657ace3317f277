//! The server's verdicts on a promise agree with the client's own measurements, in bytes and for
//! each second.
//!
//! The client's count uses no data of the server except the beginning of its seconds. Both describe
//! the same run, so that the result does not depend on the speed of the machine.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::tools::metrics::MetricsSnapshot;
use crate::tools::raw::{Raw, header};
use crate::tools::{TestSite, until};
use weir_config::ListenAddress;
use weir_core::random::Rng;
use weir_wire::nbd::{CommandFlags, NbdCommand};

/// The minimum of the client in bytes per second.
const MIN: f64 = 40e6;

/// A link of 100 MB/s that serves in the order of arrival. A client and its tenant are promised 40
/// MB/s.
const CONFIG: &str = "
[drive.d]
policy = \"none\"
model = { kind = \"null\", service = \"30us\", tags = 32, link = \"100MB/s\" }
[tenant.acme]
drive = \"d\"
min = \"40MB/s\"
[volume.client]
drive = \"d\"
tenant = \"acme\"
min = \"40MB/s\"
size = \"64MiB\"
[volume.hog]
drive = \"d\"
size = \"64MiB\"
";

/// A request as its client has observed it.
#[derive(Clone, Copy, Debug)]
struct ObservedRequest {
    sent: Instant,
    answered: Instant,
    bytes: u32,
}

/// Reads at random positions, one request after another, until `stop` is set.
fn reads(
    address: &ListenAddress,
    export: &str,
    length: u32,
    seed: u64,
    stop: &AtomicBool,
) -> Vec<ObservedRequest> {
    let mut raw = Raw::open(address, export).unwrap();
    let (mut rng, mut seen) = (Rng::new(seed), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let offset = rng.range(0, 500) * 128 * 1024;
        let sent = Instant::now();
        assert_eq!(raw.read(offset, length).unwrap().len(), length as usize);
        seen.push(ObservedRequest {
            sent,
            answered: Instant::now(),
            bytes: length,
        });
    }
    seen
}

/// Runs a client with four requests of 32 KiB at a time for six seconds. In the first three
/// seconds, a neighbour has six requests of 128 KiB.
fn play(site: &TestSite) -> Vec<ObservedRequest> {
    let (stop, stop_hog) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (stop, stop_hog) = (&stop, &stop_hog);
        for seed in 0..6 {
            scope.spawn(move || reads(&site.unix, "hog", 128 << 10, seed, stop_hog));
        }
        let client = |seed| scope.spawn(move || reads(&site.unix, "client", 32 << 10, seed, stop));
        let clients: Vec<_> = (10..14).map(client).collect();
        std::thread::sleep(Duration::from_secs(3));
        stop_hog.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_secs(3));
        stop.store(true, Ordering::Relaxed);
        let seen = clients.into_iter().map(|c| c.join().unwrap());
        seen.flatten().collect()
    })
}

/// Commands that move no data, such as a read beyond the end or a flush, each with its range.
const NOTHING: [(NbdCommand, u64, u32); 6] = [
    (NbdCommand::Read, 1 << 40, 4096),
    (NbdCommand::Flush, 0, 0),
    (NbdCommand::Cache, 0, 4096),
    (NbdCommand::Trim, 4096, 4096),
    (NbdCommand::WriteZeroes, 8192, 4096),
    (NbdCommand::Unknown(77), 0, 0),
];

/// Sends batches of drawn requests without data until `stop` is set.
fn floods(address: &ListenAddress, seed: u64, stop: &AtomicBool) {
    let mut raw = Raw::open(address, "hog").unwrap();
    let mut rng = Rng::new(seed);
    while !stop.load(Ordering::Relaxed) {
        let count = rng.range(1, 100);
        let batch: Vec<u8> = (0..count)
            .flat_map(|cookie| {
                let (command, offset, length) = NOTHING[rng.range(0, 5) as usize];
                header(command, CommandFlags::EMPTY, cookie, offset, length)
            })
            .collect();
        raw.stream.write_all(&batch).unwrap();
        for _ in 0..count {
            raw.receive().unwrap();
        }
    }
}

/// Runs a client with four requests of 32 KiB at a time for four seconds, together with a flood
/// from a drawn number of connections.
fn play_flood(site: &TestSite, seed: u64) -> Vec<ObservedRequest> {
    let connections = Rng::new(seed).range(1, 24);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        for n in 0..connections {
            scope.spawn(move || floods(&site.unix, seed * 100 + n, stop));
        }
        let client = |seed| scope.spawn(move || reads(&site.unix, "client", 32 << 10, seed, stop));
        let clients: Vec<_> = (10..14).map(client).collect();
        std::thread::sleep(Duration::from_secs(4));
        stop.store(true, Ordering::Relaxed);
        let seen = clients.into_iter().map(|c| c.join().unwrap());
        seen.flatten().collect()
    })
}

/// The service of a client in one second, and its waiting time.
#[derive(Clone, Copy, Debug, Default)]
struct ClientSecond {
    bytes: f64,
    waited: f64,
}

/// Returns the client's own count of the seconds that begin at `origin`.
fn count(seen: &[ObservedRequest], origin: Instant, seconds: usize) -> Vec<ClientSecond> {
    let at = |time: Instant| time.saturating_duration_since(origin).as_secs_f64();
    let mut all = vec![ClientSecond::default(); seconds];
    let mut waits: Vec<(f64, f64)> = seen.iter().map(|s| (at(s.sent), at(s.answered))).collect();
    waits.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut until = 0.0_f64;
    for (from, to) in waits {
        // Overlapping waits count once, so only the part after `until` is added.
        for (k, second) in all.iter_mut().enumerate() {
            let (begin, end) = (k as f64, k as f64 + 1.0);
            second.waited += (to.min(end) - from.max(until).max(begin)).max(0.0);
        }
        until = until.max(to);
    }
    for request in seen {
        if let Some(second) = all.get_mut(at(request.answered) as usize) {
            second.bytes += f64::from(request.bytes);
        }
    }
    all
}

/// Returns the server's counters for the client with this label, from metrics with this prefix.
fn said(metrics: &MetricsSnapshot, prefix: &str, label: (&str, &str)) -> [f64; 5] {
    let names = [
        "promised_seconds_total",
        "kept_seconds_total",
        "short_seconds_total",
        "excused_seconds_total",
        "short_bytes_total",
    ];
    names.map(|name| metrics.sum(&format!("{prefix}_{name}"), &[label]))
}

/// Returns the zero of the server's clock. Of many reads of the metrics, the fastest is the most
/// precise.
fn origin(site: &TestSite) -> Instant {
    let scrapes = (0..50).map(|_| {
        let before = Instant::now();
        let metrics = MetricsSnapshot::of(&site.server);
        let took = before.elapsed();
        let served = metrics.sum("weir_drive_seconds_total", &[("drive", "d")]);
        let since = Duration::from_secs_f64(served).saturating_sub(took / 2);
        (took, before.checked_sub(since).unwrap())
    });
    scrapes.min_by_key(|s| s.0).unwrap().1
}

/// Runs a load and compares both counts. Returns the difference if it is too large. `others_had` is
/// the number of short seconds that other clients must have caused.
fn compare(
    config: &str,
    play: impl Fn(&TestSite) -> Vec<ObservedRequest>,
    others_had: f64,
) -> Result<(), String> {
    let site = TestSite::start(config);
    let seen = play(&site);
    let metrics = MetricsSnapshot::of(&site.server);
    let origin = origin(&site);
    let client = ("volume", "client");
    let bytes = metrics.sum("weir_bytes_total", &[client]);
    let own: f64 = seen.iter().map(|s| f64::from(s.bytes)).sum();
    assert!((bytes - own).abs() < 0.5, "every byte: {bytes} and {own}");

    let [promised, kept, short, excused, lacking] = said(&metrics, "weir", client);
    let tenant = said(&metrics, "weir_tenant", ("tenant", "acme"));
    assert!((promised - (kept + short + excused)).abs() < 0.5);
    assert!((tenant[0] - promised).abs() < 0.5 && (tenant[4] - lacking).abs() < 0.5);

    // The server has started during the first second, so that second is not judged.
    let all = count(&seen, origin, promised as usize + 1);
    let (mut own_short, mut own_lacking, mut near) = (0.0, 0.0, 0.0);
    for second in &all[1..] {
        let owed = MIN * second.waited;
        // A second counts as short if more than 1 % of the min is missing.
        let lacks = owed - MIN / 100.0 - second.bytes;
        // A verdict within 2 % of the min can differ, because the two clocks do.
        near += f64::from(u8::from(lacks.abs() < MIN / 50.0));
        if lacks > 0.0 {
            own_short += 1.0;
            own_lacking += owed - second.bytes;
        }
    }
    let off = (lacking - own_lacking).abs() / (MIN * promised);
    let others = [client, ("reason", "neighbour")];
    let others = metrics.sum("weir_short_reason_seconds_total", &others);
    let hog = [client, ("neighbour", "hog")];
    let by_hog = if others > 0.0 {
        metrics.sum("weir_short_neighbour_seconds_total", &hog)
    } else {
        0.0
    };
    let said = format!(
        "server: {promised} promised, {kept} kept, {short} short by {lacking} ({others} for others), {excused} excused; client: \
         {own_short} short by {own_lacking}, {:.2} % off; {all:?}",
        off * 100.0
    );
    println!("{said}");
    let agree = (short - own_short).abs() <= near && off < 0.01;
    // The metrics name the client that had the missing service, and do not claim that the client
    // was idle.
    let true_reasons = by_hog >= others_had && others <= short && excused <= 1.0;
    if agree && true_reasons {
        Ok(())
    } else {
        Err(said)
    }
}

/// The counts agree within 1 % of the promise. If a client gets no processor, it sees its answers
/// late, and the server sees a client without requests. Therefore only one of eight runs has to be
/// undisturbed.
#[test]
fn server_and_client_agree_on_the_seconds_of_a_promise() {
    let mut said = Vec::new();
    for _ in 0..8 {
        // Next to the hog, the client gets a fifth of the link.
        match compare(CONFIG, play, 2.0) {
            Ok(()) => return,
            Err(differs) => said.push(differs),
        }
    }
    panic!("{}", said.join("\n"));
}

/// The same comparison during floods of requests that move no data. `WEIR_DRAWS` sets the number of
/// drawn mixes. For each mix, one of eight runs has to be undisturbed.
#[test]
fn server_and_client_agree_on_the_seconds_during_a_flood() {
    let mixes = std::env::var("WEIR_DRAWS").map_or(2, |n| n.parse().unwrap());
    let config = CONFIG.replace(
        "policy = \"none\"",
        "capacity = { read = \"100MB/s\", write = \"100MB/s\" }",
    );
    for seed in 0..mixes {
        let mut said = Vec::new();
        let agrees = (0..8).any(|_| {
            let differs = compare(&config, |site| play_flood(site, seed), 0.0).err();
            said.extend(differs.clone());
            differs.is_none()
        });
        assert!(agrees, "mix {seed}: {}", said.join("\n"));
    }
}

#[test]
fn seconds_of_a_client_that_does_not_read_are_excused() {
    let site = TestSite::start(&format!(
        "[limits]\nunsent_per_connection = \"256KiB\"\n{CONFIG}"
    ));
    let mut raw = Raw::open(&site.unix, "client").unwrap();
    for n in 0..100 {
        raw.send(NbdCommand::Read, n, n * (128 << 10), 128 << 10)
            .unwrap();
    }
    let client = ("volume", "client");
    let suspended = [client, ("reason", "not-reading")];
    let excused = |site: &TestSite| {
        let metrics = MetricsSnapshot::of(&site.server);
        let short = metrics.sum("weir_short_seconds_total", &[client]);
        assert!(short < 0.5, "nobody is to blame");
        metrics.sum("weir_excused_seconds_total", &suspended)
    };
    until("it is not excused", || excused(&site) >= 2.0);
    drop(raw);
    assert!(site.server.shutdown());
}
