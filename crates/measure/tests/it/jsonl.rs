//! The JSON form of the result record: its exact bytes, and reading it back.

use proptest::prelude::*;
use weir_measure::{LatencyRecord, LimitedBy, Record, RecordPlace, SplitUs, to_line};

fn plain() -> Record {
    Record {
        scenario: "latency".into(),
        drive: "samsung-970-pro".into(),
        case: "readers".into(),
        policy: "bfq".into(),
        repeat: 0,
        client: "target".into(),
        requests: 24_414,
        bytes: 99_999_744,
        seconds: 10.0,
        bandwidth_mb_per_s: 9.999_974_4,
        latency_us: Some(LatencyRecord {
            mean: 409.6,
            sd: 12.345_678,
            min: 30.0,
            max: 2000.001,
            p50: 400.0,
            p90: 500.0,
            p99: 900.0,
            p999: 1500.0,
        }),
        ..Record::default()
    }
}

#[test]
fn a_plain_record_has_the_documented_fields_in_their_order() {
    let want = concat!(
        r#"{"scenario":"latency","drive":"samsung-970-pro","case":"readers","policy":"bfq","repeat":0,"#,
        r#""client":"target","requests":24414,"bytes":99999744,"seconds":10.000,"bandwidth_mb_per_s":10.000,"#,
        r#""latency_us":{"mean":409.600,"sd":12.346,"min":30.000,"max":2000.001,"p50":400.000,"#,
        r#""p90":500.000,"p99":900.000,"p999":1500.000}}"#
    );
    assert_eq!(to_line(&plain()), want);
}

#[test]
fn a_full_record_has_the_optional_fields_after_them() {
    let full = Record {
        place: Some(RecordPlace::Serve),
        seed: Some(7),
        errors: Some(2),
        promised_mb_per_s: Some(10.0),
        worst_second_mb_per_s: Some(9.96),
        windows_met: Some(1.0),
        limited_by: Some(LimitedBy::Share),
        split_us: Some(SplitUs {
            limit: 0.0,
            elevator: 300.5,
            drive: 30.0,
            idle: Some(200.0),
            queue: None,
        }),
        series_step_s: Some(0.1),
        series_mb_per_s: Some(vec![10.0, 0.0, 9.5]),
        ..plain()
    };
    let want = concat!(
        r#","place":"serve","seed":"7","errors":2,"promised_mb_per_s":10.000,"worst_second_mb_per_s":9.960,"#,
        r#""windows_met":1.000,"limited_by":"share","split_us":{"limit":0.000,"elevator":300.500,"#,
        r#""drive":30.000,"idle":200.000},"series_step_s":0.100,"series_mb_per_s":[10.000,0.000,9.500]}"#
    );
    let line = to_line(&full);
    let base = to_line(&plain());
    assert_eq!(
        line.strip_prefix(base.strip_suffix('}').expect("an object")),
        Some(want)
    );
}

proptest! {
    #[test]
    fn a_record_survives_writing_and_reading(
        names in prop::array::uniform5(".{0,12}"), repeat: u32, requests: u64, bytes: u64,
        // The values are multiples of 0.001, because a line keeps three digits.
        figures in prop::collection::vec(0u64..1 << 40, 6), seed in prop::option::of(any::<u64>()),
        place in prop::option::of(prop_oneof![Just(RecordPlace::Sim), Just(RecordPlace::Serve)]),
    ) {
        let f = |i: usize| figures[i] as f64 / 1000.0;
        let [scenario, drive, case, policy, client] = names;
        let record = Record {
            scenario, drive, case, policy, client, repeat, requests, bytes, seed, place,
            seconds: f(0),
            bandwidth_mb_per_s: f(1),
            latency_us: (f(3) > 1.0).then(|| LatencyRecord { mean: f(2), p99: f(3), ..LatencyRecord::default() }),
            promised_mb_per_s: Some(f(4)),
            series_mb_per_s: Some(vec![f(5); 3]),
            ..Record::default()
        };
        let line = to_line(&record);
        prop_assert!(!line.contains('\n'));
        let back: Record = serde_json::from_str(&line).expect("it was written by us");
        prop_assert_eq!(back, record);
    }
}
