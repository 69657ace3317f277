//! A running server: starting, reloading, ending.

mod explain;
mod reload;

pub use explain::{ExplainError, Explainer};
pub use reload::removed_in_use;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Duration;

use weir_config::units::Size;
use weir_config::{Address, Plan, Problem, Volume};
use weir_uring::Backend as RingKind;

use crate::acceptor::{self, Door, Listener, Refusal, Sockets, Table};
use crate::backend::{self, Open};
use crate::clock::Clock;
use crate::doors::{self, Doors};
use crate::front;
use crate::front::ublk::Devices;
use crate::parts::Parts;
use crate::record::Record;
use crate::setup;
use crate::shard::{self, DRIVES_MAX, DriveSetup, Mail, Setup};
use crate::watch::Watch;

use crate::error::{ReloadError, StartError};

/// Bytes that the journals of all drives take up when they are full; their tables, which grow with volumes and connections, come to less
/// than the rest of 64 MiB.
const JOURNAL: usize = 48 << 20;

/// How a server is run, beside its configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which ring the shards use.
    pub ring: RingKind,
    /// Threads that serve drives; at most as many as there are drives are started. `None`: as many as there are processors.
    pub shards: Option<usize>,
    /// How long [`Server::shutdown`] waits for the answers to what was taken from clients, and then as long again for the storage to
    /// make everything durable; and how long [`Server::reload`] waits for clients of volumes that go.
    pub drain: Duration,
    /// Where to write the calls into each drive's core and what they decided ([`weir_core::record`]). With one drive that is the
    /// file; with several, each has one of this name with `.` and the drive's name appended. A file that is there stays, and the record
    /// has the next free number appended (`FILE.1`). The record is cut, with a line
    /// in the log, if the file is slower than the clients for more than 64 MiB; a replay says so.
    pub record: Option<PathBuf>,
    /// Opens what a volume of the configuration says: [`backend::open`], or a test's own storage.
    pub storage: Open,
    /// Number of lines that the log of the process lacks, counted by its writer. The metrics have
    /// it.
    pub log_dropped: Arc<AtomicU64>,
}

impl Default for Options {
    /// `io_uring` where the system allows it, a shard for each processor, five seconds, no record.
    fn default() -> Self {
        Self {
            ring: RingKind::Auto,
            shards: None,
            drain: Duration::from_secs(5),
            record: None,
            storage: backend::open,
            log_dropped: Arc::default(),
        }
    }
}

/// A running server. Dropping it ends it as [`Server::shutdown`] does.
#[derive(Debug)]
pub struct Server {
    config: weir_config::Server,
    /// Of each drive, in the order of the configuration.
    plans: Vec<Plan>,
    places: Vec<acceptor::Place>,
    exports: Vec<acceptor::Export>,
    acceptor: acceptor::Handle,
    /// Until they are taken.
    doors: Option<Doors>,
    shards: Vec<shard::Handle>,
    devices: Devices,
    addresses: Vec<Address>,
    records: Vec<JoinHandle<()>>,
    drain: Duration,
    storage: Open,
    log_dropped: Arc<AtomicU64>,
}

impl Server {
    /// Opens every volume and every address, and serves.
    ///
    /// # Errors
    /// The first thing that cannot be had; nothing is left running then.
    pub fn start(config: &weir_config::Server, options: &Options) -> Result<Self, StartError> {
        check(config)?;
        let shards = shard_count(config, options);
        let config = &fitted(config, shards)?;
        // What these make goes with them if anything below is refused.
        let mut opened = setup::open(config, options.storage, shards)?;
        let doors = listen(config)?;
        let mut management = Doors::open(config)
            .map_err(|(key, refusal)| StartError::Config(listen_problem(config, key, refusal)))?;
        let mut records = start_records(config, options, &mut opened.shards)?;
        let addresses = doors.iter().map(|door| door.listener.address()).collect();
        let clock = Clock::start();
        let (shards, rooms) = start_shards(config, options, opened.shards, clock)?;
        let shards = Shards(shards);
        let boxes: Vec<_> = shards.0.iter().map(shard::Handle::address).collect();
        let table = Table::new(opened.exports.clone());
        let next = Arc::new(AtomicU64::new(1));
        let mut devices = Devices::new(boxes.clone(), Arc::clone(&next), rooms);
        // The last that can fail, and the first that serve a client.
        let started = acceptor::spawn(doors, table, boxes, config.limits, (clock, next));
        let acceptor = started.map_err(StartError::Thread)?;
        if let Err(problem) = devices.start(config, &opened.exports) {
            devices.end(options.drain);
            return Err(StartError::Config(problem));
        }
        for created in opened.created {
            let _ = created.keep();
        }
        management.settle();
        records.iter_mut().for_each(Record::begin);
        Ok(Self {
            config: config.clone(),
            plans: opened.plans,
            places: opened.places,
            exports: opened.exports,
            acceptor,
            doors: Some(management),
            shards: shards.take(),
            devices,
            addresses,
            records: records.into_iter().map(Record::thread).collect(),
            drain: options.drain,
            storage: options.storage,
            log_dropped: Arc::clone(&options.log_dropped),
        })
    }

    /// Where clients have reached it since its start: what the configuration said, with the port that was free where it said 0.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Those at which they speak NBD.
    pub fn nbd_addresses(&self) -> &[Address] {
        // `listen` has opened them before the others.
        &self.addresses[..self.config.listen.nbd.len()]
    }

    /// Where it is asked and changed, for the caller to answer there; `None` if that was taken before.
    pub fn doors(&mut self) -> Option<Doors> {
        self.doors.take()
    }

    /// A way to ask how things stand, and whether every thread runs.
    pub fn watch(&self) -> Watch {
        Watch {
            shards: self.shards.iter().map(shard::Handle::address).collect(),
            threads: (self.shards.iter().map(|shard| shard.alive.clone()))
                .chain([self.acceptor.alive.clone()])
                .collect(),
            log_dropped: Arc::clone(&self.log_dropped),
        }
    }

    /// A way to say which parts of minimums that several servers keep are promised here.
    pub fn parts(&self) -> Parts {
        Parts {
            shards: self.shards.iter().map(shard::Handle::address).collect(),
        }
    }

    /// The configuration in force.
    pub fn config(&self) -> &weir_config::Server {
        &self.config
    }

    /// The block device of each volume that is one: `/dev/ublkb7` of `alpha`.
    pub fn devices(&self) -> BTreeMap<String, String> {
        self.devices.names()
    }

    /// Ends the server: accepts nobody and takes no request any more, answers what was taken from clients, makes every volume
    /// durable; [`Options::drain`] bounds both. A request that was not taken gets no answer but the end of its connection: clients
    /// that connect again send it again. Returns whether every shard ended as it should.
    pub fn shutdown(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        self.acceptor.stop();
        self.doors = None;
        // Requests of theirs are answered until they are gone.
        self.devices.end(self.drain);
        let ended = end_shards(&mut self.shards, self.drain);
        end_records(&mut self.records, self.drain);
        ended
    }
}

/// Shards that are ended unless they are taken.
struct Shards(Vec<shard::Handle>);

impl Shards {
    fn take(mut self) -> Vec<shard::Handle> {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Shards {
    fn drop(&mut self) {
        end_shards(&mut self.0, Duration::ZERO);
    }
}

/// Waits for the threads that write records, `within` at most.
fn end_records(records: &mut Vec<JoinHandle<()>>, within: Duration) {
    let begun = std::time::Instant::now();
    for record in records.drain(..) {
        while !record.is_finished() && begun.elapsed() < within {
            std::thread::sleep(Duration::from_millis(1));
        }
        if record.is_finished() {
            // What it failed with it has said.
            let _ = record.join();
        } else {
            tracing::error!(
                "the end of a recording could not be written in time; the recording is incomplete"
            );
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn end_shards(shards: &mut [shard::Handle], within: Duration) -> bool {
    for shard in &*shards {
        shard.address().tell(Mail::Drain(within));
    }
    let ended = shards.iter_mut().map(shard::Handle::join);
    // All of them, not only up to the first that failed.
    ended.fold(true, |all, one| all & one)
}

/// Whether a shard has room for as many connections as there may be.
pub(crate) fn check(config: &weir_config::Server) -> Result<(), StartError> {
    let limits = &config.limits;
    let most = weir_config::Limits::CONNECTIONS_MAX;
    let refused = |key: &str, what| StartError::Config(config.problem(key, what, None));
    if limits.connections > most {
        let message = format!("must be at most {most}, not {}", limits.connections);
        return Err(refused("limits.connections", message));
    }
    let least = limits.arena_min();
    if limits.arena < least {
        let message = format!(
            "{} is too small for {} connections (limits.connections), which need {}",
            Size(limits.arena),
            limits.connections,
            Size(least)
        );
        return Err(refused("limits.arena", message));
    }
    Ok(())
}

/// The configuration with buffers for which there is memory.
pub(crate) fn fitted(
    config: &weir_config::Server,
    shards: usize,
) -> Result<weir_config::Server, StartError> {
    let written = config.is_written("limits.arena");
    let arena = crate::memory::arena(
        &config.limits,
        written,
        shards as u64,
        crate::memory::permitted(),
    );
    let mut fitted = config.clone();
    fitted.limits.arena = arena.map_err(|shortage| {
        StartError::Config(config.problem("limits.arena", shortage.to_string(), None))
    })?;
    if fitted.limits.arena < config.limits.arena {
        let arena = Size(fitted.limits.arena);
        tracing::warn!(
            "reduced limits.arena to {arena}, because memory is scarce; less memory is guaranteed to each client"
        );
    }
    Ok(fitted)
}

pub(crate) fn shard_count(config: &weir_config::Server, options: &Options) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let wanted = options.shards.unwrap_or(processors);
    wanted.clamp(1, config.drives.len().max(1))
}

/// Opens every address, before anything of a client's can come in.
fn listen(config: &weir_config::Server) -> Result<Vec<Door>, StartError> {
    let sockets = Sockets::of_listen(config);
    let addresses = config.listen.nbd.iter().enumerate();
    addresses
        .map(|(n, address)| {
            let listener = Listener::open(address, sockets)
                .map_err(|refusal| listen_problem(config, &nbd_key(n), refusal))?;
            Ok(Door {
                listener,
                greet: Arc::new(front::nbd::greet),
            })
        })
        .chain(config.volumes.iter().filter_map(|v| disk(config, v)))
        .collect::<Result<_, _>>()
        .map_err(StartError::Config)
}

/// Opens the socket at which virtual machines find a volume, if it is to have one.
fn disk(config: &weir_config::Server, volume: &Volume) -> Option<Result<Door, Problem>> {
    let address = Address::Unix(volume.vhost.clone()?);
    let opened = Listener::open(&address, Sockets::of_listen(config));
    let door = opened.map(|listener| Door {
        listener,
        greet: front::vhost::greeter(&volume.name),
    });
    Some(door.map_err(|refusal| listen_problem(config, &volume.vhost_key(), refusal)))
}

/// The key of an address of NBD, by its number.
pub(crate) fn nbd_key(number: usize) -> String {
    format!("listen.nbd[{number}]")
}

/// What is wrong with an address, at its key or that of the sockets' owner.
pub(crate) fn listen_problem(config: &weir_config::Server, key: &str, refusal: Refusal) -> Problem {
    let key = match (refusal.owner, key) {
        (true, doors::SOCKET_KEY) => "manage.socket_owner",
        (true, _) => "listen.socket_owner",
        (false, key) => key,
    };
    let help = (!refusal.help.is_empty()).then_some(refusal.help);
    config.problem(key, refusal.what, help)
}

/// Starts the threads that write records, if any are wanted.
fn start_records(
    config: &weir_config::Server,
    options: &Options,
    shards: &mut [Vec<DriveSetup>],
) -> Result<Vec<Record>, StartError> {
    let mut records = Vec::new();
    if let Some(path) = &options.record {
        for drive in shards.iter_mut().flatten() {
            let path = crate::record::path(path, &drive.name, config.drives.len() == 1);
            let started = crate::record::start(&path, &drive.name);
            let (tape, record) = started.map_err(|error| StartError::Record { path, error })?;
            drive.tape = Some(tape);
            records.push(record);
        }
    }
    Ok(records)
}

/// Starts a thread for each shard, and says for how many operations of block devices each has room; those before one that fails are ended.
fn start_shards(
    config: &weir_config::Server,
    options: &Options,
    setups: Vec<Vec<DriveSetup>>,
    clock: Clock,
) -> Result<(Vec<shard::Handle>, Vec<usize>), StartError> {
    if setups.iter().any(|drives| drives.len() > DRIVES_MAX) {
        let what = format!("too many drives: a shard can serve at most {DRIVES_MAX}");
        return Err(StartError::Config(config.problem("drive", what, None)));
    }
    let mut shards = Shards(Vec::new());
    let mut rooms = Vec::new();
    for (number, drives) in setups.into_iter().enumerate() {
        let (ring, room) = ring(config, options, &drives);
        rooms.push(room);
        let setup = Setup {
            number,
            clock,
            limits: config.limits,
            priority: config.priority,
            ring,
            journal: JOURNAL / config.drives.len().max(1),
            drives,
        };
        shards.0.push(shard::spawn(setup)?);
    }
    Ok((shards.take(), rooms))
}

/// A ring with room for a receive and a send of every connection, of clients and to remote servers, for what the drives take and for block devices; and for how many operations
/// of the latter.
fn ring(
    config: &weir_config::Server,
    options: &Options,
    drives: &[DriveSetup],
) -> (weir_uring::Config, usize) {
    let pieces = drives.iter().map(|drive| {
        let shape = drive.plan.config.drive;
        usize::from(shape.queues) * usize::from(shape.tags)
    });
    // One that comes with a reload has room, too.
    let devices = drives.iter().map(|drive| {
        let shape = drive.plan.config.drive;
        let now = drive.volumes.iter().filter(|volume| {
            let volume = config.volume(&volume.name);
            volume.is_some_and(|volume| volume.ublk)
        });
        now.count().max(1) * front::ublk::operations(shape.queues, shape.tags)
    });
    let devices: usize = devices.sum();
    let remotes = config.volumes.iter().map(|volume| match &volume.storage {
        weir_config::Storage::Nbd(remote) => 2 * remote.connections as usize,
        _ => 0,
    });
    let connections = config.limits.connections;
    let connections = connections as usize + crate::places::spare(connections);
    let sockets = 2 * connections + remotes.sum::<usize>();
    let others = sockets + pieces.sum::<usize>() + 64;
    let in_flight = (others + devices).min(weir_uring::Config::MAX_IN_FLIGHT);
    let files = config.volumes.iter().any(|v| {
        matches!(
            v.storage,
            weir_config::Storage::File(_) | weir_config::Storage::Device(_)
        )
    });
    let ring = weir_uring::Config {
        backend: options.ring,
        arena_bytes: config.limits.arena as usize,
        in_flight,
        // Sockets gain nothing from it, and it pins the memory.
        registered_bytes: if files { usize::MAX } else { 0 },
    };
    (ring, in_flight.saturating_sub(others))
}
