//! The server as one of several that keep the min of a volume together: for each volume with `shared` a [`Member`](weir_serve::gateway::Member) with etcd and
//! the shards, on one thread of its own. `docs/gateways.md` says what holds.

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
use weir_serve::gateway::{Config, Etcd};

use crate::Manager;
use keeper::{Keeper, Whose};

/// How often the configuration in force is looked at, for volumes that come and go.
const LOOK: Duration = Duration::from_millis(250);
/// How long a server that ends may take to give its parts back; others have them when its leases are over, if it does not.
const LEAVE: Duration = Duration::from_millis(1_500);
/// Most threads that wait for shards.
const WAITING: usize = 8;

/// The thread that keeps parts. Dropping it gives them back.
#[derive(Debug)]
pub(crate) struct Gateways {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Gateways {
    /// Begins, where the configuration says where servers meet.
    ///
    /// # Errors
    /// The system has no thread, or nothing to wait with.
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
        let all = All {
            manager,
            parts,
            gateways,
            keepers: BTreeMap::new(),
        };
        let thread = std::thread::Builder::new().name("weir-gateways".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(all.run(stopped));
            // A shard that hangs has one of the threads that wait.
            runtime.shutdown_background();
        })?;
        Ok(Some(Self {
            stop,
            thread: Some(thread),
        }))
    }
}

impl Gateways {
    /// False once its thread has ended.
    pub(crate) fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }
}

impl Drop for Gateways {
    fn drop(&mut self) {
        // Nobody listens where the thread has failed.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Every volume whose min is shared.
struct All {
    manager: Arc<Manager>,
    parts: Parts,
    gateways: weir_config::Gateways,
    keepers: BTreeMap<Whose, (watch::Sender<bool>, Task<()>)>,
}

impl All {
    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        loop {
            self.look();
            let wait = tokio::time::timeout(LOOK, stopped.changed());
            // Its other end is dropped at the end, at the latest.
            if wait.await.is_ok() {
                break;
            }
        }
        for (leave, _) in self.keepers.values() {
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

    /// Begins with volumes that have come, and leaves for those that have gone.
    fn look(&mut self) {
        let published = self.manager.control.published();
        let shared = published.config.volumes.iter().filter_map(|volume| {
            Some(Whose {
                volume: volume.name.clone(),
                name: volume.shared.clone()?,
            })
        });
        let shared: Vec<Whose> = shared.collect();
        for (whose, (leave, _)) in &self.keepers {
            if !shared.contains(whose) {
                let _ = leave.send(true);
            }
        }
        self.keepers.retain(|_, (_, task)| !task.is_finished());
        for whose in shared {
            // What it had under another name is given back first.
            if !self.keepers.keys().any(|w| w.volume == whose.volume) {
                let keeper = self.keep(&whose);
                self.keepers.insert(whose, keeper);
            }
        }
    }

    fn keep(&self, whose: &Whose) -> (watch::Sender<bool>, Task<()>) {
        let config = Config {
            ttl: self.gateways.lease,
            ..Config::default()
        };
        let etcd = Etcd::new(
            self.gateways.etcd.clone(),
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

/// Whose rows the own ones are, for people: host and process.
fn by() -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy().replace(' ', "_");
    format!("{host}/{}", std::process::id())
}

/// A length of time as the system's.
fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}
