//! One process reads at random while fifteen others stream: the comparison of BFQ and io.latency of 2019.
//!
//! As the S suite runs it (`run_main_benchmarks.sh latency`): `fio`, buffered, 4 KiB, one call at a time, a file for each process on
//! one file system; readers have told the kernel that they read in sequence (`fadvise_hint`), the target that it does not; writers
//! overwrite and call `fdatasync` after each write. BFQ without `low_latency`.

use crate::{Policy, Scenario};
use weir_config::policy;
use weir_config::scenario::{Choice, find};
use weir_core::Span;
use weir_model::load::Region;

/// Bytes of each process's file, where nothing else is asked for. The S suite takes what half the free space of the file system
/// permits, which is not known; this is what its other benchmarks read of each file (`NUM_BLOCKS=2000`), so that it is the least there
/// was.
pub const FILE: u64 = 2000 << 20;

/// Bytes a second that the target is promised under `contract`.
pub const PROMISE: u64 = 10_000_000;

/// What the interferers do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interferers {
    /// They read in sequence.
    Readers,
    /// They write in sequence, each write synced.
    Writers,
}

impl Interferers {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Readers, Self::Writers];

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Readers => "readers",
            Self::Writers => "writers",
        }
    }
}

/// The policies of the comparison of 2019: no controller and no elevator; io.latency with a target of 10 us for the target's group, each
/// process in a group of its own; BFQ, all processes in the root group, the target in the real-time class.
///
/// Under `contract` each process is in a group of its own, and the target is promised [`PROMISE`]; the scenario's capacity must be stated
/// then.
pub const COMPARED: [&str; 3] = ["none", "io.latency", "bfq-5.3"];

/// The policy of a name with what the scenario states of its tunables.
///
/// # Panics
/// If no policy of that name comes with Weir.
pub fn compared(policy: &str) -> Policy {
    let mut chosen = policy::find(policy).expect("it comes with Weir");
    let drive = weir_model::drive::Config::Null(weir_model::drive::null::Config::demo());
    let script = find("latency").expect("it comes with Weir");
    let readers = Choice::new(&drive, Some(Interferers::Readers.name()), policy);
    let tuned = script.tune(&readers, &mut chosen);
    tuned.expect("what comes with Weir can be played");
    chosen
}

/// How the target reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reads {
    /// One read after the other.
    Continuous,
    /// One now and then: each 100 ms after the last.
    Sporadic,
}

/// The `latency` scenario on `drive`, or `latency-sporadic`, with files of `file` bytes each (a multiple of 4096) one behind the
/// other from the beginning of the drive, the target's first. What it is stands in its file (`weir scenarios latency`).
///
/// Run it under [`compared`] of the same policy.
pub fn latency(
    drive: &weir_model::drive::Config,
    interferers: Interferers,
    policy: &str,
    reads: Reads,
    file: u64,
) -> Scenario {
    let name = match reads {
        Reads::Continuous => "latency",
        Reads::Sporadic => "latency-sporadic",
    };
    let choice = Choice::new(drive, Some(interferers.name()), policy);
    let script = find(name).expect("it comes with Weir");
    let built = script.scenario(&choice);
    let mut scenario = built.expect("what comes with Weir can be played");
    let count = scenario.clients.len() as u64;
    for (number, client) in (0..).zip(&mut scenario.clients) {
        client.region = Region::new(number * file, file);
        // What a drive is fitted to is not to depend on how its host's wake-ups fell.
        if let Some(buffered) = &mut client.buffered {
            buffered.wakeup = Span::ZERO;
        }
    }
    scenario.spaces.fill(file * count);
    scenario
}
