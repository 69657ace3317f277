//! Plays the demo's scenario in virtual time and prints the results of each client under each
//! policy.

use weir_config::policy::find;
use weir_core::Span;
use weir_sim::{Policy, Results, SimRun, scenario};

fn main() -> Result<(), weir_sim::SimError> {
    let seconds = std::env::args().nth(1).and_then(|s| s.parse().ok());
    let scenario = scenario::demo(Span::from_secs(seconds.unwrap_or(10)));
    let policies = [
        Policy::none(),
        find("bfq").unwrap(),
        find("bfq-bytes").unwrap(),
        Policy::contract(),
    ];
    println!("policy      client        MB/s  worst s   mean us    p99 us  limited by");
    for policy in policies {
        print(&SimRun::new(&scenario, &policy, 0)?.run(|_| {})?);
    }
    Ok(())
}

fn print(results: &Results) {
    for record in results.records(&[]) {
        println!(
            "{:<11} {:<10} {:>7.2} {:>8} {:>9.1} {:>9.1}  {}",
            record.policy,
            record.client,
            record.bandwidth_mb_per_s,
            record
                .worst_second_mb_per_s
                .map_or_else(String::new, |worst| format!("{worst:.2}")),
            record.latency_us.unwrap_or_default().mean,
            record.latency_us.unwrap_or_default().p99,
            record.limited_by.map_or("", |by| by.name()),
        );
    }
    println!();
}
