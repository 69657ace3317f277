//! Describes the guest that plays a plan in lockstep with a modelled drive.
//!
//! Nothing is between kernel and drive, and processors are infinitely fast, as in the simulator.
//! The kernel can have `io.latency`, which Debian's does not have.

use crate::Knob;
use crate::guest::Lockstep;
use crate::play::guest::RUN;
use crate::play::plan::PlayPlan;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use weir_config::scenario::{Buffered, Scenario};

/// The memory of the guest in MiB, which holds the page cache.
const MEMORY_MIB: u32 = 4096;

/// The maximum duration of a run, in real time.
const LIMIT: Duration = Duration::from_mins(20);

/// The page cache that can be dirty, in bytes. Processors take no time, so that time only advances
/// when a writer is throttled. With the kernel's default of 20 % of the memory, a smaller file
/// would be written for ever.
const DIRTY_BYTES: u64 = 32 << 20;

/// Returns the page cache that can be dirty: the limit of the scenario, if it states one.
fn dirty_bytes(scenario: &Scenario) -> u64 {
    let clients = scenario.clients.iter();
    let stated = clients.filter_map(|client| Some(client.buffered?.dirty_bytes));
    let stated = stated.filter(|bytes| *bytes != Buffered::default().dirty_bytes);
    stated.max().unwrap_or(DIRTY_BYTES)
}

/// Returns the guest that plays a plan of a scenario's clients with the program `weir`.
pub(crate) fn guest(kernel: &Path, weir: &Path, scenario: &Scenario, plan: &PlayPlan) -> Lockstep {
    let shape = scenario.drive.shape();
    let mut script = format!(
        "q=/sys/block/vda/queue; echo {} > $q/rotational; echo {} > $q/max_sectors_kb; echo none > $q/scheduler\n",
        u8::from(shape.rotational),
        shape.max_transfer >> 10,
    );
    // A virtio disk is registered as rotational. The slice that io.low derives from that does not
    // change with the attribute, so that it is set here.
    if plan.settings.iter().any(|s| s.knob == Knob::Low) {
        let slice = if shape.rotational { 100 } else { 20 };
        // Writing to a string cannot fail.
        let _ = writeln!(script, "echo {slice} > $q/throttle_sample_time");
    }
    if plan.jobs.writes_back {
        let bytes = dirty_bytes(scenario);
        let _ = writeln!(script, "echo {bytes} > /proc/sys/vm/dirty_bytes");
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

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::{Contract, Span};
    use weir_model::drive::{DriveConfig, null::NullConfig};
    use weir_model::load::Program;

    #[test]
    fn the_limit_of_dirty_pages_is_that_of_the_scenario_if_it_states_one() {
        let drive = DriveConfig::Null(NullConfig::demo());
        let mut scenario = Scenario::new("dirty", drive, Span::from_secs(1));
        let program = Program::sequential_reads(4096, 1);
        scenario.add_client_with_group("one", Contract::DEFAULT, 1 << 20, program);
        assert_eq!(dirty_bytes(&scenario), DIRTY_BYTES);
        scenario.clients[0].buffered = Some(Buffered::default());
        assert_eq!(dirty_bytes(&scenario), DIRTY_BYTES);
        scenario.clients[0].buffered = Some(Buffered {
            dirty_bytes: 64 << 20,
            ..Buffered::default()
        });
        assert_eq!(dirty_bytes(&scenario), 64 << 20);
    }
}
