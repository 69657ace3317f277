//! What the journals of a server cost: `cargo run --release -p weir-serve --example journal`.
//!
//! A server at full load, small requests on volumes in memory: the processor time of its shard for a request. Then the same kind of load
//! recorded, and the record replayed with a journal that is full and without one, in turn; the difference between the quickest of each is the
//! journal's part of that time. Ratios of one run on one machine; the times themselves are those of this machine now.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use weir_core::record::{Observer, Replay};
use weir_core::{Instant, Span};
use weir_measure::explain::Journal;
use weir_model::client::{Fleet, Member};
use weir_model::load::Program;
use weir_serve::{Options, Server};

const CLIENTS: usize = 4;
/// How long the load is measured, how long recorded, and how often the record is replayed before it is measured and then each way.
const LENGTH: Duration = Duration::from_secs(4);
const RECORDED: Duration = Duration::from_millis(1500);
const WARM: usize = 3;
const REPLAYS: usize = 9;
/// As the server's own.
const JOURNAL: usize = 48 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::temp_dir().join(format!("weir-journal-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let measured = measure(&directory);
    // Best effort: it is a directory for temporary files.
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
        // Until it is full it is given its memory.
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

/// Requests that a server answered, and nanoseconds of its shard's processor time.
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
    let options = Options {
        record: record.map(Path::to_owned),
        ..Options::default()
    };
    let server = Server::start(&config, &options)?;
    let member = |n: usize| Member {
        name: format!("client {n}"),
        export: format!("v{n}"),
        program: Program {
            writes: 30,
            ..Program::random_reads(4096, 16)
        },
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

/// Nanoseconds that this process's shards have had a processor.
fn used() -> Result<u64, Box<dyn Error>> {
    let mut sum = 0;
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

/// Nanoseconds of this thread's processor time for each request of a record, replayed with a journal, to which it begins at that time, or
/// without; and its length.
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
