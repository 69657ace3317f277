//! `weir serve`: the server, from a file, until SIGTERM or SIGINT.

use crate::check;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use weir_config::Problem;
use weir_serve::{ReloadError, RingKind, Server};

/// What to serve, and how.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The server's configuration file
    config: PathBuf,
    /// Record every decision, for `weir replay`; with several drives, each into FILE.NAME; a record that is there stays, and the next is
    /// FILE.1
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Use poll(2) even where the system has `io_uring`
    #[arg(long)]
    poll: bool,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    if options.record.as_deref() == Some(Path::new("-")) {
        let reason = "--record writes a file, as the addresses are on standard output; a file of this name is ./-";
        return Err(Failure::Usage(reason.into()));
    }
    let config = check::load(&options.config)?;
    for warning in weir_config::warnings(&config) {
        tracing::warn!("{}", line(&warning));
    }
    raise_open_files();
    // Before anything runs, so that no signal finds the process without them.
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])
        .map_err(|e| Failure::Run(format!("cannot watch for signals: {e}")))?;
    let how = weir_serve::Options {
        ring: if options.poll {
            RingKind::Poll
        } else {
            RingKind::Auto
        },
        record: options.record.clone(),
        ..weir_serve::Options::default()
    };
    let mut server = Server::start(&config, &how).map_err(Failure::run)?;
    let addresses = server.addresses().iter().map(|a| format!("{a}\n"));
    // A server serves whether its output is read or not.
    if let Err(Failure::Run(reason)) = output::print(&addresses.collect::<String>()) {
        tracing::warn!("{reason}");
    }
    if let Some(address) = server.metrics_address() {
        tracing::info!("metrics at http://{address}/metrics");
    }
    notify("READY=1");
    for signal in signals.forever() {
        match signal {
            SIGHUP => {
                notify(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_us()));
                reload(&mut server, &options.config);
                notify("READY=1");
            }
            _ => break,
        }
    }
    tracing::info!("shutting down: finishing requests in flight; a second signal ends at once");
    notify("STOPPING=1");
    end_at_once_when_told_again(signals)?;
    if server.shutdown() {
        Ok(())
    } else {
        Err(Failure::Run(
            "a part of the server ended by a fault of its own; its last words are in the log"
                .into(),
        ))
    }
}

/// Every connection and volume takes open files: as many as the system permits at all, not as it permits by default (for the sake of
/// select(2), which nothing here uses).
fn raise_open_files() {
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limits.maximum,
        ..limits
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!("cannot have as many open files as the hard limit permits: {error}");
    }
}

/// Watches for another signal to end by, while what is in flight is finished.
fn end_at_once_when_told_again(mut signals: Signals) -> Result<(), Failure> {
    let watch = move || {
        if signals.forever().any(|signal| signal != SIGHUP) {
            tracing::error!("a second signal: ending at once, requests in flight are not answered");
            std::process::exit(1);
        }
    };
    let thread = std::thread::Builder::new().name("weir-signals".into());
    let started = thread.spawn(watch);
    started.map_err(|e| Failure::Run(format!("cannot watch for signals: {e}")))?;
    Ok(())
}

/// Reads the file again and puts it in force, or says why not and leaves everything as it is.
fn reload(server: &mut Server, path: &Path) {
    let refused = |problems: Vec<Problem>| {
        for problem in &problems {
            tracing::error!("{}", line(problem));
        }
        tracing::error!("not reloaded: nothing has changed");
    };
    let config = match weir_config::load_again(path, server.config()) {
        Ok(config) => config,
        Err(problems) => return refused(problems),
    };
    match server.reload(&config) {
        Ok(changes) => {
            for change in &changes {
                tracing::info!("{change}");
            }
            let unless = if changes.is_empty() {
                ": nothing has changed"
            } else {
                ""
            };
            tracing::info!("reloaded {}{unless}", path.display());
        }
        Err(ReloadError::Refused(problems)) => refused(problems),
        Err(ReloadError::Volume(problem)) => refused(vec![problem]),
        Err(error) => tracing::error!("not reloaded: {error}"),
    }
}

/// A problem as one line of the log.
fn line(problem: &Problem) -> String {
    let said = Problem {
        help: None,
        ..problem.clone()
    };
    match &problem.help {
        Some(help) => format!("{said}; help: {help}"),
        None => said.to_string(),
    }
}

/// Tells the service manager, if one wants to know (`sd_notify(3)`).
fn notify(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send(&name, state) {
        tracing::warn!("cannot tell the service manager {state}: {error}");
    }
}

/// The time that service managers go by, microseconds.
fn monotonic_us() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

/// Sends to a socket at a path or, if the name begins with `@`, to one without.
fn send(name: &OsStr, state: &str) -> io::Result<()> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
