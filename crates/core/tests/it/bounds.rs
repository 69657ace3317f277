//! Tests of the exact limits of configurations, contracts and groups, and of the messages of
//! refusals.

use weir_core::elevator::{self, bfq, contract};
use weir_core::random::Rng;
use weir_core::testing::{
    bandwidth, capacity, child, iops, latency, limit, min, min_iops, share, spec,
};
use weir_core::{
    Capacity, Class, Config, Contract, ControllerKind, Edit, GroupId, Instant, Layer, Max,
    OpenError, PromiseSums, ROOT, Refusal, Sizes, Span, control,
};

const G: GroupId = GroupId(1);

fn config() -> Config {
    Config::of(elevator::Config::None)
        .sizes(Sizes::default().requests(1_000).streams(10).reserved(2))
}

/// Returns the field for which a valid configuration is refused after `change`.
fn verdict(change: impl FnOnce(&mut Config)) -> Result<(), &'static str> {
    let mut config = config();
    change(&mut config);
    Layer::new(config).map(drop).map_err(|error| error.field)
}

#[test]
fn limits_are_kept_to_the_number() {
    let cases: [(fn(&mut Config), _); 15] = [
        // 10 streams with 2 reserved requests each need 20 requests.
        (|c| c.sizes.requests = 20, Ok(())),
        (|c| c.sizes.requests = 19, Err("sizes.reserved")),
        (|c| c.sizes.requests = 0, Err("sizes.requests")),
        (|c| c.sizes.requests = (1 << 24) + 1, Err("sizes.requests")),
        (|c| c.sizes.streams = 0, Err("sizes.streams")),
        (|c| c.sizes.groups = 0, Err("sizes.groups")),
        (|c| c.sizes.spaces = 0, Err("sizes.spaces")),
        (|c| c.sizes.per_stream = 0, Err("sizes.per_stream")),
        (|c| c.sizes.per_stream = 1, Ok(())),
        (|c| c.sizes.scheduler_tags = 0, Err("sizes.scheduler_tags")),
        (|c| c.sizes.scheduler_tags = 1, Ok(())),
        (|c| c.drive.queues = 0, Err("drive.queues")),
        (|c| c.drive.tags = 0, Err("drive.tags")),
        (|c| c.drive.tags = 1, Ok(())),
        (|c| c.drive.max_transfer = 4096, Ok(())),
    ];
    for (case, (change, expected)) in cases.into_iter().enumerate() {
        assert_eq!(verdict(change), expected, "case {case}");
    }
    // Too small, or not a multiple of 512.
    for wrong in [0, 512, 3584, 4097, 5000] {
        let refused = verdict(|c| c.drive.max_transfer = wrong);
        assert_eq!(refused, Err("drive.max_transfer"), "{wrong}");
    }
}

#[test]
fn a_refused_configuration_states_the_allowed_values() {
    let mut config = config();
    config.drive.max_transfer = 1000;
    let error = Layer::new(config).unwrap_err();
    assert_eq!(
        error.to_string(),
        "drive.max_transfer must be a multiple of 512, at least 4096"
    );
}

/// Asserts the least and the largest accepted value of each tunable.
fn keeps_to(elevator: &elevator::Config, bounds: &[(&'static str, u64, u64)]) {
    for &(field, least, most) in bounds {
        let with = |value| {
            let mut elevator = elevator.clone();
            let tuned = elevator.tuned_mut().unwrap();
            let place = tuned.find(field).unwrap();
            tuned.set(place, value);
            verdict(|c| c.elevator = elevator)
        };
        let found = [least, most, most + 1].map(with);
        assert_eq!(found, [Ok(()), Ok(()), Err(field)]);
        assert!(least == 0 || with(least - 1) == Err(field), "{field}");
    }
}

#[test]
fn tunables_are_kept_to_the_number() {
    const SECOND: u64 = 1_000_000_000;
    let bfq = elevator::Config::Bfq(bfq::Config::default());
    let bounds = [
        ("fifo_expire_sync", 0, 60 * SECOND),
        ("fifo_expire_async", 0, 60 * SECOND),
        ("back_seek_max", 0, 1 << 30),
        ("back_seek_penalty", 1, 1000),
        ("slice_idle", 0, SECOND),
        ("max_budget", 0, 1 << 31),
        ("timeout_sync", SECOND / 1_000, 60 * SECOND),
        ("async_charge_factor", 1, 100),
        ("seeky_threshold", 0, 32),
    ];
    keeps_to(&bfq, &bounds);
    let contract = elevator::Config::Contract(contract::Config::default());
    keeps_to(
        &contract,
        &[("catch_up", 0, 10 * SECOND), ("forget", 0, 10 * SECOND)],
    );
    let strict = |ms| {
        let config = bfq::Config::default().strict_guarantees(true);
        config.slice_idle(Span::from_millis(ms)).validate()
    };
    // With strict guarantees, BFQ must idle for at least 8 ms.
    assert_eq!(strict(8), Ok(()));
    assert_eq!(strict(7).unwrap_err().field, "slice_idle");
}

fn layer() -> Layer {
    let mut config = config();
    config.drive.capacity = Some(Capacity::NONE.read(1_000_000).write(1_000_000).iops(1_000));
    Layer::new(config).unwrap()
}

fn add(id: u32, parent: GroupId, contract: Contract) -> Edit {
    child(id, parent, contract)
}

/// Returns the result for one client with this contract on a drive without other promises.
fn sold(contract: Contract) -> Result<(), Refusal> {
    layer()
        .change(Instant::ZERO, &[add(1, ROOT, contract)])
        .map(drop)
}

const FREE: Contract = Contract::DEFAULT;

#[test]
fn a_contract_that_contradicts_itself_is_refused() {
    let min = |min, max| FREE.min(min).max(max);
    let bytes = bandwidth(500);
    assert_eq!(sold(min(500, bytes)), Ok(()));
    assert_eq!(sold(min(501, bytes)), Err(Refusal::MinAboveMax(G)));
    assert_eq!(sold(min(500, Max::NONE)), Ok(()));
    // Reads and writes together can reach the sum of both limits.
    let each = Max::NONE.read_bandwidth(200).write_bandwidth(300);
    assert_eq!(sold(min(500, each)), Ok(()));
    assert_eq!(sold(min(501, each)), Err(Refusal::MinAboveMax(G)));
    // A limit on reads alone does not limit all requests together.
    let reads = Max::NONE.read_bandwidth(200);
    assert_eq!(sold(min(500, reads)), Ok(()));
    let requests = |min_iops, max| FREE.min_iops(min_iops).max(max);
    let iops = iops(50);
    assert_eq!(sold(requests(50, iops)), Ok(()));
    assert_eq!(sold(requests(51, iops)), Err(Refusal::MinAboveMax(G)));
    let each = Max::NONE.read_iops(20).write_iops(30);
    assert_eq!(sold(requests(50, each)), Ok(()));
    assert_eq!(sold(requests(51, each)), Err(Refusal::MinAboveMax(G)));
    let two = FREE.min(1).min_iops(1);
    assert_eq!(sold(two), Err(Refusal::TwoMins(G)));
}

#[test]
fn a_min_is_compared_with_a_max_in_the_other_currency() {
    let requests = |min_iops, rate| FREE.min_iops(min_iops).max(bandwidth(rate));
    // 100 requests/s move at least 100 sectors of 512 bytes, or 51,200 bytes/s.
    assert_eq!(sold(requests(100, 51_200)), Ok(()));
    assert_eq!(sold(requests(100, 51_199)), Err(Refusal::MinAboveMax(G)));
    // A request has at most `u32::MAX` bytes, so 3 requests/s move at most three times that.
    let bytes = |min, rate| FREE.min(min).max(iops(rate));
    let longest = u64::from(u32::MAX);
    let of = |contract| {
        let mut config = config();
        config.drive.capacity = Some(capacity(1 << 40));
        let mut layer = Layer::new(config).unwrap();
        layer
            .change(Instant::ZERO, &[add(1, ROOT, contract)])
            .map(drop)
    };
    assert_eq!(of(bytes(3 * longest, 3)), Ok(()));
    assert_eq!(of(bytes(3 * longest + 1, 3)), Err(Refusal::MinAboveMax(G)));
    // If 4096 bytes count as one request, 3 requests/s move at most 12,288 bytes/s.
    let counted = |min| {
        let mut contract = bytes(min, 3);
        contract.max.iops_size = 4096;
        contract
    };
    assert_eq!(of(counted(3 * 4096)), Ok(()));
    assert_eq!(of(counted(3 * 4096 + 1)), Err(Refusal::MinAboveMax(G)));
}

#[test]
fn a_realtime_min_counts_beside_a_max_in_the_other_currency() {
    let realtime = |min_iops| {
        FREE.min_iops(min_iops)
            .class(Class::Realtime)
            .max(bandwidth(500_000))
    };
    // The max takes 500 of 1000 kB/s, and 400 of 1000 requests/s take 40 % more: 90 % together.
    assert_eq!(sold(realtime(400)), Ok(()));
    let refused = sold(realtime(401));
    assert!(
        matches!(refused, Err(Refusal::OverCapacity { promised, .. }) if promised.iops == 401),
        "{refused:?}"
    );
    // A min in requests is not a max, which the class realtime requires.
    let endless = FREE.min_iops(1).class(Class::Realtime);
    assert_eq!(sold(endless), Err(Refusal::RealtimeWithoutMax(G)));
}

/// Checks that the promises of all clients together take at most 90 % of the drive: of its bytes,
/// of its requests, and of the bytes that their requests move at least.
#[test]
fn admitted_promises_fit_in_bytes_and_in_requests() {
    let mut rng = Rng::new(10);
    let mut drawn = |most: u64| match rng.range(0, 2) {
        0 => 0,
        _ => rng.range(1, most),
    };
    let mut admitted = 0;
    for _ in 0..20_000 {
        let capacity = Capacity {
            read: 1 + drawn(2_000_000),
            write: 1 + drawn(2_000_000),
            iops: drawn(2_000),
            read_iops: drawn(2_000),
            write_iops: drawn(2_000),
        };
        let contracts = [(); 2].map(|()| {
            let contract = match drawn(3) {
                1 => min(drawn(400_000)),
                2 => min_iops(drawn(400)),
                _ => FREE,
            };
            let max = Max::NONE
                .bandwidth(drawn(800_000))
                .read_bandwidth(drawn(800_000))
                .write_bandwidth(drawn(800_000))
                .iops(drawn(800))
                .read_iops(drawn(800))
                .write_iops(drawn(800));
            let class = [Class::BestEffort, Class::Realtime][usize::from(drawn(2) == 1)];
            contract.max(max).class(class)
        });
        let mut config = config();
        config.drive.capacity = Some(capacity);
        let edits = (1..).zip(&contracts).map(|(id, c)| add(id, ROOT, *c));
        let edits: Vec<Edit> = edits.collect();
        if (Layer::new(config).unwrap())
            .change(Instant::ZERO, &edits)
            .is_err()
        {
            continue;
        }
        admitted += 1;
        let promised = |c: &Contract, min: u64, max: u64| match c.class {
            // A realtime client may use its max, so the max is promised.
            Class::Realtime => min.max(max),
            _ => min,
        };
        let sum = |of: &dyn Fn(&Contract) -> u64| contracts.iter().map(of).sum::<u64>();
        let bytes = sum(&|c| promised(c, c.min, c.max.bytes_ceiling()));
        let requests = sum(&|c| promised(c, c.min_iops, c.max.iops_ceiling()));
        // `asked` takes at most 90 % of `of`.
        let fits = |asked: u64, of: u64| 10 * asked <= 9 * of;
        let stated = [capacity.iops, capacity.read_iops, capacity.write_iops];
        assert!(
            fits(bytes.max(512 * requests), capacity.bytes())
                && (stated.into_iter().filter(|most| *most > 0)).all(|most| fits(requests, most))
                && contracts.iter().all(|c| {
                    let most = c.max.bytes_ceiling();
                    most == 0 || 512 * c.min_iops <= most
                }),
            "{capacity:?} {contracts:?}"
        );
    }
    // The test must not pass because nearly all draws are refused.
    assert!(admitted > 500, "{admitted} of the draws were admitted");
}

#[test]
fn classes_have_conditions() {
    let class = |class, contract: Contract| contract.class(class);
    assert_eq!(sold(class(Class::Idle, FREE)), Ok(()));
    let min = min(1);
    assert_eq!(sold(class(Class::Idle, min)), Err(Refusal::IdleWithMin(G)));
    let min_iops = min_iops(1);
    assert_eq!(
        sold(class(Class::Idle, min_iops)),
        Err(Refusal::IdleWithMin(G))
    );
    assert_eq!(
        sold(class(Class::Realtime, FREE)),
        Err(Refusal::RealtimeWithoutMax(G))
    );
    for max in [bandwidth(1_000), iops(1)] {
        assert_eq!(sold(class(Class::Realtime, limit(max))), Ok(()));
    }
}

#[test]
fn at_most_90_percent_can_be_promised() {
    let mut layer = layer();
    let promised = layer
        .change(Instant::ZERO, &[add(1, ROOT, min(900_000))])
        .unwrap();
    let all = PromiseSums {
        bytes: 900_000,
        iops: 0,
        millionths: 900_000,
    };
    assert_eq!(promised, all);
    // 90 % are promised already, so one more byte/s exceeds the limit.
    let one_more = layer.change(Instant::ZERO, &[add(2, ROOT, min(1))]);
    let Err(Refusal::OverCapacity { promised, .. }) = one_more else {
        panic!("{one_more:?}")
    };
    assert_eq!(promised.bytes, 900_001);
    // 900,001 bytes/s are 90.0001 %, rounded up to 90.1 %.
    assert_eq!(
        one_more.unwrap_err().to_string(),
        "the promises add up to 900.001kB/s and take 90.1 % of the drive's time, of which at most 90 % can be promised (its capacity is \
         1MB/s for reads, 1MB/s for writes, 1000 requests/s)"
    );
}

#[test]
fn members_share_the_min_of_their_group() {
    let tree = |inner| {
        [
            add(1, ROOT, min(1_000)),
            add(2, G, min(600)),
            add(3, G, min(inner)),
        ]
    };
    // 400 and 600 bytes/s are the tenant's 1000, and 401 exceed them.
    assert!(layer().change(Instant::ZERO, &tree(400)).is_ok());
    assert_eq!(
        layer().change(Instant::ZERO, &tree(401)),
        Err(Refusal::ChildrenAboveParent {
            group: G,
            bytes: 1_001,
            iops: 0
        })
    );
}

#[test]
fn groups_make_a_tree_of_eight_levels_with_streams_at_its_leaves() {
    let mut layer = layer();
    let mut change = |edit| layer.change(Instant::ZERO, &[edit]).map(drop);
    // Each group is the child of the one before, and the first that of the root.
    for level in 1..=8 {
        assert_eq!(change(add(level, GroupId(level - 1), FREE)), Ok(()));
    }
    // The ninth level is refused.
    assert_eq!(
        change(add(9, GroupId(8), FREE)),
        Err(Refusal::BadParent(GroupId(8)))
    );
    assert_eq!(
        change(add(8, ROOT, FREE)),
        Err(Refusal::GroupExists(GroupId(8)))
    );
    assert_eq!(
        change(Edit::RemoveGroup(GroupId(7))),
        Err(Refusal::GroupInUse(GroupId(7)))
    );
    assert_eq!(change(Edit::RemoveGroup(ROOT)), Err(Refusal::Root));
    // Each level can be removed, starting with the leaf. After the last one, the root is a leaf
    // again.
    for level in (1..=8).rev() {
        assert_eq!(change(Edit::RemoveGroup(GroupId(level))), Ok(()));
    }
    let spec = |group| spec(group);
    let stream = layer.open(Instant::ZERO, spec(ROOT)).unwrap();
    // The root has a stream now, so it cannot have a child.
    let below = layer.change(Instant::ZERO, &[add(1, ROOT, FREE)]);
    assert_eq!(below, Err(Refusal::BadParent(ROOT)));
    layer.close(Instant::ZERO, stream);
    // The closed stream is gone only after the poll, which frees its slot.
    layer.poll(Instant::ZERO, &mut Vec::new());
    layer.change(Instant::ZERO, &[add(1, ROOT, FREE)]).unwrap();
    assert_eq!(
        layer.open(Instant::ZERO, spec(ROOT)),
        Err(OpenError::NotALeaf(ROOT))
    );
    let missing = GroupId(77);
    assert_eq!(
        layer.open(Instant::ZERO, spec(missing)),
        Err(OpenError::NoSuchGroup(missing))
    );
    let stream = layer.open(Instant::ZERO, spec(G)).unwrap();
    let remove = [Edit::RemoveGroup(G)];
    assert_eq!(
        layer.change(Instant::ZERO, &remove),
        Err(Refusal::GroupInUse(G))
    );
    layer.close(Instant::ZERO, stream);
    layer.poll(Instant::ZERO, &mut Vec::new());
    assert!(layer.change(Instant::ZERO, &remove).is_ok());
}

#[test]
fn shares_have_the_bounds_of_their_elevator() {
    assert_eq!(sold(share(0)), Err(Refusal::ShareOutOfRange(G, 10_000)));
    assert_eq!(sold(share(1)), Ok(()));
    assert_eq!(sold(share(10_000)), Ok(()));
    assert_eq!(
        sold(share(10_001)),
        Err(Refusal::ShareOutOfRange(G, 10_000))
    );
    // The weights of BFQ end at 1000 (`BFQ_MAX_WEIGHT`).
    let mut config = config();
    config.elevator = elevator::Config::Bfq(bfq::Config::default());
    let mut layer = Layer::new(config).unwrap();
    let mut sold = |number, of| {
        layer
            .change(Instant::ZERO, &[add(number, ROOT, share(of))])
            .map(drop)
    };
    assert_eq!(sold(1, 1_000), Ok(()));
    assert_eq!(
        sold(2, 1_001),
        Err(Refusal::ShareOutOfRange(GroupId(2), 1_000))
    );
}

#[test]
fn a_knob_or_a_max_needs_its_controller() {
    let mut config = config();
    config.controllers = control::Config::NONE;
    let mut layer = Layer::new(config).unwrap();
    let max = iops(1);
    let limited = [add(1, ROOT, limit(max))];
    assert_eq!(
        layer.change(Instant::ZERO, &limited),
        Err(Refusal::NoController(G, ControllerKind::Max))
    );
    let target = [add(1, ROOT, FREE), latency(G, Span::from_nanos(1))];
    let refused = layer.change(Instant::ZERO, &target).unwrap_err();
    assert_eq!(refused, Refusal::NoController(G, ControllerKind::Latency));
    assert_eq!(
        refused.to_string(),
        "group 1: controller io.latency is missing"
    );
    assert!(layer.change(Instant::ZERO, &target[..1]).is_ok());
}

#[test]
fn refusals_name_the_group_and_the_reason() {
    for (refusal, words) in [
        (
            Refusal::CapacityUnknown(G),
            "group 1: cannot promise a minimum, because the drive's capacity is unknown",
        ),
        (
            Refusal::RealtimeWithoutMax(G),
            "group 1: class realtime requires a max",
        ),
        (
            Refusal::IdleWithMin(G),
            "group 1: class idle cannot have a min",
        ),
        (Refusal::MinAboveMax(G), "group 1: the min exceeds the max"),
        (
            Refusal::TwoMins(G),
            "group 1: a min in bytes and a min in requests cannot be combined",
        ),
        (
            Refusal::ChildrenAboveParent {
                group: G,
                bytes: 2,
                iops: 3,
            },
            "group 1: the promises of its members add up to 2B/s and 3 requests/s, which exceeds its own promise",
        ),
        (
            Refusal::ShareOutOfRange(G, 9),
            "group 1: the share must be between 1 and 9",
        ),
        (Refusal::NoSuchGroup(G), "group 1 does not exist"),
        (Refusal::GroupExists(G), "group 1 already exists"),
        (
            Refusal::SlotOutOfRange(5),
            "slot 5 exceeds the configured number",
        ),
        (
            Refusal::GroupInUse(G),
            "group 1 has members and cannot be removed",
        ),
        (
            Refusal::BadParent(G),
            "group 1 cannot have a child, because it has streams or is 8 levels deep",
        ),
        (
            Refusal::NoController(G, ControllerKind::Max),
            "group 1: controller io.max is missing",
        ),
        (
            Refusal::Root,
            "the root group cannot have a contract or be removed",
        ),
    ] {
        assert_eq!(refusal.to_string(), words);
    }
    for (error, words) in [
        (OpenError::Full, "all streams are in use"),
        (OpenError::NoSuchGroup(G), "group 1 does not exist"),
        (
            OpenError::NotALeaf(G),
            "group 1 has child groups, so that it cannot have streams",
        ),
    ] {
        assert_eq!(error.to_string(), words);
    }
}

#[test]
fn times_are_nanoseconds_and_never_negative() {
    let times = (Instant::from_nanos(7), Span::from_micros(1));
    assert_eq!(format!("{times:?}"), "(7ns, 1000ns)");
    assert_eq!(
        Span::from_micros(3) - Span::from_micros(1),
        Span::from_micros(2)
    );
    assert_eq!(Span::from_micros(1) - Span::from_micros(3), Span::ZERO);
}
