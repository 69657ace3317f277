//! What is to be done on a host for a file of contracts.

mod unit;

use crate::boot;
use crate::cgroups::Cgroups;
use crate::change::Ident;
use crate::device::{Device, said};
use crate::files::Files;
use crate::knob::Knob;
use crate::place::{Place, Step};
use crate::setting::{At, Setting};
use crate::translate::{Group, Refused, Translation, translate};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use unit::DropIns;
use weir_config::apply::{Cgroup, Drive, Host, Member};
use weir_config::policy::Controller;
use weir_config::{Problem, one_line};
use weir_core::DriveShape;

pub(crate) use unit::FILE as UNIT_FILE;
pub use unit::FOLDER as UNIT_FOLDER;

/// Everything that is to be done, in order, and what cannot be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Which boot this is.
    pub(crate) boot: String,
    /// How the host has its cgroups.
    pub cgroups: Cgroups,
    /// The devices that are set, in the order of the file's drives; without those that are not there.
    pub devices: Vec<Target>,
    /// What is done.
    pub actions: Vec<Action>,
    /// In what the kernel is not as a policy; a sentence each.
    pub notes: Vec<String>,
    /// Settings that cannot be made, because of a problem.
    pub withheld: Vec<Withheld>,
    /// What cannot be done.
    pub problems: Vec<Problem>,
}

/// A setting of the file that cannot be made on this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Withheld {
    /// The key in the file: `drive.NAME`, `volume.NAME` or `tenant.NAME`.
    pub key: String,
    /// The setting; `None` if the whole drive has none.
    pub setting: Option<(Knob, String)>,
    /// Why.
    pub why: String,
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, setting, why } = self;
        let setting = match setting {
            Some((knob, value)) => format!("{knob} {value:?}"),
            None => "everything".to_owned(),
        };
        f.write_str(&one_line(&format!("refused: {key}: {setting}: {why}")))
    }
}

/// What the plan of every drive needs of the host.
struct Look<'a> {
    files: &'a dyn Files,
    host: &'a Host,
    /// The path of the cgroup of every unit of systemd, if the file names units.
    units: BTreeMap<String, String>,
    /// Why no cgroup has the controller, if none has.
    no_groups: Option<String>,
}

/// A drive of the file and what it is here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// The drive's name in the file.
    pub drive: String,
    /// How it is found again.
    pub ident: Ident,
    /// What it is.
    pub device: Device,
    /// What is set of it, translated.
    pub settings: Vec<Setting>,
    /// The path of the cgroup of each member of the drive; `None` where there is none.
    pub groups: Vec<Option<String>>,
    /// The unit of each member that systemd is told of in place of its files.
    pub units: Vec<Option<String>>,
}

/// One thing that is done.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// A cgroup is made, or a directory for a file of systemd.
    Make(String),
    /// The controller `io` is switched on below the cgroup of this directory.
    Enable(String),
    /// A knob is set in a file for the device of this place among the plan's.
    Set {
        /// The device.
        device: usize,
        /// The file.
        file: String,
        /// The knob.
        knob: Knob,
        /// The value.
        value: String,
    },
    /// A file for systemd, which is told of it at the end.
    Unit {
        /// The file.
        file: String,
        /// What it says.
        text: String,
    },
}

impl Plan {
    /// What is to be done on this host. The host is only read.
    pub fn new(files: &dyn Files, host: &Host) -> Self {
        let cgroups = Cgroups::of(files);
        let failed = cgroups.as_ref().err().map(said);
        let none = Cgroups {
            root: None,
            v1: false,
            systemd: false,
        };
        let mut plan = Self::empty(files, cgroups.unwrap_or(none));
        let look = Look {
            files,
            host,
            no_groups: plan.version_2(host, failed),
            units: plan.units(files, host),
        };
        let mut drop_ins = DropIns::default();
        for drive in &host.drives {
            plan.add(&look, drive, &mut drop_ins);
        }
        plan.same_device(host);
        plan.actions.extend(drop_ins.actions(files));
        plan
    }

    /// What is to be done for these settings of one device, and cgroups by their paths below the root, of which [`At::Group`] speaks.
    ///
    /// # Errors
    /// There is no such device, or there are no cgroups of version 2 with the controller for storage though the settings need them.
    pub fn of_settings(
        files: &dyn Files,
        link: &str,
        settings: &[Setting],
        groups: &[String],
    ) -> Result<Self, String> {
        let device = Device::find(files, link).map_err(|why| format!("{link}: {why}"))?;
        let cgroups = Cgroups::of(files).map_err(|e| format!("/proc/self/mounts: {}", said(&e)))?;
        let needed = !groups.is_empty() || settings.iter().any(|s| s.at != At::Device);
        if needed && (cgroups.v1 || cgroups.root.is_none()) {
            return Err(
                "groups require cgroups of version 2 with the io controller; boot with systemd.unified_cgroup_hierarchy=1 cgroup_no_v1=all"
                    .to_owned(),
            );
        }
        let mut settings = settings.to_vec();
        if device.schedulers.is_empty() {
            if let Some((what, help)) = without_queue(&device, &settings) {
                return Err(format!("{what}; {help}"));
            }
            settings.retain(|s| s.knob != Knob::Scheduler);
        }
        let target = Target {
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

    fn empty(files: &dyn Files, cgroups: Cgroups) -> Self {
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

    /// Without version 2 no cgroup has a file of the controller. Returns why there is none.
    fn version_2(&mut self, host: &Host, failed: Option<String>) -> Option<String> {
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

    /// The path of the cgroup of every unit of systemd, if the file names units.
    fn units(&self, files: &dyn Files, host: &Host) -> BTreeMap<String, String> {
        let mut members = host.drives.iter().flat_map(|d| &d.members);
        if members.any(|member| matches!(member.cgroup, Cgroup::Unit(_))) {
            return self.cgroups.units(files);
        }
        BTreeMap::new()
    }

    fn add(&mut self, look: &Look<'_>, drive: &Drive, drop_ins: &mut DropIns) {
        let (files, host) = (look.files, look.host);
        let link = drive.device.display().to_string();
        let device = Device::find(files, &link);
        let mut refused = Vec::new();
        if let Err(why) = &device {
            let at = format!("drive.{}.device", drive.name);
            let help = Some(help_for_device(files));
            self.problems.push(host.problem(&at, why.to_string(), help));
            refused.push((Refuses::All, format!("{link}: {why}")));
        }
        let Some(mut settings) = self.translated(host, drive, device.as_ref().ok()) else {
            return;
        };
        if let Some(device) = device.as_ref().ok().filter(|d| d.schedulers.is_empty()) {
            if let Some((what, help)) = without_queue(device, &settings) {
                let at = format!("drive.{}.policy", drive.name);
                let problem = host.problem(&at, what.clone(), Some(help));
                self.problems.push(problem);
                refused.push((Refuses::Queue, what));
            }
            // It is none whatever is written.
            settings.retain(|s| s.knob != Knob::Scheduler || s.value != "none");
        }
        if let Some(why) = &look.no_groups {
            refused.push((Refuses::Groups, why.clone()));
        }
        let (mut groups, mut units) = (Vec::new(), Vec::new());
        for (place, member) in drive.members.iter().enumerate() {
            let (group, unit) = match self.cgroup(look, member) {
                Ok((path, unit)) => (Some(path), unit),
                Err(why) => {
                    refused.push((Refuses::Group(place), why));
                    (None, None)
                }
            };
            groups.push(group);
            units.push(unit);
        }
        self.withhold(drive, &refused, &mut settings);
        let Ok(device) = device else { return };
        let target = Target {
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

    /// The settings for a drive; without a device those that the kernel would have for any. `None` if the policy is refused.
    fn translated(
        &mut self,
        host: &Host,
        drive: &Drive,
        device: Option<&Device>,
    ) -> Option<Vec<Setting>> {
        let Translation {
            mut settings,
            notes,
        } = match translated(drive, device) {
            Ok(translation) => translation,
            Err(Refused { what, help }) => {
                let key = format!("drive.{}", drive.name);
                // Of what the help proposes, nothing works without a queue.
                let help = match device {
                    Some(device) if device.schedulers.is_empty() => only_limits(device),
                    _ => help,
                };
                let at = format!("{key}.policy");
                self.problems
                    .push(host.problem(&at, what.clone(), Some(help)));
                let (setting, why) = (None, what);
                self.withheld.push(Withheld { key, setting, why });
                return None;
            }
        };
        self.notes.extend(notes);
        for (place, member) in drive.members.iter().enumerate() {
            if let Some(class) = member.prio_class {
                settings.push(Setting {
                    at: At::Group(place),
                    knob: Knob::PrioClass,
                    value: class.to_owned(),
                });
            }
        }
        Some(settings)
    }

    /// Takes the settings that are refused out of those of a drive.
    fn withhold(
        &mut self,
        drive: &Drive,
        refused: &[(Refuses, String)],
        settings: &mut Vec<Setting>,
    ) {
        settings.retain(|setting| {
            let Some((_, why)) = refused.iter().find(|(what, _)| what.covers(setting)) else {
                return true;
            };
            let key = match setting.at {
                At::Group(place) => drive.members[place].key.clone(),
                At::Device | At::Root => format!("drive.{}", drive.name),
            };
            self.withheld.push(Withheld {
                key,
                setting: Some((setting.knob, setting.value.clone())),
                why: why.clone(),
            });
            false
        });
    }

    /// The cgroup of a member, and the unit that systemd is told of.
    ///
    /// # Errors
    /// Why it has none that can be set.
    fn cgroup(
        &mut self,
        look: &Look<'_>,
        member: &Member,
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

    /// What is done in files for a device.
    fn steps(&mut self, files: &dyn Files, target: &Target) {
        let is_file =
            |place: usize| target.units[place].is_none() && target.groups[place].is_some();
        let groups = target.groups.iter().enumerate();
        let place = Place {
            number: target.device.number.clone(),
            device: target.device.directory(),
            root: self.cgroups.root.clone().unwrap_or_default(),
            groups: groups
                .map(|(place, path)| path.clone().filter(|_| is_file(place)).unwrap_or_default())
                .collect(),
        };
        let own = target.settings.iter().filter(|s| match s.at {
            At::Group(group) => is_file(group),
            At::Device | At::Root => true,
        });
        let settings: Vec<Setting> = own.cloned().collect();
        let device = self.devices.len();
        let mut known: HashSet<Action> = self.actions.iter().cloned().collect();
        for step in place.steps(files, &settings) {
            let action = match step {
                Step::Make(folder) => Action::Make(folder),
                Step::Enable(folder) => Action::Enable(folder),
                Step::Set(file, setting) => Action::Set {
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

    /// Two links may lead to one device.
    fn same_device(&mut self, host: &Host) {
        for (place, target) in self.devices.iter().enumerate() {
            let same = |other: &&Target| other.device.number == target.device.number;
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
            let withheld = self.actions.extract_if(
                ..,
                |action| matches!(action, Action::Set { device, .. } if *device == place),
            );
            self.withheld
                .extend(withheld.filter_map(|action| match action {
                    Action::Set { knob, value, .. } => Some(Withheld {
                        key: key.clone(),
                        setting: Some((knob, value)),
                        why: what.clone(),
                    }),
                    _ => None,
                }));
        }
    }
}

/// What a reason is against.
#[derive(Clone, Copy)]
enum Refuses {
    /// Everything of the drive.
    All,
    /// What needs a queue of requests.
    Queue,
    /// What is in cgroups, the root among them.
    Groups,
    /// What is in the cgroup of the member at this place.
    Group(usize),
}

impl Refuses {
    fn covers(self, setting: &Setting) -> bool {
        match self {
            Self::All => true,
            Self::Queue => needs_queue(setting),
            Self::Groups => setting.at != At::Device,
            Self::Group(place) => setting.at == At::Group(place),
        }
    }
}

/// The settings for a drive; without a device those that the kernel would have for any.
fn translated(drive: &Drive, device: Option<&Device>) -> Result<Translation, Refused> {
    if drive.policy.controllers.contains(&Controller::Low) {
        return Err(Refused {
            what: format!("policy \"{}\": {NO_LOW}", drive.policy.word()),
            help: "remove io.low; \"io.cost\" and \"bfq\" work by weights".to_owned(),
        });
    }
    let groups: Vec<Group> = drive.members.iter().map(group).collect();
    let shape = device.map(|device| DriveShape {
        rotational: drive.queue.rotational.unwrap_or(device.rotational),
        ..device.shape()
    });
    let known = (drive.capacity, shape.as_ref());
    translate(&drive.policy, &drive.queue, known, &groups)
}

fn group(member: &Member) -> Group {
    Group {
        parent: member.parent,
        contract: member.contract,
        knobs: member.knobs,
    }
}

/// The devices that there are.
fn help_for_device(files: &dyn Files) -> String {
    let all = Device::all(files).unwrap_or_default().into_iter();
    let names: Vec<String> = all.map(|d| format!("/dev/{}", d.name)).collect();
    if names.is_empty() {
        return "add a block device; the system has none".to_owned();
    }
    format!(
        "use one of {}, preferably by its link in /dev/disk/by-id",
        names.join(", ")
    )
}

/// Why no host has `io.low`.
pub const NO_LOW: &str =
    "io.low was removed from Linux in 6.10, and distributions did not enable it before";

/// Whether a setting does nothing where requests are not queued.
fn needs_queue(setting: &Setting) -> bool {
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

/// What can be had on a device without a queue of requests.
fn only_limits(device: &Device) -> String {
    if device.below.is_empty() {
        return "use policy \"io.max\", the only one that works there".to_owned();
    }
    format!(
        "use a device below it: {}; on {} itself only \"io.max\" works",
        device.below.join(", "),
        device.name
    )
}

/// Why a device without a queue of requests cannot have these settings.
fn without_queue(device: &Device, settings: &[Setting]) -> Option<(String, String)> {
    // The model of io.cost is nothing without its switch, which follows.
    let mut in_vain = settings.iter().filter(|setting| needs_queue(setting));
    let in_vain = in_vain.find(|setting| setting.knob != Knob::CostModel)?;
    let what = format!(
        "{} has no request queue, so that {} has no effect there",
        device.name, in_vain.knob
    );
    Some((what, only_limits(device)))
}

#[cfg(test)]
mod tests;
