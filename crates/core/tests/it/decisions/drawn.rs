//! Random loads: a few clients of any kind, in groups with contracts, limits and knobs, on one of
//! the drives, under a policy with random tunables. The scenes show the effect of single rules, and
//! these loads reach the corner cases that no scene was written for.

use std::fmt::Write;
use std::num::NonZeroU64;

use weir_core::control::{cost, low, slices};
use weir_core::random::Rng;
use weir_core::testing::{AccessPattern, Client, ms, us};
use weir_core::{
    Capacity, Class, Config, Contract, DriveShape, Edit, Flags, GroupId, Knobs, LowKnobs, Max, Op,
    Priority, PriorityClass, ROOT, Sizes, Span, merge,
};

use crate::decisions::churn::draw;
use crate::decisions::client::READER;
use crate::decisions::drive::SceneDriveKind;
use crate::decisions::host::{Change, Decision, Scene, layer, run};
use crate::decisions::listing::digest;
use crate::decisions::scenes::SCARCE;

/// The number of lines in a table.
const DRAWS: u64 = 160;

/// Returns a table with one line for each random load. A line has the drive, the results, and a
/// digest of every decision and sample.
pub(crate) fn of(name: &str, policy: &Config) -> String {
    let mut text = format!(
        "{name}\n\nseed drive     ms clients  pieces       KiB answered  mean us longest us  digest\n"
    );
    for seed in 0..DRAWS {
        let scene = scene(seed, policy);
        writeln!(text, "{seed:4} {}", line(&scene)).unwrap();
    }
    text
}

fn line(scene: &Scene) -> String {
    let decisions = run(scene);
    let (mut pieces, mut bytes, mut answered, mut sum, mut longest) = (0, 0, 0, 0, 0);
    for decision in &decisions {
        match decision {
            Decision::Sent(_, _, piece) => {
                pieces += 1;
                bytes += u64::from(piece.length);
            }
            Decision::Answered(_, _, done) => {
                let w = done.waits;
                let took = w.limit.as_nanos() + w.elevator.as_nanos() + w.drive.as_nanos();
                answered += 1;
                sum += took / 1_000;
                longest = longest.max(took / 1_000);
            }
            Decision::Sampled(..) => {}
        }
    }
    let drive = match scene.drive {
        SceneDriveKind::Flash => "flash",
        SceneDriveKind::SlowFlash => "slow",
        SceneDriveKind::Disk => "disk",
        SceneDriveKind::Even => "even",
    };
    format!(
        "{drive:5} {:6} {:7} {pieces:7} {:9} {answered:8} {:8} {longest:10}  {:08x}",
        scene.millis,
        scene.clients.len(),
        bytes >> 10,
        sum / answered.max(1),
        digest(&decisions),
    )
}

/// A source of random choices.
struct Draw(Rng);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0.below(NonZeroU64::new(n).unwrap())
    }

    /// Returns true with a probability of one in `n`.
    fn rarely(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn one_of<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len() as u64) as usize]
    }

    /// Returns a number of any order of magnitude up to 2^`bits`.
    fn magnitude(&mut self, bits: u64) -> u64 {
        let bits = 1 + self.below(bits);
        1 + self.below(1 << bits)
    }
}

fn scene(seed: u64, policy: &Config) -> Scene {
    let mut rng = Draw(Rng::new(seed));
    loop {
        let drawn = scene_of(&mut rng, policy);
        // Some loads promise more than the drive can do and are refused.
        if layer(&drawn).is_ok() {
            return drawn;
        }
    }
}

fn scene_of(rng: &mut Draw, policy: &Config) -> Scene {
    let drive = rng.one_of(&[
        SceneDriveKind::Flash,
        SceneDriveKind::SlowFlash,
        SceneDriveKind::Disk,
        SceneDriveKind::Even,
    ]);
    let even = matches!(drive, SceneDriveKind::Even);
    let policy = tuned(rng, policy, drive);
    let groups = groups(rng, &policy);
    // A group with child groups cannot have clients.
    let mut leaves: Vec<_> = (0..=groups.len() as u32).map(GroupId).collect();
    leaves.retain(|leaf| groups.iter().all(|group| group.1 != *leaf));
    let clients: Vec<_> = (0..2 + rng.below(5))
        .map(|number| {
            let own = client(rng, even).of(rng.one_of(&leaves)).nth(number);
            if !rng.rarely(4) {
                return own;
            }
            // The client has a part of the first file, interleaved with those of others.
            own.place(AccessPattern::Every(4))
                .base(number % 4 * u64::from(own.length))
        })
        .collect();
    let changes = changes(rng, &policy, &groups, clients.len());
    Scene {
        drive,
        config: policy
            .drive(shape(rng, drive))
            .sizes(Sizes::default().scheduler_tags(rng.one_of(&[8, 64, 4_096]))),
        groups,
        clients,
        changes,
        millis: 200 + rng.below(if even { 3_000 } else { 1_000 }),
    }
}

/// Returns the policy. In half of the cases, it has random tunables.
fn tuned(rng: &mut Draw, policy: &Config, drive: SceneDriveKind) -> Config {
    let mut policy = policy.clone();
    // The factors by which the drives are slower than `SceneDriveKind::Flash`, roughly.
    let slower = match drive {
        SceneDriveKind::Flash => 1,
        SceneDriveKind::SlowFlash => 10,
        SceneDriveKind::Disk => 20,
        SceneDriveKind::Even => 5,
    };
    if let Some(cost) = &mut policy.controllers.cost {
        *cost = cost_of(rng, slower);
    }
    if rng.rarely(2) {
        return policy;
    }
    if let Some(elevator) = policy.elevator.tuned_mut() {
        draw(elevator, &mut rng.0);
    }
    if let Some(low) = &mut policy.controllers.low {
        draw(low, &mut rng.0);
    }
    if let Some(slices) = &mut policy.controllers.slices {
        draw(slices, &mut rng.0);
    }
    policy
}

/// Returns a model whose speed is between 20 % and twice that of the drive. Its targets may be out
/// of reach.
fn cost_of(rng: &mut Draw, slower: u64) -> cost::Config {
    // 1 to 10 fifths: from 20 % to twice the speed of the drive.
    let part = 1 + rng.below(10);
    let rate = |full: u64| full * part / 5 / slower;
    let min = 1_000 + rng.below(10_000) as u32;
    SCARCE
        .rpct(rng.one_of(&[0, 5_000, 9_500]))
        .rlat(Span::from_micros(rng.magnitude(15)))
        .wpct(rng.one_of(&[0, 5_000, 9_500]))
        .wlat(Span::from_micros(rng.magnitude(15)))
        .min(min)
        .max(min + rng.below(20_000) as u32)
        .rbps(rate(900_000_000))
        .rseqiops(rate(40_000))
        .rrandiops(rate(30_000))
        .wbps(rate(450_000_000))
        .wseqiops(rate(20_000))
        .wrandiops(rate(15_000))
        .donation(rng.one_of(&[cost::DonationRule::Tree, cost::DonationRule::Flat]))
}

fn shape(rng: &mut Draw, drive: SceneDriveKind) -> DriveShape {
    let (read, write, iops) = match drive {
        SceneDriveKind::Flash => (500_000_000, 250_000_000, 40_000),
        SceneDriveKind::SlowFlash => (50_000_000, 25_000_000, 4_000),
        SceneDriveKind::Disk => (50_000_000, 50_000_000, 120),
        SceneDriveKind::Even => (200_000_000, 200_000_000, 3_500),
    };
    DriveShape {
        queues: rng.one_of(&[1, 1, 2]),
        tags: rng.one_of(&[2, 16, 32]),
        max_transfer: rng.one_of(&[64 << 10, 256 << 10, 1 << 20]),
        rotational: matches!(drive, SceneDriveKind::Disk)
            || matches!(drive, SceneDriveKind::Even) && rng.rarely(2),
        capacity: Some(
            Capacity::NONE
                .read(read)
                .write(write)
                .iops(if rng.rarely(2) { iops } else { 0 }),
        ),
    }
}

fn groups(rng: &mut Draw, policy: &Config) -> Vec<(u32, GroupId, Contract, Knobs)> {
    (1..=rng.below(6) as u32)
        .map(|id| {
            let parent = if rng.rarely(2) {
                ROOT
            } else {
                GroupId(rng.below(id.into()) as u32)
            };
            (id, parent, contract(rng, policy), knobs(rng, policy))
        })
        .collect()
}

/// In half of the cases, clients reconnect, or groups get other contracts or knobs.
fn changes(
    rng: &mut Draw,
    policy: &Config,
    groups: &[(u32, GroupId, Contract, Knobs)],
    clients: usize,
) -> Vec<(u64, Change)> {
    let many = if rng.rarely(2) { 1 + rng.below(6) } else { 0 };
    let change = |rng: &mut Draw| {
        if groups.is_empty() || rng.rarely(3) {
            return Change::Reconnect(rng.below(clients as u64) as usize);
        }
        let id = GroupId(1 + rng.below(groups.len() as u64) as u32);
        Change::Edit(if rng.rarely(2) {
            let contract = contract(rng, policy);
            Edit::SetContract { id, contract }
        } else {
            let knobs = knobs(rng, policy);
            Edit::SetKnobs { id, knobs }
        })
    };
    (0..many)
        .map(|_| (1 + rng.below(500), change(rng)))
        .collect()
}

fn contract(rng: &mut Draw, policy: &Config) -> Contract {
    let classes = policy.elevator.kind().keeps_class;
    let promises = policy.controllers.low.is_some() || policy.elevator.kind().keeps_min;
    let mut rate = |of: u64, bits| {
        if rng.rarely(2) {
            of * rng.magnitude(bits)
        } else {
            0
        }
    };
    let max = Max::NONE
        .bandwidth(rate(1_000_000, 8))
        .read_bandwidth(rate(1_000_000, 8))
        .write_iops(rate(10, 10))
        .burst(Span::from_millis(rate(1, 5)));
    let min = if promises { rate(100_000, 7) } else { 0 };
    // A contract cannot have a min in bytes and one in requests.
    let iops = promises && min == 0 && rng.rarely(3);
    Contract {
        min,
        min_iops: if iops { rng.magnitude(9) } else { 0 },
        share: rng.magnitude(9) as u16,
        max: if rng.rarely(3) { max } else { Max::NONE },
        class: match rng.below(8) {
            0 if classes => Class::Realtime,
            1 if classes && min == 0 && !iops => Class::Idle,
            _ => Class::BestEffort,
        },
    }
}

fn knobs(rng: &mut Draw, policy: &Config) -> Knobs {
    let low = policy.controllers.low.is_some();
    let mut some = |bits| {
        if rng.rarely(3) {
            rng.magnitude(bits)
        } else {
            0
        }
    };
    let latency = Span::from_micros(some(15));
    let limits = LowKnobs {
        read_bandwidth: 100_000 * some(8),
        write_bandwidth: 100_000 * some(8),
        read_iops: some(10),
        write_iops: some(10),
        idle: Span::from_micros(some(14)),
        latency: Span::from_micros(some(14)),
    };
    Knobs {
        latency,
        low: if low { limits } else { LowKnobs::NONE },
    }
}

/// Returns a random client. If `even` is true, its think time is a whole number of milliseconds.
fn client(rng: &mut Draw, even: bool) -> Client {
    let writes = rng.rarely(3);
    let place = match rng.below(6) {
        0 | 1 => AccessPattern::Sequential,
        4 => AccessPattern::Backwards,
        2 => AccessPattern::Every(1 + rng.below(4)),
        3 => AccessPattern::Alternately {
            of: 1 + rng.below(3),
            each: rng.magnitude(6),
        },
        _ => AccessPattern::Random,
    };
    let from = if rng.rarely(2) { rng.below(200) } else { 0 };
    let mut client = READER
        .priority(Priority {
            class: rng.one_of(&[
                PriorityClass::BestEffort,
                PriorityClass::BestEffort,
                PriorityClass::BestEffort,
                PriorityClass::Realtime,
                PriorityClass::Idle,
            ]),
            level: rng.below(8) as u8,
        })
        .op(if writes { Op::Write } else { Op::Read })
        .flags(rng.one_of(&[Flags::NONE, Flags::NONE, Flags::SYNC, Flags::META]))
        .place(place)
        .length(4_096 << rng.below(7))
        .depth(rng.one_of(&[1, 1, 2, 4, 16, 32]))
        .think(if even {
            ms(rng.one_of(&[0, 0, 1, 4, 20, 300]))
        } else {
            us(rng.one_of(&[0, 20, 200, 1_500, 9_000]))
        })
        .from(ms(from))
        .until(if rng.rarely(3) {
            ms(from + 50 + rng.below(500))
        } else {
            u64::MAX
        });
    if writes && rng.rarely(2) {
        client.other = Some((rng.magnitude(5), Op::Flush, client.flags));
    }
    client
}

/// Returns a policy by the words in the name of its table: an elevator and the stages in front of
/// it.
pub(crate) fn policy(elevator: &str, with: &str) -> Config {
    let kind = weir_core::elevator::find(elevator).unwrap();
    let mut policy = Config::of((kind.default)());
    match with {
        "" => {}
        "cost" => policy.controllers.cost = Some(SCARCE),
        "low" => policy.controllers.low = Some(low::Config::default()),
        "slices" => policy.controllers.slices = Some(slices::Config::default()),
        "merge" => policy.merge = merge::Config::LINUX,
        "cost-merge" => {
            policy.controllers.cost = Some(SCARCE);
            policy.merge = merge::Config::LINUX;
        }
        _ => panic!("{with}"),
    }
    policy
}
