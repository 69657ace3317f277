//! The least number of drives that keeps all promises.

use super::fleet::{Fleet, Load};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::jobs::threads;
use crate::judge;
use rayon::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use weir_config::Policy;
use weir_measure::{PromiseSeconds, Record, TOTAL};
use weir_sim::{ClientSpec, Error, Run};

/// What is searched for.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) fleet: Fleet<'a>,
    pub(super) policies: &'a [Policy],
    pub(super) repetitions: u32,
    /// How many of a hundred seconds are to be kept.
    pub(super) keep: u32,
    /// When it says so nothing is searched for any more.
    pub(super) interrupt: &'a Interrupt,
}

impl Asked<'_> {
    fn interrupted(&self) -> Failure {
        let signal = self.interrupt.signal().unwrap_or_default();
        Failure::Interrupted(signal, "the searches are not complete".into())
    }
}

/// Clients on drives, with all promises kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packed {
    pub(super) drives: usize,
    /// What all clients get together.
    pub(super) total_mb_per_s: f64,
    /// What a client gets while it is active, mean of all.
    pub(super) average_mb_per_s: f64,
}

/// What a search found.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// `None`: the promises are not kept even with a drive for each client.
    pub(super) packed: Option<Packed>,
    /// Why the next smaller number of drives is not enough, or a drive for each client where that is not. `None`: one drive is enough.
    pub(super) fewer: Option<TooFew>,
}

/// Why a number of drives is not enough.
#[derive(Debug, Clone)]
pub(super) struct TooFew {
    pub(super) drives: usize,
    /// Whose promise is not kept, and by how much.
    pub(super) why: String,
}

/// Searches for every policy in every repetition, `jobs` at a time, and tells `done` how many are done and what is played. In the order of
/// policies, and within one of repetitions; before them what a drive for each client comes to.
pub(super) fn all(
    asked: &Asked<'_>,
    jobs: usize,
    done: impl Fn(usize, Option<String>) + Sync,
) -> Result<Vec<Found>, Failure> {
    let each = asked.repetitions as usize;
    let total = (asked.policies.len() + 1) * each;
    let (count, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let search = |number| {
        if failed.load(Ordering::Relaxed) || asked.interrupt.signal().is_some() {
            return None;
        }
        let at = |what| done(count.load(Ordering::Relaxed), Some(what));
        let one = one(asked, number / each, (number % each) as u32, &at);
        failed.fetch_or(one.is_err(), Ordering::Relaxed);
        done(count.fetch_add(1, Ordering::Relaxed) + 1, None);
        Some(one)
    };
    let found: Vec<_> = threads(jobs).install(|| (0..total).into_par_iter().map(search).collect());
    let found: Vec<Found> = (found.into_iter().flatten()).collect::<Result<_, _>>()?;
    if found.len() < total {
        return Err(asked.interrupted());
    }
    Ok(found)
}

/// One search: 0 is a drive for each client, and then policies in order.
fn one(
    asked: &Asked<'_>,
    which: usize,
    repetition: u32,
    at: &dyn Fn(String),
) -> Result<Found, Failure> {
    let clients = asked.fleet.clients();
    let Some(policy) = which.checked_sub(1).map(|at| &asked.policies[at]) else {
        let load = asked.fleet.load(&Policy::none(), repetition)?;
        at("a drive each".to_owned());
        let packed = Search::new(asked, &load, repetition).pack(clients)?;
        return Ok(found(clients, Some(packed), None));
    };
    let load = asked.fleet.load(policy, repetition)?;
    let mut search = Search::new(asked, &load, repetition);
    let (best, last) = least(clients, |drives| {
        at(format!("{} on {drives} drives", policy.name));
        search.pack(drives)
    })?;
    Ok(found(clients, best.map(Ok), last))
}

/// What a search came to: what was enough, if anything, and why what was tried in vain last was not.
fn found(
    clients: usize,
    best: Option<Result<Packed, String>>,
    last: Option<(usize, String)>,
) -> Found {
    let (packed, last) = match best {
        Some(Ok(packed)) => (Some(packed), last),
        Some(Err(why)) => (None, Some((clients, why))),
        None => (None, last),
    };
    let fewer = last.map(|(drives, why)| TooFew { drives, why });
    Found { packed, fewer }
}

/// The result for the least number of drives for which there is one, if it is there for all larger numbers, by doubling and halving; and why
/// the largest number without a result has none.
#[expect(clippy::type_complexity, reason = "two results of one search")]
fn least<T, W, E>(
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
            return Ok((None, below));
        }
        drives = (drives * 2).min(most);
    };
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

/// The clients of one repetition under one policy, on numbers of drives.
#[derive(Debug)]
struct Search<'a> {
    asked: &'a Asked<'a>,
    load: &'a Load,
    repetition: u32,
    /// What came of each client that was on a drive of its own: the same on every number of drives.
    single: Vec<Option<Kept>>,
}

/// What clients of a drive get; an error states whose promise is not kept, or is refused.
type Kept = Result<Shared, String>;

/// What the clients of a drive get whose promises are all kept.
#[derive(Debug, Clone)]
struct Shared {
    total_mb_per_s: f64,
    /// Each while it is active.
    active_mb_per_s: Vec<f64>,
}

impl<'a> Search<'a> {
    fn new(asked: &'a Asked<'a>, load: &'a Load, repetition: u32) -> Self {
        Self {
            asked,
            load,
            repetition,
            single: vec![None; asked.fleet.clients()],
        }
    }

    /// What clients get that are dealt out in turn to `drives` drives; or whose promise is not kept, or is refused.
    fn pack(&mut self, drives: usize) -> Result<Result<Packed, String>, Failure> {
        let clients = self.asked.fleet.clients();
        let (mut total, mut average) = (0.0, 0.0);
        for drive in 0..drives {
            let members: Vec<usize> = (drive..clients).step_by(drives).collect();
            let shared = match &self.single[drive] {
                Some(known) if members.len() == 1 => known.clone(),
                _ => self.share(drive, &members)?,
            };
            if members.len() == 1 {
                self.single[drive] = Some(shared.clone());
            }
            let shared = match shared {
                Ok(shared) => shared,
                Err(why) => return Ok(Err(why)),
            };
            total += shared.total_mb_per_s;
            average = shared
                .active_mb_per_s
                .iter()
                .fold(average, |sum, mb_per_s| sum + mb_per_s);
        }
        Ok(Ok(Packed {
            drives,
            total_mb_per_s: total,
            average_mb_per_s: average / clients as f64,
        }))
    }

    /// What these clients get on a drive that is theirs; or whose promise is not kept, or is refused.
    fn share(&self, drive: usize, members: &[usize]) -> Result<Kept, Failure> {
        let part = self.load.part(members);
        let repetition = self.repetition.wrapping_mul(4096) + drive as u32;
        let run = match Run::new(&part, self.load.policy(), repetition) {
            Err(error @ Error::Refused(_)) => {
                let clients = sharers(members.len());
                return Ok(Err(format!("{clients}, and {}", error.of(&part))));
            }
            other => other.map_err(|error| Failure::run(error.of(&part)))?,
        };
        let results = run.run_while(|_| self.asked.interrupt.signal().is_none());
        let Some(results) = results.map_err(Failure::run)? else {
            return Err(self.asked.interrupted());
        };
        let records = results.records(&self.asked.fleet.alone(members));
        let (totals, records): (Vec<_>, Vec<_>) =
            records.iter().partition(|record| record.client == TOTAL);
        let broken = records.iter().filter(|r| !is_kept(r, self.asked.keep));
        if let Some(worst) = broken.max_by(|a, b| short(a).total_cmp(&short(b))) {
            let seconds = worst.promise_seconds.clone().unwrap_or_default();
            let applied = (seconds.short, seconds.short + seconds.kept);
            let how = judge::promise::how(worst, applied);
            let clients = sharers(members.len());
            return Ok(Err(format!("{clients}, and {} {how}", worst.client)));
        }
        let active = |(record, client): (&&Record, &ClientSpec)| {
            let active = client.program.activity.map_or(1.0, |a| {
                let (on, off) = (a.on.as_nanos() as f64, a.off.as_nanos() as f64);
                on / (on + off)
            });
            record.bandwidth_mb_per_s / active
        };
        Ok(Ok(Shared {
            total_mb_per_s: totals.iter().map(|total| total.bandwidth_mb_per_s).sum(),
            active_mb_per_s: records.iter().zip(&part.clients).map(active).collect(),
        }))
    }
}

/// How many clients a drive has, in words.
fn sharers(count: usize) -> String {
    match count {
        1 => "a client has a drive to itself".to_owned(),
        several => format!("{several} clients share one"),
    }
}

/// The part of the seconds in which a promise applied that it was short.
fn short(record: &Record) -> f64 {
    let seconds = record.promise_seconds.as_ref();
    seconds.map_or(0.0, |s| s.short as f64 / (s.short + s.kept).max(1) as f64)
}

/// Whether `keep` of a hundred seconds were kept in which the promise applied.
fn is_kept(record: &Record, keep: u32) -> bool {
    record
        .promise_seconds
        .as_ref()
        .is_none_or(|s: &PromiseSeconds| {
            let applied = s.kept + s.short;
            s.kept * 100 >= applied * u64::from(keep)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_number_is_found_wherever_it_is() {
        for most in 1..40 {
            for needed in 1..=most + 1 {
                let mut asked = Vec::new();
                let found: Result<_, ()> = least(most, |drives| {
                    asked.push(drives);
                    Ok(if drives >= needed {
                        Ok(drives)
                    } else {
                        Err("short")
                    })
                });
                let enough = (needed <= most).then_some(needed);
                let fewer = (needed > 1).then_some((needed - 1, "short"));
                assert_eq!(found, Ok((enough, fewer)), "{needed} of {most}");
                assert!(asked.len() <= 12, "{asked:?}");
            }
        }
    }
}
