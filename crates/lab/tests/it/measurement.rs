//! Properties of a measurement on any drive, however slow, uneven or broken.

use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use weir_core::{Instant, Op, Span};
use weir_lab::calibrate::{Area, CalibrationStep, LoadPattern, StepLoad, StepMeasurement};
use weir_model::load::{Io, RequestSource};

fn load() -> impl Strategy<Value = StepLoad> {
    let rate = prop_oneof![Just(None), (1_u64..100_000).prop_map(Some)];
    let order = any::<bool>().prop_map(|random| {
        if random {
            LoadPattern::Random
        } else {
            LoadPattern::Sequential
        }
    });
    (order, 0_u8..=100, 1_u32..65, 1_u32..257, rate).prop_map(
        |(pattern, writes, blocks, depth, rate)| StepLoad {
            pattern,
            writes,
            length: blocks * 4096,
            depth,
            rate,
        },
    )
}

/// Performs a measurement on a drive whose completions take these times in turn, and checks each
/// request.
fn carried_out(
    step: &CalibrationStep,
    limit: Span,
    times: &[u64],
    failing: Option<u64>,
) -> StepMeasurement {
    let mut measurement = StepMeasurement::new(step, limit);
    // The key is time and number, so that simultaneous completions have different keys.
    let mut flying: BTreeMap<(Instant, u64), Io> = BTreeMap::new();
    let mut now = Instant::from_nanos(7);
    let began = now;
    loop {
        let until = match measurement.next(now) {
            weir_model::load::Step::Issue(io) if io.op == Op::Flush => {
                assert!(step.flush && flying.is_empty(), "a flush is the last");
                measurement.completed(now, &io, false);
                continue;
            }
            weir_model::load::Step::Issue(io) => {
                assert!(
                    now.since(began) < limit,
                    "nothing is issued when the time is over"
                );
                assert!(
                    io.offset >= step.area.from && io.offset + u64::from(io.length) <= step.area.to
                );
                assert_eq!((io.offset - step.area.from) % u64::from(io.length), 0);
                assert!(step.load.writes > 0 || io.op == Op::Read);
                assert!(step.load.writes < 100 || io.op == Op::Write);
                let time = times[io.number as usize % times.len()];
                flying.insert((now + Span::from_nanos(time), io.number), io);
                assert!(flying.len() <= step.load.depth as usize);
                continue;
            }
            weir_model::load::Step::WaitUntil(at) => Some(at),
            weir_model::load::Step::WaitForCompletion => None,
            weir_model::load::Step::Finished => break,
        };
        let next = flying.first_key_value().map(|((at, _), _)| *at);
        now = [next, until]
            .into_iter()
            .flatten()
            .min()
            .expect("it waits for something")
            .max(now);
        while let Some(entry) = flying.first_entry().filter(|e| e.key().0 <= now) {
            let io = entry.remove();
            measurement.completed(now, &io, failing == Some(io.number));
        }
    }
    assert!(flying.is_empty(), "every request was answered");
    measurement
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_measurement_ends_in_time_and_stays_in_its_area(
        load in load(),
        (from, places) in (0_u64..1000, 1_u64..1000),
        limit in 1_u64..2_000,
        times in vec(1_000_u64..50_000_000, 1..40),
        failing in proptest::option::weighted(0.2, 0_u64..500),
    ) {
        let from = from * 4096;
        // The area is up to 4095 bytes longer than its positions, which must stay unused.
        let area = Area { from, to: from + places * u64::from(load.length) + 4095 };
        let step = CalibrationStep { name: "drawn".into(), load, area, weight: 1, early: load.writes == 0, flush: load.writes > 50 };
        let limit = Span::from_millis(limit);
        let measurement = carried_out(&step, limit, &times, failing);
        let slowest = times.iter().max().copied().unwrap_or(0);
        // The last request before the limit may be the slowest one.
        prop_assert!(measurement.elapsed().as_nanos() <= limit.as_nanos() + slowest);
        prop_assert!(measurement.written() <= places * u64::from(load.length));
        if measurement.failed().is_some() {
            prop_assert!(measurement.found().is_none());
            return Ok(());
        }
        let found = measurement.found().expect("something was answered");
        // At most 24 windows fit into the time of a step, and no window exceeds the rate of the
        // drive.
        prop_assert!(found.windows.len() <= 24);
        let fastest = times.iter().min().copied().unwrap_or(1) as f64;
        let most = f64::from(load.depth) * f64::from(load.length) * 1e9 / fastest;
        for window in &found.windows {
            // A window begins after a completion and ends with one, so that up to a full depth of
            // completions may be in it without their time.
            let window = window.bytes_per_second;
            prop_assert!(window <= 2.0 * most + f64::from(load.depth * load.length) * 1e2, "{window} {most}");
        }
        let text = serde_json::to_string(&found).expect("it can be written");
        let read: weir_lab::calibrate::StepResult = serde_json::from_str(&text).expect("and read");
        prop_assert_eq!(read.name, found.name);
        prop_assert_eq!(read.load, found.load);
    }

    /// If all requests take the same time, every mean is that of a closed loop: depth divided by
    /// time.
    #[test]
    fn an_even_drive_is_found_exactly(depth in 1_u32..65, time in 10_000_u64..500_000) {
        let load = StepLoad::random(4096, depth);
        let step = CalibrationStep { name: "even".into(), load, area: Area { from: 0, to: 1 << 30 }, weight: 1, early: load.writes == 0, flush: load.writes > 50 };
        let found = carried_out(&step, Span::from_secs(2), &[time], None).found().expect("it was measured");
        let rate = f64::from(depth) * 1e9 / time as f64;
        // All completions of a depth arrive together, so that a window has up to one batch more or
        // less than its share.
        prop_assert!((found.requests_per_second() / rate - 1.0).abs() < 0.08, "{found:?} {rate}");
        prop_assert!(found.steady);
    }
}
