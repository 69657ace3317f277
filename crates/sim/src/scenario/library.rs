//! Scenarios that come with Weir.

use crate::Scenario;
use weir_core::{Contract, Span};
use weir_drive::null;
use weir_load::Program;

/// Size of each client's space: 64 MiB.
const SPACE: u64 = 64 << 20;

/// What everyone is promised where everyone is promised the same.
const MIN: u64 = 10_000_000;

/// The demo: a drive of 250 MB/s, a *target* that reads 4 KiB at random places, one at a time, and fifteen clients that read
/// sequentially, 128 KiB, two at a time; each is promised 10 MB/s.
pub fn demo(duration: Span) -> Scenario {
    let mut scenario = on_the_demo_drive("demo", duration);
    let contract = promised(MIN);
    scenario.tenant("target", contract, SPACE, Program::random_reads(4096, 1));
    for n in 1..=15 {
        let program = Program::sequential_reads(128 * 1024, 2);
        scenario.tenant(format!("reader-{n:02}"), contract, SPACE, program);
    }
    scenario
}

/// Sixteen random readers of 4 KiB, eight at a time, each promised 10 MB/s: nobody is to be idled for among equals.
pub fn equal_random_readers(duration: Span) -> Scenario {
    let mut scenario = on_the_demo_drive("equal-random-readers", duration);
    for n in 0..16 {
        let program = Program::random_reads(4096, 8);
        scenario.tenant(format!("reader-{n:02}"), promised(MIN), SPACE, program);
    }
    scenario
}

/// Four clients with shares 1:2:4:8 and equal demand: random reads of 16 KiB, sixteen at a time.
pub fn shares(duration: Span) -> Scenario {
    let mut scenario = on_the_demo_drive("shares", duration);
    for share in [1, 2, 4, 8] {
        let contract = Contract {
            share: share * 100,
            ..Contract::DEFAULT
        };
        let program = Program::random_reads(16 * 1024, 16);
        scenario.tenant(format!("share-{share}"), contract, SPACE, program);
    }
    scenario
}

fn on_the_demo_drive(name: &str, duration: Span) -> Scenario {
    Scenario::new(
        name,
        weir_drive::Config::Null(null::Config::demo()),
        duration,
    )
}

fn promised(min: u64) -> Contract {
    Contract {
        min,
        ..Contract::DEFAULT
    }
}
