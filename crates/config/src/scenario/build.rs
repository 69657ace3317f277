//! From what a file says to what a run plays.

use super::draft::{Client, Draft};
use super::{Adapter, Buffered, Change, ClientSpec, Filesystem, GroupSpec, PAGE, Scenario};
use std::collections::BTreeMap;
use weir_core::{Capacity, Contract, GroupId, ROOT, SpaceId, Span};
use weir_drive::Config;
use weir_load::Region;

/// Deepest queue of an ATA drive: one with a single queue and no more tags than this is behind an ATA adapter.
const NCQ: u16 = 32;

/// Promises that are cut to a slower drive come in whole steps of this number of bytes a second.
const STEP: u64 = 100_000;

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

impl Draft {
    /// What a run plays on the drive that was chosen.
    pub(super) fn build(&self, name: &str, choice: &Choice<'_>) -> Scenario {
        let shape = choice.drive.shape();
        let chosen = choice.seconds.map(|s| Span::from_secs(s.into()));
        let mut scenario =
            Scenario::new(name, choice.drive.clone(), chosen.unwrap_or(self.duration));
        choice.case.unwrap_or(name).clone_into(&mut scenario.case);
        let capacity = self.capacity.or(choice.capacity);
        scenario.capacity = capacity;
        scenario.freeze = self.freeze;
        scenario.adapter = Adapter {
            nr_requests: self.host.nr_requests,
            ata: self.host.adapter && shape.queues == 1 && shape.tags <= NCQ,
        };
        scenario.merging = self.host.merging;
        scenario.path = self.path;
        scenario.guest.clone_from(&self.guest);
        scenario.run_in = self.run_in;
        scenario.warm_up = self.warm_up;
        scenario.unclassed.clone_from(&self.unclassed);
        for group in &self.groups {
            let parent = group.parent.map_or(ROOT, |at| GroupId(at as u32 + 1));
            let contract = self.scaled(group.contract, capacity);
            let knobs = group.knobs;
            scenario.groups.push(GroupSpec {
                parent,
                contract,
                knobs,
            });
        }
        let mut places = Places::default();
        for client in &self.clients {
            self.add(&mut scenario, client, capacity, &mut places);
        }
        if self.files {
            one_device(&mut scenario);
        }
        if let Some(kind) = self.host.filesystem {
            let length = kind.room();
            let start = scenario.spaces[0];
            scenario.spaces[0] += length;
            let region = Region { start, length };
            scenario.filesystem = Some(Filesystem { kind, region });
        }
        for change in &self.changes {
            let contract = self.scaled(change.contract, capacity);
            scenario.changes.push(Change {
                at: change.at,
                group: self.group_of(&change.whose, &scenario),
                contract,
            });
        }
        let awaited = self.awaits.as_deref();
        scenario.awaits = (scenario.clients.iter()).position(|c| Some(c.name.as_str()) == awaited);
        let last = self.exits.as_deref();
        scenario.exits = (scenario.clients.iter()).position(|c| Some(c.name.as_str()) == last);
        if let Some(at) = scenario.awaits {
            scenario.clients[at].program.stop = Some(scenario.warm_up + scenario.duration);
        }
        scenario
    }

    /// The group of a name, or that of a client.
    fn group_of(&self, name: &str, scenario: &Scenario) -> GroupId {
        let group = self.groups.iter().position(|g| g.name == name);
        let client = scenario.clients.iter().find(|c| c.name == name);
        match (group, client) {
            (Some(at), _) => GroupId(at as u32 + 1),
            (None, client) => client.map_or(ROOT, |c| c.group),
        }
    }

    /// Adds clients that do the same.
    fn add(
        &self,
        scenario: &mut Scenario,
        client: &Client,
        capacity: Option<Capacity>,
        places: &mut Places,
    ) {
        for (number, name) in (0..).zip(&client.names) {
            let guest = places.guest(client);
            let start = client.offset + client.increment * number;
            let region = Region {
                start,
                length: client.size,
            };
            let space = places.space(client, scenario, start + client.size);
            let group = match client.group {
                Some(at) => GroupId(at as u32 + 1),
                None if self.grouped => {
                    let contract = self.scaled(client.contract, capacity);
                    let parent = ROOT;
                    let knobs = client.knobs;
                    scenario.groups.push(GroupSpec {
                        parent,
                        contract,
                        knobs,
                    });
                    GroupId(scenario.groups.len() as u32)
                }
                None => ROOT,
            };
            let buffered = client.buffered.then(|| Buffered {
                read_ahead: self.host.read_ahead,
                copy: self.host.copy,
                wakeup: self.host.wakeup,
                ..Buffered::advised(client.program.pattern)
            });
            let place = scenario.clients.len();
            scenario
                .classes
                .extend(client.class.map(|class| (place, class)));
            scenario.clients.push(ClientSpec {
                name: name.clone(),
                group,
                priority: client.priority,
                program: client.program,
                space,
                region,
                buffered,
                flags: client.flags,
                write_back: client.write_back,
                sequence: place as u32,
                guest,
                empty_kicks: client.empty_kicks,
                deadline: client.deadline,
                arrives: client.arrives,
                leaves: client.leaves,
            });
        }
    }

    /// A contract on a drive that may be slower than the one it is meant for.
    fn scaled(&self, contract: Contract, capacity: Option<Capacity>) -> Contract {
        let (Some(meant), Some(capacity)) = (self.meant_for, capacity) else {
            return contract;
        };
        let rate = capacity.read.min(capacity.write);
        let part = u128::from(contract.min) * u128::from(rate) / u128::from(meant);
        let part = u64::try_from(part).unwrap_or(u64::MAX) / STEP * STEP;
        Contract {
            min: contract.min.min(part),
            ..contract
        }
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
    fn guest(&mut self, client: &Client) -> u32 {
        let known = client.guest.as_ref().and_then(|g| self.guests.get(g));
        if let Some(known) = known {
            return *known;
        }
        let number = self.machines;
        self.machines += 1;
        if let Some(guest) = &client.guest {
            self.guests.insert(guest.clone(), number);
        }
        number
    }

    /// The space of a client's file, which is `length` bytes long at least.
    fn space(&mut self, client: &Client, scenario: &mut Scenario, length: u64) -> SpaceId {
        let known = client.file.as_ref().and_then(|f| self.shared.get(f));
        let space = known.copied().unwrap_or_else(|| {
            scenario.spaces.push(0);
            SpaceId(scenario.spaces.len() as u32 - 1)
        });
        let size = &mut scenario.spaces[space.0 as usize];
        *size = length.max(*size);
        if let Some(file) = &client.file {
            self.shared.insert(file.clone(), space);
        }
        space
    }
}

/// Puts all files one behind the other on one device.
fn one_device(scenario: &mut Scenario) {
    for size in &mut scenario.spaces {
        *size = size.next_multiple_of(PAGE);
    }
    let (bases, device) = (scenario.bases(), scenario.spaces.iter().sum());
    for client in &mut scenario.clients {
        client.region.start += bases[client.space.0 as usize];
        client.space = SpaceId(0);
    }
    scenario.spaces = vec![device];
    scenario.places = vec![0];
}
