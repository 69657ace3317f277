//! Values of QEMU as trees: JSON, and options such as `driver=raw,file.filename=/a`.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// The maximum number of names in the path of an option. JSON is limited in the same way by its
/// parser.
const DEPTH_MAX: usize = 32;
/// The maximum number of keys of one option. QEMU has fewer than a hundred.
const KEYS_MAX: usize = 1000;

/// A value. Numbers and `true` are texts, because an option does not tell them apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum QemuValue {
    /// A text, a number, a truth value or `null`.
    Scalar(String),
    /// An object, whose keys are unique.
    Table(Vec<(String, Self)>),
    /// An array.
    List(Vec<Self>),
}

impl QemuValue {
    /// Returns the value of a key, if this is an object that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Table(entries) = self else {
            return None;
        };
        entries
            .iter()
            .find(|entry| entry.0 == key)
            .map(|entry| &entry.1)
    }

    /// Returns the text of a key, if this is an object that has it.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.scalar()
    }

    /// Returns this value as a text, unless it is an object or an array.
    pub(super) fn scalar(&self) -> Option<&str> {
        match self {
            Self::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the entries of an object. Other values have none.
    pub(super) fn entries(&self) -> &[(String, Self)] {
        match self {
            Self::Table(entries) => entries,
            _ => &[],
        }
    }

    /// Parses the value of an option: `key=value` with commas between them, where two commas stand
    /// for one. Dots in a key lead into objects. `implied` is the key of a first value without one.
    ///
    /// # Errors
    /// Returns the reason for which the text is not such a value.
    pub(super) fn option(text: &str, implied: &str) -> Result<Self, String> {
        let mut root = Self::Table(Vec::new());
        let parts = parts(text);
        if parts.len() > KEYS_MAX {
            return Err(format!("an option has more than {KEYS_MAX} keys"));
        }
        for (number, part) in parts.iter().enumerate() {
            let (key, value) = match part.split_once('=') {
                Some(pair) => pair,
                None if number == 0 && !implied.is_empty() => (implied, part.as_str()),
                // An option without a value is a switch.
                None => (part.as_str(), "on"),
            };
            root.insert(key, value)?;
        }
        Ok(root)
    }

    /// Inserts a value at a path with dots.
    fn insert(&mut self, path: &str, value: &str) -> Result<(), String> {
        let names: Vec<&str> = path.split('.').collect();
        if names.len() > DEPTH_MAX {
            return Err(format!("a key has more than {DEPTH_MAX} names"));
        }
        // QEMU lets the last value win. That is rarely meant, and the first could be the one that
        // the user remembers.
        let twice = || format!("the key {} is written twice", crate::text::quoted(path));
        let (last, outer) = names.split_last().expect("a split has a part");
        let mut table = self;
        for name in outer {
            let Self::Table(entries) = table else {
                return Err(twice());
            };
            let at = entries.iter().position(|entry| entry.0 == *name);
            let at = at.unwrap_or_else(|| {
                entries.push(((*name).to_owned(), Self::Table(Vec::new())));
                entries.len() - 1
            });
            table = &mut entries[at].1;
        }
        match table {
            Self::Table(entries) if entries.iter().all(|entry| entry.0 != *last) => {
                entries.push(((*last).to_owned(), Self::Scalar(value.to_owned())));
                Ok(())
            }
            _ => Err(twice()),
        }
    }
}

/// Splits a text at single commas.
fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let is_double = c == ',' && rest.next_if_eq(&',').is_some();
        match parts.last_mut() {
            Some(part) if c != ',' || is_double => part.push(c),
            _ => parts.push(String::new()),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

impl<'de> Deserialize<'de> for QemuValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QemuValueVisitor)
    }
}

/// Reads JSON. Unlike the map of `serde_json`, it refuses a key that occurs twice.
struct QemuValueVisitor;

impl<'de> Visitor<'de> for QemuValueVisitor {
    type Value = QemuValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<QemuValue, E> {
        Ok(QemuValue::Scalar("null".to_owned()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<QemuValue, E> {
        Ok(QemuValue::Scalar(value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<QemuValue, E> {
        Ok(QemuValue::Scalar(value.to_string()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<QemuValue, E> {
        Ok(QemuValue::Scalar(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<QemuValue, E> {
        // The text is never a whole number, so that it is refused as a limit.
        Ok(QemuValue::Scalar(format!("{value:?}")))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<QemuValue, E> {
        Ok(QemuValue::Scalar(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<QemuValue, A::Error> {
        let mut all = Vec::new();
        while let Some(value) = list.next_element()? {
            all.push(value);
        }
        Ok(QemuValue::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<QemuValue, A::Error> {
        let mut entries: Vec<(String, QemuValue)> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        while let Some((key, value)) = map.next_entry::<String, QemuValue>()? {
            if !seen.insert(key.clone()) {
                let key = crate::text::quoted(&key);
                return Err(A::Error::custom(format!("the key {key} is written twice")));
            }
            entries.push((key, value));
        }
        Ok(QemuValue::Table(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_reads_as_its_json() {
        let option = "throttle,node-name=a,,b,file.driver=raw,file.file.filename=/x=y,discard";
        let json = r#"{"driver": "throttle", "node-name": "a,b",
            "file": {"driver": "raw", "file": {"filename": "/x=y"}}, "discard": "on"}"#;
        let json: QemuValue = serde_json::from_str(json).unwrap();
        assert_eq!(QemuValue::option(option, "driver"), Ok(json));
        for wrong in ["a=1,a=2", "a=1,a.b=2", "a.b=1,a=2", &"a.".repeat(40)] {
            assert!(QemuValue::option(wrong, "").is_err(), "{wrong}");
        }
        let twice = serde_json::from_str::<QemuValue>(r#"{"a": 1, "b": 2, "a": 3}"#);
        assert!(
            twice
                .unwrap_err()
                .to_string()
                .contains("\"a\" is written twice")
        );
    }
}
