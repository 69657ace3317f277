//! What was published of I/O control beside what comes out here: `docs/published.md` is what the scenarios give.

mod claims;
#[path = "../common/mod.rs"]
mod common;
mod played;

use claims::Claims;
use played::{Cell, OfRuns, OverTime, Played};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What was played, by the names of runs.
type Runs = BTreeMap<String, Played>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    let claims = Claims::read();
    let runs = claims.play();
    let mut page = HEAD.to_owned() + &claims.tables(&runs);
    interleaved(&mut page, &runs);
    weights_and_rate(&mut page, &runs);
    page
}

fn cell(case: &str, policy: &str, client: &str) -> Cell {
    Cell {
        case: Some(case.to_owned()),
        policy: Some(policy.to_owned()),
        client: Some(client.to_owned()),
        ..Cell::default()
    }
}

/// Interleaved readers of one file, by the old and by the new test of a seeky process.
fn interleaved(page: &mut String, runs: &Runs) {
    page.push_str(INTERLEAVED);
    let played = &runs["interleaved"];
    for readers in [5, 7, 9] {
        let [old, new] = ["old", "new"].map(|test| {
            let total = cell(&format!("{readers}-{test}"), "bfq-4.18", "total");
            let unlucky = Cell {
                below: Some(0.5 * 115.0),
                ..total.clone()
            };
            let worst = Cell {
                runs: Some(OfRuns::Least),
                ..total
            };
            let (unlucky, worst) = (played.figure(&unlucky), played.figure(&worst));
            format!("{:.0} % | {worst:.1} MB/s", 100.0 * unlucky)
        });
        let _ = writeln!(page, "| {readers} | {old} | {new} |");
    }
}

/// What io.cost does to weights and to its rate.
fn weights_and_rate(page: &mut String, runs: &Runs) {
    page.push_str(COST);
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
        for policy in ["io.cost-5.5", "io.cost", "io.cost-s"] {
            let mb_per_s = |policy, client| played.figure(&cell(case, policy, client));
            let range = |state: &str, of| {
                let [least, most] = [OverTime::Least, OverTime::Most].map(|bound| {
                    played.figure(&Cell {
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

const COST: &str = "
## The weights and the rate of io.cost

The scenarios `iocost-weights` and `iocost-vrate` on the model of a Plextor PX-256M5S: a target reads in sequence beside seven others,
all of the same weight. `io.cost-5.5` gives weight away as the kernel of the source did, `io.cost` as Linux does since 5.10; both have Linux's
own profile for such a drive (`ctrl=auto`). The source (claims 46 to 53) does not say which model and targets it set; `io.cost-s` has those of its
author's S suite. `weir compare iocost-vrate --html page.html` plots vrate, busy level and lagging groups over time.

Beside random readers the target gets almost everything, as published, and the interferers' weights are lowered; but they are not reset in a cycle.
That profile takes the drive for slower than it is: vrate rises until nobody lacks budget, and a group that lacks none takes nothing back. Beside
readers in sequence, where the source sees the drive taken for saturated and throughput lost, neither appears: here their requests meet the profile's
targets. With those of the S suite they do not: vrate stays below 90 % and a third of the throughput is lost. Beside writers the busy level and vrate go
up and down, as published, and with the suite's targets a quarter of the total is lost.

| the seven others | policy | the target | total, of `none` | weight in use of one of them | vrate, % | busy level |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
";

const INTERLEAVED: &str = "
## Readers of one file, interleaved

The scenario `interleaved` on the model of a Hitachi disk that reads 115 MB/s, under `bfq-4.18`, sixteen runs of each: processes each read 16 KiB of one
file through the page cache and leave out what the others read. The text (claims 105 to 110) says of the old test (more than 4 of 32 requests were
seeks): either queues merge and the total is near the peak, or it is about a tenth of that; the latter is likely with five processes and nearly certain
with seven. By the new test (more than 19) it is near the peak reliably, with up to nine. Here a run is unlucky if it gets less than half of the peak;
whether it does depends on when each process began, somewhere in the first 100 ms. Unlucky runs are as slow as the text says and more
frequent with seven readers than with five; but they are not nearly certain by the old test, and not gone by the new, which makes them rarer.

| readers | unlucky, old test | its worst run | unlucky, new test | its worst run |
| ---: | ---: | ---: | ---: | ---: |
";

const HEAD: &str = "\
# What was published of I/O control, and what comes out here

Every claim of four documents, in their order, and what `weir compare` gives on the models of the drives that they name. This page is printed by
a test from `crates/cli/tests/published/claims.toml`, which has each claim's scenario, policy and client; `WEIR_BLESS=1 cargo test -p weir --test published`
prints it anew. Scenarios are played at their own length, in virtual time; a figure is the mean of the runs.

A figure appears if it is within a factor of 1.5 of the published one, or inside the bounds that the text gives. A claim appears if all its
figures do, in part if some do. Where no figure stands, the scenario, command, test or source is named that shows it.

Policies stand for kernels: `bfq-4.18` for those of the texts of 2017 and 2019, `bfq-linux` for later ones with Linux's defaults, `bfq` for these
with low_latency off, `io.cost-5.5` for io.cost before 5.10. Policies that only this page needs are beside its test. The drives are models: what was fitted to
a published figure, and what is predicted, stands in `validation.md`. The claims 115 to 140, of notification between guests and their back end, stand in
`coalescing.md`. What unmodified Linux 6.1 gives on the same models was measured with Linux in a virtual machine whose disk is the model, in virtual time.
";

#[test]
fn the_page_is_what_the_scenarios_give() {
    common::document("published.md", "published", &page());
}
