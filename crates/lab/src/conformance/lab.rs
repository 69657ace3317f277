//! Linux's side: a case as an experiment of the lab, and what fio reported.
//!
//! The lab is a directory with a program `run EXPERIMENT OUTDIR [null_blk parameter=value ...]`, which boots Linux 6.1 as a process in
//! virtual time with `null_blk`, sources the experiment, a shell file, in the guest, and waits for the processes in `PIDS`. `SEED` is another sample.

use crate::conformance::experiment::{Case, Experiment, Group, Player};
use crate::conformance::sample::Sample;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_config::policy;

/// Seconds of real time that a run may take. Those of few processes take some; many requests take longer.
const PATIENCE_S: u32 = 60;

/// A lab, and where what it writes goes.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The directory of the lab.
    pub directory: PathBuf,
    /// A directory for what it writes, which is lost afterwards.
    pub scratch: PathBuf,
}

impl Lab {
    /// Plays a case once.
    ///
    /// # Errors
    /// The lab could not run it, or fio reported none of a player.
    pub fn play(
        &self,
        experiment: &Experiment,
        case: &Case,
        run: u32,
    ) -> Result<Vec<Sample>, String> {
        let players = case.players(&experiment.sections()?);
        let _ = fs::remove_dir_all(&self.scratch);
        let out = self.scratch.join("out");
        fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
        let file = self.scratch.join("experiment");
        fs::write(&file, script(experiment, case, &players)?)
            .map_err(|e| format!("{}: {e}", file.display()))?;
        let drive = experiment.setting.drive;
        let mut command = Command::new(self.directory.join("run"));
        command.arg(&file).arg(&out).env("SEED", run.to_string());
        command.env("TIMEOUT", PATIENCE_S.to_string());
        command.arg(format!("hw_queue_depth={}", drive.tags));
        command.arg(format!("completion_nsec={}", drive.service_us * 1000));
        if drive.mbps > 0 {
            command.arg(format!("mbps={}", drive.mbps));
        }
        let status = command.status().map_err(|e| format!("the lab: {e}"))?;
        let mut samples = Vec::new();
        for (n, player) in players.iter().enumerate() {
            let mut parts = Vec::new();
            for g in 0..player.groups.len().max(1) {
                let report = report(&out.join(format!("{n}-{g}.json"))).map_err(|e| {
                    let (name, case) = (&experiment.name, &case.name);
                    format!("{name}: {case}: run {run}: {e} (the lab ended with {status})")
                })?;
                parts.push(Sample {
                    case: case.name.clone(),
                    run,
                    player: player.name.clone(),
                    bandwidth: report.bandwidth,
                    latency: report.latency,
                });
            }
            samples.extend(Sample::pooled(&parts));
        }
        Ok(samples)
    }
}

/// The experiment as the guest's shell reads it.
fn script(experiment: &Experiment, case: &Case, players: &[Player]) -> Result<String, String> {
    let policy = policy::find(&case.policy).map_err(|e| e.to_string())?;
    let elevator = policy.elevator.kind().name;
    let jobs = experiment.jobs.canonicalize().map_err(|e| e.to_string())?;
    let mut text = PLAY.replace("JOBFILE", &jobs.display().to_string());
    let _ = writeln!(text, "sched {elevator}");
    if elevator != "none" {
        let _ = writeln!(text, "nr_requests {}", case.nr_requests);
    }
    let _ = writeln!(
        text,
        "echo {} > /sys/block/nullb0/queue/nomerges",
        case.nomerges
    );
    for (name, value) in &case.iosched {
        let _ = writeln!(text, "iosched {name} {value}");
    }
    for (file, line) in [("io.cost.model", &case.model), ("io.cost.qos", &case.qos)] {
        if let Some(line) = line {
            let _ = writeln!(text, "root_knob {file} \"DEV {line}\"");
        }
    }
    for group in &case.group {
        for name in group.names() {
            knobs(&mut text, group, &name, elevator == "bfq");
        }
    }
    for (n, player) in players.iter().enumerate() {
        let root = [".".to_owned()];
        let groups = if player.groups.is_empty() {
            &root[..]
        } else {
            &player.groups
        };
        for (g, group) in groups.iter().enumerate() {
            let _ = writeln!(text, "play {n}-{g} {group} {}", player.section);
        }
    }
    Ok(text)
}

/// Runs a section of the job file in a group, a millisecond or two after the others.
const PLAY: &str = r#"play() {
  JOBS=$((JOBS+1))
  sh -c "$enter" join "$CG/$2/cgroup.procs" 0.00$(((SEED*7919+JOBS*104729)%1000+1000)) env RAND=$((SEED*1000+JOBS)) \
    fio --section="$3" --output-format=json --output="$OUT/$1.json" "JOBFILE" >"$OUT/$1.err" 2>&1 & PIDS="$PIDS $!"
}
"#;

fn knobs(text: &mut String, group: &Group, name: &str, bfq: bool) {
    if let Some(parent) = group.parent() {
        // A group's files are there once its parent hands the controller on.
        let _ = writeln!(text, "echo +io > $CG/{parent}/cgroup.subtree_control");
    }
    let _ = writeln!(text, "group {name}");
    if group.weight > 0 {
        let file = if bfq { "io.bfq.weight" } else { "io.weight" };
        let _ = writeln!(text, "knob {name} {file} {}", group.weight);
    }
    for (file, limits) in [("io.max", &group.max), ("io.low", &group.low)] {
        if !limits.is_empty() {
            let words: Vec<String> = limits.iter().map(|(k, v)| format!("{k}={v}")).collect();
            let _ = writeln!(text, "knob {name} {file} \"DEV {}\"", words.join(" "));
        }
    }
    if group.latency_us > 0 {
        let _ = writeln!(
            text,
            "knob {name} io.latency \"DEV target={}\"",
            group.latency_us
        );
    }
}

/// What fio reports on one job.
struct Report {
    /// Bytes a second.
    bandwidth: f64,
    /// Microseconds: mean, median, 99th of a hundred.
    latency: [f64; 3],
}

fn report(file: &Path) -> Result<Report, String> {
    let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
    let text = fs::read_to_string(file).map_err(|e| wrong(&e))?;
    let text = &text[text.find('{').unwrap_or(0)..];
    let report: Value = serde_json::from_str(text).map_err(|e| wrong(&e))?;
    let job = &report["jobs"][0];
    let way = ["read", "write"].map(|way| &job[way]);
    let way = way.into_iter().find(|w| w["total_ios"].as_u64() > Some(0));
    let way = way.ok_or_else(|| wrong(&"nothing was measured"))?;
    let lat = &way["lat_ns"];
    let of_hundred = &lat["percentile"];
    let found = [
        &way["bw_bytes"],
        &lat["mean"],
        &of_hundred["50.000000"],
        &of_hundred["99.000000"],
    ];
    let missing = || wrong(&"fio's report is not complete");
    let found: Option<Vec<f64>> = found.into_iter().map(Value::as_f64).collect();
    let found = found.ok_or_else(missing)?;
    Ok(Report {
        bandwidth: found[0],
        latency: [found[1] / 1e3, found[2] / 1e3, found[3] / 1e3],
    })
}
