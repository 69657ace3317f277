//! From the records of all runs to what is shown.

use super::live::Shown;
use super::storage::Storage;
use super::{On, best};
use crate::judge::{self, Judged};
use crate::policies::is_none;
use weir_config::scenario::Script;
use weir_core::Span;
use weir_drive::{Config, null};
use weir_measure::promise::{Excuse, Fate};
use weir_measure::{PromiseSeconds, Record, TOTAL};
use weir_report::number::{percent, plain};
use weir_report::{DemoReport, PolicyResult};

/// What was played, for the report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Played<'a> {
    pub(crate) script: &'a Script,
    pub(crate) scenario: &'a weir_sim::Scenario,
    pub(crate) storage: &'a Storage,
    pub(crate) on: On,
}

/// What is shown of the runs under each policy.
pub(crate) fn report(played: Played<'_>, runs: Vec<Shown>) -> DemoReport {
    let none = runs.iter().find(|r| is_none(&r.policy));
    let all = none.and_then(|r| total(&r.records));
    let others: Vec<_> = runs
        .iter()
        .map(|r| (r.policy.name.as_str(), &r.records[..]))
        .collect();
    let verdict = |records| {
        judge::verdict(Judged {
            script: played.script,
            scenario: played.scenario,
            records,
            others: &others,
            cases: &[],
        })
    };
    let verdicts: Vec<_> = runs
        .iter()
        .map(|r| on_host(r, verdict(&r.records)))
        .collect();
    let notes = notes(played, &runs);
    let mut policies = Vec::new();
    for (shown, (fate, mut verdict)) in runs.into_iter().zip(verdicts) {
        let Shown {
            policy, records, ..
        } = shown;
        if let (Some(all), Some(total), true) = (all, total(&records), !is_none(&policy)) {
            let part = percent(total / all);
            verdict.extend([" All together got ", &part, " of what they got under none."]);
        }
        policies.push(PolicyResult {
            about: policy.summary().into(),
            policy: policy.name,
            fate,
            verdict,
            drive_busy: judge::busy(&records),
            records,
        });
    }
    DemoReport {
        drive: drive(played),
        load: load(played),
        target: played.script.target().into(),
        best: best(played),
        contracts: contracts(played.scenario),
        policies,
        notes,
    }
}

/// The verdict with what a busy machine had to do with it. A promise that it excuses seconds of is not called kept: that nobody can say.
fn on_host(shown: &Shown, (fate, verdict): (Fate, String)) -> (Fate, String) {
    let Some(busy) = shown.busy else {
        return (fate, verdict);
    };
    if busy.is_invalid() {
        let text = format!(
            "Invalid: this says nothing about the policy. {busy} Run it on an idle machine, or in virtual time with weir demo --on sim."
        );
        return (Fate::Invalid, text);
    }
    let of_host = |s: &PromiseSeconds| s.excused_as(Excuse::Host);
    let seconds = shown.records.iter();
    let seconds = seconds.filter_map(|r| r.promise_seconds.as_ref());
    let excused = seconds.map(of_host).max();
    let promised = shown
        .records
        .iter()
        .find_map(|r| r.promise_seconds.as_ref());
    match (fate, excused, promised) {
        (Fate::Kept, Some(excused), Some(seconds)) if excused > 0 => {
            let all = seconds.promised;
            let others = if excused < all {
                " In the others everyone got it."
            } else {
                ""
            };
            let text = format!(
                "In {excused} of {all} seconds somebody got less than was promised, and not by the policy. {busy}{others}"
            );
            (Fate::OutOfReach, text)
        }
        (Fate::Broken, ..) => (fate, format!("{verdict} {busy}")),
        _ => (fate, verdict),
    }
}

/// Each client's contract, so that clients with different ones can be told apart.
fn contracts(scenario: &weir_sim::Scenario) -> Vec<(String, String)> {
    let contract = |client: &weir_sim::ClientSpec| {
        // Groups are numbered from 1: 0 is the root.
        let place = (client.group.0 as usize).checked_sub(1);
        let group = place.and_then(|place| scenario.groups.get(place));
        group.map_or_else(String::new, |g| format!("{:?}", g.contract))
    };
    let clients = scenario.clients.iter();
    clients.map(|c| (c.name.clone(), contract(c))).collect()
}

/// The drive if all that is to be known of it is its service and its link.
fn linked(played: Played<'_>) -> Option<&null::Config> {
    match (played.storage, &played.scenario.drive) {
        (Storage::Model(_), Config::Null(drive)) => {
            let plain = drive.tick == Span::ZERO && drive.wake == Span::ZERO;
            (plain && drive.link > 0).then_some(drive)
        }
        _ => None,
    }
}

fn total(records: &[Record]) -> Option<f64> {
    let total = records.iter().find(|r| r.client == TOTAL);
    total.map(|r| r.bandwidth_mb_per_s).filter(|t| *t > 0.0)
}

fn drive(played: Played<'_>) -> String {
    match (played.storage, linked(played)) {
        (Storage::Model(_), Some(drive)) => format!(
            "The drive is a model in {}: every command is served for {} us, {} at a time, and its data crosses a link of {} MB/s.",
            match played.on {
                On::Serve => "real time that holds its data in memory",
                On::Sim => "virtual time",
            },
            plain(drive.service.as_nanos() as f64 / 1e3),
            drive.tags,
            plain(drive.link as f64 / 1e6),
        ),
        (Storage::Model(profile), _) => format!(
            "The drive is a model in {}: {}. It gives {} MB/s to one client that reads in sequence, and {} requests of 4 KiB a second.",
            match played.on {
                On::Serve => "real time that holds its data in memory",
                On::Sim => "virtual time",
            },
            profile.summary().trim_end_matches('.'),
            plain(played.scenario.capacity.map_or(0, |c| c.read) as f64 / 1e6),
            played.scenario.capacity.map_or(0, |c| c.iops),
        ),
        (storage, _) => {
            let rate = played.scenario.capacity.map_or(0, |c| c.read);
            format!(
                "The drive is {}, read past the page cache; before the runs it gave {} MB/s to sixteen streams, and {} requests of 4 KiB a \
                 second.",
                storage.name(),
                plain(rate as f64 / 1e6),
                played.scenario.capacity.map_or(0, |c| c.iops),
            )
        }
    }
}

fn load(played: Played<'_>) -> String {
    let groups = &played.scenario.groups;
    let min = groups.first().map_or(0, |g| g.contract.min);
    let load = played.script.load();
    match min {
        0 => load.to_owned(),
        // What each client is promised stands in the tables.
        _ if groups.iter().any(|g| g.contract.min != min) => load.to_owned(),
        min => format!(
            "{load} Each is promised at least {} MB/s.",
            plain(min as f64 / 1e6)
        ),
    }
}

fn best(played: Played<'_>) -> Vec<(String, String)> {
    // Of other drives nothing is known but what they gave, which others can exceed.
    let drive = linked(played);
    drive.map_or_else(Vec::new, |drive| {
        best::figures(played.script, played.scenario, drive)
    })
}

fn notes(played: Played<'_>, runs: &[Shown]) -> Vec<String> {
    let place = match played.on {
        On::Serve => {
            let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            format!(
                "A real server and real NBD clients in one process, over a Unix socket, in real time on a machine with {processors} \
                 processors. What else the machine does shows."
            )
        }
        On::Sim => "Played in virtual time by the simulator, with the same core and the same client programs as in the server: the \
                    same figures on every machine. There is no network between the clients and the core."
            .into(),
    };
    let weights = "Under bfq and bfq-bytes promises are given as weights, for it knows no others. bfq is Linux's with low_latency \
                   off; bfq-bytes charges bytes, never time, and its budgets are so small that a second holds ten turns of everyone."
        .to_owned();
    let raised = runs.iter().find_map(|run| run.raised).map(|raised| {
        let threads = if raised {
            "The server's threads ran at nice -10, before those of other programs; the clients' did not."
        } else {
            "The server's threads ran at the usual priority (raising them was not wanted, or takes CAP_SYS_NICE or a RLIMIT_NICE of 30)."
        };
        threads.to_owned()
    });
    [place].into_iter().chain(raised).chain([weights]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::host::Busy;
    use weir_config::Policy;
    use weir_measure::PromiseSeconds;

    #[test]
    fn a_promise_that_a_busy_machine_excuses_seconds_of_is_not_called_kept() {
        let host = |server: f64| Busy {
            server,
            worst: 0.3,
            client: 0.1,
        };
        let judged = |excused: u64, busy: Option<f64>, fate: Fate| {
            let seconds = PromiseSeconds {
                promised: 4,
                kept: 4 - excused,
                excused,
                excused_by: [("host-busy".to_owned(), excused)].into(),
                ..PromiseSeconds::default()
            };
            let shown = Shown {
                policy: Policy::none(),
                records: vec![Record {
                    promise_seconds: Some(seconds),
                    ..Record::default()
                }],
                busy: busy.map(host),
                raised: None,
            };
            on_host(&shown, (fate, "As judged.".to_owned()))
        };
        let busy = host(0.03).to_string();
        let (fate, text) = judged(1, Some(0.03), Fate::Kept);
        let said = format!(
            "In 1 of 4 seconds somebody got less than was promised, and not by the policy. {busy} In the others everyone got it."
        );
        assert_eq!((fate, text), (Fate::OutOfReach, said));
        let (_, text) = judged(4, Some(0.03), Fate::Kept);
        assert!(text.ends_with(&busy), "{text}");
        let kept = (Fate::Kept, "As judged.".to_owned());
        assert_eq!(judged(0, Some(0.03), Fate::Kept), kept);
        assert_eq!(judged(0, None, Fate::Kept), kept);
        let broken = (Fate::Broken, format!("As judged. {busy}"));
        assert_eq!(judged(1, Some(0.03), Fate::Broken), broken);
        for fate in [Fate::Kept, Fate::Broken] {
            let (fate, text) = judged(1, Some(0.08), fate);
            assert_eq!(fate, Fate::Invalid);
            assert!(
                text.starts_with("Invalid: ") && text.ends_with("--on sim."),
                "{text}"
            );
        }
    }
}
