//! Published figures about notifications between guests and their back end, compared with simulated
//! ones. The scenarios `ring`, `coalescing` and `storm` give the tables of `docs/coalescing.md`.

use crate::common::{Scratch, document, prose, record_of, records, run};
use serde_json::Value;
use std::fmt::Write;

/// The results of one scenario.
struct ScenarioResults {
    records: Vec<Value>,
}

impl ScenarioResults {
    /// Plays one repetition on these drives, for `seconds` or for as long as the scenario
    /// specifies.
    fn new(scenario: &str, drives: &[&str], seconds: Option<&str>) -> Self {
        let mut line = format!("compare {scenario} --json - --repetitions 1");
        line.extend(seconds.map(|seconds| format!(" --seconds {seconds}")));
        line.extend(drives.iter().map(|drive| format!(" --drive {drive}")));
        let said = run(&Scratch::new(), &line).ended(0);
        Self {
            records: records(&said.out),
        }
    }

    /// Returns the record of a client.
    fn of(&self, drive: &str, case: &str, policy: &str, client: &str) -> &Value {
        let of = [
            ("drive", drive),
            ("case", case),
            ("policy", policy),
            ("client", client),
        ];
        record_of(&self.records, &of)
    }

    fn cell(&self, drive: &str, case: &str) -> RingFigures {
        let target = self.of(drive, case, "none", "guest");
        let total = self.of(drive, case, "none", "total");
        let split = &target["split_us"];
        let parts = ["limit", "elevator", "drive"];
        let rings = &total["rings"];
        RingFigures {
            guest: number(&target["latency_us"]["mean"]),
            backend: parts.iter().map(|part| number(&split[part])).sum(),
            mb_per_s: number(&total["bandwidth_mb_per_s"]),
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

/// The figures of a run that tables show.
struct RingFigures {
    guest: f64,
    backend: f64,
    mb_per_s: f64,
    kicks: f64,
    calls: f64,
    per_request: f64,
    wakeups: f64,
    guest_cpu: f64,
    backend_cpu: f64,
}

/// Formats microseconds with a suitable unit.
fn time(us: f64) -> String {
    match us {
        us if us < 1000.0 => format!("{us:.0} us"),
        us if us < 100_000.0 => format!("{:.2} ms", us / 1e3),
        us => format!("{:.0} ms", us / 1e3),
    }
}

/// Returns the decrease in percent. An increase has a plus sign.
fn lower(old: f64, new: f64) -> String {
    let part = (1.0 - new / old) * 100.0;
    // A rounded zero must have no sign.
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

/// Rotating drives, whose scenario takes a minute, and other drives.
const SLOW: [&str; 5] = [
    "seagate-no-ncq",
    "seagate-st3808110as",
    "stripe-2",
    "stripe-4",
    "stripe-8",
];
const FAST: [&str; 5] = [
    "samsung-970-pro",
    "scsi-debug",
    "iscsi-1ms",
    "iscsi-1ms-each",
    "iscsi-memory",
];

/// The drives on which every policy is played.
const COALESCING: [&str; 3] = ["samsung-970-pro", "scsi-debug", "iscsi-1ms"];

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

/// The results of the three scenarios.
struct CoalescingResults {
    /// The results of `ring`, on rotating drives and on others.
    slow: ScenarioResults,
    fast: ScenarioResults,
    coalescing: ScenarioResults,
    storm: ScenarioResults,
}

impl CoalescingResults {
    fn new() -> Self {
        Self {
            slow: ScenarioResults::new("ring", &SLOW, Some("30")),
            fast: ScenarioResults::new("ring", &FAST, None),
            coalescing: ScenarioResults::new("coalescing", &COALESCING, None),
            storm: ScenarioResults::new("storm", &["demo"], None),
        }
    }

    /// Returns the figures of a cell of the scenario `ring`.
    fn cell(&self, drive: &str, load: &str, rule: &str) -> RingFigures {
        let played = if SLOW.contains(&drive) {
            &self.slow
        } else {
            &self.fast
        };
        played.cell(drive, &format!("{load}-{rule}"))
    }

    fn both(&self, drive: &str, load: &str) -> [RingFigures; 2] {
        ["old", "new"].map(|rule| self.cell(drive, load, rule))
    }

    /// Returns the decrease of the guest's latency by the rule that is used since 2011.
    fn gain(&self, drive: &str, load: &str) -> String {
        let [old, new] = self.both(drive, load);
        lower(old.guest, new.guest)
    }

    /// Returns the kicks per second with the rule before 2011 and with the rule since then.
    fn kicks(&self, drive: &str, load: &str) -> String {
        let [old, new] = self.both(drive, load);
        format!("{:.0} and {:.0}", old.kicks, new.kicks)
    }
}

fn page() -> String {
    let prose = |begin, row| prose("coalescing.md", begin, row);
    let mut page = prose("# Notifications", "| 115 |");
    let all = CoalescingResults::new();
    latencies(&mut page, &all);
    loads(&mut page, &all);
    targets(&mut page, &all);
    coalescing(&mut page, &all);
    let counts = count(&page);
    page += &prose("\n## Count", "| measured |");
    page += &counts;
    let drives = || SLOW.iter().chain(&FAST);
    page += &prose("\n## Gain", "| seagate-no-ncq |");
    for drive in drives() {
        let mut cells = vec![(*drive).to_owned()];
        cells.extend(DEPTHS.map(|n| all.gain(drive, &n.to_string())));
        row(&mut page, &cells);
    }
    page += &prose("\n## Every load", "| seagate-no-ncq |");
    for drive in drives() {
        for load in ["2", "32"].iter().chain(&LOADS) {
            for rule in ["old", "new"] {
                full(&mut page, [drive, load, rule], &all.cell(drive, load, rule));
            }
        }
    }
    page += &prose("\n## Every policy", "| samsung-970-pro |");
    let loads = [
        "1",
        "2",
        "32",
        "cache-read",
        "64k-writers",
        "depth-256",
        "mixed-sizes",
    ];
    for drive in COALESCING {
        for load in loads {
            for policy in POLICIES {
                let cell = all.coalescing.cell(drive, &format!("{load}-{policy}"));
                full(&mut page, [drive, load, policy], &cell);
            }
        }
    }
    page += &prose("\n## A storm", "| calm |");
    storm(&mut page, &all.storm);
    page
}

/// Returns "appears" if the figure is within a factor of 1.5 of the published one.
fn verdict(published: f64, here: f64, otherwise: &str) -> &str {
    let times = here / published;
    if (1.0 / 1.5..=1.5).contains(&times) {
        APPEARS
    } else {
        otherwise
    }
}

/// Returns the verdict of a claim whose figures can only hold or not.
fn if_holds(holds: bool) -> &'static str {
    if holds { APPEARS } else { "no, by its figures" }
}

/// Writes the row of a claim of the thread: its number, the figures here, and the verdict.
fn say(page: &mut String, claim: usize, here: &str, verdict: &str) {
    let published = PUBLISHED[claim - FIRST];
    let basis = if CONSTRUCTION.contains(&claim) {
        "construction"
    } else {
        "measured"
    };
    row(page, &[&claim.to_string(), published, here, basis, verdict]);
}

/// The claims that no figure could refute: loads, targets and means that the scenarios were built
/// with, and keys that do or do not exist.
const CONSTRUCTION: [usize; 11] = [115, 116, 122, 125, 126, 129, 130, 131, 136, 137, 138];

/// Counts the verdicts of the claims on the page, by their basis.
fn count(page: &str) -> String {
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [.., basis, verdict] = cells[..] else {
            return None;
        };
        ["measured", "construction"]
            .contains(&basis)
            .then_some((basis, verdict))
    });
    let rows: Vec<(&str, &str)> = rows.collect();
    let mut text = String::new();
    for basis in ["measured", "construction"] {
        let mine = || rows.iter().filter(|row| row.0 == basis);
        let of = |word: &str| mine().filter(|row| row.1.starts_with(word)).count();
        let counts = [mine().count(), of(APPEARS), of("in part"), of("no,")];
        assert_eq!(
            counts[0],
            counts[1..].iter().sum::<usize>(),
            "each verdict has a known word"
        );
        let [all, appear, part, no] = counts;
        let percent = 100 * appear / all;
        let _ = writeln!(
            text,
            "| {basis} | {all} | {appear} | {part} | {no} | {percent} % |"
        );
    }
    text
}

/// Writes the claims about the effect of the rules before and since 2011 on latency.
fn latencies(page: &mut String, all: &CoalescingResults) {
    say(page, 115, "rings `xen` and `xen-before-2011`", APPEARS);
    say(page, 116, "load `2`", APPEARS);
    let times = all.both("stripe-8", "2");
    let [old, new] = times.map(|cell| cell.guest / cell.backend);
    let here = format!("`stripe-8`: {old:.1} times before 2011, {new:.1} times since then");
    // The delay is shown if it is a third of the latency, and gone if a tenth of it is left.
    say(page, 117, &here, if_holds(old >= 1.5 && new <= 1.1));
    let gain = |drive, load| format!("`{drive}` {}", all.gain(drive, load));
    let drives = [
        "iscsi-1ms-each",
        "stripe-8",
        "samsung-970-pro",
        "seagate-st3808110as",
    ];
    let gains = drives.map(|drive| gain(drive, "2"));
    say(page, 118, &gains.join(", "), SIDE_BY_SIDE);
    let gains = [("stripe-2", "4"), ("stripe-4", "8"), ("stripe-8", "16")];
    let gains = gains.map(|(drive, n)| format!("{} at N = {n}", all.gain(drive, n)));
    let (gains, most) = (gains.join(", "), all.gain("stripe-8", "2"));
    let here = format!("{gains}; highest at N = 2, with {most} on eight spindles");
    say(page, 119, &here, SPINDLES);
}

/// Writes the claims about the page cache, full rings and high load.
fn loads(page: &mut String, all: &CoalescingResults) {
    let cached = |drive| {
        let kicks = all.kicks(drive, "cache-read");
        format!("`cache-read` on `{drive}`: {kicks}")
    };
    let here = ["scsi-debug", "samsung-970-pro", "stripe-4"].map(cached);
    say(page, 120, &here.join(", "), WINDOWS);
    let cell = all.cell("stripe-4", "cache-read", "new");
    // 44 KiB is the longest request of a ring slot: 11 segments of 4 KiB (Xen's
    // `BLKIF_MAX_SEGMENTS_PER_REQUEST`).
    let requests = cell.mb_per_s * 1e6 / f64::from(44 << 10) / cell.kicks;
    let here = format!("`cache-read` on `stripe-4`: {requests:.1} full slots per kick");
    // Without bursts, each request would need a kick.
    say(page, 121, &here, if_holds(requests >= 2.0));
    let cell = all.cell("seagate-no-ncq", "depth-256", "new");
    // By Little's law: the rate of requests of 4 KiB, multiplied by their time at the back end in
    // us.
    let held = cell.mb_per_s * cell.backend / 4096.0;
    let here = format!("`depth-256`: {held:.0} requests at the back end");
    say(page, 122, &here, verdict(32.0, held, "in part"));
    let gain = |drive| format!("`{drive}` {}", all.gain(drive, "depth-256"));
    let gains = ["iscsi-1ms-each", "scsi-debug", "iscsi-1ms"].map(gain);
    say(page, 123, &gains.join(", "), HALVES);
    let kicks = all.kicks("iscsi-memory", "64k-writers");
    let slow = all.kicks("iscsi-1ms", "64k-writers");
    let [old, new] = all
        .both("iscsi-memory", "64k-writers")
        .map(|cell| cell.kicks);
    let here = format!("{kicks}; on `iscsi-1ms` {slow}");
    let before = verdict(2.5, old, LINK);
    let both = if before == APPEARS {
        verdict(5000.0, new, LINK)
    } else {
        before
    };
    say(page, 124, &here, both);
}

/// Writes the claims about the targets, and the figures of the fast one.
fn targets(page: &mut String, all: &CoalescingResults) {
    let one = all.cell("iscsi-1ms", "1", "new").guest;
    let slow = all.kicks("iscsi-1ms", "mixed-sizes");
    let here = format!(
        "{} with one request in flight; kicks/s with `mixed-sizes`: {slow}",
        time(one)
    );
    say(page, 125, &here, verdict(1000.0, one, "in part"));
    let one = all.cell("scsi-debug", "1", "new").backend;
    say(page, 126, &time(one), verdict(4.0, one, "in part"));
    let mixed = all.cell("scsi-debug", "mixed-sizes", "new").kicks;
    let kicks = |load| format!("`{load}`: {}", all.kicks("scsi-debug", load));
    let here = ["mixed-sizes", "depth-256"].map(kicks);
    say(page, 127, &here.join(", "), verdict(20000.0, mixed, BUSY));
    let more = ["mixed-sizes", "depth-256", "4"].map(|load| {
        let [old, new] = all.both("scsi-debug", load);
        format!(
            "`{load}` {:+.1} %",
            (new.mb_per_s / old.mb_per_s - 1.0) * 100.0
        )
    });
    say(page, 128, &more.join(", "), BOTH_PAY);
    say(page, 129, "`seagate-st3808110as`", APPEARS);
    say(page, 130, "load `depth-256`", APPEARS);
    say(page, 131, "load `mixed-sizes`", APPEARS);
}

/// Writes the claims about the reasons and the ways of coalescing.
fn coalescing(page: &mut String, all: &CoalescingResults) {
    let policies = ["at-once", "spin", "sleep"].map(|policy| format!("1-{policy}"));
    let [once, spin, sleep] = policies.map(|case| all.coalescing.cell("scsi-debug", &case));
    let was = time(once.guest);
    let here = format!(
        "`spin 50us`: {} instead of {was}, {:.0} kicks/s",
        time(spin.guest),
        spin.kicks
    );
    say(page, 132, &here, if_holds(spin.guest < once.guest));
    let here = format!(
        "`sleep 200us`: {:.0} wake-ups/s, and {} instead of {was}",
        sleep.wakeups,
        time(sleep.guest)
    );
    say(page, 133, &here, verdict(5000.0, sleep.wakeups, "in part"));
    let busy = |case| {
        let total = all.storm.of("demo", case, "contract", "total");
        number(&total["rings"]["backend_percent"])
    };
    let (stormed, throttled) = (busy("at-once"), busy("throttled"));
    let here = format!(
        "`storm`: the back end's processor is busy for {throttled:.0} % with `throttle`, and for {stormed:.0} % without"
    );
    // Processor time is spared if at most half of it is left.
    say(page, 134, &here, if_holds(throttled <= stormed / 2.0));
    let [spin, sleep] = [spin, sleep].map(|cell| cell.backend_cpu);
    let here = format!(
        "the back end's processor is busy for {spin:.0} % with `spin` and for {sleep:.0} % with `sleep`"
    );
    say(page, 135, &here, if_holds(spin >= 90.0 && sleep <= 10.0));
    say(page, 136, "`throttle`", NO_HYPERVISOR);
    say(page, 137, "`threads = \"one\"`, `throttle`", APPEARS);
    say(page, 138, "no key", NOBODY_ASKS);
    let worst = SLOW.iter().chain(&FAST).flat_map(|drive| {
        let loads = ["2", "32"].iter().chain(&LOADS);
        loads.map(|load| {
            let [old, new] = all.both(drive, load);
            (new.guest / old.guest - 1.0) * 100.0
        })
    });
    let worst = worst.fold(f64::NEG_INFINITY, f64::max);
    let here =
        format!("latency increases by at most {worst:.1} %, over all drives and loads below");
    say(page, 139, &here, if_holds(worst < 5.0));
    let wakeups = |case| {
        let total = all.storm.of("demo", case, "contract", "total");
        number(&total["rings"]["wakeups"])
    };
    let (storm, calm) = (wakeups("at-once"), wakeups("calm"));
    let here = format!("`storm`: {storm:.0} wake-ups/s, and {calm:.0} without the storm");
    say(page, 140, &here, if_holds(storm >= 2.0 * calm));
}

/// The number of the first claim of the thread in the published list.
const FIRST: usize = 115;

/// The claims of the thread, in their order.
const PUBLISHED: [&str; 26] = [
    "the back end requests a kick when it has taken all requests, no longer when all of them are completed",
    "orion: two small random requests in flight, half of them writes",
    "the guest's latency, compared with Dom-0's, shows the delay",
    "50+ % less latency with two requests in flight",
    "on several spindles, the gain is highest with twice as many requests as spindles",
    "with the page cache (dd), kicks do not increase at high load",
    "the burstiness of submission decides",
    "a ring of one page holds 32 requests, whatever the queue depth",
    "high load: about 1 %, no significant effect",
    "64 KiB, four writers, a target in memory: 2 to 3 kicks/s before the patch, about 5,000 since then",
    "an iSCSI target that wakes every millisecond; it has few kicks",
    "scsi_debug: 4 us",
    "scsi_debug: about 20,000 kicks/s with four threads and 256 requests in flight",
    "scsi_debug: 5 % more throughput, if the graphs are read correctly",
    "a disk, ST3808110AS (the run was not finished)",
    "two threads that write at random, with 256 requests in flight",
    "four threads that write and read, 80/20, 512 bytes to 64 KiB",
    "for latency: wait for tens of microseconds",
    "for the rate: waits of 200 us and more limit it to 5,000 per second",
    "for processor time: malicious guests, too",
    "the wait for latency may spin, the wait for the rate may sleep",
    "a throttle for all interrupts, in the hypervisor",
    "a crude way: all back ends on one core, with late wake-ups",
    "a guest sets it, within limits",
    "the disadvantage is minimal",
    "a guest can kick regardless of what it is asked",
];

const APPEARS: &str = "appears";

const SIDE_BY_SIDE: &str =
    "in part: it appears if two requests are served in parallel, but one disk serves one at a time";

const WINDOWS: &str = "in part: kicks do not increase on the target of 4 us; on the other targets, there is one for each window of read-ahead, and there was none before";

const BOTH_PAY: &str = "no, because at high load, one of the two processors is busy nearly all the time, and a kick costs both; with four small requests, the gain is higher";

const NO_HYPERVISOR: &str =
    "in part: each queue has its own throttle, at the back end; there is no hypervisor";

const NOBODY_ASKS: &str = "no, because no front end can request it: virtio-blk has neither a feature bit nor a command for it, and Xen's protocol has no key ([Code tour: rings](rings.md))";

const SPINDLES: &str = "no, because by the text of the patch, a request is held until *one* of those in the drive completes: the drive then has N - 1 of N requests";

const LINK: &str = "in part: before the patch, no kick is needed instead of 2 to 3; since then, the rate follows from the speed of the link, which is set to match";

const HALVES: &str = "in part: it appears on a target that takes a millisecond for each request; on a target that completes all its requests at whole milliseconds, the first response lets the old rule take the waiting requests, and one half of the ring waits for the other half";

const BUSY: &str = "in part: a kick requires a back end that sleeps, and with these costs, it is busy nearly all the time";

fn full(page: &mut String, names: [&str; 3], cell: &RingFigures) {
    let mut cells: Vec<String> = names.iter().map(|&n| n.to_owned()).collect();
    cells.extend([time(cell.guest), time(cell.backend)]);
    cells.push(format!("{:.1}", cell.mb_per_s));
    cells.extend([cell.kicks, cell.calls].map(|n| format!("{n:.0}")));
    cells.push(format!("{:.2}", cell.per_request));
    cells.push(format!("{:.0}", cell.wakeups));
    cells.extend([cell.guest_cpu, cell.backend_cpu].map(|n| format!("{n:.1} %")));
    row(page, &cells);
}

/// Writes the rows about the neighbours of a guest that kicks without work.
fn storm(page: &mut String, played: &ScenarioResults) {
    let mb_per_s = |case, client: &str| {
        let record = played.of("demo", case, "contract", client);
        number(&record["bandwidth_mb_per_s"])
    };
    let names: Vec<String> = (1..=4).map(|n| format!("neighbour-0{n}")).collect();
    let each = |case| names.iter().map(|n| mb_per_s(case, n)).sum::<f64>() / 4.0;
    for case in ["calm", "at-once", "sleep", "throttled"] {
        let worst = names.iter().map(|name| {
            let record = played.of("demo", case, "contract", name);
            number(&record["worst_second_mb_per_s"])
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
                // Each neighbour is promised 20 MB/s.
                format!("{:.2} %", lost / 20.0 * 100.0),
                format!("{:.3} MB/s", mb_per_s(case, "storm")),
                format!("{:.0}", number(&rings["wakeups"])),
                format!("{:.1} %", number(&rings["backend_percent"])),
            ],
        );
    }
}

#[test]
fn the_page_matches_the_results_of_the_scenarios() {
    document("coalescing.md", "coalescing", &page());
}
