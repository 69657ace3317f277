//! One process reads at random while fifteen others stream: the comparison of BFQ and io.latency of 2019.
//!
//! As the S suite runs it (`run_main_benchmarks.sh latency`): `fio`, buffered, 4 KiB, one call at a time, a file for each process on
//! one file system; readers have told the kernel that they read in sequence (`fadvise_hint`), the target that it does not; writers
//! overwrite and call `fdatasync` after each write. BFQ without `low_latency`.

use crate::Policy;
use crate::{Adapter, Buffered, ClientSpec, GroupSpec, NrRequests, Scenario};
use std::iter;
use weir_core::elevator::{self, bfq};
use weir_core::{Contract, Flags, GroupId, Knobs, Priority, PriorityClass, ROOT, SpaceId, Span};
use weir_load::{Arrival, Pattern, Program, Region, SyncMode};

/// Bytes of each process's file, where nothing else is asked for. The S suite takes what half the free space of the file system
/// permits, which is not known; this is what its other benchmarks read of each file (`NUM_BLOCKS=2000`), so that it is the least there
/// was.
pub const FILE: u64 = 2000 << 20;

/// Processes beside the target.
const INTERFERERS: u64 = 15;

/// How long they have been at it when the target begins.
const HEAD_START: Span = Span::from_millis(500);

/// What io.latency is told the target's reads are to take.
const TARGET: Span = Span::from_micros(10);

/// Bytes a second that the target is promised under [`Control::Contract`].
pub const PROMISE: u64 = 10_000_000;

/// From the answer to a sporadic read to the next one.
const SPORADIC: Span = Span::from_millis(100);

/// Deepest queue of an ATA drive: a drive with one queue and no more tags than this is behind an ATA adapter.
const NCQ: u16 = 32;

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
/// other from the beginning of the drive, the target's first. It lasts two seconds; ten where a read takes seconds, that is on a
/// disk unless BFQ controls it; the read that is outstanding then is waited for. The interferers begin half a second earlier.
///
/// Run it under [`Control::policy`] of the same `control`.
pub fn latency(
    drive: weir_drive::Config,
    interferers: Interferers,
    control: Control,
    reads: Reads,
    file: u64,
) -> Scenario {
    let shape = drive.shape();
    let slow = shape.rotational && control != Control::Bfq;
    let duration = Span::from_secs(if slow { 10 } else { 2 });
    let name = match reads {
        Reads::Continuous => "latency",
        Reads::Sporadic => "latency-sporadic",
    };
    let mut scenario = Scenario::new(name, drive, duration);
    scenario.case = interferers.name().into();
    scenario.adapter = Adapter {
        nr_requests: NrRequests::Linux,
        ata: shape.queues == 1 && shape.tags <= NCQ,
    };
    scenario.warm_up = HEAD_START;
    scenario.awaits = Some(0);
    // To the block layer the file system is one device. Linux has one flush under way for each hardware queue and spreads processes
    // over the queues by processor; Weir's layer has one for each space: the same space, once for each queue.
    let queues = u64::from(shape.queues);
    let spaces = queues.min(INTERFERERS + 1) as usize;
    scenario.spaces = vec![file * (INTERFERERS + 1); spaces];
    scenario.places = vec![0; spaces];
    let mut target = Program::random_reads(4096, 1);
    // fio keeps a map of what it has read: nothing is read twice.
    target.pattern = Pattern::Shuffled;
    if reads == Reads::Sporadic {
        target.arrival = Arrival::Closed { think: SPORADIC };
    }
    target.start = HEAD_START;
    target.stop = Some(HEAD_START + duration);
    scenario.clients = vec![process("target".into(), target, 0, file)];
    scenario.clients[0].priority.class = PriorityClass::Realtime;
    for n in 1..=INTERFERERS {
        let mut program = Program::sequential_reads(4096, 1);
        if interferers == Interferers::Writers {
            program.writes = 100;
            program.sync = SyncMode::Fdatasync(1);
        }
        let name = match interferers {
            Interferers::Readers => format!("reader-{n:02}"),
            Interferers::Writers => format!("writer-{n:02}"),
        };
        scenario.clients.push(process(name, program, n, file));
    }
    for (n, client) in scenario.clients.iter_mut().enumerate() {
        client.space = SpaceId((n % spaces) as u32);
    }
    let other = GroupSpec {
        parent: ROOT,
        contract: Contract::DEFAULT,
        knobs: Knobs::NONE,
    };
    let mut target = other;
    match control {
        Control::None | Control::Bfq => return scenario,
        Control::IoLatency => target.knobs.latency = TARGET,
        Control::Contract => target.contract.min = PROMISE,
    }
    let groups = iter::once(target).chain(iter::repeat(other));
    for ((client, group), id) in scenario.clients.iter_mut().zip(groups).zip(1..) {
        client.group = GroupId(id);
        scenario.groups.push(group);
    }
    scenario
}

/// A process with its own file, ungrouped, that tells the kernel how it reads.
fn process(name: String, program: Program, file: u64, length: u64) -> ClientSpec {
    ClientSpec {
        name,
        group: ROOT,
        priority: Priority::default(),
        program,
        space: SpaceId(0),
        region: Region {
            start: file * length,
            length,
        },
        buffered: Some(Buffered::advised(program.pattern)),
        flags: Flags::NONE,
        arrives: Span::ZERO,
        leaves: None,
    }
}
