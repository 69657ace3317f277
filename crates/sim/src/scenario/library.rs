//! Scenarios that come with Weir, in the form in which they are played in virtual time.

use crate::Scenario;
use weir_config::scenario::{Choice, find};
use weir_core::Span;
use weir_model::drive::{DriveConfig, null};

/// The demo (`contract`), on a drive of 250 MB/s.
///
/// A *target* reads 4 KiB at random positions with a queue depth of 1. Fifteen clients read
/// sequentially in requests of 128 KiB with a queue depth of 2. Each client is promised 10 MB/s.
pub fn demo(duration: Span) -> Scenario {
    on_the_demo_drive("contract", "demo", duration)
}

/// Sixteen random readers of 4 KiB with a queue depth of 8, each promised 10 MB/s. An elevator must
/// not idle for any of them, because all are equal.
pub fn equal_random_readers(duration: Span) -> Scenario {
    on_the_demo_drive("equal-readers", "equal-random-readers", duration)
}

/// Four clients with shares 1:2:4:8 and equal demand: random reads of 16 KiB with a queue depth of
/// 16.
pub fn shares(duration: Span) -> Scenario {
    on_the_demo_drive("shares", "shares", duration)
}

/// Builds the scenario of a file, measured from its beginning. It gets another name, on which its
/// seeds depend.
fn on_the_demo_drive(file: &str, name: &str, duration: Span) -> Scenario {
    let drive = DriveConfig::Null(null::NullConfig::demo());
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
