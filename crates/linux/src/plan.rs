//! The plan: everything to be done on a host for a file of contracts.
//!
//! [`HostPlan::new`] reads the host and changes nothing. [`apply`](crate::apply) carries the plan
//! out.

mod unit;

use crate::boot;
use crate::cgroups::Cgroups;
use crate::change::Ident;
use crate::device::{HostDevice, error_text};
use crate::files::HostFiles;
use crate::knob::Knob;
use crate::place::{ApplyStep, DevicePaths};
use crate::setting::{KnobSetting, SettingPlace};
use crate::translate::{ContractGroup, Translation, TranslationRefusal, translate};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use unit::DropIns;
use weir_config::apply::{Cgroup, CgroupContract, KernelDrive, KernelHost};
use weir_config::policy::PolicyController;
use weir_config::{Problem, one_line};
use weir_core::DriveShape;

pub(crate) use unit::FILE as UNIT_FILE;
pub use unit::FOLDER as UNIT_FOLDER;

/// The actions for a host in order, and the settings that are not possible.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostPlan {
    /// The identifier of the boot for which the plan was made.
    pub(crate) boot: String,
    /// The cgroup mounts of the host.
    pub cgroups: Cgroups,
    /// The devices to be set, in the order of the file's drives. Devices that do not exist are left
    /// out.
    pub devices: Vec<DeviceTarget>,
    /// The actions, in the order in which they are done.
    pub actions: Vec<PlanAction>,
    /// The differences between the kernel and a policy, a sentence for each.
    pub notes: Vec<String>,
    /// The settings that cannot be made because of a problem.
    pub withheld: Vec<WithheldSetting>,
    /// The problems, with their positions in the file.
    pub problems: Vec<Problem>,
}

/// A setting of the file that cannot be made on this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WithheldSetting {
    /// The key in the file: `drive.NAME`, `volume.NAME` or `tenant.NAME`.
    pub key: String,
    /// The setting that is refused. `None` if it is the whole drive.
    pub setting: Option<(Knob, String)>,
    /// The reason why it cannot be made.
    pub why: String,
}

impl fmt::Display for WithheldSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, setting, why } = self;
        let setting = match setting {
            Some((knob, value)) => format!("{knob} {value:?}"),
            None => "everything".to_owned(),
        };
        f.write_str(&one_line(&format!("refused: {key}: {setting}: {why}")))
    }
}

/// The facts about the host that the plan of every drive needs.
struct PlanContext<'a> {
    files: &'a dyn HostFiles,
    host: &'a KernelHost,
    /// The path of the cgroup of every systemd unit. Empty if the file does not name units.
    units: BTreeMap<String, String>,
    /// The reason why no cgroup has the controller. `None` if cgroups can be used.
    no_groups: Option<String>,
}

/// A drive of the file together with the device that it is on this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceTarget {
    /// The drive's name in the file.
    pub drive: String,
    /// The identity of the device, for the journal.
    pub ident: Ident,
    /// The device as it was found.
    pub device: HostDevice,
    /// The settings that the drive's policy and contracts translate to.
    pub settings: Vec<KnobSetting>,
    /// The path of the cgroup of each member of the drive, or `None` if it has none.
    pub groups: Vec<Option<String>>,
    /// The systemd unit of each member whose settings are passed to systemd instead of being
    /// written to its cgroup.
    pub units: Vec<Option<String>>,
}

/// One action of a plan.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum PlanAction {
    /// Make a cgroup, or a directory for a file of systemd.
    Make(String),
    /// Enable the controller `io` below the cgroup with this directory.
    Enable(String),
    /// Set a knob of a device of the plan.
    Set {
        /// The index of the device among the plan's devices.
        device: usize,
        /// The file to write.
        file: String,
        /// The knob that the file belongs to.
        knob: Knob,
        /// The value to be set.
        value: String,
    },
    /// Write a drop-in of systemd, which is told to reload at the end.
    Unit {
        /// The path of the drop-in.
        file: String,
        /// The content of the drop-in.
        text: String,
    },
}

impl HostPlan {
    /// Makes the plan for this host. The host is only read.
    pub fn new(files: &dyn HostFiles, host: &KernelHost) -> Self {
        let cgroups = Cgroups::of(files);
        // Without readable mounts, the settings of devices are still possible.
        let failed = cgroups.as_ref().err().map(error_text);
        let none = Cgroups {
            root: None,
            v1: false,
            systemd: false,
        };
        let mut plan = Self::empty(files, cgroups.unwrap_or(none));
        let look = PlanContext {
            files,
            host,
            no_groups: plan.check_version_2(host, failed),
            units: plan.units(files, host),
        };
        let mut drop_ins = DropIns::default();
        for drive in &host.drives {
            plan.add(&look, drive, &mut drop_ins);
        }
        plan.refuse_same_device(host);
        // This comes last, because a unit can get directives for several drives.
        plan.actions.extend(drop_ins.actions(files));
        plan
    }

    /// Makes the plan for these settings of one device. [`SettingPlace::Group`] is an index into
    /// `groups`, which are paths below the root cgroup.
    ///
    /// # Errors
    /// Returns an error if the device does not exist, or if the settings need cgroups of version 2
    /// with the controller `io` and the host has none.
    pub fn of_settings(
        files: &dyn HostFiles,
        link: &str,
        settings: &[KnobSetting],
        groups: &[String],
    ) -> Result<Self, String> {
        let device = HostDevice::find(files, link).map_err(|why| format!("{link}: {why}"))?;
        let cgroups =
            Cgroups::of(files).map_err(|e| format!("/proc/self/mounts: {}", error_text(&e)))?;
        // Settings of the device itself do not need cgroups.
        let needed = !groups.is_empty() || settings.iter().any(|s| s.at != SettingPlace::Device);
        if needed && (cgroups.v1 || cgroups.root.is_none()) {
            return Err(
                "groups require cgroups of version 2 with the io controller; boot with systemd.unified_cgroup_hierarchy=1 cgroup_no_v1=all"
                    .to_owned(),
            );
        }
        let mut settings = settings.to_vec();
        if device.schedulers.is_empty() {
            if let Some((what, help)) = queue_refusal(&device, &settings) {
                return Err(format!("{what}; {help}"));
            }
            // The elevator of such a device is always `none`, whatever is written.
            settings.retain(|s| s.knob != Knob::Scheduler);
        }
        let target = DeviceTarget {
            drive: device.name.clone(),
            ident: Ident::of(link, &device),
            device,
            settings,
            groups: groups.iter().cloned().map(Some).collect(),
            units: vec![None; groups.len()],
        };
        let mut plan = Self::empty(files, cgroups);
        plan.steps(files, &target);
        plan.devices.push(target);
        Ok(plan)
    }

    fn empty(files: &dyn HostFiles, cgroups: Cgroups) -> Self {
        Self {
            boot: boot::id(files),
            cgroups,
            devices: Vec::new(),
            actions: Vec::new(),
            notes: Vec::new(),
            withheld: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Checks that cgroups of version 2 have the controller. If not, adds a problem and returns the
    /// reason.
    // A file without members needs no cgroups.
    fn check_version_2(&mut self, host: &KernelHost, failed: Option<String>) -> Option<String> {
        let member = host.drives.iter().flat_map(|d| &d.members).next()?;
        let (what, help) = if let Some(why) = failed {
            (format!("cannot read /proc/self/mounts: {why}"), None)
        } else if self.cgroups.v1 {
            let help = "boot with systemd.unified_cgroup_hierarchy=1 cgroup_no_v1=all";
            (
                "the io controller is not available in cgroups of version 2, because cgroups of version 1 use it (blkio)".to_owned(),
                Some(help.to_owned()),
            )
        } else if self.cgroups.root.is_none() {
            let help = "run mount -t cgroup2 none /sys/fs/cgroup";
            (
                "cgroups of version 2 are not mounted".to_owned(),
                Some(help.to_owned()),
            )
        } else {
            return None;
        };
        let problem = host.problem(&member.key, what.clone(), help);
        self.problems.push(problem);
        Some(what)
    }

    /// Returns the path of the cgroup of every systemd unit, if the file names units.
    fn units(&self, files: &dyn HostFiles, host: &KernelHost) -> BTreeMap<String, String> {
        let mut members = host.drives.iter().flat_map(|d| &d.members);
        if members.any(|member| matches!(member.cgroup, Cgroup::Unit(_))) {
            return self.cgroups.units(files);
        }
        BTreeMap::new()
    }

    /// Adds the settings of a drive, or the reasons why they are not possible.
    fn add(&mut self, look: &PlanContext<'_>, drive: &KernelDrive, drop_ins: &mut DropIns) {
        let (files, host) = (look.files, look.host);
        let link = drive.device.display().to_string();
        let device = HostDevice::find(files, &link);
        let mut refused = Vec::new();
        if let Err(why) = &device {
            let at = format!("drive.{}.device", drive.name);
            let help = Some(help_for_device(files));
            self.problems.push(host.problem(&at, why.to_string(), help));
            refused.push((RefusalScope::All, format!("{link}: {why}")));
        }
        // Settings are translated even without a device, so that the user sees all that is refused.
        let Some(mut settings) = self.translated(host, drive, device.as_ref().ok()) else {
            return;
        };
        if let Some(device) = device.as_ref().ok().filter(|d| d.schedulers.is_empty()) {
            if let Some((what, help)) = queue_refusal(device, &settings) {
                let at = format!("drive.{}.policy", drive.name);
                let problem = host.problem(&at, what.clone(), Some(help));
                self.problems.push(problem);
                refused.push((RefusalScope::Queue, what));
            }
            // The elevator of such a device is always `none`, whatever is written.
            settings.retain(|s| s.knob != Knob::Scheduler || s.value != "none");
        }
        if let Some(why) = &look.no_groups {
            refused.push((RefusalScope::Groups, why.clone()));
        }
        let (mut groups, mut units) = (Vec::new(), Vec::new());
        for (place, member) in drive.members.iter().enumerate() {
            let (group, unit) = match self.cgroup(look, member) {
                Ok((path, unit)) => (Some(path), unit),
                Err(why) => {
                    refused.push((RefusalScope::Group(place), why));
                    (None, None)
                }
            };
            groups.push(group);
            units.push(unit);
        }
        self.withhold(drive, &refused, &mut settings);
        let Ok(device) = device else { return };
        let target = DeviceTarget {
            drive: drive.name.clone(),
            ident: Ident::of(&link, &device),
            device,
            settings,
            groups,
            units,
        };
        self.steps(files, &target);
        drop_ins.add(&target, &mut self.notes);
        self.devices.push(target);
    }

    /// Returns the settings for a drive, or `None` if the policy is refused. Without a device, the
    /// lines of io.cost contain only the words of the policy.
    fn translated(
        &mut self,
        host: &KernelHost,
        drive: &KernelDrive,
        device: Option<&HostDevice>,
    ) -> Option<Vec<KnobSetting>> {
        let Translation {
            mut settings,
            notes,
        } = match translated(drive, device) {
            Ok(translation) => translation,
            Err(TranslationRefusal { what, help }) => {
                let key = format!("drive.{}", drive.name);
                // The policies that the help proposes need a request queue, which this device does
                // not have.
                let help = match device {
                    Some(device) if device.schedulers.is_empty() => limits_only_help(device),
                    _ => help,
                };
                let at = format!("{key}.policy");
                self.problems
                    .push(host.problem(&at, what.clone(), Some(help)));
                let (setting, why) = (None, what);
                self.withheld.push(WithheldSetting { key, setting, why });
                return None;
            }
        };
        self.notes.extend(notes);
        for (place, member) in drive.members.iter().enumerate() {
            // The priority class is a setting of the member, and not of the policy.
            if let Some(class) = member.prio_class {
                settings.push(KnobSetting {
                    at: SettingPlace::Group(place),
                    knob: Knob::PrioClass,
                    value: class.to_owned(),
                });
            }
        }
        Some(settings)
    }

    /// Removes the refused settings from those of a drive, and records each of them.
    fn withhold(
        &mut self,
        drive: &KernelDrive,
        refused: &[(RefusalScope, String)],
        settings: &mut Vec<KnobSetting>,
    ) {
        settings.retain(|setting| {
            let Some((_, why)) = refused.iter().find(|(what, _)| what.covers(setting)) else {
                return true;
            };
            let key = match setting.at {
                SettingPlace::Group(place) => drive.members[place].key.clone(),
                SettingPlace::Device | SettingPlace::Root => format!("drive.{}", drive.name),
            };
            self.withheld.push(WithheldSetting {
                key,
                setting: Some((setting.knob, setting.value.clone())),
                why: why.clone(),
            });
            false
        });
    }

    /// Returns the cgroup of a member. If systemd owns the cgroup, also returns the unit whose
    /// drop-in has to be written.
    ///
    /// # Errors
    /// Returns the reason if the member has no cgroup that can be set.
    fn cgroup(
        &mut self,
        look: &PlanContext<'_>,
        member: &CgroupContract,
    ) -> Result<(String, Option<String>), String> {
        if let Some(why) = &look.no_groups {
            return Err(why.clone());
        }
        let mut refuse = |key: &str, what: String, help: String| {
            let at = format!("{}.{key}", member.key);
            let problem = look.host.problem(&at, what.clone(), Some(help));
            self.problems.push(problem);
            Err(what)
        };
        let path = match &member.cgroup {
            Cgroup::Path(path) => path.clone(),
            Cgroup::Unit(unit) => {
                let Some(path) = look.units.get(unit) else {
                    let what = format!("unit {unit} is not running, so that it has no cgroup");
                    return refuse("unit", what, format!("run systemctl start {unit}"));
                };
                path.clone()
            }
        };
        match self.cgroups.owner(look.files, &path) {
            None => Ok((path, None)),
            Some((unit, true)) => {
                let unit = unit.to_owned();
                Ok((path, Some(unit)))
            }
            Some((unit, false)) => {
                let unit = one_line(unit);
                let what =
                    format!("is below {unit}, which belongs to systemd and is not delegated");
                let help = format!("use unit instead of cgroup, or set Delegate=io in {unit}");
                refuse("cgroup", what, help)
            }
        }
    }

    /// Adds the actions on files for a device. Members whose units belong to systemd are left out.
    fn steps(&mut self, files: &dyn HostFiles, target: &DeviceTarget) {
        let is_file =
            |place: usize| target.units[place].is_none() && target.groups[place].is_some();
        let groups = target.groups.iter().enumerate();
        let place = DevicePaths {
            number: target.device.number.clone(),
            device: target.device.directory(),
            root: self.cgroups.root.clone().unwrap_or_default(),
            groups: groups
                .map(|(place, path)| path.clone().filter(|_| is_file(place)).unwrap_or_default())
                .collect(),
        };
        let own = target.settings.iter().filter(|s| match s.at {
            SettingPlace::Group(group) => is_file(group),
            SettingPlace::Device | SettingPlace::Root => true,
        });
        let settings: Vec<KnobSetting> = own.cloned().collect();
        // The index that the target will have in `devices`.
        let device = self.devices.len();
        // Devices can share cgroups, which are made and enabled once.
        let mut known: HashSet<PlanAction> = self.actions.iter().cloned().collect();
        for step in place.steps(files, &settings) {
            let action = match step {
                ApplyStep::Make(folder) => PlanAction::Make(folder),
                ApplyStep::Enable(folder) => PlanAction::Enable(folder),
                ApplyStep::Set(file, setting) => PlanAction::Set {
                    device,
                    file,
                    knob: setting.knob,
                    value: setting.value,
                },
            };
            if known.insert(action.clone()) {
                self.actions.push(action);
            }
        }
    }

    /// Refuses a second drive whose link leads to the same device as an earlier one.
    fn refuse_same_device(&mut self, host: &KernelHost) {
        for (place, target) in self.devices.iter().enumerate() {
            let same = |other: &&DeviceTarget| other.device.number == target.device.number;
            let Some(other) = self.devices[..place].iter().find(same) else {
                continue;
            };
            let key = format!("drive.{}", target.drive);
            let what = format!(
                "leads to {}, which is already the device of drive.{}",
                target.device.name, other.drive
            );
            let help = Some("merge the two drives; a device has one policy".to_owned());
            let at = format!("{key}.device");
            self.problems.push(host.problem(&at, what.clone(), help));
            // Both drives would write to the same files, so that the second one loses its settings.
            let withheld = self.actions.extract_if(
                ..,
                |action| matches!(action, PlanAction::Set { device, .. } if *device == place),
            );
            self.withheld
                .extend(withheld.filter_map(|action| match action {
                    PlanAction::Set { knob, value, .. } => Some(WithheldSetting {
                        key: key.clone(),
                        setting: Some((knob, value)),
                        why: what.clone(),
                    }),
                    _ => None,
                }));
        }
    }
}

/// The settings that a reason applies to.
#[derive(Clone, Copy)]
enum RefusalScope {
    /// All settings of the drive.
    All,
    /// The settings that need a request queue.
    Queue,
    /// The settings in cgroups, including the root.
    Groups,
    /// The settings in the cgroup of the member with this index.
    Group(usize),
}

impl RefusalScope {
    /// Returns true if the reason applies to a setting.
    fn covers(self, setting: &KnobSetting) -> bool {
        match self {
            Self::All => true,
            Self::Queue => needs_queue(setting),
            Self::Groups => setting.at != SettingPlace::Device,
            Self::Group(place) => setting.at == SettingPlace::Group(place),
        }
    }
}

/// Translates the policy of a drive. Without a device, the lines of io.cost contain only the words
/// of the policy.
fn translated(
    drive: &KernelDrive,
    device: Option<&HostDevice>,
) -> Result<Translation, TranslationRefusal> {
    if drive.policy.controllers.contains(&PolicyController::Low) {
        return Err(TranslationRefusal {
            what: format!("policy \"{}\": {NO_LOW}", drive.policy.word()),
            help: "remove io.low; \"io.cost\" and \"bfq\" work by weights".to_owned(),
        });
    }
    let groups: Vec<ContractGroup> = drive.members.iter().map(group).collect();
    let shape = device.map(|device| DriveShape {
        rotational: drive.queue.rotational.unwrap_or(device.rotational),
        ..device.shape()
    });
    let known = (drive.capacity, shape.as_ref());
    translate(&drive.policy, &drive.queue, known, &groups)
}

fn group(member: &CgroupContract) -> ContractGroup {
    ContractGroup {
        parent: member.parent,
        contract: member.contract,
        knobs: member.knobs,
    }
}

/// Returns a help text that lists the block devices of the host.
fn help_for_device(files: &dyn HostFiles) -> String {
    let all = HostDevice::all(files).unwrap_or_default().into_iter();
    let names: Vec<String> = all.map(|d| format!("/dev/{}", d.name)).collect();
    if names.is_empty() {
        return "add a block device; the system has none".to_owned();
    }
    format!(
        "use one of {}, preferably by its link in /dev/disk/by-id",
        names.join(", ")
    )
}

/// The reason why `io.low` cannot be used on any host.
pub const NO_LOW: &str =
    "io.low was removed from Linux in 6.10, and distributions did not enable it before";

/// Returns true if a setting has no effect on a device without a request queue.
fn needs_queue(setting: &KnobSetting) -> bool {
    match setting.knob {
        Knob::Scheduler => setting.value != "none",
        knob => matches!(
            knob,
            Knob::CostQos
                | Knob::CostModel
                | Knob::Weight
                | Knob::BfqWeight
                | Knob::Latency
                | Knob::NrRequests
                | Knob::Tunable(_)
        ),
    }
}

/// Returns a help text on the settings that are possible on a device without a request queue.
fn limits_only_help(device: &HostDevice) -> String {
    if device.below.is_empty() {
        return "use policy \"io.max\", the only one that works there".to_owned();
    }
    format!(
        "use a device below it: {}; on {} itself only \"io.max\" works",
        device.below.join(", "),
        device.name
    )
}

/// Returns the reason and the help if a device without a request queue cannot have these settings.
fn queue_refusal(device: &HostDevice, settings: &[KnobSetting]) -> Option<(String, String)> {
    // `io.cost.model` has no effect without `io.cost.qos`, which follows it and is the better one
    // to name.
    let mut in_vain = settings.iter().filter(|setting| needs_queue(setting));
    let in_vain = in_vain.find(|setting| setting.knob != Knob::CostModel)?;
    let what = format!(
        "{} has no request queue, so that {} has no effect there",
        device.name, in_vain.knob
    );
    Some((what, limits_only_help(device)))
}

#[cfg(test)]
mod tests;
