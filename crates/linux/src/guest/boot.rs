//! Boots a guest and returns what it did.

use crate::guest::error::Error;
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

/// Bytes that a guest may leave in `/out`.
pub const OUT_MAX: u64 = 512 << 20;

/// How often somebody is asked whether the guest is to go on.
const LOOK: Duration = Duration::from_millis(100);

/// What the first process says first, and last.
const BEGIN: &str = "guest: kernel ";
pub(crate) const END: &str = "guest: end";

/// Lines of the console that are shown of a guest without an end.
const LINES: usize = 15;

/// What is booted.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The kernel.
    pub kernel: Kernel,
    /// Programs of this machine, which are in `/bin` there, with their libraries. Busybox is there always.
    pub programs: Vec<PathBuf>,
    /// Modules of the kernel beyond those that every guest has.
    pub modules: Vec<&'static str>,
    /// Files, by their names in `/files`.
    pub files: BTreeMap<String, Vec<u8>>,
    /// What the guest does: a script in the words of busybox's shell and of this crate's `init`.
    pub script: String,
    /// Processors, which take turns: an instruction of any of them is counted.
    pub processors: u8,
    /// Memory, MiB.
    pub memory_mib: u32,
    /// Sizes in MiB of further disks of virtio, zeroed, which are there once the script has loaded `virtio_blk`. A run with such
    /// a disk in use does not repeat to the byte: this machine answers for it in its own time.
    pub disks_mib: Vec<u32>,
    /// What random numbers come from.
    pub seed: u64,
    /// An instruction takes two to the power of this, nanoseconds.
    pub shift: u8,
    /// Real time that it may take.
    pub limit: Duration,
}

/// What a guest did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ran {
    /// The lines on its console; the first is `guest: kernel RELEASE`.
    pub console: Vec<String>,
    /// The files in `/out`, by their paths there.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Guest {
    /// A guest with 1 GiB of memory and ten minutes.
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

    /// Adds a program.
    ///
    /// # Errors
    /// There is none of that name in `PATH`.
    pub fn add_program(&mut self, name: &'static str, package: &'static str) -> Result<(), Error> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut all = std::env::split_paths(&path).map(|directory| directory.join(name));
        let found = all.find(|path| path.is_file());
        let missing = || Error::Program {
            program: name,
            source: std::io::ErrorKind::NotFound.into(),
            package,
        };
        self.programs.push(found.ok_or_else(missing)?);
        Ok(())
    }

    /// Boots it, and waits for its end.
    ///
    /// # Errors
    /// It cannot be started, did not come to an end, or took too long.
    pub fn run(&self) -> Result<Ran, Error> {
        self.run_while(|_| (), || true)
    }

    /// The same; `line` gets each line of the console as it comes, and the guest is ended soon after `go_on` says no.
    ///
    /// # Errors
    /// See [`run`](Self::run), or it was ended.
    pub fn run_while(
        &self,
        mut line: impl FnMut(&str),
        go_on: impl Fn() -> bool,
    ) -> Result<Ran, Error> {
        let scratch = tempfile::Builder::new().prefix("weir-guest-").tempdir();
        let scratch = scratch.map_err(Error::file(&std::env::temp_dir()))?;
        self.write_initrd(&scratch.path().join("initrd"))?;
        let out = scratch.path().join("out");
        zeroed(&out, OUT_MAX)?;
        let (mut qemu, lines) = self.start(scratch.path())?;
        let console = follow(&lines, self.limit, &mut line, go_on);
        qemu.end();
        let console = console?;
        if !console.iter().any(|line| line == END) {
            return Err(Error::Died(last(&console)));
        }
        let files = unpack(&out)?;
        Ok(Ran { console, files })
    }

    /// Writes the files that it begins with as a kernel takes them: for a test that boots it in another way.
    ///
    /// # Errors
    /// One of them cannot be read, or `to` not be written.
    pub fn write_initrd(&self, to: &Path) -> Result<(), Error> {
        let mut initrd = Initrd::new(&self.kernel, &self.modules, &self.script)?;
        for program in &self.programs {
            initrd.program(program)?;
        }
        for (name, bytes) in &self.files {
            initrd.add(&format!("files/{name}"), bytes)?;
        }
        let mut file = BufWriter::new(File::create(to).map_err(Error::file(to))?);
        initrd.write(&mut file).map_err(Error::file(to))?;
        file.flush().map_err(Error::file(to))
    }

    fn start(&self, scratch: &Path) -> Result<(Qemu, Receiver<String>), Error> {
        let mut qemu = Command::new("qemu-system-x86_64");
        // No Spectre mitigations: they cost instructions. No random numbers of this processor's, and no addresses that they choose.
        qemu.args(["-accel", "tcg", "-cpu", "qemu64,-rdrand,-rdseed"])
            .args(["-smp", &self.processors.to_string()])
            .args(["-icount", &format!("shift={},sleep=off", self.shift)])
            .args(["-rtc", "clock=vm,base=2026-01-01"])
            .args(["-m", &self.memory_mib.to_string(), "-seed", &self.seed.to_string()])
            .args(["-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio"])
            .arg("-kernel").arg(self.kernel.image())
            .arg("-initrd").arg(scratch.join("initrd"))
            .args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=off nokaslr tsc=reliable"]);
        let mut disk = |name: &str, file: &Path| {
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
        let mut child = qemu.spawn().map_err(|source| Error::Program {
            program: "qemu-system-x86_64",
            source,
            package: "qemu-system-x86",
        })?;
        let (send, lines) = channel();
        let outputs: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|o| Box::new(o) as _),
            child.stderr.take().map(|o| Box::new(o) as _),
        ];
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

/// QEMU's process, which ends with this at the latest.
struct Qemu(Child);

impl Qemu {
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.end();
    }
}

/// The lines of a console until it ends.
fn follow(
    lines: &Receiver<String>,
    limit: Duration,
    each: &mut dyn FnMut(&str),
    go_on: impl Fn() -> bool,
) -> Result<Vec<String>, Error> {
    let (began, mut console) = (Instant::now(), Vec::new());
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) => {
                if let Some(at) = line.find(BEGIN) {
                    // What firmware and boot loader say is not the guest's.
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
            return Err(Error::Interrupted);
        }
        if began.elapsed() > limit {
            let said = last(&console);
            return Err(Error::Late { limit, said });
        }
    }
}

/// The end of what was said.
pub(crate) fn last(console: &[String]) -> String {
    console[console.len().saturating_sub(LINES)..].join("\n")
}

/// Makes a file of zeroes, which takes no room on a disk.
fn zeroed(path: &Path, size: u64) -> Result<(), Error> {
    let made = File::create(path).and_then(|file| file.set_len(size));
    made.map_err(Error::file(path))
}

/// The files of an archive.
fn unpack(archive: &Path) -> Result<BTreeMap<String, Vec<u8>>, Error> {
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
    read().map_err(Error::file(archive))
}
