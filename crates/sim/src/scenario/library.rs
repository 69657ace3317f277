//! Scenarios that come with Weir, as they are played in virtual time.

use crate::Scenario;
use weir_config::scenario::{Choice, find};
use weir_core::Span;
use weir_model::drive::{Config, null};

/// The demo (`contract`): a drive of 250 MB/s, a *target* that reads 4 KiB at random places, one at a time, and fifteen clients that
/// read sequentially, 128 KiB, two at a time; each is promised 10 MB/s.
pub fn demo(duration: Span) -> Scenario {
    on_the_demo_drive("contract", "demo", duration)
}

/// Sixteen random readers of 4 KiB, eight at a time, each promised 10 MB/s: nobody is to be idled for among equals.
pub fn equal_random_readers(duration: Span) -> Scenario {
    on_the_demo_drive("equal-readers", "equal-random-readers", duration)
}

/// Four clients with shares 1:2:4:8 and equal demand: random reads of 16 KiB, sixteen at a time.
pub fn shares(duration: Span) -> Scenario {
    on_the_demo_drive("shares", "shares", duration)
}

/// The scenario of a file, measured from its beginning. Seeds depend on its name here.
fn on_the_demo_drive(file: &str, name: &str, duration: Span) -> Scenario {
    let drive = Config::Null(null::Config::demo());
    let choice = Choice::new(&drive, None, "none");
    let script = find(file).expect("it comes with Weir");
    let built = script.scenario(&choice);
    Scenario {
        name: name.to_owned(),
        case: name.to_owned(),
        warm_up: Span::ZERO,
        duration,
        ..built.expect("what comes with Weir can be played")
    }
}
