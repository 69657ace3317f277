//! The state of a drive at one time, as a shard hands it out.

use super::{Causes, Tally};
use crate::backend::RemoteState;
use weir_config::Room;
use weir_core::Counters;
use weir_measure::promise::{Rate, Seconds};

/// One drive.
#[derive(Clone, Debug)]
pub(crate) struct DriveSnapshot {
    pub(crate) name: String,
    /// Requests that were accepted and are not done.
    pub(crate) live: u32,
    /// Pieces in the drive.
    pub(crate) in_flight: u32,
    pub(crate) counters: Counters,
    /// For how long it has been served, and for how long something was in it, nanoseconds.
    pub(crate) served_ns: u64,
    pub(crate) busy_ns: u64,
    /// What is promised and left.
    pub(crate) room: Room,
    pub(crate) volumes: Vec<VolumeSnapshot>,
    pub(crate) tenants: Vec<TenantSnapshot>,
}

/// What a tenant was promised, and how that fares.
#[derive(Clone, Debug)]
pub(crate) struct TenantSnapshot {
    pub(crate) name: String,
    pub(crate) rate: Option<Rate>,
    pub(crate) seconds: Seconds,
    pub(crate) causes: Causes,
}

/// What of a min that several servers keep is promised here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedSnapshot {
    /// Which part of it, 0 to 1.
    pub(crate) part: f64,
    /// How often it was lost.
    pub(crate) lapses: u64,
}

/// One volume.
#[derive(Clone, Debug)]
pub(crate) struct VolumeSnapshot {
    pub(crate) name: String,
    pub(crate) tenant: Option<String>,
    /// Its size, bytes.
    pub(crate) size: u64,
    /// Its share, and its tenant's.
    pub(crate) share: u16,
    pub(crate) tenant_share: u16,
    pub(crate) connections: u32,
    pub(crate) tally: Tally,
    /// Of the live requests, those held back by a limit or because the client does not read.
    pub(crate) limited: u32,
    /// How long its oldest live request has been there, nanoseconds.
    pub(crate) oldest_ns: u64,
    pub(crate) sync_failed: bool,
    /// How the server is that has its storage, where another has.
    pub(crate) remote: Option<RemoteState>,
    /// Of one whose min several servers keep.
    pub(crate) shared: Option<SharedSnapshot>,
}

/// Parts of the drive (0 to 1) of each volume: by its share among all, among those that have requests now, and by the bytes of
/// the last full second.
pub(crate) fn shares(volumes: &[VolumeSnapshot]) -> Vec<[f64; 3]> {
    let all = by_share(volumes, |_| true);
    let active = by_share(volumes, |v| v.tally.live > 0);
    let bytes: u64 = volumes.iter().map(|v| v.tally.last_bytes).sum();
    let zipped = volumes.iter().zip(all).zip(active);
    zipped
        .map(|((volume, promised), effective)| {
            let used = volume.tally.last_bytes as f64 / (bytes.max(1)) as f64;
            [promised, effective, used]
        })
        .collect()
}

/// Shares among the volumes that `counts` picks; tenants share first, then their volumes.
fn by_share(volumes: &[VolumeSnapshot], counts: impl Fn(&VolumeSnapshot) -> bool) -> Vec<f64> {
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

    fn volume(name: &str, tenant: Option<&str>, share: u16, live: u32) -> VolumeSnapshot {
        let mut tally = Tally::new();
        tally.live = live;
        tally.last_bytes = u64::from(share) * 10;
        VolumeSnapshot {
            name: name.to_owned(),
            tenant: tenant.map(str::to_owned),
            size: 1 << 20,
            share,
            tenant_share: 300,
            connections: 1,
            tally,
            limited: 0,
            oldest_ns: 0,
            sync_failed: false,
            remote: None,
            shared: None,
        }
    }

    #[test]
    fn tenants_share_first_then_their_volumes() {
        let volumes = [
            volume("a", None, 100, 1),
            volume("b", Some("t"), 100, 1),
            volume("c", Some("t"), 200, 0),
        ];
        let shares = shares(&volumes);
        let expected = [[0.25, 0.25, 0.25], [0.25, 0.75, 0.25], [0.5, 0.0, 0.5]];
        for (got, wanted) in shares.iter().zip(expected) {
            for (got, wanted) in got.iter().zip(wanted) {
                assert!((got - wanted).abs() < 1e-9, "{shares:?}");
            }
        }
    }
}
