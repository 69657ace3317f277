//! The least number of drives that keeps all promises.

use super::fleet::{Fleet, Load};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::jobs::threads;
use rayon::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use weir_config::Policy;
use weir_measure::{PromiseSeconds, Record, TOTAL};
use weir_sim::{ClientSpec, Error, Run};

/// What is searched for.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) fleet: &'a Fleet<'a>,
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

/// `None`: the promises are not kept even with a drive for each client.
pub(super) type Found = Option<Packed>;

/// Searches for every policy in every repetition, `jobs` at a time, and tells `done` how many are done. In the order of policies, and
/// within one of repetitions; before them what a drive for each client comes to.
pub(super) fn all(
    asked: &Asked<'_>,
    jobs: usize,
    done: impl Fn(usize) + Sync,
) -> Result<Vec<Found>, Failure> {
    let each = asked.repetitions as usize;
    let total = (asked.policies.len() + 1) * each;
    let (count, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let search = |number| {
        if failed.load(Ordering::Relaxed) || asked.interrupt.signal().is_some() {
            return None;
        }
        let one = one(asked, number / each, (number % each) as u32);
        failed.fetch_or(one.is_err(), Ordering::Relaxed);
        done(count.fetch_add(1, Ordering::Relaxed) + 1);
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
fn one(asked: &Asked<'_>, which: usize, repetition: u32) -> Result<Found, Failure> {
    let clients = asked.fleet.clients();
    let Some(policy) = which.checked_sub(1).map(|at| &asked.policies[at]) else {
        let load = asked.fleet.load(&Policy::none(), repetition)?;
        return Search::new(asked, &load, repetition).pack(clients);
    };
    let load = asked.fleet.load(policy, repetition)?;
    let mut search = Search::new(asked, &load, repetition);
    least(clients, |drives| search.pack(drives))
}

/// The result for the least number of drives for which there is one, if it is there for all larger numbers: by doubling and halving.
fn least<T, E>(
    most: usize,
    mut pack: impl FnMut(usize) -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let (mut below, mut drives) = (0, 1);
    let mut best = loop {
        if let Some(packed) = pack(drives)? {
            break packed;
        }
        if drives == most {
            return Ok(None);
        }
        below = drives;
        drives = (drives * 2).min(most);
    };
    while drives - below > 1 {
        let middle = below + (drives - below) / 2;
        match pack(middle)? {
            Some(packed) => (best, drives) = (packed, middle),
            None => below = middle,
        }
    }
    Ok(Some(best))
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

/// `None`: a promise is not kept, or is refused.
type Kept = Option<Shared>;

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

    /// What clients get that are dealt out in turn to `drives` drives; `None` if a promise is not kept, or is refused.
    fn pack(&mut self, drives: usize) -> Result<Found, Failure> {
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
            let Some(shared) = shared else {
                return Ok(None);
            };
            total += shared.total_mb_per_s;
            average = shared
                .active_mb_per_s
                .iter()
                .fold(average, |sum, mb_per_s| sum + mb_per_s);
        }
        Ok(Some(Packed {
            drives,
            total_mb_per_s: total,
            average_mb_per_s: average / clients as f64,
        }))
    }

    /// What these clients get on a drive that is theirs; `None` if a promise is not kept, or is refused.
    fn share(&self, drive: usize, members: &[usize]) -> Result<Kept, Failure> {
        let part = self.load.part(members);
        let repetition = self.repetition.wrapping_mul(4096) + drive as u32;
        let run = match Run::new(&part, self.load.policy(), repetition) {
            Err(Error::Refused(_)) => return Ok(None),
            other => other.map_err(Failure::run)?,
        };
        let results = run.run_while(|_| self.asked.interrupt.signal().is_none());
        let Some(results) = results.map_err(Failure::run)? else {
            return Err(self.asked.interrupted());
        };
        let records = results.records(&self.asked.fleet.alone(members));
        let (totals, records): (Vec<_>, Vec<_>) =
            records.iter().partition(|record| record.client == TOTAL);
        if !records
            .iter()
            .all(|record| is_kept(record, self.asked.keep))
        {
            return Ok(None);
        }
        let active = |(record, client): (&&Record, &ClientSpec)| {
            let active = client.program.activity.map_or(1.0, |a| {
                let (on, off) = (a.on.as_nanos() as f64, a.off.as_nanos() as f64);
                on / (on + off)
            });
            record.bandwidth_mb_per_s / active
        };
        Ok(Some(Shared {
            total_mb_per_s: totals.iter().map(|total| total.bandwidth_mb_per_s).sum(),
            active_mb_per_s: records.iter().zip(&part.clients).map(active).collect(),
        }))
    }
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
                    Ok((drives >= needed).then_some(drives))
                });
                assert_eq!(
                    found,
                    Ok((needed <= most).then_some(needed)),
                    "{needed} of {most}"
                );
                assert!(asked.len() <= 12, "{asked:?}");
            }
        }
    }
}
