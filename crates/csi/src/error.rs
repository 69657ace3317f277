//! Converts errors into statuses of gRPC.

use std::fmt::Display;
use std::io;
use std::path::Path;

use tonic::Status;
use weir_manage::api::{Error, Refusal};

/// Returns the status for a call that the management server refused or did not answer.
///
/// If a drive cannot promise a contract, or has no space, the status is `RESOURCE_EXHAUSTED` with
/// the sums. Kubernetes then tries another node.
pub(crate) fn refused(error: &Error) -> Status {
    match error {
        Error::Refused { status, refusal } => {
            let said = said(refusal);
            match status {
                404 => Status::not_found(said),
                // The state has changed since it was read, so that the call has to be repeated.
                409 | 412 => Status::aborted(said),
                // The contract exceeds the capacity. All other problems are errors of the request.
                422 if refusal.problems.iter().any(|p| p.exceeds) => {
                    Status::resource_exhausted(said)
                }
                // The server cannot save the change, for example because its disk is full.
                507 => Status::resource_exhausted(said),
                400 | 422 => Status::invalid_argument(said),
                401 | 403 => Status::permission_denied(said),
                503 => Status::unavailable(said),
                _ => Status::internal(said),
            }
        }
        Error::Connect { .. } | Error::Tls { .. } | Error::Silent { .. } => {
            Status::unavailable(error.to_string())
        }
        Error::Strange { .. } => Status::internal(error.to_string()),
    }
}

/// Returns all messages of a refusal in one line.
fn said(refusal: &Refusal) -> String {
    if refusal.problems.is_empty() {
        return refusal.error.clone();
    }
    let problems = refusal.problems.iter().map(|problem| {
        let help = problem.help.as_ref();
        let help = help.map_or_else(String::new, |help| format!(" ({help})"));
        format!("{}: {}{help}", problem.key, problem.message)
    });
    problems.collect::<Vec<_>>().join("; ")
}

/// Returns a function that converts an error of a file operation.
pub(crate) fn file<'a>(what: &'a str, path: &'a Path) -> impl Fn(io::Error) -> Status + 'a {
    move |error| {
        let why = weir_config::os_error::message(&error);
        let said = format!("cannot {what} {}: {why}", path.display());
        match error.kind() {
            io::ErrorKind::StorageFull => Status::resource_exhausted(said),
            io::ErrorKind::NotFound => Status::not_found(said),
            _ => Status::internal(said),
        }
    }
}

/// Returns an argument that a call requires, or an error if it is empty.
pub(crate) fn needed<'a>(what: &str, text: &'a str) -> Result<&'a str, Status> {
    if text.is_empty() {
        return Err(Status::invalid_argument(format!("{what} is missing")));
    }
    Ok(text)
}

/// Returns the status for a volume that does not exist.
pub(crate) fn no_volume(id: impl Display) -> Status {
    Status::not_found(format!("unknown volume {id:?}", id = id.to_string()))
}
