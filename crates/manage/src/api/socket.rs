//! The options that select the server of a command.

use crate::api::client::ManagementClient;
use clap::Args;
use std::path::PathBuf;

/// The path of the socket if neither the option nor the variable is set.
const DEFAULT: &str = "/run/weir/manage.sock";
/// The environment variable with the path of the socket.
const VARIABLE: &str = "WEIR_SOCKET";
/// The environment variables with the address of a server, and with the directory of certificates.
const SERVER: &str = "WEIR_SERVER";
const CERTIFICATES: &str = "WEIR_CERTIFICATES";

/// Which server to ask.
#[derive(Debug, Args)]
pub struct Socket {
    /// The server's Unix socket (`manage.socket` in its file) [default: the value of `WEIR_SOCKET`, or else /run/weir/manage.sock]
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Socket {
    /// Returns the path of the selected socket.
    pub fn path(&self) -> PathBuf {
        let named = self.socket.clone();
        let named = named.or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from));
        named
            .filter(|path| !path.as_os_str().is_empty())
            .unwrap_or_else(|| DEFAULT.into())
    }
}

/// The server to ask, on this machine or on another one.
#[derive(Debug, Args)]
pub struct ManagementServer {
    #[command(flatten)]
    socket: Socket,
    /// A server on another machine (`manage.https` in its file), over TLS, for example
    /// server.example:9811 [default: the value of `WEIR_SERVER`, or else the socket]
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT",
        conflicts_with = "socket"
    )]
    server: Option<String>,
    /// The directory with ca-cert.pem, client-cert.pem and client-key.pem, with which to connect to
    /// --server [default: the value of `WEIR_CERTIFICATES`]
    #[arg(long, global = true, value_name = "DIR")]
    certificates: Option<PathBuf>,
}

impl ManagementServer {
    /// Creates a client of the server, without connecting to it.
    ///
    /// # Errors
    /// Returns the reason why the options or the certificates cannot be used, and what to type.
    pub fn client(&self) -> Result<ManagementClient, String> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        // A socket on the command line selects it in spite of the variable.
        let unsaid = || variable(SERVER).filter(|_| self.socket.socket.is_none());
        let Some(server) = self.server.clone().or_else(unsaid) else {
            return ManagementClient::new(&self.socket.path()).map_err(|e| e.to_string());
        };
        let directory = self.certificates.clone();
        let directory = directory.or_else(|| variable(CERTIFICATES).map(PathBuf::from));
        let missing = "--server requires a certificate; set --certificates to a directory with ca-cert.pem, client-cert.pem and client-key.pem";
        let directory = directory.ok_or(missing)?;
        let client = ManagementClient::over_tls(&server, &directory);
        client.map_err(|why| format!("--server {server}: {why}"))
    }
}
