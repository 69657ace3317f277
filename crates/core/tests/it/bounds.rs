//! What is refused, to the number: configurations, contracts and groups, and what is said of it.

use weir_core::elevator::{self, bfq, contract};
use weir_core::random::Rng;
use weir_core::testing::{
    bandwidth, capacity, child, iops, latency, limit, min, min_iops, share, spec,
};
use weir_core::{
    Capacity, Class, Config, Contract, Edit, GroupId, Instant, Kind, Layer, Max, OpenError,
    Promised, ROOT, Refusal, Sizes, Span, control,
};

const G: GroupId = GroupId(1);

fn config() -> Config {
    Config {
        sizes: Sizes {
            requests: 1_000,
            streams: 10,
            reserved: 2,
            ..Sizes::default()
        },
        ..Config::of(elevator::Config::None)
    }
}

/// What a layer says to a configuration that `change` has made of a good one.
fn verdict(change: impl FnOnce(&mut Config)) -> Result<(), &'static str> {
    let mut config = config();
    change(&mut config);
    Layer::new(config).map(drop).map_err(|error| error.field)
}

#[test]
fn limits_are_kept_to_the_number() {
    assert_eq!(verdict(|c| c.sizes.requests = 20), Ok(()));
    assert_eq!(verdict(|c| c.sizes.requests = 19), Err("sizes.reserved"));
    assert_eq!(verdict(|c| c.sizes.requests = 0), Err("sizes.requests"));
    let most = (1 << 24) + 1;
    assert_eq!(verdict(|c| c.sizes.requests = most), Err("sizes.requests"));
    assert_eq!(verdict(|c| c.sizes.streams = 0), Err("sizes.streams"));
    assert_eq!(verdict(|c| c.sizes.groups = 0), Err("sizes.groups"));
    assert_eq!(verdict(|c| c.sizes.spaces = 0), Err("sizes.spaces"));
    assert_eq!(verdict(|c| c.sizes.per_stream = 0), Err("sizes.per_stream"));
    assert_eq!(verdict(|c| c.sizes.per_stream = 1), Ok(()));
    assert_eq!(
        verdict(|c| c.sizes.scheduler_tags = 0),
        Err("sizes.scheduler_tags")
    );
    assert_eq!(verdict(|c| c.sizes.scheduler_tags = 1), Ok(()));
    assert_eq!(verdict(|c| c.drive.queues = 0), Err("drive.queues"));
    assert_eq!(verdict(|c| c.drive.tags = 0), Err("drive.tags"));
    assert_eq!(verdict(|c| c.drive.tags = 1), Ok(()));
    assert_eq!(verdict(|c| c.drive.max_transfer = 4096), Ok(()));
    for wrong in [0, 512, 3584, 4097, 5000] {
        assert_eq!(
            verdict(|c| c.drive.max_transfer = wrong),
            Err("drive.max_transfer"),
            "{wrong}"
        );
    }
}

#[test]
fn a_configuration_that_is_refused_says_what_is_allowed() {
    let mut config = config();
    config.drive.max_transfer = 1000;
    let error = Layer::new(config).unwrap_err();
    assert_eq!(
        error.to_string(),
        "drive.max_transfer must be a multiple of 512, at least 4096"
    );
}

#[test]
fn tunables_of_bfq_are_kept_to_the_number() {
    let bfq = |change: fn(&mut bfq::Config)| {
        let mut config = bfq::Config::default();
        change(&mut config);
        verdict(|c| c.elevator = elevator::Config::Bfq(config))
    };
    assert_eq!(bfq(|c| c.fifo_expire_sync = Span::from_secs(60)), Ok(()));
    assert_eq!(
        bfq(|c| c.fifo_expire_sync = Span::from_secs(61)),
        Err("fifo_expire_sync")
    );
    assert_eq!(bfq(|c| c.fifo_expire_async = Span::from_secs(60)), Ok(()));
    assert_eq!(
        bfq(|c| c.fifo_expire_async = Span::from_secs(61)),
        Err("fifo_expire_async")
    );
    assert_eq!(bfq(|c| c.back_seek_max = 1 << 30), Ok(()));
    assert_eq!(
        bfq(|c| c.back_seek_max = (1 << 30) + 1),
        Err("back_seek_max")
    );
    assert_eq!(bfq(|c| c.back_seek_penalty = 0), Err("back_seek_penalty"));
    assert_eq!(bfq(|c| c.back_seek_penalty = 1000), Ok(()));
    assert_eq!(
        bfq(|c| c.back_seek_penalty = 1001),
        Err("back_seek_penalty")
    );
    assert_eq!(bfq(|c| c.slice_idle = Span::ZERO), Ok(()));
    assert_eq!(bfq(|c| c.slice_idle = Span::from_secs(1)), Ok(()));
    assert_eq!(
        bfq(|c| c.slice_idle = Span::from_millis(1001)),
        Err("slice_idle")
    );
    assert_eq!(bfq(|c| c.max_budget = 1 << 31), Ok(()));
    assert_eq!(bfq(|c| c.max_budget = (1 << 31) + 1), Err("max_budget"));
    assert_eq!(bfq(|c| c.timeout_sync = Span::from_millis(1)), Ok(()));
    assert_eq!(bfq(|c| c.timeout_sync = Span::from_secs(60)), Ok(()));
    assert_eq!(
        bfq(|c| c.timeout_sync = Span::from_secs(61)),
        Err("timeout_sync")
    );
    assert_eq!(
        bfq(|c| c.async_charge_factor = 0),
        Err("async_charge_factor")
    );
    assert_eq!(bfq(|c| c.async_charge_factor = 100), Ok(()));
    assert_eq!(
        bfq(|c| c.async_charge_factor = 101),
        Err("async_charge_factor")
    );
    assert_eq!(bfq(|c| c.seeky_threshold = 32), Ok(()));
    assert_eq!(bfq(|c| c.seeky_threshold = 33), Err("seeky_threshold"));
    let strict = |ms| bfq::Config {
        strict_guarantees: true,
        slice_idle: Span::from_millis(ms),
        ..bfq::Config::default()
    };
    assert_eq!(strict(8).validate(), Ok(()));
    assert_eq!(strict(7).validate().unwrap_err().field, "slice_idle");
}

#[test]
fn tunables_of_contract_are_kept_to_the_number() {
    let contract = |change: fn(&mut contract::Config)| {
        let mut config = contract::Config::default();
        change(&mut config);
        verdict(|c| c.elevator = elevator::Config::Contract(config))
    };
    assert_eq!(contract(|c| c.catch_up = Span::from_secs(10)), Ok(()));
    assert_eq!(
        contract(|c| c.catch_up = Span::from_millis(10_001)),
        Err("catch_up")
    );
    assert_eq!(contract(|c| c.forget = Span::from_secs(10)), Ok(()));
    assert_eq!(
        contract(|c| c.forget = Span::from_millis(10_001)),
        Err("forget")
    );
}

fn layer() -> Layer {
    let mut config = config();
    config.drive.capacity = Some(Capacity {
        read: 1_000_000,
        write: 1_000_000,
        iops: 1_000,
        ..Capacity::NONE
    });
    Layer::new(config).unwrap()
}

fn add(id: u32, parent: GroupId, contract: Contract) -> Edit {
    child(id, parent, contract)
}

/// What is said to one client with this contract on an otherwise free drive.
fn sold(contract: Contract) -> Result<(), Refusal> {
    layer()
        .change(Instant::ZERO, &[add(1, ROOT, contract)])
        .map(drop)
}

const FREE: Contract = Contract::DEFAULT;

#[test]
fn a_contract_that_contradicts_itself_is_refused() {
    let min = |min, max| Contract { min, max, ..FREE };
    let bytes = bandwidth(500);
    assert_eq!(sold(min(500, bytes)), Ok(()));
    assert_eq!(sold(min(501, bytes)), Err(Refusal::MinAboveMax(G)));
    assert_eq!(sold(min(500, Max::NONE)), Ok(()));
    // Reads and writes together may reach the sum of what each may have.
    let each = Max {
        read_bandwidth: 200,
        write_bandwidth: 300,
        ..Max::NONE
    };
    assert_eq!(sold(min(500, each)), Ok(()));
    assert_eq!(sold(min(501, each)), Err(Refusal::MinAboveMax(G)));
    let reads = Max {
        read_bandwidth: 200,
        ..Max::NONE
    };
    assert_eq!(sold(min(500, reads)), Ok(()));
    let requests = |min_iops, max| Contract {
        min_iops,
        max,
        ..FREE
    };
    let iops = iops(50);
    assert_eq!(sold(requests(50, iops)), Ok(()));
    assert_eq!(sold(requests(51, iops)), Err(Refusal::MinAboveMax(G)));
    let each = Max {
        read_iops: 20,
        write_iops: 30,
        ..Max::NONE
    };
    assert_eq!(sold(requests(50, each)), Ok(()));
    assert_eq!(sold(requests(51, each)), Err(Refusal::MinAboveMax(G)));
    let two = Contract {
        min: 1,
        min_iops: 1,
        ..FREE
    };
    assert_eq!(sold(two), Err(Refusal::TwoMins(G)));
}

#[test]
fn a_min_is_held_against_a_max_in_the_other_currency() {
    let requests = |min_iops, rate| Contract {
        min_iops,
        max: bandwidth(rate),
        ..FREE
    };
    assert_eq!(sold(requests(100, 51_200)), Ok(()));
    assert_eq!(sold(requests(100, 51_199)), Err(Refusal::MinAboveMax(G)));
    // Requests are no longer than 32 bits say.
    let bytes = |min, rate| Contract {
        min,
        max: iops(rate),
        ..FREE
    };
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
    // Nor do they move more than what counts as one.
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
    let realtime = |min_iops| Contract {
        min_iops,
        class: Class::Realtime,
        max: bandwidth(500_000),
        ..FREE
    };
    assert_eq!(sold(realtime(400)), Ok(()));
    let refused = sold(realtime(401));
    assert!(
        matches!(refused, Err(Refusal::OverCapacity { promised, .. }) if promised.iops == 401),
        "{refused:?}"
    );
    // A min is no max.
    let endless = Contract {
        min_iops: 1,
        class: Class::Realtime,
        ..FREE
    };
    assert_eq!(sold(endless), Err(Refusal::RealtimeWithoutMax(G)));
}

/// Whatever clients were promised, together they can ask for nine tenths of the drive at the most: of its bytes, of its requests, and of
/// the bytes that their requests move at the least.
#[test]
fn what_is_admitted_fits_in_every_currency() {
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
        let contracts: Vec<Contract> = (0..2)
            .map(|_| {
                let kind = drawn(3);
                let min = if kind == 1 { drawn(400_000) } else { 0 };
                let min_iops = if kind == 2 { drawn(400) } else { 0 };
                (min, min_iops)
            })
            .collect::<Vec<_>>()
            .into_iter()
            .map(|(min, min_iops)| Contract {
                min,
                min_iops,
                max: Max {
                    bandwidth: drawn(800_000),
                    read_bandwidth: drawn(800_000),
                    write_bandwidth: drawn(800_000),
                    iops: drawn(800),
                    read_iops: drawn(800),
                    write_iops: drawn(800),
                    ..Max::NONE
                },
                class: [Class::BestEffort, Class::Realtime][usize::from(drawn(2) == 1)],
                ..FREE
            })
            .collect();
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
            Class::Realtime => min.max(max),
            _ => min,
        };
        let sum = |of: &dyn Fn(&Contract) -> u64| contracts.iter().map(of).sum::<u64>();
        let bytes = sum(&|c| promised(c, c.min, c.max.bytes_ceiling()));
        let requests = sum(&|c| promised(c, c.min_iops, c.max.iops_ceiling()));
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
    assert!(admitted > 500, "{admitted} of the draws were admitted");
}

#[test]
fn classes_have_conditions() {
    let class = |class, contract| Contract { class, ..contract };
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
fn nine_tenths_can_be_promised_and_no_more() {
    let mut layer = layer();
    let promised = layer
        .change(Instant::ZERO, &[add(1, ROOT, min(900_000))])
        .unwrap();
    let all = Promised {
        bytes: 900_000,
        iops: 0,
        millionths: 900_000,
    };
    assert_eq!(promised, all);
    let one_more = layer.change(Instant::ZERO, &[add(2, ROOT, min(1))]);
    let Err(Refusal::OverCapacity { promised, .. }) = one_more else {
        panic!("{one_more:?}")
    };
    assert_eq!(promised.bytes, 900_001);
    assert_eq!(
        one_more.unwrap_err().to_string(),
        "the promises add up to 900.001kB/s and take 90.1 % of the drive's time, of which at most 90 % can be promised (its capacity is \
         1MB/s for reads, 1MB/s for writes, 1000 requests/s)"
    );
}

#[test]
fn members_share_what_their_group_was_promised() {
    let tree = |inner| {
        [
            add(1, ROOT, min(1_000)),
            add(2, G, min(600)),
            add(3, G, min(inner)),
        ]
    };
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
    for level in 1..=8 {
        assert_eq!(change(add(level, GroupId(level - 1), FREE)), Ok(()));
    }
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
    // From the leaf upwards each can go; the last leaves the root a leaf.
    for level in (1..=8).rev() {
        assert_eq!(change(Edit::RemoveGroup(GroupId(level))), Ok(()));
    }
    let spec = |group| spec(group);
    let stream = layer.open(Instant::ZERO, spec(ROOT)).unwrap();
    let below = layer.change(Instant::ZERO, &[add(1, ROOT, FREE)]);
    assert_eq!(below, Err(Refusal::BadParent(ROOT)));
    layer.close(Instant::ZERO, stream);
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
        Err(Refusal::NoController(G, Kind::Max))
    );
    let target = [add(1, ROOT, FREE), latency(G, Span::from_nanos(1))];
    let refused = layer.change(Instant::ZERO, &target).unwrap_err();
    assert_eq!(refused, Refusal::NoController(G, Kind::Latency));
    assert_eq!(
        refused.to_string(),
        "group 1: controller io.latency is missing"
    );
    assert!(layer.change(Instant::ZERO, &target[..1]).is_ok());
}

#[test]
fn refusals_say_what_and_where() {
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
            Refusal::NoController(G, Kind::Max),
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
