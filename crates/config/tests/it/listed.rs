//! Printed lists of the files that come with Weir, and warnings about contracts that a policy does
//! not keep.

use crate::common::held;

use held::check;
use std::fmt::Write as _;
use weir_config::{parse, policy, profile, warnings};

#[test]
fn policies_are_printed_as_files() {
    let mut all = String::new();
    for policy in policy::all() {
        let text = policy::print(policy);
        writeln!(all, "== {}: {}\n{text}", policy.word(), policy.summary()).expect("room");
        let again = policy::read(&text, "again.toml").unwrap_or_else(|p| panic!("{p:#?}"));
        assert_eq!(policy::print(&again), text);
    }
    check("tests/listed/policies.txt", &all);
}

#[test]
fn drives_have_a_summary() {
    let mut all = String::new();
    for name in profile::names() {
        let profile = profile::find(name).expect("it comes with Weir");
        writeln!(all, "{name}: {}", profile.summary()).expect("room");
    }
    check("tests/listed/drives.txt", &all);
}

#[test]
fn each_part_of_a_contract_that_a_policy_does_not_keep_is_reported() {
    let parts = [
        "min = \"1MB/s\"",
        "min_iops = 10",
        "class = \"realtime\"\nmax = { iops = 5 }",
        "max = { bandwidth = \"1MB/s\" }",
        "latency = \"5ms\"",
        "low = \"rbps=1000000\"",
        "share = 200",
    ];
    let mut all = String::new();
    for policy in policy::all() {
        for part in parts {
            let text = format!(
                "[listen]\nnbd = [\"127.0.0.1:0\"]\n\
                 [drive.d]\npolicy = \"{}\"\ncapacity = {{ read = \"1GB/s\", write = \"1GB/s\", iops = 10000 }}\n\
                 [volume.v]\ndrive = \"d\"\nmemory = true\nsize = \"1MiB\"\n{part}\n",
                policy.word()
            );
            let said = match parse("a.toml", &text) {
                Ok(server) => warnings(&server),
                Err(problems) => problems,
            };
            for problem in said {
                writeln!(all, "{}, {part:?}: {problem}", policy.word()).expect("room");
            }
        }
    }
    check("tests/listed/contracts.txt", &all);
}

#[test]
fn a_name_has_64_letters_at_most() {
    let text = policy::print(&policy::find("bfq").expect("it comes with Weir"));
    let named = |name: &str| {
        let text = text.replacen("name = \"bfq\"", &format!("name = \"{name}\""), 1);
        policy::read(&text, "a.toml").is_ok()
    };
    assert!(named(&"x".repeat(64)) && !named(&"x".repeat(65)));
    assert!(named("a-b.c_d") && !named("a b") && !named("-a") && !named(""));
}
