//! The paths of a device's settings, and the steps that set them.

use crate::files::HostFiles;
use crate::knob::Knob;
use crate::setting::{KnobSetting, SettingPlace};
use std::collections::BTreeSet;

/// The paths of a device and of the cgroups that share it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DevicePaths {
    /// The device's number, such as `8:16`.
    pub number: String,
    /// The device's directory, such as `/sys/block/sdb`.
    pub device: String,
    /// The directory at which cgroups are mounted, such as `/sys/fs/cgroup`.
    pub root: String,
    /// The path of each group below the root, such as `/a/b`. A group with an empty path is not
    /// made and has no settings.
    pub groups: Vec<String>,
}

/// One step of applying settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ApplyStep {
    /// Make the cgroup with this directory, unless it exists.
    Make(String),
    /// Enable the controller `io` below the cgroup with this directory, unless it is enabled: `+io`
    /// to its `cgroup.subtree_control`.
    Enable(String),
    /// Write a setting to this file.
    Set(String, KnobSetting),
}

impl DevicePaths {
    /// Returns the directory of the cgroup with this path.
    pub fn group(&self, path: &str) -> String {
        format!("{}/{}", self.root, path.trim_matches('/'))
    }

    /// Returns the path of the file of a setting.
    pub fn file(&self, files: &dyn HostFiles, setting: &KnobSetting) -> String {
        match setting.at {
            SettingPlace::Device => self.device_file(files, setting.knob),
            SettingPlace::Root => format!("{}/{}", self.root, setting.knob),
            SettingPlace::Group(group) => {
                format!("{}/{}", self.group(&self.groups[group]), setting.knob)
            }
        }
    }

    /// Returns the path of a device's knob. `async_depth` was a tunable of mq-deadline before 7.x.
    pub(crate) fn device_file(&self, files: &dyn HostFiles, knob: Knob) -> String {
        let path = format!("{}/{knob}", self.device);
        let before = format!("{}/queue/iosched/async_depth", self.device);
        if knob == Knob::AsyncDepth && !files.exists(&path) && files.exists(&before) {
            return before;
        }
        path
    }

    /// Returns all steps for these settings in order: first the cgroups and their controllers, then
    /// the settings.
    pub fn steps(&self, files: &dyn HostFiles, settings: &[KnobSetting]) -> Vec<ApplyStep> {
        let mut steps = Vec::new();
        let (mut enabled, mut made) = (BTreeSet::new(), BTreeSet::new());
        for group in &self.groups {
            let mut path = String::new();
            for part in group.split('/').filter(|part| !part.is_empty()) {
                // The path of the root is empty and leaves a slash at the end.
                let above = self.group(&path).trim_end_matches('/').to_owned();
                path = format!("{path}/{part}");
                // A parent must have the controller enabled before its children have the files of
                // it.
                if enabled.insert(above.clone()) {
                    steps.push(ApplyStep::Enable(above));
                }
                if made.insert(path.clone()) {
                    steps.push(ApplyStep::Make(self.group(&path)));
                }
            }
        }
        let settings = settings.iter();
        steps.extend(settings.map(|s| ApplyStep::Set(self.file(files, s), s.clone())));
        steps
    }
}
