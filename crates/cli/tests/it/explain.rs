//! `weir explain` and the what-if analysis of `weir replay`, on a recording of a live server.

use crate::common::running::{fleet, start};
use crate::common::{Scratch, has, run, weir};
use serde_json::Value;
use std::time::Duration;
use weir_model::client::Address;
use weir_model::load::Program;

/// Writes a configuration with a modelled drive in order of arrival. The min of `alpha` is more
/// than `beta` leaves to it.
fn config(scratch: &Scratch) {
    let text = format!(
        "[drive.d]\npolicy = \"none\"\nmodel = \"demo\"\n[listen]\nnbd = [\"unix:{}\"]\n\
         [tenant.acme]\ndrive = \"d\"\nmin = \"20MB/s\"\n\
         [volume.alpha]\ndrive = \"d\"\ntenant = \"acme\"\nsize = \"64MiB\"\nmin = \"20MB/s\"\n\
         [volume.beta]\ndrive = \"d\"\nsize = \"64MiB\"\n",
        scratch.path("nbd.sock").display()
    );
    scratch.file("weir.toml", &text);
}

fn load(address: &Address) {
    let clients = [
        // Without control, the 24 large requests of `beta` delay those of `alpha`.
        ("alpha", Program::random_reads(16 << 10, 2)),
        ("beta", Program::sequential_reads(128 << 10, 24)),
    ];
    let outcomes = fleet(address, &clients, Duration::from_millis(3500)).run(|_| {});
    let outcomes = outcomes.unwrap();
    assert!(outcomes.iter().all(|o| o.error.is_none()));
}

/// Returns a directory with a recording of 3.5 seconds.
fn recorded() -> Scratch {
    let scratch = Scratch::new();
    config(&scratch);
    let server = start(&mut weir(&scratch, "serve weir.toml --record record"));
    load(&server.address);
    server.end();
    scratch
}

/// Returns the output of a command that must succeed without any message on standard error.
fn said(scratch: &Scratch, line: &str) -> String {
    let said = run(scratch, line).ended(0);
    assert_eq!(said.err, "", "{line}: {}", said.out);
    said.out
}

/// Returns the cells of the two rows of a volume: the recorded figures, and the figures of the
/// what-if.
fn rows(table: &str, volume: &str) -> [Vec<String>; 2] {
    let lines: Vec<&str> = table.lines().collect();
    let cells = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let at = lines
        .iter()
        .position(|line| cells(line).first().is_some_and(|c| c == volume));
    let at = at.unwrap_or_else(|| panic!("{volume}: {table}"));
    let would = cells(lines[at + 1]);
    let name = if would[0] == "what" { 2 } else { 1 };
    [cells(lines[at])[2..].to_vec(), would[name..].to_vec()]
}

fn number(cell: &str) -> f64 {
    cell.parse().unwrap()
}

#[test]
fn a_recording_gives_causes_and_the_effect_of_another_policy() {
    let scratch = recorded();
    let explain = "explain alpha --record record --config weir.toml";
    let text = said(&scratch, explain).replace('\n', " ");
    assert!(text.starts_with("A request of alpha takes "), "{text}");
    has(&text, "in the drive's queue for ");
    has(&text, "by a neighbour: beta;");
    let json = said(&scratch, &format!("{explain} --json --since 2s"));
    let json: Value = serde_json::from_str(&json).unwrap();
    let parts = json["parts"].as_array().unwrap().iter();
    let parts: f64 = parts.map(|part| part["us"].as_f64().unwrap()).sum();
    assert!(
        // The parts of an explanation add up to the latency.
        (parts / json["latency_us"].as_f64().unwrap() - 1.0).abs() < 0.01,
        "{json}"
    );
    assert_eq!(json["cause"], "neighbour", "{json}");
    assert_eq!(json["neighbours"][0]["name"], "beta", "{json}");
    // Without the configuration, volumes have numbers instead of names.
    has(
        &said(&scratch, "explain 2 --record record"),
        "neighbour: 3;",
    );

    let contract = "replay record --config weir.toml --policy contract";
    let table = said(&scratch, contract);
    let [was, would] = rows(&table, "alpha");
    // The recorded run has short seconds (column 5), and the replay under `contract` keeps all
    // promised seconds (column 4).
    assert!(number(&was[4]) == 0.0 && number(&was[5]) > 0.0, "{table}");
    assert!(
        number(&would[4]) > 0.0 && number(&would[5]) == 0.0,
        "{table}"
    );
    // With its min kept, `alpha` gets several times its recorded bandwidth.
    assert!(number(&would[0]) > 4.0 * number(&was[0]), "{table}");
    let table = said(&scratch, &format!("{contract} --set beta.max=50MB/s"));
    let [was, would] = rows(&table, "beta");
    assert!(
        number(&was[0]) > 100.0 && number(&would[0]) < 51.0,
        "{table}"
    );
    let faster = "replay record --drive samsung-970-pro";
    let table = said(&scratch, faster);
    let [was, would] = rows(&table, "3");
    assert!(
        number(&would[0]) > 2.0 * number(&was[0]),
        "a faster drive has more to do: {table}"
    );
    // With `--open`, requests arrive at their recorded times, so a faster drive does not raise the
    // rate.
    let open = said(&scratch, &format!("{faster} --open"));
    let [was, would] = rows(&open, "3");
    assert!(
        (number(&would[0]) / number(&was[0]) - 1.0).abs() < 0.05,
        "{open}"
    );
}

/// Under `bfq`, the core receives a weight instead of the min, but the promise is judged
/// nevertheless.
#[test]
fn several_policies_have_a_row_each_with_their_promises() {
    let scratch = recorded();
    let words = "replay record --config weir.toml --policy bfq --policy contract --policy bfq";
    let table = said(&scratch, words);
    let promised = |policy: &str| {
        let own = table.lines().skip_while(|line| !line.starts_with("alpha "));
        let mut cells = own.map(|line| line.split_whitespace().collect::<Vec<_>>());
        let cells = cells.find(|cells| cells.first() == Some(&policy));
        let cells = cells.unwrap_or_else(|| panic!("{policy}: {table}"));
        cells[4].parse::<u32>()
    };
    assert!(promised("bfq").is_ok_and(|seconds| seconds > 0), "{table}");
    assert_eq!(promised("bfq"), promised("contract"), "{table}");
    // There is a row for the tenant, for two volumes and for the sum, because a policy that is
    // given twice is played once.
    assert_eq!(
        table.matches("bfq").count(),
        table.matches("recorded").count(),
        "{table}"
    );
}

#[test]
fn recommended_contracts_are_admitted() {
    let scratch = recorded();
    let lines = said(&scratch, "replay record --config weir.toml --recommend");
    let written = scratch.read("weir.toml");
    let mut text = written.replace("min = \"20MB/s\"\n", "");
    for (kind, name) in [("tenant", "acme"), ("volume", "alpha"), ("volume", "beta")] {
        let table = format!("[{kind}.\"{name}\"]\n");
        let own = lines.split_once(&table).unwrap().1;
        let own = own.split("\n[").next().unwrap();
        let table = format!("[{kind}.{name}]\n");
        text = text.replace(&table, &format!("{table}{own}\n"));
    }
    scratch.file("proposed.toml", &text);
    let said = run(&scratch, "check proposed.toml");
    assert_eq!(said.status, Some(0), "{lines}{}{}", said.out, said.err);
}

#[test]
fn explain_and_replay_refuse_wrong_input_with_help() {
    let scratch = recorded();
    let known = "the recording has 1, 2, 3; set --config";
    refused(&scratch, "explain gamma --record record", known);
    refused(&scratch, "explain alpha --record weir.toml", "not a record");
    refused(
        &scratch,
        "explain alpha --record missing",
        "cannot read missing",
    );
    refused(&scratch, "explain 1 --record record --since 5", "5m");
    refused(&scratch, "replay record --policy contract", "--drive");
}

/// Runs a command, and checks that it fails with this help.
fn refused(scratch: &Scratch, line: &str, help: &str) {
    let said = run(scratch, line);
    assert!(said.status.is_some_and(|status| status > 0), "{said:?}");
    has(&said.err, help);
}

#[test]
fn replay_refuses_impossible_changes_of_settings_with_help() {
    let scratch = recorded();
    for (options, help) in [
        ("--policy contract", "--drive"),
        ("--policy none --recommend", "cannot be used with"),
        ("--drive demo --policy contracts", "contract"),
        ("--drive demo --set 1.min=2GB/s", "would add up to"),
        ("--drive demo --set 1.min=20MB", "a size, not a rate"),
        ("--drive demo --set 1.size=2", "min_iops"),
        (
            "--drive demo --set gamma.min=2MB/s",
            "the recording has 1, 2, 3",
        ),
        ("--drive demo --audit", "cannot be used with"),
    ] {
        refused(&scratch, &format!("replay record {options}"), help);
    }
}
