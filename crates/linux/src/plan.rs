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
use crate::translate::{Group, translate};
use std::collections::{BTreeMap, HashSet};
use unit::DropIns;
use weir_config::apply::{Cgroup, Drive, Host, Member};
use weir_config::policy::Controller;
use weir_config::{Problem, one_line};

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
    /// What cannot be done.
    pub problems: Vec<Problem>,
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
        plan.version_2(host, failed);
        let units = plan.units(files, host);
        let mut drop_ins = DropIns::default();
        for drive in &host.drives {
            plan.add((files, &units), host, drive, &mut drop_ins);
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
                "groups need cgroups of version 2 with the controller for storage; boot with systemd.unified_cgroup_hierarchy=1 cgroup_no_v1=all"
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
            problems: Vec::new(),
        }
    }

    /// Without version 2 no cgroup has a file of the controller.
    fn version_2(&mut self, host: &Host, failed: Option<String>) {
        let member = host.drives.iter().flat_map(|d| &d.members).next();
        let Some(member) = member else { return };
        let (what, help) = if let Some(why) = failed {
            (format!("/proc/self/mounts cannot be read: {why}"), None)
        } else if self.cgroups.v1 {
            let help = "boot with systemd.unified_cgroup_hierarchy=1 cgroup_no_v1=all";
            (
                "cgroups of version 1 have the controller for storage (blkio), so that those of version 2 have none".to_owned(),
                Some(help.to_owned()),
            )
        } else if self.cgroups.root.is_none() {
            let help = "mount -t cgroup2 none /sys/fs/cgroup";
            (
                "cgroups of version 2 are not mounted".to_owned(),
                Some(help.to_owned()),
            )
        } else {
            return;
        };
        self.problems.push(host.problem(&member.key, what, help));
    }

    /// The path of the cgroup of every unit of systemd, if the file names units.
    fn units(&self, files: &dyn Files, host: &Host) -> BTreeMap<String, String> {
        let mut members = host.drives.iter().flat_map(|d| &d.members);
        if members.any(|member| matches!(member.cgroup, Cgroup::Unit(_))) {
            return self.cgroups.units(files);
        }
        BTreeMap::new()
    }

    fn add(
        &mut self,
        (files, units): (&dyn Files, &BTreeMap<String, String>),
        host: &Host,
        drive: &Drive,
        drop_ins: &mut DropIns,
    ) {
        let link = drive.device.display().to_string();
        let at = format!("drive.{}.device", drive.name);
        let device = match Device::find(files, &link) {
            Ok(device) => device,
            Err(why) => {
                let help = help_for_device(files);
                return self
                    .problems
                    .push(host.problem(&at, why.to_string(), Some(help)));
            }
        };
        let groups: Vec<Group> = drive.members.iter().map(group).collect();
        if drive.policy.controllers.contains(&Controller::Low) {
            let at = format!("drive.{}.policy", drive.name);
            let what = format!("policy \"{}\": {NO_LOW}", drive.policy.word());
            let help = "leave it out; \"io.cost\" and \"bfq\" go by weights".to_owned();
            return self.problems.push(host.problem(&at, what, Some(help)));
        }
        let mut shape = device.shape();
        if let Some(rotational) = drive.queue.rotational {
            shape.rotational = rotational;
        }
        let drive_is = (drive.capacity, Some(&shape));
        let translated = translate(&drive.policy, &drive.queue, drive_is, &groups);
        let mut translation = match translated {
            Ok(translation) => translation,
            Err(refused) => {
                let at = format!("drive.{}.policy", drive.name);
                let problem = host.problem(&at, refused.what, Some(refused.help));
                return self.problems.push(problem);
            }
        };
        if device.schedulers.is_empty() {
            if let Some((what, help)) = without_queue(&device, &translation.settings) {
                let at = format!("drive.{}.policy", drive.name);
                self.problems.push(host.problem(&at, what, Some(help)));
            }
            // It is none whatever is written.
            translation.settings.retain(|s| s.knob != Knob::Scheduler);
        }
        for (place, member) in drive.members.iter().enumerate() {
            if let Some(class) = member.prio_class {
                translation.settings.push(Setting {
                    at: At::Group(place),
                    knob: Knob::PrioClass,
                    value: class.to_owned(),
                });
            }
        }
        self.notes.extend(translation.notes);
        let mut target = Target {
            drive: drive.name.clone(),
            ident: Ident::of(&link, &device),
            device,
            settings: translation.settings,
            groups: Vec::new(),
            units: Vec::new(),
        };
        for member in &drive.members {
            let (group, unit) = self.cgroup((files, units), host, member);
            target.groups.push(group);
            target.units.push(unit);
        }
        self.steps(files, &target);
        drop_ins.add(&target, &mut self.notes);
        self.devices.push(target);
    }

    /// The cgroup of a member, and the unit that systemd is told of.
    fn cgroup(
        &mut self,
        (files, units): (&dyn Files, &BTreeMap<String, String>),
        host: &Host,
        member: &Member,
    ) -> (Option<String>, Option<String>) {
        let path = match &member.cgroup {
            Cgroup::Path(path) => path.clone(),
            Cgroup::Unit(unit) => match units.get(unit) {
                Some(path) => path.clone(),
                None if self.cgroups.root.is_none() => return (None, None),
                None => {
                    let at = format!("{}.unit", member.key);
                    let what = format!("no cgroup is called {unit}: the unit does not run");
                    let help = Some(format!("systemctl start {unit}"));
                    self.problems.push(host.problem(&at, what, help));
                    return (None, None);
                }
            },
        };
        match self.cgroups.owner(files, &path) {
            None => (Some(path), None),
            Some((unit, true)) => {
                let unit = unit.to_owned();
                (Some(path), Some(unit))
            }
            Some((unit, false)) => {
                let at = format!("{}.cgroup", member.key);
                let unit = one_line(unit);
                let what = format!("is below {unit}, which is systemd's and not delegated");
                let help = format!("name a unit, or give {unit} Delegate=io");
                self.problems.push(host.problem(&at, what, Some(help)));
                (None, None)
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
            At::Device => true,
            At::Root => self.cgroups.root.is_some(),
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
            if let Some(other) = self.devices[..place].iter().find(same) {
                let at = format!("drive.{}.device", target.drive);
                let what = format!(
                    "is {}, as that of drive.{}",
                    target.device.name, other.drive
                );
                let help = Some("a device has one policy".to_owned());
                self.problems.push(host.problem(&at, what, help));
            }
        }
    }
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
        return "there is no block device".to_owned();
    }
    format!(
        "there are {}; name one, best by its link in /dev/disk/by-id",
        names.join(", ")
    )
}

/// Why no host has `io.low`.
pub const NO_LOW: &str =
    "io.low left Linux in 6.10, and was an option that distributions did not build before";

/// Why a device without a queue of requests cannot have these settings.
fn without_queue(device: &Device, settings: &[Setting]) -> Option<(String, String)> {
    let in_vain = settings.iter().find(|s| match s.knob {
        Knob::Scheduler => s.value != "none",
        knob => matches!(
            knob,
            Knob::CostQos | Knob::Weight | Knob::BfqWeight | Knob::Latency | Knob::NrRequests
        ),
    })?;
    let what = format!(
        "{} queues no requests of its own, so {} does nothing there",
        device.name, in_vain.knob
    );
    let help = if device.below.is_empty() {
        "of the kernel's policies \"io.max\" works there".to_owned()
    } else {
        format!(
            "name what is below it: {}; \"io.max\" works on {} itself",
            device.below.join(", "),
            device.name
        )
    };
    Some((what, help))
}
