//! A server, the driver, and between the two a go-between that ends the driver at a chosen moment of a chosen request.

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
use weir_manage::api::{Client, List, Volume as Served};

/// The node's name.
pub(crate) const NODE: &str = "here";
/// What the server and the drivers say, told of a test that fails.
const LOG: &str = "log";
/// How long a process may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that `packaging/fleet/kubernetes` makes; `None`, with a line, if it was not made.
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

/// When the driver is ended: requests have four moments each, before they reach the server, after they have, when the answer is there, and
/// when the driver has it.
#[derive(Debug, Default)]
struct Moments {
    /// How many passed since this was armed.
    passed: usize,
    /// At which the driver ends; never if there is none.
    end_at: Option<usize>,
    driver: Option<Child>,
}

impl Moments {
    /// One passes: true if the driver has ended with it.
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

/// What the tests have.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) scratch: Scratch,
    moments: Arc<Mutex<Moments>>,
    server: Option<Child>,
    runtime: tokio::runtime::Runtime,
}

impl Drop for Bench {
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

impl Bench {
    /// Starts a server with a drive that can promise 108 MB/s; `volumes` is where it has room for files.
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

    /// Starts the server; one that runs is killed before.
    pub(crate) fn serve(&mut self) {
        end(self.server.take());
        let mut server = self.program("weir");
        let server = server.arg("serve").arg(self.scratch.path("weir.toml"));
        let server = self.server.insert(server.spawn().expect("it is there"));
        let number = server.id();
        self.there("manage", number);
    }

    /// A program of the workspace, whose output goes to the log.
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

    /// Kills the driver.
    pub(crate) fn end_driver(&self) {
        end(self.moments.lock().expect("it is ours").driver.take());
    }

    /// Waits until a process listens at a socket: this one, for a tool that a killed driver was about to run holds that driver's socket until it runs.
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

    /// Passes requests on, each with its moments.
    fn go_between(&self) {
        let listener = UnixListener::bind(self.scratch.path("between")).expect("a socket");
        let (moments, server) = (Arc::clone(&self.moments), self.scratch.path("manage"));
        std::thread::spawn(move || {
            for asked in listener.incoming() {
                let (mut asked, moments) = (asked.expect("a driver"), Arc::clone(&moments));
                let pass = move || moments.lock().expect("it is ours").pass();
                // While there is no server, a driver is told so by the end of its connection.
                let Ok(mut server) = UnixStream::connect(&server) else {
                    continue;
                };
                // A driver that has ended sends half a request, and takes no answer.
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

    /// Starts the driver, if there is none, and arms the go-between.
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
            drop(moments);
            self.there("csi", number);
            moments = self.moments.lock().expect("it is ours");
        }
        (moments.passed, moments.end_at) = (0, end_at);
    }

    /// Ends the driver after a time, if it is there then; one that is started meanwhile stays.
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

    /// Whether the driver was ended since it was armed.
    pub(crate) fn has_ended(&self) -> bool {
        self.moments.lock().expect("it is ours").driver.is_none()
    }

    /// Makes a call, once.
    pub(crate) fn call<C: Call>(&self, call: C) -> Result<C::Answer, Status> {
        let uri = format!("unix:{}", self.scratch.path("csi").display());
        self.runtime.block_on(async {
            let endpoint = Endpoint::from_shared(uri).expect("a path");
            let channel = endpoint.connect().await;
            let channel =
                channel.map_err(|error| Status::new(Code::Unavailable, error.to_string()))?;
            Ok(call.make(channel).await?.into_inner())
        })
    }

    /// The volumes of the server, and how many files there are.
    pub(crate) fn volumes(&self) -> (Vec<Served>, usize) {
        let client = Client::new(&self.scratch.path("manage")).expect("a client");
        let List::Volumes(volumes) = client.get("/v1/volumes").expect("the server answers") else {
            panic!("something else than volumes");
        };
        let files = fs::read_dir(self.scratch.path("v").join("fast")).expect("it is there");
        (volumes, files.count())
    }
}

/// A call of the driver, known by what it sends.
pub(crate) trait Call {
    type Answer;

    async fn make(self, driver: Channel) -> Result<Response<Self::Answer>, Status>;
}

macro_rules! calls {
    ($($client:ident { $($method:ident: $request:ident -> $answer:ident,)* })*) => {$($(
        impl Call for $request {
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

/// A volume's number, from its name.
pub(crate) fn id(name: &str) -> String {
    format!("{NODE}/{name}")
}

pub(crate) fn capability(mode: Mode, used: AccessType) -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(used),
    }
}

/// A volume that is at least this large, in MiB.
pub(crate) fn range(mib: i64) -> CapacityRange {
    CapacityRange {
        required_bytes: mib << 20,
        limit_bytes: 0,
    }
}

/// A message of HTTP that says how long it is; `None` if it ends before.
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
