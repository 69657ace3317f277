//! A case as a value: a drive, clients, their contracts, and what happens to them.

use weir_config::profile;
use weir_core::{
    Capacity, Class, Contract, Edit, Flags, GroupId, Max, Priority, ROOT, SpaceId, Span,
};
use weir_drive::{Config, Freeze};
use weir_load::{Program, Region};
use weir_sim::{Action, Buffered, ClientSpec, GroupSpec, Policy, Scenario, Scheduled};

/// A drive, clients, their contracts, and what happens to them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// Its name, which determines the seeds of its clients.
    pub name: String,
    /// Its length in whole seconds.
    pub seconds: u64,
    /// The drive.
    pub drive: DriveChoice,
    /// When the drive serves nothing.
    pub freeze: Option<Freeze>,
    /// The capacity that admission uses.
    pub capacity: Capacity,
    /// The groups: the first is group 1. Parents come before their children.
    pub groups: Vec<GroupSpec>,
    /// The clients, each with its own space.
    pub clients: Vec<Client>,
    /// Where on the drive the space of each client begins; none: one behind the other.
    pub places: Vec<u64>,
    /// Contracts that change.
    pub changes: Vec<Change>,
    /// The clients are the same except for their shares, and must get what these say.
    pub clones: bool,
}

/// The choice of a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DriveChoice {
    /// A built-in profile, by name.
    Profile(&'static str),
    /// A model with these parameters.
    Drawn(Config),
}

/// A client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Client {
    /// Its group: one without child groups.
    pub group: GroupId,
    /// Its program.
    pub program: Program,
    /// The size of its space in bytes.
    pub size: u64,
    /// Whether its reads and writes go through the page cache.
    pub buffered: bool,
    /// When it connects.
    pub arrives: Span,
    /// When it disconnects.
    pub leaves: Option<Span>,
}

/// A change of a group's contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Its time.
    pub at: Span,
    /// The group.
    pub group: GroupId,
    /// The contract from then on.
    pub contract: Contract,
}

/// The kinds of drives for which figures are reported separately.
pub const KINDS: [&str; 3] = ["null", "ssd", "hdd"];

impl DriveChoice {
    /// The model and its parameters.
    pub fn config(&self) -> Config {
        match self {
            Self::Profile(name) => profile::find(name).expect("it comes with Weir").drive,
            Self::Drawn(config) => config.clone(),
        }
    }
}

impl Case {
    /// The kind of its drive: an index into [`KINDS`].
    pub fn kind(&self) -> usize {
        let name = self.drive.config().name();
        KINDS.iter().position(|k| *k == name).unwrap_or(0)
    }

    /// The contract of a client's own group.
    pub fn contract(&self, client: usize) -> Contract {
        self.group(self.clients[client].group)
    }

    /// The initial contract of a group.
    pub fn group(&self, group: GroupId) -> Contract {
        match (group.0 as usize).checked_sub(1) {
            Some(index) => self.groups[index].contract,
            None => Contract::DEFAULT,
        }
    }

    /// The index of a group and of all groups above it, without the root.
    pub fn path(&self, group: GroupId) -> impl Iterator<Item = GroupId> {
        let below = |group: GroupId| Some(group).filter(|g| *g != ROOT);
        let parent = move |g: &GroupId| below(self.groups[g.0 as usize - 1].parent);
        std::iter::successors(below(group), parent)
    }

    /// Whether a group has a min at some time.
    pub fn is_promised(&self, group: GroupId) -> bool {
        let min = |c: &Contract| c.min > 0 || c.min_iops > 0;
        let changes = self.changes.iter().filter(|c| c.group == group);
        min(&self.group(group)) || changes.into_iter().any(|c| min(&c.contract))
    }

    /// Whether a client, or a group that it is in, has a min at some time.
    pub fn is_client_promised(&self, client: usize) -> bool {
        self.path(self.clients[client].group)
            .any(|g| self.is_promised(g))
    }

    /// Whether a client is of the realtime class.
    pub fn is_realtime(&self, client: usize) -> bool {
        self.contract(client).class == Class::Realtime
    }

    /// Whether there is a realtime client.
    pub fn has_realtime(&self) -> bool {
        (0..self.clients.len()).any(|c| self.is_realtime(c))
    }

    /// The case as a scenario of the virtual host under `policy`: changes of contracts are translated as the contracts are, those of others
    /// that follow from them included.
    pub fn scenario(&self, policy: &Policy) -> Scenario {
        let mut scenario = self.untranslated();
        let mut changed = scenario.clone();
        let mut before = scenario.set_up(policy).contracts().to_vec();
        for change in &self.changes {
            changed.groups[change.group.0 as usize - 1].contract = change.contract;
            let now = changed.set_up(policy).contracts().to_vec();
            let told = (1..).map(GroupId).zip(before.iter().zip(&now));
            let told = told.filter(|(id, (before, now))| *id == change.group || before != now);
            let edits = told.map(|(id, (_, now))| Edit::SetContract { id, contract: *now });
            scenario.actions.push(Scheduled {
                at: change.at,
                action: Action::Change(edits.collect()),
            });
            before = now;
        }
        scenario
    }

    /// The case without its changes.
    pub fn untranslated(&self) -> Scenario {
        let duration = Span::from_secs(self.seconds);
        let mut scenario = Scenario::new(self.name.clone(), self.drive.config(), duration);
        scenario.freeze = self.freeze;
        scenario.capacity = Some(self.capacity);
        scenario.groups.clone_from(&self.groups);
        for (space, client) in (0..).zip(&self.clients) {
            scenario.spaces.push(client.size);
            scenario.clients.push(client.spec(SpaceId(space)));
        }
        scenario.places.clone_from(&self.places);
        scenario
    }

    /// The case with these clients only. Groups and spaces stay the same, and each space stays where it is on the drive: a disk reads
    /// its outer half faster, and goes farther between clients that are far apart. The clients behave as they do among all, except for
    /// the order of their random numbers.
    pub fn only(&self, keep: impl Fn(usize) -> bool) -> Self {
        let bases = self.untranslated().bases();
        let kept = (0..self.clients.len()).filter(|&c| keep(c));
        Self {
            places: kept.map(|c| bases[c]).collect(),
            ..self.retained(keep)
        }
    }

    /// The case without the other clients, and with no gaps where their spaces were.
    pub fn retained(&self, keep: impl Fn(usize) -> bool) -> Self {
        let clients = (0..self.clients.len()).filter(|&c| keep(c));
        Self {
            clients: clients.map(|c| self.clients[c]).collect(),
            places: Vec::new(),
            ..self.clone()
        }
    }

    /// A client with the drive to itself, from the start for `seconds`, without a contract.
    pub fn alone(&self, client: usize, seconds: u64) -> Self {
        let mut case = self.only(|c| c == client);
        case.seconds = seconds;
        case.changes.clear();
        case.freeze = None;
        for group in &mut case.groups {
            group.contract = Contract::DEFAULT;
        }
        let client = &mut case.clients[0];
        (client.arrives, client.leaves) = (Span::ZERO, None);
        (client.program.start, client.program.stop) = (Span::ZERO, None);
        case
    }

    /// One client that reads 4 KiB at random places, one request at a time, all over the spaces of the case, for `seconds`: what it
    /// takes the drive to go elsewhere. `None` without clients.
    pub fn far_accesses(&self, seconds: u64) -> Option<Self> {
        let mut case = (!self.clients.is_empty()).then(|| self.alone(0, seconds))?;
        let client = &mut case.clients[0];
        client.size = self.clients.iter().map(|c| c.size).sum();
        client.program = Program::random_reads(4096, 1);
        client.buffered = false;
        case.places.clear();
        Some(case)
    }

    /// A capacity that admits everything that is promised at any time: the drive's own figures if they suffice.
    pub fn roomy_capacity(&self) -> Capacity {
        let (bytes, iops) = self.promised();
        // What requests move at the least.
        let moved = iops.saturating_mul(512);
        // Nine tenths can be promised, and bytes and requests are added.
        let room = |sum: u64| sum.saturating_mul(20) / 9 + 1;
        let fits = |c: &Capacity| {
            let part = |amount: u64, of: u64| amount as u128 * 1_000_000 / of.max(1) as u128 + 1;
            let requests = match c.requests() {
                0 => 0,
                most => part(iops, most),
            };
            part(bytes, c.bytes()) + requests.max(part(moved, c.bytes())) <= 900_000
        };
        let own = self.drive.config().capacity();
        own.filter(fits).unwrap_or_else(|| {
            let rate = room(bytes.max(moved)).max(1_000_000);
            Capacity {
                read: rate,
                write: rate,
                iops: if iops > 0 { room(iops) } else { 0 },
                ..Capacity::NONE
            }
        })
    }

    /// An upper bound of bytes and requests per second promised at any time, as if all promises were in force at once.
    fn promised(&self) -> (u64, u64) {
        let most = |group: GroupId| {
            let changes = self.changes.iter().filter(|c| c.group == group);
            let all = changes.map(|c| c.contract).chain([self.group(group)]);
            all.fold((0, 0), |(bytes, iops), c| {
                let reserved = match c.class {
                    Class::Realtime => (c.max.bandwidth, c.max.iops),
                    Class::BestEffort => (c.min, c.min_iops),
                    Class::Idle => (0, 0),
                };
                (reserved.0.max(bytes), reserved.1.max(iops))
            })
        };
        let ids = (1..=self.groups.len() as u32).map(GroupId);
        // A member's min is part of its tenant's.
        let counted = |group: &GroupId| !self.path(*group).skip(1).any(|g| self.is_promised(g));
        ids.filter(counted)
            .map(most)
            .fold((0, 0), |sum, m| (sum.0 + m.0, sum.1 + m.1))
    }

    /// Removes groups without clients, and renumbers the others.
    pub fn compact(&mut self) {
        let mut used = vec![false; self.groups.len() + 1];
        for client in &self.clients {
            for group in self.path(client.group) {
                used[group.0 as usize] = true;
            }
        }
        let mut next = 0;
        let renamed: Vec<GroupId> = (used.iter().zip(0..))
            .map(|(used, id)| {
                next += u32::from(*used);
                GroupId(if id > 0 && *used { next } else { 0 })
            })
            .collect();
        let new = |group: GroupId| renamed[group.0 as usize];
        let ids = (1..=self.groups.len() as u32).map(GroupId);
        let kept = ids.zip(&self.groups).filter(|(id, _)| new(*id) != ROOT);
        self.groups = kept
            .map(|(_, group)| GroupSpec {
                parent: new(group.parent),
                ..*group
            })
            .collect();
        self.changes.retain(|c| new(c.group) != ROOT);
        for change in &mut self.changes {
            change.group = new(change.group);
        }
        for client in &mut self.clients {
            client.group = new(client.group);
        }
    }
}

impl Client {
    fn spec(&self, space: SpaceId) -> ClientSpec {
        ClientSpec {
            name: format!("client-{}", space.0),
            group: self.group,
            priority: Priority::default(),
            program: self.program,
            space,
            region: Region {
                start: 0,
                length: self.size,
            },
            buffered: self
                .buffered
                .then(|| Buffered::advised(self.program.pattern)),
            flags: Flags::NONE,
            write_back: false,
            guest: space.0,
            empty_kicks: 0,
            deadline: None,
            arrives: self.arrives,
            leaves: self.leaves,
        }
    }

    /// Its program without times and offsets: clients that are equal in this get the same when alone.
    pub fn work(&self) -> (Program, u64, bool) {
        let program = Program {
            start: Span::ZERO,
            start_spread: Span::ZERO,
            stop: None,
            ..self.program
        };
        (program, self.size, self.buffered)
    }
}

/// A contract with at most this many bytes per second.
pub fn max_bandwidth(bandwidth: u64) -> Max {
    Max {
        bandwidth,
        ..Max::NONE
    }
}
