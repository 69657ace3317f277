//! The division of requests' time: the parts of the waits, and the depth of the drive's queue over
//! time.

use weir_core::{Contract, Priority, PriorityClass, Span};
use weir_measure::SplitUs;
use weir_model::drive::{hdd, null, ssd};
use weir_model::load::Program;
use weir_sim::scenario::{COMPARED, Interferers, TargetReads, compared, latency};
use weir_sim::{Policy, Results, Scenario, SimRun};

const MIB: u64 = 1 << 20;

/// Readers of 128 KiB on the demo's drive: 30 us in parallel, then 524.288 us on the link, one
/// after the other.
fn streams(depths: &[u32], policy: &Policy) -> Results {
    let drive = weir_model::drive::DriveConfig::Null(null::NullConfig::demo());
    let mut scenario = Scenario::new("split", drive, Span::from_secs(1));
    for (n, depth) in depths.iter().enumerate() {
        let program = Program::sequential_reads(128 * 1024, *depth);
        scenario.add_client_with_group(n.to_string(), Contract::DEFAULT, 64 * MIB, program);
    }
    // BFQ does not idle if all clients are equal.
    scenario.clients[0].priority = Priority {
        class: PriorityClass::Realtime,
        ..Priority::default()
    };
    let run = SimRun::new(&scenario, policy, 0).unwrap();
    run.followed(Span::from_millis(10)).run(|_| {}).unwrap()
}

fn split(results: &Results, client: usize) -> SplitUs {
    results.clients[client]
        .meter
        .split()
        .mean_us()
        .unwrap_or_default()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 0.02 * b.abs().max(1.0)
}

#[test]
fn a_request_without_contention_is_served_at_once() {
    let results = streams(&[1], &Policy::none());
    let split = split(&results, 0);
    // 30 us of service and 524.288 us of transfer.
    assert!(near(split.drive, 554.288), "{split:?}");
    assert_eq!((split.queue, split.idle), (Some(0.0), Some(0.0)));
    let depth = results.depth.as_ref().unwrap();
    let means = depth.means(results.total.end_ns());
    assert_eq!(means.len(), 100);
    assert!(means.iter().all(|d| near(*d, 1.0)), "{means:?}");
}

#[test]
fn a_request_among_others_waits_in_the_drives_queue() {
    let results = streams(&[4, 4], &Policy::none());
    for client in 0..2 {
        let split = split(&results, client);
        // Eight requests take turns on the link.
        assert!(near(split.drive, 8.0 * 524.288), "{split:?}");
        let served = split.drive - split.queue.unwrap();
        assert!(near(served, 554.288), "{split:?}");
    }
    let depth = results.depth.as_ref().unwrap();
    let means = depth.means(results.total.end_ns());
    assert!(means.iter().skip(1).all(|d| near(*d, 8.0)), "{means:?}");
}

#[test]
fn a_stream_waits_while_bfq_idles_for_the_other_stream() {
    let bfq = compared("bfq");
    let results = streams(&[1, 1], &bfq);
    for client in 0..2 {
        // Each client has a queue depth of 1, so one request is in the drive while the other waits.
        let split = split(&results, client);
        assert!(split.elevator > 500.0, "{split:?}");
        assert!(near(split.idle.unwrap(), split.elevator), "{split:?}");
    }
}

#[test]
fn idling_and_queueing_are_parts_of_the_latency_on_every_drive() {
    let drives = [
        weir_model::drive::DriveConfig::Ssd(ssd::SsdConfig::generic()),
        weir_model::drive::DriveConfig::Hdd(hdd::HddConfig::generic()),
    ];
    for drive in drives {
        for interferers in Interferers::ALL {
            for control in COMPARED {
                let scenario = latency(
                    &drive,
                    interferers,
                    control,
                    TargetReads::Continuous,
                    256 * MIB,
                );
                let run = SimRun::new(&scenario, &compared(control), 0).unwrap();
                for client in run.run(|_| {}).unwrap().clients {
                    let (split, latency) = (
                        client.meter.split().mean_us().unwrap_or_default(),
                        client.meter.latency(),
                    );
                    if latency.count() == 0 {
                        continue;
                    }
                    let (idle, queue) = (split.idle.unwrap(), split.queue.unwrap());
                    assert!(idle <= split.elevator + 1e-6 && queue <= split.drive + 1e-6);
                    assert!(split.total() <= latency.mean() / 1e3 + 1e-6, "{split:?}");
                    if control == "none" {
                        assert!(idle < 1e-9, "nobody idles: {split:?}");
                    }
                }
            }
        }
    }
}
