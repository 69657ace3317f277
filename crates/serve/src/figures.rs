//! How things stand with drives and volumes, for those that watch the server.

use weir_core::{Op, Span, Waits};
use weir_measure::SplitUs;
use weir_measure::promise::{Rate, Seconds};

use crate::metrics::{
    Causes, DriveSnapshot, OP_NAMES, OPS, TenantSnapshot, VolumeSnapshot, shares,
};

/// A drive. What is counted is counted from the server's start on.
#[derive(Clone, Debug)]
pub struct DriveFigures {
    /// Its name.
    pub name: String,
    /// Requests that are accepted and not done.
    pub live: u32,
    /// Pieces in the drive.
    pub in_flight: u32,
    /// For how long it has been served, nanoseconds.
    pub served_ns: u64,
    /// For how long something was in it, nanoseconds.
    pub busy_ns: u64,
    /// Its volumes.
    pub volumes: Vec<VolumeFigures>,
    /// Its tenants.
    pub tenants: Vec<TenantFigures>,
}

/// A volume.
#[derive(Clone, Debug)]
pub struct VolumeFigures {
    /// Its name.
    pub name: String,
    /// Its tenant.
    pub tenant: Option<String>,
    /// Its size, bytes.
    pub size: u64,
    /// Connections of clients.
    pub connections: u32,
    /// Requests that are accepted and not done.
    pub live: u32,
    /// Of these, those held back by a limit.
    pub limited: u32,
    /// How long the oldest of them has been there, nanoseconds.
    pub oldest_ns: u64,
    /// A flush has failed.
    pub sync_failed: bool,
    /// Requests that were answered without an error, bytes of these, and requests that the storage failed.
    pub counts: OpCounts,
    /// Requests whose waits are summed up.
    pub answered: u64,
    /// The sums of their waits.
    pub waits: Waits,
    /// What it is promised.
    pub rate: Option<Rate>,
    /// How that fares.
    pub seconds: Seconds,
    /// What keeps its client from more.
    pub causes: Causes,
    /// The part of the drive (0 to 1) that is its own by share among the volumes that have requests.
    pub share: f64,
    /// Of a min that several servers keep, the part (0 to 1) that is promised here.
    pub part: Option<f64>,
}

/// A tenant.
#[derive(Clone, Debug)]
pub struct TenantFigures {
    /// Its name.
    pub name: String,
    /// What it is promised.
    pub rate: Option<Rate>,
    /// How that fares.
    pub seconds: Seconds,
    /// What keeps its clients from more.
    pub causes: Causes,
}

/// Counts by operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpCounts {
    requests: [u64; OPS],
    bytes: [u64; OPS],
    errors: [u64; OPS],
}

impl OpCounts {
    /// Requests that were answered without an error, by the operation's name, with the bytes of these and the requests that the storage
    /// failed; in the order of the operations.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, [u64; 3])> {
        let of = |op: usize| [self.requests[op], self.bytes[op], self.errors[op]];
        (0..OPS).map(move |op| (OP_NAMES[op], of(op)))
    }

    /// All requests that move data, and their bytes.
    pub fn all(&self) -> (u64, u64) {
        let moves = |op: &usize| *op != Op::Extents as usize;
        let requests = (0..OPS).filter(moves).map(|op| self.requests[op]).sum();
        (requests, self.bytes.iter().sum())
    }
}

impl DriveFigures {
    pub(crate) fn of(drive: DriveSnapshot) -> Self {
        let parts = shares(&drive.volumes);
        let volumes = drive.volumes.into_iter().zip(parts);
        Self {
            volumes: volumes
                .map(|(volume, [_, share, _])| VolumeFigures::of(volume, share))
                .collect(),
            tenants: drive.tenants.into_iter().map(TenantFigures::of).collect(),
            name: drive.name,
            live: drive.live,
            in_flight: drive.in_flight,
            served_ns: drive.served_ns,
            busy_ns: drive.busy_ns,
        }
    }
}

impl VolumeFigures {
    /// Where a mean request spent its time since an earlier count of the same server; `None` if no request was answered in between.
    pub fn mean_since(&self, earlier: Option<&Self>) -> Option<SplitUs> {
        let (answered, before) = earlier.map(|v| (v.answered, v.waits)).unwrap_or_default();
        let requests = self.answered.checked_sub(answered).filter(|n| *n > 0)?;
        let waits = self.waits - before;
        let mean = |sum: Span| sum.as_nanos() as f64 / 1e3 / requests as f64;
        Some(SplitUs {
            limit: mean(waits.limit),
            elevator: mean(waits.elevator),
            drive: mean(waits.drive),
            ..SplitUs::default()
        })
    }

    fn of(volume: VolumeSnapshot, share: f64) -> Self {
        let tally = volume.tally;
        Self {
            name: volume.name,
            tenant: volume.tenant,
            size: volume.size,
            connections: volume.connections,
            live: tally.live,
            limited: volume.limited,
            oldest_ns: volume.oldest_ns,
            sync_failed: volume.sync_failed,
            counts: OpCounts {
                requests: tally.requests,
                bytes: tally.bytes,
                errors: tally.errors,
            },
            answered: tally.answered,
            waits: tally.waits,
            rate: tally.promise.rate(),
            seconds: *tally.promise.seconds(),
            causes: tally.causes,
            share,
            part: volume.shared.map(|shared| shared.part),
        }
    }
}

impl TenantFigures {
    fn of(tenant: TenantSnapshot) -> Self {
        Self {
            name: tenant.name,
            rate: tenant.rate,
            seconds: tenant.seconds,
            causes: tenant.causes,
        }
    }
}
