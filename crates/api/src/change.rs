//! Changes of the configuration: asked for, refused, made and undone.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One edit of the configuration.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The key as a path of names: `["volume", "alpha", "min"]`. A name may have dots in it.
    pub key: Vec<String>,
    /// Its value from now on, in the words of the file; `null` removes the key, or a whole table.
    #[cfg_attr(feature = "openapi", schema(value_type = Value))]
    pub value: Value,
}

/// Several edits at once: all of them or none.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangeRequest {
    /// The edits, in order.
    pub edits: Vec<Edit>,
}

/// Which change to undo.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UndoRequest {
    /// Its number; the last change that can be undone if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<u64>,
}

/// A change that was made.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Change {
    /// Its number, from 1 at the server's start.
    pub number: u64,
    /// When: milliseconds since 1970.
    pub at_ms: u64,
    /// Its author: `uid 1000 pid 4242`, `token`, or `SIGHUP`.
    pub by: String,
    /// What changed and what it was before, in the words of the file, a line each.
    pub lines: Vec<String>,
    /// Whether it was written to the file.
    pub saved: bool,
    /// The change that this one undid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<u64>,
}

/// The changes that the server remembers, the last one first.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Changes {
    /// They.
    pub changes: Vec<Change>,
}

/// What came of a change.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Outcome {
    /// The change; its number is 0 if nothing differs, or if it was tried only.
    pub change: Change,
    /// It was tried only: everything is as it was.
    pub dry_run: bool,
    /// What is promised on each drive from then on, a sentence each.
    pub promised: Vec<String>,
}

/// A thing that is wrong, as `weir check` says it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Said {
    /// The key that it is about, as `volume.alpha.min`; may be empty.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// It asks for more than there is, of what a drive or a tenant can promise or of room for data: less of it could be had, or the same of
    /// another drive.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exceeds: bool,
    /// The line of the configuration's text as the change would leave it, from 1; 0 if there is none.
    pub line: u32,
    /// The character in that line, from 1.
    pub column: u32,
}

/// Why something was refused. Everything is as it was.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Refusal {
    /// In one sentence.
    pub error: String,
    /// Everything that is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Said>,
}
