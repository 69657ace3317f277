//! The number of drives that clients need under a policy.

use crate::jsonl::write;
use serde::Serialize;

/// The number of drives that clients need under a policy so that their promises are kept. It is a
/// line of `weir plan --json`, whose keys [`KEYS`](Need::KEYS) describes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Need {
    /// The name of the scenario.
    pub scenario: String,
    /// The kind of drive.
    pub drive: String,
    /// The case of the scenario, or the scenario's name if it has no cases.
    pub case: String,
    /// The name of the policy, or `a drive each`.
    pub policy: String,
    /// The number of clients.
    pub clients: usize,
    /// The sum of the promises in bytes, in 10^6 bytes per second.
    pub promised_mb_per_s: f64,
    /// The sum of the promises in requests, in requests per second. Promises in bytes are not part
    /// of it.
    pub promised_iops: u64,
    /// The percentage of seconds in which a promise must be kept, among those in which it applies.
    pub keep: u32,
    /// The smallest sufficient number of drives in each search. `None` if not even one drive for
    /// each client is sufficient.
    pub searches: Vec<Option<u64>>,
    /// The number of drives that is sufficient in every search.
    pub drives: Option<u64>,
    /// The number of searches in which fewer drives are not sufficient.
    pub needed_in: Option<usize>,
    /// The bytes served, relative to the bytes that the drives can read sequentially (0 to 1). It
    /// is the mean of all searches.
    pub used: Option<f64>,
    /// The mean bandwidth of a client while it is active, in 10^6 bytes per second, over all
    /// clients and searches.
    pub average_mb_per_s: Option<f64>,
    /// The required mean bandwidth of a client while it is active, in 10^6 bytes per second. `None`
    /// if none is required.
    pub average_asked_mb_per_s: Option<f64>,
    /// The reason why fewer drives are not sufficient. `None` if one drive is sufficient.
    pub limited_by: Option<NeedLimit>,
}

/// The requirement that a smaller number of drives does not meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NeedLimit {
    /// A promise of a client (`min`, `min_iops`) would be broken, or cannot be admitted.
    Min,
    /// Every promise is kept, but the required average is not reached.
    Average,
}

impl NeedLimit {
    /// The word for the limit in tables and in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Min => "min",
            Self::Average => "average",
        }
    }
}

impl Need {
    /// The keys in the order in which they are written: path, type with unit, and description.
    pub const KEYS: &[(&'static str, &'static str, &'static str)] = &[
        ("scenario", "string", "The name of the scenario."),
        ("drive", "string", "The kind of drive."),
        (
            "case",
            "string",
            "The case of the scenario, or the scenario's name if it has no cases.",
        ),
        (
            "policy",
            "string",
            "The name of the policy, or `a drive each`, which means one drive for each client and requests in order of arrival.",
        ),
        ("clients", "number", "The number of clients."),
        (
            "promised_mb_per_s",
            "number, 10^6 bytes per second",
            "The sum of all clients' promises in bytes per second.",
        ),
        (
            "promised_iops",
            "number, requests per second",
            "The sum of all clients' promises in requests per second.",
        ),
        (
            "keep",
            "number",
            "The percentage of seconds in which a promise must be kept, among those in which it applies (`--keep`).",
        ),
        (
            "searches",
            "array of numbers",
            "The smallest sufficient number of drives in each search. An element is null if not even one drive for each client is sufficient.",
        ),
        (
            "drives",
            "number",
            "The number of drives that is sufficient in every search, or null if there is none.",
        ),
        (
            "needed_in",
            "number",
            "The number of searches in which fewer drives are not sufficient, or null if `drives` is null.",
        ),
        (
            "used",
            "number, 0 to 1",
            "The bytes served, relative to the bytes that one sequential reader gets from that number of drives. It is the mean of all \
             searches, or null if `drives` is null.",
        ),
        (
            "average_mb_per_s",
            "number, 10^6 bytes per second",
            "The mean bandwidth of a client while it is active, over all clients and searches, or null if `drives` is null.",
        ),
        (
            "average_asked_mb_per_s",
            "number, 10^6 bytes per second",
            "The mean bandwidth of a client while it is active that is required (`--average`), or null if none is.",
        ),
        (
            "limited_by",
            "string",
            "The requirement that fewer drives do not meet: `min` if a promise is broken or cannot be admitted, or `average` if every promise \
             is kept and the average is not. It is null if one drive is sufficient.",
        ),
    ];

    /// Returns the object as one line of JSON, without the newline. Each fraction has three digits.
    pub fn to_line(&self) -> String {
        write(self)
    }
}
