use super::*;
use weir_config::policy::{all, find};

const DRIVE: Capacity = Capacity {
    read: 250_000_000,
    write: 250_000_000,
    ..Capacity::NONE
};

fn groups(contracts: &[Contract]) -> Vec<ContractGroup> {
    let group = |contract: &Contract| ContractGroup {
        parent: None,
        contract: *contract,
        knobs: Knobs {
            latency: Span::from_millis(2),
            ..Knobs::NONE
        },
    };
    contracts.iter().map(group).collect()
}

fn min(min: u64) -> Contract {
    Contract {
        min,
        ..Contract::DEFAULT
    }
}

/// Returns the settings of a policy as lines.
fn lines(word: &str, queue: Queue, contracts: &[Contract]) -> Vec<String> {
    let policy = find(word).unwrap();
    let translation = translate(&policy, &queue, (Some(DRIVE), None), &groups(contracts)).unwrap();
    let settings = translation.settings.iter();
    settings
        .map(|s| match s.at {
            SettingPlace::Group(group) => format!("{group} {} {}", s.knob, s.value),
            _ => format!("{} {}", s.knob, s.value),
        })
        .collect()
}

#[test]
fn weights_match_the_weights_of_the_simulator() {
    let contracts = [min(10_000_000), min(2_500_000), min(0)];
    for word in [
        "bfq",
        "bfq-linux",
        "bfq + io.max",
        "io.cost",
        "io.cost-s",
        "bfq + io.cost",
    ] {
        let policy = find(word).unwrap();
        let groups = groups(&contracts);
        let nodes = groups.iter().map(|g| GroupNode {
            parent: None,
            contract: g.contract,
        });
        let setup = policy.set_up(Some(DRIVE), nodes);
        let translation =
            translate(&policy, &Queue::default(), (Some(DRIVE), None), &groups).unwrap();
        for (place, told) in setup.contracts().iter().enumerate() {
            let own = |knob| {
                let mut own = translation.settings.iter();
                own.find(|s| s.at == SettingPlace::Group(place) && s.knob == knob)
                    .map(|s| s.value.clone())
            };
            let weight = Some(told.share.to_string());
            let has_cost = setup.controllers.cost.is_some();
            assert_eq!(
                own(Knob::Weight),
                weight.clone().filter(|_| has_cost),
                "{word}"
            );
            let is_bfq = setup.elevator.kind().name == "bfq";
            assert_eq!(own(Knob::BfqWeight), weight.filter(|_| is_bfq), "{word}");
            // None of these policies has the controller io.latency.
            assert_eq!(own(Knob::Latency), None, "{word}");
        }
    }
}

#[test]
fn the_scheduler_is_set_before_the_files_that_it_resets() {
    let queue = Queue {
        nr_requests: Some(64),
        write_back_latency: Some(Span::ZERO),
        ..Queue::default()
    };
    let lines = lines("mq-deadline", queue, &[]);
    assert_eq!(
        lines,
        [
            "queue/scheduler mq-deadline",
            "queue/nr_requests 64",
            "queue/iosched/fifo_batch 16",
            "queue/iosched/front_merges 1",
            "queue/iosched/prio_aging_expire 10000",
            "queue/iosched/read_expire 500",
            "queue/iosched/write_expire 5000",
            "queue/iosched/writes_starved 2",
            "queue/wbt_lat_usec 0",
        ]
    );
}

#[test]
fn each_controller_has_its_files() {
    let mut limited = min(0);
    limited.max = Max {
        bandwidth: 5_000_000,
        write_bandwidth: 3_000_000,
        read_iops: 100,
        ..Max::NONE
    };
    // Reads are limited by the common 5 MB/s, and writes by the lower 3 MB/s.
    let max = "0 io.max rbps=5000000 wbps=3000000 riops=100 wiops=max";
    let none = |word| lines(word, Queue::default(), &[limited]);
    assert_eq!(none("io.max"), ["queue/scheduler none", max]);
    assert_eq!(none("none"), ["queue/scheduler none", max]);
    assert_eq!(
        none("io.latency"),
        ["queue/scheduler none", max, "0 io.latency target=2000"]
    );
    let cost = none("io.cost-s");
    assert_eq!(
        cost,
        [
            "queue/scheduler none",
            "io.cost.model ctrl=auto",
            "io.cost.qos enable=1 ctrl=user rpct=95.00 rlat=2500 wpct=95.00 wlat=5000 min=1.00 max=10000.00",
            "0 io.weight 100",
            max,
        ]
    );
    assert_eq!(
        none("io.cost")[1..3],
        ["io.cost.model ctrl=auto", "io.cost.qos enable=1 ctrl=auto"]
    );
    assert!(none("bfq").contains(&"queue/iosched/low_latency 0".to_owned()));
    assert!(none("bfq-linux").contains(&"queue/iosched/low_latency 1".to_owned()));
    assert!(none("kyber").contains(&"queue/iosched/read_lat_nsec 2000000".to_owned()));
}

#[test]
fn missing_words_of_io_cost_are_filled_in_for_the_drive() {
    let text = policy::print(&find("io.cost").unwrap());
    let text = text.replace("name = \"io.cost\"", "name = \"mine\"");
    let policy = |qos: &str| {
        let text = text.replace("\nqos = \"ctrl=auto\"", &format!("\nqos = \"{qos}\""));
        policy::read(&text, "").unwrap()
    };
    let line = |qos: &str, shape: Option<&DriveShape>| {
        let translation = translate(&policy(qos), &Queue::default(), (None, shape), &[]);
        let mut settings = translation.unwrap().settings.into_iter();
        settings.find(|s| s.knob == Knob::CostQos).unwrap().value
    };
    let disk = DriveShape {
        rotational: true,
        ..DriveShape::default()
    };
    // rpct is the policy's value. The others are those of the kernel's profile of a disk.
    let whole =
        "enable=1 ctrl=user rpct=95.00 rlat=250000 wpct=0.00 wlat=250000 min=1.00 max=10000.00";
    assert_eq!(line("rpct=95.00", Some(&disk)), whole);
    assert_eq!(line("ctrl=auto rpct=95.00", Some(&disk)), whole);
    // If the shape is unknown, no word is added.
    assert_eq!(line("rpct=95.00", None), "enable=1 ctrl=user rpct=95.00");
    assert_eq!(
        line("rpct=95.00 ctrl=auto", Some(&disk)),
        "enable=1 ctrl=auto"
    );
}

#[test]
fn a_low_limit_defaults_to_the_min_of_the_group() {
    let set = |policy: &Policy, low: LowKnobs| {
        let mut groups = groups(&[min(5_000_000)]);
        groups[0].knobs.low = low;
        let translation = translate(policy, &Queue::default(), (None, None), &groups).unwrap();
        let mut settings = translation.settings.into_iter();
        settings.find(|s| s.knob == Knob::Low).map(|s| s.value)
    };
    let mut policy = find("io.low").unwrap();
    let own = LowKnobs {
        read_iops: 300,
        idle: Span::from_millis(5),
        ..LowKnobs::NONE
    };
    let said = set(&policy, own).unwrap();
    // The idle time is the group's own 5 ms, and the latency is the policy's 100 us.
    assert_eq!(said, "riops=300 idle=5000 latency=100");
    let said = set(&policy, LowKnobs::NONE).unwrap();
    assert_eq!(said, "rbps=5000000 wbps=5000000 idle=1000 latency=100");
    // Only reads get the min as a limit.
    policy.low.limits = Directions::Reads;
    let said = set(&policy, LowKnobs::NONE).unwrap();
    assert_eq!(said, "rbps=5000000 idle=1000 latency=100");
    assert_eq!(set(&find("bfq").unwrap(), own), None);
}

#[test]
fn policies_without_an_equivalent_in_linux_are_refused_with_a_reason() {
    let translated = |word: &str| {
        let policy = find(word).unwrap();
        translate(&policy, &Queue::default(), (None, None), &groups(&[min(5)]))
    };
    for (word, why) in [
        ("contract", "guarantees a min"),
        ("cfq", "was removed from Linux in 5.0"),
        ("bfq-bytes", "charges"),
        ("max-limits", "io.latency"),
    ] {
        match translated(word) {
            Err(refused) => assert!(refused.what.contains(why), "{word}: {refused}"),
            Ok(_) => assert_eq!(word, "max-limits"),
        }
    }
    for word in ["bfq-5.3", "bfq-4.18", "io.cost-5.5"] {
        let notes = translated(word).unwrap().notes;
        assert!(notes[0].contains("the kernel"), "{word}: {notes:?}");
    }
    let refused = all().iter().filter(|p| translated(p.word()).is_err());
    let refused: Vec<&str> = refused.map(Policy::word).collect();
    assert_eq!(refused, ["bfq-bytes", "cfq", "contract"]);
}

#[test]
fn limits_in_commands_instead_of_requests_are_noted() {
    let notes = |max| {
        let mut limited = min(0);
        limited.max = max;
        let policy = find("io.max").unwrap();
        let groups = groups(&[limited]);
        let translated = translate(&policy, &Queue::default(), (None, None), &groups);
        translated.unwrap().notes.join("\n")
    };
    let max = Max {
        read_iops: 100,
        ..Max::NONE
    };
    let counted = notes(max);
    assert!(
        counted.contains("max_sectors_kb") && !counted.contains("iops_size"),
        "{counted}"
    );
    let max = Max {
        iops_size: 4096,
        ..max
    };
    assert!(notes(max).contains("io.max does not support iops_size"));
}
