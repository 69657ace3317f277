//! Tests of the store in etcd with scripted endpoints: the requests that it sends, the
//! interpretation of replies, and the reaction to a missing reply.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use weir_core::Span;
use weir_serve::gateway::{
    Etcd, EtcdAccess, Lease, MemberConfig, MemberRow, MemberTable, ONE, StatedMinimum, StoreReply,
    StoreRequest,
};

const CONFIG: MemberConfig = MemberConfig {
    ttl: Span::from_secs(2),
    look: Span::from_millis(500),
    drift: 10_000,
};

/// The behaviour of an endpoint for its next request.
#[derive(Clone)]
enum EndpointAction {
    Answers(u16, String),
    /// Accepts the request and sends no reply.
    Hangs,
    Closes,
}

/// A scripted endpoint, and the path and body of each request that it has received.
struct FakeEndpoint {
    address: String,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    does: Arc<Mutex<VecDeque<EndpointAction>>>,
}

impl FakeEndpoint {
    fn new(does: impl IntoIterator<Item = EndpointAction>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let fake = Self {
            address: listener.local_addr().unwrap().to_string(),
            asked: Arc::default(),
            does: Arc::new(Mutex::new(does.into_iter().collect())),
        };
        let (asked, does) = (Arc::clone(&fake.asked), Arc::clone(&fake.does));
        thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                asked.lock().unwrap().push(request(&mut stream));
                match does.lock().unwrap().pop_front() {
                    Some(EndpointAction::Answers(status, body)) => {
                        let length = body.len();
                        let head =
                            format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n");
                        let _ = stream.write_all((head + &body).as_bytes());
                    }
                    Some(EndpointAction::Hangs) => open.push(stream),
                    Some(EndpointAction::Closes) | None => {}
                }
            }
        });
        fake
    }

    fn of(answers: &[Value]) -> Self {
        let answers = answers
            .iter()
            .map(|v| EndpointAction::Answers(200, v.to_string()));
        Self::new(answers)
    }

    fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().unwrap().clone()
    }
}

/// Returns the path and the body of a request.
fn request(stream: &mut TcpStream) -> (String, Value) {
    let mut read = Vec::new();
    loop {
        let mut some = [0; 4096];
        let count = stream.read(&mut some).unwrap();
        assert!(count > 0, "a request is whole");
        read.extend_from_slice(&some[..count]);
        let text = String::from_utf8_lossy(&read);
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str(body)
        {
            let path = head.split(' ').nth(1).unwrap();
            return (path.to_owned(), body);
        }
    }
}

fn etcd(endpoints: &[&FakeEndpoint]) -> Etcd {
    let endpoints = endpoints
        .iter()
        .map(|fake| format!("http://{}", fake.address));
    Etcd::new(
        (endpoints.collect(), EtcdAccess::default()),
        ("/weir", "alpha"),
        &CONFIG,
        "host/1".to_owned(),
    )
}

fn ask(etcd: &mut Etcd, ask: StoreRequest) -> Result<StoreReply, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(etcd.ask(&ask))
}

fn b64(text: &str) -> String {
    STANDARD.encode(text)
}

const ROW: MemberRow = MemberRow {
    lease: Lease(0x1234),
    part: ONE / 2,
    demand: ONE,
    stated: StatedMinimum {
        bytes: 10_000_000,
        requests: 0,
    },
};
const KEY: &str = "/weir/alpha/member/0000000000001234";
const TEXT: &str = "part=32768/65536 demand=65536/65536 min=10000000 min_iops=0 by=host/1";

fn write() -> StoreRequest {
    StoreRequest::Write {
        generation: 41,
        row: ROW,
    }
}

/// Returns a key-value pair in the form of etcd.
fn pair(key: &str, value: &str, revision: u64, lease: u64) -> Value {
    json!({ "key": b64(key), "value": b64(value), "mod_revision": revision.to_string(), "lease": lease.to_string() })
}

#[test]
fn leases_are_granted_renewed_and_revoked() {
    let gone = json!({ "error": "etcdserver: requested lease not found", "code": 5 });
    let fake = FakeEndpoint::new([
        // etcd's JSON has 64-bit numbers as strings. 4660 is 0x1234.
        EndpointAction::Answers(200, json!({ "ID": "4660", "TTL": "2" }).to_string()),
        EndpointAction::Answers(200, json!({ "ID": "4661", "TTL": "1" }).to_string()),
        EndpointAction::Answers(
            200,
            "{\"result\":{\"ID\":\"4660\",\"TTL\":\"2\"}}\n{\"result\":{}}".to_owned(),
        ),
        EndpointAction::Answers(200, json!({ "result": { "ID": "4660" } }).to_string()),
        EndpointAction::Answers(200, "{}".to_owned()),
        EndpointAction::Answers(404, gone.to_string()),
    ]);
    let mut etcd = etcd(&[&fake]);
    let lease = Lease(0x1234);
    assert_eq!(
        ask(&mut etcd, StoreRequest::Grant),
        Ok(StoreReply::Granted(lease))
    );
    let short = ask(&mut etcd, StoreRequest::Grant).unwrap_err();
    assert!(
        short.contains("not in the form of etcd"),
        "a lease that is too short: {short}"
    );
    assert_eq!(
        ask(&mut etcd, StoreRequest::Renew(lease)),
        Ok(StoreReply::Renewed)
    );
    assert_eq!(
        ask(&mut etcd, StoreRequest::Renew(lease)),
        Ok(StoreReply::Gone),
        "no time is left"
    );
    assert_eq!(
        ask(&mut etcd, StoreRequest::Revoke(lease)),
        Ok(StoreReply::Gone)
    );
    assert_eq!(
        ask(&mut etcd, StoreRequest::Revoke(lease)),
        Ok(StoreReply::Gone)
    );
    let asked = fake.asked();
    let named = json!({ "ID": "4660" });
    assert_eq!(
        asked[0],
        ("/v3/lease/grant".to_owned(), json!({ "TTL": "2" }))
    );
    assert_eq!(asked[2], ("/v3/lease/keepalive".to_owned(), named.clone()));
    assert_eq!(asked[4], ("/v3/lease/revoke".to_owned(), named));
}

#[test]
fn a_write_compares_the_generation_and_puts_both() {
    let table = json!({ "kvs": [pair("/weir/alpha/generation", "x", 42, 0)] });
    let fake = FakeEndpoint::of(&[
        json!({ "header": { "revision": "43" }, "succeeded": true, "responses": [] }),
        json!({ "header": { "revision": "43" }, "responses": [{ "response_range": table }] }),
    ]);
    let mut etcd = etcd(&[&fake]);
    assert_eq!(ask(&mut etcd, write()), Ok(StoreReply::Written(43)));
    let other = MemberTable {
        generation: 42,
        rows: Vec::new(),
    };
    assert_eq!(ask(&mut etcd, write()), Ok(StoreReply::Table(other)));
    let (path, body) = &fake.asked()[0];
    assert_eq!(path, "/v3/kv/txn");
    let generation = b64("/weir/alpha/generation");
    assert_eq!(
        body["compare"],
        json!([{ "key": generation, "target": "MOD", "result": "EQUAL", "mod_revision": "41" }])
    );
    assert_eq!(
        body["success"],
        json!([
            { "request_put": { "key": generation, "value": b64("host/1") } },
            { "request_put": { "key": b64(KEY), "value": b64(TEXT), "lease": "4660" } },
        ])
    );
    assert_eq!(
        body["failure"],
        json!([{ "request_range": { "key": b64("/weir/alpha/"), "range_end": b64("/weir/alpha0") } }])
    );
}

#[test]
fn unreadable_rows_count_as_servers_that_hold_everything() {
    // Two of these keys are valid: the generation, and the row of `ROW`. One is not a member's, and
    // the last three cannot be read.
    let others = json!({ "header": { "revision": "9" }, "kvs": [
        pair("/weir/alpha/generation", "", 7, 0),
        pair(KEY, TEXT, 7, 0x1234),
        pair("/weir/alpha/note", "of somebody else", 3, 0),
        pair("/weir/alpha/member/0000000000000001", "\u{1}garbage", 3, 1),
        pair("/weir/alpha/member/0000000000000002", TEXT, 3, 0),
        pair("/weir/alpha/member/hello", TEXT, 3, 0),
    ] });
    let fake = FakeEndpoint::of(&[others, json!({ "header": { "revision": "9" } })]);
    let mut etcd = etcd(&[&fake]);
    let unreadable = MemberRow::unreadable(Lease(0));
    let table = MemberTable {
        generation: 7,
        rows: vec![ROW, unreadable, unreadable, unreadable],
    };
    assert_eq!(table.left_by_others(ROW.lease), 0);
    assert_eq!(
        ask(&mut etcd, StoreRequest::Read),
        Ok(StoreReply::Table(table))
    );
    assert_eq!(
        etcd.unreadable_keys().len(),
        3,
        "{:?}",
        etcd.unreadable_keys()
    );
    assert_eq!(
        ask(&mut etcd, StoreRequest::Read),
        Ok(StoreReply::Table(MemberTable::default()))
    );
    assert!(etcd.unreadable_keys().is_empty());
}

#[test]
fn the_next_endpoint_is_asked_where_one_does_not_answer_and_stays_the_first() {
    let read = EndpointAction::Answers(200, json!({ "header": {} }).to_string());
    let refuses = json!({ "error": "etcdserver: no leader", "code": 14 }).to_string();
    let (hangs, closes) = (
        FakeEndpoint::new([EndpointAction::Hangs]),
        FakeEndpoint::new([EndpointAction::Closes]),
    );
    let headless = FakeEndpoint::new([EndpointAction::Answers(503, refuses)]);
    let good = FakeEndpoint::new([read.clone(), read]);
    let mut etcd = etcd(&[&hangs, &closes, &headless, &good]);
    let begun = Instant::now();
    assert_eq!(
        ask(&mut etcd, StoreRequest::Read),
        Ok(StoreReply::Table(MemberTable::default()))
    );
    let took = begun.elapsed();
    // All endpoints together have a quarter of the lease, which is 500 ms. The first of four has a
    // quarter of that.
    assert!(took < Duration::from_millis(450), "{took:?}");
    assert_eq!(
        ask(&mut etcd, StoreRequest::Read),
        Ok(StoreReply::Table(MemberTable::default()))
    );
    assert_eq!(hangs.asked().len(), 1);
    assert_eq!(good.asked().len(), 2);
}

#[test]
fn unreachable_endpoints_are_reported_within_a_quarter_of_the_lease() {
    let (hangs, full) = (
        FakeEndpoint::new([EndpointAction::Hangs]),
        json!({ "error": "etcdserver: mvcc: database space exceeded", "code": 8 }),
    );
    let full = FakeEndpoint::new([EndpointAction::Answers(429, full.to_string())]);
    let html = FakeEndpoint::new([EndpointAction::Answers(200, "<html>".to_owned())]);
    let other = FakeEndpoint::of(&[json!({ "hello": "world" })]);
    let mut etcd = etcd(&[&hangs, &full, &html, &other]);
    let begun = Instant::now();
    let reasons = ask(&mut etcd, write()).unwrap_err();
    assert!(begun.elapsed() < Duration::from_millis(700));
    for reason in [
        "no reply within",
        "space exceeded",
        "not JSON",
        "not in the form of etcd",
    ] {
        assert!(reasons.contains(reason), "{reasons}");
    }
}
