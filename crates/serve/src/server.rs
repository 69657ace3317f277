//! A running server: starting, reloading, ending.

use std::io;
use std::time::Duration;

use weir_config::{Address, Problem, plan};
use weir_uring::Backend as RingKind;
use weir_wire::nbd::{BlockSizes, ExportInfo, TransmissionFlags};

use crate::acceptor::{self, Export, Listener, Table};
use crate::backend::{self, Prepare, Traits};
use crate::clock::Clock;
use crate::shard::{self, DRIVES_MAX, DriveSetup, Mail, SPACES_MAX, Setup};

/// How a server is run, beside its configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which ring the shards use.
    pub ring: RingKind,
    /// Threads that serve drives; at most as many as there are drives are started. `None`: as many as there are processors.
    pub shards: Option<usize>,
    /// How long [`Server::shutdown`] waits for what clients have under way.
    pub drain: Duration,
}

impl Default for Options {
    /// io_uring where the system allows it, a shard for each processor, five seconds.
    fn default() -> Self {
        Self {
            ring: RingKind::Auto,
            shards: None,
            drain: Duration::from_secs(5),
        }
    }
}

/// Why a server did not start. Nothing of it is left running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A volume's storage cannot be opened.
    #[error("volume {volume}: {error}")]
    Volume {
        /// The volume.
        volume: String,
        /// What the system answered.
        error: io::Error,
    },
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
    TooMuch(&'static str),
    /// The acceptor's thread cannot run.
    #[error("cannot start the acceptor: {0}")]
    Acceptor(io::Error),
    /// The configuration contradicts itself.
    #[error("{0}")]
    Config(Problem),
}

/// A running server. Dropping it ends it as [`Server::shutdown`] does.
#[derive(Debug)]
pub struct Server {
    acceptor: acceptor::Handle,
    shards: Vec<shard::Handle>,
    addresses: Vec<Address>,
    drain: Duration,
}

impl Server {
    /// Opens every volume and every address, and serves.
    ///
    /// # Errors
    /// The first thing that cannot be had; nothing is left running then.
    pub fn start(config: &weir_config::Server, options: &Options) -> Result<Self, StartError> {
        let clock = Clock::start();
        let count = shard_count(config, options);
        let mut setups: Vec<Vec<DriveSetup>> = Vec::new();
        setups.resize_with(count, Vec::new);
        let mut exports = Vec::new();
        for (number, drive) in config.drives.iter().enumerate() {
            let shard = number % count;
            let place = acceptor::Place {
                shard,
                drive: setups[shard].len(),
                space: 0,
            };
            let setup = open_drive(config, drive, place, &mut exports)?;
            setups[shard].push(setup);
        }
        if setups.iter().any(|drives| drives.len() > DRIVES_MAX) {
            return Err(StartError::TooMuch("a shard serves at most 8192 drives"));
        }
        let listeners = listen(config)?;
        let addresses = listeners.iter().map(Listener::address).collect();
        let shards = start_shards(config, options, clock, setups)?;
        let boxes = shards.iter().map(shard::Handle::address).collect();
        exports.sort_by(|a, b| a.info.name.cmp(&b.info.name));
        let acceptor = acceptor::spawn(listeners, Table::new(exports), boxes, config.limits)
            .map_err(StartError::Acceptor)?;
        Ok(Self {
            acceptor,
            shards,
            addresses,
            drain: options.drain,
        })
    }

    /// Where clients reach it: what the configuration says, with the port that was free where it said 0.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Ends the server: accepts nobody any more, answers what was taken from clients (at most as long as
    /// [`Options::drain`] says), makes every volume durable. Returns whether every shard ended as it should.
    pub fn shutdown(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        self.acceptor.stop();
        for shard in &self.shards {
            shard.address().tell(Mail::Drain(self.drain));
        }
        let ended = self.shards.iter_mut().map(shard::Handle::join);
        // All of them, not only up to the first that failed.
        ended.fold(true, |all, one| all & one)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn shard_count(config: &weir_config::Server, options: &Options) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let wanted = options.shards.unwrap_or(processors);
    wanted.clamp(1, config.drives.len().max(1))
}

/// Opens the volumes of a drive, and adds them to what clients can choose from.
fn open_drive(
    config: &weir_config::Server,
    drive: &weir_config::Drive,
    place: acceptor::Place,
    exports: &mut Vec<Export>,
) -> Result<DriveSetup, StartError> {
    let plan = plan(config, &drive.name).ok_or(StartError::TooMuch("a drive has no plan"))?;
    if plan.config.limits.spaces > SPACES_MAX {
        return Err(StartError::TooMuch("a drive has at most 131072 volumes"));
    }
    let mut volumes = Vec::new();
    for volume in config.volumes_of(&drive.name) {
        let storage = backend::open(volume, &config.test).map_err(|error| StartError::Volume {
            volume: volume.name.clone(),
            error,
        })?;
        let space = plan.volumes[&volume.name].space.0;
        exports.push(export(
            config,
            volume,
            storage.as_ref(),
            acceptor::Place { space, ..place },
        ));
        volumes.push((volume.name.clone(), storage));
    }
    Ok(DriveSetup {
        name: drive.name.clone(),
        plan,
        model: drive.model,
        volumes,
    })
}

/// What clients are told of a volume.
fn export(
    config: &weir_config::Server,
    volume: &weir_config::Volume,
    storage: &dyn Prepare,
    place: acceptor::Place,
) -> Export {
    let traits = storage.traits();
    let size = storage.size();
    let info = ExportInfo {
        name: volume.name.clone(),
        description: String::new(),
        key: 0,
        size,
        flags: flags(&traits),
        block_sizes: BlockSizes {
            minimum: 1,
            preferred: traits.preferred,
            maximum: config.limits.request_size,
        },
        allocation: true,
    };
    Export { info, place }
}

fn flags(traits: &Traits) -> TransmissionFlags {
    let mut flags =
        TransmissionFlags::SEND_FLUSH | TransmissionFlags::SEND_DF | TransmissionFlags::SEND_CACHE;
    for (set, flag) in [
        (traits.read_only, TransmissionFlags::READ_ONLY),
        (traits.rotational, TransmissionFlags::ROTATIONAL),
        (traits.multi_connection, TransmissionFlags::CAN_MULTI_CONN),
        (!traits.read_only, TransmissionFlags::SEND_FUA),
        (
            !traits.read_only && traits.trim,
            TransmissionFlags::SEND_TRIM,
        ),
        (!traits.read_only, TransmissionFlags::SEND_WRITE_ZEROES),
        (
            !traits.read_only && traits.fast_zero,
            TransmissionFlags::SEND_FAST_ZERO,
        ),
    ] {
        if set {
            flags |= flag;
        }
    }
    flags
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

/// Starts a thread for each setup; if one fails, those before it are ended.
fn start_shards(
    config: &weir_config::Server,
    options: &Options,
    clock: Clock,
    setups: Vec<Vec<DriveSetup>>,
) -> Result<Vec<shard::Handle>, StartError> {
    let mut shards: Vec<shard::Handle> = Vec::new();
    for (number, drives) in setups.into_iter().enumerate() {
        let setup = Setup {
            number,
            clock,
            limits: config.limits,
            ring: ring(config, options, &drives),
            drives,
        };
        match shard::spawn(setup) {
            Ok(shard) => shards.push(shard),
            Err(reason) => {
                for shard in &mut shards {
                    shard.address().tell(Mail::Drain(Duration::ZERO));
                    shard.join();
                }
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
