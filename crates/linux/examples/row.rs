//! Runs a scenario's file in a guest and in the simulator, and prints a line for each client: `row
//! KERNEL WEIR SCENARIO DRIVE CASE POLICY`.

use std::time::Instant;
use weir_config::scenario::{self, Choice};
use weir_config::{policy, profile};
use weir_linux::guest::Kernel;
use weir_linux::play::{guest::Lab, measure};
use weir_sim::SimRun;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [kernel, weir, file, drive, case, policy] = &words[..] else {
        panic!("six words")
    };
    let drive = profile::find(drive).unwrap().drive;
    let policy = policy::find(policy).unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    let script = scenario::read(&text, file).unwrap();
    let case = Some(case.as_str()).filter(|c| *c != "-");
    let choice = Choice::new(&drive, case, &policy.name);
    let scenario = script.scenario(&choice).unwrap().under(&policy);
    let kernel = Kernel::find(kernel, |l| eprintln!("{l}")).unwrap();
    let lab = Lab::new(kernel, weir.into());
    let began = Instant::now();
    let outcome = lab.play(&scenario, &policy, 0, || true).unwrap();
    let took = began.elapsed().as_secs_f64();
    let played = &outcome.played;
    let (path, left) = (outcome.path_ns, outcome.left_ns);
    let ours = measure(&scenario, 0, &played.logs, played.began_ns, None);
    let sim = SimRun::new(&scenario, &policy, 0)
        .unwrap()
        .run(|_| {})
        .unwrap();
    println!("path {path} ns, left {left}, {took:.1} s");
    let mb_per_s = |m: &weir_measure::Meter| m.bytes() as f64 * 1e3 / m.length_ns() as f64;
    let all = ours.clients.iter().map(|c| (&c.name, &c.meter));
    let all = all.zip(sim.clients.iter().map(|c| &c.meter));
    let total = "total".to_owned();
    for ((name, g), s) in all.chain([((&total, &ours.total), &sim.total)]) {
        println!(
            "{name:12} linux {:9.1} us {:8.2} MB/s n {:6}   sim {:9.1} us {:8.2} MB/s   {:.2} {:.2}",
            g.latency().mean() / 1e3,
            mb_per_s(g),
            g.requests(),
            s.latency().mean() / 1e3,
            mb_per_s(s),
            s.latency().mean() / g.latency().mean(),
            mb_per_s(s) / mb_per_s(g),
        );
    }
}
