//! The refusal of a request, with its HTTP status.

use crate::api::{Refusal, Said};
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use weir_config::Problem;
use weir_serve::ReloadError;

/// A refused request, which has changed nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RequestRefusal {
    pub(crate) status: StatusCode,
    pub(crate) refusal: Refusal,
}

impl RequestRefusal {
    /// A refusal with one sentence.
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self {
            status,
            refusal: Refusal {
                error: error.into(),
                problems: Vec::new(),
            },
        }
    }

    /// A refusal with all problems of a configuration.
    pub(crate) fn problems(problems: &[Problem]) -> Self {
        let said = |problem: &Problem| Said {
            key: problem.key.clone(),
            message: problem.message.clone(),
            help: problem.help.clone(),
            exceeds: problem.exceeds,
            line: problem.line,
            column: problem.column,
        };
        let error = match problems {
            // A problem of the file as a whole has no key.
            [one] if one.key.is_empty() => one.message.clone(),
            [one] => format!("{}: {}", one.key, one.message),
            several => format!("{} problems were found", several.len()),
        };
        Self {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            refusal: Refusal {
                error,
                problems: problems.iter().map(said).collect(),
            },
        }
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("unknown {what}"))
    }

    /// The refusal of a change that arrives while the server ends.
    pub(crate) fn ending() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the server is ending")
    }

    /// The refusal of a change or an upgrade by a process whose successor serves.
    pub(crate) fn handed_over() -> Self {
        let error = "another process serves now; repeat the request";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error)
    }

    pub(crate) fn conflict(error: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, error)
    }
}

impl From<ReloadError> for RequestRefusal {
    fn from(error: ReloadError) -> Self {
        match error {
            ReloadError::Refused(problems) => Self::problems(&problems),
            ReloadError::Volume(problem) => Self::problems(&[problem]),
            other => Self::new(StatusCode::UNPROCESSABLE_ENTITY, other.to_string()),
        }
    }
}

impl IntoResponse for RequestRefusal {
    fn into_response(self) -> Response {
        (self.status, Json(self.refusal)).into_response()
    }
}
