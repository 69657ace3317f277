//! Crowds of connections that do nothing: honest clients are served all the same, and soon.
//!
//! Figures are printed (`cargo test -p weir-serve --test flood -- --nocapture`).

mod tools;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType};
use tools::raw::{PATIENCE, Raw, Stream};
use tools::{Site, log};
use weir_config::Address;
use weir_wire::nbd::client::HandshakeConfig;

const ONE: &str =
    "[drive.memory]\n[volume.v]\ndrive = \"memory\"\nmemory = true\nsize = \"16MiB\"\n";

/// What an honest client may wait at the most, with all of these at the door.
const SOON: Duration = Duration::from_secs(1);

/// This process has both ends of every connection.
fn room_for_many() {
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit {
        current: limits.maximum,
        ..limits
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
}

/// How long an honest client takes from its first packet to the end of its first read.
fn honest(address: &Address) -> Duration {
    let begun = Instant::now();
    let mut raw = Raw::open(address, "v").unwrap();
    assert_eq!(raw.read(0, 4096).unwrap(), vec![0; 4096]);
    begun.elapsed()
}

#[test]
fn three_thousand_silent_sockets_keep_nobody_out_for_a_second() {
    let _alone = tools::alone();
    room_for_many();
    let site = Site::start(ONE);
    for address in [&site.unix, &site.tcp] {
        let (waits, flood) = std::thread::scope(|scope| {
            let flood = scope.spawn(|| {
                let connect = |_| Stream::connect(address).unwrap();
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
fn silent_sockets_that_are_renewed_all_the_time_keep_nobody_out() {
    let _alone = tools::alone();
    room_for_many();
    log::listen();
    let site = Site::start(ONE);
    log::take();
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let (waits, renewed) = std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let connect = || Stream::connect(&site.unix).unwrap();
            let mut silent: Vec<Stream> = (0..400).map(|_| connect()).collect();
            let mut renewed = 0;
            while !stop.load(Ordering::Relaxed) {
                silent[renewed % 400] = connect();
                renewed += 1;
                // At another pace than the server's, which ends them too.
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
    // A bounded number of lines a second is written of them.
    let lines = log::take().matches("makes room").count() as u64;
    assert!(
        lines <= 10 * (begun.elapsed().as_secs() + 2),
        "{lines} lines"
    );
}

/// A connection from an address of this machine.
fn from(host: [u8; 4], to: &Address) -> std::io::Result<Raw> {
    let Address::Tcp(to) = to else {
        unreachable!("only hosts are told apart here")
    };
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    rustix::net::bind(&socket, &SocketAddr::from((host, 0)))?;
    rustix::net::connect(&socket, to)?;
    let stream = Stream::Tcp(socket.into());
    stream.patience(PATIENCE);
    Raw::over(stream, HandshakeConfig::new("v"))
}

#[test]
fn idle_connections_of_one_host_keep_no_other_out() {
    let _alone = tools::alone();
    let site = Site::start(&format!("[limits]\nconnections = 8\n{ONE}"));
    let mut idle: Vec<Raw> = (0..8)
        .map(|_| from([127, 0, 0, 1], &site.tcp).unwrap())
        .collect();
    assert!(from([127, 0, 0, 1], &site.tcp).is_err(), "it has them all");
    let begun = Instant::now();
    let mut other = loop {
        // Refused until those have been at rest for a second.
        match from([127, 0, 0, 2], &site.tcp) {
            Ok(raw) => break raw,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(other.read(0, 512).unwrap(), vec![0; 512]);
    println!("a place among idle ones after {:.1?}", begun.elapsed());
    let alive = idle.iter_mut().filter_map(|raw| raw.read(0, 512).ok());
    // One of them had to go; another may have for a try of the other's that came too late on a busy machine.
    let alive = alive.count();
    assert!((6..=7).contains(&alive), "{alive} of 8 are left");
}
