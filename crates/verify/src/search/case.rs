//! A case of the search: a scenario and the requirements that are judged in it.

use std::fmt::{self, Display, Formatter};
use weir_config::scenario::{Choice, Requirement, ScenarioText, parse};
use weir_config::{Problem, profile};
use weir_core::{
    Capacity, Class, Contract, Flags, GroupId, Max, PROMISABLE, Priority, ROOT, SpaceId, Span,
};
use weir_model::load::{Arrival, Program, Region, Size};
use weir_sim::{Buffered, ClientSpec, GroupSpec, Scenario};

/// A drive, clients, their contracts, and the events that happen to them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SearchCase {
    /// The scenario to run. It lasts for whole seconds and is measured from its beginning. Each
    /// client is in a group and has a space of its own.
    pub scenario: Scenario,
    /// True if clients differ only in their shares, and must get service in proportion to them.
    pub clones: bool,
}

/// The kinds of drives for which figures are reported separately.
pub const KINDS: [&str; 3] = ["null", "ssd", "hdd"];

/// Prints the case as a scenario's file.
impl Display for SearchCase {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        ScenarioText(&self.scenario).fmt(f)?;
        if self.clones {
            f.write_str("\n[[expect]]\nshares = \"10%\"\npolicies = [\"contract\"]\n")?;
        }
        Ok(())
    }
}

impl SearchCase {
    /// Reads the text of a scenario's file: its first case, on its first drive. `file` is its name
    /// in error messages.
    ///
    /// # Errors
    /// Returns all problems of the text, one per line.
    pub fn read(text: &str, file: &str) -> Result<Self, String> {
        let said = |problems: Vec<Problem>| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            lines.join("\n")
        };
        let script = parse(text, file).map_err(said)?;
        // A scenario without a drive runs on the demo's.
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
        // Promises are judged by whole seconds from the beginning on.
        if (before, scenario.duration) != (Span::ZERO, whole) || whole == Span::ZERO {
            return Err(format!(
                "{file}: a case must last for whole seconds, without a run-in or a warm-up; set for example duration = \"5s\", run_in = \"0s\" and warm_up = \"0s\""
            ));
        }
        let mut clients = (0..).map(SpaceId).zip(&scenario.clients);
        // The search removes clients one by one, which would change the offsets of clients that
        // share a file.
        if clients.any(|(space, c)| (c.space, c.region.start) != (space, 0)) {
            return Err(format!(
                "{file}: each client of a case must have a file of its own and use all of it"
            ));
        }
        let shares = |asked: &Requirement| matches!(asked, Requirement::Shares(_));
        let clones = script.expects().iter().any(|e| shares(&e.asked));
        Ok(Self { scenario, clones })
    }

    /// Adds a client with a space of `size` bytes. Returns the client for further settings.
    pub fn add(
        &mut self,
        group: GroupId,
        (program, buffered): (Program, bool),
        size: u64,
    ) -> &mut ClientSpec {
        let number = self.scenario.clients.len() as u32;
        self.scenario.spaces.push(size);
        self.scenario.clients.push(ClientSpec {
            // Drawn clients have no names of their own.
            name: format!("client-{number}"),
            group,
            priority: Priority::default(),
            program,
            trace: None,
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

    /// Returns the length of the case in seconds.
    pub fn seconds(&self) -> u64 {
        self.scenario.duration.as_nanos() / 1_000_000_000
    }

    /// Returns the kind of its drive, an index into [`KINDS`].
    pub fn kind(&self) -> usize {
        let name = self.scenario.drive.name();
        KINDS.iter().position(|k| *k == name).unwrap_or(0)
    }

    /// Returns all groups except the root.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        (1..=self.scenario.groups.len() as u32).map(GroupId)
    }

    /// Returns the initial contract of a group.
    pub fn group(&self, group: GroupId) -> Contract {
        match (group.0 as usize).checked_sub(1) {
            Some(index) => self.scenario.groups[index].contract,
            None => Contract::DEFAULT,
        }
    }

    /// Returns the specification of a group, which must not be the root.
    pub(crate) fn group_mut(&mut self, group: GroupId) -> &mut GroupSpec {
        &mut self.scenario.groups[group.0 as usize - 1]
    }

    /// Returns the parent of a group, which must not be the root.
    pub(crate) fn parent(&self, group: GroupId) -> GroupId {
        self.scenario.groups[group.0 as usize - 1].parent
    }

    /// Returns a group and all groups above it, without the root.
    pub fn path(&self, group: GroupId) -> impl Iterator<Item = GroupId> {
        let below = |group: GroupId| Some(group).filter(|g| *g != ROOT);
        let parent = move |g: &GroupId| below(self.parent(*g));
        std::iter::successors(below(group), parent)
    }

    /// Returns true if a group has a min at some time.
    pub fn is_promised(&self, group: GroupId) -> bool {
        let min = |c: &Contract| c.min > 0 || c.min_iops > 0;
        let changes = self.scenario.changes.iter().filter(|c| c.group == group);
        min(&self.group(group)) || changes.into_iter().any(|c| min(&c.contract))
    }

    /// Returns true if a client has a min at some time, or a group that it is in.
    pub fn is_client_promised(&self, client: usize) -> bool {
        self.path(self.scenario.clients[client].group)
            .any(|g| self.is_promised(g))
    }

    /// Returns true if a client is of the realtime class.
    pub fn is_realtime(&self, client: usize) -> bool {
        self.scenario.contract(client).class == Class::Realtime
    }

    /// Returns true if there is a realtime client.
    pub fn has_realtime(&self) -> bool {
        (0..self.scenario.clients.len()).any(|c| self.is_realtime(c))
    }

    /// Returns the case with only these clients. Groups and spaces stay the same, because a disk
    /// reads its outer half faster, and seeks further between clients that are far apart. The
    /// clients keep their sequence numbers, on which their random numbers depend.
    pub fn only(&self, keep: impl Fn(usize) -> bool) -> Self {
        let mut case = self.clone();
        let clients = self.scenario.clients.iter().enumerate();
        let kept = clients.filter(|(at, _)| keep(*at));
        case.scenario.clients = kept.map(|(_, client)| client.clone()).collect();
        case
    }

    /// Returns the case without the other clients and their spaces.
    pub fn retained(&self, keep: impl Fn(usize) -> bool) -> Self {
        let mut case = self.only(keep);
        let Scenario {
            clients, spaces, ..
        } = &mut case.scenario;
        for (number, client) in (0..).zip(&mut *clients) {
            client.space = SpaceId(number);
            // Random numbers of a client depend on its sequence number, which therefore stays
            // dense.
            (client.sequence, client.guest) = (number, number);
        }
        *spaces = clients.iter().map(|c| c.region.length).collect();
        case
    }

    /// Returns the case with all clients present from the start, and a drive that does not freeze.
    #[must_use]
    pub(crate) fn steady(mut self) -> Self {
        self.scenario.freeze = None;
        for client in &mut self.scenario.clients {
            (client.arrives, client.leaves) = (Span::ZERO, None);
            (client.program.start, client.program.stop) = (Span::ZERO, None);
        }
        self
    }

    /// Returns the case with one client that has the drive to itself, from the start for `seconds`,
    /// without a contract.
    pub fn alone(&self, client: usize, seconds: u64) -> Self {
        let mut case = self.only(|c| c == client).steady();
        case.scenario.duration = Span::from_secs(seconds);
        case.scenario.changes.clear();
        for group in &mut case.scenario.groups {
            group.contract = Contract::DEFAULT;
        }
        case
    }

    /// Returns a case that measures seeks: one client reads 4 KiB at random positions, one request
    /// at a time, across all spaces of the case, for `seconds`. Returns `None` if the case has no
    /// clients.
    pub fn far_accesses(&self, seconds: u64) -> Option<Self> {
        let group = self.scenario.clients.first()?.group;
        let mut case = self.alone(0, seconds);
        let all = self.scenario.spaces.iter().sum();
        case.scenario.clients.clear();
        case.scenario.spaces.clear();
        case.add(group, (Program::random_reads(4096, 1), false), all);
        Some(case)
    }

    /// Returns a capacity that admits every promise at any time. These are the drive's own figures
    /// if they suffice.
    pub fn roomy_capacity(&self) -> Capacity {
        let (bytes, iops) = self.promised();
        // Requests move at least a sector each.
        let moved = iops.saturating_mul(512);
        // 90 % can be promised, and the parts of bytes and requests are added, so that each may
        // take 45 %.
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
        // The drive's own figures are preferred, because promises then compete with its real speed.
        own.filter(fits).unwrap_or_else(|| {
            // At least 1 MB/s, so that the capacity is valid without promises.
            let rate = room(bytes.max(moved)).max(1_000_000);
            Capacity::NONE
                .read(rate)
                .write(rate)
                .iops(if iops > 0 { room(iops) } else { 0 })
        })
    }

    /// Returns an upper bound of the bytes and requests per second that are promised at any time,
    /// as if all promises were in force at once.
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
                // The maximum over the initial contract and all changes.
                (reserved.0.max(bytes), reserved.1.max(iops))
            })
        };
        let ids = self.groups();
        // A member's min is part of its tenant's min.
        let counted = |group: &GroupId| !self.path(*group).skip(1).any(|g| self.is_promised(g));
        ids.filter(counted)
            .map(most)
            .fold((0, 0), |sum, m| (sum.0 + m.0, sum.1 + m.1))
    }

    /// Removes groups without clients, and renumbers the others. Also rounds the rates of open
    /// loops to values that a scenario's file can contain.
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
            round_interval(&mut client.program);
        }
    }
}

/// Rounds the interval of an open loop to a whole rate. The rate is in bytes per second if all
/// requests have the same size, and in requests per second otherwise.
pub(crate) fn round_interval(program: &mut Program) {
    let second = match program.size {
        Size::Fixed(bytes) => u64::from(bytes) * 1_000_000_000,
        _ => 1_000_000_000,
    };
    if let Arrival::Even { interval } | Arrival::Poisson { interval } = &mut program.arrival {
        // A rate in a file is a whole number, so that the interval is computed back from it.
        let rate = (second / interval.as_nanos().max(1)).max(1);
        *interval = Span::from_nanos(second / rate);
    }
}

/// Returns the work of a client without times and positions. Clients with equal work get the same
/// service without contention.
pub(crate) fn client_work(client: &ClientSpec) -> (Program, u64, bool) {
    let program = Program {
        start: Span::ZERO,
        start_spread: Span::ZERO,
        stop: None,
        ..client.program
    };
    (program, client.region.length, client.buffered.is_some())
}

/// Returns a max of this many bytes per second.
pub fn max_bandwidth(bandwidth: u64) -> Max {
    Max::NONE.bandwidth(bandwidth)
}

/// Returns a case of one client `a`, on the demo's drive unless `head` names another one. The
/// client reads 4 KiB at random positions. `more` contains further keys of the client, and tables
/// after it.
#[cfg(test)]
pub(crate) fn reader(head: &str, more: &str) -> SearchCase {
    let text = format!(
        "run_in = \"0s\"\nwarm_up = \"0s\"\ncapacity = {{ read = \"1GB/s\", write = \"1GB/s\" }}\n{head}\n\n[[client]]\nname = \"a\"\n\
         rw = \"randread\"\nnorandommap = true\nsize = \"1GiB\"\ndirect = true\n{more}\n"
    );
    SearchCase::read(&text, "x.toml").unwrap_or_else(|e| panic!("{e}"))
}
