//! Clients over TLS: their roles, and clients that are refused.
//!
//! If OpenSSL is not installed, a test is skipped with a line. `WEIR_NO_SKIP=1` makes that a
//! failure.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::site::{PATIENCE, Site, VOLUMES};
use serde_json::{Value, json};
use weir_manage::api::{Changes, Error, ManagementClient, Outcome, Status};

/// Number of sites that were made. It keeps their directories apart.
static SITES: AtomicU32 = AtomicU32::new(0);

/// A server with `manage.https`, and clients of three authorities that it trusts.
struct SecureSite {
    site: Site,
    address: SocketAddr,
    directory: PathBuf,
}

impl SecureSite {
    /// Starts a server. Returns `None` if OpenSSL is not installed.
    fn new(more: &str) -> Option<Self> {
        let version = Command::new("openssl").arg("version").output();
        if !version.is_ok_and(|output| output.status.success()) {
            let must = std::env::var_os("WEIR_NO_SKIP").is_some_and(|value| value == "1");
            assert!(
                !must,
                "openssl is not installed, and WEIR_NO_SKIP forbids skipping"
            );
            println!("skipped: openssl is not installed");
            return None;
        }
        let site = SITES.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-manage-tls-{}-{site}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&directory);
        let mut trusted = String::new();
        for client in ["ops.example", "monitor.example", "stranger.example"] {
            make(&directory.join(client), client);
            trusted += &fs::read_to_string(directory.join(client).join("ca-cert.pem")).unwrap();
        }
        fs::write(directory.join("clients.pem"), trusted).unwrap();
        let server = directory.join("ops.example");
        for client in ["monitor.example", "stranger.example"] {
            // Every client trusts the authority of the server.
            let ca = directory.join(client).join("ca-cert.pem");
            fs::copy(server.join("ca-cert.pem"), ca).unwrap();
        }
        let at = server.display();
        let site = Site::with(&format!(
            "https = \"127.0.0.1:0\"\ncertificates = [\"ops.example\"]\n\
             read_only = [\"certificate:monitor.example\"]\n{more}\n\
             [listen.tls]\ncertificate = \"{at}/server-cert.pem\"\nkey = \"{at}/server-key.pem\"\n\
             client_ca = \"{}/clients.pem\"\nclient_certificates = \"optional\"\n{VOLUMES}",
            directory.display()
        ));
        let address = site.management().addresses().https.unwrap();
        Some(Self {
            site,
            address,
            directory,
        })
    }

    /// Returns a client with the certificates in a directory.
    fn with(&self, certificates: &Path) -> ManagementClient {
        let server = format!("localhost:{}", self.address.port());
        ManagementClient::over_tls(&server, certificates).unwrap()
    }

    fn client(&self, name: &str) -> ManagementClient {
        self.with(&self.directory.join(name))
    }

    /// Returns the number of refused clients of the management interface, by reason.
    fn refused(&self, reason: &str) -> u64 {
        let metrics = self.site.client.text("/metrics").unwrap();
        let name = format!("weir_refused_clients_total{{reason=\"{reason}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&*name));
        line.unwrap().parse().unwrap()
    }
}

impl SecureSite {
    /// Waits until this many clients are counted. Metrics can be half a second old.
    #[track_caller]
    fn counts(&self, reason: &str, wanted: u64) {
        let begun = Instant::now();
        while self.refused(reason) != wanted {
            assert!(
                begun.elapsed() < PATIENCE,
                "{reason}: {}",
                self.refused(reason)
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for SecureSite {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn make(directory: &Path, client: &str) {
    let script = "../../packaging/examples/tls/certificates";
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let made = Command::new(script).arg(directory).arg(client).status();
    assert!(made.unwrap().success());
}

const ALPHA: &str = "/v1/volumes/alpha";

fn set(client: &ManagementClient, min: &str) -> Result<Outcome, Error> {
    client.send("PATCH", ALPHA, &json!({ "min": min }), None)
}

/// Returns the status and the reason of a refusal.
fn refusal<T: std::fmt::Debug>(outcome: Result<T, Error>) -> (u16, String) {
    match outcome.unwrap_err() {
        Error::Refused { status, refusal } => (status, refusal.error),
        other => panic!("{other}"),
    }
}

/// Returns the reason for which TLS failed.
fn tls_failure<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    match outcome.unwrap_err() {
        Error::Tls { reason, .. } => reason,
        other => panic!("{other}"),
    }
}

#[test]
fn a_certificate_has_the_role_of_its_name_and_no_other_client_gets_in() {
    let Some(secure) = SecureSite::new("") else {
        return;
    };
    let (ops, monitor) = (
        secure.client("ops.example"),
        secure.client("monitor.example"),
    );
    assert!(set(&ops, "11MB/s").unwrap().change.number > 0);
    let changes: Changes = monitor.get("/v1/changes").unwrap();
    assert_eq!(
        changes.changes[0].by,
        "certificate ops.example from 127.0.0.1"
    );
    assert!(
        monitor
            .text("/metrics")
            .unwrap()
            .contains("weir_refused_clients_total")
    );
    let requests: [(&str, &str, Value); 5] = [
        ("PATCH", ALPHA, json!({ "min": "1MB/s" })),
        (
            "PATCH",
            "/v1/volumes/alpha?dry_run=true",
            json!({ "min": "1MB/s" }),
        ),
        ("DELETE", ALPHA, Value::Null),
        ("POST", "/v1/reload", Value::Null),
        ("POST", "/v1/undo", json!({})),
    ];
    secure.counts("manage", 0);
    for (method, path, body) in &requests {
        let refused: Result<Outcome, Error> = monitor.send(method, path, body, None);
        let (status, why) = refusal(refused);
        assert_eq!(status, 403);
        assert_eq!(
            why,
            "certificate monitor.example may only read; add \"monitor.example\" to certificates in [manage]"
        );
    }
    // A certificate of a trusted authority without a role reads nothing, not even the page.
    let stranger = secure.client("stranger.example");
    for path in ["/", "/healthz", "/metrics", "/v1/status", "/v1/config"] {
        let (status, why) = refusal(stranger.text(path));
        assert_eq!(status, 403);
        assert_eq!(
            why,
            "certificate stranger.example is not permitted; add \"stranger.example\" to certificates, or \"certificate:stranger.example\" to read_only, in [manage]"
        );
    }
    secure.counts("manage", 10);
    // The certificate is required, although it is optional for the clients of volumes.
    let none = secure.directory.join("none");
    fs::create_dir(&none).unwrap();
    let own = secure.directory.join("ops.example");
    fs::copy(own.join("ca-cert.pem"), none.join("ca-cert.pem")).unwrap();
    let why = tls_failure(secure.with(&none).get::<Status>("/v1/status"));
    assert!(why.contains("CertificateRequired"), "{why}");
    let untrusted = secure.directory.join("untrusted");
    make(&untrusted, "ops.example");
    fs::copy(own.join("ca-cert.pem"), untrusted.join("ca-cert.pem")).unwrap();
    let why = tls_failure(secure.with(&untrusted).get::<Status>("/v1/status"));
    assert!(why.contains("fatal alert"), "{why}");
    secure.counts("manage-tls", 2);
}

#[test]
fn the_client_checks_the_server_which_answers_nothing_without_tls() {
    let Some(secure) = SecureSite::new("") else {
        return;
    };
    let own = secure.directory.join("ops.example");
    // The client checks the authority and the name of the server.
    let other = secure.directory.join("other");
    make(&other, "ops.example");
    let why = tls_failure(secure.with(&other).get::<Status>("/v1/status"));
    assert!(why.contains("invalid peer certificate"), "{why}");
    let by_name = format!("[::ffff:127.0.0.1]:{}", secure.address.port());
    let client = ManagementClient::over_tls(&by_name, &own).unwrap();
    let why = tls_failure(client.get::<Status>("/v1/status"));
    assert!(why.contains("not valid for name"), "{why}");
    // Without TLS, the address gives no answer of HTTP.
    let answer = crate::site::asked(secure.address, b"GET /healthz HTTP/1.1\r\n\r\n");
    assert!(!answer.contains("HTTP"), "{answer}");
    assert_eq!(secure.site.get::<Status>("/v1/status").volumes.len(), 2);
}

#[test]
fn the_audit_file_outlives_the_server_and_names_who_made_a_change() {
    let path = std::env::temp_dir().join(format!("weir-audit-tls-{}.jsonl", std::process::id()));
    let _ = fs::remove_file(&path);
    let more = format!("audit_file = \"{}\"", path.display());
    let Some(mut secure) = SecureSite::new(&more) else {
        return;
    };
    let ops = secure.client("ops.example");
    let first = set(&ops, "11MB/s").unwrap().change;
    let why = refusal(set(&ops, "1GB/s")).1;
    // What has no effect is recorded as well, and a dry run or a refused client is not.
    set(&ops, "11MB/s").unwrap();
    let dry: Outcome = ops
        .send(
            "PATCH",
            "/v1/volumes/alpha?dry_run=true",
            &json!({ "min": "1MB/s" }),
            None,
        )
        .unwrap();
    assert!(dry.dry_run);
    refusal(set(&secure.client("monitor.example"), "2MB/s"));
    secure.site.restart();
    let lines = fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let results: Vec<&str> = lines
        .iter()
        .map(|line| line["result"].as_str().unwrap())
        .collect();
    assert_eq!(results, ["made", "refused", "unchanged"]);
    for line in &lines {
        assert_eq!(line["by"], "certificate ops.example from 127.0.0.1");
    }
    assert_eq!(lines[0]["request"], "volume.alpha.min = \"11MB/s\"");
    assert_eq!(lines[0]["at_ms"], first.at_ms);
    assert_eq!(lines[1]["error"], why.as_str());
    let changes: Changes = secure.site.get("/v1/changes");
    assert_eq!(changes.changes, std::slice::from_ref(&first));
    let refused = secure
        .site
        .refused("POST", "/v1/undo", &json!({ "change": first.number }));
    assert!(
        refused.1.contains("before the server was started"),
        "{refused:?}"
    );
    let next = secure.site.set("alpha", &json!({ "min": "12MB/s" })).change;
    assert_eq!(next.number, first.number + 1);
    secure.site.management().reload().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.lines()
            .last()
            .unwrap()
            .contains("\"by\":\"SIGHUP\",\"request\":\"reload\""),
        "{text}"
    );
    fs::remove_file(&path).unwrap();
}

#[test]
fn half_handshakes_keep_no_client_out() {
    let Some(secure) = SecureSite::new("# half") else {
        return;
    };
    // The first bytes of a ClientHello of 512 bytes, whose rest never arrives.
    let hello = [&[22, 3, 1, 2, 0, 1, 0, 1, 0xfc][..], &[3; 100]].concat();
    let mut half = Vec::new();
    for _ in 0..400 {
        let mut stream = TcpStream::connect(secure.address).unwrap();
        let _ = stream.write_all(&hello);
        half.push(stream);
    }
    let begun = Instant::now();
    let client = secure.client("ops.example");
    for _ in 0..10 {
        client.get::<Status>("/v1/status").unwrap();
    }
    println!("10 honest requests in {:?}", begun.elapsed());
    assert!(begun.elapsed() < PATIENCE);
    for mut stream in half {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The server closes the connection, with or without an error.
        let ended = stream.read(&mut [0; 64]);
        let is_late = ended.is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!is_late, "a half handshake ends");
    }
}
