//! The demo: its results in virtual time, its live mode, and its cleaning up.

use crate::common;
use crate::common::{Scratch, has, record_of, run, signal, wait, weir};
use rustix::process::Signal;
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

/// Runs the demo, and returns its records.
fn records(scratch: &Scratch, options: &str) -> Vec<Value> {
    let said = run(scratch, &format!("demo --json - {options}")).ended(0);
    let told = said.err.strip_suffix("wrote weir-demo.html\n");
    let told = told.unwrap_or_else(|| panic!("{}", said.err));
    // Besides notes about the mapping of contracts to policies, a slow machine prints the remaining
    // time.
    let is_told = |l: &str| l.starts_with("note: ") || l.starts_with("about ");
    assert!(told.lines().all(is_told), "{told}");
    common::records(&said.out)
}

fn of<'a>(records: &'a [Value], policy: &str, client: &str) -> &'a Value {
    record_of(records, &[("policy", policy), ("client", client)])
}

fn number(record: &Value, key: &str) -> f64 {
    record[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} is a number in {record}"))
}

/// The number of records of a run: 15 readers, the target, and the total.
const CLIENTS: usize = 17;

#[test]
fn the_contract_is_kept_and_the_drive_is_used_in_virtual_time() {
    let scratch = Scratch::new();
    let records = records(&scratch, "--on sim --seconds 4");
    assert_eq!(records.len(), 4 * CLIENTS);
    let total = |policy| number(of(&records, policy, "total"), "bandwidth_mb_per_s");
    let target = |policy, key| number(of(&records, policy, "target"), key);
    assert!(target("none", "bandwidth_mb_per_s") < 1.0);
    assert!(target("bfq-bytes", "bandwidth_mb_per_s") >= 10.0);
    assert!(total("bfq-bytes") >= 0.7 * total("none"));
    assert!(target("contract", "worst_second_mb_per_s") >= 10.0);
    assert!(total("contract") >= 0.9 * total("none"));
    for record in records
        .iter()
        .filter(|r| r["policy"] == "contract" && r["client"] != "total")
    {
        assert_eq!(record["windows_met"], 1.0, "{record}");
        assert!(record["limited_by"].is_string() && record["split_us"].is_object());
    }
    assert!(
        records
            .iter()
            .all(|r| r["scenario"] == "contract" && r["place"] == "sim")
    );
}

#[test]
fn two_demos_in_virtual_time_print_the_same() {
    let scratch = Scratch::new();
    let [first, second] = [(); 2].map(|()| run(&scratch, "demo --on sim --seconds 1 --all"));
    assert_eq!(first.out, second.out);
    has(&first.out, "reader-15");
}

/// The promise is limited by the bandwidth that the client gets without contention. No other client
/// is blamed for the rest, and the client is not blamed for the bandwidth that others took.
#[test]
fn a_promise_above_the_bandwidth_without_contention_is_out_of_reach() {
    let scratch = Scratch::new();
    let line = "demo --on sim --seconds 3 --drive hitachi-hts72755 --json records --policy none --policy contract";
    let said = run(&scratch, line);
    has(&said.out, "MB/s promised; alone it gets 0.7");
    assert_eq!(said.out.matches("out of reach").count(), 2, "{}", said.out);
    assert!(!said.out.contains("broken"), "{}", said.out);
    let records = common::records(&scratch.read("records"));
    let target = |policy| &of(&records, policy, "target")["promise_seconds"];
    let (none, contract) = (target("none"), target("contract"));
    assert_eq!(
        (&none["short"], &none["short_by"]["neighbour"]),
        (&3.into(), &3.into())
    );
    let lacks = number(none, "lacking_bytes") / 3.0;
    assert!(
        (600e3..800e3).contains(&lacks),
        "of what it would get: {lacks}"
    );
    assert_eq!(
        (&contract["excused"], &contract["excused_by"]["own-depth"]),
        (&3.into(), &3.into())
    );
}

#[test]
fn the_demo_plays_each_requested_policy_once() {
    let scratch = Scratch::new();
    let policies = "--policy contract --policy none --policy contract";
    let records = records(&scratch, &format!("--on sim --seconds 1 {policies}"));
    let policies: Vec<&str> = records
        .iter()
        .step_by(CLIENTS)
        .filter_map(|r| r["policy"].as_str())
        .collect();
    assert_eq!(
        (records.len(), policies),
        (2 * CLIENTS, vec!["contract", "none"])
    );
}

#[test]
fn shares_and_limits_come_out_in_virtual_time() {
    let scratch = Scratch::new();
    let shares = "--on sim --seconds 10 --scenario shares --policy contract";
    let shares = records(&scratch, shares);
    let got = |client: &str| number(of(&shares, "contract", client), "bandwidth_mb_per_s");
    for share in [2, 4, 8] {
        let ratio = got(&format!("share-{share}")) / got("share-1") / f64::from(share);
        assert!((ratio - 1.0).abs() < 0.02, "share {share}: {ratio}");
    }
    let limits = "--on sim --seconds 5 --scenario max --policy contract";
    let limits = records(&scratch, limits);
    for limit in [5.0, 10.0, 20.0, 40.0] {
        let got = number(
            of(&limits, "contract", &format!("limit-{limit}")),
            "bandwidth_mb_per_s",
        );
        assert!((got / limit - 1.0).abs() < 0.02, "limit {limit}: {got}");
    }
}

#[test]
fn a_modelled_ssd_meets_the_promise_and_a_modelled_disk_does_not() {
    let scratch = Scratch::new();
    for (drive, kept) in [("plextor-px-256m5s", true), ("hitachi-hts72755", false)] {
        let line = format!("--on sim --seconds 2 --drive {drive} --policy contract");
        let records = records(&scratch, &line);
        assert!(records.iter().all(|r| r["drive"] == drive));
        let target = of(&records, "contract", "target");
        let (got, promised) = (
            number(target, "bandwidth_mb_per_s"),
            number(target, "promised_mb_per_s"),
        );
        // A hard disk cannot reach 10 MB/s with one request of 4 KiB at a time.
        assert_eq!(got >= promised, kept, "{drive}: {got} of {promised}");
        assert!(
            promised <= 10.0
                && number(of(&records, "contract", "total"), "bandwidth_mb_per_s") > 1.0
        );
    }
}

#[test]
fn the_live_demo_runs_a_real_server_and_real_clients() {
    let scratch = Scratch::new();
    let records = records(&scratch, "--seconds 1 --policy none --policy contract");
    assert_eq!(records.len(), 2 * CLIENTS);
    for record in &records {
        assert_eq!(record["place"], "serve");
        assert!(number(record, "requests") > 0.0, "{record}");
        assert!(record["errors"].is_null(), "{record}");
    }
    // The server itself reported where requests spent their time.
    let target = of(&records, "contract", "target");
    assert!(number(&target["split_us"], "drive") > 30.0, "{target}");
    assert!(target["limited_by"].is_string());
    assert_eq!(scratch.names(), ["weir-demo.html"], "sockets are gone");
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let mut demo = weir(&scratch, "demo --seconds 600");
    let mut child = demo
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait("the demo begins", || scratch.names().len() == 2);
    signal(&child, Signal::INT);
    // 128 + SIGINT (2), as for a shell.
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // Neither the directory of the server nor the unfinished page is left.
    assert_eq!(scratch.names(), [""; 0]);
}

#[test]
fn an_interrupt_shows_the_completed_policies() {
    let scratch = Scratch::new();
    let words = "demo --seconds 2 --policy none --policy bfq --policy contract --json records.json";
    let mut demo = weir(&scratch, words);
    let piped = demo.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = piped.spawn().unwrap();
    // Each server uses the same directory, which is created again when the next server starts.
    let directory = scratch.path(&format!("weir-demo-{}-0", child.id()));
    let made = || {
        let data = std::fs::metadata(&directory).ok()?;
        Some((data.ino(), data.ctime(), data.ctime_nsec()))
    };
    let mut first = None;
    wait("the first begins", || {
        first = made();
        first.is_some()
    });
    // The server creates its socket in this directory, which changes the directory's ctime.
    wait("its server begins", || directory.join("nbd.sock").exists());
    first = made();
    wait("the second begins", || {
        let now = made();
        now.is_some() && now != first
    });
    signal(&child, Signal::INT);
    let said = child.wait_with_output().unwrap();
    let (out, err) = (said.stdout, said.stderr);
    let (out, err) = (String::from_utf8_lossy(&out), String::from_utf8_lossy(&err));
    assert_eq!(said.status.code(), Some(130), "{err}");
    let missing = "1 of 3 runs; missing: 1 of 1 on demo (bfq @serve, contract @serve)";
    assert!(err.ends_with(&format!("interrupted: {missing}\n")), "{err}");
    has(&err, "wrote weir-demo.html\n");
    assert!(out.starts_with("none: "), "{out}");
    let page = scratch.read("weir-demo.html");
    assert!(page.contains(&format!("Interrupted: {missing}.")));
    let records = scratch.read("records.json");
    assert_eq!(records.lines().count(), CLIENTS);
    assert!(
        records
            .lines()
            .all(|line| line.contains("\"policy\":\"none\""))
    );
    assert_eq!(scratch.names(), ["records.json", "weir-demo.html"]);
}

#[test]
fn the_demo_reads_an_image_and_does_not_change_its_data() {
    let scratch = Scratch::new();
    // The data has a pattern, so that a write by the demo would be noticed.
    let data: Vec<u8> = (0..32 << 20).map(|i: u32| (i ^ i >> 9) as u8).collect();
    std::fs::write(scratch.path("image"), &data).unwrap();
    let line = "demo --json - --seconds 1 --policy contract --file image";
    let said = run(&scratch, line);
    if said.err.contains("O_DIRECT") {
        eprintln!("skipped: no file system here that can be read past the page cache");
        return;
    }
    let records = common::records(&said.ended(0).out);
    assert_eq!(records.len(), CLIENTS);
    for record in &records {
        assert_eq!(record["drive"], "image");
        assert!(
            number(record, "requests") > 0.0 && record["errors"].is_null(),
            "{record}"
        );
    }
    let promised = number(of(&records, "contract", "target"), "promised_mb_per_s");
    assert!(promised > 0.0 && promised <= 10.0, "{promised}");
    assert!(std::fs::read(scratch.path("image")).unwrap() == data);
    assert_eq!(scratch.names(), ["image", "weir-demo.html"]);
}
