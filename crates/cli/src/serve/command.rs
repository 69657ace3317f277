//! A command that runs as long as the server, or the server as long as the command: `--run`.

use crate::failure::Failure;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use weir_config::Address;

/// A directory for the socket of a server that nobody else is to find. It goes when this does.
#[derive(Debug)]
pub(super) struct Place(PathBuf);

impl Place {
    /// Makes it.
    pub(super) fn make() -> Result<Self, Failure> {
        let mut times = 0;
        loop {
            // One of another process of this number may be left from before.
            let name = format!("weir-{}-{times}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && times < 100 => times += 1,
                Err(e) => return Err(Failure::file("make", &path, &e)),
            }
        }
    }

    /// Where it is.
    pub(super) fn path(&self) -> PathBuf {
        self.0.clone()
    }

    /// The address of the socket in it, as a configuration has it.
    pub(super) fn address(&self) -> String {
        format!("unix:{}/nbd.sock", self.0.display())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is left of it is in a directory for what is left.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The command while it runs.
#[derive(Debug)]
pub(super) struct Running(Child);

impl Running {
    /// Starts `command` in a shell, with the address of `export` in `$uri` and the parts of it in `$exportname`, `$unixsocket` and `$port`.
    pub(super) fn start(command: &str, address: &Address, export: &str) -> Result<Self, Failure> {
        let (socket, port) = match address {
            Address::Unix(path) => (path.display().to_string(), String::new()),
            Address::Tcp(address) => (String::new(), address.port().to_string()),
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

    /// What the server ends with, if the command has ended.
    pub(super) fn outcome(&mut self) -> Option<Result<(), Failure>> {
        let ended = self.0.try_wait().map_err(Failure::run).transpose()?;
        Some(ended.and_then(outcome))
    }

    /// Ends it, since the server ends.
    pub(super) fn end(mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended just now.
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

/// What the server ends with for a command that has ended so.
fn outcome(status: ExitStatus) -> Result<(), Failure> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(Failure::Command(code)),
        (None, signal) => Err(Failure::Command(128 + signal.unwrap_or_default())),
    }
}

/// The URI of an export (of the NBD project's `uri.md`).
fn uri(address: &Address, export: &str) -> String {
    match address {
        Address::Unix(path) => format!(
            "nbd+unix:///{}?socket={}",
            encoded(export),
            encoded(&path.display().to_string())
        ),
        Address::Tcp(address) => format!("nbd://{address}/{}", encoded(export)),
    }
}

/// With what has a meaning in a URI written as bytes.
fn encoded(text: &str) -> String {
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
    fn what_has_a_meaning_in_a_uri_is_written_as_bytes() {
        let socket = Address::Unix("/tmp/a b/nbd.sock".into());
        assert_eq!(
            uri(&socket, "50%?"),
            "nbd+unix:///50%25%3F?socket=/tmp/a%20b/nbd.sock"
        );
        let local = Address::Tcp("[::1]:10809".parse().expect("an address"));
        assert_eq!(uri(&local, "disk"), "nbd://[::1]:10809/disk");
    }
}
