//! Start, change and end of a server, and its idle state.

use std::time::Duration;

use weir_config::ListenAddress;
use weir_serve::{LiveServer, ReloadError, ServerOptions};
use weir_wire::nbd::client::ClientHandshakeConfig;
use weir_wire::nbd::{CommandFlags, NbdCommand};

use crate::server::client::{NbdTestClient, ONE, serve};
use crate::tools::raw::Raw;
use crate::tools::{Temp, TestSite, parse, pattern, process};

const NONE: CommandFlags = CommandFlags::EMPTY;

/// Returns the configuration of a drive of 100 MB/s with these volumes.
fn drive(volumes: &str) -> String {
    format!("drive.d.capacity = {{ read = \"100MB/s\", write = \"100MB/s\" }}\n{volumes}")
}

/// Returns the options of a server that waits at most this long for its requests when it ends.
fn draining(millis: u64) -> ServerOptions {
    ServerOptions {
        drain: Duration::from_millis(millis),
        ..ServerOptions::default()
    }
}

fn volume(name: &str, rest: &str) -> String {
    format!("volume.{name} = {{ drive = \"d\", memory = true, size = \"4MiB\"{rest} }}\n")
}

#[test]
fn taken_requests_are_answered_before_the_end() {
    let bench = serve(
        "drive.d.policy = \"none\"\n\
         volume.v = { drive = \"d\", memory = true, size = \"1MiB\", max = { iops = 200 } }\n",
    );
    let mut client = bench.connect("v");
    for n in 0..50 {
        client.send(NbdCommand::Read, NONE, n * 512, 512, &[]);
    }
    // The first answer shows that all requests have arrived. At 200 requests per second, most of
    // the others are still throttled.
    assert!(client.receive().is_some());
    let ended = std::thread::scope(|scope| {
        let server = bench.server;
        let ended = scope.spawn(move || server.shutdown());
        let mut answered = 1;
        while let Some((_, answer)) = client.receive() {
            assert!(answer.error.is_none() && answer.data.len() == 512);
            answered += 1;
        }
        assert_eq!(answered, 50);
        ended.join().unwrap()
    });
    assert!(ended);
}

#[test]
fn a_client_that_does_not_read_does_not_hold_the_end_up() {
    let bench = TestSite::beside(ONE, &draining(100));
    // The answers of 64 MiB are more than sockets hold, so the client delays the drain.
    let mut client = bench.connect("v");
    for _ in 0..64 {
        client.send(NbdCommand::Read, NONE, 0, 1 << 20, &[]);
    }
    assert!(client.receive().is_some());
    assert!(bench.server.shutdown());
}

/// Ends a server. Returns `None` if that takes longer than a server should need.
fn ended(server: LiveServer) -> Option<bool> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(server.shutdown()));
    receiver.recv_timeout(Duration::from_secs(20)).ok()
}

#[test]
// 32 MiB at 100 kB/s would take over five minutes.
fn requests_that_a_max_holds_do_not_hold_the_end_up() {
    let max = ", max = { bandwidth = \"100KB/s\" }";
    let bench = TestSite::beside(&drive(&volume("v", max)), &draining(200));
    let mut client = bench.connect("v");
    for _ in 0..32 {
        client.send(NbdCommand::Read, NONE, 0, 1 << 20, &[]);
    }
    assert!(client.receive().is_some());
    assert_eq!(ended(bench.server), Some(true));
    assert!(client.receive().is_none());
}

#[test]
fn storage_that_does_not_answer_does_not_hold_the_end_up() {
    let model = "model = { kind = \"null\", service = \"10s\", tags = 32, link = \"1GB/s\" }";
    let text = format!(
        "drive.d = {{ {model} }}\nvolume.v = {{ drive = \"d\", {model}, size = \"1MiB\" }}\n"
    );
    let bench = TestSite::beside(&text, &draining(200));
    let mut client = bench.connect("v");
    // An answer to this request shows that the write was taken, because requests are taken in their
    // order.
    client.send(NbdCommand::Write, NONE, 0, 4096, &[1; 4096]);
    client.send(NbdCommand::Cache, NONE, 0, 4096, &[]);
    assert!(client.receive().is_some(), "the write has been taken");
    assert_eq!(ended(bench.server), Some(false), "the write is not durable");
}

#[test]
fn requests_not_taken_at_the_end_get_no_error() {
    // The server takes two requests at a time, so most requests stay in the socket and are never
    // read.
    let limits = "limits = { requests_per_connection = 2 }\n";
    let max = ", max = { iops = 20 }";
    let text = limits.to_owned() + &drive(&volume("v", max));
    let bench = TestSite::beside(&text, &draining(1000));
    let mut client = bench.connect("v");
    for n in 0..200 {
        client.send(NbdCommand::Write, NONE, n * 512, 512, &[1; 512]);
    }
    assert!(client.receive().is_some());
    let server = std::thread::spawn(move || ended(bench.server));
    let mut answered = 0;
    while let Some((_, answer)) = client.receive() {
        assert_eq!(answer.error, None);
        answered += 1;
    }
    assert!((1..199).contains(&answered), "{answered}");
    assert_eq!(server.join().unwrap(), Some(true));
}

#[test]
fn a_start_that_fails_leaves_nothing_behind() {
    let bench = serve(ONE);
    let first = bench.parse(ONE);
    // The address is in use by the first server.
    assert!(LiveServer::start(&first, &ServerOptions::default()).is_err());
    drop(bench.server);
    assert!(matches!(bench.unix, ListenAddress::Unix(path) if !path.exists()));
    let server = LiveServer::start(&first, &ServerOptions::default()).unwrap();
    assert!(server.watch().is_running() && server.shutdown());
}

/// Permits the removal of volumes that have clients.
const IN_USE: &str = "server.remove_in_use = true\n";

#[test]
fn volumes_are_added_and_removed_without_affecting_others() {
    let mut bench = serve(&drive(&(volume("a", "") + &volume("b", ""))));
    let (mut a, mut b) = (bench.connect("a"), bench.connect("b"));
    a.write(0, b"of a");
    b.write(0, b"of b");
    let next = drive(&(volume("a", ", share = 500") + &volume("c", "")));
    // Stage 1: without the permission, a volume with a client is not removed.
    let before = bench.server.config().clone();
    let said = bench.change(&next).unwrap_err().to_string();
    assert!(
        said.contains("volume.b: cannot be removed while it has a client"),
        "{said}"
    );
    assert_eq!(*bench.server.config(), before);
    assert_eq!(b.read(0, 4), b"of b");
    assert_eq!(bench.connect("b").read(0, 4), b"of b");
    // Stage 2: with the permission it is removed, and others are not affected.
    let changed = bench.change(&(next + IN_USE));
    assert_eq!(
        changed.unwrap(),
        [
            "volume.b was removed",
            "volume.c was added",
            "server.remove_in_use = true (was false)",
            "volume.a.share = 500 (was 100)",
        ]
    );
    assert!(b.receive().is_none(), "its volume has gone");
    assert!(bench.connect_with(ClientHandshakeConfig::new("b")).is_err());
    assert_eq!(a.read(0, 4), b"of a");
    let mut c = bench.connect("c");
    c.write(0, b"of c");
    // Stage 3: the volume is added again. A new volume in memory is empty.
    let next = drive(&(volume("a", "") + &volume("b", "") + &volume("c", "")));
    bench.change(&next).unwrap();
    assert_eq!(bench.connect("b").read(0, 4), [0; 4]);
    assert_eq!(c.read(0, 4), b"of c");
    assert_eq!(a.read(0, 4), b"of a");
}

#[test]
fn a_removed_volume_answers_its_requests_in_progress() {
    let mut bench = serve(&drive(
        &(volume("a", "") + &volume("b", ", max = { iops = 20 }")),
    ));
    let mut b = bench.connect("b");
    for n in 0..30 {
        b.send(NbdCommand::Write, NONE, n * 512, 512, &[n as u8; 512]);
    }
    // An invalid request is refused immediately, and its answer shows that all earlier requests
    // were taken. At 20 requests per second, the 30 writes take about 1.5 s.
    b.send(NbdCommand::Read, NONE, 1 << 40, 512, &[]);
    let mut answered = 0;
    while b.receive().expect("it is served").1.error.is_none() {
        answered += 1;
    }
    assert!(answered < 30, "there is nothing under way any more");
    let without = drive(&volume("a", "")) + IN_USE;
    bench.change(&without).unwrap();
    while let Some((_, answer)) = b.receive() {
        assert_eq!(answer.error, None);
        answered += 1;
    }
    assert_eq!(answered, 30);
}

#[test]
fn a_reload_is_in_force_as_a_whole_or_not_at_all() {
    let mut bench = serve(&drive(&volume("a", ", min = \"50MB/s\"")));
    let before = bench.server.config().clone();
    // A volume cannot shrink, so the change is refused, and the new volume is not added either.
    let sizes =
        drive(&volume("c", "")) + "volume.a = { drive = \"d\", memory = true, size = \"2MiB\" }\n";
    let refused = bench.change(&sizes);
    assert!(
        matches!(refused, Err(ReloadError::Refused(_))),
        "{refused:?}"
    );
    assert!(bench.connect_with(ClientHandshakeConfig::new("c")).is_err());
    assert_eq!(*bench.server.config(), before);
    assert_eq!(bench.connect("a").read(0, 4), [0; 4]);
}

#[test]
fn a_changed_max_holds_at_once() {
    let mut bench = serve(&drive(&volume("a", ", max = { iops = 2 }")));
    let mut a = bench.connect("a");
    for _ in 0..40 {
        a.send(NbdCommand::Read, NONE, 0, 512, &[]);
    }
    bench.change(&drive(&volume("a", ""))).unwrap();
    // At two requests per second, 40 requests would take 20 s.
    let started = std::time::Instant::now();
    for _ in 0..40 {
        assert!(a.receive().is_some());
    }
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_record_replays_to_the_same_decisions() {
    let directory = Temp::new();
    let file = directory.path().join("record");
    let options = ServerOptions {
        record: Some(file.clone()),
        ..ServerOptions::default()
    };
    let text = drive(&(volume("a", ", max = { iops = 2000 }") + &volume("b", "")));
    let mut bench = TestSite::beside(&text, &options);
    let mut a = bench.connect("a");
    for n in 0..100u64 {
        a.send(NbdCommand::Write, NONE, n * 512, 512, &pattern(n, 512));
    }
    let mut b = bench.connect("b");
    b.write(0, &pattern(1, 1 << 20));
    drop(b);
    let next = drive(&(volume("a", "") + &volume("b", "")));
    bench.change(&next).unwrap();
    for _ in 0..100 {
        a.receive().unwrap();
    }
    assert!(bench.server.shutdown());
    let bytes = std::fs::read(&file).unwrap();
    let replayed = weir_core::record::replay(&bytes).unwrap();
    assert!(replayed.calls > 10, "{replayed:?}");
}

#[test]
fn an_idle_server_takes_no_processor_time() {
    // The test runs in a process of its own, so that the servers of other tests are not counted.
    if std::env::var_os("WEIR_TEST_IDLE").is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "server::lifecycle::an_idle_server_takes_no_processor_time",
                "--exact",
            ])
            .env("WEIR_TEST_IDLE", "1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let bench = serve(&drive(
        &(volume("a", ", min = \"10MB/s\"") + &volume("b", "")),
    ));
    let (mut a, mut b) = (bench.connect("a"), bench.connect("b"));
    for _ in 0..50 {
        a.read(0, 4096);
        b.read(0, 4096);
    }
    // Until the last work of the clients' requests is done.
    std::thread::sleep(Duration::from_millis(100));
    let before = process::server_threads();
    std::thread::sleep(Duration::from_secs(1));
    let mut woken = 0;
    for (thread, after) in process::server_threads() {
        let before = before[&thread];
        assert_eq!(after.ticks, before.ticks, "{thread}");
        woken += after.switches - before.switches;
    }
    assert!(woken <= 2, "woken {woken} times while idle");
}

#[test]
fn tcp_is_served_and_sockets_have_the_configured_mode() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Temp::new();
    let socket = directory.path().join("nbd.sock");
    let text = format!(
        "listen.nbd = [\"unix:{}\", \"127.0.0.1:0\"]\nlisten.socket_mode = \"0640\"\n{ONE}",
        socket.display()
    );
    let server = LiveServer::start(&parse(&text), &ServerOptions::default()).unwrap();
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    let address = &server.addresses()[1];
    assert!(matches!(address, ListenAddress::Tcp(_)), "{address:?}");
    let mut client = NbdTestClient(Raw::open(address, "v").unwrap());
    client.write(5, b"over tcp");
    assert_eq!(client.read(5, 8), b"over tcp");
    assert!(client.leave() && server.shutdown());
}

#[test]
fn too_small_an_arena_refuses_the_start() {
    let mut config = serve(ONE).parse(ONE);
    (config.limits.arena, config.limits.connections) = (64 << 20, 3000);
    let refused = LiveServer::start(&config, &ServerOptions::default());
    assert!(refused.unwrap_err().to_string().contains("limits.arena"));
}
