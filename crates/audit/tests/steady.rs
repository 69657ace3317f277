//! Shares, waits and promises hold in drawn scenes. More of them: `cargo run --release -p weir-audit --example steady`.

use weir_audit::random::Random;
use weir_audit::steady::{Kind, run};

/// So many scenes of a kind, always the same.
fn drawn(kind: Kind, scenes: u32) {
    let mut seeds = Random::new(7);
    for _ in 0..scenes {
        let seed = seeds.bits();
        let outcome = run(kind, seed).unwrap_or_else(|e| panic!("{kind:?} {seed}: {e}"));
        assert!(outcome.done > 1_000, "{kind:?} {seed}: {outcome:?}");
    }
}

#[test]
fn bfq_divides_by_weight() {
    drawn(Kind::BfqShares, 4);
}

#[test]
fn bfq_lets_nobody_wait_for_ever() {
    drawn(Kind::BfqWaits, 12);
}

#[test]
fn contract_divides_by_share() {
    drawn(Kind::ContractShares, 24);
}

#[test]
fn contract_lets_nobody_wait_for_ever() {
    drawn(Kind::ContractWaits, 12);
}

#[test]
fn contract_keeps_promises() {
    drawn(Kind::Promises, 16);
}
