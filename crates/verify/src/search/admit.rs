//! Scaling of a case's promises, so that admission accepts them for the worst case of the drive.

use crate::search::case::{SearchCase, round_interval};
use weir_core::{Capacity, Class, Contract, PROMISABLE, Span};
use weir_model::load::Arrival;

/// The target of scaling, in millionths of the drive's time. Admission rounds bytes and requests
/// up, by a millionth each.
const SCALED: u64 = PROMISABLE - 2;

impl SearchCase {
    /// Returns the largest part of the drive's time that is promised at any time, in millionths, as
    /// admission counts it against the drive's worst case. Returns zero if the drive has no bound.
    pub fn promised_time(&self) -> u64 {
        self.worst_case().map_or(0, |worst| self.time_of(worst))
    }

    /// Scales all promises down by one factor, if necessary, so that admission accepts them for the
    /// drive's worst case, which becomes the stated capacity. A paced realtime client demands the
    /// same part of its max as before.
    #[must_use]
    pub fn admitted(mut self) -> Self {
        let Some(worst) = self.worst_case() else {
            return self;
        };
        self.scenario.capacity = Some(worst);
        let time = self.time_of(worst);
        // A case that fits is left as it was drawn.
        if time > PROMISABLE {
            self.scale(time);
        }
        self
    }

    /// Returns the rates that the drive reaches wherever its requests are, or `None` if the model
    /// has no bound.
    fn worst_case(&self) -> Option<Capacity> {
        self.scenario.drive.worst_case(u64::MAX).ok().flatten()
    }

    fn time_of(&self, capacity: Capacity) -> u64 {
        let mut scenario = self.scenario.clone();
        let mut most = scenario.promised_of(capacity).millionths;
        for change in &self.scenario.changes {
            scenario.groups[change.group.0 as usize - 1].contract = change.contract;
            most = most.max(scenario.promised_of(capacity).millionths);
        }
        most
    }

    /// Scales promises that take this many millionths of the drive's time.
    fn scale(&mut self, time: u64) {
        for client in 0..self.scenario.clients.len() {
            // The rate of a realtime client is scaled with its max.
            if self.is_realtime(client) {
                let program = &mut self.scenario.clients[client].program;
                if let Arrival::Even { interval } | Arrival::Poisson { interval } =
                    &mut program.arrival
                {
                    // A longer interval is a lower rate, so the factor is inverted here.
                    *interval = Span::from_nanos(part(interval.as_nanos(), time, SCALED));
                }
                round_interval(program);
            }
        }
        let less = |amount| part(amount, SCALED, time);
        let initial = self.scenario.groups.iter_mut().map(|g| &mut g.contract);
        let later = self.scenario.changes.iter_mut().map(|c| &mut c.contract);
        initial.chain(later).for_each(|c| promise(c, less));
    }
}

/// Scales an amount. The result is rounded down, so that the promises of a tenant's members still
/// fit into the tenant's.
fn part(amount: u64, of: u64, all: u64) -> u64 {
    let part = u128::from(amount) * u128::from(of) / u128::from(all);
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// Scales a promise. A realtime client is promised its max, and it must have one, so no limit
/// becomes zero.
fn promise(contract: &mut Contract, less: impl Fn(u64) -> u64) {
    for min in [&mut contract.min, &mut contract.min_iops] {
        *min = less(*min);
    }
    let max = &mut contract.max;
    let limits = [
        &mut max.bandwidth,
        &mut max.read_bandwidth,
        &mut max.write_bandwidth,
        &mut max.iops,
        &mut max.read_iops,
        &mut max.write_iops,
    ];
    if contract.class == Class::Realtime {
        for limit in limits.into_iter().filter(|limit| **limit > 0) {
            // A limit of zero would mean that there is none.
            *limit = less(*limit).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::case::reader;
    use crate::search::draw;
    use weir_sim::{Policy, Scenario, SimRun};

    /// Returns true if `contract` accepts the case and every change in it.
    fn is_accepted(case: &SearchCase) -> bool {
        let mut scenario = case.scenario.clone();
        scenario.changes.clear();
        let accepts = |scenario: &Scenario| SimRun::new(scenario, &Policy::contract(), 0).is_ok();
        let mut all = accepts(&scenario);
        for change in &case.scenario.changes {
            scenario.groups[change.group.0 as usize - 1].contract = change.contract;
            all &= accepts(&scenario);
        }
        all
    }

    /// Returns the values that may not grow.
    fn promises(case: &SearchCase) -> Vec<u64> {
        let changes = case.scenario.changes.iter().map(|c| c.contract);
        let all = case.groups().map(|g| case.group(g)).chain(changes);
        all.flat_map(|c| [c.min, c.min_iops, c.max.bandwidth])
            .collect()
    }

    #[test]
    fn admission_accepts_scaled_cases_and_scaling_raises_no_promise() {
        let (mut scaled, mut same) = (0, 0);
        // Eight cases of each kind of drive.
        for seed in 500..524 {
            let drawn = draw(seed, Some(seed as usize % 3)).expect("a case");
            let case = drawn.clone().admitted();
            assert_eq!(case.scenario.capacity, case.worst_case());
            assert!(case.promised_time() <= PROMISABLE, "{case}");
            assert!(is_accepted(&case), "{case}");
            let pairs = promises(&drawn).into_iter().zip(promises(&case));
            assert!(pairs.into_iter().all(|(before, after)| after <= before));
            if drawn.promised_time() > PROMISABLE {
                // A disk serves few requests per second, and only whole ones are promised, so that
                // rounding down costs much.
                assert!(case.promised_time() > PROMISABLE * 8 / 10, "{case}");
                scaled += 1;
            } else {
                assert_eq!(promises(&drawn), promises(&case));
                same += 1;
            }
            let text = case.to_string();
            assert_eq!(
                SearchCase::read(&text, "x.toml").as_ref(),
                Ok(&case),
                "{text}"
            );
            // Scaling an admitted case changes nothing.
            assert_eq!(case.clone().admitted(), case);
        }
        assert!(scaled > 3 && same > 3, "{scaled} {same}");
    }

    /// A drive that serves five requests per second, which is 20,480 bytes/s with requests of 4
    /// KiB.
    const SLOW: &str = "drives = [{ kind = \"null\", service = \"170ms\", tags = 1, queues = 1, command = \"128KiB\" }]";

    #[test]
    fn all_promises_and_realtime_paces_are_scaled_by_the_same_factor() {
        let mut case = reader(
            &format!("duration = \"4s\"\n{SLOW}"),
            "class = \"realtime\"\nmax = { bandwidth = \"400kB/s\" }\nrate_process = \"poisson\"\nrate = \"200kB/s\"\n\
             [[client]]\nname = \"b\"\nrw = \"randread\"\nsize = \"1GiB\"\ndirect = true\nmin = \"100kB/s\"\n\
             max = { bandwidth = \"1MB/s\" }\n\
             [[change]]\nwhen = \"1s\"\nwhose = \"b\"\nmin = \"400kB/s\"\n\
             [[change]]\nwhen = \"2s\"\nwhose = \"b\"\nmin = \"4B/s\"",
        );
        let of = |case: &SearchCase, client: usize| case.scenario.contract(client);
        let interval = |case: &SearchCase| match case.scenario.clients[0].program.arrival {
            Arrival::Poisson { interval } => interval.as_nanos() as f64,
            _ => 0.0,
        };
        let (before, pace) = (of(&case, 1).max, interval(&case));
        let factor = SCALED as f64 / case.promised_time() as f64;
        case = case.admitted();
        // The most that is promised at once is 800 kB/s: the max of the realtime client and the min
        // after the first change.
        let fits = 0.9 * 20_480.0 / 800_000.0;
        assert!((0.999 * fits..fits).contains(&factor), "{factor}");
        let max = of(&case, 0).max.bandwidth;
        assert_eq!(max, (400_000.0 * factor) as u64);
        assert_eq!(of(&case, 1).min, (100_000.0 * factor) as u64);
        assert_eq!(of(&case, 1).max, before, "that of others is no promise");
        let changed: Vec<u64> = (case.scenario.changes.iter())
            .map(|c| c.contract.min)
            .collect();
        assert_eq!(changed, [max, 0], "nothing is left of 4 bytes");
        let slower = interval(&case) * factor / pace;
        assert!((0.999..1.001).contains(&slower), "{slower}");
        assert!(is_accepted(&case));
    }

    #[test]
    fn a_scaled_max_stays_set_and_scaled_parts_fit_into_the_whole() {
        // A factor of 1/2,000 leaves less than one of each amount.
        let mut realtime = Contract::DEFAULT.class(Class::Realtime).min_iops(3);
        (realtime.max.bandwidth, realtime.max.read_iops) = (1_000, 9);
        promise(&mut realtime, |amount| part(amount, 1, 2_000));
        assert_eq!((realtime.min_iops, realtime.max.bandwidth), (0, 1));
        assert_eq!((realtime.max.read_iops, realtime.max.write_iops), (1, 0));
        let third = |amount| part(amount, 1, 3);
        assert!(third(5) + third(6) <= third(5 + 6));
    }
}
