//! Weir's side: a row in the simulator.

use super::Figures;
use super::row::{APART_GIB, PART, Row, Rows, TARGET_GIB, TARGET_PART, WARM_UP_MS};
use crate::RUNS;
use crate::play::with_cost;
use std::fmt::Write as _;
use weir_config::scenario::{self, Choice};
use weir_config::{policy, profile};
use weir_sim::Run;

/// The others begin within this time, as processes do. What begins at one instant goes on at one instant, which `io.cost` takes for a drive
/// that is too slow.
const APART: &str = "0ms-20ms";

/// Plays a row, several times, and returns the means.
///
/// # Errors
/// What does not go together.
pub fn play(rows: &Rows, row: &Row) -> Result<Figures, String> {
    let wrong = |e: &dyn std::fmt::Debug| format!("{}: {e:?}", row.name());
    let drive = profile::find(&row.drive).map_err(|e| wrong(&e))?.drive;
    let mut policy = policy::find(&row.policy).map_err(|e| wrong(&e))?;
    let setting = &rows.policy[&row.policy];
    if let Some(qos) = setting.qos(&drive) {
        policy = with_cost(&policy, &[("qos", qos)])?;
    }
    // Linux 6.1 has it always.
    policy.tune("bfq", "stable_merge", 1);
    let script = scenario::read(&text(rows, row), "").map_err(|e| wrong(&e))?;
    let choice = Choice::new(&drive, None, &row.policy);
    let scenario = script.scenario(&choice).map_err(|e| wrong(&e))?;
    let (mut requests, mut waited_us, mut bytes) = (0.0, 0.0, 0.0);
    for run in 1..=RUNS {
        let results = Run::new(&scenario, &policy, run).and_then(|run| run.run(|_| {}));
        let results = results.map_err(|e| wrong(&e))?;
        let latency = results.clients[0].meter.latency();
        requests += latency.count() as f64;
        waited_us += latency.mean() / 1e3 * latency.count() as f64;
        bytes += results.total.bytes() as f64;
    }
    let seconds = f64::from(RUNS * row.seconds);
    Ok(Figures {
        latency_us: waited_us / requests,
        total_mb: bytes / seconds / 1e6,
    })
}

/// The row as a scenario.
fn text(rows: &Rows, row: &Row) -> String {
    let (job, setting) = (&rows.job[&row.job], &rows.policy[&row.policy]);
    let grouping = if setting.has_groups() { "each" } else { "none" };
    let mut text = format!(
        "name = \"guest\"\nduration = \"{}s\"\nrun_in = \"{}s\"\nwarm_up = \"{WARM_UP_MS}ms\"\ngrouping = \"{grouping}\"\n\
         host = {{ nr_requests = \"linux\", nomerges = 0 }}\n",
        row.seconds, row.run_in
    );
    let _ = writeln!(
        text,
        "[[client]]\nname = \"target\"\nrw = \"randread\"\nbs = \"4KiB\"\nfile = \"drive\"\noffset = \"{TARGET_GIB}GiB\"\nsize = \"{TARGET_PART}\"\ndirect = true"
    );
    if setting.weights {
        text += "share = 300\n";
    }
    if setting.realtime {
        text += "ionice = \"realtime\"\n";
    }
    let (jobs, rw, kib, depth) = (job.numjobs, &job.rw, job.bs_kib, job.iodepth);
    let _ = writeln!(
        text,
        "[[client]]\nname = \"other\"\nnumjobs = {jobs}\nrw = \"{rw}\"\nbs = \"{kib}KiB\"\niodepth = {depth}\nfile = \"drive\"\n\
         startdelay = \"{APART}\"\noffset_increment = \"{APART_GIB}GiB\"\nsize = \"{PART}\"\ndirect = true"
    );
    if setting.limit_mb > 0 {
        let _ = writeln!(text, "max = {{ bandwidth = \"{}MB/s\" }}", setting.limit_mb);
    }
    text
}
