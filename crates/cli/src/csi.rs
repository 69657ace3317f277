//! `weir csi`: the driver for Kubernetes, beside the server of a node.

use crate::failure::Failure;
use crate::socket::Socket;
use clap::Args;
use rustix::system::uname;
use std::path::PathBuf;

/// What the driver is told.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    socket: Socket,
    /// The Unix socket at which Kubernetes calls the driver
    #[arg(long, value_name = "PATH", default_value = "/csi/csi.sock")]
    endpoint: PathBuf,
    /// The directory for the files of volumes, with one subdirectory for each drive. The server must see it under the same path
    #[arg(
        long,
        value_name = "DIRECTORY",
        default_value = "/var/lib/weir/volumes"
    )]
    volumes: PathBuf,
    /// The directory for the sockets of volumes for virtual machines (attach: vhost). The server and the VMMs must see it under the same
    /// path [default: the directory of the server's Unix socket]
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

/// Answers until SIGTERM or SIGINT.
///
/// # Errors
/// The socket cannot be had, or a path is not absolute.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let manage = options.socket.path();
    let beside = || {
        let manage = std::path::absolute(&manage).unwrap_or_default();
        manage.parent().map(PathBuf::from).unwrap_or_default()
    };
    let sockets = options.sockets.clone().unwrap_or_else(beside);
    for (option, path) in [("--volumes", &options.volumes), ("--sockets", &sockets)] {
        if !path.is_absolute() {
            let shown = path.display();
            return Err(Failure::Usage(format!(
                "{option} {shown} is not absolute; write the path from / on, because the server must use the same path"
            )));
        }
    }
    let host = || uname().nodename().to_string_lossy().into_owned();
    let options = weir_csi::Options {
        name: options.name.clone(),
        node: options.node.clone().unwrap_or_else(host),
        endpoint: options.endpoint.clone(),
        manage,
        volumes: options.volumes.clone(),
        sockets,
        direct_volumes: options.direct_volumes.clone(),
    };
    weir_csi::serve(options).map_err(Failure::run)
}
