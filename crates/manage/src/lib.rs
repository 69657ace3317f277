//! The management server: HTTP with JSON beside the running server.
//!
//! [`Management::start`] takes a [`Server`] and answers at its [`Doors`], on one thread of its own and a few that may wait. It
//! reaches the shards by messages alone, and asks them how things stand once a second, however many clients ask it. Changes are made one
//! after the other, each wholly or not at all, by the same way as a reload. `docs/management.md` says what can be asked; types are in
//! `weir-manage`.
#![forbid(unsafe_code)]

mod access;
pub mod api;
mod control;
mod dashboard;
mod document;
mod error;
mod file;
mod gateways;
mod history;
mod journal;
mod listener;
mod openapi;
mod places;
mod reach;
mod route;
mod sample;
mod view;
mod watcher;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::api::{Event, Outcome, Refusal};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use weir_serve::places::Peer as Client;
use weir_serve::{Doors, Explainer, Server};

use access::{Access, Peer};
use control::{Control, How, Patience};
use gateways::Gateways;
use view::View;
use watcher::Watcher;

/// Threads that may wait: for shards, and for changes.
const WAITING: usize = 8;

/// Where the server's configuration comes from.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its text.
    pub text: String,
    /// Its file, to which changes are written.
    pub file: Option<PathBuf>,
}

/// How long a change that is under way may still take when the server ends. With what the server then takes to finish requests, less
/// than the 30 s after which the unit of systemd kills it.
const PATIENCE: Patience = Patience {
    file: Duration::from_secs(5),
    storage: Duration::from_secs(15),
};

/// Why the management server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// What `[manage]` says cannot be had.
    #[error("{0}")]
    Config(String),
    /// The system does not let it wait for clients, or run.
    #[error("cannot start the management server: {}", weir_config::os_error::message(.0))]
    System(#[from] std::io::Error),
}

/// A running management server. Dropping it ends it, and the server that it has.
#[derive(Debug)]
pub struct Management {
    manager: Arc<Manager>,
    /// Where it keeps minimums together with other servers.
    gateways: Option<Gateways>,
    addresses: Addresses,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Where it answers over TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    /// Browsers.
    pub http: Option<SocketAddr>,
    /// Metrics.
    pub metrics: Option<SocketAddr>,
}

/// All that answers need.
#[derive(Debug)]
pub(crate) struct Manager {
    pub(crate) control: Control,
    pub(crate) watcher: Arc<Watcher>,
    pub(crate) access: Access,
    pub(crate) explainer: Explainer,
}

impl Manager {
    /// How things stand.
    pub(crate) fn view(&self) -> View {
        View {
            published: self.control.published(),
            sample: self.watcher.last(),
        }
    }

    /// Tells those that listen of a change that was made.
    pub(crate) fn told(&self, outcome: &Outcome) {
        if outcome.change.number > 0 {
            self.watcher.tell(&Event::Change(outcome.change.clone()));
        }
    }
}

impl Management {
    /// Answers for a server. One without any door is kept all the same, so that it can be [reloaded](Self::reload).
    ///
    /// # Errors
    /// See [`StartError`]; the server has ended then.
    pub fn start(mut server: Server, source: Source) -> Result<Self, StartError> {
        let doors = server.doors().unwrap_or_default();
        let addresses = Addresses {
            http: doors.http_address(),
            metrics: doors.metrics_address(),
        };
        let ports = addresses.http.iter().map(SocketAddr::port).collect();
        let manage = &server.config().manage;
        dashboard::check(manage).map_err(StartError::Config)?;
        let access = Access::new(manage, ports).map_err(StartError::Config)?;
        let watcher = Arc::new(Watcher::new(server.watch()));
        let explainer = server.explainer();
        let parts = server.parts();
        let control = Control::new(server, source.file, source.text);
        let manager = Arc::new(Manager {
            control: control.map_err(StartError::Config)?,
            watcher,
            access,
            explainer,
        });
        let mut management = Self {
            gateways: Gateways::start(&manager, parts)?,
            manager,
            addresses,
            stop: None,
            thread: None,
        };
        if doors.socket.is_some() || doors.http.is_some() || doors.metrics.is_some() {
            management.answer(doors)?;
        }
        Ok(management)
    }

    fn answer(&mut self, doors: Doors) -> Result<(), StartError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(WAITING)
            .thread_name("weir-manage-wait")
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let manager = Arc::clone(&self.manager);
        let thread = std::thread::Builder::new().name("weir-manage".to_owned());
        let thread = thread.spawn(move || {
            serve(&runtime, doors, &manager, stopped);
            // A change that does not end has one of the threads that wait.
            runtime.shutdown_background();
        })?;
        (self.stop, self.thread) = (Some(stop), Some(thread));
        Ok(())
    }

    /// Where it answers over TCP.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Whether every thread that the server and its management need runs. It never waits.
    pub fn is_running(&self) -> bool {
        let answers = self.thread.as_ref().is_none_or(|t| !t.is_finished());
        let keeps = self.gateways.as_ref().is_none_or(Gateways::is_running);
        answers && keeps && self.manager.watcher.is_running()
    }

    /// The number of volumes.
    pub fn volumes(&self) -> usize {
        self.manager.control.published().config.volumes.len()
    }

    /// The file of its configuration.
    pub fn file(&self) -> Option<PathBuf> {
        self.manager.control.published().file.clone()
    }

    /// Reads the configuration's file again, and puts in force what it says: what changed, in the words of the file, a line each.
    ///
    /// # Errors
    /// Everything that is wrong; nothing has changed then.
    pub fn reload(&self) -> Result<Vec<String>, Refusal> {
        let how = How {
            by: "SIGHUP".to_owned(),
            ..How::default()
        };
        let reloaded = self.manager.control.reload(&how);
        let outcome = reloaded.map_err(|refused| refused.refusal)?;
        self.manager.told(&outcome);
        Ok(outcome.change.lines)
    }

    /// Ends it, and gives the server back; `None` if a change that is under way holds the server for longer than 15 seconds,
    /// because the storage of a volume does not answer. The server's threads go with the process then.
    pub fn end(mut self) -> Option<Server> {
        self.stop();
        self.manager.control.take(PATIENCE)
    }

    fn stop(&mut self) {
        // While it can still be told that nothing is promised.
        drop(self.gateways.take());
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Management {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Answers at every door until it is told to stop, or until a task panics: then the thread ends.
fn serve(runtime: &Runtime, doors: Doors, manager: &Arc<Manager>, stopped: oneshot::Receiver<()>) {
    let opened = runtime.block_on(async {
        let router = route::router(manager);
        let mut tasks = JoinSet::new();
        tasks.spawn(watcher::run(Arc::clone(&manager.watcher)));
        let Doors {
            socket,
            http,
            metrics,
            ..
        } = doors;
        if let Some(socket) = socket {
            let socket = UnixListener::from_std(socket)?;
            tasks.spawn(at_socket(socket, router.clone()));
        }
        for (listener, peer) in [(http, Peer::Browser), (metrics, Peer::Metrics)] {
            if let Some(listener) = listener {
                let listener = TcpListener::from_std(listener)?;
                tasks.spawn(at_address(listener, peer, router.clone()));
            }
        }
        tokio::select! {
            // The other end is dropped at the end.
            _ = stopped => Ok(()),
            _ = tasks.join_next() => Err(std::io::Error::other("a task failed")),
        }
    });
    if let Err(error) = opened {
        let error = weir_config::os_error::message(&error);
        tracing::error!(error, "the management server failed; the server ends");
    }
}

async fn at_socket(socket: UnixListener, router: axum::Router) {
    let accept = || async {
        let (stream, _) = socket.accept().await?;
        let peer = Peer::of(&stream)?;
        let claim = places::claim(Client::process(&stream), peer.is_own());
        Ok((stream, peer, claim))
    };
    listener::run(accept, router).await;
}

async fn at_address(listener: TcpListener, peer: Peer, router: axum::Router) {
    let accept = || async {
        let (stream, address) = listener.accept().await?;
        // An answer leaves as it is made; without this it only waits longer.
        let _ = stream.set_nodelay(true);
        let claim = places::claim(Client::host(Some(address)), false);
        Ok((stream, peer.clone(), claim))
    };
    listener::run(accept, router).await;
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
