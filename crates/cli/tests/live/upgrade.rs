//! Upgrades in place under verified load, and upgrades whose new process fails.
//!
//! `cargo test -p weir --test live upgrade:: -- --nocapture` prints figures. `WEIR_UPGRADES=100`
//! sets the number of upgrades, and half of it is the number of upgrades that fail.

use crate::common::program::have;
use crate::common::running::{RunningServer, serve, start};
use crate::common::{Scratch, free_port, has, in_scratch, run, shell, signal, wait, words, works};
use crate::guest::TestGuest;
use crate::raw::{Raw, deaf, header};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weir_config::ListenAddress;
use weir_wire::nbd::{CommandFlags, NbdCommand};

const MIB: u64 = 1 << 20;
/// The numbers of connections of each kind, 32 together.
const PLAIN: usize = 16;
const TLS: usize = 8;
const GUESTS: usize = 8;

/// Returns the number of upgrades.
fn count() -> usize {
    let count = std::env::var("WEIR_UPGRADES").ok();
    count.map_or(6, |count| count.parse().unwrap())
}

/// Writes the configuration of a server with the sockets of tests, on images of the build's file
/// system.
fn config(scratch: &Scratch, listen: &str, volumes: &str) {
    let text = format!(
        "[listen]\nnbd = [\"unix:{}\"{listen}\n[manage]\nsocket = \"{}\"\n[drive.fast]\n{volumes}",
        scratch.path("nbd.sock").display(),
        scratch.path("weir.sock").display(),
    );
    scratch.file("weir.toml", &text);
}

/// Returns the table of a volume in an image.
fn volume(scratch: &Scratch, name: &str, size: &str, rest: &str) -> String {
    let image = scratch.path(&format!("{name}.img"));
    format!(
        "[volume.{name}]\ndrive = \"fast\"\nfile = \"{}\"\nsize = \"{size}\"\n{rest}",
        image.display()
    )
}

fn address(scratch: &Scratch) -> ListenAddress {
    ListenAddress::Unix(scratch.path("nbd.sock"))
}

/// Upgrades the server, which must succeed. Returns the pause that the server reports.
pub(super) fn upgrade(scratch: &Scratch) -> Duration {
    let attempt = || run(scratch, "ctl --socket weir.sock --json upgrade");
    let mut said = attempt();
    // On a machine that other tests keep busy, the drive can be late. The server refuses then, and
    // can be asked again.
    for _ in 0..5 {
        if !said.err.contains("did not complete the requests in flight") {
            break;
        }
        said = attempt();
    }
    let said = said.ended(0);
    let said: Value = serde_json::from_str(&said.out).unwrap();
    Duration::from_millis(said["pause_ms"].as_u64().unwrap())
}

/// Returns the number of connections of all volumes.
fn connections(scratch: &Scratch) -> usize {
    let said = run(scratch, "ctl --socket weir.sock --json list").ended(0);
    let volumes: Vec<Value> = serde_json::from_str(&said.out).unwrap();
    let counts = volumes.iter().map(|v| v["now"]["connections"].as_u64());
    counts.map(|count| count.unwrap() as usize).sum()
}

/// Starts fio with jobs that verify what they have written, each in a part of its own. It runs as a
/// user whose home is in the scratch directory, where libnbd finds certificates.
fn fio(scratch: &Scratch, name: &str, uri: &str, jobs: usize) -> Child {
    let line = format!(
        "fio --name={name} --ioengine=nbd --uri={uri} --numjobs={jobs} --rw=randrw --bsrange=4k-64k \
         --iodepth=4 --size=4M --offset_increment=4M --verify=crc32c --verify_fatal=1 --time_based \
         --runtime=600 --group_reporting --output-format=json --verify_state_save=0"
    );
    let mut line = words(&line);
    if rustix::process::geteuid().is_root() {
        let user = words("setpriv --reuid=65534 --regid=65534 --clear-groups");
        line = [user, line].concat();
    }
    let mut fio = in_scratch(scratch, Path::new(line[0]), &line[1..]);
    fio.env("HOME", scratch.path("home")).current_dir("/tmp");
    fio.stdout(Stdio::piped()).stderr(Stdio::piped());
    fio.spawn().unwrap()
}

/// Ends fio, which must have had no error. Returns the 99th percentile and the maximum of its
/// latencies.
fn end_fio(fio: Child) -> [Duration; 2] {
    // fio ends its jobs and prints its figures.
    signal(&fio, Signal::INT);
    let said = fio.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&said.stderr);
    let text = String::from_utf8_lossy(&said.stdout);
    let json: Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    let job = &json["jobs"][0];
    assert_eq!(job["error"], 0, "{errors} {text}");
    assert!(!errors.contains("verify"), "{errors}");
    let of = |direction: &str, key: &str| {
        let all = &job[direction]["clat_ns"];
        let value = if key == "max" {
            &all["max"]
        } else {
            &all["percentile"][key]
        };
        Duration::from_nanos(value.as_u64().unwrap_or(0))
    };
    ["99.000000", "max"].map(|key| of("read", key).max(of("write", key)))
}

/// Writes and reads back through the rings of a guest until it is told to stop. Returns the longest
/// time for a request.
fn guest_load(socket: &Path, seed: u64, stop: &AtomicBool) -> Duration {
    let mut guest = TestGuest::start(socket, 1);
    let mut longest = Duration::ZERO;
    let mut round = seed;
    while !stop.load(Ordering::Relaxed) {
        // Each guest has a content of its own in every round, so that data of another guest or
        // round is noticed.
        round += GUESTS as u64;
        let sector = (round % 64) * 8;
        let data = vec![round as u8 | 1; 4096];
        let begun = Instant::now();
        guest.write(sector, &data);
        assert!(guest.read(sector, data.len()) == data, "round {round}");
        longest = longest.max(begun.elapsed() / 2);
    }
    longest
}

/// Starts a server with a volume for clients without TLS, one for clients with TLS, and one for
/// each guest. Returns it with a URI for each kind of client of NBD.
fn serve_all(scratch: &Scratch) -> (RunningServer, [String; 2]) {
    let pki = scratch.path("home/.pki");
    std::fs::create_dir_all(&pki).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let certificates = root.join("../../packaging/examples/tls/certificates");
    let tls = scratch.at("home/.pki/libnbd");
    run_program(
        scratch,
        &certificates.display().to_string(),
        &[&tls, "client.example"],
    );
    run_program(scratch, "chmod", &["-R", "a+rX", &scratch.at("home")]);
    let port = free_port();
    let listen = format!(
        ", \"127.0.0.1:{port}\"]\nsocket_mode = \"0666\"\ntls = {{ certificate = \"{tls}/server-cert.pem\", \
         key = \"{tls}/server-key.pem\", client_ca = \"{tls}/ca-cert.pem\" }}"
    );
    let secret = "tls = \"required\"\nallow = [\"certificate:client.example\"]\n";
    let mut volumes =
        volume(scratch, "plain", "64MiB", "") + &volume(scratch, "secret", "32MiB", secret);
    for n in 0..GUESTS {
        let socket = scratch.at(&format!("vm{n}.sock"));
        let socket = format!("listen = {{ vhost = \"{socket}\" }}\n");
        volumes += &volume(scratch, &format!("vm{n}"), "4MiB", &socket);
    }
    config(scratch, &listen, &volumes);
    run_program(scratch, "chmod", &["a+rx", &scratch.at("")]);
    let plain = format!("nbd+unix:///plain?socket={}", scratch.at("nbd.sock"));
    (
        serve(scratch),
        [plain, format!("nbds://localhost:{port}/secret")],
    )
}

#[test]
fn upgrades_under_verified_load_are_not_noticed() {
    if !have(&["fio"]) || !works("openssl", &["version"]) {
        return;
    }
    let scratch = Scratch::new();
    let (server, [plain, secret]) = serve_all(&scratch);
    // libnbd does not reconnect, so that a single connection that is lost ends fio with an error.
    let mut loads = [
        ("plain", fio(&scratch, "plain", &plain, PLAIN)),
        ("secret", fio(&scratch, "secret", &secret, TLS)),
    ];
    let stop = AtomicBool::new(false);
    let (mut pauses, guests) = thread::scope(|scope| {
        let guests: Vec<_> = (0..GUESTS)
            .map(|n| (n as u64, scratch.path(&format!("vm{n}.sock"))))
            .map(|(n, socket)| {
                let stop = &stop;
                scope.spawn(move || guest_load(&socket, n, stop))
            })
            .collect();
        let mut ended = || {
            loads
                .iter_mut()
                .any(|(_, fio)| fio.try_wait().unwrap().is_some())
        };
        wait("all clients come", || {
            assert!(!ended(), "{}", server.log.lock().unwrap());
            connections(&scratch) >= PLAIN + TLS + GUESTS
        });
        // The upgrades follow each other without a pause, so that most of them meet requests of
        // every kind.
        let pauses: Vec<Duration> = (0..count()).map(|_| upgrade(&scratch)).collect();
        assert!(!ended(), "{}", server.log.lock().unwrap());
        stop.store(true, Ordering::Relaxed);
        let guests = guests.into_iter().map(|guest| guest.join().unwrap()).max();
        (pauses, guests.unwrap())
    });
    for (name, fio) in loads {
        let [p99, most] = end_fio(fio);
        println!("{name}: p99 {p99:.1?}, at most {most:.1?}");
    }
    pauses.sort();
    println!(
        "{} upgrades under verified load on {} connections: no error; pause {:?} at the median, {:?} at most; requests of guests {guests:.1?} at most",
        pauses.len(),
        PLAIN + TLS + GUESTS,
        pauses[pauses.len() / 2],
        pauses[pauses.len() - 1],
    );
    server.end();
    let left = scratch.names();
    assert!(!left.iter().any(|name| name.contains(".sock")), "{left:?}");
}

fn run_program(scratch: &Scratch, program: &str, arguments: &[&str]) {
    let ended = in_scratch(scratch, Path::new(program), arguments)
        .output()
        .unwrap();
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
}

/// Starts the server as a copy of the program, which the test can replace.
fn serve_copy(scratch: &Scratch) -> (RunningServer, PathBuf) {
    let program = scratch.path("weir");
    install(&program);
    let mut command = in_scratch(scratch, &program, &["serve", "weir.toml"]);
    (start(&mut command), program)
}

/// Installs the program anew, as a package manager does.
fn install(program: &Path) {
    let new = program.with_extension("new");
    std::fs::copy(env!("CARGO_BIN_EXE_weir"), &new).unwrap();
    std::fs::rename(new, program).unwrap();
}

/// Installs a script in place of the program.
fn install_script(program: &Path, script: &str) {
    let new = program.with_extension("new");
    std::fs::write(&new, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&new, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::rename(new, program).unwrap();
}

/// The ways in which a new process fails, each at another step: it does not start, ends or speaks
/// nonsense at once, or has too few descriptors for the sockets, the rings or the clients.
fn failures() -> Vec<(String, String)> {
    let real = env!("CARGO_BIN_EXE_weir");
    let mut all = vec![
        ("ends at once".to_owned(), "exit 1".to_owned()),
        ("ends later".to_owned(), "sleep 0.1; exit 0".to_owned()),
        (
            "speaks nonsense".to_owned(),
            "head -c 4096 /dev/urandom >&0".to_owned(),
        ),
        (
            "refuses the command line".to_owned(),
            format!("exec {real} serve --unknown"),
        ),
    ];
    for limit in (4..64).step_by(2) {
        let script = format!("ulimit -n {limit}; exec {real} \"$@\"");
        all.push((format!("has {limit} descriptors"), script));
    }
    if have(&["strace"]) {
        // It is killed at a call for the channel to the running server, before it takes over.
        for (call, most) in [("recvmsg", 20), ("sendmsg", 4)] {
            for number in 1..=most {
                let script = format!(
                    "exec strace -f -qq -o /dev/null -e trace={call} -e inject={call}:signal=KILL:when={number} {real} \"$@\""
                );
                all.push((format!("is killed at {call} {number}"), script));
            }
        }
    }
    all
}

#[test]
fn a_new_process_that_fails_leaves_the_server_serving() {
    if !have(&["fio"]) {
        return;
    }
    let scratch = Scratch::new();
    let listen = "]\nsocket_mode = \"0666\"";
    config(&scratch, listen, &volume(&scratch, "plain", "16MiB", ""));
    run_program(&scratch, "chmod", &["a+rx", &scratch.at("")]);
    let (server, program) = serve_copy(&scratch);
    let uri = format!("nbd+unix:///plain?socket={}", scratch.at("nbd.sock"));
    let mut load = fio(&scratch, "plain", &uri, 4);
    wait("the clients come", || connections(&scratch) >= 4);
    let all = failures();
    // All failures together take a few minutes.
    let wanted = (count() / 2).max(8).min(all.len());
    let mut failed = 0;
    // An evenly distributed part of all failures.
    for (at, (name, script)) in all.iter().enumerate() {
        if (at * wanted) / all.len() == ((at + 1) * wanted) / all.len() {
            continue;
        }
        install_script(&program, script);
        let said = run(&scratch, "ctl --socket weir.sock upgrade");
        if said.status == Some(0) {
            // The limit or the number of the call was too high for a failure.
            println!("{name}: took over");
            install(&program);
            continue;
        }
        failed += 1;
        let log = || server.log.lock().unwrap().clone();
        let kept = said
            .err
            .contains("the server was not upgraded, and serves on");
        assert!(kept, "{name}: {} {}", said.err, log());
        println!("{name}: {}", said.err.trim());
        assert!(load.try_wait().unwrap().is_none(), "{name}");
        // The server accepts new clients again.
        let opened = Raw::open(&address(&scratch), "plain");
        assert!(opened.is_ok(), "{name}: {}", server.log.lock().unwrap());
    }
    install(&program);
    upgrade(&scratch);
    let [_, most] = end_fio(load);
    println!(
        "{failed} upgrades failed, and the server served on: no error, requests took {most:.1?} at most"
    );
    server.end();
}

/// A new process that has opened the storage and is refused has no data that could be lost.
#[test]
fn a_refused_process_warns_of_no_lost_data() {
    let scratch = Scratch::new();
    config(&scratch, "]", &volume(&scratch, "plain", "16MiB", ""));
    let token = scratch.at("token");
    let http = format!("[manage]\nhttp = \"127.0.0.1:0\"\ntoken_file = \"{token}\"");
    let text = scratch.read("weir.toml").replace("[manage]", &http);
    scratch.file("weir.toml", &text);
    // The server creates the file of the token.
    let server = serve(&scratch);
    wait("it serves the management interface", || {
        server.says("serving the management interface")
    });
    scratch.file("token", "short");
    let said = run(&scratch, "ctl --socket weir.sock upgrade").ended(1);
    assert!(said.err.contains("serves on"), "{}", said.err);
    let log = server.log.lock().unwrap().clone();
    assert!(!log.contains("may be lost"), "{log}");
    server.end();
}

/// Neither a client in the middle of a write nor one that reads no replies delays an upgrade, and
/// both lose nothing.
#[test]
fn clients_in_the_middle_of_a_message_are_handed_over() {
    let scratch = Scratch::new();
    let limited = volume(&scratch, "limited", "8MiB", "max = \"1MB/s\"\n");
    config(
        &scratch,
        "]",
        &(volume(&scratch, "plain", "16MiB", "") + &limited),
    );
    let server = serve(&scratch);
    let at = address(&scratch);
    let pattern = |seed: u64| -> Vec<u8> { (0..MIB).map(|n| ((n * seed) >> 7) as u8).collect() };
    let mut writer = Raw::open(&at, "plain").unwrap();
    let data = pattern(3);
    let head = header(NbdCommand::Write, CommandFlags::EMPTY, 7, 0, MIB as u32);
    writer.stream.write_all(&head).unwrap();
    writer.stream.write_all(&data[..300_000]).unwrap();
    // A header in two parts.
    let mut halting = Raw::open(&at, "plain").unwrap();
    let second = header(
        NbdCommand::Write,
        CommandFlags::EMPTY,
        8,
        4 * MIB,
        MIB as u32,
    );
    halting.stream.write_all(&second[..11]).unwrap();
    let mut deaf = deaf(&at, "plain", MIB as u32);
    // Twenty writes of which the limit lets one through in each second.
    let mut waiting = Raw::open(&at, "limited").unwrap();
    for n in 0..6 {
        waiting.write(n, n * MIB, &pattern(n + 5)).unwrap();
    }
    // The second and the third upgrade hand over what the first one has carried.
    for _ in 0..3 {
        let pause = upgrade(&scratch);
        // The writes that the limit delays would take five seconds.
        assert!(pause < Duration::from_millis(2500), "{pause:?}");
    }
    writer.stream.write_all(&data[300_000..]).unwrap();
    assert_eq!(writer.answer().unwrap(), (7, Ok(Vec::new())));
    assert!(writer.read(0, MIB as u32).unwrap() == data);
    halting.stream.write_all(&second[11..]).unwrap();
    halting.stream.write_all(&pattern(9)).unwrap();
    assert_eq!(halting.answer().unwrap(), (8, Ok(Vec::new())));
    deaf.stream.wait();
    for _ in 0..20 {
        let answer = deaf.receive();
        let (_, answer) = answer.unwrap_or_else(|e| panic!("{e}: {}", server.log.lock().unwrap()));
        assert_eq!(answer.error, None);
    }
    let mut answered: Vec<u64> = (0..6).map(|_| waiting.receive().unwrap().0).collect();
    answered.sort_unstable();
    assert_eq!(answered, [0, 1, 2, 3, 4, 5]);
    for n in 0..6 {
        assert!(
            waiting.read(n * MIB, MIB as u32).unwrap() == pattern(n + 5),
            "write {n}"
        );
    }
    server.end();
}

/// Clients that read no replies occupy the memory of their shard, and no more of it after each
/// upgrade. Otherwise, requests would wait for memory in the drive, and prevent the next upgrade.
#[test]
fn clients_that_read_no_replies_prevent_no_upgrade() {
    let scratch = Scratch::new();
    let memory = "[volume.memory]\ndrive = \"fast\"\nmemory = true\nsize = \"1MiB\"\n\
                  [limits]\narena = \"8MiB\"\nconnections = 32\nrequest_size = \"1MiB\"\n";
    config(&scratch, "]", memory);
    let server = serve(&scratch);
    let at = address(&scratch);
    let connect = |_| deaf(&at, "memory", 64 << 10);
    let mut all: Vec<Raw> = (0..16).map(connect).collect();
    let mut honest = Raw::open(&at, "memory").unwrap();
    for _ in 0..6 {
        upgrade(&scratch);
        honest.read(0, 4096).unwrap();
    }
    for client in &mut all {
        client.stream.wait();
        for _ in 0..20 {
            assert_eq!(client.receive().unwrap().1.error, None);
        }
    }
    server.end();
}

/// The rest of a refused payload comes after the requests that were taken back.
#[test]
fn a_refused_payload_is_skipped_across_an_upgrade() {
    let scratch = Scratch::new();
    let limited = volume(&scratch, "limited", "8MiB", "max = \"1MB/s\"\n");
    config(&scratch, "]", &limited);
    let server = serve(&scratch);
    let mut client = Raw::open(&address(&scratch), "limited").unwrap();
    let data = vec![7; MIB as usize];
    // The limit delays the two small writes behind this one.
    client.write(0, 0, &data).unwrap();
    client.write(1, MIB, &data[..4096]).unwrap();
    client.write(2, 2 * MIB, &data[..4096]).unwrap();
    let head = header(
        NbdCommand::Write,
        CommandFlags::EMPTY,
        3,
        9 * MIB,
        MIB as u32,
    );
    client.stream.write_all(&head).unwrap();
    client.stream.write_all(&data[..10]).unwrap();
    let mut answered = vec![client.answer().unwrap().0];
    while !answered.contains(&3) {
        answered.push(client.answer().unwrap().0);
    }
    for _ in 0..3 {
        upgrade(&scratch);
    }
    client.stream.write_all(&data[10..]).unwrap();
    while answered.len() < 4 {
        answered.push(client.answer().unwrap().0);
    }
    answered.sort_unstable();
    assert_eq!(answered, [0, 1, 2, 3]);
    for n in 1..3 {
        assert!(client.read(n * MIB, 4096).unwrap() == data[..4096], "{n}");
    }
    server.end();
}

/// The whole life of a service: upgrades by each request, changes that are only in memory, and
/// signals to the first process.
#[test]
fn an_upgraded_server_keeps_its_changes_locks_and_signals() {
    let scratch = Scratch::new();
    config(&scratch, "]", &volume(&scratch, "plain", "16MiB", ""));
    let audit = format!("[manage]\naudit_file = \"{}\"", scratch.at("audit.jsonl"));
    let text = scratch.read("weir.toml").replace("[manage]", &audit);
    scratch.file("weir.toml", &text);
    let (server, program) = serve_copy(&scratch);
    let status = |line: &str| run(&scratch, line).status;
    assert_eq!(
        status("ctl --socket weir.sock set plain share=300 --no-save"),
        Some(0)
    );
    upgrade(&scratch);
    let shown = run(&scratch, "ctl --socket weir.sock show plain").ended(0);
    has(&shown.out, "300");
    assert!(!scratch.read("weir.toml").contains("300"));
    // Another server finds the locks.
    let text = text
        .replace("nbd.sock", "n2.sock")
        .replace("weir.sock", "w2.sock");
    scratch.file("other.toml", &text);
    // The lock belongs to the open file, which both processes had for a moment.
    let refused = run(&scratch, "serve other.toml").ended(1);
    has(&refused.err, "plain.img");
    // The first process passes signals on. A reload upgrades only if the program was replaced.
    let taken = || server.log.lock().unwrap().matches("took over").count();
    signal(&server.child, Signal::HUP);
    wait("it reloads", || server.says("reloaded "));
    assert_eq!(taken(), 1);
    install(&program);
    signal(&server.child, Signal::HUP);
    wait("it upgrades", || taken() == 2);
    wait("the first process can pass signals on", || {
        status("ctl --socket weir.sock status") == Some(0)
    });
    signal(&server.child, Signal::USR2);
    wait("it upgrades again", || taken() == 3);
    // A server that starts a command for a single volume cannot be upgraded.
    let lonely = shell(
        scratch.path("").as_path(),
        "weir serve --memory 1MiB --run 'kill -USR2 $PPID; sleep 0.3'",
    )
    .output()
    .unwrap();
    has(
        &String::from_utf8_lossy(&lonely.stderr),
        "cannot be upgraded",
    );
    // The audit file has each beginning, and the failure.
    install_script(&program, "exit 1");
    assert_eq!(status("ctl --socket weir.sock upgrade"), Some(1));
    let audit = scratch.read("audit.jsonl");
    let records = audit
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let upgrades: Vec<Value> = records
        .filter(|record| record["request"] == "upgrade")
        .collect();
    let results: Vec<_> = upgrades
        .iter()
        .map(|record| record["result"].as_str().unwrap())
        .collect();
    assert_eq!(
        results,
        ["begun", "begun", "begun", "begun", "refused"],
        "{audit}"
    );
    has(upgrades[0]["by"].as_str().unwrap(), "uid ");
    let begun = Instant::now();
    server.end();
    assert!(begun.elapsed() < Duration::from_secs(10));
}

/// Begins an upgrade whose new program runs `script`, and returns when the script runs. The script
/// can wait for the file `go` ([`HELD`]).
fn begin_upgrade(scratch: &Scratch, program: &Path, script: &str) -> Child {
    let started = scratch.path("started");
    let _ = std::fs::remove_file(&started);
    install_script(program, &format!("echo $$ > pid; mv pid started\n{script}"));
    let arguments = words("ctl --socket weir.sock upgrade");
    let real = Path::new(env!("CARGO_BIN_EXE_weir"));
    let mut ctl = in_scratch(scratch, real, &arguments);
    let ctl = ctl.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    wait("the new program starts", || started.exists());
    ctl.unwrap()
}

/// Waits in a script until the test creates the file `go`.
const HELD: &str = "while ! test -e go; do sleep 0.01; done";

/// A script that takes over after the file `go` was created.
fn held_program() -> String {
    format!("{HELD}\nexec {} \"$@\"", env!("CARGO_BIN_EXE_weir"))
}

/// Serves a copy of the program as a service, or so that it waits for its successors.
fn serve_held(scratch: &Scratch, is_service: bool) -> (RunningServer, PathBuf, UnixDatagram) {
    config(scratch, "]", &volume(scratch, "plain", "16MiB", ""));
    let program = scratch.path("weir");
    install(&program);
    let notified = scratch.path("notify");
    let manager = UnixDatagram::bind(&notified).unwrap();
    let mut command = in_scratch(scratch, &program, &["serve", "weir.toml"]);
    if is_service {
        command.env("NOTIFY_SOCKET", notified);
    }
    (start(&mut command), program, manager)
}

fn status(scratch: &Scratch) -> Option<i32> {
    run(scratch, "ctl --socket weir.sock status").status
}

/// Signals that arrive while the new program starts take effect, whichever process serves then.
#[test]
fn a_reload_during_an_upgrade_is_made_by_the_new_server() {
    let scratch = Scratch::new();
    let (mut server, program, _manager) = serve_held(&scratch, true);
    let mut ctl = begin_upgrade(&scratch, &program, &held_program());
    let text = scratch.read("weir.toml") + "share = 300\n";
    scratch.file("weir.toml", &text);
    signal(&server.child, Signal::HUP);
    scratch.file("go", "");
    assert!(ctl.wait().unwrap().success());
    wait("the new server reloads", || server.says("reloaded "));
    let shown = run(&scratch, "ctl --socket weir.sock show plain").ended(0);
    has(&shown.out, "300");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    let new = scratch.read("started").trim().parse().unwrap();
    kill_process(Pid::from_raw(new).unwrap(), Signal::TERM).unwrap();
    server.reader.join().unwrap();
}

/// A new program that hangs does not delay the end of the server.
#[test]
fn a_signal_to_end_the_server_ends_the_preparation_of_an_upgrade() {
    for is_service in [true, false] {
        let scratch = Scratch::new();
        let (server, program, _manager) = serve_held(&scratch, is_service);
        let mut ctl = begin_upgrade(&scratch, &program, "exec sleep 1000");
        let (log, hung) = (server.log.clone(), scratch.read("started"));
        server.end();
        ctl.wait().unwrap();
        has(&log.lock().unwrap(), "the server received a signal to end");
        let hung = Pid::from_raw(hung.trim().parse().unwrap()).unwrap();
        assert!(test_kill_process(hung).is_err());
    }
}

/// Returns how often the thread that receives signals has been woken in a process.
fn signals_woken(process: &str) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let mut texts =
        threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("status")));
    let text = texts.find_map(|text| text.ok().filter(|text| text.contains("weir-signals")));
    let text = text.unwrap();
    let (_, count) = text.split_once("\nvoluntary_ctxt_switches:").unwrap();
    count.lines().next().unwrap().trim().parse().unwrap()
}

/// The first process passes a signal on to the server and not to a program that prepares itself to
/// be the server.
#[test]
fn the_first_process_signals_the_server_and_not_an_unfinished_one() {
    let scratch = Scratch::new();
    let (server, program, _manager) = serve_held(&scratch, false);
    upgrade(&scratch);
    // The new program would be ended by the signal.
    let ctl = begin_upgrade(&scratch, &program, &format!("{HELD}\nexit 7"));
    let new = Pid::from_raw(scratch.read("started").trim().parse().unwrap()).unwrap();
    let parent = std::fs::read_to_string(format!("/proc/{}/stat", new.as_raw_nonzero())).unwrap();
    let parent = parent.rsplit_once(") ").unwrap().1;
    let parent = parent.split(' ').nth(1).unwrap().to_owned();
    let before = signals_woken(&parent);
    signal(&server.child, Signal::HUP);
    // The signal reaches either the server or the script.
    wait("the signal is passed on", || {
        test_kill_process(new).is_err() || signals_woken(&parent) > before
    });
    scratch.file("go", "");
    has(
        &String::from_utf8_lossy(&ctl.wait_with_output().unwrap().stderr),
        "it has ended",
    );
    wait("the server reloads", || server.says("reloaded "));
    server.end();
}

/// Returns the only child of a process.
fn last_child(parent: Pid) -> Pid {
    let parent = parent.as_raw_nonzero();
    let path = format!("/proc/{parent}/task/{parent}/children");
    let children = std::fs::read_to_string(path).unwrap();
    Pid::from_raw(children.trim().parse().unwrap()).unwrap()
}

/// A program that is installed by changing a link is upgraded.
#[test]
fn a_program_behind_a_link_is_upgraded() {
    let scratch = Scratch::new();
    config(&scratch, "]", &volume(&scratch, "plain", "16MiB", ""));
    for version in ["v1", "v2"] {
        std::fs::create_dir(scratch.path(version)).unwrap();
        install(&scratch.path(version).join("weir"));
    }
    let link = |version: &str| {
        std::os::unix::fs::symlink(version, scratch.path("new")).unwrap();
        std::fs::rename(scratch.path("new"), scratch.path("cur")).unwrap();
    };
    link("v1");
    // The name is relative to the directory in which the program is started.
    let server = start(&mut shell(
        scratch.path("").as_path(),
        "exec cur/weir serve weir.toml",
    ));
    link("v2");
    upgrade(&scratch);
    let new = last_child(Pid::from_child(&server.child)).as_raw_nonzero();
    let running = std::fs::read_link(format!("/proc/{new}/exe")).unwrap();
    assert_eq!(running, scratch.path("v2/weir").canonicalize().unwrap());
    server.end();
}

/// A supervisor of the first process starts the server again if the server was killed.
#[test]
fn the_first_process_fails_if_the_server_was_killed() {
    let scratch = Scratch::new();
    let (mut server, _, _manager) = serve_held(&scratch, false);
    for _ in 0..2 {
        upgrade(&scratch);
    }
    let said = run(&scratch, "ctl --socket weir.sock --json upgrade").ended(0);
    let said: Value = serde_json::from_str(&said.out).unwrap();
    let last = Pid::from_raw(said["process"].as_i64().unwrap() as i32).unwrap();
    wait("it serves", || status(&scratch) == Some(0));
    kill_process(last, Signal::KILL).unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(1));
    server.reader.join().unwrap();
}

/// Requests that arrive during an upgrade share its result.
#[test]
fn requests_for_an_upgrade_at_the_same_time_are_one() {
    let scratch = Scratch::new();
    let (server, program, _manager) = serve_held(&scratch, false);
    let first = begin_upgrade(&scratch, &program, &format!("{HELD}\nexit 7"));
    let others: Vec<_> = (0..3)
        .map(|_| {
            let line = "weir ctl --socket weir.sock upgrade";
            let mut ctl = shell(scratch.path("").as_path(), line);
            ctl.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    // The kernel lists the listening socket and each connection under the name of the socket.
    wait("all clients connect", || {
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
        sockets.matches(&scratch.at("weir.sock")).count() >= 5
    });
    scratch.file("go", "");
    for mut ctl in others.into_iter().chain([first]) {
        assert_eq!(ctl.wait().unwrap().code(), Some(1));
    }
    assert_eq!(status(&scratch), Some(0));
    let log = server.log.lock().unwrap().clone();
    assert_eq!(log.matches("upgrading the server").count(), 1, "{log}");
    server.end();
}

/// A service manager accepts the notifications of a process only after its predecessor has named
/// it.
#[test]
fn the_service_manager_learns_of_the_new_process_before_it_is_ready() {
    let scratch = Scratch::new();
    config(&scratch, "]", &volume(&scratch, "plain", "16MiB", ""));
    let manager = UnixDatagram::bind(scratch.path("notify")).unwrap();
    manager
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let said = || {
        let mut message = [0; 4096];
        let length = manager.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).into_owned()
    };
    let program = Path::new(env!("CARGO_BIN_EXE_weir"));
    let mut command = in_scratch(&scratch, program, &["serve", "weir.toml"]);
    let mut server = start(command.env("NOTIFY_SOCKET", scratch.path("notify")));
    has(&said(), "READY=1");
    for _ in 0..3 {
        upgrade(&scratch);
        let named = said();
        let pid = named
            .trim()
            .strip_prefix("MAINPID=")
            .expect(&named)
            .to_owned();
        has(&said(), "READY=1");
        // The manager would see the end of the first process, which waits for nobody.
        let status = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
        assert_eq!(status.trim(), "weir");
    }
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    let last = run(&scratch, "ctl --socket weir.sock --json upgrade").ended(0);
    let last: Value = serde_json::from_str(&last.out).unwrap();
    let last = Pid::from_raw(last["process"].as_i64().unwrap() as i32).unwrap();
    kill_process(last, Signal::TERM).unwrap();
    wait("it ends", || test_kill_process(last).is_err());
    server.reader.join().unwrap();
}
