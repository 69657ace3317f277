//! Tunables: the settings of an elevator or a controller, each defined in one place.
//!
//! The `tunables!` macro creates the structure of a configuration and its table: for each field the
//! type, unit, bounds, default, description and source. All uses of tunables go by that table:
//! checks, reading and printing of files, the bytes of records, the random draws of auditors, and
//! the documents.

pub use crate::rule::{Allowed, TunableUnit};

use crate::rule::ConfigError;

/// The number of nanoseconds in a millisecond, for bounds and defaults of times.
pub(crate) const MS: u64 = 1_000_000;
/// The number of nanoseconds in a second.
pub(crate) const SECOND: u64 = 1_000 * MS;

/// The description of one tunable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tunable {
    /// The name of the tunable. If Linux has the tunable, it is the name in Linux.
    pub name: &'static str,
    /// The unit of the value.
    pub unit: TunableUnit,
    /// The least and the largest allowed value.
    pub bounds: (u64, u64),
    /// The value that is used if none is configured.
    pub default: u64,
    /// The effect of the tunable, in one or more sentences.
    pub about: &'static str,
    /// The origin of the tunable: a file and function of Linux, or "Weir's own".
    pub source: &'static str,
}

/// A configuration with tunables, of an elevator or a controller. Tunables are accessed by their
/// index in the table.
pub trait Tuned {
    /// Returns the table of tunables.
    fn tunables(&self) -> &'static [Tunable];

    /// Returns the value of a tunable in its unit.
    ///
    /// # Panics
    /// Panics if the table has no such index.
    fn get(&self, place: usize) -> u64;

    /// Sets a tunable. A value that exceeds the range of the field's type is replaced by the
    /// largest value of that type. The bounds are not checked, which `<dyn Tuned>::validate` does.
    ///
    /// # Panics
    /// Panics if the table has no such index.
    fn set(&mut self, place: usize, value: u64);

    /// Checks the rules between tunables, beyond the bounds of each.
    ///
    /// # Errors
    /// Returns the first tunable that breaks a rule.
    fn validate_together(&self) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Changes values that break a rule between tunables. Each value is within its own bounds
    /// already.
    fn bound_together(&mut self) {}
}

impl dyn Tuned + '_ {
    /// Returns the index of a tunable in the table.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.tunables().iter().position(|t| t.name == name)
    }

    /// Checks every bound, then the rules between tunables.
    ///
    /// # Errors
    /// Returns the first tunable outside its bounds, with the bounds.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for (place, tunable) in self.tunables().iter().enumerate() {
            let (least, most) = tunable.bounds;
            if !(least..=most).contains(&self.get(place)) {
                return Err(ConfigError {
                    field: tunable.name,
                    allowed: Allowed::Between(tunable.unit, least, most),
                });
            }
        }
        self.validate_together()
    }

    /// Moves every tunable inside its bounds.
    pub fn bound(&mut self) {
        for (place, tunable) in self.tunables().iter().enumerate() {
            let (least, most) = tunable.bounds;
            self.set(place, self.get(place).clamp(least, most));
        }
        // The rules between tunables come last, because they assume that each value is within its
        // bounds.
        self.bound_together();
    }
}

/// Access to a field of a configuration by its index in the table.
#[derive(Debug)]
pub(crate) struct Field<C> {
    pub(crate) get: fn(&C) -> u64,
    pub(crate) set: fn(&mut C, u64),
}

/// Creates the structure of a configuration with its defaults and its table. Each tunable is a row:
/// `field: type, unit, [least, most], default, "effect", "source";`. Methods of [`Tuned`] with the
/// rules between tunables can follow the structure.
macro_rules! tunables {
    (
        $(#[$meta:meta])*
        pub struct Config {
            $($field:ident: $type:ty, $unit:expr, [$least:expr, $most:expr], $default:expr, $about:literal, $source:literal;)*
        }
        $($rules:tt)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct Config {
            $(#[doc = $about] pub $field: $type,)*
        }

        impl Config {
            /// The table of the tunables, in the order of the fields.
            pub const TUNABLES: &'static [$crate::tunable::Tunable] = &[$($crate::tunable::Tunable {
                name: stringify!($field),
                unit: $unit,
                bounds: ($least, $most),
                default: $default,
                about: $about,
                source: $source,
            }),*];

            const FIELDS: &'static [$crate::tunable::Field<Self>] = &[$($crate::tunable::Field {
                get: |config| $crate::rule::Number::number(config.$field),
                set: |config, value| config.$field = $crate::rule::Number::from_number(value),
            }),*];

            /// Checks the tunables.
            ///
            /// # Errors
            /// Returns the first tunable outside its bounds, with the bounds.
            pub fn validate(&self) -> Result<(), $crate::ConfigError> {
                (self as &dyn $crate::tunable::Tuned).validate()
            }

            /// Returns the configuration with every value moved inside its bounds.
            #[must_use]
            pub fn bounded(mut self) -> Self {
                (&mut self as &mut dyn $crate::tunable::Tuned).bound();
                self
            }
        }

        $crate::setters::setters! { Config: $($field: $type),* }

        impl Default for Config {
            fn default() -> Self {
                Self { $($field: $crate::rule::Number::from_number($default)),* }
            }
        }

        impl $crate::tunable::Tuned for Config {
            fn tunables(&self) -> &'static [$crate::tunable::Tunable] {
                Self::TUNABLES
            }
            fn get(&self, place: usize) -> u64 {
                (Self::FIELDS[place].get)(self)
            }
            fn set(&mut self, place: usize, value: u64) {
                (Self::FIELDS[place].set)(self, value);
            }
            $($rules)*
        }
    };
}

/// Creates an enumeration for a tunable, with the word of each variant in files.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// The words of the variants in files, in the order of the variants.
            pub const WORDS: &'static [&'static str] = &[$($word),*];
            const ALL: &'static [Self] = &[$(Self::$variant),*];
        }

        impl $crate::rule::Number for $name {
            fn number(self) -> u64 {
                self as u64
            }
            // A number beyond the last variant becomes the last one, as for integers.
            fn from_number(value: u64) -> Self {
                let last = Self::ALL.len() - 1;
                Self::ALL[usize::try_from(value).unwrap_or(last).min(last)]
            }
        }
    };
}

pub(crate) use {tunables, words};
