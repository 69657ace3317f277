//! Scenarios: clients with their programs and contracts, on a drive.
//!
//! [`find`], [`load`] and [`parse`] return a [`Script`], which is a file with all its cases.
//! [`Script::scenario`] applies the [`Choice`] of a drive, a case and a policy, and returns the
//! [`Scenario`] that the simulator runs.

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
mod trace;

pub use build::Choice;
pub use expect::{Bounds, Expect, Figure, FigureOwner, FigureValue, Part, Published, Requirement};
pub use open::{UnknownScenario, find, load, load_jobs, names, parse, source};
pub use print::ScenarioText;
pub use script::{Script, read};
pub use suite::{SUITES, Suite, suite};

pub use guest::{CallTiming, Cost, Guest, GuestRing, KickReaction, Threads};
pub use host::{
    Adapter, Advice, Buffered, FLUSHER_DEPTH, Filesystem, FilesystemKind, LOG, MergeSettings,
    NrRequests, PAGE, PlugScope,
};

pub use path::{CpuStall, Machine, Path};

use crate::admission::{ENDLESS, promised_together};
use crate::policy::{GroupNode, Policy, Setup};
use crate::problem::Problem;
use std::collections::BTreeSet;
use std::sync::Arc;
use weir_core::rule::RuleViolation;
use weir_core::{
    Capacity, Class, Contract, Edit, Flags, GroupId, Instant, Knobs, Priority, PromiseSums, ROOT,
    Sizes, SpaceId, Span,
};
use weir_model::load::{LoadClient, Program, Region, Trace};

/// A drive, clients with contracts, and the events of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario {
    /// The name in results. The seeds of random numbers depend on it.
    pub name: String,
    /// The name of the case in results. A scenario without cases has its own name here.
    pub case: String,
    /// The model of the drive.
    pub drive: weir_model::drive::DriveConfig,
    /// The stalls of the drive, which must be [valid](weir_model::drive::Freeze::is_valid). `None`
    /// if it never stalls.
    pub freeze: Option<weir_model::drive::Freeze>,
    /// The number of bytes of the drive over which the extents of the files are
    /// [scattered](weir_model::drive::Scattered), if all files are in one space. `None` if they are
    /// adjacent. It has no effect on a position-independent drive.
    pub spread: Option<u64>,
    /// The capacity that the drive's owner states, which admission and the elevator `contract` use.
    /// `None` if unknown.
    pub capacity: Option<Capacity>,
    /// The sizes of the address spaces in bytes. The first is [`SpaceId`] 0.
    pub spaces: Vec<u64>,
    /// The positions of spaces on the drive, as far as they are stated. Each of the other spaces
    /// follows the one before it. Spaces that overlap share their bytes. Positions have no effect
    /// on a position-independent drive.
    pub places: Vec<u64>,
    /// The groups below the root. The first is [`GroupId`] 1, and parents come before their
    /// children.
    pub groups: Vec<GroupSpec>,
    /// The changes of contracts. Of two changes at the same time, the first in the list is applied
    /// first.
    pub changes: Vec<Change>,
    /// The clients of the scenario.
    pub clients: Vec<ClientSpec>,
    /// The file system, which writes metadata in addition to the data of processes. `None` if there
    /// is none.
    pub filesystem: Option<Filesystem>,
    /// The adapter between the elevator and the drive.
    pub adapter: Adapter,
    /// The merging of adjacent requests.
    pub merging: MergeSettings,
    /// The path between the clients and the layer.
    pub path: Path,
    /// The guests of the clients, identified by the number in each [client](ClientSpec::guest).
    /// `None` if clients reach the layer over the path.
    pub guest: Option<Guest>,
    /// The disturbances of the server by its machine. They have no effect without a path.
    pub machine: Machine,
    /// The actions during the run, in any order. Of two actions at the same time, the first in the
    /// list happens first.
    pub actions: Vec<ScheduledAction>,
    /// The length of the run-in: the drive is read sequentially before the run, followed by one
    /// second without requests. In this time, elevators and controllers can learn the speed of the
    /// drive. Other times of the scenario do not include it. With zero, the run starts as after
    /// boot.
    pub run_in: Span,
    /// The time before the measurement begins.
    pub warm_up: Span,
    /// The length of the measurement.
    pub duration: Span,
    /// The index of a client whose outstanding requests are waited for at the end, for at most
    /// [`PATIENCE`]. The measurement includes them. The client's program must stop by the end of
    /// the measurement. `None` if the run ends at its time.
    pub awaits: Option<usize>,
    /// The index of a client with an end. The run ends with its last reply, or at the end of its
    /// time if that is earlier. `None` if the run always ends at its time.
    pub exits: Option<usize>,
    /// The sizes of the layer's tables. `None` for tables that are large enough for these clients,
    /// so that no stream is paused.
    pub sizes: Option<Sizes>,
    /// The classes that follow from I/O priorities [under](Self::under) policies that use classes,
    /// each with the index of its client in [`Self::clients`].
    pub classes: Vec<(usize, Class)>,
    /// The I/O priorities that have no effect under policies with classes, each with its place, the
    /// reason and the remedy.
    pub unclassed: Vec<Problem>,
}

/// The maximum number of clients in a scenario's file.
const CLIENTS: usize = 4096;

/// The names that results use for all clients, or for all except one.
const RESERVED: [&str; 3] = ["total", "others", "all"];

/// The maximum time that a run waits for [`Scenario::awaits`].
pub const PATIENCE: Span = Span::from_secs(60);

/// The number of reads in flight during [`Scenario::run_in`].
pub const RUN_IN_DEPTH: u32 = 32;

/// A group in the tree of groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupSpec {
    /// The parent of the group.
    pub parent: GroupId,
    /// The contract of the group.
    pub contract: Contract,
    /// The settings of controllers for the group.
    pub knobs: Knobs,
}

/// A contract that replaces that of a group during the run. Policies apply their mapping to it as
/// to the first contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// The time of the change, counted from the beginning of the run.
    pub at: Span,
    /// The group, which is not the root.
    pub group: GroupId,
    /// The new contract of the group.
    pub contract: Contract,
}

/// A client of a scenario with its program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientSpec {
    /// The name in results.
    pub name: String,
    /// The group of the client, which has no child groups.
    pub group: GroupId,
    /// The I/O priority of the client's requests.
    pub priority: Priority,
    /// The program, whose times count from the beginning of the run.
    pub program: Program,
    /// The recorded load that the client plays. `None` if the program determines its requests.
    pub trace: Option<Arc<Trace>>,
    /// The address space that the client uses.
    pub space: SpaceId,
    /// The part of the space that the client uses.
    pub region: Region,
    /// The use of the page cache by the program's calls. `None` for direct I/O.
    pub buffered: Option<Buffered>,
    /// The flags of each request in addition to those of the program.
    pub flags: Flags,
    /// True if direct writes stand for the write-back of the page cache. They are asynchronous,
    /// because no process waits for them.
    pub write_back: bool,
    /// The number of the client's random sequence: its index in the scenario, or its earlier index
    /// if other clients were removed.
    pub sequence: u32,
    /// The number of its guest, if the scenario has guests. Clients with the same number share a
    /// ring.
    pub guest: u32,
    /// The number of notifications per second that its guest sends without a request, 0 to 10^7. A
    /// broken or hostile guest does so.
    pub empty_kicks: u32,
    /// The maximum time until the reply to a read or write, counted from when the request was due.
    /// Later replies are too late. `None` if there is no deadline.
    pub deadline: Option<Span>,
    /// The time when the client connects.
    pub arrives: Span,
    /// The time when the client disconnects. Requests that are outstanding then have failed. `None`
    /// if the client stays.
    pub leaves: Option<Span>,
}

impl ClientSpec {
    /// Creates a client in the root group that issues direct requests for the whole run. The caller
    /// must still set its name, space and region.
    pub(crate) fn new(program: Program) -> Self {
        Self {
            name: String::new(),
            group: ROOT,
            priority: Priority::default(),
            program,
            trace: None,
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

    /// Returns the client's program at its start, or the recorded load that it plays. Random
    /// choices depend only on `seed`.
    ///
    /// # Errors
    /// A parameter of the program is out of range, or the region is too small for it.
    pub fn load(&self, seed: u64) -> Result<LoadClient, RuleViolation> {
        match &self.trace {
            Some(trace) => LoadClient::replay(&self.program, trace.clone(), self.region),
            None => LoadClient::new(&self.program, seed, self.region),
        }
    }

    /// Returns the maximum number of requests that the client has in the layer, on a drive whose
    /// longest command is `transfer` bytes.
    pub fn outstanding(&self, transfer: u32) -> u32 {
        match &self.buffered {
            Some(buffered) => buffered.outstanding(&self.program, transfer),
            None => self.program.depth,
        }
    }

    /// Returns the client's own time in a run that ends at `now`, in nanoseconds: from its first
    /// possible request to its last request, or to the reply to that. `begins` and `ends` are those
    /// of its program ([`Program::end`]). The end is `None` if the client is active until the end
    /// of the run.
    pub fn time(&self, begins: Instant, ends: Option<Instant>, now: Instant) -> (u64, Option<u64>) {
        let begins = begins.max(Instant::ZERO + self.arrives);
        let leaves = self.leaves.map(|leaves| Instant::ZERO + leaves);
        // A client that would leave later is active until the end of the run.
        let leaves = leaves.filter(|leaves| *leaves <= now);
        let ends = ends.into_iter().chain(leaves).min();
        (begins.as_nanos(), ends.map(Instant::as_nanos))
    }
}

/// An action with its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduledAction {
    /// The time of the action, counted from the beginning of the run.
    pub at: Span,
    /// The action at this time.
    pub action: Action,
}

/// An action during a run. Clients are identified by their index in [`Scenario::clients`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// A change of contracts, groups, spaces or the capacity. If it is refused, the results note
    /// that.
    Change(Vec<Edit>),
    /// A client stops reading its replies, or continues.
    Hold {
        /// The index of the client.
        client: usize,
        /// True if the client stops reading.
        held: bool,
    },
    /// A client cancels the oldest request that it waits for.
    Cancel {
        /// The index of the client.
        client: usize,
    },
}

impl Scenario {
    /// Creates a scenario without clients. The drive has the capacity that its model states, and
    /// the measurement of `duration` begins at once.
    pub fn new(
        name: impl Into<String>,
        drive: weir_model::drive::DriveConfig,
        duration: Span,
    ) -> Self {
        let name = name.into();
        Self {
            case: name.clone(),
            name,
            capacity: drive.capacity(),
            drive,
            freeze: None,
            spread: None,
            spaces: Vec::new(),
            places: Vec::new(),
            groups: Vec::new(),
            changes: Vec::new(),
            clients: Vec::new(),
            filesystem: None,
            adapter: Adapter::default(),
            merging: MergeSettings::default(),
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

    /// Returns the settings for the core under a policy.
    pub fn set_up(&self, policy: &Policy) -> Setup {
        let groups = self.groups.iter().map(|group| GroupNode {
            parent: (group.parent.0 as usize).checked_sub(1),
            contract: group.contract,
        });
        policy.set_up(self.capacity, groups)
    }

    /// Returns the sum of all promises, without a limit by the drive. It is zero if the contracts
    /// contradict each other.
    pub fn promised(&self) -> PromiseSums {
        self.promised_of(ENDLESS)
    }

    /// Returns the sum of all promises as [`Self::promised`] does, with the part of a drive's time
    /// that they take at this capacity.
    pub fn promised_of(&self, capacity: Capacity) -> PromiseSums {
        let groups = self.groups.iter().map(|g| (g.parent, g.contract));
        promised_together(groups, capacity)
    }

    /// Adds a group below an existing group.
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

    /// Gives each client in the root group a group of its own with the default contract.
    pub(crate) fn give_own_groups(&mut self) {
        for at in 0..self.clients.len() {
            if self.clients[at].group == ROOT {
                self.clients[at].group = self.add_group(ROOT, Contract::DEFAULT, Knobs::NONE);
            }
        }
    }

    /// Adds a client with a group below the root and a space of `size` bytes, and returns the
    /// client for further settings.
    pub fn add_client_with_group(
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

    /// Returns the maximum number of bytes of a read or write that reaches the layer as one
    /// request.
    ///
    /// A guest splits requests that are too long for its ring. Linux splits those that are too long
    /// for the drive before controllers and elevators receive them. A server, and Weir's own
    /// elevators, receive requests as a whole.
    pub fn longest(&self, policy: &Policy) -> u32 {
        match &self.guest {
            Some(guest) => guest.longest,
            None if self.path == Path::DIRECT && policy.needs_split_requests() => {
                self.drive.shape().max_transfer
            }
            None => u32::MAX,
        }
    }

    /// Returns the maximum number of requests that a client has in the layer under a policy. A
    /// request that is split counts as several.
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

    /// Returns the position of each space on the drive ([`Self::places`]).
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

    /// Returns the contract of a client's group.
    pub fn contract(&self, client: usize) -> Contract {
        let group = self.clients[client].group.0 as usize;
        match group.checked_sub(1) {
            Some(index) => self.groups[index].contract,
            None => Contract::DEFAULT,
        }
    }

    /// Returns the groups of all clients with a promise, or `None` if no client has one.
    pub fn promised_groups(&self) -> Option<Vec<GroupId>> {
        let clients = self.clients.iter().enumerate();
        let promised = clients.filter(|(at, _)| {
            let contract = self.promised_to(*at);
            contract.min > 0 || contract.min_iops > 0
        });
        let groups: BTreeSet<GroupId> = promised.map(|(_, client)| client.group).collect();
        (!groups.is_empty()).then(|| groups.into_iter().collect())
    }

    /// Returns the contract of a client's group with the smallest min that it has during the run.
    pub fn promised_to(&self, client: usize) -> Contract {
        let group = self.clients[client].group;
        let changes = self.changes.iter().filter(|c| c.group == group);
        changes.fold(self.contract(client), |least, change| Contract {
            min: least.min.min(change.contract.min),
            min_iops: least.min_iops.min(change.contract.min_iops),
            ..least
        })
    }

    /// Returns the latest end of the run, and the end of the measured time. After that, the run
    /// waits only for [`Self::awaits`].
    pub fn ends(&self) -> (Instant, Instant) {
        let over = Instant::ZERO + self.warm_up + self.duration;
        let latest = match self.awaits {
            Some(_) => over + PATIENCE,
            None => over,
        };
        (latest, over)
    }

    /// Returns the sizes of the layer's tables: those of the scenario, or sizes that suffice for
    /// all requests of these clients under a policy.
    pub fn sizes(&self, policy: &Policy) -> Sizes {
        if let Some(sizes) = self.sizes {
            return sizes;
        }
        let depths = self.clients.iter().map(|c| self.outstanding(c, policy));
        let runs_in = self.run_in > Span::ZERO;
        // A file system has a stream and a group of its own.
        let own = u32::from(self.filesystem.is_some());
        let streams = self.clients.len() as u32 + 1 + own;
        // The root is also a group.
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
