//! The driver as a whole: what it is told, and its three services at one socket.

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
use crate::busy::Busy;
use crate::error::{needed, no_volume};
use crate::http2::Connection;
use crate::images::Images;
use crate::rpc::controller_server::ControllerServer;
use crate::rpc::identity_server::IdentityServer;
use crate::rpc::node_server::NodeServer;
use crate::rpc::{Topology, TopologyRequirement};
use crate::volumes::Volumes;

/// What the driver is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name in Kubernetes.
    pub name: String,
    /// The node's name.
    pub node: String,
    /// The Unix socket at which it answers.
    pub endpoint: PathBuf,
    /// The server's management socket.
    pub manage: PathBuf,
    /// The directory with one for each drive, in which the files of volumes lie. The server sees it under the same path.
    pub volumes: PathBuf,
    /// The directory of the sockets of volumes for virtual machines. The server, which makes them, and the machines' monitors see it under the same path.
    pub sockets: PathBuf,
    /// The directory in which Kata Containers is told which paths of pods are such volumes.
    pub direct_volumes: PathBuf,
}

/// Why the driver does not answer.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Its socket cannot be had.
    #[error("cannot listen on {}: {error}", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The system gives no threads or descriptors.
    #[error("cannot serve: {0}")]
    System(#[from] io::Error),
    /// Serving has ended.
    #[error("cannot serve: {0}")]
    Serve(#[from] tonic::transport::Error),
    /// The thread that connects devices again has panicked.
    #[error("a thread of the driver failed; see the log")]
    Fault,
}

/// Answers at the socket until SIGTERM or SIGINT.
///
/// # Errors
/// See [`ServeError`].
pub fn serve(options: Options) -> Result<(), ServeError> {
    // Calls wait on threads of their own.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build()?;
    runtime.block_on(async {
        let path = options.endpoint.clone();
        let listener = listen(&path).map_err(|error| ServeError::Listen { path, error })?;
        let driver = Arc::new(Driver::new(options));
        let keeper = Arc::clone(&driver);
        let (kept, ended) = oneshot::channel();
        let keep = move || {
            nbd::keep(&keeper);
            // The driver may have ended.
            let _ = kept.send(());
        };
        std::thread::Builder::new()
            .name("weir-csi-links".into())
            .spawn(keep)?;
        let connections = stream::unfold(listener, async |listener| {
            let accepted = listener.accept().await;
            Some((
                accepted.map(|(stream, _)| Connection::new(stream)),
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

/// Is over when the thread panics. A thread that has nothing to keep ends by itself, and the driver
/// goes on.
async fn failed(ended: oneshot::Receiver<()>) {
    if ended.await.is_ok() {
        std::future::pending::<()>().await;
    }
}

/// Is over when the driver is to end.
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

/// The socket's listener; one that a driver has left behind goes.
fn listen(path: &Path) -> io::Result<UnixListener> {
    if path
        .symlink_metadata()
        .is_ok_and(|m| m.file_type().is_socket())
    {
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

fn services(driver: &Arc<Driver>) -> Router {
    let service = || Service(Arc::clone(driver));
    tonic::transport::Server::builder()
        .add_service(IdentityServer::new(service()))
        .add_service(ControllerServer::new(service()))
        .add_service(NodeServer::new(service()))
}

/// What calls share. Nothing of it outlives the process, or needs to.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) options: Options,
    pub(crate) images: Images,
    pub(crate) busy: Busy,
}

impl Driver {
    fn new(options: Options) -> Self {
        Self {
            images: Images::new(options.volumes.clone()),
            busy: Busy::default(),
            options,
        }
    }

    /// The driver's volumes, of the server as it is now.
    pub(crate) fn volumes(&self) -> Result<Volumes<'_>, Status> {
        Volumes::new(self)
    }

    /// The id of a volume in Kubernetes: `NODE/VOLUME`. Sidecars ask the drivers of all nodes, and each tells its own volumes by it.
    pub(crate) fn id(&self, volume: &str) -> String {
        format!("{}/{volume}", self.options.node)
    }

    /// The name of the volume with an id.
    ///
    /// # Errors
    /// `UNAVAILABLE` of another node's, so that its own driver is waited for; `NOT_FOUND` if it is no id of this driver's.
    pub(crate) fn name<'a>(&self, id: &'a str) -> Result<&'a str, Status> {
        let here = &self.options.node;
        match needed("the volume's id", id)?.split_once('/') {
            Some((node, name)) if node == here => Ok(name),
            Some((node, _)) => {
                let said = format!("this is node {here}, but the volume belongs to node {node}");
                Err(Status::unavailable(said))
            }
            None => Err(no_volume(id)),
        }
    }

    /// Where a volume of this node's can be reached from: this node.
    pub(crate) fn topology(&self) -> Topology {
        let key = format!("topology.{}/node", self.options.name);
        Topology {
            segments: [(key, self.options.node.clone())].into(),
        }
    }

    /// Whether all segments that this driver has in a topology are this node's.
    pub(crate) fn is_here(&self, topology: &Topology) -> bool {
        let here = self.topology().segments;
        here.iter().all(|(key, node)| {
            let asked = topology.segments.get(key);
            asked.is_none_or(|asked| asked == node)
        })
    }

    /// Whether a volume of this node's meets a requirement.
    pub(crate) fn meets(&self, required: Option<&TopologyRequirement>) -> bool {
        required.is_none_or(|required| {
            let requisite = &required.requisite;
            requisite.is_empty() || requisite.iter().any(|topology| self.is_here(topology))
        })
    }
}

/// A service of the driver's.
#[derive(Clone, Debug)]
pub(crate) struct Service(pub(crate) Arc<Driver>);

/// How long a call may take: kubelet and sidecars wait as long.
const PATIENCE: Duration = Duration::from_mins(2);

impl Service {
    /// Answers a call on a thread that may wait.
    pub(crate) async fn answer<T: Send + 'static>(
        &self,
        call: &'static str,
        work: impl FnOnce(&Driver) -> Result<T, Status> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let driver = Arc::clone(&self.0);
        let work = tokio::task::spawn_blocking(move || work(&driver));
        let answer = match tokio::time::timeout(PATIENCE, work).await {
            Ok(ended) => ended
                .unwrap_or_else(|_| Err(Status::internal("internal error; see the driver's log"))),
            Err(_) => Err(Status::deadline_exceeded(
                "the call did not end within two minutes",
            )),
        };
        match &answer {
            Ok(_) => tracing::debug!("{call}: done"),
            Err(refused) if refused.code() == Code::Internal => {
                tracing::error!("{call}: {}", refused.message());
            }
            Err(refused) => tracing::info!("{call}: {:?}: {}", refused.code(), refused.message()),
        }
        answer.map(Response::new)
    }
}

/// Answers the calls of a service with functions of the driver and the request, and refuses those that the driver says it does not have.
macro_rules! answers {
    ($service:ident { $($name:ident: $request:ident => $response:ident, $with:expr;)* } not { $($not:ident: $asked:ident => $never:ident;)* }) => {
        #[tonic::async_trait]
        impl $service for crate::driver::Service {
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
        let driver = Driver::new(Options {
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
