//! Parses keys and values of the configuration that are given one by one, and makes the paths of
//! the interface.

use crate::api::JsonTable;
use serde_json::{Map, Value};

/// Returns the path of a table in the interface. `kind` is `volume`, `tenant` or `drive`.
pub fn path(kind: &str, name: &str) -> String {
    format!("/v1/{kind}s/{}", encoded(name))
}

/// Encodes a name for use in a path or a file name. All bytes except letters, digits, `-`, `_` and
/// `.` are percent-encoded. The dots of a name that consists of dots only are encoded as well.
pub fn encoded(name: &str) -> String {
    // `.` and `..` have a meaning in paths.
    let dots = name.bytes().all(|b| b == b'.');
    let byte = |byte: u8| match byte {
        b'.' if dots => "%2E".to_owned(),
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' | b'.' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    name.bytes().map(byte).collect()
}

/// Returns the table for pairs such as `min` and `20MB/s`, or `max.iops` and `500`. An empty value
/// removes the key.
///
/// # Errors
/// Returns an error if a key is invalid or is given twice.
pub fn words<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<JsonTable, String> {
    let mut words = JsonTable::new();
    for (key, text) in pairs {
        insert(&mut words, key, value(text))?;
    }
    Ok(words)
}

/// Inserts a value at a key with dots, and makes the tables on the way.
fn insert(words: &mut JsonTable, key: &str, value: Value) -> Result<(), String> {
    let mut table = words;
    let mut parts: Vec<&str> = key.split('.').collect();
    let last = parts.pop().unwrap_or_default();
    if last.is_empty() || parts.contains(&"") {
        return Err(format!(
            "{key:?} is not a key; write for example min or max.iops"
        ));
    }
    for part in parts {
        let inner = table.entry(part).or_insert_with(|| Map::new().into());
        table = inner
            .as_object_mut()
            // `max` and `max.iops` exclude each other.
            .ok_or_else(|| format!("{part} is given twice"))?;
    }
    match table.insert(last.to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(format!("{key} is given twice")),
    }
}

/// Parses a value as TOML. If that fails, it is a text, so that `min=20MB/s` needs no quotes.
fn value(text: &str) -> Value {
    if text.is_empty() {
        return Value::Null;
    }
    let parsed = format!("x = {text}").parse::<toml::Table>();
    let value = parsed.ok().and_then(|mut table| table.remove("x"));
    let value = value.and_then(|value| serde_json::to_value(value).ok());
    value.unwrap_or_else(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_have_the_form_of_the_file_with_or_without_quotes() {
        let read = words([
            ("min", "20MB/s"),
            ("share", "200"),
            ("max.bandwidth", "\"50MB/s\""),
            ("max.iops", "5"),
            ("read_only", "true"),
            ("tenant", ""),
            ("limits", "{ volumes = 3 }"),
            ("file", "/a b=c"),
        ]);
        let expected = json!({
            "min": "20MB/s", "share": 200, "max": { "bandwidth": "50MB/s", "iops": 5 }, "read_only": true,
            "tenant": null, "limits": { "volumes": 3 }, "file": "/a b=c",
        });
        assert_eq!(read.map(Value::Object), Ok(expected));
    }

    #[test]
    fn invalid_keys_are_refused() {
        for wrong in [
            &[("", "3")][..],
            &[("a..b", "1")],
            &[("min", "1"), ("min", "2")],
            &[("max", "1"), ("max.iops", "2")],
        ] {
            assert!(words(wrong.iter().copied()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn names_are_encoded_in_paths() {
        for (kind, name, expected) in [
            ("tenant", "acme", "/v1/tenants/acme"),
            ("volume", "a/b ä", "/v1/volumes/a%2Fb%20%C3%A4"),
            ("volume", "..", "/v1/volumes/%2E%2E"),
        ] {
            assert_eq!(path(kind, name), expected);
        }
    }
}
