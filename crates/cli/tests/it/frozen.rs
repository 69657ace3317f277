//! Compares the output of all commands with digests in `tests/golden/frozen.txt`: tables, pages,
//! JSON, manual pages, completions and messages, for each scenario, drive and policy. A refactoring
//! must not change any of them, and a change of behaviour shows here which outputs it affects.
//!
//! `WEIR_SHOW=DIR cargo test -p weir --test it frozen::` writes the texts themselves to files in
//! that directory. Run it before and after a change, and compare the directories with `diff -r`.

use crate::common::{Scratch, golden_text, run};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Scenarios of many requests, which other golden files cover.
const LEFT_OUT: [&str; 5] = ["coalescing", "elevator-cost", "ring", "s-suite", "scores"];

/// Scenarios that take long, with the case that is played instead of all cases.
const LONG: [(&str, &str); 4] = [
    ("bandwidth-latency", "mixed"),
    ("startup", "10-readers"),
    ("storm", "at-once"),
    ("video", "10-readers"),
];

/// The configuration of a server, and one that is refused.
const SERVER: &str = "[listen]\nnbd = [\"unix:/run/weir/nbd.sock\"]\n[drive.fast]\ncapacity = { read = \"160MB/s\", write = \"120MB/s\" }\n\
    [tenant.acme]\ndrive = \"fast\"\nmin = \"50MB/s\"\n[volume.alpha]\ndrive = \"fast\"\nmemory = true\nsize = \"1GiB\"\ntenant = \"acme\"\n\
    min = \"20MB/s\"\n[volume.beta]\ndrive = \"fast\"\nmemory = true\nsize = \"1GiB\"\nmax = { bandwidth = \"10MB/s\", iops = 100 }\n";
const REFUSED: &str =
    "[drive.fast]\npolicy = \"noop\"\n[volume.alpha]\nmin = \"1\"\nclass = \"fast\"\nunknown = 7\n";

const JOB: &str = "[global]\nsize=64m\ndirect=1\ntime_based\nruntime=1\n[reader]\nrw=randread\nbs=4k\niodepth=4\n[writer]\nrw=write\nbs=128k\n";

/// Returns the FNV-1a hash of a text.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Returns the names in a list. They are the first words of lines that do not begin with a space.
fn names(list: &str) -> Vec<String> {
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.split_once("  ").map(|(name, _)| name));
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns every command line whose output is compared.
fn commands() -> Vec<String> {
    let scratch = Scratch::new();
    let list = |kind: &str| names(&run(&scratch, kind).out);
    let mut all: Vec<String> = ["scenarios", "drives", "policies"]
        .iter()
        .flat_map(|kind| {
            let each = list(kind)
                .into_iter()
                .map(move |name| format!("{kind} {name}"));
            each.chain([(*kind).to_owned()])
        })
        .collect();
    for scenario in list("scenarios") {
        let long = LONG.iter().find(|(name, _)| *name == scenario);
        if !LEFT_OUT.contains(&scenario.as_str()) {
            let case = long.map_or(String::new(), |(_, case)| format!(" --case {case}"));
            all.push(format!("compare {scenario} --seconds 1 --repetitions 1{case} --html page.html --json rows.json"));
        }
    }
    for policy in list("policies") {
        all.push(format!("compare mixed --drive plextor-px-256m5s --seconds 1 --repetitions 1 --policy {policy} --audit --json rows.json --trace trace.json"));
    }
    all.extend(
        [
            "demo --on sim --seconds 2 --html page.html",
            "plan mixed --seconds 1 --policy contract",
            "check weir.toml",
            "check refused.toml",
            "compare job.fio --html page.html --json rows.json",
            "compare refused.toml",
            "compare latency --drive nowhere",
            "compare mixed --seconds 1 --set database.min=1TB/s",
            "man man",
            "completion bash",
            "completion fish",
            "completion zsh",
            "serve refused.toml",
            "replay weir.toml",
            "explain --record weir.toml alpha",
            "apply weir.toml --dry-run --root .",
        ]
        .map(str::to_owned),
    );
    all
}

/// Returns everything that a command writes, without times of this machine.
fn everything(line: &str) -> String {
    let scratch = Scratch::new();
    scratch.file("weir.toml", SERVER);
    scratch.file("refused.toml", REFUSED);
    scratch.file("job.fio", JOB);
    // Only files that the command itself has written are compared.
    let before = files(&scratch.path(""));
    let said = run(&scratch, line);
    let mut text = format!("status {:?}\n{}", said.status, said.out);
    let timeless = |line: &&str| {
        // These lines of standard error contain durations.
        let timed = [" runs in ", " searches in ", " left for "];
        !timed.iter().any(|words| line.contains(words))
    };
    for line in said.err.lines().filter(timeless) {
        writeln!(text, "! {line}").expect("a String takes anything");
    }
    for path in files(&scratch.path("")) {
        if !before.contains(&path) {
            let name = path
                .strip_prefix(scratch.path(""))
                .expect("it is below")
                .display();
            let content = fs::read_to_string(&path).expect("commands write texts");
            writeln!(text, "== {name}\n{content}").expect("a String takes anything");
        }
    }
    text.replace(&scratch.at(""), "DIR")
}

/// Returns the files below a directory, sorted.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("it is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn commands_write_the_same_as_before() {
    let commands = commands();
    // If the lists changed their form, few names would be found and little would be checked.
    assert!(commands.len() > 90, "names are found: {}", commands.len());
    let next = AtomicUsize::new(0);
    let lines = Mutex::new(vec![String::new(); commands.len()]);
    let show = std::env::var_os("WEIR_SHOW").map(PathBuf::from);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(command) = commands.get(at) else {
                        break;
                    };
                    let text = everything(command);
                    let line = format!("{:016x} {command}\n", digest(&text));
                    if let Some(show) = &show {
                        fs::create_dir_all(show).expect("writable");
                        let name = command.replace('/', "_");
                        fs::write(show.join(name), &text).expect("writable");
                    }
                    lines.lock().unwrap_or_else(PoisonError::into_inner)[at] = line;
                }
            });
        }
    });
    let lines = lines.into_inner().expect("no thread panicked");
    golden_text("frozen", &lines.concat());
}
