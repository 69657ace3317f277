//! The promises of Weir's scenarios, tested in virtual time.

use weir_config::policy::find;
use weir_config::scenario::Choice;
use weir_config::{profile, scenario as scenarios};
use weir_core::{Capacity, Span};
use weir_measure::promise::PromisedRate;
use weir_sim::{Policy, Results, Scenario, SimRun, scenario};
use weir_verify::audit::Auditors;

const MIN: u64 = 10_000_000;

/// Plays the scenario with all auditors.
fn run(scenario: &Scenario, policy: &Policy) -> Results {
    let mut auditors = Auditors::new();
    let run = SimRun::observed(scenario, policy, 0, vec![&mut auditors]).unwrap();
    let results = run.run(|_| {}).unwrap();
    let found = auditors.end(false);
    assert!(
        found.is_empty(),
        "{}: {:?}",
        policy.name,
        found.violations()
    );
    results
}

/// The number of seconds in which a client was promised its min, and of those in which it got its
/// min.
fn kept(results: &Results, client: usize) -> (u64, u64) {
    let rate = PromisedRate::new(MIN, 0).expect("something is promised");
    let seconds = results.judge(client, rate).seconds;
    (seconds.promised, seconds.kept)
}

#[test]
fn a_contract_is_kept_in_every_second_at_nine_tenths_of_the_total() {
    let scenario = scenario::demo(Span::from_secs(4));
    let all = run(&scenario, &Policy::none()).total.bytes();
    let results = run(&scenario, &Policy::contract());
    // Each of the 16 clients is promised 10 MB/s, 160 MB/s of 250 MB/s together.
    for (at, client) in results.clients.iter().enumerate() {
        assert_eq!(kept(&results, at), (4, 4), "{}", client.name);
    }
    let total = results.total.bytes();
    assert!(total * 10 >= all * 9, "{total} of {all}");
}

#[test]
fn bfq_set_up_for_bandwidth_gives_the_target_its_min_at_seven_tenths_of_the_total() {
    let scenario = scenario::demo(Span::from_secs(4));
    let all = run(&scenario, &Policy::none()).total.bytes();
    let results = run(&scenario, &find("bfq-bytes").unwrap());
    let target = results.clients[0].meter.bytes();
    assert!(target >= 4 * MIN, "{target}");
    let total = results.total.bytes();
    assert!(total * 10 >= all * 7, "{total} of {all}");
}

#[test]
fn equal_random_readers_are_not_idled_for() {
    let scenario = scenario::equal_random_readers(Span::from_secs(3));
    let all = run(&scenario, &Policy::none()).total.bytes();
    let results = run(&scenario, &Policy::contract());
    let total = results.total.bytes();
    assert!(total * 100 >= all * 95, "{total} of {all}");
    for (at, client) in results.clients.iter().enumerate() {
        assert_eq!(kept(&results, at), (3, 3), "{}", client.name);
    }
}

#[test]
fn shares_divide_the_drive_within_two_per_cent_and_every_second_within_ten() {
    let scenario = scenario::shares(Span::from_secs(10));
    for policy in [Policy::contract(), find("bfq-bytes").unwrap()] {
        let results = run(&scenario, &policy);
        let rate = |client: usize| results.clients[client].meter.bytes() / (1 << client);
        let normal: Vec<f64> = (0..4).map(|client| rate(client) as f64).collect();
        // Jain's index of fairness: 1 if all are equal.
        let (sum, squares) = (normal.iter().sum::<f64>(), normal.iter().map(|x| x * x));
        let index = sum * sum / (4.0 * squares.sum::<f64>());
        assert!(index > 0.9995, "{normal:?}");
        let total = results.total.bytes();
        let windows = |client: usize| {
            let meter = &results.clients[client].meter;
            meter.seconds().complete(meter.end_ns()).to_vec()
        };
        for client in 0..4 {
            let what = format!("{} {}", policy.name, results.clients[client].name);
            // The shares are 1, 2, 4 and 8 of 15 parts.
            let fair = total * (1 << client) / 15;
            let got = results.clients[client].meter.bytes();
            assert!(got.abs_diff(fair) <= fair / 50, "{what}: {got} not {fair}");
            for (second, window) in windows(client).iter().enumerate() {
                let whole: u64 = (0..4).map(|c| windows(c)[second].bytes).sum();
                let fair = whole * (1 << client) / 15;
                let off = window.bytes.abs_diff(fair);
                assert!(off <= fair / 10, "{what}, second {second}: {off} of {fair}");
            }
        }
    }
}

/// A client that reads 4 KiB at a time competes with fifteen clients that sync each write, on a
/// flash drive that each flush stops for a millisecond.
#[test]
fn a_contract_is_kept_beside_fifteen_clients_that_sync() {
    use scenario::{Interferers, TargetReads, compared, latency};
    let drive = weir_model::drive::DriveConfig::Ssd(weir_model::drive::ssd::SsdConfig {
        flush: Span::from_millis(1),
        ..weir_model::drive::ssd::SsdConfig::generic()
    });
    let play = |control: &str| {
        let file = 64 << 20;
        let writers = Interferers::Writers;
        let mut scenario = latency(&drive, writers, control, TargetReads::Continuous, file);
        scenario.capacity = Some(Capacity {
            read: 3_000_000_000,
            write: 1_000_000_000,
            iops: 100_000,
            ..Capacity::NONE
        });
        run(&scenario, &compared(control))
    };
    let (none, kept) = (play("none"), play("contract"));
    assert_eq!(self::kept(&kept, 0), (2, 2));
    // The clients that sync do not pay for the promise, because more of them share each flush.
    let others = |results: &Results| results.total.bytes() - results.clients[0].meter.bytes();
    let (before, now) = (others(&none), others(&kept));
    assert!(now * 10 >= before * 9, "{now} of {before}");
}

#[test]
fn a_reader_next_to_clients_that_sync_gets_its_share_of_a_busy_drive() {
    let drive = profile::find("plextor-px-256m5s").unwrap().drive;
    let script = scenarios::find("journal").unwrap();
    // At least 90 % of the total under the best policy that limits no client: `bfq` on ext4, and
    // `none` on btrfs.
    for (case, least) in [("ext4-reader", 376_000_000), ("btrfs-reader", 430_000_000)] {
        let choice = Choice {
            capacity: drive.worst_case(1 << 30).unwrap(),
            ..Choice::new(&drive, Some(case), "contract")
        };
        let policy = Policy::contract();
        let scenario = script.scenario(&choice).unwrap().under(&policy);
        let results = run(&scenario, &policy);
        let all: u64 = results.clients.iter().map(|c| c.meter.bytes()).sum();
        let second = u128::from(all) * 1_000_000_000 / u128::from(results.measured_ns);
        assert!(second >= least, "{case}: {second} bytes/s");
        // The reader has a share of 1000, and the four writers have 100 each. 15 % of 71 % are
        // permitted in either direction.
        let part = results.clients[0].meter.bytes() * 100 / all;
        assert!((61..=82).contains(&part), "{case}: {part} %");
    }
}
