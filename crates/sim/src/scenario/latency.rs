//! One process reads at random while fifteen others stream: the comparison of BFQ and io.latency of 2019.
//!
//! As the S suite runs it (`run_main_benchmarks.sh latency`): `fio`, buffered, 4 KiB, one call at a time, a file for each process on
//! one file system; readers have told the kernel that they read in sequence (`fadvise_hint`), the target that it does not; writers
//! overwrite and call `fdatasync` after each write. BFQ without `low_latency`.

use crate::{Policy, Scenario};
use weir_config::scenario::{Choice, find};
use weir_core::elevator::{self, bfq};
use weir_load::Region;

/// Bytes of each process's file, where nothing else is asked for. The S suite takes what half the free space of the file system
/// permits, which is not known; this is what its other benchmarks read of each file (`NUM_BLOCKS=2000`), so that it is the least there
/// was.
pub const FILE: u64 = 2000 << 20;

/// Bytes a second that the target is promised under [`Control::Contract`].
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

/// How the target is protected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// Not at all: no controller, no elevator.
    None,
    /// io.latency with a target of 10 us for the target's group, each process in a group of its own; no elevator.
    IoLatency,
    /// BFQ, all processes in the root group, the target in the real-time class.
    Bfq,
    /// Contracts: each process in a group of its own, with equal shares; the target is promised [`PROMISE`]. The scenario's capacity
    /// must be stated.
    Contract,
}

impl Control {
    /// Those of the comparison of 2019.
    pub const ALL: [Self; 3] = [Self::None, Self::IoLatency, Self::Bfq];

    /// As a policy.
    pub fn policy(self) -> Policy {
        let (name, elevator) = match self {
            Self::None => ("none", elevator::Config::None),
            Self::IoLatency => ("io.latency", elevator::Config::None),
            Self::Bfq => {
                let config = bfq::Config {
                    low_latency: false,
                    ..bfq::Config::default()
                };
                ("bfq", elevator::Config::Bfq(config))
            }
            Self::Contract => return Policy::contract(),
        };
        Policy {
            name: name.into(),
            elevator,
            promises_as_weights: false,
        }
    }
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
/// Run it under [`Control::policy`] of the same `control`.
pub fn latency(
    drive: &weir_drive::Config,
    interferers: Interferers,
    control: Control,
    reads: Reads,
    file: u64,
) -> Scenario {
    let name = match reads {
        Reads::Continuous => "latency",
        Reads::Sporadic => "latency-sporadic",
    };
    let choice = Choice {
        drive,
        capacity: drive.capacity(),
        case: Some(interferers.name()),
        policy: &control.policy().name,
        seconds: None,
    };
    let script = find(name).expect("it comes with Weir");
    let built = script.scenario(&choice);
    let mut scenario = built.expect("what comes with Weir can be played");
    let count = scenario.clients.len() as u64;
    for (number, client) in (0..).zip(&mut scenario.clients) {
        client.region = Region {
            start: number * file,
            length: file,
        };
    }
    scenario.spaces.fill(file * count);
    scenario
}
