//! The states of controllers and the elevator in the course of a run.

use crate::Scenario;
use std::collections::BTreeMap;
use weir_core::{GroupId, Instant, Layer, ROOT, Reading, SampleMask, Span, Subject, Unit};
use weir_measure::{SECOND_NS, TracedState};

/// The samples of a run, taken at the first turn of each window.
#[derive(Debug)]
pub(crate) struct States {
    start: Instant,
    step: Span,
    /// The time at which the next sample is due.
    due: Instant,
    /// The readings, ordered by name and subject.
    all: BTreeMap<(&'static str, Subject), Readings>,
}

/// One reading of one subject over time.
#[derive(Debug)]
struct Readings {
    whose: String,
    unit: Unit,
    /// The nanoseconds since the beginning of the measurement, and the value at that time.
    points: Vec<(u64, i64)>,
}

impl States {
    /// Creates an empty list, whose first sample is due at `start`.
    pub(crate) fn new(start: Instant, step: Span) -> Self {
        Self {
            start,
            step,
            due: start,
            all: BTreeMap::new(),
        }
    }

    /// Takes a sample if one is due. `clients` has the client of each stream slot.
    pub(crate) fn sample_if_due(
        &mut self,
        now: Instant,
        layer: &Layer,
        scenario: &Scenario,
        clients: &[u32],
    ) {
        if now < self.due {
            return;
        }
        let since = now.since(self.start).as_nanos();
        let step = self.step.as_nanos();
        // The next multiple of the step, even if no turn took place in some windows.
        self.due = self.start + Span::from_nanos((since / step + 1) * step);
        layer.sample(SampleMask::ALL, &mut |sample| {
            sample.readings(&mut |reading| self.record_reading(since, &reading, scenario, clients));
        });
    }

    fn record_reading(
        &mut self,
        since: u64,
        reading: &Reading,
        scenario: &Scenario,
        clients: &[u32],
    ) {
        let key = (reading.name, reading.of);
        let state = self.all.entry(key).or_insert_with(|| Readings {
            whose: subject_name(reading.of, scenario, clients),
            unit: reading.unit,
            points: Vec::new(),
        });
        match state.points.last_mut() {
            // Several controllers may publish the same reading of a group, and their sum is
            // recorded.
            Some((at, value)) if *at == since => *value = value.saturating_add(reading.value),
            _ => state.points.push((since, reading.value)),
        }
    }

    /// Converts the readings into states of the results.
    pub(crate) fn into_all(self) -> Vec<TracedState> {
        let all = self.all.into_iter();
        all.map(|((name, _), readings)| {
            let (unit, whole) = unit(readings.unit);
            let points = readings.points.iter();
            TracedState {
                state: name.into(),
                of: readings.whose,
                unit: unit.into(),
                points: points
                    .map(|(at, value)| (*at as f64 / SECOND_NS as f64, *value as f64 / whole))
                    .collect(),
            }
        })
        .collect()
    }
}

/// The unit of a reading in results, and the number of raw units in one of them.
fn unit(unit: Unit) -> (&'static str, f64) {
    match unit {
        Unit::Number => ("", 1.0),
        Unit::Bytes => ("kB", 1e3),
        Unit::Nanoseconds => ("ms", 1e6),
        Unit::BasisPoints => ("%", 100.0),
        Unit::Parts => ("", 65536.0),
    }
}

/// The name of the subject of a reading.
fn subject_name(subject: Subject, scenario: &Scenario, clients: &[u32]) -> String {
    match subject {
        Subject::Drive => "drive".into(),
        Subject::Stream(stream) => {
            let client = clients[stream.slot() as usize];
            scenario.clients[client as usize].name.clone()
        }
        Subject::Group(group) => group_label(group, scenario),
    }
}

/// Returns the name of the clients in a group or below it: the first client, and the number of the
/// others.
pub fn group_label(group: GroupId, scenario: &Scenario) -> String {
    let is_below = |mut at: GroupId| loop {
        if at == group {
            return true;
        }
        // The root has no index, so that the search ends there.
        let Some(index) = at.0.checked_sub(1) else {
            return false;
        };
        at = scenario.groups[index as usize].parent;
    };
    let mut below = scenario.clients.iter().filter(|c| is_below(c.group));
    match (below.next(), below.count()) {
        _ if group == ROOT => "all".into(),
        (None, _) => format!("group {}", group.0),
        (Some(one), 0) => one.name.clone(),
        (Some(first), more) => format!("{} and {more} more", first.name),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Policy, SimRun};
    use weir_core::Span;

    /// Plays one second of the demo's sixteen clients and returns the states.
    fn states(policy: &str) -> Vec<weir_measure::TracedState> {
        let scenario = crate::scenario::demo(Span::from_secs(1));
        let policy = weir_config::policy::find(policy).expect("it comes with Weir");
        let run = SimRun::new(&scenario, &policy, 0).expect("it can be played");
        let run = run.followed(Span::from_millis(100));
        run.run(|_| {}).expect("it can be played").states
    }

    #[test]
    fn a_controllers_clock_and_weights_are_seen_once_in_every_window() {
        let states = states("io.cost");
        let of = |name: &'static str| states.iter().filter(move |s| s.state == name);
        let vrate = of("vrate").next().expect("it has a clock");
        assert_eq!((vrate.of.as_str(), vrate.unit.as_str()), ("drive", "%"));
        assert_eq!(vrate.points.len(), 10, "{:?}", vrate.points);
        let late = |(n, point): (usize, &(f64, f64))| point.0 - n as f64 / 10.0;
        assert!(
            vrate
                .points
                .iter()
                .enumerate()
                .map(late)
                .all(|by| (0.0..0.1).contains(&by))
        );
        let weights: Vec<f64> = of("active weight").map(|s| s.points[5].1).collect();
        assert!(
            weights.len() == 16 && weights.iter().all(|w| (w - 10_000.0).abs() < 0.1),
            "{weights:?}"
        );
    }

    #[test]
    fn following_states_does_not_change_a_run() {
        let scenario = crate::scenario::demo(Span::from_secs(1));
        let policy = Policy::contract();
        let play = |run: SimRun<'_>| run.run(|_| {}).expect("it can be played");
        let new = || SimRun::new(&scenario, &policy, 0).expect("it can be played");
        let (seen, unseen) = (play(new().followed(Span::from_millis(1))), play(new()));
        assert!(unseen.states.is_empty() && !seen.states.is_empty());
        assert_eq!((seen.counters, seen.turns), (unseen.counters, unseen.turns));
    }
}
