//! A volume as its shard sees it.

use std::io;

use weir_config::Plan;
use weir_core::{Contract, Dispatch, Flags, GroupId, Op};
use weir_measure::promise::Promise;

use super::ShardError;
use super::asked::Answers;
use super::shared::Shared;
use crate::backend::{Backend, Prepare, Traits};
use crate::errno::{EIO, ENOTCONN, ENOTSUP};
use crate::metrics::figures::VolumeFigures;
use crate::metrics::{Causes, Detail, Tally};
use weir_config::os_error;

/// A volume of a drive.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) name: String,
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) traits: Traits,
    pub(crate) terms: VolumeTerms,
    /// What of its min holds here, if several servers keep it.
    pub(super) shared: Shared,
    /// Which of its drive's tenants it belongs to.
    pub(super) member: Option<usize>,
    pub(crate) group: GroupId,
    pub(crate) backend: Box<dyn Backend>,
    /// What its server takes to answer, if another server has its storage.
    pub(super) remote: Option<Answers>,
    /// A flush has failed: what was written before may be lost, and no later flush may say otherwise.
    pub(crate) sync_failed: bool,
    /// Something was written since the last flush.
    pub(crate) unsynced: bool,
    /// It is among those of its drive that have deferred something.
    pub(crate) deferred: bool,
    /// It goes: no connection is accepted any more.
    pub(crate) leaving: bool,
    pub(crate) connections: u32,
    /// Of these, those of this machine's kernel.
    pub(crate) kernel: u32,
    pub(crate) tally: Tally,
    /// The other volume of its drive that the shard worked for most in the second that ends next.
    pub(super) busiest: Option<GroupId>,
}

/// What a volume's client was promised and permitted.
#[derive(Clone, Debug)]
pub(crate) struct VolumeTerms {
    pub(crate) contract: Contract,
    pub(crate) tenant: Option<TenantTerms>,
    /// Several servers keep its min.
    pub(crate) shared: bool,
}

/// A tenant with volumes on a drive.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) name: String,
    pub(crate) promise: Promise,
    pub(crate) causes: Causes,
}

/// What a volume's tenant was promised and permitted.
#[derive(Clone, Debug)]
pub(crate) struct TenantTerms {
    pub(crate) name: String,
    pub(crate) contract: Contract,
}

/// A volume that is to be served.
#[derive(Debug)]
pub(crate) struct VolumeSetup {
    pub(crate) name: String,
    pub(crate) terms: VolumeTerms,
    pub(crate) storage: Box<dyn Prepare>,
}

/// A volume whose storage belongs to the shard, before it belongs to its drive.
#[derive(Debug)]
pub(crate) struct Started {
    /// The number of its space.
    pub(crate) space: u32,
    pub(crate) volume: Volume,
}

impl VolumeSetup {
    /// Gives the storage to the thread that calls it, for the slots that the plan has for the volume.
    pub(super) fn start(self, plan: &Plan) -> Result<Started, ShardError> {
        let slot = plan.volumes[&self.name];
        let (size, traits) = (self.storage.size(), self.storage.traits());
        let started = self.storage.start().map_err(|error| ShardError::Volume {
            volume: self.name.clone(),
            error,
        });
        let backend = started?;
        Ok(Started {
            space: slot.space.0,
            volume: Volume {
                size,
                traits,
                terms: self.terms,
                shared: Shared::nothing(0),
                member: None,
                group: slot.group,
                remote: backend.remote().map(|_| Answers::default()),
                backend,
                name: self.name,
                sync_failed: false,
                unsynced: false,
                deferred: false,
                leaving: false,
                connections: 0,
                kernel: 0,
                tally: Tally::new(),
                busiest: None,
            },
        })
    }
}

impl Volume {
    /// Its contract as it holds here and now.
    pub(super) fn contract(&self) -> Contract {
        self.here(&self.terms.contract)
    }

    /// What of a contract holds here.
    pub(super) fn here(&self, whole: &Contract) -> Contract {
        if self.terms.shared {
            self.shared.of(whole)
        } else {
            *whole
        }
    }

    /// Connections of clients that would be disconnected if it went.
    pub(super) fn in_use(&self) -> u32 {
        self.connections - self.kernel
    }

    /// `limited` of the volume's requests are held by a limit, and the oldest has been there for `oldest_ns`.
    pub(super) fn snapshot(
        &self,
        (limited, oldest_ns): (u32, u64),
        detail: Detail,
    ) -> VolumeFigures {
        let VolumeTerms {
            contract,
            tenant,
            shared,
        } = &self.terms;
        VolumeFigures {
            name: self.name.clone(),
            tenant: tenant.as_ref().map(|t| t.name.clone()),
            share: contract.share,
            tenant_share: tenant.as_ref().map_or(0, |t| t.contract.share),
            connections: self.connections,
            limited,
            oldest_ns,
            sync_failed: self.sync_failed,
            remote: self.backend.remote(),
            part: shared.then_some(self.shared.part),
            lapses: self.shared.lapses,
            size: self.size,
            ..VolumeFigures::of(&self.tally, detail)
        }
    }

    /// The storage failed a piece.
    pub(super) fn failed(&mut self, piece: &Dispatch, errno: u16) {
        let Dispatch { op, flags, .. } = *piece;
        if errno == ENOTSUP && flags.has(Flags::FAST_ZERO) {
            // What the client asked: whether zeroing is faster than writing here. It is not.
            return;
        }
        self.tally.failed(op);
        // What a remote server has answered is kept until it is back: a later flush may succeed.
        let away = errno == ENOTCONN;
        self.unsynced |= away && op == Op::Flush;
        let syncs = op == Op::Flush && !away || flags.has(Flags::FUA) && errno == EIO;
        if syncs && !self.sync_failed {
            self.sync_failed = true;
            tracing::error!(
                volume = %self.name,
                operation = operation(op),
                offset = piece.offset,
                length = piece.length,
                error = os_error::message(&io::Error::from_raw_os_error(errno.into())),
                "a flush failed; every later flush and FUA write of this volume fails until the server is restarted, or the volume is removed and added again"
            );
        } else if self.tally.errors_logged() {
            tracing::warn!(
                volume = %self.name,
                operation = operation(op),
                offset = piece.offset,
                length = piece.length,
                error = os_error::message(&io::Error::from_raw_os_error(errno.into())),
                "the storage failed a request"
            );
        }
    }
}

/// An operation as messages name it.
fn operation(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Flush => "flush",
        Op::Discard => "trim",
        Op::WriteZeroes => "write zeroes",
        Op::Extents => "look-up of extents",
    }
}
