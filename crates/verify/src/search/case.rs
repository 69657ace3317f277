//! A case: a scenario with what is asked of it.

use std::fmt::{self, Display, Formatter};
use weir_config::scenario::{Asked, Choice, Printed, parse};
use weir_config::{Problem, profile};
use weir_core::{
    Capacity, Class, Contract, Flags, GroupId, Max, PROMISABLE, Priority, ROOT, SpaceId, Span,
};
use weir_model::load::{Arrival, Program, Region, Size};
use weir_sim::{Buffered, ClientSpec, GroupSpec, Scenario};

/// A drive, clients, their contracts, and what happens to them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// What is played: for whole seconds, measured from the beginning. Each client is in a group and has a space of its own.
    pub scenario: Scenario,
    /// Clients are the same except for their shares, and must get what these say.
    pub clones: bool,
}

/// The kinds of drives for which figures are reported separately.
pub const KINDS: [&str; 3] = ["null", "ssd", "hdd"];

/// A case as a scenario's file.
impl Display for Case {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Printed(&self.scenario).fmt(f)?;
        if self.clones {
            f.write_str("\n[[expect]]\nshares = \"10%\"\npolicies = [\"contract\"]\n")?;
        }
        Ok(())
    }
}

impl Case {
    /// Reads the text of a scenario's file: its first case, on its first drive. `file` is its name in problems.
    ///
    /// # Errors
    /// What is wrong with it, in lines.
    pub fn read(text: &str, file: &str) -> Result<Self, String> {
        let said = |problems: Vec<Problem>| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            lines.join("\n")
        };
        let script = parse(text, file).map_err(said)?;
        let word = script.drives().first().map_or("demo", String::as_str);
        let drive = if word.starts_with('{') {
            profile::read_inline(word).map_err(said)?.drive
        } else {
            profile::find(word).map_err(|e| e.to_string())?.drive
        };
        let choice = Choice::new(
            &drive,
            script.cases().first().map(String::as_str),
            "contract",
        );
        let scenario = script.scenario(&choice).map_err(said)?;
        let whole = Span::from_secs(scenario.duration.as_nanos() / 1_000_000_000);
        let before = scenario.run_in + scenario.warm_up;
        if (before, scenario.duration) != (Span::ZERO, whole) || whole == Span::ZERO {
            return Err(format!(
                "{file}: a case must last for whole seconds, without a run-in or a warm-up; set for example duration = \"5s\", run_in = \"0s\" and warm_up = \"0s\""
            ));
        }
        let mut clients = (0..).map(SpaceId).zip(&scenario.clients);
        if clients.any(|(space, c)| (c.space, c.region.start) != (space, 0)) {
            return Err(format!(
                "{file}: each client of a case must have a file of its own and use all of it"
            ));
        }
        let shares = |asked: &Asked| matches!(asked, Asked::Shares(_));
        let clones = script.expects().iter().any(|e| shares(&e.asked));
        Ok(Self { scenario, clones })
    }

    /// Adds a client with a space of `size` bytes. Returns it for further settings.
    pub fn add(
        &mut self,
        group: GroupId,
        (program, buffered): (Program, bool),
        size: u64,
    ) -> &mut ClientSpec {
        let number = self.scenario.clients.len() as u32;
        self.scenario.spaces.push(size);
        self.scenario.clients.push(ClientSpec {
            name: format!("client-{number}"),
            group,
            priority: Priority::default(),
            program,
            space: SpaceId(number),
            region: Region {
                start: 0,
                length: size,
            },
            buffered: buffered.then(|| Buffered::advised(program.pattern)),
            flags: Flags::NONE,
            write_back: false,
            sequence: number,
            guest: number,
            empty_kicks: 0,
            deadline: None,
            arrives: Span::ZERO,
            leaves: None,
        });
        let last = self.scenario.clients.last_mut();
        last.expect("one was added")
    }

    /// Its length in seconds.
    pub fn seconds(&self) -> u64 {
        self.scenario.duration.as_nanos() / 1_000_000_000
    }

    /// The kind of its drive: an index into [`KINDS`].
    pub fn kind(&self) -> usize {
        let name = self.scenario.drive.name();
        KINDS.iter().position(|k| *k == name).unwrap_or(0)
    }

    /// All groups.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        (1..=self.scenario.groups.len() as u32).map(GroupId)
    }

    /// The initial contract of a group.
    pub fn group(&self, group: GroupId) -> Contract {
        match (group.0 as usize).checked_sub(1) {
            Some(index) => self.scenario.groups[index].contract,
            None => Contract::DEFAULT,
        }
    }

    /// A group's part in the scenario: not the root's.
    pub(crate) fn group_mut(&mut self, group: GroupId) -> &mut GroupSpec {
        &mut self.scenario.groups[group.0 as usize - 1]
    }

    /// What a group hangs on, if it is not the root.
    pub(crate) fn parent(&self, group: GroupId) -> GroupId {
        self.scenario.groups[group.0 as usize - 1].parent
    }

    /// The index of a group and of all groups above it, without the root.
    pub fn path(&self, group: GroupId) -> impl Iterator<Item = GroupId> {
        let below = |group: GroupId| Some(group).filter(|g| *g != ROOT);
        let parent = move |g: &GroupId| below(self.parent(*g));
        std::iter::successors(below(group), parent)
    }

    /// Whether a group has a min at some time.
    pub fn is_promised(&self, group: GroupId) -> bool {
        let min = |c: &Contract| c.min > 0 || c.min_iops > 0;
        let changes = self.scenario.changes.iter().filter(|c| c.group == group);
        min(&self.group(group)) || changes.into_iter().any(|c| min(&c.contract))
    }

    /// Whether a client, or a group that it is in, has a min at some time.
    pub fn is_client_promised(&self, client: usize) -> bool {
        self.path(self.scenario.clients[client].group)
            .any(|g| self.is_promised(g))
    }

    /// Whether a client is of the realtime class.
    pub fn is_realtime(&self, client: usize) -> bool {
        self.scenario.contract(client).class == Class::Realtime
    }

    /// Whether there is a realtime client.
    pub fn has_realtime(&self) -> bool {
        (0..self.scenario.clients.len()).any(|c| self.is_realtime(c))
    }

    /// The case with these clients only. Groups and spaces stay the same: a disk reads its outer half faster, and goes farther between clients
    /// that are far apart. The clients behave as they do among all, except for the order of their random numbers.
    pub fn only(&self, keep: impl Fn(usize) -> bool) -> Self {
        let mut case = self.clone();
        let clients = self.scenario.clients.iter().enumerate();
        let kept = clients.filter(|(at, _)| keep(*at));
        case.scenario.clients = kept.map(|(_, client)| client.clone()).collect();
        case
    }

    /// The case without the other clients and their spaces.
    pub fn retained(&self, keep: impl Fn(usize) -> bool) -> Self {
        let mut case = self.only(keep);
        let Scenario {
            clients, spaces, ..
        } = &mut case.scenario;
        for (number, client) in (0..).zip(&mut *clients) {
            client.space = SpaceId(number);
            (client.sequence, client.guest) = (number, number);
        }
        *spaces = clients.iter().map(|c| c.region.length).collect();
        case
    }

    /// The case with all clients present from the start, and a drive that does not freeze.
    #[must_use]
    pub(crate) fn steady(mut self) -> Self {
        self.scenario.freeze = None;
        for client in &mut self.scenario.clients {
            (client.arrives, client.leaves) = (Span::ZERO, None);
            (client.program.start, client.program.stop) = (Span::ZERO, None);
        }
        self
    }

    /// A client with the drive to itself, from the start for `seconds`, without a contract.
    pub fn alone(&self, client: usize, seconds: u64) -> Self {
        let mut case = self.only(|c| c == client).steady();
        case.scenario.duration = Span::from_secs(seconds);
        case.scenario.changes.clear();
        for group in &mut case.scenario.groups {
            group.contract = Contract::DEFAULT;
        }
        case
    }

    /// One client that reads 4 KiB at random places, one request at a time, all over the spaces of the case, for `seconds`: what it
    /// takes the drive to go elsewhere. `None` without clients.
    pub fn far_accesses(&self, seconds: u64) -> Option<Self> {
        let group = self.scenario.clients.first()?.group;
        let mut case = self.alone(0, seconds);
        let all = self.scenario.spaces.iter().sum();
        case.scenario.clients.clear();
        case.scenario.spaces.clear();
        case.add(group, (Program::random_reads(4096, 1), false), all);
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
            part(bytes, c.bytes()) + requests.max(part(moved, c.bytes())) <= PROMISABLE.into()
        };
        let own = self.scenario.drive.capacity();
        own.filter(fits).unwrap_or_else(|| {
            let rate = room(bytes.max(moved)).max(1_000_000);
            Capacity::NONE
                .read(rate)
                .write(rate)
                .iops(if iops > 0 { room(iops) } else { 0 })
        })
    }

    /// An upper bound of bytes and requests per second promised at any time, as if all promises were in force at once.
    fn promised(&self) -> (u64, u64) {
        let most = |group: GroupId| {
            let changes = self.scenario.changes.iter().filter(|c| c.group == group);
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
        let ids = self.groups();
        // A member's min is part of its tenant's.
        let counted = |group: &GroupId| !self.path(*group).skip(1).any(|g| self.is_promised(g));
        ids.filter(counted)
            .map(most)
            .fold((0, 0), |sum, m| (sum.0 + m.0, sum.1 + m.1))
    }

    /// Removes groups without clients, and renumbers the others. Open loops come as often as a scenario's file can say it.
    pub fn compact(&mut self) {
        let mut used = vec![false; self.scenario.groups.len() + 1];
        for client in &self.scenario.clients {
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
        let Scenario {
            groups,
            changes,
            clients,
            ..
        } = &mut self.scenario;
        let mut ids = (1..).map(GroupId);
        groups.retain(|_| ids.next().is_some_and(|id| new(id) != ROOT));
        for group in groups {
            group.parent = new(group.parent);
        }
        changes.retain(|c| new(c.group) != ROOT);
        for change in changes {
            change.group = new(change.group);
        }
        for client in clients {
            client.group = new(client.group);
            settle(&mut client.program);
        }
    }
}

/// An open loop comes as often as a rate says, in bytes where its requests are alike, else in requests: an interval is what that comes to.
pub(crate) fn settle(program: &mut Program) {
    let second = match program.size {
        Size::Fixed(bytes) => u64::from(bytes) * 1_000_000_000,
        _ => 1_000_000_000,
    };
    if let Arrival::Even { interval } | Arrival::Poisson { interval } = &mut program.arrival {
        let rate = (second / interval.as_nanos().max(1)).max(1);
        *interval = Span::from_nanos(second / rate);
    }
}

/// What a client does without times and places: clients that are equal in this get the same when alone.
pub(crate) fn work(client: &ClientSpec) -> (Program, u64, bool) {
    let program = Program {
        start: Span::ZERO,
        start_spread: Span::ZERO,
        stop: None,
        ..client.program
    };
    (program, client.region.length, client.buffered.is_some())
}

/// A contract with at most this many bytes per second.
pub fn max_bandwidth(bandwidth: u64) -> Max {
    Max::NONE.bandwidth(bandwidth)
}

/// A case of one client `a` on the demo's drive unless `head` says otherwise. It reads 4 KiB at random places; `more` are keys of it, and
/// tables behind it.
#[cfg(test)]
pub(crate) fn reader(head: &str, more: &str) -> Case {
    let text = format!(
        "run_in = \"0s\"\nwarm_up = \"0s\"\ncapacity = {{ read = \"1GB/s\", write = \"1GB/s\" }}\n{head}\n\n[[client]]\nname = \"a\"\n\
         rw = \"randread\"\nnorandommap = true\nsize = \"1GiB\"\ndirect = true\n{more}\n"
    );
    Case::read(&text, "x.toml").unwrap_or_else(|e| panic!("{e}"))
}
