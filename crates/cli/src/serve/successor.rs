//! The upgrade in place: starts the installed program as the successor of this process, and what is
//! left to do for this process afterwards.

use super::manager;
use super::signals::{FORWARDED, SignalWatch, is_end_signal};
use crate::failure::Failure;
use rustix::fs::Access;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use signal_hook::consts::{SIGHUP, SIGUSR2};
use std::ffi::c_int;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use weir_manage::Management;
use weir_serve::{Successor, UpgradeError};

/// The time for the management interface to send its last responses, and for everything that sends
/// signals to learn of the successor. The listening sockets belong to the successor by then.
const RESPONSES: Duration = Duration::from_millis(200);
/// The time for relays to end after a signal to end the server. The server removes its block
/// devices and completes its requests, and relays send the last replies, in up to 5 s each.
const LAST_RELAYS: Duration = Duration::from_secs(20);
/// The interval in which the end of relays and of other processes is checked.
const LOOK: Duration = Duration::from_secs(1);

/// The file of the running program.
#[derive(Debug)]
pub(super) struct ProgramFile {
    /// The path by which the program was started. A link in it can lead to another version later.
    started: Option<PathBuf>,
    /// The path without links.
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
        // The caller chooses the name, which does not have to lead to the program.
        let started = started_paths()
            .into_iter()
            .find(|path| identity(path).is_some_and(|found| Some(found) == identity(RUNNING)));
        Ok(Self { started, path })
    }

    /// Returns the path of the installed program.
    fn path(&self) -> &Path {
        let started = self.started.as_deref();
        let is_executable = |path: &&Path| rustix::fs::access(*path, Access::EXEC_OK).is_ok();
        started.filter(is_executable).unwrap_or(&self.path)
    }

    /// Returns true if another file is at the path of the running program.
    pub(super) fn is_replaced(&self) -> bool {
        let installed = identity(self.path());
        installed.is_some() && installed != identity(RUNNING)
    }

    /// Starts the installed program with the arguments of this process.
    fn start(&self, signals: &SignalWatch, waiter: Option<OwnedFd>) -> io::Result<Successor> {
        let path = self.path();
        let mut command = Command::new(path);
        // The options select the kind of ring and the file of a recording, for which the new
        // process is no different.
        command.args(std::env::args_os().skip(1));
        // The service manager accepts notifications of its watchdog from the successor as well,
        // which has another process id.
        command.env_remove("WATCHDOG_PID");
        let interrupt = signals.upgrade_interrupt();
        Successor::start(&mut command, interrupt, waiter).map_err(|error| {
            let reason = weir_config::os_error::message(&error);
            io::Error::other(format!("cannot start {}: {reason}", path.display()))
        })
    }
}

/// Returns the device and the inode of a file, or `None` if it cannot be found.
fn identity(path: impl AsRef<Path>) -> Option<(u64, u64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Returns the absolute paths at which a shell can have found the program under its name.
fn started_paths() -> Vec<PathBuf> {
    let Some(name) = std::env::args_os().next().map(PathBuf::from) else {
        return Vec::new();
    };
    // A name without a slash is searched for in the directories of PATH.
    let directories = if name.components().count() > 1 {
        vec![PathBuf::new()]
    } else {
        let directories = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&directories).collect()
    };
    let paths = directories.iter().map(|directory| directory.join(&name));
    paths
        .filter_map(|path| std::path::absolute(path).ok())
        .collect()
}

/// The succession of processes that are the server, as far as this process has to know it.
///
/// Without a service manager, the first process waits for the others. It creates a pipe, whose
/// writing end each server hands over to the next one. By this pipe, it learns which process is the
/// server.
pub(super) struct Succession {
    pub(super) program: ProgramFile,
    waiter: Option<OwnedFd>,
    /// The reading end, in the first process.
    reports: Option<PipeReader>,
}

impl Succession {
    /// Begins a succession with this process.
    pub(super) fn begin(program: ProgramFile) -> io::Result<Self> {
        // A service manager has been told of the new main process. A shell or a container only
        // knows the process that it has started.
        let waits = std::env::var_os("NOTIFY_SOCKET").is_none();
        let (reports, waiter) = waits.then(io::pipe).transpose()?.unzip();
        if let Some(reports) = &reports {
            rustix::io::ioctl_fionbio(reports, true)?;
        }
        Ok(Self {
            program,
            waiter: waiter.map(OwnedFd::from),
            reports,
        })
    }

    /// Continues a succession. `waiter` is the writing end if the first process waits.
    pub(super) fn after(program: ProgramFile, waiter: Option<OwnedFd>) -> Self {
        Self {
            program,
            waiter,
            reports: None,
        }
    }

    /// Starts the installed program.
    fn start(&self, signals: &SignalWatch) -> io::Result<Successor> {
        let waiter = self.waiter.as_ref().map(|w| w.as_fd().try_clone_to_owned());
        self.program.start(signals, waiter.transpose()?)
    }

    /// Reports to the process that waits that `successor` is the server now.
    fn report(&self, successor: Pid) {
        if let Some(waiter) = &self.waiter {
            // If the first process was killed, no process waits.
            let _ = rustix::io::write(waiter, &successor.as_raw_nonzero().get().to_ne_bytes());
        }
    }

    /// Returns true if another process waits for this one, and passes signals on by itself.
    fn is_awaited(&self) -> bool {
        self.waiter.is_some() && self.reports.is_none()
    }
}

/// Hands the server over to the installed program. Returns the new server, or `None` if this one
/// serves on.
///
/// # Errors
/// The successor has failed so late that neither process can serve.
pub(super) fn upgrade(
    management: &Management,
    signals: &SignalWatch,
    succession: &Succession,
    by: &str,
) -> Result<Option<Pid>, Failure> {
    tracing::info!(program = %succession.program.path().display(), "upgrading the server in place");
    match management.upgrade(by, || succession.start(signals)) {
        Ok((successor, report)) => {
            let (version, process) = (&report.version, successor.process().id());
            let (connections, pause_ms) = (report.connections, report.pause.as_millis());
            tracing::info!(
                version,
                process,
                connections,
                pause_ms,
                "another process has taken over"
            );
            let server = Pid::from_child(successor.process());
            // This process may only end after the report, because it is the parent of the server,
            // which the first process would not find otherwise.
            succession.report(server);
            manager::hand_over(process);
            successor.release();
            Ok(Some(server))
        }
        Err(UpgradeError::Lost) => Err(Failure::run(UpgradeError::Lost)),
        Err(error) => {
            tracing::error!("the server was not upgraded, and serves on: {error}");
            Ok(None)
        }
    }
}

/// Does what is left for a process after `successor` has taken over: it passes on the signals for
/// the server and what encrypted connections transfer, and, if a program waits for this process, it
/// ends together with the others.
pub(super) fn linger(
    management: Management,
    signals: &SignalWatch,
    succession: &Succession,
    successor: Pid,
) -> Result<(), Failure> {
    let mut others = succession.reports.as_ref().map(LaterServers::new);
    signals.hand_over();
    pass_on_pending(signals, succession, successor)?;
    let server = management.end();
    let mut limit: Option<Instant> = None;
    loop {
        // Relays end when their clients disconnect or the server ends, of which no event tells this
        // thread.
        let relays = server
            .as_ref()
            .is_some_and(|server| !server.has_no_relays());
        let waits = others.as_mut().is_some_and(LaterServers::reap);
        let is_ended = !relays && !waits;
        let received = signals.next(if is_ended { Duration::ZERO } else { LOOK })?;
        match (received, &mut others) {
            // All signals were passed on.
            (None, _) if is_ended => break,
            (Some(signal), Some(others)) => others.pass_on(signal),
            // The server receives this signal by itself. When it has sent its last replies, the
            // relays end.
            (Some(signal), None) if is_end_signal(signal) => {
                // The second signal ends the process at once.
                let next = limit.map_or(LAST_RELAYS, |_| Duration::ZERO);
                limit = Some(Instant::now() + next);
            }
            _ => {}
        }
        if limit.is_some_and(|limit| limit <= Instant::now()) {
            break;
        }
    }
    drop(server);
    match others.map_or(0, |others| others.status) {
        0 => Ok(()),
        status => Err(Failure::Command(status)),
    }
}

/// Passes on the signals for the server that have arrived during the upgrade, or arrive before
/// their senders have learnt of the successor.
fn pass_on_pending(
    signals: &SignalWatch,
    succession: &Succession,
    successor: Pid,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let (mut is_pending, mut is_upgrading) = (true, false);
    loop {
        let left = if is_pending {
            Duration::ZERO
        } else {
            RESPONSES.saturating_sub(begun.elapsed())
        };
        match signals.next(left)? {
            None if !is_pending => return Ok(()),
            None => is_pending = false,
            // Several requests for another upgrade are one.
            Some(SIGUSR2) if std::mem::replace(&mut is_upgrading, true) => {}
            // A signal to all processes also reaches the first one, which passes it on to the new
            // server. The server would count a second one.
            Some(signal)
                if !is_pending
                    && succession.is_awaited()
                    && is_end_signal(signal)
                    && signal != FORWARDED => {}
            Some(signal) => pass_on(signal, successor),
        }
    }
}

/// Passes a signal for the server on to a process.
fn pass_on(signal: c_int, process: Pid) {
    let signal = match signal {
        SIGHUP | SIGUSR2 => signal,
        signal if is_end_signal(signal) => FORWARDED,
        _ => return,
    };
    if let Some(signal) = Signal::from_named_raw(signal) {
        // The process can have ended in the meantime.
        let _ = kill_process(process, signal);
    }
}

/// The processes that have been the server after the first one, which waits for them.
struct LaterServers<'a> {
    reports: &'a PipeReader,
    /// The processes that have not ended, the server at the end.
    left: Vec<Pid>,
    /// The last process that has been reported.
    server: Option<Pid>,
    /// The status of the last server, or 0 if it has not ended.
    status: i32,
}

impl<'a> LaterServers<'a> {
    fn new(reports: &'a PipeReader) -> Self {
        // The successors of the successor become children of this process when it ends. A process
        // in between leaves the status of its successor to this one.
        let own = rustix::process::getpid();
        if let Err(errno) = rustix::process::set_child_subreaper(Some(own)) {
            tracing::warn!(%errno, "this process cannot wait for the successors of its successor");
        }
        Self {
            reports,
            left: Vec::new(),
            server: None,
            status: 0,
        }
    }

    /// Reads the processes that have taken over.
    fn learn(&mut self) {
        let mut report = [0; size_of::<i32>()];
        while self.reports.read_exact(&mut report).is_ok() {
            if let Some(server) = Pid::from_raw(i32::from_ne_bytes(report)) {
                self.left.push(server);
                self.server = Some(server);
            }
        }
    }

    /// Collects children that have ended. Returns true if there are others that have been the
    /// server.
    fn reap(&mut self) -> bool {
        self.learn();
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((process, status))) => {
                    // A server reports its successor before it ends.
                    self.learn();
                    self.left.retain(|left| *left != process);
                    if self.server == Some(process) {
                        let status = ExitStatus::from_raw(status.as_raw());
                        self.status = status.code().unwrap_or(1);
                    }
                }
                // A child that was never the server, such as one that a script has left, is not
                // awaited.
                Ok(None) => return !self.left.is_empty(),
                Err(_) => return false,
            }
        }
    }

    /// Passes a signal on to the server.
    fn pass_on(&mut self, signal: c_int) {
        self.learn();
        if let Some(server) = self.server {
            pass_on(signal, server);
        }
    }
}
