//! What was published of I/O control beside what comes out here: `docs/published.md` is what the scenarios give.

use crate::common;
mod claims;
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

This section shows the effect of io.cost on weights and on vrate (claims 46 to 53), in the scenarios `iocost-weights` and `iocost-vrate` on the model of
a Plextor PX-256M5S. A target reads sequentially and competes with seven other clients, all of the same weight. There are three policies:

- `io.cost-5.5` donates weight as the kernel of the source did. It uses Linux's own profile for such a drive (`ctrl=auto`).
- `io.cost` donates weight as Linux does since 5.10. It uses the same profile.
- `io.cost-s` has the targets of the S suite, which is by the author of the source. The source itself does not state which model and targets it set.

`weir compare iocost-vrate --html page.html` plots vrate, the busy level and the lagging groups over time.

- **Random readers.** The target gets almost all the bandwidth, as published, and the weights of the interferers are lowered. However, they are not reset
  in a cycle. The profile assumes that the drive is slower than it is, so vrate rises until no group lacks budget, and a group that lacks no budget takes no
  weight back.
- **Sequential readers.** In the source, the drive is treated as saturated and throughput is lost. Neither appears with the profile, because the requests
  meet its targets. They do not meet the targets of the S suite. With these, vrate stays below 90 % and 31 % of the throughput is lost.
- **Sequential writers.** The busy level and vrate go up and down, as published. With the targets of the suite, 25 % of the total is lost.

| The seven others | Policy | Target | Total, relative to `none` | Weight in use of one of the others | Vrate, % | Busy level |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
";

const INTERLEAVED: &str = "
## Interleaved readers of one file

This section shows how often processes that read one file in an interleaved pattern lose throughput (claims 105 to 110). It uses the scenario `interleaved`
on the model of a Hitachi disk that reads 115 MB/s, under `bfq-4.18`, with sixteen runs of each case. Each process reads 16 KiB of the file through the page
cache and skips the parts that the others read.

The text describes two tests of a seeky queue:

- With the old test, a queue is seeky if more than 4 of its last 32 requests were seeks. Either queues merge and the total is near the peak, or the total is
  about 10 % of the peak. The latter is likely with five processes and nearly certain with seven.
- With the new test, a queue is seeky if more than 19 of them were seeks. The total is then reliably near the peak, with up to nine processes.

In the table, a run is unlucky if it gets less than 50 % of the peak. Whether it does depends on the start of each process, at a random time in the first
100 ms. Unlucky runs are as slow as the text describes, and more frequent with seven readers than with five. But they are not nearly certain with the
old test, and the new test makes them rarer without removing them.

| Readers | Unlucky, old test | Worst run, old test | Unlucky, new test | Worst run, new test |
| ---: | ---: | ---: | ---: | ---: |
";

const HEAD: &str = "\
# Published results, reproduced

This page shows which published results of I/O control Weir reproduces. It lists every claim of four documents in their order, together with the result of
`weir compare` on models of the drives that the documents name.

To repeat a claim, run its scenario, for example `weir compare latency`. `crates/cli/tests/it/published/claims.toml` contains the scenario, policy and client of each
claim. `WEIR_BLESS=1 cargo test -p weir --test it published::` runs all of them and writes this page again. Scenarios run for their own length, in virtual time,
and a figure is the mean of the runs.

The verdicts have these meanings:

- A figure *appears* if it is within a factor of 1.5 of the published figure, or within the bounds that the text gives.
- A claim *appears* if all its figures do, and it appears *in part* if some of them do.
- If there is no figure, the row names the scenario, command, test or source that shows the claim.

Each policy stands for a kernel:

| Policy | Kernel |
| --- | --- |
| `bfq-4.18` | The kernels of the texts of 2017 and 2019. |
| `bfq-5.3` | The kernel of the comparison of BFQ and io.latency. |
| `bfq-linux` | Later kernels with Linux's defaults. |
| `bfq` | Later kernels with `low_latency` off. |
| `io.cost-5.5` | Kernels whose io.cost is from before 5.10. |

Policies that only this page needs are in `crates/cli/tests/it/published`.

The drives are models. [Validation of the drive models](validation.md) states which figures were fitted and which are predictions.
[Notifications between guest and server](coalescing.md) has the claims 115 to 140. The figures of unmodified Linux 6.1 on the same models were
measured in a virtual machine whose disk is the model, in virtual time.
";

#[test]
fn the_page_is_what_the_scenarios_give() {
    common::document("published.md", "published", &page());
}
