//! The keys of scenarios: clients, their groups and contracts, and the host.

use super::{CAPACITY, CONTRACTS, COSTS, GUEST, KeyDeclaration, KeyKind, Shape, words};
use crate::document::{Document, ShapedTable};
use crate::scenario::Figure;
use crate::words::Words;
use weir_core::Span;

/// The maximum size of a request in bytes.
pub(crate) const REQUEST_MOST: u64 = 64 << 20;
pub(crate) const FILE_MOST: u64 = 1 << 50;

/// The maximum length of the times in a scenario.
pub(crate) const HOUR: Span = Span::from_secs(3600);
const NANO: Span = Span::from_nanos(1);

/// All shapes of a scenario's file, beginning with the outermost.
pub(crate) const SCENARIOS: &[&Shape] = &[
    &SCENARIO, &CAPACITY, &FREEZE, &HOST, &PATH, &GUEST, &COSTS, &CLIENT, &GROUP, &CHANGE, &EXPECT,
    &PUBLISHED,
];

pub(crate) const SCENARIO: Shape = Shape {
    name: "a scenario",
    about: "The clients, and the requests that each of them issues. The drive and the policy are selected separately and do not change the \
            scenario, except through `on` and `under`.",
    keys: &[
        keys! {
            name: Text("1 to 64 letters, digits, dots, dashes and underscores") or "the file's name", "\"nightly\"",
                "The scenario's name in results. The random numbers of the clients depend on it.";
            about: Text("a line") or "none", "\"a backup beside a database\"",
                "A line that says which effect the scenario demonstrates.";
            load: Text("a sentence or more") or "none", "\"One client reads, one writes.\"",
                "A description of the clients' load.";
            target: Text("a client's name") or "the first client", "\"database\"",
                "The client whose latency is shown in the results.";
            table: Word(&["clients", "target"]) = "\"clients\"", "\"target\"",
                "The layout of the results. `\"clients\"` shows a line for each policy, followed by a row for each client. `\"target\"` \
                 shows the target's latency, and the bandwidth of all clients together.";
            drives: List("drives, by name, by profile, or as a model's table") = "[\"demo\"]", "[\"samsung-970-pro\"]",
                "The drives on which the scenario is played, unless `--drive` is given.";
            policies: List("policies") = "[\"none\", \"bfq\", \"contract\"]", "[\"none\", \"contract\"]",
                "The policies that are compared, unless `--policy` is given.";
            repetitions: Count(1, 10_000) = "10", "3",
                "The number of times that the scenario is played, each time with different random numbers, unless `--repetitions` is \
                 given. A scenario without random numbers is played once.";
            expect: List("tables, one `[[expect]]` for each") = "[]", "[{ promise = \"target\" }]",
                "Expectations that the results must meet.";
            published: List("tables, one `[[published]]` for each") = "[]",
                "[{ policy = \"none\", figure = \"mean\", value = \"38ms\", source = \"a paper\" }]",
                "Figures that others have published for the same scenario. They are shown next to the simulated figures.";
        },
        VARIED,
        keys! {
            case: Table("one `[case.NAME]` for each") or "one case",
                "{ writers = { client.reader = { rw = \"write\" } } }",
                "Variants of the scenario. Each case states only its differences from the file, which can be any key from `duration` to \
                 `client`. `[case.NAME.client.CLIENT]` changes a client, and `[[case.NAME.client]]` adds one. A case can use only one \
                 of these two forms.";
            on: Table("`[on.disk]`, `[on.flash]`") or "the same on every drive", "{ disk = { duration = \"10s\" } }",
                "Differences that apply on rotating drives (`disk`) and on other drives (`flash`), in the form of a case.";
            under: Table("one `[under.POLICY]` for each") or "the same under every policy",
                "{ contract = { client.target = { min = \"10MB/s\" } } }",
                "Differences that apply under one policy, in the form of a case. The differences of the case are applied first, then \
                 those of `on`, then those of `under`.";
        },
    ],
};

/// The keys that cases, kinds of drives and policies can change.
pub(crate) const VARIED: &[KeyDeclaration] = keys! {
    duration: Time(Span::from_millis(1), HOUR) = "\"8s\"", "\"2s\"",
        "The time that is measured, unless `--seconds` is given.";
    run_in: Time(Span::ZERO, HOUR) = "\"3s\"", "\"0s\"",
        "The time for which the drive is read sequentially before the run, followed by one second without requests. During this time, \
         policies that learn the speed of a drive can do so. It is not included in any other time. With `\"0s\"`, the run starts as \
         after boot.";
    warm_up: Time(Span::ZERO, HOUR) = "\"500ms\"", "\"1s\"",
        "The time at the start of the run that is not measured.";
    await: Text("a client's name") or "none", "\"database\"",
        "A client whose last request is waited for. The client issues no more requests when the time is over, but the run goes on until \
         its last request completes. This way, a request that takes longer than the whole run is also measured.";
    exitall: Text("a client's name") or "a run lasts for its `duration`", "\"program\"",
        "A client with a number of requests (`number_ios`). The run ends when the last of them completes, unless `duration` ends \
         before. The figure `runtime` is the time that they took.";
    meant_for: Rate or "promises are as stated", "\"250MB/s\"",
        "The capacity of the drive for which the values of `min` are intended. On a slower drive, each `min` is reduced in proportion \
         to the drive's capacity and rounded down to a multiple of 100 kB/s.";
    grouping: Word(&["each", "none"]) = "\"each\"", "\"none\"",
        "The group of a client that names none. With `\"each\"`, it has a group of its own. With `\"none\"`, it is in the root group \
         and has no contract.";
    layout: Word(&["volumes", "files"]) = "\"volumes\"", "\"files\"",
        "The placement of the clients' files. With `\"volumes\"`, each file is a separate address space. With `\"files\"`, all files \
         are adjacent on one device, as in a file system.";
    spread: Size(0, FILE_MOST, 1) or "the files are adjacent", "\"100GiB\"",
        "The part of the drive, from its start, over which the files are scattered, as in a file system that has been in use for long. \
         Extents of 128 MiB are placed at random. Seeks between the parts of a file then take longer. The block layer still \
         sees adjacent files. It requires `layout = \"files\"`.";
    capacity: Table("`capacity = { ... }`") or "the throughput that the drive sustains in the worst case",
        "{ read = \"160MB/s\", write = \"120MB/s\" }",
        "The capacity that the drive's owner states. Promises are compared with it.";
    freeze: Table("`freeze = { ... }`") or "the drive never stalls",
        "{ first = \"1500ms\", length = \"1s\", every = \"5s\" }",
        "Periods in which the drive stalls.";
    host: Table("`[host]`") = "{}", "{ nr_requests = \"linux\" }",
        "The host between the clients and the drive.";
    path: Table("`[path]`") or "clients call the block layer directly", "{ latency = \"50us\" }",
        "The path from the clients to a server and back.";
    guest: Table("`[guest]`") or "there are no virtual machines", "{ ring = \"virtio\" }",
        "The virtual machines in which the clients run, and the rings to their back end. It cannot be combined with `path`.";
    group: List("tables, one `[[group]]` for each") = "[]", "[{ name = \"acme\", min = \"20MB/s\" }]",
        "Groups of several clients or of other groups.";
    client: List("tables, one `[[client]]` for each"),
        "[{ name = \"reader\", rw = \"read\", bs = \"128KiB\", size = \"1GiB\" }]",
        "The clients.";
    change: List("tables, one `[[change]]` for each") = "[]", "[{ when = \"2s\", whose = \"acme\", min = \"10MB/s\" }]",
        "Contracts that change during the run.";
};

pub(crate) const FREEZE: Shape = Shape {
    name: "freeze = { ... }",
    about: "Periods in which the drive stalls, as flash does during garbage collection, or a disk that reads a bad sector again. Commands that \
            are in the drive complete later by the length of the stall.",
    keys: &[keys! {
        first: Time(Span::ZERO, HOUR), "\"1500ms\"",
            "The start of the first stall, counted from the beginning of the run.";
        length: Time(NANO, HOUR), "\"1s\"",
            "The length of each stall. It must be less than `every`.";
        every: Time(NANO, HOUR), "\"5s\"",
            "The time from the start of one stall to the start of the next.";
    }],
};

pub(crate) const HOST: Shape = Shape {
    name: "[host]",
    about: "The host between the clients and the drive.",
    keys: &[keys! {
        nr_requests: Or(&KeyKind::Count(1, 65_536), "`\"linux\"`") or "unlimited", "\"linux\"",
            "The maximum number of requests in the elevator and the drive together, for each hardware queue. `\"linux\"` selects \
             Linux's default: the depth of the queue without an elevator, and twice that, but at most 256, with one of Linux's \
             elevators. Under `contract` it is unlimited, and under `cfq` the tunable of this name applies.";
        adapter: Word(&["linux", "none"]) = "\"none\"", "\"linux\"",
            "The adapter of the drive. With `\"linux\"`, a drive with one queue of at most 32 commands is connected to an ATA adapter, \
             on which a flush is not a queued command.";
        nomerges: Count(0, 2) = "2", "0",
            "The merging of adjacent requests into one command, as Linux does it under its elevators (`nomerges`). With `0`, all \
             adjacent requests are merged. With `1`, requests are merged in the plug, and with the last request that was merged. With \
             `2`, no requests are merged.";
        plug: Word(&["cache", "all", "none"]) = "\"cache\"", "\"all\"",
            "The requests that reach the elevator together and are merged before (plugging). It applies if requests are merged. With \
             `\"cache\"`, these are the requests that a process issues together through the page cache. With `\"all\"`, they also \
             include direct requests, such as several in one `io_submit`.";
        read_ahead: Size(0, 16 << 20, 4096) = "\"128KiB\"", "\"4MiB\"",
            "The maximum amount that the page cache reads ahead (`read_ahead_kb`).";
        copy: Time(NANO, Span::from_secs(1)) = "\"1us\"", "\"500ns\"",
            "The CPU time of a system call for each page that it reads from the page cache or writes to it.";
        wakeup: Time(Span::ZERO, Span::from_secs(1)) = "\"0s\"", "\"20us\"",
            "The maximum delay until a process that waited for the page cache runs again. Each delay is drawn from a uniform \
             distribution, so that runs differ from each other as on a real host.";
        dirty_bytes: Size(1 << 20, 1 << 40, 4096) = "\"1GiB\"", "\"64MiB\"",
            "The amount of data that writers through the page cache can have written, and that is not on the drive yet \
             (`vm.dirty_bytes`). Linux's default is 20 % of the available memory. From half of it on, the data are written back, by a \
             flusher for each group, and from three quarters on, writers are throttled. A kernel that is built as a program has \
             32 MiB instead of the default.";
        filesystem: Word(&["ext4", "btrfs", "none"]) = "\"none\"", "\"ext4\"",
            "The file system of the clients' files, with `layout = \"files\"`. With `\"ext4\"`, an `fdatasync` after a write to new \
             blocks waits for a commit of the journal, which in turn waits for the data of every file that was allocated blocks since \
             the last commit. With `\"btrfs\"`, an `fdatasync` waits for its own data and for a log, and data are written to new \
             places. With `\"none\"`, all blocks are already allocated, and an `fdatasync` is only a flush.";
    }],
};

table! {
    /// The path from a client to the server and back, with the server's single thread.
    ///
    /// The thread works in turns, as that of the real server does. A turn takes all requests that
    /// have arrived when it begins, passes them to the layer with that time, and sends its replies
    /// when it ends. Requests that arrive during a turn wait for the next one. One half of a
    /// request's CPU time belongs to the turn of its arrival, and the other half to the turn of its
    /// reply.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Path: PATH = "[path]",
        "The path from a client to the server and back, and the server's thread on it.";

    latency: Span as Time(Span::ZERO, Span::from_secs(1)) = "\"0s\"", "\"50us\"",
        "The network latency in each direction: from the client to the server, and from the server to the client.";
    turn: Span as Time(Span::ZERO, Span::from_secs(1)) = "\"0s\"", "\"10us\"",
        "The CPU time of one pass of the server's loop (a turn), independent of the number of requests.";
    processor: Span as Time(Span::ZERO, Span::from_secs(1)) = "\"0s\"", "\"4us\"",
        "The CPU time that each request adds to the turns of the server.";
}

/// The keys of a group in addition to its contract. The first is also a key of a client.
const NAMED: &[KeyDeclaration] = keys! {
    name: Text("1 to 64 letters, digits, dots, dashes and underscores"), "\"reader\"",
        "The name of the client or group.";
    parent: Text("the name of a group before it") or "the root", "\"acme\"",
        "The parent of the group in the tree of groups.";
};

pub(crate) const GROUP: Shape = Shape {
    name: "[[group]]",
    about: "A group of clients or of other groups, with a contract for all of them together.",
    keys: &[NAMED, CONTRACTS],
};

pub(crate) const CHANGE: Shape = Shape {
    name: "[[change]]",
    about: "A contract that replaces an earlier contract completely, so any key that it does not state has its default. If a min changes \
            during a run, the tables judge the smallest min.",
    keys: &[
        keys! {
            when: Time(Span::ZERO, HOUR), "\"2s\"",
                "The time of the change, counted from the beginning of the run.";
            whose: Text("the name of a group, or of a client that is in a group of its own"), "\"acme\"",
                "The group or client whose contract changes.";
        },
        CONTRACTS,
    ],
};

pub(crate) const CLIENT: Shape = Shape {
    name: "[[client]]",
    about: "One client, or several identical clients. Keys that `fio` has are named and defined as in `fio`, and have the defaults of `fio`.",
    keys: &[NAMED.split_at(1).0, ACCESS, PACE, PLACE, REPLAY, CONTRACTS],
};

/// The kinds of requests, in the words of `fio`.
pub(crate) const RW: [&str; 7] = [
    "read",
    "write",
    "rw",
    "readwrite",
    "randread",
    "randwrite",
    "randrw",
];

/// The keys for the requests of a client.
const ACCESS: &[KeyDeclaration] = keys! {
    numjobs: Count(0, 4096) or "one client, called NAME", "15",
        "The number of identical clients. They are called `NAME-01`, `NAME-02` and so on.";
    first: Count(0, 1_000_000) = "1", "0",
        "The number of the first of these clients.";
    rw: Word(&RW) = "\"read\"", "\"randread\"",
        "The kind of requests: reads, writes or both, in sequence or at random positions.";
    rwmixread: Count(0, 100) = "50", "70",
        "The percentage of reads, for a client that reads and writes.";
    bs: Or(&KeyKind::Size(1, REQUEST_MOST, 1), "a range or a split") = "\"4KiB\"", "\"4KiB/60:64KiB/40\"",
        "The size of a request. It is a single size, or a range such as `\"4KiB-64KiB\"` (any multiple of the smaller size up to the \
         larger one), or a list such as `\"4KiB/60:64KiB/40\"` (sizes, each with its percentage of the requests).";
    iodepth: Count(1, 65_536) = "1", "16",
        "The maximum number of requests in flight. It is 1 for a client that uses the page cache.";
    iodepth_low: Count(0, 65_536) or "the value of `iodepth`", "8",
        "The number of requests in flight at which the client continues. After it has reached `iodepth`, the client waits until at most \
         this number are in flight, and then issues requests up to `iodepth` again.";
    direct: Flag = "false", "true",
        "Whether the client bypasses the page cache (`O_DIRECT`).";
    writeback: Flag = "false", "true",
        "Whether the client's direct writes represent requests of the write-back of the page cache, with a depth of `iodepth`. The \
         elevator treats such writes as asynchronous, while other direct writes are synchronous. Under Linux (`--on guest`, `--on \
         linux`), the client writes through the page cache instead. It requires `direct`. Without `direct`, the write-back itself is \
         modelled.";
    fsync: Count(0, 65_536) = "0", "1",
        "The number of writes after which the client calls `fsync` and waits for it. With 0, it never does. An `fsync` is treated as an \
         `fdatasync`, because timestamps of files are not modelled.";
    fdatasync: Count(0, 65_536) = "0", "1",
        "The number of writes after which the client calls `fdatasync` and waits for it. With 0, it never does. Data that a client \
         writes through the page cache without `fsync` or `fdatasync` are written back later (`dirty_bytes`).";
    flush: Count(0, 65_536) = "0", "8",
        "The number of writes after which the client issues a flush without waiting for it. With 0, it never does. `fio` has no \
         equivalent.";
    sync: Word(&["none", "dsync"]) = "\"none\"", "\"dsync\"",
        "The durability of writes. With `\"dsync\"`, a write is durable when it completes (`O_DSYNC`, FUA). It requires `direct`.";
    ionice: Other("`\"realtime\"`, `\"best-effort\"` or `\"idle\"`, optionally with a level, for example `\"best-effort:7\"`") = "\"best-effort:4\"",
        "\"realtime\"",
        "The client's I/O priority (`prioclass` and `prio`), for policies that use it. Under a policy that uses classes (`contract`), \
         it is the class of a contract that states none. In that case, `idle` applies only without a min, and `realtime` only with a \
         max.";
};

/// The keys for the times of a client's requests.
const PACE: &[KeyDeclaration] = keys! {
    rate: Or(&KeyKind::Rate, "two of them, as in `\"20MB/s,5MB/s\"`, for reads and for writes") or "the next request follows a reply",
        "\"20MB/s\"",
        "The bytes per second that the client requests, independent of replies. The latency of a late request counts from the time at \
         which it was due. For a client that reads and writes, the rate applies to reads and to writes separately. One of two rates can \
         be left out, in which case it is not limited. It requires a `bs` of a single size.";
    rate_iops: Or(&KeyKind::Count(1, 1_000_000_000), "two of them, as in `\"1000,500\"`, for reads and for writes")
        or "the next request follows a reply",
        "200",
        "The requests per second that the client issues, for reads and for writes separately. Otherwise it is the same as `rate`.";
    rate_for: Word(&["each", "both"]) = "\"each\"", "\"both\"",
        "Whether the rate of a client that reads and writes applies to reads and to writes separately, as in `fio`, or to both together.";
    rate_process: Word(&["linear", "poisson"]) = "\"linear\"", "\"poisson\"",
        "The distribution of the times between the requests of a `rate`: equal, or exponential.";
    thinktime: Time(Span::ZERO, HOUR) = "\"0s\"", "\"100ms\"",
        "The time from a reply to the next request, for each of the `iodepth` requests in flight.";
    thinktime_blocks: Count(1, 65_536) = "1", "15",
        "The number of replies after which the client pauses for `thinktime`.";
    deadline: Time(NANO, HOUR) or "none", "\"40ms\"",
        "The time after which the reply to a read or a write is too late, counted from when the request was due. An example is a frame \
         of a video, which is dropped if it is late. Late requests are counted (the figure `late`), including requests that could not \
         be sent in time. `fio` has no equivalent.";
    startdelay: Or(&KeyKind::Time(Span::ZERO, HOUR), "a range of times") = "\"0s\"", "\"1s\"",
        "The time at which the client starts, counted from the beginning of the warm-up. With a range such as `\"0ms-20ms\"`, each \
         client draws its own time in each run.";
    runtime: Time(NANO, HOUR) or "until the end of the run", "\"5s\"",
        "The time for which the client is active, counted from its start.";
    number_ios: Count(1, 1 << 60) or "unlimited", "10000",
        "The number of requests after which the client ends.";
    on: Time(NANO, HOUR) or "the client never pauses", "\"2s\"",
        "The time for which the client is active before it pauses for `off`. The two alternate. Requests of a `rate` do not accumulate \
         during a pause.";
    off: Time(NANO, HOUR) or "the client never pauses", "\"1s\"",
        "The length of each pause.";
    arrives: Time(Span::ZERO, HOUR) = "\"0s\"", "\"1s\"",
        "The time at which the client connects.";
    leaves: Time(NANO, HOUR) or "the client stays connected", "\"6s\"",
        "The time at which the client disconnects. Requests in flight at that time have failed.";
};

/// The keys for the position of a client's requests, and for its group and guest.
const PLACE: &[KeyDeclaration] = keys! {
    size: Size(1, FILE_MOST, 1) or "required, except with `read_iolog`", "\"1GiB\"",
        "The number of bytes of the client's file that it uses, beginning at `offset`. With `read_iolog`, it is the end of the last \
         range of the recorded load.";
    offset: Size(0, FILE_MOST, 1) = "\"0B\"", "\"64KiB\"",
        "The position in the file at which these bytes begin.";
    offset_increment: Size(0, FILE_MOST, 1) = "\"0B\"", "\"16KiB\"",
        "The amount by which `offset` increases for each of the `numjobs` clients after the first.";
    file: Text("a name") or "each client has a file of its own", "\"table\"",
        "The name of the client's file (`filename`). Clients with the same name share the file.";
    nrfiles: Count(1, 1024) = "1", "4",
        "The number of files of equal size into which `size` is divided. The requests go to the files in rotation. It requires `direct`.";
    random_distribution: Other("`\"random\"`, `\"zipf:EXPONENT\"`, `\"pareto:PART\"` or `\"normal:PERCENT\"`, optionally with a `:CENTER`")
        = "\"random\"",
        "\"zipf:1.1\"",
        "The distribution of random positions. With `\"random\"`, all positions are equally likely. With `\"zipf\"`, the probability of \
         the k-th most popular position is in proportion to 1/k^EXPONENT (above 0 and up to 100; `\"zipf\"` alone is 1). With \
         `\"pareto\"`, the part 1 - PART of all requests goes to the part PART of the positions, and so on within that part (between 0 \
         and 1). With `\"normal\"`, requests are concentrated around the middle: the mean of twelve random numbers is displaced by up \
         to half of PERCENT of all positions (from 0 to below 100). Popular positions are scattered over the file; the most popular one \
         is at CENTER of the file, from 0 to 1.";
    norandommap: Flag = "false", "true",
        "Whether random positions can repeat. If false, each position is used once before any is used again. If true, each is drawn \
         from all positions.";
    percentage_random: Or(&KeyKind::Count(0, 100), "two of them, as in `\"100,0\"`, for reads and for writes") = "100",
        "80",
        "The percentage of random requests, for a client with random positions. The other requests continue where the last request of \
         their kind ended. Random requests are drawn from all positions each time.";
    zonesize: Size(1, FILE_MOST, 1) or "no zones", "\"16KiB\"",
        "The number of bytes that the client uses in each zone (`zonemode=strided`). It is for sequential requests only.";
    zoneskip: Size(0, FILE_MOST, 1) = "\"0B\"", "\"32KiB\"",
        "The number of bytes that the client skips after each zone.";
    group: Text("the name of a `[[group]]`") or "determined by `grouping`", "\"acme\"",
        "The group that contains the client. A client with this key has no contract of its own.";
    guest: Text("a name") or "a virtual machine of its own", "\"database\"",
        "The virtual machine in which the client runs. Clients with the same name share a ring and a CPU. It requires `[guest]`.";
    empty_kicks: Count(0, 10_000_000) = "0", "100000",
        "The number of notifications per second that the client's virtual machine sends without a request, as a broken or hostile one \
         does. They take none of the virtual machine's own CPU time. It requires `[guest]`.";
};

/// The keys for a recorded load.
const REPLAY: &[KeyDeclaration] = keys! {
    read_iolog: Text("the path of a file") or "the client's own requests", "\"database.iolog\"",
        "A recorded load that the client plays instead of requests of its own: an iolog of `fio` (versions 2 and 3), a trace that \
         `blkparse -d` has merged, or the name before `.blktrace.0`, which selects the traces of all processors. The path is relative \
         to the working directory, or otherwise to the directory of this file. It requires `direct`. Files and devices of the \
         load follow each other in the client's file.";
    replay_no_stall: Flag = "false", "true",
        "Whether the recorded times are ignored. If false, each request is due at its recorded time, independent of replies, and waits \
         only while `iodepth` requests are in flight. Its latency counts from when it was due, as with a `rate`. If true, or if the \
         load contains no times, a request follows as soon as `iodepth` permits.";
    replay_time_scale: Count(1, 1_000_000) = "100", "200",
        "The speed of the recorded times in percent. With 200, the load takes half of its recorded time.";
    replay_scale: Count(1, 1 << 40) = "1", "4",
        "The number by which recorded offsets are divided.";
    replay_align: Size(1, 1 << 40, 1) or "offsets are as recorded", "\"4KiB\"",
        "The power of two to whose multiples recorded offsets are rounded down, after `replay_scale`.";
    replay_redirect: Text("a name") or "each file and device is separate", "\"disk\"",
        "The name of a file (`file`) that replaces all files and devices of the recorded load.";
    replay_skip: Text("a list of `read`, `write`, `trim` and `sync`") or "nothing is skipped", "\"write,trim\"",
        "The kinds of recorded requests that are left out.";
};

const FIGURES: &[&str] = &words::<_, 19>(Figure::WORDS);

pub(crate) const EXPECT: Shape = Shape {
    name: "[[expect]]",
    about: "An expectation that the results must meet: one of `promise`, `shares`, `max` and `figure`. It determines the verdicts and the \
            columns of the tables, and `weir compare --check` fails if one expectation is not met.",
    keys: &[keys! {
        promise: Text("a client's name, or `all`") or "not checked", "\"target\"",
            "The client whose promise (`min`, `min_iops`) must be met in every second. `\"all\"` selects every client.";
        shares: Other("a percentage as a string") or "not checked", "\"5%\"",
            "The maximum deviation of the clients' bandwidths from the proportions of their shares, over the whole run.";
        max: Other("a percentage as a string") or "not checked", "\"2%\"",
            "The maximum deviation of a client's bandwidth from its `max.bandwidth`. The client must neither exceed the max nor stay \
             below it by more than this percentage.";
        figure: Word(FIGURES) or "not checked", "\"p99\"",
            "The figure of `client` that must be within `at_least` and `at_most`.";
        client: Text("a client's name, `others` or `total`") or "the target", "\"total\"",
            "The client of the figure. `\"others\"` is all clients except the target together, `\"total\"` all clients together.";
        at_least: Other("a rate, a time, a number or a percentage, as the figure is") or "no bound", "\"200MB/s\"",
            "The smallest value that the figure can have.";
        at_most: Other("as `at_least`") or "no bound", "\"1ms\"",
            "The largest value that the figure can have.";
        beside: Text("a policy") or "the bounds are absolute", "\"none\"",
            "The policy that the bounds refer to. They are then percentages of the same figure under this policy.";
        beside_case: Text("a case") or "the bounds are absolute", "\"idle\"",
            "The case that the bounds refer to. They are then percentages of the same figure in this case, under the same policy.";
        policies: List("policies") or "all policies", "[\"contract\"]",
            "The policies under which the expectation must be met. Under other policies the result is only shown.";
    }],
};

pub(crate) const PUBLISHED: Shape = Shape {
    name: "[[published]]",
    about: "A published figure of the target.",
    keys: &[keys! {
        drive: Text("a drive") or "all drives", "\"plextor-px-256m5s\"",
            "The drive for which the figure was published.";
        case: Text("a case") or "all cases", "\"readers\"",
            "The case for which the figure was published.";
        policy: Text("a policy"), "\"bfq\"",
            "The policy under which the figure was measured.";
        figure: Word(FIGURES), "\"mean\"",
            "The kind of figure.";
        client: Text("a client's name, `others` or `total`") or "the target", "\"total\"",
            "The client of the figure.";
        value: Other("a rate, a time, a number or a percentage, as the figure is"), "\"38.7ms\"",
            "The published value.";
        source: Text("text"), "\"a paper, page 7\"",
            "The publication.";
    }],
};
