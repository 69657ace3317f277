//! Tests that shares, waits and promises hold in drawn scenes. For more scenes, run `cargo run
//! --release -p weir-verify --example steady`.

use weir_verify::audit::random::RandomDecisions;
use weir_verify::audit::steady::{Kind, run};

/// Runs this many scenes of a kind, which are always the same ones. `./test` runs more with the
/// example, and `./bench soak` many more.
fn drawn(kind: Kind, scenes: u32) {
    let mut seeds = RandomDecisions::new(7);
    for _ in 0..scenes {
        let seed = seeds.bits();
        let outcome = run(kind, seed).unwrap_or_else(|e| panic!("{kind:?} {seed}: {e}"));
        // A scene in which hardly anything happens would prove nothing.
        assert!(outcome.done > 500, "{kind:?} {seed}: {outcome:?}");
    }
}

macro_rules! scenes {
    ($($test:ident $kind:ident $scenes:literal)*) => {
        $(#[test]
        fn $test() {
            drawn(Kind::$kind, $scenes);
        })*
    };
}

scenes! {
    bfq_divides_by_weight BfqShares 4
    bfq_lets_nobody_wait_for_ever BfqWaits 6
    contract_divides_by_share ContractShares 12
    io_cost_divides_by_share CostShares 12
    cfq_divides_by_weight CfqShares 6
    cfq_lets_nobody_wait_for_ever CfqWaits 6
    contract_lets_nobody_wait_for_ever ContractWaits 6
    mq_deadline_lets_nobody_wait_for_ever DeadlineWaits 12
    kyber_lets_nobody_wait_for_ever KyberWaits 12
    contract_keeps_promises Promises 8
    contract_keeps_promises_in_requests Requests 8
    contract_keeps_promises_of_tenants Tenants 8
    contract_serves_realtime_clients_at_once Realtime 8
    contract_keeps_promises_beside_realtime_clients RealtimeBeside 24
    contract_keeps_promises_beside_bursts_of_realtime_clients RealtimeBursts 12
    contract_keeps_promises_beside_large_realtime_requests RealtimeLarge 24
    contract_keeps_promises_beside_small_realtime_requests RealtimeSmall 12
    contract_keeps_promises_in_proportion_on_a_slow_drive SlowDrive 6
    contract_keeps_promises_in_proportion_beside_realtime_clients SlowRealtime 12
    contract_gives_the_idle_class_its_turn_in_every_tenant IdleMembers 6
    contract_gives_the_idle_class_its_turn_whatever_else_goes_on IdleDeep 12
    contract_keeps_promises_through_unrest Unrest 8
    contract_keeps_all_contracts_through_unrest UnrestOfClasses 24
}
