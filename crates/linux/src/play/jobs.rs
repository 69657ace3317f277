//! Translates a scenario into jobs of fio.

use crate::play::PlayRefusal;
use crate::play::refused;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write as _};
use weir_config::scenario::{RUN_IN_DEPTH, Scenario};
use weir_core::{PriorityClass, Span};
use weir_model::load::{Arrival, Law, LoadClient, Pattern, Program, Size, Skew, SyncMode, seed};
use weir_sim::ClientSpec;

const SECOND: u64 = 1_000_000_000;

/// The length of a read of the run-in, as in the simulator.
const RUN_IN_BYTES: u64 = 128 << 10;

/// The clock of every job file. fio's default clock reads the processor's counter, which does not
/// follow the virtual time of a guest.
const CLOCK: &str = "clocksource=clock_gettime";

/// The options of the first section of a job file, after the clock.
const GLOBAL: &str = "group_reporting=0
per_job_logs=1
log_unix_epoch=1
log_offset=1
disable_slat=1
invalidate=0
allow_file_create=0
";

/// The jobs of fio that play a scenario.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlayJobs {
    /// The keys and values of the section that reads the drive in sequence before the run, if the
    /// scenario has a run-in.
    pub run_in: Option<String>,
    /// The jobs of the clients, in the order of the scenario.
    pub clients: Vec<PlayJob>,
    /// The size that the device must have, in bytes.
    pub bytes: u64,
    /// The index of the client whose end ends all others, if the scenario has one.
    pub until: Option<usize>,
    /// The latest end of the run in nanoseconds from its beginning, without the run-in.
    pub ends_ns: u64,
    /// True if any client writes to the device.
    pub writes: bool,
    /// True if any client writes through the page cache, which the kernel writes back later.
    pub writes_back: bool,
}

/// A client as a section of a job file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlayJob {
    /// The name of the client.
    pub name: String,
    /// The number of the client's group in the scenario. 0 is the root.
    pub group: u32,
    /// The start of the client in nanoseconds from the beginning of the run.
    pub begins_ns: u64,
    /// The keys and values of the section, a line each.
    pub keys: String,
}

/// The paths that the job file refers to.
#[derive(Clone, Copy, Debug)]
pub struct JobPaths<'a> {
    /// The device or file that all jobs use.
    pub device: &'a str,
    /// The directory of each group by its number, the root first. A client whose group has `None`
    /// stays in the cgroup of fio.
    pub cgroups: &'a [Option<String>],
}

impl PlayJobs {
    /// Translates a repetition of a scenario.
    ///
    /// # Errors
    /// Returns the first feature of the scenario that fio cannot play.
    pub fn new(scenario: &Scenario, repetition: u32) -> Result<Self, PlayRefusal> {
        refused::check(scenario)?;
        let bases = scenario.bases();
        let (latest, over) = scenario.ends();
        let until = scenario.exits.or(scenario.awaits);
        // A run that awaits a client can last longer than its duration.
        let ends = if scenario.awaits.is_some() {
            latest
        } else {
            over
        };
        let clients = scenario.clients.iter().map(|client| {
            let seed = seed(&scenario.name, repetition, client.sequence);
            let base = bases.get(client.space.0 as usize).copied().unwrap_or(0);
            job(client, base, seed, ends.as_nanos())
        });
        let clients = clients.collect::<Result<Vec<_>, _>>()?;
        let sizes = bases.iter().zip(&scenario.spaces);
        let bytes = sizes.map(|(base, size)| base + size).max();
        let run_in = run_in(scenario, bases.first().copied().unwrap_or(0));
        Ok(Self {
            run_in,
            clients,
            bytes: bytes.unwrap_or(0),
            until,
            ends_ns: ends.as_nanos(),
            writes: scenario.clients.iter().any(|c| c.program.writes > 0),
            writes_back: scenario.clients.iter().any(writes_back),
        })
    }

    /// Returns the job file, which has a section for each client. N is the number of the client
    /// from 0.
    ///
    /// A client joins its group, makes the file `ready.N`, and begins when the pipe `go.N` is
    /// opened for writing. At its end it makes `over.N`. Its log is `log_lat.M.log`, where M is N +
    /// 1.
    pub fn file(&self, at: &JobPaths<'_>) -> String {
        let mut text = format!("[global]\n{CLOCK}\n{GLOBAL}filename={}\n", at.device);
        for (number, job) in self.clients.iter().enumerate() {
            let group = at.cgroups.get(job.group as usize).and_then(Option::as_ref);
            let join = group.map_or_else(String::new, |directory| {
                format!("echo $PPID > {directory}/cgroup.procs && ")
            });
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n[{number}.{}]\nexec_prerun={join}: > ready.{number} && : < go.{number}\nexec_postrun=: > over.{number}\n\
                 write_lat_log=log\n{}",
                job.name, job.keys
            );
        }
        text
    }

    /// Returns the job file of the run-in, if the scenario has one.
    pub fn run_in_file(&self, device: &str) -> Option<String> {
        let keys = self.run_in.as_ref()?;
        Some(format!("[run-in]\n{CLOCK}\nfilename={device}\n{keys}"))
    }
}

/// Returns the section that reads the first space in sequence, if the scenario has a run-in.
fn run_in(scenario: &Scenario, base: u64) -> Option<String> {
    let size = scenario.spaces.first().copied().unwrap_or(0) / RUN_IN_BYTES * RUN_IN_BYTES;
    if scenario.run_in == Span::ZERO || size == 0 {
        return None;
    }
    Some(format!(
        "rw=read\nbs={RUN_IN_BYTES}\nioengine=libaio\niodepth={RUN_IN_DEPTH}\ndirect=1\noffset={base}\nsize={size}\n\
         time_based=1\nruntime={}\ninvalidate=0\n",
        micros(scenario.run_in)
    ))
}

/// Translates a client. Its job begins when the client has arrived and its program starts, and ends
/// when the client leaves or stops, or at `ends`.
fn job(client: &ClientSpec, base: u64, seed: u64, ends: u64) -> Result<PlayJob, PlayRefusal> {
    let refuse = |_| PlayRefusal {
        client: Some(client.name.clone()),
        key: "size",
        why: "the client's part of the drive is too small",
    };
    // The random part of the start is drawn as in the simulator, so that both begin at the same
    // time.
    let program = played(client);
    let drawn = LoadClient::new(&program, seed, client.region).map_err(refuse)?;
    let program = drawn.program();
    let begins = program.start.max(client.arrives).as_nanos();
    let stops = [program.stop, client.leaves].into_iter().flatten();
    let stops = stops.map(Span::as_nanos).fold(ends, u64::min);
    let runtime = Span::from_nanos(stops.saturating_sub(begins));
    let mut keys = format!(
        "offset={}\nsize={}\nruntime={}\nrandseed={}\ndirect={}\n",
        base + client.region.start,
        client.region.length,
        micros(runtime),
        seed >> 1,
        u8::from(client.buffered.is_none() && !client.write_back),
    );
    // Writing to a string cannot fail.
    let _ = write_request_keys(&mut keys, program)
        .and_then(|()| write_arrival_keys(&mut keys, program));
    if client.priority != weir_core::Priority::default() {
        let class = match client.priority.class {
            // ioprio_set(2): IOPRIO_CLASS_RT, IOPRIO_CLASS_BE and IOPRIO_CLASS_IDLE.
            PriorityClass::Realtime => 1,
            PriorityClass::BestEffort => 2,
            PriorityClass::Idle => 3,
        };
        let level = client.priority.level;
        let _ = writeln!(keys, "prioclass={class}\nprio={level}");
    }
    Ok(PlayJob {
        name: client.name.clone(),
        group: client.group.0,
        begins_ns: begins,
        keys,
    })
}

/// Returns true if a client writes through the page cache.
fn writes_back(client: &ClientSpec) -> bool {
    client.program.writes > 0 && (client.write_back || client.buffered.is_some())
}

/// Returns the program of a client as fio plays it.
///
/// In the simulator, the requests of a client with `writeback` are those that the kernel sends when
/// it writes back the page cache. Under a kernel, the client is the program that fills the page
/// cache. Its system calls return one after the other, so that its depth is 1.
pub(crate) fn played(client: &ClientSpec) -> Program {
    if !client.write_back {
        return client.program;
    }
    let arrival = match client.program.arrival {
        Arrival::Batches { .. } => Arrival::Closed { think: Span::ZERO },
        arrival => arrival,
    };
    Program {
        depth: 1,
        arrival,
        ..client.program
    }
}

/// Writes the keys of the requests: direction, size, position, and flushes.
fn write_request_keys(f: &mut String, program: &Program) -> fmt::Result {
    let random = match program.pattern {
        Pattern::Sequential => "",
        _ => "rand",
    };
    match program.writes {
        0 => writeln!(f, "rw={random}read")?,
        100 => writeln!(f, "rw={random}write")?,
        writes => {
            let rw = if random.is_empty() { "rw" } else { "randrw" };
            writeln!(f, "rw={rw}\nrwmixread={}", 100 - writes)?;
        }
    }
    match program.size {
        Size::Fixed(bytes) => writeln!(f, "bs={bytes}")?,
        Size::Range { min, max, .. } => writeln!(f, "bsrange={min}-{max}")?,
        Size::Split(split) => {
            let parts = split.parts();
            let parts = parts.map(|(size, part)| format!("{size}/{part}"));
            writeln!(f, "bssplit={}", parts.collect::<Vec<_>>().join(":"))?;
        }
    }
    match program.pattern {
        Pattern::Sequential | Pattern::Shuffled => {}
        // With its map, fio visits each block once (`Shuffled`). Random positions can repeat.
        Pattern::Random => writeln!(f, "norandommap=1")?,
        Pattern::Skewed(skew) => {
            writeln!(f, "norandommap=1\nrandom_distribution={}", shown(skew))?;
        }
        Pattern::Partly { reads, writes } => {
            writeln!(f, "norandommap=1\npercentage_random={reads},{writes}")?;
        }
    }
    if let Some(zones) = program.zones {
        let (size, skip) = (zones.size, zones.skip);
        writeln!(
            f,
            "zonemode=strided\nzonesize={size}\nzonerange={size}\nzoneskip={skip}"
        )?;
    }
    match program.sync {
        SyncMode::Never => {}
        _ if program.writes == 0 => {}
        SyncMode::Flush(every) => writeln!(f, "fsync={every}")?,
        SyncMode::Fdatasync(every) => writeln!(f, "fdatasync={every}")?,
    }
    if program.fua && program.writes > 0 {
        writeln!(f, "sync=dsync")?;
    }
    Ok(())
}

/// Writes the keys of the arrival of requests: depth, think time, rates, and the end.
fn write_arrival_keys(f: &mut String, program: &Program) -> fmt::Result {
    // psync has one request in flight. A greater depth needs an asynchronous engine.
    let engine = ["psync", "libaio"][usize::from(program.depth > 1)];
    writeln!(f, "ioengine={engine}\niodepth={}", program.depth)?;
    match program.arrival {
        Arrival::Closed { think } if think > Span::ZERO => {
            let every = program.think_every;
            writeln!(f, "thinktime={}\nthinktime_blocks={every}", micros(think))?;
        }
        Arrival::Closed { .. } => {}
        Arrival::Batches { low } => writeln!(f, "iodepth_low={low}")?,
        Arrival::Even { interval } => writeln!(f, "{}", rates(&[Some(interval)], &program.size))?,
        Arrival::Poisson { interval } => {
            writeln!(
                f,
                "{}\nrate_process=poisson",
                rates(&[Some(interval)], &program.size)
            )?;
        }
        Arrival::Apart {
            reads,
            writes,
            poisson,
        } => {
            writeln!(f, "{}", rates(&[reads, writes], &program.size))?;
            if poisson {
                writeln!(f, "rate_process=poisson")?;
            }
        }
    }
    if let Some(activity) = program.activity {
        let (on, off) = (micros(activity.on), micros(activity.off));
        writeln!(f, "thinktime={off}\nthinktime_iotime={on}")?;
        // Otherwise, fio would catch up with its rate after each pause.
        writeln!(f, "rate_ignore_thinktime=1")?;
    }
    match program.requests {
        Some(requests) => {
            let count = requests - flushes(program, requests);
            let most = count.saturating_mul(program.size.most().into());
            writeln!(f, "io_size={most}\nnumber_ios={count}")
        }
        None => writeln!(f, "time_based=1"),
    }
}

/// Returns the number of flushes among the requests of a program that ends after a number of
/// requests. fio counts only reads and writes. The count is also stated in bytes, because fio
/// starts again at the beginning of a file only for `io_size`.
fn flushes(program: &Program, requests: u64) -> u64 {
    match program.sync {
        SyncMode::Flush(every) | SyncMode::Fdatasync(every) if program.writes == 100 => {
            requests / (u64::from(every) + 1)
        }
        _ => 0,
    }
}

/// Returns the rate for these intervals, or the rates of reads and of writes. An interval of `None`
/// gives no rate.
///
/// `rate_iops` is an integer. If an interval does not divide a second and requests have one size,
/// the rate is therefore stated in bytes per second.
fn rates(intervals: &[Option<Span>], size: &Size) -> String {
    let intervals = intervals.iter();
    let intervals = intervals.map(|interval| interval.map(|i| i.as_nanos().max(1)));
    let uneven = intervals
        .clone()
        .flatten()
        .any(|i| !SECOND.is_multiple_of(i));
    let bytes = match size {
        Size::Fixed(bytes) if uneven => Some(*bytes),
        _ => None,
    };
    let rate = |interval: u64| match bytes {
        Some(bytes) => u128::from(bytes) * u128::from(SECOND) / u128::from(interval),
        None => u128::from((SECOND / interval).max(1)),
    };
    let shown = intervals.map(|i| i.map_or_else(String::new, |i| rate(i).to_string()));
    let key = if bytes.is_some() { "rate" } else { "rate_iops" };
    format!("{key}={}", shown.collect::<Vec<_>>().join(","))
}

/// Formats a time in whole microseconds, at least 1.
fn micros(time: Span) -> String {
    format!("{}us", (time.as_nanos() / 1_000).max(1))
}

/// Formats a distribution in fio's syntax.
fn shown(skew: Skew) -> String {
    let millionths = |n: u32| f64::from(n) / 1e6;
    let (law, n) = match skew.law {
        Law::Zipf(theta) => ("zipf", theta),
        Law::Pareto(h) => ("pareto", h),
        Law::Normal(deviation) => ("normal", deviation),
    };
    let center = skew.center.map(|center| format!(":{}", millionths(center)));
    format!("{law}:{}{}", millionths(n), center.unwrap_or_default())
}
