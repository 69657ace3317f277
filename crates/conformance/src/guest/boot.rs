//! Linux's side: a row in a guest, whose kernel is Debian's as it is and whose time is virtual.
//!
//! The lab is a directory with a program `run SCRIPT OUT [FILE...]`, which boots that kernel, puts the FILEs into it (programs into its path,
//! others into `/files`), plays SCRIPT, a shell file, and writes what the console shows to OUT. `weir serve` is the drive, by NBD.

use super::Figures;
use super::row::{APART_GIB, Job, PART, Row, Rows, Setting, TARGET_GIB, TARGET_PART, WARM_UP_MS};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use weir_config::{policy, profile};

/// Seconds of real time that a run may take.
const PATIENCE_S: u32 = 900;

/// Lines of the console that are shown of a run without a report.
const PROBLEM_LINES: usize = 12;

/// MiB of the guest's memory: what writers write is kept in it.
const MEMORY_MIB: u32 = 4096;

/// Plays a row once in the lab, with a program `weir`.
///
/// # Errors
/// The lab could not run it, or fio reported none of the target.
pub fn play(
    lab: &Path,
    weir: &Path,
    scratch: &Path,
    rows: &Rows,
    row: &Row,
) -> Result<Figures, String> {
    let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", row.name());
    fs::create_dir_all(scratch).map_err(|e| wrong(&e))?;
    let (job, setting) = (&rows.job[&row.job], &rows.policy[&row.policy]);
    let files = [
        ("script", script(row, job, setting)?),
        ("server.toml", server(&row.drive)),
        ("jobs.fio", jobs(row, job, setting)),
    ];
    for (name, text) in files {
        fs::write(scratch.join(name), text).map_err(|e| wrong(&e))?;
    }
    // The lab gives files their own names.
    let program = scratch.join("weir");
    fs::copy(weir, &program).map_err(|e| format!("{}: {e}", weir.display()))?;
    let console = scratch.join("console");
    let mut command = Command::new(lab.join("run"));
    command
        .arg(scratch.join("script"))
        .arg(&console)
        .arg(program);
    command.args([scratch.join("server.toml"), scratch.join("jobs.fio")]);
    command.env("LIMIT", PATIENCE_S.to_string());
    command.env("MEM", MEMORY_MIB.to_string());
    let status = command.status().map_err(|e| wrong(&e))?;
    let shown = fs::read_to_string(&console).map_err(|e| wrong(&e))?;
    figures(&shown).ok_or_else(|| {
        let begins: Vec<&str> = shown.lines().take(PROBLEM_LINES).collect();
        let begins = begins.join("\n");
        wrong(&format!(
            "no report, the lab ended with {status}:\n{begins}"
        ))
    })
}

/// The server's file.
fn server(drive: &str) -> String {
    format!(
        "[drive.d]\nmodel = \"{drive}\"\npolicy = \"none\"\n\n[listen]\nnbd = [\"unix:/run/weir\"]\n\n[volume.v]\ndrive = \"d\"\nsize = \"64GiB\"\n"
    )
}

/// Sets the drive and the policy up, and plays the jobs.
fn script(row: &Row, job: &Job, setting: &Setting) -> Result<String, String> {
    let policy = policy::find(&row.policy).map_err(|e| e.to_string())?;
    let drive = profile::find(&row.drive).map_err(|e| e.to_string())?.drive;
    let shape = drive.shape();
    let mut text = CONNECT.to_owned();
    let elevator = policy.elevator.kind().name;
    let _ = writeln!(text, "echo {} > $q/rotational", u8::from(shape.rotational));
    let _ = writeln!(
        text,
        "echo {} > $q/max_sectors_kb",
        shape.max_transfer >> 10
    );
    // The client has 128 tags. Without an elevator the number of requests is the number of tags that are used, and stays so.
    let _ = writeln!(
        text,
        "echo none > $q/scheduler; echo {} > $q/nr_requests",
        shape.tags
    );
    if elevator != "none" {
        let requests = 2 * shape.tags;
        let _ = writeln!(
            text,
            "echo {elevator} > $q/scheduler; echo {requests} > $q/nr_requests"
        );
    }
    if let Some(on) = setting.low_latency {
        let _ = writeln!(text, "echo {on} > $q/iosched/low_latency");
    }
    if row.policy == "io.cost" {
        let qos = setting.qos(&drive).unwrap_or("enable=1 ctrl=auto");
        let _ = writeln!(text, "echo $dev {qos} > /cg/io.cost.qos");
    }
    text += &groups(job, setting, elevator);
    if row.run_in > 0 {
        let _ = writeln!(
            text,
            "fio --name=run-in --filename=/dev/nbd0 --ioengine=libaio --direct=1 --iodepth=32 --rw=read --bs=128k --size=40g \
             --runtime={} --time_based --minimal > /tmp/run-in; sleep 1",
            row.run_in
        );
    }
    text += "grep -s . $q/nr_requests $q/scheduler $q/max_sectors_kb $q/rotational /cg/*/io.bfq.weight /cg/*/io.weight /cg/*/io.max /cg/io.cost.*\n";
    // fio's jobs each have a beginning and an end of their own. What all did together is counted by the kernel in one window before they end.
    let _ = writeln!(
        text,
        "count='cat /proc/uptime /sys/block/nbd0/stat'; echo \"sleep {}; $count; sleep {}; $count\" > /tmp/count",
        f64::from(WARM_UP_MS) / 1e3,
        f64::from(row.seconds) - 0.25
    );
    text += "cd /tmp; fio --minimal --terse-version=3 /files/jobs.fio > fio; sleep 1; sed 's/^/window /' window; grep '^3;' fio | cut -d';' -f1-90\n";
    Ok(text)
}

/// The clients' groups.
fn groups(job: &Job, setting: &Setting, elevator: &str) -> String {
    let mut text = String::new();
    for (name, weight) in (0..job.numjobs)
        .map(|n| (other(n), 100))
        .chain([("target".to_owned(), 300)])
    {
        if setting.has_groups() {
            let _ = writeln!(text, "mkdir /cg/{name}");
        }
        if setting.weights {
            let file = if elevator == "bfq" {
                "io.bfq.weight"
            } else {
                "io.weight"
            };
            let _ = writeln!(text, "echo {weight} > /cg/{name}/{file}");
        }
        if setting.limit_mb > 0 && name != "target" {
            let rate = u64::from(setting.limit_mb) * 1_000_000;
            let _ = writeln!(
                text,
                "echo $dev rbps={rate} wbps={rate} > /cg/{name}/io.max"
            );
        }
    }
    text
}

const CONNECT: &str = "weir serve /files/server.toml 2> /tmp/weir & sleep 1; cat /tmp/weir
nbd-client -unix /run/weir /dev/nbd0 -N v -b 512 2>&1 | tail -1
q=/sys/block/nbd0/queue; dev=$(cat /sys/block/nbd0/dev)
";

fn other(n: u32) -> String {
    format!("other-{n:02}")
}

/// The clients, as fio reads them.
fn jobs(row: &Row, job: &Job, setting: &Setting) -> String {
    let mut text = format!(
        "[global]\nfilename=/dev/nbd0\ndirect=1\ntime_based=1\nramp_time={WARM_UP_MS}ms\nruntime={}\n",
        row.seconds
    );
    let mut section = |name: &str, offset: u32, words: &str, first: &str| {
        let _ = writeln!(text, "\n[{name}]\noffset={offset}g\n{words}");
        if setting.has_groups() {
            // The shell's parent is the process of this job.
            let _ = writeln!(
                text,
                "exec_prerun={first}echo $PPID | tee /cg/{name}/cgroup.procs"
            );
        } else if !first.is_empty() {
            let _ = writeln!(text, "exec_prerun={first}true");
        }
    };
    let class = if setting.realtime {
        "\nprioclass=1\nprio=0"
    } else {
        ""
    };
    let size = fio_size(TARGET_PART);
    let target = format!("ioengine=psync\nrw=randread\nbs=4k\nsize={size}{class}");
    section(
        "target",
        TARGET_GIB,
        &target,
        "sh /tmp/count > /tmp/window & ",
    );
    for n in 0..job.numjobs {
        let (rw, kib, depth, size) = (&job.rw, job.bs_kib, job.iodepth, fio_size(PART));
        let words = format!("ioengine=libaio\nrw={rw}\nbs={kib}k\niodepth={depth}\nsize={size}");
        section(&other(n), n * APART_GIB, &words, "");
    }
    text
}

/// fio's word for MiB is `m`.
fn fio_size(size: &str) -> String {
    size.replace("MiB", "m")
}

/// What fio reported of the target, and what the kernel counted: seconds since boot, and sectors of the drive.
fn figures(console: &str) -> Option<Figures> {
    let fio = console.lines().map(|l| l.split(';').collect::<Vec<_>>());
    let target = fio.into_iter().find(|f| f.len() > 40 && f[2] == "target")?;
    let window = console.lines().filter_map(|l| l.strip_prefix("window "));
    let window: Vec<Vec<f64>> = window
        .map(|l| {
            l.split_whitespace()
                .filter_map(|n| n.parse().ok())
                .collect()
        })
        .collect();
    let [from, before, until, after] = &window[..] else {
        return None;
    };
    let sectors = |counted: &[f64]| Some(counted.get(2)? + counted.get(6)?);
    Some(Figures {
        latency_us: target[39].parse().ok().filter(|us| *us > 0.0)?,
        total_mb: (sectors(after)? - sectors(before)?) * 512.0
            / 1e6
            / (until.first()? - from.first()?),
    })
}
