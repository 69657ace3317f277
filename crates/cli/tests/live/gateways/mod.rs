//! Servers that share one min with a real etcd, for `./test --fleet`. Parts move to the servers
//! with demand, and a server that dies, hangs or is cut off promises nothing once others may use
//! its part.
//!
//! `cargo test -p weir --test live gateways:: -- --test-threads 1 --nocapture` prints figures. The
//! tests need Debian's `etcd-server`.

mod lab;
mod wrong;

use crate::common::{Scratch, run};
use lab::{AGE, EtcdCluster, GatewayLabServer, MIN, Sampler, eager, greedy, have, within};
use rustix::process::Signal;
use std::thread;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(5);

fn has(server: &GatewayLabServer, least: f64, most: f64) -> bool {
    server
        .part()
        .is_some_and(|part| (least..=most).contains(&part))
}

#[test]
fn parts_follow_demand_and_are_freed_when_servers_or_etcd_fail() {
    if !have() {
        return;
    }
    let scratch = Scratch::new();
    let mut etcd = EtcdCluster::start(3);
    let mut servers = ["a", "b", "c"].map(|name| GatewayLabServer::start(&scratch, name, &etcd));
    let sampler = Sampler::start(servers.iter().map(|s| s.metrics).collect());
    let loads = demand_moves(&servers);
    a_server_is_killed(&mut servers);
    let [_, b, c] = servers;
    etcd_is_cut_off(&etcd, &b, &c);
    a_member_of_etcd_is_killed(&mut etcd, &b);
    a_server_is_stopped_past_its_lease(&b, &c);
    a_server_is_upgraded(&b, &scratch);
    a_server_ends(b, &c);
    for load in loads {
        load.join().expect("a client");
    }
    let (largest, times) = sampler.largest();
    println!("the sum of parts was at most {largest:.4} at {times} times");
    assert!(times > 100 && largest <= 1.0, "{largest} at {times} times");
    c.running.end();
}

fn demand_moves(servers: &[GatewayLabServer; 3]) -> Vec<thread::JoinHandle<()>> {
    let [a, b, c] = servers;
    let each = servers.iter();
    let mut loads: Vec<_> = each.map(|s| s.load("other", greedy(), 75)).collect();
    // Only server a has demand, so it gets nearly the whole min.
    loads.push(a.load("v", eager(), 75));
    let took = within("the demand has its part", 5 * SECOND, || has(a, 0.95, 1.0));
    println!(
        "one server with demand has its part after {:.1} s",
        took.as_secs_f64()
    );
    // With demand on a and b, each gets half.
    loads.push(b.load("v", eager(), 75));
    let took = within("two demands have equal parts", 5 * SECOND, || {
        has(a, 0.45, 0.5) && has(b, 0.45, 0.5)
    });
    println!(
        "two with demand have equal parts after {:.1} s",
        took.as_secs_f64()
    );
    // A server without demand keeps a small part, from which it can begin.
    assert!(has(c, 0.01, 0.05), "{:?}", c.part());
    loads
}

fn a_server_is_killed(servers: &mut [GatewayLabServer; 3]) {
    let before = servers[1].gets();
    let killed = Instant::now();
    servers[0].kill();
    within("the dead server's part is free", 10 * SECOND, || {
        has(&servers[1], 0.95, 1.0)
    });
    let took = killed.elapsed();
    let after = servers[1].gets();
    println!(
        "what a server had that was killed is used by another after {:.1} s: {:.1} MB/s before, {:.1} MB/s after, of {:.1}",
        took.as_secs_f64(),
        before / 1e6,
        after / 1e6,
        MIN / 1e6
    );
    assert!(took < 10 * SECOND);
    // Before, the server had half of the min. Afterwards, it has all of it.
    assert!(after > 0.95 * MIN && before < 0.8 * MIN, "{before} {after}");
}

fn etcd_is_cut_off(etcd: &EtcdCluster, b: &GatewayLabServer, c: &GatewayLabServer) {
    let lapses = b.lapses();
    // A stopped etcd does not answer, so leases cannot be renewed.
    etcd.signal_all(Signal::STOP);
    let nothing = || has(b, 0.0, 0.0) && has(c, 0.0, 0.0);
    let took = within(
        "nothing is promised without etcd",
        LEASE + AGE + SECOND,
        nothing,
    );
    println!(
        "etcd is stopped: all promise nothing after {:.1} s, of a lease of {:.0} s (metrics are up to {:.1} s old)",
        took.as_secs_f64(),
        LEASE.as_secs_f64(),
        AGE.as_secs_f64()
    );
    // Half a second is added for a busy machine.
    assert!(took < LEASE + AGE + AGE, "{took:?}");
    thread::sleep(2 * SECOND);
    assert!(nothing());
    // The server counts the loss of its lease once.
    assert_eq!(b.lapses(), lapses + 1);
    etcd.signal_all(Signal::CONT);
    let took = within("parts come back with etcd", 15 * SECOND, || {
        has(b, 0.95, 1.0)
    });
    println!(
        "etcd goes on: parts are back after {:.1} s",
        took.as_secs_f64()
    );
}

fn a_member_of_etcd_is_killed(etcd: &mut EtcdCluster, b: &GatewayLabServer) {
    for member in 0..3 {
        let lapses = b.lapses();
        etcd.kill(member);
        // Longer than a lease of 5 s, so that a lost part would be noticed.
        thread::sleep(6 * SECOND);
        println!(
            "etcd's member {member} is killed: a part was lost {} times",
            b.lapses() - lapses
        );
        etcd.restart(member);
        within("the part is there with two of three", 10 * SECOND, || {
            has(b, 0.95, 1.0)
        });
    }
}

fn a_server_is_stopped_past_its_lease(b: &GatewayLabServer, c: &GatewayLabServer) {
    let load = c.load("v", eager(), 12);
    within("two demands have equal parts", 5 * SECOND, || {
        has(b, 0.45, 0.5) && has(c, 0.45, 0.5)
    });
    // While the server is stopped it serves no client, so the seconds until the end of its lease
    // are short. The report is therefore made before.
    report(b);
    b.signal(Signal::STOP);
    let took = within("the stopped server's part is free", 10 * SECOND, || {
        has(c, 0.95, 1.0)
    });
    println!(
        "what a stopped server had is another's after {:.1} s",
        took.as_secs_f64()
    );
    b.signal(Signal::CONT);
    // After it continues, the server must notice that its lease has ended before it promises
    // anything.
    let first = b.part();
    println!("the stopped server goes on: it says first that it promises {first:?}");
    assert!(first.is_none_or(|part| part < 0.05), "{first:?}");
    load.join().expect("a client");
}

/// The new process is another member, which gets its part after the old process has returned its
/// own.
fn a_server_is_upgraded(b: &GatewayLabServer, scratch: &Scratch) {
    within("all of the min is b's", 10 * SECOND, || has(b, 0.95, 1.0));
    run(scratch, "ctl --socket b.manage upgrade").ended(0);
    let took = within("the new process has its part", 5 * SECOND, || {
        has(b, 0.95, 1.0)
    });
    println!(
        "a server is upgraded: the new process has the part after {:.1} s (metrics are up to {:.1} s old)",
        took.as_secs_f64(),
        AGE.as_secs_f64()
    );
}

fn a_server_ends(b: GatewayLabServer, c: &GatewayLabServer) {
    let load = c.load("v", eager(), 6);
    within("c has a part", 5 * SECOND, || has(c, 0.45, 1.0));
    b.running.end();
    let took = within("what a server gives back is another's", 4 * SECOND, || {
        has(c, 0.95, 1.0)
    });
    println!(
        "what a server that ends gives back is another's after {:.1} s",
        took.as_secs_f64()
    );
    load.join().expect("a client");
    report(c);
}

/// Prints and checks the seconds in which the server promised its part.
fn report(server: &GatewayLabServer) {
    let count = |name: &str| server.metric(&format!("{name}{{volume=\"v\"}}"));
    let (promised, short) = (
        count("weir_promised_seconds_total"),
        count("weir_short_seconds_total"),
    );
    println!(
        "{}: {promised} s in which a part was promised, {short} of them short",
        server.name
    );
    assert!(
        promised > 10.0 && short <= 1.0 + promised / 50.0,
        "{short} of {promised}"
    );
}
