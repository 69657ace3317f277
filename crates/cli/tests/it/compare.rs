//! Comparisons: the input that they refuse, their output, and the absence of violations.

use crate::common;
use crate::common::{
    CommandOutput, Scratch, golden, golden_text, has, record_of, run, signal, weir,
};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// A disk for tests, which is not a real product.
const DISK: &str = r#"
name = "disk"
about = """
A disk for tests
"""
kind = "hdd"
outer.bytes = "160GiB"
outer.rate = "110MB/s"
middle.bytes = "160GiB"
middle.rate = "90MB/s"
inner.bytes = "160GiB"
inner.rate = "60MB/s"
rpm = 7200
seek.track = "1ms"
seek.average = "12ms"
seek.full = "22ms"
settle = "500us"
tags = 32
ageing = "300ms"
overhead = "100us"
link = "300MB/s"
segments = 16
segment = "512KiB"
write_cache = "8MiB"
flush = "0s"
"#;

#[test]
fn compare_refuses() {
    let scratch = Scratch::new();
    scratch.file("bad.toml", &DISK.replace("rpm = 7200", "rpm = 0"));
    scratch.file(
        "unknown.toml",
        &DISK.replace("segments =", "segment_count ="),
    );
    scratch.file("disk.toml", DISK);
    scratch.file("slower.toml", &DISK.replace("rpm = 7200", "rpm = 5400"));
    scratch.file("jobs.fio", "[a]\ncgroup=one\nsize=1g\nruntime=1\n");
    let asks = "[[client]]\nname = \"a\"\nsize = \"1MiB\"\n";
    scratch.file("asks-nothing.toml", asks);
    golden(
        "compare-refuses",
        &scratch,
        "\
compare
compare latencies
compare latency --drive plextor-px-256m5
compare latency --drive floppy
compare latency --drive nowhere.toml
compare latency --drive bad.toml
compare latency --drive unknown.toml
compare latency --drive disk.toml --drive slower.toml
compare latency --policy io.latncy
compare latency --policy noop
compare latency --policy 'bfq + none'
compare latency --policy nowhere.toml
compare latency --policy bad.toml
compare latency --case reader
compare max --case readers
compare s-suite --case readers
compare nowhere.toml
compare jobs.fio
scenarios --from jobs.fio
scenarios --from asks-nothing.toml
scenarios --from nowhere.fio
scenarios --from -
scenarios --from
scenarios latency --from jobs.fio
compare asks-nothing.toml --check
compare latency --repetitions 0
compare latency --repetitions 1000000
compare latency --jobs 0
compare latency --seconds 0
compare latency --seconds many
compare latency --html -
compare latency --html nowhere/page.html
compare latency --json nowhere/records.json
",
    );
    let left = "asks-nothing.toml bad.toml disk.toml jobs.fio slower.toml unknown.toml";
    assert_eq!(scratch.names().join(" "), left, "nothing is left");
}

fn compare(scratch: &Scratch, arguments: &str) -> CommandOutput {
    run(scratch, &format!("compare {arguments}")).ended(0)
}

/// A short comparison on a disk and on a null drive.
const SHORT: &str = "latency --drive disk.toml --drive demo --repetitions 2 --seconds 1";

/// Returns the page of a short comparison.
fn page(scratch: &Scratch, scenario: &str) -> String {
    let short = format!("{scenario} --repetitions 1 --seconds 2 --html page.html");
    compare(scratch, &short);
    scratch.read("page.html")
}

/// Plays the shipped scenarios whose plots have the most data, each with all of its cases, policies
/// and drives.
#[test]
fn the_page_of_the_largest_scenarios_has_less_than_2_mb() {
    let scratch = Scratch::new();
    for name in ["bandwidth-latency", "interleaved", "video"] {
        let page = page(&scratch, name);
        assert!(page.len() <= 2_000_000, "{name}: {} bytes", page.len());
    }
}

/// A headline about latency would be wrong if the scenario is about the division of bandwidth or
/// about a promise.
#[test]
fn a_page_leads_with_the_figure_of_its_scenario() {
    let scratch = Scratch::new();
    for (name, said) in [
        ("shares", "the largest distance from the shares is"),
        ("max", "the largest distance from the maximums is"),
        (
            "contract",
            "seconds in which the promise to the target is kept is 0 % under none,",
        ),
        ("cfq-shares", "the bandwidth of the target is"),
        ("latency-sporadic", "the mean latency of the target is"),
        ("storm", "the part of all promises that is kept is"),
    ] {
        let page = page(&scratch, name);
        let (_, lead) = page.split_once("<p class=\"lead\">").expect(name);
        let (lead, _) = lead.split_once("</p>").expect(name);
        assert!(lead.contains(said), "{name}: {lead}");
    }
}

#[test]
fn a_suite_is_played_for_one_page() {
    let scratch = Scratch::new();
    let line = "s-suite --drive demo --policy none --policy contract --repetitions 1 --seconds 1 --html page.html --json records.json";
    let said = compare(&scratch, line);
    let heads = said.out.lines().filter_map(|l| l.strip_prefix("# "));
    let heads: Vec<&str> = heads.collect();
    let names = [
        "throughput",
        "startup",
        "video",
        "fairness",
        "bandwidth-latency",
        "equal-weights",
        "latency",
    ];
    assert_eq!(heads, names);
    let page = scratch.read("page.html");
    for name in names {
        assert!(page.contains(&format!("<h2>{name} on demo</h2>")), "{name}");
    }
    for picture in [
        "Runtime of the program",
        "Number of late requests of the player",
        "total under none",
        "minimum",
    ] {
        assert!(page.contains(picture), "{picture}");
    }
    assert!(!page.contains("src=\"http") && !page.contains("href=\"http"));
    let records = scratch.read("records.json");
    let mut played: Vec<String> = Vec::new();
    for record in common::records(&records) {
        let name = record["scenario"].as_str().expect("a name").to_owned();
        if played.last() != Some(&name) {
            played.push(name);
        }
    }
    assert_eq!(played, names);
}

/// Returns a command line with these policies.
fn under(line: &str, policies: &[&str]) -> String {
    let policies = policies.iter().map(|policy| format!(" --policy {policy}"));
    line.to_owned() + &policies.collect::<String>()
}

#[test]
fn each_drive_has_a_table_of_its_own() {
    let scratch = Scratch::new();
    scratch.file("disk.toml", DISK);
    let policies = ["none", "io.latency", "bfq", "contract"];
    // Two drives, two cases, four policies and two repetitions are 32 runs.
    let said = compare(&scratch, &under(SHORT, &policies));
    golden_text("compare", &said.out);
    // The priority of the target is no class of a contract, because realtime needs a max.
    has(&said.err, "client[0].ionice: has no effect");
    let last = said.err.lines().last().expect("it says how many");
    assert!(
        last.starts_with("32 runs in ") && last.ends_with(" s"),
        "{last}"
    );
}

#[test]
fn the_scenarios_of_the_demo_are_compared_on_any_drive() {
    let scratch = Scratch::new();
    scratch.file("disk.toml", DISK);
    for scenario in ["contract", "equal-readers", "shares", "max"] {
        for drive in ["demo", "disk.toml"] {
            let line = format!("{scenario} --drive {drive} --repetitions 1 --seconds 2");
            let said = compare(&scratch, &line);
            has(&said.out, "\nnone");
            assert!(!said.out.contains("case"), "it has one: {}", said.out);
        }
    }
}

#[test]
fn records_are_in_order_and_say_where_time_went() {
    let scratch = Scratch::new();
    scratch.file("disk.toml", DISK);
    let said = compare(&scratch, &format!("{SHORT} --json - --html page.html"));
    has(&said.err, "wrote page.html");
    let records = common::records(&said.out);
    let mut at = records.iter();
    for drive in ["disk", "demo"] {
        for case in ["readers", "writers"] {
            for policy in ["none", "io.latency", "bfq-5.3", "bfq"] {
                for repeat in 0..2 {
                    // A run has 17 records: the target, 15 other clients, and the total.
                    let run: Vec<&Value> = at.by_ref().take(17).collect();
                    for record in &run {
                        assert_eq!(record["drive"], drive);
                        assert_eq!(record["case"], case);
                        assert_eq!(record["policy"], policy);
                        assert_eq!(record["repeat"], repeat);
                    }
                    assert_eq!(
                        (&run[0]["client"], &run[16]["client"]),
                        (&"target".into(), &"total".into())
                    );
                    let split = &run[0]["split_us"];
                    let part = |key: &str| split[key].as_f64().expect("a number");
                    assert!(part("queue") <= part("drive") && part("idle") <= part("elevator"));
                }
            }
        }
    }
    assert_eq!(at.next(), None);
    let page = scratch.read("page.html");
    for word in [
        "disk",
        "demo",
        "Beside writers",
        "io.latency",
        "waiting while the elevator idles",
    ] {
        assert!(page.contains(word), "{word}");
    }
    assert!(page.len() < 2_000_000 && !page.contains("NaN"));
}

/// A client whose min is more than it gets under `none`, and an expectation about the total.
const OWN: &str = r#"
[[client]]
name = "small"
rw = "randread"
direct = true
size = "64MiB"
min = "10MB/s"

[[client]]
name = "large"
numjobs = 15
bs = "128KiB"
iodepth = 2
direct = true
size = "64MiB"

[[expect]]
promise = "small"

[[expect]]
figure = "bandwidth"
client = "total"
at_least = "90%"
beside = "none"

[[published]]
policy = "contract"
figure = "mean"
value = "400us"
source = "a paper"
"#;

#[test]
fn a_scenario_of_the_user_is_compared_and_checked() {
    let scratch = Scratch::new();
    scratch.file("own.toml", OWN);
    let check = "compare own.toml --repetitions 1 --seconds 1 --check";
    let both = run(&scratch, &under(check, &["none", "contract"])).ended(1);
    let failed = "error: 1 of 4 requirements are not met:\n  demo, none: The small got 0.26 of 10 MB/s promised and fell short in 1 of 1 s, at worst 3% of what it was owed (second 1), because of a neighbour: large-09.";
    // Under `none`, the small client misses its min. The other three requirements are met.
    has(&both.err, failed);
    let text = both.out.replace('\n', " ");
    has(&text, "bandwidth of total");
    has(&text, "contract: The bandwidth of total is");
    has(&text, "of that under none, as asked (at least 90%).");
    has(&text, "contract: mean 400 us published (a paper); here");
    // Without a run of `none`, an expectation relative to `none` cannot be judged.
    let alone = run(&scratch, &under(check, &["contract"]));
    has(&alone.err, "is not known of that under none");
}

#[test]
fn a_job_file_of_fio_is_compared() {
    let scratch = Scratch::new();
    let jobs = "[global]\nioengine=libaio\ndirect=1\nsize=64m\nruntime=1\ntime_based\ngroup_reporting\n\
                [a]\nrw=randread\niodepth=4\n[b]\nrw=read\nbs=128k\nnumjobs=2\n";
    scratch.file("jobs.fio", jobs);
    let said = compare(&scratch, "jobs.fio --repetitions 1 --json -");
    has(&said.err, "jobs.fio:7:1: group_reporting: has no effect");
    let drive =
        "no --drive given: jobs is played on samsung-970-pro; run `weir drives` for a list\n";
    has(&said.err, drive);
    // Without --drive, the choice of the drive is stated with the table as well.
    let short = "jobs.fio --repetitions 1 --policy none";
    let shown = compare(&scratch, short);
    assert!(shown.out.starts_with(drive), "{}", shown.out);
    let chosen = compare(&scratch, &format!("{short} --drive demo"));
    let all = chosen.out + &chosen.err;
    assert!(!all.contains("no --drive"), "{all}");
    let clients = common::records(&said.out);
    assert!(clients.iter().all(|r| r["drive"] == "samsung-970-pro"));
    // Jobs with `numjobs` have numbered names.
    let names: Vec<_> = clients[..4].iter().map(|r| &r["client"]).collect();
    assert_eq!(names, ["a", "b-01", "b-02", "total"]);
    assert!(
        clients
            .iter()
            .all(|r| r["scenario"] == "jobs" && r["requests"] != 0)
    );
    // A misspelt option is refused with a suggestion.
    scratch.file("bad.fio", &jobs.replace("iodepth", "io_depth"));
    let said = run(&scratch, "compare bad.fio").ended(1);
    let told = "bad.fio:10:1: io_depth: unknown option\n  help: did you mean iodepth?\n1 problem\n";
    assert_eq!(said.err, told);
}

#[test]
fn each_job_is_measured_over_its_own_time() {
    let scratch = Scratch::new();
    let jobs = "[global]\nrw=randread\nsize=256m\ndirect=1\ntime_based\nnorandommap\nioengine=libaio\niodepth=4\n\
                [short]\nruntime=1\n[long]\nruntime=6\n[late]\nstartdelay=4\nruntime=2\n";
    scratch.file("jobs.fio", jobs);
    let said = compare(&scratch, "jobs.fio --repetitions 1 --policy none --json -");
    let records = common::records(&said.out);
    let number = |record: &Value, key: &str| record[key].as_f64().unwrap_or_default();
    for (client, begins, seconds) in [("short", 0.0, 1.0), ("long", 0.0, 6.0), ("late", 4.0, 2.0)] {
        let record = record_of(&records, &[("client", client)]);
        for key in ["bandwidth_mb_per_s", "worst_second_mb_per_s"] {
            let got = number(record, key);
            assert!((220.0..240.0).contains(&got), "{key}: {record}");
        }
        assert!(
            (number(record, "begins_s") - begins).abs() < 0.001,
            "{record}"
        );
        assert!(
            (number(record, "seconds") - seconds).abs() < 0.001,
            "{record}"
        );
    }
}

#[test]
fn a_key_of_a_contract_is_changed_on_the_command_line() {
    let scratch = Scratch::new();
    let jobs = "[global]\nrw=randread\nsize=256m\ndirect=1\ntime_based\nruntime=2\nioengine=libaio\niodepth=4\n\
                [a]\n[b]\nnumjobs=3\n";
    scratch.file("jobs.fio", jobs);
    let options = "jobs.fio --repetitions 1 --policy contract";
    let set = "--set a.max=10MB/s --set b-02.max.iops=1000";
    let said = compare(&scratch, &format!("{options} {set} --json -"));
    let records = common::records(&said.out);
    let got = |client: &str| {
        let record = record_of(&records, &[("client", client)]);
        record["bandwidth_mb_per_s"].as_f64().unwrap_or_default()
    };
    // 1000 requests of 4 KiB per second are 4.096 MB/s.
    for (client, expected) in [("a", 10.0), ("b-02", 4.096)] {
        assert!(
            (got(client) / expected - 1.0).abs() < 0.02,
            "{client}: {}",
            said.out
        );
    }
    assert!(got("b-01") > 20.0 && got("b-03") > 20.0, "{}", said.out);
    for (set, told) in [
        (
            "c.max=1MB/s",
            "c.max=1MB/s: no client and no group has this name\n  help: use one of a, b-01, b-02, b-03",
        ),
        (
            "a.max=1MB",
            "a.max=1MB: \"1MB\" is a size, not a rate\n  help: write \"1MB/s\"",
        ),
        (
            "a.mx=1MB/s",
            "a.mx does not end in one of the keys min, min_iops, share, max, class",
        ),
    ] {
        let said = run(&scratch, &format!("compare {options} --set {set}"));
        assert_ne!(said.status, Some(0));
        has(&said.err, told);
    }
}

#[test]
fn a_job_that_ends_in_the_ramp_is_reported_as_not_measured() {
    let scratch = Scratch::new();
    let jobs = "[a]\nrw=read\nbs=64k\ndirect=1\nsize=16m\nramp_time=2\nruntime=10\n";
    scratch.file("jobs.fio", jobs);
    let said = compare(&scratch, "jobs.fio --policy none");
    let row = said.out.lines().find(|line| line.starts_with("a  "));
    let row = row.unwrap_or_else(|| panic!("{}", said.out));
    has(row, "ended in the warm-up");
    assert!(!row.contains("0.00"), "{row}");
    let words = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    has(
        &words,
        "Not measured: a. The measurement begins after a warm-up of 2.00 s",
    );
}

/// Jobs have groups of their own. If policies still have no settings to apply, the table states the
/// reason and what to add.
#[test]
fn equal_rows_have_a_reason_and_a_remedy() {
    let scratch = Scratch::new();
    let jobs = "[global]\nrw=randread\nsize=64m\ndirect=1\ntime_based\nruntime=1\nioengine=libaio\n\
                [a]\niodepth=4\n[b]\niodepth=64\n";
    let words = |names: &[&str]| {
        let said = compare(&scratch, &under("jobs.fio --repetitions 1", names));
        said.out.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    scratch.file("jobs.fio", jobs);
    let said = words(&["none", "io.max", "io.cost", "contract"]);
    let reason = "none and io.max give equal results, because no client has a contract for them to act on. Add max,";
    has(&said, reason);
    // With a priority, all jobs are in one group, so that io.cost has nothing to divide.
    let prioritised = format!("{jobs}prio=7\n");
    scratch.file("jobs.fio", &prioritised);
    let said = words(&["none", "io.cost"]);
    let reason = "none and io.cost give equal results, because all clients are in one group";
    has(&said, reason);
}

/// A job file and the scenario that is generated from it give the same records. With contracts in
/// the scenario, they differ.
#[test]
fn a_job_file_becomes_a_scenario_to_add_contracts_to() {
    let scratch = Scratch::new();
    let jobs = "[global]\nioengine=libaio\ndirect=1\nsize=64m\nruntime=1\ntime_based\nunlink=1\n\
                [hot]\nrw=randread\nrandom_distribution=zipf:1.1\niodepth=4\n[b]\nrw=write\nbs=128k\nnumjobs=2\n";
    scratch.file("jobs.fio", jobs);
    scratch.file("jobs.ini", jobs);
    let printed = run(&scratch, "scenarios --from jobs.fio").ended(0);
    has(&printed.err, "jobs.fio:7:1: unlink: has no effect");
    scratch.file("mine.toml", &printed.out);
    let short = "--repetitions 1 --policy contract --json -";
    let play = |file| compare(&scratch, &format!("{file} {short}")).out;
    let played = play("jobs.fio");
    assert_eq!(play("mine.toml"), played);
    // Each job has a group of its own, so that contracts can be added to it.
    assert!(printed.out.contains("\ngrouping = \"each\"\n"));
    let contracts = printed.out.replacen("# max = ", "max = ", 1);
    scratch.file("mine.toml", &contracts);
    assert_ne!(play("mine.toml"), played);
    // The extension of a job file does not matter.
    let ini = run(&scratch, "scenarios --from jobs.ini");
    assert_eq!(ini.out, printed.out.replacen("jobs.fio", "jobs.ini", 1));
}

#[test]
fn shares_and_maximums_are_shown_with_their_ratios() {
    let scratch = Scratch::new();
    let one = "--repetitions 1 --seconds 2 --policy contract";
    let shares = compare(&scratch, &format!("shares {one}"));
    has(&shares.out, "1.00 : 2.00 : 4.00 : 8.00");
    let max = compare(&scratch, &format!("max --check {one}"));
    has(&max.out, "of max 5, 10, 20, 40");
}

#[test]
fn auditors_find_nothing() {
    let scratch = Scratch::new();
    scratch.file("disk.toml", DISK);
    let line = under(SHORT, &["none", "contract"]);
    let audited = compare(&scratch, &format!("{line} --audit"));
    let plain = compare(&scratch, &line);
    // Auditors must not change the results.
    assert_eq!(audited.out, plain.out, "they only watch");
}

/// One client reads at random places in one case, and sequentially in the other.
const CASES: &str = r#"
policies = ["none", "bfq"]
repetitions = 4

[[client]]
name = "a"
numjobs = 2
rw = "read"
direct = true
size = "64MiB"

[case.in-order]

[case.anywhere.client.a]
rw = "randread"
"#;

#[test]
fn a_case_without_random_choices_is_played_once() {
    let scratch = Scratch::new();
    scratch.file("cases.toml", CASES);
    let line = "cases.toml --seconds 1 --json records.json";
    let said = compare(&scratch, line);
    let told =
        "Nothing is drawn on demo (in-order): one run of each, since 4 would all be the same.";
    let out = said.out.replace('\n', " ");
    assert!(out.contains(told) && out.contains("up to 4 runs"), "{out}");
    has(&said.err, "10 runs in ");
    let records = common::records(&scratch.read("records.json"));
    let repeats = |case: &str| {
        let mine = records.iter().filter(|r| r["case"] == case);
        let total = mine.filter(|r| r["client"] == "total");
        let repeats = total.map(|r| r["repeat"].as_u64().unwrap());
        repeats.collect::<Vec<_>>()
    };
    assert_eq!(repeats("in-order"), [0, 0]);
    assert_eq!(repeats("anywhere"), [0, 1, 2, 3, 0, 1, 2, 3]);
    let line = format!("{line} --case in-order");
    let said = compare(&scratch, &line);
    let told = "Nothing is drawn: one run of each";
    let out = said.out.replace('\n', " ");
    assert!(
        out.contains(told) && out.contains("got: mean of one run"),
        "{out}"
    );
    has(&said.err, "2 runs in ");
    // The figures of one run are those of every run.
    let one = compare(&scratch, &format!("{line} --repetitions 1"));
    let table = |said: &CommandOutput| {
        said.out
            .split("A promise is kept")
            .next()
            .map(str::to_owned)
    };
    assert_eq!(table(&said), table(&one));
    assert!(!one.out.contains("Nothing is drawn"), "{}", one.out);
}

/// The second case does not fit the drive, which the first run of that case finds out.
#[test]
fn rows_before_a_run_that_fails_are_printed() {
    let scratch = Scratch::new();
    let text = "name = \"x\"\nduration = \"1s\"\n[[client]]\nname = \"a\"\nsize = \"1MiB\"\ndirect = true\n\
                [case.small]\n[case.large.client.a]\nsize = \"900GiB\"\n";
    scratch.file("x.toml", text);
    let line =
        "compare x.toml --drive plextor-px-256m5s --policy none --policy bfq --json out.json";
    let said = run(&scratch, line).ended(1);
    has(&said.out, "Case small:");
    has(
        &said.out,
        "A run failed: 2 of 22 runs; missing: 10 of 10 on plextor-px-256m5s (large).",
    );
    has(
        &said.err,
        "error: x on plextor-px-256m5s, large, none: client a: the files do not fit",
    );
    // Each of the two runs has a record of its client, and one of the total.
    assert_eq!(common::records(&scratch.read("out.json")).len(), 4);
    let with_jobs = run(&scratch, &format!("{line} --jobs 4")).ended(1);
    assert_eq!(with_jobs.out, said.out);
}

/// The rights are checked before the file is read.
#[test]
fn linux_is_refused_without_root() {
    let scratch = Scratch::new();
    // Every user can find this file.
    let command = weir(&scratch, "compare max --on linux --device /proc/version");
    let mut dropped = Command::new("setpriv");
    dropped
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(command.get_program())
        .args(command.get_args());
    let output = dropped.output();
    let Some(output) = output.ok().filter(|o| !o.stderr.starts_with(b"setpriv")) else {
        println!("skipped: setpriv(1) is not there or not permitted");
        return;
    };
    let said = String::from_utf8(output.stderr).expect("it is text");
    has(
        &said,
        "only root can change the settings of devices and cgroups",
    );
    assert_eq!(output.status.code(), Some(2), "{said}");
}

#[test]
fn an_interrupt_shows_completed_runs_and_names_missing_runs() {
    let scratch = Scratch::new();
    scratch.file("own.toml", OWN);
    let words = "compare own.toml --seconds 1 --repetitions 10000 --check --json records.json --html page.html \
                 --policy none --policy contract";
    let mut command = weir(&scratch, words);
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::from("note: ");
    // Notes about the mapping of contracts to policies come first.
    while line.starts_with("note: ") {
        line.clear();
        err.read_line(&mut line).unwrap();
    }
    // The estimate is printed when each policy has been played once.
    assert!(line.starts_with("about "), "{line}");
    has(&line, " left for 20000 runs, ");
    signal(&child, Signal::INT);
    let (mut out, mut rest) = (String::new(), String::new());
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_to_string(&mut out).unwrap();
    err.read_to_string(&mut rest).unwrap();
    // 128 + SIGINT (2), as for a shell.
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
    let last = rest.lines().last().unwrap();
    let missing = last.strip_prefix("interrupted: ").unwrap();
    let (played, missing) = missing.split_once(" of 20000 runs; missing: ").unwrap();
    let played: usize = played.parse().unwrap();
    let check = "; --check is not judged for an incomplete run";
    assert!(
        missing.contains(" of 10000 ") && missing.ends_with(check),
        "{last}"
    );
    has(&rest, &format!("{played} runs in "));
    assert!(!rest.contains("error"), "{rest}");
    let said = out.replace('\n', " ");
    let note = format!("Interrupted: {played} of 20000 runs; missing: ");
    assert!(said.contains(&note), "{out}");
    for policy in ["\nnone ", "\ncontract "] {
        has(&out, policy);
    }
    let page = scratch.read("page.html");
    assert!(page.contains(&note) && !page.contains("NaN"));
    let records = scratch.read("records.json");
    // Each run has 17 records: 16 clients and the total.
    assert_eq!(records.lines().count(), played * 17);
    assert_eq!(scratch.names(), ["own.toml", "page.html", "records.json"]);
}

#[test]
fn an_interrupt_in_the_first_run_leaves_nothing_behind() {
    let scratch = Scratch::new();
    scratch.file("own.toml", OWN);
    let line = "compare own.toml --seconds 3600 --json records.json";
    let mut command = weir(&scratch, line);
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = piped.spawn().unwrap();
    common::wait("it begins", || scratch.names().len() == 2);
    signal(&child, Signal::TERM);
    let said = child.wait_with_output().unwrap();
    // 128 + SIGTERM (15).
    assert_eq!(said.status.code(), Some(143));
    let err = String::from_utf8_lossy(&said.stderr);
    assert!(said.stdout.is_empty() && !err.contains("about"), "{err}");
    // The file for records was created at the start and is removed again.
    assert_eq!(scratch.names(), ["own.toml"]);
}

/// The table of clients, the table of latencies and the line about the expectation show the p99 of
/// the same run, which is the run with the highest p99.
#[test]
fn a_p99_is_the_same_in_every_table() {
    let scratch = Scratch::new();
    let text = "name = \"p\"\nduration = \"1s\"\ntarget = \"db\"\ndrives = [\"seagate-st3808110as\"]\npolicies = [\"bfq\"]\n\
                [[client]]\nname = \"db\"\nrw = \"randread\"\nbs = \"4KiB\"\niodepth = 1\nsize = \"10GiB\"\ndirect = true\n\
                [[client]]\nname = \"scan\"\nrw = \"read\"\nbs = \"1MiB\"\niodepth = 4\nsize = \"10GiB\"\ndirect = true\n\
                [[expect]]\nfigure = \"p99\"\nclient = \"db\"\nat_most = \"1ms\"\n";
    scratch.file("p.toml", text);
    let out = compare(&scratch, "p.toml --repetitions 5").out;
    let after = |start: &str, skip: usize| {
        let mut line = out.lines().filter(|line| line.starts_with(start));
        let line = line.next_back().unwrap_or_else(|| panic!("{start}: {out}"));
        let words: Vec<&str> = line.split_whitespace().skip(skip).take(2).collect();
        words.join(" ")
    };
    // The words that follow the sentence are the value and its unit.
    let asked = after("bfq: The p99 of db is", 6);
    let asked = asked.trim_end_matches(',').to_owned();
    assert_eq!(after("bfq  ", 1), asked, "{out}");
    // The row has the mean, the deviation and n, with two words for each time.
    let mut latencies = out.lines().filter(|line| line.starts_with("bfq  "));
    let p99 = latencies.next_back().unwrap().matches(&asked).count();
    let clients = out.lines().find(|line| line.starts_with("db "));
    assert!(
        p99 == 2 && clients.is_some_and(|line| line.contains(&asked)),
        "{out}"
    );
}
