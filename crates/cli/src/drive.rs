//! Measures the capacity of drive models by playing loads in the simulator.

use crate::failure::Failure;
use weir_core::{Capacity, Contract, Span};
use weir_model::drive::DriveConfig;
use weir_model::load::Program;
use weir_sim::{Policy, Scenario, SimRun};

/// The length of a measurement, and of the warm-up before it.
const TIME: Span = Span::from_millis(500);
const DEPTH: u32 = 256;

/// The length of the part of the drive on which is measured, from its start, in bytes.
const SPACE: u64 = 1 << 30;

/// Returns the bandwidth of one client that reads sequentially with as many requests as the drive
/// takes, in bytes per second.
pub(crate) fn peak(drive: &DriveConfig) -> Result<u64, Failure> {
    let shape = drive.shape();
    let tags = u32::from(shape.tags) * u32::from(shape.queues);
    let size = drive.size().map_or(SPACE, |size| size.min(SPACE));
    let mut scenario = Scenario::new("probe", drive.clone(), TIME);
    scenario.warm_up = TIME;
    let program = Program::sequential_reads(128 * 1024, tags.min(DEPTH));
    scenario.add_client_with_group("probe", Contract::DEFAULT, size, program);
    let (bytes, _) = rates(&scenario)?;
    Ok(bytes)
}

/// Returns the capacity of a drive model in the worst case, as contracts are compared with it.
pub(crate) fn capacity(drive: &DriveConfig) -> Result<Capacity, Failure> {
    let least = drive.worst_case(SPACE).map_err(Failure::run)?;
    least.ok_or_else(|| {
        let reason =
            "the drive has no limit, so that nothing can be promised; set a link or a service time";
        Failure::Run(reason.into())
    })
}

/// Returns the bytes and requests per second of all clients of a scenario without any policy.
pub(crate) fn rates(scenario: &Scenario) -> Result<(u64, u64), Failure> {
    let run = SimRun::new(scenario, &Policy::none(), 0).map_err(Failure::run)?;
    let total = run.run(|_| {}).map_err(Failure::run)?.total;
    // 128 bits avoid an overflow of the product.
    let second = |count: u64| {
        let second = u128::from(count) * 1_000_000_000 / u128::from(total.length_ns().max(1));
        u64::try_from(second).unwrap_or(u64::MAX)
    };
    Ok((second(total.bytes()), second(total.requests())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_config::units::{ByteSize, BytesPerSecond};
    use weir_config::{notes, parse, profile};

    /// Returns the bandwidth of random requests of a length all over the drive, in bytes per
    /// second.
    fn at_random(drive: &DriveConfig, length: u32, writes: u8) -> u64 {
        let shape = drive.shape();
        let tags = u32::from(shape.tags) * u32::from(shape.queues);
        let mut scenario = Scenario::new("random", drive.clone(), Span::from_secs(20));
        scenario.warm_up = Span::from_secs(5);
        let program = Program {
            writes,
            ..Program::random_reads(length, tags.min(DEPTH))
        };
        let size = drive.size().unwrap_or(SPACE);
        scenario.add_client_with_group("random", Contract::DEFAULT, size, program);
        rates(&scenario).unwrap().0
    }

    /// Returns the length from which on requests of a kind reach `min` according to the note of
    /// `weir check`.
    fn told(model: &str, min: BytesPerSecond, kind: &str) -> u32 {
        let text = format!(
            "drive.d.model = \"{model}\"\nlisten.nbd = [\"127.0.0.1:0\"]\nvolume.v = {{ drive = \"d\", size = \"1GiB\", min = \"{min}\" }}"
        );
        let server = parse("", &text).unwrap();
        let note = notes(&server)[0].to_string();
        let line = note.lines().find_map(|l| {
            let length = l.trim_start().strip_prefix(kind)?;
            length.strip_prefix(" of at least ")?.split(';').next()
        });
        let length: ByteSize = line.expect(&note).parse().unwrap();
        u32::try_from(length.0).unwrap()
    }

    /// `weir check` states the length from which on random requests reach a promise. On the disk
    /// models, requests of that length do, and requests of 4 KiB do not.
    #[test]
    fn requests_of_the_stated_length_reach_the_promise() {
        for name in ["hitachi-hts72755", "wd-wd10jpvx", "seagate-st3808110as"] {
            let drive = profile::find(name).unwrap().drive;
            let min = drive.worst_case(u64::MAX).unwrap().unwrap().bytes() / 3;
            for (kind, writes) in [("reads", 0), ("writes", 100)] {
                let length = told(name, BytesPerSecond(min), kind);
                let got = at_random(&drive, length, writes);
                println!("{name} {kind} of {length}: {got} of {min}");
                assert!(
                    // The length is an estimate, for which a deviation of 5 % is accepted.
                    got * 20 >= min * 19,
                    "{name}, {kind} of {length}: {got} of {min}"
                );
                let small = at_random(&drive, 4096, writes);
                assert!(small * 4 < min, "{name}, {kind} of 4096: {small} of {min}");
            }
        }
    }
}
