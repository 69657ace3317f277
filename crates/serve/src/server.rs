//! A running server: starting, reloading, ending.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use weir_config::{Address, Plan, Problem};
use weir_uring::Backend as RingKind;

use crate::acceptor::{self, Listener, Table};
use crate::clock::Clock;
use crate::metrics;
use crate::setup;
use crate::shard::{self, DRIVES_MAX, DriveSetup, Mail, Setup};

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
    /// file; with several, each has one of this name with `.` and the drive's name appended. The record is cut, with a line
    /// in the log, if the file is slower than the clients for more than 64 MiB; a replay says so.
    pub record: Option<PathBuf>,
}

impl Default for Options {
    /// `io_uring` where the system allows it, a shard for each processor, five seconds, no record.
    fn default() -> Self {
        Self {
            ring: RingKind::Auto,
            shards: None,
            drain: Duration::from_secs(5),
            record: None,
        }
    }
}

/// Why a server did not start. Nothing of it is left running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A volume's storage cannot be opened.
    #[error("{0}")]
    Volume(Problem),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: String,
        /// What the system answered.
        error: io::Error,
    },
    /// A shard cannot run: its ring, its drives' tables or contracts.
    #[error("{0}")]
    Shard(String),
    /// More than the server is built for.
    #[error("{0}")]
    TooMuch(String),
    /// A thread beside the shards cannot run.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The record cannot be written.
    #[error("cannot create the record {path}: {error}", path = path.display())]
    Record {
        /// Its file.
        path: PathBuf,
        /// What the system answered.
        error: io::Error,
    },
}

/// A running server. Dropping it ends it as [`Server::shutdown`] does.
#[derive(Debug)]
pub struct Server {
    pub(crate) config: weir_config::Server,
    /// Of each drive, in the order of the configuration.
    pub(crate) plans: Vec<Plan>,
    pub(crate) places: Vec<acceptor::Place>,
    pub(crate) exports: Vec<acceptor::Export>,
    pub(crate) acceptor: acceptor::Handle,
    metrics: Option<metrics::Handle>,
    pub(crate) shards: Vec<shard::Handle>,
    addresses: Vec<Address>,
    records: Vec<JoinHandle<()>>,
    pub(crate) drain: Duration,
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
        let mut opened = setup::open(config, shards)?;
        // Before anything of a client's can come in.
        let listeners = listen(config)?;
        let records = start_records(config, options, &mut opened.shards)?;
        let addresses = listeners.iter().map(Listener::address).collect();
        let clock = Clock::start();
        let shards = start_shards(config, options, opened.shards, clock)?;
        let boxes: Vec<_> = shards.iter().map(shard::Handle::address).collect();
        let exports = opened.exports;
        let table = Table::new(exports.clone());
        let started = acceptor::spawn(listeners, table, boxes.clone(), config.limits, clock);
        let mut server = Self {
            config: config.clone(),
            plans: opened.plans,
            places: opened.places,
            exports,
            // From here on dropping the server ends the shards.
            acceptor: started.map_err(StartError::Thread)?,
            metrics: None,
            shards,
            addresses,
            records,
            drain: options.drain,
        };
        if let Some(address) = config.listen.metrics {
            let listening = metrics::spawn(address, boxes);
            server.metrics = Some(listening.map_err(|error| StartError::Listen {
                address: address.to_string(),
                error,
            })?);
        }
        Ok(server)
    }

    /// Where clients reach it: what the configuration says, with the port that was free where it said 0.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Where `GET /metrics` is answered, if it is.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|metrics| metrics.address)
    }

    /// The configuration in force.
    pub fn config(&self) -> &weir_config::Server {
        &self.config
    }

    /// Whether every shard runs. One that does not has failed and said so in the log; its drives are not served any more.
    pub fn is_running(&self) -> bool {
        self.shards.iter().all(shard::Handle::is_running)
    }

    /// Ends the server: accepts nobody and takes no request any more, answers what was taken from clients, makes every volume
    /// durable; [`Options::drain`] bounds both. A request that was not taken gets no answer but the end of its connection: clients
    /// that connect again send it again. Returns whether every shard ended as it should.
    pub fn shutdown(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        self.acceptor.stop();
        self.metrics = None;
        let ended = end_shards(&mut self.shards, self.drain);
        end_records(&mut self.records, self.drain);
        ended
    }
}

/// Waits for the threads that write records, so long.
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
            tracing::error!("a record's file does not take its end: the record is cut");
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
fn check(config: &weir_config::Server) -> Result<(), StartError> {
    let limits = &config.limits;
    let most = weir_config::Limits::CONNECTIONS_MAX;
    if limits.connections > most {
        let message = format!(
            "limits.connections = {}: at most {most} are served",
            limits.connections
        );
        return Err(StartError::TooMuch(message));
    }
    let least = limits.arena_min();
    if limits.arena < least {
        let message = format!(
            "limits.arena = {} bytes is too little for {} connections: it takes {least} (limits.connections)",
            limits.arena, limits.connections
        );
        return Err(StartError::TooMuch(message));
    }
    Ok(())
}

/// The configuration with buffers for which there is memory.
fn fitted(config: &weir_config::Server, shards: usize) -> Result<weir_config::Server, StartError> {
    let written = config.is_written("limits.arena");
    let arena = crate::memory::arena(
        &config.limits,
        written,
        shards as u64,
        crate::memory::permitted(),
    );
    let mut fitted = config.clone();
    fitted.limits.arena = arena.map_err(StartError::TooMuch)?;
    if fitted.limits.arena < config.limits.arena {
        let arena = weir_config::units::Size(fitted.limits.arena);
        tracing::warn!(
            "limits.arena is {arena}, as the control group's memory permits: each client is sure of less than usual"
        );
    }
    Ok(fitted)
}

fn shard_count(config: &weir_config::Server, options: &Options) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let wanted = options.shards.unwrap_or(processors);
    wanted.clamp(1, config.drives.len().max(1))
}

fn listen(config: &weir_config::Server) -> Result<Vec<Listener>, StartError> {
    let addresses = config.listen.nbd.iter();
    addresses
        .map(|address| {
            Listener::open(address, &config.listen).map_err(|error| StartError::Listen {
                address: address.to_string(),
                error,
            })
        })
        .collect()
}

/// Starts the threads that write records, if any are wanted.
fn start_records(
    config: &weir_config::Server,
    options: &Options,
    shards: &mut [Vec<DriveSetup>],
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let mut threads = Vec::new();
    if let Some(path) = &options.record {
        for drive in shards.iter_mut().flatten() {
            let path = crate::record::path(path, &drive.name, config.drives.len() == 1);
            let started = crate::record::start(&path, &drive.name);
            let (tape, thread) = started.map_err(|error| StartError::Record { path, error })?;
            drive.tape = Some(tape);
            threads.push(thread);
        }
    }
    Ok(threads)
}

/// Starts a thread for each shard; if one fails, those before it are ended.
fn start_shards(
    config: &weir_config::Server,
    options: &Options,
    setups: Vec<Vec<DriveSetup>>,
    clock: Clock,
) -> Result<Vec<shard::Handle>, StartError> {
    if setups.iter().any(|drives| drives.len() > DRIVES_MAX) {
        return Err(StartError::TooMuch(format!(
            "a shard serves at most {DRIVES_MAX} drives"
        )));
    }
    let mut shards: Vec<shard::Handle> = Vec::new();
    for (number, drives) in setups.into_iter().enumerate() {
        let setup = Setup {
            number,
            clock,
            limits: config.limits,
            priority: config.priority,
            ring: ring(config, options, &drives),
            drives,
        };
        match shard::spawn(setup) {
            Ok(shard) => shards.push(shard),
            Err(reason) => {
                end_shards(&mut shards, Duration::ZERO);
                return Err(StartError::Shard(reason));
            }
        }
    }
    Ok(shards)
}

/// A ring with room for a receive and a send of every connection and for what the drives take.
fn ring(
    config: &weir_config::Server,
    options: &Options,
    drives: &[DriveSetup],
) -> weir_uring::Config {
    let pieces = drives.iter().map(|drive| {
        let shape = drive.plan.config.drive;
        usize::from(shape.queues) * usize::from(shape.tags)
    });
    let wanted = 2 * config.limits.connections as usize + pieces.sum::<usize>() + 64;
    let files = config.volumes.iter().any(|v| {
        matches!(
            v.storage,
            weir_config::Storage::File(_) | weir_config::Storage::Device(_)
        )
    });
    weir_uring::Config {
        backend: options.ring,
        arena_bytes: config.limits.arena as usize,
        in_flight: wanted.min(weir_uring::Config::MAX_IN_FLIGHT),
        // Sockets gain nothing from it, and it pins the memory.
        registered_bytes: if files { usize::MAX } else { 0 },
    }
}
