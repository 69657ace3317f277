//! What was published of notification between guests and their back end, beside what comes out here: the tables of `docs/coalescing.md`
//! are what the scenarios `ring`, `coalescing` and `storm` give.

mod common;

use common::{Scratch, run};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// The results of a scenario.
struct Played {
    records: Vec<Value>,
}

impl Played {
    /// Of one repetition on these drives; `seconds` if not the scenario's.
    fn new(scenario: &str, drives: &[&str], seconds: Option<&str>) -> Self {
        let mut arguments = vec!["compare", scenario, "--json", "-", "--repetitions", "1"];
        if let Some(seconds) = seconds {
            arguments.extend(["--seconds", seconds]);
        }
        for drive in drives {
            arguments.extend(["--drive", drive]);
        }
        let said = run(&Scratch::new(), &arguments);
        assert_eq!(said.status, Some(0), "{arguments:?}: {}", said.err);
        let lines = said.out.lines();
        let read = |line| serde_json::from_str(line).expect("an object a line");
        Self {
            records: lines.map(read).collect(),
        }
    }

    /// The record of a client.
    fn of(&self, drive: &str, case: &str, policy: &str, client: &str) -> &Value {
        let is = |r: &&Value| {
            r["drive"] == drive
                && r["case"] == case
                && r["policy"] == policy
                && r["client"] == client
        };
        let found = self.records.iter().find(is);
        found.unwrap_or_else(|| panic!("{drive}, {case}, {policy}, {client}"))
    }

    fn cell(&self, drive: &str, case: &str) -> Cell {
        let target = self.of(drive, case, "none", "guest");
        let total = self.of(drive, case, "none", "total");
        let split = &target["split_us"];
        let parts = ["limit", "elevator", "drive"];
        let rings = &total["rings"];
        Cell {
            guest: number(&target["latency_us"]["mean"]),
            backend: parts.iter().map(|part| number(&split[part])).sum(),
            mbps: number(&total["throughput_mbps"]),
            kicks: number(&rings["kicks"]),
            calls: number(&rings["calls"]),
            per_request: number(&rings["calls_per_request"]),
            wakeups: number(&rings["wakeups"]),
            guest_cpu: number(&rings["guest_percent"]),
            backend_cpu: number(&rings["backend_percent"]),
        }
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// What a table shows of a run.
struct Cell {
    guest: f64,
    backend: f64,
    mbps: f64,
    kicks: f64,
    calls: f64,
    per_request: f64,
    wakeups: f64,
    guest_cpu: f64,
    backend_cpu: f64,
}

/// Microseconds, with a unit that fits.
fn time(us: f64) -> String {
    match us {
        us if us < 1000.0 => format!("{us:.0} us"),
        us if us < 100_000.0 => format!("{:.2} ms", us / 1e3),
        us => format!("{:.0} ms", us / 1e3),
    }
}

/// How much lower, in per cent; higher with a plus.
fn lower(old: f64, new: f64) -> String {
    let part = (1.0 - new / old) * 100.0;
    let part = if part.abs() < 0.05 { 0.0 } else { part };
    if part < 0.0 {
        format!("+{:.1} %", -part)
    } else {
        format!("{part:.1} %")
    }
}

fn row<T: AsRef<str>>(page: &mut String, cells: &[T]) {
    let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

fn head(page: &mut String, titles: &[&str], texts: usize) {
    row(page, titles);
    let lines = (0..titles.len()).map(|at| if at < texts { "---" } else { "---:" });
    row(page, &lines.collect::<Vec<_>>());
}

/// Drives that turn, which take a minute, and those that do not.
const SLOW: [&str; 5] = [
    "seagate-no-ncq",
    "seagate-st3808110as",
    "stripe-2",
    "stripe-4",
    "stripe-8",
];
const FAST: [&str; 3] = ["samsung-970-pro", "scsi-debug", "iscsi-1ms"];

const DEPTHS: [u32; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];

const LOADS: [&str; 5] = [
    "cache-read",
    "cache-write",
    "64k-writers",
    "depth-256",
    "mixed-sizes",
];

const POLICIES: [&str; 7] = [
    "at-once", "spin", "sleep", "throttle", "delay", "vic", "spdk",
];

fn page() -> String {
    let mut page = HEAD.to_owned();
    let played = [
        Played::new("ring", &SLOW, Some("30")),
        Played::new("ring", &FAST, None),
    ];
    let drives = || {
        let slow = SLOW.iter().map(|drive| (&played[0], *drive));
        slow.chain(FAST.iter().map(|drive| (&played[1], *drive)))
    };
    page.push_str(SWEEP);
    let mut titles = vec!["drive".to_owned()];
    titles.extend(DEPTHS.iter().map(|n| format!("N = {n}")));
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    head(&mut page, &titles, 1);
    for (played, drive) in drives() {
        let mut cells = vec![drive.to_owned()];
        for n in DEPTHS {
            let old = played.cell(drive, &format!("{n}-old"));
            let new = played.cell(drive, &format!("{n}-new"));
            cells.push(lower(old.guest, new.guest));
        }
        row(&mut page, &cells);
    }
    page.push_str(LOADED);
    head(&mut page, RINGS, 3);
    for (played, drive) in drives() {
        for load in ["2", "32"].iter().chain(&LOADS) {
            for rule in ["old", "new"] {
                let cell = played.cell(drive, &format!("{load}-{rule}"));
                full(&mut page, [drive, load, rule], &cell);
            }
        }
    }
    page.push_str(COALESCED);
    let played = Played::new("coalescing", &FAST, None);
    head(&mut page, RINGS, 3);
    for drive in FAST {
        let loads = [
            "1",
            "2",
            "32",
            "cache-read",
            "64k-writers",
            "depth-256",
            "mixed-sizes",
        ];
        for load in loads {
            for policy in POLICIES {
                let cell = played.cell(drive, &format!("{load}-{policy}"));
                full(&mut page, [drive, load, policy], &cell);
            }
        }
    }
    storm(&mut page);
    page
}

const RINGS: &[&str] = &[
    "drive",
    "load",
    "rule",
    "guest",
    "back end",
    "MB/s",
    "kicks/s",
    "calls/s",
    "calls a request",
    "wake-ups/s",
    "guest's processor",
    "back end's",
];

fn full(page: &mut String, names: [&str; 3], cell: &Cell) {
    let mut cells: Vec<String> = names.iter().map(|&n| n.to_owned()).collect();
    cells.extend([time(cell.guest), time(cell.backend)]);
    cells.push(format!("{:.1}", cell.mbps));
    cells.extend([cell.kicks, cell.calls].map(|n| format!("{n:.0}")));
    cells.push(format!("{:.2}", cell.per_request));
    cells.push(format!("{:.0}", cell.wakeups));
    cells.extend([cell.guest_cpu, cell.backend_cpu].map(|n| format!("{n:.1} %")));
    row(page, &cells);
}

/// Neighbours of a guest that kicks without work.
fn storm(page: &mut String) {
    let played = Played::new("storm", &["demo"], None);
    page.push_str(STORM);
    let titles = [
        "case",
        "neighbours, each",
        "worst second of any",
        "lost beside calm",
        "of their minimum",
        "the guest that storms (limit 10 MB/s)",
        "wake-ups/s",
        "back end's processor",
    ];
    head(page, &titles, 1);
    let mbps = |case, client: &str| {
        let record = played.of("demo", case, "contract", client);
        number(&record["throughput_mbps"])
    };
    let names: Vec<String> = (1..=4).map(|n| format!("neighbour-0{n}")).collect();
    let each = |case| names.iter().map(|n| mbps(case, n)).sum::<f64>() / 4.0;
    for case in ["calm", "at-once", "sleep", "throttled"] {
        let worst = names.iter().map(|name| {
            let record = played.of("demo", case, "contract", name);
            number(&record["worst_second_mbps"])
        });
        let worst = worst.fold(f64::INFINITY, f64::min);
        let lost = each("calm") - each(case);
        let total = played.of("demo", case, "contract", "total");
        let rings = &total["rings"];
        row(
            page,
            &[
                case.to_owned(),
                format!("{:.3} MB/s", each(case)),
                format!("{worst:.2} MB/s"),
                format!("{lost:.3} MB/s"),
                format!("{:.2} %", lost / 20.0 * 100.0),
                format!("{:.3} MB/s", mbps(case, "storm")),
                format!("{:.0}", number(&rings["wakeups"])),
                format!("{:.1} %", number(&rings["backend_percent"])),
            ],
        );
    }
}

const HEAD: &str = "\
# Notification between guests and their back end

A guest tells its back end of requests (a *kick*), the back end tells the guest of responses (a *call*). Each notification costs processor time on
both sides; one that is left out or late costs latency. xen-devel discussed this in 2011 under \"blkback: Fix block I/O latency issue\" (P. Vincent,
K. R. Wilk). The scenarios below play what was asked for there, in virtual time, over the server's rings and notification (`rings.md`).
`WEIR_BLESS=1 cargo test -p weir --test coalescing` prints this page anew.

    weir compare ring                        when the back end asks for the next kick, before 2011 and since
    weir compare coalescing                  every policy of notification
    weir compare storm --check               a guest that kicks without work beside promised ones
    weir compare ring --drive stripe-8 --case 2-old --case 2-new

## The model

A guest (`[guest]` in `scenarios.md`) has one processor, a ring, and a thread of the back end. Each of them does one thing at a time.

    client ─► request ─► … plug … ─► publish ─► event ─► ipi ─► wake ─► look ─► take ─► layer, drive
                guest's processor    does the back end want it?   back end's thread          │
    client ◄─ response ◄─ interrupt ◄─ ipi ◄─ event ◄─ does the guest want it? ◄─ answer ◄────┘

Nine of these steps cost time (`[guest.cost]`), 28 us together for a request alone on the drive. **These costs are assumed**: orders of magnitude for
processors of that time, since the thread states none. They make no difference where the drive takes milliseconds, and are most of what a
row for `scsi-debug` shows. Also ours: 8 KiB and 8 GiB for orion's small random requests, which parts of a file are read and written, how long a run
is. Not modelled: several processors of a guest, copies, grants, cache misses of a wake-up, other work of the processors.

The guest's latency runs from its program's question to the answer; the back end's (Dom-0's) from when it has the request, or the last piece of one
that the guest cuts, to the drive's answer. The back end asks for the next kick, *before 2011*, when it has answered all that it took
(`xen-before-2011`), *since* then when it has taken all there is (`xen`).

## What was published, and what comes out

| published | here |
| --- | --- |
| With two small requests at a time \"50+ % latency benefit\", and the guest's latency is about twice Dom-0's | Twice Dom-0's wherever the drive takes milliseconds. Lower by half on the target that wakes each millisecond (from two on), by 45 % on eight spindles, where two requests meet on one spindle one time in eight, by 38 % on flash. Nothing on one disk, which serves one at a time; with command queueing, 7 % with three requests. |
| On several spindles the gain is highest with twice as many requests as spindles | **Not here**: the peak is at two requests, however many spindles there are; at twice the spindles 3, 1 and 1 % are left (two, four and eight). The old rule leaves the drive N - 1 of N requests. |
| With the page cache the rate of kicks does not go up at high load | Reads: one kick for each window of read-ahead instead of none, nothing gained but on flash. |
| 64 KiB, four threads writing to a target in memory: 2 to 3 kicks a second, since then about 5,000 | `iscsi-1ms`: 0, since then 1,000, one each time that target wakes. Flash: 0 and 17,544. |
| Four threads of 512 B to 64 KiB on the 4 us target: about 20,000 kicks a second | 836 and 4,982: with the assumed costs the back end's processor is the bottleneck and hardly ever sleeps. Flash, the closest according to the thread: 32 and 22,420. |
| High load (two threads, 256 at a time): about 1 %; the slow target hardly generates kicks | From 0.2 % more latency to 2.3 % less. But 43 % less on the target that wakes each millisecond: by the old rule half of the ring waits for the other half. |
| Waiting \"200+ us\" caps wake-ups at 5,000 a second | `sleep 200us`: 5,000, and latencies of 200 us where it was 30 to 120. |
";

const SWEEP: &str = "
## The gain over the number of requests

How much lower the guest's mean latency is since 2011, with N small random requests at a time, half of them writes. `stripe-n`: n disks like
`seagate-st3808110as`. `seagate-no-ncq`: that disk without command queueing.

";

const LOADED: &str = "
## Every load, by both rules

Guest and back end: mean latencies. Processors: of one processor's time, for what the ring costs. `2` and `32`: as many small random requests at a
time.

";

const COALESCED: &str = "
## Every policy

On a virtqueue. Towards the back end: `at-once`; `spin 50us`; `sleep 200us`; `throttle 5000` (Linux's answer to XSA-332). Towards the guest: `delay 100us 8`
(NVMe's), `vic` (by commands in flight), `spdk 50us` (by the rate). Neither of the last two delays one request at a time, and `delay` delays it by
its whole time. With 32 at a time a quarter of a call for each request is enough for all three, and only these three make a saturated back end
faster. Spinning pays where the next request comes within its time, and takes a processor for it.

";

const STORM: &str = "
## A storm of empty kicks

Four guests with 20 MB/s promised to each under `contract`, on a drive of 250 MB/s, share one thread of the back end with a fifth that kicks a
million times a second without a request. Kicks that come during a look are one, and guests take turns: a storm takes idle time and one look
between two requests of the others, which costs nothing while the drive is the limit. Where the thread is (`--drive samsung-970-pro`),
`at-once` takes 3 % of what the neighbours get (515 MB/s each), and `throttle` less than 0.1 %.

";

#[test]
fn the_page_is_what_the_scenarios_give() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/coalescing.md");
    let page = page();
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, &page).expect("writable");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page,
        "docs/coalescing.md is not what the scenarios give; WEIR_BLESS=1 cargo test -p weir --test coalescing prints it anew"
    );
}
