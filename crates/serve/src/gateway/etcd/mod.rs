//! The store of shared minimums in etcd. [`Etcd`] sends each [`StoreRequest`] as a call of etcd's
//! JSON gateway (etcd 3.4 or later), over HTTP or HTTPS. [`EtcdAccess`] states the certificates and
//! the user.
//!
//! A minimum `NAME` has the key `PREFIX/NAME/generation`, whose modification revision is the
//! generation, and a key `PREFIX/NAME/member/LEASE` for each server, which etcd removes with its
//! lease. A write is one transaction, which compares the generation and puts both keys. It is
//! therefore applied completely or not at all, and sending it twice applies it once.

mod access;
mod http;
mod row;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use weir_core::Span;

use crate::gateway::member::{MemberConfig, StoreReply, StoreRequest};
use crate::gateway::table::{Lease, MemberRow, MemberTable};
pub use access::EtcdAccess;
use row::Keys;

/// The code of `google.rpc.Code` for an object that does not exist. For the calls in this module,
/// that object is the lease.
const NOT_FOUND: i64 = 5;
/// The code of `google.rpc.Code` for a token that is not valid, because it has expired or etcd has
/// started since.
const UNAUTHENTICATED: i64 = 16;
/// A part of etcd's message for a token from before a change of users or roles.
const OLD_REVISION: &str = "revision of auth store is old";

/// A client of etcd for the rows of one minimum.
#[derive(Debug)]
pub struct Etcd {
    /// The URLs of etcd, such as `https://127.0.0.1:2379`.
    endpoints: Vec<String>,
    access: EtcdAccess,
    /// The token of the user, after it was authenticated.
    token: Option<String>,
    /// The index of the endpoint that answered last.
    at: usize,
    keys: Keys,
    ttl: Span,
    by: String,
    strange: Vec<String>,
}

impl Etcd {
    /// Creates a client for the rows of the minimum `name` below `prefix`, at these endpoints
    /// (URLs), with an identity. `by` is a word that identifies the owner of this server's row to
    /// readers. Does not connect yet.
    pub fn new(
        (endpoints, access): (Vec<String>, EtcdAccess),
        (prefix, name): (&str, &str),
        config: &MemberConfig,
        by: String,
    ) -> Self {
        Self {
            endpoints,
            access,
            token: None,
            at: 0,
            keys: Keys::new(prefix, name),
            ttl: config.ttl,
            by,
            strange: Vec::new(),
        }
    }

    /// Returns the keys of rows that were unreadable when the table was read last. Each counts as a
    /// server that holds all of the minimum.
    pub fn unreadable_keys(&self) -> &[String] {
        &self.strange
    }

    /// Sends a request to etcd, for a quarter of a lease at most. It tries each endpoint in turn,
    /// beginning with the one that answered last. An endpoint that does not answer leaves the
    /// others their part of the time.
    ///
    /// # Errors
    /// Returns the reasons why no endpoint has answered, as text. The caller must then answer the
    /// member with [`StoreReply::Lost`].
    pub async fn ask(&mut self, ask: &StoreRequest) -> Result<StoreReply, String> {
        let (path, body) = self.call(ask);
        // With a quarter of a lease per call, two attempts fit into the two thirds of a lease that
        // are left at its renewal (see `GatewayMember::renew_at`).
        let deadline = Instant::now() + Duration::from_nanos(self.ttl.as_nanos() / 4);
        let mut reasons = Vec::new();
        let count = self.endpoints.len();
        for tried in 0..count {
            let at = (self.at + tried) % count;
            let left = deadline.saturating_duration_since(Instant::now());
            // The remaining time is divided among the endpoints that have not been tried.
            let patience = left / (count - tried) as u32;
            let answered = timeout(patience, self.post(at, (path, &body))).await;
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

    /// Sends a call to an endpoint, as the user if there is one. A token that is not valid any more
    /// is replaced once.
    async fn post(
        &mut self,
        at: usize,
        call: (&str, &Value),
    ) -> Result<(StatusCode, Value), String> {
        let known = self.token.is_some();
        let token = self.authenticated(at).await?;
        let endpoint = &self.endpoints[at];
        let reply = http::post(endpoint, call, &self.access, token.as_deref()).await?;
        let message = reply.1["error"].as_str().unwrap_or_default();
        let is_old =
            message.contains(OLD_REVISION) || reply.1["code"].as_i64() == Some(UNAUTHENTICATED);
        if !is_old {
            return Ok(reply);
        }
        self.token = None;
        if !known {
            return Ok(reply);
        }
        let token = self.authenticated(at).await?;
        http::post(&self.endpoints[at], call, &self.access, token.as_deref()).await
    }

    /// Returns the token of the user, which is authenticated if it has none. Returns `None` without
    /// a user.
    async fn authenticated(&mut self, at: usize) -> Result<Option<String>, String> {
        let Some(login) = self.access.login() else {
            return Ok(None);
        };
        if self.token.is_none() {
            let user = &login.user;
            let body = json!({ "name": user, "password": login.password()? });
            let call = ("/v3/auth/authenticate", &body);
            let (_, value) = http::post(&self.endpoints[at], call, &self.access, None).await?;
            let token = value["token"].as_str().ok_or_else(|| {
                let why = value["error"].as_str().unwrap_or("no token");
                format!("{why}; check user = {user:?} and password_file in [gateways]")
            })?;
            self.token = Some(token.to_owned());
        }
        Ok(self.token.clone())
    }

    /// Returns the path and the body of a call.
    fn call(&self, ask: &StoreRequest) -> (&'static str, Value) {
        match ask {
            StoreRequest::Grant => {
                // etcd counts whole seconds. They are rounded up, because a row may outlive its
                // server's own count, but must not end before it.
                let seconds = self.ttl.as_nanos().div_ceil(1_000_000_000);
                ("/v3/lease/grant", json!({ "TTL": seconds.to_string() }))
            }
            StoreRequest::Renew(lease) => ("/v3/lease/keepalive", named(*lease)),
            StoreRequest::Revoke(lease) => ("/v3/lease/revoke", named(*lease)),
            StoreRequest::Read => ("/v3/kv/range", self.range()),
            StoreRequest::Write { generation, row } => ("/v3/kv/txn", self.write(*generation, row)),
        }
    }

    fn range(&self) -> Value {
        // etcd treats a range as half-open: `range_end` is the first key that is not part of it.
        json!({ "key": encoded(&self.keys.all), "range_end": encoded(&self.keys.end()) })
    }

    fn write(&self, generation: u64, row: &MemberRow) -> Value {
        let key = encoded(&self.keys.generation());
        json!({
            "compare": [{
                "key": key,
                "target": "MOD",
                "result": "EQUAL",
                // The generation is the revision of the last write to this key, so the comparison
                // fails if any server has written since.
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
            // If the generation differs, the transaction reads the table instead, so that the
            // member can decide again without another call.
            "failure": [{ "request_range": self.range() }],
        })
    }

    fn understand(
        &mut self,
        ask: &StoreRequest,
        status: StatusCode,
        value: &Value,
    ) -> Result<StoreReply, String> {
        // A write names the lease that its row belongs to, so it can fail for want of the lease,
        // too.
        let is_of_lease = !matches!(ask, StoreRequest::Grant | StoreRequest::Read);
        if is_of_lease && value["code"].as_i64() == Some(NOT_FOUND) {
            return Ok(StoreReply::Gone);
        }
        if status != StatusCode::OK {
            return Err(value["error"]
                .as_str()
                .unwrap_or(status.as_str())
                .to_owned());
        }
        let strange = || format!("the reply is not in the form of etcd: {value:.80}");
        let answer = match ask {
            StoreRequest::Grant => number(&value["ID"])
                // A shorter lease than requested would break the member's count.
                .filter(|_| number(&value["TTL"]) >= Some(self.ttl.as_nanos() / 1_000_000_000))
                .map(|id| StoreReply::Granted(Lease(id))),
            StoreRequest::Renew(_) => {
                let renewed = &value["result"];
                // An expired lease has a TTL of zero, and the JSON gateway omits fields that are
                // zero.
                let of = |_| match number(&renewed["TTL"]) {
                    Some(1..) => StoreReply::Renewed,
                    _ => StoreReply::Gone,
                };
                number(&renewed["ID"]).map(of)
            }
            StoreRequest::Revoke(_) => Some(StoreReply::Gone),
            StoreRequest::Read => self.table(value).map(StoreReply::Table),
            StoreRequest::Write { .. } if value["succeeded"].as_bool() == Some(true) => {
                number(&value["header"]["revision"]).map(StoreReply::Written)
            }
            StoreRequest::Write { .. } => {
                let read = &value["responses"][0]["response_range"];
                self.table(read).map(StoreReply::Table)
            }
        };
        answer.ok_or_else(strange)
    }

    /// Decodes a table from the reply to [`Self::range`].
    fn table(&mut self, read: &Value) -> Option<MemberTable> {
        read.as_object()?;
        let mut table = MemberTable::default();
        let mut strange = Vec::new();
        for pair in read["kvs"].as_array().into_iter().flatten() {
            let key = decoded(&pair["key"])?;
            if key == self.keys.generation() {
                table.generation = number(&pair["mod_revision"])?;
            } else if self.keys.is_row(&key) {
                let lease = self.keys.lease(&key);
                // A row that is not attached to its own lease would never be removed, so it is
                // treated as unreadable.
                let goes = lease.is_some() && number(&pair["lease"]) == lease.map(|l| l.0);
                let text = decoded(&pair["value"]).filter(|_| goes).unwrap_or_default();
                let row = row::read(lease.unwrap_or(Lease(0)), &text);
                table.rows.push(row.unwrap_or_else(|| {
                    strange.push(key);
                    // An unreadable row counts as the whole minimum, so that no part is promised
                    // twice.
                    MemberRow::unreadable(Lease(0))
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

/// Decodes a string of bytes, which JSON contains in base64. An absent field is empty.
fn decoded(value: &Value) -> Option<String> {
    let bytes = match value {
        Value::Null => Vec::new(),
        value => STANDARD.decode(value.as_str()?).ok()?,
    };
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Decodes a number of 64 bits, which the JSON gateway prints as a string.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    }
}
