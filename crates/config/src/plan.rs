//! What a drive's part of the file comes to for the core: its configuration, and slot numbers for names.

use crate::policy::{Node, Setup};
use crate::server::{Drive, Server, Tenant, Volume};
use std::collections::BTreeMap;
use std::iter;
use weir_core::{Config, Contract, DriveShape, Edit, GroupId, Knobs, ROOT, Sizes, SpaceId};

/// Live requests that every connection may have however full its drive is, or fewer if it may not have as many.
pub(crate) const PER_STREAM_RESERVED: u32 = 4;
/// Events kept for a listener.
const EVENTS: u32 = 4096;
/// Room for commands that remote servers do not answer, at most.
const STALLED_MAX: u32 = 1 << 16;

/// Where a volume is in the core's tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The group that its connections' streams belong to.
    pub group: GroupId,
    /// Its address space.
    pub space: SpaceId,
}

/// One drive's part of a [`Server`] in the core's terms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The drive's name.
    pub drive: String,
    /// What its [`Layer`](weir_core::Layer) is made from.
    pub config: Config,
    /// What brings a new layer to the state described: one [`Layer::change`](weir_core::Layer::change).
    ///
    /// A volume without a written size ([`Volume::size`]) has no [`Edit::SetSpace`] here; the server that opens the volume adds that.
    pub edits: Vec<Edit>,
    /// Where each volume is.
    pub volumes: BTreeMap<String, Slot>,
    /// Which group each tenant is.
    pub tenants: BTreeMap<String, GroupId>,
}

/// What a group of a plan stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Member<'a> {
    /// The drive itself: the root group.
    Drive(&'a str),
    /// A tenant, by name.
    Tenant(&'a str),
    /// A volume, by name.
    Volume(&'a str),
}

impl Plan {
    /// What a group stands for; `None` if it is free.
    pub fn member(&self, group: GroupId) -> Option<Member<'_>> {
        if group == ROOT {
            return Some(Member::Drive(&self.drive));
        }
        let tenant = self.tenants.iter().find(|t| *t.1 == group);
        let volume = self.volumes.iter().find(|v| v.1.group == group);
        tenant
            .map(|t| Member::Tenant(t.0))
            .or_else(|| volume.map(|v| Member::Volume(v.0)))
    }
}

/// The plan for a drive of the server, `None` if it has no drive of that name.
///
/// Slot numbers depend on names alone: tenants in their order from group 1 on, then volumes; spaces from 0 on.
pub fn plan(server: &Server, drive: &str) -> Option<Plan> {
    let drive = server.drive(drive)?;
    let tenants = server.tenants_of(&drive.name);
    let tenants: BTreeMap<String, GroupId> = tenants
        .zip(1..)
        .map(|(t, slot)| (t.name.clone(), GroupId(slot)))
        .collect();
    let first = 1 + tenants.len() as u32;
    let volumes = server
        .volumes_of(&drive.name)
        .zip(0..)
        .map(|(v, space)| {
            let slot = Slot {
                group: GroupId(first + space),
                space: SpaceId(space),
            };
            (v.name.clone(), slot)
        })
        .collect();
    let setup = setup(server, drive);
    let terms = Terms::of(&setup, server, drive);
    let mut plan = Plan {
        drive: drive.name.clone(),
        config: config(server, drive, setup),
        edits: Vec::new(),
        volumes,
        tenants,
    };
    plan.edits = fresh_edits(server, &plan, &terms);
    Some(plan)
}

/// The policy of a drive, set up for the contracts on it.
pub(crate) fn setup(server: &Server, drive: &Drive) -> Setup {
    drive.policy.set_up(drive.capacity, nodes(server, drive))
}

/// The drive's groups: its tenants, and then its volumes.
fn nodes<'a>(server: &'a Server, drive: &'a Drive) -> impl Iterator<Item = Node> + 'a {
    let tenants = server.tenants_of(&drive.name);
    let places: BTreeMap<&str, usize> = tenants.clone().map(|t| t.name.as_str()).zip(0..).collect();
    let tenants = tenants.map(|t| Node {
        parent: None,
        contract: t.contract,
    });
    let volumes = server.volumes_of(&drive.name).map(move |v| Node {
        parent: v.tenant.as_deref().and_then(|t| places.get(t)).copied(),
        contract: v.contract,
    });
    tenants.chain(volumes)
}

/// What the core is told of the contracts and knobs on a drive, by the names of their owners.
pub(crate) struct Terms {
    pub(crate) tenants: BTreeMap<String, (Contract, Knobs)>,
    pub(crate) volumes: BTreeMap<String, (Contract, Knobs)>,
}

impl Terms {
    /// As a setup of the drive's policy has it.
    pub(crate) fn of(setup: &Setup, server: &Server, drive: &Drive) -> Self {
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

/// What [`Plan::edits`] would be if the core were told of contracts as they are written: for admission, which counts what is promised
/// whatever the policy makes of it.
pub(crate) fn written_edits(server: &Server, plan: &Plan) -> Vec<Edit> {
    let Some(drive) = server.drive(&plan.drive) else {
        return Vec::new();
    };
    let written = Setup::written(nodes(server, drive));
    fresh_edits(server, plan, &Terms::of(&written, server, drive))
}

/// The edits that bring an empty layer to what the server says, in the plan's slots.
pub(crate) fn fresh_edits(server: &Server, plan: &Plan, terms: &Terms) -> Vec<Edit> {
    let mut edits = Vec::with_capacity(plan.tenants.len() + 2 * plan.volumes.len());
    for tenant in server.tenants_of(&plan.drive) {
        edits.extend(add_tenant(plan, terms, tenant));
    }
    for volume in server.volumes_of(&plan.drive) {
        edits.extend(add_volume(plan, terms, volume));
    }
    edits
}

pub(crate) fn add_tenant(
    plan: &Plan,
    terms: &Terms,
    tenant: &Tenant,
) -> impl Iterator<Item = Edit> + use<> {
    let id = plan.tenants[&tenant.name];
    let (contract, knobs) = terms.tenants[&tenant.name];
    let group = Edit::add_group(id, ROOT, contract);
    iter::once(group).chain(set_knobs(id, knobs))
}

/// The edit that sets the knobs of a group that has just come, if any is set.
fn set_knobs(id: GroupId, knobs: Knobs) -> Option<Edit> {
    (knobs != Knobs::NONE).then_some(Edit::SetKnobs { id, knobs })
}

pub(crate) fn add_volume(
    plan: &Plan,
    terms: &Terms,
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

/// A connection that is gone keeps its stream until its last request is over, so there are twice as many streams as connections.
pub(crate) fn streams(limits: &crate::Limits) -> u32 {
    limits.connections.saturating_mul(2)
}

/// Commands that remote servers may have without an answer beside those that the drive has room
/// for: eight times as many, since several servers may hang, one after the other. A modelled drive
/// has no volumes of other servers.
fn stalled(drive: &Drive) -> u32 {
    let tags = u32::from(drive.queues) * u32::from(drive.tags);
    match drive.model {
        Some(_) => 0,
        None => (8 * tags).min(STALLED_MAX),
    }
}

/// The core's configuration.
pub(crate) fn config(server: &Server, drive: &Drive, setup: Setup) -> Config {
    let per_stream = server.limits.requests_per_connection;
    Config {
        sizes: Sizes {
            requests: drive.limits.requests,
            streams: streams(&server.limits),
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
        merge: weir_core::merge::Config::OFF,
    }
}
