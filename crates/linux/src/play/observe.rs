//! Observes a kernel while it plays a plan: io.cost's tracepoints, `io.stat` and `io.pressure`.
//!
//! Tracepoints are recorded in an instance of tracefs, so that a user's own tracing is neither used
//! nor changed. [`Observations`] has the quantities over time that a run has left.

use crate::play::series::{self, KernelSample, KernelSeries};
use crate::play::{PlayHost, PlayPlan};
use crate::{FileTree, HostDevice, Knob};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The directories at which tracefs can be mounted.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The tracepoints of io.cost that are recorded, each with the fields of its text that are used.
/// The files `format` of tracefs describe the text.
const EVENTS: [(&str, &[&str]); 6] = [
    ("iocost_ioc_vrate_adj", &["vrate=", "busy=", "lagging="]),
    ("iocost_iocg_activate", &["weight="]),
    ("iocost_iocg_idle", &[]),
    ("iocost_inuse_shortage", &["inuse="]),
    ("iocost_inuse_transfer", &["inuse="]),
    ("iocost_inuse_adjust", &["inuse="]),
];

/// The size of the kernel's trace buffer for each processor, in KiB. It holds the events of some
/// seconds, and is drained more often.
const BUFFER_KIB: u32 = 1024;

/// The maximum length of the text of all events of a run, in bytes.
const TRACE_MAX: usize = 32 << 20;

/// The note on a kernel that does not measure pressure.
const NO_PRESSURE: &str =
    "io.pressure is not available in this kernel; boot with psi=1, or use a kernel with CONFIG_PSI";

/// The quantities over time that were observed in a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Observations {
    /// The quantities, each with its subject.
    pub series: Vec<KernelSeries>,
    /// The parts that this kernel does not have, a sentence for each.
    pub notes: Vec<String>,
}

/// Records what a kernel reports during a run.
#[derive(Debug)]
pub(super) struct KernelObserver {
    device: HostDevice,
    /// The path of each group of the plan below the root.
    groups: Vec<String>,
    /// The root of cgroups, if the plan has groups.
    root: Option<String>,
    trace: Option<TraceInstance>,
    samples: Vec<KernelSample>,
    began: Instant,
    step: Duration,
    due: Instant,
    notes: Vec<String>,
}

impl KernelObserver {
    /// Prepares to observe a plan on a host. Returns `None` if the plan does not request this, or
    /// if the device is none of the kernel's block devices.
    pub(super) fn new(host: &PlayHost, plan: &PlayPlan) -> Option<Self> {
        if !plan.observed {
            return None;
        }
        let device = HostDevice::find(&FileTree::default(), &host.device.to_string_lossy()).ok()?;
        let mut notes = Vec::new();
        let has_cost = plan.settings.iter().any(|s| s.knob == Knob::CostQos);
        let trace = has_cost.then(|| TraceInstance::new(&mut notes)).flatten();
        // A hundred samples show the course of a run. Reading more often would take processor time
        // from the clients.
        let step = Duration::from_nanos(plan.jobs.ends_ns) / 100;
        let now = Instant::now();
        Some(Self {
            device,
            groups: plan.groups.clone(),
            root: host.cgroups.clone(),
            trace,
            samples: Vec::new(),
            began: now,
            step: step.clamp(Duration::from_millis(100), Duration::from_secs(1)),
            due: now,
            notes,
        })
    }

    /// Marks the present moment among the events. The run begins at `began`.
    pub(super) fn mark(&mut self, began: Instant) {
        (self.began, self.due) = (began, began);
        if let Some(trace) = &self.trace {
            let ahead = began.saturating_duration_since(Instant::now());
            // Without the mark, the events have no time, and are left out.
            let _ = fs::write(
                trace.directory.join("trace_marker"),
                format!("{}{}", series::MARK, ahead.as_nanos()),
            );
        }
    }

    /// Takes a sample if one is due.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        self.due = now + self.step;
        let at_ns = now.saturating_duration_since(self.began).as_nanos() as u64;
        let read = |path: String| fs::read_to_string(path).unwrap_or_default();
        let own = |group: &String, file: &str| {
            let root = self.root.as_ref()?;
            Some(read(format!("{root}{group}/{file}")))
        };
        let group = |group: &String| {
            let stat = own(group, "io.stat").unwrap_or_default();
            (
                series::of_device(&stat, &self.device.number),
                own(group, "io.pressure").unwrap_or_default(),
            )
        };
        let drive = read(format!("{}/stat", self.device.directory()));
        let pressure = read("/proc/pressure/io".to_owned());
        self.samples.push(KernelSample {
            at_ns,
            drive: (series::of_drive(&drive), pressure),
            groups: self.groups.iter().map(group).collect(),
        });
        if let Some(trace) = &mut self.trace {
            trace.drain();
        }
    }

    /// Ends the recording and returns the observations.
    pub(super) fn end(mut self) -> Observations {
        let mut all = series::of_samples(&self.samples);
        if self.samples.iter().all(|sample| sample.drive.1.is_empty()) {
            self.notes.push(NO_PRESSURE.to_owned());
        }
        if let Some(mut trace) = self.trace.take() {
            trace.drain();
            if trace.text.len() >= TRACE_MAX {
                self.notes.push(format!(
                    "the tracepoints of io.cost were recorded only until they had {} MiB",
                    TRACE_MAX >> 20
                ));
            }
            let events = series::of_trace(&trace.text, &self.device.name, &self.groups);
            if events.is_empty() {
                self.notes
                    .push("the tracepoints of io.cost recorded no event".to_owned());
            }
            all.extend(events);
        }
        Observations {
            series: all,
            notes: self.notes,
        }
    }
}

/// An instance of tracefs, which is removed when this value is dropped.
#[derive(Debug)]
struct TraceInstance {
    directory: PathBuf,
    /// The events, which are removed from the kernel's buffer when they are read. `None` if it
    /// could not be opened.
    pipe: Option<File>,
    text: Vec<u8>,
}

impl TraceInstance {
    /// Starts to record the tracepoints of io.cost. Adds a note for each part that is missing.
    fn new(notes: &mut Vec<String>) -> Option<Self> {
        let Some(tracefs) = TRACEFS
            .iter()
            .map(Path::new)
            .find(|at| at.join("instances").is_dir())
        else {
            notes.push("tracefs is not available, so that the state of io.cost is not known; run mount -t tracefs none /sys/kernel/tracing".to_owned());
            return None;
        };
        remove_leftovers(&tracefs.join("instances"));
        let directory = tracefs.join(format!("instances/weir-{}", std::process::id()));
        let made = fs::create_dir(&directory).and_then(|()| Self::start(directory, notes));
        made.map_err(|e| {
            notes.push(format!(
                "the tracepoints of io.cost cannot be recorded: {e}"
            ));
        })
        .ok()
    }

    /// Enables the tracepoints of a new instance.
    fn start(directory: PathBuf, notes: &mut Vec<String>) -> io::Result<Self> {
        // From here on, an error removes the instance.
        let mut instance = Self {
            directory,
            pipe: None,
            text: Vec::new(),
        };
        let at = |name: &str| instance.directory.join(name);
        fs::write(at("buffer_size_kb"), BUFFER_KIB.to_string())?;
        for (event, fields) in EVENTS {
            let format = fs::read_to_string(at(&format!("events/iocost/{event}/format")));
            let format = format.unwrap_or_default();
            let printed = format.split("print fmt:").nth(1).unwrap_or_default();
            if printed.is_empty() || !fields.iter().all(|field| printed.contains(field)) {
                notes.push(format!(
                    "this kernel does not have the tracepoint {event} in its known form"
                ));
                continue;
            }
            fs::write(at(&format!("events/iocost/{event}/enable")), "1")?;
        }
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let pipe = OpenOptions::new()
            .read(true)
            .custom_flags(nonblocking)
            .open(at("trace_pipe"))?;
        instance.pipe = Some(pipe);
        Ok(instance)
    }

    /// Reads the events that the kernel has recorded since the last call.
    fn drain(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        let mut part = vec![0; 64 << 10];
        // The last read fails with `WouldBlock`.
        while let Ok(read @ 1..) = pipe.read(&mut part) {
            let room = TRACE_MAX - self.text.len();
            self.text.extend(&part[..read.min(room)]);
        }
    }
}

impl Drop for TraceInstance {
    fn drop(&mut self) {
        // The kernel removes an instance only while its files are closed. The events of a removed
        // instance are disabled.
        self.pipe = None;
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Removes the instances of processes that were killed.
fn remove_leftovers(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix("weir-"));
        let is_left =
            |pid: &str| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists();
        if pid.is_some_and(is_left) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
