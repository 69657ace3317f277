//! Shares, waits and promises hold in drawn scenes. For more of them: `cargo run --release -p weir-verify --example steady`.

use weir_verify::audit::random::Random;
use weir_verify::audit::steady::{Kind, run};

/// Runs this many scenes of a kind, always the same ones; `./test` runs more with the example, `./bench soak` many more.
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
    drawn(Kind::BfqWaits, 6);
}

#[test]
fn contract_divides_by_share() {
    drawn(Kind::ContractShares, 12);
}

#[test]
fn io_cost_divides_by_share() {
    drawn(Kind::CostShares, 12);
}

#[test]
fn cfq_divides_by_weight() {
    drawn(Kind::CfqShares, 6);
}

#[test]
fn cfq_lets_nobody_wait_for_ever() {
    drawn(Kind::CfqWaits, 6);
}

#[test]
fn contract_lets_nobody_wait_for_ever() {
    drawn(Kind::ContractWaits, 6);
}

#[test]
fn mq_deadline_lets_nobody_wait_for_ever() {
    drawn(Kind::DeadlineWaits, 12);
}

#[test]
fn kyber_lets_nobody_wait_for_ever() {
    drawn(Kind::KyberWaits, 12);
}

#[test]
fn contract_keeps_promises() {
    drawn(Kind::Promises, 8);
}

#[test]
fn contract_keeps_promises_in_requests() {
    drawn(Kind::Requests, 8);
}

#[test]
fn contract_keeps_promises_of_tenants() {
    drawn(Kind::Tenants, 8);
}

#[test]
fn contract_serves_realtime_clients_at_once() {
    drawn(Kind::Realtime, 8);
}

#[test]
fn contract_keeps_promises_beside_realtime_clients() {
    drawn(Kind::RealtimeBeside, 24);
}

#[test]
fn contract_keeps_promises_beside_bursts_of_realtime_clients() {
    drawn(Kind::RealtimeBursts, 12);
}

#[test]
fn contract_keeps_promises_beside_large_realtime_requests() {
    drawn(Kind::RealtimeLarge, 24);
}

#[test]
fn contract_keeps_promises_beside_small_realtime_requests() {
    drawn(Kind::RealtimeSmall, 12);
}

#[test]
fn contract_keeps_promises_in_proportion_on_a_slow_drive() {
    drawn(Kind::SlowDrive, 6);
}

#[test]
fn contract_keeps_promises_in_proportion_beside_realtime_clients() {
    drawn(Kind::SlowRealtime, 12);
}

#[test]
fn contract_gives_the_idle_class_its_turn_in_every_tenant() {
    drawn(Kind::IdleMembers, 6);
}

#[test]
fn contract_gives_the_idle_class_its_turn_whatever_else_goes_on() {
    drawn(Kind::IdleDeep, 12);
}

#[test]
fn contract_keeps_promises_through_unrest() {
    drawn(Kind::Unrest, 8);
}

#[test]
fn contract_keeps_all_contracts_through_unrest() {
    drawn(Kind::UnrestOfClasses, 24);
}
