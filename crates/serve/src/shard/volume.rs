//! A volume as its shard sees it.

use weir_config::Plan;
use weir_core::{Contract, Flags, GroupId, Op};

use crate::backend::{Backend, Prepare, Traits};
use crate::metrics::{Tally, VolumeSnapshot};

/// Linux's EIO.
pub(super) const EIO: u16 = 5;

/// Linux's ENOTSUP.
const ENOTSUP: u16 = 95;

/// A volume of a drive.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) traits: Traits,
    pub(crate) terms: Sold,
    /// Which of its drive's tenants it belongs to.
    pub(super) member: Option<usize>,
    pub(crate) group: GroupId,
    pub(crate) backend: Box<dyn Backend>,
    /// A flush has failed: what was written before may be lost, and no later flush may say otherwise.
    pub(crate) sync_failed: bool,
    /// Something was written since the last flush.
    pub(crate) unsynced: bool,
    /// It is among those of its drive that have put something off.
    pub(crate) unfinished: bool,
    /// It goes: no connection is accepted any more.
    pub(crate) leaving: bool,
    pub(crate) connections: u32,
    pub(crate) tally: Tally,
}

/// What a volume's client was sold.
#[derive(Clone, Debug)]
pub(crate) struct Sold {
    pub(crate) contract: Contract,
    pub(crate) tenant: Option<SoldTenant>,
}

/// What a volume's tenant was sold.
#[derive(Clone, Debug)]
pub(crate) struct SoldTenant {
    pub(crate) name: String,
    pub(crate) contract: Contract,
}

/// A volume that is to be served.
#[derive(Debug)]
pub(crate) struct VolumeSetup {
    pub(crate) name: String,
    pub(crate) sold: Sold,
    pub(crate) storage: Box<dyn Prepare>,
}

/// A volume whose storage belongs to the shard, before it belongs to its drive.
#[derive(Debug)]
pub(crate) struct Started {
    /// The number of its space.
    pub(crate) space: u32,
    pub(crate) size: u64,
    pub(crate) volume: Volume,
}

impl VolumeSetup {
    /// Gives the storage to the thread that calls it, for the slots that the plan has for the volume.
    pub(super) fn start(self, plan: &Plan) -> std::io::Result<Started> {
        let slot = plan.volumes[&self.name];
        Ok(Started {
            space: slot.space.0,
            size: self.storage.size(),
            volume: Volume {
                name: self.name,
                traits: self.storage.traits(),
                terms: self.sold,
                member: None,
                group: slot.group,
                backend: self.storage.start()?,
                sync_failed: false,
                unsynced: false,
                unfinished: false,
                leaving: false,
                connections: 0,
                tally: Tally::new(),
            },
        })
    }
}

impl Volume {
    /// Of its requests so many are limited, and the oldest has been there for so many nanoseconds.
    pub(super) fn snapshot(&self, (limited, oldest_ns): (u32, u64)) -> VolumeSnapshot {
        let Sold { contract, tenant } = &self.terms;
        VolumeSnapshot {
            name: self.name.clone(),
            tenant: tenant.as_ref().map(|t| t.name.clone()),
            share: contract.share,
            tenant_share: tenant.as_ref().map_or(0, |t| t.contract.share),
            connections: self.connections,
            limited,
            oldest_ns,
            sync_failed: self.sync_failed,
            tally: self.tally.clone(),
        }
    }

    /// The storage failed a piece.
    pub(super) fn failed(&mut self, op: Op, flags: Flags, errno: u16) {
        if errno == ENOTSUP && flags.has(Flags::FAST_ZERO) {
            // What the client asked: whether zeroing is faster than writing here. It is not.
            return;
        }
        self.tally.failed(op);
        let syncs = op == Op::Flush || flags.has(Flags::FUA) && errno == EIO;
        if syncs && !self.sync_failed {
            self.sync_failed = true;
            tracing::error!(
                volume = %self.name,
                errno,
                "a flush failed: every later flush and FUA write of this volume fails until the server is restarted"
            );
        } else if self.tally.errors_logged() {
            tracing::warn!(volume = %self.name, ?op, errno, "the storage failed a request");
        }
    }
}
