//! Clients that violate the protocol cannot harm others.
//!
//! Figures are printed (`cargo test -p weir-serve --test live hostile:: -- --nocapture`). The tests
//! require a fraction of the promised rates, because other programs may use the machine as well.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::tools::attack::{Attack, go, option};
use crate::tools::metrics::MetricsSnapshot;
use crate::tools::raw::{PATIENCE, Raw, RawStream, closes, deaf, header};
use crate::tools::{TestSite, load, log, pattern, process, until};
use weir_model::load::Program;
use weir_wire::nbd::{CommandFlags, NbdCommand};

/// The drive of the demo, with 250 MB/s.
const DEMO: &str = "[drive.demo]\nmodel = \"demo\"\npolicy = \"contract\"\n";
/// A volume in memory on a drive without a configured capacity.
const ONE: &str =
    "[drive.memory]\n[volume.v]\ndrive = \"memory\"\nmemory = true\nsize = \"16MiB\"\n";

/// Returns the configuration of a volume on the demo's drive.
fn volume(name: &str, min: &str) -> String {
    format!(
        "[volume.{name}]\ndrive = \"demo\"\nmodel = \"demo\"\nsize = \"16MiB\"\nmin = \"{min}\"\n"
    )
}

/// Returns invalid bytes for the handshake, from the client flags on.
fn bad_handshakes() -> Vec<Vec<u8>> {
    // In turn: unknown client flags, an option that is too long, an option with a wrong magic
    // number, and more options than a client may send.
    let mut long = option(7, &[]);
    long[12..16].copy_from_slice(&u32::MAX.to_be_bytes());
    let mut wrong = option(7, &go("v"));
    wrong[0] = b'X';
    let many: Vec<u8> = (0..100_000).flat_map(|_| option(3, &[])).collect();
    vec![
        0xffff_ffffu32.to_be_bytes().to_vec(),
        [&[0, 0, 0, 3], &long[..]].concat(),
        [&[0, 0, 0, 3], &wrong[..]].concat(),
        [&[0, 0, 0, 3], &many[..]].concat(),
    ]
}

/// Returns invalid bytes for the transmission phase.
fn bad_requests() -> Vec<Vec<u8>> {
    let none = CommandFlags::EMPTY;
    let good = header(NbdCommand::Read, none, 1, 0, 4096);
    let mut magic = good;
    magic[0] ^= 1;
    vec![
        magic.to_vec(),
        // A valid request first. The client may miss its answer.
        [good, magic].concat(),
        header(NbdCommand::Write, none, 2, 0, u32::MAX).to_vec(),
        pattern(1, 10_000),
    ]
}

#[test]
fn malformed_input_ends_its_connection_with_a_line_in_the_log() {
    let mut log = log::listen();
    let site = TestSite::start(ONE);
    let mut honest = Raw::open(&site.tcp, "v").unwrap();
    honest.write(1, 5, &pattern(9, 70_000)).unwrap();
    assert!(honest.answer().unwrap().1.is_ok());
    let handshakes = bad_handshakes().into_iter().map(|bytes| (bytes, false));
    let requests = bad_requests().into_iter().map(|bytes| (bytes, true));
    for (bytes, after) in handshakes.chain(requests) {
        let line = if after {
            "the server closed a connection"
        } else {
            "the handshake with a client failed; the server closed the connection"
        };
        log.take();
        // The number of log lines per second is limited, so the attempt is repeated until its line
        // is logged.
        until(line, || {
            let mut stream = if after {
                Raw::open(&site.unix, "v").unwrap().stream
            } else {
                RawStream::connect(&site.unix).unwrap()
            };
            // The server may close the connection before it has read everything.
            let _ = stream.write_all(&bytes);
            assert!(closes(&mut stream), "{line}: {:02x?}", &bytes[..4]);
            let said = log.take();
            let mut lines = said.lines();
            lines.any(|l| l.contains("WARN") && l.contains(line))
        });
        assert!(honest.read(5, 70_000).unwrap() == pattern(9, 70_000));
    }
}

#[test]
fn a_client_gets_its_min_while_many_others_attack() {
    let site =
        TestSite::start(&(DEMO.to_owned() + &volume("a", "40MB/s") + &volume("b", "40MB/s")));
    let mut data = Raw::open(&site.unix, "a").unwrap();
    data.write(1, 4096, &pattern(2, 1 << 20)).unwrap();
    assert!(data.answer().unwrap().1.is_ok());
    let attacks = [(3, "b"), (4, "b")].map(|(s, v)| Attack::start(&site.unix, v, s));
    let program = Program::random_reads(64 << 10, 8);
    let reader = vec![load::member("a", program)];
    let got = load::run(&site.unix, reader, Duration::from_secs(3), |_| {
        let bytes = data.read(4096, 1 << 20).unwrap();
        assert!(bytes == pattern(2, 1 << 20));
    });
    let attacks: u64 = attacks.map(Attack::end).iter().sum();
    let rate = load::rate(&got[0]) / 1e6;
    println!("promised 40 MB/s, got {rate:.1} MB/s through {attacks} attacks");
    assert!(rate >= 0.95 * 40.0, "{rate} MB/s of 40 promised");
}

#[test]
fn clients_that_never_read_leave_memory_bounded_and_an_honest_client_its_min() {
    const ARENA: u64 = 128 << 20;
    let before = process::resident();
    let mut config = format!("[limits]\narena = \"128MiB\"\nconnections = 256\n{DEMO}");
    for name in ["target", "s0", "s1", "s2", "s3"] {
        config += &volume(name, "10MB/s");
    }
    let site = TestSite::start(&config);
    let mut deaf: Vec<Raw> = (0..200)
        .map(|n| deaf(&site.unix, ["s0", "s1", "s2", "s3"][n % 4], 128 << 10))
        .collect();
    let mut members = vec![load::member("target", Program::random_reads(4096, 4))];
    for name in ["s0", "s1", "s2", "s3"] {
        members.push(load::member(name, Program::sequential_reads(128 << 10, 2)));
    }
    let mut most = 0;
    let got = load::run(&site.unix, members, Duration::from_secs(4), |_| {
        most = most.max(process::resident());
    });
    let rates: Vec<f64> = got.iter().map(|o| load::rate(o) / 1e6).collect();
    let grown = most.saturating_sub(before);
    println!(
        "{} that never read: {:.1} MB more in memory; promised 10 MB/s each, got {rates:.1?}",
        deaf.len(),
        grown as f64 / 1e6
    );
    // The arena, the tables of the drive, and the stacks and buffers of the test's clients.
    assert!(grown <= ARENA + (48 << 20), "{grown} bytes");
    for rate in rates {
        assert!(rate >= 0.95 * 10.0, "{rate} MB/s of 10 promised");
    }
    // The clients that did not read are served as soon as they read.
    for raw in deaf.iter_mut().step_by(50) {
        raw.stream.wait();
        for _ in 0..100 {
            assert_eq!(raw.receive().unwrap().1.data.len(), 128 << 10);
        }
    }
}

#[test]
fn requests_beyond_five_seconds_of_a_max_are_not_read() {
    const MAX: f64 = 1e6;
    let site = TestSite::start(
        "[limits]\nrequests_per_connection = 4096\n\
         [drive.memory]\n\
         [volume.v]\ndrive = \"memory\"\nmemory = true\nsize = \"16MiB\"\nmax = { bandwidth = \"1MB/s\" }\n",
    );
    let mut raw = Raw::open(&site.unix, "v").unwrap();
    let write = header(NbdCommand::Write, CommandFlags::EMPTY, 1, 0, 16 << 10);
    let request = [&write[..], &[7; 16 << 10]].concat();
    raw.stream.patience(Duration::from_millis(500));
    let begun = Instant::now();
    let mut sent = 0;
    // The loop ends when no byte was accepted for half a second. At 1 MB/s, 30 requests of 16 KiB
    // would be carried out in that time.
    while let Ok(n) = raw.stream.write(&request[sent % request.len()..]) {
        sent += n;
        assert!(sent < 64 << 20, "everything is read");
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("{:.1} MB taken in {seconds:.1} s", sent as f64 / 1e6);
    // Five seconds of requests, those carried out in the meantime, and the buffers of the socket.
    let allowed = MAX * (5.0 + seconds) + 1e6;
    assert!((sent as f64) < allowed, "{sent} bytes, {allowed} allowed");
    assert!(
        sent as f64 > 4.0 * MAX,
        "{sent} bytes: less than it may have"
    );
}

#[test]
fn a_connection_has_no_more_requests_under_way_than_configured() {
    let site = TestSite::start(
        "[limits]\nrequests_per_connection = 2\n\
         [drive.d]\nmodel = { kind = \"null\", service = \"5ms\", tags = 32, link = \"1GB/s\" }\npolicy = \"none\"\n\
         [volume.v]\ndrive = \"d\"\nmodel = { kind = \"null\", service = \"5ms\", tags = 32, link = \"1GB/s\" }\nsize = \"16MiB\"\n",
    );
    let mut raw = Raw::open(&site.unix, "v").unwrap();
    let begun = Instant::now();
    for cookie in 0..40 {
        raw.send(NbdCommand::Read, cookie, 0, 4096).unwrap();
    }
    for _ in 0..40 {
        assert!(raw.answer().unwrap().1.is_ok());
    }
    // 40 requests with 2 at a time and 5 ms each take 100 ms.
    assert!(begun.elapsed() >= Duration::from_millis(100));
}

/// The limit of unsent answers in the test below, in bytes.
const UNSENT: f64 = 262_144.0;
/// The length of each request in the test below.
const PIECE: u32 = 128 << 10;

/// Returns the number of bytes that the server reads for a client that sends many requests and
/// takes no answer.
fn read_for_the_deaf(drive: &str, volume: &str) -> f64 {
    let site = TestSite::start(&format!(
        "[limits]\nunsent_per_connection = \"{UNSENT}B\"\n\
         [drive.d]\n{drive}\n[volume.v]\ndrive = \"d\"\nsize = \"16MiB\"\n{volume}\n"
    ));
    let raw = deaf(&site.unix, "v", PIECE);
    let served = || MetricsSnapshot::of(&site.server).sum("weir_bytes_total", &[("op", "read")]);
    // By the time 50 requests of another connection are completed, the server has read as much for
    // the first client as it will.
    let mut other = Raw::open(&site.unix, "v").unwrap();
    for _ in 0..50 {
        other.read(0, 512).unwrap();
    }
    let bytes = served() - 50.0 * 512.0;
    println!("{bytes} bytes for one that takes nothing");
    drop(raw);
    bytes
}

#[test]
fn unread_replies_stay_within_the_configured_limit() {
    let model = "model = { kind = \"null\", service = \"100us\", tags = 4, link = \"1GB/s\" }";
    // A volume in memory reads up to 1 MiB in one turn before the server checks the unsent answers.
    for (drive, volume, turn) in [
        (model, model, 0.0),
        ("tags = 4", "memory = true", 1_048_576.0),
    ] {
        let bytes = read_for_the_deaf(drive, volume);
        // In addition, there are the piece that exceeds the limit, four pieces in the drive at that
        // time, and two pieces in the buffers of the socket.
        let pieces = (1.0 + 4.0 + 2.0) * f64::from(PIECE);
        let allowed = UNSENT + turn + pieces;
        assert!(
            bytes <= allowed,
            "{volume}: {bytes} bytes, {allowed} allowed"
        );
    }
}

#[test]
fn a_handshake_that_drips_is_cut_at_its_deadline() {
    let mut log = log::listen();
    let site = TestSite::start(&format!("[limits]\nhandshake_timeout = \"300ms\"\n{ONE}"));
    // The handshake begins correctly and never ends. The client requests the list of exports again
    // and again, and does not read the answers.
    let endless: Vec<u8> = (0..500).flat_map(|_| option(3, &[])).collect();
    let drips = [&[0, 0, 0, 3], &endless[..]].concat();
    let line = "a client did not complete the handshake in time; the server closed the connection";
    // The number of log lines per second is limited, so the attempt is repeated until its line is
    // logged.
    until(line, || {
        let begun = Instant::now();
        let mut stream = RawStream::connect(&site.tcp).unwrap();
        stream.patience(Duration::from_millis(20));
        for byte in &drips {
            // Reading waits up to 20 ms, because there is nothing to read except the greeting and
            // one answer. A byte is thus sent every 20 ms.
            let failed = stream.write_all(&[*byte]).is_err();
            let end = matches!(stream.read(&mut [0; 4096]), Ok(0));
            if failed || end {
                break;
            }
            assert!(begun.elapsed() < PATIENCE);
        }
        assert!(begun.elapsed() >= Duration::from_millis(300));
        log.take().contains(line)
    });
}

#[test]
fn connections_over_the_limit_are_refused_and_earlier_ones_stay() {
    let site = TestSite::start(&format!("[limits]\nconnections = 16\n{ONE}"));
    let mut honest = Raw::open(&site.unix, "v").unwrap();
    honest.write(1, 0, &pattern(4, 4096)).unwrap();
    assert!(honest.answer().unwrap().1.is_ok());
    let mut flood = Vec::new();
    let mut refused = 0;
    for n in 0..100 {
        let address = if n % 2 == 0 { &site.unix } else { &site.tcp };
        match Raw::open(address, "v") {
            Ok(raw) => flood.push(raw),
            Err(error) => {
                assert!(error.to_string().contains("limits.connections"), "{error}");
                refused += 1;
            }
        }
        assert!(honest.read(0, 4096).unwrap() == pattern(4, 4096));
    }
    // The users of the Unix socket and the host of the TCP connections each get half of the places
    // in the end. One connection was closed for that.
    assert_eq!(refused, 100 - 15 - 1);
    drop(flood);
    until("there is room again", || Raw::open(&site.unix, "v").is_ok());
}

#[test]
fn stalled_clients_cost_no_processor_time() {
    let site = TestSite::start(ONE);
    let mut kept = Vec::new();
    for n in 0..20u8 {
        let mut stream = RawStream::connect(&site.tcp).unwrap();
        stream
            .write_all(&[0, 0, 0, 3][..usize::from(n % 5).min(4)])
            .unwrap();
        kept.push(stream);
        kept.push(Raw::open(&site.unix, "v").unwrap().stream);
        kept.push(deaf(&site.unix, "v", 256 << 10).stream);
        let mut half = Raw::open(&site.unix, "v").unwrap();
        half.send(NbdCommand::Write, 1, 0, 1 << 20).unwrap();
        half.stream
            .write_all(&vec![n; usize::from(n) * 50_000])
            .unwrap();
        kept.push(half.stream);
    }
    // Until the server has done all work that these clients have caused.
    until("the server does not come to rest", || {
        let before = process::server_threads();
        std::thread::sleep(Duration::from_millis(100));
        process::server_threads() == before
    });
    let before = process::server_threads();
    std::thread::sleep(Duration::from_secs(1));
    let after = process::server_threads();
    assert!(!before.is_empty());
    assert_eq!(before, after, "ticks and switches of each thread");
}

#[test]
fn the_server_ends_while_it_is_attacked() {
    let site = TestSite::start(ONE);
    let mut honest = Raw::open(&site.unix, "v").unwrap();
    for cookie in 0..64 {
        honest
            .write(cookie, cookie << 12, &[cookie as u8; 4096])
            .unwrap();
    }
    assert!(honest.answer().unwrap().1.is_ok());
    let stalled: Vec<Raw> = (0..20).map(|_| deaf(&site.unix, "v", 64 << 10)).collect();
    let begun = Instant::now();
    assert!(site.server.shutdown());
    println!("ended after {:.1?}", begun.elapsed());
    // The drain waits up to five seconds for clients that do not read.
    assert!(begun.elapsed() < Duration::from_secs(15));
    drop(stalled);
    // Requests that were taken have been answered. The others get no answer.
    let answers = (1..64).map_while(|_| honest.answer().ok());
    for (_, result) in answers {
        assert!(result.is_ok(), "{result:?}");
    }
}
