//! Plans: the input that they refuse, and the minimum number of drives that they find.

use crate::common;
use crate::common::{Scratch, golden, has, run};
use serde_json::json;
use weir_measure::Need;

/// Four clients with a min of 40 MB/s on drives of 100 MB/s. Two of them fit on a drive, so they
/// need two drives if promises are kept.
const CONTRACTS: &str = r#"
name = "four"
load = "Four clients read 64 KiB at random places."
drives = ["flat.toml"]
policies = ["none", "contract"]
duration = "2s"
repetitions = 2

[[client]]
name = "reader"
numjobs = 4
rw = "randread"
bs = "64KiB"
iodepth = 4
direct = true
size = "64MiB"
min = "40MB/s"
"#;

const DRIVE: &str = r#"
name = "flat"
about = "a drive for tests"
kind = "null"
service = "100us"
link = "100MB/s"
tags = 32
"#;

#[test]
fn plan_refuses() {
    let scratch = Scratch::new();
    scratch.file("flat.toml", DRIVE);
    scratch.file("four.toml", CONTRACTS);
    scratch.file("free.toml", &CONTRACTS.replace("min = \"40MB/s\"", ""));
    golden(
        "plan-refuses",
        &scratch,
        "\
plan
plan servces
plan four.toml --drive floppy
plan four.toml --case readers
plan four.toml --policy bqf
plan four.toml --keep 101
plan four.toml --html -
plan free.toml
",
    );
}

#[test]
fn promises_that_fit_twice_on_a_drive_take_half_as_many_drives() {
    let scratch = Scratch::new();
    scratch.file("flat.toml", DRIVE);
    scratch.file(
        "fast.toml",
        &DRIVE.replace("flat", "fast").replace("100MB", "200MB"),
    );
    scratch.file("four.toml", CONTRACTS);
    let line = "plan four.toml --drive flat.toml --drive fast.toml";
    let said = run(&scratch, line);
    let drives = |policy: &str| -> Vec<&str> {
        let lines = said.out.lines().filter_map(|l| l.strip_prefix(policy));
        lines.filter_map(|l| l.split_whitespace().next()).collect()
    };
    // Only whole drives are counted, of both kinds.
    assert_eq!(drives("a drive each"), ["4", "4"], "{}", said.out);
    // Two clients of 40 MB/s fit on a drive of 100 MB/s, and all four on one of 200 MB/s.
    assert_eq!(drives("contract"), ["2", "1"], "{}", said.out);
    has(&said.out, "2 of 2");
    let text = said.out.replace('\n', " ");
    let why = "Why 2 drives under contract: with one drive, 4 clients share one, and the contracts cannot be admitted: the promises add up to 160MB/s and take 160.0 %";
    assert!(text.contains(why), "{}", said.out);
    assert!(
        said.out
            .starts_with("4 clients with 160.0 MB/s promised together."),
        "{}",
        said.out
    );
}

/// With two clients on a drive of 100 MB/s, each of them gets 50 MB/s. With three drives for four
/// clients, two clients have a drive each, so that the average is 75 MB/s.
#[test]
fn plan_keeps_an_average_too_and_says_which_of_both_limits() {
    let scratch = Scratch::new();
    scratch.file("flat.toml", DRIVE);
    scratch.file("four.toml", CONTRACTS);
    for (average, drives, limit, why) in [
        ("45MB/s", 2, "min", "the contracts cannot be admitted"),
        (
            "60MB/s",
            3,
            "average",
            "clients get an average of 50.00 of 60.00 MB/s",
        ),
    ] {
        let line = format!("plan four.toml --policy contract --average {average} --json plan.json");
        let said = run(&scratch, &line);
        let lines = common::records(&scratch.read("plan.json"));
        assert_eq!(lines[1]["drives"], json!(drives), "{}", said.out);
        assert_eq!(lines[1]["limited_by"], json!(limit), "{}", said.out);
        has(&said.out, "limited by");
        let row = said.out.lines().find(|line| line.starts_with("contract"));
        assert!(row.is_some_and(|row| row.ends_with(limit)), "{}", said.out);
        let text = said.out.replace('\n', " ");
        has(&text, &format!("Why {drives} drives under contract: with "));
        has(&text, why);
    }
    // No number of drives gives more than a drive for each client.
    let said = run(
        &scratch,
        "plan four.toml --policy contract --average 200MB/s --json -",
    );
    let lines = common::records(&said.out);
    assert_eq!(lines[1]["drives"], json!(null));
    assert_eq!(lines[1]["limited_by"], json!("average"));
    assert_eq!(lines[1]["average_asked_mb_per_s"], json!(200.0));
}

/// Without a min in the elevator, admission refuses nothing, so the reason for the number of drives
/// is a client that was short.
#[test]
fn plan_names_the_client_that_is_short_with_fewer_drives() {
    let scratch = Scratch::new();
    scratch.file("flat.toml", DRIVE);
    let scan = "\n[[client]]\nname = \"scan\"\nnumjobs = 8\nrw = \"read\"\nbs = \"1MiB\"\niodepth = 8\ndirect = true\nsize = \"64MiB\"\n";
    let contracts = CONTRACTS
        .replace("40MB/s", "20MB/s")
        .replace("iodepth = 4", "iodepth = 1");
    scratch.file("scans.toml", &(contracts + scan));
    let said = run(&scratch, "plan scans.toml --policy none");
    let text = said.out.replace('\n', " ");
    assert!(text.contains(" under none: with "), "{}", said.out);
    assert!(
        text.contains("and reader-") && text.contains(" MB/s promised"),
        "{}",
        said.out
    );
}

/// One client has a min in bytes, and others in requests. Two clients share the min of their group.
#[test]
fn plan_counts_promises_in_bytes_and_requests_and_writes_json() {
    let scratch = Scratch::new();
    scratch.file("flat.toml", DRIVE);
    let contracts = CONTRACTS.replace("min = \"40MB/s\"", "min_iops = 100").replace(
        "[[client]]",
        "[[group]]\nname = \"both\"\nmin = \"10MB/s\"\n\n\
         [[client]]\nname = \"bytes\"\nnumjobs = 2\ngroup = \"both\"\nrw = \"read\"\nbs = \"64KiB\"\ndirect = true\nsize = \"64MiB\"\n\n\
         [[client]]",
    );
    scratch.file("mixed.toml", &contracts);
    let said = run(&scratch, "plan mixed.toml --policy contract --json -");
    let lines = common::records(&said.out);
    assert_eq!(lines.len(), 2, "{} {}", said.out, said.err);
    let documented: Vec<&str> = Need::KEYS.iter().map(|key| key.0).collect();
    for line in &lines {
        let keys = line.as_object().expect("an object").keys();
        let mut keys: Vec<&str> = keys.map(String::as_str).collect();
        let mut documented = documented.clone();
        keys.sort_unstable();
        documented.sort_unstable();
        assert_eq!(keys, documented);
        assert_eq!(
            (
                &line["clients"],
                &line["promised_mb_per_s"],
                &line["promised_iops"]
            ),
            (&json!(6), &json!(10.0), &json!(400))
        );
    }
    assert_eq!(lines[1]["policy"], "contract");
    assert_eq!(lines[1]["drives"], lines[1]["searches"][0]);
    let shown = run(
        &scratch,
        "plan mixed.toml --policy contract --json plan.json",
    );
    let head = "6 clients with 10.00 MB/s and 400 requests/s promised together.";
    assert!(shown.out.starts_with(head), "{}", shown.out);
    assert_eq!(scratch.read("plan.json"), said.out);
}
