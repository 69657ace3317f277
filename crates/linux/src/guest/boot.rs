//! Boots a guest in QEMU and returns its output.
//!
//! [`KernelGuest`] describes the guest, and [`KernelGuest::run`] boots it. Time in the guest is
//! counted in instructions (`-icount`), so that a run is repeatable and independent of this
//! machine's speed.

use crate::guest::error::GuestError;
use crate::guest::initrd::Initrd;
use crate::guest::kernel::Kernel;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The maximum size of the archive of `/out`, in bytes.
pub const OUT_MAX: u64 = 512 << 20;

/// The maximum interval at which `run_while` asks whether the guest may continue.
const LOOK: Duration = Duration::from_millis(100);

/// The beginning of the first line that the guest's first process prints.
const BEGIN: &str = "guest: kernel ";
/// The last line that the guest's first process prints.
pub(crate) const END: &str = "guest: end";

/// The number of lines at the end of the console that an error shows.
const LINES: usize = 15;

/// A description of a guest to be booted.
#[derive(Clone, Debug)]
pub struct KernelGuest {
    /// The kernel that the guest boots.
    pub kernel: Kernel,
    /// Programs of this machine that are copied to `/bin` of the guest, with their libraries.
    /// Busybox is always included.
    pub programs: Vec<PathBuf>,
    /// Modules of the kernel in addition to those that every guest has.
    pub modules: Vec<&'static str>,
    /// Files by their names in `/files` of the guest.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The commands of the guest: a script for busybox's shell, with the functions of this crate's
    /// `init`.
    pub script: String,
    /// The number of processors. They take turns, because the instructions of all of them advance
    /// one clock.
    pub processors: u8,
    /// The size of the guest's memory, in MiB.
    pub memory_mib: u32,
    /// The sizes of further virtio disks in MiB. They are zeroed, and appear when the script has
    /// loaded `virtio_blk`. A run that uses such a disk is not repeatable to the byte, because this
    /// machine serves the disk in real time.
    pub disks_mib: Vec<u32>,
    /// The seed of the guest's random numbers.
    pub seed: u64,
    /// The duration of an instruction, as a power of two in nanoseconds.
    pub shift: u8,
    /// The maximum duration of the run, in real time.
    pub limit: Duration,
}

/// The output of a guest that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GuestOutput {
    /// The lines of the guest's console. The first is `guest: kernel RELEASE`.
    pub console: Vec<String>,
    /// The files in `/out`, by their paths below it.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl KernelGuest {
    /// Describes a guest with 1 GiB of memory, which can run for ten minutes.
    pub fn new(kernel: Kernel, script: impl Into<String>) -> Self {
        Self {
            kernel,
            programs: Vec::new(),
            modules: Vec::new(),
            files: BTreeMap::new(),
            script: script.into(),
            processors: 1,
            memory_mib: 1024,
            disks_mib: Vec::new(),
            seed: 1,
            shift: 0,
            limit: Duration::from_mins(10),
        }
    }

    /// Adds a program of this machine to the guest.
    ///
    /// # Errors
    /// Returns an error if `PATH` has no program of this name. The error mentions the package that
    /// has it.
    pub fn add_program(
        &mut self,
        name: &'static str,
        package: &'static str,
    ) -> Result<(), GuestError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut all = std::env::split_paths(&path).map(|directory| directory.join(name));
        let found = all.find(|path| path.is_file());
        let missing = || GuestError::Program {
            program: name,
            source: std::io::ErrorKind::NotFound.into(),
            package,
        };
        self.programs.push(found.ok_or_else(missing)?);
        Ok(())
    }

    /// Boots the guest, and waits for its end.
    ///
    /// # Errors
    /// Returns an error if the guest cannot be started, does not reach its end, or takes too long.
    pub fn run(&self) -> Result<GuestOutput, GuestError> {
        self.run_while(|_| (), || true)
    }

    /// Boots the guest like [`run`](Self::run), passes each line of the console to `line`, and ends
    /// the guest soon after `go_on` has returned false.
    ///
    /// # Errors
    /// Returns the errors of [`run`](Self::run), or [`GuestError::Interrupted`] if `go_on` ended
    /// the guest.
    pub fn run_while(
        &self,
        mut line: impl FnMut(&str),
        go_on: impl Fn() -> bool,
    ) -> Result<GuestOutput, GuestError> {
        let scratch = tempfile::Builder::new().prefix("weir-guest-").tempdir();
        let scratch = scratch.map_err(GuestError::file(&std::env::temp_dir()))?;
        self.write_initrd(&scratch.path().join("initrd"))?;
        let out = scratch.path().join("out");
        // The guest writes a tar archive of /out to this disk.
        zeroed(&out, OUT_MAX)?;
        let (mut qemu, lines) = self.start(scratch.path())?;
        let console = follow(&lines, self.limit, &mut line, go_on);
        // The guest powers itself off. This ends one that hangs, or that `go_on` has ended.
        qemu.end();
        let console = console?;
        // A kernel that panics also ends QEMU, but without this line.
        if !console.iter().any(|line| line == END) {
            return Err(GuestError::Died(last(&console)));
        }
        let files = unpack(&out)?;
        Ok(GuestOutput { console, files })
    }

    /// Writes the guest's initial files in the form that a kernel boots from, for tests that boot
    /// it in another way.
    ///
    /// # Errors
    /// Returns an error if one of the files cannot be read, or if `to` cannot be written.
    pub fn write_initrd(&self, to: &Path) -> Result<(), GuestError> {
        let mut initrd = Initrd::new(&self.kernel, &self.modules, &self.script)?;
        for program in &self.programs {
            initrd.program(program)?;
        }
        for (name, bytes) in &self.files {
            initrd.add(&format!("files/{name}"), bytes)?;
        }
        let mut file = BufWriter::new(File::create(to).map_err(GuestError::file(to))?);
        initrd.write(&mut file).map_err(GuestError::file(to))?;
        file.flush().map_err(GuestError::file(to))
    }

    /// Starts QEMU. Returns the lines of its standard output and error through a channel.
    fn start(&self, scratch: &Path) -> Result<(Qemu, Receiver<String>), GuestError> {
        let mut qemu = Command::new("qemu-system-x86_64");
        // RDRAND and RDSEED are switched off, so that the kernel draws no numbers from the
        // processor. Mitigations of Spectre cost instructions, and therefore time
        // (`mitigations=off` below).
        qemu.args(["-accel", "tcg", "-cpu", "qemu64,-rdrand,-rdseed"])
            .args(["-smp", &self.processors.to_string()])
            // `sleep=off`: the clock jumps over idle time instead of waiting in real time.
            .args(["-icount", &format!("shift={},sleep=off", self.shift)])
            // The time of day follows the virtual clock from a fixed date.
            .args(["-rtc", "clock=vm,base=2026-01-01"])
            .args(["-m", &self.memory_mib.to_string(), "-seed", &self.seed.to_string()])
            // -no-reboot: a panic of the kernel (panic=-1) ends QEMU.
            .args(["-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio"])
            .arg("-kernel").arg(self.kernel.image())
            .arg("-initrd").arg(scratch.join("initrd"))
            .args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=off nokaslr tsc=reliable"]);
        let mut disk = |name: &str, file: &Path| {
            // The disks are deleted after the run, so that no flush is needed (cache=unsafe).
            let drive = format!(
                "if=none,id={name},format=raw,cache=unsafe,file={}",
                file.display()
            );
            let device = format!("virtio-blk-pci,drive={name},serial={name}");
            qemu.args(["-drive", &drive, "-device", &device]);
        };
        for (number, size) in self.disks_mib.iter().enumerate() {
            let name = format!("disk{number}");
            let file = scratch.join(&name);
            zeroed(&file, u64::from(*size) << 20)?;
            disk(&name, &file);
        }
        disk("out", &scratch.join("out"));
        qemu.stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = qemu.spawn().map_err(|source| GuestError::Program {
            program: "qemu-system-x86_64",
            source,
            package: "qemu-system-x86",
        })?;
        let (send, lines) = channel();
        let outputs: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|o| Box::new(o) as _),
            child.stderr.take().map(|o| Box::new(o) as _),
        ];
        // Both outputs must be read, because a full pipe would block QEMU.
        for output in outputs.into_iter().flatten() {
            let send = send.clone();
            thread::spawn(move || {
                for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                    let line = String::from_utf8_lossy(&line);
                    if send.send(line.replace('\r', "")).is_err() {
                        return;
                    }
                }
            });
        }
        Ok((Qemu(child), lines))
    }
}

/// The process of QEMU, which is killed when this is dropped.
struct Qemu(Child);

impl Qemu {
    fn end(&mut self) {
        // An error means that the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.end();
    }
}

/// Collects the lines of a console until it ends.
fn follow(
    lines: &Receiver<String>,
    limit: Duration,
    each: &mut dyn FnMut(&str),
    go_on: impl Fn() -> bool,
) -> Result<Vec<String>, GuestError> {
    let (began, mut console) = (Instant::now(), Vec::new());
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) => {
                if let Some(at) = line.find(BEGIN) {
                    // The firmware and the boot loader print to the same port before the guest
                    // does.
                    console.clear();
                    console.push(line[at..].to_owned());
                    continue;
                }
                each(&line);
                console.push(line);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(console),
        }
        if !go_on() {
            return Err(GuestError::Interrupted);
        }
        if began.elapsed() > limit {
            let said = last(&console);
            return Err(GuestError::Late { limit, said });
        }
    }
}

/// Returns the last lines of a console, for errors.
pub(crate) fn last(console: &[String]) -> String {
    console[console.len().saturating_sub(LINES)..].join("\n")
}

/// Makes a sparse file of zeroes, which occupies no space on disk.
fn zeroed(path: &Path, size: u64) -> Result<(), GuestError> {
    let made = File::create(path).and_then(|file| file.set_len(size));
    made.map_err(GuestError::file(path))
}

/// Returns the files of a tar archive.
fn unpack(archive: &Path) -> Result<BTreeMap<String, Vec<u8>>, GuestError> {
    let read = || {
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(BufReader::new(File::open(archive)?)).entries()? {
            let mut entry = entry?;
            if entry.header().entry_type().is_file() {
                let path = entry.path()?.to_string_lossy().into_owned();
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes)?;
                files.insert(path.trim_start_matches("./").to_owned(), bytes);
            }
        }
        Ok(files)
    };
    read().map_err(GuestError::file(archive))
}
