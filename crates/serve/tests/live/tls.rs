//! Clients over TLS, and clients that a volume does not permit.
//!
//! If a program is not installed, its test is skipped with a line. `WEIR_NO_SKIP=1` makes that a
//! failure.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use weir_config::ListenAddress;
use weir_wire::nbd::client::ClientHandshakeConfig;
use weir_wire::nbd::{
    CommandFlags, NbdCommand, OPT_EXPORT_NAME, OPT_GO, OPT_LIST, OPT_STARTTLS, REP_ACK,
    REP_ERR_POLICY, REP_ERR_TLS_REQD, REP_INFO,
};

use crate::tools::attack::{go, option};
use crate::tools::certificates::{TestCertificates, have_openssl};
use crate::tools::metrics::MetricsSnapshot;
use crate::tools::program::{have, program_named, run};
use crate::tools::raw::{PATIENCE, Raw, RawStream, closes, header};
use crate::tools::{Temp, TestSite, log, pattern, process, until, uri};

/// The size of a volume in bytes.
const SIZE: usize = 40 << 20;

/// Returns a volume in memory.
fn volume(name: &str, rest: &str) -> String {
    format!("[volume.{name}]\ndrive = \"d\"\nmemory = true\nsize = \"40MiB\"\n{rest}\n")
}

/// Starts a server with TLS and these volumes.
fn site(tls: &str, volumes: &[String]) -> TestSite {
    TestSite::start(&(tls.to_owned() + "[drive.d]\n" + &volumes.concat()))
}

const REQUIRED: &str = "tls = \"required\"";

fn port(site: &TestSite) -> u16 {
    let ListenAddress::Tcp(address) = site.tcp else {
        unreachable!()
    };
    address.port()
}

/// Returns the URI of an export over TLS, with the client's certificates in a directory.
fn secure(site: &TestSite, export: &str, certificates: &Path) -> String {
    let certificates = certificates.display();
    format!(
        "nbds://localhost:{}/{export}?tls-certificates={certificates}",
        port(site)
    )
}

/// Returns true if a client reads the size of an export.
fn admits(uri: &str) -> bool {
    let mut nbdinfo = program_named("timeout");
    nbdinfo.args(["20", "nbdinfo", "--size", uri]);
    nbdinfo.stdin(Stdio::null());
    let output = nbdinfo.output().unwrap();
    output.status.success() && output.stdout.starts_with(SIZE.to_string().as_bytes())
}

/// Runs fio over libnbd, with the client's certificate. fio permits no directory of certificates in
/// the URI, so libnbd takes them from the user's home directory. It has none for root.
fn fio(certificates: &TestCertificates, arguments: &[&str]) -> String {
    let home = Temp::new();
    let directory = home.path().join(".pki/libnbd");
    std::fs::create_dir_all(&directory).unwrap();
    for name in ["ca-cert.pem", "client-cert.pem", "client-key.pem"] {
        let text = std::fs::read(certificates.path(name)).unwrap();
        std::fs::write(directory.join(name), text).unwrap();
    }
    let home = format!("HOME={}", home.path().display());
    let mut all = vec!["--chdir=/tmp", &home, "fio", "--verify_state_save=0"];
    all.extend(arguments);
    if !rustix::process::geteuid().is_root() {
        return run("env", &all);
    }
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "env"];
    run("setpriv", &[&nobody[..], &all].concat())
}

fn refused(site: &TestSite, reason: &str) -> f64 {
    MetricsSnapshot::of(&site.server).sum("weir_refused_clients_total", &[("reason", reason)])
}

#[test]
fn clients_of_other_projects_use_a_volume_over_tls() {
    if !have_openssl() || !have(&["nbdinfo", "nbdcopy", "qemu-img", "qemu-io", "fio"]) {
        return;
    }
    let certificates = TestCertificates::new();
    let directory = certificates.path("");
    let only = "tls = \"required\"\nallow = [\"certificate:alice.example\"]";
    let site = site(
        &certificates.listen_with_ca(""),
        &[volume("a", only), volume("b", REQUIRED)],
    );
    let a = secure(&site, "a", &directory);
    assert!(admits(&a));
    let list = run("nbdinfo", &["--list", &a]);
    assert!(
        list.contains("export=\"a\"") && list.contains("export=\"b\""),
        "{list}"
    );
    assert!(list.contains("structured"), "{list}");
    // Several connections, large requests, and data that is compared afterwards.
    let file = |name: &str| site.files.path().join(name).display().to_string();
    let (there, back) = (file("there"), file("back"));
    std::fs::write(&there, pattern(3, SIZE)).unwrap();
    std::fs::write(&back, vec![0; SIZE]).unwrap();
    run("nbdcopy", &["--flush", "--connections=4", &there, &a]);
    run(
        "nbdcopy",
        &["--requests=16", "--request-size=1048576", &a, &back],
    );
    assert!(std::fs::read(&there).unwrap() == std::fs::read(&back).unwrap());
    let credentials = format!(
        "tls-creds-x509,id=t,dir={},endpoint=client",
        directory.display()
    );
    let image = format!(
        "driver=nbd,host=localhost,port={},export=a,tls-creds=t",
        port(&site)
    );
    let object = ["--object", &credentials, "--image-opts"];
    run(
        "qemu-img",
        &[&["convert"], &object[..], &["-O", "raw", &image, &back]].concat(),
    );
    assert!(std::fs::read(&there).unwrap() == std::fs::read(&back).unwrap());
    let commands = [
        "-c",
        "write -P 0x5a 4096 65536",
        "-c",
        "read -P 0x5a 4096 65536",
    ];
    let said = run("qemu-io", &[&object[..], &commands, &[&image]].concat());
    assert!(
        said.contains("wrote 65536") && !said.contains("failed"),
        "{said}"
    );
    assert!(site.server.shutdown());
}

#[test]
fn fio_verifies_what_it_has_written_over_tls() {
    if !have_openssl() || !have(&["fio"]) {
        return;
    }
    let certificates = TestCertificates::new();
    let only = "tls = \"required\"\nallow = [\"certificate:alice.example\"]";
    let site = site(&certificates.listen_with_ca(""), &[volume("a", only)]);
    // fio uses libnbd.
    let job = format!("--uri=nbds://localhost:{}/a", port(&site));
    let verify = [
        "--rw=randrw",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--iodepth=16",
    ];
    let sizes = [
        "--name=j",
        "--ioengine=nbd",
        "--bsrange=4k-256k",
        "--size=40M",
    ];
    let said = fio(&certificates, &[&sizes[..], &verify, &[&job]].concat());
    assert!(said.contains("err= 0"), "{said}");
    assert!(site.server.shutdown());
    until("the threads of TLS connections end", || {
        !process::server_threads()
            .keys()
            .any(|name| name.starts_with("weir-tls"))
    });
}

#[test]
fn a_client_without_a_valid_certificate_is_refused() {
    if !have_openssl() || !have(&["nbdinfo"]) {
        return;
    }
    let (certificates, other) = (TestCertificates::new(), TestCertificates::new());
    let bob = TestCertificates::of("bob.example");
    let only = "tls = \"required\"\nallow = [\"certificate:alice.example\"]";
    let mut config = certificates.listen_with_ca("") + "[drive.d]\n" + &volume("a", only);
    let mut site = TestSite::start(&config);
    assert!(admits(&secure(&site, "a", &certificates.path(""))));
    let wrong = certificates.with_client_of(&other);
    assert!(
        !admits(&secure(&site, "a", wrong.path())),
        "of another authority"
    );
    let none = certificates.without_client();
    assert!(!admits(&secure(&site, "a", none.path())), "no certificate");
    // A client must notice a server of another authority.
    let false_server = other.with_client_of(&certificates);
    assert!(!admits(&secure(&site, "a", false_server.path())));
    // The last client has left without a reason, so it may not count.
    assert!(refused(&site, "tls") >= 2.0);
    certificates.expire_client();
    assert!(
        !admits(&secure(&site, "a", &certificates.path(""))),
        "expired"
    );
    // Without the requirement, a client needs a certificate for this volume only.
    config = certificates.listen_with_ca(", client_certificates = \"optional\"")
        + "[drive.d]\n"
        + &volume("a", only)
        + &volume("b", REQUIRED);
    site.change(&config).unwrap();
    assert!(admits(&secure(&site, "b", none.path())));
    let denied = refused(&site, "allow");
    assert!(!admits(&secure(&site, "a", none.path())));
    assert!(refused(&site, "allow") > denied);
    assert!(
        !admits(&secure(&site, "b", wrong.path())),
        "a wrong one is not ignored"
    );
    // The server trusts the authority of bob, but the volume is not his.
    config = format!(
        "{}[drive.d]\n{}{}",
        bob.listen_with_ca(""),
        volume("a", only),
        volume("b", REQUIRED)
    );
    site.change(&config).unwrap();
    assert!(!admits(&secure(&site, "a", &bob.path(""))));
    assert!(admits(&secure(&site, "b", &bob.path(""))));
}

/// Reads the replies to an option up to the one that ends it, and returns its kind.
fn reply(stream: &mut impl Read) -> u32 {
    loop {
        let mut head = [0; 20];
        stream.read_exact(&mut head).unwrap();
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        let mut data = vec![0; word(16) as usize];
        stream.read_exact(&mut data).unwrap();
        if word(12) != REP_INFO {
            return word(12);
        }
    }
}

/// Connects, and sends the client flags and some options after the greeting.
fn begin(address: &ListenAddress, options: &[Vec<u8>]) -> RawStream {
    let mut stream = RawStream::connect(address).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream
        .write_all(&[&[0, 0, 0, 3], &options.concat()[..]].concat())
        .unwrap();
    stream
}

/// Returns a client that trusts the authority and has no certificate.
fn encrypt(
    certificates: &TestCertificates,
    address: &ListenAddress,
    options: &[Vec<u8>],
) -> StreamOwned<ClientConnection, RawStream> {
    let mut stream = begin(address, options);
    assert_eq!(reply(&mut stream), REP_ACK);
    let mut roots = RootCertStore::empty();
    let ca = certificates.path("ca-cert.pem");
    roots
        .add(CertificateDer::from_pem_file(ca).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(session, stream)
}

#[test]
fn plain_text_never_reaches_a_volume_that_requires_tls() {
    if !have_openssl() {
        return;
    }
    let mut log = log::listen();
    let certificates = TestCertificates::new();
    let open = volume("open", "");
    let mut site = site(
        &certificates.listen(""),
        &[volume("a", REQUIRED), open.clone()],
    );
    // The server has both kinds of volumes, so it offers TLS and each volume decides.
    for address in [&site.unix, &site.tcp] {
        let mut stream = begin(address, &[option(OPT_GO, &go("a"))]);
        assert_eq!(reply(&mut stream), REP_ERR_TLS_REQD);
        stream.write_all(&option(OPT_GO, &go("open"))).unwrap();
        assert_eq!(reply(&mut stream), REP_ACK);
        assert!(closes(&mut begin(
            address,
            &[option(OPT_EXPORT_NAME, b"a")]
        )));
        let refusal = Raw::open(address, "a").unwrap_err();
        assert!(refusal.to_string().contains("TLS is required"), "{refusal}");
        Raw::open(address, "open").unwrap().read(0, 512).unwrap();
    }
    assert!(refused(&site, "plain") >= 6.0);
    // The number of log lines per second is limited, so the attempt is repeated.
    until("the refusal is logged", || {
        Raw::open(&site.unix, "a").unwrap_err();
        log.take()
            .contains("did not use TLS, which the volume requires")
    });
    // If every volume requires TLS, so does every option.
    let all = certificates.listen("") + "[drive.d]\n" + &volume("a", REQUIRED);
    site.change(&(all + "[server]\nremove_in_use = true\n"))
        .unwrap();
    let mut stream = begin(&site.tcp, &[option(OPT_LIST, &[])]);
    assert_eq!(reply(&mut stream), REP_ERR_TLS_REQD);
    // Without TLS, the requirement cannot be met, and the configuration is refused.
    assert!(!site.reload(&("[drive.d]\n".to_owned() + &volume("a", REQUIRED))));
}

#[test]
fn options_that_follow_starttls_in_plain_text_are_dropped() {
    if !have_openssl() {
        return;
    }
    let certificates = TestCertificates::new();
    let site = site(
        &certificates.listen(""),
        &[volume("a", ""), volume("b", "")],
    );
    // An attacker inserts GO behind STARTTLS. The client does not receive a reply to it.
    let injected = [option(OPT_STARTTLS, &[]), option(OPT_GO, &go("b"))];
    let mut client = encrypt(&certificates, &site.tcp, &injected);
    client.write_all(&option(77, &[])).unwrap();
    client.flush().unwrap();
    let mut head = [0; 20];
    client.read_exact(&mut head).unwrap();
    assert_eq!(head[8..12], 77u32.to_be_bytes(), "the first reply in TLS");
    let mut message = vec![0; usize::from(head[19])];
    client.read_exact(&mut message).unwrap();
    client.write_all(&option(OPT_GO, &go("a"))).unwrap();
    client.flush().unwrap();
    assert_eq!(reply(&mut client), REP_ACK);
    // A client that continues without encryption is disconnected, and gets no plain reply.
    let mut stream = begin(&site.tcp, &[option(OPT_STARTTLS, &[])]);
    assert_eq!(reply(&mut stream), REP_ACK);
    stream.write_all(&option(OPT_GO, &go("a"))).unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(
        !rest
            .windows(8)
            .any(|w| w == [0, 3, 0xe8, 0x89, 4, 0x55, 0x65, 0xa9])
    );
    assert!(refused(&site, "tls") >= 1.0);
}

#[test]
fn thousands_of_half_handshakes_delay_no_honest_client_and_end_in_time() {
    if !have_openssl() {
        return;
    }
    let certificates = TestCertificates::new();
    let limits = "limits.handshake_timeout = \"2s\"\n";
    let site = site(
        &(certificates.listen("") + limits),
        &[volume("a", REQUIRED), volume("open", "")],
    );
    let mut plain = Raw::open(&site.tcp, "open").unwrap();
    // The first bytes of a ClientHello of 512 bytes, whose rest never arrives.
    let hello = [&[22, 3, 1, 2, 0, 1, 0, 1, 0xfc][..], &[3; 100]].concat();
    let mut half = std::collections::VecDeque::new();
    let mut longest = Duration::ZERO;
    for number in 0..3000 {
        let mut stream = begin(&site.tcp, &[option(OPT_STARTTLS, &[])]);
        // The server may have replaced the connection already.
        let _ = stream.write_all(&hello);
        half.push_back(stream);
        // More would be more than the descriptors of this process.
        if half.len() > 400 {
            half.pop_front();
        }
        if number % 150 == 149 {
            let begun = Instant::now();
            let mut client = encrypt(&certificates, &site.unix, &[option(OPT_STARTTLS, &[])]);
            choose(&mut client, "a");
            plain.read(0, 4096).unwrap();
            longest = longest.max(begun.elapsed());
        }
    }
    println!("the longest of 20 honest handshakes and reads: {longest:?}");
    assert!(longest < PATIENCE);
    for stream in &mut half {
        assert!(closes(stream), "a half handshake ends");
    }
}

/// Chooses a volume over TLS.
fn choose(client: &mut StreamOwned<ClientConnection, RawStream>, export: &str) {
    client.write_all(&option(OPT_GO, &go(export))).unwrap();
    client.flush().unwrap();
    assert_eq!(reply(client), REP_ACK);
}

/// Reads 512 bytes over TLS.
fn read_block(client: &mut StreamOwned<ClientConnection, RawStream>) {
    let read = header(NbdCommand::Read, CommandFlags::EMPTY, 1, 0, 512);
    client.write_all(&read).unwrap();
    client.flush().unwrap();
    client.read_exact(&mut [0; 16 + 512]).unwrap();
}

/// A client can send messages of TLS that contain no request: they must neither occupy the thread
/// of another client nor take memory.
#[test]
fn a_flood_of_key_updates_delays_no_honest_client_and_takes_no_memory() {
    if !have_openssl() {
        return;
    }
    let certificates = TestCertificates::new();
    let site = site(
        &certificates.listen(""),
        &[volume("a", REQUIRED), volume("open", "")],
    );
    let connect = || {
        let mut client = encrypt(&certificates, &site.tcp, &[option(OPT_STARTTLS, &[])]);
        choose(&mut client, "a");
        client
    };
    let mut plain = Raw::open(&site.tcp, "open").unwrap();
    let mut honest = connect();
    let resident = || MetricsSnapshot::of(&site.server).sum("process_resident_memory_bytes", &[]);
    let before = resident();
    let mut updates = 0;
    for _ in 0..4 {
        let mut flood = connect();
        flood.sock.never_wait();
        // Each update requests one from the server, which this client does not read.
        for _ in 0..20_000 {
            flood.conn.refresh_traffic_keys().unwrap();
            match flood.conn.write_tls(&mut flood.sock) {
                Ok(_) => updates += 1,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    std::thread::yield_now();
                }
                // The server has had enough of it.
                Err(_) => break,
            }
        }
        let begun = Instant::now();
        read_block(&mut honest);
        plain.read(0, 4096).unwrap();
        assert!(begun.elapsed() < PATIENCE);
    }
    assert!(updates > 1000, "{updates} updates");
    let grown = resident() - before;
    println!(
        "{updates} key updates, {:.1} MiB more memory",
        grown / 1_048_576.0
    );
    // A reply of 30 bytes for each update that was kept would take more.
    assert!(grown < 16e6, "{grown} bytes");
    read_block(&mut connect());
}

/// Connects OpenSSL's client to a server, after the options that precede TLS. Returns its output
/// after it has ended. `input` is sent to it, a line at a time.
fn s_client(site: &TestSite, arguments: &[&str], input: &[u8]) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
    let mut openssl = program_named("timeout");
    openssl
        .args(["20", "openssl", "s_client", "-connect", &at])
        .args(arguments);
    openssl
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = openssl.spawn().unwrap();
    let (client, _) = listener.accept().unwrap();
    let mut server = begin(&site.tcp, &[option(OPT_STARTTLS, &[])]);
    assert_eq!(reply(&mut server), REP_ACK);
    let mut up = (client.try_clone().unwrap(), server.0.try_clone().unwrap());
    let upwards = std::thread::spawn(move || {
        let _ = std::io::copy(&mut up.0, &mut up.1);
        let _ = rustix::net::shutdown(&up.1, rustix::net::Shutdown::Both);
    });
    let mut down = (server.0, client);
    let downwards = std::thread::spawn(move || {
        let _ = std::io::copy(&mut down.0, &mut down.1);
        let _ = down.1.shutdown(std::net::Shutdown::Both);
    });
    let mut stdin = child.stdin.take().unwrap();
    let lines = input.to_vec();
    let feed = std::thread::spawn(move || {
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            // The client reads a command only if it is alone.
            std::thread::sleep(Duration::from_millis(50));
            if stdin.write_all(line).is_err() {
                break;
            }
        }
    });
    let output = child.wait_with_output().unwrap();
    for thread in [upwards, downwards, feed] {
        let _ = thread.join();
    }
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn old_versions_and_renegotiations_are_refused() {
    if !have_openssl() {
        return;
    }
    let certificates = TestCertificates::new();
    let site = site(&certificates.listen(""), &[volume("a", REQUIRED)]);
    let ca = certificates.path("ca-cert.pem").display().to_string();
    let trust = ["-CAfile", &ca, "-servername", "localhost"];
    for (version, offered) in [
        ("-tls1_3", true),
        ("-tls1_2", true),
        ("-tls1_1", false),
        ("-tls1", false),
    ] {
        let weak = [version, "-cipher", "ALL:@SECLEVEL=0"];
        let said = s_client(&site, &[&trust[..], &weak].concat(), b"Q\n");
        let is_agreed =
            said.contains("Verify return code: 0 (ok)") && !said.contains("Cipher is (NONE)");
        assert_eq!(is_agreed, offered, "{version}: {said}");
    }
    // `R` begins a new handshake within the connection.
    let said = s_client(
        &site,
        &[&trust[..], &["-tls1_2"]].concat(),
        &b"R\n".repeat(40),
    );
    assert!(said.contains("RENEGOTIATING"), "{said}");
    assert!(
        said.contains("no renegotiation") || said.contains("error"),
        "{said}"
    );
    let mut client = encrypt(&certificates, &site.tcp, &[option(OPT_STARTTLS, &[])]);
    choose(&mut client, "a");
    read_block(&mut client);
}

#[test]
fn certificates_are_read_again_when_the_files_change_and_by_a_reload() {
    if !have_openssl() || !have(&["nbdinfo"]) {
        return;
    }
    let (certificates, other, third) = (
        TestCertificates::new(),
        TestCertificates::new(),
        TestCertificates::new(),
    );
    let config = |certificates: &TestCertificates| {
        certificates.listen_with_ca("") + "[drive.d]\n" + &volume("a", REQUIRED)
    };
    let mut site = TestSite::start(&config(&certificates));
    let trusts =
        |site: &TestSite, of: &TestCertificates| admits(&secure(site, "a", of.path("").as_path()));
    let kept = certificates.with_client_of(&certificates);
    assert!(trusts(&site, &certificates));
    // Half of the files are replaced first, which must not end the service.
    let replace = |name: &str| {
        std::fs::copy(other.path(name), certificates.path(name)).unwrap();
    };
    replace("server-cert.pem");
    std::thread::sleep(Duration::from_millis(1100));
    assert!(admits(&secure(&site, "a", kept.path())));
    replace("server-key.pem");
    replace("ca-cert.pem");
    std::thread::sleep(Duration::from_millis(1100));
    until("the new certificates are in force", || {
        trusts(&site, &other)
    });
    assert!(!admits(&secure(&site, "a", kept.path())));
    let changed = site.change(&config(&third)).unwrap();
    assert!(
        changed
            .iter()
            .any(|line| line.starts_with("listen.tls.key = ")),
        "{changed:?}"
    );
    assert!(trusts(&site, &third) && !trusts(&site, &other));
    // Files that cannot be used refuse the reload.
    std::fs::write(third.path("server-key.pem"), "no key").unwrap();
    let refused = site.change(&config(&third)).unwrap_err().to_string();
    assert!(refused.contains("contains no private key"), "{refused}");
    assert!(trusts(&site, &third));
}

#[test]
fn allow_names_users_groups_and_networks() {
    let own = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let user = format!("allow = [\"user:{}\"]", own.0);
    let group = format!("allow = [\"user:{}\", \"group:{}\"]", own.0 + 1, own.1);
    let others = format!("allow = [\"user:{}\", \"group:{}\"]", own.0 + 1, own.1 + 1);
    let local = "allow = [\"address:127.0.0.0/8\"]";
    let far = "allow = [\"address:192.0.2.0/24\", \"address:::1\"]";
    let config = |of_v: &str| {
        "[drive.d]\n".to_owned()
            + &volume("user", &user)
            + &volume("group", &group)
            + &volume("others", &others)
            + &volume("local", local)
            + &volume("far", far)
            + &volume("v", of_v)
    };
    let mut log = log::listen();
    let mut site = TestSite::start(&config(&others));
    for (export, unix, tcp) in [
        ("user", true, false),
        ("group", true, false),
        ("others", false, false),
        ("local", false, true),
        ("far", false, false),
    ] {
        assert_eq!(Raw::open(&site.unix, export).is_ok(), unix, "{export}");
        assert_eq!(Raw::open(&site.tcp, export).is_ok(), tcp, "{export}");
    }
    let mut stream = begin(&site.tcp, &[option(OPT_GO, &go("user"))]);
    assert_eq!(reply(&mut stream), REP_ERR_POLICY);
    until(
        "the refusal is logged with the property of the client",
        || {
            Raw::open(&site.tcp, "user").unwrap_err();
            log.take().contains("client=address:127.0.0.1")
        },
    );
    assert!(refused(&site, "allow") >= 6.0);
    let mut old = ClientHandshakeConfig::new("user");
    old.export_name = true;
    assert!(Raw::over(RawStream::connect(&site.tcp).unwrap(), old).is_err());
    if have(&["nbdinfo"]) {
        let list = run("nbdinfo", &["--list", &uri(&site.unix, "")]);
        for (export, listed) in [
            ("user", true),
            ("group", true),
            ("local", false),
            ("far", false),
        ] {
            let entry = format!("export=\"{export}\"");
            assert_eq!(list.contains(&entry), listed, "{list}");
        }
    }
    assert!(Raw::open(&site.unix, "v").is_err());
    site.change(&config(&user)).unwrap();
    Raw::open(&site.unix, "v").unwrap();
    let unknown = config("allow = [\"user:nobody-has-this-name\"]");
    let refused = site.change(&unknown).unwrap_err().to_string();
    assert!(
        refused.contains("volume.v.allow[0]: unknown user"),
        "{refused}"
    );
}

#[test]
fn a_reload_ends_the_connections_of_clients_that_it_does_not_permit() {
    if !have_openssl() {
        return;
    }
    let certificates = TestCertificates::new();
    let tls = certificates.listen_with_ca(", client_certificates = \"optional\"") + "[drive.d]\n";
    let user = rustix::process::geteuid().as_raw();
    let own = format!("allow = [\"user:{user}\", \"address:127.0.0.1\"]");
    let config = |of_v: &str| tls.clone() + &volume("v", of_v) + &volume("other", "");
    let mut site = TestSite::start(&config(&own));
    let mut unix = Raw::open(&site.unix, "v").unwrap();
    let mut tcp = Raw::open(&site.tcp, "v").unwrap();
    let mut other = Raw::open(&site.unix, "other").unwrap();
    let mut secure = encrypt(&certificates, &site.tcp, &[option(OPT_STARTTLS, &[])]);
    choose(&mut secure, "v");
    // A change that still permits the clients ends no connection.
    site.change(&config(&(own.clone() + "\nshare = 200")))
        .unwrap();
    unix.read(0, 512).unwrap();
    tcp.read(0, 512).unwrap();
    let before = refused(&site, "allow");
    site.change(&config("allow = [\"address:127.0.0.1\"]"))
        .unwrap();
    assert!(
        closes(&mut unix.stream),
        "the user is not permitted any more"
    );
    tcp.read(0, 512).unwrap();
    site.change(&config(&(own + "\n" + REQUIRED))).unwrap();
    assert!(closes(&mut tcp.stream), "the connection is not encrypted");
    read_block(&mut secure);
    site.change(&config("allow = [\"certificate:alice.example\"]"))
        .unwrap();
    assert_eq!(
        secure.read(&mut [0]).unwrap_or(0),
        0,
        "it has no certificate"
    );
    assert!((refused(&site, "allow") - before - 3.0).abs() < 1e-9);
    other.read(0, 512).unwrap();
}

#[test]
fn a_revoked_certificate_is_refused_once_the_list_contains_it() {
    if !have_openssl() || !have(&["nbdinfo"]) {
        return;
    }
    let certificates = TestCertificates::new();
    certificates.write_revocations(false);
    let crl = certificates.path("crl.pem");
    let with_list = |crl: &Path| {
        let rest = format!(", crl = \"{}\"", crl.display());
        certificates.listen_with_ca(&rest) + "[drive.d]\n" + &volume("a", REQUIRED)
    };
    let mut site = TestSite::start(&with_list(&crl));
    let a = secure(&site, "a", &certificates.path(""));
    assert!(admits(&a));
    certificates.write_revocations(true);
    std::thread::sleep(Duration::from_millis(1100));
    let before = refused(&site, "tls");
    until("the list is in force", || !admits(&a));
    assert!(refused(&site, "tls") > before);
    // A file without a list must not admit everybody, so it is refused.
    let none = certificates.path("ca-cert.pem");
    let refusal = site.change(&with_list(&none)).unwrap_err().to_string();
    assert!(refusal.contains("contains no revocation list"), "{refusal}");
    // A list of another authority says nothing about this one.
    let other = TestCertificates::new();
    other.write_revocations(false);
    site.change(&with_list(&other.path("crl.pem"))).unwrap();
    assert!(!admits(&a), "its authority has no list");
    site.change(&(certificates.listen_with_ca("") + "[drive.d]\n" + &volume("a", REQUIRED)))
        .unwrap();
    assert!(admits(&a));
}

#[test]
fn a_client_that_reads_nothing_or_vanishes_leaves_no_thread() {
    if !have_openssl() {
        return;
    }
    let certificates = TestCertificates::new();
    let site = site(&certificates.listen(""), &[volume("a", REQUIRED)]);
    let connect = || {
        let mut client = encrypt(&certificates, &site.tcp, &[option(OPT_STARTTLS, &[])]);
        choose(&mut client, "a");
        client
    };
    let threads = || {
        let threads = process::server_threads();
        threads
            .keys()
            .filter(|name| name.starts_with("weir-tls"))
            .count()
    };
    let mut deaf = connect();
    deaf.sock.never_wait();
    for cookie in 0..200 {
        let read = header(NbdCommand::Read, CommandFlags::EMPTY, cookie, 0, 1 << 20);
        if deaf.write_all(&read).is_err() {
            break;
        }
    }
    let silent = connect();
    // An honest client is served beside them.
    let mut client = connect();
    read_block(&mut client);
    assert_eq!(threads(), 3);
    drop((deaf, silent, client));
    until("the threads end", || threads() == 0);
    assert!(site.server.shutdown());
}

#[test]
fn allow_also_restricts_the_socket_for_virtual_machines() {
    let sockets = Temp::new();
    let user = rustix::process::geteuid().as_raw();
    let disk = |name: &str, user: u32| {
        let path = sockets.path().join(name);
        let listen = format!("listen = {{ vhost = \"{}\" }}", path.display());
        volume(name, &format!("{listen}\nallow = [\"user:{user}\"]"))
    };
    let site = site("", &[disk("own", user), disk("other", user + 1)]);
    let greet = |name: &str| {
        let address = ListenAddress::Unix(sockets.path().join(name));
        let mut stream = RawStream::connect(&address).unwrap();
        // GET_FEATURES of vhost-user: request 1, version 1, no payload.
        let message = [1u32, 1, 0].map(u32::to_ne_bytes);
        stream.write_all(message.as_flattened()).unwrap();
        stream
    };
    greet("own").read_exact(&mut [0; 12]).unwrap();
    assert!(closes(&mut greet("other")));
    assert!(refused(&site, "allow") >= 1.0);
}
