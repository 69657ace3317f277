//! Clients that follow the protocol and run load programs.

use std::time::Duration;

use weir_config::ListenAddress;
use weir_model::client::{Fleet, FleetMember, MemberOutcome};
use weir_model::load::Program;

/// Returns a client of a volume.
pub(crate) fn member(export: &str, program: Program) -> FleetMember {
    FleetMember {
        name: export.to_owned(),
        export: export.to_owned(),
        program,
        trace: None,
        region: None,
        seed: 1,
    }
}

/// Runs clients that start together and are measured for `length` after half a second. `progress`
/// is called repeatedly with the time since the start.
pub(crate) fn run(
    address: &ListenAddress,
    members: Vec<FleetMember>,
    length: Duration,
    progress: impl FnMut(Duration),
) -> Vec<MemberOutcome> {
    let fleet = Fleet {
        address: super::client_address(address),
        members,
        warm_up: Duration::from_millis(500),
        length,
        patience: Duration::from_secs(20),
    };
    let outcomes = fleet.run(progress).unwrap_or_else(|e| panic!("{e}"));
    for outcome in &outcomes {
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        assert_eq!(outcome.meter.failures(), 0);
    }
    outcomes
}

/// Returns the bandwidth of a client in bytes per second.
pub(crate) fn rate(outcome: &MemberOutcome) -> f64 {
    outcome.meter.bytes() as f64 / (outcome.meter.length_ns() as f64 / 1e9)
}

/// Returns the request rate of a client per second.
pub(crate) fn iops(outcome: &MemberOutcome) -> f64 {
    outcome.meter.requests() as f64 / (outcome.meter.length_ns() as f64 / 1e9)
}
