//! Shares, waits and promises hold in drawn scenes. For more of them: `cargo run --release -p weir-audit --example steady`.

use weir_audit::random::Random;
use weir_audit::steady::{Kind, run};

/// Runs this many scenes of a kind, always the same ones.
fn drawn(kind: Kind, scenes: u32) {
    let mut seeds = Random::new(7);
    for _ in 0..scenes {
        let seed = seeds.bits();
        let outcome = run(kind, seed).unwrap_or_else(|e| panic!("{kind:?} {seed}: {e}"));
        assert!(outcome.done > 500, "{kind:?} {seed}: {outcome:?}");
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
fn io_cost_divides_by_share() {
    drawn(Kind::CostShares, 24);
}

#[test]
fn cfq_divides_by_weight() {
    drawn(Kind::CfqShares, 12);
}

#[test]
fn cfq_lets_nobody_wait_for_ever() {
    drawn(Kind::CfqWaits, 12);
}

#[test]
fn contract_lets_nobody_wait_for_ever() {
    drawn(Kind::ContractWaits, 12);
}

#[test]
fn mq_deadline_lets_nobody_wait_for_ever() {
    drawn(Kind::DeadlineWaits, 24);
}

#[test]
fn kyber_lets_nobody_wait_for_ever() {
    drawn(Kind::KyberWaits, 24);
}

#[test]
fn contract_keeps_promises() {
    drawn(Kind::Promises, 16);
}

#[test]
fn contract_keeps_promises_in_requests() {
    drawn(Kind::Requests, 16);
}

#[test]
fn contract_keeps_promises_of_tenants() {
    drawn(Kind::Tenants, 16);
}

#[test]
fn contract_serves_realtime_clients_at_once() {
    drawn(Kind::Realtime, 16);
}

#[test]
fn contract_keeps_promises_beside_realtime_clients() {
    drawn(Kind::RealtimeBeside, 48);
}

#[test]
fn contract_keeps_promises_beside_bursts_of_realtime_clients() {
    drawn(Kind::RealtimeBursts, 24);
}

#[test]
fn contract_keeps_promises_beside_large_realtime_requests() {
    drawn(Kind::RealtimeLarge, 48);
}

#[test]
fn contract_keeps_promises_beside_small_realtime_requests() {
    drawn(Kind::RealtimeSmall, 24);
}

#[test]
fn contract_keeps_promises_in_proportion_on_a_slow_drive() {
    drawn(Kind::SlowDrive, 12);
}

#[test]
fn contract_keeps_promises_in_proportion_beside_realtime_clients() {
    drawn(Kind::SlowRealtime, 24);
}

#[test]
fn contract_gives_the_idle_class_its_turn_in_every_tenant() {
    drawn(Kind::IdleMembers, 12);
}

#[test]
fn contract_gives_the_idle_class_its_turn_whatever_else_goes_on() {
    drawn(Kind::IdleDeep, 24);
}

#[test]
fn contract_keeps_promises_through_unrest() {
    drawn(Kind::Unrest, 20);
}

#[test]
fn contract_keeps_all_contracts_through_unrest() {
    drawn(Kind::UnrestOfClasses, 48);
}
