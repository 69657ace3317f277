//! Floods of idle connections do not delay other clients.
//!
//! Figures are printed (`cargo test -p weir-serve --test live flood:: -- --nocapture`).

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::tools::metrics::MetricsSnapshot;
use crate::tools::raw::{PATIENCE, Raw, RawStream, deaf};
use crate::tools::{TestSite, log, until};
use rustix::net::{AddressFamily, SocketType};
use weir_config::ListenAddress;
use weir_wire::nbd::client::ClientHandshakeConfig;

const ONE: &str =
    "[drive.memory]\n[volume.v]\ndrive = \"memory\"\nmemory = true\nsize = \"16MiB\"\n";

/// The longest permitted wait of an honest client during a flood.
const SOON: Duration = Duration::from_secs(1);

/// Raises the limit of open files, because this process has both ends of every connection.
fn room_for_many() {
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit {
        current: limits.maximum,
        ..limits
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
}

/// Returns the time from an honest client's first packet to the end of its first read.
fn honest(address: &ListenAddress) -> Duration {
    let begun = Instant::now();
    let mut raw = Raw::open(address, "v").unwrap();
    assert_eq!(raw.read(0, 4096).unwrap(), vec![0; 4096]);
    begun.elapsed()
}

#[test]
fn a_client_connects_within_a_second_beside_3000_silent_sockets() {
    room_for_many();
    let site = TestSite::start(ONE);
    for address in [&site.unix, &site.tcp] {
        let (waits, flood) = std::thread::scope(|scope| {
            let flood = scope.spawn(|| {
                let connect = |_| RawStream::connect(address).unwrap();
                (0..3000).map(connect).collect::<Vec<_>>()
            });
            let mut waits = Vec::new();
            while !flood.is_finished() || waits.len() < 50 {
                waits.push(honest(address));
            }
            (waits, flood.join().unwrap())
        });
        let worst = waits.iter().max().unwrap();
        println!(
            "among {} silent sockets: {} honest clients, {worst:.0?} at the most",
            flood.len(),
            waits.len()
        );
        assert!(*worst < SOON, "{worst:?}");
    }
}

#[test]
fn a_client_connects_within_a_second_beside_renewed_silent_sockets() {
    room_for_many();
    let mut log = log::listen();
    let site = TestSite::start(ONE);
    log.take();
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let (waits, renewed) = std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let connect = || RawStream::connect(&site.unix).unwrap();
            let mut silent: Vec<RawStream> = (0..400).map(|_| connect()).collect();
            let mut renewed = 0;
            while !stop.load(Ordering::Relaxed) {
                silent[renewed % 400] = connect();
                renewed += 1;
                // The pace differs from that of the server, which closes silent connections too.
                std::thread::sleep(Duration::from_millis(1));
            }
            renewed
        });
        let mut waits = Vec::new();
        while begun.elapsed() < Duration::from_secs(4) {
            waits.push(honest(&site.unix));
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        (waits, flood.join().unwrap())
    });
    let worst = waits.iter().max().unwrap();
    println!(
        "400 silent sockets, renewed {renewed} times: {} honest clients, {worst:.0?} at the most",
        waits.len()
    );
    assert!(*worst < SOON, "{worst:?}");
    // The number of log lines per second is limited.
    let lines = log.take().matches("makes room").count() as u64;
    assert!(
        lines <= 10 * (begun.elapsed().as_secs() + 2),
        "{lines} lines"
    );
}

/// Connects over TCP from a local address.
fn from(host: [u8; 4], to: &ListenAddress) -> std::io::Result<Raw> {
    let ListenAddress::Tcp(to) = to else {
        unreachable!("only hosts are told apart here")
    };
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    rustix::net::bind(&socket, &SocketAddr::from((host, 0)))?;
    rustix::net::connect(&socket, to)?;
    let stream = RawStream(socket.into());
    stream.patience(PATIENCE);
    Raw::over(stream, ClientHandshakeConfig::new("v"))
}

/// Reads over each connection, and removes those that have ended.
fn work(busy: &mut Vec<Raw>) {
    busy.retain_mut(|raw| raw.read(0, 512).is_ok());
}

#[test]
fn busy_connections_of_one_host_keep_no_other_out() {
    let site = TestSite::start(&format!("[limits]\nconnections = 8\n{ONE}"));
    let mut busy: Vec<Raw> = (0..8)
        .map(|_| from([127, 0, 0, 1], &site.tcp).unwrap())
        .collect();
    assert!(from([127, 0, 0, 1], &site.tcp).is_err(), "it has them all");
    // The second host takes one place after another, until both have half.
    let mut others = Vec::new();
    for left in [7, 6, 5, 4] {
        work(&mut busy);
        let mut other = from([127, 0, 0, 2], &site.tcp).unwrap();
        assert_eq!(other.read(0, 512).unwrap(), vec![0; 512]);
        others.push(other);
        work(&mut busy);
        assert_eq!(busy.len(), left);
    }
    assert!(
        from([127, 0, 0, 1], &site.tcp).is_err(),
        "each has its half"
    );
    assert!(from([127, 0, 0, 2], &site.tcp).is_err());
    work(&mut others);
    assert_eq!(others.len(), 4);
}

#[test]
fn busy_connections_keep_no_client_of_a_promised_volume_out_at_either_socket() {
    let config = |min: &str| {
        format!(
            "[limits]\nconnections = 16\n[drive.memory]\ncapacity = {{ read = \"400MB/s\", write = \"400MB/s\" }}\n\
             [volume.evil]\ndrive = \"memory\"\nmemory = true\nsize = \"1MiB\"\n\
             [volume.honest]\ndrive = \"memory\"\nmemory = true\nsize = \"1MiB\"\n{min}"
        )
    };
    let mut site = TestSite::start(&config(""));
    for address in [site.unix.clone(), site.tcp.clone()] {
        let mut busy = Vec::new();
        while let Ok(raw) = Raw::open(&address, "evil") {
            busy.push(raw);
        }
        // Without a promise, the volume gets its part of the unreserved places, which is half of
        // them.
        let mut halves = Vec::new();
        while let Ok(raw) = Raw::open(&address, "honest") {
            halves.push(raw);
        }
        work(&mut busy);
        assert_eq!((busy.len(), halves.len()), (8, 8));
        // With a promise, the volume has places of its own from now on.
        assert!(site.reload(&config("min = \"20MB/s\"\n")));
        let mut honest = Raw::open(&address, "honest").unwrap();
        assert_eq!(honest.read(0, 512).unwrap(), vec![0; 512]);
        work(&mut busy);
        work(&mut halves);
        assert_eq!((busy.len(), halves.len()), (7, 8));
        assert!(site.reload(&config("")));
        drop((busy, halves, honest));
        wait_for_room(&site, 0.0);
    }
}

/// Waits until the server has no more than `most` connections.
fn wait_for_room(site: &TestSite, most: f64) {
    until("connections stay", || {
        MetricsSnapshot::of(&site.server).sum("weir_connections", &[]) <= most
    });
}

#[test]
fn an_evicted_client_that_does_not_read_is_not_waited_for() {
    // Each of the two has a long answer that nobody reads, and one of them loses its place.
    let site = TestSite::start(&format!("[limits]\nconnections = 2\n{ONE}"));
    let deaf = [(); 2].map(|()| deaf(&site.tcp, "v", 16 << 20));
    let other = from([127, 0, 0, 2], &site.tcp).unwrap();
    wait_for_room(&site, 2.0);
    drop((deaf, other));
}
