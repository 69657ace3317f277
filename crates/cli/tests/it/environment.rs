//! Servers on systems that differ from the usual ones.

use crate::common;
use crate::common::running::{RunningServer, serve, start};
use crate::common::{Scratch, has};
use std::process::Command;

fn config(scratch: &Scratch, rest: &str) {
    let socket = scratch.path("nbd.sock");
    let text = format!(
        "[drive.fast]\n[listen]\nnbd = [\"unix:{}\"]\n[volume.alpha]\ndrive = \"fast\"\nmemory = true\nsize = \"1MiB\"\n{rest}",
        socket.display()
    );
    scratch.file("weir.toml", &text);
}

/// Returns the command behind another command that prepares its process: `prefix` followed by the
/// command and its arguments.
fn behind(scratch: &Scratch, prefix: &[&str]) -> Command {
    let weir = common::weir(scratch, "serve weir.toml");
    let mut command = Command::new(prefix[0]);
    command.args(&prefix[1..]).arg(weir.get_program());
    command.args(weir.get_args()).current_dir(scratch.path(""));
    command
}

/// A seccomp(2) filter that fails `io_uring_setup` with EPERM, as containers do. The call has the
/// number 425 on all architectures.
const NO_URING: &str = r#"
import ctypes, os, struct, sys
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_void_p)]
filter = Filter(len(code), ctypes.cast(program, ctypes.c_void_p))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(filter), 0, 0):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn a_refused_io_uring_is_logged_once_with_the_consequence() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: python3 is not installed");
        return;
    }
    let scratch = Scratch::new();
    config(&scratch, "");
    let server = start(&mut behind(&scratch, &["python3", "-c", NO_URING]));
    common::wait("it is said", || server.says("io_uring is not available"));
    let log = server.log.lock().unwrap().clone();
    assert_eq!(log.matches("io_uring is not available").count(), 1, "{log}");
    has(&log, "Operation not permitted");
    has(&log, "delays all clients of its shard");
    server.end();
}

#[test]
fn a_server_raises_its_limit_of_open_files_to_the_hard_limit() {
    let scratch = Scratch::new();
    config(&scratch, "");
    // The soft limit is lowered, and the hard limit stays.
    let low = "ulimit -Sn 64; exec \"$0\" \"$@\"";
    let server = start(&mut behind(&scratch, &["sh", "-c", low]));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.child.id())).unwrap();
    let line = limits.lines().find(|l| l.starts_with("Max open files"));
    let numbers: Vec<&str> = line.unwrap().split_whitespace().skip(3).collect();
    assert_eq!(numbers[0], numbers[1], "{line:?}");
    server.end();
}

/// Returns the nice value of each shard of a process.
fn nice(server: &RunningServer) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap();
    let stats = tasks.map(|t| std::fs::read_to_string(t.unwrap().path().join("stat")).unwrap());
    let shards = stats.filter(|stat| stat.contains("(weir-shard"));
    // The nice value is field 19 in proc(5). The first field behind the name is the third one.
    let field = |stat: String| {
        let rest = stat.rsplit_once(')').unwrap().1;
        rest.split_whitespace().nth(16).unwrap().parse().unwrap()
    };
    shards.map(field).collect()
}

#[test]
fn the_priority_of_shards_is_raised_or_the_refusal_is_logged_once() {
    let scratch = Scratch::new();
    config(&scratch, "[drive.other]\n[server]\npriority = \"high\"\n");
    let server = serve(&scratch);
    let refused = server.says("server.priority");
    let nice_raised = nice(&server);
    assert!(!nice_raised.is_empty());
    assert!(
        refused || nice_raised.iter().all(|n| *n == -10),
        "{nice_raised:?}"
    );
    server.end();
    // Shards are raised by default as well, if that is permitted, but a failure is not reported
    // then.
    config(&scratch, "");
    let server = serve(&scratch);
    assert_eq!(nice(&server)[0], nice_raised[0]);
    assert!(!server.says("server.priority"));
    server.end();
    // Raising the priority requires CAP_SYS_NICE.
    let without = ["setpriv", "--bounding-set=-sys_nice"];
    if refused
        || Command::new(without[0])
            .args(&without[1..])
            .arg("true")
            .output()
            .is_err()
    {
        return;
    }
    let server = start(&mut behind(&scratch, &without));
    assert!(nice(&server).iter().all(|n| *n > -10));
    assert!(!server.says("server.priority"), "nobody asked for it");
    server.end();
    config(&scratch, "[server]\npriority = \"high\"\n");
    let server = start(&mut behind(&scratch, &without));
    common::wait("it is said", || server.says("server.priority"));
    let log = server.log.lock().unwrap().clone();
    assert_eq!(log.matches("server.priority").count(), 1, "{log}");
    has(&log, "delay its clients");
    assert!(nice(&server).iter().all(|n| *n > -10));
    server.end();
}
