//! What each policy decides for small fixed loads: a golden table of each scene says what was sent to the drive when, and
//! `golden/digests.txt` has a digest of each table of random calls and of loads that are drawn, which nobody could read.
//!
//! A change of behaviour shows here first. `WEIR_BLESS=1 cargo test -p weir-core --test it decisions::` rewrites the tables and the digests;
//! with `WEIR_SHOW=1` and `-- --nocapture` the tests print all tables whole, so that those from before a change can be compared with
//! those from after it.

mod churn;
mod client;
mod drawn;
mod drive;
mod host;
mod listing;
mod scenes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use weir_core::elevator::KINDS;
use weir_core::{control, merge};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(format!("{name}.txt"))
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some()
}

/// Compares what was decided in a scene with its table.
fn check(scene: &host::Scene) {
    let decisions = host::run(scene);
    if is_set("WEIR_SHOW") {
        println!("{}", listing::whole(scene, &decisions));
    }
    let found = listing::of(scene, &decisions);
    let path = golden(scene.name);
    if is_set("WEIR_BLESS") {
        std::fs::write(&path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "decisions differ from {}; WEIR_BLESS=1 rewrites it, WEIR_SHOW=1 shows all:\n{found}",
        path.display(),
    );
}

/// Compares what was decided with the digest of its table.
fn check_digest(name: &str, found: &str) {
    static FILE: Mutex<()> = Mutex::new(());
    if is_set("WEIR_SHOW") {
        println!("{found}");
    }
    let path = golden("digests");
    let digest = listing::of_text(found);
    let file = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let mut digests: BTreeMap<&str, &str> =
        text.lines().filter_map(|l| l.split_once(' ')).collect();
    if is_set("WEIR_BLESS") {
        digests.insert(name, &digest);
        let lines = digests
            .iter()
            .map(|(name, digest)| format!("{name} {digest}\n"));
        std::fs::write(&path, lines.collect::<String>()).unwrap();
    }
    drop(file);
    assert_eq!(
        digests.get(name),
        Some(&digest.as_str()),
        "{name}: decisions differ; WEIR_SHOW=1 shows them, WEIR_BLESS=1 rewrites their digest"
    );
}

macro_rules! tables {
    ($($scene:ident)*) => {
        $(#[test]
        fn $scene() {
            check(&scenes::$scene());
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
            check_digest(&name, &churn::of(&name, policy, kind));
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
                check_digest(&name, &churn::of(&name, policy.clone(), kind));
            }
        }
    }
}

/// The same with tunables that are drawn.
#[test]
fn churn_tuned() {
    for elevator in KINDS.iter().filter(|e| (e.default)().tuned().is_some()) {
        let name = format!("churn-{}-tuned", elevator.name);
        check_digest(&name, &churn::tuned(&name, &(elevator.default)()));
    }
}

#[test]
fn nothing_is_lost_whatever_the_tunables() {
    for elevator in KINDS {
        churn::nothing_is_lost(&churn::Policy::of((elevator.default)()), 50);
    }
}

#[test]
fn nothing_is_lost_under_low_limits() {
    let limited = churn::nothing_is_lost(&drawn::policy("none", "low"), 50);
    assert!(limited, "limits were felt");
}

macro_rules! drawn {
    ($($test:ident $elevator:literal $with:literal)*) => {
        $(#[test]
        fn $test() {
            let name = format!("drawn-{}-{}", $elevator, $with);
            let name = name.trim_end_matches('-');
            check_digest(name, &drawn::of(name, &drawn::policy($elevator, $with)));
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
