//! Scenes of shares and waits, and of promises to readers.

use super::{SceneClient, SceneWatch, SteadyDrive, SteadyScene};
use crate::audit::random::{DecisionSource, RandomDecisions};
use weir_core::control::cost;
use weir_core::elevator::{self, bfq, cfq, contract, kyber, mq_deadline};
use weir_core::{
    Capacity, Class, Config, Contract, DriveShape, GroupId, Instant, ROOT, Sizes, Span,
};

/// A millisecond in nanoseconds.
pub(super) const MS: u64 = 1_000_000;
const SECTOR: u64 = 512;
pub(super) const SIZES: [u32; 5] = [4096, 16 << 10, 32 << 10, 64 << 10, 128 << 10];
/// The bandwidth of the link of the modelled drive, in bytes per second.
pub(super) const LINK: u64 = 250_000_000;
const CAPACITY: Option<Capacity> = Some(Capacity::NONE.read(LINK).write(LINK).iops(0));

pub(super) fn base(
    random: &mut RandomDecisions,
    elevator: impl Into<elevator::Config>,
    watch: SceneWatch,
) -> SteadyScene {
    SteadyScene {
        config: Config::of(elevator)
            .sizes(Sizes::default().streams(16).groups(16))
            .drive(DriveShape::default().tags(random.pick(&[1, 2, 4, 8]))),
        groups: Vec::new(),
        clients: Vec::new(),
        drive: SteadyDrive {
            service: Span::from_micros(random.pick(&[10, 30, 80])),
            read_ns_per_kib: link(LINK),
            write_ns_per_kib: link(LINK),
            request_ns: 0,
            error_in: 0,
            busy_in: 0,
        },
        script: Vec::new(),
        duration: Span::from_millis(2_000),
        near: false,
        watch: vec![watch],
    }
}

pub(super) fn share(share: u64) -> Contract {
    Contract::DEFAULT.share(share as u16)
}

/// Draws a client that always has more requests than the drive takes.
pub(super) fn greedy(random: &mut RandomDecisions, group: u32, tags: u16) -> SceneClient {
    SceneClient {
        group,
        size: random.pick(&SIZES),
        // At least two requests more than the drive has tags, so that some always wait in the
        // elevator.
        depth: u32::from(tags) + 2 + random.below(6) as u32,
        random: random.once_in(2),
        ..SceneClient::default()
    }
}

/// Adds a group below the root, with a greedy client.
fn add<'a>(
    random: &mut RandomDecisions,
    scene: &'a mut SteadyScene,
    contract: Contract,
) -> &'a mut SceneClient {
    scene.groups.push((ROOT, contract));
    let client = greedy(random, scene.groups.len() as u32, scene.config.drive.tags);
    scene.clients.push(client);
    scene.clients.last_mut().expect("it was just added")
}

/// Adds readers and writers, at least two of each.
fn add_both(random: &mut RandomDecisions, scene: &mut SteadyScene) {
    for client in 0..4 + random.below(3) {
        let size = random.pick(&[4096, 16 << 10]);
        let added = add(random, scene, share(100));
        // `write_in` of 1 writes always, and 0 never.
        (added.size, added.write_in) = (size, client % 2);
    }
}

/// Adds two to four groups, some with groups in them. Their shares differ up to tenfold, and each
/// leaf has one or two clients. Some clients pause and return, and some have one request at a time.
fn shared(random: &mut RandomDecisions, scene: &mut SteadyScene) {
    let tags = scene.config.drive.tags;
    for _ in 0..2 + random.below(3) {
        let contract = share(20 + random.below(181));
        scene.groups.push((ROOT, contract));
        let top = scene.groups.len() as u32;
        let mut leaves = vec![top];
        if random.once_in(2) {
            leaves.clear();
            for _ in 0..2 {
                scene
                    .groups
                    .push((GroupId(top), share(20 + random.below(181))));
                leaves.push(scene.groups.len() as u32);
            }
        }
        for leaf in leaves {
            for _ in 0..=random.below(2) {
                let mut client = greedy(random, leaf, tags);
                match random.below(4) {
                    0 => {
                        (client.on, client.off) =
                            (random.magnitude(100 * MS), random.magnitude(100 * MS));
                    }
                    1 => {
                        // With one request at a time and think time before the next, the client is
                        // idle after each request.
                        client.depth = 1;
                        client.think = random.magnitude(MS / 5);
                        client.size = random.pick(&[client.size, 128 << 10]);
                    }
                    _ => {}
                }
                scene.clients.push(client);
            }
        }
    }
}

pub(super) fn bfq_shares(random: &mut RandomDecisions) -> SteadyScene {
    let max_budget = 256 << random.below(3);
    let config = bfq::Config::default()
        .charge(bfq::Charge::Service)
        .max_budget(max_budget)
        .slice_idle(random.pick(&[Span::ZERO, Span::from_micros(200), Span::from_millis(8)]))
        .low_latency(false)
        .injection(false)
        .merge(random.once_in(2));
    // A turn may exceed its budget by the longest request.
    let turn = u64::from(max_budget) * SECTOR + (128 << 10);
    let watch = SceneWatch::Shares {
        lag: BFQ_TURNS * turn,
        owed: 0,
        skip: BFQ_FIRST_TURNS,
    };
    let mut scene = base(random, config, watch);
    // The drive is so fast that the first turns end soon, and that no turn ends by time.
    scene.drive.read_ns_per_kib = link(10 * LINK);
    scene.drive.service = Span::from_micros(2);
    // Clients near each other on a rotating drive may be merged, because they cooperate or seem to.
    scene.near = random.once_in(2);
    scene.config.drive.rotational = random.once_in(2);
    shared(random, &mut scene);
    for client in &mut scene.clients {
        client.size = client.size.max(16 << 10);
    }
    scene
}

/// The number of turns of `bfq` that do not count. Like Linux, `bfq` uses a maximum budget of 16384
/// sectors until it has given out 194 budgets, whatever its setting. After that the last client
/// with such a budget is ahead of the others.
const BFQ_FIRST_TURNS: u64 = 4_000;

/// The lead of a client over another under `bfq`, in turns of each.
const BFQ_TURNS: u64 = 10;

/// Draws shares under `contract`. Start-time fair queueing lets a client get ahead of another by
/// one piece of each.
pub(super) fn contract_shares(random: &mut RandomDecisions) -> SteadyScene {
    let config = contract::Config::default().excess(contract::Excess::Bytes);
    // The lag has 1 KiB more for rounding in the division by weights. A client that was absent is
    // owed the amount that keeps the drive busy: a piece and its delay.
    let (lag, owed) = ((128 << 10) + 1024, 2 * (128 << 10));
    let mut scene = base(random, config, SceneWatch::Shares { lag, owed, skip: 0 });
    scene.config.drive.capacity = CAPACITY;
    shared(random, &mut scene);
    if random.once_in(2) {
        // A client whose min may be more than its share gets its min, and no part of the excess in
        // addition.
        let min = random.below(LINK / 2);
        let contract = share(20 + random.below(181)).min(min);
        add(random, &mut scene, contract);
    }
    scene
}

/// Draws shares under `io.cost` without an elevator, with a limit of half of the link. The clocks
/// of groups are at most a request and a timer's slack apart. A group that begins can spend half a
/// period of the whole drive as long as it is the only one.
pub(super) fn cost_shares(random: &mut RandomDecisions) -> SteadyScene {
    let lag = COST_REQUESTS * (128 << 10) + LINK / 2 * COST_BEGIN_MS / 1_000;
    let watch = SceneWatch::Shares {
        lag,
        owed: 0,
        skip: 0,
    };
    let mut scene = base(random, elevator::Config::None, watch);
    let config = cost::Config::default()
        .qos(cost::Control::User)
        .rlat(Span::from_millis(5))
        .wlat(Span::from_millis(5))
        .min(10_000)
        .max(10_000)
        .model(cost::Control::User)
        .rbps(LINK / 2)
        .rseqiops(0)
        .rrandiops(0);
    scene.config.controllers.cost = Some(config);
    // The model of `io.cost` is the limit, not the drive, for every size of requests.
    scene.config.drive.tags = 8;
    scene.drive.service = Span::from_micros(10);
    shared(random, &mut scene);
    let tags = scene.config.drive.tags;
    for client in &mut scene.clients {
        // Clients do not pause here, because a client that returns brings half a period of budget
        // along each time.
        *client = greedy(random, client.group, tags);
    }
    scene
}

/// The lead of a client over another under `io.cost`, in longest requests of each.
const COST_REQUESTS: u64 = 2;
/// Half a period of `io.cost`, in milliseconds.
const COST_BEGIN_MS: u64 = 5;

pub(super) fn bfq_waits(random: &mut RandomDecisions) -> SteadyScene {
    // Raising is off, because a raised queue has turns of several seconds.
    let config = bfq::Config::default().low_latency(false).injection(false);
    let turn = config.timeout_sync + config.slice_idle;
    let mut scene = base(random, config, SceneWatch::Waits { bound: Span::ZERO });
    let others = 1 + random.below(3);
    for _ in 0..others {
        let thinks = random.once_in(2);
        let think = if thinks { random.below(7) * MS } else { 0 };
        let client = add(random, &mut scene, share(100));
        if thinks {
            // The drive idles for this client in every turn.
            (client.size, client.depth) = (4096, 1);
            (client.think, client.random) = (think, true);
        }
    }
    add(random, &mut scene, share(100));
    let idle = random.once_in(2);
    if idle {
        add(random, &mut scene, share(100).class(Class::Idle));
    }
    // The weights are equal. So a client waits for at most one turn of each other client and one
    // that was in progress. The idle class is served once in 200 ms.
    let turns = turn + Span::from_millis(20);
    let bound = turns.saturating_mul(others + 1 + u64::from(idle));
    scene.watch = vec![SceneWatch::Waits {
        bound: if idle {
            bound + Span::from_millis(200)
        } else {
            bound
        },
    }];
    scene
}

/// Draws shares under `cfq` on flash, where requests are charged. With requests of one size, their
/// number stands for bytes. Turns of groups take a millisecond and the requests that are in the
/// drive at their end. Their parts of the drive are rounded to 4096ths.
pub(super) fn cfq_shares(random: &mut RandomDecisions) -> SteadyScene {
    let slice = Span::from_millis(1);
    let config = cfq::Config::default()
        .slice_sync(slice)
        .target_latency(slice)
        .group_idle(random.pick(&[Span::ZERO, Span::from_millis(8)]));
    // Over the two seconds of a scene, the rounded parts add up to this many bytes.
    let rounding = LINK * 2 / CFQ_ROUNDED;
    let turn = LINK / 1_000 * CFQ_TURN_MS + 8 * (64 << 10);
    let watch = SceneWatch::Shares {
        lag: CFQ_TURNS * turn + rounding,
        owed: 0,
        skip: 0,
    };
    let mut scene = base(random, config, watch);
    scene.config.drive.tags = 8;
    shared(random, &mut scene);
    for client in &mut scene.clients {
        *client = SceneClient {
            size: 64 << 10,
            ..greedy(random, client.group, 8)
        };
    }
    scene
}

/// The minimum time for which `cfq` serves a kind of queues, in milliseconds.
const CFQ_TURN_MS: u64 = 2;
/// The lead of a client over another under `cfq`, in turns.
const CFQ_TURNS: u64 = 10;
/// The inverse rounding error of a part of the drive: a part is off by less than a hundredth.
const CFQ_ROUNDED: u64 = 100;

/// Draws waits under `cfq` where it idles. Every group is served after one turn of each other
/// group.
pub(super) fn cfq_waits(random: &mut RandomDecisions) -> SteadyScene {
    let config = cfq::Config::default()
        .flash_idles(true)
        .low_latency(random.once_in(2));
    let turn = config.slice_sync + config.slice_idle + Span::from_millis(20);
    let others = 1 + random.below(4);
    let bound = turn.saturating_mul(2 * (others + 1));
    let mut scene = base(random, config, SceneWatch::Waits { bound });
    for _ in 0..=others {
        let client = add(random, &mut scene, share(100));
        if random.once_in(3) {
            (client.depth, client.think) = (1, random.below(7) * MS);
        }
    }
    scene
}

pub(super) fn contract_waits(random: &mut RandomDecisions) -> SteadyScene {
    let timeout = Span::from_millis(20 << random.below(5));
    let config = contract::Config::default().idle_class_timeout(timeout);
    // A client of the idle class waits for its timeout. The others are served one piece at a time,
    // after the pieces in flight.
    let bound = timeout + Span::from_millis(50);
    let mut scene = base(random, config, SceneWatch::Waits { bound });
    for class in [Class::BestEffort, Class::BestEffort, Class::Idle] {
        add(random, &mut scene, share(100).class(class));
    }
    scene
}

/// Draws streams under `mq-deadline` that always have a request further on, and others behind them.
pub(super) fn deadline_waits(random: &mut RandomDecisions) -> SteadyScene {
    let config = mq_deadline::Config::default()
        .read_expire(Span::from_millis(random.pick(&[10, 30, 100])))
        .write_expire(Span::from_millis(random.pick(&[20, 60, 200])))
        .writes_starved(1 + random.below(3) as u32)
        .fifo_batch(random.pick(&[1, 2, 4]));
    let mut scene = base(random, config, SceneWatch::Waits { bound: Span::ZERO });
    add_both(random, &mut scene);
    // All older requests go first, each in a batch of its own in the worst case, and up to
    // `writes_starved` batches of the other direction go between two of them.
    let older: u32 = scene.clients.iter().map(|c| c.depth).sum();
    let pieces = older * (config.writes_starved + 1) * config.fifo_batch;
    // The longest request here, 16 KiB, takes 65 us on the link of 250 MB/s.
    let piece = scene.drive.service + Span::from_micros(16 * 1024 * 1_000 / 250_000);
    let bound = config.read_expire.max(config.write_expire) + piece.saturating_mul(pieces.into());
    scene.watch = vec![SceneWatch::Waits { bound }];
    scene
}

/// Draws readers and writers under `kyber` that always have more requests than the drive has tags.
/// Their targets are from never met to always met.
pub(super) fn kyber_waits(random: &mut RandomDecisions) -> SteadyScene {
    let mut target = || Span::from_micros(random.pick(&[1, 100, 1_000, 100_000]));
    let config = kyber::Config {
        read_lat_nsec: target(),
        write_lat_nsec: target(),
    };
    let mut scene = base(random, config, SceneWatch::Waits { bound: Span::ZERO });
    add_both(random, &mut scene);
    // All older requests go first. For each of them, in the worst case, a batch of 16 reads and one
    // of 8 writes go, and the requests that are in the drive.
    let older: u32 = scene.clients.iter().map(|c| c.depth).sum();
    let round = 16 + 8 + u32::from(scene.config.drive.tags);
    let piece = scene.drive.service + Span::from_micros(16 * 1024 * 1_000 / 250_000);
    let bound = piece.saturating_mul((older * round).into());
    scene.watch = vec![SceneWatch::Waits { bound }];
    scene
}

pub(super) fn promises(random: &mut RandomDecisions) -> SteadyScene {
    let excess = random.pick(&[contract::Excess::Time, contract::Excess::Bytes]);
    let config = contract::Config::default().excess(excess);
    let watch = SceneWatch::Promises {
        from: Instant::ZERO,
        least: 1_000,
    };
    let mut scene = base(random, config, watch);
    scene.config.drive.tags = 32;
    scene.config.drive.capacity = CAPACITY;
    scene.drive.service = Span::from_micros(30);
    scene.duration = Span::from_millis(2_500);
    // The part of the link that can be promised is 90 %.
    let mut left = LINK / 10 * 9;
    let clients = 4 + random.below(12);
    // In half of the scenes, everything that may be promised is promised.
    let everything = random.once_in(2);
    for i in 0..clients {
        let target = i == 0 || random.once_in(6);
        // A target sends one 4 KiB request at a time, which must take at most 205 to 683 us each.
        // The others have several long requests outstanding.
        let (size, depth) = if target {
            (4096, 1)
        } else {
            (random.pick(&[64 << 10, 128 << 10]), 2 + random.below(3))
        };
        let min = if target {
            6_000_000 + random.below(14_000_001)
        } else if everything {
            // The rest is divided evenly among the remaining clients.
            left / (clients - i)
        } else {
            random.below(12_000_001)
        };
        let min = min.min(left);
        left -= min;
        let own = share(50 + random.below(100)).min(min);
        scene.groups.push((ROOT, own));
        scene.clients.push(SceneClient {
            group: scene.groups.len() as u32,
            size,
            depth: depth as u32,
            random: target,
            ..SceneClient::default()
        });
    }
    scene
}

/// Converts a rate in bytes per second to the time of a KiB in nanoseconds.
pub(super) const fn link(bytes_a_second: u64) -> u64 {
    1024 * Span::from_secs(1).as_nanos() / bytes_a_second
}
