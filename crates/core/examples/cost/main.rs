//! Measures the instructions for a request: a closed loop of streams with eight outstanding
//! requests of random size each, in two levels of groups, on a drive that completes a batch of
//! requests at a time.
//!
//! ```text
//! cost ELEVATOR STREAMS GROUPS BATCH REQUESTS
//!     ELEVATOR   the name of an elevator, NAME+merge to merge adjacent requests, or io.cost for none
//!                with that controller
//! ```
//!
//! Prints the number of completed requests. Run it under `valgrind --tool=callgrind` (or `perf
//! stat`) with two numbers of requests. The difference in instructions divided by the difference in
//! requests is the cost of one request, without the set-up. `./bench cost` counts only the
//! instructions inside `submit`, `poll` and `complete`.

mod load;

use load::Load;
use std::process::ExitCode;
use weir_core::{Config, control, elevator, merge};

/// The name of a controller that can take the place of an elevator.
const COST: &str = "io.cost";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let name = args.first().map_or("", String::as_str);
    let mut controllers = control::Config::default();
    let (name, merge) = match name.strip_suffix("+merge") {
        Some(name) => (name, merge::Config::LINUX),
        None if name == COST => {
            controllers.cost = Some(control::cost::Config::default());
            ("none", merge::Config::OFF)
        }
        None => (name, merge::Config::OFF),
    };
    let Some(kind) = elevator::find(name) else {
        return usage();
    };
    let numbers: Vec<u32> = args[1..].iter().filter_map(|a| a.parse().ok()).collect();
    let [streams, groups, batch, requests] = numbers[..] else {
        return usage();
    };
    let config = Config::of((kind.default)()).merge(merge);
    let config = config.controllers(controllers);
    let mut load = Load::new(config, streams.max(1), groups);
    println!("{}", load.run(batch as usize, u64::from(requests)));
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    let all = elevator::KINDS.iter();
    let merging = all.clone().filter(|kind| (kind.default)().merges());
    let mut names: Vec<String> = all.map(|kind| kind.name.to_owned()).collect();
    names.extend(merging.map(|kind| format!("{}+merge", kind.name)));
    names.push(COST.to_owned());
    let names = names.join("|");
    eprintln!("usage: cost {names} STREAMS GROUPS BATCH REQUESTS");
    ExitCode::FAILURE
}
