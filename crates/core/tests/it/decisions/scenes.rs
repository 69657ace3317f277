//! The scenes: each shows one or two rules of its policy at work.

use weir_core::control::{self, cost};
use weir_core::elevator::{self, bfq, cfq, contract, kyber, mq_deadline};
use weir_core::testing::{bandwidth, capacity, iops, limit, min_iops};
use weir_core::{
    Capacity, Class, Contract, DriveShape, Flags, GroupId, Knobs, Max, Op, Priority, PriorityClass,
    ROOT, Sizes, Span, merge,
};

use weir_core::testing::{Client, Place, min, ms, share, us};

use crate::decisions::client::{RANDOM, READER, WRITER, flush};
use crate::decisions::drive::Kind;
use crate::decisions::host::Scene;

const FREE: Contract = Contract::DEFAULT;

fn latency(latency: Span) -> Knobs {
    Knobs {
        latency,
        ..Knobs::NONE
    }
}

fn group(id: u32, contract: Contract) -> (u32, GroupId, Contract, Knobs) {
    (id, ROOT, contract, Knobs::NONE)
}

fn flash(capacity: u64) -> DriveShape {
    DriveShape {
        capacity: Some(Capacity {
            read: capacity,
            write: capacity / 2,
            iops: 40_000,
            ..Capacity::NONE
        }),
        ..DriveShape::default()
    }
}

fn disk(rate: Option<u64>) -> DriveShape {
    DriveShape {
        tags: 16,
        rotational: true,
        capacity: rate.map(capacity),
        ..DriveShape::default()
    }
}

fn scene(name: &'static str, says: &'static str, elevator: elevator::Config) -> Scene {
    Scene {
        name,
        says,
        drive: Kind::Flash,
        shape: flash(500_000_000),
        sizes: Sizes::default(),
        controllers: control::Config::default(),
        merge: merge::Config::OFF,
        elevator,
        groups: Vec::new(),
        clients: Vec::new(),
        changes: Vec::new(),
        millis: 500,
    }
}

fn bfq(says: &'static str, name: &'static str, change: impl FnOnce(&mut bfq::Config)) -> Scene {
    let mut config = bfq::Config::default();
    change(&mut config);
    scene(name, says, elevator::Config::Bfq(config))
}

fn contract(says: &'static str, name: &'static str) -> Scene {
    let config = elevator::Config::Contract(contract::Config::default());
    scene(name, says, config)
}

fn mq_deadline(says: &'static str, name: &'static str, config: mq_deadline::Config) -> Scene {
    scene(name, says, elevator::Config::MqDeadline(config))
}

fn cfq(says: &'static str, name: &'static str, config: cfq::Config) -> Scene {
    scene(name, says, elevator::Config::Cfq(config))
}

const G1: GroupId = GroupId(1);
const G2: GroupId = GroupId(2);
const G3: GroupId = GroupId(3);
const G4: GroupId = GroupId(4);

pub(crate) fn none_flash() -> Scene {
    Scene {
        clients: vec![
            READER.of(ROOT).nth(0),
            RANDOM.of(ROOT).nth(1),
            Client {
                other: Some(flush(5)),
                ..WRITER.of(ROOT).nth(2)
            },
        ],
        millis: 100,
        ..scene(
            "none-flash",
            "none: a reader, a random reader and a writer that syncs come as they come",
            elevator::Config::None,
        )
    }
}

pub(crate) fn max_levels() -> Scene {
    let tenant = Max {
        bandwidth: 60_000_000,
        burst: Span::from_millis(50),
        ..Max::NONE
    };
    let one = Max {
        read_iops: 700,
        write_bandwidth: 20_000_000,
        ..Max::NONE
    };
    Scene {
        groups: vec![
            group(1, limit(tenant)),
            (2, G1, limit(one), Knobs::NONE),
            (3, G1, FREE, Knobs::NONE),
        ],
        clients: vec![
            RANDOM.of(G2).nth(0),
            Client {
                depth: 4,
                ..WRITER.of(G2).nth(1)
            },
            Client {
                depth: 4,
                ..READER.of(G3).nth(2)
            },
            READER.of(G3).nth(3),
        ],
        millis: 300,
        ..scene(
            "max-levels",
            "none: a and b have 700 reads/s and 20 MB/s of writes, all of them 60 MB/s",
            elevator::Config::None,
        )
    }
}

pub(crate) fn latency_target() -> Scene {
    Scene {
        groups: vec![
            (1, ROOT, FREE, latency(Span::from_micros(400))),
            (2, ROOT, FREE, latency(Span::from_millis(20))),
            group(3, FREE),
        ],
        clients: vec![
            Client {
                depth: 2,
                ..RANDOM.of(G1).nth(0)
            },
            Client {
                until: ms(1500),
                ..WRITER.of(G2).nth(1)
            },
            Client {
                depth: 32,
                from: ms(300),
                until: ms(1200),
                ..WRITER.of(G3).nth(2)
            },
        ],
        shape: DriveShape {
            tags: 64,
            ..flash(500_000_000)
        },
        millis: 2500,
        ..scene(
            "latency-target",
            "none with io.latency: a is to be answered within 400 us, b within 20 ms, c whenever",
            elevator::Config::None,
        )
    }
}

pub(crate) fn latency_delays() -> Scene {
    let few = Sizes {
        requests: 48,
        streams: 8,
        per_stream: 24,
        reserved: 0,
        scheduler_tags: 16,
        ..Sizes::default()
    };
    Scene {
        drive: Kind::SlowFlash,
        sizes: few,
        groups: vec![
            (1, ROOT, FREE, latency(Span::from_micros(900))),
            group(2, FREE),
            (3, G2, FREE, latency(Span::from_millis(30))),
            (4, G2, FREE, Knobs::NONE),
        ],
        clients: vec![
            Client {
                think: us(200),
                ..RANDOM.of(G1).nth(0)
            },
            Client {
                depth: 4,
                until: ms(4_000),
                ..RANDOM.of(G3).nth(1)
            },
            Client {
                depth: 12,
                until: ms(2_500),
                ..WRITER.of(G4).nth(2)
            },
            // What a file system must do is never held: its group is made to pause for it later.
            Client {
                depth: 2,
                flags: Flags::META,
                length: 32 << 10,
                until: ms(3_000),
                ..WRITER.of(G4).nth(3)
            },
        ],
        millis: 6_000,
        ..scene(
            "latency-delays",
            "none with io.latency: a misses 900 us until c and d, d's metadata aside, are down to one request and pause",
            elevator::Config::None,
        )
    }
}

pub(crate) fn mq_deadline_flash() -> Scene {
    Scene {
        shape: DriveShape {
            tags: 4,
            ..flash(500_000_000)
        },
        clients: vec![
            READER.of(ROOT).nth(0),
            Client {
                depth: 24,
                length: 4096,
                ..RANDOM.of(ROOT).nth(1)
            },
            Client {
                depth: 24,
                length: 16 << 10,
                place: Place::Random,
                ..WRITER.of(ROOT).nth(2)
            },
        ],
        millis: 100,
        ..mq_deadline(
            "mq-deadline: readers and a writer; reads are due after 2 ms and writes after 8",
            "mq-deadline-flash",
            mq_deadline::Config {
                read_expire: Span::from_millis(2),
                write_expire: Span::from_millis(8),
                fifo_batch: 8,
                ..mq_deadline::Config::default()
            },
        )
    }
}

pub(crate) fn mq_deadline_disk() -> Scene {
    let of = |class| Priority { class, level: 4 };
    Scene {
        drive: Kind::Disk,
        shape: disk(None),
        clients: vec![
            Client {
                depth: 16,
                ..RANDOM.of(ROOT).nth(0)
            },
            Client {
                depth: 16,
                ..WRITER.of(ROOT).nth(4)
            },
            Client {
                priority: of(PriorityClass::Idle),
                depth: 4,
                ..RANDOM.of(ROOT).nth(8)
            },
            Client {
                priority: of(PriorityClass::Realtime),
                from: ms(400),
                until: ms(800),
                depth: 2,
                ..RANDOM.of(ROOT).nth(12)
            },
        ],
        millis: 1_200,
        ..mq_deadline(
            "mq-deadline: c is idle, and d, for a while, realtime; what has waited for 200 ms goes before both",
            "mq-deadline-disk",
            mq_deadline::Config {
                prio_aging_expire: Span::from_millis(200),
                ..mq_deadline::Config::default()
            },
        )
    }
}

/// `io.cost` for a drive that can do little, and is to answer soon.
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
    let level = |level| Priority {
        class: PriorityClass::BestEffort,
        level,
    };
    Scene {
        drive: Kind::Disk,
        shape: disk(None),
        groups: vec![group(1, share(100)), group(2, share(300))],
        clients: vec![
            READER.of(G1).nth(0),
            Client {
                priority: level(0),
                ..READER.of(G2).nth(4)
            },
            Client {
                depth: 2,
                priority: level(7),
                ..RANDOM.of(G2).nth(8)
            },
            Client {
                depth: 8,
                ..WRITER.of(G2).nth(12)
            },
        ],
        millis: 2_000,
        ..cfq(
            "cfq: groups by time and weight; in the second, b and c have slices by level, and d writes what nobody waits for",
            "cfq-disk",
            cfq::Config::default(),
        )
    }
}

pub(crate) fn cfq_flash() -> Scene {
    Scene {
        shape: DriveShape {
            tags: 8,
            ..flash(500_000_000)
        },
        groups: vec![group(1, share(100)), group(2, share(100))],
        clients: vec![
            Client {
                depth: 16,
                ..READER.of(G1).nth(0)
            },
            RANDOM.of(G2).nth(1),
        ],
        millis: 300,
        ..cfq(
            "cfq: on flash requests are charged, not time: one stream's are large",
            "cfq-flash",
            cfq::Config::default(),
        )
    }
}

fn kyber(says: &'static str, name: &'static str, targets: (u64, u64)) -> Scene {
    let config = kyber::Config {
        read_lat_nsec: Span::from_micros(targets.0),
        write_lat_nsec: Span::from_micros(targets.1),
    };
    scene(name, says, elevator::Config::Kyber(config))
}

pub(crate) fn kyber_flash() -> Scene {
    Scene {
        clients: vec![
            Client {
                depth: 32,
                length: 4096,
                ..RANDOM.of(ROOT).nth(0)
            },
            Client {
                depth: 32,
                length: 16 << 10,
                place: Place::Random,
                ..WRITER.of(ROOT).nth(1)
            },
        ],
        millis: 400,
        ..kyber(
            "kyber: writes are always done in time and reads never, so that writes lose their places",
            "kyber-flash",
            (50, 1_000_000),
        )
    }
}

pub(crate) fn kyber_disk() -> Scene {
    Scene {
        drive: Kind::Disk,
        shape: disk(None),
        clients: vec![
            Client {
                depth: 8,
                ..RANDOM.of(ROOT).nth(0)
            },
            Client {
                depth: 16,
                ..WRITER.of(ROOT).nth(4)
            },
        ],
        millis: 2_500,
        ..kyber(
            "kyber: what a disk takes for a read is beyond the target, of which there are few: a second passes before that counts",
            "kyber-disk",
            (2_000, 1_000_000),
        )
    }
}

pub(crate) fn cost_shares() -> Scene {
    let model = cost::Config {
        qos: cost::Control::User,
        rpct: 9_000,
        rlat: Span::from_millis(5),
        wlat: Span::from_millis(10),
        min: 5_000,
        max: 20_000,
        model: cost::Control::User,
        rrandiops: 6_000,
        ..cost::Config::default()
    };
    Scene {
        controllers: control::Config {
            cost: Some(model),
            ..control::Config::default()
        },
        groups: vec![
            group(1, share(100)),
            group(2, share(300)),
            (3, G2, share(100), Knobs::NONE),
            (4, G2, share(50), Knobs::NONE),
        ],
        clients: vec![
            RANDOM.of(G1).nth(0),
            Client {
                depth: 8,
                ..RANDOM.of(G3).nth(1)
            },
            Client {
                depth: 16,
                from: ms(300),
                until: ms(1_200),
                ..WRITER.of(G4).nth(2)
            },
            // What a file system must do goes on, and is owed.
            Client {
                depth: 2,
                flags: Flags::META,
                length: 32 << 10,
                from: ms(600),
                until: ms(1_500),
                ..WRITER.of(G1).nth(3)
            },
        ],
        millis: 2_000,
        ..scene(
            "cost-shares",
            "none with io.cost: a has a quarter, of which its metadata takes more, b and c the rest",
            elevator::Config::None,
        )
    }
}

/// Groups at several levels, of which some use less than their part, and one pauses.
pub(crate) fn cost_donation() -> Scene {
    let weights = cost::Config {
        rpct: 0,
        wpct: 0,
        min: 10_000,
        max: 10_000,
        ..SCARCE
    };
    Scene {
        drive: Kind::SlowFlash,
        controllers: control::Config {
            cost: Some(weights),
            ..control::Config::default()
        },
        groups: vec![
            group(1, share(500)),
            (2, G1, share(100), Knobs::NONE),
            (3, G1, share(300), Knobs::NONE),
            group(4, share(200)),
            (5, G4, share(10_000), Knobs::NONE),
            group(6, share(100)),
        ],
        clients: vec![
            Client {
                think: us(7_000),
                ..RANDOM.of(G2).nth(0)
            },
            Client {
                think: us(20_000),
                until: ms(900),
                ..READER.of(G3).nth(1)
            },
            Client {
                depth: 4,
                ..RANDOM.of(GroupId(5)).nth(2)
            },
            Client {
                depth: 4,
                length: 32 << 10,
                from: ms(300),
                ..WRITER.of(GroupId(6)).nth(3)
            },
            // It needs more than before.
            Client {
                depth: 2,
                from: ms(600),
                until: ms(1_100),
                ..RANDOM.of(G2).nth(4)
            },
        ],
        millis: 1_500,
        ..scene(
            "cost-donation",
            "none with io.cost: a and b need little of theirs, which c and d have, until e asks beside a and when b has gone",
            elevator::Config::None,
        )
    }
}

/// A drive that begins outside the bounds of vrate.
fn cost_bounds(name: &'static str, says: &'static str, min: u32, max: u32) -> Scene {
    Scene {
        controllers: control::Config {
            cost: Some(cost::Config { min, max, ..SCARCE }),
            ..control::Config::default()
        },
        groups: vec![group(1, share(100)), group(2, share(300))],
        clients: vec![
            Client {
                depth: 4,
                ..RANDOM.of(G1).nth(0)
            },
            Client {
                depth: 4,
                until: ms(400),
                ..RANDOM.of(G2).nth(1)
            },
        ],
        millis: 600,
        ..scene(name, says, elevator::Config::None)
    }
}

pub(crate) fn cost_rises() -> Scene {
    cost_bounds(
        "cost-rises",
        "none with io.cost: vrate is to be 150 % at least, and comes there by 4 % in a period",
        15_000,
        20_000,
    )
}

pub(crate) fn cost_falls() -> Scene {
    cost_bounds(
        "cost-falls",
        "none with io.cost: vrate is to be 60 % at most, and comes there by 4 % in a period",
        3_000,
        6_000,
    )
}

pub(crate) fn contract_unbounded() -> Scene {
    let config = contract::Config {
        bound_in_flight: false,
        ..contract::Config::default()
    };
    Scene {
        elevator: elevator::Config::Contract(config),
        groups: vec![
            group(1, min(20_000_000)),
            group(2, min(5_000_000)),
            group(3, FREE),
        ],
        clients: vec![
            RANDOM.of(G1).nth(0),
            Client {
                op: Op::Write,
                other: Some(flush(2)),
                ..RANDOM.of(G2).nth(1)
            },
            Client {
                other: Some(flush(7)),
                ..WRITER.of(G3).nth(2)
            },
            Client {
                depth: 8,
                ..READER.of(G3).nth(3)
            },
        ],
        millis: 400,
        ..contract(
            "contract on flash, what others have in flight not bounded: a and b, which syncs, are promised what they do not get",
            "contract-unbounded",
        )
    }
}

pub(crate) fn contract_disk_hopeless() -> Scene {
    Scene {
        drive: Kind::Disk,
        shape: disk(Some(60_000_000)),
        groups: vec![group(1, min(40_000_000)), group(2, FREE), group(3, FREE)],
        clients: vec![
            Client {
                length: 64 << 10,
                ..RANDOM.of(G1).nth(0)
            },
            Client {
                depth: 4,
                ..READER.of(G2).nth(5)
            },
            Client {
                depth: 8,
                length: 64 << 10,
                from: ms(700),
                ..WRITER.of(G3).nth(10)
            },
        ],
        millis: 2_000,
        ..contract(
            "contract on a disk: a reads at random and cannot have the 40 MB/s it is promised; b and c get a slice after 300 ms",
            "contract-disk-hopeless",
        )
    }
}

pub(crate) fn bfq_disk_mix() -> Scene {
    let idle = Priority {
        class: PriorityClass::Idle,
        level: 7,
    };
    let first = Priority {
        class: PriorityClass::BestEffort,
        level: 0,
    };
    let realtime = Priority {
        class: PriorityClass::Realtime,
        level: 4,
    };
    Scene {
        drive: Kind::Disk,
        shape: disk(None),
        clients: vec![
            READER.of(ROOT).nth(0),
            Client {
                priority: first,
                ..READER.of(ROOT).nth(8)
            },
            Client {
                from: ms(30),
                ..RANDOM.of(ROOT).nth(3)
            },
            Client {
                until: ms(800),
                ..WRITER.of(ROOT).nth(12)
            },
            Client {
                priority: idle,
                ..READER.of(ROOT).nth(14)
            },
            Client {
                priority: realtime,
                from: ms(600),
                until: ms(700),
                think: us(5_000),
                ..RANDOM.of(ROOT).nth(5)
            },
        ],
        millis: 1600,
        ..bfq(
            "bfq on a disk: two readers, b before a, a random reader, a writer, the idle class, and f realtime for 100 ms",
            "bfq-disk-mix",
            |c| c.low_latency = false,
        )
    }
}

pub(crate) fn bfq_disk_thinkers() -> Scene {
    Scene {
        drive: Kind::Disk,
        shape: disk(None),
        clients: vec![
            Client {
                think: us(3_000),
                ..READER.of(ROOT).nth(0)
            },
            Client {
                think: us(6_000),
                ..RANDOM.of(ROOT).nth(8)
            },
            Client {
                think: us(12_000),
                ..READER.of(ROOT).nth(4)
            },
            Client {
                depth: 4,
                flags: Flags::SYNC,
                length: 16 << 10,
                ..WRITER.of(ROOT).nth(12)
            },
            Client {
                depth: 8,
                from: ms(200),
                ..RANDOM.of(ROOT).nth(6)
            },
        ],
        millis: 2000,
        ..bfq(
            "bfq on a disk: clients that think for 3, 6 and 12 ms between requests, beside a sync writer and a deep random reader",
            "bfq-disk-thinkers",
            |_| {},
        )
    }
}

pub(crate) fn bfq_disk_interleaved() -> Scene {
    let third = |n: u64| Client {
        place: Place::Every(3),
        base: Some(n << 16),
        ..READER
    };
    Scene {
        drive: Kind::Disk,
        shape: disk(None),
        clients: vec![
            third(0),
            third(1),
            Client {
                until: ms(700),
                ..third(2)
            },
            Client {
                from: ms(100),
                ..READER.of(ROOT).nth(8)
            },
            // Goes its own way after a while: the shared queue is parted again.
            Client {
                from: ms(700),
                ..RANDOM.of(ROOT).nth(14)
            },
        ],
        millis: 1500,
        ..bfq(
            "bfq on a disk: a, b and c read one file, each its third, beside d; e begins at 700 ms",
            "bfq-disk-interleaved",
            |_| {},
        )
    }
}

pub(crate) fn bfq_disk_random() -> Scene {
    Scene {
        drive: Kind::Disk,
        shape: disk(None),
        groups: vec![
            group(1, share(100)),
            group(2, share(200)),
            group(3, share(400)),
        ],
        clients: vec![
            Client {
                depth: 4,
                ..RANDOM.of(G1).nth(0)
            },
            Client {
                depth: 4,
                ..RANDOM.of(G2).nth(5)
            },
            Client {
                depth: 2,
                think: us(1_000),
                ..RANDOM.of(G3).nth(10)
            },
            Client {
                from: ms(900),
                length: 4 << 10,
                ..WRITER.of(G3).nth(14)
            },
        ],
        millis: 2000,
        ..bfq(
            "bfq on a disk: random readers of weights 100, 200 and 400, the third with pauses; a writer begins at 900 ms",
            "bfq-disk-random",
            |c| c.stable_merge = false,
        )
    }
}

pub(crate) fn bfq_disk_alternate() -> Scene {
    let half = |n: u64, each| Client {
        place: Place::Alternately { of: 2, each },
        base: Some(n << 16),
        ..READER
    };
    Scene {
        drive: Kind::Disk,
        shape: disk(None),
        clients: vec![
            half(0, 400),
            half(1, 300),
            Client {
                from: ms(300),
                until: ms(1_800),
                ..RANDOM.of(ROOT).nth(8)
            },
            Client {
                from: ms(700),
                until: ms(1_500),
                ..WRITER.of(ROOT).nth(12)
            },
            // A start of many at once, while the two above are apart.
            Client {
                from: ms(1_000),
                ..READER.of(ROOT).nth(4)
            },
            Client {
                from: ms(1_001),
                think: us(2_000),
                ..READER.of(ROOT).nth(5)
            },
            Client {
                from: ms(1_002),
                ..RANDOM.of(ROOT).nth(6)
            },
        ],
        millis: 3_000,
        ..bfq(
            "bfq on a disk: a and b read one file between them, then go their own ways, and meet again; others come and go",
            "bfq-disk-alternate",
            |_| {},
        )
    }
}

/// One, and several that start soon after each other, in two series.
fn together() -> Vec<Client> {
    let first = Priority {
        level: 0,
        ..Priority::default()
    };
    let reader = Client { depth: 4, ..RANDOM };
    let mut clients = vec![reader.of(ROOT).nth(0)];
    for (n, from) in [
        (1, 300),
        (2, 330),
        (3, 500),
        (4, 690),
        (5, 1_300),
        (6, 1_400),
    ] {
        clients.push(Client {
            priority: first,
            from: ms(from),
            think: us(100 * (n % 3)),
            until: ms(from + 1_500),
            ..reader.of(ROOT).nth(n)
        });
    }
    clients
}

pub(crate) fn bfq_flash_together() -> Scene {
    Scene {
        drive: Kind::SlowFlash,
        shape: DriveShape {
            tags: 8,
            ..DriveShape::default()
        },
        clients: together(),
        millis: 2_400,
        ..bfq(
            "bfq on slow flash: those that start soon after each other have one queue for good",
            "bfq-flash-together",
            |c| c.low_latency = false,
        )
    }
}

pub(crate) fn bfq_disk_together() -> Scene {
    Scene {
        drive: Kind::Disk,
        shape: disk(None),
        clients: together(),
        millis: 3_500,
        ..bfq(
            "bfq on a disk: the same, but later, once idling for them is known not to pay",
            "bfq-disk-together",
            |c| c.strict_guarantees = true,
        )
    }
}

pub(crate) fn bfq_flash_newcomers() -> Scene {
    let starts = |n: u64| Client {
        from: ms(100 * n),
        until: ms(100 * n + 60),
        ..READER.of(ROOT).nth(n)
    };
    Scene {
        shape: DriveShape {
            tags: 8,
            ..DriveShape::default()
        },
        clients: vec![
            Client {
                until: ms(900),
                ..WRITER.of(ROOT).nth(0)
            },
            Client {
                depth: 16,
                ..RANDOM.of(ROOT).nth(9)
            },
            starts(2),
            starts(4),
            Client {
                length: 4 << 10,
                ..starts(6)
            },
        ],
        millis: 1000,
        ..bfq(
            "bfq on flash: programs that start (c, d, e) beside a writer and a deep random reader",
            "bfq-flash-newcomers",
            |_| {},
        )
    }
}

pub(crate) fn bfq_flash_burst() -> Scene {
    let mut clients = vec![Client {
        depth: 8,
        ..WRITER.of(ROOT).nth(0)
    }];
    clients.extend((0..14).map(|n| Client {
        from: ms(50 + n / 3),
        until: ms(300),
        ..READER.of(ROOT).nth(1 + n)
    }));
    clients.push(Client {
        from: ms(250),
        ..RANDOM.of(ROOT).nth(15)
    });
    Scene {
        drive: Kind::SlowFlash,
        shape: DriveShape {
            tags: 8,
            ..DriveShape::default()
        },
        clients,
        millis: 600,
        ..bfq(
            "bfq on slow flash: fourteen that start within 5 ms, and one alone later",
            "bfq-flash-burst",
            |_| {},
        )
    }
}

pub(crate) fn bfq_flash_player() -> Scene {
    Scene {
        drive: Kind::SlowFlash,
        shape: DriveShape {
            tags: 4,
            ..DriveShape::default()
        },
        clients: vec![
            Client {
                think: us(25_000),
                length: 128 << 10,
                ..READER.of(ROOT).nth(0)
            },
            WRITER.of(ROOT).nth(1),
            Client {
                depth: 4,
                ..READER.of(ROOT).nth(2)
            },
            Client {
                from: ms(400),
                flags: Flags::SYNC,
                length: 8 << 10,
                think: us(2_000),
                depth: 1,
                ..WRITER.of(ROOT).nth(3)
            },
        ],
        millis: 1600,
        ..bfq(
            "bfq on slow flash: a player that reads 128 KiB every 25 ms, a writer, a deep reader, and a logger that syncs",
            "bfq-flash-player",
            |_| {},
        )
    }
}

pub(crate) fn bfq_flash_groups() -> Scene {
    Scene {
        drive: Kind::SlowFlash,
        shape: DriveShape {
            tags: 8,
            ..DriveShape::default()
        },
        groups: vec![
            group(1, share(100)),
            group(2, share(300)),
            (3, G2, share(50), Knobs::NONE),
            (4, G2, share(150), Knobs::NONE),
        ],
        clients: vec![
            Client {
                depth: 4,
                ..READER.of(G1).nth(0)
            },
            Client {
                depth: 2,
                ..READER.of(G3).nth(1)
            },
            Client {
                depth: 4,
                until: ms(700),
                ..RANDOM.of(G4).nth(2)
            },
            Client {
                until: ms(500),
                ..WRITER.of(G4).nth(3)
            },
        ],
        millis: 1000,
        ..bfq(
            "bfq on slow flash: weights 100 and 300, the second with 50 and 150 below it; c leaves at 700 ms, d at 500 ms",
            "bfq-flash-groups",
            |c| c.low_latency = false,
        )
    }
}

pub(crate) fn bfq_strict() -> Scene {
    Scene {
        drive: Kind::Disk,
        shape: disk(None),
        groups: vec![group(1, share(100)), group(2, share(300))],
        clients: vec![
            Client {
                depth: 8,
                ..READER.of(G1).nth(0)
            },
            Client {
                think: us(1_500),
                ..READER.of(G2).nth(9)
            },
            Client {
                from: ms(200),
                ..WRITER.of(G1).nth(4)
            },
        ],
        millis: 1000,
        ..bfq(
            "bfq with strict guarantees, no injection and no merging; budgets of 512 sectors",
            "bfq-strict",
            |c| {
                c.strict_guarantees = true;
                c.injection = false;
                c.merge = false;
                c.max_budget = 512;
                c.low_latency = false;
            },
        )
    }
}

pub(crate) fn contract_flash_promises() -> Scene {
    let realtime = Contract {
        class: Class::Realtime,
        max: bandwidth(20_000_000),
        ..FREE
    };
    Scene {
        groups: vec![
            group(1, min(50_000_000)),
            group(2, share(300)),
            group(
                3,
                Contract {
                    class: Class::Idle,
                    ..FREE
                },
            ),
            group(4, realtime),
            group(5, FREE),
        ],
        clients: vec![
            Client {
                depth: 2,
                length: 16 << 10,
                ..RANDOM.of(G1).nth(0)
            },
            Client {
                until: ms(700),
                ..WRITER.of(G2).nth(1)
            },
            Client {
                depth: 4,
                ..READER.of(G3).nth(2)
            },
            Client {
                think: us(900),
                ..RANDOM.of(G4).nth(3)
            },
            Client {
                from: ms(200),
                depth: 8,
                length: 512 << 10,
                ..READER.of(GroupId(5)).nth(4)
            },
        ],
        millis: 1000,
        ..contract(
            "contract on flash: 50 MB/s promised to a, the rest to b's writes and e's reads, c idle, d realtime",
            "contract-flash-promises",
        )
    }
}

pub(crate) fn contract_flash_requests() -> Scene {
    Scene {
        groups: vec![
            group(1, min_iops(3_000)),
            group(
                2,
                Contract {
                    min_iops: 1_000,
                    share: 10,
                    ..FREE
                },
            ),
            group(3, share(1_000)),
        ],
        clients: vec![
            Client {
                think: us(100),
                ..RANDOM.of(G1).nth(0)
            },
            Client {
                depth: 4,
                ..RANDOM.of(G2).nth(1)
            },
            Client {
                depth: 32,
                length: 128 << 10,
                ..READER.of(G3).nth(2)
            },
        ],
        millis: 500,
        ..contract(
            "contract on flash: 3000 and 1000 requests/s are promised beside a deep reader",
            "contract-flash-requests",
        )
    }
}

pub(crate) fn contract_flash_shares() -> Scene {
    Scene {
        groups: vec![
            group(1, share(100)),
            group(2, share(200)),
            group(3, share(400)),
            group(4, share(800)),
        ],
        clients: vec![
            Client {
                depth: 16,
                ..RANDOM.of(G1).nth(0)
            },
            Client {
                depth: 8,
                ..READER.of(G2).nth(1)
            },
            WRITER.of(G3).nth(2),
            Client {
                depth: 4,
                think: us(300),
                from: ms(100),
                ..READER.of(G4).nth(3)
            },
        ],
        millis: 600,
        ..contract(
            "contract on flash: shares of 1 : 2 : 4 : 8",
            "contract-flash-shares",
        )
    }
}

pub(crate) fn contract_flash_flushes() -> Scene {
    Scene {
        groups: vec![
            group(1, min(30_000_000)),
            group(2, FREE),
            group(3, min(5_000_000)),
        ],
        clients: vec![
            Client {
                depth: 1,
                ..READER.of(G1).nth(0)
            },
            Client {
                other: Some(flush(9)),
                ..WRITER.of(G2).nth(1)
            },
            Client {
                other: Some(flush(2)),
                depth: 1,
                length: 4 << 10,
                ..WRITER.of(G3).nth(2)
            },
        ],
        millis: 500,
        ..contract(
            "contract on flash: two that sync, one of them promised 5 MB/s, beside a reader promised 30 MB/s",
            "contract-flash-flushes",
        )
    }
}

pub(crate) fn contract_flash_overpromised() -> Scene {
    Scene {
        drive: Kind::SlowFlash,
        groups: vec![
            group(1, min(100_000_000)),
            group(2, min(40_000_000)),
            group(3, FREE),
        ],
        clients: vec![
            Client {
                depth: 4,
                ..READER.of(G1).nth(0)
            },
            Client {
                depth: 16,
                ..RANDOM.of(G2).nth(1)
            },
            Client {
                depth: 8,
                ..READER.of(G3).nth(2)
            },
        ],
        millis: 1200,
        ..contract(
            "contract on a drive ten times slower than stated: promises are kept in proportion",
            "contract-flash-overpromised",
        )
    }
}

pub(crate) fn contract_disk_streams() -> Scene {
    Scene {
        drive: Kind::Disk,
        shape: disk(Some(60_000_000)),
        groups: vec![group(1, share(100)), group(2, share(300)), group(3, FREE)],
        clients: vec![
            READER.of(G1).nth(0),
            Client {
                think: us(400),
                ..READER.of(G2).nth(9)
            },
            Client {
                from: ms(600),
                depth: 4,
                ..RANDOM.of(G3).nth(5)
            },
            Client {
                from: ms(900),
                until: ms(1200),
                ..WRITER.of(G3).nth(13)
            },
        ],
        millis: 2000,
        ..contract(
            "contract on a disk: two streams in turns, shares 1 : 3; a random reader from 600 ms, a writer from 900 to 1200 ms",
            "contract-disk-streams",
        )
    }
}

pub(crate) fn contract_disk_promises() -> Scene {
    Scene {
        drive: Kind::Disk,
        shape: disk(Some(20_000_000)),
        groups: vec![
            group(1, min(8_000_000)),
            group(2, min(4_000_000)),
            group(3, FREE),
        ],
        clients: vec![
            Client {
                think: us(1_000),
                ..READER.of(G1).nth(0)
            },
            Client {
                depth: 2,
                length: 256 << 10,
                ..RANDOM.of(G2).nth(4)
            },
            WRITER.of(G3).nth(9),
            Client {
                depth: 4,
                from: ms(500),
                ..RANDOM.of(G3).nth(12)
            },
        ],
        millis: 2000,
        ..contract(
            "contract on a disk: 8 and 4 MB/s are promised beside a writer and a random reader",
            "contract-disk-promises",
        )
    }
}

/// The client that is served goes on although another promise would have to wait: each change of hands costs the disk a seek.
pub(crate) fn contract_disk_changes() -> Scene {
    Scene {
        drive: Kind::Disk,
        shape: disk(Some(60_000_000)),
        groups: vec![
            group(1, min(20_000_000)),
            group(2, min(15_000_000)),
            group(3, min_iops(20)),
        ],
        clients: vec![
            Client {
                depth: 2,
                ..READER.of(G1).nth(0)
            },
            Client {
                depth: 2,
                ..READER.of(G2).nth(4)
            },
            Client {
                think: us(5_000),
                ..RANDOM.of(G3).nth(9)
            },
        ],
        millis: 2_000,
        ..contract(
            "contract on a disk: two streams that are promised 20 and 15 MB/s take turns beside 20 random reads/s",
            "contract-disk-changes",
        )
    }
}

pub(crate) fn contract_disk_late() -> Scene {
    let realtime = Contract {
        class: Class::Realtime,
        max: iops(20),
        ..FREE
    };
    Scene {
        drive: Kind::Disk,
        shape: disk(Some(10_000_000)),
        groups: vec![
            group(1, min(2_000_000)),
            group(2, min_iops(15)),
            group(3, realtime),
            group(
                4,
                Contract {
                    class: Class::Idle,
                    ..FREE
                },
            ),
            group(5, share(300)),
        ],
        clients: vec![
            Client {
                think: us(8_000),
                ..READER.of(G1).nth(0)
            },
            Client {
                depth: 2,
                other: Some(flush(20)),
                op: Op::Write,
                ..RANDOM.of(G2).nth(4)
            },
            Client {
                think: us(40_000),
                ..RANDOM.of(G3).nth(8)
            },
            Client {
                depth: 2,
                ..READER.of(G4).nth(10)
            },
            Client {
                length: 1 << 20,
                depth: 4,
                from: ms(300),
                until: ms(2_000),
                ..READER.of(GroupId(5)).nth(12)
            },
        ],
        millis: 3_000,
        ..contract(
            "contract on a disk: mins in bytes and requests, realtime and idle, beside reads of 1 MiB from 0.3 to 2 s",
            "contract-disk-late",
        )
    }
}

pub(crate) fn contract_tenants() -> Scene {
    Scene {
        groups: vec![
            group(
                1,
                Contract {
                    share: 200,
                    ..min(80_000_000)
                },
            ),
            (2, G1, min(30_000_000), Knobs::NONE),
            (3, G1, share(300), Knobs::NONE),
            group(4, share(200)),
        ],
        clients: vec![
            Client {
                think: us(150),
                length: 32 << 10,
                ..RANDOM.of(G2).nth(0)
            },
            Client {
                depth: 8,
                until: ms(600),
                ..READER.of(G3).nth(1)
            },
            WRITER.of(G4).nth(2),
            Client {
                depth: 4,
                from: ms(300),
                ..READER.of(G4).nth(3)
            },
        ],
        millis: 900,
        ..contract(
            "contract on flash: 80 MB/s for a tenant of which a is promised 30; b leaves at 600 ms, d begins at 300 ms",
            "contract-tenants",
        )
    }
}
