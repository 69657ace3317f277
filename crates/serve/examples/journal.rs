//! Measures the cost of a server's journals: `cargo run --release -p weir-serve --example journal`.
//!
//! First, it measures the processor time of a shard per request at full load, with small requests
//! to volumes in memory. Then it records the same kind of load. The recording is replayed
//! alternately with a full journal and without a journal. The difference between the fastest
//! replays of both kinds is the cost of the journal. The ratio is comparable between machines, but
//! the times are those of this run.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use weir_core::record::{Observer, Replay};
use weir_core::{Instant, Span};
use weir_measure::explain::Journal;
use weir_model::client::{Fleet, FleetMember};
use weir_model::load::Program;
use weir_serve::{LiveServer, ServerOptions};

const CLIENTS: usize = 4;
/// The length of the measured load, the length of the recorded load, and the number of replays
/// before and during the measurement.
const LENGTH: Duration = Duration::from_secs(4);
const RECORDED: Duration = Duration::from_millis(1500);
const WARM: usize = 3;
const REPLAYS: usize = 9;
/// The size of the journal, equal to the default of the server.
const JOURNAL: usize = 48 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::temp_dir().join(format!("weir-journal-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let measured = measure(&directory);
    // Failures are ignored, because the system cleans up temporary files.
    let _ = fs::remove_dir_all(&directory);
    measured
}

fn measure(directory: &Path) -> Result<(), Box<dyn Error>> {
    let (requests, time) = load(directory, LENGTH, None)?;
    let request = time as f64 / requests as f64;
    let record = directory.join("record");
    load(directory, RECORDED, Some(&record))?;
    let record = fs::read(record)?;
    let mut journal = Journal::new(JOURNAL);
    let (mut with, mut without) = (f64::INFINITY, f64::INFINITY);
    let mut begins = Span::ZERO;
    for pass in 0..WARM + REPLAYS {
        let (took, length) = replay(&record, Some((&mut journal, begins)))?;
        begins += length;
        // Until the journal is full, it acquires memory, which would be measured too.
        if pass >= WARM {
            with = with.min(took);
            without = without.min(replay(&record, None)?.0);
        }
    }
    let journal = with - without;
    println!(
        "a request takes {request:.0} ns of its shard's processor time, {journal:.0} ns of them for the journal"
    );
    println!(
        "journal: {:.2} % of a shard's processor time at full load (at most 2 %)",
        100.0 * journal / request
    );
    let bytes = Journal::new(JOURNAL).bytes();
    println!(
        "journal: {:.1} MiB when all is full, for all drives of a server (at most 64 MiB)",
        bytes as f64 / f64::from(1 << 20)
    );
    Ok(())
}

/// Runs a load. Returns the number of completed requests, and the processor time of the shard in
/// nanoseconds.
fn load(
    directory: &Path,
    length: Duration,
    record: Option<&Path>,
) -> Result<(u64, u64), Box<dyn Error>> {
    let socket = directory.join("nbd.sock");
    let volume = |n| format!("[volume.v{n}]\ndrive = \"d\"\nmemory = true\nsize = \"16MiB\"\n");
    let volumes: Vec<String> = (0..CLIENTS).map(volume).collect();
    let text = format!(
        "[drive.d]\n[listen]\nnbd = [\"unix:{}\"]\n{}",
        socket.display(),
        volumes.concat()
    );
    let config = weir_config::parse("", &text).map_err(|problems| format!("{problems:?}"))?;
    let options = ServerOptions {
        record: record.map(Path::to_owned),
        ..ServerOptions::default()
    };
    let server = LiveServer::start(&config, &options)?;
    let member = |n: usize| FleetMember {
        name: format!("client {n}"),
        export: format!("v{n}"),
        program: Program {
            writes: 30,
            ..Program::random_reads(4096, 16)
        },
        trace: None,
        region: None,
        seed: n as u64,
    };
    let fleet = Fleet {
        address: server.addresses()[0].to_string().parse()?,
        members: (0..CLIENTS).map(member).collect(),
        warm_up: Duration::ZERO,
        length,
        patience: Duration::from_mins(1),
    };
    let before = used()?;
    let outcomes = fleet.run(|_| {})?;
    let time = used()? - before;
    server.shutdown();
    Ok((outcomes.iter().map(|o| o.meter.requests()).sum(), time))
}

/// Returns the processor time of this process's shards, in nanoseconds.
fn used() -> Result<u64, Box<dyn Error>> {
    let mut sum = 0;
    // The first figure of `schedstat` is the time on a processor.
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        if fs::read_to_string(task.join("comm"))?.starts_with("weir-shard") {
            let stat = fs::read_to_string(task.join("schedstat"))?;
            sum += stat
                .split_whitespace()
                .next()
                .unwrap_or("0")
                .parse::<u64>()?;
        }
    }
    Ok(sum)
}

/// Replays a recording, with or without a journal. The journal's times are shifted by the given
/// span, so that time never goes backwards. Returns the processor time per request in nanoseconds,
/// and the length of the recording.
fn replay(
    record: &[u8],
    mut journal: Option<(&mut Journal, Span)>,
) -> Result<(f64, Span), Box<dyn Error>> {
    let (mut replay, mut end) = (Replay::new(), Span::ZERO);
    let begun = clock_gettime(ClockId::ThreadCPUTime);
    replay
        .feed_watched(record, &mut |layer, now, call| {
            end = now.since(Instant::ZERO);
            if let Some((journal, begins)) = &mut journal {
                journal.call(now + *begins, call, layer);
            }
        })
        .map_err(|error| error.to_string())?;
    let ended = clock_gettime(ClockId::ThreadCPUTime);
    let took = (ended.tv_sec - begun.tv_sec) as f64 * 1e9 + (ended.tv_nsec - begun.tv_nsec) as f64;
    let done = replay.layer().map_or(0, |layer| layer.counters().done);
    Ok((took / done.max(1) as f64, end))
}
