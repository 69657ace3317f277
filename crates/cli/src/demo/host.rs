//! How long the demo's own threads waited for a processor: what a busy machine keeps from a client is no fault of a policy.
//!
//! Linux counts for each thread how long it was ready to run and did not (`/proc/PID/task/TID/schedstat`, its second figure). In a second of
//! which the server's thread and the client's waited so much, the client is owed its min for the rest.

use crate::judge;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;
use weir_measure::Record;
use weir_report::number::percent;

/// The reason of seconds that a busy machine excuses.
const HOST: &str = "host";
/// What is kept as promised, as promises are judged.
const KEPT: f64 = 0.99;
/// The longest name that the kernel keeps of a thread, bytes.
const NAME_MAX: usize = 15;
/// How the server's threads that serve drives are named.
const SERVER: &str = "weir-shard-";

/// How long each thread has waited so far, nanoseconds, by its name; a name that several have is those together.
type Waits = BTreeMap<String, u64>;

/// The waits when the measurement began, and after each second of it.
#[derive(Debug, Default)]
pub(super) struct Host {
    seconds: Vec<(Duration, Waits)>,
}

impl Host {
    /// Looks at the threads if a second of the measurement, which begins after `warm_up`, has passed since the last time.
    pub(super) fn watch(&mut self, warm_up: Duration, passed: Duration) {
        let due = warm_up + Duration::from_secs(self.seconds.len() as u64);
        if passed >= due {
            self.seconds.push((passed, waits()));
        }
    }

    /// The part of each second in which a thread of that name waited for a processor.
    fn late(&self, name: &str) -> Vec<f64> {
        let of = |waits: &Waits| waits.get(name).copied().unwrap_or(0);
        let part = |pair: &[(Duration, Waits)]| {
            let waited = of(&pair[1].1).saturating_sub(of(&pair[0].1));
            let passed = (pair[1].0 - pair[0].0).as_nanos().max(1);
            (waited as f64 / passed as f64).min(1.0)
        };
        self.seconds.windows(2).map(part).collect()
    }

    /// The part of each second in which the server's threads waited, the one that waited longest.
    fn server(&self) -> Vec<f64> {
        let names = self.seconds.last().map(|last| last.1.keys());
        let names = names.into_iter().flatten();
        let shards = names.filter(|name| name.starts_with(SERVER));
        shards.map(|name| self.late(name)).fold(Vec::new(), longest)
    }

    /// Excuses the short seconds of a client in which it got its min for the time that its thread and the server's had a processor.
    pub(super) fn excuse(&self, record: &mut Record) {
        let Some(promised) = record.promised_mbps else {
            return;
        };
        let late = self.late(called(&record.client)).into_iter();
        let late = late.zip(self.server());
        let late = late.map(|(own, server)| (own + server).min(1.0));
        let got = judge::by_second(record).into_iter();
        let of_host = got.zip(late).filter(|(got, late)| {
            let owed = KEPT * promised;
            *got < owed && *got >= owed * (1.0 - late)
        });
        let of_host = of_host.count() as u64;
        if let Some(seconds) = &mut record.promise_seconds {
            let mut left = of_host.min(seconds.short);
            seconds.short -= left;
            seconds.excused += left;
            if left > 0 {
                seconds.why.insert(HOST.to_owned(), left);
            }
            for why in weir_measure::promise::Short::ALL {
                let count = seconds.of(why.name());
                let less = count.min(left);
                left -= less;
                if count == less {
                    seconds.why.remove(why.name());
                } else {
                    seconds.why.insert(why.name().to_owned(), count - less);
                }
            }
            if seconds.short == 0 {
                (seconds.lacking_bytes, seconds.lacking_requests) = (None, None);
            }
            let judged = seconds.kept + seconds.short;
            record.windows_met = (judged > 0).then(|| seconds.kept as f64 / judged as f64);
        }
    }

    /// In a sentence, for how much of the time the server's thread waited, and that of the client that waited longest; nothing if the former
    /// was not worth a word.
    pub(super) fn said<'a>(&self, clients: impl Iterator<Item = &'a str>) -> Option<String> {
        const LITTLE: f64 = 0.02;
        let mean = |seconds: &[f64]| seconds.iter().sum::<f64>() / seconds.len().max(1) as f64;
        let server = self.server();
        let worst = server.iter().copied().fold(0.0, f64::max);
        let clients = clients.map(|client| mean(&self.late(called(client))));
        let client = clients.fold(0.0, f64::max);
        (worst >= LITTLE).then(|| {
            format!(
                "The machine was busy: the server's thread waited for a processor for {} of the time and {} of the worst second, a client's for \
                 up to {}.",
                percent(mean(&server)),
                percent(worst),
                percent(client)
            )
        })
    }
}

/// A client's name as the kernel has it of its thread.
fn called(client: &str) -> &str {
    &client[..client.floor_char_boundary(NAME_MAX)]
}

/// Seconds of the client's promise that a busy machine excused.
pub(super) fn excused(record: &Record) -> u64 {
    let seconds = record.promise_seconds.as_ref();
    seconds.map_or(0, |seconds| seconds.of(HOST))
}

/// Whether the server's threads have been raised above those of other programs.
pub(super) fn is_raised() -> bool {
    let mut shards = threads().filter(|(name, _)| name.starts_with(SERVER));
    let nice = |stat: &str| {
        // The nineteenth field of proc(5); the first behind the name is the third.
        let rest = stat.rsplit_once(')')?.1;
        rest.split_whitespace().nth(16)?.parse::<i32>().ok()
    };
    shards.any(|(_, folder)| {
        let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
        nice(&stat).is_some_and(|nice| nice < 0)
    })
}

/// The longer of each two.
fn longest(a: Vec<f64>, b: Vec<f64>) -> Vec<f64> {
    if a.is_empty() {
        return b;
    }
    a.into_iter().zip(b).map(|(a, b)| a.max(b)).collect()
}

/// The threads of this process: their names and folders.
fn threads() -> impl Iterator<Item = (String, std::path::PathBuf)> {
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten();
    entries.flatten().filter_map(|entry| {
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        Some((name.trim_end_matches('\n').to_owned(), entry.path()))
    })
}

/// How long each thread has waited so far; none where the kernel does not count.
fn waits() -> Waits {
    let mut waits = Waits::new();
    for (name, folder) in threads() {
        let text = fs::read_to_string(folder.join("schedstat")).unwrap_or_default();
        let waited = text.split_whitespace().nth(1);
        if let Some(waited) = waited.and_then(|n| n.parse::<u64>().ok()) {
            *waits.entry(name).or_insert(0) += waited;
        }
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_measure::PromiseSeconds;

    /// Four seconds, in which the server's thread and the target's waited so much.
    fn host(server: [u64; 4], target: [u64; 4]) -> Host {
        let mut host = Host::default();
        let (mut of_server, mut of_target) = (5, 7);
        for second in 0..5 {
            if second > 0 {
                of_server += server[second - 1] * 1_000_000;
                of_target += target[second - 1] * 1_000_000;
            }
            let waits = [("weir-shard-0", of_server), ("a-target-with-a", of_target)];
            let waits = waits.map(|(name, waited)| (name.to_owned(), waited));
            let passed = Duration::from_secs(2 + second as u64);
            host.seconds.push((passed, waits.into()));
        }
        host
    }

    fn record(got: [f64; 4], short: u64) -> Record {
        Record {
            client: "a-target-with-a-long-name".into(),
            promised_mbps: Some(10.0),
            series_step_s: Some(1.0),
            series_mbps: Some(got.to_vec()),
            promise_seconds: Some(PromiseSeconds {
                promised: 4,
                kept: 4 - short,
                short,
                why: [("others".to_owned(), short)].into(),
                lacking_bytes: Some(5),
                ..PromiseSeconds::default()
            }),
            ..Record::default()
        }
    }

    #[test]
    fn a_second_is_excused_if_the_client_got_its_min_for_the_time_that_there_was_a_processor() {
        let host = host([0, 300, 0, 100], [0, 0, 200, 100]);
        let mut all = record([10.0, 7.0, 8.0, 8.0], 3);
        host.excuse(&mut all);
        let seconds = all.promise_seconds.as_ref().unwrap();
        assert_eq!((seconds.kept, seconds.short, seconds.excused), (1, 0, 3));
        assert_eq!((excused(&all), seconds.of("others")), (3, 0));
        assert_eq!((seconds.lacking_bytes, all.windows_met), (None, Some(1.0)));
        // What is missing beyond that is the policy's.
        let mut some = record([9.0, 6.8, 8.0, 7.8], 4);
        host.excuse(&mut some);
        let seconds = some.promise_seconds.as_ref().unwrap();
        assert_eq!((seconds.short, seconds.excused), (3, 1));
        assert_eq!((seconds.of("others"), seconds.lacking_bytes), (3, Some(5)));
        let said = host
            .said(["a-target-with-a-long-name"].into_iter())
            .unwrap();
        assert!(
            said.contains(
                "for 10% of the time and 30% of the worst second, a client's for up to 8%"
            ),
            "{said}"
        );
    }

    #[test]
    fn a_quiet_machine_excuses_nothing_and_is_not_worth_a_word() {
        let host = host([0, 19, 0, 0], [0; 4]);
        let mut short = record([10.0, 2.0, 10.0, 10.0], 1);
        let before = short.clone();
        host.excuse(&mut short);
        assert_eq!(
            (short.promise_seconds, host.said([].into_iter())),
            (before.promise_seconds, None)
        );
        let mut unknown = record([1.0; 4], 4);
        Host::default().excuse(&mut unknown);
        assert_eq!(excused(&unknown), 0);
    }
}
