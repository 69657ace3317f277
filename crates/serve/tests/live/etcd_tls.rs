//! The store in a real etcd with TLS, certificates and users.
//!
//! If a program is not installed, its test is skipped with a line. `WEIR_NO_SKIP=1` makes that a
//! failure.

use std::path::Path;
use std::process::{Child, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use weir_core::Span;
use weir_serve::gateway::{Etcd, EtcdAccess, MemberConfig, StoreReply, StoreRequest};

use crate::tools::certificates::{TestCertificates, have_openssl};
use crate::tools::program::{have, program_named};
use crate::tools::{Temp, parse, until};

/// An etcd that requires TLS and a certificate, and is ended when this is dropped.
struct SecureEtcd {
    child: Child,
    url: String,
    peer: String,
    data: Temp,
}

impl SecureEtcd {
    fn start(certificates: &TestCertificates) -> Self {
        let free = || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let url = format!("https://localhost:{}", free());
        let peer = format!("http://127.0.0.1:{}", free());
        let data = Temp::new();
        Self {
            child: Self::spawn(certificates, (&url, &peer), data.path()),
            url,
            peer,
            data,
        }
    }

    /// Kills etcd, and starts it again with its data.
    fn restart(&mut self, certificates: &TestCertificates) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.child = Self::spawn(certificates, (&self.url, &self.peer), self.data.path());
    }

    fn spawn(certificates: &TestCertificates, (url, peer): (&str, &str), data: &Path) -> Child {
        let listen = url.replace("localhost", "127.0.0.1");
        let cluster = format!("default={peer}");
        let mut etcd = program_named("etcd");
        etcd.arg("--client-cert-auth").arg("--data-dir").arg(data);
        for (option, value) in [
            ("--listen-client-urls", &*listen),
            ("--advertise-client-urls", url),
            ("--listen-peer-urls", peer),
            ("--initial-advertise-peer-urls", peer),
            ("--initial-cluster", &cluster),
        ] {
            etcd.args([option, value]);
        }
        for (option, file) in [
            ("--cert-file", "server-cert.pem"),
            ("--key-file", "server-key.pem"),
            ("--trusted-ca-file", "ca-cert.pem"),
        ] {
            etcd.arg(option).arg(certificates.path(file));
        }
        let quiet = etcd
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .stdout(Stdio::null());
        quiet.spawn().unwrap()
    }

    /// Calls etcd, before users are enabled.
    fn call(&self, certificates: &Path, path: &str, body: &Value) -> Value {
        let mut curl = program_named("curl");
        curl.args(["--silent", "--show-error", "--max-time", "20"]);
        for (option, file) in [
            ("--cacert", "ca-cert.pem"),
            ("--cert", "client-cert.pem"),
            ("--key", "client-key.pem"),
        ] {
            curl.arg(option).arg(certificates.join(file));
        }
        curl.args([
            "--data",
            &body.to_string(),
            &format!("{}/v3/{path}", self.url),
        ]);
        let output = curl.output().unwrap();
        let value: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{path}: {error}: {output:?}"));
        assert!(value["error"].is_null(), "{path}: {value}");
        value
    }
}

impl Drop for SecureEtcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the identity that a configuration states.
fn access(etcd: &SecureEtcd, more: &str) -> EtcdAccess {
    let text = format!(
        "listen.nbd = [\"unix:/run/weir-etcd-tls.sock\"]\n[drive.d]\n[gateways]\netcd = [\"{}\"]\n{more}\n",
        etcd.url
    );
    EtcdAccess::new(parse(&text).gateways.as_ref().unwrap())
}

/// Requests a lease with an identity.
fn grant(etcd: &SecureEtcd, access: &EtcdAccess) -> Result<StoreReply, String> {
    ask(&mut client(etcd, access), &StoreRequest::Grant)
}

fn client(etcd: &SecureEtcd, access: &EtcdAccess) -> Etcd {
    let config = MemberConfig {
        ttl: Span::from_secs(20),
        ..MemberConfig::default()
    };
    let endpoints = vec![etcd.url.clone()];
    Etcd::new(
        (endpoints, access.clone()),
        ("/weir", "alpha"),
        &config,
        "host/1".to_owned(),
    )
}

fn ask(client: &mut Etcd, request: &StoreRequest) -> Result<StoreReply, String> {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(client.ask(request))
}

#[test]
fn etcd_is_used_over_tls_as_a_user_and_refused_with_a_reason() {
    if !have_openssl() || !have(&["etcd", "curl"]) {
        return;
    }
    let (certificates, other) = (TestCertificates::new(), TestCertificates::new());
    let directory = certificates.path("");
    certificates.suit_etcd();
    let mut etcd = SecureEtcd::start(&certificates);
    let with = |directory: &Path| format!("certificates = \"{}\"", directory.display());
    let anonymous = access(&etcd, &with(&directory));
    until("etcd grants a lease", || {
        matches!(grant(&etcd, &anonymous), Ok(StoreReply::Granted(_)))
    });
    let refuses = |directory: &Path, why: &str| {
        let refused = grant(&etcd, &access(&etcd, &with(directory))).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    };
    // The client checks etcd, and etcd checks the client.
    refuses(
        other.with_client_of(&certificates).path(),
        "invalid peer certificate",
    );
    refuses(certificates.without_client().path(), "alert");
    refuses(certificates.with_client_of(&other).path(), "alert");
    refuses(Path::new("/nowhere"), "cannot read /nowhere/ca-cert.pem");

    // With users, a request without one is refused.
    let call = |path: &str, body: Value| etcd.call(&directory, path, &body);
    // READWRITE for every key that begins with the prefix.
    let keys = |key: &str, end: &str| json!({ "permType": 2, "key": STANDARD.encode(key), "range_end": STANDARD.encode(end) });
    for (user, password) in [("root", "secret"), ("weir", "hush")] {
        call(
            "auth/user/add",
            json!({ "name": user, "password": password }),
        );
        call("auth/role/add", json!({ "name": user }));
        call("auth/user/grant", json!({ "user": user, "role": user }));
    }
    let grants = json!({ "name": "weir", "perm": keys("/weir/", "/weir0") });
    call("auth/role/grant", grants);
    call("auth/enable", json!({}));
    let read = |access: &EtcdAccess| ask(&mut client(&etcd, access), &StoreRequest::Read);
    let refused = read(&anonymous).unwrap_err();
    // etcd takes the request for one of its gateway, which is no user.
    assert!(refused.contains("permission denied"), "{refused}");
    let password = directory.join("password");
    let user = format!(
        "{}\nuser = \"weir\"\npassword_file = \"{}\"",
        with(&directory),
        password.display()
    );
    let access = access(&etcd, &user);
    std::fs::write(&password, "wrong\n").unwrap();
    let refused = read(&access).unwrap_err();
    assert!(
        refused.contains("check user = \"weir\" and password_file"),
        "{refused}"
    );
    std::fs::write(&password, "hush\n").unwrap();
    let mut client = client(&etcd, &access);
    assert!(matches!(
        ask(&mut client, &StoreRequest::Read),
        Ok(StoreReply::Table(_))
    ));
    // Tokens do not outlive etcd. The client replaces the one that it has.
    etcd.restart(&certificates);
    until("the client is authenticated again", || {
        matches!(
            ask(&mut client, &StoreRequest::Read),
            Ok(StoreReply::Table(_))
        )
    });
    assert!(access.check().is_ok());
    std::fs::remove_file(&password).unwrap();
    let (key, why) = access.check().unwrap_err();
    assert_eq!(key, "gateways.password_file");
    assert!(why.contains("No such file"), "{why}");
}
