//! Runs clients in a steady state on a modelled drive: `cargo run --release -p weir-verify
//! --example steady -- --runs 100 --seed 1`
//!
//! ```text
//! steady [--kind KIND] [--runs N] [--seed S]    N scenes of each kind, or of this one, drawn from S
//! steady --kind KIND --scene SCENE              the scene of that number, as an earlier run printed it
//! ```

use std::process::ExitCode;
use weir_verify::audit::random::RandomDecisions;
use weir_verify::audit::steady::{Kind, run};

fn main() -> ExitCode {
    let (mut runs, mut seed, mut scene, mut kinds) = (20, 1, None, Kind::ALL.to_vec());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let value = args.next().unwrap_or_default();
        match (arg.as_str(), value.parse().ok()) {
            ("--runs", Some(n)) => runs = n,
            ("--seed", Some(n)) => seed = n,
            ("--scene", Some(n)) => scene = Some(n),
            ("--kind", _) => kinds.retain(|kind| format!("{kind:?}") == value),
            // An unknown argument leaves no kind, so that the usage is printed.
            _ => kinds.clear(),
        }
    }
    if kinds.is_empty() {
        eprintln!(
            "usage: steady [--kind KIND] [--runs N] [--seed S] [--scene SCENE]\nkinds: {:?}",
            Kind::ALL
        );
        return ExitCode::from(2);
    }
    let mut failed = 0;
    for kind in kinds {
        let mut seeds = RandomDecisions::new(seed);
        let scenes: Vec<u64> = match scene {
            Some(scene) => vec![scene],
            None => (0..runs).map(|_| seeds.bits()).collect(),
        };
        for scene in scenes {
            match run(kind, scene) {
                Ok(outcome) => println!("{kind:?} {scene}: {outcome:?}"),
                Err(failure) => {
                    failed += 1;
                    print!("{kind:?} {scene}: {failure}");
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
