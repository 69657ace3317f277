//! A running server: start, reload and shutdown.

mod explain;
mod hand_over;
mod reload;
mod take_over;
mod upgrade_error;

pub use explain::{ExplainError, Explainer};
pub use hand_over::UpgradeReport;
pub use reload::removed_in_use;
pub use upgrade_error::UpgradeError;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Duration;

use weir_config::units::ByteSize;
use weir_config::{DrivePlan, ListenAddress, Problem, Volume};
use weir_uring::Backend as RingKind;

use crate::acceptor::{
    self, AcceptorContext, Door, ExportTable, InheritedClient, InheritedListeners, ListenRefusal,
    Sockets,
};
use crate::access::Refusals;
use crate::backend::{self, StorageOpener};
use crate::clock::ServerClock;
use crate::created::Created;
use crate::doors::{self, Doors, KeptDoors};
use crate::front;
use crate::front::ublk::Devices;
use crate::front::vhost::EndingSessions;
use crate::parts::Parts;
use crate::record::RecordingThread;
use crate::setup;
use crate::shard::{self, DRIVES_MAX, DriveSetup, Mail, ShardSetup};
use crate::tls::{ManagementTls, TlsOffer};
use crate::watch::ServerMonitor;

use crate::error::{ReloadError, StartError};

/// The memory for the journals of all drives, in bytes. Their tables grow with volumes and
/// connections, and fit into the remaining 16 MiB of a budget of 64 MiB.
const JOURNAL: usize = 48 << 20;

/// Options of a server in addition to its configuration.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The kind of ring that the shards use.
    pub ring: RingKind,
    /// The number of threads that serve drives, at most one for each drive. `None` selects one for
    /// each processor.
    pub shards: Option<usize>,
    /// The time limit of [`LiveServer::shutdown`] for completing accepted requests, and again for
    /// making all volumes durable. Also the time limit of [`LiveServer::reload`] for requests to
    /// volumes that are removed.
    pub drain: Duration,
    /// The file for a recording of all calls into each drive's core and of the core's decisions
    /// ([`weir_core::record`]). With several drives, each has its own file, whose name has `.` and
    /// the drive's name appended. An existing file is not overwritten. The next free number is
    /// appended to the new file's name instead (`FILE.1`). If the file falls more than 64 MiB
    /// behind, the recording is cut off with a line in the log, and a replay reports that.
    pub record: Option<PathBuf>,
    /// The function that opens the storage of a volume: [`backend::open`], or a test's own.
    pub storage: StorageOpener,
    /// The number of lines that are missing from the log of the process. The writer of the log
    /// counts them, and the metrics contain the number.
    pub log_dropped: Arc<AtomicU64>,
}

impl Default for ServerOptions {
    /// Uses `io_uring` if the system supports it, one shard for each processor, a drain time of
    /// five seconds, and no recording.
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

/// A running server. Dropping it ends it in the same way as [`LiveServer::shutdown`].
#[derive(Debug)]
pub struct LiveServer {
    config: weir_config::Server,
    /// The plan of each drive, in the order of the configuration.
    plans: Vec<DrivePlan>,
    places: Vec<acceptor::VolumeLocation>,
    exports: Vec<acceptor::VolumeExport>,
    acceptor: acceptor::AcceptorHandle,
    /// The sockets for management, until [`LiveServer::doors`] takes them.
    doors: Option<Doors>,
    kept_doors: KeptDoors,
    shards: Vec<shard::ShardHandle>,
    devices: Devices,
    addresses: Vec<ListenAddress>,
    records: Vec<JoinHandle<()>>,
    drain: Duration,
    storage: StorageOpener,
    log_dropped: Arc<AtomicU64>,
    tls: Arc<TlsOffer>,
    refusals: Arc<Refusals>,
    /// The number of the next connection.
    next: Arc<AtomicU64>,
    /// True if another process has taken over.
    is_abandoned: bool,
}

/// A server that has opened everything and does not serve anybody yet.
struct PreparedServer {
    config: weir_config::Server,
    plans: Vec<DrivePlan>,
    places: Vec<acceptor::VolumeLocation>,
    exports: Vec<acceptor::VolumeExport>,
    created: Vec<Created>,
    doors: Vec<Door>,
    endings: EndingSessions,
    management: (Doors, KeptDoors),
    records: Vec<RecordingThread>,
    clock: ServerClock,
    shards: Shards,
    /// The space in each shard's ring for operations of block devices.
    rooms: Vec<usize>,
    tls: Arc<TlsOffer>,
}

/// The clients that another process has handed over.
#[derive(Debug)]
struct InheritedClients {
    /// The number of the next connection.
    next: u64,
    clients: Vec<InheritedClient>,
}

impl Default for InheritedClients {
    fn default() -> Self {
        Self {
            next: 1,
            clients: Vec::new(),
        }
    }
}

/// The sockets and the storage that another process has handed over before it stopped serving.
#[derive(Debug, Default)]
struct Inherited {
    listeners: InheritedListeners,
    /// The descriptors of the storage of volumes, by the name of the volume.
    storage: BTreeMap<String, Vec<OwnedFd>>,
}

impl LiveServer {
    /// Opens all volumes and addresses, and starts to serve them.
    ///
    /// # Errors
    /// Returns the first resource that is not available. Nothing is left running in that case.
    pub fn start(
        config: &weir_config::Server,
        options: &ServerOptions,
    ) -> Result<Self, StartError> {
        PreparedServer::open(config, options, Inherited::default())?.serve(options, None)
    }

    /// Returns the addresses at which the server has accepted clients since its start. If the
    /// configuration specifies port 0, the address has the port that the system chose.
    pub fn addresses(&self) -> &[ListenAddress] {
        &self.addresses
    }

    /// Returns the addresses where the server speaks NBD.
    pub fn nbd_addresses(&self) -> &[ListenAddress] {
        // `listen` opens the NBD addresses before the others.
        &self.addresses[..self.config.listen.nbd.len()]
    }

    /// Takes the sockets for management, so that the caller can serve them. Returns `None` if they
    /// were taken before.
    pub fn doors(&mut self) -> Option<Doors> {
        self.doors.take()
    }

    /// Returns a handle for querying the figures and checking that every thread runs.
    pub fn watch(&self) -> ServerMonitor {
        ServerMonitor {
            shards: self
                .shards
                .iter()
                .map(shard::ShardHandle::address)
                .collect(),
            threads: (self.shards.iter().map(|shard| shard.alive.clone()))
                .chain([self.acceptor.alive.clone()])
                .collect(),
            log_dropped: Arc::clone(&self.log_dropped),
            refusals: Arc::clone(&self.refusals),
        }
    }

    /// Returns the certificates in force, for the management interface.
    pub fn management_tls(&self) -> ManagementTls {
        ManagementTls(Arc::clone(&self.tls))
    }

    /// Returns the numbers of refused clients, to which the management interface adds its own.
    pub fn refusals(&self) -> Arc<Refusals> {
        Arc::clone(&self.refusals)
    }

    /// Returns a handle that activates this server's parts of minimums that several servers share.
    pub fn parts(&self) -> Parts {
        Parts {
            shards: self
                .shards
                .iter()
                .map(shard::ShardHandle::address)
                .collect(),
        }
    }

    /// Returns the configuration in force.
    pub fn config(&self) -> &weir_config::Server {
        &self.config
    }

    /// Returns the path of the block device of each volume that has one, such as `/dev/ublkb7` of
    /// `alpha`.
    pub fn devices(&self) -> BTreeMap<String, String> {
        self.devices.names()
    }

    /// Ends the server: stops accepting clients and requests, completes accepted requests, and
    /// makes every volume durable. [`ServerOptions::drain`] limits each of the last two steps. A
    /// request that was not accepted gets no reply, and its connection is closed. A client that
    /// reconnects sends such a request again. Returns true if every shard ended without an error.
    pub fn shutdown(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        if self.is_abandoned {
            return true;
        }
        // The acceptor ends first, so that no further connection reaches a shard that drains.
        self.acceptor.stop();
        self.doors = None;
        self.kept_doors = KeptDoors::default();
        // The devices end before the shards, because removing a device waits for its requests,
        // which the shards complete.
        self.devices.end(self.drain);
        let ended = end_shards(&mut self.shards, self.drain);
        // The last replies are still on their way through the threads of TLS connections.
        self.tls.wait(self.drain);
        end_records(&mut self.records, self.drain);
        ended
    }
}

impl PreparedServer {
    /// Opens everything that a configuration names, except for what another process has handed
    /// over.
    fn open(
        config: &weir_config::Server,
        options: &ServerOptions,
        mut inherited: Inherited,
    ) -> Result<Self, StartError> {
        check(config)?;
        let shards = shard_count(config, options);
        let config = &fit_arenas(config, shards)?;
        // If a step below fails, files and sockets that these steps have created are removed when
        // their values are dropped.
        let unsynced: Vec<String> = inherited.storage.keys().cloned().collect();
        let mut storage = |volume: &Volume| match inherited.storage.remove(&volume.name) {
            Some(descriptors) => backend::inherit(volume, descriptors),
            None => (options.storage)(volume),
        };
        let mut opened = setup::open(config, &mut storage, shards)?;
        let drives = opened.shards.iter_mut().flatten();
        for volume in drives.flat_map(|drive| &mut drive.volumes) {
            volume.unsynced = unsynced.contains(&volume.name);
        }
        let certificates = setup::certificates(config).map_err(StartError::Config)?;
        setup::etcd(config).map_err(StartError::Config)?;
        let tls = Arc::new(TlsOffer::new(certificates, config.limits.connections));
        let listeners = &mut inherited.listeners;
        let mut endings = EndingSessions::default();
        let doors = listen(config, &tls, listeners, &mut endings)?;
        // Another crate serves these sockets. They are opened here, because an address that is in
        // use must refuse the start (docs/decisions/management-server.md).
        let management = Doors::open(config, listeners)
            .map_err(|(key, refusal)| StartError::Config(listen_problem(config, key, refusal)))?;
        let records = start_records(config, options, &mut opened.shards)?;
        let clock = ServerClock::start();
        let (shards, rooms) = start_shards(config, options, opened.shards, clock)?;
        Ok(Self {
            config: config.clone(),
            plans: opened.plans,
            places: opened.places,
            exports: opened.exports,
            created: opened.created,
            doors,
            endings,
            management,
            records,
            clock,
            shards: Shards(shards),
            rooms,
            tls,
        })
    }

    /// Serves clients, those of another process first.
    fn serve(
        self,
        options: &ServerOptions,
        inherited: Option<InheritedClients>,
    ) -> Result<LiveServer, StartError> {
        // An empty list of clients is possible after an upgrade as well, so that the number of
        // clients does not show whether there was one.
        let has_predecessor = inherited.is_some();
        let InheritedClients { next, clients } = inherited.unwrap_or_default();
        let config = &self.config;
        let addresses = self.doors.iter().map(|d| d.listener.address()).collect();
        let shards = self.shards.0.iter();
        let boxes: Vec<_> = shards.map(shard::ShardHandle::address).collect();
        let table = ExportTable::new(self.exports.clone());
        let next = Arc::new(AtomicU64::new(next));
        let mut devices = Devices::new(boxes.clone(), Arc::clone(&next), self.rooms);
        // These two steps come last among those that can fail, because they are the first that let
        // clients in.
        let refusals = Arc::<Refusals>::default();
        let context = AcceptorContext {
            shards: boxes,
            limits: config.limits,
            clock: self.clock,
            next: Arc::clone(&next),
            refusals: Arc::clone(&refusals),
        };
        let started = acceptor::spawn(self.doors, table, context, clients);
        let acceptor = started.map_err(StartError::Thread)?;
        if let Err(problem) = devices.start(config, &self.exports) {
            // The predecessor has ended, and the clients of other volumes must not suffer.
            if has_predecessor {
                tracing::error!(%problem, "the server could not recover the block device of a volume");
            } else {
                devices.end(options.drain);
                return Err(StartError::Config(problem));
            }
        }
        // Nothing below can fail, so the created files are kept and the recordings begin.
        for created in self.created {
            let _ = created.keep();
        }
        let (management, mut kept_doors) = self.management;
        kept_doors.settle();
        let mut records = self.records;
        records.iter_mut().for_each(RecordingThread::begin);
        Ok(LiveServer {
            plans: self.plans,
            places: self.places,
            exports: self.exports,
            acceptor,
            doors: Some(management),
            kept_doors,
            shards: self.shards.take(),
            devices,
            addresses,
            records: records.into_iter().map(RecordingThread::thread).collect(),
            drain: options.drain,
            storage: options.storage,
            log_dropped: Arc::clone(&options.log_dropped),
            tls: self.tls,
            refusals,
            next,
            is_abandoned: false,
            config: self.config,
        })
    }
}

/// Shards that have not served a client. They are ended when this is dropped, unless they are taken
/// before.
struct Shards(Vec<shard::ShardHandle>);

impl Shards {
    fn take(mut self) -> Vec<shard::ShardHandle> {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Shards {
    fn drop(&mut self) {
        // No client has written anything, so nothing has to become durable. The storage can belong
        // to another process, which serves it.
        for shard in &self.0 {
            shard.address().send_mail(Mail::Abandon);
        }
        for shard in &mut self.0 {
            shard.join();
        }
    }
}

/// Waits for the threads that write recordings, for at most `within`.
fn end_records(records: &mut Vec<JoinHandle<()>>, within: Duration) {
    let begun = std::time::Instant::now();
    for record in records.drain(..) {
        while !record.is_finished() && begun.elapsed() < within {
            std::thread::sleep(Duration::from_millis(1));
        }
        if record.is_finished() {
            // If the thread failed, it has logged the reason.
            let _ = record.join();
        } else {
            tracing::error!(
                "the end of a recording could not be written in time; the recording is incomplete"
            );
        }
    }
}

impl Drop for LiveServer {
    fn drop(&mut self) {
        self.end();
    }
}

fn end_shards(shards: &mut [shard::ShardHandle], within: Duration) -> bool {
    for shard in &*shards {
        shard.address().send_mail(Mail::Drain(within));
    }
    let ended = shards.iter_mut().map(shard::ShardHandle::join);
    // `fold` joins all shards. `all` would stop at the first that failed.
    ended.fold(true, |all, one| all & one)
}

/// Checks that the limits permit a shard to hold the configured number of connections.
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
            ByteSize(limits.arena),
            limits.connections,
            ByteSize(least)
        );
        return Err(refused("limits.arena", message));
    }
    Ok(())
}

/// Returns the configuration with arenas that fit into the memory of the process.
pub(crate) fn fit_arenas(
    config: &weir_config::Server,
    shards: usize,
) -> Result<weir_config::Server, StartError> {
    let written = config.is_written("limits.arena");
    let arena = crate::memory::arena(
        &config.limits,
        written,
        shards as u64,
        crate::memory::permitted_memory(),
    );
    let mut fitted = config.clone();
    fitted.limits.arena = arena.map_err(|shortage| {
        StartError::Config(config.problem("limits.arena", shortage.to_string(), None))
    })?;
    if fitted.limits.arena < config.limits.arena {
        let arena = ByteSize(fitted.limits.arena);
        tracing::warn!(
            "reduced limits.arena to {arena}, because memory is scarce; less memory is guaranteed to each client"
        );
    }
    Ok(fitted)
}

/// Returns the number of processors that this process can use.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

pub(crate) fn shard_count(config: &weir_config::Server, options: &ServerOptions) -> usize {
    let wanted = options.shards.unwrap_or_else(processors);
    // A drive belongs to one shard, so a shard without a drive would have nothing to do.
    wanted.clamp(1, config.drives.len().max(1))
}

/// Opens all client addresses. No client is accepted before the acceptor starts.
fn listen(
    config: &weir_config::Server,
    tls: &Arc<TlsOffer>,
    inherited: &mut InheritedListeners,
    endings: &mut EndingSessions,
) -> Result<Vec<Door>, StartError> {
    let sockets = Sockets::of_listen(config);
    let mut doors = Vec::new();
    for (n, address) in config.listen.nbd.iter().enumerate() {
        let key = nbd_key(n);
        let listener = inherited
            .open(&key, address, sockets)
            .map_err(|refusal| StartError::Config(listen_problem(config, &key, refusal)))?;
        doors.push(Door {
            key,
            listener,
            greet: front::nbd::greeter(Arc::clone(tls)),
        });
    }
    for volume in &config.volumes {
        let door = disk(config, volume, inherited, endings).transpose();
        doors.extend(door.map_err(StartError::Config)?);
    }
    Ok(doors)
}

/// Opens the vhost-user socket of a volume, if the volume has one.
fn disk(
    config: &weir_config::Server,
    volume: &Volume,
    inherited: &mut InheritedListeners,
    endings: &mut EndingSessions,
) -> Option<Result<Door, Problem>> {
    let address = ListenAddress::Unix(volume.vhost.clone()?);
    let key = volume.vhost_key();
    let opened = inherited.open(&key, &address, Sockets::of_listen(config));
    let door = opened.map(|listener| Door {
        key,
        listener,
        greet: front::vhost::greeter(&volume.name, endings),
    });
    Some(door.map_err(|refusal| listen_problem(config, &volume.vhost_key(), refusal)))
}

/// Returns the configuration key of an NBD address, by its index.
pub(crate) fn nbd_key(number: usize) -> String {
    format!("listen.nbd[{number}]")
}

/// Returns the problem of an address, at its key or at the key of the sockets' owner.
pub(crate) fn listen_problem(
    config: &weir_config::Server,
    key: &str,
    refusal: ListenRefusal,
) -> Problem {
    let key = match (refusal.owner, key) {
        (true, doors::SOCKET_KEY) => "manage.socket_owner",
        (true, _) => "listen.socket_owner",
        (false, key) => key,
    };
    let help = (!refusal.help.is_empty()).then_some(refusal.help);
    config.problem(key, refusal.what, help)
}

/// Creates the files of recordings and their threads, if recordings are requested.
fn start_records(
    config: &weir_config::Server,
    options: &ServerOptions,
    shards: &mut [Vec<DriveSetup>],
) -> Result<Vec<RecordingThread>, StartError> {
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

/// Starts a thread for each shard. Also returns the number of operations of block devices for which
/// each ring has space. If one fails to start, the shards before it are ended.
fn start_shards(
    config: &weir_config::Server,
    options: &ServerOptions,
    setups: Vec<Vec<DriveSetup>>,
    clock: ServerClock,
) -> Result<(Vec<shard::ShardHandle>, Vec<usize>), StartError> {
    if setups.iter().any(|drives| drives.len() > DRIVES_MAX) {
        let what = format!("too many drives: a shard can serve at most {DRIVES_MAX}");
        return Err(StartError::Config(config.problem("drive", what, None)));
    }
    let mut shards = Shards(Vec::new());
    let mut rooms = Vec::new();
    let spin = spin(config, setups.len());
    for (number, drives) in setups.into_iter().enumerate() {
        let (ring, room) = ring(config, options, spin, &drives);
        rooms.push(room);
        let setup = ShardSetup {
            number,
            clock,
            limits: config.limits,
            priority: config.process.priority,
            ring,
            journal: JOURNAL / config.drives.len().max(1),
            drives,
        };
        shards.0.push(shard::spawn(setup)?);
    }
    Ok((shards.take(), rooms))
}

/// Returns the maximum time for which the waits of a shard poll. Shards never poll if they could
/// occupy every CPU that this process can use, because the clients need one as well.
fn spin(config: &weir_config::Server, shards: usize) -> Duration {
    if shards < processors() {
        Duration::from_nanos(config.process.spin.as_nanos())
    } else {
        Duration::ZERO
    }
}

/// Returns the configuration of a ring, and the number of operations of block devices that it has
/// space for. The ring has space for one receive and one send of every connection (of clients and
/// to remote servers), for the commands of all drives, and for block devices.
fn ring(
    config: &weir_config::Server,
    options: &ServerOptions,
    spin: Duration,
    drives: &[DriveSetup],
) -> (weir_uring::IoRingConfig, usize) {
    let pieces = drives.iter().map(|drive| {
        let shape = drive.plan.config.drive;
        usize::from(shape.queues) * usize::from(shape.tags)
    });
    // A drive without a block device has space for one, because a reload can add it.
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
    let in_flight = (others + devices).min(weir_uring::IoRingConfig::MAX_IN_FLIGHT);
    let files = config.volumes.iter().any(|v| {
        matches!(
            v.storage,
            weir_config::Storage::File(_) | weir_config::Storage::Device(_)
        )
    });
    let ring = weir_uring::IoRingConfig {
        backend: options.ring,
        arena_bytes: config.limits.arena as usize,
        in_flight,
        // The arena is registered for operations on files and devices. Operations on sockets do not
        // benefit, and registration pins the memory.
        registered_bytes: if files { usize::MAX } else { 0 },
        spin,
    };
    (ring, in_flight.saturating_sub(others))
}
