//! What is written on the command line, in the words of the file.

use crate::failure::Failure;
use serde_json::{Map, Value};
use weir_api::Words;

/// What a change is about: a volume, unless `tenant.` or `drive.` stands before the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// `volume`, `tenant` or `drive`.
    pub(crate) kind: &'static str,
    pub(crate) name: String,
}

impl Target {
    /// Reads `alpha`, `volume.alpha`, `tenant.acme` or `drive.fast`.
    pub(crate) fn parse(text: &str) -> Self {
        let kinds = ["volume", "tenant", "drive"].into_iter();
        let mut named = kinds.filter_map(|kind| {
            let name = text.strip_prefix(kind)?.strip_prefix('.')?;
            Some((kind, name)).filter(|_| !name.is_empty())
        });
        let (kind, name) = named.next().unwrap_or(("volume", text));
        Self {
            kind,
            name: name.to_owned(),
        }
    }

    /// Where the interface has it.
    pub(crate) fn path(&self) -> String {
        format!("/v1/{}s/{}", self.kind, encoded(&self.name))
    }
}

/// A name as a part of a path: everything but letters, digits, `-`, `_` and `.` is encoded by its bytes, and so is a name of dots alone.
fn encoded(name: &str) -> String {
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

/// The words of `KEY=VALUE` arguments: `min=20MB/s`, `max.iops=500`, `share=200`; `min=` removes the key.
pub(super) fn words(arguments: &[String]) -> Result<Words, Failure> {
    let mut words = Words::new();
    for argument in arguments {
        let Some((key, text)) = argument.split_once('=') else {
            return Err(Failure::Usage(format!(
                "{argument:?} is not KEY=VALUE, as min=20MB/s; KEY= removes a key"
            )));
        };
        insert(&mut words, key.trim(), value(text.trim())).map_err(Failure::Usage)?;
    }
    Ok(words)
}

fn insert(words: &mut Words, key: &str, value: Value) -> Result<(), String> {
    let mut table = words;
    let mut parts: Vec<&str> = key.split('.').collect();
    let last = parts.pop().unwrap_or_default();
    if last.is_empty() || parts.contains(&"") {
        return Err(format!("{key:?} is no key, as min or max.iops"));
    }
    for part in parts {
        let inner = table.entry(part).or_insert_with(|| Map::new().into());
        table = inner
            .as_object_mut()
            .ok_or_else(|| format!("{part} is said twice"))?;
    }
    match table.insert(last.to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(format!("{key} is said twice")),
    }
}

/// A value: as TOML where it is some, else a text, so that `min=20MB/s` needs no quotes.
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

    fn read(arguments: &[&str]) -> Result<Value, Failure> {
        let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
        words(&arguments).map(Value::Object)
    }

    #[test]
    fn values_are_those_of_the_file_with_or_without_quotes() {
        let read = read(&[
            "min=20MB/s",
            "share=200",
            "max.bandwidth=\"50MB/s\"",
            "max.iops = 5",
            "read_only=true",
            "tenant=",
            "limits={ volumes = 3 }",
            "file=/a b=c",
        ]);
        let expected = json!({
            "min": "20MB/s", "share": 200, "max": { "bandwidth": "50MB/s", "iops": 5 }, "read_only": true,
            "tenant": null, "limits": { "volumes": 3 }, "file": "/a b=c",
        });
        assert_eq!(read, Ok(expected));
    }

    #[test]
    fn what_is_no_word_is_refused() {
        for wrong in [
            &["min"][..],
            &["=3"],
            &["a..b=1"],
            &["min=1", "min=2"],
            &["max=1", "max.iops=2"],
        ] {
            assert!(matches!(read(wrong), Err(Failure::Usage(_))), "{wrong:?}");
        }
    }

    #[test]
    fn names_are_encoded_in_paths() {
        for (text, path) in [
            ("alpha", "/v1/volumes/alpha"),
            ("tenant.acme", "/v1/tenants/acme"),
            ("volume.tenant.x", "/v1/volumes/tenant.x"),
            ("drive.", "/v1/volumes/drive."),
            ("a/b ä", "/v1/volumes/a%2Fb%20%C3%A4"),
            ("..", "/v1/volumes/%2E%2E"),
        ] {
            assert_eq!(Target::parse(text).path(), path);
        }
    }
}
