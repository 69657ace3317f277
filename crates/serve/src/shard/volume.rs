//! A volume as its shard serves it.

use std::io;

use weir_config::DrivePlan;
use weir_core::{Contract, Dispatch, Flags, GroupId, Op};
use weir_measure::promise::Promise;

use super::ShardError;
use super::asked::ResponseTimes;
use super::shared::SharedPart;
use crate::backend::{Backend, Prepare, Traits};
use crate::errno::{EIO, ENOTCONN, ENOTSUP};
use crate::metrics::figures::VolumeFigures;
use crate::metrics::{Causes, Detail, VolumeTally};
use weir_config::os_error;

/// A volume of a drive, with its backend and counters.
#[derive(Debug)]
pub(crate) struct ShardVolume {
    pub(crate) name: String,
    /// The size in bytes that clients see.
    pub(crate) size: u64,
    pub(crate) traits: Traits,
    pub(crate) terms: VolumeTerms,
    /// The part of its shared minimum that this server holds.
    pub(super) shared: SharedPart,
    /// The index of its tenant in the drive's list of tenants.
    pub(super) member: Option<usize>,
    pub(crate) group: GroupId,
    pub(crate) backend: Box<dyn Backend>,
    /// The response times of the remote server that has the storage, or `None` if the storage is
    /// local.
    pub(super) remote: Option<ResponseTimes>,
    /// True if a flush or a FUA write has failed. Data that was written before may be lost, and no
    /// later flush may report success.
    pub(crate) sync_failed: bool,
    /// True if data was written since the last flush.
    pub(crate) unsynced: bool,
    /// True if the volume is in the drive's list of volumes with deferred work.
    pub(crate) deferred: bool,
    /// True if the volume is being removed and accepts no connections.
    pub(crate) leaving: bool,
    pub(crate) connections: u32,
    /// The number of these connections that belong to the kernel of this machine.
    pub(crate) kernel: u32,
    pub(crate) tally: VolumeTally,
    /// The other volume of the drive that used the shard's processor most in the second that is
    /// judged next.
    pub(super) busiest: Option<GroupId>,
}

/// The contracts of a volume and its tenant.
#[derive(Clone, Debug)]
pub(crate) struct VolumeTerms {
    pub(crate) contract: Contract,
    pub(crate) tenant: Option<TenantTerms>,
    /// True if several servers share its min.
    pub(crate) shared: bool,
}

/// A tenant that has volumes on the drive.
#[derive(Debug)]
pub(crate) struct DriveTenant {
    pub(crate) name: String,
    pub(crate) promise: Promise,
    pub(crate) causes: Causes,
}

/// The name and contract of a volume's tenant.
#[derive(Clone, Debug)]
pub(crate) struct TenantTerms {
    pub(crate) name: String,
    pub(crate) contract: Contract,
}

/// A volume that is to be started on a shard.
#[derive(Debug)]
pub(crate) struct VolumeSetup {
    pub(crate) name: String,
    pub(crate) terms: VolumeTerms,
    pub(crate) storage: Box<dyn Prepare>,
    /// True if another process has used the storage and may not have flushed it.
    pub(crate) unsynced: bool,
}

/// A volume with storage that belongs to the shard, before the volume is added to its drive.
#[derive(Debug)]
pub(crate) struct StartedVolume {
    /// The number of the volume's space.
    pub(crate) space: u32,
    pub(crate) volume: ShardVolume,
}

impl VolumeSetup {
    /// Starts the storage on the calling thread, in the slots that the plan has for the volume.
    pub(super) fn start(self, plan: &DrivePlan) -> Result<StartedVolume, ShardError> {
        let slot = plan.volumes[&self.name];
        let (size, traits) = (self.storage.size(), self.storage.traits());
        let started = self.storage.start().map_err(|error| ShardError::Volume {
            volume: self.name.clone(),
            error,
        });
        let backend = started?;
        Ok(StartedVolume {
            space: slot.space.0,
            volume: ShardVolume {
                size,
                traits,
                terms: self.terms,
                shared: SharedPart::nothing(0),
                member: None,
                group: slot.group,
                remote: backend.remote().map(|_| ResponseTimes::default()),
                backend,
                name: self.name,
                sync_failed: false,
                unsynced: self.unsynced,
                deferred: false,
                leaving: false,
                connections: 0,
                kernel: 0,
                tally: VolumeTally::new(),
                busiest: None,
            },
        })
    }
}

impl ShardVolume {
    /// Returns the contract that is in force on this server.
    pub(super) fn contract(&self) -> Contract {
        self.here(&self.terms.contract)
    }

    /// Returns the part of a contract that is in force on this server.
    pub(super) fn here(&self, whole: &Contract) -> Contract {
        if self.terms.shared {
            self.shared.of(whole)
        } else {
            *whole
        }
    }

    /// Returns the number of connections that would be closed if the volume were removed.
    pub(super) fn in_use(&self) -> u32 {
        self.connections - self.kernel
    }

    /// Returns the volume's figures. `limited` of its requests are throttled by a limit, and the
    /// oldest request has waited for `oldest_ns`.
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

    /// Counts and logs a piece that the storage has failed.
    pub(super) fn failed(&mut self, piece: &Dispatch, errno: u16) {
        let Dispatch { op, flags, .. } = *piece;
        if errno == ENOTSUP && flags.has(Flags::FAST_ZERO) {
            // The client asked to zero only if that is faster than writing (NBD_CMD_FLAG_FAST_ZERO,
            // NBD protocol: ENOTSUP otherwise). The answer is no failure of the storage.
            return;
        }
        self.tally.failed(op);
        // The backend keeps writes that the remote server has completed until it has reconnected,
        // so a later flush may succeed.
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
        } else if self.tally.count_error() {
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

/// Returns the name of an operation for messages.
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
