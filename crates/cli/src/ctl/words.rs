//! Parses the names of items and `KEY=VALUE` arguments of the command line.

use crate::failure::Failure;
use weir_manage::api::JsonTable;

/// The object of a change. It is a volume, unless the name begins with `tenant.` or `drive.`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangeTarget {
    /// One of `volume`, `tenant` and `drive`.
    pub(crate) kind: &'static str,
    pub(crate) name: String,
}

impl ChangeTarget {
    /// Parses a name such as `alpha`, `volume.alpha`, `tenant.acme` or `drive.fast`.
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

    /// Returns the path of the item in the management interface.
    pub(crate) fn path(&self) -> String {
        weir_manage::api::path(self.kind, &self.name)
    }
}

/// Parses `KEY=VALUE` arguments, such as `min=20MB/s`, `max.iops=500` or `share=200`. An empty
/// value, as in `min=`, removes the key.
pub(super) fn words(arguments: &[String]) -> Result<JsonTable, Failure> {
    let pair = |argument: &'_ String| {
        let pair = argument.split_once('=');
        pair.map(|(key, text)| (key.trim().to_owned(), text.trim().to_owned()))
            .ok_or_else(|| {
                Failure::Usage(format!(
                    "{argument:?} is not of the form KEY=VALUE; write for example min=20MB/s, or KEY= to remove a key"
                ))
            })
    };
    let pairs: Vec<_> = arguments.iter().map(pair).collect::<Result<_, _>>()?;
    let pairs = pairs.iter().map(|(key, text)| (&key[..], &text[..]));
    weir_manage::api::words(pairs).map_err(Failure::Usage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(arguments: &[&str]) -> Result<Value, Failure> {
        let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
        words(&arguments).map(Value::Object)
    }

    #[test]
    fn spaces_around_and_further_signs_of_equality_are_permitted() {
        let expected = json!({ "max": { "iops": 5 }, "file": "/a b=c" });
        assert_eq!(read(&["max.iops = 5", "file=/a b=c"]), Ok(expected));
    }

    #[test]
    fn malformed_arguments_are_refused() {
        for wrong in [&["min"][..], &["=3"], &["min=1", "min=2"]] {
            assert!(matches!(read(wrong), Err(Failure::Usage(_))), "{wrong:?}");
        }
    }

    #[test]
    fn a_target_has_its_path() {
        for (text, path) in [
            ("alpha", "/v1/volumes/alpha"),
            ("tenant.acme", "/v1/tenants/acme"),
            ("volume.tenant.x", "/v1/volumes/tenant.x"),
            ("drive.", "/v1/volumes/drive."),
        ] {
            assert_eq!(ChangeTarget::parse(text).path(), path);
        }
    }
}
