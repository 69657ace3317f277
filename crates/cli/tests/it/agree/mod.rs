//! Compares random scenarios. The table, the page, the records and the exit status must agree on
//! every client under every policy, and the auditors must find no violation.
//!
//! `WEIR_DRAWS=1000 cargo test -p weir --test it agree:: -- --nocapture` plays more scenarios, from
//! the seed `WEIR_FUZZ_SEED` on, and prints their number. `crates/sim/tests/it/agree.rs` tests that
//! the server's metrics reach the same verdicts.

mod draw;
mod faults;
mod page;
mod records;
mod shown;
mod table;

use crate::common::{Scratch, weir};
use faults::Faults;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Seeds of scenarios that disagreed at some time. They are always played.
const FOUND: [u64; 3] = [6, 17, 105];

/// The counts of the compared scenarios, and the disagreements.
#[derive(Debug, Default)]
struct AgreementTally {
    played: u64,
    refused: u64,
    clients: u64,
    seconds: u64,
    faults: Vec<String>,
}

fn number(variable: &str, default: u64) -> u64 {
    let number = std::env::var(variable);
    number.map_or(default, |n| n.parse().expect("a number"))
}

/// Compares the scenario of a seed. `None` if its promises are refused.
fn compare(seed: u64) -> Option<AgreementTally> {
    let drawn = draw::draw(seed);
    let scratch = Scratch::new();
    scratch.file("drawn.toml", &drawn.text);
    let line = "compare drawn.toml --audit --json j --html p --check --jobs 1 --drive";
    let line = format!("{line} {}", drawn.drive);
    let mut faults = Faults::default();
    // A wide terminal keeps each row of a table on one line.
    let output = Command::output(weir(&scratch, &line).env("COLUMNS", "1000"));
    let output = output.expect("the command can be started");
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    // A random scenario can promise more than the drive can do.
    if err.contains(": the contracts cannot be admitted: ") {
        return None;
    }
    let mut tally = AgreementTally {
        played: 1,
        ..AgreementTally::default()
    };
    let read = |name: &str| std::fs::read_to_string(scratch.path(name)).unwrap_or_default();
    let (json, page) = (read("j"), read("p"));
    if json.is_empty() {
        faults.check(false, || err.clone());
    } else {
        let cells = records::cells(&json);
        records::check(&cells, &mut faults);
        let written = shown::ComparisonOutput {
            out: &out,
            err: &err,
            status: output.status.code(),
            page: &page,
        };
        shown::check(&drawn, &cells, &written, &mut faults);
        for record in cells.iter().flat_map(|(_, runs)| runs.iter().flatten()) {
            tally.clients += u64::from(records::name(record) != "total");
            tally.seconds += records::count(&record["promise_seconds"]["promised"]);
        }
    }
    let faults = faults.all.iter();
    tally.faults = faults
        .map(|fault| format!("seed {seed}: {fault}"))
        .collect();
    Some(tally)
}

#[test]
fn table_page_records_and_exit_status_say_the_same_of_every_client() {
    let (first, draws) = (number("WEIR_FUZZ_SEED", 1), number("WEIR_DRAWS", 40));
    let (next, all) = (AtomicUsize::new(0), Mutex::new(AgreementTally::default()));
    let seeds = (first..first + draws).filter(|seed| !FOUND.contains(seed));
    let seeds: Vec<u64> = FOUND.into_iter().chain(seeds).collect();
    let work = || {
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            let one = compare(*seed);
            let mut all = all.lock().unwrap();
            let Some(one) = one else {
                all.refused += 1;
                continue;
            };
            all.played += one.played;
            all.clients += one.clients;
            all.seconds += one.seconds;
            all.faults.extend(one.faults);
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let all = all.into_inner().unwrap();
    println!(
        "{} scenarios ({} refused), {} clients in runs, {} promised seconds",
        all.played, all.refused, all.clients, all.seconds
    );
    assert!(all.faults.is_empty(), "{}", all.faults.join("\n"));
    // The comparison is worthless if most scenarios are refused or none has a promise.
    assert!(all.refused * 4 <= draws, "most are admitted");
    assert!(all.seconds > draws, "something is promised");
}
