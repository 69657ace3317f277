//! Runs a kernel that is a program (User-mode Linux) in lockstep with a modelled drive.
//!
//! With `time-travel=ext`, such a kernel has no clock of its own: it asks a *calendar* when it may
//! run. Here, the calendar is also the disk, over vhost-user with in-band notifications. Kernel and
//! drive therefore share one time, in which processors are infinitely fast. The kernel can be built
//! with options that Debian's kernels do not have, such as `io.latency` and `io.low`.
//!
//! [`Lockstep::run_while`] boots the kernel and serves both connections: `calendar` has the clock,
//! `disk` the drive, and `data` the content of the drive.

mod calendar;
mod data;
mod disk;

use crate::guest::boot::{END, GuestOutput, last};
use crate::guest::error::GuestError;
use calendar::Calendar;
use disk::Disk;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant as Clock};
use weir_model::drive::DriveModel;

/// The number of messages after which the limit of time and `go_on` are checked even if messages
/// keep arriving.
const TURNS: u32 = 1024;

/// The script that is the guest's first process.
const INIT: &str = include_str!("init");

/// A description of a guest to be booted. Its root is this machine's file system, and its processes
/// can change any file that the calling user can change.
#[derive(Clone, Debug)]
pub struct Lockstep {
    /// The kernel's program: User-mode Linux with `VIRTIO_UML` and `UML_TIME_TRAVEL_SUPPORT`.
    pub kernel: PathBuf,
    /// Programs that the script finds by their names, in addition to those in this machine's
    /// `PATH`.
    pub programs: Vec<PathBuf>,
    /// Files by their names in `$FILES`.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The commands of the guest: a script for this machine's shell, with the functions of `init`.
    pub script: String,
    /// The drive's model. The guest has the drive as `/dev/vda`, with the model's number of tags.
    pub drive: weir_model::drive::DriveConfig,
    /// The size of the drive, in bytes.
    pub size: u64,
    /// The size of the guest's memory, in MiB.
    pub memory_mib: u32,
    /// The maximum duration of the run, in real time.
    pub limit: Duration,
}

impl Lockstep {
    /// Boots the guest, and waits for its end. Each line of the console is passed to `line`. The
    /// guest is ended soon after `go_on` has returned false.
    ///
    /// # Errors
    /// Returns an error if the guest cannot be started, does not reach its end, or takes too long.
    pub fn run_while(
        &self,
        line: impl FnMut(&str) + Send,
        go_on: impl Fn() -> bool,
    ) -> Result<GuestOutput, GuestError> {
        let scratch = tempfile::Builder::new().prefix("weir-lockstep-").tempdir();
        let scratch = scratch.map_err(GuestError::file(&std::env::temp_dir()))?;
        let place = scratch.path();
        self.put_files(place)?;
        let listen = |name: &str| {
            let path = place.join(name);
            UnixListener::bind(&path).map_err(GuestError::file(&path))
        };
        let listeners = [listen("clock")?, listen("disk")?];
        let data = place.join("data");
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&data);
        let file = file.and_then(|file| file.set_len(self.size).map(|()| file));
        let file = file.map_err(GuestError::file(&data))?;
        let drive = self.drive.build();
        let drive = drive.map_err(|e| GuestError::Died(format!("the drive's model: {e}")))?;
        let mut child = self.start(place, drive.shape().tags)?;
        let said = child.0.stdout.take();
        let began = Clock::now();
        let is_over = AtomicBool::new(false);
        let patience = || match began.elapsed() > self.limit {
            true => Err(GuestError::Late {
                limit: self.limit,
                said: String::new(),
            }),
            false if go_on() && !is_over.load(Ordering::Relaxed) => Ok(()),
            false => Err(GuestError::Interrupted),
        };
        let (done, console) = thread::scope(|scope| {
            let console = scope.spawn(|| follow(said, &is_over, line));
            let disk = (drive, self.size, file);
            let done = serve(&mut child, &listeners, disk, &patience);
            child.end();
            (done, console.join().unwrap_or_default())
        });
        // The shutdown of the kernel does not matter. Linux 6.1 can wait for ever for a disk that
        // io.max has throttled.
        // The console's text is complete only now, so that an error of lateness gets it here.
        if !is_over.into_inner() {
            return Err(match done {
                Err(GuestError::Late { limit, .. }) => GuestError::Late {
                    limit,
                    said: last(&console),
                },
                Err(error) => error,
                Ok(()) => GuestError::Died(last(&console)),
            });
        }
        let files = out(&place.join("out")).map_err(GuestError::file(&place.join("out")))?;
        Ok(GuestOutput { console, files })
    }

    /// Writes the files, programs and the first process to their places in the scratch directory.
    fn put_files(&self, place: &Path) -> Result<(), GuestError> {
        let make =
            |directory: &Path| fs::create_dir_all(directory).map_err(GuestError::file(directory));
        let write =
            |path: &Path, bytes: &[u8]| fs::write(path, bytes).map_err(GuestError::file(path));
        let (files, bin) = (place.join("files"), place.join("files/bin"));
        make(&bin)?;
        make(&place.join("out"))?;
        for program in &self.programs {
            let link = bin.join(program.file_name().unwrap_or_default());
            let target = fs::canonicalize(program).map_err(GuestError::file(program))?;
            symlink(target, &link).map_err(GuestError::file(&link))?;
        }
        for (name, bytes) in &self.files {
            write(&files.join(name), bytes)?;
        }
        write(&files.join("script"), self.script.as_bytes())?;
        let init = place.join("init");
        write(&init, INIT.as_bytes())?;
        fs::set_permissions(&init, Permissions::from_mode(0o755)).map_err(GuestError::file(&init))
    }

    /// Starts the kernel, which then connects to the clock and to the disk.
    fn start(&self, place: &Path, tags: u16) -> Result<KernelProcess, GuestError> {
        let at = |name: &str| place.join(name).display().to_string();
        let mut command = Command::new(&self.kernel);
        command
            .arg(format!("mem={}M", self.memory_mib))
            // hostfs makes this machine's file system the root.
            .args(["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw", "quiet"])
            // Only the first console is used, through standard input and output.
            .args(["con=null", "con0=fd:0,fd:1"])
            .arg(format!("init={}", at("init")))
            .arg(format!("time-travel=ext:{}", at("clock")))
            // 2 is the virtio device id of a block device.
            .arg(format!("virtio_uml.device={}:2", at("disk")))
            .arg(format!("virtio_blk.queue_depth={tags}"))
            .arg(format!("FILES={}", at("files")))
            .arg(format!("OUT={}", at("out")))
            // The kernel saves only the classic vector registers on a context switch, so that the C
            // library of its programs must not use wider ones.
            .arg("GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-AVX_Fast_Unaligned_Load,-XSAVE,-XSAVEC,-ERMS")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A group of its own, so that `KernelProcess::end` also reaches the kernel's helper
            // processes.
            .process_group(0);
        let child = command.spawn().map_err(GuestError::file(&self.kernel))?;
        Ok(KernelProcess(child))
    }
}

/// Collects the lines of a console until it ends. Sets `is_over` as soon as the guest's last line
/// arrives.
fn follow(
    said: Option<ChildStdout>,
    is_over: &AtomicBool,
    mut line: impl FnMut(&str),
) -> Vec<String> {
    let lines = said.map(|said| BufReader::new(said).split(b'\n'));
    let lines = lines.into_iter().flatten().map_while(Result::ok);
    let mut console = Vec::new();
    for bytes in lines {
        let text = String::from_utf8_lossy(&bytes).replace('\r', "");
        line(&text);
        if text == END {
            is_over.store(true, Ordering::Relaxed);
        }
        console.push(text);
    }
    console
}

/// Returns the regular files in a directory and below it, by their paths relative to it. Pipes are
/// left out, because reading them could block.
fn out(directory: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            let below = out(&entry.path())?.into_iter();
            files.extend(below.map(|(path, bytes)| (format!("{name}/{path}"), bytes)));
        } else if entry.file_type()?.is_file() {
            files.insert(name, fs::read(entry.path())?);
        }
    }
    Ok(files)
}

/// The process of the kernel, which is killed when this is dropped.
struct KernelProcess(Child);

impl KernelProcess {
    fn end(&mut self) {
        // User-mode Linux has a process of the host for each of its own. An error means that all
        // have ended.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

impl Drop for KernelProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// Accepts a connection of the kernel, unless the kernel ends first.
fn accept(
    child: &mut KernelProcess,
    listener: &UnixListener,
    patience: &dyn Fn() -> Result<(), GuestError>,
) -> Result<UnixStream, GuestError> {
    loop {
        let mut fds = [PollFd::new(listener, PollFlags::IN)];
        if wait(&mut fds)? {
            return listener
                .accept()
                .map(|(stream, _)| stream)
                .map_err(|e| broken(&e));
        }
        patience()?;
        if let Ok(Some(status)) = child.0.try_wait() {
            return Err(GuestError::Died(format!("the kernel ended with {status}")));
        }
    }
}

/// Waits up to 100 ms for a descriptor to become ready. Returns false if none did.
fn wait(fds: &mut [PollFd<'_>]) -> Result<bool, GuestError> {
    let moment = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    match poll(fds, Some(&moment)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(broken(&error.into())),
    }
}

fn broken(error: &io::Error) -> GuestError {
    GuestError::Died(format!("between the kernel and its disk: {error}"))
}

/// Serves the clock and the disk until the kernel has closed its connections.
fn serve(
    child: &mut KernelProcess,
    [clock, blocks]: &[UnixListener; 2],
    parts: (Box<dyn DriveModel>, u64, File),
    patience: &dyn Fn() -> Result<(), GuestError>,
) -> Result<(), GuestError> {
    let mut calendar = Calendar::new(accept(child, clock, patience)?);
    let mut disk: Option<Disk> = None;
    let mut parts = Some(parts);
    let mut turns = 0_u32;
    loop {
        // A kernel that keeps sending messages must be interruptible, too.
        turns = (turns + 1) % TURNS;
        if turns == 0 {
            patience()?;
        }
        let turn = match &mut disk {
            Some(disk) => serve_kernel(&mut calendar, disk, patience)?,
            None => serve_clock(&mut calendar, blocks, patience)?,
        };
        match turn {
            LockstepTurn::On => {}
            LockstepTurn::Disk(stream) => {
                let parts = parts.take();
                disk = parts.map(|(drive, size, data)| Disk::new(stream, drive, size, data));
            }
            LockstepTurn::Over => return Ok(()),
        }
    }
}

/// The result of serving one message or one event.
enum LockstepTurn {
    On,
    Disk(UnixStream),
    Over,
}

/// Serves the clock alone, before the kernel has connected to its disk.
fn serve_clock(
    calendar: &mut Calendar,
    blocks: &UnixListener,
    patience: &dyn Fn() -> Result<(), GuestError>,
) -> Result<LockstepTurn, GuestError> {
    if calendar.is_waiting() {
        if calendar.wanted().is_none() {
            return Err(GuestError::Died("the kernel sleeps for ever".to_owned()));
        }
        return turn_result(calendar.run(None));
    }
    let mut fds = [
        PollFd::new(blocks, PollFlags::IN),
        PollFd::new(calendar, PollFlags::IN),
    ];
    if !wait(&mut fds)? {
        return patience().map(|()| LockstepTurn::On);
    }
    let [knocks, says] = fds.map(|fd| !fd.revents().is_empty());
    if says {
        return turn_result(calendar.receive_message());
    }
    if knocks {
        let accepted = blocks.accept().map_err(|e| broken(&e))?;
        return Ok(LockstepTurn::Disk(accepted.0));
    }
    Ok(LockstepTurn::On)
}

/// Serves one message of a running kernel. If the kernel waits, runs the next event instead. The
/// drive precedes the kernel if both are due at the same time.
fn serve_kernel(
    calendar: &mut Calendar,
    disk: &mut Disk,
    patience: &dyn Fn() -> Result<(), GuestError>,
) -> Result<LockstepTurn, GuestError> {
    if calendar.is_waiting() {
        let due = disk.next();
        return match (due, calendar.wanted()) {
            (Some(due), wanted) if wanted.is_none_or(|wanted| due <= wanted) => {
                calendar.advance_to(due);
                turn_result(disk.complete(calendar))
            }
            (None, None) => Err(GuestError::Died("the kernel sleeps for ever".to_owned())),
            _ => turn_result(calendar.run(due)),
        };
    }
    let mut fds = [
        PollFd::new(disk, PollFlags::IN),
        PollFd::new(calendar, PollFlags::IN),
    ];
    if !wait(&mut fds)? {
        return patience().map(|()| LockstepTurn::On);
    }
    let [asks, says] = fds.map(|fd| !fd.revents().is_empty());
    // The clock comes first, because an update of the time precedes the kick that belongs to it.
    if says {
        return turn_result(calendar.receive_message());
    }
    if asks {
        return turn_result(disk.hear(calendar));
    }
    Ok(LockstepTurn::On)
}

/// Treats a closed connection as the kernel's end.
fn turn_result(done: io::Result<()>) -> Result<LockstepTurn, GuestError> {
    match done {
        Ok(()) => Ok(LockstepTurn::On),
        Err(error) => match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => Ok(LockstepTurn::Over),
            _ => Err(broken(&error)),
        },
    }
}

#[cfg(test)]
mod tests;
