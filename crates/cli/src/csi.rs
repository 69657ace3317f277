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
    /// The Unix socket at which Kubernetes asks the driver
    #[arg(long, value_name = "PATH", default_value = "/csi/csi.sock")]
    endpoint: PathBuf,
    /// The directory with one for each drive, in which the files of volumes lie; the server sees it under the same path
    #[arg(
        long,
        value_name = "DIRECTORY",
        default_value = "/var/lib/weir/volumes"
    )]
    volumes: PathBuf,
    /// The node's name in Kubernetes [default: the host's name]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// The driver's name in Kubernetes: that of its `CSIDriver`
    #[arg(long, value_name = "NAME", default_value = "weir.csi")]
    name: String,
}

/// Answers until SIGTERM or SIGINT.
///
/// # Errors
/// The socket cannot be had, or a path is not absolute.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    if !options.volumes.is_absolute() {
        let shown = options.volumes.display();
        return Err(Failure::Usage(format!(
            "--volumes {shown} is not absolute: the server must see the same path"
        )));
    }
    let host = || uname().nodename().to_string_lossy().into_owned();
    let options = weir_csi::Options {
        name: options.name.clone(),
        node: options.node.clone().unwrap_or_else(host),
        endpoint: options.endpoint.clone(),
        manage: options.socket.path(),
        volumes: options.volumes.clone(),
    };
    weir_csi::serve(options).map_err(Failure::run)
}
