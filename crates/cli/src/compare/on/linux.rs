//! A device of this host on which a comparison is played, and the checks before it is used.

use crate::failure::Failure;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_config::Policy;
use weir_config::scenario::Scenario;
use weir_linux::play::player::PlayError;
use weir_linux::play::{PlayHost, PlayOutput, PlayPlan, player};
use weir_linux::{ApplyJournal, FileTree, HostFiles, KnobSetting};
use weir_serve::backend;

/// The journal of changed kernel settings. It is kept in `/run`, so that the next comparison can
/// restore the settings if this one crashes.
const JOURNAL: &str = "/run/weir-apply/compare.journal";

/// A block device of this host, or a file that is used through a loop device.
#[derive(Debug)]
pub(in crate::compare) struct TestDevice {
    /// The path as the user has written it.
    pub(in crate::compare) path: PathBuf,
    /// True if the content can be overwritten.
    destroy: bool,
    is_block: bool,
    /// The type of the present content, such as a file system, if there is any.
    signature: Option<String>,
    /// The settings that were tried on the device before the first run. Its lock keeps runs from
    /// overlapping on the device.
    tried: Mutex<Vec<TriedSettings>>,
    /// The reasons why the kernel cannot play policies, by their words.
    lacking: Mutex<BTreeMap<String, String>>,
    /// The number of removed cgroups that the kernel had not released before the first run.
    dying: u64,
}

/// The settings of a plan, and the cgroups that they need.
type TriedSettings = (Vec<KnobSetting>, Vec<String>);

impl TestDevice {
    /// Examines a device or file. `destroy` is true if the user has confirmed that its content can
    /// be overwritten.
    ///
    /// # Errors
    /// The path does not exist, is of another type, or is in use, a program is missing, or the user
    /// does not have the rights.
    pub(super) fn new(path: &Path, destroy: bool) -> Result<Self, Failure> {
        let shown = path.display();
        let refuse = |why: String| Failure::Usage(format!("--device {shown}: {why}"));
        let found = fs::metadata(path).map_err(|e| refuse(e.to_string()))?;
        let is_block = found.file_type().is_block_device();
        if !is_block && !found.is_file() {
            return Err(refuse("it is neither a block device nor a file".to_owned()));
        }
        may_change_settings().map_err(refuse)?;
        unused(path, is_block).map_err(refuse)?;
        let signature = signature(path).map_err(refuse)?;
        Ok(Self {
            path: path.to_owned(),
            destroy,
            is_block,
            signature,
            tried: Mutex::default(),
            lacking: Mutex::default(),
            dying: dying_groups(&FileTree::default()),
        })
    }

    /// Returns true if the kernel reports the device as rotational.
    pub(in crate::compare) fn is_rotational(&self) -> bool {
        let name = fs::canonicalize(&self.path).unwrap_or_default();
        let name = name.file_name().unwrap_or_default().to_string_lossy();
        let path = format!("/sys/block/{name}/queue/rotational");
        fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
    }

    /// Refuses a scenario that the device cannot play under a policy, before the first run. The
    /// settings of the policy are made and restored. The content of the device does not change.
    ///
    /// # Errors
    /// The device is in use or too small, its content would be overwritten without confirmation, or
    /// the kernel or its cgroups do not have a setting.
    pub(super) fn check(&self, scenario: &Scenario, policy: &Policy) -> Result<(), String> {
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        let planned = PlayPlan::new(scenario, policy, 0, None);
        let (plan, _) = planned.map_err(|e| e.to_string())?;
        self.may_be_used(&plan)?;
        let settings = (plan.settings.clone(), plan.groups.clone());
        // Many cases of a scenario have the same settings.
        if tried.contains(&settings) || self.lacks(policy).is_some() {
            return Ok(());
        }
        match self.with_settings(&plan, |_, _| Ok(())) {
            // The other policies can still be compared.
            Err(reason) if reason.contains(BUILT_WITHOUT) => {
                let mut lacking = self.lacking.lock().unwrap_or_else(PoisonError::into_inner);
                lacking.insert(policy.word().to_string(), reason);
            }
            tested => tested?,
        }
        tried.push(settings);
        Ok(())
    }

    /// Returns the reason why the kernel cannot play a policy, once [`Self::check`] has found one.
    pub(super) fn lacks(&self, policy: &Policy) -> Option<String> {
        let lacking = self.lacking.lock().unwrap_or_else(PoisonError::into_inner);
        lacking.get(&policy.word().to_string()).cloned()
    }

    /// Plays a repetition, and restores the kernel's settings afterwards, even after an error.
    pub(super) fn play(
        &self,
        scenario: &Scenario,
        policy: &Policy,
        repetition: u32,
        go_on: &dyn Fn() -> bool,
    ) -> Result<(PlayOutput, Vec<String>), String> {
        let _turn = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        let planned = PlayPlan::new(scenario, policy, repetition, None);
        let (plan, notes) = planned.map_err(|e| e.to_string())?;
        self.may_be_used(&plan)?;
        let scratch = std::env::temp_dir().join(format!("weir-compare-{}", std::process::id()));
        // `create` fails if the directory exists. That is intended, because another user could have
        // created it.
        let made = DirBuilder::new().mode(0o700).create(&scratch);
        made.map_err(|e| format!("cannot create {}: {e}", scratch.display()))?;
        let played = self.with_settings(&plan, |device, cgroups| {
            let host = PlayHost {
                device: device.to_owned(),
                cgroups,
                scratch: scratch.clone(),
            };
            host.play(&plan, go_on).map_err(|e| e.to_string())
        });
        // Files that remain in the temporary directory do not affect the results.
        let _ = fs::remove_dir_all(&scratch);
        Ok((played?, notes))
    }

    /// Applies the plan's settings, calls `then`, and restores the settings. `then` receives the
    /// block device, and the directory of cgroups.
    fn with_settings<T>(
        &self,
        plan: &PlayPlan,
        then: impl FnOnce(&Path, Option<String>) -> Result<T, String>,
    ) -> Result<T, String> {
        // The kernel's schedulers and controllers only apply to block devices.
        let looped = (!self.is_block)
            .then(|| AttachedLoop::new(&self.path))
            .transpose()?;
        let device = looped.as_ref().map_or(&self.path, |l| &l.device);
        let mut files = FileTree::default();
        self.wait_for_removed_groups(&files);
        let said = |e: &dyn std::fmt::Display| e.to_string();
        let knobs = player::knobs(plan, &files, device).map_err(|e| said(&e))?;
        let mut journal = ApplyJournal::open(Path::new(JOURNAL)).map_err(|e| said(&e))?;
        // Settings of an earlier comparison that was killed would otherwise be recorded as the
        // original ones.
        let mut say = |_: &weir_linux::StepReport| ();
        weir_linux::restore(&mut files, &mut journal, &mut say).map_err(|e| said(&e))?;
        let applied = weir_linux::apply(&mut files, &knobs, &mut journal, &mut say);
        // Without groups, the jobs run in the cgroup of this command.
        let cgroups = knobs.cgroups.root.filter(|_| !plan.groups.is_empty());
        let done = applied.map_err(|e| said(&e));
        let done = done.and_then(|_| then(device, cgroups));
        // The settings are restored even if the run has failed. An error of the run is the more
        // important one.
        let restored = weir_linux::restore(&mut files, &mut journal, &mut say);
        let restored = restored.map_err(|e| format!("some settings could not be restored: {e}"));
        done.and_then(|done| restored.map(|_| done))
    }

    /// Waits until the kernel has released the cgroups of earlier plans, as far as that can be
    /// detected.
    ///
    /// Linux up to at least 6.12 crashes when `low_latency` of BFQ is switched off while a removed
    /// cgroup still has a record on the device: `bfq_end_wr_async` uses the record of BFQ in each
    /// group of the device, and a new elevator gives none to a removed group. Such a record is
    /// freed after a grace period of RCU and a call of a work queue, which takes milliseconds.
    fn wait_for_removed_groups(&self, files: &FileTree) {
        let begun = Instant::now();
        // A removed cgroup can also wait for its pages in the page cache, which takes without limit
        // and does no harm.
        while dying_groups(files) > self.dying && begun.elapsed() < RELEASED {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Refuses a device that is in use or too small, or whose content a plan would overwrite
    /// without confirmation.
    fn may_be_used(&self, plan: &PlayPlan) -> Result<(), String> {
        let shown = self.path.display();
        // The device can have been mounted since the first check.
        unused(&self.path, self.is_block)?;
        let size = size(&self.path)?;
        if size < plan.jobs.bytes {
            let needed = plan.jobs.bytes;
            return Err(format!(
                "{shown} is too small: it has {size} bytes, and the scenario's files need {needed}"
            ));
        }
        // A scenario that only reads may use any device that is not in use.
        if !plan.jobs.writes {
            return Ok(());
        }
        if self.destroy {
            return writable(&self.path, self.is_block);
        }
        let what = match &self.signature {
            Some(what) => format!("{shown} contains {what}, which the scenario would overwrite"),
            None => format!("the scenario would overwrite {shown}"),
        };
        Err(format!("{what}; add --destroy {shown} to permit this"))
    }
}

/// The part of a step's advice that names what the kernel lacks ([`weir_linux::StepError`]).
const BUILT_WITHOUT: &str = "the kernel was built without";

/// The longest time to wait for the kernel to release removed cgroups.
const RELEASED: Duration = Duration::from_secs(2);

/// Returns the number of removed cgroups that the kernel has not released, or 0 without cgroups of
/// version 2.
fn dying_groups(files: &FileTree) -> u64 {
    let stat = files.read("/sys/fs/cgroup/cgroup.stat").unwrap_or_default();
    let line = stat
        .lines()
        .find_map(|l| l.strip_prefix("nr_dying_descendants "));
    line.and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

/// Returns the release of this machine's kernel.
pub(super) fn release() -> String {
    let text = FileTree::default().read("/proc/sys/kernel/osrelease");
    text.unwrap_or_default().trim().to_owned()
}

/// Refuses a user who may not change the kernel's settings, and a host without fio.
fn may_change_settings() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err(
            "only root can change the settings of devices and cgroups; run the command as root"
                .to_owned(),
        );
    }
    let fio = Command::new("fio").arg("--version").output();
    fio.map(drop).map_err(|e| PlayError::NoFio(e).to_string())
}

/// Refuses storage that the system uses: a device that is mounted, used as swap, a member of
/// another device, or divided into partitions, and a file that is used as swap or by a loop device.
fn unused(path: &Path, is_block: bool) -> Result<(), String> {
    let uses = backend::uses(path).map_err(|e| e.to_string())?;
    if let Some(first) = uses.first() {
        return Err(format!("{first}; end that use first"));
    }
    if !is_block {
        return Ok(());
    }
    let device = weir_linux::HostDevice::find(&FileTree::default(), &path.to_string_lossy());
    device.map_err(|why| why.to_string())?;
    // `O_EXCL` on a block device fails with `EBUSY` if the kernel itself uses the device (open(2)).
    // This covers uses that the checks above do not know.
    let exclusive = rustix::fs::OFlags::EXCL.bits().cast_signed();
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(exclusive)
        .open(path);
    opened
        .map(drop)
        .map_err(|e| format!("it is in use or cannot be opened: {e}"))
}

/// Refuses a device or file that cannot be written. It is not opened for writing, because udev
/// examines a device again when such a descriptor is closed.
fn writable(path: &Path, is_block: bool) -> Result<(), String> {
    let shown = path.display();
    let refuse = |why: &dyn std::fmt::Display| {
        format!("the scenario writes, but {shown} cannot be written: {why}")
    };
    if is_block {
        let files = FileTree::default();
        let number = files.number(&path.to_string_lossy());
        let number = number.map_err(|e| refuse(&e))?;
        // The kernel sets this flag for `losetup --read-only` and `blockdev --setro`, for example.
        let flag = files.read(&format!("/sys/dev/block/{number}/ro"));
        if flag.is_ok_and(|flag| flag.trim() == "1") {
            return Err(refuse(&"the device is read-only"));
        }
    }
    let (access, flags) = (rustix::fs::Access::WRITE_OK, rustix::fs::AtFlags::EACCESS);
    rustix::fs::accessat(rustix::fs::CWD, path, access, flags).map_err(|e| refuse(&e))
}

/// Returns the content of a device according to `blkid`: a file system, a member of a volume, or a
/// partition table.
fn signature(path: &Path) -> Result<Option<String>, String> {
    let probed = Command::new("blkid")
        .args(["--probe", "--output", "export"])
        .arg(path)
        .output();
    let probed =
        probed.map_err(|e| format!("cannot start blkid ({e}); install package util-linux"))?;
    let text = String::from_utf8_lossy(&probed.stdout);
    let value = |key: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(key));
        line.map(str::to_owned)
    };
    let kind = value("TYPE=").or_else(|| value("PTTYPE=").map(|t| format!("partition table {t}")));
    match (kind, probed.status.code()) {
        (Some(kind), _) => Ok(Some(kind)),
        // Status 2: the content is unknown, or there is none (blkid(8)).
        (None, Some(2)) => Ok(None),
        // Status 8: several types match (blkid(8)).
        (None, Some(0 | 8)) => Ok(Some("data of an ambiguous type".to_owned())),
        (None, _) => Err(format!(
            "blkid failed: {}",
            String::from_utf8_lossy(&probed.stderr).trim()
        )),
    }
}

/// Returns the size of a device or file in bytes.
fn size(path: &Path) -> Result<u64, String> {
    use std::io::{Seek, SeekFrom};
    let file = fs::File::open(path);
    // The metadata of a block device has the size 0, but its end can be sought.
    let size = file.and_then(|mut file| file.seek(SeekFrom::End(0)));
    size.map_err(|e| format!("{}: {e}", path.display()))
}

/// A block device for a file, which is detached when this value is dropped.
struct AttachedLoop {
    device: PathBuf,
}

impl AttachedLoop {
    /// Attaches a file to a free loop device, with direct I/O to the file.
    fn new(file: &Path) -> Result<Self, String> {
        let made = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=on"])
            .arg(file)
            .output();
        let made = made.map_err(|e| {
            format!("cannot start losetup ({e}); install package mount, or use a device")
        })?;
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stderr);
            return Err(format!("losetup: {}", said.trim()));
        }
        let device = String::from_utf8_lossy(&made.stdout);
        Ok(Self {
            device: device.trim().into(),
        })
    }
}

impl Drop for AttachedLoop {
    fn drop(&mut self) {
        // A destructor cannot report an error, and the run is over.
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.device)
            .status();
    }
}
