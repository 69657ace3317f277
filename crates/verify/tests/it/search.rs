//! Tests a search of a few seeds from beginning to end. Its result depends only on the seeds.

use weir_config::profile;
use weir_core::{Capacity, Contract, GroupId, Span};
use weir_model::load::{Program, Size};
use weir_sim::{Change, Scenario};
use weir_verify::search::batch::{
    DrawOptions, KeptCases, SearchPlan, draw_case, search, search_again,
};
use weir_verify::search::case::SearchCase;
use weir_verify::search::shrink::shrink;
use weir_verify::search::tally::{self, SearchFailure};
use weir_verify::search::trial;

const PLAN: SearchPlan = SearchPlan {
    seed: 7_000,
    runs: 5,
    draw: DrawOptions {
        kind: None,
        shallow: false,
        admitted: true,
    },
    jobs: 1,
};

#[test]
fn outcomes_do_not_depend_on_jobs_and_nothing_panics() {
    let (one, _) = search(&PLAN, |_| {});
    let (three, kept) = search(&SearchPlan { jobs: 3, ..PLAN }, |_| {});
    assert_eq!(format!("{one:?}"), format!("{three:?}"));
    assert_eq!(one.len(), 5);
    for (seed, outcome) in (PLAN.seed..).zip(&one) {
        assert_eq!(outcome.seed, seed);
        assert_eq!(outcome.broken, None, "case {seed}");
        assert_eq!(outcome.findings, (0, String::new()), "case {seed}");
        assert!(outcome.total.is_some_and(|t| t > 0.0), "case {seed}");
        assert!(outcome.part <= 0.9, "case {seed}");
    }
    let text = serde_json::to_string(&kept).expect("it is JSON");
    let kept: KeptCases = serde_json::from_str(&text).expect("it was written so");
    assert_eq!(kept.draw, PLAN.draw);
    let mut again = search_again(kept, 2, |_| {});
    for (seed, outcome) in (PLAN.seed..).zip(&mut again) {
        // The second search runs without auditors. Otherwise, outcomes must be equal.
        assert!(!outcome.audited);
        outcome.audited = seed % 4 == 0;
    }
    assert_eq!(format!("{one:?}"), format!("{again:?}"));
    let table = tally::table(&one);
    let runs = table.lines().filter(|l| l.starts_with("runs "));
    let all = runs.map(|l| l.split_whitespace().last().expect("of all parts"));
    let counted: usize = all.map(|n| n.parse::<usize>().expect("a number")).sum();
    assert_eq!(counted, 5);
}

#[test]
fn a_case_reads_back_from_its_file() {
    let mut kinds = [0; 3];
    for seed in 100..160 {
        // A kind is requested, so that all three occur. The same seed draws the same case again.
        let how = DrawOptions {
            kind: Some(seed as usize % 3),
            shallow: false,
            admitted: false,
        };
        let case = draw_case(seed, how).expect("a case");
        kinds[case.kind()] += 1;
        let text = case.to_string();
        assert_eq!(
            SearchCase::read(&text, "x.toml").as_ref(),
            Ok(&case),
            "{text}"
        );
        if seed < 103 {
            assert_eq!(draw_case(seed, how), Ok(case));
        }
    }
    // 60 seeds, of which every third has the same kind.
    assert_eq!(kinds, [20; 3]);
}

#[test]
fn a_scenario_that_is_no_case_says_why() {
    let client = "[[client]]\nname = \"a\"\nsize = \"1MiB\"\ndirect = true\n";
    let shared = "file = \"f\"\nnumjobs = 2\n";
    for (head, more, why) in [
        ("", "", "a run-in or a warm-up"),
        (
            "run_in = \"0s\"\nwarm_up = \"0s\"\nduration = \"1500ms\"\n",
            "",
            "whole seconds",
        ),
        (
            "run_in = \"0s\"\nwarm_up = \"0s\"\n",
            shared,
            "a file of its own",
        ),
        ("drives = [\"dmo\"]\n", "", "unknown drive \"dmo\""),
        ("drives = [{ kind = \"nul\" }]\n", "", "null"),
        ("seconds = 5\n", "", "x.toml:1:1: seconds: unknown key"),
    ] {
        let error = SearchCase::read(&format!("{head}{client}{more}"), "x.toml").unwrap_err();
        assert!(error.contains(why), "{head}{more}: {error}");
    }
}

/// Returns a case without clients, in which nearly everything can be promised.
fn empty(drive: &str, seconds: u64) -> SearchCase {
    let drive = profile::find(drive).expect("it comes with Weir").drive;
    let mut scenario = Scenario::new("x", drive, Span::from_secs(seconds));
    scenario.capacity = Some(Capacity::NONE.read(1_000_000_000).write(1_000_000_000));
    let clones = false;
    SearchCase { scenario, clones }
}

/// A disk reads its inner end at half the rate, so that a client must be measured at the same
/// position alone and among others.
#[test]
fn a_client_has_the_same_position_alone_and_among_all() {
    let mut case = empty("hitachi-hts72755", 2);
    for (name, gib) in [("outer", 400), ("inner", 40)] {
        let program = Program::random_reads(128 << 10, 1);
        let scenario = &mut case.scenario;
        scenario.add_client_with_group(name, Contract::DEFAULT, gib << 30, program);
    }
    let bytes = |case: &SearchCase| {
        let played = trial::play(case, &weir_sim::Policy::none(), false);
        played.expect("it can be played").clients[0].bytes
    };
    let inner = |client| client == 1;
    let there = bytes(&case.only(inner));
    assert_eq!(bytes(&case.only(inner).only(|_| true)), there);
    assert_eq!(bytes(&case.alone(1, 2)), there);
    // Without the space of the other client, the client moves to the outer end, which is faster by
    // more than 8/7.
    let moved = bytes(&case.retained(inner));
    assert!(8 * there < 7 * moved, "{there} of {moved}");
}

/// The case fails under every policy, because one of its clients is impossible.
#[test]
fn a_case_shrinks_to_its_failing_client() {
    let mut case = empty("plextor-px-256m5s", 3);
    let small = Program::random_reads(4096, 1);
    let large = Program {
        depth: 8,
        size: Size::Range {
            min: 64 << 10,
            max: 128 << 10,
            step: 64 << 10,
        },
        ..small
    };
    let impossible = Program { depth: 0, ..small };
    let promised = Contract::DEFAULT.min(1_000_000);
    let shared = |share| Contract::DEFAULT.share(share);
    let scenario = &mut case.scenario;
    scenario.add_client_with_group("a", promised, 1 << 30, small);
    let second = scenario.add_client_with_group("b", shared(7), 1 << 30, large);
    second.arrives = Span::from_secs(1);
    scenario.add_client_with_group("c", Contract::DEFAULT, 1 << 30, impossible);
    scenario.groups.push(scenario.groups[2]);
    scenario.groups[3].parent = GroupId(3);
    scenario.clients[2].group = GroupId(4);
    scenario.changes.push(Change {
        at: Span::from_secs(1),
        group: GroupId(2),
        contract: shared(3),
    });
    let came = trial::outcome(&case, false);
    assert!(came.broken.is_some_and(|why| why.contains("depth = 0")));
    let mut steps = 0;
    let small = shrink(&case, SearchFailure::Panic, false, |_| steps += 1);
    // The case has several parts that can be removed one by one.
    assert!(steps > 3);
    assert_eq!(
        // Only the impossible client and its group are left.
        (small.scenario.clients.len(), small.scenario.groups.len()),
        (1, 1)
    );
    assert_eq!(small.scenario.clients[0].program.depth, 0);
    assert_eq!((small.seconds(), small.scenario.changes.len()), (2, 0));
    // A case that does not fail in this way stays as it is.
    assert_eq!(shrink(&case, SearchFailure::Share, false, |_| {}), case);
}
