//! Measures published figures of drives with Linux's own code on Weir's drive models, for a column
//! of `docs/validation.md`.

use crate::fit::DriveFigure;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use weir_config::{profile, sheet};
use weir_linux::guest::Kernel;
use weir_linux::play::guest::Lab;
use weir_linux::play::measure;
use weir_sim::scenario::{FILE, Interferers, TargetReads, compared, latency};

/// The number of reads of the target that are sufficient. There are at most [`RUNS`] repetitions,
/// because a read takes seconds on a disk.
const READS: u64 = 10;
const RUNS: u32 = 3;

/// A figure of a drive: the target's mean latency in one of Weir's scenarios.
struct LatencyFigure {
    drive: String,
    /// The name of the figure in sheets, for example `latency/readers/none`.
    name: String,
}

/// The number of reads of the target, and their mean latency in nanoseconds, by figure.
type StoredLatencies = BTreeMap<String, (u64, f64)>;

fn file() -> PathBuf {
    crate::conformance::root().join("src/fit/linux.txt")
}

/// Measures the missing figures that one of Weir's scenarios gives, with the program `weir`, on a
/// kernel that is a program. Each figure is stored at once. With words, only figures whose key
/// contains one of them are measured.
///
/// # Errors
/// Returns the first figure that cannot be measured.
pub fn fill(weir: &Path, kernel: &str, which: &[&str]) -> Result<(), String> {
    let kernel = Kernel::find(kernel, |line| eprintln!("{line}")).map_err(|e| e.to_string())?;
    if kernel.program().is_none() {
        return Err("the figures are played by a kernel that is a program".to_owned());
    }
    let lab = Lab::new(kernel, weir.to_owned());
    let mut there = stored()?;
    for figure in figures() {
        let key = figure.key();
        let is_meant = which.is_empty() || which.iter().any(|w| key.contains(w));
        // Figures that are stored are not measured again.
        if there.contains_key(&key) || !is_meant {
            continue;
        }
        let found = figure.play(&lab).map_err(|e| format!("{key}: {e}"))?;
        eprintln!("{key}: {found:?}");
        there.insert(key, found);
        // Each figure is stored at once, so that an interrupted command loses none.
        write(&there)?;
    }
    Ok(())
}

/// Returns the figures of all sheets that are a case of a scenario under a policy. Drives with
/// several hardware queues are left out. The kernel has one processor and thus one hardware queue,
/// in which the flushes of all clients would be combined.
fn figures() -> Vec<LatencyFigure> {
    let sheets = sheet::names().filter_map(sheet::find);
    let sheets = sheets.filter(|sheet| sheet.profile.drive.shape().queues == 1);
    let figures = sheets.flat_map(|sheet| {
        let drive = sheet.profile.name;
        let names = sheet.figures.into_iter().map(|f| f.figure);
        names.map(move |name| LatencyFigure {
            drive: drive.clone(),
            name,
        })
    });
    figures.filter(|f| f.parts().is_some()).collect()
}

impl LatencyFigure {
    fn key(&self) -> String {
        format!("{}: {}", self.drive, self.name)
    }

    /// Returns the interferers, the policy and the timing of the reads, if the figure is a latency
    /// of one of the two scenarios.
    fn parts(&self) -> Option<(Interferers, &'static str, TargetReads)> {
        match DriveFigure::find(&self.name)? {
            DriveFigure::Latency(i, policy) => Some((i, policy, TargetReads::Continuous)),
            DriveFigure::Sporadic(i, policy) => Some((i, policy, TargetReads::Sporadic)),
            _ => None,
        }
    }

    /// Plays the scenario with the files of the fit, so that both columns have the same load.
    fn play(&self, lab: &Lab) -> Result<(u64, f64), String> {
        let (interferers, policy, timing) = self.parts().ok_or("no scenario")?;
        let drive = profile::find(&self.drive)
            .map_err(|e| format!("{e:?}"))?
            .drive;
        let built = latency(&drive, interferers, policy, timing, FILE);
        let policy = compared(policy);
        // The policy may set properties of the host, such as `nr_requests`.
        let scenario = built.under(&policy);
        let (mut reads, mut waited) = (0, 0.0);
        for run in 0..RUNS {
            let outcome = lab.play(&scenario, &policy, run, || true);
            let played = outcome.map_err(|e| e.to_string())?.played;
            let measured = measure(&scenario, run, &played.logs, played.began_ns, None);
            // The target is the first client of the scenario.
            let meter = &measured.clients[0].meter;
            reads += meter.requests();
            waited += meter.latency().mean() * meter.requests() as f64;
            if reads >= READS {
                break;
            }
        }
        Ok((reads, waited / (reads as f64).max(1.0)))
    }
}

fn stored() -> Result<StoredLatencies, String> {
    let text = fs::read_to_string(file()).unwrap_or_default();
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    let parse = |line: &str| {
        let mut fields = line.split(" | ");
        let key = fields.next()?.to_owned();
        let figures = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        fields.next().is_none().then_some((key, figures))
    };
    lines
        .map(|line| parse(line).ok_or_else(|| format!("not a figure: {line:?}")))
        .collect()
}

fn write(figures: &StoredLatencies) -> Result<(), String> {
    let mut text = "# drive: figure | the target's reads | their mean latency in ns\n".to_owned();
    for (key, (reads, mean)) in figures {
        let _ = writeln!(text, "{key} | {reads} | {mean:.0}");
    }
    fs::write(file(), text).map_err(|e| format!("{}: {e}", file().display()))
}
