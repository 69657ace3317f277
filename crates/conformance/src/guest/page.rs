//! The page: rows of both sides beside each other.

use super::play::{PROGRAM_RUNS, RUNS};
use super::row::{Row, Rows};
use super::{CARRIED, Figures, Linux, PROGRAM, Stored};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Ratios up to this far from one agree.
const TOLERANCE: f64 = 0.15;

/// The page and its figure.
#[derive(Clone, Debug)]
pub struct Written {
    /// `docs/conformance-guest.md`.
    pub page: String,
    /// How many rows agree, in a line.
    pub figure: String,
}

/// A row on both sides.
struct Compared {
    row: Row,
    linux: Figures,
    lab: Linux,
    weir: Figures,
}

impl Compared {
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
    (1.0 / (1.0 + TOLERANCE)..=1.0 + TOLERANCE).contains(&ratio)
}

/// Writes the page of the rows that have figures of both sides.
pub fn write(rows: &Rows, linux: &Stored, weir: &BTreeMap<String, Figures>) -> Written {
    let compared = rows.all().into_iter().filter_map(|row| {
        let (linux, weir) = (linux.get(&row.name())?, *weir.get(&row.name())?);
        Some(Compared {
            row,
            linux: linux.figures,
            lab: *linux,
            weir,
        })
    });
    let compared: Vec<Compared> = compared.collect();
    let carried = || compared.iter().filter(|c| c.lab.is_carried());
    let agree = carried().filter(|c| c.agrees()).count();
    let near = |of: fn(&Compared) -> f64| carried().filter(|c| is_near(of(c))).count();
    let all = carried().count();
    let figure = format!(
        "{agree} of {all} rows agree within {:.0} % ({:.0} %): {} of {all} latencies of targets, {} of {all} bandwidths of all clients.",
        100.0 * TOLERANCE,
        100.0 * agree as f64 / (all as f64).max(1.0),
        near(Compared::latency),
        near(Compared::total),
    );
    let figure = match compared.len() - all {
        0 => figure,
        more => format!("{figure} {more} more are out of the lab's reach."),
    };
    let head = HEAD
        .replace("{CARRIED}", &CARRIED.to_string())
        .replace("{PROGRAM}", PROGRAM)
        .replace("{PROGRAM_RUNS}", &PROGRAM_RUNS.to_string())
        .replace("{RUNS}", &RUNS.to_string());
    let figure = match rows.all().len() - compared.len() {
        0 => figure,
        more => format!("{figure} {more} rows are not played yet."),
    };
    let mut page = format!("{head}\n{figure}\n");
    path(&mut page, &compared);
    table(&mut page, &compared);
    differences(&mut page, rows, &compared);
    Written { page, figure }
}

fn path(text: &mut String, compared: &[Compared]) {
    *text += "\n## The path\n\n| kernel | drive | the path takes, us | left of it, us |\n|---|---|---|---|\n";
    let mut all: BTreeMap<(&str, &str), Vec<&Compared>> = BTreeMap::new();
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

fn table(text: &mut String, compared: &[Compared]) {
    *text += "\n## Rows\n\n| scenario | case | drive | policy | kernel | target's mean latency in Linux, us | in Weir | ratio | MB/s of the target in Linux | in Weir | MB/s of all in Linux | in Weir | ratio | processor | verdict |\n\
              |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    for c in compared {
        let Row {
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

fn differences(text: &mut String, rows: &Rows, compared: &[Compared]) {
    *text += "\n## Rows that differ\n\n| row | why |\n|---|---|\n";
    let differ = compared.iter();
    for c in differ.filter(|c| c.lab.is_carried() && !c.agrees()) {
        let name = c.row.name();
        let why = rows.why.get(&name).map_or("not known", String::as_str);
        let _ = writeln!(text, "| {name} | {why} |");
    }
}

const HEAD: &str = "# Linux on Weir's own models of drives

The same scenario is played by Linux's own code on a model of a drive and by the simulator on the same model. `weir compare --on guest` plays any scenario
in this way (`comparing.md`); those of the rows are `crates/conformance/guest/*.toml`, whose clients are fio's, in cgroups.

- Kernel `{PROGRAM}` is Linux 6.1 built as a program (`crates/guest/program-kernel`), in lockstep with the model, which is its disk: nothing lies between the two, and
  its processors take no time. So it has rows that no processor could carry, and `io.latency` and `io.low`. Linux's figures are the means of {PROGRAM_RUNS} repetitions, the
  simulator's of the same ones, in which clients begin at the same times.
- Kernel 6.12 is Debian's for virtual machines, as it is, in a guest whose processor has a nanosecond for each instruction: its time is virtual, and a run
  repeats but for the last digits. Its drive is `weir serve` with the model, in the guest, by ublk. Linux's figures are of one run, the simulator's the means of {RUNS}.

The way to the server and back takes processor time, which the drive does not. What it adds to a read is measured by a reader alone, beside the same on the model
alone, and the server answers sooner by it; the same reader in the same boot says what was left. Where the guest's processor was busy for {CARRIED} % of the time or
more, requests wait for it and not for the drive: such a row is out of the lab's reach, and does not count.

A row *agrees* if the target's mean latency and the bandwidth of all clients are within 15 %.

The page is generated: `WEIR_BLESS=1 cargo test -p weir-conformance`. Linux's figures are stored (`crates/conformance/guest/linux.txt`);
`cargo run --release -p weir-conformance -- guest WEIR --kernel FILE` plays the rows that are missing there, WEIR being the program `weir` and FILE the kernel that is a
program. `./bench guest` prints the figure.
";
