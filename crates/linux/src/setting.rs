//! A setting: a knob, a place and a value.

use crate::knob::{InvalidKnobValue, Knob};
use serde::{Deserialize, Serialize};

/// The place where a knob is set: the directory of the device, the root cgroup or that of a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum SettingPlace {
    /// The directory of the device.
    Device,
    /// The root cgroup, in the line of the device.
    Root,
    /// The group with this index among those that were translated, in the line of the device.
    Group(usize),
}

/// A knob and the value that it must have. Serialised, it has the name of the knob's file. A
/// setting that is read back is checked like a new one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "Text", try_from = "Text")]
pub struct KnobSetting {
    /// The place where the knob is set.
    pub at: SettingPlace,
    /// The knob to be set.
    pub knob: Knob,
    /// The value in the kernel's form, without the device's number.
    pub value: String,
}

impl KnobSetting {
    /// Makes a setting of a value that the kernel accepts.
    ///
    /// # Errors
    /// Returns an error if the kernel does not accept the value for any device.
    pub fn new(
        at: SettingPlace,
        knob: Knob,
        value: impl Into<String>,
    ) -> Result<Self, InvalidKnobValue> {
        let value = value.into();
        knob.check(&value)?;
        Ok(Self { at, knob, value })
    }
}

/// The serialised form of a [`KnobSetting`].
#[derive(Serialize, Deserialize)]
struct Text {
    at: SettingPlace,
    knob: String,
    value: String,
}

impl From<KnobSetting> for Text {
    fn from(setting: KnobSetting) -> Self {
        Self {
            at: setting.at,
            knob: setting.knob.to_string(),
            value: setting.value,
        }
    }
}

impl TryFrom<Text> for KnobSetting {
    type Error = String;

    fn try_from(Text { at, knob, value }: Text) -> Result<Self, String> {
        let known = Knob::find(&knob).ok_or_else(|| format!("unknown control {knob}"))?;
        Self::new(at, known, value).map_err(|wrong| wrong.to_string())
    }
}
