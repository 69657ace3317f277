//! A server with a single volume, which the command line describes instead of a configuration.

use crate::failure::Failure;
use clap::Args;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::FileTypeExt;
use std::path::{self, Path};
use weir_config::{Problem, Server};

/// The default address of NBD: the local host and the port that IANA has assigned.
const LOCAL: &str = "127.0.0.1:10809";

/// The options that describe the volume and its storage.
#[derive(Debug, Args)]
#[command(next_help_heading = "One volume without a configuration")]
pub(super) struct OneVolume {
    /// Serve a volume of this size from memory. It is zero at the start
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["config", "size"])]
    memory: Option<String>,
    /// Create IMAGE with this size if it does not exist
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// The sequential bandwidth that the drive sustains in the worst case. Promises are compared
    /// with it
    #[arg(long, value_name = "RATE")]
    capacity: Option<String>,
    /// Guarantee this bandwidth in every second. Requires --capacity
    #[arg(long, value_name = "RATE")]
    min: Option<String>,
    /// Limit the bandwidth to this rate
    #[arg(long, value_name = "RATE")]
    max: Option<String>,
    /// Listen at this address: an IP address and a port, or `unix:` and a path [default:
    /// 127.0.0.1:10809; with --run a Unix socket that is removed with the server]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Permit an address that other machines can reach. There is neither encryption nor a password
    #[arg(long, requires = "listen")]
    insecure: bool,
}

impl OneVolume {
    /// Returns an option that must not be combined with a configuration, if there is one.
    fn unused(&self) -> Option<&'static str> {
        let given = [
            ("--memory", self.memory.is_some()),
            ("--size", self.size.is_some()),
            ("--read-only", self.read_only),
            ("--capacity", self.capacity.is_some()),
            ("--min", self.min.is_some()),
            ("--max", self.max.is_some()),
            ("--listen", self.listen.is_some()),
            ("--insecure", self.insecure),
        ];
        given.iter().find(|g| g.1).map(|g| g.0)
    }

    /// Returns the configuration of a server with the volume `disk`, or `None` if `path` is a
    /// configuration.
    ///
    /// The server listens at the address of `--listen`, or otherwise at `own`.
    pub(super) fn server(
        &self,
        path: Option<&Path>,
        own: Option<&str>,
    ) -> Result<Option<Server>, Failure> {
        if let Some(path) = path.filter(|path| path.extension().is_some_and(|e| e == "toml")) {
            return match self.unused() {
                Some(option) => Err(Failure::Usage(format!(
                    "{option} requires a volume without a configuration; set the value in {} instead",
                    path.display()
                ))),
                None => Ok(None),
            };
        }
        // Admission cannot check a promise without a capacity.
        if self.min.is_some() && self.capacity.is_none() {
            let reason = "--min requires --capacity; run `weir calibrate` to measure it";
            return Err(Failure::Usage(reason.into()));
        }
        let storage = match path {
            Some(path) => self.storage(path)?,
            None => String::from("memory = true\n"),
        };
        let text = self.text(&storage, own);
        let parsed = weir_config::parse("", &text);
        let server = parsed.map_err(|problems| {
            let mut lines: Vec<String> = problems.iter().map(said).collect();
            // `--capacity` sets the rates of reads and of writes, so the same problem can be
            // reported twice.
            lines.dedup();
            Failure::Usage(lines.join("\n"))
        })?;
        Ok(Some(server.without_places()))
    }

    /// Returns the lines of the volume that select its storage.
    fn storage(&self, path: &Path) -> Result<String, Failure> {
        let shown = path.display();
        let kind = match fs::metadata(path).map(|m| m.file_type()) {
            Ok(kind) if kind.is_block_device() => "device",
            Ok(kind) if kind.is_file() && is_configuration(path) => {
                return Err(Failure::Usage(format!(
                    "{shown} looks like a configuration; rename it so that it ends in .toml"
                )));
            }
            Ok(_) => "file",
            // The file does not exist and is created with this size.
            Err(_) if self.size.is_some() => "file",
            Err(error) => {
                let why = Failure::file("serve", path, &error);
                return Err(match why {
                    Failure::Run(why) => Failure::Run(format!(
                        "{why}\n  help: add --size 1GiB to create an image; the name of a configuration must end in .toml"
                    )),
                    other => other,
                });
            }
        };
        let whole = path::absolute(path).map_err(|e| Failure::file("serve", path, &e))?;
        let name = whole
            .to_str()
            .ok_or_else(|| Failure::Usage(format!("{shown} is not UTF-8; rename the image")))?;
        Ok(format!("{kind} = {}\n", quoted(name)))
    }

    /// Returns the text of the configuration, as a user would write it.
    fn text(&self, storage: &str, own: Option<&str>) -> String {
        let mut text = String::from("[drive.disk]\n");
        if let Some(rate) = self.capacity.as_deref().map(quoted) {
            let _ = writeln!(text, "capacity = {{ read = {rate}, write = {rate} }}");
        }
        let address = self.listen.as_deref().or(own).unwrap_or(LOCAL);
        let _ = write!(text, "[listen]\nnbd = [{}]\n", quoted(address));
        if self.insecure {
            text += "insecure = true\n";
        }
        let _ = write!(text, "[volume.disk]\ndrive = \"disk\"\n{storage}");
        for (key, value) in [
            ("size", self.memory.as_ref().or(self.size.as_ref())),
            ("min", self.min.as_ref()),
        ] {
            if let Some(value) = value {
                let _ = writeln!(text, "{key} = {}", quoted(value));
            }
        }
        if let Some(max) = &self.max {
            let _ = writeln!(text, "max = {{ bandwidth = {} }}", quoted(max));
        }
        if self.read_only {
            text += "read_only = true\n";
        }
        text
    }
}

/// Returns a problem as text, with the option that caused it instead of a place in a file.
fn said(problem: &Problem) -> String {
    let options = [
        ("drive.disk.capacity", "--capacity: "),
        ("listen", "--listen: "),
        ("volume.disk.size", "--size or --memory: "),
        ("volume.disk.min", "--min: "),
        ("volume.disk.max", "--max: "),
    ];
    let option = options.iter().find(|o| problem.key.starts_with(o.0));
    let what = format!("{}{}", option.map_or("", |o| o.1), problem.message);
    let help = problem.help.as_deref().unwrap_or_default();
    if help.is_empty() {
        return what;
    }
    // The help for an open address refers to keys of a configuration file.
    let local = help.split_once(", or set allow").map(|(local, _)| local);
    match local {
        Some(local) => format!("{what}\n  help: {local}, or add --insecure for a test"),
        None => format!("{what}\n  help: {help}"),
    }
}

/// Returns a text as a string of TOML.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            // TOML does not permit control characters in a basic string, except as escape
            // sequences.
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// Returns true if a file looks like a configuration. Such a file must not be served as a disk,
/// because clients would overwrite it.
fn is_configuration(path: &Path) -> bool {
    let mut head = Vec::new();
    // The first tables are near the beginning. An image can be large.
    let read = File::open(path).and_then(|file| file.take(4096).read_to_end(&mut head));
    let text = str::from_utf8(&head).unwrap_or_default();
    read.is_ok()
        && ["[drive.", "[listen]", "[volume."]
            .iter()
            .any(|t| text.contains(t))
}
