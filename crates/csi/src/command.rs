//! Runs the system's tools for file systems: mkfs, mount, blkid and others.

use std::ffi::OsStr;
use std::process::{Command, Output};

use tonic::Status;

/// Runs a tool to its end, and returns its exit status and output.
fn ended(program: &str, arguments: &[&OsStr]) -> Result<Output, Status> {
    let output = Command::new(program).args(arguments).output();
    output.map_err(|error| Status::failed_precondition(format!("cannot start {program}: {error}")))
}

/// Runs a tool to its end, and returns its standard output.
///
/// # Errors
/// Returns an error with the tool's standard error if it cannot be started or fails.
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

/// Runs a tool like [`run`]. Returns `None` if it ends with the exit status that means that nothing
/// was found.
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
