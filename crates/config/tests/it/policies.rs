//! Policies: those that come with Weir, problems of other files, and mutants.

use crate::common::fuzz;
use crate::common::held;
use crate::common::mutate;
use crate::common::random;

use fuzz::policy_file;
use held::check;
use mutate::{located, walk};
use random::RandomSource;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use weir_config::policy::{self, Policy};
use weir_config::{parse, plan, reload};
use weir_core::{Edit, elevator};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[test]
fn built_in_policies_are_found_by_name_and_survive_printing() {
    for name in policy::names() {
        let path = folder("policies").join(format!("{name}.toml"));
        let text = fs::read_to_string(&path).expect("part of the source");
        assert_eq!(policy::source(name), Some(text.as_str()));
        let read = policy::load(&path).unwrap_or_else(|p| panic!("{p:#?}"));
        assert_eq!(
            (read.name.as_str(), read.elevator.validate()),
            (name, Ok(()))
        );
        let found = policy::find(name).expect("it is in the list");
        assert_eq!(policy::read(&text, name).as_ref(), Ok(&found));
        let printed = policy::print(&found);
        assert_eq!(policy::read(&printed, name), Ok(found), "{printed}");
        assert!(read.summary().len() <= 120, "{}", read.summary());
        // Printed policies are read in terminals.
        assert!(printed.lines().all(|line| line.len() <= 160), "{printed}");
    }
    let files = fs::read_dir(folder("policies")).expect("part of the source");
    assert_eq!(
        files.count(),
        policy::names().count(),
        "every file is built in"
    );
    assert_eq!(Policy::default().name, "contract");
}

/// Checks that every elevator can be selected by a policy.
#[test]
fn every_elevator_has_a_policy() {
    for kind in elevator::KINDS {
        let all = policy::all().iter();
        let mut of = all.filter(|policy| policy.elevator.kind().name == kind.name);
        assert!(of.next().is_some(), "{}", kind.name);
    }
}

/// Checks a policy whose tunables all differ from their defaults.
#[test]
fn every_tunable_is_read_and_printed() {
    for kind in elevator::KINDS {
        let mut wanted = (kind.default)();
        let mut changed = 0;
        if let Some(tuned) = wanted.tuned_mut() {
            for (place, tunable) in tuned.tunables().iter().enumerate() {
                let (least, most) = tunable.bounds;
                // Any value within the bounds serves, as long as it is not the default.
                let value = if tunable.default == most { least } else { most };
                tuned.set(place, value);
                changed += u32::from(tuned.get(place) != tunable.default);
            }
            assert_eq!(changed as usize, tuned.tunables().len(), "{}", kind.name);
        }
        // The description and the name test the quoting of texts, too.
        let mut policy = policy_of(kind.name);
        "one line\nand another \"\"\" \\ of it".clone_into(&mut policy.about);
        "x".clone_into(&mut policy.name);
        (policy.elevator, policy.budget) = (wanted, None);
        let printed = policy::print(&policy);
        let read = policy::read(&printed, "").unwrap_or_else(|p| panic!("{p:#?}"));
        assert_eq!(policy::print(&read), printed);
        assert_eq!((read.elevator, read.about), (policy.elevator, policy.about));
    }
}

fn policy_of(elevator: &str) -> Policy {
    let mut all = policy::all().iter();
    let of = all.find(|policy| policy.elevator.kind().name == elevator);
    of.expect("every elevator has a policy").clone()
}

/// Returns the cases of the golden file: the name of each case, and the lines of its wrong policy
/// file.
fn wrong(held: &str) -> Vec<(&str, String)> {
    let cases = held.split("\n\n").take_while(|case| !case.starts_with('"'));
    let read = cases.map(|case| {
        let lines: Vec<&str> = (case.lines())
            .filter_map(|line| line.strip_prefix("| "))
            .collect();
        (case.lines().next().unwrap_or_default(), lines.join("\n"))
    });
    read.collect()
}

/// Words that select no policy.
const WORDS: &[&str] = &[
    "bqf",
    "BFQ ",
    "bfq-linus",
    "",
    "+",
    "bfq +",
    "bfq + io.mx",
    "bfq + io.weight",
    "max",
    "bfq + none",
    "none + kyber",
    "noop",
    "bfq io.max",
    "missing.toml",
    "./bfq",
];

#[test]
fn errors_in_policies_have_a_position_and_a_remedy() {
    let scratch = std::env::temp_dir().join(format!("weir-policies-{}", std::process::id()));
    fs::create_dir_all(&scratch).expect("writable");
    let file = scratch.join("my.toml");
    let golden = "tests/golden/policy-files.txt";
    let held = fs::read_to_string(folder(golden)).expect("part of the source");
    let mut all = String::new();
    for (what, text) in wrong(&held) {
        fs::write(&file, &text).expect("writable");
        let problems = policy::load(&file).expect_err(what);
        writeln!(all, "{what}").unwrap();
        for line in text.lines() {
            writeln!(all, "| {line}").unwrap();
        }
        located(&text, &problems);
        for problem in &problems {
            writeln!(all, "! {}", problem.to_string().replace('\n', "\n! ")).unwrap();
        }
        all.push('\n');
    }
    for word in WORDS {
        let said = policy::choose(word, &scratch).expect_err(word);
        writeln!(all, "{word:?}\n! {said}\n").unwrap();
    }
    // The same problems as a server's file reports them, for a wrong policy file and for a missing
    // one.
    fs::write(&file, "name = \"x\"\nabout = \"x\"\nelevator = \"bqf\"").expect("writable");
    let config = scratch.join("weir.toml");
    for word in ["my.toml", "missing.toml", "bqf"] {
        let text = format!("drive.d.policy = \"{word}\"\nlisten.nbd = [\"127.0.0.1:0\"]\n");
        let said = parse(&config.display().to_string(), &text);
        for problem in said.expect_err(word) {
            writeln!(
                all,
                "policy = {word:?}\n! {}\n",
                problem.to_string().replace('\n', "\n! ")
            )
            .unwrap();
        }
    }
    fs::remove_dir_all(&scratch).expect("it was made here");
    let all = all.replace(&format!("{}/", scratch.display()), "");
    check(golden, &all);
}

/// Checks that a policy's file can be used like a policy that comes with Weir, with tunables in the
/// drive's table.
#[test]
fn a_server_takes_a_policy_from_a_file() {
    let scratch = std::env::temp_dir().join(format!("weir-policy-{}", std::process::id()));
    fs::create_dir_all(&scratch).expect("writable");
    let text = policy::source("bfq").expect("it comes with Weir");
    fs::write(
        scratch.join("mine.toml"),
        text.replace("\"bfq\"", "\"mine\"")
            .replace("elevator = \"mine\"", "elevator = \"bfq\""),
    )
    .expect("writable");
    let config = scratch.join("weir.toml").display().to_string();
    let text = "drive.d = { policy = \"mine.toml\", bfq.slice_idle = \"4ms\" }\nlisten.nbd = [\"127.0.0.1:0\"]\n";
    let server = parse(&config, text).unwrap_or_else(|p| panic!("{p:#?}"));
    let drive = &server.drives[0];
    assert_eq!(
        (drive.policy.name.as_str(), drive.policy.is_from_file()),
        ("mine", true)
    );
    let bfq = policy::find("bfq").unwrap();
    let mut tuned = bfq.clone();
    assert!(tuned.tune("bfq", "slice_idle", 4_000_000));
    assert_eq!(
        (&drive.policy.elevator, drive.policy.budget),
        (&tuned.elevator, bfq.budget)
    );
    // The printed file contains the path, so it reads back as an equal server anywhere.
    let printed = server.to_string();
    assert_eq!(parse("", &printed).as_ref(), Ok(&server));
    fs::remove_dir_all(&scratch).expect("it was made here");
}

/// Checks mutants of all policy files: problems have a place, and accepted policies read back as
/// printed.
#[test]
fn a_changed_file_is_refused_with_its_place_or_is_a_policy() {
    let all: Vec<String> = policy::all().iter().map(policy::print).collect();
    // More than one in 20 mutants is still a valid policy, so that printing is tested too.
    walk(&all, 20_000, 20, policy_file);
}

/// Checks that random words never cause a panic, and that the word of a selected policy selects it
/// again.
#[test]
fn any_word_selects_a_policy_or_is_refused_with_a_reason() {
    const PARTS: &[&str] = &[
        "bfq",
        "none",
        "contract",
        "io.max",
        "io.latency",
        "io.low",
        "io.cost",
        "noop",
        "bfq-linux",
        "",
        "x",
        "é",
    ];
    let mut random = RandomSource::new(2);
    for _ in 0..20_000 {
        let parts: Vec<&str> = (0..=random.below(4))
            .map(|_| PARTS[random.below(PARTS.len())])
            .collect();
        let word = parts.join([" + ", "+", " "][random.below(3)]);
        match policy::find(&word) {
            Ok(policy) => assert_eq!(policy::find(policy.word()).as_ref(), Ok(&policy), "{word}"),
            Err(unknown) => assert!(!unknown.what.is_empty() && !unknown.help.is_empty()),
        }
    }
}

/// Checks that a new volume changes the weights of the others, because weights are in proportion to
/// the due amounts. The maximum budget stays as it was when the drive started.
#[test]
fn an_added_volume_changes_the_weights_of_the_others() {
    let server = |more: &str| {
        let text = format!(
            "drive.d = {{ policy = \"bfq-bytes\", capacity = {{ read = \"100MB/s\", write = \"100MB/s\" }} }}\n\
             listen.nbd = [\"127.0.0.1:0\"]\n\
             volume.a = {{ drive = \"d\", memory = true, size = \"1MiB\", min = \"10MB/s\" }}\n\
             volume.b = {{ drive = \"d\", memory = true, size = \"1MiB\", min = \"5MB/s\" }}\n{more}"
        );
        parse("", &text).unwrap_or_else(|p| panic!("{p:#?}"))
    };
    let (old, new) = (
        server(""),
        server("volume.c = { drive = \"d\", memory = true, size = \"1MiB\", min = \"20MB/s\" }\n"),
    );
    let before = plan(&old, "d").expect("it is there");
    let shares = |edits: &[Edit]| -> Vec<u16> {
        let told = edits.iter().filter_map(|edit| match edit {
            Edit::AddGroup { contract, .. } | Edit::SetContract { contract, .. } => Some(contract),
            _ => None,
        });
        told.map(|contract| {
            assert_eq!(contract.min, 0, "weights only");
            contract.share
        })
        .collect()
    };
    // Of 100 MB/s, 15 are promised. With half of the other 85, the volumes are due 52.5 and 47.5
    // MB/s, and 47.5/52.5 of 1,000 is 905.
    assert_eq!(shares(&before.edits), [1_000, 905], "52.5 and 47.5 MB/s");
    let reload = reload(&old, std::slice::from_ref(&before), &new).expect("nothing is fixed");
    let drive = &reload.drives[0];
    // With 35 MB/s promised, each gets a third of 65: 31.67, 26.67 and 41.67 MB/s.
    assert_eq!(shares(&drive.edits), [760, 640, 1_000]);
    // The contract for the core changed, but not the contract in the file.
    assert_eq!(drive.changed, [""; 0], "nobody wrote another contract");
    assert_eq!(drive.plan.config.elevator, before.config.elevator);
    assert_ne!(
        plan(&new, "d").expect("it is there").config.elevator,
        before.config.elevator,
        "a start works the budget out anew"
    );
    // The promises still count in admission, although they are weights.
    let promised = weir_config::promised(&new, &new.drives[0]).expect("admitted");
    assert_eq!(promised.bytes, 35_000_000);
}
