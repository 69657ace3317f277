//! `weir serve` runs the server, with a configuration or for a single volume, until SIGTERM or
//! SIGINT, or until the command of `--run` ends.
//!
//! [`run`] starts the server and the management, and [`serve`] waits for signals. SIGHUP reloads
//! the configuration. SIGUSR2 hands the server over to the installed program, and so does SIGHUP if
//! the program was replaced.

mod command;
mod manager;
mod signals;
mod successor;
mod volume;

use crate::check;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use command::{RunningCommand, SocketDirectory};
use manager::Watchdog;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGUSR2};
use signals::{SignalWatch, UPGRADE_REQUESTED};
use std::path::{Path, PathBuf};
use successor::{ProgramFile, Succession};
use volume::OneVolume;
pub(crate) use volume::quoted;
use weir_config::Problem;
use weir_manage::Management;
use weir_manage::api::Said;
use weir_manage::api::log;
use weir_serve::{LiveServer, Predecessor, RingKind};

/// The arguments of `weir serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeOptions {
    /// The server's configuration, with a name that ends in .toml, or else an image or a device to
    /// serve as volume `disk`
    #[arg(required_unless_present = "memory", value_name = "CONFIG|IMAGE")]
    config: Option<PathBuf>,
    /// Run this command in a shell once clients can connect, and exit with its status when it ends.
    /// `$uri` is the first volume
    #[arg(long, value_name = "COMMAND")]
    run: Option<String>,
    /// Record every decision, for `weir replay`. With several drives, each is recorded in
    /// FILE.NAME. An existing recording is kept, and the new one is written to FILE.1
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Use poll(2) even if the system has `io_uring`
    #[arg(long)]
    poll: bool,
    #[command(flatten)]
    volume: OneVolume,
}

/// The configuration with its origin, and the private directory for the socket if `--run` needs
/// one.
struct ServerSource {
    config: weir_config::Server,
    /// The text of the configuration, and the file that a reload reads.
    source: weir_manage::ConfigSource,
    place: Option<SocketDirectory>,
}

impl ServerSource {
    /// Reads the configuration, or makes one for a single volume.
    fn open(options: &ServeOptions) -> Result<Self, Failure> {
        let path = options.config.as_deref();
        let place = (options.run.as_ref())
            .map(|_| SocketDirectory::make())
            .transpose()?;
        // With `--run`, the server listens on a private socket unless `--listen` selects an
        // address.
        let own = place.as_ref().map(SocketDirectory::address);
        let one = options.volume.server(path, own.as_deref())?;
        let (config, source) = match (one, path) {
            (Some(config), _) => {
                let text = config.to_string();
                let source = weir_manage::ConfigSource {
                    text,
                    file: None,
                    file_text: None,
                };
                (config, source)
            }
            (None, Some(path)) => read(path)?,
            (None, None) => unreachable!("a volume without a file is in memory"),
        };
        Ok(Self {
            config,
            source,
            place,
        })
    }
}

/// Reads a configuration. The text is kept, because changes are made to the text.
fn read(path: &Path) -> Result<(weir_config::Server, weir_manage::ConfigSource), Failure> {
    let (name, text) = weir_config::file_text(path).map_err(|p| check::refuse(&p))?;
    let config = weir_config::parse(&name, &text).map_err(|p| check::refuse(&p))?;
    let source = weir_manage::ConfigSource {
        text,
        file: Some(path.to_owned()),
        file_text: None,
    };
    Ok((config, source))
}

/// Runs the server until it has ended.
pub(crate) fn run(options: &ServeOptions) -> Result<(), Failure> {
    if options.record.as_deref() == Some(Path::new("-")) {
        let reason = "--record cannot write to standard output, which has the addresses; use a file name (./- for a file named -)";
        return Err(Failure::Usage(reason.into()));
    }
    let program = ProgramFile::find().map_err(Failure::run)?;
    if let Some(predecessor) = Predecessor::of_this_process().map_err(Failure::run)? {
        return continue_server(predecessor, options, program);
    }
    let succession = Succession::begin(program).map_err(Failure::run)?;
    let source = ServerSource::open(options)?;
    for warning in weir_config::warnings(&source.config) {
        tracing::warn!("{}", line(&warning));
    }
    // The limit must be raised before the server opens connections and volumes.
    raise_open_files();
    // The signals must be handled before anything else starts, so that none of them ends the
    // process in between.
    let signals = SignalWatch::start()?;
    let server = LiveServer::start(&source.config, &how(options)).map_err(Failure::run)?;
    let mut running = None;
    if let Some(command) = &options.run {
        running = Some(start(command, &server)?);
    } else {
        print_addresses(&server);
    }
    let notify = running.is_none().then(|| signals.upgrade_request());
    let management = manage(server, source.source, notify)?;
    manager::ready(&manager::status(&management));
    // The service manager has been notified, and clients can connect.
    let directory = source.place.as_ref().map(SocketDirectory::path);
    let ended = serve_to_the_end(management, &signals, (running, directory), &succession);
    // The directory is removed after the server has closed its socket.
    drop(source.place);
    ended
}

/// Continues the work of a running server, of which this process is the successor.
fn continue_server(
    predecessor: Predecessor,
    options: &ServeOptions,
    program: ProgramFile,
) -> Result<(), Failure> {
    raise_open_files();
    let signals = SignalWatch::start()?;
    let check = |config: &weir_config::Server| {
        weir_manage::check(config).map_err(|error| error.to_string())
    };
    let taken = LiveServer::take_over(predecessor, &how(options), check);
    let (server, source, mut predecessor) = taken.map_err(Failure::run)?;
    let management = manage(server, source, Some(signals.upgrade_request()))?;
    let succession = Succession::after(program, predecessor.take_waiter());
    predecessor.wait_for_release();
    manager::ready(&manager::status(&management));
    serve_to_the_end(management, &signals, (None, None), &succession)
}

/// Serves, and ends the server or what is left of it after a hand-over. With `--run`, there is a
/// command, and a directory that is removed if a second signal ends the process at once.
fn serve_to_the_end(
    management: Management,
    signals: &SignalWatch,
    (mut running, directory): (Option<RunningCommand>, Option<PathBuf>),
    succession: &Succession,
) -> Result<(), Failure> {
    let outcome = match serve(&management, signals, running.as_mut(), succession) {
        Ok(ServerEnd::HandedOver(successor)) => {
            return successor::linger(management, signals, succession, successor);
        }
        Ok(ServerEnd::Stopped) => Ok(()),
        Err(failure) => Err(failure),
    };
    begin_shutdown(signals, directory);
    if let Some(running) = running {
        // The command must not outlive the server, which it uses.
        running.end();
    }
    shut_down(management, outcome)
}

/// Returns the options of the server.
fn how(options: &ServeOptions) -> weir_serve::ServerOptions {
    weir_serve::ServerOptions {
        ring: if options.poll {
            RingKind::Poll
        } else {
            RingKind::Auto
        },
        record: options.record.clone(),
        log_dropped: log::dropped(),
        ..weir_serve::ServerOptions::default()
    }
}

/// Reports that the server is about to end. `directory` is removed if a second signal ends it at
/// once.
fn begin_shutdown(signals: &SignalWatch, directory: Option<PathBuf>) {
    tracing::info!(
        "the server is shutting down and completes the requests in flight; a second signal ends it at once"
    );
    // From here on, requests in flight are completed, which can take as long as the drive needs.
    manager::stopping();
    signals.end_at_once_on_next_signal(directory);
}

/// Ends the server. Returns `outcome`, unless the server fails.
fn shut_down(management: Management, outcome: Result<(), Failure>) -> Result<(), Failure> {
    // The management ends first, so that no change is made while the server shuts down.
    match management.end().map(LiveServer::shutdown) {
        Some(true) => outcome,
        Some(false) => Err(thread_failure()),
        None => Err(Failure::Run(
            "a change of the configuration did not end, so that requests in flight were not completed"
                .into(),
        )),
    }
}

/// Returns the failure of a server of which a thread has failed.
fn thread_failure() -> Failure {
    let reason = "a thread of the server failed; see the log";
    Failure::Run(reason.into())
}

/// Starts the management of the server, and logs its addresses. `notify` is called for each request
/// to upgrade the server. Without it, such requests are refused.
fn manage(
    server: LiveServer,
    source: weir_manage::ConfigSource,
    notify: Option<impl Fn() + Send + 'static>,
) -> Result<Management, Failure> {
    let socket = server.config().manage.socket.clone();
    let management = match notify {
        Some(notify) => Management::start_upgradable(server, source, notify),
        None => Management::start(server, source),
    };
    let management = management.map_err(Failure::run)?;
    let addresses = management.addresses();
    if let Some(address) = addresses.metrics {
        tracing::info!("serving metrics at http://{address}/metrics");
    }
    if let Some(socket) = socket {
        tracing::info!("serving the management interface at {}", socket.display());
    }
    if let Some(address) = addresses.http {
        tracing::info!("serving the dashboard at http://{address}/");
    }
    Ok(management)
}

fn print_addresses(server: &LiveServer) {
    let addresses = server.addresses().iter().map(|a| format!("{a}\n"));
    // The server works even if nobody reads its output.
    if let Err(Failure::Run(reason)) = output::print(&addresses.collect::<String>()) {
        tracing::warn!("{reason}");
    }
}

/// Starts the command of `--run` with the address of the first volume.
fn start(command: &str, server: &LiveServer) -> Result<RunningCommand, Failure> {
    let (Some(address), Some(volume)) =
        (server.addresses().first(), server.config().volumes.first())
    else {
        let reason = "--run requires a volume and an NBD address for the command";
        return Err(Failure::Usage(reason.into()));
    };
    RunningCommand::start(command, address, &volume.name)
}

/// The reason why a process does not serve any more.
enum ServerEnd {
    /// A signal or the end of the command ends the server.
    Stopped,
    /// Another process, with this number, has taken over.
    HandedOver(Pid),
}

/// Serves until a signal or the end of the command ends the server, another process has taken over,
/// or a thread has failed.
fn serve(
    management: &Management,
    signals: &SignalWatch,
    mut running: Option<&mut RunningCommand>,
    succession: &Succession,
) -> Result<ServerEnd, Failure> {
    let watchdog = Watchdog::new();
    loop {
        let signal = watchdog.wait(signals, management)?;
        let mut status = String::new();
        let mut upgrades =
            signal == SIGUSR2 || (signal == UPGRADE_REQUESTED && management.has_upgrade_requests());
        if signal == SIGHUP {
            // The service manager waits for `ready` after this notification (sd_notify(3)).
            manager::reloading();
            signals.begin_work("the reload");
            if !watchdog.run_with_notifications(|| reload(management)) {
                status += "the last reload was refused, see the log; ";
            }
            // A package replaces the program and then reloads the service, so that one command has
            // both effects.
            upgrades = running.is_none() && succession.program.is_replaced();
        }
        if upgrades && running.is_some() {
            tracing::error!(
                "a server with --run cannot be upgraded, because its command belongs to it"
            );
        } else if upgrades {
            let by = if signal == SIGHUP {
                "SIGHUP"
            } else {
                "SIGUSR2"
            };
            signals.begin_work("the upgrade");
            let upgraded = watchdog
                .run_with_notifications(|| successor::upgrade(management, signals, succession, by));
            // The successor notifies the service manager that it is ready.
            if let Some(successor) = upgraded? {
                return Ok(ServerEnd::HandedOver(successor));
            }
            status += "the last upgrade failed, see the log; ";
        }
        match signal {
            SIGHUP | SIGUSR2 | UPGRADE_REQUESTED => {
                manager::ready(&(status + &manager::status(management)));
            }
            SIGCHLD => {
                if let Some(running) = &mut running
                    && let Some(ended) = running.outcome()
                {
                    return ended.map(|()| ServerEnd::Stopped);
                }
            }
            _ => return Ok(ServerEnd::Stopped),
        }
    }
}

/// Raises the soft limit of open files to the hard limit, because every connection and volume needs
/// some. The soft limit is low by default only because of select(2), which the server does not use.
fn raise_open_files() {
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limits.maximum,
        ..limits
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(
            "the server cannot raise its limit of open files to the hard limit, and continues with the current limit: {error}"
        );
    }
}

/// Reloads the configuration file, or logs the reason why it is refused. A refused reload changes
/// nothing. Returns true if the new configuration is active.
fn reload(management: &Management) -> bool {
    let file = management.file().unwrap_or_default();
    let reloaded = management.reload();
    match &reloaded {
        Ok(changes) if changes.is_empty() => {
            tracing::info!(
                "reloaded {}; it is equivalent to the running configuration",
                file.display()
            );
        }
        Ok(_) => tracing::info!("reloaded {}", file.display()),
        Err(refusal) => {
            const REFUSED: &str = "reload refused; the running configuration is unchanged";
            // A single problem is the whole reason, so the message of the refusal would repeat it.
            if let [said] = &refusal.problems[..] {
                tracing::error!("{REFUSED}: {}", one_line(&file, said));
            } else {
                tracing::error!("{REFUSED}: {}", refusal.error);
                for said in &refusal.problems {
                    tracing::error!("{}", one_line(&file, said));
                }
            }
        }
    }
    reloaded.is_ok()
}

/// Returns a problem as one line of the log.
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

/// Returns a problem of a reload as one line of the log.
fn one_line(file: &Path, said: &Said) -> String {
    line(&Problem {
        file: file.display().to_string(),
        line: said.line,
        column: said.column,
        key: said.key.clone(),
        message: said.message.clone(),
        help: said.help.clone(),
        exceeds: said.exceeds,
    })
}
