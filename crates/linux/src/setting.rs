//! One thing to be set.

use crate::knob::{Knob, Wrong};
use serde::{Deserialize, Serialize};

/// Where a knob is set: the directory of the device, the root cgroup or that of a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum At {
    /// The device.
    Device,
    /// The root cgroup, for the device.
    Root,
    /// The group of that place among those that were translated, for the device.
    Group(usize),
}

/// A knob and the value that it is to have. As text it has the name of the knob's file; what is read back is checked as what is made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "Text", try_from = "Text")]
pub struct Setting {
    /// Where.
    pub at: At,
    /// Which.
    pub knob: Knob,
    /// The value in the kernel's form, without the device's number.
    pub value: String,
}

impl Setting {
    /// One for a value that the kernel takes.
    ///
    /// # Errors
    /// It does not take it, whatever the device.
    pub fn new(at: At, knob: Knob, value: impl Into<String>) -> Result<Self, Wrong> {
        let value = value.into();
        knob.check(&value)?;
        Ok(Self { at, knob, value })
    }
}

#[derive(Serialize, Deserialize)]
struct Text {
    at: At,
    knob: String,
    value: String,
}

impl From<Setting> for Text {
    fn from(setting: Setting) -> Self {
        Self {
            at: setting.at,
            knob: setting.knob.to_string(),
            value: setting.value,
        }
    }
}

impl TryFrom<Text> for Setting {
    type Error = String;

    fn try_from(Text { at, knob, value }: Text) -> Result<Self, String> {
        let known = Knob::find(&knob).ok_or_else(|| format!("unknown control {knob}"))?;
        Self::new(at, known, value).map_err(|wrong| wrong.to_string())
    }
}
