//! The step from the clients that a file declares to the clients that a run simulates.
//!
//! [`StatedScenario`] is a scenario in the form of its file. [`StatedScenario::add`] expands the
//! declared clients, and [`StatedScenario::build`] applies settings of the command line and the
//! capacity of the drive.

use super::{ClientSpec, Filesystem, FilesystemKind, PAGE, Scenario};
use crate::Setting;
use crate::problem::Problem;
use std::collections::BTreeMap;
use weir_core::{Capacity, Class, Contract, GroupId, Knobs, ROOT, SpaceId};
use weir_model::drive::DriveConfig;
use weir_model::load::Region;

/// The unit of reduced promises in bytes per second. They are rounded down.
const STEP: u64 = 100_000;

/// The maximum number of names that an error lists.
const SHOWN: usize = 10;

/// The choice of a drive, a case and a policy for a scenario.
#[derive(Clone, Debug)]
pub struct Choice<'a> {
    /// The drive of the run.
    pub drive: &'a DriveConfig,
    /// The capacity of the drive, as the limit of promises. `None` if unknown.
    pub capacity: Option<Capacity>,
    /// The name of the case, if the scenario has cases.
    pub case: Option<&'a str>,
    /// The name of the policy.
    pub policy: &'a str,
    /// The length of the measurement in seconds. `None` for that of the file.
    pub seconds: Option<u32>,
}

impl<'a> Choice<'a> {
    /// Returns the choice of a case and a policy, with the duration of the file and the capacity
    /// that the drive's model states.
    pub fn new(drive: &'a DriveConfig, case: Option<&'a str>, policy: &'a str) -> Self {
        Self {
            drive,
            capacity: drive.capacity(),
            case,
            policy,
            seconds: None,
        }
    }
}

/// A scenario as its file states it for one choice, with names and values that are needed only
/// until it is built.
#[derive(Debug)]
pub(super) struct StatedScenario {
    /// The scenario with promises as they are stated.
    pub(super) scenario: Scenario,
    /// The name of each declared group, and whether it states a class. The groups of single clients
    /// follow them.
    pub(super) groups: Vec<(String, bool)>,
    /// The capacity that the file states.
    pub(super) capacity: Option<Capacity>,
    /// The capacity in bytes per second that the promises are intended for.
    pub(super) meant_for: Option<u64>,
    /// True if clients without a group get one of their own.
    pub(super) grouped: bool,
}

/// A declaration of one or more identical clients.
#[derive(Debug)]
pub(super) struct ClientDeclaration {
    /// The name of each client.
    pub(super) names: Vec<String>,
    /// The first client. The others differ from it only in the following fields.
    pub(super) first: ClientSpec,
    /// The distance in bytes between the offsets of two consecutive clients.
    pub(super) increment: u64,
    /// The name of the file that the clients share. `None` if each has its own.
    pub(super) file: Option<String>,
    /// The name of the guest that the clients share. `None` if each has its own.
    pub(super) guest: Option<String>,
    /// The contract of each client in a group of its own.
    pub(super) contract: Contract,
    /// The settings of controllers for each client in a group of its own.
    pub(super) knobs: Knobs,
    /// The class that follows from the I/O priority, if the contract states none and permits it.
    pub(super) class: Option<Class>,
    /// The reason why the I/O priority does not result in a class.
    pub(super) unclassed: Option<Problem>,
}

impl StatedScenario {
    /// Adds the declared clients to the scenario, each with its space and its group.
    pub(super) fn add(&mut self, all: Vec<ClientDeclaration>) {
        let mut places = SpaceAssignment::default();
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
            // One remark suffices for identical clients.
            scenario.unclassed.extend(clients.unclassed);
        }
    }

    /// Returns the group with this name, or the group of the client with this name.
    pub(super) fn group_of(&self, name: &str) -> Option<GroupId> {
        let group = self.groups.iter().zip(1..).find(|g| g.0.0 == name);
        let client = || self.scenario.clients.iter().find(|c| c.name == name);
        group
            .map(|(_, id)| GroupId(id))
            .or_else(|| client().map(|c| c.group))
    }

    /// Returns the scenario that a run simulates, with these settings applied to the contracts in
    /// order.
    ///
    /// # Errors
    /// A setting for a name that is neither a group nor a client in a group of its own, or a
    /// setting that a file could not contain.
    pub(super) fn build(mut self, settings: &[Setting]) -> Result<Scenario, Problem> {
        for setting in settings {
            self.set(setting)?;
        }
        let Self {
            mut scenario,
            meant_for,
            ..
        } = self;
        // Reads and writes can have different rates. A promise must hold for both, so the smaller
        // rate counts.
        let capacity = scenario.capacity.map(|c| c.read.min(c.write));
        if let (Some(meant), Some(rate)) = (meant_for, capacity) {
            let groups = scenario.groups.iter_mut().map(|g| &mut g.contract);
            let changes = scenario.changes.iter_mut().map(|c| &mut c.contract);
            for contract in groups.chain(changes) {
                // The product of two rates can exceed 64 bits.
                let part = u128::from(contract.min) * u128::from(rate) / u128::from(meant);
                let part = u64::try_from(part).unwrap_or(u64::MAX) / STEP * STEP;
                // On a faster drive, promises stay as they are stated.
                contract.min = contract.min.min(part);
            }
        }
        Ok(scenario)
    }

    /// Applies a setting to the contract of a group, or of a client in a group of its own.
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
        // The clients are in the root group, as those of `fio` jobs are. The contract needs a group
        // of its own.
        if at.is_none() {
            self.scenario.give_own_groups();
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

/// The spaces and guests that were assigned so far.
#[derive(Default)]
struct SpaceAssignment {
    shared: BTreeMap<String, SpaceId>,
    guests: BTreeMap<String, u32>,
    machines: u32,
}

impl SpaceAssignment {
    /// Returns the number of the guest for the next of these clients.
    fn guest(&mut self, clients: &ClientDeclaration) -> u32 {
        // Guests are numbered in the order of their first client.
        let next = self.machines;
        let number = match &clients.guest {
            Some(guest) => *self.guests.entry(guest.clone()).or_insert(next),
            None => next,
        };
        self.machines += u32::from(number == next);
        number
    }

    /// Returns the space of a client's file, and extends it to at least `length` bytes.
    fn space(
        &mut self,
        clients: &ClientDeclaration,
        scenario: &mut Scenario,
        length: u64,
    ) -> SpaceId {
        let next = SpaceId(scenario.spaces.len() as u32);
        let space = match &clients.file {
            Some(file) => *self.shared.entry(file.clone()).or_insert(next),
            None => next,
        };
        if space == next {
            scenario.spaces.push(0);
        }
        let size = &mut scenario.spaces[space.0 as usize];
        // Clients that share a file can use different parts of it.
        *size = length.max(*size);
        space
    }
}

/// Places all files on one device, one after the other. The region that a file system needs for
/// itself follows them.
pub(super) fn one_device(scenario: &mut Scenario, filesystem: Option<FilesystemKind>) {
    for size in &mut scenario.spaces {
        // In a file system, files begin at whole blocks.
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
