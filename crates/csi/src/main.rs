//! The program `weir-csi`: reads its options, and runs the driver.

#![forbid(unsafe_code)]

use clap::{CommandFactory, Parser};
use rustix::system::uname;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_config::os_error;
use weir_manage::api::{Socket, log};

/// Provision volumes for Kubernetes: a Container Storage Interface driver that runs next to the
/// node's server
///
/// The driver creates volumes with contracts for claims. It runs until SIGTERM or SIGINT.
#[derive(Debug, Parser)]
#[command(
    name = "weir-csi",
    version,
    after_help = "Example:\n  weir-csi --socket /run/weir/manage.sock --endpoint /csi/csi.sock"
)]
struct ProgramOptions {
    /// The least severe messages to log on standard error [default: the value of `WEIR_LOG`, or
    /// else info]
    #[arg(long, value_name = "LEVEL", value_enum)]
    log: Option<log::LogLevel>,
    /// Print the manual page, in the format of man(1)
    #[arg(long, hide = true)]
    man: bool,
    #[command(flatten)]
    socket: Socket,
    /// The Unix socket at which Kubernetes calls the driver
    #[arg(long, value_name = "PATH", default_value = "/csi/csi.sock")]
    endpoint: PathBuf,
    /// The directory for the files of volumes, with one subdirectory for each drive. The server
    /// must see it under the same path
    #[arg(
        long,
        value_name = "DIRECTORY",
        default_value = "/var/lib/weir/volumes"
    )]
    volumes: PathBuf,
    /// The directory for the sockets of volumes for virtual machines (attach: vhost). The server
    /// and the VMMs must see it under the same path [default: the directory of the server's Unix
    /// socket]
    #[arg(long, value_name = "DIRECTORY")]
    sockets: Option<PathBuf>,
    /// The directory in which Kata Containers expects direct volumes
    #[arg(
        long,
        value_name = "DIRECTORY",
        default_value = "/run/kata-containers/shared/direct-volumes"
    )]
    direct_volumes: PathBuf,
    /// The node's name in Kubernetes [default: the host name]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// The driver's name in Kubernetes, which is the name of its `CSIDriver`
    #[arg(long, value_name = "NAME", default_value = "weir.csi")]
    name: String,
}

/// The reason why the driver does not run, with the exit status of the process.
struct Failure(u8, String);

impl Failure {
    fn usage(reason: String) -> Self {
        Self(2, reason)
    }

    fn run(reason: &dyn ToString) -> Self {
        Self(1, os_error::without_numbers(&reason.to_string()))
    }
}

fn main() -> ExitCode {
    // clap ends the process if the arguments are invalid.
    let options = ProgramOptions::parse();
    // Flushes the log even if the driver panics.
    let _flushed = log::FlushGuard;
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(status, reason)) => {
            log::print(&format!("error: {reason}\n"));
            ExitCode::from(status)
        }
    }
}

fn run(options: ProgramOptions) -> Result<(), Failure> {
    if options.man {
        let page = clap_mangen::Man::new(ProgramOptions::command());
        return page.render(&mut io::stdout()).map_err(|e| Failure::run(&e));
    }
    let started = log::start(options.log, log::LogLevel::Info, log::PATIENCE);
    started.map_err(|error| match error {
        log::LogStartError::Level(_) => Failure::usage(error.to_string()),
        log::LogStartError::Writer(_) => Failure::run(&error),
    })?;
    let manage = options.socket.path();
    let sockets = options.sockets.unwrap_or_else(|| {
        let manage = std::path::absolute(&manage).unwrap_or_default();
        manage.parent().map(PathBuf::from).unwrap_or_default()
    });
    for (option, path) in [("--volumes", &options.volumes), ("--sockets", &sockets)] {
        if !path.is_absolute() {
            let shown = path.display();
            return Err(Failure::usage(format!(
                "{option} {shown} is not absolute; write the path from / on, because the server must use the same path"
            )));
        }
    }
    let host = || uname().nodename().to_string_lossy().into_owned();
    weir_csi::serve(weir_csi::DriverOptions {
        name: options.name,
        node: options.node.unwrap_or_else(host),
        endpoint: options.endpoint,
        manage,
        volumes: options.volumes,
        sockets,
        direct_volumes: options.direct_volumes,
    })
    .map_err(|e| Failure::run(&e))
}
