//! Scenes: clients with contracts on a drive, and the rules that are checked.

use super::{SceneClient, contracts, kinds};
use crate::audit::random::RandomDecisions;
use weir_core::{Config, Contract, GroupId, Instant, Span};

/// A rule that is checked in a scene, in addition to the rules for all runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SceneWatch {
    /// Checks shares with this lag in bytes, see [`crate::audit::Fair`].
    Shares {
        /// The allowed lead in bytes of each of two siblings.
        lag: u64,
        /// The additional lead in bytes of the lightest sibling.
        owed: u64,
        /// The number of turns at the beginning that do not count.
        skip: u64,
    },
    /// Checks waits with this bound, see [`crate::audit::Starvation`].
    Waits {
        /// The longest allowed wait for a dispatch.
        bound: Span,
    },
    /// Checks mins in seconds that begin at `from` or later, see [`crate::audit::PromiseAuditor`].
    Promises {
        /// The beginning of the first second that counts.
        from: Instant,
        /// The part of the owed amount to be kept, in thousandths.
        least: u64,
    },
    /// Checks waits of realtime clients with this bound, see [`crate::audit::Realtime`].
    Realtime {
        /// The longest allowed wait for a dispatch.
        bound: Span,
    },
    /// Checks the service of the idle class, see [`crate::audit::Idle`].
    Idle,
}

/// A modelled drive. It serves requests in parallel, in `service` each, and then moves their bytes
/// over one link, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SteadyDrive {
    /// The service time of a request before its bytes cross the link.
    pub service: Span,
    /// The time of a KiB that is read on the link, in nanoseconds.
    pub read_ns_per_kib: u64,
    /// The time of a KiB that is written, in nanoseconds.
    pub write_ns_per_kib: u64,
    /// The minimum time of a request on the link, in nanoseconds.
    pub request_ns: u64,
    /// The frequency of errors: one of this many pieces fails. With zero, none does.
    pub error_in: u64,
    /// The frequency of busy drives: one of this many pieces is returned as busy. With zero, none
    /// is.
    pub busy_in: u64,
}

/// An event in a scene other than its clients' requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SceneStep {
    /// A client that left connects again.
    Connect(u32),
    /// A client disconnects: its stream is closed.
    Disconnect(u32),
    /// A client is put on hold, or resumed.
    Hold(u32, bool),
    /// A client cancels its newest request.
    Cancel(u32),
    /// A group gets another contract.
    Change(GroupId, Contract),
}

/// A scene: clients, their contracts, and the drive that they share.
#[derive(Clone, Debug)]
pub struct SteadyScene {
    /// The configuration of the layer.
    pub config: Config,
    /// The groups in slots 1 and up: the parent and the contract of each.
    pub groups: Vec<(GroupId, Contract)>,
    /// The clients, at most 65536 of them.
    pub clients: Vec<SceneClient>,
    /// The drive that the clients share.
    pub drive: SteadyDrive,
    /// Other events, with their times after the start.
    pub script: Vec<(Span, SceneStep)>,
    /// The virtual time for which the scene runs.
    pub duration: Span,
    /// True if clients read at the same offsets instead of each in its own region.
    pub near: bool,
    /// The rules that are checked.
    pub watch: Vec<SceneWatch>,
}

/// Defines the kinds of scenes, each with the function that draws one.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $draw:path,)*) => {
        listed! {
            /// The kinds of scenes.
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            pub enum Kind { $($(#[$doc])* $kind,)* }
        }

        impl SteadyScene {
            /// Draws a scene of a kind.
            pub fn draw(kind: Kind, random: &mut RandomDecisions) -> Self {
                match kind { $(Kind::$kind => $draw(random),)* }
            }
        }
    };
}

kinds! {
    /// Shares under `bfq`, charged by service, on a tree of two levels, where some clients pause.
    BfqShares = kinds::bfq_shares,
    /// Shares under `contract`, shared by bytes, on a tree of two levels, where some clients pause.
    ContractShares = kinds::contract_shares,
    /// Shares under `io.cost`, whose model prices bytes alone, on a tree of two levels.
    CostShares = kinds::cost_shares,
    /// Shares under `cfq` where it charges by requests, all of one size, on a tree of two levels.
    CfqShares = kinds::cfq_shares,
    /// Waits under `cfq` where it idles: clients with think time among others that always have
    /// requests.
    CfqWaits = kinds::cfq_waits,
    /// Waits under `bfq` without low latency and injection: a client of the idle class, and clients
    /// with think time, among others that always have requests.
    BfqWaits = kinds::bfq_waits,
    /// Waits under `contract`: a client of the idle class among others.
    ContractWaits = kinds::contract_waits,
    /// Waits under `mq-deadline`: readers and writers, each of which could continue for ever where
    /// it is.
    DeadlineWaits = kinds::deadline_waits,
    /// Waits under `kyber`: readers and writers, with targets for latency that leave one of them
    /// few places in the drive.
    KyberWaits = kinds::kyber_waits,
    /// Mins on a drive that can keep them: clients with one small request at a time among others
    /// that read large requests.
    Promises = kinds::promises,
    /// Mins in requests and in bytes, of readers and writers.
    Requests = contracts::requests,
    /// Mins of tenants and of some of their members.
    Tenants = contracts::tenants,
    /// Realtime clients among promised and greedy ones, which must be served at once.
    Realtime = contracts::realtime,
    /// Realtime clients among promised and greedy ones, next to which promises must be kept.
    RealtimeBeside = contracts::realtime_beside,
    /// Realtime clients whose limits let them send at once the amount of up to a tenth of a second.
    RealtimeBursts = contracts::realtime_bursts,
    /// Realtime clients with requests that take the drive longer than a promised client can wait.
    RealtimeLarge = contracts::realtime_large,
    /// A realtime client with requests so small that its limit, in bytes, lets it take the whole
    /// drive.
    RealtimeSmall = contracts::realtime_small,
    /// Promised clients on a drive slower than its stated capacity, all of which get less in
    /// proportion.
    SlowDrive = contracts::slow_drive,
    /// Promised clients and a realtime one on a drive slower than its stated capacity.
    SlowRealtime = contracts::slow_realtime,
    /// Clients of the idle class in tenants that are served often.
    IdleMembers = contracts::idle_members,
    /// Clients of the idle class next to each other, in tenants of the idle class or of small
    /// share, and among promised and realtime clients that may take the whole drive.
    IdleDeep = contracts::idle_deep,
    /// Promises of all kinds while clients connect and disconnect, pause, are put on hold, cancel
    /// requests and get other contracts, on a drive that is sometimes busy and sometimes fails.
    Unrest = contracts::unrest,
    /// Promises of all kinds, with clients of the classes realtime and idle among them, while
    /// clients connect and disconnect and contracts change.
    UnrestOfClasses = contracts::unrest_of_classes,
}
