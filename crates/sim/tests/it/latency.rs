//! The controller `io.latency` in virtual time.
//!
//! One reader with a queue depth of 1 and a target of 150 us competes with three readers with a
//! queue depth of 16 and no target, on a drive with 16 tags and 100 us of service time, without an
//! elevator.
//!
//! Linux 6.1 in virtual time on `null_blk` gives 8068 requests/s and three times 49,000 to 50,000.
//! Without the target, however, it gives 7130 and 47,000 to 53,000 as well: processes that wait for
//! a tag there are not served in order of arrival, and a reader with a queue depth of 1 seldom
//! waits. Therefore Linux is no reference for this controller.

use weir_config::policy::find;
use weir_core::{Contract, Sizes, Span};
use weir_model::drive::null;
use weir_model::load::Program;
use weir_sim::{Scenario, SimRun};

const TAGS: u16 = 16;

fn rates(target: Span) -> Vec<u64> {
    let drive = null::NullConfig {
        service: Span::from_micros(100),
        tags: TAGS,
        queues: 1,
        link: 0,
        tick: Span::ZERO,
        wake: Span::ZERO,
        command: null::NullConfig::COMMAND,
    };
    let length = Span::from_secs(12);
    let mut scenario = Scenario::new(
        "latency",
        weir_model::drive::DriveConfig::Null(drive),
        length,
    );
    for (name, depth) in [("v", 1), ("a", 16), ("b", 16), ("c", 16)] {
        let reads = Program::random_reads(4096, depth);
        scenario.add_client_with_group(name, Contract::DEFAULT, 1 << 30, reads);
    }
    scenario.groups[0].knobs.latency = target;
    let policy = find("io.latency").unwrap();
    // Without an elevator, Linux's queue has as many requests as the drive has tags.
    scenario.sizes = Some(Sizes {
        scheduler_tags: TAGS.into(),
        ..scenario.sizes(&policy)
    });
    let run = SimRun::new(&scenario, &policy, 0).unwrap();
    let results = run.run(|_| {}).unwrap();
    let clients = results.clients.iter();
    clients.map(|c| c.meter.requests() / 12).collect()
}

#[test]
fn a_missed_target_slows_the_others_until_it_is_met() {
    let without = rates(Span::ZERO);
    let with = rates(Span::from_micros(150));
    // There are 49 requests, and 16 of them are in the drive at a time, in order of arrival:
    // 160,000 / 49 = 3265 per second.
    assert!((3_200..3_300).contains(&without[0]), "{without:?}");
    assert!(with[0] > 8_000, "nine in ten within the target: {with:?}");
    // The others are throttled no more than necessary: most of the 160,000 requests that the drive
    // can serve are served.
    let total: u64 = with.iter().sum();
    assert!(total > 130_000, "{with:?}");
    assert!(
        with[1..].iter().all(|r| r.abs_diff(with[1]) < 100),
        "{with:?}"
    );
}
