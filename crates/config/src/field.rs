//! Values of keys by their types: how a value is read, its default, and how it is written.

use crate::document::{Document, Entry, Table};
use crate::key::{DefaultValue, Key, Kind};
use crate::listen::{Address, Id, Owner};
use crate::text::{Quoted, quoted};
use crate::units::{Rate, Size, Time};
use crate::words::Words;
use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::path::PathBuf;
use weir_core::Span;

/// A value, to be printed in a file and compared in a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    /// A number, a flag or an array, as TOML.
    Plain(String),
    /// A text that only a file has in quotes: a size, a time, an address.
    Unit(String),
    /// A text that is always in quotes.
    Text(String),
    /// A table.
    Table(Values),
}

/// The keys of a table in their order, with their values: `None` if a key is not set.
pub(crate) type Values = Vec<(&'static str, Option<Value>)>;

/// A struct whose fields are keys of a table.
pub(crate) trait Mirror {
    /// The value of each key.
    fn values(&self) -> Values;

    /// Reads each key.
    fn fill<'a>(&mut self, doc: &mut Document<'a>, table: &Table<'a>);

    /// This with the keys of a table.
    fn filled<'a>(mut self, doc: &mut Document<'a>, table: &Table<'a>) -> Self
    where
        Self: Sized,
    {
        self.fill(doc, table);
        self
    }
}

/// Structs whose fields are keys of a table: `Type: SHAPE, field field …;`.
macro_rules! mirror {
    ($($Type:ty: $SHAPE:expr, $($field:ident)*;)*) => {$(
        impl $crate::field::Mirror for $Type {
            fn values(&self) -> $crate::field::Values {
                vec![$((stringify!($field), $crate::field::value(&$SHAPE, stringify!($field), &self.$field))),*]
            }

            fn fill<'a>(
                &mut self,
                doc: &mut $crate::document::Document<'a>,
                table: &$crate::document::Table<'a>,
            ) {
                $(self.$field = table.field(doc, stringify!($field));)*
            }
        }
    )*};
}
pub(crate) use mirror;

/// The value of a key that a shape declares.
pub(crate) fn value(shape: &crate::key::Shape, key: &str, value: &dyn Show) -> Option<Value> {
    shape.key(key).and_then(|key| value.value(key))
}

/// Prints a line for each key that is set.
pub(crate) fn print(f: &mut Formatter<'_>, values: &Values) -> fmt::Result {
    set(values).try_for_each(|(key, value)| writeln!(f, "{key} = {value}"))
}

/// The keys that are set. A table in which none is set is not.
fn set(values: &Values) -> impl Iterator<Item = (&'static str, &Value)> {
    let all = values
        .iter()
        .filter_map(|(key, v)| Some((*key, v.as_ref()?)));
    all.filter(|(_, value)| match value {
        Value::Table(inner) => inner.iter().any(|(_, value)| value.is_some()),
        _ => true,
    })
}

impl Value {
    /// The value in a message.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Plain(text) | Self::Unit(text) => text.clone(),
            Self::Text(text) => quoted(text),
            Self::Table(_) => self.to_string(),
        }
    }
}

impl Display for Value {
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

/// A key that two tables have with different values, by its path.
pub(crate) type Difference = (String, Option<Value>, Option<Value>);

/// The keys that differ between two states of the table at `path`, in the order of the table.
pub(crate) fn differences(path: &str, was: Values, now: Values) -> Vec<Difference> {
    let mut all = Vec::new();
    for ((key, was), (_, now)) in was.into_iter().zip(now) {
        let path = crate::text::join(path, key);
        match (was, now) {
            (Some(Value::Table(was)), Some(Value::Table(now))) => {
                all.extend(differences(&path, was, now));
            }
            (was, now) if was != now => all.push((path, was, now)),
            _ => {}
        }
    }
    all
}

/// The type of a key's value, as it is printed.
pub(crate) trait Show {
    /// The value as its key declares it; `None` if it is not set.
    fn value(&self, key: &Key) -> Option<Value>;
}

/// The type of a field that is a key's value.
pub(crate) trait Field: Show {
    /// Reads a value.
    fn read<'a>(doc: &mut Document<'a>, entry: &Entry<'a>) -> Option<Self>
    where
        Self: Sized;

    /// The value where the key is left out, as it is declared.
    fn absent(_: &Key) -> Self;
}

/// The value of a declared number: bytes, bytes a second, nanoseconds, permission bits, or a count.
/// Zero is none if the key has no default and zero is not permitted.
fn number(number: u64, key: &Key) -> Option<Value> {
    let (least, value) = match key.kind {
        Kind::Size(least, ..) => (least, Value::Unit(Size(number).to_string())),
        Kind::Rate => (1, Value::Unit(Rate(number).to_string())),
        Kind::Time(least, _) => {
            let time = Time(Span::from_nanos(number));
            (least.as_nanos(), Value::Unit(time.to_string()))
        }
        Kind::Text(_) => (0, Value::Unit(format!("{number:04o}"))),
        Kind::Count(least, _) => (least, Value::Plain(number.to_string())),
        _ => (0, Value::Plain(number.to_string())),
    };
    let is_none = number == 0 && least > 0 && matches!(key.default, DefaultValue::Words(_));
    (!is_none).then_some(value)
}

/// The number that a key declares as its default; zero if it declares none.
fn default_number(key: &Key) -> u64 {
    let DefaultValue::Value(text) = key.default else {
        return 0;
    };
    let text = text.trim_matches('"');
    let number = match key.kind {
        Kind::Size(..) => text.parse::<Size>().ok().map(|size| size.0),
        Kind::Time(..) => text.parse::<Time>().ok().map(|time| time.0.as_nanos()),
        Kind::Text(_) => u64::from_str_radix(text, 8).ok(),
        _ => text.parse().ok(),
    };
    number.expect("its declaration has a value of that kind")
}

/// How types are printed.
macro_rules! shows {
    ($($type:ty: |$value:ident, $key:ident| $shown:expr;)*) => {$(
        impl Show for $type {
            fn value(&self, $key: &Key) -> Option<Value> {
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
    bool: |flag, _key| Some(Value::Plain(flag.to_string()));
    // What is no string in the file, as a model, is printed as it is.
    &str: |text, key| Some(match key.kind {
        Kind::Other(_) => Value::Plain((*text).to_owned()),
        _ => Value::Text((*text).to_owned()),
    });
    String: |text, key| text.as_str().value(key);
    PathBuf: |path, _key| Some(Value::Text(path.display().to_string()));
    SocketAddr: |address, _key| Some(Value::Unit(address.to_string()));
    Address: |address, _key| Some(Value::Text(address.to_string()));
    Id: |id, _key| Some(Value::Text(id.to_string()));
    Owner: |owner, _key| (*owner != Owner::default()).then(|| Value::Text(owner.to_string()));
    Values: |values, _key| Some(Value::Table(values.clone()));
}

impl<T: Show> Show for Option<T> {
    fn value(&self, key: &Key) -> Option<Value> {
        self.as_ref().and_then(|value| value.value(key))
    }
}

impl<T: Show> Show for Vec<T> {
    /// An array that must not be empty is not set if it is.
    fn value(&self, key: &Key) -> Option<Value> {
        let elements = self.iter().filter_map(|element| element.value(key));
        let elements: Vec<String> = elements.map(|element| element.to_string()).collect();
        let is_set = !self.is_empty() || matches!(key.default, DefaultValue::Value(_));
        is_set.then(|| Value::Plain(format!("[{}]", elements.join(", "))))
    }
}

/// How types are read, and what they are where a key is left out.
macro_rules! fields {
    ($($type:ty: |$doc:ident, $entry:ident| $read:expr, |$key:ident| $absent:expr;)*) => {$(
        impl Field for $type {
            fn read<'a>($doc: &mut Document<'a>, $entry: &Entry<'a>) -> Option<Self> {
                $read
            }

            fn absent($key: &Key) -> Self {
                $absent
            }
        }
    )*};
}

fields! {
    u8: |doc, entry| entry.number(doc)?.try_into().ok(), |key| default_number(key) as Self;
    u16: |doc, entry| entry.number(doc)?.try_into().ok(), |key| default_number(key) as Self;
    u32: |doc, entry| entry.number(doc)?.try_into().ok(), |key| default_number(key) as Self;
    u64: |doc, entry| entry.number(doc), |key| default_number(key);
    Span: |doc, entry| entry.time(doc), |key| Self::from_nanos(default_number(key));
    bool: |doc, entry| entry.boolean(doc), |key| matches!(key.default, DefaultValue::Value("true"));
    Owner: |doc, entry| entry.parsed(doc, ("an owner", "\"user:group\""), str::parse), |_key| Self::default();
}

impl<T: Field> Field for Option<T> {
    fn read<'a>(doc: &mut Document<'a>, entry: &Entry<'a>) -> Option<Self> {
        T::read(doc, entry).map(Some)
    }

    fn absent(_: &Key) -> Self {
        None
    }
}

impl<T: Words> Show for T {
    fn value(&self, _: &Key) -> Option<Value> {
        Some(Value::Text(self.word().to_owned()))
    }
}

impl<T: Words> Field for T {
    fn read<'a>(doc: &mut Document<'a>, entry: &Entry<'a>) -> Option<Self> {
        entry.word(doc, T::WORDS.iter().map(|w| w.1))
    }

    fn absent(key: &Key) -> Self {
        let named = match key.default {
            DefaultValue::Value(word) => T::named(word.trim_matches('"')),
            _ => None,
        };
        named.expect("its declaration has a word of that type")
    }
}
