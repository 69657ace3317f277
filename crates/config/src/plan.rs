//! The translation of a drive's part of the file for the core: its configuration, and slot numbers
//! for names.

use crate::policy::{GroupNode, Setup};
use crate::server::{Server, ServerDrive, Tenant, Volume};
use std::collections::BTreeMap;
use std::iter;
use weir_core::{Config, Contract, DriveShape, Edit, GroupId, Knobs, ROOT, Sizes, SpaceId};

/// The number of live requests that each connection can have even if its drive is full. It is less
/// if the limit of a connection is lower.
pub(crate) const PER_STREAM_RESERVED: u32 = 4;
/// The number of events that are kept for a listener.
const EVENTS: u32 = 4096;
/// The maximum number of places for commands that remote servers do not answer.
const STALLED_MAX: u32 = 1 << 16;

/// The position of a volume in the core's tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VolumeSlot {
    /// The group of the streams of the volume's connections.
    pub group: GroupId,
    /// The address space of the volume.
    pub space: SpaceId,
}

/// One drive of a [`Server`] in the terms of the core.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DrivePlan {
    /// The name of the drive.
    pub drive: String,
    /// The configuration of its [`Layer`](weir_core::Layer).
    pub config: Config,
    /// The edits that bring a new layer to the described state with one
    /// [`Layer::change`](weir_core::Layer::change).
    ///
    /// A volume without a stated size ([`Volume::size`]) has no [`Edit::SetSpace`] here. The server
    /// adds it when it opens the volume.
    pub edits: Vec<Edit>,
    /// The position of each volume.
    pub volumes: BTreeMap<String, VolumeSlot>,
    /// The group of each tenant.
    pub tenants: BTreeMap<String, GroupId>,
}

/// The object behind a group of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupOwner<'a> {
    /// The drive itself, which is the root group.
    Drive(&'a str),
    /// The tenant with this name.
    Tenant(&'a str),
    /// The volume with this name.
    Volume(&'a str),
}

impl DrivePlan {
    /// Returns the object behind a group, or `None` if the group is free.
    pub fn member(&self, group: GroupId) -> Option<GroupOwner<'_>> {
        if group == ROOT {
            return Some(GroupOwner::Drive(&self.drive));
        }
        let tenant = self.tenants.iter().find(|t| *t.1 == group);
        let volume = self.volumes.iter().find(|v| v.1.group == group);
        tenant
            .map(|t| GroupOwner::Tenant(t.0))
            .or_else(|| volume.map(|v| GroupOwner::Volume(v.0)))
    }
}

/// Returns the plan for a drive of the server, or `None` if the server has no drive with this name.
///
/// Slot numbers depend only on names: tenants are numbered in order from group 1, followed by
/// volumes. Spaces are numbered from 0.
pub fn plan(server: &Server, drive: &str) -> Option<DrivePlan> {
    let drive = server.drive(drive)?;
    let tenants = server.tenants_of(&drive.name);
    let tenants: BTreeMap<String, GroupId> = tenants
        .zip(1..)
        .map(|(t, slot)| (t.name.clone(), GroupId(slot)))
        .collect();
    // Group 0 is the root.
    let first = 1 + tenants.len() as u32;
    let volumes = server
        .volumes_of(&drive.name)
        .zip(0..)
        .map(|(v, space)| {
            let slot = VolumeSlot {
                group: GroupId(first + space),
                space: SpaceId(space),
            };
            (v.name.clone(), slot)
        })
        .collect();
    let setup = setup(server, drive);
    let terms = CoreTerms::of(&setup, server, drive);
    let mut plan = DrivePlan {
        drive: drive.name.clone(),
        config: config(server, drive, setup),
        edits: Vec::new(),
        volumes,
        tenants,
    };
    plan.edits = fresh_edits(server, &plan, &terms);
    Some(plan)
}

/// Applies the policy of a drive to the contracts on it.
pub(crate) fn setup(server: &Server, drive: &ServerDrive) -> Setup {
    drive.policy.set_up(drive.capacity, nodes(server, drive))
}

/// Iterates over the groups of a drive: first its tenants, then its volumes.
fn nodes<'a>(server: &'a Server, drive: &'a ServerDrive) -> impl Iterator<Item = GroupNode> + 'a {
    let tenants = server.tenants_of(&drive.name);
    let places: BTreeMap<&str, usize> = tenants.clone().map(|t| t.name.as_str()).zip(0..).collect();
    let tenants = tenants.map(|t| GroupNode {
        parent: None,
        contract: t.contract,
    });
    let volumes = server.volumes_of(&drive.name).map(move |v| GroupNode {
        parent: v.tenant.as_deref().and_then(|t| places.get(t)).copied(),
        contract: v.contract,
    });
    tenants.chain(volumes)
}

/// The contracts and knobs on a drive in the form for the core, by the names of their holders.
pub(crate) struct CoreTerms {
    pub(crate) tenants: BTreeMap<String, (Contract, Knobs)>,
    pub(crate) volumes: BTreeMap<String, (Contract, Knobs)>,
}

impl CoreTerms {
    /// Takes contracts and knobs from a setup of the drive's policy.
    pub(crate) fn of(setup: &Setup, server: &Server, drive: &ServerDrive) -> Self {
        // The setup has the contracts in the order of `nodes`: those of tenants, followed by those
        // of volumes.
        let mut told = setup.contracts().iter().copied();
        let tenants = server.tenants_of(&drive.name).zip(told.by_ref());
        let tenants = tenants.map(|(t, told)| (t.name.clone(), (told, setup.knobs(t.knobs))));
        let tenants = tenants.collect();
        let volumes = server.volumes_of(&drive.name).zip(told);
        let volumes = volumes.map(|(v, told)| (v.name.clone(), (told, setup.knobs(v.knobs))));
        Self {
            tenants,
            volumes: volumes.collect(),
        }
    }
}

/// Returns the edits of [`DrivePlan::edits`] with contracts as they are written. Admission uses
/// them, because promises count whatever the policy makes of them.
pub(crate) fn written_edits(server: &Server, plan: &DrivePlan) -> Vec<Edit> {
    let Some(drive) = server.drive(&plan.drive) else {
        return Vec::new();
    };
    let written = Setup::as_written(nodes(server, drive));
    fresh_edits(server, plan, &CoreTerms::of(&written, server, drive))
}

/// Returns the edits that bring an empty layer to the state of the server, in the slots of the
/// plan.
pub(crate) fn fresh_edits(server: &Server, plan: &DrivePlan, terms: &CoreTerms) -> Vec<Edit> {
    let mut edits = Vec::with_capacity(plan.tenants.len() + 2 * plan.volumes.len());
    // Parents must be added before their children.
    for tenant in server.tenants_of(&plan.drive) {
        edits.extend(add_tenant(plan, terms, tenant));
    }
    for volume in server.volumes_of(&plan.drive) {
        edits.extend(add_volume(plan, terms, volume));
    }
    edits
}

/// Returns the edits that add a tenant.
pub(crate) fn add_tenant(
    plan: &DrivePlan,
    terms: &CoreTerms,
    tenant: &Tenant,
) -> impl Iterator<Item = Edit> + use<> {
    let id = plan.tenants[&tenant.name];
    let (contract, knobs) = terms.tenants[&tenant.name];
    let group = Edit::add_group(id, ROOT, contract);
    iter::once(group).chain(set_knobs(id, knobs))
}

/// Returns the edit that sets the knobs of a new group, if any is set.
fn set_knobs(id: GroupId, knobs: Knobs) -> Option<Edit> {
    (knobs != Knobs::NONE).then_some(Edit::SetKnobs { id, knobs })
}

/// Returns the edits that add a volume.
pub(crate) fn add_volume(
    plan: &DrivePlan,
    terms: &CoreTerms,
    volume: &Volume,
) -> impl Iterator<Item = Edit> + use<> {
    let slot = plan.volumes[&volume.name];
    let (contract, knobs) = terms.volumes[&volume.name];
    let parent = volume.tenant.as_ref().and_then(|t| plan.tenants.get(t));
    let group = Edit::add_group(slot.group, parent.copied().unwrap_or(ROOT), contract);
    let space = volume.size.map(|size| Edit::SetSpace {
        id: slot.space,
        size: Some(size),
    });
    iter::once(group)
        .chain(set_knobs(slot.group, knobs))
        .chain(space)
}

/// Returns the maximum number of streams. A closed connection keeps its stream until its last
/// request completes, so there are twice as many streams as connections.
pub(crate) fn streams(limits: &crate::Limits) -> u32 {
    limits.connections.saturating_mul(2)
}

/// Returns the number of places for commands that remote servers do not answer, in addition to the
/// drive's own. It is eight times the number of tags, because several servers can hang one after
/// the other. A modelled drive has no volumes on other servers.
fn stalled(drive: &ServerDrive) -> u32 {
    let tags = u32::from(drive.queues) * u32::from(drive.tags);
    match drive.model {
        Some(_) => 0,
        None => (8 * tags).min(STALLED_MAX),
    }
}

/// Returns the core's configuration for a drive.
pub(crate) fn config(server: &Server, drive: &ServerDrive, setup: Setup) -> Config {
    let per_stream = server.limits.requests_per_connection;
    Config {
        sizes: Sizes {
            requests: drive.limits.requests,
            streams: streams(&server.limits),
            // The root is also a group.
            groups: 1 + drive.limits.tenants + drive.limits.volumes,
            spaces: drive.limits.volumes,
            per_stream,
            reserved: per_stream.min(PER_STREAM_RESERVED),
            scheduler_tags: drive.limits.scheduler_tags,
            events: EVENTS,
            stalled: stalled(drive),
        },
        drive: DriveShape {
            queues: drive.queues,
            tags: drive.tags,
            max_transfer: drive.max_transfer,
            rotational: drive.rotational,
            capacity: drive.capacity,
        },
        controllers: setup.controllers,
        elevator: setup.elevator,
        // Clients have already merged their requests (docs/decisions/no-merging.md).
        merge: weir_core::merge::Config::OFF,
    }
}
