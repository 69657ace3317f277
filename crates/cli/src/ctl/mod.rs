//! `weir ctl` inspects and changes a running server, with the keys of the configuration file. It is
//! a client of the management interface (`weir_manage`).

mod tables;
mod words;

use crate::failure::Failure;
use crate::output;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::time::Duration;
use weir_manage::api::ManagementServer;
use weir_manage::api::{
    Changes, Drive, Error, Event, ManagementClient, Outcome, Said, Status, Tenant, UndoRequest,
    Upgraded, Volume,
};
use words::words;

pub(crate) use words::ChangeTarget;

/// The arguments of `weir ctl`.
#[derive(Debug, Args)]
pub(crate) struct CtlOptions {
    #[command(flatten)]
    server: ManagementServer,
    /// Print the server's reply as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: CtlCommand,
}

#[derive(Debug, Subcommand)]
enum CtlCommand {
    /// Show the server, its drives and its tenants: what is promised, and what can still be
    /// promised
    Status,
    /// List the volumes with their promises and their current throughput
    List,
    /// Show all details of a volume, `tenant.NAME` or `drive.NAME`
    Show {
        /// The name of a volume, or `tenant.NAME` or `drive.NAME`
        name: String,
    },
    /// Change a volume, `tenant.NAME` or `drive.NAME`
    Set {
        /// The name of a volume, or `tenant.NAME` or `drive.NAME`
        name: String,
        /// Keys of the configuration and their values, for example min=20MB/s or max.iops=500. KEY=
        /// removes a key
        #[arg(required = true, value_name = "KEY=VALUE")]
        words: Vec<String>,
        #[command(flatten)]
        how: ChangeOptions,
        #[command(flatten)]
        only: ChangePrecondition,
    },
    /// Add a volume, or `tenant.NAME`
    Add {
        /// The name of a volume, or `tenant.NAME`
        name: String,
        /// Keys of the configuration and their values, for example drive=fast
        /// file=/var/lib/weir/b.img size=1GiB
        #[arg(required = true, value_name = "KEY=VALUE")]
        words: Vec<String>,
        #[command(flatten)]
        how: ChangeOptions,
    },
    /// Increase the size of a volume
    Grow {
        /// The name of the volume
        name: String,
        /// The new size, for example 20GiB
        size: String,
        #[command(flatten)]
        how: ChangeOptions,
        #[command(flatten)]
        only: ChangePrecondition,
    },
    /// Remove a volume, or `tenant.NAME`. The data of a file or a device are kept
    Remove {
        /// The name of a volume, or `tenant.NAME`
        name: String,
        #[command(flatten)]
        how: ChangeOptions,
        #[command(flatten)]
        only: ChangePrecondition,
    },
    /// Undo the last change, or the change with this number
    Undo {
        /// The number of the change (see `weir ctl changes`)
        number: Option<u64>,
        #[command(flatten)]
        how: ChangeOptions,
    },
    /// Reload the configuration file
    Reload {
        /// Show the changes without applying them
        #[arg(long)]
        dry_run: bool,
    },
    /// Hand the server over to its program as it is installed now. Clients stay connected
    Upgrade,
    /// List the last changes with their time, the process that made them, and the values before
    Changes,
    /// Print events as they occur: changes, and seconds in which promises were not kept
    Events {
        /// Also print the figures of every second
        #[arg(long)]
        seconds: bool,
    },
}

impl CtlCommand {
    /// Returns the version of the configuration that a change is meant for.
    fn etag(&self) -> Option<&str> {
        match self {
            Self::Set { only, .. } | Self::Grow { only, .. } | Self::Remove { only, .. } => {
                only.if_match.as_deref()
            }
            _ => None,
        }
    }
}

/// The options that decide how a change is made.
#[derive(Debug, Args)]
struct ChangeOptions {
    /// Show the changes and the resulting promises without applying them
    #[arg(long)]
    dry_run: bool,
    /// Change only the running server, and leave the configuration file as it is
    #[arg(long)]
    no_save: bool,
}

/// The precondition of a change.
#[derive(Debug, Args)]
struct ChangePrecondition {
    /// Make the change only if this is still the current `etag`, which `show` prints
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
}

impl ChangeOptions {
    fn query(&self) -> String {
        // The server saves changes by default.
        let save = if self.no_save { "&save=false" } else { "" };
        format!("?dry_run={}{save}", self.dry_run)
    }
}

pub(crate) fn run(options: &CtlOptions) -> Result<(), Failure> {
    let client = options.server.client().map_err(Failure::run)?;
    match &options.command {
        CtlCommand::Status => show(&client, options, "/v1/status", |s: &Status| {
            tables::status(s)
        }),
        CtlCommand::List => show(&client, options, "/v1/volumes", |v: &Vec<Volume>| {
            tables::volumes(v)
        }),
        CtlCommand::Changes => show(&client, options, "/v1/changes", |c: &Changes| {
            tables::changes(&c.changes)
        }),
        CtlCommand::Show { name } => show_one(&client, options, &ChangeTarget::parse(name)),
        CtlCommand::Upgrade => upgrade(&client, options),
        CtlCommand::Events { seconds } => events(&client, options.json, *seconds),
        other => change(&client, options, other),
    }
}

/// Requests a resource and prints it, as JSON or as text.
fn show<T: Serialize + serde::de::DeserializeOwned>(
    client: &ManagementClient,
    options: &CtlOptions,
    path: &str,
    text: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    let answer: T = client.get(path).map_err(|e| refused(&e))?;
    if options.json {
        return print_json(&answer);
    }
    output::print(&text(&answer))
}

/// Prints the details of a volume, tenant or drive.
fn show_one(
    client: &ManagementClient,
    options: &CtlOptions,
    target: &ChangeTarget,
) -> Result<(), Failure> {
    let path = target.path();
    match target.kind {
        "volume" => show(client, options, &path, |v: &Volume| {
            detail(tables::volumes(std::slice::from_ref(v)), v)
        }),
        "tenant" => show(client, options, &path, |t: &Tenant| {
            detail(tables::tenants(std::slice::from_ref(t)), t)
        }),
        _ => show(client, options, &path, |d: &Drive| {
            detail(tables::drives(std::slice::from_ref(d)), d)
        }),
    }
}

/// Returns the table of an item, followed by all of its values.
fn detail(table: String, all: &impl Serialize) -> String {
    let all = serde_json::to_value(all).unwrap_or_default();
    let mut lines = vec![table];
    add_lines(&mut lines, "", &all);
    lines.join("\n") + "\n"
}

/// Adds a line for each value that is not an object, with its path.
fn add_lines(lines: &mut Vec<String>, path: &str, value: &serde_json::Value) {
    match value {
        serde_json::Value::Object(words) => {
            for (name, value) in words {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                add_lines(lines, &path, value);
            }
        }
        value => lines.push(format!("{path} = {value}")),
    }
}

/// Makes a change and prints its result.
fn change(
    client: &ManagementClient,
    options: &CtlOptions,
    command: &CtlCommand,
) -> Result<(), Failure> {
    let nothing = serde_json::json!({});
    let (method, path, body) = match command {
        CtlCommand::Set {
            name,
            words: w,
            how,
            ..
        } => (
            "PATCH",
            ChangeTarget::parse(name).path() + &how.query(),
            words(w)?.into(),
        ),
        CtlCommand::Add {
            name,
            words: w,
            how,
            ..
        } => (
            "PUT",
            ChangeTarget::parse(name).path() + &how.query(),
            words(w)?.into(),
        ),
        CtlCommand::Grow {
            name, size, how, ..
        } => {
            let body = serde_json::json!({ "size": size });
            (
                "PATCH",
                ChangeTarget::parse(name).path() + &how.query(),
                body,
            )
        }
        CtlCommand::Remove { name, how, .. } => (
            "DELETE",
            ChangeTarget::parse(name).path() + &how.query(),
            nothing,
        ),
        CtlCommand::Undo { number, how } => {
            let body = serde_json::to_value(UndoRequest { change: *number });
            (
                "POST",
                format!("/v1/undo{}", how.query()),
                body.unwrap_or(nothing),
            )
        }
        CtlCommand::Reload { dry_run } => {
            ("POST", format!("/v1/reload?dry_run={dry_run}"), nothing)
        }
        // The other commands do not change anything. They are handled by [`run`].
        _ => return Ok(()),
    };
    let outcome: Outcome = client
        .send(method, &path, &body, command.etag())
        .map_err(|e| refused(&e))?;
    if options.json {
        return print_json(&outcome);
    }
    output::print(&tables::outcome(&outcome))
}

/// Upgrades the server, and prints the result.
fn upgrade(client: &ManagementClient, options: &CtlOptions) -> Result<(), Failure> {
    let nothing = serde_json::json!({});
    let upgraded: Upgraded = client
        .send("POST", "/v1/upgrade", &nothing, None)
        .map_err(|e| refused(&e))?;
    if options.json {
        return print_json(&upgraded);
    }
    let Upgraded {
        version,
        process,
        connections,
        pause_ms,
    } = &upgraded;
    let connections = match connections {
        1 => "1 connection".to_owned(),
        n => format!("{n} connections"),
    };
    output::print(&format!(
        "process {process} serves now with version {version}; {connections} waited for {pause_ms} ms\n"
    ))
}

/// Prints events until the server ends or the reader closes the output.
fn events(client: &ManagementClient, json: bool, seconds: bool) -> Result<(), Failure> {
    let mut lines = client.events().map_err(|e| refused(&e))?;
    loop {
        let next = lines
            .next(Duration::from_mins(1))
            .map_err(|e| refused(&e))?;
        match next {
            // A server sends an event every second. If it does not, the command waits further.
            None => {}
            Some(Event::Second(_)) if !seconds => {}
            Some(event) if json => print_json(&event)?,
            Some(event) => output::print(&said(&event))?,
        }
    }
}

/// Returns an event as a line of text.
fn said(event: &Event) -> String {
    match event {
        Event::Second(second) => {
            let busy = second.drives.iter();
            let busy = busy.map(|d| format!("{} {:.0} %", d.name, d.busy * 100.0));
            format!("second: busy {}\n", busy.collect::<Vec<_>>().join(", "))
        }
        Event::Short(short) => {
            let neighbour = short.neighbour.as_ref();
            let neighbour = neighbour.map_or_else(String::new, |name| format!(" {name}"));
            format!(
                "short: {} lacked {} ({}{neighbour})\n",
                short.of, short.lacking, short.cause
            )
        }
        Event::Change(change) => format!("change: {}\n", tables::one_line(change)),
    }
}

fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(Failure::run)?;
    output::print(&(text + "\n"))
}

/// The help for a server whose TLS fails.
pub(crate) const TLS_HELP: &str = "set --certificates to a directory whose ca-cert.pem is the authority of the server, and whose client-cert.pem is valid and of an authority in client_ca of the server";

/// Returns the failure for an error of the server. All problems are printed in the form of `weir
/// check`.
pub(crate) fn refused(error: &Error) -> Failure {
    if let Error::Refused { refusal, .. } = error {
        let problems = refusal.problems.iter();
        problems.for_each(|said| output::print_message(&problem(said)));
        // The message of the refusal would repeat the only problem.
        if let [one] = &refusal.problems[..]
            && refusal.error.ends_with(&one.message)
        {
            return Failure::Said;
        }
    }
    match error {
        Error::Connect { .. } => Failure::Run(format!(
            "{}\n  help: start the server with a socket in [manage], or set --socket PATH or --server HOST:PORT",
            weir_config::os_error::without_numbers(&error.to_string())
        )),
        Error::Tls { .. } => Failure::run(format!("{error}\n  help: {TLS_HELP}")),
        other => Failure::run(other),
    }
}

fn problem(said: &Said) -> String {
    let problem = weir_config::Problem {
        file: String::new(),
        line: 0,
        column: 0,
        key: said.key.clone(),
        message: said.message.clone(),
        help: said.help.clone(),
        exceeds: said.exceeds,
    };
    problem.to_string()
}
