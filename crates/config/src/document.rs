//! Reads a TOML file into values, and collects every problem with its place in the text.
//!
//! [`Document`] holds the text and the problems. A [`ShapedTable`] has a [`Shape`], which declares
//! its keys. Each [`KeyEntry`] of a table is one key with its value, which the methods of
//! [`KeyEntry`] check and convert.

use crate::elsewhere;
use crate::field::KeyField;
use crate::key::{self, DefaultValue, KeyKind, Shape, UNDECLARED};
use crate::nearest;
use crate::places::KeyPlaces;
use crate::problem::Problem;
use crate::text::{join, quoted};
use crate::units::{ByteSize, BytesPerSecond, Time, UnitError};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;
use toml::Spanned;
use toml::de::DeValue;
use toml::value::Datetime;
use weir_core::Span;

/// The maximum number of problems that are kept. A user cannot work with a longer list.
const PROBLEMS_MAX: usize = 100;

/// A TOML value that owns its data, so that it does not borrow from the text.
#[derive(Clone, Debug)]
pub(crate) enum TomlValue {
    String(String),
    /// A whole number: its value if it fits into 64 bits without a sign, and its text.
    Integer(Option<u64>, String),
    /// A number with a fraction, as text.
    Float(String),
    Boolean(bool),
    Datetime(Datetime),
    Array(Vec<Spanned<Self>>),
    Table(TomlTable),
}

/// The keys and values of a table, each with its span in the text.
pub(crate) type TomlTable = BTreeMap<Spanned<String>, Spanned<TomlValue>>;

impl TomlValue {
    /// Returns the keys and values if the value is a table.
    pub(crate) fn as_table(&self) -> Option<&TomlTable> {
        match self {
            Self::Table(map) => Some(map),
            _ => None,
        }
    }
}

impl From<DeValue<'_>> for TomlValue {
    fn from(value: DeValue<'_>) -> Self {
        let owned = |value: Spanned<DeValue<'_>>| {
            Spanned::new(value.span(), Self::from(value.into_inner()))
        };
        match value {
            DeValue::String(text) => Self::String(text.into_owned()),
            // The text is kept as well, because messages quote a number that does not fit into 64
            // bits.
            DeValue::Integer(integer) => {
                let number = u64::from_str_radix(integer.as_str(), integer.radix());
                Self::Integer(number.ok(), integer.to_string())
            }
            // No key accepts a number with a fraction, so only its text is needed, for messages.
            DeValue::Float(float) => Self::Float(float.to_string()),
            DeValue::Boolean(value) => Self::Boolean(value),
            DeValue::Datetime(value) => Self::Datetime(value),
            DeValue::Array(array) => Self::Array(array.into_iter().map(owned).collect()),
            DeValue::Table(table) => {
                let name = |key: Spanned<Cow<'_, str>>| {
                    Spanned::new(key.span(), key.into_inner().into_owned())
                };
                let all = table.into_iter().map(|(k, v)| (name(k), owned(v)));
                Self::Table(all.collect())
            }
        }
    }
}

/// Refuses several keys. Each row has a key, the condition for the refusal, the problem, and the
/// help.
macro_rules! refuse {
    ($doc:expr, $table:expr; $($key:expr, $holds:expr, $what:expr, $help:expr;)*) => {
        $($table.refuse($doc, $key, ($holds, $what, $help));)*
    };
}
pub(crate) use refuse;

/// A file that is being read, with the problems found so far.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    text: &'a str,
    /// The byte offset of the start of each line.
    lines: Vec<usize>,
    pub(crate) places: KeyPlaces,
    /// All shapes of this kind of file, beginning with the outermost. They serve to name the right
    /// table for a misplaced key.
    pub(crate) family: &'static [&'static Shape],
    problems: Vec<Problem>,
    /// The number of problems found, including those that were not kept.
    found: usize,
}

/// A key's value with its place in the text.
#[derive(Clone, Debug)]
pub(crate) struct KeyEntry<'a> {
    pub(crate) path: String,
    pub(crate) span: Range<usize>,
    /// The kind that the table's shape declares for the key, or `KeyKind::Other` if none is
    /// declared.
    kind: KeyKind,
    value: &'a TomlValue,
}

/// A table together with its shape, which declares the keys.
#[derive(Clone, Debug)]
pub(crate) struct ShapedTable<'a> {
    pub(crate) path: String,
    pub(crate) span: Range<usize>,
    shape: &'static Shape,
    map: &'a TomlTable,
}

impl<'a> Document<'a> {
    pub(crate) fn new(file: &str, text: &'a str) -> Self {
        let breaks = text.bytes().zip(1..).filter(|b| b.0 == b'\n').map(|b| b.1);
        Self {
            text,
            lines: std::iter::once(0).chain(breaks).collect(),
            places: KeyPlaces {
                file: file.to_owned(),
                ..KeyPlaces::default()
            },
            family: key::SERVERS,
            problems: Vec::new(),
            found: 0,
        }
    }

    /// Returns the number of problems found so far.
    pub(crate) fn problem_count(&self) -> usize {
        self.found
    }

    /// Returns the line and column of a byte of the text, both counted from 1. A column is a
    /// character, not a byte.
    pub(crate) fn place(&self, byte: usize) -> (u32, u32) {
        // An error of syntax can be at the end of the text, behind its last byte.
        let byte = byte.min(self.text.len());
        let line = self.lines.partition_point(|&start| start <= byte) - 1;
        let before = self.text.as_bytes().get(self.lines[line]..byte);
        // In UTF-8, bytes of the form `10xxxxxx` continue a character. All other bytes begin one.
        let column = before.map_or(0, |b| b.iter().filter(|&b| b & 0xc0 != 0x80).count());
        // Lines and columns are counted from 1, as in editors.
        (line as u32 + 1, column as u32 + 1)
    }

    /// Keeps a problem at a span of the text.
    pub(crate) fn report_span(
        &mut self,
        span: &Range<usize>,
        key: &str,
        what: impl Display,
        help: &str,
    ) {
        self.add_problem(self.problem_at(span, key, what, help));
    }

    /// Returns a problem or note at a span of the text, without keeping it.
    pub(crate) fn problem_at(
        &self,
        span: &Range<usize>,
        key: &str,
        what: impl Display,
        help: &str,
    ) -> Problem {
        let place = self.place(span.start);
        Problem::new(&self.places.file, place, key, what.to_string(), help)
    }

    /// Reports a problem with an entry.
    pub(crate) fn report(&mut self, entry: &KeyEntry<'_>, what: impl Display, help: &str) {
        self.report_span(&entry.span, &entry.path, what, help);
    }

    /// Keeps a problem that was created by another part of the program.
    pub(crate) fn add_problem(&mut self, problem: Problem) {
        // The number of all problems is reported, although only some of them are kept.
        self.found += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }

    /// Keeps a problem at a key that was read earlier, or at the nearest table around the key.
    pub(crate) fn report_key(&mut self, key: &str, what: impl Display, help: &str) {
        let help = (!help.is_empty()).then(|| help.to_owned());
        self.add_problem(self.places.problem(key, what.to_string(), help));
    }

    /// Returns true while a further problem would be kept. Callers can otherwise skip a costly
    /// explanation.
    pub(crate) fn is_collecting(&self) -> bool {
        self.problems.len() < PROBLEMS_MAX
    }

    /// Returns all kept problems in the order of the file.
    pub(crate) fn into_problems(mut self) -> Vec<Problem> {
        // The sort is stable, so problems at the same place stay in the order of their discovery.
        self.problems.sort_by_key(|p| (p.line, p.column));
        let more = self.found - self.problems.len();
        if more > 0 {
            let message = format!("{more} more problems are not shown");
            let more = Problem::new(&self.places.file, (0, 0), "", message, "");
            self.problems.push(more);
        }
        self.problems
    }

    /// Records the place of an entry, for problems that are found later.
    pub(crate) fn record_place(&mut self, entry: &KeyEntry<'_>) {
        let place = self.place(entry.span.start);
        self.places.keys.insert(entry.path.clone(), place);
    }

    /// Returns true if a key such as `listen.tls` is in the file, valid or not.
    pub(crate) fn is_written(&self, key: &str) -> bool {
        self.places.keys.contains_key(key)
    }

    /// Records the place of each key, and reports the keys that are not among `keys`. `called`
    /// names the kind of table in messages.
    pub(crate) fn check_keys(&mut self, table: &ShapedTable<'a>, called: &str, keys: &[&str]) {
        for (key, value) in table.map {
            let name = key.get_ref();
            let path = join(&table.path, name);
            if keys.contains(&name.as_ref()) {
                let place = self.place(value.span().start);
                self.places.keys.insert(path, place);
            } else if self.is_collecting() {
                let help = elsewhere::help(name, called, keys, self.family);
                self.report_span(&key.span(), &path, "unknown key", &help);
            } else {
                // The problem would not be kept. Its help is not computed, because that compares
                // all known names.
                self.found += 1;
            }
        }
    }

    /// Returns the elements of an array of tables of one shape, as entries and tables.
    pub(crate) fn tables(
        &mut self,
        table: &ShapedTable<'a>,
        key: &str,
        shape: &'static Shape,
    ) -> Vec<(KeyEntry<'a>, ShapedTable<'a>)> {
        let entries = table.entry(key).and_then(|e| e.array(self, shape.name));
        let mut all = Vec::new();
        for entry in entries.unwrap_or_default() {
            all.extend(entry.table(self, shape).map(|table| (entry, table)));
        }
        all
    }

    /// Returns the entry of a required key, or reports that the key is missing.
    pub(crate) fn required(
        &mut self,
        table: &ShapedTable<'a>,
        key: &str,
        help: &str,
    ) -> Option<KeyEntry<'a>> {
        let entry = table.entry(key);
        if entry.is_none() {
            // A missing key has no place, so the problem is at its table.
            self.report_span(&table.span, &join(&table.path, key), "is missing", help);
        }
        entry
    }
}

impl<'a> ShapedTable<'a> {
    /// Creates the outermost table of a file, without checking its keys.
    pub(crate) fn root(map: &'a TomlTable, shape: &'static Shape) -> Self {
        Self {
            path: String::new(),
            span: 0..0,
            shape,
            map,
        }
    }

    /// Returns the same table with another shape.
    pub(crate) fn shaped(&self, shape: &'static Shape) -> Self {
        Self {
            shape,
            ..self.clone()
        }
    }

    /// Returns the same table for keys that its shape does not declare.
    pub(crate) fn undeclared(&self) -> Self {
        self.shaped(&UNDECLARED)
    }

    /// Returns the entry of a key, or `None` if the key is not set.
    pub(crate) fn entry(&self, key: &str) -> Option<KeyEntry<'a>> {
        // A reader with a misspelt key would otherwise always find that the key is not set.
        let is_declared = self.shape.keys.is_empty() || self.shape.key(key).is_some();
        debug_assert!(is_declared, "{} has no key {key}", self.shape.name);
        let (key, value) = self.map.get_key_value(key)?;
        Some(self.entry_of(key.get_ref(), value))
    }

    /// Returns the span of a key's value, or of the whole table if the key is not set.
    pub(crate) fn span_of(&self, key: &str) -> Range<usize> {
        let value = self.map.get(key);
        value.map_or_else(|| self.span.clone(), Spanned::span)
    }

    /// Creates a table that is not in the file, so that each key has its default.
    pub(crate) fn absent(shape: &'static Shape) -> Self {
        static EMPTY: TomlTable = TomlTable::new();
        Self {
            path: String::new(),
            span: 0..0,
            shape,
            map: &EMPTY,
        }
    }

    /// Reads the value of a field, or returns its default if the key is not set or its value is
    /// wrong.
    pub(crate) fn field<T: KeyField>(&self, doc: &mut Document<'a>, key: &str) -> T {
        let value = self.entry(key).and_then(|entry| T::read(doc, &entry));
        value.unwrap_or_else(|| T::absent(self.shape.key(key).expect("a field is a key")))
    }

    /// Reads a word and returns the element of `values` at its place among the declared words.
    /// Returns that of the default if the key is not set or wrong.
    pub(crate) fn word<T: Copy, const N: usize>(
        &self,
        doc: &mut Document<'_>,
        key: &str,
        values: [T; N],
    ) -> T {
        let word = self.entry(key).and_then(|e| e.word(doc, values));
        word.unwrap_or_else(|| {
            let declared = self.shape.key(key).map(|k| (k.kind.words(), k.default));
            // Only keys with a default in TOML are read with this function.
            let Some((words, DefaultValue::Value(default))) = declared else {
                unreachable!("{key} has a default");
            };
            // The default is declared in TOML and therefore in quotes.
            let at = words.iter().position(|w| *w == default.trim_matches('"'));
            values[at.expect("its default is one of the declared words")]
        })
    }

    /// Reports a problem with a key if the condition `holds` and the key is set.
    pub(crate) fn refuse(
        &self,
        doc: &mut Document<'_>,
        key: &str,
        (holds, what, help): (bool, impl Display, &str),
    ) {
        if let Some(entry) = self.entry(key).filter(|_| holds) {
            doc.report(&entry, what, help);
        }
    }

    /// Iterates over all entries, sorted by key.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a Spanned<String>, KeyEntry<'a>)> {
        self.map
            .iter()
            .map(|(k, v)| (k, self.entry_of(k.get_ref(), v)))
    }

    fn entry_of(&self, key: &str, value: &'a Spanned<TomlValue>) -> KeyEntry<'a> {
        KeyEntry {
            path: join(&self.path, key),
            span: value.span(),
            kind: match self.shape.key(key).map(|k| k.kind) {
                // Of a key that can be written in several forms, only the first has bounds and
                // words. Readers test for the other forms themselves.
                Some(KeyKind::Or(kind, _)) => *kind,
                kind => kind.unwrap_or(KeyKind::Other("")),
            },
            value: value.get_ref(),
        }
    }
}

impl<'a> KeyEntry<'a> {
    /// Reads a table of a known shape.
    pub(crate) fn table(
        &self,
        doc: &mut Document<'a>,
        shape: &'static Shape,
    ) -> Option<ShapedTable<'a>> {
        self.table_and(doc, shape, |keys| keys)
    }

    /// Reads a table of a known shape with further keys, which `further` adds to those of the
    /// shape.
    pub(crate) fn table_and(
        &self,
        doc: &mut Document<'a>,
        shape: &'static Shape,
        further: impl FnOnce(Vec<&'static str>) -> Vec<&'static str>,
    ) -> Option<ShapedTable<'a>> {
        if !self.is_table() {
            let what = format_args!("{} is not a table", self.quoted_value());
            let help = self.table_help(shape, doc.family);
            doc.report(self, what, &help);
            return None;
        }
        let table = self.map(doc)?.shaped(shape);
        doc.check_keys(&table, shape.name, &further(shape.names()));
        Some(table)
    }

    /// Returns the help that shows the form of a table of this shape.
    fn table_help(&self, shape: &Shape, family: &[&Shape]) -> String {
        // Tables of named objects are written under a header of their own, other tables also
        // inline.
        if shape.name.ends_with(".NAME]") {
            return format!("write one {} for each", shape.name);
        }
        let inline = key::inline(&self.path, family);
        format!("write it as {}", inline.as_deref().unwrap_or(shape.name))
    }

    /// Reads a table whose keys are names that the user chose.
    pub(crate) fn names(&self, doc: &mut Document<'a>, kind: &str) -> Option<ShapedTable<'a>> {
        let TomlValue::Table(_) = self.value else {
            let help = format!("write one [{kind}.NAME] for each");
            doc.report(
                self,
                format_args!("{} is not a table", self.quoted_value()),
                &help,
            );
            return None;
        };
        self.map(doc)
    }

    /// Reads a table without a check of its keys, which the caller passes to
    /// [`Document::check_keys`].
    pub(crate) fn map(&self, doc: &mut Document<'a>) -> Option<ShapedTable<'a>> {
        let TomlValue::Table(map) = self.value else {
            self.mistyped(doc, "a table", "");
            return None;
        };
        Some(ShapedTable {
            path: self.path.clone(),
            span: self.span.clone(),
            shape: &UNDECLARED,
            map,
        })
    }

    /// Returns the string, or `None` without a problem if the value is of another type.
    pub(crate) fn as_text(&self) -> Option<&'a str> {
        match self.value {
            TomlValue::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_integer(&self) -> bool {
        matches!(self.value, TomlValue::Integer(..))
    }

    pub(crate) fn is_text(&self) -> bool {
        matches!(self.value, TomlValue::String(_))
    }

    pub(crate) fn is_table(&self) -> bool {
        matches!(self.value, TomlValue::Table(_))
    }

    /// Reads a string. In the problem, `wanted` names the expected kind, and `example` shows a
    /// valid value.
    pub(crate) fn text(
        &self,
        doc: &mut Document<'_>,
        wanted: &str,
        example: &str,
    ) -> Option<&'a str> {
        if let TomlValue::String(text) = self.value {
            return Some(text);
        }
        self.mistyped(doc, wanted, example);
        None
    }

    /// Reads a string and converts it with `read`, which returns a problem and its help if the text
    /// is wrong.
    pub(crate) fn parsed<T, W: Display, H: AsRef<str>>(
        &self,
        doc: &mut Document<'_>,
        (wanted, example): (&str, &str),
        read: impl FnOnce(&'a str) -> Result<T, (W, H)>,
    ) -> Option<T> {
        match read(self.text(doc, wanted, example)?) {
            Ok(value) => Some(value),
            Err((what, help)) => {
                doc.report(self, what, help.as_ref());
                None
            }
        }
    }

    /// Reads one of a few words, and returns its index.
    pub(crate) fn choice(&self, doc: &mut Document<'_>, words: &[&str]) -> Option<usize> {
        let names: Vec<String> = words.iter().map(|w| format!("\"{w}\"")).collect();
        let wanted = format!("one of {}", names.join(", "));
        let word = self.text(doc, &wanted, "")?;
        let found = words.iter().position(|w| *w == word);
        if found.is_none() {
            let what = format!("{} is not {wanted}", quoted(word));
            // The list of words is in the message already, so the help only has a similar word.
            let near = nearest::name(word, words.iter().copied());
            let help = near.map_or_else(String::new, |n| format!("did you mean \"{n}\"?"));
            doc.report(self, what, &help);
        }
        found
    }

    /// Reads one of the declared words, and returns the element of `values` at the same index.
    pub(crate) fn word<T>(
        &self,
        doc: &mut Document<'_>,
        values: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
    ) -> Option<T> {
        let (words, mut values) = (self.kind.words(), values.into_iter());
        debug_assert_eq!(values.len(), words.len(), "the words of {}", self.path);
        values.nth(self.choice(doc, words)?)
    }

    /// Reads a whole number within the declared bounds.
    pub(crate) fn count<T: TryFrom<u64>>(&self, doc: &mut Document<'_>) -> Option<T> {
        let KeyKind::Count(least, most) = self.kind else {
            return self.misdeclared("whole number");
        };
        // If the declared maximum did not fit into the type, some permitted values would be lost.
        debug_assert!(T::try_from(most).is_ok(), "the most of {}", self.path);
        T::try_from(self.integer(doc, least..=most)?).ok()
    }

    /// Reads a number of the declared kind: a count, a size, a rate, or permission bits.
    pub(crate) fn number(&self, doc: &mut Document<'_>) -> Option<u64> {
        match self.kind {
            KeyKind::Size(..) => self.size(doc),
            KeyKind::Rate => self.rate(doc),
            KeyKind::Count(..) => self.count(doc),
            KeyKind::Text(_) => self.mode(doc),
            _ => None,
        }
    }

    /// Reads the permission bits of a socket, written as three or four octal digits.
    fn mode(&self, doc: &mut Document<'_>) -> Option<u64> {
        self.parsed(doc, ("permission bits in a string", "\"0660\""), |text| {
            let mode = u64::from_str_radix(text, 8).ok();
            // `from_str_radix` also accepts a plus sign.
            let digits = (3..=4).contains(&text.len()) && !text.starts_with('+');
            mode.filter(|m| *m <= 0o777 && digits).ok_or_else(|| {
                let what = format!(
                    "{} is not an octal mode, \"0000\" to \"0777\"",
                    quoted(text)
                );
                (what, "write for example \"0660\"")
            })
        })
    }

    /// Reads a number of bytes within the declared bounds.
    pub(crate) fn size(&self, doc: &mut Document<'_>) -> Option<u64> {
        // The kind is declared in the shape. Another kind would be a bug of the reader.
        let KeyKind::Size(least, _, unit) = self.kind else {
            return self.misdeclared("size");
        };
        self.size_from(doc, least, unit)
    }

    /// Reads a number of bytes that is at least `least`, at most the declared maximum, and a
    /// multiple of `unit`.
    pub(crate) fn size_from(&self, doc: &mut Document<'_>, least: u64, unit: u64) -> Option<u64> {
        let KeyKind::Size(_, most, _) = self.kind else {
            return self.misdeclared("size");
        };
        self.size_in(doc, least..=most, unit)
    }

    /// Reads a length of time within the declared bounds.
    pub(crate) fn time(&self, doc: &mut Document<'_>) -> Option<Span> {
        let KeyKind::Time(least, most) = self.kind else {
            return self.misdeclared("time");
        };
        self.time_in(doc, least..=most)
    }

    /// Returns `None` for a reader that does not fit the declaration. Debug builds panic, because
    /// that is a bug in Weir and not in the file.
    fn misdeclared<T>(&self, wanted: &str) -> Option<T> {
        debug_assert!(false, "{} is not declared as a {wanted}", self.path);
        None
    }

    /// Reads `true` or `false`.
    pub(crate) fn boolean(&self, doc: &mut Document<'_>) -> Option<bool> {
        if let TomlValue::Boolean(value) = self.value {
            return Some(*value);
        }
        let what = format_args!("{} is not true or false", self.quoted_value());
        doc.report(self, what, "write true or false, without quotes");
        None
    }

    /// Reads the elements of an array.
    pub(crate) fn array(&self, doc: &mut Document<'_>, example: &str) -> Option<Vec<Self>> {
        let TomlValue::Array(array) = self.value else {
            match self.value {
                // A string in place of an array of strings is usually a list separated by commas,
                // so the help shows it as an array.
                TomlValue::String(text) if example.starts_with("[\"") => {
                    let parts: Vec<String> = text.split(',').map(|t| quoted(t.trim())).collect();
                    let help = format!("write [{}]", parts.join(", "));
                    let what = format_args!("{} is not an array", self.quoted_value());
                    doc.report(self, what, &help);
                }
                _ => self.mistyped(doc, "an array", example),
            }
            return None;
        };
        let element = |(i, value): (usize, &'a Spanned<TomlValue>)| Self {
            path: format!("{}[{i}]", self.path),
            span: value.span(),
            kind: KeyKind::Other(""),
            value: value.get_ref(),
        };
        Some(array.iter().enumerate().map(element).collect())
    }

    /// Reads a whole number in a range.
    pub(crate) fn integer(
        &self,
        doc: &mut Document<'_>,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        let (low, high) = (range.start(), range.end());
        let TomlValue::Integer(value, shown) = self.value else {
            let wanted = format!("a whole number, {low} to {high}");
            // Users also write numbers as strings, with separators between the digits.
            let help = match self.bare() {
                Some(bare) => format!("write {bare}, without quotes or commas"),
                None => "write the number alone, without a unit".to_owned(),
            };
            let what = format_args!("{} is not {wanted}", self.quoted_value());
            doc.report(self, what, &help);
            return None;
        };
        let value = value.filter(|v| range.contains(v));
        if value.is_none() {
            let what = format!("must be between {low} and {high}, not {shown}");
            doc.report(self, what, "");
        }
        value
    }

    /// Returns the whole number that a string contains, without separators between its digits.
    fn bare(&self) -> Option<String> {
        let TomlValue::String(text) = self.value else {
            return None;
        };
        let bare: String = text
            .chars()
            .filter(|c| !matches!(c, ',' | ' ' | '_'))
            .collect();
        let digits = !bare.is_empty() && bare.bytes().all(|b| b.is_ascii_digit());
        digits.then_some(bare)
    }

    /// Reads a whole number. If it is negative or does not fit into 64 bits, the problem quotes
    /// `allowed`.
    pub(crate) fn whole_number(
        &self,
        doc: &mut Document<'_>,
        allowed: impl FnOnce() -> &'static str,
    ) -> Option<u64> {
        let TomlValue::Integer(value, _) = self.value else {
            self.mistyped(doc, &format!("a whole number, {}", allowed()), "");
            return None;
        };
        if value.is_none() {
            self.not_permitted(doc, allowed());
        }
        *value
    }

    /// Reports that a value of the right type is not permitted.
    pub(crate) fn not_permitted(&self, doc: &mut Document<'_>, allowed: impl Display) {
        let what = format!(
            "{} is not permitted; it must be {allowed}",
            self.quoted_value()
        );
        doc.report(self, what, "");
    }

    /// Reads a number of bytes without bounds.
    pub(crate) fn any_size(&self, doc: &mut Document<'_>) -> Option<u64> {
        self.unit::<ByteSize>(doc, "a size", "\"128KiB\"")
            .map(|s| s.0)
    }

    /// Reads a number of bytes per second, which can be 0.
    pub(crate) fn any_rate(&self, doc: &mut Document<'_>) -> Option<u64> {
        self.unit::<BytesPerSecond>(doc, "a rate", "\"50MB/s\"")
            .map(|r| r.0)
    }

    /// Reads a number of bytes per second, at least 1.
    pub(crate) fn rate(&self, doc: &mut Document<'_>) -> Option<u64> {
        let is_rate = matches!(self.kind, KeyKind::Rate);
        debug_assert!(is_rate, "{} is not declared as a rate", self.path);
        let rate = self.any_rate(doc)?;
        if rate == 0 {
            let key = self.path.rsplit('.').next().unwrap_or_default();
            let help = if self.path.contains(".capacity") {
                "set the rate that the drive can sustain, for example \"160MB/s\""
            } else if key.starts_with("min") {
                "remove the key for no minimum"
            } else {
                // Zero would mean no limit to the core.
                "remove the key for no limit"
            };
            doc.report(self, "must be above zero", help);
            return None;
        }
        Some(rate)
    }

    /// Reads a length of time without bounds.
    pub(crate) fn any_time(&self, doc: &mut Document<'_>) -> Option<Span> {
        self.time_like(doc, Span::from_millis(500))
    }

    fn time_like(&self, doc: &mut Document<'_>, example: Span) -> Option<Span> {
        let example = format!("\"{}\"", Time(example));
        self.unit::<Time>(doc, "a time", &example).map(|t| t.0)
    }

    /// Reads a length of time in a range.
    pub(crate) fn time_in(
        &self,
        doc: &mut Document<'_>,
        range: RangeInclusive<Span>,
    ) -> Option<Span> {
        let example = Span::from_millis(500).clamp(*range.start(), *range.end());
        let time = self.time_like(doc, example)?;
        if range.contains(&time) {
            return Some(time);
        }
        let (low, high) = (Time(*range.start()), Time(*range.end()));
        let what = format_args!(
            "must be between {low} and {high}, not {}",
            self.quoted_value()
        );
        doc.report(self, what, "");
        None
    }

    /// Reads a number of bytes in a range that is a multiple of `unit`.
    pub(crate) fn size_in(
        &self,
        doc: &mut Document<'_>,
        range: RangeInclusive<u64>,
        unit: u64,
    ) -> Option<u64> {
        let size = self.any_size(doc)?;
        if !range.contains(&size) {
            let (low, high) = (ByteSize(*range.start()), ByteSize(*range.end()));
            let what = format_args!(
                "must be between {low} and {high}, not {}",
                self.quoted_value()
            );
            doc.report(self, what, "");
            return None;
        }
        if !size.is_multiple_of(unit) {
            // One of the nearest multiples can be outside of the range, and is then not proposed.
            let (below, above) = (size / unit * unit, size.next_multiple_of(unit));
            let near = [below, above]
                .into_iter()
                .filter(|size| range.contains(size));
            let near: Vec<String> = near.map(|size| format!("\"{}\"", ByteSize(size))).collect();
            let help = format!("write {}", near.join(" or "));
            let what = format!("{} is not a multiple of {unit} bytes", self.quoted_value());
            doc.report(self, what, &help);
            return None;
        }
        Some(size)
    }

    fn unit<T: FromStr<Err = UnitError>>(
        &self,
        doc: &mut Document<'_>,
        wanted: &str,
        example: &str,
    ) -> Option<T> {
        if matches!(self.value, TomlValue::Integer(..) | TomlValue::Float(_)) {
            // The unit parser returns the help for a number without a unit.
            let text = self.quoted_value();
            let error = text.parse::<T>().err();
            let help = error.map_or_else(String::new, |e| e.help);
            let what =
                format!("{text} has no unit; it must be {wanted} in quotes, for example {example}");
            doc.report(self, what, &help);
            return None;
        }
        let parse = |text: &str| text.parse().map_err(UnitError::into_problem_parts);
        self.parsed(doc, (wanted, example), parse)
    }

    /// Reports that a value is of another type than expected.
    fn mistyped(&self, doc: &mut Document<'_>, wanted: &str, example: &str) {
        let example = if example.is_empty() {
            String::new()
        } else {
            format!("; write for example {example}")
        };
        let what = format!("{} is not {wanted}{example}", self.quoted_value());
        doc.report(self, what, "");
    }

    /// Returns the value as messages quote it.
    pub(crate) fn quoted_value(&self) -> String {
        match self.value {
            TomlValue::String(text) => quoted(text),
            TomlValue::Integer(_, number) | TomlValue::Float(number) => number.clone(),
            TomlValue::Boolean(value) => value.to_string(),
            TomlValue::Datetime(value) => value.to_string(),
            TomlValue::Array(_) => "an array".to_owned(),
            TomlValue::Table(_) => "a table".to_owned(),
        }
    }
}
