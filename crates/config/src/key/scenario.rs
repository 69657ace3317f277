//! Scenarios: what each client does.

use super::{CAPACITY, CONTRACTS, COSTS, DefaultValue, GUEST, Key, Kind, Shape, words};
use crate::scenario::Figure;
use weir_core::Span;

/// Longest request, and longest file.
pub(crate) const REQUEST_MOST: u64 = 64 << 20;
pub(crate) const FILE_MOST: u64 = 1 << 50;

/// Most of what a scenario's times can be.
pub(crate) const HOUR: Span = Span::from_secs(3600);
const NANO: Span = Span::from_nanos(1);

/// Every shape of a scenario's file.
pub(crate) const SCENARIOS: &[&Shape] = &[
    &SCENARIO, &CAPACITY, &FREEZE, &HOST, &PATH, &GUEST, &COSTS, &CLIENT, &GROUP, &CHANGE, &EXPECT,
    &PUBLISHED,
];

pub(crate) const SCENARIO: Shape = Shape {
    name: "a scenario",
    about: "The clients, and the requests that each of them issues. The drive and the policy are selected separately and do not change the \
            scenario, except through `on` and `under`.",
    keys: &[
        &[
            Key {
                name: "name",
                kind: Kind::Text("1 to 64 letters, digits, dots, dashes and underscores"),
                default: DefaultValue::Words("the file's name"),
                about: "The scenario's name in results. The random numbers of the clients depend on it.",
                example: "\"nightly\"",
            },
            Key {
                name: "about",
                kind: Kind::Text("a line"),
                default: DefaultValue::Words("none"),
                about: "A line that says which effect the scenario demonstrates.",
                example: "\"a backup beside a database\"",
            },
            Key {
                name: "load",
                kind: Kind::Text("a sentence or more"),
                default: DefaultValue::Words("none"),
                about: "A description of the clients' load.",
                example: "\"One client reads, one writes.\"",
            },
            Key {
                name: "target",
                kind: Kind::Text("a client's name"),
                default: DefaultValue::Words("the first client"),
                about: "The client whose latency is shown in the results.",
                example: "\"database\"",
            },
            Key {
                name: "table",
                kind: Kind::Word(&["clients", "target"]),
                default: DefaultValue::Value("\"clients\""),
                about: "The layout of the results. `\"clients\"` shows a line for each policy, followed by a row for each client. `\"target\"` \
                        shows the target's latency, and the bandwidth of all clients together.",
                example: "\"target\"",
            },
            Key {
                name: "drives",
                kind: Kind::List("drives, by name, by profile, or as a model's table"),
                default: DefaultValue::Value("[\"demo\"]"),
                about: "The drives on which the scenario is played, unless `--drive` is given.",
                example: "[\"samsung-970-pro\"]",
            },
            Key {
                name: "policies",
                kind: Kind::List("policies"),
                default: DefaultValue::Value("[\"none\", \"bfq\", \"contract\"]"),
                about: "The policies that are compared, unless `--policy` is given.",
                example: "[\"none\", \"contract\"]",
            },
            Key {
                name: "repetitions",
                kind: Kind::Count(1, 10_000),
                default: DefaultValue::Value("10"),
                about: "The number of times that the scenario is played, each time with different random numbers, unless `--repetitions` is \
                        given. A scenario without random numbers is played once.",
                example: "3",
            },
            Key {
                name: "expect",
                kind: Kind::List("tables, one `[[expect]]` for each"),
                default: DefaultValue::Value("[]"),
                about: "Expectations that the results must meet.",
                example: "[{ promise = \"target\" }]",
            },
            Key {
                name: "published",
                kind: Kind::List("tables, one `[[published]]` for each"),
                default: DefaultValue::Value("[]"),
                about: "Figures that others have published for the same scenario. They are shown next to the simulated figures.",
                example: "[{ policy = \"none\", figure = \"mean\", value = \"38ms\", source = \"a paper\" }]",
            },
        ],
        VARIED,
        &[
            Key {
                name: "case",
                kind: Kind::Table("one `[case.NAME]` for each"),
                default: DefaultValue::Words("one case"),
                about: "Variants of the scenario. Each case states only its differences from the file, which can be any key from `duration` to \
                        `client`. `[case.NAME.client.CLIENT]` changes a client, and `[[case.NAME.client]]` adds one. A case can use only one \
                        of these two forms.",
                example: "{ writers = { client.reader = { rw = \"write\" } } }",
            },
            Key {
                name: "on",
                kind: Kind::Table("`[on.disk]`, `[on.flash]`"),
                default: DefaultValue::Words("the same on every drive"),
                about: "Differences that apply on rotating drives (`disk`) and on other drives (`flash`), in the form of a case.",
                example: "{ disk = { duration = \"10s\" } }",
            },
            Key {
                name: "under",
                kind: Kind::Table("one `[under.POLICY]` for each"),
                default: DefaultValue::Words("the same under every policy"),
                about: "Differences that apply under one policy, in the form of a case. The differences of the case are applied first, then \
                        those of `on`, then those of `under`.",
                example: "{ contract = { client.target = { min = \"10MB/s\" } } }",
            },
        ],
    ],
};

/// What cases, drives and policies may change.
pub(crate) const VARIED: &[Key] = &[
    Key {
        name: "duration",
        kind: Kind::Time(Span::from_millis(1), HOUR),
        default: DefaultValue::Value("\"8s\""),
        about: "The time that is measured, unless `--seconds` is given.",
        example: "\"2s\"",
    },
    Key {
        name: "run_in",
        kind: Kind::Time(Span::ZERO, HOUR),
        default: DefaultValue::Value("\"3s\""),
        about: "The time for which the drive is read sequentially before the run, followed by one second without requests. During this time, \
                policies that learn the speed of a drive can do so. It is not included in any other time. With `\"0s\"`, the run starts as \
                after boot.",
        example: "\"0s\"",
    },
    Key {
        name: "warm_up",
        kind: Kind::Time(Span::ZERO, HOUR),
        default: DefaultValue::Value("\"500ms\""),
        about: "The time at the start of the run that is not measured.",
        example: "\"1s\"",
    },
    Key {
        name: "await",
        kind: Kind::Text("a client's name"),
        default: DefaultValue::Words("none"),
        about: "A client whose last request is waited for. The client issues no more requests when the time is over, but the run goes on until \
                its last request completes. This way, a request that takes longer than the whole run is also measured.",
        example: "\"database\"",
    },
    Key {
        name: "exitall",
        kind: Kind::Text("a client's name"),
        default: DefaultValue::Words("a run lasts for its `duration`"),
        about: "A client with a number of requests (`number_ios`). The run ends when the last of them completes, unless `duration` ends \
                before. The figure `runtime` is the time that they took.",
        example: "\"program\"",
    },
    Key {
        name: "meant_for",
        kind: Kind::Rate,
        default: DefaultValue::Words("promises are as stated"),
        about: "The capacity of the drive for which the values of `min` are intended. On a slower drive, each `min` is reduced in proportion \
                to the drive's capacity and rounded down to a multiple of 100 kB/s.",
        example: "\"250MB/s\"",
    },
    Key {
        name: "grouping",
        kind: Kind::Word(&["each", "none"]),
        default: DefaultValue::Value("\"each\""),
        about: "The group of a client that names none. With `\"each\"`, it has a group of its own. With `\"none\"`, it is in the root group \
                and has no contract.",
        example: "\"none\"",
    },
    Key {
        name: "layout",
        kind: Kind::Word(&["volumes", "files"]),
        default: DefaultValue::Value("\"volumes\""),
        about: "The placement of the clients' files. With `\"volumes\"`, each file is a separate address space. With `\"files\"`, all files \
                are adjacent on one device, as in a file system.",
        example: "\"files\"",
    },
    Key {
        name: "capacity",
        kind: Kind::Table("`capacity = { ... }`"),
        default: DefaultValue::Words("the throughput that the drive sustains in the worst case"),
        about: "The capacity that the drive's owner states. Promises are compared with it.",
        example: "{ read = \"160MB/s\", write = \"120MB/s\" }",
    },
    Key {
        name: "freeze",
        kind: Kind::Table("`freeze = { ... }`"),
        default: DefaultValue::Words("the drive never stalls"),
        about: "Periods in which the drive stalls.",
        example: "{ first = \"1500ms\", length = \"1s\", every = \"5s\" }",
    },
    Key {
        name: "host",
        kind: Kind::Table("`[host]`"),
        default: DefaultValue::Value("{}"),
        about: "The host between the clients and the drive.",
        example: "{ nr_requests = \"linux\" }",
    },
    Key {
        name: "path",
        kind: Kind::Table("`[path]`"),
        default: DefaultValue::Words("clients call the block layer directly"),
        about: "The path from the clients to a server and back.",
        example: "{ latency = \"50us\" }",
    },
    Key {
        name: "guest",
        kind: Kind::Table("`[guest]`"),
        default: DefaultValue::Words("there are no virtual machines"),
        about: "The virtual machines in which the clients run, and the rings to their back end. It cannot be combined with `path`.",
        example: "{ ring = \"virtio\" }",
    },
    Key {
        name: "group",
        kind: Kind::List("tables, one `[[group]]` for each"),
        default: DefaultValue::Value("[]"),
        about: "Groups of several clients or of other groups.",
        example: "[{ name = \"acme\", min = \"20MB/s\" }]",
    },
    Key {
        name: "client",
        kind: Kind::List("tables, one `[[client]]` for each"),
        default: DefaultValue::Needed,
        about: "The clients.",
        example: "[{ name = \"reader\", rw = \"read\", bs = \"128KiB\", size = \"1GiB\" }]",
    },
    Key {
        name: "change",
        kind: Kind::List("tables, one `[[change]]` for each"),
        default: DefaultValue::Value("[]"),
        about: "Contracts that change during the run.",
        example: "[{ when = \"2s\", whose = \"acme\", min = \"10MB/s\" }]",
    },
];

pub(crate) const FREEZE: Shape = Shape {
    name: "freeze = { ... }",
    about: "Periods in which the drive stalls, as flash does during garbage collection, or a disk that reads a bad sector again. Commands that \
            are in the drive complete later by the length of the stall.",
    keys: &[&[
        Key {
            name: "first",
            kind: Kind::Time(Span::ZERO, HOUR),
            default: DefaultValue::Needed,
            about: "The start of the first stall, counted from the beginning of the run.",
            example: "\"1500ms\"",
        },
        Key {
            name: "length",
            kind: Kind::Time(NANO, HOUR),
            default: DefaultValue::Needed,
            about: "The length of each stall. It must be less than `every`.",
            example: "\"1s\"",
        },
        Key {
            name: "every",
            kind: Kind::Time(NANO, HOUR),
            default: DefaultValue::Needed,
            about: "The time from the start of one stall to the start of the next.",
            example: "\"5s\"",
        },
    ]],
};

pub(crate) const HOST: Shape = Shape {
    name: "[host]",
    about: "The host between the clients and the drive.",
    keys: &[&[
        Key {
            name: "nr_requests",
            kind: Kind::Or(&Kind::Count(1, 65_536), "`\"linux\"`"),
            default: DefaultValue::Words("unlimited"),
            about: "The maximum number of requests in the elevator and the drive together, for each hardware queue. `\"linux\"` selects \
                    Linux's default: the depth of the queue without an elevator, and twice that, but at most 256, with one of Linux's \
                    elevators. Under `contract` it is unlimited, and under `cfq` the tunable of this name applies.",
            example: "\"linux\"",
        },
        Key {
            name: "adapter",
            kind: Kind::Word(&["linux", "none"]),
            default: DefaultValue::Value("\"none\""),
            about: "The adapter of the drive. With `\"linux\"`, a drive with one queue of at most 32 commands is connected to an ATA adapter, \
                    on which a flush is not a queued command.",
            example: "\"linux\"",
        },
        Key {
            name: "nomerges",
            kind: Kind::Count(0, 2),
            default: DefaultValue::Value("2"),
            about: "The merging of adjacent requests into one command, as Linux does it under its elevators (`nomerges`). With `0`, all \
                    adjacent requests are merged. With `1`, requests are merged in the plug, and with the last request that was merged. With \
                    `2`, no requests are merged.",
            example: "0",
        },
        Key {
            name: "plug",
            kind: Kind::Word(&["cache", "all", "none"]),
            default: DefaultValue::Value("\"cache\""),
            about: "The requests that reach the elevator together and are merged before (plugging). It applies if requests are merged. With \
                    `\"cache\"`, these are the requests that a process issues together through the page cache. With `\"all\"`, they also \
                    include direct requests, such as several in one `io_submit`.",
            example: "\"all\"",
        },
        Key {
            name: "read_ahead",
            kind: Kind::Size(0, 16 << 20, 4096),
            default: DefaultValue::Value("\"128KiB\""),
            about: "The maximum amount that the page cache reads ahead (`read_ahead_kb`).",
            example: "\"4MiB\"",
        },
        Key {
            name: "copy",
            kind: Kind::Time(NANO, Span::from_secs(1)),
            default: DefaultValue::Value("\"1us\""),
            about: "The CPU time of a system call for each page that it reads from the page cache or writes to it.",
            example: "\"500ns\"",
        },
        Key {
            name: "wakeup",
            kind: Kind::Time(Span::ZERO, Span::from_secs(1)),
            default: DefaultValue::Value("\"0s\""),
            about: "The maximum delay until a process that waited for the page cache runs again. Each delay is drawn from a uniform \
                    distribution, so that runs differ from each other as on a real host.",
            example: "\"20us\"",
        },
        Key {
            name: "filesystem",
            kind: Kind::Word(&["ext4", "btrfs", "none"]),
            default: DefaultValue::Value("\"none\""),
            about: "The file system of the clients' files, with `layout = \"files\"`. With `\"ext4\"`, an `fdatasync` after a write to new \
                    blocks waits for a commit of the journal, which in turn waits for the data of every file that was allocated blocks since \
                    the last commit. With `\"btrfs\"`, an `fdatasync` waits for its own data and for a log, and data are written to new \
                    places. With `\"none\"`, all blocks are already allocated, and an `fdatasync` is only a flush.",
            example: "\"ext4\"",
        },
    ]],
};

pub(crate) const PATH: Shape = Shape {
    name: "[path]",
    about: "The path from a client to the server and back, and the server's thread on it.",
    keys: &[&[
        Key {
            name: "latency",
            kind: Kind::Time(Span::ZERO, Span::from_secs(1)),
            default: DefaultValue::Value("\"0s\""),
            about: "The network latency in each direction: from the client to the server, and from the server to the client.",
            example: "\"50us\"",
        },
        Key {
            name: "turn",
            kind: Kind::Time(Span::ZERO, Span::from_secs(1)),
            default: DefaultValue::Value("\"0s\""),
            about: "The CPU time of one pass of the server's loop (a turn), independent of the number of requests.",
            example: "\"10us\"",
        },
        Key {
            name: "processor",
            kind: Kind::Time(Span::ZERO, Span::from_secs(1)),
            default: DefaultValue::Value("\"0s\""),
            about: "The CPU time that each request adds to the turns of the server.",
            example: "\"4us\"",
        },
    ]],
};

const NAME: Key = Key {
    name: "name",
    kind: Kind::Text("1 to 64 letters, digits, dots, dashes and underscores"),
    default: DefaultValue::Needed,
    about: "The name of the client or group.",
    example: "\"reader\"",
};

pub(crate) const GROUP: Shape = Shape {
    name: "[[group]]",
    about: "A group of clients or of other groups, with a contract for all of them together.",
    keys: &[
        &[
            NAME,
            Key {
                name: "parent",
                kind: Kind::Text("the name of a group before it"),
                default: DefaultValue::Words("the root"),
                about: "The parent of the group in the tree of groups.",
                example: "\"acme\"",
            },
        ],
        CONTRACTS,
    ],
};

pub(crate) const CHANGE: Shape = Shape {
    name: "[[change]]",
    about: "A contract that replaces an earlier contract completely, so any key that it does not state has its default. If a min changes \
            during a run, the tables judge the smallest min.",
    keys: &[
        &[
            Key {
                name: "when",
                kind: Kind::Time(Span::ZERO, HOUR),
                default: DefaultValue::Needed,
                about: "The time of the change, counted from the beginning of the run.",
                example: "\"2s\"",
            },
            Key {
                name: "whose",
                kind: Kind::Text(
                    "the name of a group, or of a client that is in a group of its own",
                ),
                default: DefaultValue::Needed,
                about: "The group or client whose contract changes.",
                example: "\"acme\"",
            },
        ],
        CONTRACTS,
    ],
};

pub(crate) const CLIENT: Shape = Shape {
    name: "[[client]]",
    about: "One client, or several identical clients. Keys that `fio` has are named and defined as in `fio`, and have the defaults of `fio`.",
    keys: &[&[NAME], ACCESS, PACE, PLACE, CONTRACTS],
};

/// What a client does, in sequence or at random places.
pub(crate) const RW: [&str; 7] = [
    "read",
    "write",
    "rw",
    "readwrite",
    "randread",
    "randwrite",
    "randrw",
];

/// What a client asks for.
const ACCESS: &[Key] = &[
    Key {
        name: "numjobs",
        kind: Kind::Count(0, 4096),
        default: DefaultValue::Words("one client, called NAME"),
        about: "The number of identical clients. They are called `NAME-01`, `NAME-02` and so on.",
        example: "15",
    },
    Key {
        name: "first",
        kind: Kind::Count(0, 1_000_000),
        default: DefaultValue::Value("1"),
        about: "The number of the first of these clients.",
        example: "0",
    },
    Key {
        name: "rw",
        kind: Kind::Word(&RW),
        default: DefaultValue::Value("\"read\""),
        about: "The kind of requests: reads, writes or both, in sequence or at random positions.",
        example: "\"randread\"",
    },
    Key {
        name: "rwmixread",
        kind: Kind::Count(0, 100),
        default: DefaultValue::Value("50"),
        about: "The percentage of reads, for a client that reads and writes.",
        example: "70",
    },
    Key {
        name: "bs",
        kind: Kind::Or(&Kind::Size(1, REQUEST_MOST, 1), "a range or a split"),
        default: DefaultValue::Value("\"4KiB\""),
        about: "The size of a request. It is a single size, or a range such as `\"4KiB-64KiB\"` (any multiple of the smaller size up to the \
                larger one), or a list such as `\"4KiB/60:64KiB/40\"` (sizes, each with its percentage of the requests).",
        example: "\"4KiB/60:64KiB/40\"",
    },
    Key {
        name: "iodepth",
        kind: Kind::Count(1, 65_536),
        default: DefaultValue::Value("1"),
        about: "The maximum number of requests in flight. It is 1 for a client that uses the page cache.",
        example: "16",
    },
    Key {
        name: "iodepth_low",
        kind: Kind::Count(0, 65_536),
        default: DefaultValue::Words("the value of `iodepth`"),
        about: "The number of requests in flight at which the client continues. After it has reached `iodepth`, the client waits until at most \
                this number are in flight, and then issues requests up to `iodepth` again.",
        example: "8",
    },
    Key {
        name: "direct",
        kind: Kind::Flag,
        default: DefaultValue::Value("false"),
        about: "Whether the client bypasses the page cache (`O_DIRECT`).",
        example: "true",
    },
    Key {
        name: "writeback",
        kind: Kind::Flag,
        default: DefaultValue::Value("false"),
        about: "Whether the client's writes represent the write-back of the page cache, which is not modelled. The elevator treats such writes \
                as asynchronous, while other direct writes are synchronous. It requires `direct`.",
        example: "true",
    },
    Key {
        name: "fsync",
        kind: Kind::Count(0, 65_536),
        default: DefaultValue::Value("0"),
        about: "The number of writes after which the client calls `fsync` and waits for it. With 0, it never does. An `fsync` is treated as an \
                `fdatasync`, because timestamps of files are not modelled.",
        example: "1",
    },
    Key {
        name: "fdatasync",
        kind: Kind::Count(0, 65_536),
        default: DefaultValue::Value("0"),
        about: "The number of writes after which the client calls `fdatasync` and waits for it. With 0, it never does. A client that writes \
                through the page cache must set `fsync` or `fdatasync`.",
        example: "1",
    },
    Key {
        name: "flush",
        kind: Kind::Count(0, 65_536),
        default: DefaultValue::Value("0"),
        about: "The number of writes after which the client issues a flush without waiting for it. With 0, it never does. `fio` has no \
                equivalent.",
        example: "8",
    },
    Key {
        name: "sync",
        kind: Kind::Word(&["none", "dsync"]),
        default: DefaultValue::Value("\"none\""),
        about: "The durability of writes. With `\"dsync\"`, a write is durable when it completes (`O_DSYNC`, FUA). It requires `direct`.",
        example: "\"dsync\"",
    },
    Key {
        name: "ionice",
        kind: Kind::Other(
            "`\"realtime\"`, `\"best-effort\"` or `\"idle\"`, optionally with a level, for example `\"best-effort:7\"`",
        ),
        default: DefaultValue::Value("\"best-effort:4\""),
        about: "The client's I/O priority (`prioclass` and `prio`), for policies that use it. Under a policy that uses classes (`contract`), \
                it is the class of a contract that states none. In that case, `idle` applies only without a min, and `realtime` only with a \
                max.",
        example: "\"realtime\"",
    },
];

/// When it asks.
const PACE: &[Key] = &[
    Key {
        name: "rate",
        kind: Kind::Or(
            &Kind::Rate,
            "two of them, as in `\"20MB/s,5MB/s\"`, for reads and for writes",
        ),
        default: DefaultValue::Words("the next request follows a reply"),
        about: "The bytes per second that the client requests, independent of replies. The latency of a late request counts from the time at \
                which it was due. For a client that reads and writes, the rate applies to reads and to writes separately. One of two rates can \
                be left out, in which case it is not limited. It requires a `bs` of a single size.",
        example: "\"20MB/s\"",
    },
    Key {
        name: "rate_iops",
        kind: Kind::Or(
            &Kind::Count(1, 1_000_000_000),
            "two of them, as in `\"1000,500\"`, for reads and for writes",
        ),
        default: DefaultValue::Words("the next request follows a reply"),
        about: "The requests per second that the client issues, for reads and for writes separately. Otherwise it is the same as `rate`.",
        example: "200",
    },
    Key {
        name: "rate_for",
        kind: Kind::Word(&["each", "both"]),
        default: DefaultValue::Value("\"each\""),
        about: "Whether the rate of a client that reads and writes applies to reads and to writes separately, as in `fio`, or to both together.",
        example: "\"both\"",
    },
    Key {
        name: "rate_process",
        kind: Kind::Word(&["linear", "poisson"]),
        default: DefaultValue::Value("\"linear\""),
        about: "The distribution of the times between the requests of a `rate`: equal, or exponential.",
        example: "\"poisson\"",
    },
    Key {
        name: "thinktime",
        kind: Kind::Time(Span::ZERO, HOUR),
        default: DefaultValue::Value("\"0s\""),
        about: "The time from a reply to the next request, for each of the `iodepth` requests in flight.",
        example: "\"100ms\"",
    },
    Key {
        name: "thinktime_blocks",
        kind: Kind::Count(1, 65_536),
        default: DefaultValue::Value("1"),
        about: "The number of replies after which the client pauses for `thinktime`.",
        example: "15",
    },
    Key {
        name: "deadline",
        kind: Kind::Time(NANO, HOUR),
        default: DefaultValue::Words("none"),
        about: "The time after which the reply to a read or a write is too late, counted from when the request was due. An example is a frame \
                of a video, which is dropped if it is late. Late requests are counted (the figure `late`), including requests that could not \
                be sent in time. `fio` has no equivalent.",
        example: "\"40ms\"",
    },
    Key {
        name: "startdelay",
        kind: Kind::Or(&Kind::Time(Span::ZERO, HOUR), "a range of times"),
        default: DefaultValue::Value("\"0s\""),
        about: "The time at which the client starts, counted from the beginning of the warm-up. With a range such as `\"0ms-20ms\"`, each \
                client draws its own time in each run.",
        example: "\"1s\"",
    },
    Key {
        name: "runtime",
        kind: Kind::Time(NANO, HOUR),
        default: DefaultValue::Words("until the end of the run"),
        about: "The time for which the client is active, counted from its start.",
        example: "\"5s\"",
    },
    Key {
        name: "number_ios",
        kind: Kind::Count(1, 1 << 60),
        default: DefaultValue::Words("unlimited"),
        about: "The number of requests after which the client ends.",
        example: "10000",
    },
    Key {
        name: "on",
        kind: Kind::Time(NANO, HOUR),
        default: DefaultValue::Words("the client never pauses"),
        about: "The time for which the client is active before it pauses for `off`. The two alternate. Requests of a `rate` do not accumulate \
                during a pause.",
        example: "\"2s\"",
    },
    Key {
        name: "off",
        kind: Kind::Time(NANO, HOUR),
        default: DefaultValue::Words("the client never pauses"),
        about: "The length of each pause.",
        example: "\"1s\"",
    },
    Key {
        name: "arrives",
        kind: Kind::Time(Span::ZERO, HOUR),
        default: DefaultValue::Value("\"0s\""),
        about: "The time at which the client connects.",
        example: "\"1s\"",
    },
    Key {
        name: "leaves",
        kind: Kind::Time(NANO, HOUR),
        default: DefaultValue::Words("the client stays connected"),
        about: "The time at which the client disconnects. Requests in flight at that time have failed.",
        example: "\"6s\"",
    },
];

/// Where it reads and writes, and in which group it is.
const PLACE: &[Key] = &[
    Key {
        name: "size",
        kind: Kind::Size(1, FILE_MOST, 1),
        default: DefaultValue::Needed,
        about: "The number of bytes of the client's file that it uses, beginning at `offset`.",
        example: "\"1GiB\"",
    },
    Key {
        name: "offset",
        kind: Kind::Size(0, FILE_MOST, 1),
        default: DefaultValue::Value("\"0B\""),
        about: "The position in the file at which these bytes begin.",
        example: "\"64KiB\"",
    },
    Key {
        name: "offset_increment",
        kind: Kind::Size(0, FILE_MOST, 1),
        default: DefaultValue::Value("\"0B\""),
        about: "The amount by which `offset` increases for each of the `numjobs` clients after the first.",
        example: "\"16KiB\"",
    },
    Key {
        name: "file",
        kind: Kind::Text("a name"),
        default: DefaultValue::Words("each client has a file of its own"),
        about: "The name of the client's file (`filename`). Clients with the same name share the file.",
        example: "\"table\"",
    },
    Key {
        name: "nrfiles",
        kind: Kind::Count(1, 1024),
        default: DefaultValue::Value("1"),
        about: "The number of files of equal size into which `size` is divided. The requests go to the files in rotation. It requires `direct`.",
        example: "4",
    },
    Key {
        name: "random_distribution",
        kind: Kind::Other(
            "`\"random\"`, `\"zipf:EXPONENT\"`, `\"pareto:PART\"` or `\"normal:PERCENT\"`, optionally with a `:CENTER`",
        ),
        default: DefaultValue::Value("\"random\""),
        about: "The distribution of random positions. With `\"random\"`, all positions are equally likely. With `\"zipf\"`, the probability of \
                the k-th most popular position is in proportion to 1/k^EXPONENT (above 0 and up to 100; `\"zipf\"` alone is 1). With \
                `\"pareto\"`, the part 1 - PART of all requests goes to the part PART of the positions, and so on within that part (between 0 \
                and 1). With `\"normal\"`, requests are concentrated around the middle: the mean of twelve random numbers is displaced by up \
                to half of PERCENT of all positions (from 0 to below 100). Popular positions are scattered over the file; the most popular one \
                is at CENTER of the file, from 0 to 1.",
        example: "\"zipf:1.1\"",
    },
    Key {
        name: "norandommap",
        kind: Kind::Flag,
        default: DefaultValue::Value("false"),
        about: "Whether random positions can repeat. If false, each position is used once before any is used again. If true, each is drawn \
                from all positions.",
        example: "true",
    },
    Key {
        name: "percentage_random",
        kind: Kind::Or(
            &Kind::Count(0, 100),
            "two of them, as in `\"100,0\"`, for reads and for writes",
        ),
        default: DefaultValue::Value("100"),
        about: "The percentage of random requests, for a client with random positions. The other requests continue where the last request of \
                their kind ended. Random requests are drawn from all positions each time.",
        example: "80",
    },
    Key {
        name: "zonesize",
        kind: Kind::Size(1, FILE_MOST, 1),
        default: DefaultValue::Words("no zones"),
        about: "The number of bytes that the client uses in each zone (`zonemode=strided`). It is for sequential requests only.",
        example: "\"16KiB\"",
    },
    Key {
        name: "zoneskip",
        kind: Kind::Size(0, FILE_MOST, 1),
        default: DefaultValue::Value("\"0B\""),
        about: "The number of bytes that the client skips after each zone.",
        example: "\"32KiB\"",
    },
    Key {
        name: "group",
        kind: Kind::Text("the name of a `[[group]]`"),
        default: DefaultValue::Words("determined by `grouping`"),
        about: "The group that contains the client. A client with this key has no contract of its own.",
        example: "\"acme\"",
    },
    Key {
        name: "guest",
        kind: Kind::Text("a name"),
        default: DefaultValue::Words("a virtual machine of its own"),
        about: "The virtual machine in which the client runs. Clients with the same name share a ring and a CPU. It requires `[guest]`.",
        example: "\"database\"",
    },
    Key {
        name: "empty_kicks",
        kind: Kind::Count(0, 10_000_000),
        default: DefaultValue::Value("0"),
        about: "The number of notifications per second that the client's virtual machine sends without a request, as a broken or hostile one \
                does. They take none of the virtual machine's own CPU time. It requires `[guest]`.",
        example: "100000",
    },
];

const FIGURES: &[&str] = &words::<_, 19>(&Figure::ALL);

pub(crate) const EXPECT: Shape = Shape {
    name: "[[expect]]",
    about: "An expectation that the results must meet: one of `promise`, `shares`, `max` and `figure`. It determines the verdicts and the \
            columns of the tables, and `weir compare --check` fails if one expectation is not met.",
    keys: &[&[
        Key {
            name: "promise",
            kind: Kind::Text("a client's name, or `all`"),
            default: DefaultValue::Words("not checked"),
            about: "The client whose promise (`min`, `min_iops`) must be met in every second. `\"all\"` selects every client.",
            example: "\"target\"",
        },
        Key {
            name: "shares",
            kind: Kind::Other("a percentage as a string"),
            default: DefaultValue::Words("not checked"),
            about: "The maximum deviation of the clients' bandwidths from the proportions of their shares, over the whole run.",
            example: "\"5%\"",
        },
        Key {
            name: "max",
            kind: Kind::Other("a percentage as a string"),
            default: DefaultValue::Words("not checked"),
            about: "The maximum deviation of a client's bandwidth from its `max.bandwidth`. The client must neither exceed the max nor stay \
                    below it by more than this percentage.",
            example: "\"2%\"",
        },
        Key {
            name: "figure",
            kind: Kind::Word(FIGURES),
            default: DefaultValue::Words("not checked"),
            about: "The figure of `client` that must be within `at_least` and `at_most`.",
            example: "\"p99\"",
        },
        Key {
            name: "client",
            kind: Kind::Text("a client's name, `others` or `total`"),
            default: DefaultValue::Words("the target"),
            about: "The client of the figure. `\"others\"` is all clients except the target together, `\"total\"` all clients together.",
            example: "\"total\"",
        },
        Key {
            name: "at_least",
            kind: Kind::Other("a rate, a time, a number or a percentage, as the figure is"),
            default: DefaultValue::Words("no bound"),
            about: "The smallest value that the figure can have.",
            example: "\"200MB/s\"",
        },
        Key {
            name: "at_most",
            kind: Kind::Other("as `at_least`"),
            default: DefaultValue::Words("no bound"),
            about: "The largest value that the figure can have.",
            example: "\"1ms\"",
        },
        Key {
            name: "beside",
            kind: Kind::Text("a policy"),
            default: DefaultValue::Words("the bounds are absolute"),
            about: "The policy that the bounds refer to. They are then percentages of the same figure under this policy.",
            example: "\"none\"",
        },
        Key {
            name: "beside_case",
            kind: Kind::Text("a case"),
            default: DefaultValue::Words("the bounds are absolute"),
            about: "The case that the bounds refer to. They are then percentages of the same figure in this case, under the same policy.",
            example: "\"idle\"",
        },
        Key {
            name: "policies",
            kind: Kind::List("policies"),
            default: DefaultValue::Words("all policies"),
            about: "The policies under which the expectation must be met. Under other policies the result is only shown.",
            example: "[\"contract\"]",
        },
    ]],
};

pub(crate) const PUBLISHED: Shape = Shape {
    name: "[[published]]",
    about: "A published figure of the target.",
    keys: &[&[
        Key {
            name: "drive",
            kind: Kind::Text("a drive"),
            default: DefaultValue::Words("all drives"),
            about: "The drive for which the figure was published.",
            example: "\"plextor-px-256m5s\"",
        },
        Key {
            name: "case",
            kind: Kind::Text("a case"),
            default: DefaultValue::Words("all cases"),
            about: "The case for which the figure was published.",
            example: "\"readers\"",
        },
        Key {
            name: "policy",
            kind: Kind::Text("a policy"),
            default: DefaultValue::Needed,
            about: "The policy under which the figure was measured.",
            example: "\"bfq\"",
        },
        Key {
            name: "figure",
            kind: Kind::Word(FIGURES),
            default: DefaultValue::Needed,
            about: "The kind of figure.",
            example: "\"mean\"",
        },
        Key {
            name: "client",
            kind: Kind::Text("a client's name, `others` or `total`"),
            default: DefaultValue::Words("the target"),
            about: "The client of the figure.",
            example: "\"total\"",
        },
        Key {
            name: "value",
            kind: Kind::Other("a rate, a time, a number or a percentage, as the figure is"),
            default: DefaultValue::Needed,
            about: "The published value.",
            example: "\"38.7ms\"",
        },
        Key {
            name: "source",
            kind: Kind::Text("text"),
            default: DefaultValue::Needed,
            about: "The publication.",
            example: "\"a paper, page 7\"",
        },
    ]],
};
