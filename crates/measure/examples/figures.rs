//! Measures the accuracy of explanations: `cargo run --release -p weir-measure --example figures --
//! [RUNS]`.
//!
//! It plays random runs in virtual time. In each, the sum of the parts of every client's
//! explanation is compared with the latency that was measured at the layer's calls. Then it plays
//! runs with a planted cause, and counts how often that cause is named.

#[path = "../tests/it/planted/mod.rs"]
mod planted;

use planted::{CAUSES, JOURNAL, is_named, off_by, plant, play, random};

fn main() {
    let runs: u64 = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(1000);
    let verbose = std::env::args().any(|arg| arg == "--list");
    let (mut played, mut worst, mut seed) = (0, 0.0_f64, 0);
    while played < runs {
        seed += 1;
        let Some((scenario, policy)) = random(seed) else {
            continue;
        };
        let Some(off) = off_by(&play(&scenario, &policy, JOURNAL)) else {
            continue;
        };
        played += 1;
        worst = worst.max(off);
    }
    println!(
        "{played} random runs: parts differ from the measured latency by {:.4} % at most (at most 1 %)",
        worst * 100.0
    );
    let (mut right, mut all) = (0, 0);
    for cause in CAUSES {
        let of_cause = runs.div_ceil(CAUSES.len() as u64);
        let mut named = 0;
        for seed in 0..of_cause {
            let (scenario, policy) = plant(cause, seed);
            let played = play(&scenario, &policy, JOURNAL);
            worst = worst.max(off_by(&played).unwrap_or(0.0));
            let alpha = &played[0].1;
            if is_named(alpha, cause) {
                named += 1;
            } else if verbose {
                println!(
                    "{cause:?} {seed}: {:?}\n  {}",
                    alpha.cause,
                    alpha.said.join("\n  ")
                );
            }
        }
        println!(
            "planted {:<44} named in {named} of {of_cause} runs",
            cause.words()
        );
        (right, all) = (right + named, all + of_cause);
    }
    println!(
        "causes: {:.1} % named (at least 95 %); parts of these runs, too, differ by {:.4} % at most",
        100.0 * right as f64 / all as f64,
        worst * 100.0
    );
}
