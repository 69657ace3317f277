//! `weir explain` and the what-if of `weir replay`, on what a live server has recorded.

use crate::common::running::{Running, start};
use crate::common::{Scratch, run, weir};
use serde_json::Value;
use std::time::Duration;
use weir_model::client::{Address, Fleet, Member};
use weir_model::load::Program;

/// A modelled drive first come, first served, of which alpha is promised more than beta leaves it.
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
    let member = |export: &str, program| Member {
        name: export.to_owned(),
        export: export.to_owned(),
        program,
        region: None,
        seed: 1,
    };
    let fleet = Fleet {
        address: address.clone(),
        members: vec![
            member("alpha", Program::random_reads(16 << 10, 2)),
            member("beta", Program::sequential_reads(128 << 10, 24)),
        ],
        warm_up: Duration::ZERO,
        length: Duration::from_millis(3500),
        patience: Duration::from_mins(1),
    };
    let outcomes = fleet.run(|_| {}).unwrap();
    assert!(outcomes.iter().all(|o| o.error.is_none()));
}

/// A server's record of three and a half seconds.
fn recorded() -> Scratch {
    let scratch = Scratch::new();
    config(&scratch);
    let server: Running = start(&mut weir(
        &scratch,
        &["serve", "weir.toml", "--record", "record"],
    ));
    load(&server.address);
    server.end();
    scratch
}

/// What a command says that succeeds without a word on standard error.
fn said(scratch: &Scratch, arguments: &[&str]) -> String {
    let said = run(scratch, arguments);
    let ended = (said.status, said.err.as_str());
    assert_eq!(ended, (Some(0), ""), "{arguments:?}: {}", said.out);
    said.out
}

/// The cells of the rows of a volume: what was recorded, and what would have been.
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
fn a_record_says_why_and_what_would_have_been() {
    let scratch = recorded();
    let explain = [
        "explain",
        "alpha",
        "--record",
        "record",
        "--config",
        "weir.toml",
    ];
    let text = said(&scratch, &explain).replace('\n', " ");
    assert!(text.starts_with("A request of alpha takes "), "{text}");
    assert!(text.contains("in the drive's queue for "), "{text}");
    assert!(text.contains("by a neighbour: beta;"), "{text}");
    let json = said(
        &scratch,
        &[&explain[..], &["--json", "--since", "2s"]].concat(),
    );
    let json: Value = serde_json::from_str(&json).unwrap();
    let parts = json["parts"].as_array().unwrap().iter();
    let parts: f64 = parts.map(|part| part["us"].as_f64().unwrap()).sum();
    assert!(
        (parts / json["latency_us"].as_f64().unwrap() - 1.0).abs() < 0.01,
        "{json}"
    );
    assert_eq!(json["cause"], "neighbour", "{json}");
    assert_eq!(json["neighbours"][0]["name"], "beta", "{json}");
    // Without the configuration, volumes are numbers.
    assert!(said(&scratch, &["explain", "2", "--record", "record"]).contains("neighbour: 3;"));

    let replay = ["replay", "record", "--config", "weir.toml"];
    let table = said(&scratch, &[&replay[..], &["--policy", "contract"]].concat());
    let [was, would] = rows(&table, "alpha");
    // Promised seconds, of which all are kept now.
    assert!(number(&was[4]) == 0.0 && number(&was[5]) > 0.0, "{table}");
    assert!(
        number(&would[4]) > 0.0 && number(&would[5]) == 0.0,
        "{table}"
    );
    assert!(number(&would[0]) > 4.0 * number(&was[0]), "{table}");
    let table = said(
        &scratch,
        &[
            &replay[..],
            &["--policy", "contract", "--set", "beta.max=50MB/s"],
        ]
        .concat(),
    );
    let [was, would] = rows(&table, "beta");
    assert!(
        number(&was[0]) > 100.0 && number(&would[0]) < 51.0,
        "{table}"
    );
    let table = said(
        &scratch,
        &["replay", "record", "--drive", "samsung-970-pro"],
    );
    let [was, would] = rows(&table, "3");
    assert!(
        number(&would[0]) > 2.0 * number(&was[0]),
        "a faster drive has more to do: {table}"
    );
    let open = said(
        &scratch,
        &["replay", "record", "--drive", "samsung-970-pro", "--open"],
    );
    let [was, would] = rows(&open, "3");
    assert!(
        (number(&would[0]) / number(&was[0]) - 1.0).abs() < 0.05,
        "{open}"
    );
}

/// Under `bfq` the core is told of a weight in the place of the min, and the promise is judged all the same.
#[test]
fn several_policies_have_a_row_each_with_their_promises() {
    let scratch = recorded();
    let words = "replay record --config weir.toml --policy bfq --policy contract --policy bfq";
    let words: Vec<&str> = words.split_whitespace().collect();
    let table = said(&scratch, &words);
    let promised = |policy: &str| {
        let own = table.lines().skip_while(|line| !line.starts_with("alpha "));
        let mut cells = own.map(|line| line.split_whitespace().collect::<Vec<_>>());
        let cells = cells.find(|cells| cells.first() == Some(&policy));
        let cells = cells.unwrap_or_else(|| panic!("{policy}: {table}"));
        cells[4].parse::<u32>()
    };
    assert!(promised("bfq").is_ok_and(|seconds| seconds > 0), "{table}");
    assert_eq!(promised("bfq"), promised("contract"), "{table}");
    // The tenant, two volumes and the sum: no policy is played twice.
    assert_eq!(
        table.matches("bfq").count(),
        table.matches("recorded").count(),
        "{table}"
    );
}

#[test]
fn recommended_contracts_are_admitted() {
    let scratch = recorded();
    let lines = said(
        &scratch,
        &["replay", "record", "--config", "weir.toml", "--recommend"],
    );
    let written = std::fs::read_to_string(scratch.path("weir.toml")).unwrap();
    let mut text = written.replace("min = \"20MB/s\"\n", "");
    for (kind, name) in [("tenant", "acme"), ("volume", "alpha"), ("volume", "beta")] {
        let table = format!("[{kind}.\"{name}\"]\n");
        let own = lines.split_once(&table).unwrap().1;
        let own = own.split("\n[").next().unwrap();
        let table = format!("[{kind}.{name}]\n");
        text = text.replace(&table, &format!("{table}{own}\n"));
    }
    scratch.file("proposed.toml", &text);
    let said = run(&scratch, &["check", "proposed.toml"]);
    assert_eq!(said.status, Some(0), "{lines}{}{}", said.out, said.err);
}

#[test]
fn what_cannot_be_explained_or_played_is_refused_with_help() {
    let scratch = recorded();
    let refused = |arguments: &[&str], help: &str| {
        let said = run(&scratch, arguments);
        assert!(
            said.status.is_some_and(|status| status > 0),
            "{arguments:?}: {}",
            said.out
        );
        assert!(said.err.contains(help), "{arguments:?}: {}", said.err);
    };
    refused(
        &["explain", "gamma", "--record", "record"],
        "the recording has 1, 2, 3; set --config",
    );
    refused(
        &["explain", "alpha", "--record", "weir.toml"],
        "not a record",
    );
    refused(
        &["explain", "alpha", "--record", "missing"],
        "cannot read missing",
    );
    refused(
        &["explain", "1", "--record", "record", "--since", "5"],
        "5m",
    );
    refused(&["replay", "record", "--policy", "contract"], "--drive");
}

#[test]
fn what_would_have_been_is_refused_with_help_where_it_cannot_be_known() {
    let scratch = recorded();
    let refused = |arguments: &[&str], help: &str| {
        let arguments = [&["replay", "record"], arguments].concat();
        let said = run(&scratch, &arguments);
        let ended = said.status.is_some_and(|status| status > 0);
        assert!(
            ended && said.err.contains(help),
            "{arguments:?}: {}",
            said.err
        );
    };
    let on_demo = |arguments: &[&str], help: &str| {
        refused(&[&["--drive", "demo"], arguments].concat(), help);
    };
    refused(&["--policy", "contract"], "--drive");
    refused(&["--policy", "none", "--recommend"], "cannot be used with");
    on_demo(&["--policy", "contracts"], "contract");
    on_demo(&["--set", "1.min=2GB/s"], "would add up to");
    on_demo(&["--set", "1.min=20MB"], "a size, not a rate");
    on_demo(&["--set", "1.size=2"], "min_iops");
    on_demo(&["--set", "gamma.min=2MB/s"], "the recording has 1, 2, 3");
    on_demo(&["--audit"], "cannot be used with");
}
