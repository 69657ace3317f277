//! A search of a few seeds from beginning to end: its result depends on the seeds alone.

use weir_search::case::{Case, KINDS};
use weir_search::search::{Plan, drawn, search};
use weir_search::shrink::shrink;
use weir_search::tally::{self, Failure};
use weir_search::trial;

const PLAN: Plan = Plan {
    seed: 7_000,
    runs: 5,
    kind: None,
    jobs: 1,
};

#[test]
fn outcomes_do_not_depend_on_jobs_and_nothing_panics() {
    let one = search(&PLAN, |_| {});
    let three = search(&Plan { jobs: 3, ..PLAN }, |_| {});
    assert_eq!(format!("{one:?}"), format!("{three:?}"));
    assert_eq!(one.len(), 5);
    for (seed, outcome) in (PLAN.seed..).zip(&one) {
        assert_eq!(outcome.seed, seed);
        assert_eq!(outcome.broken, None, "case {seed}");
        assert_eq!(outcome.findings, (0, String::new()), "case {seed}");
        assert!(outcome.total.is_some_and(|t| t > 0.0), "case {seed}");
    }
    let table = tally::table(&one);
    let runs: Vec<&str> = (table
        .lines()
        .find(|l| l.starts_with("runs "))
        .expect("a row"))
    .split_whitespace()
    .skip(1)
    .collect();
    let counted: Vec<usize> = runs.iter().map(|n| n.parse().expect("a number")).collect();
    assert_eq!((counted.len(), counted.iter().sum()), (KINDS.len(), 5));
    assert!(table.lines().all(|l| l.len() < 120), "{table}");
}

#[test]
fn a_case_reads_back_from_its_text() {
    let mut kinds = [0; 3];
    for seed in 100..112 {
        // A kind is requested, so that all three occur; the same seed draws the same case again.
        let kind = Some(seed as usize % 3);
        let case = drawn(seed, kind).expect("a case");
        kinds[case.kind()] += 1;
        let text = case.to_string();
        assert!(!text.contains('\''), "it can stand between these: {text}");
        assert_eq!(text.parse::<Case>().as_ref(), Ok(&case), "{text}");
        if seed < 103 {
            assert_eq!(drawn(seed, kind), Ok(case));
        }
    }
    assert_eq!(kinds, [4, 4, 4]);
}

#[test]
fn a_text_that_is_no_case_says_why() {
    let head = "case name=x seconds=1 drive=demo capacity=1GB/s,1GB/s,0";
    for (rest, why) in [
        ("; group; client group=2 size=4KiB", "not there"),
        ("; group parent=1; client group=1 size=4KiB", "not there"),
        (
            "; group; client group=1 size=4KiB deep=2",
            "\"deep\" is unknown",
        ),
        ("; group; client group=1 size=4", "size=4"),
        ("; group class=first; client group=1 size=4KiB", "no class"),
        ("; volume", "no part of a case"),
        ("", "not there"),
    ] {
        let error = format!("{head}{rest}").parse::<Case>().unwrap_err();
        assert!(error.to_string().contains(why), "{rest}: {error}");
    }
    for (text, why) in [
        ("", "begins with"),
        (
            "case name=x seconds=1 drive=dmo capacity=1B/s,1B/s,0",
            "no drive",
        ),
        ("case name=x seconds=1 drive=demo", "capacity="),
        (
            "case name=x seconds=1 drive=null:speed=1 capacity=1B/s,1B/s,0",
            "no parameter",
        ),
    ] {
        let error = text.parse::<Case>().unwrap_err();
        assert!(error.to_string().contains(why), "{text}: {error}");
    }
}

/// A disk reads its inner end at half the rate: what a client gets there is not to be compared with what it gets at the outer one.
#[test]
fn a_client_alone_is_where_it_is_among_all() {
    let text = "case name=x seconds=2 drive=hitachi-hts72755 capacity=1GB/s,1GB/s,0; group; group; \
                client group=1 size=128KiB space=400GiB; client group=2 size=128KiB space=40GiB";
    let case: Case = text.parse().expect("a case");
    let bytes = |case: &Case| {
        let played = trial::play(case, &weir_sim::Policy::none(), false);
        played.expect("it can be played").clients[0].bytes
    };
    let inner = |client| client == 1;
    let there = bytes(&case.only(inner));
    assert_eq!(bytes(&case.only(inner).only(|_| true)), there);
    assert_eq!(bytes(&case.alone(1, 2)), there);
    let moved = bytes(&case.retained(inner));
    assert!(5 * there < 4 * moved, "{there} of {moved}");
}

/// A case that fails whatever the policies do: an impossible client.
#[test]
fn a_case_shrinks_to_what_fails() {
    let text = "case name=x seconds=3 drive=plextor-px-256m5s capacity=1GB/s,1GB/s,0; group min=1MB/s; group share=7; group; \
                group parent=3; client group=1 size=4KiB; client group=2 size=64KiB,128KiB,4KiB depth=8 arrives=1s; \
                client group=4 size=4KiB depth=0; change at=1s group=2 share=3";
    let case: Case = text.parse().expect("a case");
    let came = trial::outcome(&case, false);
    assert!(came.broken.is_some_and(|why| why.contains("depth = 0")));
    let mut steps = 0;
    let small = shrink(&case, Failure::Panic, |_| steps += 1);
    assert!(steps > 3);
    assert_eq!((small.clients.len(), small.groups.len()), (1, 1));
    assert_eq!(small.clients[0].program.depth, 0);
    assert_eq!((small.seconds, small.changes.len()), (2, 0));
    // A case that does not fail in this way stays as it is.
    assert_eq!(shrink(&case, Failure::Share, |_| {}), case);
}
