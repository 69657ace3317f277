//! Plays a plan under an unmodified kernel in a guest, on a modelled drive, in virtual time.
//!
//! The drive is `weir serve` with the model, in the guest, by ublk where the kernel has it, else by its NBD client; the clients are fio's, led by the same program. The way to
//! the server and back takes processor time, which the drive does not. What it adds to a read is found by a reader alone, beside the same on the
//! model alone. The server then answers sooner by that (`path` of its drive), so that the kernel sees the drive's own times, and the same reader says in
//! the same boot what is left of it.

use crate::guest::{Guest, Kernel, Ran};
use crate::play::measure::measure;
use crate::play::plan::Plan;
use crate::play::player::Played;
use crate::play::{log, plan, program};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use weir_config::scenario::Scenario;
use weir_config::{Policy, profile};
use weir_core::{Contract, Span};
use weir_model::load::Program;
use weir_sim::Run;

/// For how long the reader reads that finds what the path takes.
const PATH_TIME: Span = Span::from_millis(300);

/// Bytes of the part of the drive that it reads; of a disk what its cache has, so that it need not seek.
const PATH_BYTES: [u64; 2] = [1 << 30, 64 << 10];

/// Boots in which the path is looked for.
const LOOKS: u32 = 2;

/// Memory of the guest, MiB: what is written to the modelled drive is kept there, and what goes through the page cache.
const MEMORY_MIB: u32 = 4096;

/// Real time that a guest may take.
const LIMIT: Duration = Duration::from_mins(20);

/// The name in the guest of what finds the path.
const PATH: &str = "path";
/// That of the run.
pub(crate) const RUN: &str = "run";

/// Lines of the console that are shown of a guest that has not left what it should.
const SAID: usize = 12;

/// A kernel with what plays under it.
#[derive(Debug)]
pub struct Lab {
    kernel: Kernel,
    weir: PathBuf,
    /// What the path takes, by drive, as far as it was found, in nanoseconds.
    paths: Mutex<Vec<(weir_model::drive::Config, u64)>>,
}

/// What came of a run in a guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// What fio logged.
    pub played: Played,
    /// What the path adds to a request and was taken off, in nanoseconds.
    pub path_ns: u64,
    /// What of it was left in this boot: below zero where too much was taken off.
    pub left_ns: i64,
    /// In what the kernel is not as the policy, a sentence each.
    pub notes: Vec<String>,
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be played at all.
    #[error(transparent)]
    Plan(#[from] plan::Error),
    /// The guest.
    #[error(transparent)]
    Guest(#[from] crate::guest::Error),
    /// What fio wrote there.
    #[error("the guest failed: {0}")]
    Log(#[from] log::Error),
    /// The guest has not left a file.
    #[error("the guest did not write {name}; its last lines:\n{said}")]
    Missing {
        /// Which.
        name: String,
        /// The end of its console.
        said: String,
    },
    /// The reader on the model alone.
    #[error("the model without the guest failed: {0}")]
    Sim(#[from] weir_sim::Error),
}

impl Lab {
    /// A kernel, and the program `weir` of this version, which serves the drive and leads fio.
    pub fn new(kernel: Kernel, weir: PathBuf) -> Self {
        Self {
            kernel,
            weir,
            paths: Mutex::default(),
        }
    }

    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

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
        let (run, notes) = Plan::new(scenario, policy, repetition, Some(&shape))?;
        if let Some(kernel) = self.kernel.program() {
            let guest = program::guest(kernel, &self.weir, scenario, &run);
            let ran = guest.run_while(|_| (), go_on)?;
            return Ok(Outcome {
                played: Played::read(&run, |name| left(&ran, RUN, name))?,
                path_ns: 0,
                left_ns: 0,
                notes,
            });
        }
        let path_ns = self.path(scenario, &go_on)?;
        let (left_ns, played) = self.boot(scenario, path_ns, Some(&run), &go_on)?;
        let played = played.unwrap_or_else(|| Played {
            began_ns: 0,
            processor_percent: 0,
            logs: Vec::new(),
        });
        Ok(Outcome {
            played,
            path_ns,
            left_ns,
            notes,
        })
    }

    /// The beginning of a script: makes the device of the server's file `server.toml`, called `$dev`, and tells the kernel what the drive is.
    pub fn connect(&self, scenario: &Scenario) -> String {
        // Programs are called there what they are called here.
        let weir = self.weir.file_name().unwrap_or_default().to_string_lossy();
        let shape = scenario.drive.shape();
        let (rotational, kib) = (u8::from(shape.rotational), shape.max_transfer >> 10);
        let tags = shape.tags;
        format!(
            "weir() {{ '/bin/{weir}' \"$@\"; }}\nrotational={rotational} kib={kib} tags={tags}\n{CONNECT}"
        )
    }

    /// What the path to the scenario's drive takes, in nanoseconds. Others that want to know wait meanwhile.
    ///
    /// # Errors
    /// See [`play`](Self::play).
    pub fn path(&self, scenario: &Scenario, go_on: &impl Fn() -> bool) -> Result<u64, Error> {
        let mut known = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = known.iter().find(|(drive, _)| *drive == scenario.drive) {
            return Ok(*found);
        }
        let mut found = 0i64;
        // A server that answers sooner is woken at other times: what is left of the path after the first look is a part of it.
        for _ in 0..LOOKS {
            let now = u64::try_from(found).unwrap_or(0);
            let (more, _) = self.boot(scenario, now, None, go_on)?;
            found = (found + more).max(0);
        }
        let found = found as u64;
        known.push((scenario.drive.clone(), found));
        Ok(found)
    }

    /// A guest with this script and all programs.
    ///
    /// # Errors
    /// A program is not there.
    pub fn guest(&self, script: String) -> Result<Guest, Error> {
        let mut guest = Guest::new(self.kernel.clone(), script);
        guest.memory_mib = MEMORY_MIB;
        guest.limit = LIMIT;
        guest.programs.push(self.weir.clone());
        guest.add_program("fio", "fio")?;
        guest.add_program("nbd-client", "nbd-client")?;
        Ok(guest)
    }

    /// Boots a guest whose server answers sooner by `path_ns`. What the path adds to that reader's requests all the same, and what was played.
    fn boot(
        &self,
        scenario: &Scenario,
        path_ns: u64,
        run: Option<&Plan>,
        go_on: &impl Fn() -> bool,
    ) -> Result<(i64, Option<Played>), Error> {
        let alone = alone(scenario);
        let shape = scenario.drive.shape();
        let (reader, _) = Plan::new(&alone, &Policy::none(), 0, Some(&shape))?;
        let plans: Vec<(&'static str, &Plan)> = std::iter::once((PATH, &reader))
            .chain(run.map(|run| (RUN, run)))
            .collect();
        let mut script = self.connect(scenario);
        for (name, _) in &plans {
            let _ = writeln!(script, "weir play /files/{name} /dev/$dev /out/{name}");
        }
        let mut guest = self.guest(script)?;
        let size = plans.iter().map(|(_, plan)| plan.jobs.bytes).max();
        let server = server(scenario, size.unwrap_or(0), path_ns);
        guest
            .files
            .insert("server.toml".to_owned(), server.into_bytes());
        for (name, plan) in plans {
            let text = serde_json::to_vec(plan).unwrap_or_default();
            guest.files.insert(name.to_owned(), text);
        }
        let ran = guest.run_while(|_| (), go_on)?;
        let measured = Played::read(&reader, |name| left(&ran, PATH, name))?;
        let played = run.map(|run| Played::read(run, |name| left(&ran, RUN, name)));
        Ok((added(&alone, &measured)?, played.transpose()?))
    }
}

/// The text of a file that a run has left.
fn left(ran: &Ran, of: &str, name: &str) -> Result<String, Error> {
    let name = format!("{of}/{name}");
    if let Some(bytes) = ran.files.get(&name) {
        return Ok(String::from_utf8_lossy(bytes).into_owned());
    }
    let from = ran.console.len().saturating_sub(SAID);
    let said = ran.console[from..].join("\n");
    Err(Error::Missing { name, said })
}

/// What the path adds to a request, in nanoseconds: the mean read of a reader alone, less that on the model alone.
fn added(alone: &Scenario, played: &Played) -> Result<i64, Error> {
    let guest = measure(alone, 0, &played.logs, played.began_ns, None);
    let model = Run::new(alone, &Policy::none(), 0)?.run(|_| {})?;
    Ok((guest.total.latency().mean() - model.total.latency().mean()) as i64)
}

/// A reader alone on the drive.
fn alone(scenario: &Scenario) -> Scenario {
    let mut alone = Scenario::new("path", scenario.drive.clone(), PATH_TIME);
    let bytes = PATH_BYTES[usize::from(scenario.drive.shape().rotational)];
    let program = Program::random_reads(4096, 1);
    alone.tenant("reader", Contract::DEFAULT, bytes, program);
    alone.groups.clear();
    alone.clients[0].group = weir_core::ROOT;
    alone
}

/// The server's file: a volume of `size` bytes on the scenario's drive, which answers sooner by `path_ns`.
pub fn server(scenario: &Scenario, size: u64, path_ns: u64) -> String {
    let model = profile::word(&scenario.drive);
    let size = size.next_multiple_of(1 << 20) >> 20;
    format!(
        "[drive.d]\nmodel = {model}\npath = \"{path_ns}ns\"\npolicy = \"none\"\n\n[listen]\nnbd = [\"unix:/run/weir\"]\n\n[volume.v]\ndrive = \"d\"\nsize = \"{size}MiB\"\n"
    )
}

/// The server, and the device: by ublk, which tells the kernel what the drive is, where the kernel has it (from 6.12 on); else by NBD. There the
/// number of requests without an elevator is the number of tags that are used, and stays so under an elevator. Modules that are built in are not
/// there to be loaded. Timers are exact: by default what sleeps until a drive's time would sleep up to 50 us longer.
const CONNECT: &str = "echo 1 > /proc/$$/timerslack_ns
for m in nbd ublk_drv bfq kyber_iosched mq_deadline; do has $m && load $m; done
cp /files/server.toml /tmp/server.toml; dev=nbd0
has ublk_drv && dev=ublkb0 && echo 'ublk = true' >> /tmp/server.toml
weir serve /tmp/server.toml 2> /tmp/weir &
there() { n=0; until [ $1 $2 ] || [ $n = 500 ]; do sleep 0.01; n=$((n+1)); done; [ $1 $2 ] || cat /tmp/weir; }
there -S /run/weir; q=/sys/block/$dev/queue
if [ $dev = nbd0 ]; then
    nbd-client -unix /run/weir /dev/nbd0 -N v -b 512 2>&1 | tail -1
    echo $rotational > $q/rotational; echo $kib > $q/max_sectors_kb
    echo none > $q/scheduler; echo $tags > $q/nr_requests
else
    there -b /dev/ublkb0
fi
";
