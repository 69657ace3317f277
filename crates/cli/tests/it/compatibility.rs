//! Files that Weir 0.1 wrote, or that were written for it, and their meaning to the present program
//! (`docs/compatibility.md`).
//!
//! The files in `tests/data/0.1` are as 0.1 wrote them, except that paths of the machine on which
//! they were made are replaced. A release that breaks one of these tests must say so in the
//! changelog, and its refusal must say what to do.

use crate::common::running::start;
use crate::common::{Scratch, free_port, get, has, records, root, run, weir};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use weir_config::{Server, apply, policy, profile};
use weir_linux::{ApplyJournal, FakeHost, HostPlan};

/// Returns the path of a file of 0.1.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/0.1")
        .join(name)
}

/// Returns the text of a file of 0.1.
fn text(name: &str) -> String {
    fs::read_to_string(path(name)).expect(name)
}

/// Returns a directory with copies of these files of 0.1.
fn copies(names: &[&str]) -> Scratch {
    let scratch = Scratch::new();
    for name in names {
        fs::copy(path(name), scratch.path(name)).expect(name);
    }
    scratch
}

/// Adds the path of each key in a JSON value to `keys`. Keys that are names of clients or causes
/// depend on the result, so they are left out.
fn keys(value: &Value, at: &str, keys: &mut BTreeSet<String>) {
    let Value::Object(object) = value else { return };
    for (key, value) in object {
        let path = format!("{at}.{key}");
        if !["neighbours", "short_by", "excused_by"].contains(&key.as_str()) {
            self::keys(value, &path, keys);
        }
        keys.insert(path);
    }
}

/// Returns the lines `KEY = VALUE` of a TOML text, without comments.
fn assignments(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let lines = lines.filter(|line| line.contains(" = ") && !line.ends_with("\"\"\""));
    lines
        .map(|line| line.split(" #").next().unwrap_or(line).trim_end())
        .collect()
}

/// Checks that the page of the manual contains a text.
fn states(text: &str) {
    let page = fs::read_to_string(root().join("docs/compatibility.md")).unwrap();
    has(&page, text);
}

fn parsed(name: &str) -> Server {
    let problems = |problems: Vec<weir_config::Problem>| panic!("{name}: {problems:#?}");
    weir_config::parse(name, &text(name)).unwrap_or_else(problems)
}

/// 0.1 printed the second file from the first one, with the default of every key that the first one
/// leaves out. Therefore the two differ if a key was renamed, or if its meaning or default changed.
#[test]
fn every_key_of_a_configuration_has_the_same_meaning_and_default() {
    let written = parsed("everything.toml");
    let printed = parsed("everything-with-defaults.toml");
    assert_eq!(written.clone().without_places(), printed.without_places());
    let alpha = written.volume("alpha").unwrap();
    assert_eq!(alpha.contract.min, 10_000_000);
    assert_eq!(alpha.tenant.as_deref(), Some("acme"));
    let capacity = written.drive("disk").unwrap().capacity.unwrap();
    assert_eq!(capacity.write, 3 << 29);
    let manage = &written.manage;
    assert_eq!(manage.audit_size, 1 << 20);
    assert_eq!(written.gateways.unwrap().prefix, "/prod/weir");
}

#[test]
fn contracts_of_a_kernel_have_the_same_meaning() {
    let host = apply::parse("apply.toml", &text("apply.toml")).unwrap();
    let members = host.drives.iter().flat_map(|drive| &drive.members);
    let contracts: Vec<_> = members.map(|member| member.contract).collect();
    assert_eq!((contracts[0].share, contracts[0].max.iops), (700, 0));
    assert_eq!((contracts[1].share, contracts[1].max.iops), (7, 70));
}

/// A server of this program continues with the configuration and the audit file of 0.1. Its
/// interfaces have every name that those of 0.1 had.
#[test]
fn a_server_continues_with_the_files_of_0_1_and_keeps_the_names_of_its_interfaces() {
    let scratch = copies(&["audit.jsonl"]);
    let port = free_port();
    let config = text("weir.toml").replace("/run/weir/", &scratch.at(""));
    scratch.file("weir.toml", &config.replace("9809", &port.to_string()));
    let server = start(&mut weir(&scratch, "serve weir.toml"));
    let ctl = |line: &str| {
        let line = format!("ctl --socket {} {line}", scratch.at("manage.sock"));
        run(&scratch, &line).ended(0).out
    };
    let changes = ctl("changes");
    let lines: Vec<&str> = changes.lines().collect();
    assert_eq!(lines.len(), 3, "the refused change is not among them");
    has(lines[0], "3 22:45:20Z by uid 0");
    has(
        lines[0],
        "undoes 1, volume.alpha.min = \"2MB/s\" (was \"3MB/s\")",
    );
    has(lines[1], "2 22:45:20Z by uid 0");
    has(lines[1], "volume.gamma was added");
    // The number of a change identifies it in the whole file.
    has(&ctl("set alpha min=3MB/s"), "change 4, saved");
    let audit = scratch.read("audit.jsonl");
    assert!(audit.starts_with(&text("audit.jsonl")), "{audit}");
    assert_eq!(audit.lines().count(), 5, "{audit}");
    let metrics = get(port, "/metrics?detail=full").unwrap();
    for line in text("metrics.txt").lines() {
        has(&metrics, line);
    }
    server.end();
}

#[test]
fn the_management_interface_has_every_name_of_0_1() {
    let document = fs::read_to_string(root().join("crates/manage/src/openapi.json")).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let mut names = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let methods = methods.as_object().unwrap().keys();
        names.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        let properties = schema["properties"].as_object();
        let properties = properties.into_iter().flatten();
        names.extend(properties.map(|(key, _)| format!("{name}.{key}")));
    }
    let old = text("api.txt");
    let missing: Vec<&str> = old.lines().filter(|name| !names.contains(*name)).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn a_recording_has_the_same_requests_and_another_version_is_refused() {
    let scratch = copies(&["weir.record", "weir.toml"]);
    let said = run(&scratch, "replay weir.record --audit").ended(0).out;
    has(
        &said,
        "weir.record: identical: 739 calls and 296 decisions over 3.319 s\n",
    );
    let explain = "explain alpha --record weir.record --config weir.toml --json";
    let found: Value = serde_json::from_str(&run(&scratch, explain).ended(0).out).unwrap();
    assert_eq!(
        (&found["requests"], &found["errors"]),
        (&90.into(), &0.into())
    );
    assert_eq!(found["cause"], "own-max");
    assert_eq!(found["promise"]["a_second"], 2_000_000);
    let what_if = "replay weir.record --config weir.toml --policy contract";
    has(&run(&scratch, what_if).ended(0).out, "contract");

    let recording = fs::read(path("weir.record")).unwrap();
    let version = u32::from_le_bytes(recording[8..12].try_into().unwrap());
    states(&format!(
        "a number after the first 8 bytes: {version} in 0.1"
    ));
    for other in [version - 1, version + 1] {
        let forged = [&recording[..8], &other.to_le_bytes(), &recording[12..]].concat();
        scratch.bytes("other.record", &forged);
        for command in ["replay", "explain alpha --record"] {
            let said = run(&scratch, &format!("{command} other.record"))
                .ended(1)
                .err;
            assert_eq!(
                said,
                format!(
                    "error: other.record: the recording has version {other}, but this program \
                     supports version {version}; use the release of Weir that made the recording\n"
                )
            );
        }
    }
}

#[test]
fn results_of_calibrate_have_the_same_meaning_and_another_version_is_refused() {
    let scratch = copies(&["calibration.json"]);
    let init = "init new.toml --calibrated calibration.json --drive fast --directory /srv";
    run(&scratch, init).ended(0);
    let written = scratch.read("new.toml");
    has(&written, "# As weir calibrate measured /srv/measure.img:");
    has(&written, "read = \"1.07GB/s\"");
    has(&written, "read_iops = 63800");
    let other =
        text("calibration.json").replace("\"weir_calibration\":1", "\"weir_calibration\":2");
    scratch.file("calibration.json", &other);
    let said = run(&scratch, "init other.toml --calibrated calibration.json");
    has(
        &said.ended(1).err,
        "it has version 2, but this program supports version 1",
    );
}

#[test]
fn a_profile_and_a_policy_keep_every_value() {
    let old = text("profile.toml");
    let printed = profile::print(&profile::read(&old, "profile.toml").unwrap());
    let printed = assignments(&printed);
    let missing: Vec<&str> = assignments(&old).difference(&printed).copied().collect();
    assert_eq!(missing, [""; 0], "{printed:#?}");
    let old = text("policy.toml");
    let printed = policy::print(&policy::read(&old, "policy.toml").unwrap());
    let printed = assignments(&printed);
    let missing: Vec<&str> = assignments(&old).difference(&printed).copied().collect();
    assert_eq!(missing, [""; 0], "{printed:#?}");
}

/// The results of a scenario are those of the simulator, which can change. Their keys, and the
/// promises that the scenario states, are the same.
#[test]
fn a_scenario_is_played_and_planned_with_the_keys_of_0_1() {
    let scratch = copies(&["scenario.toml"]);
    for (command, file, subject) in [
        ("compare", "compare.jsonl", "client"),
        ("plan", "plan.jsonl", "policy"),
    ] {
        let line =
            format!("{command} ./scenario.toml --policy none --repetitions 1 --seconds 2 --json -");
        let now = records(&run(&scratch, &line).ended(0).out);
        let old = records(&text(file));
        for record in old.iter().filter(|record| record["policy"] == "none") {
            let of = now.iter().find(|now| now[subject] == record[subject]);
            let of = of.unwrap_or_else(|| panic!("{file}: {}", record[subject]));
            let [mut known, mut kept] = [BTreeSet::new(), BTreeSet::new()];
            keys(record, "", &mut known);
            keys(of, "", &mut kept);
            let lost: Vec<_> = known.difference(&kept).collect();
            assert!(lost.is_empty(), "{file}: {lost:?}");
            for key in [
                "clients",
                "promised_mb_per_s",
                "promised_iops",
                "drive",
                "case",
            ] {
                assert_eq!(of[key], record[key], "{file}: {key}");
            }
        }
    }
}

/// Returns the contents of a host. io.cost keeps lines that say that it is off, so they are left
/// out.
fn contents(host: &FakeHost) -> BTreeMap<String, String> {
    let mut all = host.texts();
    all.retain(|path, _| !path.contains("io.cost"));
    all
}

/// The journal is that of 0.1 on the recorded host. Here the present program makes the same
/// changes, and restores them from the journal of 0.1.
#[test]
fn settings_are_restored_from_a_journal_of_0_1_and_a_later_version_is_refused() {
    let scratch = copies(&["apply.journal"]);
    let recording = root().join("crates/linux/recordings/server.txt");
    let mut host = FakeHost::new(&fs::read_to_string(recording).unwrap());
    let before = contents(&host);
    let contracts = apply::parse("apply.toml", &text("apply.toml")).unwrap();
    let plan = HostPlan::new(&host, &contracts);
    let mut own = ApplyJournal::open(&scratch.path("own.journal")).unwrap();
    weir_linux::apply(&mut host, &plan, &mut own, &mut |_| {}).unwrap();
    assert_ne!(contents(&host), before);
    let journal = scratch.path("apply.journal");
    let mut old = ApplyJournal::open(&journal).unwrap();
    assert!(old.damage().is_none());
    assert!(own.entries().eq(old.entries()));
    let restored = weir_linux::restore(&mut host, &mut old, &mut |_| {}).unwrap();
    assert_eq!((restored.changed, restored.kept), (0, 0));
    assert_eq!(contents(&host), before);
    drop(old);

    states("`version` in the first line: 1 |");
    let later = text("apply.journal").replacen("\"version\":1", "\"version\":2", 1);
    scratch.file("apply.journal", &later);
    let error = ApplyJournal::open(&journal).unwrap_err().to_string();
    has(
        &error,
        "has version 2, but this program supports version 1; use the release of Weir that wrote it",
    );
}
