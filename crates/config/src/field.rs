//! Values of keys by their Rust types: how a type is read, its default, and how it is printed.

use crate::allow::Allow;
use crate::document::{Document, KeyEntry, ShapedTable};
use crate::key::{DefaultValue, KeyDeclaration, KeyKind};
use crate::listen::{Id, ListenAddress, SocketOwner};
use crate::text::{Quoted, quoted};
use crate::units::{ByteSize, BytesPerSecond, Time};
use crate::words::Words;
use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::path::PathBuf;
use weir_core::Span;

/// A value as it is printed in files and compared in messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PrintedValue {
    /// A number, a flag or an array in TOML syntax.
    Plain(String),
    /// A text that is quoted in files but not in messages: a size, a time, an address.
    Unit(String),
    /// A text that is quoted in files and in messages.
    Text(String),
    /// A table with the values of its keys.
    Table(Values),
}

/// The keys of a table in their order with their values, where `None` means that a key is not set.
pub(crate) type Values = Vec<(&'static str, Option<PrintedValue>)>;

/// A struct whose fields are the keys of a table.
pub(crate) trait Mirror {
    /// Returns the value of each key.
    fn values(&self) -> Values;

    /// Reads each key of the table into its field.
    fn fill<'a>(&mut self, doc: &mut Document<'a>, table: &ShapedTable<'a>);

    /// Returns the struct with the keys of the table read into it.
    fn filled<'a>(mut self, doc: &mut Document<'a>, table: &ShapedTable<'a>) -> Self
    where
        Self: Sized,
    {
        self.fill(doc, table);
        self
    }
}

/// Implements [`Mirror`] for structs whose fields are keys: `Type: SHAPE, field field …;`.
macro_rules! mirror {
    ($($Type:ty: $SHAPE:expr, $($field:ident)*;)*) => {$(
        impl $crate::field::Mirror for $Type {
            fn values(&self) -> $crate::field::Values {
                vec![$((stringify!($field), $crate::field::value(&$SHAPE, stringify!($field), &self.$field))),*]
            }

            fn fill<'a>(
                &mut self,
                doc: &mut $crate::document::Document<'a>,
                table: &$crate::document::ShapedTable<'a>,
            ) {
                $(self.$field = table.field(doc, stringify!($field));)*
            }
        }
    )*};
}
pub(crate) use mirror;

/// Returns the printable value of a key that the shape declares.
pub(crate) fn value(
    shape: &crate::key::Shape,
    key: &str,
    value: &dyn Printable,
) -> Option<PrintedValue> {
    shape.key(key).and_then(|key| value.value(key))
}

/// Prints one line for each key that is set.
pub(crate) fn print(f: &mut Formatter<'_>, values: &Values) -> fmt::Result {
    set(values).try_for_each(|(key, value)| writeln!(f, "{key} = {value}"))
}

/// Iterates over the keys that are set. A table counts as set only if one of its keys is set.
fn set(values: &Values) -> impl Iterator<Item = (&'static str, &PrintedValue)> {
    let all = values
        .iter()
        .filter_map(|(key, v)| Some((*key, v.as_ref()?)));
    all.filter(|(_, value)| match value {
        // An empty table such as `max = {}` would be refused when the file is read again.
        PrintedValue::Table(inner) => inner.iter().any(|(_, value)| value.is_some()),
        _ => true,
    })
}

impl PrintedValue {
    /// Returns the value in the form for messages.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Plain(text) | Self::Unit(text) => text.clone(),
            Self::Text(text) => quoted(text),
            Self::Table(_) => self.to_string(),
        }
    }
}

impl Display for PrintedValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(text) => f.write_str(text),
            Self::Unit(text) | Self::Text(text) => Quoted(text).fmt(f),
            Self::Table(values) => {
                let set: Vec<String> = set(values).map(|(k, v)| format!("{k} = {v}")).collect();
                write!(f, "{{ {} }}", set.join(", "))
            }
        }
    }
}

/// A key whose value differs between two tables: its path, the old value and the new value.
pub(crate) type Difference = (String, Option<PrintedValue>, Option<PrintedValue>);

/// Returns the keys that differ between two states of the table at `path`, in the order of the
/// table.
pub(crate) fn differences(path: &str, was: Values, now: Values) -> Vec<Difference> {
    let mut all = Vec::new();
    // Both states come from the same type, so their keys are the same and in the same order.
    for ((key, was), (_, now)) in was.into_iter().zip(now) {
        let path = crate::text::join(path, key);
        match (was, now) {
            // Only the keys that differ within the tables are listed, not the tables.
            (Some(PrintedValue::Table(was)), Some(PrintedValue::Table(now))) => {
                all.extend(differences(&path, was, now));
            }
            (was, now) if was != now => all.push((path, was, now)),
            _ => {}
        }
    }
    all
}

/// A type whose values can be printed as the value of a key.
pub(crate) trait Printable {
    /// Returns the value in the form that the key declares, or `None` if it is not set.
    fn value(&self, key: &KeyDeclaration) -> Option<PrintedValue>;
}

/// A type that can be read from the value of a key.
pub(crate) trait KeyField: Printable {
    /// Reads the value of an entry. Returns `None` after reporting a problem.
    fn read<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<Self>
    where
        Self: Sized;

    /// Returns the declared default, for a key that is not set.
    fn absent(_: &KeyDeclaration) -> Self;
}

/// Returns the value of a number in the form that its key declares: bytes, bytes per second,
/// nanoseconds, permission bits, or a count.
///
/// Zero means that the key is not set if the file could not contain it and no default is declared.
fn number(number: u64, key: &KeyDeclaration) -> Option<PrintedValue> {
    let (least, value) = match key.kind {
        KeyKind::Size(least, ..) => (least, PrintedValue::Unit(ByteSize(number).to_string())),
        // Files cannot have a rate of zero.
        KeyKind::Rate => (1, PrintedValue::Unit(BytesPerSecond(number).to_string())),
        KeyKind::Time(least, _) => {
            let time = Time(Span::from_nanos(number));
            (least.as_nanos(), PrintedValue::Unit(time.to_string()))
        }
        KeyKind::Text(_) => (0, PrintedValue::Unit(format!("{number:04o}"))),
        KeyKind::Count(least, _) => (least, PrintedValue::Plain(number.to_string())),
        _ => (0, PrintedValue::Plain(number.to_string())),
    };
    // The core uses zero for a limit that is not set.
    let is_none = number == 0 && least > 0 && matches!(key.default, DefaultValue::Words(_));
    (!is_none).then_some(value)
}

/// Returns the number that a key declares as its default, or zero if it declares none.
fn default_number(key: &KeyDeclaration) -> u64 {
    let DefaultValue::Value(text) = key.default else {
        return 0;
    };
    let text = text.trim_matches('"');
    let number = match key.kind {
        KeyKind::Size(..) => text.parse::<ByteSize>().ok().map(|size| size.0),
        KeyKind::Time(..) => text.parse::<Time>().ok().map(|time| time.0.as_nanos()),
        KeyKind::Text(_) => u64::from_str_radix(text, 8).ok(),
        _ => text.parse().ok(),
    };
    number.expect("its declaration has a value of that kind")
}

/// Implements [`Printable`] for types, one row each.
macro_rules! shows {
    ($($type:ty: |$value:ident, $key:ident| $shown:expr;)*) => {$(
        impl Printable for $type {
            fn value(&self, $key: &KeyDeclaration) -> Option<PrintedValue> {
                let $value = self;
                $shown
            }
        }
    )*};
}

shows! {
    u8: |count, key| number((*count).into(), key);
    u16: |count, key| number((*count).into(), key);
    u32: |count, key| number((*count).into(), key);
    u64: |count, key| number(*count, key);
    Span: |span, key| number(span.as_nanos(), key);
    bool: |flag, _key| Some(PrintedValue::Plain(flag.to_string()));
    // A value that is not a string in the file, such as a model's table, is already in TOML syntax.
    &str: |text, key| Some(match key.kind {
        KeyKind::Other(_) => PrintedValue::Plain((*text).to_owned()),
        _ => PrintedValue::Text((*text).to_owned()),
    });
    String: |text, key| text.as_str().value(key);
    PathBuf: |path, _key| Some(PrintedValue::Text(path.display().to_string()));
    SocketAddr: |address, _key| Some(PrintedValue::Unit(address.to_string()));
    ListenAddress: |address, _key| Some(PrintedValue::Text(address.to_string()));
    Allow: |allow, _key| Some(PrintedValue::Text(allow.to_string()));
    Id: |id, _key| Some(PrintedValue::Text(id.to_string()));
    // The default depends on the user that runs the server, so it is not written.
    SocketOwner: |owner, _key| (*owner != SocketOwner::default()).then(|| PrintedValue::Text(owner.to_string()));
    Values: |values, _key| Some(PrintedValue::Table(values.clone()));
}

impl<T: Printable> Printable for Option<T> {
    fn value(&self, key: &KeyDeclaration) -> Option<PrintedValue> {
        self.as_ref().and_then(|value| value.value(key))
    }
}

impl<T: Printable> Printable for Vec<T> {
    /// Returns the array in TOML syntax. An empty array counts as not set, unless the key declares
    /// it as a value.
    fn value(&self, key: &KeyDeclaration) -> Option<PrintedValue> {
        let elements = self.iter().filter_map(|element| element.value(key));
        let elements: Vec<String> = elements.map(|element| element.to_string()).collect();
        let is_set = !self.is_empty() || matches!(key.default, DefaultValue::Value(_));
        is_set.then(|| PrintedValue::Plain(format!("[{}]", elements.join(", "))))
    }
}

/// Implements [`KeyField`] for types: how each is read, and its value if the key is not set.
macro_rules! fields {
    ($($type:ty: |$doc:ident, $entry:ident| $read:expr, |$key:ident| $absent:expr;)*) => {$(
        impl KeyField for $type {
            fn read<'a>($doc: &mut Document<'a>, $entry: &KeyEntry<'a>) -> Option<Self> {
                $read
            }

            fn absent($key: &KeyDeclaration) -> Self {
                $absent
            }
        }
    )*};
}

fields! {
    // The declared bounds fit into the type, and a default is within the bounds.
    u8: |doc, entry| entry.number(doc)?.try_into().ok(), |key| default_number(key) as Self;
    u16: |doc, entry| entry.number(doc)?.try_into().ok(), |key| default_number(key) as Self;
    u32: |doc, entry| entry.number(doc)?.try_into().ok(), |key| default_number(key) as Self;
    u64: |doc, entry| entry.number(doc), |key| default_number(key);
    Span: |doc, entry| entry.time(doc), |key| Self::from_nanos(default_number(key));
    bool: |doc, entry| entry.boolean(doc), |key| matches!(key.default, DefaultValue::Value("true"));
    SocketOwner: |doc, entry| entry.parsed(doc, ("an owner", "\"user:group\""), str::parse), |_key| Self::default();
}

impl<T: KeyField> KeyField for Option<T> {
    fn read<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<Self> {
        T::read(doc, entry).map(Some)
    }

    fn absent(_: &KeyDeclaration) -> Self {
        None
    }
}

impl<T: Words> Printable for T {
    fn value(&self, _: &KeyDeclaration) -> Option<PrintedValue> {
        Some(PrintedValue::Text(self.word().to_owned()))
    }
}

impl<T: Words> KeyField for T {
    fn read<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<Self> {
        entry.word(doc, T::WORDS.iter().map(|w| w.1))
    }

    fn absent(key: &KeyDeclaration) -> Self {
        let named = match key.default {
            DefaultValue::Value(word) => T::named(word.trim_matches('"')),
            _ => None,
        };
        named.expect("its declaration has a word of that type")
    }
}
