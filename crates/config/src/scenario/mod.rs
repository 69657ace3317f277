//! What there is, and what happens when.

mod build;
mod class;
mod distribution;
mod expect;
pub(crate) mod fio;
mod guest;
mod host;
mod open;
mod overlay;
mod path;
mod print;
mod rate;
mod read;
mod script;
mod suite;

pub use build::Choice;
pub use expect::{Asked, Bounds, Expect, Figure, Part, Published, Value, Whose};
pub use open::{Unknown, find, load, load_jobs, names, parse, source};
pub use print::Printed;
pub use script::{Script, read};
pub use suite::{SUITES, Suite, suite};

pub use guest::{Calls, Cost, Guest, Kicks, Ring, Threads};
pub use host::{
    Adapter, Advice, Buffered, Filesystem, FilesystemKind, LOG, Merging, NrRequests, PAGE, Plug,
};

pub use path::{Machine, Path, Stall};

use crate::admission::{ENDLESS, promised_together};
use crate::policy::{Node, Policy, Setup};
use crate::problem::Problem;
use std::collections::BTreeSet;
use weir_core::{
    Capacity, Class, Contract, Edit, Flags, GroupId, Instant, Knobs, Priority, Promised, ROOT,
    Sizes, SpaceId, Span,
};
use weir_model::load::{Program, Region};

/// A drive, clients with contracts, and what happens to them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario {
    /// Its name: results carry it, and seeds depend on it.
    pub name: String,
    /// Which of its cases this is; results carry that, too. Most have one only, called as they are.
    pub case: String,
    /// The drive.
    pub drive: weir_model::drive::Config,
    /// When the drive serves nothing; `None`: it always does. A [valid](weir_model::drive::Freeze::is_valid) one.
    pub freeze: Option<weir_model::drive::Freeze>,
    /// What the drive's owner states it can do; admission and the contract elevator count with it. `None`: unknown.
    pub capacity: Option<Capacity>,
    /// Sizes of the address spaces in bytes: the first is [`SpaceId`] 0.
    pub spaces: Vec<u64>,
    /// Where on the drive each space begins, where stated: the others lie one behind the other, each behind the one before it.
    /// Where spaces overlap, their bytes are the same. Means nothing on a drive without positions.
    pub places: Vec<u64>,
    /// The groups below the root: the first is [`GroupId`] 1. A parent comes before its children.
    pub groups: Vec<GroupSpec>,
    /// Contracts that change; of two at the same time the first in the list changes first.
    pub changes: Vec<Change>,
    /// The clients.
    pub clients: Vec<ClientSpec>,
    /// What writes beside the data of processes so that they are found again; `None`: nothing does.
    pub filesystem: Option<Filesystem>,
    /// What lies between the elevator and the drive.
    pub adapter: Adapter,
    /// Which neighbouring requests are merged.
    pub merging: Merging,
    /// What lies between the clients and the layer.
    pub path: Path,
    /// The virtual machines that clients are in, which each [client](ClientSpec::guest) has its number of. `None`: there are none, and
    /// clients reach the layer over the path.
    pub guest: Option<Guest>,
    /// What the machine does to the server on that path. Without a path it means nothing.
    pub machine: Machine,
    /// What happens in between, in any order; of two things at the same time the first in the list happens first.
    pub actions: Vec<Scheduled>,
    /// For this time the drive is read in sequence before anything else happens, and rests for a second then: what elevators and
    /// controllers learn of a drive, they have learned when the run begins. Times of the scenario do not count it. Zero: it begins as
    /// after boot.
    pub run_in: Span,
    /// Time before the measurement begins.
    pub warm_up: Span,
    /// Time measured.
    pub duration: Span,
    /// A client whose outstanding requests are waited for when the time is over, at most for [`PATIENCE`]: the run is measured until
    /// it is answered. Its program is to stop by then. `None`: the run ends when its time is over.
    pub awaits: Option<usize>,
    /// A client whose program ends, and with whose last answer the run ends, if its time is not over before. `None`: it lasts for its time.
    pub exits: Option<usize>,
    /// Sizes of the layer's tables. `None`: enough for these clients, so that nobody is told to pause.
    pub sizes: Option<Sizes>,
    /// Clients whose I/O priority is the class of their contract [under](Self::under) policies that go by classes, by their place in
    /// [`Self::clients`].
    pub classes: Vec<(usize, Class)>,
    /// I/O priorities that do not count under policies that go by classes: where they stand, why, and what would make them count.
    pub unclassed: Vec<Problem>,
}

/// Most clients of a scenario's file.
const CLIENTS: usize = 4096;

/// What results call all clients, or all but one.
const RESERVED: [&str; 3] = ["total", "others", "all"];

/// How long a run waits for [`Scenario::awaits`] at most.
pub const PATIENCE: Span = Span::from_secs(60);

/// Reads in flight during [`Scenario::run_in`].
pub const RUN_IN_DEPTH: u32 = 32;

/// A group of the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupSpec {
    /// What it hangs on.
    pub parent: GroupId,
    /// What it was promised.
    pub contract: Contract,
    /// How controllers are set for it.
    pub knobs: Knobs,
}

/// A contract that takes the place of a group's: a policy has it as it has that with which the run begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// When, from the beginning of the run.
    pub at: Span,
    /// The group: not the root.
    pub group: GroupId,
    /// The contract from then on.
    pub contract: Contract,
}

/// A client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientSpec {
    /// Its name in results.
    pub name: String,
    /// Its group: one without child groups.
    pub group: GroupId,
    /// Its I/O priority.
    pub priority: Priority,
    /// What it does. The program's times count from the beginning of the run.
    pub program: Program,
    /// The address space it uses.
    pub space: SpaceId,
    /// The part of the space it uses.
    pub region: Region,
    /// How its program's calls go through the page cache; `None`: they do not (direct I/O).
    pub buffered: Option<Buffered>,
    /// Flags that each of its requests carries beside those of the program.
    pub flags: Flags,
    /// Its direct writes stand for the page cache's writing back: nobody waits for them, so they are not synchronous.
    pub write_back: bool,
    /// The random sequence that it draws from: its place in the scenario, and where others are taken out, the place that it had.
    pub sequence: u32,
    /// The virtual machine it is in, where there are any: those with one number share a ring.
    pub guest: u32,
    /// Notifications a second that its machine sends without a request, as one that is broken or means harm; 0 to 10^7.
    pub empty_kicks: u32,
    /// How soon after they were due its reads and writes are to be answered; later ones are counted. `None`: they have no deadline.
    pub deadline: Option<Span>,
    /// When it connects.
    pub arrives: Span,
    /// When it disconnects; what it still waits for then counts as failed. `None`: it stays.
    pub leaves: Option<Span>,
}

impl ClientSpec {
    /// A client in the root with direct requests that is there for the whole run. Its name, space
    /// and region are still to be set.
    pub(crate) fn new(program: Program) -> Self {
        Self {
            name: String::new(),
            group: ROOT,
            priority: Priority::default(),
            program,
            space: SpaceId(0),
            region: Region::new(0, 0),
            buffered: None,
            flags: Flags::NONE,
            write_back: false,
            sequence: 0,
            guest: 0,
            empty_kicks: 0,
            deadline: None,
            arrives: Span::ZERO,
            leaves: None,
        }
    }

    /// Requests that it has in the layer at most, on a drive whose largest command is `transfer` bytes.
    pub fn outstanding(&self, transfer: u32) -> u32 {
        match &self.buffered {
            Some(buffered) => buffered.outstanding(&self.program, transfer),
            None => self.program.depth,
        }
    }

    /// The client's own time in a run of which `now` is the end, in nanoseconds: from its first possible request to its last, or the reply to
    /// that. `begins` and `ends` are those of its program ([`Program::end`]). `None`: it goes on to the end of the run.
    pub fn time(&self, begins: Instant, ends: Option<Instant>, now: Instant) -> (u64, Option<u64>) {
        let begins = begins.max(Instant::ZERO + self.arrives);
        let leaves = self.leaves.map(|leaves| Instant::ZERO + leaves);
        let leaves = leaves.filter(|leaves| *leaves <= now);
        let ends = ends.into_iter().chain(leaves).min();
        (begins.as_nanos(), ends.map(Instant::as_nanos))
    }
}

/// Something that happens at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scheduled {
    /// When, from the beginning of the run.
    pub at: Span,
    /// What.
    pub action: Action,
}

/// What can happen. Clients are named by their place in [`Scenario::clients`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Contracts, groups, spaces or the capacity change. A refusal is noted in the results.
    Change(Vec<Edit>),
    /// A client stops reading its answers, or goes on.
    Hold {
        /// Which client.
        client: usize,
        /// Whether it is held from now on.
        held: bool,
    },
    /// A client gives the oldest request up that it waits for.
    Cancel {
        /// Which client.
        client: usize,
    },
}

impl Scenario {
    /// A scenario without clients: a drive of the capacity that its model states, measured from the beginning for `duration`.
    pub fn new(name: impl Into<String>, drive: weir_model::drive::Config, duration: Span) -> Self {
        let name = name.into();
        Self {
            case: name.clone(),
            name,
            capacity: drive.capacity(),
            drive,
            freeze: None,
            spaces: Vec::new(),
            places: Vec::new(),
            groups: Vec::new(),
            changes: Vec::new(),
            clients: Vec::new(),
            filesystem: None,
            adapter: Adapter::default(),
            merging: Merging::default(),
            path: Path::DIRECT,
            guest: None,
            machine: Machine::default(),
            actions: Vec::new(),
            run_in: Span::ZERO,
            warm_up: Span::ZERO,
            duration,
            awaits: None,
            exits: None,
            sizes: None,
            classes: Vec::new(),
            unclassed: Vec::new(),
        }
    }

    /// What the core is made from and told under a policy.
    pub fn set_up(&self, policy: &Policy) -> Setup {
        let groups = self.groups.iter().map(|group| Node {
            parent: (group.parent.0 as usize).checked_sub(1),
            contract: group.contract,
        });
        policy.set_up(self.capacity, groups)
    }

    /// What its groups are promised together, whatever the drive can do. Nothing, if their contracts contradict themselves.
    pub fn promised(&self) -> Promised {
        self.promised_of(ENDLESS)
    }

    /// As [`Self::promised`], with the part of the time of a drive that can do this much.
    pub fn promised_of(&self, capacity: Capacity) -> Promised {
        let groups = self.groups.iter().map(|g| (g.parent, g.contract));
        promised_together(groups, capacity)
    }

    /// Adds a group, below one that is there.
    pub(crate) fn add_group(
        &mut self,
        parent: GroupId,
        contract: Contract,
        knobs: Knobs,
    ) -> GroupId {
        self.groups.push(GroupSpec {
            parent,
            contract,
            knobs,
        });
        GroupId(self.groups.len() as u32)
    }

    /// Gives each client in the root a group of its own, to which nothing is promised.
    pub(crate) fn separate(&mut self) {
        for at in 0..self.clients.len() {
            if self.clients[at].group == ROOT {
                self.clients[at].group = self.add_group(ROOT, Contract::DEFAULT, Knobs::NONE);
            }
        }
    }

    /// Adds a client with a group below the root and a space of `size` bytes of its own. Returns it for further settings.
    pub fn tenant(
        &mut self,
        name: impl Into<String>,
        contract: Contract,
        size: u64,
        program: Program,
    ) -> &mut ClientSpec {
        let group = self.add_group(ROOT, contract, Knobs::NONE);
        self.spaces.push(size);
        let place = self.clients.len() as u32;
        self.clients.push(ClientSpec {
            name: name.into(),
            group,
            space: SpaceId(self.spaces.len() as u32 - 1),
            sequence: place,
            region: Region::new(0, size),
            guest: place,
            ..ClientSpec::new(program)
        });
        self.clients.last_mut().expect("one was added")
    }

    /// Bytes of a read or write at most that leaves a client in one request. A guest cuts what is too long for its ring, and Linux what
    /// is too long for the drive, before controllers and elevators see it. A server, and an elevator of our own, has it whole.
    pub fn longest(&self, policy: &Policy) -> u32 {
        match &self.guest {
            Some(guest) => guest.longest,
            None if self.path == Path::DIRECT && policy.splits_before() => {
                self.drive.shape().max_transfer
            }
            None => u32::MAX,
        }
    }

    /// Requests that a client has in the layer at most under a policy, of which one that was too long is several.
    pub fn outstanding(&self, client: &ClientSpec, policy: &Policy) -> u32 {
        let transfer = self.drive.shape().max_transfer;
        let requests = client.outstanding(transfer);
        let most = client.program.size.most();
        let longest = match (&client.buffered, &self.guest) {
            (None, _) => most,
            (Some(_), None) => transfer,
            (Some(_), Some(_)) => transfer.max(most),
        };
        requests.saturating_mul(longest.div_ceil(self.longest(policy)).max(1))
    }

    /// Where on the drive each space begins: see [`Self::places`].
    pub fn bases(&self) -> Vec<u64> {
        let mut behind = 0u64;
        let stated = self.places.iter().copied().map(Some);
        let stated = stated.chain(std::iter::repeat(None));
        (self.spaces.iter().zip(stated))
            .map(|(size, stated)| {
                let base = stated.unwrap_or(behind);
                behind = base.saturating_add(*size);
                base
            })
            .collect()
    }

    /// The contract of a client's group.
    pub fn contract(&self, client: usize) -> Contract {
        let group = self.clients[client].group.0 as usize;
        match group.checked_sub(1) {
            Some(index) => self.groups[index].contract,
            None => Contract::DEFAULT,
        }
    }

    /// The groups of clients to which something is promised; `None` if nothing is promised to anybody.
    pub fn promised_groups(&self) -> Option<Vec<GroupId>> {
        let clients = self.clients.iter().enumerate();
        let promised = clients.filter(|(at, _)| {
            let contract = self.promised_to(*at);
            contract.min > 0 || contract.min_iops > 0
        });
        let groups: BTreeSet<GroupId> = promised.map(|(_, client)| client.group).collect();
        (!groups.is_empty()).then(|| groups.into_iter().collect())
    }

    /// What a client's group is promised all the time: its contract, with the least of the mins that it has.
    pub fn promised_to(&self, client: usize) -> Contract {
        let group = self.clients[client].group;
        let changes = self.changes.iter().filter(|c| c.group == group);
        changes.fold(self.contract(client), |least, change| Contract {
            min: least.min.min(change.contract.min),
            min_iops: least.min_iops.min(change.contract.min_iops),
            ..least
        })
    }

    /// When it ends at the latest, and the instant from which on it waits for nothing but [`Self::awaits`].
    pub fn ends(&self) -> (Instant, Instant) {
        let over = Instant::ZERO + self.warm_up + self.duration;
        let latest = match self.awaits {
            Some(_) => over + PATIENCE,
            None => over,
        };
        (latest, over)
    }

    /// The sizes of the layer's tables: those asked for, or enough for everything these clients can have outstanding under a policy.
    pub fn sizes(&self, policy: &Policy) -> Sizes {
        if let Some(sizes) = self.sizes {
            return sizes;
        }
        let depths = self.clients.iter().map(|c| self.outstanding(c, policy));
        let runs_in = self.run_in > Span::ZERO;
        // A file system has a stream and a group of its own.
        let own = u32::from(self.filesystem.is_some());
        let streams = self.clients.len() as u32 + 1 + own;
        let groups = self.groups.len() as u32 + 1 + own;
        let requests = depths.clone().fold(0, u32::saturating_add) + streams;
        let per_stream = depths.max().unwrap_or(0) + 1;
        let least = if runs_in { RUN_IN_DEPTH } else { 0 };
        Sizes {
            requests: requests.max(least),
            streams,
            groups: groups + u32::from(runs_in),
            spaces: self.spaces.len().max(1) as u32,
            per_stream: per_stream.max(least),
            reserved: 1,
            scheduler_tags: requests.max(least),
            ..Sizes::default()
        }
    }
}
