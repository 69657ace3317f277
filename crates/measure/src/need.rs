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
    ];

    /// It as one line of JSON, without the newline. Every fraction has three digits.
    pub fn to_line(&self) -> String {
        write(self)
    }
}
