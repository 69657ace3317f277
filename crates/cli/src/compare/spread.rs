//! Computes the precision of means over repetitions.

use super::work::RunOutcome;
use weir_measure::{Interval, Record};

/// The precision of a client's figures over the repetitions of a cell. With random numbers, a
/// figure is `None` if there are fewer than two runs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct RunSpread {
    /// The mean bandwidth in MB/s, with its interval.
    pub(super) mb_per_s: Option<Interval>,
    /// The mean latency of a run in microseconds, with its interval. Each run in which a request
    /// was served counts once.
    pub(super) latency_us: Option<Interval>,
}

impl RunSpread {
    /// Computes the precision for a client, or for [the total](weir_measure::TOTAL), over the
    /// repetitions of a cell.
    pub(super) fn of(outcomes: &[RunOutcome], client: &str) -> Self {
        let records = outcomes.iter().flat_map(|o| &o.records);
        let records: Vec<&Record> = records.filter(|r| r.client == client).collect();
        let drawn = outcomes.iter().all(|outcome| outcome.drew);
        let latencies = records.iter().filter_map(|r| Some(r.latency_us?.mean));
        let latencies: Vec<f64> = latencies.collect();
        let rates: Vec<f64> = records.iter().map(|r| r.bandwidth_mb_per_s).collect();
        Self {
            mb_per_s: interval(&rates, drawn),
            latency_us: interval(&latencies, drawn),
        }
    }
}

/// Returns the confidence interval of a mean. Without random numbers, all runs would be equal, so
/// the figure of the only run is certain.
fn interval(samples: &[f64], drawn: bool) -> Option<Interval> {
    let interval = Interval::of(samples)?;
    if drawn {
        // One sample does not show a variation.
        return (samples.len() > 1).then_some(interval);
    }
    let half = 0.0;
    Some(Interval { half, ..interval })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::Span;
    use weir_measure::{Histogram, LatencyRecord, TOTAL};

    /// Returns a run with one client, with its bandwidth in MB/s and, if it was served, its mean
    /// latency in microseconds.
    fn outcome(mb_per_s: f64, latency: Option<f64>, drew: bool) -> RunOutcome {
        let mut record = Record {
            client: "a".into(),
            bandwidth_mb_per_s: mb_per_s,
            requests: u64::from(latency.is_some()),
            ..Record::default()
        };
        record.latency_us = latency.map(|mean| LatencyRecord {
            mean,
            ..LatencyRecord::default()
        });
        let drive =
            weir_model::drive::DriveConfig::Null(weir_model::drive::null::NullConfig::demo());
        RunOutcome {
            records: vec![record],
            drew,
            scenario: weir_sim::Scenario::new("test", drive, Span::from_secs(1)),
            latency: Histogram::new(),
            run: weir_measure::RunId::default(),
            over_time: None,
            notes: Vec::new(),
            live: None,
        }
    }

    #[test]
    fn repetitions_that_differ_have_an_interval() {
        let rates = [9.0, 10.0, 11.0].map(|mb_per_s| outcome(mb_per_s, Some(mb_per_s), true));
        let spread = RunSpread::of(&rates, "a");
        assert_eq!(spread.mb_per_s, Interval::of(&[9.0, 10.0, 11.0]));
        assert_eq!(spread.latency_us, spread.mb_per_s);
        assert_eq!(RunSpread::of(&rates, TOTAL), RunSpread::default());
        // One run does not show a variation.
        assert_eq!(RunSpread::of(&rates[..1], "a"), RunSpread::default());
    }

    #[test]
    fn a_run_without_service_for_the_client_has_no_latency() {
        let runs = [Some(4.0), None, Some(6.0)].map(|us| outcome(1.0, us, true));
        let spread = RunSpread::of(&runs, "a");
        assert_eq!(spread.latency_us, Interval::of(&[4.0, 6.0]));
        assert_eq!(spread.mb_per_s, Interval::of(&[1.0; 3]));
        let none = RunSpread::of(&[outcome(0.0, None, false)], "a");
        assert_eq!(none.latency_us, None);
    }

    #[test]
    fn runs_without_random_numbers_are_certain() {
        let (mean, half) = (7.0, 0.0);
        let spread = RunSpread::of(&[outcome(7.0, Some(7.0), false)], "a");
        assert_eq!(spread.mb_per_s, Some(Interval { mean, half }));
        assert_eq!(spread.latency_us, Some(Interval { mean, half }));
    }
}
