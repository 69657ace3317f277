//! Tests of volumes: scaling, splitting at members, and the rules for parameters.

use super::*;
use crate::drive::testing::{ClosedLoop, LoopClient, LoopTotals};
use crate::drive::{DriveConfig as Any, hdd, null, ssd};
use Vec;
use proptest::prelude::*;
use weir_core::Span;

const SECOND: Span = Span::from_secs(1);

fn disk() -> Any {
    Any::Hdd(hdd::HddConfig::generic())
}

fn flash() -> Any {
    Any::Ssd(ssd::SsdConfig {
        size: 1 << 30,
        filled: 0,
        ..ssd::SsdConfig::generic()
    })
}

fn quick(tags: u16) -> Any {
    Any::Null(null::NullConfig {
        tags,
        ..null::NullConfig::demo()
    })
}

fn load(config: &VolumeConfig) -> ClosedLoop<Volume> {
    let size = config.size().unwrap_or(1 << 40);
    ClosedLoop::new(config.build().unwrap(), size)
}

fn run(config: &VolumeConfig, clients: &mut [LoopClient], millis: u64) -> (Vec<LoopTotals>, Span) {
    load(config).run(clients, Span::from_millis(millis))
}

fn stripe(count: usize, member: &Any) -> VolumeConfig {
    VolumeConfig::stripe(std::vec![member.clone(); count])
}

/// The bytes per second of all clients together.
fn rate(config: &VolumeConfig, clients: &mut [LoopClient], millis: u64) -> u64 {
    let (results, elapsed) = run(config, clients, millis);
    results.iter().map(|r| r.rate(elapsed)).sum()
}

#[test]
fn long_reads_go_at_the_rate_of_all_members() {
    for member in [disk(), flash()] {
        let mut rates = Vec::new();
        for count in [1, 2, 4] {
            let depth = 16;
            let mut clients = [LoopClient::sequential(Op::Read, 1 << 20, depth, 0)];
            rates.push(rate(&stripe(count, &member), &mut clients, 1000));
        }
        // Two members give at least 1.8 times and four members 3.5 times the rate of one.
        assert!(rates[1] * 10 >= rates[0] * 18, "{rates:?}");
        assert!(rates[2] * 10 >= rates[0] * 35, "{rates:?}");
        assert!(rates[2] <= rates[0] * 4, "{rates:?}");
    }
}

#[test]
fn random_reads_at_depth_scale_with_the_members() {
    for (member, millis) in [(disk(), 20_000), (flash(), 300)] {
        let mut rates = Vec::new();
        for count in [1, 2, 4] {
            // The queue depth per member is the same.
            let mut clients = [LoopClient::random(Op::Read, 4096, 8 * count as u32)];
            rates.push(rate(&stripe(count, &member), &mut clients, millis));
        }
        assert!(rates[1] * 10 >= rates[0] * 17, "{rates:?}");
        assert!(rates[2] * 10 >= rates[0] * 33, "{rates:?}");
    }
}

/// The completions of a random load on the given drive.
fn answers(drive: &mut dyn DriveModel, random: &mut ClosedLoop<Volume>) -> Vec<TimedCompletion> {
    let (mut now, mut inside, mut all) = (Instant::ZERO, [false; 32], Vec::new());
    for _ in 0..2_000 {
        let draws: [u64; 4] = core::array::from_fn(|_| random.random());
        now += Span::from_nanos(draws[0] % 2_000_000);
        while let Some(ended) = drive.pop(now) {
            inside[ended.completion.tag.0 as usize] = false;
            all.push(ended);
        }
        let Some(tag) = inside.iter().position(|i| !i) else {
            continue;
        };
        inside[tag] = true;
        let length = 4096 * (1 + draws[1] % 64) as u32;
        let command = Dispatch {
            queue: QueueId(0),
            tag: Tag(tag as u32),
            op: Op::ALL[(draws[2] % 5) as usize],
            offset: draws[3] % (1 << 17) * 4096,
            length,
            ..crate::drive::testing::command()
        };
        assert!(drive.submit(now, &command).is_ok());
    }
    while let Some(next) = drive.next_completion() {
        all.extend(core::iter::from_fn(|| drive.pop(next)));
    }
    all
}

#[test]
fn a_volume_of_a_single_drive_behaves_like_the_drive() {
    for member in [disk(), flash(), quick(32)] {
        let random = || load(&stripe(1, &disk()));
        let alone = answers(&mut *member.build().unwrap(), &mut random());
        assert!(alone.len() > 500);
        for config in [
            stripe(1, &member),
            VolumeConfig::linear(std::vec![member.clone()]),
        ] {
            assert_eq!(config.size(), member.size());
            assert_eq!(config.shape(), member.shape());
            let volume = answers(&mut config.build().unwrap(), &mut random());
            assert!(alone == volume);
        }
    }
}

#[test]
fn each_part_of_a_linear_volume_answers_at_its_own_speed() {
    let config = VolumeConfig::linear(std::vec![flash(), disk()]);
    let size = flash().size().unwrap();
    assert_eq!(config.size(), Some(size + disk().size().unwrap()));
    let first = rate(
        &config,
        &mut [LoopClient::sequential(Op::Read, 128 << 10, 4, 0)],
        500,
    );
    let second = rate(
        &config,
        &mut [LoopClient::sequential(Op::Read, 128 << 10, 4, size)],
        2000,
    );
    assert!(first > 500_000_000, "{first}");
    assert!((100_000_000..112_000_000).contains(&second), "{second}");
}

#[test]
fn each_member_receives_only_its_own_range() {
    let size = flash().size().unwrap();
    let config = VolumeConfig::linear(std::vec![flash(), flash()]);
    for (offset, op, inside) in [
        (0, Op::Read, [1, 0]),
        (size, Op::Read, [0, 1]),
        (size - 4096, Op::Write, [1, 1]),
        (size - 4096, Op::Discard, [1, 1]),
        (0, Op::Flush, [1, 1]),
    ] {
        let mut volume = config.build().unwrap();
        let command = Dispatch {
            op,
            offset,
            length: 8192,
            ..crate::drive::testing::command()
        };
        volume.submit(Instant::ZERO, &command).unwrap();
        let parts = [0, 1].map(|m| volume.members[m].drive.in_flight());
        assert_eq!(parts, inside, "{op:?} at {offset}");
        assert_eq!(volume.in_flight(), 1);
    }
}

#[test]
fn a_command_ends_with_its_last_part() {
    let slow = Any::Null(null::NullConfig {
        service: Span::from_millis(5),
        link: 0,
        ..null::NullConfig::demo()
    });
    let config = VolumeConfig::stripe(std::vec![quick(32), slow]);
    let latency = |length| {
        let mut clients = [LoopClient::sequential(Op::Read, length, 1, 0)];
        let mut load = load(&config);
        load.run(&mut clients, Span::from_nanos(1)).0[0].latency
    };
    // 30 us and 64 KiB at 250 MB/s, on the fast member only.
    assert_eq!(latency(64 << 10), Span::from_nanos(30_000 + 262_144));
    assert_eq!(latency(64 << 10 | 4096), Span::from_millis(5));
    let mut flush = [LoopClient::random(Op::Flush, 0, 1)];
    let (results, _) = load(&config).run(&mut flush, Span::from_nanos(1));
    assert_eq!(results[0].latency, Span::from_millis(5));
}

#[test]
fn parts_for_a_full_member_wait_inside_and_come_in_turn() {
    let config = VolumeConfig::stripe(std::vec![quick(1), quick(31)]);
    let mut volume = config.build().unwrap();
    assert_eq!(volume.shape().tags, 32);
    let command = |tag, offset| Dispatch {
        tag: Tag(tag),
        offset,
        ..crate::drive::testing::command()
    };
    // All parts are on the member that serves one command at a time.
    for tag in 0..32 {
        let taken = volume.submit(Instant::ZERO, &command(tag, u64::from(tag) * 4096 * 32));
        assert!(taken.is_ok());
    }
    assert_eq!(
        volume.submit(Instant::ZERO, &command(32, 0)),
        Err(QueueFull)
    );
    assert_eq!(volume.members[0].drive.in_flight(), 1);
    let mut order = Vec::new();
    while let Some(next) = volume.next_completion() {
        while let Some(ended) = volume.pop(next) {
            order.push(ended.completion.tag.0);
            // 30 us of service and 4096 bytes at 250 MB/s for each part up to and including this
            // one.
            let each = 30_000 + 16_384;
            assert_eq!(ended.at.as_nanos(), each * order.len() as u64);
        }
    }
    assert!(order.into_iter().eq(0..32));
}

#[test]
fn parameters_out_of_range_are_named() {
    let refused = |config: VolumeConfig| {
        let error = config.validate().unwrap_err();
        assert!(config.build().is_err());
        (error.field, error.value)
    };
    let chunk = |chunk| VolumeConfig {
        layout: Layout::Stripe { chunk },
        ..stripe(2, &disk())
    };
    assert_eq!(refused(stripe(0, &disk())), ("members", 0));
    assert_eq!(refused(stripe(65, &disk())), ("members", 65));
    let inner = Any::Volume(stripe(33, &disk()));
    assert_eq!(refused(stripe(2, &inner)), ("members", 66));
    assert_eq!(refused(chunk(65_537)), ("chunk", 65_537));
    assert_eq!(refused(chunk(2048)), ("chunk", 2048));
    let linear = VolumeConfig::linear(std::vec![disk(), quick(1), disk()]);
    assert_eq!(refused(linear), ("members", 1));
    assert_eq!(refused(stripe(2, &quick(0))), ("tags", 0));
    let zone = hdd::Zone {
        bytes: 1 << 20,
        rate: 1_000_000,
    };
    let tiny = Any::Hdd(hdd::HddConfig {
        zones: [zone; 3],
        ..hdd::HddConfig::generic()
    });
    let tiny = VolumeConfig {
        layout: Layout::Stripe { chunk: 4 << 20 },
        members: std::vec![tiny],
    };
    assert_eq!(refused(tiny), ("chunk", 4 << 20));
    assert_eq!(
        VolumeConfig::linear(std::vec![disk(), quick(1)]).validate(),
        Ok(())
    );
}

fn member() -> impl Strategy<Value = Any> {
    let null = (1u16..5, 1u16..3).prop_map(|(tags, queues)| {
        Any::Null(null::NullConfig {
            tags,
            queues,
            ..null::NullConfig::demo()
        })
    });
    let disk = (1u16..5).prop_map(|tags| {
        Any::Hdd(hdd::HddConfig {
            tags,
            ..hdd::HddConfig::generic()
        })
    });
    let flash = (1u16..5, 1u16..3).prop_map(|(tags, queues)| {
        Any::Ssd(ssd::SsdConfig {
            size: 1 << 30,
            tags,
            queues,
            ..ssd::SsdConfig::generic()
        })
    });
    prop_oneof![null, disk, flash]
}

fn volume() -> impl Strategy<Value = VolumeConfig> {
    let sized = member().prop_filter("has a size", |m| m.size().is_some());
    let stripe = (2u32..8, prop::collection::vec(member(), 1..5));
    let stripe = stripe.prop_map(|(shift, members)| VolumeConfig {
        layout: Layout::Stripe {
            chunk: 2048 << shift,
        },
        members,
    });
    let linear = prop::collection::vec(sized, 1..5).prop_map(VolumeConfig::linear);
    let plain = prop_oneof![stripe, linear].boxed();
    // Volumes can contain volumes.
    let nested = prop::collection::vec(plain.clone().prop_map(Any::Volume), 1..3);
    prop_oneof![3 => plain, 1 => nested.prop_map(VolumeConfig::stripe)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Each command ends once, as announced (which the load checks), nothing is left in flight, and
    /// Little's law holds.
    #[test]
    fn every_command_completes_once(config in volume(), length in 1u32..64, split in 0u32..100) {
        let mut load = load(&config);
        let tags = u32::from(config.shape().tags);
        let random = tags * split / 100;
        let mut clients = [
            LoopClient::random(Op::Read, length * 4096, random),
            LoopClient::sequential(Op::Write, length * 4096, tags - random, 4096),
        ];
        load.run(&mut clients, Span::from_millis(100));
        for ops in [[Op::Flush, Op::WriteZeroes], [Op::Discard, Op::Read]] {
            let mut clients = [
                LoopClient::random(ops[0], length * 4096, random),
                LoopClient::random(ops[1], length * 4096, tags - random),
            ];
            let (results, elapsed) = load.run(&mut clients, Span::from_nanos(1));
            for (result, depth) in results.iter().zip([random, tags - random]) {
                prop_assert_eq!(result.requests, u64::from(depth));
                prop_assert!(result.longest <= elapsed);
            }
        }
        for member in &load.drive.members {
            prop_assert!(member.held.is_empty() && member.drive.in_flight() == 0);
            prop_assert_eq!(member.free.len(), member.slots.len());
        }
        prop_assert_eq!(load.drive.free.len(), load.drive.commands.len());
    }
}

#[test]
fn littles_law_holds_for_a_volume() {
    let config = stripe(2, &flash());
    let mut clients = [
        LoopClient::random(Op::Read, 4096, 8),
        LoopClient::random(Op::Read, 256 << 10, 2),
    ];
    let (results, elapsed) = load(&config).run(&mut clients, SECOND);
    for (result, depth) in results.iter().zip([8, 2]) {
        let inside = result.latency.as_nanos() / depth;
        assert!(inside.abs_diff(elapsed.as_nanos()) < elapsed.as_nanos() / 50);
    }
}
