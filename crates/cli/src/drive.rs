//! What modelled drives can do.

use crate::failure::Failure;
use weir_core::{Capacity, Contract, Span};
use weir_drive::Config;
use weir_load::Program;
use weir_sim::{Policy, Run, Scenario};

/// Time of a measurement, and how many commands are in the drive meanwhile at most.
const TIME: Span = Span::from_millis(500);
const DEPTH: u32 = 256;

/// Bytes that are measured on: the beginning of the drive.
const SPACE: u64 = 1 << 30;

/// Bytes a second that one client reads in sequence with as many requests as the drive takes.
pub(crate) fn peak(drive: &Config) -> Result<u64, Failure> {
    let (bytes, _) = measure(drive, Program::sequential_reads(128 * 1024, 1))?;
    Ok(bytes)
}

/// What it can do, as far as contracts count with it: sequential reads and writes, and random reads of 4 KiB, at full depth. Of drives
/// whose model has no bound of its own, measured in virtual time.
pub(crate) fn capacity(drive: &Config) -> Result<Capacity, Failure> {
    if let Some(capacity) = drive.capacity() {
        return Ok(capacity);
    }
    let reads = Program::sequential_reads(128 * 1024, 1);
    let writes = Program {
        writes: 100,
        ..reads
    };
    Ok(Capacity {
        read: measure(drive, reads)?.0,
        write: measure(drive, writes)?.0,
        iops: measure(drive, Program::random_reads(4096, 1))?.1,
        ..Capacity::NONE
    })
}

/// Bytes and requests a second of one client that does nothing else, at full depth.
fn measure(drive: &Config, program: Program) -> Result<(u64, u64), Failure> {
    let shape = drive.shape();
    let tags = u32::from(shape.tags) * u32::from(shape.queues);
    let size = drive.size().map_or(SPACE, |size| size.min(SPACE));
    let mut scenario = Scenario::new("probe", drive.clone(), TIME);
    scenario.warm_up = TIME;
    let program = Program {
        depth: tags.min(DEPTH),
        ..program
    };
    scenario.tenant("probe", Contract::DEFAULT, size, program);
    rates(&scenario)
}

/// Bytes and requests a second of all clients of a scenario, under no policy.
pub(crate) fn rates(scenario: &Scenario) -> Result<(u64, u64), Failure> {
    let run = Run::new(scenario, &Policy::none(), 0).map_err(Failure::run)?;
    let total = run.run(|_| {}).map_err(Failure::run)?.total;
    let second = |count: u64| {
        let second = u128::from(count) * 1_000_000_000 / u128::from(total.length_ns().max(1));
        u64::try_from(second).unwrap_or(u64::MAX)
    };
    Ok((second(total.bytes()), second(total.requests())))
}
