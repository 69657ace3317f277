//! Plays the `latency` scenario on generic drives: `cargo run --release -p weir-sim --example
//! latency [REPETITIONS]`.

use weir_model::drive::DriveConfig;
use weir_sim::scenario::{COMPARED, FILE, Interferers, TargetReads, compared, latency};
use weir_sim::{SimError, SimRun};

fn main() -> Result<(), SimError> {
    let repetitions = std::env::args().nth(1).and_then(|n| n.parse().ok());
    println!(
        "scenario          drive  case     policy      reads  mean us    sd us   p99 us   limit  elevator   drive  total MB/s"
    );
    for reads in [TargetReads::Continuous, TargetReads::Sporadic] {
        for drive in [
            DriveConfig::Ssd(weir_model::drive::ssd::SsdConfig::generic()),
            DriveConfig::Hdd(weir_model::drive::hdd::HddConfig::generic()),
        ] {
            for interferers in Interferers::ALL {
                for control in COMPARED {
                    for repetition in 0..repetitions.unwrap_or(1) {
                        let scenario = latency(&drive, interferers, control, reads, FILE);
                        play(&scenario, control, repetition)?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn play(scenario: &weir_sim::Scenario, control: &str, repetition: u32) -> Result<(), SimError> {
    let results = SimRun::new(scenario, &compared(control), repetition)?.run(|_| {})?;
    let records = results.records(&[]);
    let (target, total) = (&records[0], &records[records.len() - 1]);
    let split = target.split_us.as_ref();
    let latency = target.latency_us.unwrap_or_default();
    println!(
        "{:<17} {:<6} {:<8} {:<10} {:>6} {:>8.0} {:>8.0} {:>8.0} {:>7.0} {:>9.0} {:>7.0} {:>11.1}",
        target.scenario,
        target.drive,
        target.case,
        target.policy,
        target.requests,
        latency.mean,
        latency.sd,
        latency.p99,
        split.map_or(0.0, |s| s.limit),
        split.map_or(0.0, |s| s.elevator),
        split.map_or(0.0, |s| s.drive),
        total.bandwidth_mb_per_s,
    );
    Ok(())
}
