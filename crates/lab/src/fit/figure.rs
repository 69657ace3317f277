//! Published figures of drives, each of which is an experiment in the simulator.

use crate::fit::FitError;
use weir_core::{Contract, Span};
use weir_model::drive::DriveConfig;
use weir_model::load::{Program, SyncMode};
use weir_sim::Buffered;
use weir_sim::scenario::{COMPARED, FILE, Interferers, TargetReads, compared, latency};
use weir_sim::{Adapter, NrRequests, Policy, Results, Scenario, SimRun};

/// The queue depth of a peak on a data sheet. No data sheet uses more.
const DEEP: u32 = 128;

/// The length of measurements. Reads are steady at once, writes once their buffer is full, and a
/// disk serves few accesses per second.
const READING: Span = Span::from_millis(300);
const WRITING: Span = Span::from_secs(1);
const ACCESSES: Span = Span::from_secs(4);

/// A figure that is published of drives and can be measured on a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriveFigure {
    /// Sequential reads of 128 KiB with a full queue (at most 128), in bytes per second.
    SequentialRead,
    /// Sequential writes of 128 KiB with a full queue (at most 128), in bytes per second.
    SequentialWrite,
    /// Random reads of 4 KiB with a full queue (at most 128), in bytes per second.
    RandomRead,
    /// Random writes of 4 KiB with a full queue (at most 128), in bytes per second.
    RandomWrite,
    /// Sequential reads of 128 KiB by one thread, one at a time, with direct I/O, in bytes per
    /// second. (Through the page cache, two read-ahead windows are in flight at a time, and any
    /// drive reaches its peak.)
    OneReader,
    /// Random reads of 4 KiB by a process that reads its file through the page cache, in bytes per
    /// second.
    OneRandomReader,
    /// The latency of random reads of 4 KiB over the whole drive, one at a time, in nanoseconds.
    Access,
    /// The latency of sequential reads of 32 KiB, one at a time, in nanoseconds.
    OneAtATime,
    /// The target's mean read latency in a case of the `latency` scenario under a policy, in
    /// nanoseconds.
    Latency(Interferers, &'static str),
    /// The target's mean read latency in a case of the `latency-sporadic` scenario under a policy,
    /// in nanoseconds.
    Sporadic(Interferers, &'static str),
    /// The total bandwidth in a case of the `latency` scenario under a policy, in bytes per second.
    Total(Interferers, &'static str),
}

/// The kind of a figure, with its unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// A rate in bytes per second.
    Rate,
    /// A time in nanoseconds.
    Time,
}

const PEAKS: [(&str, DriveFigure); 8] = [
    ("sequential-read", DriveFigure::SequentialRead),
    ("sequential-write", DriveFigure::SequentialWrite),
    ("random-read", DriveFigure::RandomRead),
    ("random-write", DriveFigure::RandomWrite),
    ("one-reader", DriveFigure::OneReader),
    ("one-random-reader", DriveFigure::OneRandomReader),
    ("access", DriveFigure::Access),
    ("one-at-a-time", DriveFigure::OneAtATime),
];

impl DriveFigure {
    /// Returns the name of the figure in sheets, for example `sequential-read` or
    /// `latency/readers/none`.
    pub fn name(self) -> String {
        let case = |what, interferers: Interferers, policy: &str| {
            format!("{what}/{}/{policy}", interferers.name())
        };
        match self {
            Self::Latency(i, c) => case("latency", i, c),
            Self::Sporadic(i, c) => case("latency-sporadic", i, c),
            Self::Total(i, c) => case("total", i, c),
            peak => {
                let found = PEAKS.iter().find(|p| p.1 == peak);
                found.expect("the list has all others").0.to_owned()
            }
        }
    }

    /// Returns the figure with this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::all().find(|figure| figure.name() == name)
    }

    /// Returns all figures that can be measured.
    pub fn all() -> impl Iterator<Item = Self> {
        let cases = Interferers::ALL
            .into_iter()
            .flat_map(|i| COMPARED.map(|c| (i, c)));
        let cases =
            cases.flat_map(|(i, c)| [Self::Latency(i, c), Self::Sporadic(i, c), Self::Total(i, c)]);
        PEAKS.iter().map(|p| p.1).chain(cases)
    }

    /// Returns the kind of the figure.
    pub fn measure(self) -> Measure {
        match self {
            Self::Access | Self::OneAtATime | Self::Latency(..) | Self::Sporadic(..) => {
                Measure::Time
            }
            _ => Measure::Rate,
        }
    }

    /// Measures the figure on a model, in bytes per second or nanoseconds. A mean of few reads is
    /// taken over repetitions until there are thirty reads, at most `repetitions_max`.
    ///
    /// # Errors
    /// Returns an error if the scenario cannot be run on this drive, because a parameter is out of
    /// range or the files do not fit.
    pub fn of(self, drive: &DriveConfig, repetitions_max: u32) -> Result<f64, FitError> {
        match self {
            Self::SequentialRead => rate(drive, sequential(drive), READING),
            Self::SequentialWrite => {
                let writes = Program {
                    writes: 100,
                    ..sequential(drive)
                };
                rate(drive, writes, WRITING)
            }
            Self::RandomRead => rate(drive, Program::random_reads(4096, deep(drive)), READING),
            Self::RandomWrite => {
                let writes = Program {
                    writes: 100,
                    sync: SyncMode::Never,
                    ..Program::random_reads(4096, deep(drive))
                };
                rate(drive, writes, WRITING)
            }
            Self::OneReader => rate(drive, Program::sequential_reads(128 << 10, 1), READING),
            Self::OneRandomReader => process(drive, Program::random_reads(4096, 1)),
            Self::Access => mean(drive, Program::random_reads(4096, 1), ACCESSES),
            Self::OneAtATime => mean(drive, Program::sequential_reads(32 << 10, 1), READING),
            Self::Latency(i, c) => {
                Ok(play(drive, i, c, TargetReads::Continuous, repetitions_max)?.0)
            }
            Self::Sporadic(i, c) => {
                Ok(play(drive, i, c, TargetReads::Sporadic, repetitions_max)?.0)
            }
            Self::Total(i, c) => Ok(play(drive, i, c, TargetReads::Continuous, repetitions_max)?.1),
        }
    }
}

/// Returns the queue depth that fills the drive.
fn deep(drive: &DriveConfig) -> u32 {
    let shape = drive.shape();
    u32::from(shape.tags)
        .saturating_mul(shape.queues.into())
        // Data sheets measure with at most this depth.
        .min(DEEP)
}

fn sequential(drive: &DriveConfig) -> Program {
    Program::sequential_reads(128 << 10, deep(drive))
}

/// Measures the bandwidth of a client that accesses a file with direct I/O for `time`.
fn rate(drive: &DriveConfig, program: Program, time: Span) -> Result<f64, FitError> {
    let results = direct(drive, program, time, Some(FILE))?;
    Ok(per_second(&results))
}

/// Measures the mean latency of a client that accesses the whole drive for `time`.
fn mean(drive: &DriveConfig, program: Program, time: Span) -> Result<f64, FitError> {
    let results = direct(drive, program, time, None)?;
    Ok(results.clients[0].meter.latency().mean())
}

/// Runs a client with direct I/O to a file at the beginning of the drive, or to the whole drive.
fn direct(
    drive: &DriveConfig,
    program: Program,
    time: Span,
    file: Option<u64>,
) -> Result<Results, FitError> {
    let mut scenario = Scenario::new("figure", drive.clone(), time);
    scenario.warm_up = Span::from_millis(100);
    // A model without a size has no end that could be reached.
    let size = drive.size().unwrap_or(FILE);
    let file = file.map_or(size, |file| file.min(size));
    scenario.add_client_with_group("client", Contract::DEFAULT, file, program);
    Ok(SimRun::new(&scenario, &Policy::none(), 0)?.run(|_| {})?)
}

/// Measures the bandwidth of a process with a file of its own.
fn process(drive: &DriveConfig, program: Program) -> Result<f64, FitError> {
    let mut scenario = Scenario::new("figure", drive.clone(), READING);
    scenario.warm_up = Span::from_millis(100);
    scenario.adapter = Adapter {
        nr_requests: NrRequests::Linux,
        ..Adapter::default()
    };
    let client = scenario.add_client_with_group("client", Contract::DEFAULT, FILE, program);
    client.buffered = Some(Buffered::advised(program.pattern));
    Ok(per_second(
        &SimRun::new(&scenario, &Policy::none(), 0)?.run(|_| {})?,
    ))
}

fn per_second(results: &Results) -> f64 {
    let meter = &results.total;
    meter.bytes() as f64 * 1e9 / meter.length_ns() as f64
}

/// The number of reads that a mean needs.
const ENOUGH: u64 = 30;

/// Measures the target's mean read latency and the total bandwidth, over repetitions.
fn play(
    drive: &DriveConfig,
    interferers: Interferers,
    policy: &str,
    reads: TargetReads,
    repetitions_max: u32,
) -> Result<(f64, f64), FitError> {
    let scenario = latency(drive, interferers, policy, reads, FILE);
    let policy = compared(policy);
    let (mut count, mut sum, mut bytes, mut nanos) = (0u64, 0.0, 0u64, 0u64);
    for repetition in 0..repetitions_max {
        let results = SimRun::new(&scenario, &policy, repetition)?.run(|_| {})?;
        let target = results.clients[0].meter.latency();
        count += target.count();
        sum += target.mean() * target.count() as f64;
        bytes += results.total.bytes();
        nanos += results.total.length_ns();
        // On a slow drive, a single run has only a few reads.
        if count >= ENOUGH {
            break;
        }
    }
    Ok((sum / count.max(1) as f64, bytes as f64 * 1e9 / nanos as f64))
}
