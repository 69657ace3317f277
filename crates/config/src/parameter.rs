//! The parameters of drive models, each declared once.
//!
//! One table for each kind of model lists its parameters, their units, and the fields that they
//! set. The reader and the printer of profiles use these tables, and so does every program that
//! searches for parameters. The rules for their values are in
//! [`weir_model::drive::DriveConfig::validate`].

mod tables;

use crate::units::{ByteSize, BytesPerSecond, Time};
use std::fmt;
use weir_core::Span;
use weir_model::drive::{DriveConfig, volume};

/// The unit of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ParameterUnit {
    /// Bytes, written as a size: `"16KiB"`.
    Bytes,
    /// Bytes per second, written as a rate: `"540MB/s"`.
    Rate,
    /// Nanoseconds, written as a time: `"80us"`.
    Time,
    /// A plain number.
    Count,
    /// Revolutions per minute, written as a plain number.
    PerMinute,
    /// Pages of flash, written as a plain number.
    Pages,
    /// Thousandths, written as a plain number.
    PerMille,
    /// Hundredths, written as a plain number.
    Percent,
    /// A flag: 1 for `true`, 0 for `false`.
    Bool,
}

/// One number of a drive model, such as the read time of a flash page.
#[derive(Clone, Copy)]
pub struct Parameter {
    /// The key in a profile. A dot separates the table from its key, as in `seek.average`.
    pub key: &'static str,
    /// The unit of the number.
    pub unit: ParameterUnit,
    /// A description in a few words.
    pub about: &'static str,
    /// The value if a profile does not set the parameter. `None` if it is required.
    pub default: Option<u64>,
    get: fn(&DriveConfig) -> u64,
    set: fn(&mut DriveConfig, u64),
}

impl Parameter {
    /// Returns the value of the parameter in `drive`.
    ///
    /// # Panics
    /// Panics if the parameter does not belong to the drive's kind.
    pub fn get(&self, drive: &DriveConfig) -> u64 {
        (self.get)(drive)
    }

    /// Sets the parameter in `drive`. A value that is too large for the field becomes the field's
    /// maximum. [`DriveConfig::validate`] then decides whether the drive is valid.
    ///
    /// # Panics
    /// Panics if the parameter does not belong to the drive's kind.
    pub fn set(&self, drive: &mut DriveConfig, value: u64) {
        (self.set)(drive, value);
    }

    /// Returns an exact text for a value, in the form that people write: `16KiB`, `80us`, `32`,
    /// `true`.
    pub fn text(&self, value: u64) -> String {
        match self.unit {
            ParameterUnit::Bytes => ByteSize(value).to_string(),
            ParameterUnit::Rate => BytesPerSecond(value).to_string(),
            ParameterUnit::Time => Time(Span::from_nanos(value)).to_string(),
            ParameterUnit::Bool => (value > 0).to_string(),
            ParameterUnit::Count
            | ParameterUnit::PerMinute
            | ParameterUnit::Pages
            | ParameterUnit::PerMille
            | ParameterUnit::Percent => value.to_string(),
        }
    }

    /// Returns the text of [`Self::text`] as a TOML value.
    pub(crate) fn toml(&self, value: u64) -> String {
        match self.unit {
            ParameterUnit::Bytes | ParameterUnit::Rate | ParameterUnit::Time => {
                format!("\"{}\"", self.text(value))
            }
            _ => self.text(value),
        }
    }
}

impl Parameter {
    /// Returns the permitted values in the words of the model. The model words them only in errors,
    /// so this function provokes one with a value that is too large or too small.
    pub(crate) fn allowed(&self, drive: &DriveConfig) -> &'static str {
        let refused = [u64::MAX, 0].into_iter().find_map(|value| {
            let mut drive = drive.clone();
            self.set(&mut drive, value);
            drive.validate().err().filter(|e| e.field == self.key)
        });
        refused.map_or("zero or more", |e| e.allowed)
    }

    /// Returns the key in the outermost table. If that is a table, also returns the key in it.
    pub(crate) fn split(&self) -> (&'static str, Option<&'static str>) {
        match self.key.split_once('.') {
            Some((table, key)) => (table, Some(key)),
            None => (self.key, None),
        }
    }
}

impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.key, self.unit)
    }
}

/// Returns the parameters of a drive's kind in the order of printed profiles. For a volume over
/// several drives, these are the volume's own parameters, not those of its members.
pub fn parameters(drive: &DriveConfig) -> &'static [Parameter] {
    of(drive.name()).unwrap_or_default()
}

/// Returns the parameters of a kind by the kind's name, such as `"ssd"`.
pub fn of(kind: &str) -> Option<&'static [Parameter]> {
    KINDS.iter().find(|k| k.name == kind).map(|k| k.parameters)
}

/// Returns the parameter of a drive with this key.
pub fn find(drive: &DriveConfig, key: &str) -> Option<&'static Parameter> {
    parameters(drive).iter().find(|p| p.key == key)
}

/// A kind of drive model, such as a disk or a stripe.
#[derive(Debug)]
pub(crate) struct ModelKind {
    pub(crate) name: &'static str,
    /// The name of the kind in messages, with its article.
    pub(crate) called: &'static str,
    /// A description in a sentence or two of Markdown.
    pub(crate) about: &'static str,
    pub(crate) parameters: &'static [Parameter],
    /// Returns a valid drive of this kind, into which a profile's values are set. Only the members
    /// of a volume are missing.
    pub(crate) generic: fn() -> DriveConfig,
    /// True if the kind has `members`, which are drives.
    pub(crate) has_members: bool,
}

pub(crate) const KINDS: &[ModelKind] = &[
    ModelKind {
        name: "null",
        called: "a null model",
        about: "A drive on which every command takes the same time and data cross a link.",
        parameters: tables::NULL,
        generic: || DriveConfig::Null(weir_model::drive::null::NullConfig::demo()),
        has_members: false,
    },
    ModelKind {
        name: "hdd",
        called: "an hdd model",
        about: "A rotating disk: an arm, three zones, a read cache with segments, and a write cache. Keys with a dot, such as `seek.average`, \
                are in a table: `seek = { track = \"1ms\", ... }`.",
        parameters: tables::HDD,
        generic: || DriveConfig::Hdd(weir_model::drive::hdd::HddConfig::generic()),
        has_members: false,
    },
    ModelKind {
        name: "ssd",
        called: "an ssd model",
        about: "Flash: a link, a controller, channels and dies, buffers, and garbage collection.",
        parameters: tables::SSD,
        generic: || DriveConfig::Ssd(weir_model::drive::ssd::SsdConfig::generic()),
        has_members: false,
    },
    ModelKind {
        name: "stripe",
        called: "a stripe",
        about: "A volume that is striped over several drives.",
        parameters: tables::STRIPE,
        generic: || DriveConfig::Volume(volume::VolumeConfig::stripe(Vec::new())),
        has_members: true,
    },
    ModelKind {
        name: "linear",
        called: "a linear volume",
        about: "A volume that consists of several drives, one after the other.",
        parameters: &[],
        generic: || DriveConfig::Volume(volume::VolumeConfig::linear(Vec::new())),
        has_members: true,
    },
];

impl ModelKind {
    /// Returns all keys of the outermost table, in order.
    pub(crate) fn keys(&self) -> Vec<&'static str> {
        let mut keys = Vec::new();
        for parameter in self.parameters {
            let key = parameter.split().0;
            // The parameters of a nested table follow each other, and its key is listed once.
            if keys.last() != Some(&key) {
                keys.push(key);
            }
        }
        if self.has_members {
            keys.push("members");
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Checks that each number of a drive is set by exactly one parameter.
    #[test]
    fn each_parameter_sets_exactly_one_field() {
        for kind in KINDS {
            let generic = (kind.generic)();
            let mut seen = BTreeSet::new();
            for p in kind.parameters {
                assert!(seen.insert(p.key), "{} twice", p.key);
                let mut drive = generic.clone();
                // 0 becomes 1 and any other value becomes 0, so the value always changes.
                let value = u64::from(p.get(&generic) == 0);
                p.set(&mut drive, value);
                assert_eq!(p.get(&drive), value, "{}", p.key);
                for other in kind.parameters.iter().filter(|o| o.key != p.key) {
                    assert_eq!(other.get(&drive), other.get(&generic), "{}", p.key);
                }
            }
        }
    }

    /// Checks that each field has a parameter, by counting the fields that `Debug` prints.
    #[test]
    fn every_field_has_a_parameter() {
        let numbers = |drive: &DriveConfig| -> usize {
            let shown = format!("{drive:?}");
            shown.matches(": ").count()
        };
        // These fields hold other fields or drives and have no number: `seek` and `zones` of a
        // disk, `layout` and `members` of a volume.
        let holders = [
            ("null", 0),
            ("hdd", 2),
            ("ssd", 0),
            ("stripe", 2),
            ("linear", 2),
        ];
        for (kind, (name, holders)) in KINDS.iter().zip(holders) {
            assert_eq!(kind.name, name);
            let fields = numbers(&(kind.generic)()) - holders;
            assert_eq!(fields, kind.parameters.len(), "{name}");
        }
    }

    /// Checks that each rule of a model names a parameter, because the problem is placed at that
    /// key of the file.
    #[test]
    fn each_refused_field_has_a_parameter() {
        let mut refused = 0;
        for kind in KINDS.iter().filter(|k| !k.has_members) {
            for p in kind.parameters {
                for value in [0, 1, 5, u64::MAX] {
                    let mut drive = (kind.generic)();
                    p.set(&mut drive, value);
                    if let Err(error) = drive.validate() {
                        refused += 1;
                        assert!(find(&drive, error.field).is_some(), "{error}");
                    }
                }
            }
        }
        // The bound guards against a loop that checks nothing.
        assert!(refused > 60, "{refused}");
    }

    #[test]
    fn values_are_printed_with_units_and_words() {
        let ssd = of("ssd").unwrap();
        let text = |key, value| ssd.iter().find(|p| p.key == key).unwrap().text(value);
        assert_eq!(text("page", 16_384), "16KiB");
        assert_eq!(text("link", 540_000_000), "540MB/s");
        assert_eq!(text("read", 80_000), "80us");
        assert_eq!(text("erase", 0), "0s");
        assert_eq!(text("duplex", 1), "true");
        assert_eq!(text("tags", 32), "32");
    }
}
