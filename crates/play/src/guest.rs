//! Plays a plan under an unmodified kernel in a guest, on a modelled drive, in virtual time.
//!
//! The drive is `weir serve` with the model, in the guest, by the kernel's NBD client; the clients are fio's, led by the same program. The way to
//! the server and back takes processor time, which the drive has not: what it adds to a read is found in the same boot, by a reader alone, beside the
//! same on the model alone.

use crate::measure::measure;
use crate::plan::Plan;
use crate::player::Played;
use crate::{log, plan};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;
use weir_config::scenario::Scenario;
use weir_config::{Policy, profile};
use weir_core::{Contract, Span};
use weir_guest::{Guest, Kernel};
use weir_load::Program;
use weir_sim::Run;

/// For how long the reader reads that finds what the path takes.
const PATH_TIME: Span = Span::from_millis(300);

/// Bytes of the part of a disk that it reads: its cache has them, so that it need not seek.
const PATH_BYTES: u64 = 64 << 10;

/// Memory of the guest, MiB: what is written to the modelled drive is kept there, and what goes through the page cache.
const MEMORY_MIB: u32 = 4096;

/// Real time that a guest may take.
const LIMIT: Duration = Duration::from_mins(20);

/// The name in the guest of what finds the path.
const PATH: &str = "path";
const RUN: &str = "run";

/// A kernel with what plays under it.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The kernel.
    pub kernel: Kernel,
    /// The program `weir`, which serves the drive and leads fio: this version of it.
    pub weir: PathBuf,
}

/// What came of a run in a guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// What fio logged.
    pub played: Played,
    /// What the path adds to a request, in nanoseconds.
    pub path_ns: u64,
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be played at all.
    #[error(transparent)]
    Plan(#[from] plan::Error),
    /// The guest.
    #[error(transparent)]
    Guest(#[from] weir_guest::Error),
    /// What fio wrote there.
    #[error("in the guest: {0}")]
    Log(#[from] log::Error),
    /// The guest has not left a file.
    #[error("the guest left no {name}; the last that it said:\n{said}")]
    Missing {
        /// Which.
        name: String,
        /// The end of its console.
        said: String,
    },
    /// The reader on the model alone.
    #[error("the model alone: {0}")]
    Sim(#[from] weir_sim::Error),
}

impl Lab {
    /// Plays a repetition of a scenario, as it is under a policy.
    ///
    /// # Errors
    /// It cannot be played, the guest does not come to its end, or `go_on` said no.
    pub fn play(
        &self,
        scenario: &Scenario,
        policy: &Policy,
        repetition: u32,
        go_on: impl Fn() -> bool,
    ) -> Result<Outcome, Error> {
        let shape = scenario.drive.shape();
        let (run, _) = Plan::new(scenario, policy, repetition, Some(&shape))?;
        let alone = alone(scenario);
        let (path, _) = Plan::new(&alone, &Policy::none(), 0, Some(&shape))?;
        let mut guest = Guest::new(self.kernel.clone(), script(scenario));
        guest.memory_mib = MEMORY_MIB;
        guest.limit = LIMIT;
        guest.programs.push(self.weir.clone());
        guest.add_program("fio", "fio")?;
        guest.add_program("nbd-client", "nbd-client")?;
        let size = run.jobs.bytes.max(path.jobs.bytes);
        let texts = [
            ("server.toml", server(scenario, size)),
            (PATH, serde_json::to_string(&path).unwrap_or_default()),
            (RUN, serde_json::to_string(&run).unwrap_or_default()),
        ];
        let files = texts.map(|(name, text)| (name.to_owned(), text.into_bytes()));
        guest.files.extend(files);
        let ran = guest.run_while(|_| (), go_on)?;
        let read = |of: &'static str| {
            let ran = &ran;
            move |name: &str| {
                let name = format!("{of}/{name}");
                let found = ran.files.get(&name).map(|f| String::from_utf8_lossy(f));
                found.map(std::borrow::Cow::into_owned).ok_or_else(|| {
                    let from = ran.console.len().saturating_sub(12);
                    let said = ran.console[from..].join("\n");
                    Error::Missing { name, said }
                })
            }
        };
        let measured = Played::read(&path, read(PATH))?;
        Ok(Outcome {
            played: Played::read(&run, read(RUN))?,
            path_ns: path_ns(&alone, &measured)?,
        })
    }
}

/// What the path adds to a request: the mean read of a reader alone, less that on the model alone.
fn path_ns(alone: &Scenario, played: &Played) -> Result<u64, Error> {
    let guest = measure(alone, 0, &played.logs, played.began_ns, 0, None);
    let model = Run::new(alone, &Policy::none(), 0)?.run(|_| {})?;
    let mean = |meter: &weir_measure::Meter| meter.latency().mean();
    let more = mean(&guest.total) - mean(&model.total);
    Ok(more.max(0.0) as u64)
}

/// A reader alone on the drive.
fn alone(scenario: &Scenario) -> Scenario {
    let mut alone = Scenario::new("path", scenario.drive.clone(), PATH_TIME);
    let bytes = match scenario.drive.shape().rotational {
        true => PATH_BYTES,
        false => scenario.spaces.iter().copied().max().unwrap_or(0),
    };
    let program = Program::random_reads(4096, 1);
    alone.tenant("reader", Contract::DEFAULT, bytes.max(PATH_BYTES), program);
    alone.groups.clear();
    alone.clients[0].group = weir_core::ROOT;
    alone
}

/// The server's file.
fn server(scenario: &Scenario, size: u64) -> String {
    let model = profile::word(&scenario.drive);
    let size = size.next_multiple_of(1 << 20) >> 20;
    format!(
        "[drive.d]\nmodel = {model}\npolicy = \"none\"\n\n[listen]\nnbd = [\"unix:/run/weir\"]\n\n[volume.v]\ndrive = \"d\"\nsize = \"{size}MiB\"\n"
    )
}

/// Makes the device, tells the kernel what the drive is, and plays.
fn script(scenario: &Scenario) -> String {
    let shape = scenario.drive.shape();
    let mut text = CONNECT.to_owned();
    let rotational = u8::from(shape.rotational);
    let _ = writeln!(text, "echo {rotational} > $q/rotational");
    let _ = writeln!(text, "echo {} > $q/max_sectors_kb", shape.max_transfer >> 10);
    // Without an elevator the number of requests is the number of tags that are used, and stays so under an elevator.
    let _ = writeln!(text, "echo none > $q/scheduler; echo {} > $q/nr_requests", shape.tags);
    for name in [PATH, RUN] {
        let _ = writeln!(text, "weir play /files/{name} /dev/nbd0 /out/{name}");
    }
    text
}

/// Modules that are built in are not there to be loaded.
const CONNECT: &str = "for m in nbd bfq kyber_iosched mq_deadline; do has $m && load $m; done
weir serve /files/server.toml 2> /tmp/weir &
n=0; until [ -S /run/weir ] || [ $n = 500 ]; do sleep 0.01; n=$((n+1)); done
[ -S /run/weir ] || cat /tmp/weir
nbd-client -unix /run/weir /dev/nbd0 -N v -b 512 2>&1 | tail -1
q=/sys/block/nbd0/queue
";
