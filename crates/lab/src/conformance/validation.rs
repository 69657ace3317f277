//! Linux's own code on Weir's models of drives, for what was published of the drives: the column of `docs/validation.md`.

use crate::conformance::guest::row::Built;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use weir_config::{scenario, sheet};
use weir_linux::guest::Kernel;
use weir_linux::play::guest::Lab;
use weir_linux::play::measure;

/// Repetitions are played until the target has had this number of reads, and at most [`RUNS`] of them: on a disk a read takes seconds.
const READS: u64 = 10;
const RUNS: u32 = 3;

/// A figure of a drive: the target's mean latency in a scenario of Weir's.
struct Figure {
    drive: String,
    /// As sheets name it: `latency/readers/none`.
    name: String,
}

/// Reads of the target, and their mean latency in nanoseconds.
type Stored = BTreeMap<String, (u64, f64)>;

fn file() -> PathBuf {
    crate::conformance::root().join("../fit/src/linux.txt")
}

/// Plays the published figures that a scenario of Weir's gives and that are missing, or those of them that contain one of the words, with the
/// program `weir`, on a kernel that is a program, and stores each as it comes.
///
/// # Errors
/// A figure that cannot be played.
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
        if there.contains_key(&key) || !is_meant {
            continue;
        }
        let found = figure.play(&lab).map_err(|e| format!("{key}: {e}"))?;
        eprintln!("{key}: {found:?}");
        there.insert(key, found);
        write(&there)?;
    }
    Ok(())
}

/// The figures of all sheets that are a case of a scenario under a policy, but those of drives with several hardware queues: the kernel has
/// one processor, and so one of them, through which flushes of all clients would be one.
fn figures() -> Vec<Figure> {
    let sheets = sheet::names().filter_map(sheet::find);
    let sheets = sheets.filter(|sheet| sheet.profile.drive.shape().queues == 1);
    let figures = sheets.flat_map(|sheet| {
        let drive = sheet.profile.name;
        let names = sheet.figures.into_iter().map(|f| f.figure);
        names.map(move |name| Figure {
            drive: drive.clone(),
            name,
        })
    });
    figures.filter(|f| f.parts().is_some()).collect()
}

impl Figure {
    fn key(&self) -> String {
        format!("{}: {}", self.drive, self.name)
    }

    /// Scenario, case and policy.
    fn parts(&self) -> Option<[&str; 3]> {
        let parts: Vec<&str> = self.name.split('/').collect();
        let parts = <[&str; 3]>::try_from(parts).ok()?;
        scenario::names()
            .any(|name| name == parts[0])
            .then_some(parts)
    }

    fn play(&self, lab: &Lab) -> Result<(u64, f64), String> {
        let [name, case, policy] = self.parts().ok_or("no scenario")?;
        let script = scenario::find(name).map_err(|e| format!("{e:?}"))?;
        let Built {
            scenario,
            policy,
            target,
        } = Built::new(&script, Some(case), &self.drive, policy)?;
        let (mut reads, mut waited) = (0, 0.0);
        for run in 0..RUNS {
            let outcome = lab.play(&scenario, &policy, run, || true);
            let played = outcome.map_err(|e| e.to_string())?.played;
            let measured = measure(&scenario, run, &played.logs, played.began_ns, None);
            let meter = &measured.clients[target].meter;
            reads += meter.requests();
            waited += meter.latency().mean() * meter.requests() as f64;
            if reads >= READS {
                break;
            }
        }
        Ok((reads, waited / (reads as f64).max(1.0)))
    }
}

fn stored() -> Result<Stored, String> {
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

fn write(figures: &Stored) -> Result<(), String> {
    let mut text = "# drive: figure | the target's reads | their mean latency in ns\n".to_owned();
    for (key, (reads, mean)) in figures {
        let _ = writeln!(text, "{key} | {reads} | {mean:.0}");
    }
    fs::write(file(), text).map_err(|e| format!("{}: {e}", file().display()))
}
