//! From the clients that a file declares to those that a run plays.

use super::{ClientSpec, Filesystem, FilesystemKind, PAGE, Scenario};
use crate::Setting;
use crate::problem::Problem;
use std::collections::BTreeMap;
use weir_core::{Capacity, Class, Contract, GroupId, Knobs, ROOT, SpaceId};
use weir_model::drive::Config;
use weir_model::load::Region;

/// Promises that are cut to a slower drive come in whole steps of this number of bytes a second.
const STEP: u64 = 100_000;

/// Most names that a refusal lists.
const SHOWN: usize = 10;

/// What is chosen beside a scenario.
#[derive(Clone, Debug)]
pub struct Choice<'a> {
    /// The drive.
    pub drive: &'a Config,
    /// What it can do, as far as contracts count with it.
    pub capacity: Option<Capacity>,
    /// One of the scenario's cases, if it has any.
    pub case: Option<&'a str>,
    /// The name of the policy.
    pub policy: &'a str,
    /// Seconds measured, if not what the file says.
    pub seconds: Option<u32>,
}

impl<'a> Choice<'a> {
    /// A case under a policy, for as long as the file says, on a drive of the capacity that its model states.
    pub fn new(drive: &'a Config, case: Option<&'a str>, policy: &'a str) -> Self {
        Self {
            drive,
            capacity: drive.capacity(),
            case,
            policy,
            seconds: None,
        }
    }
}

/// A scenario as its file states it for one choice, with the names and values that only matter
/// until it is built.
#[derive(Debug)]
pub(super) struct Stated {
    /// The scenario, with promises as they are stated.
    pub(super) scenario: Scenario,
    /// The names of the declared groups, which come before the groups of single clients, and
    /// whether each states a class.
    pub(super) groups: Vec<(String, bool)>,
    /// The capacity that the file states.
    pub(super) capacity: Option<Capacity>,
    /// What promises are meant for, in bytes a second.
    pub(super) meant_for: Option<u64>,
    /// Clients without a group have one of their own.
    pub(super) grouped: bool,
}

/// Clients that do the same.
#[derive(Debug)]
pub(super) struct Clients {
    /// The name of each.
    pub(super) names: Vec<String>,
    /// The first of them. The others differ in what is said below.
    pub(super) first: ClientSpec,
    /// Bytes by which each begins after the one before it.
    pub(super) increment: u64,
    /// The file that they share; `None`: each has its own.
    pub(super) file: Option<String>,
    /// The virtual machine they are in; `None`: each is in one of its own.
    pub(super) guest: Option<String>,
    /// What each is promised in a group of its own, and how controllers are set for it.
    pub(super) contract: Contract,
    pub(super) knobs: Knobs,
    /// The class that the priority is, where their contract states none and can have it.
    pub(super) class: Option<Class>,
    /// Why the priority is no class.
    pub(super) unclassed: Option<Problem>,
}

impl Stated {
    /// Adds the declared clients, each with its place and its group.
    pub(super) fn add(&mut self, all: Vec<Clients>) {
        let mut places = Places::default();
        for clients in all {
            let scenario = &mut self.scenario;
            for (number, name) in (0..).zip(&clients.names) {
                let mut client = clients.first.clone();
                let place = scenario.clients.len();
                name.clone_into(&mut client.name);
                client.sequence = place as u32;
                client.guest = places.guest(&clients);
                client.region.start += clients.increment * number;
                let end = client.region.start + client.region.length;
                client.space = places.space(&clients, scenario, end);
                if self.grouped && client.group == ROOT {
                    client.group = scenario.add_group(ROOT, clients.contract, clients.knobs);
                }
                let class = clients.class.map(|class| (place, class));
                scenario.classes.extend(class);
                scenario.clients.push(client);
            }
            scenario.unclassed.extend(clients.unclassed);
        }
    }

    /// The group of a name, or of the client of that name.
    pub(super) fn group_of(&self, name: &str) -> Option<GroupId> {
        let group = self.groups.iter().zip(1..).find(|g| g.0.0 == name);
        let client = || self.scenario.clients.iter().find(|c| c.name == name);
        group
            .map(|(_, id)| GroupId(id))
            .or_else(|| client().map(|c| c.group))
    }

    /// What a run plays, with contracts changed in this order.
    ///
    /// # Errors
    /// A change that names no group and no client in a group of its own, or that a file would be
    /// refused for.
    pub(super) fn build(mut self, settings: &[Setting]) -> Result<Scenario, Problem> {
        for setting in settings {
            self.set(setting)?;
        }
        let Self {
            mut scenario,
            meant_for,
            ..
        } = self;
        let capacity = scenario.capacity.map(|c| c.read.min(c.write));
        if let (Some(meant), Some(rate)) = (meant_for, capacity) {
            let groups = scenario.groups.iter_mut().map(|g| &mut g.contract);
            let changes = scenario.changes.iter_mut().map(|c| &mut c.contract);
            for contract in groups.chain(changes) {
                let part = u128::from(contract.min) * u128::from(rate) / u128::from(meant);
                let part = u64::try_from(part).unwrap_or(u64::MAX) / STEP * STEP;
                contract.min = contract.min.min(part);
            }
        }
        Ok(scenario)
    }

    /// Changes the contract of a group, or of a client in a group of its own.
    fn set(&mut self, setting: &Setting) -> Result<(), Problem> {
        let whose = &setting.whose;
        let Some(id) = self.group_of(whose) else {
            let groups = self.groups.iter().map(|g| &g.0);
            let names = groups.chain(self.scenario.clients.iter().map(|c| &c.name));
            let known: Vec<&str> = names.map(String::as_str).take(SHOWN).collect();
            let help = format!("use one of {}", known.join(", "));
            let what = "no client and no group has this name".to_owned();
            return Err(setting.problem(what, Some(help)));
        };
        let at = (id.0 as usize).checked_sub(1);
        let declared = at.and_then(|at| self.groups.get(at));
        if let Some((name, _)) = declared.filter(|g| g.0 != *whose) {
            let what = format!("{whose} has no contract of its own, because it is in a group");
            let help = format!("set the contract of its group, {name}");
            return Err(setting.problem(what, Some(help)));
        }
        let stated = at.map_or(Contract::DEFAULT, |at| self.scenario.groups[at].contract);
        let contract = setting.apply(&stated, self.capacity)?;
        if at.is_none() {
            self.scenario.separate();
        }
        let group = self
            .group_of(whose)
            .and_then(|id| self.scenario.groups.get_mut(id.0 as usize - 1));
        if let Some(group) = group {
            group.contract = contract;
        }
        Ok(())
    }
}

/// Which file is which space, and which virtual machine has which number.
#[derive(Default)]
struct Places {
    shared: BTreeMap<String, SpaceId>,
    guests: BTreeMap<String, u32>,
    machines: u32,
}

impl Places {
    /// The number of the virtual machine that the next of these clients is in.
    fn guest(&mut self, clients: &Clients) -> u32 {
        let next = self.machines;
        let number = match &clients.guest {
            Some(guest) => *self.guests.entry(guest.clone()).or_insert(next),
            None => next,
        };
        self.machines += u32::from(number == next);
        number
    }

    /// The space of a client's file, which is `length` bytes long at least.
    fn space(&mut self, clients: &Clients, scenario: &mut Scenario, length: u64) -> SpaceId {
        let next = SpaceId(scenario.spaces.len() as u32);
        let space = match &clients.file {
            Some(file) => *self.shared.entry(file.clone()).or_insert(next),
            None => next,
        };
        if space == next {
            scenario.spaces.push(0);
        }
        let size = &mut scenario.spaces[space.0 as usize];
        *size = length.max(*size);
        space
    }
}

/// Puts all files one behind the other on one device, and what a file system writes besides behind
/// them.
pub(super) fn one_device(scenario: &mut Scenario, filesystem: Option<FilesystemKind>) {
    for size in &mut scenario.spaces {
        *size = size.next_multiple_of(PAGE);
    }
    let (bases, device) = (scenario.bases(), scenario.spaces.iter().sum());
    for client in &mut scenario.clients {
        client.region.start += bases[client.space.0 as usize];
        client.space = SpaceId(0);
    }
    let room = filesystem.map_or(0, FilesystemKind::room);
    scenario.filesystem = filesystem.map(|kind| Filesystem {
        kind,
        region: Region::new(device, room),
    });
    scenario.spaces = vec![device + room];
    scenario.places = vec![0];
}
