//! Computes the fraction of a drive's time that the promises of a scenario need.
//!
//! Admission counts promises against the capacity in the worst case. This module counts them for
//! the requests that the clients of the scenario really make.

use super::work::{Cell, ComparisonPlan, RunOutcome};
use crate::modelled::PlayedDrive;
use std::collections::BTreeMap;
use weir_core::{GroupId, Op};
use weir_model::drive::DriveConfig;
use weir_model::load::{Pattern, Program, Size};
use weir_sim::Scenario;

/// Returns a sentence with the fraction of the drive's time that the promises of each case need,
/// and with the fraction of its capacity.
///
/// Returns `None` if there is no promise, or if the time is unknown because a client uses the page
/// cache or the drive has no limit.
pub(super) fn line(
    plan: &ComparisonPlan,
    drive: &PlayedDrive,
    cells: &[&(Cell, Vec<RunOutcome>)],
) -> Option<String> {
    let capacity = drive.capacity()?;
    let mut parts: Vec<(&str, PromisedParts)> = Vec::new();
    for (cell, outcomes) in cells {
        let case = plan.case(*cell).unwrap_or_default();
        let scenario = &outcomes.first()?.scenario;
        // Promises and programs are the same under all policies, so one cell of each case is
        // enough.
        if parts.iter().any(|(known, _)| *known == case) {
            continue;
        }
        let millionths = scenario.promised_of(capacity).millionths;
        let time = of_time(scenario)?;
        let capacity = millionths as f64 / 1e4;
        parts.push((case, PromisedParts { time, capacity }));
    }
    // Cases with the same load have the same figures, which are shown once.
    parts.dedup_by(|(_, one), (_, other)| one.text() == other.text());
    let text = match &parts[..] {
        [] => return None,
        [(_, shares)] if shares.time == 0.0 => return None,
        [(_, shares)] => shares.text(),
        several => {
            let each = several
                .iter()
                .map(|(case, s)| format!("{case}: {}", s.text()));
            each.collect::<Vec<_>>().join(", ")
        }
    };
    // Admission can accept such promises, because it does not know the requests of the clients.
    let over = parts.iter().any(|(_, shares)| shares.time > 1.0);
    let over = if over {
        "; above 100%, they are not kept while all of these clients ask at once"
    } else {
        ""
    };
    Some(format!(
        "The promises take this part of the drive's time for the requests that their clients make: {text}{over}."
    ))
}

/// The fractions of a drive that promises need.
struct PromisedParts {
    /// The fraction of its time for the requests of these clients. 1 is all of the time.
    time: f64,
    /// The fraction of its capacity, as admission counts it, in percent.
    capacity: f64,
}

impl PromisedParts {
    fn text(&self) -> String {
        let time = self.time * 100.0;
        let digits = usize::from(time < 10.0);
        format!("{time:.digits$}% ({:.1}% of its capacity)", self.capacity)
    }
}

/// Returns the fraction of the drive's time that the promises of a scenario need at least. Each
/// request is assumed to take as little time as it does in a full queue of requests of its kind.
fn of_time(scenario: &Scenario) -> Option<f64> {
    let spaces = scenario.bases().into_iter().zip(&scenario.spaces);
    let span = spaces
        .map(|(base, size)| base.saturating_add(*size))
        .max()?;
    let mut times = CommandTimes {
        drive: &scenario.drive,
        span,
        known: BTreeMap::new(),
    };
    let mut part = 0.0;
    for (place, group) in scenario.groups.iter().enumerate() {
        let (min, min_iops) = (group.contract.min, group.contract.min_iops);
        let id = GroupId(place as u32 + 1);
        // The promise of a tenant contains those of its volumes, so only the outermost promise
        // counts.
        if min == 0 && min_iops == 0 || is_within_a_promise(scenario, id) {
            continue;
        }
        // The members of a group are assumed to get equal parts of its promise.
        let (mut byte, mut request, mut members) = (0.0, 0.0, 0.0);
        for client in scenario
            .clients
            .iter()
            .filter(|c| is_in(scenario, c.group, id))
        {
            let (seconds, bytes) = match client.buffered {
                // The page cache decides which requests reach the drive, so their time is unknown.
                Some(_) => return None,
                None => times.of(&client.program)?,
            };
            // The promise is in bytes or in requests, so the time is needed for one of each.
            byte += seconds / bytes;
            request += seconds;
            members += 1.0;
        }
        if members > 0.0 {
            part += (min as f64 * byte + min_iops as f64 * request) / members;
        }
    }
    Some(part)
}

/// Returns true if an ancestor of the group has a promise. The promise of the group is a part of
/// that promise.
fn is_within_a_promise(scenario: &Scenario, id: GroupId) -> bool {
    let mut above = above(scenario, id);
    above.next();
    above.any(|place| {
        let contract = scenario.groups[place].contract;
        contract.min > 0 || contract.min_iops > 0
    })
}

/// Returns true if a group is `id` or one of its descendants.
fn is_in(scenario: &Scenario, group: GroupId, id: GroupId) -> bool {
    above(scenario, group).any(|place| place as u32 + 1 == id.0)
}

/// Returns the indices of a group and of its ancestors, from the inside out.
fn above(scenario: &Scenario, group: GroupId) -> impl Iterator<Item = usize> + '_ {
    // Groups are numbered from 1, and 0 is the root, which has no entry.
    let place = |group: GroupId| (group.0 as usize).checked_sub(1);
    std::iter::successors(place(group), move |at| place(scenario.groups[*at].parent))
}

/// The times that a drive needs for requests.
struct CommandTimes<'a> {
    drive: &'a DriveConfig,
    /// The length of the part of the drive that clients use, in bytes from its start.
    span: u64,
    /// The known times in seconds for a command, by kind, length and whether its position is
    /// random. They are measured on the drive model, so each is measured only once.
    known: BTreeMap<(Op, u32, bool), f64>,
}

impl CommandTimes<'_> {
    /// Returns the mean time of a program's requests in seconds, and their mean length in bytes.
    fn of(&mut self, program: &Program) -> Option<(f64, f64)> {
        let (mut seconds, mut bytes) = (0.0, 0.0);
        let writes = f64::from(program.writes) / 100.0;
        for (op, weight) in [(Op::Read, 1.0 - writes), (Op::Write, writes)] {
            let random = match program.pattern {
                Pattern::Sequential => 0.0,
                Pattern::Random | Pattern::Shuffled | Pattern::Skewed(_) => 1.0,
                Pattern::Partly { reads, writes } => {
                    let part = if op == Op::Read { reads } else { writes };
                    f64::from(part) / 100.0
                }
            };
            for (length, part) in lengths(&program.size) {
                for (is_random, place) in [(true, random), (false, 1.0 - random)] {
                    let times = weight * part * place;
                    if times > 0.0 {
                        seconds += times * self.request(op, length, is_random)?;
                        bytes += times * f64::from(length);
                    }
                }
            }
        }
        Some((seconds, bytes))
    }

    /// Returns the time for a request in seconds. A request that is too long for one command
    /// continues sequentially.
    fn request(&mut self, op: Op, length: u32, random: bool) -> Option<f64> {
        // The drive receives at most `max_transfer` bytes in a command.
        let first = length.min(self.drive.shape().max_transfer);
        let rest = length - first;
        let mut seconds = self.command(op, first, random)?;
        if rest > 0 {
            seconds += self.command(op, first, false)? * f64::from(rest) / f64::from(first);
        }
        Some(seconds)
    }

    /// Returns the time for a command in seconds.
    fn command(&mut self, op: Op, length: u32, random: bool) -> Option<f64> {
        let key = (op, length, random);
        if let Some(known) = self.known.get(&key) {
            return Some(*known);
        }
        let rate = if random {
            self.drive.random_rate_in(op, length, self.span)
        } else {
            self.drive.sequential_rate(op, length)
        };
        // With a full queue, the drive completes `rate` commands per second, so each of them takes
        // this part of the drive's time.
        let seconds = 1.0 / rate.ok()? as f64;
        self.known.insert(key, seconds);
        Some(seconds)
    }
}

/// Returns the lengths of requests, each with the fraction of requests that have it. A range is
/// represented by its middle.
fn lengths(size: &Size) -> Vec<(u32, f64)> {
    match size {
        Size::Fixed(length) => vec![(*length, 1.0)],
        Size::Range { min, max, .. } => vec![(min.midpoint(*max), 1.0)],
        Size::Split(split) => {
            let parts = split.parts();
            parts
                .map(|(length, percent)| (length, f64::from(percent) / 100.0))
                .collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::{Contract, Span};

    #[test]
    fn a_disk_with_little_promised_in_bytes_is_nearly_full_of_small_random_reads() {
        let disk = weir_config::profile::find("hitachi-hts72755")
            .unwrap()
            .drive;
        let share = |program, min, min_iops| {
            let mut scenario = Scenario::new("disk", disk.clone(), Span::from_secs(1));
            let contract = Contract {
                min,
                min_iops,
                ..Contract::DEFAULT
            };
            scenario.add_client_with_group("a", contract, 100 << 30, program);
            of_time(&scenario).unwrap()
        };
        // A promise of half the rate of random reads, in bytes, in requests, and in bytes of a
        // client that reads sequentially.
        let small = disk.random_rate_in(Op::Read, 4096, 100 << 30).unwrap();
        let random = Program::random_reads(4096, 8);
        let half = share(random, small / 2 * 4096, 0);
        assert!((half - 0.5).abs() < 0.01, "{half}");
        let same = share(random, 0, small / 2);
        assert!((half - same).abs() < 1e-9, "{half} {same}");
        // The same bytes in requests of 1 MiB need hardly any seeks.
        let long = share(Program::sequential_reads(1 << 20, 8), small / 2 * 4096, 0);
        assert!(long < 0.02, "{long}");
    }
}
