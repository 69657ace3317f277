//! Runs any number of random operations on the core under every auditor, for example with `cargo
//! run --release -p weir-verify --example random -- --steps 10000000 --seed 1`.

use std::process::ExitCode;
use std::time::Instant;
use weir_verify::audit::Tally;
use weir_verify::audit::random::{RandomDecisions, run};

/// The number of operations for each configuration.
const STEPS_EACH: u64 = 4_096;

fn main() -> ExitCode {
    let (mut steps, mut seed, mut each) = (10_000_000, 1, STEPS_EACH);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let value = args.next().and_then(|v| v.parse().ok());
        match (arg.as_str(), value) {
            ("--steps", Some(n)) => steps = n,
            ("--seed", Some(n)) => seed = n,
            // A seed that was printed is run again with `--one SEED`.
            ("--one", Some(n)) => return one(n, each),
            ("--each", Some(n)) => each = n,
            _ => {
                eprintln!("usage: random [--steps N] [--seed S] [--each N] [--one SEED]");
                return ExitCode::from(2);
            }
        }
    }
    let mut seeds = RandomDecisions::new(seed);
    let (start, mut done, mut failed, mut accepted) = (Instant::now(), 0, 0, 0);
    let mut tally = Tally::default();
    // Ten failures suffice to find their cause.
    while done < steps && failed < 10 {
        match run(seeds.bits(), each.min(steps - done)) {
            Ok(summary) => {
                done += summary.steps;
                accepted += summary.counters.accepted;
                tally.add(&summary.tally);
            }
            Err(failure) => {
                print!("{failure}");
                done += failure.steps;
                failed += 1;
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{done} steps, {accepted} requests, {failed} runs with violations, {:.0} steps/s",
        done as f64 / seconds
    );
    println!("{tally:?}");
    if failed > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn one(seed: u64, steps: u64) -> ExitCode {
    match run(seed, steps) {
        Ok(summary) => {
            println!("{summary:?}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            print!("{failure}");
            ExitCode::FAILURE
        }
    }
}
