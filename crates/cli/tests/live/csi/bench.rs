//! A server, the driver, and a proxy between them that kills the driver at a chosen moment of a
//! chosen request.

use crate::common::{Scratch, program_of};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};
use weir_csi::rpc::controller_client::ControllerClient;
use weir_csi::rpc::node_client::NodeClient;
use weir_csi::rpc::volume_capability::{AccessMode, AccessType, access_mode::Mode};
use weir_csi::rpc::*;
use weir_manage::api::{List, ManagementClient, Volume as Served};

/// The name of the node.
pub(crate) const NODE: &str = "here";
/// The file with the output of the server and the drivers, which is printed if a test fails.
const LOG: &str = "log";
/// The time that a process may take to respond.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns a program that `packaging/fleet/kubernetes` builds. `None`, with a message, if it was
/// not built.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("WEIR_FLEET").map(|directory| PathBuf::from(directory).join(name));
    if let Some(path) = path.filter(|path| path.exists()) {
        return Some(path);
    }
    let said = format!(
        "{name} is not there: packaging/fleet/kubernetes DIRECTORY makes it for WEIR_FLEET=DIRECTORY/bin"
    );
    assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "{said}");
    println!("skipped: {said}");
    None
}

/// The moment at which the driver is killed. A request has four moments: before it reaches the
/// server, after it has reached the server, when the response arrives, and when the driver has
/// received the response.
#[derive(Debug, Default)]
struct Moments {
    /// The number of moments that passed since the last arming.
    passed: usize,
    /// The moment at which the driver is killed, or `None` for never.
    end_at: Option<usize>,
    driver: Option<Child>,
}

impl Moments {
    /// Passes one moment. Returns true if the driver is killed at it.
    fn pass(&mut self) -> bool {
        let ends = self.end_at == Some(self.passed);
        self.passed += 1;
        if ends {
            self.end_at = None;
            end(self.driver.take());
        }
        ends
    }
}

fn end(child: Option<Child>) {
    if let Some(mut child) = child {
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
    }
}

/// The environment of the tests: a server, the driver, and the proxy.
#[derive(Debug)]
pub(crate) struct CsiBench {
    pub(crate) scratch: Scratch,
    moments: Arc<Mutex<Moments>>,
    server: Option<Child>,
    runtime: tokio::runtime::Runtime,
}

impl Drop for CsiBench {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let said = fs::read_to_string(self.scratch.path(LOG)).unwrap_or_default();
            let lines: Vec<_> = said.lines().collect();
            let last = &lines[lines.len().saturating_sub(30)..];
            println!("server and driver said at last:\n{}", last.join("\n"));
        }
        end(self.server.take());
        end(self
            .moments
            .lock()
            .expect("no test panicked with it")
            .driver
            .take());
    }
}

impl CsiBench {
    /// Starts a server with a drive that can promise 108 MB/s (90 % of 120 MB/s). `volumes` is the
    /// directory for the files of volumes.
    pub(crate) fn new(volumes: Option<PathBuf>) -> Self {
        let scratch = Scratch::new();
        let volumes = volumes.unwrap_or_else(|| scratch.path("volumes"));
        fs::create_dir_all(volumes.join("fast")).expect("a directory");
        std::os::unix::fs::symlink(&volumes, scratch.path("v")).expect("a link");
        let [nbd, manage] = ["nbd", "manage"].map(|name| scratch.path(name));
        let text = format!(
            "[drive.fast]\ncapacity = {{ read = \"160MB/s\", write = \"120MB/s\" }}\n\
             [listen]\nnbd = [\"unix:{}\"]\n[manage]\nsocket = \"{}\"\n",
            nbd.display(),
            manage.display()
        );
        scratch.file("weir.toml", &text);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let mut bench = Self {
            moments: Arc::default(),
            server: None,
            runtime: runtime.expect("a runtime"),
            scratch,
        };
        bench.serve();
        bench.go_between();
        bench
    }

    /// Starts the server. If it runs already, it is killed first.
    pub(crate) fn serve(&mut self) {
        end(self.server.take());
        let mut server = self.program("weir");
        let server = server.arg("serve").arg(self.scratch.path("weir.toml"));
        let server = self.server.insert(server.spawn().expect("it is there"));
        let number = server.id();
        self.there("manage", number);
    }

    /// Returns a command for a program of the workspace, whose output goes to the log.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(program_of(name));
        let log = self.scratch.path(LOG);
        let log = File::options().append(true).create(true).open(log);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("a log"));
        command
    }

    /// Kills the driver, if it runs.
    pub(crate) fn end_driver(&self) {
        end(self.moments.lock().expect("it is ours").driver.take());
    }

    /// Waits until a process listens at a socket. The process is checked, because a tool that a
    /// killed driver was about to run keeps that driver's socket open until it runs.
    fn there(&self, name: &str, process: u32) {
        let began = Instant::now();
        let listens = || {
            let socket = UnixStream::connect(self.scratch.path(name)).ok()?;
            let peer = rustix::net::sockopt::socket_peercred(&socket).ok()?;
            (peer.pid.as_raw_pid().cast_unsigned() == process).then_some(())
        };
        while listens().is_none() {
            assert!(began.elapsed() < PATIENCE, "{name} does not come");
            sleep(Duration::from_millis(5));
        }
    }

    /// Starts the proxy, which passes requests on and counts their moments.
    fn go_between(&self) {
        let listener = UnixListener::bind(self.scratch.path("between")).expect("a socket");
        let (moments, server) = (Arc::clone(&self.moments), self.scratch.path("manage"));
        std::thread::spawn(move || {
            for asked in listener.incoming() {
                let (mut asked, moments) = (asked.expect("a driver"), Arc::clone(&moments));
                let pass = move || moments.lock().expect("it is ours").pass();
                // Without a server, the driver notices the end of its connection.
                let Ok(mut server) = UnixStream::connect(&server) else {
                    continue;
                };
                // A killed driver sends only a part of its request, and does not receive the
                // response.
                let relay = move || {
                    let request = message(&mut asked)?;
                    if pass() {
                        return None;
                    }
                    server.write_all(&request).ok()?;
                    pass();
                    let answer = message(&mut server)?;
                    if !pass() {
                        asked.write_all(&answer).ok()?;
                        pass();
                    }
                    Some(())
                };
                std::thread::spawn(relay);
            }
        });
    }

    /// Starts the driver, unless it runs, and arms the proxy.
    pub(crate) fn driver(&self, end_at: Option<usize>) {
        let mut moments = self.moments.lock().expect("it is ours");
        if moments.driver.is_none() {
            let path = |name: &str| self.scratch.path(name);
            let mut driver = self.program("weir-csi");
            driver.args(["--node", NODE]);
            driver
                .arg("--endpoint")
                .arg(path("csi"))
                .arg("--socket")
                .arg(path("between"));
            driver.arg("--volumes").arg(path("v"));
            driver.arg("--direct-volumes").arg(path("direct"));
            let driver = driver.spawn().expect("it is there");
            let number = driver.id();
            moments.driver = Some(driver);
            // The lock is released while the driver starts, because a request of the driver needs
            // it.
            drop(moments);
            self.there("csi", number);
            moments = self.moments.lock().expect("it is ours");
        }
        // Moments are counted from the arming on.
        (moments.passed, moments.end_at) = (0, end_at);
    }

    /// Kills the driver after some time, if the same driver still runs then.
    pub(crate) fn end_after(&self, time: Duration) -> JoinHandle<()> {
        let moments = Arc::clone(&self.moments);
        let number = |moments: &Moments| moments.driver.as_ref().map(Child::id);
        let armed = number(&moments.lock().expect("it is ours"));
        std::thread::spawn(move || {
            sleep(time);
            let mut moments = moments.lock().expect("it is ours");
            if number(&moments) == armed {
                end(moments.driver.take());
            }
        })
    }

    /// Returns true if the driver was killed since the proxy was armed.
    pub(crate) fn has_ended(&self) -> bool {
        self.moments.lock().expect("it is ours").driver.is_none()
    }

    /// Makes a call, without repeating it.
    pub(crate) fn call<C: DriverCall>(&self, call: C) -> Result<C::Answer, Status> {
        let uri = format!("unix:{}", self.scratch.path("csi").display());
        self.runtime.block_on(async {
            let endpoint = Endpoint::from_shared(uri).expect("a path");
            let channel = endpoint.connect().await;
            let channel =
                channel.map_err(|error| Status::new(Code::Unavailable, error.to_string()))?;
            Ok(call.make(channel).await?.into_inner())
        })
    }

    /// Returns the volumes of the server, and the number of files.
    pub(crate) fn volumes(&self) -> (Vec<Served>, usize) {
        let client = ManagementClient::new(&self.scratch.path("manage")).expect("a client");
        let List::Volumes(volumes) = client.get("/v1/volumes").expect("the server answers") else {
            panic!("something else than volumes");
        };
        let files = fs::read_dir(self.scratch.path("v").join("fast")).expect("it is there");
        (volumes, files.count())
    }
}

/// A call of the driver, which is identified by the type of its request.
pub(crate) trait DriverCall {
    type Answer;

    async fn make(self, driver: Channel) -> Result<Response<Self::Answer>, Status>;
}

macro_rules! calls {
    ($($client:ident { $($method:ident: $request:ident -> $answer:ident,)* })*) => {$($(
        impl DriverCall for $request {
            type Answer = $answer;

            async fn make(self, driver: Channel) -> Result<Response<$answer>, Status> {
                $client::new(driver).$method(self).await
            }
        }
    )*)*};
}

calls! {
    ControllerClient {
        create_volume: CreateVolumeRequest -> CreateVolumeResponse,
        delete_volume: DeleteVolumeRequest -> DeleteVolumeResponse,
        controller_modify_volume: ControllerModifyVolumeRequest -> ControllerModifyVolumeResponse,
        controller_expand_volume: ControllerExpandVolumeRequest -> ControllerExpandVolumeResponse,
        controller_get_volume: ControllerGetVolumeRequest -> ControllerGetVolumeResponse,
        controller_get_capabilities: ControllerGetCapabilitiesRequest -> ControllerGetCapabilitiesResponse,
        list_volumes: ListVolumesRequest -> ListVolumesResponse,
        validate_volume_capabilities: ValidateVolumeCapabilitiesRequest -> ValidateVolumeCapabilitiesResponse,
        get_capacity: GetCapacityRequest -> GetCapacityResponse,
    }
    NodeClient {
        node_stage_volume: NodeStageVolumeRequest -> NodeStageVolumeResponse,
        node_unstage_volume: NodeUnstageVolumeRequest -> NodeUnstageVolumeResponse,
        node_publish_volume: NodePublishVolumeRequest -> NodePublishVolumeResponse,
        node_unpublish_volume: NodeUnpublishVolumeRequest -> NodeUnpublishVolumeResponse,
        node_get_volume_stats: NodeGetVolumeStatsRequest -> NodeGetVolumeStatsResponse,
        node_expand_volume: NodeExpandVolumeRequest -> NodeExpandVolumeResponse,
    }
}

/// Returns the identifier of a volume with this name.
pub(crate) fn id(name: &str) -> String {
    format!("{NODE}/{name}")
}

pub(crate) fn capability(mode: Mode, used: AccessType) -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(used),
    }
}

/// Returns the capacity range of a volume of at least this size, in MiB.
pub(crate) fn range(mib: i64) -> CapacityRange {
    CapacityRange {
        required_bytes: mib << 20,
        limit_bytes: 0,
    }
}

/// Reads an HTTP message with a `Content-Length`. `None` if the connection ends before the message
/// does.
fn message(from: &mut UnixStream) -> Option<Vec<u8>> {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(head) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
            let mut lines = text.lines();
            let length =
                lines.find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            if bytes.len() >= head + 4 + length.unwrap_or(0usize) {
                return Some(bytes);
            }
        }
        match from.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
        }
    }
}
