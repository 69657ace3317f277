//! What each policy decides for small fixed loads: golden tables of who was sent to the drive when.
//!
//! A change of behaviour shows here first, as a diff to be read. `WEIR_BLESS=1 cargo test -p weir-core --test decisions` rewrites the
//! tables in `tests/golden`.

mod churn;
mod client;
mod drawn;
mod drive;
mod host;
mod listing;
mod scenes;

use std::path::Path;

use weir_core::elevator::KINDS;
use weir_core::{control, merge};

/// Compares what was decided with its table.
fn check(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(format!("{name}.txt"));
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let line = found
        .lines()
        .zip(expected.lines())
        .position(|(a, b)| a != b);
    let line = line.unwrap_or_else(|| found.lines().count().min(expected.lines().count()));
    assert!(
        found == expected,
        "{}: decisions differ from line {}:\n  table {}\n  found {}\nWEIR_BLESS=1 rewrites the table",
        path.display(),
        line + 1,
        expected.lines().nth(line).unwrap_or("(ends)"),
        found.lines().nth(line).unwrap_or("(ends)"),
    );
}

macro_rules! tables {
    ($($scene:ident)*) => {
        $(#[test]
        fn $scene() {
            let scene = scenes::$scene();
            check(scene.name, &listing::of(&scene));
        })*
    };
}

tables! {
    none_flash
    max_levels
    latency_target
    latency_delays
    cost_shares
    cost_donation
    cost_rises
    cost_falls
    bfq_disk_mix
    bfq_disk_thinkers
    bfq_disk_interleaved
    bfq_disk_random
    bfq_disk_alternate
    bfq_disk_together
    bfq_flash_together
    bfq_flash_newcomers
    bfq_flash_burst
    bfq_flash_player
    bfq_flash_groups
    bfq_strict
    mq_deadline_flash
    mq_deadline_disk
    cfq_disk
    cfq_flash
    kyber_flash
    kyber_disk
    contract_flash_promises
    contract_flash_requests
    contract_flash_shares
    contract_flash_flushes
    contract_flash_overpromised
    contract_disk_streams
    contract_disk_promises
    contract_disk_changes
    contract_disk_late
    contract_tenants
    contract_unbounded
    contract_disk_hopeless
}

#[test]
fn churn() {
    for elevator in KINDS {
        for (behind, kind) in [("", churn::Kind::Anywhere), ("-files", churn::Kind::Files)] {
            let name = format!("churn-{}{behind}", elevator.name);
            let policy = churn::Policy::of((elevator.default)());
            check(&name, &churn::of(&name, policy, kind));
        }
    }
}

/// The same where the drive's time is divided, and where neighbours become one command.
#[test]
fn churn_under_cost_and_merging() {
    let files = [("", churn::Kind::Anywhere), ("-files", churn::Kind::Files)];
    for elevator in KINDS.iter().filter(|e| ["none", "bfq"].contains(&e.name)) {
        let plain = churn::Policy::of((elevator.default)());
        let cost = churn::Policy {
            controllers: control::Config {
                cost: Some(scenes::SCARCE),
                ..plain.controllers
            },
            ..plain.clone()
        };
        let merging = churn::Policy {
            merge: merge::Config::LINUX,
            ..plain
        };
        let both = churn::Policy {
            merge: merging.merge,
            ..cost.clone()
        };
        for (words, policy) in [("-cost", cost), ("-merge", merging), ("-cost-merge", both)] {
            for (behind, kind) in files {
                let name = format!("churn-{}{words}{behind}", elevator.name);
                check(&name, &churn::of(&name, policy.clone(), kind));
            }
        }
    }
}

/// The same with tunables that are drawn.
#[test]
fn churn_tuned() {
    for elevator in KINDS.iter().filter(|e| (e.default)().tuned().is_some()) {
        let name = format!("churn-{}-tuned", elevator.name);
        check(&name, &churn::tuned(&name, &(elevator.default)()));
    }
}

macro_rules! drawn {
    ($($test:ident $elevator:literal $with:literal)*) => {
        $(#[test]
        fn $test() {
            let name = format!("drawn-{}-{}", $elevator, $with);
            let name = name.trim_end_matches('-');
            check(name, &drawn::of(name, &drawn::policy($elevator, $with)));
        })*

        #[test]
        fn loads_are_drawn_for_every_elevator() {
            let drawn = [$($elevator),*];
            assert!(KINDS.iter().all(|kind| drawn.contains(&kind.name)));
        }
    };
}

drawn! {
    drawn_none "none" ""
    drawn_none_cost "none" "cost"
    drawn_none_cost_merge "none" "cost-merge"
    drawn_none_low "none" "low"
    drawn_none_slices "none" "slices"
    drawn_none_merge "none" "merge"
    drawn_bfq "bfq" ""
    drawn_bfq_cost "bfq" "cost"
    drawn_bfq_low "bfq" "low"
    drawn_bfq_merge "bfq" "merge"
    drawn_contract "contract" ""
    drawn_mq_deadline "mq-deadline" ""
    drawn_mq_deadline_merge "mq-deadline" "merge"
    drawn_cfq "cfq" ""
    drawn_cfq_merge "cfq" "merge"
    drawn_kyber "kyber" ""
    drawn_kyber_merge "kyber" "merge"
}
