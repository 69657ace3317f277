//! Measures the number of requests that the simulator plays per second of processor time: `cargo
//! run --release -p weir-sim --example speed [SECONDS [POLICY [SCENARIO]]]`.

use rustix::time::{ClockId, clock_gettime};
use weir_config::policy::find;
use weir_core::{Contract, Span};
use weir_model::drive::DriveConfig;
use weir_sim::{Policy, Scenario, SimRun, scenario};

fn main() -> Result<(), weir_sim::SimError> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().and_then(|s| s.parse().ok());
    let only = arguments.next();
    let which = arguments.next();
    let duration = Span::from_secs(seconds.unwrap_or(30));
    println!("scenario              policy     requests   million requests per processor-second");
    for scenario in [
        scenario::equal_random_readers(duration),
        scenario::demo(duration),
        random_readers(
            "ssd",
            DriveConfig::Ssd(weir_model::drive::ssd::SsdConfig::generic()),
            duration,
        ),
        // A disk is so slow that a hundred times the virtual time takes a similar amount of work.
        random_readers(
            "hdd",
            DriveConfig::Hdd(weir_model::drive::hdd::HddConfig::generic()),
            duration.saturating_mul(100),
        ),
    ] {
        if which.as_ref().is_some_and(|name| *name != scenario.name) {
            continue;
        }
        let policies = [
            Policy::none(),
            find("bfq").unwrap(),
            find("bfq-bytes").unwrap(),
            Policy::contract(),
        ];
        for policy in &policies {
            if only.as_ref().is_none_or(|name| *name == policy.name) {
                measure(&scenario, policy)?;
            }
        }
    }
    Ok(())
}

/// The clients of `equal-random-readers` on another drive and without promises, with spaces of 2
/// GiB.
fn random_readers(name: &str, drive: DriveConfig, duration: Span) -> Scenario {
    const SPACE: u64 = 2 << 30;
    let readers = scenario::equal_random_readers(duration);
    let mut scenario = Scenario::new(name, drive, duration);
    for client in readers.clients {
        scenario.add_client_with_group(client.name, Contract::DEFAULT, SPACE, client.program);
    }
    scenario
}

fn measure(scenario: &Scenario, policy: &Policy) -> Result<(), weir_sim::SimError> {
    let mut best = 0.0f64;
    let mut requests = 0;
    // The best of several runs counts, because other programs on the machine can only slow a run
    // down.
    for _ in 0..7 {
        let run = SimRun::new(scenario, policy, 0)?;
        let before = processor_seconds();
        let results = run.run(|_| {})?;
        let seconds = processor_seconds() - before;
        requests = results.counters.done;
        best = best.max(requests as f64 / 1e6 / seconds);
    }
    println!(
        "{:<21} {:<10} {requests:<10} {best:.2}",
        scenario.name, policy.name
    );
    Ok(())
}

/// The processor time of this thread so far, in seconds.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
