//! A control plane of Kubernetes on loopback: etcd, API server and controller manager. Without a
//! kubelet, claims are bound but pods do not run.

use super::program;
use crate::common::{Scratch, words};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time that anything may take. On a machine that is not busy, each step takes seconds.
const PATIENCE: Duration = Duration::from_mins(3);

/// A process that ends with the test.
pub(super) struct LabProcess(Child);

impl LabProcess {
    /// Starts a command that writes to `NAME.log`.
    pub(super) fn start(scratch: &Scratch, name: &str, command: &mut Command) -> Self {
        let log = File::create(scratch.path(&format!("{name}.log"))).expect("a log");
        let both = log.try_clone().expect("a descriptor");
        let started = command
            .stdin(Stdio::null())
            .stdout(both)
            .stderr(log)
            .spawn();
        Self(started.unwrap_or_else(|error| panic!("{name}: {error}")))
    }
}

impl Drop for LabProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running control plane.
pub(super) struct ControlPlane {
    pub(super) scratch: Scratch,
    port: u16,
    token: String,
    /// The processes, of which the last one ends first.
    processes: Vec<LabProcess>,
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        while self.processes.pop().is_some() {}
    }
}

impl ControlPlane {
    /// Starts the control plane, and waits until it is ready. `None`, with a message, if a program
    /// is missing.
    pub(super) fn start() -> Option<Self> {
        let [api, manager] = [
            program("kube-apiserver")?,
            program("kube-controller-manager")?,
        ];
        let ports = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
        let [etcd, peers, port] = ports.map(|l| l.local_addr().expect("it is bound").port());
        let mut lab = Self {
            scratch: Scratch::new(),
            port,
            token: "of-the-test".into(),
            processes: Vec::new(),
        };
        let [store, peers] = [etcd, peers].map(|port| format!("http://127.0.0.1:{port}"));
        let mut command = Command::new("etcd");
        let line = format!(
            "--data-dir {} --unsafe-no-fsync --listen-client-urls {store} --advertise-client-urls {store} \
             --listen-peer-urls {peers}",
            lab.file("etcd")
        );
        command.args(words(&line));
        lab.run("etcd", &mut command);
        lab.serve(&api, &store);
        lab.wait("the API server", |lab| {
            lab.get("/readyz?verbose=false").0 == 200
        });
        lab.scratch.file("kubeconfig", &lab.kubeconfig());
        // Only the controllers of volumes are needed.
        let controllers = "persistentvolume-binder-controller,persistentvolume-expander-controller,\
            persistentvolumeclaim-protection-controller,persistentvolume-protection-controller";
        let mut command = Command::new(manager);
        let line = format!(
            "--leader-elect=false --secure-port=0 --kubeconfig {} --controllers={controllers}",
            lab.file("kubeconfig")
        );
        command.args(words(&line));
        lab.run("manager", &mut command);
        Some(lab)
    }

    fn serve(&mut self, api: &Path, store: &str) {
        let key = self.file("sa.key");
        let mut openssl = Command::new("openssl");
        let made = openssl.args(["genrsa", "-out", &key, "2048"]).output();
        assert!(made.expect("openssl is there").status.success());
        let tokens = format!("{},admin,1,\"system:masters\"\n", self.token);
        self.scratch.file("tokens.csv", &tokens);
        let mut command = Command::new(api);
        let line = format!(
            "--bind-address=127.0.0.1 --allow-privileged=true --service-account-issuer=https://lab \
             --authorization-mode=RBAC --disable-admission-plugins=ServiceAccount \
             --etcd-servers={store} --secure-port={} --cert-dir={} \
             --service-account-key-file={key} --service-account-signing-key-file={key} \
             --token-auth-file={} --service-cluster-ip-range=10.0.0.0/24",
            self.port,
            self.file("certs"),
            self.file("tokens.csv"),
        );
        command.args(words(&line));
        self.run("api", &mut command);
    }

    fn kubeconfig(&self) -> String {
        let server = format!("https://127.0.0.1:{}", self.port);
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [{ "name": "lab", "cluster": { "server": server, "insecure-skip-tls-verify": true } }],
            "users": [{ "name": "admin", "user": { "token": self.token } }],
            "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": "admin" } }],
        })
        .to_string()
    }

    /// Starts a process that ends with the lab.
    pub(super) fn run(&mut self, name: &str, command: &mut Command) {
        let process = LabProcess::start(&self.scratch, name, command);
        self.processes.push(process);
    }

    /// Returns a path in the directory of the lab.
    pub(super) fn file(&self, name: &str) -> String {
        self.scratch.at(name)
    }

    /// Returns the end of the log of a process.
    pub(super) fn log(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.scratch.path(&format!("{name}.log")));
        let text = text.unwrap_or_default();
        let lines: Vec<_> = text.lines().rev().take(8).collect();
        format!(
            "--- {name}\n{}\n",
            lines.into_iter().rev().collect::<Vec<_>>().join("\n")
        )
    }

    /// Waits until a condition is true, and returns the time that it took.
    pub(super) fn wait(&self, what: &str, is: impl Fn(&Self) -> bool) -> Duration {
        let began = Instant::now();
        while !is(self) {
            let logs = [
                "api",
                "manager",
                "provisioner-a",
                "resizer-a",
                "csi-a",
                "serve-a",
            ];
            let logs = || logs.map(|name| self.log(name)).concat();
            assert!(
                began.elapsed() < PATIENCE,
                "{what} takes too long\n{}",
                logs()
            );
            sleep(Duration::from_millis(200));
        }
        began.elapsed()
    }

    /// Sends a request to the API server, with a body of the given content type.
    pub(super) fn call(&self, method: &str, path: &str, kind: &str, body: &str) -> (u16, Value) {
        let mut curl = Command::new("curl");
        let line = format!(
            "-ks --max-time 30 -X {method} -w '\n%{{http_code}}' -H 'Authorization: Bearer {}' \
             -H 'Content-Type: {kind}' --data-binary @- https://127.0.0.1:{}{path}",
            self.token, self.port
        );
        curl.args(words(&line));
        let piped = curl.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut asked = piped.expect("curl is there");
        let mut input = asked.stdin.take().expect("it is piped");
        // A process that ends early reports the reason by its status.
        let _ = input.write_all(body.as_bytes());
        drop(input);
        let answer = asked.wait_with_output().expect("it ends");
        let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
        let (body, status) = answer.rsplit_once('\n').unwrap_or(("", ""));
        let body = serde_json::from_str(body).unwrap_or_else(|_| body.into());
        (status.parse().unwrap_or(0), body)
    }

    pub(super) fn get(&self, path: &str) -> (u16, Value) {
        self.call("GET", path, "application/json", "")
    }

    /// Applies an object on the API server, or only validates it if `dry`.
    pub(super) fn apply(&self, object: &str, path: &str, dry: bool) -> Result<(), String> {
        let dry = if dry { "&dryRun=All" } else { "" };
        let path = format!("{path}?fieldManager=test&force=true&fieldValidation=Strict{dry}");
        match self.call("PATCH", &path, "application/apply-patch+yaml", object) {
            (200 | 201, _) => Ok(()),
            (status, said) => Err(format!("{path}: {status} {said}")),
        }
    }

    /// Patches an object on the API server.
    pub(super) fn patch(&self, path: &str, change: &Value) {
        let body = change.to_string();
        let (status, said) = self.call("PATCH", path, "application/merge-patch+json", &body);
        assert_eq!(status, 200, "{said}");
    }
}

/// Returns the documents of a YAML file, each with its path in the API.
pub(super) fn documents(text: &str) -> Vec<(String, String)> {
    let whole = text
        .split("\n---\n")
        .map(|t| t.trim_start_matches("---\n").to_owned());
    let documents = whole.filter(|text| text.lines().any(|l| l.starts_with("kind:")));
    documents.map(|text| (path(&text), text)).collect()
}

/// Returns the path of an object in the API.
fn path(text: &str) -> String {
    let field = |start: &str| {
        let mut lines = text.lines();
        let found = lines.find_map(|line| line.strip_prefix(start));
        found.unwrap_or_default().trim().to_owned()
    };
    let (version, name) = (field("apiVersion:"), field("  name:"));
    let kind = field("kind:").to_lowercase();
    let plural = match kind.strip_suffix('s') {
        Some(_) => kind.clone() + "es",
        None => kind.clone() + "s",
    };
    let group = if version.contains('/') { "apis" } else { "api" };
    match &field("  namespace:")[..] {
        "" => format!("/{group}/{version}/{plural}/{name}"),
        namespace => format!("/{group}/{version}/namespaces/{namespace}/{plural}/{name}"),
    }
}

/// Returns the directory of the manifests.
pub(super) fn packaging() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../packaging/kubernetes"
    ))
}
