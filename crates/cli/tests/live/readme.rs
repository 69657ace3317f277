//! Checks that commands print the output that README and its linked pages show, and that the
//! example of `docs/serving.md` works when it is pasted.
//!
//! A block that begins with `$ COMMAND` has the output of this command in virtual time.
//! `WEIR_BLESS=1` updates the blocks and the table of contracts. In README's table, each row names
//! a command. If the command runs in virtual time, it must print the figures of the row. Figures of
//! live runs and of `./bench` are timed and therefore not checked, as README explains.
//!
//! The example is pasted into an empty directory with two changes: the port for metrics, which
//! could be in use, becomes 0 (any port), and the server is started with `exec`, so that the test
//! can end it.

use crate::common;
use crate::common::program::skip;
use crate::common::running::start;
use crate::common::{Scratch, has, root, shell, wait};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

const PROMISES: &str = "docs/promises.md";

fn path(page: &str) -> PathBuf {
    root().join(page)
}

fn text(page: &str) -> String {
    std::fs::read_to_string(path(page)).expect("the page is there")
}

/// Returns a shell in `scratch` that ends at the first failure.
fn set(scratch: &Scratch, script: &str) -> Command {
    shell(&scratch.path(""), &format!("set -eu\n{script}"))
}

/// Returns the output of a script, which must succeed.
fn output(scratch: &Scratch, script: &str) -> String {
    let output = set(scratch, script).output().expect("there is a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{said}");
    String::from_utf8(output.stdout).expect("text")
}

/// Returns a text as a block of Markdown.
fn block(text: &str) -> String {
    text.lines().fold(String::new(), |mut block, line| {
        let line = format!("    {line}");
        writeln!(block, "{}", line.trim_end()).expect("memory takes every byte");
        block
    })
}

/// Returns a page in which each command is followed by its current output.
fn replayed(page: &str) -> String {
    let lines: Vec<&str> = page.lines().collect();
    let indented = |at: usize| lines.get(at).is_some_and(|line| line.starts_with("    "));
    let (mut out, mut at) = (String::new(), 0);
    while let Some(line) = lines.get(at) {
        out.extend([line, "\n"]);
        at += 1;
        let Some(command) = line.strip_prefix("    $ ") else {
            continue;
        };
        out += &block(output(&Scratch::new(), command).trim_end());
        // The previous output consists of indented lines with empty lines between them.
        while indented(at) || lines.get(at) == Some(&"") && indented(at + 1) {
            at += 1;
        }
    }
    out
}

/// Returns the rows of the table of contracts, from the records of the command that the page names.
fn contracts() -> String {
    const COMMAND: &str = "weir compare latency --policy none --policy bfq --policy contract";
    assert!(
        text(PROMISES).contains(&format!("`{COMMAND}`")),
        "{PROMISES} names another command"
    );
    let records = output(&Scratch::new(), &format!("{COMMAND} --json -"));
    let records = common::records(&records);
    let mean = |drive: &str, case: &str, policy: &str, client: &str| {
        let of = records.iter().filter(|r| {
            (&r["drive"], &r["case"], &r["policy"], &r["client"])
                == (&drive.into(), &case.into(), &policy.into(), &client.into())
        });
        let values: Vec<f64> = of
            .map(|r| r["bandwidth_mb_per_s"].as_f64().expect("a number"))
            .collect();
        assert!(!values.is_empty(), "{drive} {case} {policy} {client}");
        // The mean over the repetitions, as in the table of the command.
        values.iter().sum::<f64>() / values.len() as f64
    };
    let drives = [
        ("samsung-970-pro", "Samsung 970 PRO"),
        ("plextor-px-256m5s", "Plextor PX-256M5S"),
        ("hitachi-hts72755", "Hitachi HTS72755"),
    ];
    let mut rows = String::new();
    for (drive, name) in drives {
        for case in ["readers", "writers"] {
            let of = |policy, client| mean(drive, case, policy, client);
            // The total includes the target.
            let others = |policy| of(policy, "total") - of(policy, "target");
            let figures = [of("contract", "target"), others("contract"), others("bfq")];
            let figures = figures.map(weir_measure::number::figure).join(" | ");
            writeln!(rows, "| {name}, {case} | {figures} |").expect("memory takes every byte");
        }
    }
    rows
}

/// Returns the page of promises with the current table of contracts.
fn tabled(page: &str) -> String {
    let head = "| Drive, other clients | Target under `contract` | Others under `contract` | Others under `bfq` |\n| --- | --- | --- | --- |\n";
    let at = page.find(head).expect("the table is there") + head.len();
    let (before, after) = page.split_at(at);
    let old: usize = after
        .lines()
        .take_while(|l| l.starts_with('|'))
        .map(|l| l.len() + 1)
        .sum();
    format!("{before}{}{}", contracts(), &after[old..])
}

/// Checks that a page is equal to `actual`, or writes it with `WEIR_BLESS=1`.
fn check(page: &str, actual: &str) {
    let said = text(page);
    assert!(said.contains("\n    $ weir "), "its blocks are found");
    if std::env::var_os("WEIR_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(path(page), actual).expect("writable");
        return;
    }
    let lines = said.lines().zip(actual.lines());
    let differs: Vec<_> = lines.filter(|(a, b)| a != b).take(5).collect();
    assert!(
        said == actual,
        "{page} is not what its commands print (page, printed): {differs:#?}\nif that is meant: WEIR_BLESS=1 cargo test -p weir --test live readme::"
    );
}

#[test]
fn the_commands_print_the_output_shown_on_the_pages() {
    let comparing = "docs/comparing.md";
    check(comparing, &replayed(&text(comparing)));
    check(PROMISES, &tabled(&replayed(&text(PROMISES))));
}

/// Only numbers of at least four characters count as figures.
#[test]
fn the_commands_of_the_table_print_its_figures() {
    let page = text("README.md");
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split(" | ").collect();
        let command = cells.last()?.strip_suffix("` |")?.strip_prefix('`')?;
        let is_quick = command.starts_with("weir ");
        is_quick.then(|| (command, cells[1..cells.len() - 1].join(" ")))
    });
    let mut found = 0;
    for (command, cells) in rows {
        let printed = output(&Scratch::new(), command);
        for figure in cells
            .split([' ', ','])
            .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.len() >= 4)
        {
            let is_printed = printed.split_whitespace().any(|word| word == figure);
            assert!(is_printed, "{figure}, {command}");
            found += 1;
        }
    }
    // If the form of the table changed, no figure would be found and nothing would be compared.
    assert!(found >= 9, "its figures are found");
}

/// Returns the blocks of the part before the first heading below the title, without their
/// indentation.
fn blocks(page: &str) -> Vec<String> {
    let section = page.split("\n## ").next().expect("there is a first");
    let mut blocks = vec![String::new()];
    for line in section.lines() {
        let last = blocks.last_mut().expect("there is one");
        match line.strip_prefix("    ") {
            Some(line) => last.extend([line, "\n"]),
            None if line.is_empty() && !last.is_empty() => last.push('\n'),
            None if !last.is_empty() => blocks.push(String::new()),
            None => {}
        }
    }
    blocks.retain(|b| !b.trim().is_empty());
    blocks
}

#[test]
fn the_example_works_when_it_is_pasted() {
    let [server, client] = &blocks(&text("docs/serving.md"))[..] else {
        panic!("one block for each terminal");
    };
    // The port of the example can be in use on this machine.
    let server = server.replace("127.0.0.1:9809", "127.0.0.1:0");
    let (before, serve) = server
        .split_once("\nweir serve ")
        .expect("it starts the server");
    let scratch = Scratch::new();
    let said = output(&scratch, before);
    has(&said, "10MB/s");
    // With `exec`, the child process is the server itself and receives the signal at the end.
    let mut command = set(&scratch, &format!("exec weir serve {serve}"));
    let running = start(&mut command);
    let socket = scratch.path("nbd.sock");
    wait("the socket of the example", || socket.exists());
    if Command::new("nbdinfo").arg("--version").output().is_ok() {
        let said = output(&scratch, client);
        has(&said, "export-size: 1073741824");
    } else {
        skip("nbdinfo is not installed");
    }
    running.end();
}
