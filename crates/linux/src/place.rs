//! Where the settings of one device go, as files.

use crate::files::Files;
use crate::knob::Knob;
use crate::setting::{At, Setting};
use std::collections::BTreeSet;

/// A device and the cgroups that share it, as paths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The device's number, as `8:16`.
    pub number: String,
    /// Its directory, as `/sys/block/sdb`.
    pub device: String,
    /// Where the cgroups are mounted, as `/sys/fs/cgroup`.
    pub root: String,
    /// Each group by its path below that, as `/a/b`; an empty one is not made, and has no settings.
    pub groups: Vec<String>,
}

/// One thing to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Make the cgroup of this directory, unless it is there.
    Make(String),
    /// Have the controller `io` in what is below the cgroup of this directory: `+io` to its `cgroup.subtree_control`, unless it is there.
    Enable(String),
    /// Write a setting to this file.
    Set(String, Setting),
}

impl Place {
    /// The directory of the cgroup of this path.
    pub fn group(&self, path: &str) -> String {
        format!("{}/{}", self.root, path.trim_matches('/'))
    }

    /// The file of a setting.
    pub fn file(&self, files: &dyn Files, setting: &Setting) -> String {
        match setting.at {
            At::Device => self.device_file(files, setting.knob),
            At::Root => format!("{}/{}", self.root, setting.knob),
            At::Group(group) => format!("{}/{}", self.group(&self.groups[group]), setting.knob),
        }
    }

    /// The file of a knob of the device. The depth for writes has had two places.
    pub(crate) fn device_file(&self, files: &dyn Files, knob: Knob) -> String {
        let path = format!("{}/{knob}", self.device);
        let before = format!("{}/queue/iosched/async_depth", self.device);
        if knob == Knob::AsyncDepth && !files.exists(&path) && files.exists(&before) {
            return before;
        }
        path
    }

    /// Everything that is to be done for these settings, in order: cgroups with the controller `io`, then the settings.
    pub fn steps(&self, files: &dyn Files, settings: &[Setting]) -> Vec<Step> {
        let mut steps = Vec::new();
        let (mut enabled, mut made) = (BTreeSet::new(), BTreeSet::new());
        for group in &self.groups {
            let mut path = String::new();
            for part in group.split('/').filter(|part| !part.is_empty()) {
                let above = self.group(&path).trim_end_matches('/').to_owned();
                path = format!("{path}/{part}");
                if enabled.insert(above.clone()) {
                    steps.push(Step::Enable(above));
                }
                if made.insert(path.clone()) {
                    steps.push(Step::Make(self.group(&path)));
                }
            }
        }
        let settings = settings.iter();
        steps.extend(settings.map(|s| Step::Set(self.file(files, s), s.clone())));
        steps
    }
}
