//! Clients in a steady state on a modelled drive: `cargo run --release -p weir-audit --example steady -- --runs 100 --seed 1`

use std::process::ExitCode;
use weir_audit::random::Random;
use weir_audit::steady::{Kind, run};

fn main() -> ExitCode {
    let (mut runs, mut seed) = (20, 1);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match (arg.as_str(), args.next().and_then(|v| v.parse().ok())) {
            ("--runs", Some(n)) => runs = n,
            ("--seed", Some(n)) => seed = n,
            _ => {
                eprintln!("usage: steady [--runs N] [--seed S]");
                return ExitCode::from(2);
            }
        }
    }
    let mut failed = 0;
    for kind in Kind::ALL {
        let mut seeds = Random::new(seed);
        for _ in 0..runs {
            let seed = seeds.bits();
            match run(kind, seed) {
                Ok(outcome) => println!("{kind:?} {seed}: {outcome:?}"),
                Err(failure) => {
                    failed += 1;
                    print!("{kind:?} {seed}: {failure}");
                }
            }
        }
    }
    println!("{failed} runs with violations");
    if failed > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
