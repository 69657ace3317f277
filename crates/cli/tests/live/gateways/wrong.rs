//! Errors of operators and full disks: foreign keys in etcd, different minimums, and an etcd that
//! refuses writes.

use super::has;
use super::lab::{EtcdCluster, GatewayLabServer, MIN, eager, have, within};
use crate::common::{Scratch, run};
use std::thread;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// `/weir/v/member/hello` and `of somebody else` in base64, as etcd's JSON interface requires.
const KEY: &str = "L3dlaXIvdi9tZW1iZXIvaGVsbG8=";
const VALUE: &str = "b2Ygc29tZWJvZHkgZWxzZQ==";

#[test]
fn strange_rows_other_minimums_and_a_full_etcd_never_promise_more() {
    if !have() {
        return;
    }
    let scratch = Scratch::new();
    let etcd = EtcdCluster::start(1);
    let [a, b] = ["a", "b"].map(|name| GatewayLabServer::start(&scratch, name, &etcd));
    let load = a.load("v", eager(), 40);
    within("the demand has its part", 5 * SECOND, || has(&a, 0.95, 1.0));
    strange_row(&etcd, &a);
    other_minimum(&scratch, &a, &b);
    full(&etcd, &a, &b);
    load.join().expect("a client");
    drop(etcd);
    a.running.end();
    b.running.end();
}

fn strange_row(etcd: &EtcdCluster, a: &GatewayLabServer) {
    let put = format!("{{\"key\":\"{KEY}\",\"value\":\"{VALUE}\"}}");
    etcd.post(0, "/v3/kv/put", &put).expect("etcd answers");
    within(
        "nothing is promised beside a stranger's row",
        5 * SECOND,
        || has(a, 0.0, 0.0),
    );
    assert!(a.running.says("/weir/v/member/hello"), "it says which");
    let key = format!("{{\"key\":\"{KEY}\"}}");
    etcd.post(0, "/v3/kv/deleterange", &key)
        .expect("etcd answers");
    within("it is promised again", 5 * SECOND, || has(a, 0.95, 1.0));
    println!("a stranger's row: nothing is promised until it is removed");
}

fn other_minimum(scratch: &Scratch, a: &GatewayLabServer, b: &GatewayLabServer) {
    let set = |server: &GatewayLabServer, min: &str| {
        let line = format!("ctl --socket {}.manage set v min={min}", server.name);
        run(scratch, &line).ended(0);
    };
    let promised =
        |server: &GatewayLabServer| server.metric("weir_min_bytes_per_second{volume=\"v\"}");
    // If servers state different minimums, the smallest one is divided.
    set(b, "6MB/s");
    within("the least is split", 5 * SECOND, || {
        promised(a) + promised(b) <= 6e6
    });
    within("both say so", 5 * SECOND, || {
        a.running.says("different values for the shared min")
            && b.running.says("different values for the shared min")
    });
    set(a, "60MB/s");
    thread::sleep(2 * SECOND);
    assert!(
        promised(a) + promised(b) <= 6e6,
        "{} {}",
        promised(a),
        promised(b)
    );
    set(a, "30MB/s");
    set(b, "30MB/s");
    within("what both state again is split", 5 * SECOND, || {
        promised(a) > 0.95 * MIN
    });
    println!("servers that state 30 and 6 MB/s split 6 MB/s, and say that they differ");
}

fn full(etcd: &EtcdCluster, a: &GatewayLabServer, b: &GatewayLabServer) {
    let alarm = |action: &str| {
        let body = format!("{{\"action\":\"{action}\",\"memberID\":\"0\",\"alarm\":\"NOSPACE\"}}");
        let said = etcd.post(0, "/v3/maintenance/alarm", &body);
        assert!(said.is_some(), "etcd answers");
    };
    let lapses = a.lapses();
    // The alarm NOSPACE makes etcd refuse writes, as if its disk were full.
    alarm("ACTIVATE");
    let load = b.load("v", eager(), 9);
    thread::sleep(7 * SECOND);
    let (of_a, of_b) = (a.part().unwrap(), b.part().unwrap());
    println!("etcd has no space: parts stay as they are or fall, {of_a:.3} and {of_b:.3}");
    assert!(of_a + of_b <= 1.0 && of_b < 0.05, "{of_a} {of_b}");
    assert_eq!(a.lapses(), lapses, "leases are renewed");
    assert!(b.running.says("space exceeded"), "it says why");
    alarm("DEACTIVATE");
    within("parts move again", 5 * SECOND, || has(b, 0.45, 1.0));
    load.join().expect("a client");
}
