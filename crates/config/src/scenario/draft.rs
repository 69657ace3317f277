//! What a scenario's file says, whatever its form, before drive, policy and time are chosen.

use super::expect::{Expect, Published};
use super::{FilesystemKind, Guest, Merging, NrRequests, Path};
use crate::Setting;
use crate::problem::Problem;
use weir_core::{Capacity, Class, Contract, Flags, Knobs, Priority, Span};
use weir_drive::Freeze;
use weir_load::Program;

/// What stands in a file for one case, drive and policy.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) duration: Span,
    pub(super) run_in: Span,
    pub(super) warm_up: Span,
    /// Its last request is waited for.
    pub(super) awaits: Option<String>,
    /// The run ends with its last answer.
    pub(super) exits: Option<String>,
    /// What promises are meant for, in bytes a second.
    pub(super) meant_for: Option<u64>,
    /// What the drive's owner states; `None`: what is chosen beside the scenario.
    pub(super) capacity: Option<Capacity>,
    pub(super) freeze: Option<Freeze>,
    /// Clients without a group have one of their own.
    pub(super) grouped: bool,
    /// Files lie one behind the other on one device.
    pub(super) files: bool,
    pub(super) host: Host,
    pub(super) path: Path,
    pub(super) guest: Option<Guest>,
    pub(super) groups: Vec<Group>,
    pub(super) clients: Vec<Client>,
    pub(super) changes: Vec<Change>,
    /// I/O priorities that are no classes.
    pub(super) unclassed: Vec<Problem>,
}

/// What a file says as a whole.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) load: String,
    pub(super) target: String,
    /// Each client is shown, not the target alone.
    pub(super) shows_clients: bool,
    pub(super) drives: Vec<String>,
    pub(super) policies: Vec<String>,
    pub(super) repetitions: u32,
    pub(super) expects: Vec<Expect>,
    pub(super) published: Vec<Published>,
}

/// The host between clients and drive.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) nr_requests: NrRequests,
    /// An ATA adapter where Linux has one.
    pub(super) adapter: bool,
    pub(super) merging: Merging,
    pub(super) read_ahead: u32,
    pub(super) copy: Span,
    pub(super) wakeup: Span,
    pub(super) filesystem: Option<FilesystemKind>,
}

/// A group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) name: String,
    /// The place of its parent in the list.
    pub(super) parent: Option<usize>,
    pub(super) contract: Contract,
    /// The contract states a class.
    pub(super) has_class: bool,
    pub(super) knobs: Knobs,
}

/// Clients that do the same.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// The name of each.
    pub(super) names: Vec<String>,
    pub(super) program: Program,
    pub(super) flags: Flags,
    pub(super) priority: Priority,
    /// The class that the priority is, where their contract states none and can have it.
    pub(super) class: Option<Class>,
    /// Through the page cache.
    pub(super) buffered: bool,
    /// Its direct writes stand for the page cache's writing back.
    pub(super) write_back: bool,
    /// The virtual machine they are in; `None`: each is in one of its own.
    pub(super) guest: Option<String>,
    pub(super) empty_kicks: u32,
    /// How soon after they were due its reads and writes are to be answered.
    pub(super) deadline: Option<Span>,
    pub(super) arrives: Span,
    pub(super) leaves: Option<Span>,
    /// The file that they share; `None`: each has its own.
    pub(super) file: Option<String>,
    /// Bytes of the file that each uses, where they begin, and how much further each after the first begins.
    pub(super) size: u64,
    pub(super) offset: u64,
    pub(super) increment: u64,
    /// The place of their group in the list.
    pub(super) group: Option<usize>,
    /// What each is promised in a group of its own.
    pub(super) contract: Contract,
    pub(super) knobs: Knobs,
}

/// A contract that takes the place of another.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) at: Span,
    /// The name of a group, or of a client in a group of its own.
    pub(super) whose: String,
    pub(super) contract: Contract,
}

impl Draft {
    /// Changes the contract of a group, or of a client in a group of its own.
    pub(super) fn set(&mut self, setting: &Setting) -> Result<(), Problem> {
        let whose = &setting.whose;
        if let Some(group) = self.groups.iter_mut().find(|g| g.name == *whose) {
            let contract = setting.apply(&group.contract, self.capacity)?;
            group.has_class |= contract.class != group.contract.class;
            group.contract = contract;
            return Ok(());
        }
        let named = |client: &Client| client.names.contains(whose);
        let Some(at) = self.clients.iter().position(named) else {
            let groups = self.groups.iter().map(|g| &g.name);
            let names = groups.chain(self.clients.iter().flat_map(|c| &c.names));
            let known: Vec<&str> = names.map(String::as_str).take(SHOWN).collect();
            let help = format!("use one of {}", known.join(", "));
            return Err(setting.problem(
                "no client and no group has this name".to_owned(),
                Some(help),
            ));
        };
        let client = &self.clients[at];
        if let Some(group) = client.group.and_then(|group| self.groups.get(group)) {
            let what = format!("{whose} has no contract of its own, because it is in a group");
            let help = format!("set the contract of its group, {}", group.name);
            return Err(setting.problem(what, Some(help)));
        }
        let contract = setting.apply(&client.contract, self.capacity)?;
        self.grouped = true;
        let of = self.clients[at].names.iter().position(|name| name == whose);
        self.split(at, of.unwrap_or(0)).contract = contract;
        Ok(())
    }

    /// Takes one of the clients at a place out of those that do the same; their order stays.
    fn split(&mut self, at: usize, of: usize) -> &mut Client {
        let mut one = self.clients[at].clone();
        let mut after = one.clone();
        after.names = self.clients[at].names.split_off(of + 1);
        one.names = self.clients[at].names.split_off(of);
        one.offset += one.increment * of as u64;
        after.offset = one.offset + one.increment;
        let rest = [one, after].into_iter().filter(|c| !c.names.is_empty());
        let place = if of == 0 { at } else { at + 1 };
        self.clients.splice(place..=at, rest);
        &mut self.clients[place]
    }
}

/// Most names that a refusal lists.
const SHOWN: usize = 10;

/// Most clients of a scenario.
pub(super) const CLIENTS: usize = 4096;

/// What results call all clients, or all but one.
pub(super) const RESERVED: [&str; 3] = ["total", "others", "all"];

impl Default for Host {
    fn default() -> Self {
        let buffered = super::Buffered::default();
        Self {
            nr_requests: NrRequests::Unbounded,
            adapter: false,
            merging: Merging::default(),
            read_ahead: buffered.read_ahead,
            copy: buffered.copy,
            wakeup: buffered.wakeup,
            filesystem: None,
        }
    }
}

impl Draft {
    /// The names of all clients, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        let names = self.clients.iter().flat_map(|c| &c.names);
        names.map(String::as_str)
    }
}

/// The names of `count` clients that are called `name`; `None`: of one, called so.
pub(super) fn names(name: &str, count: Option<u64>, first: u64) -> Vec<String> {
    let Some(count) = count else {
        return vec![name.to_owned()];
    };
    let wide = (first + count).saturating_sub(1).to_string().len().max(2);
    let numbers = first..first + count;
    numbers.map(|n| format!("{name}-{n:0wide$}")).collect()
}
