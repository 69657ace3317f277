//! The keys of all files, each declared once.
//!
//! A table of a file has a [`Shape`] with its keys, and every other key is refused. Readers refer
//! to keys by name and take bounds, units, words and defaults from the declarations
//! ([`crate::document::ShapedTable`]). `docs/configuration.md` is printed from them
//! ([`crate::manual`]).

/// Declares the keys of a table, one row each: `name: kind`, the default, an example, and a
/// description.
///
/// The default is `= "VALUE"` for a value in TOML, or `or "words"` for a description in words. A
/// key without either is required.
macro_rules! keys {
    ($(
        $name:ident: $kind:ident $(($($bounds:tt)*))? $(= $value:literal)? $(or $words:literal)?,
        $example:literal,
        $about:literal;
    )*) => {
        &[$($crate::key::KeyDeclaration {
            name: stringify!($name),
            kind: $crate::key::KeyKind::$kind $(($($bounds)*))?,
            default: keys!(@default $(= $value)? $(or $words)?),
            about: $about,
            example: $example,
        }),*]
    };
    (@default = $value:literal) => { $crate::key::DefaultValue::Value($value) };
    (@default or $words:literal) => { $crate::key::DefaultValue::Words($words) };
    (@default) => { $crate::key::DefaultValue::Needed };
}

/// Declares a table of a file whose keys are fields of a struct. A row declares both: `field: type
/// as kind`, followed by the same parts as in `keys!`. Fields that are not keys come first, each
/// with its documentation and its initial value.
///
/// With `[VALUE]` after the type, other code reads the key, and the field has this value until
/// then. With `{|of| VALUE}` after the key, this expression is printed, and the key need not be a
/// field. `and KEYS` are further keys of the table, whose values the method `terms` returns.
macro_rules! table {
    (
        $(#[$meta:meta])*
        pub struct $Type:ident: $SHAPE:ident $(and $KEYS:path)? = $name:literal, $of:literal;
        $($(#[$doc:meta])+ $plain:ident: $plain_type:ty = $initial:expr;)*
        $(
            $key:ident $({|$me:ident| $shown:expr})? $(: $type:ty $([$until:expr])?)?
                as $kind:ident $(($($bounds:tt)*))? $(= $value:literal)? $(or $words:literal)?,
            $example:literal,
            $about:literal;
        )*
    ) => {
        pub(crate) const $SHAPE: $crate::key::Shape = $crate::key::Shape {
            name: $name,
            about: $of,
            keys: &[keys! {
                $($key: $kind $(($($bounds)*))? $(= $value)? $(or $words)?, $example, $about;)*
            } $(, $KEYS)?],
        };

        $(#[$meta])*
        pub struct $Type {
            $($(#[$doc])+ pub $plain: $plain_type,)*
            $($(#[doc = $about] pub $key: $type,)?)*
        }

        #[allow(dead_code, unused_variables, reason = "some tables are never printed, or read by hand")]
        impl $Type {
            /// The value of each key.
            pub(crate) fn values(&self) -> $crate::field::Values {
                let all = vec![$((stringify!($key), $crate::field::value(
                    &$SHAPE,
                    stringify!($key),
                    &table!(@shown self, $key $(, $me $shown)?),
                ))),*];
                $(let all = [all, table!(@further self, $KEYS)].concat();)?
                all
            }

            /// Reads each key that is not read by hand.
            pub(crate) fn read<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> Self {
                Self {
                    $($plain: $initial,)*
                    $($($key: table!(@read doc, table, $key $([$until])?, $type),)?)*
                }
            }
        }

        impl Default for $Type {
            fn default() -> Self {
                Self::read(&mut Document::new("", ""), &ShapedTable::absent(&$SHAPE))
            }
        }
    };
    (@further $this:ident, $KEYS:path) => { $this.terms() };
    (@shown $this:ident, $key:ident) => { $this.$key };
    (@shown $this:ident, $key:ident, $me:ident $shown:expr) => {{ let $me = $this; $shown }};
    (@read $doc:ident, $table:ident, $key:ident [$until:expr], $type:ty) => { $until };
    (@read $doc:ident, $table:ident, $key:ident, $type:ty) => { $table.field($doc, stringify!($key)) };
}

mod apply;
mod contract;
mod drive;
mod gateways;
mod guest;
mod listen;
mod manage;
mod policy;
mod root;
mod scenario;
mod sheet;
mod volume;

pub use apply::Queue;
pub(crate) use apply::{APPLIES, APPLY, APPLY_DRIVE, APPLY_TENANT, APPLY_VOLUME, QUEUE};
pub(crate) use contract::{CONTRACT, KEYS as CONTRACTS, MAX};
pub use drive::DriveLimits;
pub(crate) use drive::{CAPACITY, DRIVE, DRIVE_LIMITS};
pub(crate) use gateways::GATEWAYS;
pub use gateways::Gateways;
pub use guest::Cost;
pub(crate) use guest::{COSTS, GUEST};
pub(crate) use listen::{LIMITS, LISTEN, TLS};
pub use listen::{Limits, Listen, Tls};
pub(crate) use manage::MANAGE;
pub use manage::Manage;
pub(crate) use policy::{BUDGET, COST, DERIVED, IO_MAX, KNOBS, LOW, POLICY};
pub use root::ProcessSettings;
pub(crate) use root::{ROOT, SERVER};
pub use scenario::Path;
pub(crate) use scenario::{
    CHANGE, CLIENT, EXPECT, FILE_MOST, FREEZE, GROUP, HOST, HOUR, PATH, PUBLISHED, REQUEST_MOST,
    RW, SCENARIO, SCENARIOS, VARIED,
};
pub(crate) use sheet::{FIGURE, FIT, PLAUSIBLE, PROFILE, SHEET};
pub(crate) use volume::{ATTACH, REMOTE, TENANT, VOLUME};
pub use volume::{Tenant, Volume};

use crate::field::Values;
use crate::units::{ByteSize, Time};
use weir_core::Span;
use weir_core::tunable::{Tunable, TunableUnit};

/// Iterates over the names of a contract's keys, which volumes and tenants have.
pub fn contract_keys() -> impl Iterator<Item = &'static str> {
    contract::KEYS.iter().map(|key| key.name)
}

/// The declaration of a kind of table with its keys.
#[derive(Debug)]
pub(crate) struct Shape {
    /// The name of the table in texts, such as `[volume.NAME]`.
    pub(crate) name: &'static str,
    /// The description of the table in one or more sentences of Markdown.
    pub(crate) about: &'static str,
    /// The keys, in groups that several shapes can share.
    pub(crate) keys: &'static [&'static [KeyDeclaration]],
}

/// The declaration of one key.
#[derive(Debug)]
pub(crate) struct KeyDeclaration {
    pub(crate) name: &'static str,
    pub(crate) kind: KeyKind,
    pub(crate) default: DefaultValue,
    /// The description of the key in one or more sentences of Markdown.
    pub(crate) about: &'static str,
    /// A valid value of the key in TOML.
    pub(crate) example: &'static str,
}

/// The kind of a key's value, with its bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyKind {
    /// A whole number with its minimum and maximum.
    Count(u64, u64),
    /// A size in bytes with its minimum, its maximum and its unit. The size is a multiple of the
    /// unit.
    Size(u64, u64, u64),
    /// A number of bytes per second, at least 1.
    Rate,
    /// A length of time with its minimum and maximum.
    Time(Span, Span),
    /// A flag, `true` or `false`.
    Flag,
    /// A word of this list.
    Word(&'static [&'static str]),
    /// A string, with a description of its content.
    Text(&'static str),
    /// An array, with a description of its elements.
    List(&'static str),
    /// A table, with a description of its content.
    Table(&'static str),
    /// A value of this kind, or another value that the text describes.
    Or(&'static Self, &'static str),
    /// Another value, which the text describes.
    Other(&'static str),
}

/// The value of a key that is not set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DefaultValue {
    /// The key is required.
    Needed,
    /// This value in TOML.
    Value(&'static str),
    /// The behaviour that these words describe.
    Words(&'static str),
}

/// The shape of a table whose keys are declared elsewhere, or are names that the user chose.
pub(crate) const UNDECLARED: Shape = Shape {
    name: "",
    about: "",
    keys: &[],
};

/// Returns the words of pairs of words and values.
pub(crate) const fn words<T, const N: usize>(pairs: &[(&'static str, T)]) -> [&'static str; N] {
    // The array is built at compile time, so a wrong number does not compile.
    assert!(pairs.len() == N, "each word is there");
    let mut words = [""; N];
    let mut at = 0;
    while at < N {
        words[at] = pairs[at].0;
        at += 1;
    }
    words
}

impl Shape {
    /// Returns all keys without values.
    pub(crate) fn unset(&self) -> Values {
        self.keys().map(|key| (key.name, None)).collect()
    }

    /// Returns the declaration of a key.
    pub(crate) fn key(&self, name: &str) -> Option<&'static KeyDeclaration> {
        self.keys().find(|k| k.name == name)
    }

    /// Iterates over the keys in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static KeyDeclaration> + Clone {
        self.keys.iter().copied().flatten()
    }

    /// Returns the names of the keys in order.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.keys().map(|k| k.name).collect()
    }
}

impl KeyKind {
    /// Returns the kind of a tunable of an elevator or controller.
    pub(crate) const fn of(tunable: &Tunable) -> Self {
        let (least, most) = tunable.bounds;
        match (tunable.unit, tunable.unit.bytes()) {
            // A maximum in sectors or pages can exceed 64 bits when it is converted to bytes.
            (_, Some(bytes)) => Self::Size(least * bytes, most.saturating_mul(bytes), bytes),
            (TunableUnit::Time, _) => Self::Time(Span::from_nanos(least), Span::from_nanos(most)),
            (TunableUnit::Flag, _) => Self::Flag,
            (TunableUnit::Word(words), _) => Self::Word(words),
            _ => Self::Count(least, most),
        }
    }

    /// Returns the permitted words, or an empty list if the kind is not a word.
    pub(crate) fn words(self) -> &'static [&'static str] {
        match self {
            Self::Word(words) => words,
            _ => &[],
        }
    }

    /// Returns a description of the permitted values, with bounds and unit, in a few words of
    /// Markdown.
    pub(crate) fn text(&self) -> String {
        match *self {
            Self::Count(least, most) => format!("whole number, {least} to {most}"),
            Self::Size(least, most, unit) => {
                let multiple = match unit {
                    1 => String::new(),
                    unit => format!(", a multiple of {unit} bytes"),
                };
                format!("size, {} to {}{multiple}", ByteSize(least), ByteSize(most))
            }
            Self::Rate => "rate, above zero".into(),
            Self::Time(least, most) => format!("time, {} to {}", Time(least), Time(most)),
            Self::Flag => "`true` or `false`".into(),
            Self::Word(words) => {
                let words: Vec<_> = words.iter().map(|w| format!("`\"{w}\"`")).collect();
                words.join(", ")
            }
            Self::Text(what) => format!("string: {what}"),
            Self::List(what) => format!("array of {what}"),
            Self::Table(what) => format!("table: {what}"),
            Self::Or(kind, other) => format!("{}, or {other}", kind.text()),
            Self::Other(what) => what.into(),
        }
    }
}

/// All shapes of the server's file, so that the help for a misplaced key can name its table.
pub(crate) const SERVERS: &[&Shape] = &[
    &ROOT,
    &DRIVE,
    &CAPACITY,
    &DRIVE_LIMITS,
    &LISTEN,
    &TLS,
    &MANAGE,
    &GATEWAYS,
    &LIMITS,
    &SERVER,
    &VOLUME,
    &ATTACH,
    &REMOTE,
    &TENANT,
    &MAX,
];

/// Returns the inline form of the table at a path, if that table is a key of another table.
/// `family` has all shapes of the file, beginning with the outermost.
pub(crate) fn inline(path: &str, family: &[&Shape]) -> Option<String> {
    let (outer, name) = path.rsplit_once('.').unwrap_or(("", path));
    let root = family.first().map_or("", |s| s.name);
    // Only the keys of the outermost table have a path without a dot.
    let shapes = (family.iter()).filter(|s| (s.name == root) == outer.is_empty());
    let keys = shapes.flat_map(|s| s.keys.iter().copied().flatten());
    let mut tables = keys.filter(|k| matches!(k.kind, KeyKind::Table(_)));
    let key = tables.find(|k| k.name == name)?;
    Some(format!("{name} = {}", key.example))
}

#[cfg(test)]
mod tests;
