//! Honest clients that run load programs.

use std::time::Duration;

use weir_config::Address;
use weir_model::client::{Fleet, Member, Outcome};
use weir_model::load::Program;

/// A client of a volume.
pub(crate) fn member(export: &str, program: Program) -> Member {
    Member {
        name: export.to_owned(),
        export: export.to_owned(),
        program,
        region: None,
        seed: 1,
    }
}

/// Clients that begin together; they are measured for `length` after half a second. What happens meanwhile is up to `progress`,
/// which is told the time since the beginning.
pub(crate) fn run(
    address: &Address,
    members: Vec<Member>,
    length: Duration,
    progress: impl FnMut(Duration),
) -> Vec<Outcome> {
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

/// Bytes a second that a client got.
pub(crate) fn rate(outcome: &Outcome) -> f64 {
    outcome.meter.bytes() as f64 / (outcome.meter.length_ns() as f64 / 1e9)
}

/// Requests a second that a client got.
pub(crate) fn iops(outcome: &Outcome) -> f64 {
    outcome.meter.requests() as f64 / (outcome.meter.length_ns() as f64 / 1e9)
}
