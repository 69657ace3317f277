//! Warnings about settings that have no effect or surprising ones, which the kernel accepts
//! silently.
//!
//! The entry point is [`warnings`]. It only reads the host, so that it can run without root.

use crate::boot;
use crate::cgroups::Cgroups;
use crate::device::{HostDevice, StackKind};
use crate::files::HostFiles;
use crate::knob::Knob;
use crate::plan::{DeviceTarget, HostPlan};
use crate::setting::SettingPlace;
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use weir_config::one_line;

/// A finding about a setting that does not do what it seems to do.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Warning {
    /// The subject of the warning: a file, a device or a unit.
    pub about: String,
    /// The finding, as the predicate of a sentence about the subject.
    pub what: String,
    /// The remedy, as an imperative.
    pub help: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { about, what, help } = self;
        let [about, what, help] = [about, what, help].map(|text| one_line(text));
        write!(f, "{about}: {what}\n  help: {help}")
    }
}

/// Directories of udev rules, which can set attributes of a queue whenever the device changes.
const RULES: [&str; 3] = [
    "/etc/udev/rules.d",
    "/run/udev/rules.d",
    "/usr/lib/udev/rules.d",
];

/// Returns the warnings about a plan's settings, and about settings that the host already has. The
/// host is only read.
pub fn warnings(files: &dyn HostFiles, plan: &HostPlan) -> Vec<Warning> {
    let mut check = HostCheck {
        files,
        plan,
        found: Vec::new(),
        known: HashSet::new(),
    };
    for target in &plan.devices {
        check.device(target);
        check.elevator(target);
        check.warn_unused_weights(target);
        check.latency(target);
        check.groups(target);
    }
    // Rules of udev are not specific to a target.
    check.rules();
    check.found
}

struct HostCheck<'a> {
    files: &'a dyn HostFiles,
    plan: &'a HostPlan,
    found: Vec<Warning>,
    known: HashSet<Warning>,
}

impl HostCheck<'_> {
    fn warn(&mut self, about: &str, what: impl Into<String>, help: impl Into<String>) {
        let warning = Warning {
            about: about.to_owned(),
            what: what.into(),
            help: help.into(),
        };
        // Several targets can share a cgroup or a drop-in, so that the same finding comes up more
        // than once.
        if self.known.insert(warning.clone()) {
            self.found.push(warning);
        }
    }

    /// Warns about devices that are stacked on the target, or that the target is stacked on.
    fn device(&mut self, target: &DeviceTarget) {
        let device = &target.device;
        if let Some(layer) = device.layer {
            let called = match layer {
                StackKind::Mapper => "a device mapper",
                StackKind::Raid => "an md",
            };
            let below = match &device.below[..] {
                [] => "the devices below it".to_owned(),
                below => below.join(", "),
            };
            self.warn(
                &device.name,
                format!("is {called} device: of the kernel's controls only io.max works on it, and a setting of {below} applies to everything on it"),
                format!("use {below} instead if you need weights or an elevator"),
            );
        }
        let all = HostDevice::all(self.files).unwrap_or_default();
        for name in &device.above {
            if all.iter().any(|d| d.name == *name && d.layer.is_some()) {
                self.warn(
                    &device.name,
                    format!("is part of {name}, which changes requests before they reach it; requests that {name} creates itself (copies, parity, encryption in threads) belong to the root cgroup"),
                    format!("check the result under load; you can also set io.max on {name}"),
                );
            }
        }
    }

    /// Returns the value that the plan sets a knob to, if it does.
    fn planned(&self, target: &DeviceTarget, knob: Knob) -> Option<String> {
        let _ = self;
        let found = target.settings.iter().find(|s| s.knob == knob);
        found.map(|s| s.value.clone())
    }

    /// Returns the elevator that the device will have once the plan is applied.
    fn scheduler(&self, target: &DeviceTarget) -> String {
        self.planned(target, Knob::Scheduler).unwrap_or_else(|| {
            let text = self.files.read(&format!(
                "{}/{}",
                target.device.directory(),
                Knob::Scheduler
            ));
            Knob::Scheduler.value(&text.unwrap_or_default(), "")
        })
    }

    /// Returns true if io.cost is enabled for the device, or will be once the plan is applied.
    fn has_cost(&self, target: &DeviceTarget) -> bool {
        self.planned(target, Knob::CostQos).is_some() || self.is_cost_on(target)
    }

    /// Returns true if io.cost is enabled for the device at present.
    fn is_cost_on(&self, target: &DeviceTarget) -> bool {
        let root = self.plan.cgroups.root.clone().unwrap_or_default();
        let text = self.files.read(&format!("{root}/{}", Knob::CostQos));
        let value = Knob::CostQos.value(&text.unwrap_or_default(), &target.device.number);
        value.starts_with("enable=1")
    }

    /// Warns about an elevator that is not available, or that conflicts with io.cost.
    fn elevator(&mut self, target: &DeviceTarget) {
        let device = &target.device;
        let wanted = self.scheduler(target);
        if !device.schedulers.is_empty() && !device.schedulers.contains(&wanted) {
            self.warn(
                &device.name,
                format!(
                    "elevator {wanted} is not loaded; the device has {}",
                    device.schedulers.join(", ")
                ),
                "load the module (modprobe) if the kernel does not load it by itself",
            );
        }
        // If the plan does not set io.cost itself, it does not switch it off either, so the user
        // has to.
        let root = self.plan.cgroups.root.clone().unwrap_or_default();
        let is_cost_left = self.is_cost_on(target) && self.planned(target, Knob::CostQos).is_none();
        if wanted == "bfq" && self.has_cost(target) {
            let help = if is_cost_left {
                format!(
                    "run echo '{} enable=0' > {root}/io.cost.qos, or use another elevator",
                    device.number
                )
            } else {
                "use only one of the two".to_owned()
            };
            self.warn(
                &device.name,
                "bfq and io.cost both divide the device by weights: io.cost throttles requests that bfq would serve, and bfq idles for requests that io.cost throttles",
                help,
            );
        }
    }

    /// Warns about weights that are set but that no controller of the device uses.
    fn warn_unused_weights(&mut self, target: &DeviceTarget) {
        let number = &target.device.number;
        let (has_cost, scheduler) = (self.has_cost(target), self.scheduler(target));
        for directory in self.plan.cgroups.all(self.files) {
            for (knob, is_used, help) in [
                (
                    Knob::Weight,
                    has_cost,
                    "set policy = \"io.cost\" to enable it",
                ),
                (
                    Knob::BfqWeight,
                    scheduler == "bfq",
                    "set policy = \"bfq\" to make bfq the elevator",
                ),
            ] {
                let file = format!("{directory}/{knob}");
                let text = self.files.read(&file).unwrap_or_default();
                // The file has a line for all devices and one for each device with a weight of its
                // own. 100 is the default of both io.weight and io.bfq.weight, so that it does not
                // count as set.
                let default = text.lines().find_map(|l| l.strip_prefix("default "));
                let is_set = knob.value(&text, number) != "default"
                    || default.is_some_and(|weight| weight.trim() != "100");
                if !is_set || is_used {
                    continue;
                }
                let help = if target.device.schedulers.is_empty() {
                    "use policy = \"io.max\"; a weight requires a device with a request queue"
                } else {
                    help
                };
                let what = match knob {
                    Knob::Weight => format!(
                        "has no effect on {}, because io.cost is not enabled there",
                        target.device.name
                    ),
                    _ => format!(
                        "has no effect on {}, because its elevator is {scheduler}",
                        target.device.name
                    ),
                };
                self.warn(&file, what, help);
            }
        }
    }

    /// Warns if the kernel does not have io.latency. Any cgroup with the controller has its file if
    /// the kernel does. Without such a cgroup, the kernel's build configuration is checked.
    fn latency(&mut self, target: &DeviceTarget) {
        if self.planned(target, Knob::Latency).is_none() {
            return;
        }
        let all = self.plan.cgroups.all(self.files);
        let mut controlled = all
            .iter()
            .filter(|d| self.files.exists(&format!("{d}/{}", Knob::Max)));
        let is_built = match controlled.next() {
            Some(directory) => Some(self.files.exists(&format!("{directory}/{}", Knob::Latency))),
            None => boot::has(self.files, "CONFIG_BLK_CGROUP_IOLATENCY"),
        };
        if is_built == Some(false) {
            self.warn(
                &target.device.name,
                "this kernel was built without io.latency (CONFIG_BLK_CGROUP_IOLATENCY)",
                "remove latency, or boot a kernel with io.latency",
            );
        }
    }

    /// Warns about cgroups whose settings systemd owns, or whose writes escape their limits.
    fn groups(&mut self, target: &DeviceTarget) {
        let Some(root) = self.plan.cgroups.root.clone() else {
            return;
        };
        for unit in target.units.iter().flatten() {
            self.warn(
                unit,
                "belongs to systemd and is not delegated, so that weir apply writes a systemd drop-in instead of values in its cgroup",
                format!("set Delegate=io in {unit} to have the values written to its cgroup"),
            );
        }
        let groups = target.groups.iter().zip(&target.units);
        let own: Vec<&String> = groups
            .filter(|(_, unit)| unit.is_none())
            .filter_map(|(group, _)| group.as_ref())
            .collect();
        for path in &own {
            self.ancestors(&root, path);
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            let has_memory = |d: &str| {
                let all = Cgroups::controllers(self.files, d);
                all.iter().any(|c| c == "memory")
            };
            let directory = format!("{root}{path}");
            // Write-back attributes a dirty page to the cgroup to whose memory controller it was
            // charged (cgroup-v2.rst, "Writeback").
            let has_own = self.files.exists(&directory) && has_memory(&directory);
            // A cgroup that does not exist yet gets the controllers that its parent passes on.
            if !has_own && !inherits_memory(self.files, &format!("{root}{parent}")) {
                self.warn(
                    path,
                    "has no memory controller, so that its writes through the page cache are charged to the root cgroup, which has no limits",
                    format!("run echo +memory > {root}{parent}/cgroup.subtree_control, or write with O_DIRECT"),
                );
            }
        }
        self.siblings(target);
    }

    /// Checks that the ancestors of a cgroup have the controller `io`, and no processes of their
    /// own.
    fn ancestors(&mut self, root: &str, path: &str) {
        let mut above = root.to_owned();
        for part in path.split('/').filter(|p| !p.is_empty()) {
            // Cgroups that do not exist yet are made by the plan, with the controller enabled.
            if !self.files.exists(&above) {
                return;
            }
            let is_on = Cgroups::is_enabled(self.files, &above);
            let file = format!("{above}/cgroup.subtree_control");
            let has = Cgroups::controllers(self.files, &above);
            if !is_on && above == root && !has.iter().any(|c| c == "io") {
                self.warn(
                    &file,
                    "the io controller is not available in cgroups of version 2",
                    "boot with cgroup_no_v1=all, or with a kernel that has CONFIG_BLK_CGROUP",
                );
            // cgroups(7), "no internal processes": only the root may have both processes and
            // controllers.
            } else if !is_on && above != root && Cgroups::has_processes(self.files, &above) {
                self.warn(
                    &file,
                    "+io is missing and cannot be enabled, because the cgroup contains processes (\"no internal processes\")",
                    format!("move the processes into a cgroup below {above}"),
                );
            } else if !is_on {
                self.warn(
                    &file,
                    "+io is missing, so that the cgroups below have no io controls",
                    "run weir apply, which enables it",
                );
            }
            above = format!("{above}/{part}");
        }
    }

    /// Warns about weights in different parents, because the kernel compares weights of siblings
    /// only.
    fn siblings(&mut self, target: &DeviceTarget) {
        let weights = target.settings.iter().filter_map(|s| match (s.at, s.knob) {
            (SettingPlace::Group(place), Knob::Weight | Knob::BfqWeight) => Some(place),
            _ => None,
        });
        let weighed: BTreeSet<usize> = weights.collect();
        let groups = target.groups.iter().enumerate();
        let mut parents: Vec<&str> = groups
            .filter(|(place, _)| weighed.contains(place))
            .filter_map(|(_, path)| path.as_ref()?.rsplit_once('/'))
            .map(|(parent, _)| parent)
            .collect();
        parents.sort_unstable();
        parents.dedup();
        let groups = target.groups.iter().flatten().map(String::as_str);
        let groups: BTreeSet<&str> = groups.collect();
        let apart: Vec<&str> = parents
            // If the parent is in the plan itself, its own weight relates it to the others.
            .into_iter()
            .filter(|p| !groups.contains(p))
            .collect();
        if apart.len() > 1 {
            let shown = apart.iter().map(|p| if p.is_empty() { "/" } else { p });
            let shown: Vec<&str> = shown.collect();
            self.warn(
                &target.device.name,
                format!("the cgroups with weights have different parents ({}), but a weight is only compared with those of cgroups of the same parent", shown.join(" and ")),
                "move the cgroups into one parent, or define the parents as tenants",
            );
        }
    }

    /// Warns about udev rules that set attributes of a queue whenever a device changes.
    fn rules(&mut self) {
        for folder in RULES {
            for name in self.files.list(folder).unwrap_or_default() {
                let file = format!("{folder}/{name}");
                let text = self.files.read(&file).unwrap_or_default();
                let mut lines = text.lines().filter(|l| !l.trim_start().starts_with('#'));
                if lines.any(|l| l.contains("ATTR{queue/")) {
                    self.warn(
                        &file,
                        "contains a udev rule that sets queue attributes whenever a device is added or changes",
                        "run weir apply --watch to set them again and to be warned",
                    );
                }
            }
        }
    }
}

/// Returns true if cgroups below this one get the memory controller. The cgroup need not exist yet.
fn inherits_memory(files: &dyn HostFiles, directory: &str) -> bool {
    let text = files.read(&format!("{directory}/cgroup.subtree_control"));
    text.is_ok_and(|t| t.split_whitespace().any(|c| c == "memory"))
}

#[cfg(test)]
mod tests;
