//! Assembles the objects of the interface from the configuration in force and the last sample.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::{
    Budget, Contract, Counts, Drive, DriveFigures, JsonTable, SecondCounts, Status, Tenant,
    TenantFigures, Volume, VolumeFigures,
};
use weir_config::{DriveRoom, TenantRoom};
use weir_serve as serve;

use crate::control::PublishedState;
use crate::sample::{ServerSample, seconds};

/// The configuration in force, and the last sample. The sample can be older or newer than the
/// configuration.
#[derive(Debug)]
pub(crate) struct ServerView {
    pub(crate) published: Arc<PublishedState>,
    pub(crate) sample: Arc<ServerSample>,
}

impl ServerView {
    /// Returns the state of the server.
    pub(crate) fn status(&self, uptime_seconds: u64, ready: bool) -> Status {
        let published = &self.published;
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds,
            ready,
            file: published.file.as_ref().map(|f| f.display().to_string()),
            nbd: published.nbd.clone(),
            unsaved: published.unsaved,
            last_change: published.changes.first().cloned(),
            drives: self.drives(),
            tenants: self.tenants(),
            volumes: self.volumes(),
        }
    }

    /// Returns all drives.
    pub(crate) fn drives(&self) -> Vec<Drive> {
        let now = by_name(&self.sample.second.drives, |d| &d.name);
        let drives = self.published.config.drives.iter();
        let of = |drive: &weir_config::ServerDrive| Drive {
            etag: self.published.etag("drive", &drive.name),
            config: self.words("drive", &drive.name),
            policy: drive.policy.word().to_owned(),
            budget: self.published.rooms.get(&drive.name).and_then(of_drive),
            now: now.get(drive.name.as_str()).map_or_else(
                || DriveFigures {
                    name: drive.name.clone(),
                    ..DriveFigures::default()
                },
                |now| (*now).clone(),
            ),
            name: drive.name.clone(),
        };
        drives.map(of).collect()
    }

    /// Returns all tenants.
    pub(crate) fn tenants(&self) -> Vec<Tenant> {
        let now = by_name(&self.sample.second.tenants, |t| &t.name);
        let counted = self.sample.drives.iter().flat_map(|d| &d.tenants);
        let counted: BTreeMap<&str, &serve::TenantFigures> =
            counted.map(|t| (t.name.as_str(), t)).collect();
        let tenants = self.published.config.tenants.iter();
        let of = |tenant: &weir_config::Tenant| Tenant {
            etag: self.published.etag("tenant", &tenant.name),
            config: self.words("tenant", &tenant.name),
            contract: of_contract(&tenant.contract),
            budget: self.of_tenant(tenant),
            now: now.get(tenant.name.as_str()).map_or_else(
                || TenantFigures {
                    name: tenant.name.clone(),
                    ..TenantFigures::default()
                },
                |now| (*now).clone(),
            ),
            seconds: counted
                .get(tenant.name.as_str())
                .map_or_else(SecondCounts::default, |t| seconds(&t.seconds)),
            name: tenant.name.clone(),
        };
        tenants.map(of).collect()
    }

    /// Returns all volumes, without the counts since the start.
    pub(crate) fn volumes(&self) -> Vec<Volume> {
        let now = by_name(&self.sample.second.volumes, |v| &v.name);
        let counted = self.sample.drives.iter().flat_map(|d| &d.volumes);
        let counted: BTreeMap<&str, &serve::VolumeFigures> =
            counted.map(|v| (v.name.as_str(), v)).collect();
        let volumes = self.published.config.volumes.iter();
        let of = |volume: &weir_config::Volume| {
            let counted = counted.get(volume.name.as_str()).copied();
            let now = now.get(volume.name.as_str()).copied();
            self.of_volume(volume, now, counted)
        };
        volumes.map(of).collect()
    }

    /// Returns one volume, with the counts since the start.
    pub(crate) fn volume(&self, name: &str) -> Option<Volume> {
        let volume = self.published.config.volume(name)?;
        let mut counted = self.sample.drives.iter().flat_map(|d| &d.volumes);
        let counted = counted.find(|v| v.name == name);
        let mut now = self.sample.second.volumes.iter();
        let now = now.find(|v| v.name == name);
        let mut volume = self.of_volume(volume, now, counted);
        volume.counts = counted.map(|v| of_counts(&v.counts));
        Some(volume)
    }

    fn of_volume(
        &self,
        volume: &weir_config::Volume,
        now: Option<&VolumeFigures>,
        counted: Option<&serve::VolumeFigures>,
    ) -> Volume {
        Volume {
            etag: self.published.etag("volume", &volume.name),
            config: self.words("volume", &volume.name),
            drive: volume.drive.clone(),
            tenant: volume.tenant.clone(),
            block_device: self.published.devices.get(&volume.name).cloned(),
            // The counted size can be that of a volume that had this name a second ago, so that the
            // configured one comes first.
            size_bytes: volume.size.or_else(|| counted.map(|v| v.size)).unwrap_or(0),
            contract: of_contract(&volume.contract),
            now: now.cloned().unwrap_or_else(|| VolumeFigures {
                name: volume.name.clone(),
                ..VolumeFigures::default()
            }),
            seconds: counted.map_or_else(SecondCounts::default, |v| seconds(&v.seconds)),
            // Only the reply for a single volume has the counts.
            counts: None,
            name: volume.name.clone(),
        }
    }

    fn words(&self, kind: &'static str, name: &str) -> JsonTable {
        self.published
            .words(kind, name)
            .cloned()
            .unwrap_or_default()
    }

    /// Returns the promise of a tenant, and the part of it that is promised to its volumes.
    fn of_tenant(&self, tenant: &weir_config::Tenant) -> Option<Budget> {
        let room = self.published.rooms.get(&tenant.drive)?;
        let TenantRoom { promised, left } = *room.tenants.get(&tenant.name)?;
        // A tenant without a promise has no budget.
        let left = left?;
        // The part that is not left is promised to the tenant's volumes.
        let members = |all: u64, left: u64| all.saturating_sub(left);
        Some(Budget {
            bytes_per_second: promised.bytes,
            requests_per_second: promised.iops,
            promised_bytes_per_second: members(promised.bytes, left.bytes),
            promised_requests_per_second: members(promised.iops, left.iops),
            left_bytes_per_second: left.bytes,
            left_requests_per_second: left.iops,
            // This field is for drives only.
            promised_millionths: 0,
        })
    }
}

fn by_name<T>(all: &[T], name: impl Fn(&T) -> &String) -> BTreeMap<&str, &T> {
    all.iter().map(|one| (name(one).as_str(), one)).collect()
}

fn of_drive(room: &DriveRoom) -> Option<Budget> {
    let (capacity, left) = (room.capacity?, room.left?);
    Some(Budget {
        bytes_per_second: capacity.bytes(),
        requests_per_second: capacity.requests(),
        promised_bytes_per_second: room.promised.bytes,
        promised_requests_per_second: room.promised.iops,
        left_bytes_per_second: left.bytes,
        left_requests_per_second: left.iops,
        promised_millionths: room.promised.millionths,
    })
}

fn of_contract(contract: &weir_core::Contract) -> Contract {
    Contract {
        min_bytes_per_second: contract.min,
        min_requests_per_second: contract.min_iops,
        share: contract.share,
        max_bytes_per_second: contract.max.bytes_ceiling(),
        max_requests_per_second: contract.max.iops_ceiling(),
        class: weir_config::class_word(contract.class).to_owned(),
    }
}

fn of_counts(counts: &serve::OpCounts) -> Counts {
    let mut named = Counts::default();
    for (name, [requests, bytes, errors]) in counts.each() {
        for (map, count) in [
            (&mut named.requests, requests),
            (&mut named.bytes, bytes),
            (&mut named.errors, errors),
        ] {
            if count > 0 {
                map.insert(name.to_owned(), count);
            }
        }
    }
    named
}
