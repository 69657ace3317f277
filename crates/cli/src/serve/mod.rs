//! `weir serve`: the server, from a file or for one volume, until SIGTERM or SIGINT, or until a command has ended.

mod command;
mod manager;
mod signals;
mod volume;

use crate::check;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use command::{Place, Running};
use manager::Watchdog;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGCHLD, SIGHUP};
use signals::Watch;
use std::path::{Path, PathBuf};
use volume::OneVolume;
use weir_config::Problem;
use weir_serve::{ReloadError, RingKind, Server};

/// What to serve, and how.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The server's configuration, whose name ends in .toml; or an image or a device to serve as volume `disk`
    #[arg(required_unless_present = "memory", value_name = "CONFIG|IMAGE")]
    config: Option<PathBuf>,
    /// Run this in a shell once clients can connect, and end with it, with its status; `$uri` is the first volume
    #[arg(long, value_name = "COMMAND")]
    run: Option<String>,
    /// Record every decision, for `weir replay`; with several drives, each into FILE.NAME; a record that is there stays, and the next is
    /// FILE.1
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Use poll(2) even where the system has `io_uring`
    #[arg(long)]
    poll: bool,
    #[command(flatten)]
    volume: OneVolume,
}

/// Where the configuration comes from, and a directory for the socket if the server needs one of its own.
struct Source<'a> {
    config: weir_config::Server,
    /// The file that a reload reads again.
    file: Option<&'a Path>,
    place: Option<Place>,
}

impl<'a> Source<'a> {
    fn open(options: &'a Options) -> Result<Self, Failure> {
        let path = options.config.as_deref();
        let place = (options.run.as_ref()).map(|_| Place::make()).transpose()?;
        let own = place.as_ref().map(Place::address);
        let one = options.volume.server(path, own.as_deref())?;
        let file = path.filter(|_| one.is_none());
        let config = match (one, file) {
            (Some(config), _) => config,
            (None, Some(path)) => check::load(path)?,
            (None, None) => unreachable!("a volume without a file is in memory"),
        };
        Ok(Self {
            config,
            file,
            place,
        })
    }
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    if options.record.as_deref() == Some(Path::new("-")) {
        let reason = "--record writes a file, as the addresses are on standard output; a file of this name is ./-";
        return Err(Failure::Usage(reason.into()));
    }
    let source = Source::open(options)?;
    for warning in weir_config::warnings(&source.config) {
        tracing::warn!("{}", line(&warning));
    }
    raise_open_files();
    // Before anything runs, so that no signal finds the process without them.
    let signals = Watch::start()?;
    let how = weir_serve::Options {
        ring: if options.poll {
            RingKind::Poll
        } else {
            RingKind::Auto
        },
        record: options.record.clone(),
        ..weir_serve::Options::default()
    };
    let mut server = Server::start(&source.config, &how).map_err(Failure::run)?;
    if let Some(address) = server.metrics_address() {
        tracing::info!("metrics at http://{address}/metrics");
    }
    let mut running = None;
    if let Some(command) = &options.run {
        running = Some(start(command, &server)?);
    } else {
        print_addresses(&server);
    }
    manager::ready(&manager::status(&server));
    let outcome = serve(&mut server, &signals, source.file, running.as_mut());
    tracing::info!("shutting down: finishing requests in flight; a second signal ends at once");
    manager::stopping();
    signals.end_at_once_when_told_again(source.place.as_ref().map(Place::path));
    if let Some(running) = running {
        running.end();
    }
    let whole = server.shutdown();
    drop(source.place);
    if whole {
        outcome
    } else {
        Err(Failure::Run(
            "a part of the server ended by a fault of its own; its last words are in the log"
                .into(),
        ))
    }
}

fn print_addresses(server: &Server) {
    let addresses = server.addresses().iter().map(|a| format!("{a}\n"));
    // A server serves whether its output is read or not.
    if let Err(Failure::Run(reason)) = output::print(&addresses.collect::<String>()) {
        tracing::warn!("{reason}");
    }
}

/// Starts the command of `--run` for the first volume.
fn start(command: &str, server: &Server) -> Result<Running, Failure> {
    let (Some(address), Some(volume)) =
        (server.addresses().first(), server.config().volumes.first())
    else {
        let reason = "--run needs a volume and an address of NBD to tell the command of";
        return Err(Failure::Usage(reason.into()));
    };
    Running::start(command, address, &volume.name)
}

/// Serves until a signal says that it is enough, or the command has ended: with what that ended.
fn serve(
    server: &mut Server,
    signals: &Watch,
    file: Option<&Path>,
    mut running: Option<&mut Running>,
) -> Result<(), Failure> {
    let mut watchdog = Watchdog::new();
    loop {
        match (watchdog.wait(signals, server), file) {
            (SIGHUP, Some(file)) => {
                manager::reloading();
                let mut status = String::new();
                if !watchdog.meanwhile(|| reload(server, file)) {
                    status += "the last reload was refused, see the log; ";
                }
                manager::ready(&(status + &manager::status(server)));
            }
            (SIGHUP, None) => tracing::warn!("there is no configuration to read again"),
            (SIGCHLD, _) => {
                if let Some(running) = &mut running
                    && let Some(ended) = running.outcome()
                {
                    return ended;
                }
            }
            _ => return Ok(()),
        }
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

/// Reads the file again and puts it in force, or says why not and leaves everything as it is. Whether it is in force.
fn reload(server: &mut Server, path: &Path) -> bool {
    let refused = |problems: Vec<Problem>| {
        for problem in &problems {
            tracing::error!("{}", line(problem));
        }
        tracing::error!("not reloaded: nothing has changed");
        false
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
            true
        }
        Err(ReloadError::Refused(problems)) => refused(problems),
        Err(ReloadError::Volume(problem)) => refused(vec![problem]),
        Err(error) => {
            tracing::error!("not reloaded: {error}");
            false
        }
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
