//! Checks that recordings of a server at full load are complete, and measures their cost.
//!
//! `cargo test --release -p weir --test live record:: -- --nocapture` prints figures.
//! `WEIR_RECORD_SECONDS=60` makes it last one minute instead of two seconds.

use std::fmt::Write;

use crate::common::running::{RunningServer, fleet, serve, start};
use crate::common::{Scratch, run, weir};
use std::time::Duration;
use weir_model::client::Address;
use weir_model::load::Program;

fn config(scratch: &Scratch) {
    let socket = scratch.path("nbd.sock");
    let mut text = format!(
        "[drive.fast]\n[listen]\nnbd = [\"unix:{}\"]\n",
        socket.display()
    );
    for n in 0..4 {
        let _ = write!(
            text,
            "[volume.v{n}]\ndrive = \"fast\"\nmemory = true\nsize = \"16MiB\"\n"
        );
    }
    scratch.file("weir.toml", &text);
}

/// Sends small requests from several clients as fast as possible, and returns the number of
/// completed requests.
fn load(address: &Address, length: Duration) -> u64 {
    let program = Program {
        writes: 30,
        ..Program::random_reads(4096, 16)
    };
    let clients = ["v0", "v1", "v2", "v3"].map(|export| (export, program));
    let outcomes = fleet(address, &clients, length).run(|_| {}).unwrap();
    assert!(outcomes.iter().all(|o| o.error.is_none()));
    outcomes.iter().map(|o| o.meter.requests()).sum()
}

/// Returns the CPU time that a server has used so far, in seconds.
fn used(server: &RunningServer) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.child.id())).unwrap();
    // User and system time are fields 14 and 15 in proc(5), in hundredths of a second. The first
    // field behind the name is the third one.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    let ticks = |n: usize| fields[n - 3].parse::<f64>().unwrap();
    (ticks(14) + ticks(15)) / 100.0
}

#[test]
fn a_record_at_full_load_is_whole_and_replays_whole() {
    let seconds = std::env::var("WEIR_RECORD_SECONDS");
    let seconds = seconds.map_or(2, |s| s.parse().unwrap());
    let length = Duration::from_secs(seconds);
    let scratch = Scratch::new();
    config(&scratch);
    let server = serve(&scratch);
    let without = load(&server.address, length);
    // The first run, without a recording, is the base of the comparison.
    let time_without = used(&server) / without as f64 * 1e6;
    server.end();
    let server = start(&mut weir(&scratch, "serve --record record weir.toml"));
    let with = load(&server.address, length);
    let time_with = used(&server) / with as f64 * 1e6;
    assert!(!server.says("the recording was cut"));
    server.end();
    let bytes = std::fs::metadata(scratch.path("record")).unwrap().len();
    let said = run(&scratch, "replay record").ended(0);
    assert_eq!(said.err, "", "{}", said.out);
    assert!(said.out.starts_with("record: identical: "), "{}", said.out);
    println!(
        "{seconds} s at {:.0} requests/s ({:.0} without a record): {:.1} MB, {:.0} bytes a request; processor time of the server: \
         {time_with:.2} us a request, {time_without:.2} without\n{}",
        with as f64 / seconds as f64,
        without as f64 / seconds as f64,
        bytes as f64 / 1e6,
        bytes as f64 / with as f64,
        said.out.trim_end()
    );
}
