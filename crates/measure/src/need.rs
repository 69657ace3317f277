//! The drives that clients need under a policy.

use crate::jsonl::write;
use serde::Serialize;

/// The drives that clients need under a policy, so that what they are promised is kept: a line of `weir plan --json`, whose keys
/// [`KEYS`](Need::KEYS) describes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Need {
    /// The scenario.
    pub scenario: String,
    /// The kind of drive.
    pub drive: String,
    /// The case of the scenario; its name where it has none.
    pub case: String,
    /// The policy, or `a drive each`.
    pub policy: String,
    /// Number of clients.
    pub clients: usize,
    /// Promised to all together, in 10^6 bytes per second.
    pub promised_mb_per_s: f64,
    /// Promised to all together in requests per second, beside what is promised in bytes.
    pub promised_iops: u64,
    /// Seconds to be kept of a hundred in which a promise applies.
    pub keep: u32,
    /// The least number of drives in each search; `None`: not even a drive for each client is enough.
    pub searches: Vec<Option<u64>>,
    /// The number that is enough in every search.
    pub drives: Option<u64>,
    /// The searches in which fewer are not enough.
    pub needed_in: Option<usize>,
    /// Of what the drives could read in sequence, the part that was served, 0 to 1: mean of the searches.
    pub used: Option<f64>,
    /// What a client gets while it is active, in 10^6 bytes per second: mean of all clients and searches.
    pub average_mb_per_s: Option<f64>,
}

impl Need {
    /// Its keys as JSON, in the order in which they are written: path, type and unit, meaning.
    pub const KEYS: &[(&'static str, &'static str, &'static str)] = &[
        ("scenario", "string", "The scenario."),
        ("drive", "string", "The kind of drive."),
        (
            "case",
            "string",
            "The case of the scenario; the scenario's name where it has none.",
        ),
        (
            "policy",
            "string",
            "The policy, or `a drive each`: a drive for each client, first come, first served.",
        ),
        ("clients", "number", "Clients."),
        (
            "promised_mb_per_s",
            "number, 10^6 bytes per second",
            "Promised to all clients together in bytes.",
        ),
        (
            "promised_iops",
            "number, requests per second",
            "Promised to all clients together in requests.",
        ),
        (
            "keep",
            "number",
            "Seconds to be kept of a hundred in which a promise applies (`--keep`).",
        ),
        (
            "searches",
            "array of numbers",
            "The least number of drives in each search; null where not even a drive for each client is enough.",
        ),
        (
            "drives",
            "number",
            "The number of drives that is enough in every search; null where none is.",
        ),
        (
            "needed_in",
            "number",
            "The searches in which fewer drives are not enough; null where `drives` is.",
        ),
        (
            "used",
            "number, 0 to 1",
            "Bytes served, of what one sequential reader gets of that number of drives: mean of the searches; null where `drives` is.",
        ),
        (
            "average_mb_per_s",
            "number, 10^6 bytes per second",
            "What a client gets while it is active: mean of all clients and searches; null where `drives` is.",
        ),
    ];

    /// It as one line of JSON, without the newline. Every fraction has three digits.
    pub fn to_line(&self) -> String {
        write(self)
    }
}
