//! The upgrade in place: starts the installed program as the successor of this process, and what is
//! left to do for this process afterwards.

use super::manager;
use super::signals::{FORWARDED, SignalWatch, is_end_signal};
use crate::failure::Failure;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use signal_hook::consts::SIGCHLD;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;
use weir_manage::Management;
use weir_serve::{Successor, UpgradeError};

/// The time for the management interface to send its last responses. Its listening sockets belong
/// to the successor by then.
const RESPONSES: Duration = Duration::from_millis(200);
/// The interval in which the end of relays and of other processes is checked.
const LOOK: Duration = Duration::from_secs(1);

/// The file of the running program.
#[derive(Debug)]
pub(super) struct ProgramFile {
    path: PathBuf,
}

/// The identity of the program that this process runs, even after its file was replaced.
const RUNNING: &str = "/proc/self/exe";

impl ProgramFile {
    /// Finds the file of this process. It must be called before the file can be replaced.
    pub(super) fn find() -> io::Result<Self> {
        let path = std::env::current_exe()?;
        // The kernel appends this to the path of a file that was replaced or removed.
        let text = path.to_string_lossy();
        let path = text
            .strip_suffix(" (deleted)")
            .map_or_else(|| path.clone(), PathBuf::from);
        Ok(Self { path })
    }

    /// Returns true if another file is at the path of the running program.
    pub(super) fn is_replaced(&self) -> bool {
        let identity = |found: Metadata| (found.dev(), found.ino());
        let running = std::fs::metadata(RUNNING).map(identity).ok();
        let installed = std::fs::metadata(&self.path).map(identity).ok();
        installed.is_some() && installed != running
    }

    /// Starts the installed program with the arguments of this process.
    fn start(&self) -> io::Result<Successor> {
        let mut command = Command::new(&self.path);
        // The options select the kind of ring and the file of a recording, for which the new
        // process is no different.
        command.args(std::env::args_os().skip(1));
        // The service manager accepts notifications of its watchdog from the successor as well,
        // which has another process id.
        command.env_remove("WATCHDOG_PID");
        Successor::start(&mut command).map_err(|error| {
            let reason = weir_config::os_error::message(&error);
            io::Error::other(format!("cannot start {}: {reason}", self.path.display()))
        })
    }
}

/// Hands the server over to the installed program. Returns false if the server serves on.
///
/// # Errors
/// The successor has failed so late that neither process can serve.
pub(super) fn upgrade(
    management: &Management,
    program: &ProgramFile,
    by: &str,
) -> Result<bool, Failure> {
    tracing::info!(program = %program.path.display(), "upgrading the server in place");
    match management.upgrade(by, || program.start()) {
        Ok((successor, report)) => {
            let (version, process) = (&report.version, successor.id());
            let (connections, pause_ms) = (report.connections, report.pause.as_millis());
            tracing::info!(
                version,
                process,
                connections,
                pause_ms,
                "another process has taken over"
            );
            manager::hand_over(process);
            successor.release();
            Ok(true)
        }
        Err(UpgradeError::Lost) => Err(Failure::run(UpgradeError::Lost)),
        Err(error) => {
            tracing::error!("the server was not upgraded, and serves on: {error}");
            Ok(false)
        }
    }
}

/// Does what is left for a process after another one has taken over: it passes on what encrypted
/// connections transfer, and, if a program waits for this process, it ends together with the
/// others.
pub(super) fn linger(
    management: Management,
    signals: &SignalWatch,
    is_first: bool,
) -> Result<(), Failure> {
    signals.hand_over();
    std::thread::sleep(RESPONSES);
    let server = management.end();
    // A service manager has been told of the new main process. A shell or a container only knows
    // the process that it has started.
    let is_service = std::env::var_os("NOTIFY_SOCKET").is_some();
    let waits = is_first && !is_service;
    if waits {
        // The successors of the successor become children of this process when it ends.
        let own = rustix::process::getpid();
        if let Err(errno) = rustix::process::set_child_subreaper(Some(own)) {
            tracing::warn!(%errno, "this process cannot wait for the successors of its successor");
        }
    }
    let mut last = None;
    let mut is_ended = false;
    loop {
        match signals.next(if is_ended { Duration::ZERO } else { LOOK })? {
            Some(SIGCHLD) => {}
            Some(signal) if waits => forward(signal),
            // The service manager signals each process by itself.
            Some(signal) if is_end_signal(signal) => break,
            // All signals were passed on.
            None if is_ended => break,
            Some(_) | None => {}
        }
        // Relays end when their clients disconnect, of which no event tells this thread.
        let relays = server
            .as_ref()
            .is_some_and(|server| !server.has_no_relays());
        let others = reap(&mut last) && waits;
        is_ended = !relays && !others;
    }
    drop(server);
    match last {
        Some(status) if waits && status != 0 => Err(Failure::Command(status)),
        _ => Ok(()),
    }
}

/// Collects children that have ended, and the status of the last one. Returns true if there are
/// others.
fn reap(last: &mut Option<i32>) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((_, status))) => {
                use std::os::unix::process::ExitStatusExt;
                let status = ExitStatus::from_raw(status.as_raw());
                *last = Some(status.code().unwrap_or(1));
            }
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Passes a signal on to the server, which is the process that was started last, or, if it ends the
/// server, to all processes that have been the server.
fn forward(signal: i32) {
    let mut processes = descendants();
    let mut forwarded = FORWARDED;
    if !is_end_signal(signal) {
        forwarded = signal;
        processes = processes.split_off(processes.len().saturating_sub(1));
    }
    let Some(signal) = Signal::from_named_raw(forwarded) else {
        return;
    };
    for process in processes {
        // The process can have ended in the meantime.
        let _ = kill_process(process, signal);
    }
}

/// Returns the processes that this process and its descendants have started, the oldest first.
fn descendants() -> Vec<Pid> {
    let mut all: Vec<ProcessEntry> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| ProcessEntry::read(&entry.path()))
        .collect();
    all.sort_by_key(|process| (process.started, process.pid));
    let mut family = vec![rustix::process::getpid().as_raw_nonzero().get()];
    let mut found = Vec::new();
    // A process is started after its parent. One that was adopted can be older, and is found in the
    // next round.
    loop {
        let before = found.len();
        for process in &all {
            if family.contains(&process.parent) && !family.contains(&process.pid) {
                family.push(process.pid);
                found.push((process.started, process.pid));
            }
        }
        if found.len() == before {
            break;
        }
    }
    found.sort_unstable();
    found
        .into_iter()
        .filter_map(|(_, pid)| Pid::from_raw(pid))
        .collect()
}

/// A process, as the kernel lists it.
struct ProcessEntry {
    pid: i32,
    parent: i32,
    /// The start time in ticks of the kernel's clock.
    started: u64,
}

impl ProcessEntry {
    /// Reads a directory of `/proc`.
    fn read(directory: &Path) -> Option<Self> {
        let pid = directory.file_name()?.to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(directory.join("stat")).ok()?;
        // The name of the process is in parentheses and can contain anything. The fields after it
        // are the state, the parent (the second) and, as the twentieth, the start time
        // (proc_pid_stat(5)).
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Self {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }
}
