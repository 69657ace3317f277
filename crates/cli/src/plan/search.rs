//! Finds the smallest number of drives with which all promises are kept.
//!
//! [`all`] runs one search for each policy and repetition. A search simulates every drive
//! separately, because the clients of different drives do not affect each other.

use super::fleet::{FleetLoad, PlanFleet};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::jobs::threads;
use crate::judge;
use rayon::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use weir_config::Policy;
use weir_measure::number::figure;
use weir_measure::{NeedLimit, PromiseSeconds, Record, TOTAL};
use weir_sim::{ClientSpec, SimError, SimRun};

/// The parameters of the searches with one kind of drive.
#[derive(Debug)]
pub(super) struct SearchRequest<'a> {
    pub(super) fleet: PlanFleet<'a>,
    pub(super) policies: &'a [Policy],
    pub(super) repetitions: u32,
    /// The percentage of seconds in which each promise must be kept, 1 to 100.
    pub(super) keep: u32,
    /// The mean bandwidth of a client while it is active that is required, in MB/s. `None` if none
    /// is.
    pub(super) average: Option<f64>,
    /// The interrupt that ends all searches.
    pub(super) interrupt: &'a Interrupt,
}

impl SearchRequest<'_> {
    /// Returns the failure of a search that an interrupt has ended.
    fn interrupted(&self) -> Failure {
        let signal = self.interrupt.signal().unwrap_or_default();
        Failure::Interrupted(signal, "the searches are not complete".into())
    }
}

/// The clients on a sufficient number of drives.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packed {
    pub(super) drives: usize,
    /// The bandwidth of all clients together, in MB/s.
    pub(super) total_mb_per_s: f64,
    /// The mean bandwidth of a client while it is active, in MB/s.
    pub(super) average_mb_per_s: f64,
}

/// The result of one search.
#[derive(Debug, Clone)]
pub(super) struct SearchResult {
    /// The result with the smallest sufficient number of drives. `None` if the promises are not
    /// kept even with a drive for each client.
    pub(super) packed: Option<Packed>,
    /// The reason why the next smaller number of drives is not sufficient. If no number is
    /// sufficient, it is the reason for a drive for each client. `None` if one drive is sufficient.
    pub(super) fewer: Option<TooFew>,
}

/// A number of drives that is not sufficient, and the reason.
#[derive(Debug, Clone)]
pub(super) struct TooFew {
    pub(super) drives: usize,
    pub(super) lack: Lack,
}

/// The reason why a number of drives is not sufficient.
#[derive(Debug, Clone)]
pub(super) struct Lack {
    pub(super) limit: NeedLimit,
    /// The client whose promise is broken and the extent, or the average that is not reached.
    pub(super) why: String,
}

impl Lack {
    fn of_promise(why: String) -> Self {
        let limit = NeedLimit::Min;
        Self { limit, why }
    }
}

/// Runs the searches for every policy and repetition, `jobs` in parallel. `done` receives the
/// number of completed searches, and the name of a step that begins.
///
/// The results are sorted by policy and repetition. The first ones are those of a drive for each
/// client.
pub(super) fn all(
    asked: &SearchRequest<'_>,
    jobs: usize,
    done: impl Fn(usize, Option<String>) + Sync,
) -> Result<Vec<SearchResult>, Failure> {
    let each = asked.repetitions as usize;
    let total = (asked.policies.len() + 1) * each;
    // The counters order nothing: they only tell whether to go on, and how far the bar is. So
    // relaxed accesses suffice.
    let (count, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let search = |number| {
        if failed.load(Ordering::Relaxed) || asked.interrupt.signal().is_some() {
            return None;
        }
        let at = |what| done(count.load(Ordering::Relaxed), Some(what));
        let one = run_search(asked, number / each, (number % each) as u32, &at);
        failed.fetch_or(one.is_err(), Ordering::Relaxed);
        done(count.fetch_add(1, Ordering::Relaxed) + 1, None);
        Some(one)
    };
    let found: Vec<_> = threads(jobs).install(|| (0..total).into_par_iter().map(search).collect());
    let found: Vec<SearchResult> = (found.into_iter().flatten()).collect::<Result<_, _>>()?;
    // Only an interrupt leaves searches out, because an error has been returned above.
    if found.len() < total {
        return Err(asked.interrupted());
    }
    Ok(found)
}

/// Runs one search. `which` is 0 for a drive for each client, and otherwise the number of the
/// policy plus 1.
fn run_search(
    asked: &SearchRequest<'_>,
    which: usize,
    repetition: u32,
    at: &dyn Fn(String),
) -> Result<SearchResult, Failure> {
    let clients = asked.fleet.clients();
    let Some(policy) = which.checked_sub(1).map(|at| &asked.policies[at]) else {
        let load = asked.fleet.load(&Policy::none(), repetition)?;
        at("a drive each".to_owned());
        let packed = Search::new(asked, &load, repetition).pack(clients)?;
        return Ok(search_result(clients, Some(packed), None));
    };
    let load = asked.fleet.load(policy, repetition)?;
    let mut search = Search::new(asked, &load, repetition);
    let (best, last) = find_least(clients, |drives| {
        at(format!("{} on {drives} drives", policy.name));
        search.pack(drives)
    })?;
    Ok(search_result(clients, best.map(Ok), last))
}

/// Returns the result of a search. `best` is the smallest sufficient number, if any, and `last` the
/// largest insufficient number with the reason.
fn search_result(
    clients: usize,
    best: Option<Result<Packed, Lack>>,
    last: Option<(usize, Lack)>,
) -> SearchResult {
    let (packed, last) = match best {
        Some(Ok(packed)) => (Some(packed), last),
        Some(Err(lack)) => (None, Some((clients, lack))),
        None => (None, last),
    };
    let fewer = last.map(|(drives, lack)| TooFew { drives, lack });
    SearchResult { packed, fewer }
}

/// Finds the smallest number from 1 to `most` for which `pack` has a result, first by doubling and
/// then by bisection. Every larger number is assumed to have a result as well.
///
/// Returns the result for that number, and the largest number that was found to have none, with the
/// reason.
#[expect(clippy::type_complexity, reason = "two results of one search")]
fn find_least<T, W, E>(
    most: usize,
    mut pack: impl FnMut(usize) -> Result<Result<T, W>, E>,
) -> Result<(Option<T>, Option<(usize, W)>), E> {
    let (mut below, mut drives) = (None, 1);
    let mut best = loop {
        match pack(drives)? {
            Ok(packed) => break packed,
            Err(why) => below = Some((drives, why)),
        }
        if drives == most {
            // Even the largest number has no result.
            return Ok((None, below));
        }
        drives = (drives * 2).min(most);
    };
    // Below `number(&below)` there is no result, and at `drives` there is one. The interval is
    // halved until nothing is between them.
    let number = |below: &Option<(usize, W)>| below.as_ref().map_or(0, |below| below.0);
    while drives - number(&below) > 1 {
        let middle = number(&below).midpoint(drives);
        match pack(middle)? {
            Ok(packed) => (best, drives) = (packed, middle),
            Err(why) => below = Some((middle, why)),
        }
    }
    Ok((Some(best), below))
}

/// One search: the clients of one repetition under one policy, on several numbers of drives.
#[derive(Debug)]
struct Search<'a> {
    asked: &'a SearchRequest<'a>,
    load: &'a FleetLoad,
    repetition: u32,
    /// The result of each client that was simulated on a drive of its own. It does not depend on
    /// the number of drives.
    single: Vec<Option<DriveResult>>,
}

/// The result of one drive. The error states whose promise is broken, or why the core refused the
/// clients.
type DriveResult = Result<DriveBandwidths, Lack>;

/// The bandwidths on a drive whose promises are all kept.
#[derive(Debug, Clone)]
struct DriveBandwidths {
    total_mb_per_s: f64,
    /// The bandwidth of each client while it is active, in MB/s.
    active_mb_per_s: Vec<f64>,
}

impl<'a> Search<'a> {
    fn new(asked: &'a SearchRequest<'a>, load: &'a FleetLoad, repetition: u32) -> Self {
        Self {
            asked,
            load,
            repetition,
            single: vec![None; asked.fleet.clients()],
        }
    }

    /// Distributes the clients in turn to `drives` drives, and returns their bandwidths. The inner
    /// error states whose promise is broken or refused, or that the average is not reached.
    fn pack(&mut self, drives: usize) -> Result<Result<Packed, Lack>, Failure> {
        let clients = self.asked.fleet.clients();
        let (mut total, mut average) = (0.0, 0.0);
        for drive in 0..drives {
            // With `drives` drives, client `n` is on the drive `n % drives`. So all kinds of
            // clients are on each drive.
            let members: Vec<usize> = (drive..clients).step_by(drives).collect();
            let shared = match &self.single[drive] {
                // A client on a drive of its own has the same result on any number of drives, so it
                // is simulated once.
                Some(known) if members.len() == 1 => known.clone(),
                _ => self.simulate_drive(drive, &members)?,
            };
            if members.len() == 1 {
                self.single[drive] = Some(shared.clone());
            }
            let shared = match shared {
                Ok(shared) => shared,
                Err(lack) => return Ok(Err(lack)),
            };
            total += shared.total_mb_per_s;
            average = shared
                .active_mb_per_s
                .iter()
                .fold(average, |sum, mb_per_s| sum + mb_per_s);
        }
        let average = average / clients as f64;
        if let Some(asked) = self.asked.average.filter(|asked| average < *asked) {
            let why = format!(
                "clients get an average of {} of {} MB/s while they are active, although every promise is kept",
                figure(average),
                figure(asked)
            );
            let limit = NeedLimit::Average;
            return Ok(Err(Lack { limit, why }));
        }
        Ok(Ok(Packed {
            drives,
            total_mb_per_s: total,
            average_mb_per_s: average,
        }))
    }

    /// Simulates one drive with these clients. The inner error states whose promise is broken or
    /// refused.
    fn simulate_drive(&self, drive: usize, members: &[usize]) -> Result<DriveResult, Failure> {
        let part = self.load.part(members);
        // Each drive of a repetition needs random numbers of its own.
        let repetition = self.repetition.wrapping_mul(4096) + drive as u32;
        let run = match SimRun::new(&part, self.load.policy(), repetition) {
            // The core refuses promises that exceed the capacity, which means that there are too
            // few drives.
            Err(error @ SimError::Refused(_)) => {
                let clients = sharers(members.len());
                let why = format!("{clients}, and {}", error.message_for(&part));
                return Ok(Err(Lack::of_promise(why)));
            }
            other => other.map_err(|error| Failure::run(error.message_for(&part)))?,
        };
        let results = run.run_while(|_| self.asked.interrupt.signal().is_none());
        let Some(results) = results.map_err(Failure::run)? else {
            return Err(self.asked.interrupted());
        };
        let records = results.records(&self.asked.fleet.alone(members));
        let (totals, records): (Vec<_>, Vec<_>) =
            records.iter().partition(|record| record.client == TOTAL);
        let broken = records.iter().filter(|r| !is_kept(r, self.asked.keep));
        // The reason names the client with the largest fraction of short seconds.
        if let Some(worst) = broken.max_by(|a, b| short(a).total_cmp(&short(b))) {
            let seconds = worst.promise_seconds.clone().unwrap_or_default();
            let applied = (seconds.short, seconds.short + seconds.kept);
            let how = judge::promise::describe_broken(worst, applied);
            let clients = sharers(members.len());
            let why = format!("{clients}, and {} {how}", worst.client);
            return Ok(Err(Lack::of_promise(why)));
        }
        let active = |(record, client): (&&Record, &ClientSpec)| {
            // A client that pauses gets nothing during its pauses, so its mean is divided by the
            // fraction of the time in which it is active.
            let active = client.program.activity.map_or(1.0, |a| {
                let (on, off) = (a.on.as_nanos() as f64, a.off.as_nanos() as f64);
                on / (on + off)
            });
            record.bandwidth_mb_per_s / active
        };
        Ok(Ok(DriveBandwidths {
            total_mb_per_s: totals.iter().map(|total| total.bandwidth_mb_per_s).sum(),
            active_mb_per_s: records.iter().zip(&part.clients).map(active).collect(),
        }))
    }
}

/// Returns the number of clients on a drive, in words.
fn sharers(count: usize) -> String {
    match count {
        1 => "a client has a drive to itself".to_owned(),
        several => format!("{several} clients share one"),
    }
}

/// Returns the fraction of short seconds among the seconds in which a promise applied.
fn short(record: &Record) -> f64 {
    let seconds = record.promise_seconds.as_ref();
    seconds.map_or(0.0, |s| s.short as f64 / (s.short + s.kept).max(1) as f64)
}

/// Returns true if the promise was kept in at least `keep` percent of the seconds in which it
/// applied.
fn is_kept(record: &Record, keep: u32) -> bool {
    record
        .promise_seconds
        .as_ref()
        .is_none_or(|s: &PromiseSeconds| {
            let applied = s.kept + s.short;
            // Integers avoid rounding errors at the limit.
            s.kept * 100 >= applied * u64::from(keep)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_number_is_found_wherever_it_is() {
        for most in 1..40 {
            // `most + 1` is a number that cannot be reached.
            for needed in 1..=most + 1 {
                let mut asked = Vec::new();
                let found: Result<_, ()> = find_least(most, |drives| {
                    asked.push(drives);
                    Ok(if drives >= needed {
                        Ok(drives)
                    } else {
                        Err("short")
                    })
                });
                let enough = (needed <= most).then_some(needed);
                // The reason must be that of the next smaller number.
                let fewer = (needed > 1).then_some((needed - 1, "short"));
                assert_eq!(found, Ok((enough, fewer)), "{needed} of {most}");
                // Doubling reaches 39 with seven calls at most, and bisection of at most 16 numbers
                // takes four more.
                assert!(asked.len() <= 12, "{asked:?}");
            }
        }
    }
}
