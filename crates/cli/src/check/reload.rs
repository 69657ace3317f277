//! `weir check --reload` reports the effect of a reload. It queries the running server at the
//! address of its metrics.

use super::refuse;
use crate::failure::Failure;
use crate::output;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;
use weir_config::{DrivePlan, Server};
use weir_serve::{Preflight, preflight, removed_in_use};

/// The longest time for each step of a reply.
const PATIENCE: Duration = Duration::from_secs(3);

/// Prints the changes that a reload of a valid file would make, or fails with all the reasons for
/// which the server would refuse it.
pub(super) fn check(path: &Path, config: &Server) -> Result<(), Failure> {
    // Port 0 selects any free port, so the file does not tell the server's port.
    let address = config.listen.metrics.filter(|a| a.port() > 0);
    let address = address.ok_or_else(|| {
        let what = "listen.metrics has no port at which the running server could be queried";
        Failure::Run(format!(
            "{}: {what}; set a port, or use `weir ctl reload --dry-run`",
            path.display()
        ))
    })?;
    let text = get(address, "/v1/config")?;
    // Paths in both files are relative to the directory of the same file. Otherwise, an unchanged
    // path of a policy would count as changed.
    let running = weir_config::parse(&path.display().to_string(), &text);
    let running = running.map_err(|_| not_weir(address, "its configuration cannot be read"))?;
    // The running configuration tells which promises are new. Problems are reported at these.
    let config = weir_config::load_again(path, &running).map_err(|p| refuse(&p))?;
    let plans = running.drives.iter();
    let plans: Vec<DrivePlan> = plans
        .filter_map(|drive| weir_config::plan(&running, &drive.name))
        .collect();
    let reload = weir_config::reload(&running, &plans, &config).map_err(|p| refuse(&p))?;
    let mut problems = Vec::new();
    // Without this key, a server refuses to remove a volume to which clients are connected.
    if !config.process.remove_in_use {
        let connections = connections(&get(address, "/metrics")?);
        let removed: Vec<&String> = reload.drives.iter().flat_map(|d| &d.removed).collect();
        let in_use = connections.into_iter();
        let in_use: Vec<_> = in_use
            .filter(|(volume, count)| *count > 0 && removed.contains(&volume))
            .collect();
        problems = removed_in_use(&config, &in_use);
    }
    // Only added volumes need the checks of the machine. The storage of the others is open in the
    // server.
    let added: Vec<String> = reload.drives.into_iter().flat_map(|d| d.added).collect();
    let Preflight { findings, .. } = preflight(&config);
    let of_added = |key: &str| {
        let mut added = added.iter();
        added.any(|name| key.starts_with(&format!("volume.{name}.")))
    };
    let findings = findings.into_iter().filter(|f| f.certain);
    problems.extend(findings.map(|f| f.problem).filter(|p| of_added(&p.key)));
    if !problems.is_empty() {
        return Err(refuse(&problems));
    }
    let changes = weir_config::changes(&running, &config);
    if changes.is_empty() {
        return output::print("a reload would change nothing\n");
    }
    output::print(&format!("after a reload:\n  {}\n", changes.join("\n  ")))
}

/// Returns the number of connections of each volume, from the server's metrics.
fn connections(metrics: &str) -> Vec<(String, u32)> {
    let of = |line: &str| {
        let (name, labels) = line.split_once('{')?;
        let (labels, value) = labels.rsplit_once("} ")?;
        let volume = labels.split_once("volume=\"")?.1;
        // In the text format of Prometheus, values of labels escape quotation marks and backslashes
        // with a backslash.
        let end = volume.rmatch_indices('"').next()?.0;
        let volume = volume[..end].replace("\\\"", "\"").replace("\\\\", "\\");
        let count = value.split(' ').next()?.parse().ok()?;
        (name == "weir_connections").then_some((volume, count))
    };
    metrics.lines().filter_map(of).collect()
}

/// Returns the failure for a server that cannot be queried.
fn not_weir(address: SocketAddr, why: &str) -> Failure {
    Failure::Run(format!(
        "cannot query the server at http://{address}: {why}"
    ))
}

/// Returns the body of the server's reply to a GET request.
fn get(address: SocketAddr, path: &str) -> Result<String, Failure> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = ask().map_err(|e| {
        let why = weir_config::os_error::message(&e);
        not_weir(address, &format!("{why}; start the server first"))
    })?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => Ok(body.to_owned()),
        _ => Err(not_weir(address, &format!("it does not serve {path}"))),
    }
}
