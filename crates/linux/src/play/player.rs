//! Plays a plan under this machine's kernel: settings, cgroups and fio.
//!
//! fio starts all jobs at once. Each of them makes a file when it is ready, and waits on a pipe
//! until [`PlayHost::play`] lets it begin, so that the start of a client does not depend on how
//! long fio takes to fork it.

use crate::HostFiles;
use crate::play::jobs::JobPaths;
use crate::play::log::{self, FioLog};
use crate::play::observe::{KernelObserver, Observations};
use crate::play::plan::PlayPlan;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time that jobs have to become ready, and that fio has to end after the run.
const PATIENCE: Duration = Duration::from_mins(1);

/// The time that fio has to end if the run has left data in the page cache. The kernel writes the
/// data back when the last job closes the device, and a disk needs minutes for a fifth of a large
/// memory (`vm.dirty_ratio`).
const WRITE_BACK_PATIENCE: Duration = Duration::from_hours(1);

/// The interval at which files and processes are polled.
const LOOK: Duration = Duration::from_millis(10);

/// The time between the moment at which all jobs are ready and the beginning of the run.
const AHEAD: Duration = Duration::from_millis(20);

/// The file with the time at which the run began.
const BEGAN: &str = "began";

/// The file with the utilisation of the processors.
const PROCESSOR: &str = "processor";

/// The file with the observations of the kernel.
const OBSERVED: &str = "observed";

/// The pause between the run-in and the run.
const REST: Duration = Duration::from_secs(1);

/// The device, the cgroups and the scratch directory with which a plan is played.
#[derive(Clone, Debug)]
pub struct PlayHost {
    /// The device or file that all jobs use.
    pub device: PathBuf,
    /// The directory at which cgroups of version 2 are mounted. If `None`, all clients stay in the
    /// cgroup of fio.
    pub cgroups: Option<String>,
    /// The directory for job files and logs.
    pub scratch: PathBuf,
}

/// The output of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PlayOutput {
    /// The beginning of the run, in nanoseconds since 1970.
    pub began_ns: u64,
    /// The utilisation of all processors in per cent. If it is near 100, the rates are limited by
    /// the processors and not by the drive.
    pub processor_percent: u64,
    /// The logs of fio, in the order of the jobs.
    pub logs: Vec<FioLog>,
    /// The quantities that the kernel reported. Empty if the plan does not request them.
    pub observed: Observations,
}

impl PlayOutput {
    /// Reads the output of a run. `read` returns the content of a file in the scratch directory.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or is not in fio's format.
    pub fn read<E: From<log::FioLogError>>(
        plan: &PlayPlan,
        read: impl Fn(&str) -> Result<String, E>,
    ) -> Result<Self, E> {
        let began = read(BEGAN)?;
        let unread = |_| log::FioLogError::Report(format!("{BEGAN}: {began}"));
        let began_ns = began.trim().parse().map_err(unread)?;
        let processor = read(PROCESSOR)?;
        let unread = |_| log::FioLogError::Report(format!("{PROCESSOR}: {processor}"));
        let processor_percent = processor.trim().parse().map_err(unread)?;
        let report = read("fio.json")?;
        let jobs = 1..=plan.jobs.clients.len();
        let logs = jobs.map(|n| read(&format!("log_lat.{n}.log")));
        let logs = logs.collect::<Result<Vec<_>, _>>()?;
        let logs = log::read(&report, &logs)?;
        let observed = read(OBSERVED)?;
        let unread = |e: serde_json::Error| log::FioLogError::Report(format!("{OBSERVED}: {e}"));
        let observed = serde_json::from_str(&observed).map_err(unread)?;
        Ok(Self {
            began_ns,
            processor_percent,
            logs,
            observed,
        })
    }
}

/// The reason why a plan was not played.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// A file or directory cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The path of the file or directory.
        path: String,
        /// The error that the system returned.
        source: io::Error,
    },
    /// fio cannot be started.
    #[error("cannot start fio ({0}); install package fio")]
    NoFio(io::Error),
    /// fio failed, or did not start or end in time.
    #[error("fio {0}")]
    Fio(String),
    /// The settings of the plan are not possible on this host.
    #[error("{0}")]
    Plan(String),
    /// The output of fio is invalid, or a job failed.
    #[error(transparent)]
    Log(#[from] log::FioLogError),
    /// The caller ended the run.
    #[error("interrupted")]
    Interrupted,
}

impl PlayHost {
    /// Plays a plan until its end, or until `go_on` returns false. The settings must have been made
    /// before (see [`knobs`]).
    ///
    /// # Errors
    /// Returns an error if fio cannot be started or fails, or if `go_on` returned false.
    pub fn play(&self, plan: &PlayPlan, go_on: &dyn Fn() -> bool) -> Result<PlayOutput, PlayError> {
        fs::create_dir_all(&self.scratch).map_err(at(&self.scratch))?;
        self.clean(plan)?;
        if let Some(text) = plan.jobs.run_in_file(&self.device.to_string_lossy()) {
            self.run_in(&text, go_on)?;
        }
        let cgroups = self.cgroups(plan);
        let text = plan.jobs.file(&JobPaths {
            device: &self.device.to_string_lossy(),
            cgroups: &cgroups,
        });
        self.write("jobs.fio", &text)?;
        let mut observer = KernelObserver::new(self, plan);
        let mut fio = Fio::start(&self.scratch, "jobs.fio", "fio.json")?;
        let began_ns = self.lead(plan, &mut fio, &mut observer, go_on)?;
        self.write(BEGAN, &began_ns.to_string())?;
        let observed = observer.map_or_else(Observations::default, KernelObserver::end);
        let observed = serde_json::to_string(&observed).unwrap_or_default();
        self.write(OBSERVED, &observed)?;
        PlayOutput::read(plan, |name| self.read(name))
    }

    /// Lets each job begin at its time, and waits for the end. Returns the beginning of the run in
    /// nanoseconds since 1970.
    fn lead(
        &self,
        plan: &PlayPlan,
        fio: &mut Fio,
        observer: &mut Option<KernelObserver>,
        go_on: &dyn Fn() -> bool,
    ) -> Result<u64, PlayError> {
        let jobs = &plan.jobs;
        let is_there = |what: &str, n: usize| self.scratch.join(format!("{what}.{n}")).exists();
        let patience = Instant::now() + PATIENCE;
        while !(0..jobs.clients.len()).all(|n| is_there("ready", n)) {
            fio.step(go_on, patience, "did not start all jobs")?;
            thread::sleep(LOOK);
        }
        // Both clocks are read together: one paces the jobs, the other relates fio's log to the
        // run.
        let (now, clock) = (Instant::now(), SystemTime::now());
        let began = now + AHEAD;
        let since = clock.duration_since(UNIX_EPOCH).unwrap_or_default() + AHEAD;
        if let Some(observer) = observer.as_mut() {
            observer.mark(began);
        }
        let before = Processors::now();
        let mut order: Vec<usize> = (0..jobs.clients.len()).collect();
        order.sort_by_key(|&n| (jobs.clients[n].begins_ns, n));
        for n in order {
            let begins = began + Duration::from_nanos(jobs.clients[n].begins_ns);
            while Instant::now() < begins {
                fio.step(go_on, begins + PATIENCE, "hangs")?;
                observer.iter_mut().for_each(KernelObserver::look);
                // Sleeping in short steps keeps the run interruptible.
                thread::sleep(
                    begins
                        .saturating_duration_since(Instant::now())
                        .min(10 * LOOK),
                );
            }
            self.release(n)?;
        }
        let ends = began + Duration::from_nanos(jobs.ends_ns);
        let busy = self.finish(plan, fio, observer, (&before, ends), go_on)?;
        self.write(PROCESSOR, &busy.to_string())?;
        Ok(since.as_nanos() as u64)
    }

    /// Waits until fio has ended. `before` is the processors' time at the beginning of the run,
    /// which ends at `ends`. Returns the utilisation of the processors in per cent.
    fn finish(
        &self,
        plan: &PlayPlan,
        fio: &mut Fio,
        observer: &mut Option<KernelObserver>,
        (before, ends): (&Processors, Instant),
        go_on: &dyn Fn() -> bool,
    ) -> Result<u64, PlayError> {
        let jobs = &plan.jobs;
        let patience = [PATIENCE, WRITE_BACK_PATIENCE][usize::from(jobs.writes_back)];
        let is_over = |n: usize| self.scratch.join(format!("over.{n}")).exists();
        let (mut told, mut busy) = (false, None);
        while fio.is_running()? {
            // After the end of the run, fio writes its logs, and the kernel writes back its page
            // cache. Both are not part of the measurement.
            if busy.is_none() && Instant::now() >= ends {
                busy = Some(Processors::now().busy_since(before));
            } else if busy.is_none() {
                observer.iter_mut().for_each(KernelObserver::look);
            }
            if jobs.until.is_some_and(is_over) && !told {
                fio.interrupt();
                told = true;
            }
            fio.step(go_on, ends + patience, "did not end")?;
            thread::sleep(LOOK);
        }
        fio.check(told)?;
        Ok(busy.unwrap_or_else(|| Processors::now().busy_since(before)))
    }

    /// Lets a job begin, by opening the pipe on which it waits.
    fn release(&self, n: usize) -> Result<(), PlayError> {
        let path = self.scratch.join(format!("go.{n}"));
        let patience = Instant::now() + PATIENCE;
        // Opening the writing end without a reader fails with ENXIO if it does not block (fifo(7)).
        loop {
            let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            let mut options = OpenOptions::new();
            match options.write(true).custom_flags(nonblocking).open(&path) {
                Ok(_) => return Ok(()),
                // The job has made its file `ready` but does not read from the pipe yet.
                Err(e) if has_no_reader(&e) && Instant::now() < patience => {
                    thread::sleep(LOOK / 10);
                }
                Err(e) => return Err(at(&path)(e)),
            }
        }
    }

    /// Reads the drive in sequence and pauses afterwards.
    fn run_in(&self, text: &str, go_on: &dyn Fn() -> bool) -> Result<(), PlayError> {
        self.write("run-in.fio", text)?;
        let mut fio = Fio::start(&self.scratch, "run-in.fio", "run-in.json")?;
        // The run-in lasts as long as the scenario specifies, so that it gets far more time.
        let patience = Instant::now() + 100 * PATIENCE;
        while fio.is_running()? {
            fio.step(go_on, patience, "did not end")?;
            thread::sleep(LOOK);
        }
        fio.check(false)?;
        thread::sleep(REST);
        Ok(())
    }

    /// Returns the directories of the groups by their numbers. Clients in the root group stay in
    /// the cgroup of fio.
    fn cgroups(&self, plan: &PlayPlan) -> Vec<Option<String>> {
        let Some(root) = &self.cgroups else {
            return Vec::new();
        };
        let groups = plan.groups.iter();
        let groups = groups.map(|path| Some(format!("{root}{path}")));
        std::iter::once(None).chain(groups).collect()
    }

    /// Removes the files of an earlier run, and makes the pipes on which the jobs wait.
    fn clean(&self, plan: &PlayPlan) -> Result<(), PlayError> {
        for n in 0..plan.jobs.clients.len() {
            // A file of an earlier run would be mistaken for a signal of this one.
            for what in ["ready", "go", "over"] {
                let path = self.scratch.join(format!("{what}.{n}"));
                match fs::remove_file(&path) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(at(&path)(e)),
                    _ => {}
                }
            }
            let path = self.scratch.join(format!("go.{n}"));
            let made = rustix::fs::mknodat(
                rustix::fs::CWD,
                &path,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
                0,
            );
            made.map_err(|e| at(&path)(e.into()))?;
        }
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> Result<(), PlayError> {
        let path = self.scratch.join(name);
        fs::write(&path, text).map_err(at(&path))
    }

    fn read(&self, name: &str) -> Result<String, PlayError> {
        let path = self.scratch.join(name);
        fs::read_to_string(&path).map_err(at(&path))
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> PlayError {
    let path = path.display().to_string();
    move |source| PlayError::File { path, source }
}

/// Returns true if a pipe has no reader (ENXIO).
fn has_no_reader(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error())
}

/// A running fio, which is ended when this is dropped.
struct Fio {
    child: Child,
    said: PathBuf,
}

impl Fio {
    fn start(scratch: &Path, jobs: &str, report: &str) -> Result<Self, PlayError> {
        let said = scratch.join(format!("{jobs}.said"));
        let file = File::create(&said).map_err(at(&said))?;
        let both = file.try_clone().map_err(at(&said))?;
        let child = Command::new("fio")
            .args(["--output-format=json", &format!("--output={report}"), jobs])
            .current_dir(scratch)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(both)
            .spawn()
            .map_err(PlayError::NoFio)?;
        Ok(Self { child, said })
    }

    fn is_running(&mut self) -> Result<bool, PlayError> {
        let status = self.child.try_wait();
        let status = status.map_err(|e| PlayError::Fio(e.to_string()))?;
        Ok(status.is_none())
    }

    /// Checks that fio can still be waited for.
    fn step(
        &mut self,
        go_on: &dyn Fn() -> bool,
        patience: Instant,
        late: &str,
    ) -> Result<(), PlayError> {
        if !go_on() {
            return Err(PlayError::Interrupted);
        }
        if Instant::now() > patience {
            return Err(self.failed(late));
        }
        if let Ok(Some(status)) = self.child.try_wait()
            && !status.success()
        {
            return Err(self.failed(&format!("ended with {status}")));
        }
        Ok(())
    }

    /// Waits for fio, and checks its exit status. An interrupted fio does not exit with 0.
    fn check(&mut self, interrupted: bool) -> Result<(), PlayError> {
        let status = self.child.wait();
        let status = status.map_err(|e| PlayError::Fio(e.to_string()))?;
        if status.success() || interrupted {
            return Ok(());
        }
        Err(self.failed(&format!("ended with {status}")))
    }

    fn failed(&self, how: &str) -> PlayError {
        let said = fs::read_to_string(&self.said).unwrap_or_default();
        let lines: Vec<&str> = said.lines().take(5).collect();
        PlayError::Fio(format!("{how}: {}", lines.join("; ")))
    }

    /// Ends fio as Ctrl-C does: it writes the results that it has.
    fn interrupt(&self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            // An error means that fio has already ended.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        }
    }
}

impl Drop for Fio {
    fn drop(&mut self) {
        if let Ok(Some(_)) = self.child.try_wait() {
            return;
        }
        // The jobs are processes of their own. fio ends them when it is interrupted, but not when
        // it is killed.
        self.interrupt();
        let patience = Instant::now() + Duration::from_secs(5);
        while Instant::now() < patience {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            thread::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The idle time and the total time of all processors since the boot, in ticks.
#[derive(Default)]
struct Processors {
    idle: u64,
    all: u64,
}

impl Processors {
    /// Reads `/proc/stat`. Returns zeroes if it cannot be read.
    fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let words = text.lines().next().unwrap_or_default().split_whitespace();
        // proc(5): user, nice, system, idle, iowait, irq, softirq, steal. Guest time is part of
        // user.
        let ticks = words.skip(1).take(8).map_while(|word| word.parse().ok());
        let ticks: Vec<u64> = ticks.collect();
        Self {
            idle: ticks.iter().skip(3).take(2).sum(),
            all: ticks.iter().sum(),
        }
    }

    /// Returns the busy part of the time since an earlier reading, in per cent.
    fn busy_since(&self, before: &Self) -> u64 {
        // The counters of iowait can decrease (proc(5)).
        let all = self.all.saturating_sub(before.all);
        let idle = self.idle.saturating_sub(before.idle);
        (100 * all.saturating_sub(idle))
            .checked_div(all)
            .unwrap_or(0)
    }
}

/// Makes the plan of the settings on a device of this host.
///
/// # Errors
/// Returns an error if the device does not exist, or if the host has no cgroups that the plan can
/// use.
pub fn knobs(
    plan: &PlayPlan,
    files: &dyn HostFiles,
    device: &Path,
) -> Result<crate::HostPlan, PlayError> {
    let link = device.to_string_lossy();
    crate::HostPlan::of_settings(files, &link, &plan.settings, &plan.groups)
        .map_err(PlayError::Plan)
}
