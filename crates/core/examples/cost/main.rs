//! What a request costs in instructions: a closed loop of streams with eight requests of random size outstanding each, in two
//! levels of groups, on a drive that answers so many requests at a time.
//!
//! ```text
//! cost ELEVATOR STREAMS GROUPS BATCH REQUESTS        none, bfq or contract; none+merge or bfq+merge: what is near is merged
//! ```
//!
//! Prints the requests done. Run it under `valgrind --tool=callgrind` (or `perf stat`) with two numbers of requests: the
//! difference in instructions over the difference in requests is the cost of one, and set-up is not in it. `./bench cost` counts
//! only what happens inside `submit`, `poll` and `complete`.

mod load;

use load::Load;
use std::process::ExitCode;
use weir_core::elevator::{self, bfq, contract};
use weir_core::merge;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let name = args.first().map_or("", String::as_str);
    let (name, merge) = match name.strip_suffix("+merge") {
        Some(name) => (name, merge::Config::LINUX),
        None => (name, merge::Config::OFF),
    };
    let elevator = match name {
        "none" => elevator::Config::None,
        "bfq" => elevator::Config::Bfq(bfq::Config::default()),
        "contract" => elevator::Config::Contract(contract::Config::default()),
        _ => return usage(),
    };
    let numbers: Vec<u32> = args[1..].iter().filter_map(|a| a.parse().ok()).collect();
    let [streams, groups, batch, requests] = numbers[..] else {
        return usage();
    };
    let mut load = Load::new(elevator, merge, streams.max(1), groups);
    println!("{}", load.run(batch as usize, u64::from(requests)));
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: cost none|bfq|contract|none+merge|bfq+merge STREAMS GROUPS BATCH REQUESTS");
    ExitCode::FAILURE
}
