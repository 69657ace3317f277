//! Writes the page that compares the rows of both sides.

use super::play::{PROGRAM_RUNS, RUNS};
use super::row::{GuestRow, Rows};
use super::{CARRIED, LinuxResult, PROGRAM, RowFigures, StoredResults};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The tolerance of ratios: a row agrees if Weir's result divided by Linux's, or the inverse, is at
/// most one plus this.
const TOLERANCE: f64 = 0.15;
/// The part of the rows that must agree. `./bench guest` prints it in its heading.
const GOAL: f64 = 0.95;

/// The page and its summary in a line.
#[derive(Clone, Debug)]
pub struct GuestPage {
    /// The text of `docs/conformance-guest.md`.
    pub page: String,
    /// The number of rows that agree, in a line.
    pub figure: String,
}

/// A row with the results of both sides.
struct GuestComparison {
    row: GuestRow,
    linux: RowFigures,
    lab: LinuxResult,
    weir: RowFigures,
}

impl GuestComparison {
    fn latency(&self) -> f64 {
        self.weir.latency_us / self.linux.latency_us
    }

    fn total(&self) -> f64 {
        self.weir.total_mb / self.linux.total_mb
    }

    fn agrees(&self) -> bool {
        is_near(self.latency()) && is_near(self.total())
    }
}

fn is_near(ratio: f64) -> bool {
    // Symmetric in the two sides.
    (1.0 / (1.0 + TOLERANCE)..=1.0 + TOLERANCE).contains(&ratio)
}

/// Writes the page of the rows that have results of both sides.
pub fn write(rows: &Rows, linux: &StoredResults, weir: &BTreeMap<String, RowFigures>) -> GuestPage {
    let compared = rows.all().into_iter().filter_map(|row| {
        let (linux, weir) = (linux.get(&row.name())?, *weir.get(&row.name())?);
        Some(GuestComparison {
            row,
            linux: linux.figures,
            lab: *linux,
            weir,
        })
    });
    let compared: Vec<GuestComparison> = compared.collect();
    // Rows out of reach are not counted.
    let carried = || compared.iter().filter(|c| c.lab.is_carried());
    let agree = carried().filter(|c| c.agrees()).count();
    let near = |of: fn(&GuestComparison) -> f64| carried().filter(|c| is_near(of(c))).count();
    let all = carried().count();
    let figure = format!(
        "{agree} of {all} rows agree within {:.0} % ({:.0} %): {} of {all} latencies of targets and {} of {all} bandwidths of all clients.",
        100.0 * TOLERANCE,
        100.0 * agree as f64 / (all as f64).max(1.0),
        near(GuestComparison::latency),
        near(GuestComparison::total),
    );
    let figure = match compared.len() - all {
        0 => figure,
        more => format!("{figure} {more} more rows are out of reach."),
    };
    let head = HEAD
        .replace("{CARRIED}", &CARRIED.to_string())
        .replace("{PROGRAM}", PROGRAM)
        .replace("{PROGRAM_RUNS}", &PROGRAM_RUNS.to_string())
        .replace("{RUNS}", &RUNS.to_string());
    let figure = match rows.all().len() - compared.len() {
        0 => figure,
        more => format!("{figure} {more} rows have no figures yet."),
    };
    let reached = if agree as f64 >= GOAL * all as f64 {
        "reached"
    } else {
        "not reached"
    };
    let goal = format!(
        "The goal of `./bench guest` is that at least {:.0} % of the rows agree. The goal is {reached}.",
        100.0 * GOAL
    );
    let mut page = format!("{head}\n{figure}\n\n{goal}\n");
    path(&mut page, &compared);
    table(&mut page, &compared);
    differences(&mut page, rows, &compared);
    GuestPage { page, figure }
}

fn path(text: &mut String, compared: &[GuestComparison]) {
    *text += "\n## The path to the server\n\n| Kernel | Drive | Time of the path, us | Remaining error, us |\n|---|---|---|---|\n";
    let mut all: BTreeMap<(&str, &str), Vec<&GuestComparison>> = BTreeMap::new();
    // A kernel in lockstep has no path to a server.
    for c in compared.iter().filter(|c| c.row.kernel != PROGRAM) {
        let place = (c.row.kernel.as_str(), c.row.drive.as_str());
        all.entry(place).or_default().push(c);
    }
    for ((kernel, drive), of) in all {
        let most = of.iter().map(|c| c.lab.left_us);
        let most = most.fold(0.0, |a: f64, b| if b.abs() > a.abs() { b } else { a });
        let path = of[0].lab.path_us;
        let _ = writeln!(text, "| {kernel} | {drive} | {path:.1} | {most:.1} |");
    }
}

fn table(text: &mut String, compared: &[GuestComparison]) {
    *text += "\n## Rows\n\n| Scenario | Case | Drive | Policy | Kernel | Target's mean latency in Linux, us | Target's mean latency in Weir, us | Weir / Linux | MB/s of the target in Linux | MB/s of the target in Weir | MB/s of all in Linux | MB/s of all in Weir | Weir / Linux | Processor | Verdict |\n\
              |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    for c in compared {
        let GuestRow {
            scenario,
            case,
            drive,
            policy,
            kernel,
        } = &c.row;
        let case = case.as_deref().unwrap_or("");
        let verdict = match (c.lab.is_carried(), c.agrees()) {
            (false, _) => "out of reach",
            (true, true) => "agrees",
            (true, false) => "differs",
        };
        let busy = c.lab.processor.map_or(String::new(), |p| format!("{p} %"));
        let _ = writeln!(
            text,
            "| {scenario} | {case} | {drive} | {policy} | {kernel} | {:.0} | {:.0} | {:.2} | {:.2} | {:.2} | {:.1} | {:.1} | {:.2} | {busy} | {verdict} |",
            c.linux.latency_us,
            c.weir.latency_us,
            c.latency(),
            c.linux.target_mb,
            c.weir.target_mb,
            c.linux.total_mb,
            c.weir.total_mb,
            c.total(),
        );
    }
}

fn differences(text: &mut String, rows: &Rows, compared: &[GuestComparison]) {
    *text += "\n## Rows that differ\n\n| Row | Reason |\n|---|---|\n";
    let differ = compared.iter();
    for c in differ.filter(|c| c.lab.is_carried() && !c.agrees()) {
        let name = c.row.name();
        let why = rows.why.get(&name).map_or("not known", String::as_str);
        let _ = writeln!(text, "| {name} | {why} |");
    }
}

const HEAD: &str = "# Conformance with Linux on drive models

This page shows how far the simulator agrees with Linux's own code when both run the same scenario on the same model of a drive. `weir compare --on guest`
runs any scenario in this way ([Compare schedulers](comparing.md)). The scenarios of this page are `crates/lab/guest/*.toml`. Their clients are jobs
of fio in cgroups.

To repeat the comparison, use these commands:

- `WEIR_BLESS=1 cargo test -p weir-lab` runs the simulator's side and writes this page.
- `cargo run --release -p weir-lab --bin conformance -- guest WEIR --kernel FILE` measures the rows that are missing in `crates/lab/guest/linux.txt`, where
  Linux's figures are stored. WEIR is the program `weir`, and FILE is the kernel that is built as a program.
- `./bench guest` prints the number of rows that agree, and its goal.

## Method

There are two kernels:

- Kernel `{PROGRAM}` is Linux 6.1 built as a program (`crates/linux/program-kernel`). It runs in lockstep with the model, which is its disk. There is no other
  component between the two, and its processors take no time. Therefore, it has the rows whose load is too high for a processor, and those of `io.latency` and
  `io.low`. Linux's figures are the means of {PROGRAM_RUNS} repetitions. The simulator runs the same repetitions, in which the clients begin at the same
  times.
- Kernel 6.12 is the unmodified kernel of Debian for virtual machines. It runs in a guest whose processor takes one nanosecond for each instruction. Its time
  is therefore virtual, and a run repeats except for the last digits. Its drive is `weir serve` with the model, inside the guest, through ublk. Linux's
  figures are those of one run, and the simulator's are the means of {RUNS} repetitions.

For kernel 6.12, the path to the server and back takes processor time, which is not part of the drive's time. The additional time of a read is measured with a
single reader, by comparison with the same reader on the model alone. The server then completes requests earlier by this time. The same reader in the same
boot measures the remaining error. If the processor of the guest was busy for {CARRIED} % of the time or more, requests wait for the processor and not for the
drive. Such a row is *out of reach* of this method, and it is not counted.

A row *agrees* if the target's mean latency and the bandwidth of all clients are within 15 %. Otherwise, it *differs*.

## Result
";
