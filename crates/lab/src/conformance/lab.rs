//! Linux's side: runs a case as an experiment of the lab, and reads the reports of fio.
//!
//! The lab is a directory with a program `run EXPERIMENT OUTDIR [null_blk parameter=value ...]`.
//! The program boots Linux 6.1 as a process in virtual time, with `null_blk`. In the guest it
//! sources the experiment, which is a shell file, and waits for the processes in `PIDS`. The
//! variable `SEED` selects another sample.

use crate::conformance::experiment::{ConformanceCase, Experiment, ExperimentGroup, JobPlayer};
use crate::conformance::sample::PlayerSample;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_config::policy;

/// The time limit of a run, in seconds of real time. Runs of few processes take some seconds, and
/// runs of many requests take longer.
const PATIENCE_S: u32 = 60;

/// A lab and a directory for its output.
#[derive(Clone, Debug)]
pub struct NullBlkLab {
    /// The directory of the lab.
    pub directory: PathBuf,
    /// A directory for temporary files. Its contents are removed.
    pub scratch: PathBuf,
}

impl NullBlkLab {
    /// Runs a case once.
    ///
    /// # Errors
    /// Returns an error if the lab cannot run the case, or if fio did not report a player.
    pub fn play(
        &self,
        experiment: &Experiment,
        case: &ConformanceCase,
        run: u32,
    ) -> Result<Vec<PlayerSample>, String> {
        let players = case.players(&experiment.sections()?);
        // Results of an earlier run must not be read.
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
                parts.push(PlayerSample {
                    case: case.name.clone(),
                    run,
                    player: player.name.clone(),
                    bandwidth: report.bandwidth,
                    latency: report.latency,
                });
            }
            samples.extend(PlayerSample::pooled(&parts));
        }
        Ok(samples)
    }
}

/// Returns the experiment as a file for the guest's shell.
fn script(
    experiment: &Experiment,
    case: &ConformanceCase,
    players: &[JobPlayer],
) -> Result<String, String> {
    let policy = policy::find(&case.policy).map_err(|e| e.to_string())?;
    let elevator = policy.elevator.kind().name;
    let jobs = experiment.jobs.canonicalize().map_err(|e| e.to_string())?;
    let mut text = PLAY.replace("JOBFILE", &jobs.display().to_string());
    let _ = writeln!(text, "sched {elevator}");
    // Without an elevator, `nr_requests` is the number of tags and cannot be larger.
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

/// A shell function that runs a section of the job file in a group. It begins one to two
/// milliseconds after the start, by a delay that depends on the sample and the job.
const PLAY: &str = r#"play() {
  JOBS=$((JOBS+1))
  sh -c "$enter" join "$CG/$2/cgroup.procs" 0.00$(((SEED*7919+JOBS*104729)%1000+1000)) env RAND=$((SEED*1000+JOBS)) \
    fio --section="$3" --output-format=json --output="$OUT/$1.json" "JOBFILE" >"$OUT/$1.err" 2>&1 & PIDS="$PIDS $!"
}
"#;

fn knobs(text: &mut String, group: &ExperimentGroup, name: &str, bfq: bool) {
    if let Some(parent) = group.parent() {
        // The files of a group exist once its parent has enabled the controller for its children.
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

/// The results that fio reports for one job.
struct JobReport {
    /// The bandwidth in bytes per second.
    bandwidth: f64,
    /// The mean, median and 99th percentile of latency, in microseconds.
    latency: [f64; 3],
}

fn report(file: &Path) -> Result<JobReport, String> {
    let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
    let text = fs::read_to_string(file).map_err(|e| wrong(&e))?;
    // fio may print warnings before the JSON document.
    let text = &text[text.find('{').unwrap_or(0)..];
    let report: Value = serde_json::from_str(text).map_err(|e| wrong(&e))?;
    let job = &report["jobs"][0];
    let way = ["read", "write"].map(|way| &job[way]);
    // A job either reads or writes.
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
    Ok(JobReport {
        bandwidth: found[0],
        latency: [found[1] / 1e3, found[2] / 1e3, found[3] / 1e3],
    })
}
