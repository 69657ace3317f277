//! One thing to be set.

use crate::knob::{Knob, Wrong};

/// Where a knob is set: the directory of the device, the root cgroup or that of a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum At {
    /// The device.
    Device,
    /// The root cgroup, for the device.
    Root,
    /// The group of that place among those that were translated, for the device.
    Group(usize),
}

/// A knob and the value that it is to have.
#[derive(Clone, PartialEq, Eq, Debug)]
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
