//! The server as one of several gateways that share the min of a volume.
//!
//! For each volume with `shared`, a [`GatewayMember`](weir_serve::gateway::GatewayMember)
//! communicates with etcd and the shards ([`Keeper`]). All of them run on one thread.
//! `docs/gateways.md` describes the guarantees.

mod clock;
mod demand;
mod keeper;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle as Task;
use weir_core::Span;
use weir_serve::Parts;
use weir_serve::gateway::{Etcd, EtcdAccess, MemberConfig};

use crate::Manager;
use keeper::{Keeper, SharedVolume};

/// The interval at which the configuration is checked for volumes that were added or removed.
const LOOK: Duration = Duration::from_millis(250);
/// The time that an ending server has to return its parts. Otherwise, other servers get them when
/// its leases expire.
const LEAVE: Duration = Duration::from_millis(1_500);
/// The maximum number of threads that wait for shards.
const WAITING: usize = 8;

/// The thread that keeps the parts. Dropping this returns them.
#[derive(Debug)]
pub(crate) struct GatewayThread {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl GatewayThread {
    /// Starts the thread, if the configuration has gateways.
    ///
    /// # Errors
    /// Returns an error if the system has no more threads or descriptors.
    pub(crate) fn start(manager: &Arc<Manager>, parts: Parts) -> std::io::Result<Option<Self>> {
        let published = manager.control.published();
        let Some(gateways) = published.config.gateways.clone() else {
            return Ok(None);
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(WAITING)
            .thread_name("weir-gateways-wait")
            .build()?;
        let (stop, stopped) = watch::channel(false);
        let manager = Arc::clone(manager);
        let all = SharedVolumes {
            manager,
            parts,
            gateways,
            keepers: BTreeMap::new(),
        };
        let thread = std::thread::Builder::new().name("weir-gateways".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(all.run(stopped));
            // A shard that hangs blocks one of the runtime's threads, which would delay the end.
            runtime.shutdown_background();
        })?;
        Ok(Some(Self {
            stop,
            thread: Some(thread),
        }))
    }
}

impl GatewayThread {
    /// Returns true until the thread has ended.
    pub(crate) fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }
}

impl Drop for GatewayThread {
    fn drop(&mut self) {
        // The receiver is gone if the thread has failed.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been logged.
            let _ = thread.join();
        }
    }
}

/// All volumes with a shared minimum.
struct SharedVolumes {
    manager: Arc<Manager>,
    parts: Parts,
    gateways: weir_config::Gateways,
    keepers: BTreeMap<SharedVolume, (watch::Sender<bool>, Task<()>)>,
}

impl SharedVolumes {
    /// Runs until it is told to stop, and then lets all keepers return their parts.
    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        loop {
            self.look();
            let wait = tokio::time::timeout(LOOK, stopped.changed());
            // At the latest, the sender is dropped at the end of the server.
            if wait.await.is_ok() {
                break;
            }
        }
        for (leave, _) in self.keepers.values() {
            // A keeper that has ended by itself has no receiver.
            let _ = leave.send(true);
        }
        let left = async {
            for (_, task) in std::mem::take(&mut self.keepers).into_values() {
                let _ = task.await;
            }
        };
        if tokio::time::timeout(LEAVE, left).await.is_err() {
            tracing::warn!(
                "etcd does not respond; the server's parts of shared minimums become free when its leases expire"
            );
        }
    }

    /// Starts keepers for added volumes, and lets those of removed volumes leave.
    fn look(&mut self) {
        let published = self.manager.control.published();
        let shared = published.config.volumes.iter().filter_map(|volume| {
            Some(SharedVolume {
                volume: volume.name.clone(),
                name: volume.shared.clone()?,
            })
        });
        let shared: Vec<SharedVolume> = shared.collect();
        for (whose, (leave, _)) in &self.keepers {
            if !shared.contains(whose) {
                let _ = leave.send(true);
            }
        }
        // A keeper that was told to leave remains until it has returned its part.
        self.keepers.retain(|_, (_, task)| !task.is_finished());
        for whose in shared {
            // A volume's part under its earlier name is returned first, because a volume has one
            // keeper at a time.
            if !self.keepers.keys().any(|w| w.volume == whose.volume) {
                let keeper = self.keep(&whose);
                self.keepers.insert(whose, keeper);
            }
        }
    }

    /// Starts a keeper. Returns the channel that tells it to leave, and its task.
    fn keep(&self, whose: &SharedVolume) -> (watch::Sender<bool>, Task<()>) {
        let config = MemberConfig {
            ttl: self.gateways.lease,
            ..MemberConfig::default()
        };
        let etcd = Etcd::new(
            (self.gateways.etcd.clone(), EtcdAccess::new(&self.gateways)),
            (&self.gateways.prefix, &whose.name),
            &config,
            by(),
        );
        let (leave, left) = watch::channel(false);
        let keeper = Keeper::new(
            whose.clone(),
            Arc::clone(&self.manager),
            self.parts.clone(),
            (config, etcd),
        );
        (leave, tokio::spawn(keeper.run(left)))
    }
}

/// Returns the host and the process, by which people recognise this server's rows in etcd.
fn by() -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy().replace(' ', "_");
    format!("{host}/{}", std::process::id())
}

/// Converts a duration to that of the standard library.
fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}
