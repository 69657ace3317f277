//! The store, in etcd: [`Ask`]s as calls of its JSON gateway (etcd 3.4 or later, by HTTP without TLS or users).
//!
//! Of a minimum `NAME` there stand `PREFIX/NAME/generation`, whose revision of modification is the generation, and
//! `PREFIX/NAME/member/LEASE` for each server, which goes with its lease. A write is one transaction, which compares the generation and puts
//! both; so it holds wholly or not at all, and asking for it twice does it once.

mod http;
mod row;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use weir_core::Span;

use crate::gateway::member::{Answer, Ask, Config};
use crate::gateway::table::{Lease, Row, Table};
use row::Keys;

/// Of `google.rpc.Code`, that there is no such thing: of what is asked here, no such lease.
const NOT_FOUND: i64 = 5;

/// Where the rows of one minimum are.
#[derive(Debug)]
pub struct Etcd {
    /// As `127.0.0.1:2379`.
    endpoints: Vec<String>,
    /// The endpoint that answered last.
    at: usize,
    keys: Keys,
    ttl: Span,
    by: String,
    strange: Vec<String>,
}

impl Etcd {
    /// The rows of the minimum `name` below `prefix`, asked for at these endpoints (`host:port`). `by` says in a word whose the own row is.
    /// Nothing is asked yet.
    pub fn new(
        endpoints: Vec<String>,
        (prefix, name): (&str, &str),
        config: &Config,
        by: String,
    ) -> Self {
        Self {
            endpoints,
            at: 0,
            keys: Keys::new(prefix, name),
            ttl: config.ttl,
            by,
            strange: Vec::new(),
        }
    }

    /// Keys of rows that could not be read when the table was read last: each counts as a server that has all of the minimum.
    pub fn strange(&self) -> &[String] {
        &self.strange
    }

    /// Asks etcd, for a quarter of a lease at most: each endpoint in turn, beginning with the one that answered last. An endpoint that does
    /// not answer leaves the others their part of that time.
    ///
    /// # Errors
    /// Why none has answered, in words: that is [`Answer::Lost`].
    pub async fn ask(&mut self, ask: &Ask) -> Result<Answer, String> {
        let (path, body) = self.call(ask);
        let deadline = Instant::now() + Duration::from_nanos(self.ttl.as_nanos() / 4);
        let mut reasons = Vec::new();
        let count = self.endpoints.len();
        for tried in 0..count {
            let at = (self.at + tried) % count;
            let endpoint = &self.endpoints[at];
            let left = deadline.saturating_duration_since(Instant::now());
            let patience = left / (count - tried) as u32;
            let answered = timeout(patience, http::post(endpoint, path, &body)).await;
            let answered = answered
                .unwrap_or_else(|_| Err(format!("no reply within {} ms", patience.as_millis())));
            let understood =
                answered.and_then(|(status, value)| self.understand(ask, status, &value));
            match understood {
                Ok(answer) => {
                    self.at = at;
                    return Ok(answer);
                }
                Err(reason) => reasons.push(format!("{}: {reason}", self.endpoints[at])),
            }
        }
        Err(reasons.join("; "))
    }

    /// The path and the body of what is asked.
    fn call(&self, ask: &Ask) -> (&'static str, Value) {
        match ask {
            Ask::Grant => {
                // Whole seconds, and rather too many: a row may stay longer than its server counts on.
                let seconds = self.ttl.as_nanos().div_ceil(1_000_000_000);
                ("/v3/lease/grant", json!({ "TTL": seconds.to_string() }))
            }
            Ask::Renew(lease) => ("/v3/lease/keepalive", named(*lease)),
            Ask::Revoke(lease) => ("/v3/lease/revoke", named(*lease)),
            Ask::Read => ("/v3/kv/range", self.range()),
            Ask::Write { generation, row } => ("/v3/kv/txn", self.write(*generation, row)),
        }
    }

    fn range(&self) -> Value {
        json!({ "key": encoded(&self.keys.all), "range_end": encoded(&self.keys.end()) })
    }

    fn write(&self, generation: u64, row: &Row) -> Value {
        let key = encoded(&self.keys.generation());
        json!({
            "compare": [{
                "key": key,
                "target": "MOD",
                "result": "EQUAL",
                "mod_revision": generation.to_string(),
            }],
            "success": [
                { "request_put": { "key": key, "value": encoded(&self.by) } },
                { "request_put": {
                    "key": encoded(&self.keys.row(row.lease)),
                    "value": encoded(&row::write(row, &self.by)),
                    "lease": row.lease.0.to_string(),
                } },
            ],
            "failure": [{ "request_range": self.range() }],
        })
    }

    fn understand(
        &mut self,
        ask: &Ask,
        status: StatusCode,
        value: &Value,
    ) -> Result<Answer, String> {
        let is_of_lease = !matches!(ask, Ask::Grant | Ask::Read);
        if is_of_lease && value["code"].as_i64() == Some(NOT_FOUND) {
            return Ok(Answer::Gone);
        }
        if status != StatusCode::OK {
            return Err(value["error"]
                .as_str()
                .unwrap_or(status.as_str())
                .to_owned());
        }
        let strange = || format!("the reply is not in the form of etcd: {value:.80}");
        let answer = match ask {
            Ask::Grant => number(&value["ID"])
                .filter(|_| number(&value["TTL"]) >= Some(self.ttl.as_nanos() / 1_000_000_000))
                .map(|id| Answer::Granted(Lease(id))),
            Ask::Renew(_) => {
                let renewed = &value["result"];
                // A lease that is over has no time left, and none is not written.
                let of = |_| match number(&renewed["TTL"]) {
                    Some(1..) => Answer::Renewed,
                    _ => Answer::Gone,
                };
                number(&renewed["ID"]).map(of)
            }
            Ask::Revoke(_) => Some(Answer::Gone),
            Ask::Read => self.table(value).map(Answer::Table),
            Ask::Write { .. } if value["succeeded"].as_bool() == Some(true) => {
                number(&value["header"]["revision"]).map(Answer::Written)
            }
            Ask::Write { .. } => {
                let read = &value["responses"][0]["response_range"];
                self.table(read).map(Answer::Table)
            }
        };
        answer.ok_or_else(strange)
    }

    /// The table of an answer to [`Self::range`].
    fn table(&mut self, read: &Value) -> Option<Table> {
        read.as_object()?;
        let mut table = Table::default();
        let mut strange = Vec::new();
        for pair in read["kvs"].as_array().into_iter().flatten() {
            let key = decoded(&pair["key"])?;
            if key == self.keys.generation() {
                table.generation = number(&pair["mod_revision"])?;
            } else if self.keys.is_row(&key) {
                let lease = self.keys.lease(&key);
                // One that does not go with its lease would stay for ever.
                let goes = lease.is_some() && number(&pair["lease"]) == lease.map(|l| l.0);
                let text = decoded(&pair["value"]).filter(|_| goes).unwrap_or_default();
                let row = row::read(lease.unwrap_or(Lease(0)), &text);
                table.rows.push(row.unwrap_or_else(|| {
                    strange.push(key);
                    Row::unreadable(Lease(0))
                }));
            }
        }
        self.strange = strange;
        Some(table)
    }
}

fn named(lease: Lease) -> Value {
    json!({ "ID": lease.0.to_string() })
}

fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

/// Bytes as JSON has them, as text.
fn decoded(value: &Value) -> Option<String> {
    let bytes = match value {
        Value::Null => Vec::new(),
        value => STANDARD.decode(value.as_str()?).ok()?,
    };
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A number of 64 bits, which JSON has as a string.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    }
}
