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
    about: "What each client does. Drive and policy are chosen beside it and change nothing in it, unless `on` and `under` say so.",
    keys: &[
        &[
            Key {
                name: "name",
                kind: Kind::Text("1 to 64 letters, digits, dots, dashes and underscores"),
                default: DefaultValue::Words("the file's name"),
                about: "Its name in results. The clients' random numbers depend on it.",
                example: "\"nightly\"",
            },
            Key {
                name: "about",
                kind: Kind::Text("a line"),
                default: DefaultValue::Words("nothing"),
                about: "What it shows.",
                example: "\"a backup beside a database\"",
            },
            Key {
                name: "load",
                kind: Kind::Text("a sentence or more"),
                default: DefaultValue::Words("nothing"),
                about: "What the clients do.",
                example: "\"One client reads, one writes.\"",
            },
            Key {
                name: "target",
                kind: Kind::Text("a client's name"),
                default: DefaultValue::Words("the first client"),
                about: "The client whose latency is shown.",
                example: "\"database\"",
            },
            Key {
                name: "table",
                kind: Kind::Word(&["clients", "target"]),
                default: DefaultValue::Value("\"clients\""),
                about: "`\"clients\"`: a line for each policy and below it a row for each client. `\"target\"`: the target's latency, and all clients' bandwidth \
                        together.",
                example: "\"target\"",
            },
            Key {
                name: "drives",
                kind: Kind::List("drives, by name, by profile, or as a model's table"),
                default: DefaultValue::Value("[\"demo\"]"),
                about: "What it is compared on unless `--drive` says otherwise.",
                example: "[\"samsung-970-pro\"]",
            },
            Key {
                name: "policies",
                kind: Kind::List("policies"),
                default: DefaultValue::Value("[\"none\", \"bfq\", \"contract\"]"),
                about: "What is compared unless `--policy` says otherwise.",
                example: "[\"none\", \"contract\"]",
            },
            Key {
                name: "repetitions",
                kind: Kind::Count(1, 10_000),
                default: DefaultValue::Value("10"),
                about: "How often it is played, each time with other random numbers, unless `--repetitions` says otherwise; once where nothing is drawn.",
                example: "3",
            },
            Key {
                name: "expect",
                kind: Kind::List("tables, one `[[expect]]` for each"),
                default: DefaultValue::Value("[]"),
                about: "What is asked of the result.",
                example: "[{ promise = \"target\" }]",
            },
            Key {
                name: "published",
                kind: Kind::List("tables, one `[[published]]` for each"),
                default: DefaultValue::Value("[]"),
                about: "What others have published of the same, to be shown beside ours.",
                example: "[{ policy = \"none\", figure = \"mean\", value = \"38ms\", source = \"a paper\" }]",
            },
        ],
        VARIED,
        &[
            Key {
                name: "case",
                kind: Kind::Table("one `[case.NAME]` for each"),
                default: DefaultValue::Words("one case"),
                about: "Cases, each by what differs from the file: any key from `duration` to `client`. A client is changed by `[case.NAME.client.CLIENT]`; \
                        `[[case.NAME.client]]` is one more; a case does one or the other.",
                example: "{ writers = { client.reader = { rw = \"write\" } } }",
            },
            Key {
                name: "on",
                kind: Kind::Table("`[on.disk]`, `[on.flash]`"),
                default: DefaultValue::Words("the same on every drive"),
                about: "What differs on drives that rotate, and on those that do not, in the form of a case.",
                example: "{ disk = { duration = \"10s\" } }",
            },
            Key {
                name: "under",
                kind: Kind::Table("one `[under.POLICY]` for each"),
                default: DefaultValue::Words("the same under every policy"),
                about: "What differs under a policy, in the form of a case: a case is put in first, then `on`, then `under`.",
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
        about: "What is measured, unless `--seconds` says otherwise.",
        example: "\"2s\"",
    },
    Key {
        name: "run_in",
        kind: Kind::Time(Span::ZERO, HOUR),
        default: DefaultValue::Value("\"3s\""),
        about: "For how long the drive is read in sequence before the run, so that what learns of a drive has learned; a second of rest follows. \
                No other time counts it. `\"0s\"`: the run begins as after boot.",
        example: "\"0s\"",
    },
    Key {
        name: "warm_up",
        kind: Kind::Time(Span::ZERO, HOUR),
        default: DefaultValue::Value("\"500ms\""),
        about: "What passes before.",
        example: "\"1s\"",
    },
    Key {
        name: "await",
        kind: Kind::Text("a client's name"),
        default: DefaultValue::Words("nobody"),
        about: "A client that stops when the time is over and whose last request is waited for, so that one that takes longer than all the \
                time is measured, too.",
        example: "\"database\"",
    },
    Key {
        name: "exitall",
        kind: Kind::Text("a client's name"),
        default: DefaultValue::Words("a run lasts for its `duration`"),
        about: "A client with a number of requests (`number_ios`) with whose last answer the run ends, if its time is not over before; how long it took \
                is the figure `runtime`.",
        example: "\"program\"",
    },
    Key {
        name: "meant_for",
        kind: Kind::Rate,
        default: DefaultValue::Words("promises are as they stand"),
        about: "What a drive gives for which every `min` is meant: on a slower one a promise is the same part of what that gives, in whole \
                100 kB/s.",
        example: "\"250MB/s\"",
    },
    Key {
        name: "grouping",
        kind: Kind::Word(&["each", "none"]),
        default: DefaultValue::Value("\"each\""),
        about: "`\"each\"`: a client that names no group has one of its own. `\"none\"`: it is in the root group and has no contract.",
        example: "\"none\"",
    },
    Key {
        name: "layout",
        kind: Kind::Word(&["volumes", "files"]),
        default: DefaultValue::Value("\"volumes\""),
        about: "`\"volumes\"`: each file is an address space of its own. `\"files\"`: all lie one behind the other on one device, as those of \
                a file system.",
        example: "\"files\"",
    },
    Key {
        name: "capacity",
        kind: Kind::Table("`capacity = { ... }`"),
        default: DefaultValue::Words("what the drive does at the least"),
        about: "What the drive's owner states that it does: promises are held against it.",
        example: "{ read = \"160MB/s\", write = \"120MB/s\" }",
    },
    Key {
        name: "freeze",
        kind: Kind::Table("`freeze = { ... }`"),
        default: DefaultValue::Words("the drive always serves"),
        about: "When the drive serves nothing.",
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
        about: "The way to a server and back.",
        example: "{ latency = \"50us\" }",
    },
    Key {
        name: "guest",
        kind: Kind::Table("`[guest]`"),
        default: DefaultValue::Words("there are no virtual machines"),
        about: "Virtual machines that clients are in, and the rings to their back end. It excludes `path`.",
        example: "{ ring = \"virtio\" }",
    },
    Key {
        name: "group",
        kind: Kind::List("tables, one `[[group]]` for each"),
        default: DefaultValue::Value("[]"),
        about: "Groups over several clients, or over other groups.",
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
    about: "When the drive serves nothing, as flash that cleans up or a disk that reads a bad sector again: what is in it ends later by that time.",
    keys: &[&[
        Key {
            name: "first",
            kind: Kind::Time(Span::ZERO, HOUR),
            default: DefaultValue::Needed,
            about: "When that begins, from the beginning of the run.",
            example: "\"1500ms\"",
        },
        Key {
            name: "length",
            kind: Kind::Time(NANO, HOUR),
            default: DefaultValue::Needed,
            about: "How long it is; less than `every`.",
            example: "\"1s\"",
        },
        Key {
            name: "every",
            kind: Kind::Time(NANO, HOUR),
            default: DefaultValue::Needed,
            about: "From the beginning of one to that of the next.",
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
            default: DefaultValue::Words("as many as there can be"),
            about: "Requests in the elevator and the drive together, for each hardware queue. `\"linux\"`: the queue's depth without an \
                    elevator, with one of Linux twice that and at most 256, without bound under `contract`; under `cfq` the tunable of this name counts.",
            example: "\"linux\"",
        },
        Key {
            name: "adapter",
            kind: Kind::Word(&["linux", "none"]),
            default: DefaultValue::Value("\"none\""),
            about: "`\"linux\"`: a drive with one queue of at most 32 commands is behind an ATA adapter, to which a flush is no queued command.",
            example: "\"linux\"",
        },
        Key {
            name: "nomerges",
            kind: Kind::Count(0, 2),
            default: DefaultValue::Value("2"),
            about: "Which neighbouring requests are merged into one command, under Linux's elevators, as Linux does (`nomerges`). `0`: all that \
                    can be. `1`: in the plug, and with what was merged last. `2`: none.",
            example: "0",
        },
        Key {
            name: "plug",
            kind: Kind::Word(&["cache", "all", "none"]),
            default: DefaultValue::Value("\"cache\""),
            about: "Where requests are merged, what comes to the elevator together, and is merged before. `\"cache\"`: what a process asks \
                    for at one time through the page cache. `\"all\"`: direct requests, too, as by one `io_submit` of several.",
            example: "\"all\"",
        },
        Key {
            name: "read_ahead",
            kind: Kind::Size(0, 16 << 20, 4096),
            default: DefaultValue::Value("\"128KiB\""),
            about: "The most that the page cache reads ahead (`read_ahead_kb`).",
            example: "\"4MiB\"",
        },
        Key {
            name: "copy",
            kind: Kind::Time(NANO, Span::from_secs(1)),
            default: DefaultValue::Value("\"1us\""),
            about: "Time of a system call for each page that it reads from the cache or writes to it.",
            example: "\"500ns\"",
        },
        Key {
            name: "wakeup",
            kind: Kind::Time(Span::ZERO, Span::from_secs(1)),
            default: DefaultValue::Value("\"0s\""),
            about: "A process that has waited for the page cache runs again at most this much later, evenly drawn each time, so that runs differ \
                    as on a real host.",
            example: "\"20us\"",
        },
        Key {
            name: "filesystem",
            kind: Kind::Word(&["ext4", "btrfs", "none"]),
            default: DefaultValue::Value("\"none\""),
            about: "What clients' files are in, with `layout = \"files\"`. `\"ext4\"`: `fdatasync` after a write to new blocks waits for a commit of \
                    the journal, which waits for the data of every file that got blocks since the last. `\"btrfs\"`: it waits for its own data and a \
                    log, and data go to new places. `\"none\"`: blocks are allocated, and a flush is all that it takes.",
            example: "\"ext4\"",
        },
    ]],
};

pub(crate) const PATH: Shape = Shape {
    name: "[path]",
    about: "The way from a client to the server and back, and the server's thread on it.",
    keys: &[&[
        Key {
            name: "latency",
            kind: Kind::Time(Span::ZERO, Span::from_secs(1)),
            default: DefaultValue::Value("\"0s\""),
            about: "From the client to the server, and as long back.",
            example: "\"50us\"",
        },
        Key {
            name: "turn",
            kind: Kind::Time(Span::ZERO, Span::from_secs(1)),
            default: DefaultValue::Value("\"0s\""),
            about: "Time of a turn of the server, whatever it does.",
            example: "\"10us\"",
        },
        Key {
            name: "processor",
            kind: Kind::Time(Span::ZERO, Span::from_secs(1)),
            default: DefaultValue::Value("\"0s\""),
            about: "Time that each request adds to the server's turns.",
            example: "\"4us\"",
        },
    ]],
};

const NAME: Key = Key {
    name: "name",
    kind: Kind::Text("1 to 64 letters, digits, dots, dashes and underscores"),
    default: DefaultValue::Needed,
    about: "Its name.",
    example: "\"reader\"",
};

pub(crate) const GROUP: Shape = Shape {
    name: "[[group]]",
    about: "A group of clients or of other groups, and what it is promised as a whole.",
    keys: &[
        &[
            NAME,
            Key {
                name: "parent",
                kind: Kind::Text("the name of a group before it"),
                default: DefaultValue::Words("the root"),
                about: "What it hangs on.",
                example: "\"acme\"",
            },
        ],
        CONTRACTS,
    ],
};

pub(crate) const CHANGE: Shape = Shape {
    name: "[[change]]",
    about: "A contract that takes the place of another, as a whole: what it does not state is as by default. Of a min that changes, tables judge the least.",
    keys: &[
        &[
            Key {
                name: "when",
                kind: Kind::Time(Span::ZERO, HOUR),
                default: DefaultValue::Needed,
                about: "When, from the beginning of the run.",
                example: "\"2s\"",
            },
            Key {
                name: "whose",
                kind: Kind::Text(
                    "the name of a group, or of a client that is in a group of its own",
                ),
                default: DefaultValue::Needed,
                about: "Whose contract it is.",
                example: "\"acme\"",
            },
        ],
        CONTRACTS,
    ],
};

pub(crate) const CLIENT: Shape = Shape {
    name: "[[client]]",
    about: "A client, or several that do the same. What `fio` has a word for is called so and means the same; the defaults are `fio`'s.",
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
        default: DefaultValue::Words("one, called as it is"),
        about: "Number of clients, called `NAME-01`, `NAME-02` and so on.",
        example: "15",
    },
    Key {
        name: "first",
        kind: Kind::Count(0, 1_000_000),
        default: DefaultValue::Value("1"),
        about: "The number of the first of them.",
        example: "0",
    },
    Key {
        name: "rw",
        kind: Kind::Word(&RW),
        default: DefaultValue::Value("\"read\""),
        about: "Whether it reads or writes, in sequence or at random places.",
        example: "\"randread\"",
    },
    Key {
        name: "rwmixread",
        kind: Kind::Count(0, 100),
        default: DefaultValue::Value("50"),
        about: "Reads in a hundred requests of a client that does both.",
        example: "70",
    },
    Key {
        name: "bs",
        kind: Kind::Or(&Kind::Size(1, REQUEST_MOST, 1), "a range or a split"),
        default: DefaultValue::Value("\"4KiB\""),
        about: "Bytes of a request: always the same, `\"4KiB-64KiB\"` (any multiple of the least up to the most), or \
                `\"4KiB/60:64KiB/40\"` (sizes, and how many of a hundred requests are of each).",
        example: "\"4KiB/60:64KiB/40\"",
    },
    Key {
        name: "iodepth",
        kind: Kind::Count(1, 65_536),
        default: DefaultValue::Value("1"),
        about: "Requests it has outstanding at most; 1 where it goes through the page cache.",
        example: "16",
    },
    Key {
        name: "iodepth_low",
        kind: Kind::Count(0, 65_536),
        default: DefaultValue::Words("as `iodepth`"),
        about: "Once `iodepth` are outstanding it waits until no more than this number are, and then fills up again.",
        example: "8",
    },
    Key {
        name: "direct",
        kind: Kind::Flag,
        default: DefaultValue::Value("false"),
        about: "Whether it goes past the page cache (`O_DIRECT`).",
        example: "true",
    },
    Key {
        name: "writeback",
        kind: Kind::Flag,
        default: DefaultValue::Value("false"),
        about: "Whether its writes stand for the page cache's writing back, which is not modelled: to the elevator they are not synchronous, as direct writes are. With `direct` only.",
        example: "true",
    },
    Key {
        name: "fsync",
        kind: Kind::Count(0, 65_536),
        default: DefaultValue::Value("0"),
        about: "After this number of writes it calls `fsync` and waits; 0: never. As `fdatasync`: times of files are not modelled.",
        example: "1",
    },
    Key {
        name: "fdatasync",
        kind: Kind::Count(0, 65_536),
        default: DefaultValue::Value("0"),
        about: "After this number of writes it calls `fdatasync` and waits; 0: never. A client that writes through the page cache has one of the two.",
        example: "1",
    },
    Key {
        name: "flush",
        kind: Kind::Count(0, 65_536),
        default: DefaultValue::Value("0"),
        about: "After this number of writes it issues a flush like any other request, without waiting; 0: never. `fio` has no word for it.",
        example: "8",
    },
    Key {
        name: "sync",
        kind: Kind::Word(&["none", "dsync"]),
        default: DefaultValue::Value("\"none\""),
        about: "`\"dsync\"`: a write is durable when it is answered (`O_DSYNC`, FUA). With `direct` only.",
        example: "\"dsync\"",
    },
    Key {
        name: "ionice",
        kind: Kind::Other(
            "`\"realtime\"`, `\"best-effort\"` or `\"idle\"`, perhaps with a level as `\"best-effort:7\"`",
        ),
        default: DefaultValue::Value("\"best-effort:4\""),
        about: "Its I/O priority (`prioclass` and `prio`), for policies that look at it. Under those that go by classes (`contract`) it is the \
                class of a contract that states none: idle without a min, realtime with a max.",
        example: "\"realtime\"",
    },
];

/// When it asks.
const PACE: &[Key] = &[
    Key {
        name: "rate",
        kind: Kind::Or(
            &Kind::Rate,
            "two as `\"20MB/s,5MB/s\"`, for reads and for writes",
        ),
        default: DefaultValue::Words("as fast as answers come"),
        about: "Bytes a second that it asks for, whatever the answers: what is late counts from when it was due. A client that reads and \
                writes asks for this rate of reads and again for this rate of writes. One of two can be left out, which is no limit then. \
                Takes a `bs` that is always the same.",
        example: "\"20MB/s\"",
    },
    Key {
        name: "rate_iops",
        kind: Kind::Or(
            &Kind::Count(1, 1_000_000_000),
            "two as `\"1000,500\"`, for reads and for writes",
        ),
        default: DefaultValue::Words("as fast as answers come"),
        about: "Requests a second that it asks for, of reads and of writes each, as with `rate`.",
        example: "200",
    },
    Key {
        name: "rate_for",
        kind: Kind::Word(&["each", "both"]),
        default: DefaultValue::Value("\"each\""),
        about: "Whether a rate of a client that reads and writes holds for each of the two separately, as in fio, or for both together.",
        example: "\"both\"",
    },
    Key {
        name: "rate_process",
        kind: Kind::Word(&["linear", "poisson"]),
        default: DefaultValue::Value("\"linear\""),
        about: "Whether the times between such requests are equal, or exponentially distributed.",
        example: "\"poisson\"",
    },
    Key {
        name: "thinktime",
        kind: Kind::Time(Span::ZERO, HOUR),
        default: DefaultValue::Value("\"0s\""),
        about: "From an answer to the next request, for each of the `iodepth` places.",
        example: "\"100ms\"",
    },
    Key {
        name: "thinktime_blocks",
        kind: Kind::Count(1, 65_536),
        default: DefaultValue::Value("1"),
        about: "After this number of answers it thinks for `thinktime`, and not after each.",
        example: "15",
    },
    Key {
        name: "deadline",
        kind: Kind::Time(NANO, HOUR),
        default: DefaultValue::Words("none"),
        about: "How soon after it was due a read or a write is to be answered, as a frame of a video that is dropped when it comes later. Those \
                that are not are counted (the figure `late`), those among them that could not even be sent in time. `fio` has no word for it.",
        example: "\"40ms\"",
    },
    Key {
        name: "startdelay",
        kind: Kind::Or(&Kind::Time(Span::ZERO, HOUR), "a range of them"),
        default: DefaultValue::Value("\"0s\""),
        about: "When it begins. The warm-up counts from zero, too. Of a range, as `\"0ms-20ms\"`, each client draws its own in each run.",
        example: "\"1s\"",
    },
    Key {
        name: "runtime",
        kind: Kind::Time(NANO, HOUR),
        default: DefaultValue::Words("to the end"),
        about: "How long it goes on from there.",
        example: "\"5s\"",
    },
    Key {
        name: "number_ios",
        kind: Kind::Count(1, 1 << 60),
        default: DefaultValue::Words("without end"),
        about: "Requests after which it is done.",
        example: "10000",
    },
    Key {
        name: "on",
        kind: Kind::Time(NANO, HOUR),
        default: DefaultValue::Words("it never rests"),
        about: "How long it works before it rests for `off`, again and again. What a `rate` brings does not add up meanwhile.",
        example: "\"2s\"",
    },
    Key {
        name: "off",
        kind: Kind::Time(NANO, HOUR),
        default: DefaultValue::Words("it never rests"),
        about: "How long it rests.",
        example: "\"1s\"",
    },
    Key {
        name: "arrives",
        kind: Kind::Time(Span::ZERO, HOUR),
        default: DefaultValue::Value("\"0s\""),
        about: "When it connects.",
        example: "\"1s\"",
    },
    Key {
        name: "leaves",
        kind: Kind::Time(NANO, HOUR),
        default: DefaultValue::Words("it stays"),
        about: "When it disconnects; what it waits for then has failed.",
        example: "\"6s\"",
    },
];

/// Where it reads and writes, and in which group it is.
const PLACE: &[Key] = &[
    Key {
        name: "size",
        kind: Kind::Size(1, FILE_MOST, 1),
        default: DefaultValue::Needed,
        about: "Bytes of its file that it uses, from `offset` on.",
        example: "\"1GiB\"",
    },
    Key {
        name: "offset",
        kind: Kind::Size(0, FILE_MOST, 1),
        default: DefaultValue::Value("\"0B\""),
        about: "Where in its file they begin.",
        example: "\"64KiB\"",
    },
    Key {
        name: "offset_increment",
        kind: Kind::Size(0, FILE_MOST, 1),
        default: DefaultValue::Value("\"0B\""),
        about: "How much further that is for each of `numjobs` after the first.",
        example: "\"16KiB\"",
    },
    Key {
        name: "file",
        kind: Kind::Text("a name"),
        default: DefaultValue::Words("each client has a file of its own"),
        about: "The file (`filename`). Clients that name the same one share it.",
        example: "\"table\"",
    },
    Key {
        name: "nrfiles",
        kind: Kind::Count(1, 1024),
        default: DefaultValue::Value("1"),
        about: "Files of equal length that `size` is divided into: requests go to one after the other. With `direct` only.",
        example: "4",
    },
    Key {
        name: "random_distribution",
        kind: Kind::Other(
            "`\"random\"`, `\"zipf:EXPONENT\"`, `\"pareto:PART\"` or `\"normal:PERCENT\"`, perhaps with a `:CENTER`",
        ),
        default: DefaultValue::Value("\"random\""),
        about: "Which of the places: each as likely as the others; the k-th most popular with a probability in proportion to 1/k^EXPONENT \
                (above 0, to 100; `\"zipf\"` alone: 1); the part 1 - PART of all requests to the part PART of the places, and so on \
                within that (between 0 and 1); or ranks around the middle, the mean of twelve random numbers displaced by up to half of \
                PERCENT of all places (0 to below 100). Popular places are scattered; the first is at CENTER of the file, 0 to 1.",
        example: "\"zipf:1.1\"",
    },
    Key {
        name: "norandommap",
        kind: Kind::Flag,
        default: DefaultValue::Value("false"),
        about: "False: each place once before any is drawn again. True: drawn each time from all of them.",
        example: "true",
    },
    Key {
        name: "percentage_random",
        kind: Kind::Or(
            &Kind::Count(0, 100),
            "two as `\"100,0\"`, for reads and for writes",
        ),
        default: DefaultValue::Value("100"),
        about: "How many in a hundred requests of a client at random are: the others go on where the last of their kind ended. Those at random \
                are drawn each time from all places.",
        example: "80",
    },
    Key {
        name: "zonesize",
        kind: Kind::Size(1, FILE_MOST, 1),
        default: DefaultValue::Words("no zones"),
        about: "Bytes that are used of each zone (`zonemode=strided`), in sequence only.",
        example: "\"16KiB\"",
    },
    Key {
        name: "zoneskip",
        kind: Kind::Size(0, FILE_MOST, 1),
        default: DefaultValue::Value("\"0B\""),
        about: "Bytes that are left out behind it.",
        example: "\"32KiB\"",
    },
    Key {
        name: "group",
        kind: Kind::Text("the name of a `[[group]]`"),
        default: DefaultValue::Words("as `grouping` says"),
        about: "The group that it is in. Then it has no contract of its own.",
        example: "\"acme\"",
    },
    Key {
        name: "guest",
        kind: Kind::Text("a name"),
        default: DefaultValue::Words("a virtual machine of its own"),
        about: "The virtual machine that it is in: clients with one name share a ring and a processor. It needs `[guest]`.",
        example: "\"database\"",
    },
    Key {
        name: "empty_kicks",
        kind: Kind::Count(0, 10_000_000),
        default: DefaultValue::Value("0"),
        about: "Notifications a second that its virtual machine sends without a request, as a broken or hostile one does. They cost it nothing. It \
                needs `[guest]`.",
        example: "100000",
    },
];

const FIGURES: &[&str] = &words::<_, 19>(&Figure::ALL);

pub(crate) const EXPECT: Shape = Shape {
    name: "[[expect]]",
    about: "What is asked of the result: one of `promise`, `shares`, `max` and `figure`. The verdicts and the columns of the tables come from \
            here, and `weir compare --check` fails if one is not met.",
    keys: &[&[
        Key {
            name: "promise",
            kind: Kind::Text("a client's name, or `all`"),
            default: DefaultValue::Words("not asked"),
            about: "What that client is promised (`min`, `min_iops`) is kept in every second; `\"all\"`: what every client is.",
            example: "\"target\"",
        },
        Key {
            name: "shares",
            kind: Kind::Other("a percentage as a string"),
            default: DefaultValue::Words("not asked"),
            about: "Bandwidths over the run are to each other as the clients' shares, no further off than this.",
            example: "\"5%\"",
        },
        Key {
            name: "max",
            kind: Kind::Other("a percentage as a string"),
            default: DefaultValue::Words("not asked"),
            about: "A client with a `max.bandwidth` gets it, no further off than this, and no more.",
            example: "\"2%\"",
        },
        Key {
            name: "figure",
            kind: Kind::Word(FIGURES),
            default: DefaultValue::Words("not asked"),
            about: "A figure of `client` that is to lie where `at_least` and `at_most` say.",
            example: "\"p99\"",
        },
        Key {
            name: "client",
            kind: Kind::Text("a client's name, `others` or `total`"),
            default: DefaultValue::Words("the target"),
            about: "Whose figure: with `\"others\"` all but the target together, with `\"total\"` all together.",
            example: "\"total\"",
        },
        Key {
            name: "at_least",
            kind: Kind::Other("a rate, a time, a number or a percentage, as the figure is"),
            default: DefaultValue::Words("no bound"),
            about: "What it is not to be below.",
            example: "\"200MB/s\"",
        },
        Key {
            name: "at_most",
            kind: Kind::Other("as `at_least`"),
            default: DefaultValue::Words("no bound"),
            about: "What it is not to be above.",
            example: "\"1ms\"",
        },
        Key {
            name: "beside",
            kind: Kind::Text("a policy"),
            default: DefaultValue::Words("the figure itself"),
            about: "The bounds are percentages of the same figure under this policy.",
            example: "\"none\"",
        },
        Key {
            name: "beside_case",
            kind: Kind::Text("a case"),
            default: DefaultValue::Words("the figure itself"),
            about: "The bounds are percentages of the same figure in this case, under the same policy.",
            example: "\"idle\"",
        },
        Key {
            name: "policies",
            kind: Kind::List("policies"),
            default: DefaultValue::Words("every one"),
            about: "Under which policies it is required; under the others it is only shown.",
            example: "[\"contract\"]",
        },
    ]],
};

pub(crate) const PUBLISHED: Shape = Shape {
    name: "[[published]]",
    about: "A figure of the target that somebody has published.",
    keys: &[&[
        Key {
            name: "drive",
            kind: Kind::Text("a drive"),
            default: DefaultValue::Words("every drive"),
            about: "On which drive.",
            example: "\"plextor-px-256m5s\"",
        },
        Key {
            name: "case",
            kind: Kind::Text("a case"),
            default: DefaultValue::Words("every case"),
            about: "In which case.",
            example: "\"readers\"",
        },
        Key {
            name: "policy",
            kind: Kind::Text("a policy"),
            default: DefaultValue::Needed,
            about: "Under which policy.",
            example: "\"bfq\"",
        },
        Key {
            name: "figure",
            kind: Kind::Word(FIGURES),
            default: DefaultValue::Needed,
            about: "What was published.",
            example: "\"mean\"",
        },
        Key {
            name: "client",
            kind: Kind::Text("a client's name, `others` or `total`"),
            default: DefaultValue::Words("the target"),
            about: "Whose figure.",
            example: "\"total\"",
        },
        Key {
            name: "value",
            kind: Kind::Other("a rate, a time, a number or a percentage, as the figure is"),
            default: DefaultValue::Needed,
            about: "Its value.",
            example: "\"38.7ms\"",
        },
        Key {
            name: "source",
            kind: Kind::Text("a text"),
            default: DefaultValue::Needed,
            about: "Where it was published.",
            example: "\"a paper, page 7\"",
        },
    ]],
};
