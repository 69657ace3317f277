//! An etcd of one or three members, and servers that use it, on their own ports and in their own
//! directories.

use crate::common::program::skip;
use crate::common::running::{RunningServer, fleet, start};
use crate::common::{Scratch, free_port, signal, wait, weir};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use weir_model::load::Program;

/// The maximum age of metrics. Younger values are served again, so a value was true at most this
/// long ago.
pub(crate) const AGE: Duration = Duration::from_millis(500);
/// The time to wait for a server that does not respond.
const PATIENCE: Duration = Duration::from_millis(300);

/// Returns true if etcd is installed. Otherwise prints that the test is skipped.
pub(crate) fn have() -> bool {
    let have = Command::new("etcd").arg("--version").output().is_ok();
    if !have {
        skip("etcd is not installed (package etcd-server)");
    }
    have
}

/// Sends an HTTP request with a timeout, and returns the response without its head. The body may be
/// chunked.
fn http(port: u16, request: &str, patience: Duration) -> Option<String> {
    let address = ([127, 0, 0, 1], port).into();
    let mut stream = TcpStream::connect_timeout(&address, patience).ok()?;
    stream.set_read_timeout(Some(patience)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    Some(answer.split_once("\r\n\r\n")?.1.to_owned())
}

/// A member of an etcd cluster.
struct EtcdMember {
    child: Child,
    command: Vec<String>,
    client: u16,
}

/// An etcd cluster, which ends with the test.
pub(crate) struct EtcdCluster {
    nodes: Vec<EtcdMember>,
    _scratch: Scratch,
}

impl EtcdCluster {
    pub(crate) fn start(count: usize) -> Self {
        let scratch = Scratch::new();
        let ports: Vec<[u16; 2]> = (0..count).map(|_| [free_port(), free_port()]).collect();
        let peers = ports.iter().enumerate();
        let peers = peers.map(|(n, [_, peer])| format!("n{n}=http://127.0.0.1:{peer}"));
        let cluster = peers.collect::<Vec<_>>().join(",");
        let nodes = ports.iter().enumerate().map(|(n, [client, peer])| {
            let (client_url, peer_url) = (
                format!("http://127.0.0.1:{client}"),
                format!("http://127.0.0.1:{peer}"),
            );
            let directory = scratch.at(&format!("n{n}"));
            let command: Vec<String> = [
                ("--name", format!("n{n}")),
                ("--data-dir", directory),
                ("--listen-client-urls", client_url.clone()),
                ("--advertise-client-urls", client_url),
                ("--listen-peer-urls", peer_url.clone()),
                ("--initial-advertise-peer-urls", peer_url),
                ("--initial-cluster", cluster.clone()),
            ]
            .into_iter()
            .flat_map(|(option, value)| [option.to_owned(), value])
            .collect();
            EtcdMember {
                child: spawn(&command),
                command,
                client: *client,
            }
        });
        let etcd = Self {
            nodes: nodes.collect(),
            _scratch: scratch,
        };
        for at in 0..count {
            // "YQ==" is the key `a` in base64. A read succeeds only if there is a leader.
            wait("etcd has a leader", || {
                etcd.post(at, "/v3/kv/range", "{\"key\":\"YQ==\"}")
                    .is_some_and(|said| said.contains("\"header\""))
            });
        }
        etcd
    }

    /// Returns the endpoints in the form of the configuration.
    pub(crate) fn urls(&self) -> String {
        let urls = self.nodes.iter();
        let urls = urls.map(|n| format!("\"http://127.0.0.1:{}\"", n.client));
        urls.collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn post(&self, at: usize, path: &str, body: &str) -> Option<String> {
        let (port, length) = (self.nodes[at].client, body.len());
        http(
            port,
            &format!(
                "POST {path} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
            ),
            10 * PATIENCE,
        )
    }

    pub(crate) fn signal_all(&self, what: Signal) {
        self.nodes.iter().for_each(|node| signal(&node.child, what));
    }

    pub(crate) fn kill(&mut self, at: usize) {
        self.nodes[at].child.kill().expect("it is our child");
        self.nodes[at].child.wait().expect("it is our child");
    }

    pub(crate) fn restart(&mut self, at: usize) {
        self.nodes[at].child = spawn(&self.nodes[at].command);
    }
}

impl Drop for EtcdCluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.child.kill();
            let _ = node.child.wait();
        }
    }
}

fn spawn(arguments: &[String]) -> Child {
    Command::new("etcd")
        .args(arguments)
        // etcd refuses to start on some architectures without this variable.
        .env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("etcd can be started")
}

/// A server with the volume `v`, whose min is shared, and the volume `other`, on a modelled drive.
pub(crate) struct GatewayLabServer {
    pub(crate) running: RunningServer,
    pub(crate) metrics: u16,
    pub(crate) name: &'static str,
}

/// The min that the servers share, in bytes per second.
pub(crate) const MIN: f64 = 30e6;

impl GatewayLabServer {
    pub(crate) fn start(scratch: &Scratch, name: &'static str, etcd: &EtcdCluster) -> Self {
        let (nbd, manage) = (
            scratch.path(&format!("{name}.nbd")),
            scratch.path(&format!("{name}.manage")),
        );
        let text = format!(
            "[drive.d]\nmodel = \"demo\"\n[listen]\nnbd = [\"unix:{}\"]\nmetrics = \"127.0.0.1:0\"\n\
             [manage]\nsocket = \"{}\"\n[gateways]\netcd = [{}]\nlease = \"5s\"\n\
             [volume.v]\ndrive = \"d\"\nsize = \"64MiB\"\nmin = \"30MB/s\"\nshare = 1\nshared = \"v\"\n\
             [volume.other]\ndrive = \"d\"\nsize = \"64MiB\"\n",
            nbd.display(),
            manage.display(),
            etcd.urls()
        );
        scratch.file(&format!("{name}.toml"), &text);
        let running = start(&mut weir(scratch, &format!("serve {name}.toml")));
        let metrics = || {
            let log = running.log.lock().unwrap();
            let (_, rest) = log.split_once("metrics at http://127.0.0.1:")?;
            rest.split('/').next()?.parse().ok()
        };
        wait("it says where its metrics are", || metrics().is_some());
        Self {
            metrics: metrics().unwrap(),
            running,
            name,
        }
    }

    /// Starts clients that read a volume for some seconds, or until the server is gone.
    pub(crate) fn load(&self, export: &str, program: Program, seconds: u64) -> JoinHandle<()> {
        let length = Duration::from_secs(seconds);
        let fleet = fleet(&self.running.address, &[(export, program)], length);
        thread::spawn(move || {
            // The server may be killed while the clients run.
            let _ = fleet.run(|_| {});
        })
    }

    pub(crate) fn kill(&mut self) {
        self.running.child.kill().expect("it is our child");
        self.running.child.wait().expect("it is our child");
    }

    pub(crate) fn signal(&self, what: Signal) {
        signal(&self.running.child, what);
    }

    /// Returns the part of the min that the server promises, or `None` if it does not respond.
    pub(crate) fn part(&self) -> Option<f64> {
        part(self.metrics)
    }

    pub(crate) fn metric(&self, name: &str) -> f64 {
        metric(self.metrics, name).unwrap_or(0.0)
    }

    /// Returns the number of times that the server lost its part.
    pub(crate) fn lapses(&self) -> u64 {
        self.metric("weir_gateway_lease_lost_total") as u64
    }

    /// Returns the bandwidth of the volume in bytes per second, measured over two seconds.
    pub(crate) fn gets(&self) -> f64 {
        // However old a page of metrics is, all its values are of one time, which the page
        // contains.
        let now = || {
            let page = page(self.metrics).expect("it answers");
            let bytes = on_page(&page, "weir_bytes_total{volume=\"v\",op=\"read\"}");
            let at = on_page(&page, "weir_drive_seconds_total{drive=\"d\"}");
            (bytes.unwrap_or(0.0), at.expect("it is served"))
        };
        thread::sleep(AGE);
        let (before, began) = now();
        thread::sleep(Duration::from_secs(2));
        let (after, ended) = now();
        (after - before) / (ended - began)
    }
}

/// Reads 16 KiB with a queue depth of 8, which demands more than the min.
pub(crate) fn eager() -> Program {
    Program::random_reads(16 << 10, 8)
}

/// Reads with a queue depth that takes as much of the drive as possible.
pub(crate) fn greedy() -> Program {
    Program::random_reads(64 << 10, 32)
}

fn page(port: u16) -> Option<String> {
    let request = "GET /metrics HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n";
    http(port, request, PATIENCE)
}

fn metric(port: u16, name: &str) -> Option<f64> {
    on_page(&page(port)?, name)
}

fn on_page(page: &str, name: &str) -> Option<f64> {
    let line = page.lines().find(|line| line.starts_with(name))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

fn part(port: u16) -> Option<f64> {
    metric(port, "weir_gateway_part{volume=\"v\"}")
}

/// Waits until a condition is true, and returns the time that it took. `what` describes the
/// condition in case of a timeout.
pub(crate) fn within(what: &str, most: Duration, mut is_so: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < most, "{what}: not within {most:?}");
        thread::sleep(Duration::from_millis(50));
    }
    begun.elapsed()
}

/// Records the parts of all servers repeatedly, until it is stopped.
pub(crate) struct Sampler {
    stop: std::sync::mpsc::Sender<()>,
    thread: JoinHandle<Vec<PartSample>>,
}

/// A time, with the part of each port. A server that did not respond promises nothing.
type PartSample = (Instant, BTreeMap<u16, f64>);

impl Sampler {
    pub(crate) fn start(ports: Vec<u16>) -> Self {
        let (stop, stopped) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            let mut samples = Vec::new();
            while stopped.recv_timeout(Duration::from_millis(100)).is_err() {
                let now = Instant::now();
                let parts = ports.iter().map(|p| (*p, part(*p).unwrap_or(0.0)));
                samples.push((now, parts.collect()));
            }
            samples
        });
        Self { stop, thread }
    }

    /// Returns the largest sum of parts at one time, and the number of times that were checked.
    /// Values that stay equal for longer than the maximum age of metrics were all true at one time.
    pub(crate) fn largest(self) -> (f64, usize) {
        let _ = self.stop.send(());
        let samples = self.thread.join().expect("it notes");
        let mut sums = Vec::new();
        for (at, (begin, parts)) in samples.iter().enumerate() {
            // Pages of metrics are cached for up to `AGE`, so that parts of different servers in
            // one sample can be of different times.
            let same = samples[at..].iter().take_while(|(_, p)| p == parts);
            if same
                .last()
                .is_some_and(|(end, _)| *end - *begin > AGE + AGE / 5)
            {
                sums.push(parts.values().sum::<f64>());
            }
        }
        (sums.iter().copied().fold(0.0, f64::max), sums.len())
    }
}
