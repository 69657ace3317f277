//! Changes of the configuration: requests, refusals, results, and undoing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One edit of the configuration.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The key as a path of names, for example `["volume", "alpha", "min"]`. A name can contain dots.
    pub key: Vec<String>,
    /// The new value, as in the configuration file. `null` removes the key or a whole table.
    #[cfg_attr(feature = "openapi", schema(value_type = Value))]
    pub value: Value,
}

/// Several edits that are made together: all of them or none.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangeRequest {
    /// The edits, in order.
    pub edits: Vec<Edit>,
}

/// The change to undo.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UndoRequest {
    /// The number of the change. If it is left out, the last change that can be undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<u64>,
}

/// A change that was made.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Change {
    /// The number of the change, starting at 1, or after the last one in `manage.audit_file`.
    pub number: u64,
    /// The time of the change, in milliseconds since 1970.
    pub at_ms: u64,
    /// The author: `uid 1000 pid 4242`, `token`, `SIGHUP`, or `certificate NAME from ADDRESS`.
    pub by: String,
    /// The changed keys with their earlier values, as in the configuration file, one line each.
    pub lines: Vec<String>,
    /// Whether the change was written to the configuration file.
    pub saved: bool,
    /// The number of the change that this change undid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<u64>,
}

/// The changes that the server remembers, newest first.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Changes {
    /// The changes, newest first.
    pub changes: Vec<Change>,
}

/// The result of a change.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Outcome {
    /// The change. Its number is 0 if nothing differs, or if it was a dry run.
    pub change: Change,
    /// Whether it was a dry run, which changes nothing.
    pub dry_run: bool,
    /// The amounts that are promised on each drive after the change, one sentence each.
    pub promised: Vec<String>,
}

/// The result of an upgrade in place.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Upgraded {
    /// The version of the program that serves now.
    pub version: String,
    /// The id of its process.
    pub process: u32,
    /// The number of connections that were handed over.
    pub connections: usize,
    /// The time for which clients waited, in milliseconds.
    pub pause_ms: u64,
}

/// An error of a change, as `weir check` reports it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Said {
    /// The path of the key with the error, for example `volume.alpha.min`. It can be empty.
    pub key: String,
    /// The error.
    pub message: String,
    /// The advice for correcting it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Whether the change asks for more than a drive or a tenant can promise, or for more room for data than there is. A smaller amount, or
    /// the same amount on another drive, could be granted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exceeds: bool,
    /// The line of the configuration's text as the change would leave it, starting at 1, or 0 if there is none.
    pub line: u32,
    /// The character in that line, starting at 1.
    pub column: u32,
}

/// The reason why a request was refused. A refused request changes nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Refusal {
    /// The reason in one sentence.
    pub error: String,
    /// All errors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Said>,
}
