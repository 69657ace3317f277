//! A demo's report with invented figures, which are the same every time.

use weir_lab::report::{DemoReport, PolicyResult};
use weir_measure::promise::Fate;
use weir_measure::{LatencyRecord, LimitedBy, Record, RecordPlace, SplitUs, TOTAL};

/// Returns a report of `readers` readers next to the target over `seconds`.
pub(crate) fn report(readers: usize, seconds: usize) -> DemoReport {
    let policy = |name: &str, about: &str, verdict: &str, busy, shape| PolicyResult {
        policy: name.into(),
        about: about.into(),
        fate: if name == "contract" {
            Fate::Kept
        } else {
            Fate::Broken
        },
        verdict: verdict.into(),
        drive_busy: Some(busy),
        records: records(name, readers, seconds, &shape),
    };
    DemoReport {
        drive: "The drive is the null model: 30 us a request, 32 tags, a serial link of 250 MB/s, in real time, holding its data.".into(),
        load: format!(
            "The target reads 4 KiB at random, one request at a time; {readers} others read sequentially, 128 KiB, two at a \
             time. Everyone was promised 10 MB/s."
        ),
        target: "target".into(),
        best: vec![
            ("target at once, others in what is left".into(), "41.2 MB/s for the target, 208 MB/s for the others".into()),
            ("total, everyone at least 10 MB/s".into(), "247 MB/s".into()),
        ],
        contracts: Vec::new(),
        policies: vec![
            policy("none", "first come, first served", "The target got 9% of what it was promised.", 1.0, PolicyFigures { target: 0.93, spread: 0.06, elevator: 0.0, drive: 4310.0, reader: 16.6 }),
            policy("bfq", "fair queueing, promises as weights", "Enough on average, but not in every second: the worst had 8.9 MB/s.", 0.757, PolicyFigures { target: 11.2, spread: 1.6, elevator: 241.0, drive: 58.0, reader: 11.87 }),
            policy("contract", "a reservation for each client", "Kept in every second, with the drive busy for 96% of the time.", 0.959, PolicyFigures { target: 10.6, spread: 0.25, elevator: 112.0, drive: 208.0, reader: 15.28 }),
        ],
        notes: vec![
            "A promise holds in every second in which the client had a request waiting throughout. It is broken in a second with less than 99% of it.".into(),
            "Two virtual processors, Linux 6.1; client and server share them.".into(),
        ],
    }
}

/// The invented figures of a policy: means, spread, and the parts of a request's time.
struct PolicyFigures {
    target: f64,
    spread: f64,
    elevator: f64,
    drive: f64,
    reader: f64,
}

fn records(policy: &str, readers: usize, seconds: usize, shape: &PolicyFigures) -> Vec<Record> {
    let mut noise = Noise(policy.len() as u64 + 7);
    let mut target = series(shape.target, shape.spread, seconds, &mut noise);
    if shape.spread > 1.0 {
        // One bad second for policies that keep promises only on average.
        for v in target.iter_mut().skip(seconds / 2 * 10).take(10) {
            *v *= 0.79;
        }
    }
    let mut all = vec![record(policy, "target", target)];
    for i in 1..=readers {
        let mean = shape.reader + noise.next() * 0.4;
        all.push(record(
            policy,
            &format!("reader-{i}"),
            series(mean, mean * 0.06, seconds, &mut noise),
        ));
    }
    let split = SplitUs {
        limit: 0.0,
        elevator: shape.elevator,
        drive: shape.drive,
        ..SplitUs::default()
    };
    let target = &mut all[0];
    target.split_us = Some(split);
    target.latency_us = Some(latency(split.total() + 64.0));
    target.limited_by = Some(if policy == "none" {
        LimitedBy::Drive
    } else {
        LimitedBy::Share
    });
    let total: Vec<f64> = (0..seconds * 10)
        .map(|k| {
            all.iter()
                .filter_map(|r| r.series_mb_per_s.as_ref())
                .map(|s| s[k])
                .sum()
        })
        .collect();
    let mut total = record(policy, TOTAL, total);
    (
        // The total has no promise, so that it has no verdicts.
        total.promised_mb_per_s,
        total.worst_second_mb_per_s,
        total.windows_met,
        total.limited_by,
    ) = (None, None, None, None);
    all.push(total);
    all
}

fn record(policy: &str, client: &str, series: Vec<f64>) -> Record {
    let mean = series.iter().sum::<f64>() / series.len().max(1) as f64;
    let seconds: Vec<f64> = series
        .chunks(10)
        .map(|c| c.iter().sum::<f64>() / c.len() as f64)
        .collect();
    // A second counts as kept from 99 % of the promised 10 MB/s on.
    let met = seconds.iter().filter(|s| **s >= 9.9).count();
    let seconds_measured = series.len() as f64 / 10.0;
    Record {
        scenario: "demo".into(),
        drive: "null".into(),
        case: "target and readers".into(),
        policy: policy.into(),
        client: client.into(),
        // The readers' requests are 128 KiB long.
        requests: (mean * seconds_measured * 1e6 / 131_072.0) as u64,
        bytes: (mean * seconds_measured * 1e6) as u64,
        seconds: seconds_measured,
        bandwidth_mb_per_s: mean,
        // Two requests of 128 KiB in flight: the latency follows from Little's law.
        latency_us: Some(latency(262_144.0 / mean)),
        place: Some(RecordPlace::Serve),
        promised_mb_per_s: Some(10.0),
        worst_second_mb_per_s: seconds.iter().copied().reduce(f64::min),
        windows_met: Some(met as f64 / seconds.len().max(1) as f64),
        limited_by: Some(LimitedBy::Share),
        series_step_s: Some(0.1),
        series_mb_per_s: Some(series),
        ..Record::default()
    }
}

fn latency(mean: f64) -> LatencyRecord {
    LatencyRecord {
        mean,
        sd: mean * 0.2,
        min: mean * 0.3,
        max: mean * 5.0,
        p50: mean * 0.97,
        p90: mean * 1.3,
        p99: mean * 1.9,
        p999: mean * 3.1,
    }
}

fn series(mean: f64, spread: f64, seconds: usize, noise: &mut Noise) -> Vec<f64> {
    (0..seconds * 10)
        .map(|_| (mean + spread * noise.next()).max(0.0))
        .collect()
}

/// Random numbers from -1 to 1 by Knuth's linear congruential generator (MMIX), on which the golden
/// pages depend.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / f64::from(1 << 23) - 1.0
    }
}
