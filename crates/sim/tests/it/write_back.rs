//! Writers through the page cache that never sync, whose data the flushers of their groups write.

use std::collections::BTreeMap;
use weir_core::record::Call;
use weir_core::{Contract, GroupId, Instant, Layer, Op, Output, Span, StreamId};
use weir_model::drive::{DriveConfig, null::NullConfig};
use weir_model::load::{Arrival, Program};
use weir_sim::{Buffered, Observer, Policy, Results, Scenario, SimRun};
use weir_verify::audit::Auditors;

const MIB: u64 = 1 << 20;

/// The limit of dirty data, which the drive writes in a quarter of a second.
const DIRTY: u64 = 64 * MIB;

/// The speed of the drive in bytes per second.
const SPEED: u64 = 250_000_000;

/// A scenario of writers in groups of their own, with these shares.
fn writers(shares: &[u16], seconds: u64) -> Scenario {
    let drive = DriveConfig::Null(NullConfig::demo());
    let mut scenario = Scenario::new("writers", drive, Span::from_secs(seconds));
    scenario.warm_up = Span::from_secs(10);
    for (number, share) in shares.iter().enumerate() {
        let mut program = Program::sequential_reads(128 << 10, 1);
        program.writes = 100;
        let contract = Contract::DEFAULT.with_share(*share);
        let name = format!("writer-{number}");
        let client = scenario.add_client_with_group(name, contract, 1 << 30, program);
        client.buffered = Some(Buffered {
            dirty_bytes: DIRTY,
            ..Buffered::default()
        });
    }
    scenario
}

fn run(scenario: &Scenario, policy: &Policy, watch: &mut WriteWatch) -> Results {
    let mut auditors = Auditors::new();
    let observers: Vec<&mut dyn Observer> = vec![watch, &mut auditors];
    let run = SimRun::observed(scenario, policy, 0, observers).unwrap();
    let results = run.run(|_| {}).unwrap();
    let found = auditors.end(false);
    assert!(found.is_empty(), "{:?}", found.violations());
    results
}

/// An observer of the writes: the bytes of each stream that were submitted and completed, and the
/// first write.
#[derive(Default)]
struct WriteWatch {
    submitted: BTreeMap<StreamId, u64>,
    completed: u64,
    first: Option<Instant>,
}

impl Observer for WriteWatch {
    fn call(&mut self, now: Instant, call: &Call<'_>, _layer: &mut Layer) {
        match call {
            Call::Submit { batch, result } => {
                assert!(result.is_ok(), "there is room for all writes of a flusher");
                for request in *batch {
                    assert_eq!(request.op, Op::Write);
                    assert!(!request.is_sync(), "no process waits for it");
                    *self.submitted.entry(request.stream).or_default() += u64::from(request.length);
                    self.first.get_or_insert(now);
                }
            }
            Call::Poll { outputs, .. } => {
                for output in *outputs {
                    if let Output::Done(done) = output {
                        self.completed += u64::from(done.length);
                    }
                }
            }
            _ => {}
        }
    }
}

fn rates(results: &Results) -> Vec<f64> {
    let rate = |bytes: u64, ns: u64| bytes as f64 * 1e9 / ns as f64;
    let clients = results.clients.iter();
    let rates = clients.map(|c| rate(c.meter.bytes(), c.meter.length_ns()));
    rates.collect()
}

#[test]
fn writers_are_throttled_to_the_speed_of_the_drive_below_the_limit() {
    for count in [1, 2, 7] {
        let mut scenario = writers(&vec![100; count], 10);
        // The measurement begins with the first write, so that all bytes are counted.
        scenario.warm_up = Span::ZERO;
        let mut watch = WriteWatch::default();
        let results = run(&scenario, &Policy::none(), &mut watch);
        assert_eq!(watch.submitted.len(), count, "each group has a flusher");
        let dirty = results.total.bytes() - watch.completed;
        // A process meets the limit after its call.
        let most = DIRTY + count as u64 * (128 << 10);
        assert!((DIRTY / 2..=most).contains(&dirty), "{count}: {dirty}");
        let written = watch.completed as f64 / 10.0;
        assert!(written > 0.95 * SPEED as f64, "{count}: {written}");
        let equal = rates(&results);
        let (least, most) = (equal.iter().copied().fold(f64::MAX, f64::min), equal[0]);
        assert!(least > 0.8 * most, "{equal:?}");
    }
}

#[test]
fn shares_divide_the_write_back_among_groups() {
    let results = run(
        &writers(&[100, 300], 20),
        &Policy::contract(),
        &mut WriteWatch::default(),
    );
    let rates = rates(&results);
    let ratio = rates[1] / rates[0];
    assert!((2.5..3.5).contains(&ratio), "{rates:?}");
    assert!(rates[0] + rates[1] > 0.95 * SPEED as f64, "{rates:?}");
}

#[test]
fn a_flusher_writes_the_files_of_its_group_in_turns() {
    let mut scenario = writers(&[100, 100, 100], 20);
    scenario.clients[2].group = GroupId(2);
    let mut watch = WriteWatch::default();
    let results = run(&scenario, &Policy::none(), &mut watch);
    let rates = rates(&results);
    // Two processes share the flusher of their group.
    let (alone, both) = (rates[0], rates[1] + rates[2]);
    assert!(
        rates[1] > 0.8 * rates[2] && rates[2] > 0.8 * rates[1],
        "{rates:?}"
    );
    assert!(alone + both > 0.95 * SPEED as f64, "{rates:?}");
    assert!(watch.submitted.values().all(|bytes| *bytes > 0));
}

#[test]
fn few_dirty_pages_are_written_when_they_expire() {
    let mut scenario = writers(&[100], 40);
    scenario.warm_up = Span::ZERO;
    let program = &mut scenario.clients[0].program;
    program.requests = Some(8);
    program.start = Span::from_secs(2);
    let mut watch = WriteWatch::default();
    run(&scenario, &Policy::none(), &mut watch);
    // 30 s after the write, at the next multiple of 5 s.
    assert_eq!(watch.first, Some(Instant::from_nanos(35_000_000_000)));
    assert_eq!(watch.completed, 8 * (128 << 10));
}

#[test]
fn a_slow_writer_is_never_throttled() {
    let mut scenario = writers(&[100], 60);
    scenario.clients[0].program.arrival = Arrival::Even {
        interval: Span::from_millis(100),
    };
    let mut watch = WriteWatch::default();
    let results = run(&scenario, &Policy::none(), &mut watch);
    // 128 KiB of data are copied in 32 us, and nothing else takes time.
    assert_eq!(results.clients[0].meter.latency().max(), 32_000);
    assert!(watch.completed > 0);
}

#[test]
fn dirty_pages_of_a_client_that_leaves_hold_up_no_other() {
    let mut scenario = writers(&[100, 100], 10);
    scenario.clients[0].leaves = Some(Span::from_secs(5));
    let results = run(&scenario, &Policy::none(), &mut WriteWatch::default());
    let rates = rates(&results);
    assert!(rates[1] > 0.95 * SPEED as f64, "{rates:?}");
}
