//! `weir serve` from outside: readiness, reload, recording, and end.

use crate::common;
use crate::common::running::{fleet, open, serve, start};
use crate::common::{Scratch, free_port, has, run, signal, weir};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use std::io::{BufRead, BufReader, Read, Write, pipe};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use weir_model::client::Address;
use weir_model::load::Program;
use weir_wire::nbd::TransmissionFlags;

const CONFIG: &str = r#"
[drive.fast]
capacity = { read = "160MB/s", write = "120MB/s" }
[listen]
nbd = ["unix:SOCKET"]
[volume.alpha]
drive = "fast"
memory = true
size = "1MiB"
min = "10MB/s"
"#;

const MORE: &str = r#"
[volume.beta]
drive = "fast"
memory = true
size = "2MiB"
"#;

fn config(scratch: &Scratch, more: &str) {
    let socket = scratch.at("nbd.sock");
    scratch.file("weir.toml", &(CONFIG.replace("SOCKET", &socket) + more));
}

/// Returns the size of an export, if it exists.
fn size(address: &Address, export: &str) -> Option<u64> {
    open(address, export).ok().map(|c| c.session().size)
}

/// The maximum time for which clients run.
const MINUTE: Duration = Duration::from_mins(1);

fn reads(address: &Address) {
    let program = Program {
        requests: Some(500),
        writes: 50,
        ..Program::random_reads(4096, 8)
    };
    let outcomes = fleet(address, &[("alpha", program)], MINUTE).run(|_| {});
    let outcomes = outcomes.unwrap();
    assert!(outcomes[0].error.is_none());
    assert_eq!(
        (outcomes[0].meter.requests(), outcomes[0].meter.failures()),
        (500, 0)
    );
}

#[test]
fn a_server_serves_notifies_the_service_manager_and_ends_cleanly() {
    let scratch = Scratch::new();
    config(&scratch, "");
    let manager = UnixDatagram::bind(scratch.path("notify")).unwrap();
    for options in ["serve weir.toml", "serve --poll weir.toml"] {
        let mut command = weir(&scratch, options);
        let server = start(command.env("NOTIFY_SOCKET", scratch.path("notify")));
        let mut state = [0; 64];
        let length = manager.recv(&mut state).unwrap();
        assert_eq!(&state[..length], b"READY=1\nSTATUS=serving 1 volume\n");
        assert_eq!(size(&server.address, "alpha"), Some(1 << 20));
        reads(&server.address);
        server.end();
        let length = manager.recv(&mut state).unwrap();
        assert_eq!(&state[..length], b"STOPPING=1\n");
    }
}

/// The server must send the messages that systemd expects for `Type=notify-reload` and
/// `WatchdogSec=`: the start of a reload with its time, its end, and a sign of life at least twice
/// within the timeout.
#[test]
fn the_service_manager_is_notified_of_reloads_and_signs_of_life() {
    let scratch = Scratch::new();
    config(&scratch, "");
    let manager = UnixDatagram::bind(scratch.path("notify")).unwrap();
    manager
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let hear = || {
        let mut state = [0; 256];
        let length = manager.recv(&mut state).unwrap();
        String::from_utf8_lossy(&state[..length]).into_owned()
    };
    // Messages of the watchdog come in between and are skipped.
    let next = || std::iter::repeat_with(hear).find(|said| said != "WATCHDOG=1\n");
    let mut command = weir(&scratch, "serve weir.toml");
    command.env("NOTIFY_SOCKET", scratch.path("notify"));
    // The timeout of the watchdog is 200 ms, so a message is due every 100 ms.
    let server = start(command.env("WATCHDOG_USEC", "200000"));
    assert_eq!(next().unwrap(), "READY=1\nSTATUS=serving 1 volume\n");
    for _ in 0..3 {
        assert_eq!(hear(), "WATCHDOG=1\n");
    }
    // The drive `slow` does not exist, so that the reload is refused.
    let wrong = "[volume.beta]\ndrive = \"slow\"\nmemory = true\nsize = \"1MiB\"\n";
    for (more, status) in [
        (MORE, "serving 2 volumes"),
        (
            wrong,
            "the last reload was refused, see the log; serving 2 volumes",
        ),
        ("", "serving 1 volume"),
    ] {
        config(&scratch, more);
        signal(&server.child, Signal::HUP);
        let said = next().unwrap();
        let time = said.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(time.trim().parse::<u64>().is_ok(), "{said}");
        assert_eq!(next().unwrap(), format!("READY=1\nSTATUS={status}\n"));
    }
    server.end();
    assert_eq!(next().unwrap(), "STOPPING=1\n");
}

/// A reload waits for the requests of clients whose volume is removed. Here, this takes longer than
/// the timeout of the watchdog.
#[test]
fn a_long_reload_is_no_reason_for_the_watchdog() {
    let scratch = Scratch::new();
    let slow = "[volume.beta]\ndrive = \"fast\"\nmemory = true\nsize = \"1MiB\"\nmax = { bandwidth = \"4kB/s\" }\n";
    config(&scratch, slow);
    let manager = UnixDatagram::bind(scratch.path("notify")).unwrap();
    let patience = Some(Duration::from_secs(20));
    manager.set_read_timeout(patience).unwrap();
    let mut command = weir(&scratch, "serve weir.toml");
    command.env("NOTIFY_SOCKET", scratch.path("notify"));
    let server = start(command.env("WATCHDOG_USEC", "400000"));
    let reader = [("beta", Program::random_reads(16384, 4))];
    let reader = fleet(&server.address, &reader, MINUTE);
    let reads = std::thread::spawn(move || reader.run(|_| {}));
    common::wait("it reads", || server.says("volume=beta"));
    config(&scratch, "[server]\nremove_in_use = true\n");
    signal(&server.child, Signal::HUP);
    let (mut told, mut reloads) = (0, false);
    loop {
        let mut state = [0; 256];
        let length = manager.recv(&mut state).unwrap();
        match &state[..length] {
            b"WATCHDOG=1\n" => told += u32::from(reloads),
            said if said.starts_with(b"RELOADING=1\n") => reloads = true,
            said if reloads && said.starts_with(b"READY=1\n") => break,
            _ => {}
        }
    }
    assert!(told >= 2, "{told} times");
    common::wait("the volume is named", || {
        server.says("volume.beta was removed")
    });
    server.end();
    let _ = reads.join();
}

#[test]
fn a_volume_without_a_configuration_is_served_and_keeps_its_data() {
    let scratch = Scratch::new();
    let socket = scratch.at("disk.sock");
    for options in [
        "disk.img --size 1MiB --capacity 160MB/s --min 20MB/s",
        "--memory 1MiB",
        "disk.img",
    ] {
        let line = format!("serve {options} --listen unix:{socket}");
        let server = start(&mut weir(&scratch, &line));
        for export in ["disk", ""] {
            assert_eq!(size(&server.address, export), Some(1 << 20), "{options}");
        }
        signal(&server.child, Signal::HUP);
        common::wait("it has nothing to read", || {
            server.says("has no configuration file")
        });
        server.end();
    }
}

#[test]
fn a_server_and_its_run_command_end_together() {
    let scratch = Scratch::new();
    let served = |command: &str| {
        let said = run(&scratch, &format!("serve --memory 1MiB --run '{command}'"));
        (said.status, said.out)
    };
    let (status, said) = served("test -S \"$unixsocket\" && echo $exportname $uri; exit 3");
    assert_eq!(status, Some(3), "{said}");
    let socket = said
        .strip_prefix("disk nbd+unix:///disk?socket=")
        .expect("its URI");
    let directory = Path::new(socket.trim_end()).parent().expect("it is in one");
    assert!(!directory.exists(), "the socket has gone with the server");
    assert_eq!(served("kill -9 $$").0, Some(128 + 9));
    assert_eq!(served("true").0, Some(0));
    let command = "echo $$; exec sleep 600";
    let mut server = weir(&scratch, &format!("serve --memory 1MiB --run '{command}'"));
    let mut child = server.stdout(Stdio::piped()).spawn().unwrap();
    let mut pid = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut pid).unwrap();
    signal(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!Path::new("/proc").join(pid.trim_end()).exists());
    let command = "trap \"\" TERM; echo $unixsocket; while test -S $unixsocket; do sleep 0.1; done";
    let mut server = weir(&scratch, &format!("serve --memory 1MiB --run '{command}'"));
    let piped = server.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let mut socket = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut socket).unwrap();
    signal(&child, Signal::TERM);
    let log = BufReader::new(child.stderr.take().unwrap());
    let mut lines = log.lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("shutting down")));
    assert!(
        child.try_wait().unwrap().is_none(),
        "the command is waited for"
    );
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(
        !Path::new(socket.trim_end()).exists(),
        "a second signal leaves no socket"
    );
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    let scratch = Scratch::new();
    // At 4 kB/s a request of 64 KiB takes 16 s, so that requests are outstanding when the server
    // ends.
    let slow = CONFIG.replace("min = \"10MB/s\"", "max = { bandwidth = \"4KB/s\" }");
    let socket = scratch.at("nbd.sock");
    scratch.file("weir.toml", &slow.replace("SOCKET", &socket));
    let mut server = serve(&scratch);
    std::thread::scope(|scope| {
        let address = server.address.clone();
        // The client ends when its server does.
        let reader = [("alpha", Program::random_reads(64 << 10, 8))];
        scope.spawn(move || fleet(&address, &reader, MINUTE).run(|_| {}));
        common::wait("the client comes", || server.says(" connected "));
        std::thread::sleep(Duration::from_millis(100));
        signal(&server.child, Signal::TERM);
        common::wait("it shuts down", || server.says("shutting down"));
        assert!(server.child.try_wait().unwrap().is_none());
        signal(&server.child, Signal::INT);
        assert_eq!(server.child.wait().unwrap().code(), Some(1));
    });
    server.reader.join().unwrap();
    has(&server.log.lock().unwrap(), "received a second signal");
}

#[test]
fn a_hangup_applies_a_changed_file_completely_or_changes_nothing() {
    let scratch = Scratch::new();
    config(&scratch, "");
    let server = serve(&scratch);
    let beta = || size(&server.address, "beta");
    assert_eq!(beta(), None);
    config(&scratch, MORE);
    signal(&server.child, Signal::HUP);
    common::wait("beta comes", || beta() == Some(2 << 20));
    // A file with an error changes nothing.
    config(&scratch, "[volume.gamma]\nsize = 5\n");
    signal(&server.child, Signal::HUP);
    common::wait("a bad file is refused", || server.says("reload refused"));
    common::wait("the place is said on the next line", || {
        server.says("weir.toml:12:8: volume.gamma.size: 5 has no unit")
    });
    assert_eq!(beta(), Some(2 << 20), "everything is as it was");
    // A file that admission refuses changes nothing either.
    let huge = MORE.replace("\"2MiB\"", "\"2MiB\"\nmin = \"100MB/s\"");
    config(&scratch, &huge);
    signal(&server.child, Signal::HUP);
    common::wait("too much is refused", || {
        server.says("would add up to 110MB/s")
    });
    config(&scratch, "");
    // Opening a connection to ask for the size makes a client as well, and a volume with a client
    // is not removed.
    common::wait("beta goes", || {
        signal(&server.child, Signal::HUP);
        server.says("volume.beta was removed")
    });
    assert_eq!(beta(), None);
    server.end();
}

/// The path of a policy is relative to the directory of the server's file, by whichever path
/// `weir check --reload` reads that file.
#[test]
fn an_unchanged_path_of_a_policy_is_no_change() {
    let scratch = Scratch::new();
    let policy = run(&scratch, "policies none").ended(0).out;
    let own = policy.replace("name = \"none\"", "name = \"own\"");
    scratch.file("policy.toml", &own);
    scratch.file(
        "weir.toml",
        &format!(
            "drive.fast.policy = \"policy.toml\"\nvolume.alpha = {{ drive = \"fast\", memory = true, size = \"1MiB\" }}\n\
             listen = {{ nbd = [\"unix:{}\"], metrics = \"127.0.0.1:{}\" }}\n",
            scratch.at("nbd.sock"),
            free_port()
        ),
    );
    let server = serve(&scratch);
    for file in ["weir.toml", "./weir.toml", &scratch.at("weir.toml")] {
        let said = run(&scratch, &format!("check --reload {file}"));
        assert_eq!(
            said.ended(0).out,
            "a reload would change nothing\n",
            "{file}"
        );
    }
    server.end();
}

/// A reload that would disconnect clients is refused, and `weir check --reload` predicts it. The
/// log shows the changes of a reload in the words of the file.
#[test]
fn a_volume_in_use_is_removed_only_with_remove_in_use() {
    let scratch = Scratch::new();
    let port = free_port();
    let with = |more: &str| {
        config(&scratch, more);
        let text = scratch.read("weir.toml");
        let metrics = format!("[listen]\nmetrics = \"127.0.0.1:{port}\"\n");
        scratch.file("weir.toml", &text.replace("[listen]\n", &metrics));
    };
    with(MORE);
    let server = serve(&scratch);
    let check = || run(&scratch, "check --reload weir.toml");
    // At first, the file is as it was when the server started.
    assert_eq!(check().ended(0).out, "a reload would change nothing\n");
    let client = open(&server.address, "beta").unwrap();
    with("");
    let refused = "volume.beta: cannot be removed while it has a client";
    // Metrics are updated at most twice per second.
    common::wait("it would be refused", || {
        let said = check();
        said.status == Some(1) && said.err.contains(refused)
    });
    signal(&server.child, Signal::HUP);
    common::wait("it is refused", || server.says("reload refused"));
    assert!(server.says(refused));
    drop(open(&server.address, "beta").unwrap());
    // With `remove_in_use`, the volume is removed although it has a client.
    with("share = 200\n[server]\nremove_in_use = true\n");
    let changes = [
        "volume.beta was removed",
        "server.remove_in_use = true (was false)",
        "volume.alpha.share = 200 (was 100)",
    ];
    let expected = format!("after a reload:\n  {}\n", changes.join("\n  "));
    assert_eq!(check().ended(0).out, expected);
    signal(&server.child, Signal::HUP);
    common::wait("it is put in force", || server.says("reloaded weir.toml"));
    for change in changes {
        assert!(server.says(change), "{change}");
    }
    assert_eq!(size(&server.address, "beta"), None);
    drop(client);
    server.end();
    // Without a running server, the effect of a reload is not known.
    has(&check().ended(1).err, "start the server first");
}

#[test]
fn a_recording_replays_identically_and_a_changed_recording_does_not() {
    let scratch = Scratch::new();
    config(&scratch, "");
    let server = start(&mut weir(&scratch, "serve --record record weir.toml"));
    reads(&server.address);
    server.end();
    let said = run(&scratch, "replay record");
    assert_eq!((said.status, said.err.as_str()), (Some(0), ""));
    let identical = said.out.starts_with("record: identical: ");
    assert!(
        identical && said.out.contains(" decisions over "),
        "{}",
        said.out
    );
    let said = run(&scratch, "replay --audit record");
    assert_eq!(
        (said.status, said.err.as_str()),
        (Some(0), ""),
        "{}",
        said.out
    );
    assert!(
        said.out.ends_with("the auditors found nothing\n"),
        "{}",
        said.out
    );
    let record = std::fs::read(scratch.path("record")).unwrap();
    // The end mark takes four bytes.
    let calls = record.len() - 4;
    // The server was killed while it wrote the end, between two calls, and in the middle of a call.
    for length in [record.len() - 1, calls, calls - 1] {
        std::fs::write(scratch.path("cut"), &record[..length]).unwrap();
        let said = run(&scratch, "replay --audit cut").ended(1);
        has(&said.out, "identical as far as it goes");
        has(&said.out, "the auditors found nothing");
        let cut = "the recording is cut off after byte ";
        let (_, place) = said.err.split_once(cut).expect("it says where");
        let place: usize = place.split(':').next().unwrap().parse().unwrap();
        assert!(
            place == calls || length < calls && place < length,
            "{}",
            said.err
        );
    }
    // A recording that ends before the first call is not valid.
    std::fs::write(scratch.path("cut"), &record[..20]).unwrap();
    let said = run(&scratch, "replay cut").ended(1);
    assert_eq!(said.out, "");
    has(&said.err, "not a recording");
}

/// A server that restarts after a crash must not overwrite the recording of the crash.
#[test]
fn an_existing_record_is_kept_and_the_next_is_numbered() {
    let scratch = Scratch::new();
    config(&scratch, "");
    for _ in 0..3 {
        let server = start(&mut weir(&scratch, "serve --record record weir.toml"));
        reads(&server.address);
        server.end();
    }
    let records = ["record", "record.1", "record.2"];
    let names = scratch.names();
    let found: Vec<&String> = names.iter().filter(|n| n.starts_with("record")).collect();
    assert_eq!(found, records);
    for record in records {
        run(&scratch, &format!("replay {record}")).ended(0);
    }
    // Standard output is not available for the recording, because it has the server's addresses.
    has(
        &run(&scratch, "serve --record - weir.toml").ended(2).err,
        "./-",
    );
}

#[test]
fn a_volume_that_cannot_be_opened_is_reported_with_its_position() {
    let scratch = Scratch::new();
    let volume = "[volume.beta]\ndrive = \"fast\"\nfile = \"/nowhere/beta.img\"\nsize = \"1MiB\"\n";
    config(&scratch, volume);
    let place = "weir.toml:13:8: volume.beta.file: cannot create /nowhere/beta.img with 1MiB: ";
    has(&run(&scratch, "serve weir.toml").ended(1).err, place);
}

/// Clients must see the setting that the elevator uses, whatever stores the data.
#[test]
fn clients_see_whether_a_drive_rotates() {
    let scratch = Scratch::new();
    let more = "[drive.disk]\nrotational = true\n[volume.beta]\ndrive = \"disk\"\nmemory = true\nsize = \"1MiB\"\n\
        [drive.model]\nmodel = \"wd-wd10jpvx\"\n[volume.gamma]\ndrive = \"model\"\nsize = \"1MiB\"\n";
    config(&scratch, more);
    let server = serve(&scratch);
    let turns = |volume: &str| {
        let client = open(&server.address, volume).unwrap();
        client
            .session()
            .flags
            .contains(TransmissionFlags::ROTATIONAL)
    };
    assert_eq!(["alpha", "beta", "gamma"].map(turns), [false, true, true]);
    server.end();
}

/// Starts the server with a standard error that the test does not read.
fn start_logging_to(log: impl Into<Stdio>, scratch: &Scratch) -> (std::process::Child, Address) {
    let mut command = weir(scratch, "serve weir.toml");
    let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.as_mut().unwrap());
    out.read_line(&mut line).unwrap();
    (child, line.trim_end().parse().unwrap())
}

/// The pipe of the log is full before the first line.
#[test]
fn an_unread_log_delays_neither_clients_nor_the_end() {
    let scratch = Scratch::new();
    config(&scratch, "");
    let (unread, mut log) = pipe().unwrap();
    fcntl_setfl(&log, OFlags::NONBLOCK).unwrap();
    // The writes end when the pipe is full.
    while log.write(&[b'x'; 4096]).is_ok() {}
    fcntl_setfl(&log, OFlags::empty()).unwrap();
    let (mut child, address) = start_logging_to(log, &scratch);
    reads(&address);
    signal(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(unread);
}

#[test]
fn a_log_that_cannot_be_written_ends_nothing_and_is_counted() {
    let scratch = Scratch::new();
    let socket = scratch.path("manage.sock");
    let manage = format!("[manage]\nsocket = \"{}\"\n", socket.display());
    config(&scratch, &manage);
    // Writes to `/dev/full` fail with ENOSPC, and those to a pipe without a reader with EPIPE.
    let full = std::fs::File::options().write(true).open("/dev/full");
    let (reader, closed) = pipe().unwrap();
    drop(reader);
    for log in [Stdio::from(full.unwrap()), Stdio::from(closed)] {
        let (mut child, address) = start_logging_to(log, &scratch);
        reads(&address);
        let counted = || {
            let mut page = String::new();
            let mut stream = UnixStream::connect(&socket).unwrap();
            let request = b"GET /metrics HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n";
            stream.write_all(request).unwrap();
            stream.read_to_string(&mut page).unwrap();
            let dropped = page
                .lines()
                .find_map(|line| line.strip_prefix("weir_log_dropped_lines_total "));
            dropped.is_some_and(|dropped| dropped.parse::<u64>().unwrap() > 0)
        };
        common::wait("what is dropped is counted", counted);
        signal(&child, Signal::TERM);
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

/// `poll` fails if it has more descriptors than the process may open, so the thread that accepts
/// connections ends.
#[test]
fn a_server_that_has_lost_a_thread_ends_with_a_status() {
    let scratch = Scratch::new();
    config(&scratch, "");
    let mut server = serve(&scratch);
    let none = Rlimit {
        current: Some(1),
        ..getrlimit(Resource::Nofile)
    };
    prlimit(Some(Pid::from_child(&server.child)), Resource::Nofile, none).unwrap();
    // This connection wakes the acceptor.
    assert_eq!(size(&server.address, "alpha"), None);
    assert_eq!(server.child.wait().unwrap().code(), Some(1));
    server.reader.join().unwrap();
    let log = server.log.lock().unwrap();
    has(&log, "the acceptor failed");
    assert!(log.ends_with("see the log\n"), "{log}");
}
