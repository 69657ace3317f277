//! The scenario `latency`: one process reads at random while fifteen others stream.
//!
//! It repeats the comparison of BFQ and io.latency of 2019, as the S suite runs it
//! (`run_main_benchmarks.sh latency`). All processes use `fio` with buffered I/O of 4 KiB, one call
//! at a time, on a file of their own in one file system. Readers advise the kernel that they read
//! sequentially (`fadvise_hint`), and the target that it does not. Writers overwrite, and call
//! `fdatasync` after each write. BFQ runs without `low_latency`.

use crate::{Policy, Scenario};
use weir_config::policy;
use weir_config::scenario::{Choice, find};
use weir_core::Span;
use weir_model::load::Region;

/// The size in bytes of each process's file in fits and in the validation of the drive models.
///
/// The scenario itself has 500 MiB, which is the largest file that the S suite created in August
/// 2019 (`process_config.sh`). The models were fitted with this larger size, and a profile is not
/// changed because of a later finding about one scenario.
pub const FILE: u64 = 2000 << 20;

/// The bandwidth that the target is promised under `contract`, in bytes per second.
pub const PROMISE: u64 = 10_000_000;

/// The work of the fifteen interfering processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interferers {
    /// The interferers read sequentially.
    Readers,
    /// The interferers write sequentially and sync each write.
    Writers,
}

impl Interferers {
    /// Both kinds of interferers, in the order of the comparison.
    pub const ALL: [Self; 2] = [Self::Readers, Self::Writers];

    /// The name of the interferers in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Readers => "readers",
            Self::Writers => "writers",
        }
    }
}

/// The policies of the comparison of 2019.
///
/// - `none`: no controller and no elevator.
/// - `io.latency`: a target of 10 us for the target's group. Each process has a group of its own.
/// - `bfq-5.3`: all processes are in the root group, and the target has the realtime class.
///
/// Under `contract`, each process is in a group of its own, and the target is promised [`PROMISE`].
/// The scenario's capacity must be stated in that case.
pub const COMPARED: [&str; 3] = ["none", "io.latency", "bfq-5.3"];

/// Returns the policy of the given name with the tunables that the scenario states for it.
///
/// # Panics
/// If Weir does not come with a policy of that name.
pub fn compared(policy: &str) -> Policy {
    let mut chosen = policy::find(policy).expect("it comes with Weir");
    let drive = weir_model::drive::DriveConfig::Null(weir_model::drive::null::NullConfig::demo());
    let script = find("latency").expect("it comes with Weir");
    let readers = Choice::new(&drive, Some(Interferers::Readers.name()), policy);
    let tuned = script.tune(&readers, &mut chosen);
    tuned.expect("what comes with Weir can be played");
    chosen
}

/// The timing of the target's reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetReads {
    /// Each read follows the previous one at once.
    Continuous,
    /// Each read begins 100 ms after the previous one.
    Sporadic,
}

/// Builds the scenario `latency`, or `latency-sporadic`, on `drive`.
///
/// The files have `file` bytes each (a multiple of 4096) and are one after the other from the
/// beginning of the drive, the target's first. The scenario's file describes it (`weir scenarios
/// latency`). Run it under the policy that [`compared`] returns for the same name.
pub fn latency(
    drive: &weir_model::drive::DriveConfig,
    interferers: Interferers,
    policy: &str,
    reads: TargetReads,
    file: u64,
) -> Scenario {
    let name = match reads {
        TargetReads::Continuous => "latency",
        TargetReads::Sporadic => "latency-sporadic",
    };
    let choice = Choice::new(drive, Some(interferers.name()), policy);
    let script = find(name).expect("it comes with Weir");
    let built = script.scenario(&choice);
    let mut scenario = built.expect("what comes with Weir can be played");
    let count = scenario.clients.len() as u64;
    for (number, client) in (0..).zip(&mut scenario.clients) {
        client.region = Region::new(number * file, file);
        // A drive model that is fitted to the results must not depend on the random wake-up times
        // of its host.
        if let Some(buffered) = &mut client.buffered {
            buffered.wakeup = Span::ZERO;
        }
    }
    scenario.spaces.fill(file * count);
    scenario
}
