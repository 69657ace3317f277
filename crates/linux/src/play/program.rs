//! A kernel that is a program, in lockstep with a modelled drive: nothing lies between the two, and processors are infinitely fast, as in the
//! simulator. It has what Debian does not build: `io.latency`.

use crate::Knob;
use crate::guest::Lockstep;
use crate::play::guest::RUN;
use crate::play::plan::Plan;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use weir_config::scenario::Scenario;

/// Memory of the guest, MiB: what goes through the page cache is kept there.
const MEMORY_MIB: u32 = 4096;

/// Real time that a run may take.
const LIMIT: Duration = Duration::from_mins(20);

/// What plays a plan of a scenario's clients, with the program `weir`.
pub(crate) fn guest(kernel: &Path, weir: &Path, scenario: &Scenario, plan: &Plan) -> Lockstep {
    let shape = scenario.drive.shape();
    let mut script = format!(
        "q=/sys/block/vda/queue; echo {} > $q/rotational; echo {} > $q/max_sectors_kb; echo none > $q/scheduler\n",
        u8::from(shape.rotational),
        shape.max_transfer >> 10,
    );
    // A disk of virtio is registered as one that rotates, and what io.low takes from that does not change later.
    if plan.settings.iter().any(|s| s.knob == Knob::Low) {
        let slice = if shape.rotational { 100 } else { 20 };
        let _ = writeln!(script, "echo {slice} > $q/throttle_sample_time");
    }
    let _ = writeln!(
        script,
        "'{}' play $FILES/{RUN} /dev/vda $OUT/{RUN}",
        weir.display(),
    );
    let text = serde_json::to_vec(plan).unwrap_or_default();
    Lockstep {
        kernel: kernel.to_owned(),
        programs: Vec::new(),
        files: BTreeMap::from([(RUN.to_owned(), text)]),
        script,
        drive: scenario.drive.clone(),
        size: plan.jobs.bytes.next_multiple_of(1 << 20),
        memory_mib: MEMORY_MIB,
        limit: LIMIT,
    }
}
