//! Published claims about I/O control, compared with Weir's scenarios, whose results generate
//! `docs/published.md`.

use crate::common;
mod claims;
mod played;

use claims::Claims;
use played::{CompareResults, FigurePlace, RunAggregate, TimeAggregate};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The results of the runs, by name.
type Runs = BTreeMap<String, CompareResults>;

fn page() -> String {
    let claims = Claims::read();
    let runs = claims.play();
    let prose = |begin, row| common::prose("published.md", begin, row);
    let mut page = prose("# Published", "\n## BFQ") + &claims.tables(&runs, &claims.linux());
    page += &prose("\n## Interleaved", "| 5 |");
    interleaved(&mut page, &runs);
    page += &prose("\n## The weights", "| random readers |");
    weights_and_rate(&mut page, &runs);
    page
}

fn cell(case: &str, policy: &str, client: &str) -> FigurePlace {
    FigurePlace {
        case: Some(case.to_owned()),
        policy: Some(policy.to_owned()),
        client: Some(client.to_owned()),
        ..FigurePlace::default()
    }
}

/// Writes the table of interleaved readers of one device, with the old and the new test of a seeky
/// process, and without control.
fn interleaved(page: &mut String, runs: &Runs) {
    // A run is unlucky if it reaches less than half of 115 MB/s.
    const HALF: f64 = 0.5 * 115.0;
    for readers in [5, 7, 9] {
        let total = |test, policy| cell(&format!("{readers}-{test}"), policy, "total");
        let unlucky = |played: &CompareResults, total: FigurePlace| {
            let below = Some(HALF);
            let part = played.figure(&FigurePlace { below, ..total });
            format!("{:.0} %", 100.0 * part)
        };
        let [old, new] = ["old", "new"].map(|test| {
            let (played, total) = (&runs["interleaved"], total(test, "bfq-4.18"));
            let median = played.figure(&FigurePlace {
                among_below: Some(HALF),
                runs: Some(RunAggregate::Median),
                ..total.clone()
            });
            format!("{} | {median:.1} MB/s", unlucky(played, total))
        });
        let none = unlucky(&runs["interleaved-unmerged"], total("old", "none"));
        let _ = writeln!(page, "| {readers} | {old} | {new} | {none} |");
    }
}

/// Writes the table of the effects of io.cost on weights and on its rate.
fn weights_and_rate(page: &mut String, runs: &Runs) {
    for (run, case, load, interferer) in [
        (
            "iocost-weights",
            "iocost-weights",
            "random readers",
            "reader-01",
        ),
        ("iocost-vrate", "readers", "sequential readers", "other-01"),
        ("iocost-vrate", "writers", "sequential writers", "other-01"),
    ] {
        let played = &runs[run];
        for policy in ["io.cost-5.5-s", "io.cost-5.5", "io.cost", "io.cost-s"] {
            let mb_per_s = |policy, client| played.figure(&cell(case, policy, client));
            let range = |state: &str, of| {
                let [least, most] = [TimeAggregate::Least, TimeAggregate::Most].map(|bound| {
                    played.figure(&FigurePlace {
                        state: Some(state.to_owned()),
                        over_time: Some(bound),
                        ..cell(case, policy, of)
                    })
                });
                format!("{least:.0} to {most:.0}")
            };
            let _ = writeln!(
                page,
                "| {load} | {policy} | {:.1} MB/s | {:.0} % | {} | {} | {} |",
                mb_per_s(policy, "target"),
                100.0 * mb_per_s(policy, "total") / mb_per_s("none", "total"),
                range("weight in use", interferer),
                range("vrate", "drive"),
                range("busy level", "drive"),
            );
        }
    }
}

#[test]
fn the_page_matches_the_results_of_the_scenarios() {
    common::document("published.md", "published", &page());
}
