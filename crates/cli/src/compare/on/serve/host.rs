//! Measures for how long the threads of the demo waited for a processor. A policy cannot be blamed
//! for such delays.
//!
//! For each thread, Linux counts the time for which it was ready to run but did not run (the second
//! figure of `/proc/PID/task/TID/schedstat`). If the threads of the server and of a client waited
//! during a second, the client is owed its min only for the rest of the second.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;
use weir_measure::number::percent;

/// The longest thread name that the kernel keeps, in bytes (`TASK_COMM_LEN` without its final
/// zero).
const NAME_MAX: usize = 15;
/// The first part of the names of threads that serve drives.
const SERVER: &str = "weir-shard-";

/// The waiting time of each thread since its start, by name, in nanoseconds. Threads with equal
/// names are added up.
type WaitsByThread = BTreeMap<String, u64>;

/// The waiting times at the start of the measurement and after each of its seconds.
#[derive(Debug, Default)]
pub(super) struct ThreadWaits {
    seconds: Vec<(Duration, WaitsByThread)>,
}

/// The effect of a busy machine on a run, as fractions (0 to 1) of the time in which threads were
/// ready to run but had no processor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::compare) struct MachineLoad {
    /// The fraction for the server's thread in the whole measurement.
    pub(crate) server: f64,
    /// The fraction for the server's thread in its worst second.
    pub(crate) worst: f64,
    /// The fraction for the client's thread with the longest wait.
    pub(crate) client: f64,
}

impl MachineLoad {
    /// The largest fraction for the server's thread with which a run still shows the effect of a
    /// policy.
    const TOLERATED: f64 = 0.04;

    /// Returns true if the machine was too busy for the run to show the effect of the policy.
    pub(crate) fn is_invalid(self) -> bool {
        self.server > Self::TOLERATED
    }
}

impl std::fmt::Display for MachineLoad {
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

impl ThreadWaits {
    /// Reads the waiting times if another second of the measurement has passed. The measurement
    /// begins after `warm_up`.
    pub(super) fn watch(&mut self, warm_up: Duration, passed: Duration) {
        let due = warm_up + Duration::from_secs(self.seconds.len() as u64);
        if passed >= due {
            self.seconds.push((passed, waits()));
        }
    }

    /// Returns the fraction of each second in which the threads with a name waited for a processor.
    fn late(&self, name: &str) -> Vec<f64> {
        let of = |waits: &WaitsByThread| waits.get(name).copied().unwrap_or(0);
        let part = |pair: &[(Duration, WaitsByThread)]| {
            // The sum for a name decreases when one of several threads ends, and a second can be
            // measured twice at the same time. Neither may give a negative or infinite fraction.
            let waited = of(&pair[1].1).saturating_sub(of(&pair[0].1));
            let passed = pair[1].0.saturating_sub(pair[0].0).as_nanos().max(1);
            (waited as f64 / passed as f64).min(1.0)
        };
        self.seconds.windows(2).map(part).collect()
    }

    /// Returns the fraction of each second in which the server's thread with the longest wait
    /// waited.
    fn server(&self) -> Vec<f64> {
        let names = self.seconds.last().map(|last| last.1.keys());
        let names = names.into_iter().flatten();
        let shards = names.filter(|name| name.starts_with(SERVER));
        shards.map(|name| self.late(name)).fold(Vec::new(), longest)
    }

    /// Returns the time of each second in which the client's or the server's thread waited, in
    /// nanoseconds. The client is not owed its min for this time.
    pub(super) fn late_ns(&self, client: &str) -> Vec<u64> {
        let late = self.late(called(client)).into_iter().zip(self.server());
        let nanos = |part: f64| (part.min(1.0) * 1e9) as u64;
        late.map(|(own, server)| nanos(own + server)).collect()
    }

    /// Returns the effect of the busy machine, or `None` if it was negligible in every second.
    pub(super) fn busy<'a>(&self, clients: impl Iterator<Item = &'a str>) -> Option<MachineLoad> {
        // The smallest fraction of the worst second that is mentioned.
        const LITTLE: f64 = 0.02;
        let mean = |seconds: &[f64]| seconds.iter().sum::<f64>() / seconds.len().max(1) as f64;
        let server = self.server();
        let worst = server.iter().copied().fold(0.0, f64::max);
        let clients = clients.map(|client| mean(&self.late(called(client))));
        let client = clients.fold(0.0, f64::max);
        (worst >= LITTLE).then(|| MachineLoad {
            server: mean(&server),
            worst,
            client,
        })
    }
}

/// Returns the name of a client as the kernel keeps it as the name of the client's thread.
fn called(client: &str) -> &str {
    &client[..client.floor_char_boundary(NAME_MAX)]
}

/// Returns true if a thread of the server has a higher priority than other programs.
pub(super) fn is_raised() -> bool {
    let mut shards = threads().filter(|(name, _)| name.starts_with(SERVER));
    let nice = |stat: &str| {
        // The nice value is field 19 of `/proc/PID/stat` (proc(5)). The first field after the name
        // is field 3, so it is at index 16. The name can contain spaces and brackets, so it is
        // skipped up to the last bracket.
        let rest = stat.rsplit_once(')')?.1;
        rest.split_whitespace().nth(16)?.parse::<i32>().ok()
    };
    shards.any(|(_, folder)| {
        let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
        nice(&stat).is_some_and(|nice| nice < 0)
    })
}

/// Returns the larger of each two values.
fn longest(a: Vec<f64>, b: Vec<f64>) -> Vec<f64> {
    if a.is_empty() {
        return b;
    }
    a.into_iter().zip(b).map(|(a, b)| a.max(b)).collect()
}

/// Returns the names of this process's threads and their directories in `/proc`.
fn threads() -> impl Iterator<Item = (String, std::path::PathBuf)> {
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten();
    entries.flatten().filter_map(|entry| {
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        Some((name.trim_end_matches('\n').to_owned(), entry.path()))
    })
}

/// Returns the waiting time of each thread. The result is empty if the kernel does not count such
/// times (`CONFIG_SCHED_INFO`).
fn waits() -> WaitsByThread {
    let mut waits = WaitsByThread::new();
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

    /// Returns four seconds in which the threads of the server and the target waited for these
    /// times, in milliseconds.
    fn host(server: [u64; 4], target: [u64; 4]) -> ThreadWaits {
        let mut host = ThreadWaits::default();
        // The counts begin when a thread starts, so they are not 0 at the start of the measurement.
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
        // The server waited for 400 ms of 4 s, which is 10 %, and the client for 300 ms, which is 8
        // %.
        assert_eq!(ms.collect::<Vec<_>>(), [0, 300, 200, 200]);
        let busy = host.busy([name].into_iter()).unwrap();
        assert!(busy.is_invalid(), "{busy:?}");
        let said = busy.to_string();
        let words = "for 10% of the time and 30% of the worst second, a client's for up to 8%";
        assert!(said.contains(words), "{said}");
    }

    #[test]
    fn a_quiet_machine_is_not_mentioned() {
        // 19 ms of a second are less than the 2 % that are mentioned.
        let host = host([0, 19, 0, 0], [0; 4]);
        assert_eq!(host.busy([].into_iter()), None);
        // 150 ms of 4 s are 3.75 %, which is tolerated.
        let host = self::host([0, 150, 0, 0], [0; 4]);
        let busy = host.busy([].into_iter()).unwrap();
        assert!(!busy.is_invalid(), "one bad second of four: {busy:?}");
        assert_eq!(ThreadWaits::default().late_ns("a"), [0_u64; 0]);
    }
}
