//! The scenes, each of which shows one or two rules of its policy.

use weir_core::control::cost;
use weir_core::elevator::{self, bfq, cfq, contract, kyber, mq_deadline};
use weir_core::testing::{
    AccessPattern, Client, bandwidth, capacity, iops, limit, min, min_iops, ms, share, us,
};
use weir_core::{
    Capacity, Class, Config, Contract, DriveShape, Flags, GroupId, Knobs, Max, Op, PriorityClass,
    ROOT, Sizes, Span,
};

use crate::decisions::client::{RANDOM, READER, WRITER, flush};
use crate::decisions::drive::SceneDriveKind;
use crate::decisions::host::{Scene, SceneGroup};

const FREE: Contract = Contract::DEFAULT;

fn latency(latency: Span) -> Knobs {
    Knobs {
        latency,
        ..Knobs::NONE
    }
}

fn group(id: u32, contract: Contract) -> SceneGroup {
    (id, ROOT, contract, Knobs::NONE)
}

fn flash(capacity: u64) -> DriveShape {
    DriveShape::default().capacity(Some(
        Capacity::NONE
            .read(capacity)
            .write(capacity / 2)
            .iops(40_000),
    ))
}

fn disk(rate: Option<u64>) -> DriveShape {
    DriveShape::default()
        .tags(16)
        .rotational(true)
        .capacity(rate.map(capacity))
}

fn scene(elevator: impl Into<elevator::Config>) -> Scene {
    Scene {
        drive: SceneDriveKind::Flash,
        config: Config::of(elevator).drive(flash(500_000_000)),
        groups: Vec::new(),
        clients: Vec::new(),
        changes: Vec::new(),
        millis: 500,
    }
}

fn none() -> Scene {
    scene(elevator::Config::None)
}

fn bfq(change: impl FnOnce(&mut bfq::Config)) -> Scene {
    let mut config = bfq::Config::default();
    change(&mut config);
    scene(config)
}

fn contract() -> Scene {
    scene(contract::Config::default())
}

impl Scene {
    fn disk(self, rate: Option<u64>) -> Self {
        self.drive(SceneDriveKind::Disk).shape(disk(rate))
    }

    fn drive(self, drive: SceneDriveKind) -> Self {
        Self { drive, ..self }
    }

    fn shape(mut self, shape: DriveShape) -> Self {
        self.config.drive = shape;
        self
    }

    fn sizes(mut self, sizes: Sizes) -> Self {
        self.config.sizes = sizes;
        self
    }

    fn cost(mut self, config: cost::Config) -> Self {
        self.config.controllers.cost = Some(config);
        self
    }

    fn groups<const N: usize>(mut self, groups: [SceneGroup; N]) -> Self {
        self.groups.extend(groups);
        self
    }

    fn clients(mut self, clients: impl IntoIterator<Item = Client>) -> Self {
        self.clients.extend(clients);
        self
    }

    fn millis(self, millis: u64) -> Self {
        Self { millis, ..self }
    }
}

const G1: GroupId = GroupId(1);
const G2: GroupId = GroupId(2);
const G3: GroupId = GroupId(3);
const G4: GroupId = GroupId(4);

pub(crate) fn none_flash() -> Scene {
    none()
        .clients([READER, RANDOM, WRITER.other(flush(5))])
        .millis(100)
}

pub(crate) fn max_levels() -> Scene {
    // The burst is 50 ms at 60 MB/s, or 3 MB.
    let tenant = Max::NONE.bandwidth(60_000_000).burst(Span::from_millis(50));
    let one = Max::NONE.read_iops(700).write_bandwidth(20_000_000);
    none()
        .groups([
            group(1, limit(tenant)),
            (2, G1, limit(one), Knobs::NONE),
            (3, G1, FREE, Knobs::NONE),
        ])
        .clients([
            RANDOM.of(G2),
            WRITER.of(G2).depth(4),
            READER.of(G3).depth(4),
            READER.of(G3),
        ])
        .millis(300)
}

pub(crate) fn latency_target() -> Scene {
    none()
        .shape(flash(500_000_000).tags(64))
        .groups([
            (1, ROOT, FREE, latency(Span::from_micros(400))),
            (2, ROOT, FREE, latency(Span::from_millis(20))),
            group(3, FREE),
        ])
        .clients([
            RANDOM.of(G1).depth(2),
            WRITER.of(G2).until(ms(1500)),
            WRITER.of(G3).depth(32).from(ms(300)).until(ms(1200)),
        ])
        .millis(2500)
}

pub(crate) fn latency_delays() -> Scene {
    let few = Sizes::default()
        .requests(48)
        .streams(8)
        .per_stream(24)
        .reserved(0)
        .scheduler_tags(16);
    none()
        .drive(SceneDriveKind::SlowFlash)
        .sizes(few)
        .groups([
            (1, ROOT, FREE, latency(Span::from_micros(900))),
            group(2, FREE),
            (3, G2, FREE, latency(Span::from_millis(30))),
            (4, G2, FREE, Knobs::NONE),
        ])
        .clients([
            RANDOM.of(G1).think(us(200)),
            RANDOM.of(G3).depth(4).until(ms(4_000)),
            WRITER.of(G4).depth(12).until(ms(2_500)),
            // Metadata is never throttled, and its group is delayed for it later.
            WRITER
                .of(G4)
                .depth(2)
                .flags(Flags::META)
                .length(32 << 10)
                .until(ms(3_000)),
        ])
        .millis(6_000)
}

pub(crate) fn mq_deadline_flash() -> Scene {
    scene(
        mq_deadline::Config::default()
            .read_expire(Span::from_millis(2))
            .write_expire(Span::from_millis(8))
            .fifo_batch(8),
    )
    .shape(flash(500_000_000).tags(4))
    .clients([
        READER,
        RANDOM.depth(24).length(4096),
        WRITER
            .depth(24)
            .length(16 << 10)
            .place(AccessPattern::Random),
    ])
    .millis(100)
}

pub(crate) fn mq_deadline_disk() -> Scene {
    scene(mq_deadline::Config::default().prio_aging_expire(Span::from_millis(200)))
        .disk(None)
        .clients([
            RANDOM.depth(16),
            WRITER.nth(4).depth(16),
            RANDOM.nth(8).class(PriorityClass::Idle).depth(4),
            RANDOM
                .nth(12)
                .class(PriorityClass::Realtime)
                .from(ms(400))
                .until(ms(800))
                .depth(2),
        ])
        .millis(1_200)
}

/// A configuration of `io.cost` for a slow drive with strict targets.
pub(crate) const SCARCE: cost::Config = cost::Config {
    tick: Span::from_millis(4),
    qos: cost::Control::User,
    rpct: 8_000,
    rlat: Span::from_millis(3),
    wpct: 9_000,
    wlat: Span::from_millis(4),
    min: 4_000,
    max: 25_000,
    model: cost::Control::User,
    rbps: 100_000_000,
    rseqiops: 4_000,
    rrandiops: 1_500,
    wbps: 50_000_000,
    wseqiops: 3_000,
    wrandiops: 1_000,
    donation: cost::DonationRule::Tree,
    kept: 0,
};

pub(crate) fn cfq_disk() -> Scene {
    scene(cfq::Config::default())
        .disk(None)
        .groups([group(1, share(100)), group(2, share(300))])
        .clients([
            READER.of(G1),
            READER.of(G2).nth(4).level(0),
            RANDOM.of(G2).nth(8).depth(2).level(7),
            WRITER.of(G2).nth(12).depth(8),
        ])
        .millis(2_000)
}

pub(crate) fn cfq_flash() -> Scene {
    scene(cfq::Config::default())
        .shape(flash(500_000_000).tags(8))
        .groups([group(1, share(100)), group(2, share(100))])
        .clients([READER.of(G1).depth(16), RANDOM.of(G2)])
        .millis(300)
}

fn kyber(targets: (u64, u64)) -> Scene {
    let config = kyber::Config {
        read_lat_nsec: Span::from_micros(targets.0),
        write_lat_nsec: Span::from_micros(targets.1),
    };
    scene(config)
}

pub(crate) fn kyber_flash() -> Scene {
    kyber((50, 1_000_000))
        .clients([
            RANDOM.depth(32).length(4096),
            WRITER
                .depth(32)
                .length(16 << 10)
                .place(AccessPattern::Random),
        ])
        .millis(400)
}

pub(crate) fn kyber_disk() -> Scene {
    kyber((2_000, 1_000_000))
        .disk(None)
        .clients([RANDOM.depth(8), WRITER.nth(4).depth(16)])
        .millis(2_500)
}

pub(crate) fn cost_shares() -> Scene {
    let model = cost::Config::default()
        .qos(cost::Control::User)
        .rpct(9_000)
        .rlat(Span::from_millis(5))
        .wlat(Span::from_millis(10))
        .min(5_000)
        .max(20_000)
        .model(cost::Control::User)
        .rrandiops(6_000);
    let metadata = WRITER.depth(2).flags(Flags::META).length(32 << 10);
    none()
        .cost(model)
        .groups([
            group(1, share(100)),
            group(2, share(300)),
            (3, G2, share(100), Knobs::NONE),
            (4, G2, share(50), Knobs::NONE),
        ])
        .clients([
            RANDOM.of(G1),
            RANDOM.of(G3).depth(8),
            WRITER.of(G4).depth(16).from(ms(300)).until(ms(1_200)),
            // Metadata is never throttled. Its cost becomes a debt of its group.
            metadata.of(G1).from(ms(600)).until(ms(1_500)),
        ])
        .millis(2_000)
}

/// Groups at several levels, some of which use less than their part. One of them pauses.
pub(crate) fn cost_donation() -> Scene {
    let weights = SCARCE.rpct(0).wpct(0).min(10_000).max(10_000);
    none()
        .drive(SceneDriveKind::SlowFlash)
        .cost(weights)
        .groups([
            group(1, share(500)),
            (2, G1, share(100), Knobs::NONE),
            (3, G1, share(300), Knobs::NONE),
            group(4, share(200)),
            // This weight counts only within group 4, in which the group has no siblings.
            (5, G4, share(10_000), Knobs::NONE),
            group(6, share(100)),
        ])
        .clients([
            RANDOM.of(G2).think(us(7_000)),
            READER.of(G3).think(us(20_000)).until(ms(900)),
            RANDOM.of(GroupId(5)).depth(4),
            WRITER
                .of(GroupId(6))
                .depth(4)
                .length(32 << 10)
                .from(ms(300)),
            // The group needs more than before.
            RANDOM.of(G2).depth(2).from(ms(600)).until(ms(1_100)),
        ])
        .millis(1_500)
}

/// Returns a scene in which `vrate` begins outside of its bounds.
fn cost_bounds(min: u32, max: u32) -> Scene {
    none()
        .cost(SCARCE.min(min).max(max))
        .groups([group(1, share(100)), group(2, share(300))])
        .clients([
            RANDOM.of(G1).depth(4),
            RANDOM.of(G2).depth(4).until(ms(400)),
        ])
        .millis(600)
}

pub(crate) fn cost_rises() -> Scene {
    // `vrate` begins at 100 %, below its minimum of 150 %.
    cost_bounds(15_000, 20_000)
}

pub(crate) fn cost_falls() -> Scene {
    // `vrate` begins at 100 %, above its maximum of 60 %.
    cost_bounds(3_000, 6_000)
}

pub(crate) fn contract_unbounded() -> Scene {
    let config = contract::Config::default().bound_in_flight(false);
    scene(config)
        .groups([
            group(1, min(20_000_000)),
            group(2, min(5_000_000)),
            group(3, FREE),
        ])
        .clients([
            RANDOM.of(G1),
            RANDOM.of(G2).op(Op::Write).other(flush(2)),
            WRITER.of(G3).other(flush(7)),
            READER.of(G3).depth(8),
        ])
        .millis(400)
}

pub(crate) fn contract_disk_hopeless() -> Scene {
    contract()
        .disk(Some(60_000_000))
        .groups([group(1, min(40_000_000)), group(2, FREE), group(3, FREE)])
        .clients([
            // A random read of 64 KiB takes at least 1.5 ms for the seek and 0.66 ms for the
            // transfer, which is 30 MB/s at most.
            RANDOM.of(G1).length(64 << 10),
            READER.of(G2).nth(5).depth(4),
            WRITER
                .of(G3)
                .nth(10)
                .depth(8)
                .length(64 << 10)
                .from(ms(700)),
        ])
        .millis(2_000)
}

pub(crate) fn bfq_disk_mix() -> Scene {
    bfq(|c| c.low_latency = false)
        .disk(None)
        .clients([
            READER,
            READER.nth(8).level(0),
            RANDOM.nth(3).from(ms(30)),
            WRITER.nth(12).until(ms(800)),
            READER.nth(14).class(PriorityClass::Idle).level(7),
            RANDOM
                .class(PriorityClass::Realtime)
                .from(ms(600))
                .until(ms(700))
                .think(us(5_000)),
        ])
        .millis(1600)
}

pub(crate) fn bfq_disk_thinkers() -> Scene {
    bfq(|_| {})
        .disk(None)
        .clients([
            READER.think(us(3_000)),
            RANDOM.nth(8).think(us(6_000)),
            READER.nth(4).think(us(12_000)),
            WRITER.nth(12).depth(4).flags(Flags::SYNC).length(16 << 10),
            RANDOM.nth(6).depth(8).from(ms(200)),
        ])
        .millis(2000)
}

pub(crate) fn bfq_disk_interleaved() -> Scene {
    // The readers begin 64 KiB apart and read every third piece of 64 KiB, so together they read
    // the file sequentially.
    let third = |n: u64| READER.place(AccessPattern::Every(3)).base(n << 16);
    bfq(|_| {})
        .disk(None)
        .clients([
            third(0),
            third(1),
            third(2).until(ms(700)),
            READER.nth(8).from(ms(100)),
            // Reads at random from the time at which the third reader stops.
            RANDOM.nth(14).from(ms(700)),
        ])
        .millis(1500)
}

pub(crate) fn bfq_disk_random() -> Scene {
    bfq(|c| c.stable_merge = false)
        .disk(None)
        .groups([
            group(1, share(100)),
            group(2, share(200)),
            group(3, share(400)),
        ])
        .clients([
            RANDOM.of(G1).depth(4),
            RANDOM.of(G2).nth(5).depth(4),
            RANDOM.of(G3).nth(10).depth(2).think(us(1_000)),
            WRITER.of(G3).nth(14).from(ms(900)).length(4 << 10),
        ])
        .millis(2000)
}

pub(crate) fn bfq_disk_alternate() -> Scene {
    // The readers begin 64 KiB apart and read every second piece of 64 KiB, in turns with random
    // pieces.
    let half = |n: u64, each| {
        READER
            .place(AccessPattern::Alternately { of: 2, each })
            .base(n << 16)
    };
    bfq(|_| {})
        .disk(None)
        .clients([
            half(0, 400),
            half(1, 300),
            RANDOM.nth(8).from(ms(300)).until(ms(1_800)),
            WRITER.nth(12).from(ms(700)).until(ms(1_500)),
            // Several clients start together while the two above are separate.
            READER.nth(4).from(ms(1_000)),
            READER.nth(5).from(ms(1_001)).think(us(2_000)),
            RANDOM.nth(6).from(ms(1_002)),
        ])
        .millis(3_000)
}

/// Returns one client from the beginning, and several that start soon after each other, in two
/// series.
fn together() -> Vec<Client> {
    let reader = RANDOM.depth(4);
    let mut clients = vec![reader.nth(0)];
    for (n, from) in [
        (1, 300),
        (2, 330),
        (3, 500),
        (4, 690),
        (5, 1_300),
        (6, 1_400),
    ] {
        // Think times of 0, 100 and 200 us keep the clients from sending at the same instants.
        let client = reader.nth(n).level(0).think(us(100 * (n % 3)));
        clients.push(client.from(ms(from)).until(ms(from + 1_500)));
    }
    clients
}

pub(crate) fn bfq_flash_together() -> Scene {
    bfq(|c| c.low_latency = false)
        .drive(SceneDriveKind::SlowFlash)
        .shape(DriveShape::default().tags(8))
        .clients(together())
        .millis(2_400)
}

pub(crate) fn bfq_disk_together() -> Scene {
    bfq(|c| c.strict_guarantees = true)
        .disk(None)
        .clients(together())
        .millis(3_500)
}

pub(crate) fn bfq_flash_newcomers() -> Scene {
    let starts = |n: u64| READER.nth(n).from(ms(100 * n)).until(ms(100 * n + 60));
    bfq(|_| {})
        .shape(DriveShape::default().tags(8))
        .clients([
            WRITER.until(ms(900)),
            RANDOM.nth(9).depth(16),
            starts(2),
            starts(4),
            starts(6).length(4 << 10),
        ])
        .millis(1000)
}

pub(crate) fn bfq_flash_burst() -> Scene {
    let mut clients = vec![WRITER.nth(0).depth(8)];
    // Three clients per millisecond, so all 14 begin within 5 ms.
    clients.extend((0..14).map(|n| READER.nth(1 + n).from(ms(50 + n / 3)).until(ms(300))));
    clients.push(RANDOM.nth(15).from(ms(250)));
    bfq(|_| {})
        .drive(SceneDriveKind::SlowFlash)
        .shape(DriveShape::default().tags(8))
        .clients(clients)
        .millis(600)
}

pub(crate) fn bfq_flash_player() -> Scene {
    bfq(|_| {})
        .drive(SceneDriveKind::SlowFlash)
        .shape(DriveShape::default().tags(4))
        .clients([
            READER.think(us(25_000)).length(128 << 10),
            WRITER,
            READER.depth(4),
            WRITER
                .from(ms(400))
                .flags(Flags::SYNC)
                .length(8 << 10)
                .think(us(2_000))
                .depth(1),
        ])
        .millis(1600)
}

pub(crate) fn bfq_flash_groups() -> Scene {
    bfq(|c| c.low_latency = false)
        .drive(SceneDriveKind::SlowFlash)
        .shape(DriveShape::default().tags(8))
        .groups([
            group(1, share(100)),
            group(2, share(300)),
            (3, G2, share(50), Knobs::NONE),
            (4, G2, share(150), Knobs::NONE),
        ])
        .clients([
            READER.of(G1).depth(4),
            READER.of(G3).depth(2),
            RANDOM.of(G4).depth(4).until(ms(700)),
            WRITER.of(G4).until(ms(500)),
        ])
        .millis(1000)
}

pub(crate) fn bfq_strict() -> Scene {
    bfq(|c| {
        c.strict_guarantees = true;
        c.injection = false;
        c.merge = false;
        c.max_budget = 512;
        c.low_latency = false;
    })
    .disk(None)
    .groups([group(1, share(100)), group(2, share(300))])
    .clients([
        READER.of(G1).depth(8),
        READER.of(G2).nth(9).think(us(1_500)),
        WRITER.of(G1).nth(4).from(ms(200)),
    ])
    .millis(1000)
}

pub(crate) fn contract_flash_promises() -> Scene {
    let realtime = FREE.class(Class::Realtime).max(bandwidth(20_000_000));
    contract()
        .groups([
            group(1, min(50_000_000)),
            group(2, share(300)),
            group(3, FREE.class(Class::Idle)),
            group(4, realtime),
            group(5, FREE),
        ])
        .clients([
            RANDOM.of(G1).depth(2).length(16 << 10),
            WRITER.of(G2).until(ms(700)),
            READER.of(G3).depth(4),
            RANDOM.of(G4).think(us(900)),
            READER
                .of(GroupId(5))
                .from(ms(200))
                .depth(8)
                .length(512 << 10),
        ])
        .millis(1000)
}

pub(crate) fn contract_flash_requests() -> Scene {
    contract()
        .groups([
            group(1, min_iops(3_000)),
            group(2, FREE.min_iops(1_000).share(10)),
            group(3, share(1_000)),
        ])
        .clients([
            RANDOM.of(G1).think(us(100)),
            RANDOM.of(G2).depth(4),
            READER.of(G3).depth(32).length(128 << 10),
        ])
        .millis(500)
}

pub(crate) fn contract_flash_shares() -> Scene {
    contract()
        .groups([
            group(1, share(100)),
            group(2, share(200)),
            group(3, share(400)),
            group(4, share(800)),
        ])
        .clients([
            RANDOM.of(G1).depth(16),
            READER.of(G2).depth(8),
            WRITER.of(G3),
            READER.of(G4).depth(4).think(us(300)).from(ms(100)),
        ])
        .millis(600)
}

pub(crate) fn contract_flash_flushes() -> Scene {
    contract()
        .groups([
            group(1, min(30_000_000)),
            group(2, FREE),
            group(3, min(5_000_000)),
        ])
        .clients([
            READER.of(G1).depth(1),
            WRITER.of(G2).other(flush(9)),
            WRITER.of(G3).other(flush(2)).depth(1).length(4 << 10),
        ])
        .millis(500)
}

pub(crate) fn contract_flash_overpromised() -> Scene {
    contract()
        .drive(SceneDriveKind::SlowFlash)
        .groups([
            // The stated capacity of 500 MB/s is that of the fast drive, which is ten times as
            // fast.
            group(1, min(100_000_000)),
            group(2, min(40_000_000)),
            group(3, FREE),
        ])
        .clients([
            READER.of(G1).depth(4),
            RANDOM.of(G2).depth(16),
            READER.of(G3).depth(8),
        ])
        .millis(1200)
}

pub(crate) fn contract_disk_streams() -> Scene {
    contract()
        .disk(Some(60_000_000))
        .groups([group(1, share(100)), group(2, share(300)), group(3, FREE)])
        .clients([
            READER.of(G1),
            READER.of(G2).nth(9).think(us(400)),
            RANDOM.of(G3).nth(5).from(ms(600)).depth(4),
            WRITER.of(G3).nth(13).from(ms(900)).until(ms(1200)),
        ])
        .millis(2000)
}

pub(crate) fn contract_disk_promises() -> Scene {
    contract()
        .disk(Some(20_000_000))
        .groups([
            group(1, min(8_000_000)),
            group(2, min(4_000_000)),
            group(3, FREE),
        ])
        .clients([
            READER.of(G1).think(us(1_000)),
            RANDOM.of(G2).nth(4).depth(2).length(256 << 10),
            WRITER.of(G3).nth(9),
            RANDOM.of(G3).nth(12).depth(4).from(ms(500)),
        ])
        .millis(2000)
}

/// The client in service continues although the promise of the other would have to wait, because
/// each change costs the disk a seek.
pub(crate) fn contract_disk_changes() -> Scene {
    contract()
        .disk(Some(60_000_000))
        .groups([
            group(1, min(20_000_000)),
            group(2, min(15_000_000)),
            group(3, min_iops(20)),
        ])
        .clients([
            READER.of(G1).depth(2),
            READER.of(G2).nth(4).depth(2),
            RANDOM.of(G3).nth(9).think(us(5_000)),
        ])
        .millis(2_000)
}

pub(crate) fn contract_disk_late() -> Scene {
    let realtime = FREE.class(Class::Realtime).max(iops(20));
    contract()
        .disk(Some(10_000_000))
        .groups([
            group(1, min(2_000_000)),
            group(2, min_iops(15)),
            group(3, realtime),
            group(4, FREE.class(Class::Idle)),
            group(5, share(300)),
        ])
        .clients([
            READER.of(G1).think(us(8_000)),
            RANDOM.of(G2).nth(4).depth(2).other(flush(20)).op(Op::Write),
            RANDOM.of(G3).nth(8).think(us(40_000)),
            READER.of(G4).nth(10).depth(2),
            READER
                .of(GroupId(5))
                .nth(12)
                .length(1 << 20)
                .depth(4)
                .from(ms(300))
                .until(ms(2_000)),
        ])
        .millis(3_000)
}

pub(crate) fn contract_tenants() -> Scene {
    contract()
        .groups([
            group(1, min(80_000_000).share(200)),
            (2, G1, min(30_000_000), Knobs::NONE),
            (3, G1, share(300), Knobs::NONE),
            group(4, share(200)),
        ])
        .clients([
            RANDOM.of(G2).think(us(150)).length(32 << 10),
            READER.of(G3).depth(8).until(ms(600)),
            WRITER.of(G4),
            READER.of(G4).depth(4).from(ms(300)),
        ])
        .millis(900)
}
