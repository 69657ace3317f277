//! Volumes on other servers over TLS.
//!
//! If a program is not installed, its test is skipped with a line. `WEIR_NO_SKIP=1` makes that a
//! failure.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use weir_config::ListenAddress;
use weir_serve::ServerOptions;
use weir_wire::nbd::{CommandFlags, NbdCommand};

use crate::tools::certificates::{TestCertificates, have_openssl};
use crate::tools::program::{have, program_named};
use crate::tools::raw::Raw;
use crate::tools::{TestSite, log, pattern, until};

const SIZE: usize = 1 << 20;
const SERVED: &str = "[drive.d]\n[volume.a]\ndrive = \"d\"\nmemory = true\nsize = \"1MiB\"\n\
                      tls = \"required\"\nallow = [\"certificate:alice.example\"]\n";

fn port(address: &ListenAddress) -> u16 {
    let ListenAddress::Tcp(address) = address else {
        unreachable!()
    };
    address.port()
}

/// Returns the configuration of a volume on a server over TLS.
fn far(name: &str, port: u16, certificates: &Path, rest: &str) -> String {
    let certificates = certificates.display();
    format!(
        "[volume.{name}]\ndrive = \"far\"\n\
         nbd = \"nbds://localhost:{port}/a?tls-certificates={certificates}{rest}\"\n"
    )
}

/// Writes from the start of a volume, or flushes it.
fn change(client: &mut Raw, command: NbdCommand, data: &[u8]) {
    let length = data.len() as u32;
    let answer = client.call(command, CommandFlags::EMPTY, 0, length, data);
    assert_eq!(answer.unwrap().error, None);
}

/// Starts a server beside the one that runs.
fn beside(config: &str) -> TestSite {
    TestSite::beside(config, &ServerOptions::default())
}

#[test]
fn a_remote_server_is_used_over_tls_and_connected_again() {
    if !have_openssl() {
        return;
    }
    let certificates = TestCertificates::new();
    let secure = certificates.listen_with_ca("");
    let mut upstream = TestSite::start(&(secure.clone() + SERVED));
    let directory = certificates.path("");
    let front =
        beside(&("[drive.far]\n".to_owned() + &far("v", port(&upstream.tcp), &directory, "")));
    let mut client = Raw::open(&front.unix, "v").unwrap();
    let data = pattern(5, SIZE);
    change(&mut client, NbdCommand::Write, &data);
    assert!(client.read(0, SIZE as u32).unwrap() == data);
    // The data that were not flushed are sent again after the volume has lost them.
    let none = secure.clone() + "[drive.d]\n[server]\nremove_in_use = true\n";
    upstream.change(&none).unwrap();
    upstream.change(&(secure + SERVED)).unwrap();
    assert!(client.read(0, SIZE as u32).unwrap() == data);
    assert!(front.server.shutdown() && upstream.server.shutdown());
}

#[test]
fn a_remote_server_without_a_valid_certificate_is_refused_by_name() {
    if !have_openssl() {
        return;
    }
    let (certificates, other) = (TestCertificates::new(), TestCertificates::new());
    let mut log = log::listen();
    let upstream = TestSite::start(&(certificates.listen_with_ca("") + SERVED));
    let mut front = beside("[drive.far]\n");
    let directory = certificates.path("");
    let mut refusal = |port: u16, directory: &Path, rest: &str| {
        let config = "[drive.far]\n".to_owned() + &far("v", port, directory, rest);
        front.change(&config).unwrap_err().to_string()
    };
    let at = port(&upstream.tcp);
    // The server refuses the client's certificate after the handshake of TLS. It closes the
    // connection, or resets it if it has not read everything.
    let none = certificates.without_client();
    let refused = refusal(at, none.path(), "");
    let ends = ["closed the connection", "Connection reset by peer"];
    assert!(ends.iter().any(|end| refused.contains(end)), "{refused}");
    until("the reason is logged", || {
        log.take().contains("CertificateRequired")
    });
    let mut refuses = |port: u16, directory: &Path, rest: &str, why: &str| {
        let refused = refusal(port, directory, rest);
        assert!(refused.contains(why), "{refused}");
    };
    let false_authority = other.with_client_of(&certificates);
    refuses(at, false_authority.path(), "", "invalid peer certificate:");
    refuses(
        at,
        &directory,
        "&tls-hostname=other.example",
        "not valid for name",
    );
    refuses(
        at,
        Path::new("/nowhere"),
        "",
        "cannot read /nowhere/ca-cert.pem",
    );
    // A server without TLS, or a party that removes the offer, is not used in plain text.
    let plain = beside(&SERVED.replace(
        "tls = \"required\"\nallow = [\"certificate:alice.example\"]\n",
        "",
    ));
    refuses(
        port(&plain.tcp),
        &directory,
        "",
        "the server does not offer TLS",
    );
    certificates.expire_server();
    std::thread::sleep(Duration::from_millis(1100));
    refuses(
        at,
        &directory,
        "",
        "invalid peer certificate: certificate expired",
    );
}

/// A server of another project, which is ended when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn servers_of_other_projects_are_used_over_tls() {
    if !have_openssl() || !have(&["nbdkit"]) {
        return;
    }
    let certificates = TestCertificates::new();
    let directory = certificates.path("");
    // The port is free now. If another program takes it, the server below ends with an error.
    let at = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut nbdkit = program_named("nbdkit");
    nbdkit.args([
        "-f",
        "--tls=require",
        "--tls-verify-peer",
        "-i",
        "127.0.0.1",
    ]);
    nbdkit.arg(format!("--tls-certificates={}", directory.display()));
    nbdkit
        .arg(format!("--port={}", at.port()))
        .args(["memory", "1M"]);
    let _running = Running(nbdkit.stdin(Stdio::null()).spawn().unwrap());
    until("nbdkit listens", || {
        std::net::TcpStream::connect(at).is_ok()
    });
    let front =
        TestSite::start(&("[drive.far]\n".to_owned() + &far("v", at.port(), &directory, "")));
    let mut client = Raw::open(&front.unix, "v").unwrap();
    let data = pattern(6, SIZE);
    change(&mut client, NbdCommand::Write, &data);
    change(&mut client, NbdCommand::Flush, &[]);
    assert!(client.read(0, SIZE as u32).unwrap() == data);
}
