//! The state of drives, tenants and volumes at one time, as a shard hands it out.

use weir_config::Room;
use weir_core::{Counters, Op, Span, Waits};
use weir_measure::promise::{Rate, Seconds};
use weir_measure::{Split, SplitUs};

use crate::backend::RemoteState;
use crate::metrics::{Causes, Detail, Latency, OP_NAMES, OPS, Tally};

/// A drive. Counts are from the server's start on.
#[derive(Clone, Debug)]
pub struct DriveFigures {
    /// Its name.
    pub name: String,
    /// Requests that are accepted and not done.
    pub live: u32,
    /// Pieces in the drive.
    pub in_flight: u32,
    pub(crate) counters: Counters,
    /// For how long it has been served, nanoseconds.
    pub served_ns: u64,
    /// For how long something was in it, nanoseconds.
    pub busy_ns: u64,
    /// What is promised and left, if the caller knows the configuration.
    pub(crate) room: Room,
    /// Its volumes.
    pub volumes: Vec<VolumeFigures>,
    /// Its tenants.
    pub tenants: Vec<TenantFigures>,
}

/// A volume.
#[derive(Clone, Debug, Default)]
pub struct VolumeFigures {
    /// Its name.
    pub name: String,
    /// Its tenant.
    pub tenant: Option<String>,
    /// Its size, bytes.
    pub size: u64,
    /// The shares of its contract and of its tenant's.
    pub(crate) share: u16,
    pub(crate) tenant_share: u16,
    /// Connections of clients.
    pub connections: u32,
    /// Requests that are accepted and not done.
    pub live: u32,
    /// Of these, those held back by a limit or because the client does not read its replies.
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
    /// The histograms of their waits, with all [`Detail`] only.
    pub(crate) split: Option<Split>,
    pub(crate) untaken_ns: u64,
    pub(crate) processor_ns: u64,
    pub(crate) latency: Latency,
    /// What it is promised.
    pub rate: Option<Rate>,
    /// How that fares.
    pub seconds: Seconds,
    /// What keeps its client from more.
    pub causes: Causes,
    /// Bytes served in the last full second.
    pub(crate) last_bytes: u64,
    /// The state of the server that has its storage, if another machine has it.
    pub(crate) remote: Option<RemoteState>,
    /// Of a min that several servers keep, the part (0 to 1) that is promised here.
    pub part: Option<f64>,
    /// How often that part was lost.
    pub(crate) lapses: u64,
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
    pub(crate) requests: [u64; OPS],
    pub(crate) bytes: [u64; OPS],
    pub(crate) errors: [u64; OPS],
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

impl VolumeFigures {
    /// The figures that a tally has of a volume; most of their size is [`VolumeFigures::split`].
    pub(crate) fn of(tally: &Tally, detail: Detail) -> Self {
        let split = (detail == Detail::Full).then(|| tally.split.clone());
        Self {
            live: tally.live,
            counts: OpCounts {
                requests: tally.requests,
                bytes: tally.bytes,
                errors: tally.errors,
            },
            answered: tally.split.drive.count(),
            waits: tally.waits,
            split,
            untaken_ns: tally.untaken_ns,
            processor_ns: tally.processor_ns,
            latency: tally.latency.clone(),
            rate: tally.promise.rate(),
            seconds: *tally.promise.seconds(),
            causes: tally.causes.clone(),
            last_bytes: tally.last_bytes,
            ..Self::default()
        }
    }

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
}

/// Parts of the drive (0 to 1) of each of its volumes: by its share among all, among those that have requests now, and by the bytes of
/// the last full second.
pub fn shares(volumes: &[VolumeFigures]) -> Vec<[f64; 3]> {
    let all = by_share(volumes, |_| true);
    let active = by_share(volumes, |v| v.live > 0);
    let bytes: u64 = volumes.iter().map(|v| v.last_bytes).sum();
    let zipped = volumes.iter().zip(all).zip(active);
    zipped
        .map(|((volume, promised), effective)| {
            let used = volume.last_bytes as f64 / (bytes.max(1)) as f64;
            [promised, effective, used]
        })
        .collect()
}

/// Shares among the volumes that `counts` picks; tenants share first, then their volumes.
fn by_share(volumes: &[VolumeFigures], counts: impl Fn(&VolumeFigures) -> bool) -> Vec<f64> {
    let mut top: f64 = 0.0;
    let mut seen: Vec<(&str, f64)> = Vec::new();
    for volume in volumes.iter().filter(|v| counts(v)) {
        let Some(tenant) = volume.tenant.as_deref() else {
            top += f64::from(volume.share);
            continue;
        };
        if let Some(entry) = seen.iter_mut().find(|(name, _)| *name == tenant) {
            entry.1 += f64::from(volume.share);
        } else {
            top += f64::from(volume.tenant_share);
            seen.push((tenant, f64::from(volume.share)));
        }
    }
    volumes
        .iter()
        .map(|volume| {
            if !counts(volume) {
                return 0.0;
            }
            let own = f64::from(volume.share);
            let tenant = volume.tenant.as_deref();
            match tenant.and_then(|t| seen.iter().find(|(name, _)| *name == t)) {
                Some((_, members)) => f64::from(volume.tenant_share) / top * own / members,
                None => own / top,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(name: &str, tenant: Option<&str>, share: u16, live: u32) -> VolumeFigures {
        VolumeFigures {
            name: name.to_owned(),
            tenant: tenant.map(str::to_owned),
            share,
            tenant_share: 300,
            live,
            last_bytes: u64::from(share) * 10,
            ..VolumeFigures::default()
        }
    }

    #[test]
    fn tenants_share_first_then_their_volumes() {
        let shares = shares(&[
            volume("a", None, 100, 1),
            volume("b", Some("t"), 100, 1),
            volume("c", Some("t"), 200, 0),
        ]);
        let expected = [[0.25, 0.25, 0.25], [0.25, 0.75, 0.25], [0.5, 0.0, 0.5]];
        for (got, wanted) in shares.iter().zip(expected) {
            for (got, wanted) in got.iter().zip(wanted) {
                assert!((got - wanted).abs() < 1e-9, "{shares:?}");
            }
        }
    }
}
