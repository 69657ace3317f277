//! Front ends: one module for each protocol that clients speak.
//!
//! The interface between a front end and its shard is in `shard/front.rs`. The handshakes are
//! driven by `acceptor/`. No other module depends on a protocol, which `tests/it/structure.rs`
//! checks.

pub(crate) mod nbd;
pub(crate) mod ublk;
pub(crate) mod vhost;

use crate::acceptor::VolumeExport;
use crate::shard::Attach;
use crate::upgrade::{FrontRecord, FrontState};

/// Returns the front end of a client of `export` that another process has handed over, or `None` if
/// the state is incomplete. `endings` are those of the volumes' [`vhost::greeter`]s.
pub(crate) fn inherit(
    state: FrontState,
    export: &VolumeExport,
    endings: &mut vhost::EndingSessions,
) -> Option<Box<dyn Attach>> {
    let FrontState {
        record,
        descriptors,
        bytes,
    } = state;
    match record {
        FrontRecord::Nbd(record) => Some(Box::new(nbd::InheritedConnection {
            socket: descriptors.into_iter().next()?,
            record,
            bytes,
        })),
        FrontRecord::Vhost(record) => Some(Box::new(vhost::InheritedSession {
            record,
            descriptors,
            bytes,
            export: Box::new(export.clone()),
            ending: endings.of(&export.name),
        })),
    }
}

#[cfg(test)]
mod tests;
