//! systemd drop-ins for units that systemd has not delegated.
//!
//! Only systemd may write to the cgroups of such units, so that it is given the values instead of
//! the kernel.

use super::{DeviceTarget, PlanAction};
use crate::files::HostFiles;
use crate::knob::Knob;
use crate::setting::{KnobSetting, SettingPlace};
use std::collections::BTreeMap;

/// The directory of drop-ins that last until the next boot.
pub const FOLDER: &str = "/run/systemd/system";

/// The name of the drop-in in the directory of a unit.
pub(crate) const FILE: &str = "50-weir.conf";

/// The directives of each unit's drop-in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct DropIns(BTreeMap<String, Vec<String>>);

impl DropIns {
    /// Adds the settings of a device's members that are units.
    pub(super) fn add(&mut self, target: &DeviceTarget, notes: &mut Vec<String>) {
        for setting in &target.settings {
            let SettingPlace::Group(place) = setting.at else {
                continue;
            };
            let Some(unit) = &target.units[place] else {
                continue;
            };
            let directives = directives(&target.ident.link, setting);
            if directives.is_empty() {
                notes.push(format!(
                    "systemd has no directive for {}, so that {unit} is used without it",
                    setting.knob
                ));
            }
            let all = self.0.entry(unit.clone()).or_default();
            for directive in directives {
                // Weights of bfq and of io.cost are the same directive.
                if !all.contains(&directive) {
                    all.push(directive);
                }
            }
        }
    }

    /// Returns the actions that write the drop-ins.
    pub(super) fn actions(self, files: &dyn HostFiles) -> Vec<PlanAction> {
        let mut actions = Vec::new();
        for (unit, directives) in self.0 {
            if directives.is_empty() {
                continue;
            }
            let section = match unit.rsplit('.').next() {
                Some("slice") => "Slice",
                Some("scope") => "Scope",
                _ => "Service",
            };
            let folder = format!("{FOLDER}/{unit}.d");
            if !files.exists(&folder) {
                actions.push(PlanAction::Make(folder.clone()));
            }
            let directives = directives.join("\n");
            actions.push(PlanAction::Unit {
                file: format!("{folder}/{FILE}"),
                text: format!("# Written by weir apply; weir apply --restore removes it.\n[{section}]\n{directives}\n"),
            });
        }
        actions
    }
}

/// Returns the directives for a setting (systemd.resource-control(5)).
fn directives(link: &str, setting: &KnobSetting) -> Vec<String> {
    match setting.knob {
        Knob::Weight => vec![format!("IODeviceWeight={link} {}", setting.value)],
        Knob::BfqWeight => {
            let weight = setting.value.parse().unwrap_or(100);
            vec![format!("IODeviceWeight={link} {}", scaled(weight))]
        }
        Knob::Max => {
            let limits = setting.value.split(' ').filter_map(|w| w.split_once('='));
            let limits = limits.filter(|(_, limit)| *limit != "max");
            let directive = |(name, limit): (&str, &str)| {
                let directive = match name {
                    "rbps" => "IOReadBandwidthMax",
                    "wbps" => "IOWriteBandwidthMax",
                    "riops" => "IOReadIOPSMax",
                    _ => "IOWriteIOPSMax",
                };
                format!("{directive}={link} {limit}")
            };
            limits.map(directive).collect()
        }
        Knob::Latency => {
            let target = setting.value.trim_start_matches("target=");
            vec![format!("IODeviceLatencyTargetSec={link} {target}us")]
        }
        _ => Vec::new(),
    }
}

/// Returns the systemd weight that systemd converts to this weight of bfq. systemd maps 1 to 100
/// onto itself, and 100 to 10000 onto 100 to 1000 (`BFQ_WEIGHT` in its cgroup-util.h).
fn scaled(weight: u64) -> u64 {
    if weight <= 100 {
        weight
    } else {
        100 + (weight - 100) * (10_000 - 100) / (1_000 - 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bfq_weight_survives_the_conversion_of_systemd() {
        for weight in 1..=1_000 {
            let systemd = scaled(weight);
            // BFQ_WEIGHT of systemd's cgroup-util.h, in integers.
            let back = if systemd <= 100 {
                100 - (100 - systemd)
            } else {
                100 + (systemd - 100) * (1_000 - 100) / (10_000 - 100)
            };
            assert_eq!(back, weight);
        }
    }
}
