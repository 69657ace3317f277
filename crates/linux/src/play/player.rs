//! Plays a plan under this machine's kernel: knobs, cgroups and fio.

use crate::Files;
use crate::play::jobs::Surroundings;
use crate::play::log::{self, Log};
use crate::play::plan::Plan;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long jobs may take until all are there, and from the run's end until fio has ended.
const PATIENCE: Duration = Duration::from_mins(1);

/// How often something is looked for that is about to be there.
const LOOK: Duration = Duration::from_millis(10);

/// From when the jobs are there to the beginning of the run.
const AHEAD: Duration = Duration::from_millis(20);

/// The file that says when a run began.
const BEGAN: &str = "began";

/// The file that says how busy processors were.
const PROCESSOR: &str = "processor";

/// The rest after the run-in.
const REST: Duration = Duration::from_secs(1);

/// Where a plan is played.
#[derive(Clone, Debug)]
pub struct Host {
    /// The device or file.
    pub device: PathBuf,
    /// Where cgroups of version 2 are; `None`: all clients stay where fio is.
    pub cgroups: Option<String>,
    /// A directory for job files and logs.
    pub scratch: PathBuf,
}

/// What came of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Played {
    /// When it began, in nanoseconds since 1970.
    pub began_ns: u64,
    /// The part of all processors' time, in per cent, in which they were busy. Where that is all of it, rates are theirs and not the drive's.
    pub processor_percent: u64,
    /// Fio's logs, in the order of the jobs.
    pub logs: Vec<Log>,
}

impl Played {
    /// Reads what a run has left in its directory, by the names of files there.
    ///
    /// # Errors
    /// A file cannot be read, or is not what fio writes.
    pub fn read<E: From<log::Error>>(
        plan: &Plan,
        read: impl Fn(&str) -> Result<String, E>,
    ) -> Result<Self, E> {
        let began = read(BEGAN)?;
        let unread = |_| log::Error::Report(format!("{BEGAN}: {began}"));
        let began_ns = began.trim().parse().map_err(unread)?;
        let processor = read(PROCESSOR)?;
        let unread = |_| log::Error::Report(format!("{PROCESSOR}: {processor}"));
        let processor_percent = processor.trim().parse().map_err(unread)?;
        let report = read("fio.json")?;
        let jobs = 1..=plan.jobs.clients.len();
        let logs = jobs.map(|n| read(&format!("log_lat.{n}.log")));
        let logs = logs.collect::<Result<Vec<_>, _>>()?;
        let logs = log::read(&report, &logs)?;
        Ok(Self {
            began_ns,
            processor_percent,
            logs,
        })
    }
}

/// Why a plan was not played.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// fio is not there.
    #[error("cannot start fio ({0}); install package fio")]
    NoFio(io::Error),
    /// fio did not do what it should.
    #[error("fio {0}")]
    Fio(String),
    /// This host cannot be set as the plan wants.
    #[error("{0}")]
    Plan(String),
    /// What fio wrote.
    #[error(transparent)]
    Log(#[from] log::Error),
    /// It was told to end.
    #[error("interrupted")]
    Interrupted,
}

impl Host {
    /// Plays a plan while `go_on` says so. Knobs and cgroups are there already: see [`knobs`].
    ///
    /// # Errors
    /// fio is not there or failed, or `go_on` said no.
    pub fn play(&self, plan: &Plan, go_on: &dyn Fn() -> bool) -> Result<Played, Error> {
        fs::create_dir_all(&self.scratch).map_err(at(&self.scratch))?;
        self.clean(plan)?;
        if let Some(text) = plan.jobs.run_in_file(&self.device.to_string_lossy()) {
            self.run_in(&text, go_on)?;
        }
        let cgroups = self.cgroups(plan);
        let text = plan.jobs.file(&Surroundings {
            device: &self.device.to_string_lossy(),
            cgroups: &cgroups,
        });
        self.write("jobs.fio", &text)?;
        let mut fio = Fio::start(&self.scratch, "jobs.fio", "fio.json")?;
        let began_ns = self.lead(plan, &mut fio, go_on)?;
        self.write(BEGAN, &began_ns.to_string())?;
        Played::read(plan, |name| self.read(name))
    }

    /// Lets every job begin in its time, and waits for the end. When the run began, in nanoseconds since 1970.
    fn lead(&self, plan: &Plan, fio: &mut Fio, go_on: &dyn Fn() -> bool) -> Result<u64, Error> {
        let jobs = &plan.jobs;
        let is_there = |what: &str, n: usize| self.scratch.join(format!("{what}.{n}")).exists();
        let patience = Instant::now() + PATIENCE;
        while !(0..jobs.clients.len()).all(|n| is_there("ready", n)) {
            fio.step(go_on, patience, "did not start all jobs")?;
            thread::sleep(LOOK);
        }
        let (now, clock) = (Instant::now(), SystemTime::now());
        let began = now + AHEAD;
        let since = clock.duration_since(UNIX_EPOCH).unwrap_or_default() + AHEAD;
        let before = Processors::now();
        let mut order: Vec<usize> = (0..jobs.clients.len()).collect();
        order.sort_by_key(|&n| (jobs.clients[n].begins_ns, n));
        for n in order {
            let begins = began + Duration::from_nanos(jobs.clients[n].begins_ns);
            while Instant::now() < begins {
                fio.step(go_on, begins + PATIENCE, "hangs")?;
                thread::sleep(
                    begins
                        .saturating_duration_since(Instant::now())
                        .min(10 * LOOK),
                );
            }
            self.release(n)?;
        }
        let ends = began + Duration::from_nanos(jobs.ends_ns);
        let (mut told, mut busy) = (false, None);
        while fio.is_running()? {
            // What fio does with its logs afterwards does not count.
            if busy.is_none() && Instant::now() >= ends {
                busy = Some(Processors::now().busy_since(&before));
            }
            if jobs.until.is_some_and(|n| is_there("over", n)) && !told {
                fio.interrupt();
                told = true;
            }
            fio.step(go_on, ends + PATIENCE, "did not end")?;
            thread::sleep(LOOK);
        }
        fio.check(told)?;
        let busy = busy.unwrap_or_else(|| Processors::now().busy_since(&before));
        self.write(PROCESSOR, &busy.to_string())?;
        Ok(since.as_nanos() as u64)
    }

    /// A job may begin.
    fn release(&self, n: usize) -> Result<(), Error> {
        let path = self.scratch.join(format!("go.{n}"));
        let patience = Instant::now() + PATIENCE;
        loop {
            let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            let mut options = OpenOptions::new();
            match options.write(true).custom_flags(nonblocking).open(&path) {
                Ok(_) => return Ok(()),
                // The job has said that it is there and does not wait yet.
                Err(e) if is_alone(&e) && Instant::now() < patience => thread::sleep(LOOK / 10),
                Err(e) => return Err(at(&path)(e)),
            }
        }
    }

    /// Reads the drive in sequence, and rests.
    fn run_in(&self, text: &str, go_on: &dyn Fn() -> bool) -> Result<(), Error> {
        self.write("run-in.fio", text)?;
        let mut fio = Fio::start(&self.scratch, "run-in.fio", "run-in.json")?;
        let patience = Instant::now() + 100 * PATIENCE;
        while fio.is_running()? {
            fio.step(go_on, patience, "did not end")?;
            thread::sleep(LOOK);
        }
        fio.check(false)?;
        thread::sleep(REST);
        Ok(())
    }

    /// The directories of the groups by their numbers; the root is where fio is.
    fn cgroups(&self, plan: &Plan) -> Vec<Option<String>> {
        let Some(root) = &self.cgroups else {
            return Vec::new();
        };
        let groups = plan.groups.iter();
        let groups = groups.map(|path| Some(format!("{root}{path}")));
        std::iter::once(None).chain(groups).collect()
    }

    /// Takes away what a run before has left, and makes the pipes on which jobs wait.
    fn clean(&self, plan: &Plan) -> Result<(), Error> {
        for n in 0..plan.jobs.clients.len() {
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

    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.scratch.join(name);
        fs::write(&path, text).map_err(at(&path))
    }

    fn read(&self, name: &str) -> Result<String, Error> {
        let path = self.scratch.join(name);
        fs::read_to_string(&path).map_err(at(&path))
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.display().to_string();
    move |source| Error::File { path, source }
}

/// Nobody reads at the other end of a pipe.
fn is_alone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error())
}

/// A running fio, which ends with this at the latest.
struct Fio {
    child: Child,
    said: PathBuf,
}

impl Fio {
    fn start(scratch: &Path, jobs: &str, report: &str) -> Result<Self, Error> {
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
            .map_err(Error::NoFio)?;
        Ok(Self { child, said })
    }

    fn is_running(&mut self) -> Result<bool, Error> {
        let status = self.child.try_wait();
        let status = status.map_err(|e| Error::Fio(e.to_string()))?;
        Ok(status.is_none())
    }

    /// Something else is waited for: whether that has a sense.
    fn step(
        &mut self,
        go_on: &dyn Fn() -> bool,
        patience: Instant,
        late: &str,
    ) -> Result<(), Error> {
        if !go_on() {
            return Err(Error::Interrupted);
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

    /// Whether it ended well; one that was interrupted does not say so.
    fn check(&mut self, interrupted: bool) -> Result<(), Error> {
        let status = self.child.wait();
        let status = status.map_err(|e| Error::Fio(e.to_string()))?;
        if status.success() || interrupted {
            return Ok(());
        }
        Err(self.failed(&format!("ended with {status}")))
    }

    fn failed(&self, how: &str) -> Error {
        let said = fs::read_to_string(&self.said).unwrap_or_default();
        let lines: Vec<&str> = said.lines().take(5).collect();
        Error::Fio(format!("{how}: {}", lines.join("; ")))
    }

    /// Lets it end as after Ctrl-C: with what it has.
    fn interrupt(&self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        }
    }
}

impl Drop for Fio {
    fn drop(&mut self) {
        if let Ok(Some(_)) = self.child.try_wait() {
            return;
        }
        // Its jobs are processes of their own, which it ends when it is told to, and not when it is killed.
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

/// How long all processors were idle, and how long they were there, in ticks.
#[derive(Default)]
struct Processors {
    idle: u64,
    all: u64,
}

impl Processors {
    /// As `/proc/stat` has it; nothing where it cannot be read.
    fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let words = text.lines().next().unwrap_or_default().split_whitespace();
        // User, nice, system, idle, waiting for storage, interrupts twice, stolen.
        let ticks = words.skip(1).take(8).map_while(|word| word.parse().ok());
        let ticks: Vec<u64> = ticks.collect();
        Self {
            idle: ticks.iter().skip(3).take(2).sum(),
            all: ticks.iter().sum(),
        }
    }

    /// The part of the time since then, in per cent.
    fn busy_since(&self, before: &Self) -> u64 {
        let all = self.all.saturating_sub(before.all);
        let idle = self.idle.saturating_sub(before.idle);
        (100 * all.saturating_sub(idle))
            .checked_div(all)
            .unwrap_or(0)
    }
}

/// What is to be done for a plan on a device of this host.
///
/// # Errors
/// There is no such device, or the host has no cgroups that the plan could use.
pub fn knobs(plan: &Plan, files: &dyn Files, device: &Path) -> Result<crate::Plan, Error> {
    let link = device.to_string_lossy();
    crate::Plan::of_settings(files, &link, &plan.settings, &plan.groups).map_err(Error::Plan)
}
