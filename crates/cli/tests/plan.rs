//! Plans: what they refuse, and that they find the least number of drives.

mod common;

use common::{Scratch, golden, run};

/// Four clients on a drive of 100 MB/s, of which two can be promised 40 each: two drives, if promises are kept.
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
        &[
            &["plan"],
            &["plan", "servces"],
            &["plan", "four.toml", "--drive", "floppy"],
            &["plan", "four.toml", "--case", "readers"],
            &["plan", "four.toml", "--policy", "bqf"],
            &["plan", "four.toml", "--keep", "101"],
            &["plan", "four.toml", "--html", "-"],
            &["plan", "free.toml"],
        ],
    );
}

#[test]
fn promises_that_fit_twice_on_a_drive_take_half_as_many_drives() {
    let scratch = Scratch::new();
    scratch.file("flat.toml", DRIVE);
    scratch.file("four.toml", CONTRACTS);
    let said = run(&scratch, &["plan", "four.toml"]);
    let drives = |policy: &str| {
        let line = said.out.lines().find(|l| l.starts_with(policy));
        let line = line.unwrap_or_else(|| panic!("{}", said.out));
        let numbers = line[policy.len()..].split_whitespace();
        numbers.map(str::to_owned).next().unwrap()
    };
    assert_eq!(drives("a drive each"), "4.00");
    assert_eq!(drives("contract"), "2.00", "{}", said.out);
}
