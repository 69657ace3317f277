//! Tests of the decisions of each policy for small fixed loads. A golden table for each scene shows
//! the dispatched pieces with their times. `golden/digests.txt` has a digest of each table of
//! random calls and loads, which would be too long to read.
//!
//! A change of behaviour shows here first. `WEIR_BLESS=1 cargo test -p weir-core --test it
//! decisions::` rewrites the tables and the digests. With `WEIR_SHOW=1` and `-- --nocapture`, the
//! tests print all tables completely, so that those before and after a change can be compared.

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
use weir_core::{Config, merge};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(format!("{name}.txt"))
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some()
}

/// Compares the decisions in a scene with its table.
fn check(name: &str, says: &str, scene: &host::Scene) {
    let name = name.replace('_', "-");
    let title = format!("{name}\n{says}\n");
    let decisions = host::run(scene);
    if is_set("WEIR_SHOW") {
        println!("{title}{}", listing::whole(scene, &decisions));
    }
    let found = title + &listing::of(scene, &decisions);
    let path = golden(&name);
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

/// Compares the decisions with the digest of their table.
fn check_digest(name: &str, found: &str) {
    static FILE: Mutex<()> = Mutex::new(());
    if is_set("WEIR_SHOW") {
        println!("{found}");
    }
    let path = golden("digests");
    let digest = listing::of_text(found);
    // Tests run in parallel, and each rewrites the whole file.
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
    ($($scene:ident $says:literal)*) => {
        $(#[test]
        fn $scene() {
            check(stringify!($scene), $says, &scenes::$scene());
        })*
    };
}

tables! {
    none_flash "none: a reader, a random reader and a writer that syncs come as they come"
    max_levels "none: a and b have 700 reads/s and 20 MB/s of writes, all of them 60 MB/s"
    latency_target "none with io.latency: a is to be answered within 400 us, b within 20 ms, c whenever"
    latency_delays "none with io.latency: a misses 900 us until c and d, d's metadata aside, are down to one request and pause"
    cost_shares "none with io.cost: a has a quarter, of which its metadata takes more, b and c the rest"
    cost_donation "none with io.cost: a and b need little of theirs, which c and d have, until e asks beside a and when b has gone"
    cost_rises "none with io.cost: vrate is to be 150 % at least, and comes there by 4 % in a period"
    cost_falls "none with io.cost: vrate is to be 60 % at most, and comes there by 4 % in a period"
    bfq_disk_mix "bfq on a disk: two readers, b before a, a random reader, a writer, the idle class, and f realtime for 100 ms"
    bfq_disk_thinkers "bfq on a disk: clients that think for 3, 6 and 12 ms between requests, beside a sync writer and a deep random reader"
    bfq_disk_interleaved "bfq on a disk: a, b and c read one file, each its third, beside d; e begins at 700 ms"
    bfq_disk_random "bfq on a disk: random readers of weights 100, 200 and 400, the third with pauses; a writer begins at 900 ms"
    bfq_disk_alternate "bfq on a disk: a and b read one file between them, then go their own ways, and meet again; others come and go"
    bfq_disk_together "bfq on a disk: the same, but later, once idling for them is known not to pay"
    bfq_flash_together "bfq on slow flash: those that start soon after each other have one queue for good"
    bfq_flash_newcomers "bfq on flash: programs that start (c, d, e) beside a writer and a deep random reader"
    bfq_flash_burst "bfq on slow flash: fourteen that start within 5 ms, and one alone later"
    bfq_flash_player "bfq on slow flash: a player that reads 128 KiB every 25 ms, a writer, a deep reader, and a logger that syncs"
    bfq_flash_groups "bfq on slow flash: weights 100 and 300, the second with 50 and 150 below it; c leaves at 700 ms, d at 500 ms"
    bfq_strict "bfq with strict guarantees, no injection and no merging; budgets of 512 sectors"
    mq_deadline_flash "mq-deadline: readers and a writer; reads are due after 2 ms and writes after 8"
    mq_deadline_disk "mq-deadline: c is idle, and d, for a while, realtime; what has waited for 200 ms goes before both"
    cfq_disk "cfq: groups by time and weight; in the second, b and c have slices by level, and d writes what nobody waits for"
    cfq_flash "cfq: on flash requests are charged, not time: one stream's are large"
    kyber_flash "kyber: writes are always done in time and reads never, so that writes lose their places"
    kyber_disk "kyber: what a disk takes for a read is beyond the target, of which there are few: a second passes before that counts"
    contract_flash_promises "contract on flash: 50 MB/s promised to a, the rest to b's writes and e's reads, c idle, d realtime"
    contract_flash_requests "contract on flash: 3000 and 1000 requests/s are promised beside a deep reader"
    contract_flash_shares "contract on flash: shares of 1 : 2 : 4 : 8"
    contract_flash_flushes "contract on flash: two that sync, one of them promised 5 MB/s, beside a reader promised 30 MB/s"
    contract_flash_overpromised "contract on a drive ten times slower than stated: promises are kept in proportion"
    contract_disk_streams "contract on a disk: two streams in turns, shares 1 : 3; a random reader from 600 ms, a writer from 900 to 1200 ms"
    contract_disk_promises "contract on a disk: 8 and 4 MB/s are promised beside a writer and a random reader"
    contract_disk_changes "contract on a disk: two streams that are promised 20 and 15 MB/s take turns beside 20 random reads/s"
    contract_disk_late "contract on a disk: mins in bytes and requests, realtime and idle, beside reads of 1 MiB from 0.3 to 2 s"
    contract_tenants "contract on flash: 80 MB/s for a tenant of which a is promised 30; b leaves at 600 ms, d begins at 300 ms"
    contract_unbounded "contract on flash, what others have in flight not bounded: a and b, which syncs, are promised what they do not get"
    contract_disk_hopeless "contract on a disk: a reads at random and cannot have the 40 MB/s it is promised; b and c get a slice after 300 ms"
}

#[test]
fn churn() {
    for elevator in KINDS {
        for (behind, kind) in [
            ("", churn::LoadKind::Anywhere),
            ("-files", churn::LoadKind::Files),
        ] {
            let name = format!("churn-{}{behind}", elevator.name);
            let policy = Config::of((elevator.default)());
            check_digest(&name, &churn::of(&name, policy, kind));
        }
    }
}

/// Random calls with `io.cost`, with merging, and with both.
#[test]
fn churn_under_cost_and_merging() {
    let files = [
        ("", churn::LoadKind::Anywhere),
        ("-files", churn::LoadKind::Files),
    ];
    for elevator in KINDS.iter().filter(|e| ["none", "bfq"].contains(&e.name)) {
        let plain = Config::of((elevator.default)());
        let controllers = plain.controllers.cost(Some(scenes::SCARCE));
        let cost = plain.clone().controllers(controllers);
        let merging = plain.merge(merge::Config::LINUX);
        let both = cost.clone().merge(merge::Config::LINUX);
        for (words, policy) in [("-cost", cost), ("-merge", merging), ("-cost-merge", both)] {
            for (behind, kind) in files {
                let name = format!("churn-{}{words}{behind}", elevator.name);
                check_digest(&name, &churn::of(&name, policy.clone(), kind));
            }
        }
    }
}

/// Random calls with random tunables.
#[test]
fn churn_tuned() {
    for elevator in KINDS.iter().filter(|e| (e.default)().tuned().is_some()) {
        let name = format!("churn-{}-tuned", elevator.name);
        check_digest(&name, &churn::tuned(&name, &(elevator.default)()));
    }
}

#[test]
fn no_request_is_lost_under_any_tunables() {
    for elevator in KINDS {
        churn::nothing_is_lost(&Config::of((elevator.default)()), 50);
    }
}

#[test]
fn no_request_is_lost_under_low_limits() {
    let limited = churn::nothing_is_lost(&drawn::policy("none", "low"), 50);
    // Otherwise the test would not show anything about low limits.
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
