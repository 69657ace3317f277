//! The page: each row, Linux beside Weir, less what the way to the server takes.

use super::Figures;
use super::row::{Row, Rows};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The job whose target has the drive to itself.
const ALONE: &str = "alone";

/// A row agrees if each of its ratios is no further from one than this, either way.
const TOLERANCE: f64 = 0.25;

/// Figures by the names of rows.
pub type Named = BTreeMap<String, Figures>;

/// A row on both sides.
struct Compared<'a> {
    row: &'a Row,
    linux: Figures,
    /// Linux's, less the path.
    less_path: Figures,
    weir: Figures,
    /// Totals as parts of those without control, Linux's first; of a row without control there are none.
    parts: Option<[f64; 2]>,
}

impl Compared<'_> {
    fn target(&self) -> f64 {
        self.weir.latency_us / self.less_path.latency_us
    }

    fn total(&self) -> Option<f64> {
        self.parts.map(|[linux, weir]| weir / linux)
    }

    fn agrees(&self) -> bool {
        is_near(self.target()) && self.total().is_none_or(is_near)
    }
}

fn is_near(ratio: f64) -> bool {
    (1.0 / (1.0 + TOLERANCE)..=1.0 + TOLERANCE).contains(&ratio)
}

/// What came out, had the target's reads not taken the path: one that waits for each answer reads as often as it is answered.
fn without(path_us: f64, linux: Figures) -> Figures {
    let latency_us = linux.latency_us - path_us;
    let more = 1e6 / latency_us - 1e6 / linux.latency_us;
    Figures {
        latency_us,
        total_mb: linux.total_mb + more * 4096.0 / 1e6,
    }
}

/// Writes the page of the rows that have figures of Linux.
pub fn write(rows: &Rows, linux: &Named, weir: &Named) -> String {
    let both = |name: &str| Some([*linux.get(name)?, *weir.get(name)?]);
    let alone = |drive: &str| both(&format!("{drive}: none: {ALONE}"));
    let path = |drive: &str| alone(drive).map_or(0.0, |[l, w]| l.latency_us - w.latency_us);
    let compared = rows.row.iter().filter(|row| row.job != ALONE);
    let compared = compared.filter_map(|row| {
        let path_us = path(&row.drive);
        let [linux, weir] = both(&row.name())?;
        let none = both(&format!("{}: none: {}", row.drive, row.job));
        let none = none.filter(|_| row.policy != "none");
        let less_path = without(path_us, linux);
        let parts = none.map(|[l, w]| {
            let none = without(path_us, l);
            [
                less_path.total_mb / none.total_mb,
                weir.total_mb / w.total_mb,
            ]
        });
        Some(Compared {
            row,
            linux,
            less_path,
            weir,
            parts,
        })
    });
    let compared: Vec<Compared<'_>> = compared.collect();
    let mut text = HEAD.to_owned();
    jobs(&mut text, rows);
    text += "\n## The path\n\n| drive | target alone in the guest, us | in the simulator | path |\n|---|---|---|---|\n";
    for row in rows.row.iter().filter(|row| row.job == ALONE) {
        if let Some([l, w]) = alone(&row.drive) {
            let path = l.latency_us - w.latency_us;
            let _ = writeln!(
                text,
                "| {} | {:.1} | {:.1} | {path:.1} |",
                row.drive, l.latency_us, w.latency_us
            );
        }
    }
    table(&mut text, &compared);
    differences(&mut text, &compared);
    text
}

fn jobs(text: &mut String, rows: &Rows) {
    *text +=
        "\n## What was played\n\n| beside the target | clients | what each does |\n|---|---|---|\n";
    for (name, job) in rows.job.iter().filter(|(name, _)| *name != ALONE) {
        let (jobs, rw, kib, depth) = (job.numjobs, &job.rw, job.bs_kib, job.iodepth);
        let _ = writeln!(
            text,
            "| {name} | {jobs} | `rw={rw}`, `bs={kib}k`, `iodepth={depth}` |"
        );
    }
}

fn table(text: &mut String, compared: &[Compared<'_>]) {
    *text += "\n## Rows\n\n| drive | policy | beside the target | run-in | target's mean latency in Linux, us | less the path | in Weir | ratio | MB/s of all in Linux | in Weir | as part of none's in Linux | in Weir | ratio | verdict |\n\
              |---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    for c in compared {
        let Row {
            drive,
            policy,
            job,
            run_in,
            ..
        } = c.row;
        let parts = c.parts.map_or_else(
            || "| |".to_owned(),
            |[l, w]| format!("{:.0} % | {:.0} % | {:.2}", 100.0 * l, 100.0 * w, w / l),
        );
        let verdict = if c.agrees() { "agrees" } else { "differs" };
        let _ = writeln!(
            text,
            "| {drive} | {policy} | {job} | {run_in} s | {:.0} | {:.0} | {:.0} | {:.2} | {:.0} | {:.0} | {parts} | {verdict} |",
            c.linux.latency_us,
            c.less_path.latency_us,
            c.weir.latency_us,
            c.target(),
            c.linux.total_mb,
            c.weir.total_mb
        );
    }
    let totals: Vec<f64> = compared.iter().filter_map(Compared::total).collect();
    let _ = writeln!(
        text,
        "\n{} of {} targets are within {:.0} %, {} of {} totals as part of none's; {} rows agree.",
        compared.iter().filter(|c| is_near(c.target())).count(),
        compared.len(),
        100.0 * TOLERANCE,
        totals.iter().filter(|t| is_near(**t)).count(),
        totals.len(),
        compared.iter().filter(|c| c.agrees()).count()
    );
}

fn differences(text: &mut String, compared: &[Compared<'_>]) {
    *text += "\n## Rows that differ\n\n| drive | policy | beside the target | why |\n|---|---|---|---|\n";
    for c in compared.iter().filter(|c| !c.agrees()) {
        let Row {
            drive,
            policy,
            job,
            why,
            ..
        } = c.row;
        let why = if why.is_empty() { "not known" } else { why };
        let _ = writeln!(text, "| {drive} | {policy} | {job} | {why} |");
    }
}

const HEAD: &str = "# Weir beside Linux on its own models of drives

An unmodified kernel (Debian's 6.1.0-56-cloud-amd64) plays rows in a guest whose processor has a nanosecond for each instruction: its time is
virtual, and a run repeats to the byte. Its drive is `weir serve` with a model, in the guest, by the kernel's NBD client. The simulator plays the
same on the same model, eight times, with other beginnings of the clients within 20 ms; its figures are the means. The kernel is told what the drive is: as many tags as the model has, twice that number of requests where there is an
elevator, the largest command, and whether it rotates.

The target reads 4 KiB at random places, one read after the other. All go past the page cache. Under `bfq` (with `low_latency` 0) and `io.cost` each
client is in a group, the target of weight 300 and the others of weight 100; under `bfq-linux` (BFQ as it is by default) the target is of the realtime
class, and there are no groups; under `io.max` each of the others may read, and write, 10 MB/s. `io.cost.qos` on flash is the S suite's
(`rpct=95 rlat=2500 wpct=95 wlat=5000`), on disks `ctrl=auto`. Where there is a run-in, the drive has been read in sequence for that time, and rested for a second.

The way to the server and back takes processor time. What it adds to a read is measured with the target alone, and taken off the target's mean latency; of
disks, whose reads take a hundred times that, it is not. The latency of a target that waits for each answer gives its rate, so the ratio of rates is one
by the ratio of latencies, and what it reads more without the path is put to the total. Totals are compared as parts of those without control (`none`) on the same side, since the path carries less than a fast
model does. A row *agrees* if both ratios are within 25 %.

The page is generated: `WEIR_BLESS=1 cargo test -p weir-conformance`. Linux's figures are stored (`crates/conformance/guest/linux.txt`);
`cargo run --release -p weir-conformance -- guest GUEST_LAB WEIR` plays the rows that are missing there (`src/guest/boot.rs` says what a lab is; WEIR
is the program `weir`).
";
