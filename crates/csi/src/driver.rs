//! The driver: its options, its socket, and the common parts of its three services.
//!
//! [`serve`] runs the driver. [`CsiDriver`] is the state that all calls share, and
//! [`CsiService::answer`] runs each call.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tonic::transport::server::Router;
use tonic::{Code, Response, Status};

use crate::attach::nbd;
use crate::busy::BusyVolumes;
use crate::error::{needed, no_volume};
use crate::http2::Http2Connection;
use crate::images::Images;
use crate::rpc::controller_server::ControllerServer;
use crate::rpc::identity_server::IdentityServer;
use crate::rpc::node_server::NodeServer;
use crate::rpc::{Topology, TopologyRequirement};
use crate::volumes::Volumes;

/// The options of the driver.
#[derive(Clone, Debug)]
pub struct DriverOptions {
    /// The driver's name in Kubernetes.
    pub name: String,
    /// The name of the node that the driver runs on.
    pub node: String,
    /// The Unix socket at which the driver listens.
    pub endpoint: PathBuf,
    /// The management socket of the server.
    pub manage: PathBuf,
    /// The directory with a subdirectory for each drive, which has the files of volumes. It must
    /// have the same path for the server.
    pub volumes: PathBuf,
    /// The directory of the sockets of volumes for virtual machines. The server creates the
    /// sockets. The directory must have the same path for the server and for the VMMs.
    pub sockets: PathBuf,
    /// The directory in which Kata Containers looks for the paths that are such volumes.
    pub direct_volumes: PathBuf,
}

/// The reason why the driver cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The driver cannot listen on its socket.
    #[error("cannot listen on {}: {error}", path.display())]
    Listen {
        /// The path of the socket.
        path: PathBuf,
        /// The error that the system returned.
        error: io::Error,
    },
    /// The system has no more threads or descriptors.
    #[error("cannot serve: {0}")]
    System(#[from] io::Error),
    /// The server of gRPC has failed.
    #[error("cannot serve: {0}")]
    Serve(#[from] tonic::transport::Error),
    /// The thread that restores the connections of devices has panicked.
    #[error("a thread of the driver failed; see the log")]
    Fault,
}

/// Serves the socket until SIGTERM or SIGINT.
///
/// # Errors
/// Returns an error if the socket cannot be opened, or if serving fails.
pub fn serve(options: DriverOptions) -> Result<(), ServeError> {
    // One thread is enough, because blocking calls run on threads of their own.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build()?;
    runtime.block_on(async {
        let path = options.endpoint.clone();
        let listener = listen(&path).map_err(|error| ServeError::Listen { path, error })?;
        let driver = Arc::new(CsiDriver::new(options));
        let keeper = Arc::clone(&driver);
        let (kept, ended) = oneshot::channel();
        let keep = move || {
            nbd::keep(&keeper);
            // The receiver is gone if the driver has ended.
            let _ = kept.send(());
        };
        // It blocks on a netlink socket, and therefore needs a thread of its own.
        std::thread::Builder::new()
            .name("weir-csi-links".into())
            .spawn(keep)?;
        let connections = stream::unfold(listener, async |listener| {
            let accepted = listener.accept().await;
            Some((
                accepted.map(|(stream, _)| Http2Connection::new(stream)),
                listener,
            ))
        });
        tracing::info!(
            "the driver is ready at {}",
            driver.options.endpoint.display()
        );
        let served = services(&driver).serve_with_incoming_shutdown(connections, stopped()?);
        tokio::select! {
            served = served => Ok(served?),
            () = failed(ended) => Err(ServeError::Fault),
        }
    })
}

/// Completes when the thread has panicked. A thread without work ends normally, and the driver
/// continues without it.
async fn failed(ended: oneshot::Receiver<()>) {
    if ended.await.is_ok() {
        std::future::pending::<()>().await;
    }
}

/// Completes when the driver receives a signal to end.
fn stopped() -> io::Result<impl Future<Output = ()>> {
    let (mut end, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    Ok(async move {
        tokio::select! {
            _ = end.recv() => (),
            _ = interrupt.recv() => (),
        }
    })
}

/// Opens the socket for listening. A socket that an earlier driver has left is removed first.
fn listen(path: &Path) -> io::Result<UnixListener> {
    // Only a socket is removed, so that a wrong option does not delete a file.
    if path
        .symlink_metadata()
        .is_ok_and(|m| m.file_type().is_socket())
    {
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

fn services(driver: &Arc<CsiDriver>) -> Router {
    let service = || CsiService(Arc::clone(driver));
    tonic::transport::Server::builder()
        .add_service(IdentityServer::new(service()))
        .add_service(ControllerServer::new(service()))
        .add_service(NodeServer::new(service()))
}

/// The state that calls share. It is not persistent.
#[derive(Debug)]
pub(crate) struct CsiDriver {
    pub(crate) options: DriverOptions,
    pub(crate) images: Images,
    pub(crate) busy: BusyVolumes,
}

impl CsiDriver {
    fn new(options: DriverOptions) -> Self {
        Self {
            images: Images::new(options.volumes.clone()),
            busy: BusyVolumes::default(),
            options,
        }
    }

    /// Returns the driver's volumes, with the present state of the server.
    pub(crate) fn volumes(&self) -> Result<Volumes<'_>, Status> {
        Volumes::new(self)
    }

    /// Returns the id of a volume in Kubernetes, `NODE/VOLUME`. Sidecars call the drivers of all
    /// nodes, and each recognises its own volumes by the id.
    pub(crate) fn id(&self, volume: &str) -> String {
        format!("{}/{volume}", self.options.node)
    }

    /// Returns the name of the volume with an id.
    ///
    /// # Errors
    /// Returns `UNAVAILABLE` for a volume of another node, so that Kubernetes waits for that node's
    /// driver, and `NOT_FOUND` if the text is not an id.
    pub(crate) fn name<'a>(&self, id: &'a str) -> Result<&'a str, Status> {
        let here = &self.options.node;
        match needed("the volume's id", id)?.split_once('/') {
            Some((node, name)) if node == here => Ok(name),
            Some((node, _)) => {
                let said = format!("this is node {here}, but the volume belongs to node {node}");
                Err(Status::unavailable(said))
            }
            // All ids of the driver contain a slash.
            None => Err(no_volume(id)),
        }
    }

    /// Returns the place from which a volume of this node can be reached, which is this node.
    pub(crate) fn topology(&self) -> Topology {
        let key = format!("topology.{}/node", self.options.name);
        Topology {
            segments: [(key, self.options.node.clone())].into(),
        }
    }

    /// Returns true if the node that a topology names for this driver is this one, or if it names
    /// none.
    pub(crate) fn is_here(&self, topology: &Topology) -> bool {
        let here = self.topology().segments;
        here.iter().all(|(key, node)| {
            let asked = topology.segments.get(key);
            // A topology with keys of other drivers only does not exclude this node.
            asked.is_none_or(|asked| asked == node)
        })
    }

    /// Returns true if a volume of this node meets a requirement.
    pub(crate) fn meets(&self, required: Option<&TopologyRequirement>) -> bool {
        required.is_none_or(|required| {
            let requisite = &required.requisite;
            requisite.is_empty() || requisite.iter().any(|topology| self.is_here(topology))
        })
    }
}

/// One of the services of the driver.
#[derive(Clone, Debug)]
pub(crate) struct CsiService(pub(crate) Arc<CsiDriver>);

/// The maximum duration of a call. kubelet waits for the same time.
const PATIENCE: Duration = Duration::from_mins(2);

impl CsiService {
    /// Runs a call on a thread that can block, and logs its result.
    pub(crate) async fn answer<T: Send + 'static>(
        &self,
        call: &'static str,
        work: impl FnOnce(&CsiDriver) -> Result<T, Status> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let driver = Arc::clone(&self.0);
        let work = tokio::task::spawn_blocking(move || work(&driver));
        let answer = match tokio::time::timeout(PATIENCE, work).await {
            // A timeout does not end the thread. The volume stays marked as in use until the work
            // is done.
            Ok(ended) => ended
                .unwrap_or_else(|_| Err(Status::internal("internal error; see the driver's log"))),
            Err(_) => Err(Status::deadline_exceeded(
                "the call did not end within two minutes",
            )),
        };
        match &answer {
            Ok(_) => tracing::debug!("{call}: done"),
            // All other refusals are part of normal operation.
            Err(refused) if refused.code() == Code::Internal => {
                tracing::error!("{call}: {}", refused.message());
            }
            Err(refused) => tracing::info!("{call}: {:?}: {}", refused.code(), refused.message()),
        }
        answer.map(Response::new)
    }
}

/// Implements a service with functions of the driver and the request. Calls that the driver does
/// not support are refused.
macro_rules! answers {
    ($service:ident { $($name:ident: $request:ident => $response:ident, $with:expr;)* } not { $($not:ident: $asked:ident => $never:ident;)* }) => {
        #[tonic::async_trait]
        impl $service for crate::driver::CsiService {
            $(async fn $name(&self, request: tonic::Request<$request>) -> Result<tonic::Response<$response>, Status> {
                let request = request.into_inner();
                self.answer(stringify!($name), move |driver| ($with)(driver, &request)).await
            })*
            $(async fn $not(&self, _: tonic::Request<$asked>) -> Result<tonic::Response<$never>, Status> {
                let said = concat!(stringify!($not), " is not supported by this driver");
                Err(Status::unimplemented(said))
            })*
        }
    };
}
pub(crate) use answers;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_reached_from_its_node_alone() {
        let driver = CsiDriver::new(DriverOptions {
            name: "weir.csi".into(),
            node: "one".into(),
            endpoint: PathBuf::new(),
            manage: PathBuf::new(),
            volumes: PathBuf::new(),
            sockets: PathBuf::new(),
            direct_volumes: PathBuf::new(),
        });
        let of = |key: &str, node: &str| Topology {
            segments: [(key.to_owned(), node.to_owned())].into(),
        };
        let requires = |requisite| TopologyRequirement {
            requisite,
            preferred: Vec::new(),
        };
        let (one, two) = (
            of("topology.weir.csi/node", "one"),
            of("topology.weir.csi/node", "two"),
        );
        assert!(driver.meets(None) && driver.meets(Some(&requires(vec![]))));
        assert!(driver.meets(Some(&requires(vec![two.clone(), one]))));
        assert!(driver.meets(Some(&requires(vec![of("zone", "z")]))));
        assert!(!driver.meets(Some(&requires(vec![two]))));
        assert_eq!(driver.name(&driver.id("a/b")).unwrap(), "a/b");
        let code = |id| driver.name(id).unwrap_err().code();
        let codes = ["", "a", "two/a"].map(code);
        let expected = [Code::InvalidArgument, Code::NotFound, Code::Unavailable];
        assert_eq!(codes, expected);
    }
}
