//! Plays a plan under an unmodified kernel in a guest, on a modelled drive, in virtual time.
//!
//! In the guest, `weir serve` serves the drive's model, through ublk if the kernel has it and
//! otherwise through the kernel's NBD client. The clients are jobs of fio, which `weir play` leads.
//!
//! The path to the server and back takes processor time, which a drive would not take. To find out
//! how much, a reader runs without contention in the guest and on the model alone, and the means
//! are compared. The server then completes requests earlier by the difference (`path` of its
//! drive), so that the kernel sees the drive's own times. The same reader runs again in the boot of
//! the scenario, and its remaining difference is reported.

use crate::guest::{GuestOutput, Kernel, KernelGuest};
use crate::play::measure::measure;
use crate::play::plan::PlayPlan;
use crate::play::player::PlayOutput;
use crate::play::{log, plan, program};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use weir_config::scenario::Scenario;
use weir_config::{Policy, profile};
use weir_core::{Contract, Span};
use weir_model::load::Program;
use weir_sim::SimRun;

/// The duration for which the reader measures the path.
const PATH_TIME: Span = Span::from_millis(300);

/// The size of the region that the reader reads, for flash and for a disk. On a disk it fits in the
/// drive's cache, so that the reader does not seek.
const PATH_BYTES: [u64; 2] = [1 << 30, 64 << 10];

/// The number of boots in which the path is measured.
const LOOKS: u32 = 2;

/// The memory of the guest in MiB. It holds the data on the modelled drive, and the page cache.
const MEMORY_MIB: u32 = 4096;

/// The maximum duration of a guest, in real time.
const LIMIT: Duration = Duration::from_mins(20);

/// The name of the reader's plan in the guest.
const PATH: &str = "path";
/// The name of the run's plan in the guest.
pub(crate) const RUN: &str = "run";

/// The number of lines of the console that an error shows.
const SAID: usize = 12;

/// A kernel, with the programs that play a scenario under it.
#[derive(Debug)]
pub struct Lab {
    kernel: Kernel,
    weir: PathBuf,
    /// The measured time of the path in nanoseconds, for each drive.
    paths: Mutex<Vec<(weir_model::drive::DriveConfig, u64)>>,
}

/// The results of a run in a guest.
#[derive(Clone, PartialEq, Debug)]
pub struct GuestOutcome {
    /// The logs of fio.
    pub played: PlayOutput,
    /// The time of the path that was subtracted from each request, in nanoseconds.
    pub path_ns: u64,
    /// The rest of the path in this boot, in nanoseconds. Negative if too much was subtracted.
    pub left_ns: i64,
    /// The differences between the kernel and the policy, a sentence for each.
    pub notes: Vec<String>,
}

/// The reason why a run has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum GuestPlayError {
    /// The scenario or the policy cannot be played.
    #[error(transparent)]
    Plan(#[from] plan::PlayPlanError),
    /// The guest could not be run.
    #[error(transparent)]
    Guest(#[from] crate::guest::GuestError),
    /// The output of fio is invalid, or fio failed.
    #[error("the guest failed: {0}")]
    Log(#[from] log::FioLogError),
    /// The guest did not write a file that it should have written.
    #[error("the guest did not write {name}; its last lines:\n{said}")]
    Missing {
        /// The path of the file.
        name: String,
        /// The end of the guest's console.
        said: String,
    },
    /// The reader could not be simulated on the model alone.
    #[error("the model without the guest failed: {0}")]
    Sim(#[from] weir_sim::SimError),
}

impl Lab {
    /// A laboratory for this kernel. `weir` is the program of this version, which serves the drive
    /// and leads fio.
    pub fn new(kernel: Kernel, weir: PathBuf) -> Self {
        Self {
            kernel,
            weir,
            paths: Mutex::default(),
        }
    }

    /// Returns the kernel of the laboratory.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Plays a repetition of a scenario under a policy.
    ///
    /// # Errors
    /// Returns an error if the scenario cannot be played, if the guest does not reach its end, or
    /// if `go_on` returned false.
    pub fn play(
        &self,
        scenario: &Scenario,
        policy: &Policy,
        repetition: u32,
        go_on: impl Fn() -> bool,
    ) -> Result<GuestOutcome, GuestPlayError> {
        let shape = scenario.drive.shape();
        let (run, notes) = PlayPlan::new(scenario, policy, repetition, Some(&shape))?;
        // A kernel in lockstep has no path to correct for: its processors take no time.
        if let Some(kernel) = self.kernel.program() {
            let guest = program::guest(kernel, &self.weir, scenario, &run);
            let ran = guest.run_while(|_| (), go_on)?;
            return Ok(GuestOutcome {
                played: PlayOutput::read(&run, |name| left(&ran, RUN, name))?,
                path_ns: 0,
                left_ns: 0,
                notes,
            });
        }
        let path_ns = self.path(scenario, &go_on)?;
        let (left_ns, played) = self.boot(scenario, path_ns, Some(&run), &go_on)?;
        // `boot` has a plan here, so that it returns logs.
        let played = played.unwrap_or_default();
        Ok(GuestOutcome {
            played,
            path_ns,
            left_ns,
            notes,
        })
    }

    /// Returns the beginning of a script, which starts the server with `server.toml`, makes its
    /// device `$dev`, and sets the drive's attributes in the kernel.
    pub fn connect(&self, scenario: &Scenario) -> String {
        // A program has the same file name in the guest as on this machine.
        let weir = self.weir.file_name().unwrap_or_default().to_string_lossy();
        let shape = scenario.drive.shape();
        let (rotational, kib) = (u8::from(shape.rotational), shape.max_transfer >> 10);
        let tags = shape.tags;
        format!(
            "weir() {{ '/bin/{weir}' \"$@\"; }}\nrotational={rotational} kib={kib} tags={tags}\n{CONNECT}"
        )
    }

    /// Returns the time of the path to the scenario's drive, in nanoseconds. It is measured once
    /// for each drive. Other threads wait in the meantime.
    ///
    /// # Errors
    /// Returns the errors of [`play`](Self::play).
    // The vector is complete after every statement, so that a panic elsewhere has not damaged it.
    pub fn path(
        &self,
        scenario: &Scenario,
        go_on: &impl Fn() -> bool,
    ) -> Result<u64, GuestPlayError> {
        let mut known = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = known.iter().find(|(drive, _)| *drive == scenario.drive) {
            return Ok(*found);
        }
        let mut found = 0i64;
        // A server that completes earlier is woken at other times, which changes the path. The
        // second look measures the rest and adds it.
        for _ in 0..LOOKS {
            let now = u64::try_from(found).unwrap_or(0);
            let (more, _) = self.boot(scenario, now, None, go_on)?;
            found = (found + more).max(0);
        }
        let found = found as u64;
        known.push((scenario.drive.clone(), found));
        Ok(found)
    }

    /// Describes a guest with this script and all programs.
    ///
    /// # Errors
    /// Returns an error if a program is not installed.
    pub fn guest(&self, script: String) -> Result<KernelGuest, GuestPlayError> {
        let mut guest = KernelGuest::new(self.kernel.clone(), script);
        guest.memory_mib = MEMORY_MIB;
        guest.limit = LIMIT;
        guest.programs.push(self.weir.clone());
        guest.add_program("fio", "fio")?;
        guest.add_program("nbd-client", "nbd-client")?;
        Ok(guest)
    }

    /// Boots a guest whose server completes requests earlier by `path_ns`. Returns the rest of the
    /// path, and the logs of the run if there was one.
    fn boot(
        &self,
        scenario: &Scenario,
        path_ns: u64,
        run: Option<&PlayPlan>,
        go_on: &impl Fn() -> bool,
    ) -> Result<(i64, Option<PlayOutput>), GuestPlayError> {
        let alone = alone(scenario);
        let shape = scenario.drive.shape();
        let (mut reader, _) = PlayPlan::new(&alone, &Policy::none(), 0, Some(&shape))?;
        // This run measures the time of requests, without the time for observing the kernel.
        reader.observed = false;
        let plans: Vec<(&'static str, &PlayPlan)> = std::iter::once((PATH, &reader))
            .chain(run.map(|run| (RUN, run)))
            .collect();
        let mut script = self.connect(scenario);
        for (name, _) in &plans {
            // Writing to a string cannot fail.
            let _ = writeln!(script, "weir play /files/{name} /dev/$dev /out/{name}");
        }
        let mut guest = self.guest(script)?;
        // Both plans use the same volume.
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
        let measured = PlayOutput::read(&reader, |name| left(&ran, PATH, name))?;
        let played = run.map(|run| PlayOutput::read(run, |name| left(&ran, RUN, name)));
        Ok((added(&alone, &measured)?, played.transpose()?))
    }
}

/// Returns the text of a file that a run has written.
fn left(ran: &GuestOutput, of: &str, name: &str) -> Result<String, GuestPlayError> {
    let name = format!("{of}/{name}");
    if let Some(bytes) = ran.files.get(&name) {
        return Ok(String::from_utf8_lossy(bytes).into_owned());
    }
    let from = ran.console.len().saturating_sub(SAID);
    let said = ran.console[from..].join("\n");
    Err(GuestPlayError::Missing { name, said })
}

/// Returns the time that the path adds to a request, in nanoseconds: the mean latency of the reader
/// in the guest, minus that on the model alone.
fn added(alone: &Scenario, played: &PlayOutput) -> Result<i64, GuestPlayError> {
    let guest = measure(alone, 0, &played.logs, played.began_ns, None);
    let model = SimRun::new(alone, &Policy::none(), 0)?.run(|_| {})?;
    Ok((guest.total.latency().mean() - model.total.latency().mean()) as i64)
}

/// Makes a scenario with a single reader on the drive.
fn alone(scenario: &Scenario) -> Scenario {
    let mut alone = Scenario::new("path", scenario.drive.clone(), PATH_TIME);
    let bytes = PATH_BYTES[usize::from(scenario.drive.shape().rotational)];
    let program = Program::random_reads(4096, 1);
    alone.add_client_with_group("reader", Contract::DEFAULT, bytes, program);
    // No contract must limit the reader.
    alone.groups.clear();
    alone.clients[0].group = weir_core::ROOT;
    alone
}

/// Returns the configuration of the server: a volume of `size` bytes on the scenario's drive, which
/// completes requests earlier by `path_ns`.
pub fn server(scenario: &Scenario, size: u64, path_ns: u64) -> String {
    let model = profile::word(&scenario.drive);
    // The size is written in whole MiB.
    let size = size.next_multiple_of(1 << 20) >> 20;
    format!(
        "[drive.d]\nmodel = {model}\npath = \"{path_ns}ns\"\npolicy = \"none\"\n\n[listen]\nnbd = [\"unix:/run/weir\"]\n\n[volume.v]\ndrive = \"d\"\nsize = \"{size}MiB\"\n"
    )
}

/// The commands that start the server and make the device.
///
/// ublk, which the kernels for guests have from 6.12 on, passes the drive's attributes to the
/// kernel by itself. With NBD, the attributes are set in sysfs: without an elevator, `nr_requests`
/// is the number of tags, and it stays the number of the drive's tags when an elevator is selected.
/// Built-in modules cannot be loaded and are skipped. The timer slack is set to 1 ns, because by
/// default a sleep until the drive's completion would last up to 50 us longer.
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
