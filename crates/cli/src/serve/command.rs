//! The command of `--run`: it starts when clients can connect, and the server and the command end
//! together.

use crate::failure::Failure;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use weir_config::ListenAddress;

/// A private directory for the socket of a server. It is removed when this value is dropped.
#[derive(Debug)]
pub(super) struct SocketDirectory(PathBuf);

impl SocketDirectory {
    /// Creates the directory, with a name that does not exist yet.
    pub(super) fn make() -> Result<Self, Failure> {
        let mut times = 0;
        loop {
            // A directory can remain of an earlier process with the same process ID.
            let name = format!("weir-{}-{times}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && times < 100 => times += 1,
                Err(e) => return Err(Failure::file("make", &path, &e)),
            }
        }
    }

    /// Returns the path of the directory.
    pub(super) fn path(&self) -> PathBuf {
        self.0.clone()
    }

    /// Returns the address of the socket in the directory, as in a configuration.
    pub(super) fn address(&self) -> String {
        format!("unix:{}/nbd.sock", self.0.display())
    }
}

impl Drop for SocketDirectory {
    fn drop(&mut self) {
        // If this fails, the rest remains in the directory for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The running command of `--run`.
#[derive(Debug)]
pub(super) struct RunningCommand(Child);

impl RunningCommand {
    /// Starts `command` in a shell. `$uri` has the address of `export`, and `$exportname`,
    /// `$unixsocket` and `$port` have the parts of the address.
    pub(super) fn start(
        command: &str,
        address: &ListenAddress,
        export: &str,
    ) -> Result<Self, Failure> {
        let (socket, port) = match address {
            ListenAddress::Unix(path) => (path.display().to_string(), String::new()),
            ListenAddress::Tcp(address) => (String::new(), address.port().to_string()),
        };
        let started = Command::new("sh")
            .args(["-c", command])
            .env("uri", uri(address, export))
            .env("exportname", export)
            .env("unixsocket", socket)
            .env("port", port)
            .spawn();
        let started = started.map_err(|e| Failure::run(format!("cannot start a shell: {e}")))?;
        Ok(Self(started))
    }

    /// Returns the result of the server if the command has ended, and `None` while it runs.
    pub(super) fn outcome(&mut self) -> Option<Result<(), Failure>> {
        let ended = self.0.try_wait().map_err(Failure::run).transpose()?;
        Some(ended.and_then(outcome))
    }

    /// Ends the command, because the server ends.
    pub(super) fn end(mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // The command can have ended in the meantime.
            let _ = kill_process(pid, Signal::TERM);
        }
        // The exit status of the command does not matter after a signal to the server.
        let _ = self.0.wait();
    }
}

/// Returns the result of the server for the exit status of the command.
fn outcome(status: ExitStatus) -> Result<(), Failure> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(Failure::Command(code)),
        // A shell reports a signal as 128 plus its number.
        (None, signal) => Err(Failure::Command(128 + signal.unwrap_or_default())),
    }
}

/// Returns the URI of an export, according to `uri.md` of the NBD project.
fn uri(address: &ListenAddress, export: &str) -> String {
    match address {
        ListenAddress::Unix(path) => format!(
            "nbd+unix:///{}?socket={}",
            encoded(export),
            encoded(&path.display().to_string())
        ),
        ListenAddress::Tcp(address) => format!("nbd://{address}/{}", encoded(export)),
    }
}

/// Percent-encodes all characters that have a meaning in a URI.
fn encoded(text: &str) -> String {
    // Unreserved characters and the slash need no encoding (RFC 3986, section 2.3).
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/".contains(&b);
    let one = |b: u8| {
        if plain(b) {
            char::from(b).to_string()
        } else {
            format!("%{b:02X}")
        }
    };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_characters_of_a_uri_are_percent_encoded() {
        let socket = ListenAddress::Unix("/tmp/a b/nbd.sock".into());
        assert_eq!(
            uri(&socket, "50%?"),
            "nbd+unix:///50%25%3F?socket=/tmp/a%20b/nbd.sock"
        );
        let local = ListenAddress::Tcp("[::1]:10809".parse().expect("an address"));
        assert_eq!(uri(&local, "disk"), "nbd://[::1]:10809/disk");
    }
}
