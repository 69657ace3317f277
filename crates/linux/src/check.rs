//! Knobs that do nothing, and what else the kernel does not say.

use crate::boot;
use crate::cgroups::Cgroups;
use crate::device::{Device, Layer};
use crate::files::Files;
use crate::knob::Knob;
use crate::plan::{Plan, Target};
use crate::setting::At;
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use weir_config::one_line;

/// Something that is not as it looks.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Warning {
    /// What it is about: a file, a device, a unit.
    pub about: String,
    /// What is so.
    pub what: String,
    /// What to do.
    pub help: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { about, what, help } = self;
        let [about, what, help] = [about, what, help].map(|text| one_line(text));
        write!(f, "{about}: {what}\n  help: {help}")
    }
}

/// Rules of udev that set queues stand there.
const RULES: [&str; 3] = [
    "/etc/udev/rules.d",
    "/run/udev/rules.d",
    "/usr/lib/udev/rules.d",
];

/// What is not as it looks, of what a plan would set and of what is set already. The host is only read.
pub fn warnings(files: &dyn Files, plan: &Plan) -> Vec<Warning> {
    let mut check = Check {
        files,
        plan,
        found: Vec::new(),
        known: HashSet::new(),
    };
    for target in &plan.devices {
        check.device(target);
        check.elevator(target);
        check.weights_in_vain(target);
        check.latency(target);
        check.groups(target);
    }
    check.rules();
    check.found
}

struct Check<'a> {
    files: &'a dyn Files,
    plan: &'a Plan,
    found: Vec<Warning>,
    known: HashSet<Warning>,
}

impl Check<'_> {
    fn warn(&mut self, about: &str, what: impl Into<String>, help: impl Into<String>) {
        let warning = Warning {
            about: about.to_owned(),
            what: what.into(),
            help: help.into(),
        };
        if self.known.insert(warning.clone()) {
            self.found.push(warning);
        }
    }

    /// What stands above a device, or below.
    fn device(&mut self, target: &Target) {
        let device = &target.device;
        if let Some(layer) = device.layer {
            let called = match layer {
                Layer::Mapper => "a device mapper",
                Layer::Raid => "an md",
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
        let all = Device::all(self.files).unwrap_or_default();
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

    fn planned(&self, target: &Target, knob: Knob) -> Option<String> {
        let _ = self;
        let found = target.settings.iter().find(|s| s.knob == knob);
        found.map(|s| s.value.clone())
    }

    /// The elevator that a device will have.
    fn scheduler(&self, target: &Target) -> String {
        self.planned(target, Knob::Scheduler).unwrap_or_else(|| {
            let text = self.files.read(&format!(
                "{}/{}",
                target.device.directory(),
                Knob::Scheduler
            ));
            Knob::Scheduler.value(&text.unwrap_or_default(), "")
        })
    }

    /// Whether io.cost is on for a device, or will be.
    fn has_cost(&self, target: &Target) -> bool {
        self.planned(target, Knob::CostQos).is_some() || self.is_cost_on(target)
    }

    fn is_cost_on(&self, target: &Target) -> bool {
        let root = self.plan.cgroups.root.clone().unwrap_or_default();
        let text = self.files.read(&format!("{root}/{}", Knob::CostQos));
        let value = Knob::CostQos.value(&text.unwrap_or_default(), &target.device.number);
        value.starts_with("enable=1")
    }

    fn elevator(&mut self, target: &Target) {
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

    /// Weights that somebody has set and that nothing goes by.
    fn weights_in_vain(&mut self, target: &Target) {
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

    /// Whether the kernel has io.latency: its file is in each cgroup that has the controller, else its configuration says so.
    fn latency(&mut self, target: &Target) {
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

    /// What is to be known of the cgroups of a device.
    fn groups(&mut self, target: &Target) {
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
            let has_own = self.files.exists(&directory) && has_memory(&directory);
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

    /// What is above a cgroup must have the controller, and no processes of its own.
    fn ancestors(&mut self, root: &str, path: &str) {
        let mut above = root.to_owned();
        for part in path.split('/').filter(|p| !p.is_empty()) {
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

    /// Weights are held against those of siblings only.
    fn siblings(&mut self, target: &Target) {
        let weights = target.settings.iter().filter_map(|s| match (s.at, s.knob) {
            (At::Group(place), Knob::Weight | Knob::BfqWeight) => Some(place),
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

    /// Rules that set an elevator whenever a device changes.
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

/// Whether what is made below a cgroup that may not be there yet has the controller for memory.
fn inherits_memory(files: &dyn Files, directory: &str) -> bool {
    let text = files.read(&format!("{directory}/cgroup.subtree_control"));
    text.is_ok_and(|t| t.split_whitespace().any(|c| c == "memory"))
}

#[cfg(test)]
mod tests;
