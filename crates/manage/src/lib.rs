//! The management server: HTTP with JSON next to the running server.
//!
//! [`Management::start`] takes over a [`LiveServer`] and serves its [`Doors`]. It uses one thread,
//! and a few more for calls that block. It communicates with the shards by messages only, and
//! requests their state once a second, regardless of the number of clients.
//!
//! Changes are made one after the other, completely or not at all, in the same way as a reload.
//! `docs/management.md` describes the interface, and [`api`] has its types.
#![forbid(unsafe_code)]

mod access;
pub mod api;
mod audit;
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
mod upgrade;
mod view;
mod watcher;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::api::{Event, Outcome, Refusal, Upgraded};
use crate::error::RequestRefusal;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use weir_serve::places::Peer as Client;
use weir_serve::{
    Doors, Explainer, Finding, LiveServer, ManagementTls, RefusalReason, Refusals, Successor,
    UpgradeError, UpgradeReport,
};

pub use weir_serve::ConfigSource;

use access::{AccessRules, Peer};
use control::{ChangeContext, ChangeControl, Patience};
use gateways::GatewayThread;
use upgrade::UpgradeRequests;
use view::ServerView;
use watcher::Watcher;

/// The maximum number of threads for calls that block: requests to shards, and changes.
const WAITING: usize = 8;

/// The times that a change in progress is given when the server ends. Together with the time that
/// the server then takes to finish requests, they are shorter than the 30 s after which systemd
/// kills the unit.
const PATIENCE: Patience = Patience {
    file: Duration::from_secs(5),
    storage: Duration::from_secs(15),
};

/// The reason why the management server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A value in `[manage]` cannot be used.
    #[error("{0}")]
    Config(String),
    /// The system has no more threads or descriptors.
    #[error("cannot start the management server: {}", weir_config::os_error::message(.0))]
    System(#[from] std::io::Error),
}

/// A running management server. Dropping it ends it together with the server that it has taken
/// over.
#[derive(Debug)]
pub struct Management {
    manager: Arc<Manager>,
    /// The thread that shares minimums with other servers, if the configuration has gateways.
    gateways: Option<GatewayThread>,
    addresses: Addresses,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The TCP addresses of the management server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    /// The address for browsers.
    pub http: Option<SocketAddr>,
    /// The address for clients over TLS.
    pub https: Option<SocketAddr>,
    /// The address for metrics.
    pub metrics: Option<SocketAddr>,
}

/// The state that all requests share.
#[derive(Debug)]
pub(crate) struct Manager {
    pub(crate) control: ChangeControl,
    pub(crate) watcher: Arc<Watcher>,
    pub(crate) access: AccessRules,
    pub(crate) explainer: Explainer,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) upgrades: UpgradeRequests,
    tls: ManagementTls,
}

impl Manager {
    /// Returns the configuration in force and the last sample.
    pub(crate) fn view(&self) -> ServerView {
        ServerView {
            published: self.control.published(),
            sample: self.watcher.last(),
        }
    }

    /// Sends an event about a change, if one was made.
    pub(crate) fn publish_change(&self, outcome: &Outcome) {
        if outcome.change.number > 0 {
            self.watcher
                .send_event(&Event::Change(outcome.change.clone()));
        }
    }
}

/// Checks whether [`Management::start`] would accept a configuration, without serving anything.
///
/// # Errors
/// Returns the error that [`Management::start`] would return.
pub fn check(config: &weir_config::Server) -> Result<(), StartError> {
    let manage = &config.manage;
    dashboard::check(manage).map_err(StartError::Config)?;
    AccessRules::new(manage, Vec::new()).map_err(StartError::Config)?;
    check_volumes(config)?;
    if let Some(path) = &manage.audit_file {
        audit::AuditLog::open(path, manage.audit_size).map_err(StartError::Config)?;
    }
    Ok(())
}

/// Returns the obstacles to [`Management::start`] with a configuration, without creating anything.
/// Files that only the server's user may open are not certain obstacles.
pub fn preflight(config: &weir_config::Server) -> Vec<Finding> {
    let manage = &config.manage;
    let token = manage.token_file.as_deref().map(access::existing_token);
    let finding = |(error, certain): (String, bool)| {
        // Each error begins with its key.
        let (key, message) = error.split_once(": ").unwrap_or(("manage", &error));
        let problem = config.problem(key, message.to_owned(), None);
        Finding { problem, certain }
    };
    let errors = [
        (dashboard::check(manage).err(), true),
        (AccessRules::of_roles(manage).err(), true),
        (token.and_then(Result::err), false),
        (
            manage
                .audit_file
                .as_deref()
                .and_then(|path| audit::check(path).err()),
            false,
        ),
    ];
    let errors = errors
        .into_iter()
        .filter_map(|(error, certain)| Some((error?, certain)));
    let conflicts = audit::conflicts(config, config.volumes.iter()).into_iter();
    let conflicts = conflicts.map(|problem| Finding {
        problem,
        certain: true,
    });
    errors.map(finding).chain(conflicts).collect()
}

/// Checks that no volume is in the audit file.
fn check_volumes(config: &weir_config::Server) -> Result<(), StartError> {
    match audit::conflicts(config, config.volumes.iter()).first() {
        None => Ok(()),
        Some(problem) => Err(StartError::Config(problem.to_string())),
    }
}

impl Management {
    /// Takes over a server and serves its listeners. A server without listeners is kept as well, so
    /// that it can be [reloaded](Self::reload).
    ///
    /// # Errors
    /// Returns the errors described at [`StartError`]. The server has ended in that case.
    pub fn start(server: LiveServer, source: ConfigSource) -> Result<Self, StartError> {
        Self::begin(server, source, UpgradeRequests::default())
    }

    /// Starts like [`Self::start`], and accepts requests for upgrades. `notify` is called for each,
    /// and [`Self::upgrade`] must follow.
    ///
    /// # Errors
    /// Returns the errors of [`Self::start`].
    pub fn start_upgradable(
        server: LiveServer,
        source: ConfigSource,
        notify: impl Fn() + Send + 'static,
    ) -> Result<Self, StartError> {
        Self::begin(server, source, UpgradeRequests::accepting(Box::new(notify)))
    }

    fn begin(
        mut server: LiveServer,
        source: ConfigSource,
        upgrades: UpgradeRequests,
    ) -> Result<Self, StartError> {
        let doors = server.doors().unwrap_or_default();
        let addresses = Addresses {
            http: doors.http_address(),
            https: doors.https_address(),
            metrics: doors.metrics_address(),
        };
        let ports = addresses.http.iter().map(SocketAddr::port).collect();
        let manage = &server.config().manage;
        // A wrong configuration must refuse the start, so that it is checked first.
        dashboard::check(manage).map_err(StartError::Config)?;
        check_volumes(server.config())?;
        let access = AccessRules::new(manage, ports).map_err(StartError::Config)?;
        let watcher = Arc::new(Watcher::new(server.watch()));
        let explainer = server.explainer();
        let parts = server.parts();
        let (tls, refusals) = (server.management_tls(), server.refusals());
        let control = ChangeControl::new(server, source);
        let manager = Arc::new(Manager {
            control: control.map_err(StartError::Config)?,
            watcher,
            access,
            explainer,
            refusals,
            upgrades,
            tls,
        });
        let mut management = Self {
            gateways: GatewayThread::start(&manager, parts)?,
            manager,
            addresses,
            stop: None,
            thread: None,
        };
        let is_asked = doors.socket.is_some() || doors.metrics.is_some();
        if is_asked || doors.http.is_some() || doors.https.is_some() {
            management.answer(doors)?;
        }
        Ok(management)
    }

    /// Starts the thread that serves the listeners.
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
            // A change that hangs blocks one of the runtime's threads, which would delay the end.
            runtime.shutdown_background();
        })?;
        (self.stop, self.thread) = (Some(stop), Some(thread));
        Ok(())
    }

    /// Returns the TCP addresses of the management server.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Returns true if all threads of the server and its management run. Never blocks.
    pub fn is_running(&self) -> bool {
        let answers = self.thread.as_ref().is_none_or(|t| !t.is_finished());
        let keeps = self.gateways.as_ref().is_none_or(GatewayThread::is_running);
        answers && keeps && self.manager.watcher.is_running()
    }

    /// Returns the number of volumes.
    pub fn volumes(&self) -> usize {
        self.manager.control.published().config.volumes.len()
    }

    /// Returns the path of the configuration file.
    pub fn file(&self) -> Option<PathBuf> {
        self.manager.control.published().file.clone()
    }

    /// Reads the configuration file again and applies it. Returns the changes in the words of the
    /// file, a line each.
    ///
    /// # Errors
    /// Returns all problems of the file. Nothing has changed in that case.
    pub fn reload(&self) -> Result<Vec<String>, Refusal> {
        let how = ChangeContext {
            by: "SIGHUP".to_owned(),
            ..ChangeContext::default()
        };
        let reloaded = self.manager.control.reload(&how);
        let outcome = reloaded.map_err(|refused| refused.refusal)?;
        self.manager.publish_change(&outcome);
        Ok(outcome.change.lines)
    }

    /// Returns true if a client waits for the result of an upgrade. A client that has requested one
    /// during another upgrade has received the result of that one.
    pub fn has_upgrade_requests(&self) -> bool {
        self.manager.upgrades.clients().is_some()
    }

    /// Hands the server over to the process that `start` starts, and reports the result to all
    /// clients that have requested an upgrade. `by` names the cause for the audit file if no client
    /// has requested it. After a success, the management must only be ended.
    ///
    /// # Errors
    /// Returns the reason why the server was not handed over. It serves on, except after
    /// [`UpgradeError::Lost`].
    pub fn upgrade(
        &self,
        by: &str,
        start: impl FnOnce() -> std::io::Result<Successor>,
    ) -> Result<(Successor, UpgradeReport), UpgradeError> {
        let clients = self.manager.upgrades.clients();
        let by = clients.as_deref().unwrap_or(by);
        let upgraded = self.manager.control.upgrade(by, start);
        self.manager.upgrades.answer(&match &upgraded {
            Ok((successor, report)) => Ok(Upgraded {
                version: report.version.clone(),
                process: successor.process().id(),
                connections: report.connections,
                pause_ms: report.pause.as_millis() as u64,
            }),
            Err(error) => Err(RequestRefusal::conflict(format!(
                "the server was not upgraded, and serves on: {error}"
            ))),
        });
        upgraded
    }

    /// Ends the management server and gives the server back. Returns `None` if a change in progress
    /// holds the server for longer than 15 s, because the storage of a volume hangs. The server's
    /// threads then end with the process.
    pub fn end(mut self) -> Option<LiveServer> {
        self.stop();
        self.manager.control.take(PATIENCE)
    }

    fn stop(&mut self) {
        // First, while the shards can still be told that nothing is promised.
        drop(self.gateways.take());
        // Dropping the sender ends the thread.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been logged.
            let _ = thread.join();
        }
    }
}

impl Drop for Management {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Serves all listeners until it is told to stop. If a task panics, the thread ends as well.
fn serve(
    runtime: &Runtime,
    doors: Doors,
    manager: &Arc<Manager>,
    mut stopped: oneshot::Receiver<()>,
) {
    let opened = runtime.block_on(async {
        let router = route::router(manager);
        let mut tasks = JoinSet::new();
        // The samples themselves are taken on the threads for calls that block.
        tasks.spawn(watcher::run(Arc::clone(&manager.watcher)));
        let Doors {
            socket,
            http,
            https,
            metrics,
            ..
        } = doors;
        if let Some(socket) = socket {
            let socket = UnixListener::from_std(socket)?;
            tasks.spawn(at_socket(socket, router.clone()));
        }
        if let Some(listener) = https {
            let listener = TcpListener::from_std(listener)?;
            tasks.spawn(at_https(listener, Arc::clone(manager), router.clone()));
        }
        for (listener, peer) in [(http, Peer::Browser), (metrics, Peer::Metrics)] {
            if let Some(listener) = listener {
                let listener = TcpListener::from_std(listener)?;
                tasks.spawn(at_address(listener, peer, router.clone()));
            }
        }
        tokio::select! {
            // The sender is dropped to stop the server.
            _ = &mut stopped => Ok(()),
            // The listening sockets belong to another process now. Connections may still wait for
            // their responses.
            () = manager.upgrades.handed_over() => {
                tasks.abort_all();
                let _ = stopped.await;
                Ok(())
            }
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
        Ok((std::future::ready(Some((stream, peer))), claim))
    };
    listener::run(accept, router).await;
}

async fn at_address(listener: TcpListener, peer: Peer, router: axum::Router) {
    let accept = || async {
        let (stream, _, claim) = accepted(&listener).await?;
        Ok((std::future::ready(Some((stream, peer.clone()))), claim))
    };
    listener::run(accept, router).await;
}

async fn at_https(listener: TcpListener, manager: Arc<Manager>, router: axum::Router) {
    let accept = || async {
        let (stream, address, claim) = accepted(&listener).await?;
        Ok((identified(stream, address, Arc::clone(&manager)), claim))
    };
    listener::run(accept, router).await;
}

/// Accepts a client over TCP.
async fn accepted(
    listener: &TcpListener,
) -> std::io::Result<(TcpStream, SocketAddr, weir_serve::places::Claim)> {
    let (stream, address) = listener.accept().await?;
    // A response is written at once. Nagle's algorithm would only delay it.
    let _ = stream.set_nodelay(true);
    let claim = places::claim(Client::host(Some(address)), false);
    Ok((stream, address, claim))
}

/// Conducts the TLS handshake with a client. Returns `None` if it fails.
async fn identified(
    stream: TcpStream,
    address: SocketAddr,
    manager: Arc<Manager>,
) -> Option<(TlsStream<TcpStream>, Peer)> {
    let refused = |error: String| {
        manager.refusals.count(RefusalReason::ManagementTls);
        if weir_serve::warning_allowed() {
            tracing::warn!(peer = %address, error, "TLS with a client of the management interface failed");
        }
    };
    let settings = manager.tls.settings().map_err(refused).ok()?;
    let stream = match TlsAcceptor::from(settings).accept(stream).await {
        Ok(stream) => stream,
        // Otherwise the client has disconnected, which is not worth a log entry.
        Err(error) => {
            if error.kind() == std::io::ErrorKind::InvalidData {
                refused(error.to_string());
            }
            return None;
        }
    };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = Peer::Certificate {
        names: weir_serve::certificate_names(chain),
        address: address.ip().to_canonical(),
    };
    Some((stream, peer))
}

/// Returns the time in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
