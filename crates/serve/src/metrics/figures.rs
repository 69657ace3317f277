//! The state of drives, tenants and volumes at one time, as a shard provides it.

use weir_config::DriveRoom;
use weir_core::{Counters, Op, Span, Waits};
use weir_measure::promise::{PromisedRate, Seconds};
use weir_measure::{SplitUs, WaitSplit};

use crate::backend::RemoteState;
use crate::metrics::{Causes, Detail, LatencyHistogram, OP_NAMES, OPS, VolumeTally};

/// The figures of a drive. Counts begin at the start of the server.
#[derive(Clone, Debug)]
pub struct DriveFigures {
    /// The name of the drive.
    pub name: String,
    /// The number of requests that are accepted and not completed.
    pub live: u32,
    /// The number of pieces in flight.
    pub in_flight: u32,
    pub(crate) counters: Counters,
    /// The time during which the drive was served, in nanoseconds.
    pub served_ns: u64,
    /// The time during which at least one piece was in flight, in nanoseconds.
    pub busy_ns: u64,
    /// The promised and the remaining capacity, if the caller knows the configuration.
    pub(crate) room: DriveRoom,
    /// The figures of all volumes on the drive.
    pub volumes: Vec<VolumeFigures>,
    /// The figures of all tenants on the drive.
    pub tenants: Vec<TenantFigures>,
}

/// The figures of a volume.
#[derive(Clone, Debug, Default)]
pub struct VolumeFigures {
    /// The name of the volume.
    pub name: String,
    /// The name of the volume's tenant, if it has one.
    pub tenant: Option<String>,
    /// The size of the volume in bytes.
    pub size: u64,
    /// The share of the volume's contract, and that of its tenant's.
    pub(crate) share: u16,
    pub(crate) tenant_share: u16,
    /// The number of connections of clients.
    pub connections: u32,
    /// The number of requests that are accepted and not completed.
    pub live: u32,
    /// The number of these that are throttled by a limit, or held because the client does not read
    /// its replies.
    pub limited: u32,
    /// The age of the oldest request that is not completed, in nanoseconds.
    pub oldest_ns: u64,
    /// True if a flush or a FUA write has failed since the storage was opened.
    pub sync_failed: bool,
    /// The counts by operation: completed requests, their bytes, and errors of the storage.
    pub counts: OpCounts,
    /// The number of requests that [`VolumeFigures::waits`] sums up.
    pub answered: u64,
    /// The sums of the waits of these requests.
    pub waits: Waits,
    /// The histograms of waits. They are present only with [`Detail::Full`].
    pub(crate) split: Option<WaitSplit>,
    pub(crate) untaken_ns: u64,
    pub(crate) processor_ns: u64,
    pub(crate) latency: LatencyHistogram,
    /// The promised rate, if the volume has a promise.
    pub rate: Option<PromisedRate>,
    /// The promised seconds by their verdict.
    pub seconds: Seconds,
    /// The causes that limit the volume's clients.
    pub causes: Causes,
    /// The bytes served in the last full second.
    pub(crate) last_bytes: u64,
    /// The state of the remote server that stores the volume, if one does.
    pub(crate) remote: Option<RemoteState>,
    /// The fraction (0 to 1) of a shared minimum that this server promises, if the volume's min is
    /// shared.
    pub part: Option<f64>,
    /// The number of times that this fraction was lost.
    pub(crate) lapses: u64,
}

/// The figures of a tenant.
#[derive(Clone, Debug)]
pub struct TenantFigures {
    /// The name of the tenant.
    pub name: String,
    /// The promised rate, if the tenant has a promise.
    pub rate: Option<PromisedRate>,
    /// The promised seconds by their verdict.
    pub seconds: Seconds,
    /// The causes that limit the tenant's clients.
    pub causes: Causes,
}

/// Counts of requests by operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpCounts {
    pub(crate) requests: [u64; OPS],
    pub(crate) bytes: [u64; OPS],
    pub(crate) errors: [u64; OPS],
}

impl OpCounts {
    /// Returns, for each operation, its name and the numbers of completed requests, of their bytes,
    /// and of errors of the storage.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, [u64; 3])> {
        let of = |op: usize| [self.requests[op], self.bytes[op], self.errors[op]];
        (0..OPS).map(move |op| (OP_NAMES[op], of(op)))
    }

    /// Returns the number of all requests except look-ups of extents, and of their bytes.
    pub fn all(&self) -> (u64, u64) {
        let moves = |op: &usize| *op != Op::Extents as usize;
        let requests = (0..OPS).filter(moves).map(|op| self.requests[op]).sum();
        (requests, self.bytes.iter().sum())
    }
}

impl VolumeFigures {
    /// Returns the figures that a tally contains. [`VolumeFigures::split`] takes most of their
    /// memory.
    pub(crate) fn of(tally: &VolumeTally, detail: Detail) -> Self {
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

    /// Returns the mean time of a request in each stage since `earlier`, which must come from the
    /// same server. Returns `None` if no request completed in between.
    pub fn mean_since(&self, earlier: Option<&Self>) -> Option<SplitUs> {
        let (answered, before) = earlier.map(|v| (v.answered, v.waits)).unwrap_or_default();
        // A smaller count than before would be that of another run of the server.
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

/// Returns three fractions (0 to 1) of the drive for each of its volumes: by its share among all
/// volumes, by its share among those with requests now, and by the bytes of the last full second.
pub fn shares(volumes: &[VolumeFigures]) -> Vec<[f64; 3]> {
    let all = by_share(volumes, |_| true);
    let active = by_share(volumes, |v| v.live > 0);
    let bytes: u64 = volumes.iter().map(|v| v.last_bytes).sum();
    let zipped = volumes.iter().zip(all).zip(active);
    zipped
        .map(|((volume, promised), effective)| {
            // `max(1)` avoids a division by zero while nothing is served.
            let used = volume.last_bytes as f64 / (bytes.max(1)) as f64;
            [promised, effective, used]
        })
        .collect()
}

/// Returns the fractions by share among the volumes that `counts` selects. Tenants divide the drive
/// first, and then each tenant's volumes divide its fraction.
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
        // All: the tenant has 300 of 400, which b and c divide 1:2. Effective: c has no request, so
        // that b gets the tenant's three quarters. Used: 1:1:2.
        let expected = [[0.25, 0.25, 0.25], [0.25, 0.75, 0.25], [0.5, 0.0, 0.5]];
        for (got, wanted) in shares.iter().zip(expected) {
            for (got, wanted) in got.iter().zip(wanted) {
                assert!((got - wanted).abs() < 1e-9, "{shares:?}");
            }
        }
    }
}
