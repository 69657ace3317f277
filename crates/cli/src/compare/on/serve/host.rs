//! How long the demo's own threads waited for a processor: what a busy machine keeps from a client is no fault of a policy.
//!
//! Linux counts for each thread how long it was ready to run and did not (`/proc/PID/task/TID/schedstat`, its second figure). In a second of
//! which the server's thread and the client's waited for a time, the client is owed its min for the rest.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;
use weir_measure::number::percent;

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

/// How a busy machine disturbed a run: parts (0 to 1) of the time in which threads that were ready to run had no processor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::compare) struct Busy {
    /// The server's thread, in the whole measurement.
    pub(crate) server: f64,
    /// The same, in its worst second.
    pub(crate) worst: f64,
    /// The client's thread that waited longest.
    pub(crate) client: f64,
}

impl Busy {
    /// The part of the time for which the server's thread may lack a processor. Beyond it a run says nothing about a policy.
    const TOLERATED: f64 = 0.04;

    /// Whether the run says nothing about the policy.
    pub(crate) fn is_invalid(self) -> bool {
        self.server > Self::TOLERATED
    }
}

impl std::fmt::Display for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "The machine was busy: the server's thread waited for a processor for {} of the time and {} of the worst second, a client's for \
             up to {}.",
            percent(self.server),
            percent(self.worst),
            percent(self.client)
        )
    }
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
            let passed = pair[1].0.saturating_sub(pair[0].0).as_nanos().max(1);
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

    /// For how long the thread of that client and the server's waited in each second, nanoseconds: what a busy machine keeps from it.
    pub(super) fn late_ns(&self, client: &str) -> Vec<u64> {
        let late = self.late(called(client)).into_iter().zip(self.server());
        let nanos = |part: f64| (part.min(1.0) * 1e9) as u64;
        late.map(|(own, server)| nanos(own + server)).collect()
    }

    /// For how much of the time the server's thread waited, and that of the client that waited longest; nothing if the former was not worth a
    /// word.
    pub(super) fn busy<'a>(&self, clients: impl Iterator<Item = &'a str>) -> Option<Busy> {
        const LITTLE: f64 = 0.02;
        let mean = |seconds: &[f64]| seconds.iter().sum::<f64>() / seconds.len().max(1) as f64;
        let server = self.server();
        let worst = server.iter().copied().fold(0.0, f64::max);
        let clients = clients.map(|client| mean(&self.late(called(client))));
        let client = clients.fold(0.0, f64::max);
        (worst >= LITTLE).then(|| Busy {
            server: mean(&server),
            worst,
            client,
        })
    }
}

/// A client's name as the kernel has it of its thread.
fn called(client: &str) -> &str {
    &client[..client.floor_char_boundary(NAME_MAX)]
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

    /// Four seconds, in which the server's thread and the target's waited this long each.
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

    #[test]
    fn a_client_is_late_by_its_own_thread_and_by_the_servers() {
        let host = host([0, 300, 0, 100], [0, 0, 200, 100]);
        let name = "a-target-with-a-long-name";
        let ms = host.late_ns(name).into_iter().map(|ns| ns / 1_000_000);
        assert_eq!(ms.collect::<Vec<_>>(), [0, 300, 200, 200]);
        let busy = host.busy([name].into_iter()).unwrap();
        assert!(busy.is_invalid(), "{busy:?}");
        let said = busy.to_string();
        let words = "for 10% of the time and 30% of the worst second, a client's for up to 8%";
        assert!(said.contains(words), "{said}");
    }

    #[test]
    fn a_quiet_machine_is_not_worth_a_word() {
        let host = host([0, 19, 0, 0], [0; 4]);
        assert_eq!(host.busy([].into_iter()), None);
        let host = self::host([0, 150, 0, 0], [0; 4]);
        let busy = host.busy([].into_iter()).unwrap();
        assert!(!busy.is_invalid(), "one bad second of four: {busy:?}");
        assert_eq!(Host::default().late_ns("a"), [0_u64; 0]);
    }
}
