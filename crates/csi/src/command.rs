//! The usual tools of a machine with file systems: mkfs, mount, blkid and so on.

use std::ffi::OsStr;
use std::process::{Command, Output};

use tonic::Status;

/// What a tool did: its exit status, and what it wrote.
fn ended(program: &str, arguments: &[&OsStr]) -> Result<Output, Status> {
    let output = Command::new(program).args(arguments).output();
    output.map_err(|error| Status::failed_precondition(format!("cannot start {program}: {error}")))
}

/// Runs a tool to its end, and returns what it wrote.
///
/// # Errors
/// It is not there, or it fails: with what it said.
pub(crate) fn run(program: &str, arguments: &[&OsStr]) -> Result<String, Status> {
    let output = ended(program, arguments)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let words: Vec<_> = arguments.iter().map(|a| a.to_string_lossy()).collect();
    let said = format!("{program} {}: {}", words.join(" "), said.trim());
    Err(Status::internal(said))
}

/// The same; `None` if it ends with the status that says that there is nothing.
pub(crate) fn ask(
    program: &str,
    arguments: &[&OsStr],
    nothing: i32,
) -> Result<Option<String>, Status> {
    let output = ended(program, arguments)?;
    if output.status.code() == Some(nothing) {
        return Ok(None);
    }
    run(program, arguments).map(Some)
}
