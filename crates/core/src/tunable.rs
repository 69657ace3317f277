//! Tunables: the numbers that people may set of an elevator or a controller, each told once.
//!
//! The `tunables!` macro makes a configuration's structure and its table in one go: the field, its type, its unit, its bounds, its
//! default, what it does and where that comes from. Checking, reading and printing files, the bytes of records, random draws of
//! auditors and the documents all go by the table.

pub use crate::rule::{Allowed, Unit};

use crate::rule::ConfigError;

/// Nanoseconds of a millisecond, for bounds and defaults of times.
pub(crate) const MS: u64 = 1_000_000;
/// Nanoseconds of a second.
pub(crate) const SECOND: u64 = 1_000 * MS;

/// One tunable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tunable {
    /// Its name; Linux's, where Linux has it.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// Least and most that it may be.
    pub bounds: (u64, u64),
    /// What it is where nobody says otherwise.
    pub default: u64,
    /// What it does, in a sentence or more.
    pub about: &'static str,
    /// Where it comes from: a file and function of Linux, or "Weir's own".
    pub source: &'static str,
}

/// Something with tunables: the configuration of an elevator or a controller. Tunables go by their place in the table.
pub trait Tuned {
    /// The table.
    fn tunables(&self) -> &'static [Tunable];

    /// The value of a tunable, in its unit.
    ///
    /// # Panics
    /// If the table has no such place.
    fn get(&self, place: usize) -> u64;

    /// Sets a tunable. What is more than its field can hold becomes the largest that it can; whether it is allowed is for
    /// `<dyn Tuned>::validate` to say.
    ///
    /// # Panics
    /// If the table has no such place.
    fn set(&mut self, place: usize, value: u64);

    /// Checks the rules between tunables, beyond the bounds of each.
    ///
    /// # Errors
    /// A tunable that breaks one.
    fn validate_together(&self) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Moves what breaks a rule between tunables; each is within its own bounds.
    fn bound_together(&mut self) {}
}

impl dyn Tuned + '_ {
    /// The place of a tunable in the table.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.tunables().iter().position(|t| t.name == name)
    }

    /// Checks every bound, then the rules between tunables.
    ///
    /// # Errors
    /// The first tunable that is not within its bounds, and the bounds.
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
        self.bound_together();
    }
}

/// A field of a configuration by its place in the table.
#[derive(Debug)]
pub(crate) struct Field<C> {
    pub(crate) get: fn(&C) -> u64,
    pub(crate) set: fn(&mut C, u64),
}

/// The structure of a configuration, with its defaults and its table: `field: type, unit, [least, most], default, "what it does",
/// "where it comes from";` for each tunable. Rules between tunables stand behind it in braces.
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
            /// The table of its tunables, in the order of the fields.
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
            /// The first outside its bounds, and the bounds.
            pub fn validate(&self) -> Result<(), $crate::ConfigError> {
                (self as &dyn $crate::tunable::Tuned).validate()
            }

            /// This with every value moved inside its bounds.
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

/// An enumeration that a tunable can be: its variants with their words in files.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// Its words in files, in the order of the variants.
            pub const WORDS: &'static [&'static str] = &[$($word),*];
            const ALL: &'static [Self] = &[$(Self::$variant),*];
        }

        impl $crate::rule::Number for $name {
            fn number(self) -> u64 {
                self as u64
            }
            fn from_number(value: u64) -> Self {
                let last = Self::ALL.len() - 1;
                Self::ALL[usize::try_from(value).unwrap_or(last).min(last)]
            }
        }
    };
}

pub(crate) use {tunables, words};
