//! The decisions of a running server are repeated by another process, byte for byte.
//!
//! To test thirty seconds of load and print the events in them: `WEIR_TWIN_SECONDS=30 cargo test
//! --release -p weir-serve --test live twin:: -- --nocapture`.

use crate::tools;
use std::path::Path;
use std::process::Command as Process;
use std::time::{Duration, Instant};

use crate::tools::raw::Raw;
use crate::tools::{Temp, TestSite};
use weir_config::ListenAddress;
use weir_core::random::Rng;
use weir_core::record::{Call, Reader, Recorder, Replay};
use weir_core::{Outcome, Output};
use weir_serve::ServerOptions;
use weir_wire::nbd::NbdCommand;

/// The environment variable with the path of the recording, for the other process.
const RECORD: &str = "WEIR_TWIN_RECORD";
const CLIENTS: u64 = 8;
/// The size of each volume in bytes.
const SIZE: u64 = 16 << 20;

/// Returns the configuration of a drive with 8 tags and a service time of 500 us. Its tables are so
/// small that they are sometimes full.
fn config(policy: &str, contracts: &[String]) -> String {
    let model = "{ kind = \"null\", service = \"500us\", tags = 8, link = \"250MB/s\" }";
    let volumes = contracts.iter().enumerate().map(|(n, contract)| {
        format!("[volume.v{n}]\ndrive = \"d\"\nmodel = {model}\nsize = \"16MiB\"\n{contract}")
    });
    let volumes: String = volumes.collect();
    format!(
        "[limits]\nconnections = 32\nrequests_per_connection = 64\nunsent_per_connection = \"128KiB\"\n\
         [drive.d]\nmodel = {model}\npolicy = \"{policy}\"\n\
         [drive.d.limits]\nrequests = 280\nscheduler_tags = 24\n{volumes}"
    )
}

/// Draws a contract. Some of these promise more than the drive can do, and are refused.
fn drawn_contract(rng: &mut Rng) -> String {
    let share = rng.range(1, 1000);
    let rest = match rng.range(0, 5) {
        0 => "class = \"idle\"".to_owned(),
        1 => "class = \"realtime\"\nmax = { bandwidth = \"3MB/s\" }".to_owned(),
        2 => {
            let iops = rng.range(200, 2000);
            format!("max = {{ iops = {iops}, burst = \"20ms\" }}")
        }
        3 => format!("max = {{ bandwidth = \"{}MB/s\" }}", rng.range(2, 40)),
        _ => format!("min = \"{}MB/s\"", rng.range(1, 30)),
    };
    format!("share = {share}\n{rest}\n")
}

/// Runs a client that connects, sends requests and disconnects repeatedly. Returns the number of
/// its connections.
fn come_and_go(address: &ListenAddress, number: u64, until: Instant) -> u64 {
    let mut rng = Rng::new(number);
    let mut visits = 0;
    while Instant::now() < until {
        let mut raw = Raw::open(address, &format!("v{number}")).unwrap();
        visits += 1;
        // Errors are ignored, because the server may close a connection that does not read for a
        // long time.
        let _ = match rng.range(0, 3) {
            0 | 1 => steady(&mut raw, &mut rng),
            2 => burst(&mut raw, &mut rng).map(drop),
            _ => burst(&mut raw, &mut rng).and_then(|sent| {
                // If a client does not read for a while, the server holds its stream.
                std::thread::sleep(Duration::from_millis(50));
                (0..sent).try_for_each(|_| raw.answer().map(drop))
            }),
        };
        // The connection is dropped without a disconnect request, with any number of requests
        // outstanding.
    }
    visits
}

/// Sends a drawn number of requests at a drawn queue depth.
fn steady(raw: &mut Raw, rng: &mut Rng) -> std::io::Result<()> {
    let depth = rng.range(1, 16);
    let count = rng.range(50, 400);
    for cookie in 0..count + depth {
        if cookie >= depth {
            drop(raw.answer()?);
        }
        if cookie < count {
            one(raw, rng, cookie)?;
        }
    }
    Ok(())
}

/// Sends up to 300 requests as fast as the server takes them, without reading answers. Returns the
/// number of requests sent.
fn burst(raw: &mut Raw, rng: &mut Rng) -> std::io::Result<u64> {
    raw.stream.patience(Duration::from_millis(100));
    let count = rng.range(20, 300);
    for cookie in 0..count {
        raw.send(
            NbdCommand::Read,
            cookie,
            rng.range(0, SIZE - (64 << 10)),
            4096 << rng.range(0, 4),
        )?;
    }
    raw.stream.patience(tools::raw::PATIENCE);
    Ok(count)
}

fn one(raw: &mut Raw, rng: &mut Rng, cookie: u64) -> std::io::Result<()> {
    let length = 512 * rng.range(1, 600) as u32;
    let offset = rng.range(0, SIZE - u64::from(length));
    match rng.range(0, 9) {
        0..=4 => raw.send(NbdCommand::Read, cookie, offset, length),
        5..=7 => raw.write(cookie, offset, &vec![cookie as u8; length as usize]),
        8 => raw.send(NbdCommand::Trim, cookie, offset, length),
        _ => raw.send(NbdCommand::Flush, cookie, 0, 0),
    }
}

/// Serves a drawn load under changing contracts, and records it.
fn live(policy: &str, record: &Path, seconds: f64) {
    let options = ServerOptions {
        record: Some(record.to_owned()),
        ..ServerOptions::default()
    };
    let mut rng = Rng::new(1);
    let mut contracts = vec!["share = 100\n".to_owned(); CLIENTS as usize];
    let mut site = TestSite::start_with(&config(policy, &contracts), &options);
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let addresses = [site.unix.clone(), site.tcp.clone()];
    let (mut visits, mut reloads, mut refused) = (0, 0, 0);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|n| {
                let address = &addresses[n as usize % 2];
                scope.spawn(move || come_and_go(address, n, until))
            })
            .collect();
        while Instant::now() < until {
            std::thread::sleep(Duration::from_millis(40));
            let mut next = contracts.clone();
            next[rng.range(0, CLIENTS - 1) as usize] = drawn_contract(&mut rng);
            if site.reload(&config(policy, &next)) {
                contracts = next;
                reloads += 1;
            } else {
                refused += 1;
            }
        }
        visits = clients.into_iter().map(|c| c.join().unwrap()).sum();
    });
    assert!(site.server.shutdown());
    println!(
        "{policy}: {seconds} s, {visits} visits, {reloads} contracts changed, {refused} changes refused"
    );
}

#[test]
fn another_process_repeats_live_decisions_to_the_byte() {
    let seconds = std::env::var("WEIR_TWIN_SECONDS").ok();
    let seconds = seconds.map_or(4.0, |s| s.parse().expect("WEIR_TWIN_SECONDS is a number"));
    for policy in ["contract", "bfq"] {
        let directory = Temp::on_disk();
        let record = directory.path().join("record");
        live(policy, &record, seconds);
        let output = Process::new(std::env::current_exe().unwrap())
            .args([
                "twin::the_other_process",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env(RECORD, &record)
            .output()
            .unwrap();
        let [said, complained] =
            [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b));
        assert!(output.status.success(), "{said}\n{complained}");
        println!(
            "{}",
            said.lines().find(|l| l.contains("identical")).unwrap()
        );
    }
}

/// The events in a recording.
#[derive(Debug, Default)]
struct RecordCounts {
    opened: u64,
    closed: u64,
    held: u64,
    rejected: u64,
    changed: u64,
    dispatched: u64,
    done: u64,
    cancelled: u64,
    paused: u64,
}

impl RecordCounts {
    fn add(&mut self, call: &Call<'_>) {
        match call {
            Call::Open { .. } => self.opened += 1,
            Call::Close { .. } => self.closed += 1,
            Call::Hold { .. } => self.held += 1,
            Call::Submit { result, .. } => self.rejected += u64::from(result.is_err()),
            Call::Change { .. } => self.changed += 1,
            Call::Poll { outputs, .. } => outputs.iter().for_each(|o| self.output(o)),
            Call::Cancel { .. }
            | Call::Complete { .. }
            | Call::Stall { .. }
            | Call::Note { .. } => {}
        }
    }

    fn output(&mut self, output: &Output) {
        match output {
            Output::Dispatch(_) => self.dispatched += 1,
            Output::Done(done) if done.outcome == Outcome::Cancelled => self.cancelled += 1,
            Output::Done(_) => self.done += 1,
            Output::Pause(_) => self.paused += 1,
            Output::Resume(_) => {}
        }
    }
}

/// Repeats the calls of a recording on a layer of its own, and records them again. Both recordings
/// must have the same bytes.
#[test]
#[ignore = "run by the test above, in a process of its own"]
fn the_other_process() {
    let bytes = std::fs::read(std::env::var_os(RECORD).expect("the record's file")).unwrap();
    let mut reader = Reader::new();
    reader.feed(&bytes);
    let mut recorder = Recorder::new(reader.config().unwrap().expect("a header"));
    let mut replay = Replay::new();
    let mut counts = RecordCounts::default();
    let replayed = replay.feed_watched(&bytes, &mut |_, now, call| {
        recorder.append(now, call);
        counts.add(call);
    });
    replayed.unwrap_or_else(|error| panic!("{error}"));
    recorder.end();
    let done = replay.end().unwrap();
    assert!(recorder.bytes() == bytes, "the same bytes");
    println!(
        "identical: {} calls, {} bytes: {counts:?}",
        done.calls,
        bytes.len()
    );
    // The comparison would show little if any of these events had not happened.
    let full = counts.rejected + counts.paused;
    let RecordCounts {
        opened,
        closed,
        held,
        changed,
        dispatched,
        done,
        cancelled,
        ..
    } = counts;
    for count in [
        opened, closed, held, full, changed, dispatched, done, cancelled,
    ] {
        assert!(count > 0);
    }
}
