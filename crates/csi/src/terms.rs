//! Translates the parameters of a storage class into the keys of the server's configuration.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Value, json};
use tonic::Status;
use weir_manage::api::JsonTable;

use crate::attach::vhost;

/// The prefix of parameters that Kubernetes adds for other components.
const OTHERS: &str = "csi.storage.k8s.io/";

/// The way in which a volume becomes a block device of its node, or of virtual machines there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum AttachMethod {
    /// Through the kernel's NBD client, which the driver controls.
    #[default]
    Nbd,
    /// Through ublk: the server makes the device.
    Ublk,
    /// Through a vhost-user socket, at which VMMs find the disk.
    Vhost,
}

impl AttachMethod {
    /// Returns the way in which a volume is attached, according to its configuration.
    pub(crate) fn of(config: &JsonTable) -> Self {
        if config.get("ublk") == Some(&Value::Bool(true)) {
            Self::Ublk
        } else if vhost::of(config).is_some() {
            Self::Vhost
        } else {
            Self::Nbd
        }
    }
}

/// The requirements for a volume.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct ClassTerms {
    /// The drive on which the volume must be. If absent, any drive that accepts it.
    pub(crate) drive: Option<String>,
    /// The tenant that the volume must belong to, if any.
    pub(crate) tenant: Option<String>,
    pub(crate) attach: AttachMethod,
    /// The contract, in the keys of the configuration file.
    pub(crate) contract: JsonTable,
}

impl ClassTerms {
    /// Reads parameters. Mutable ones take precedence over fixed ones. The server checks the values
    /// of the contract.
    pub(crate) fn read(
        fixed: &HashMap<String, String>,
        mutable: &HashMap<String, String>,
    ) -> Result<Self, Status> {
        let mut terms = Self::default();
        let mut words: HashMap<&str, &str> = HashMap::new();
        for (key, value) in fixed.iter().filter(|(key, _)| !key.starts_with(OTHERS)) {
            match key.as_str() {
                "drive" => terms.drive = Some(value.clone()),
                "tenant" => terms.tenant = Some(value.clone()),
                "attach" => terms.attach = attach(value)?,
                key => {
                    words.insert(key, value);
                }
            }
        }
        // Inserted last, so that they replace fixed parameters with the same key.
        words.extend(mutable.iter().map(|(key, value)| (&key[..], &value[..])));
        terms.contract = contract(words, "drive, tenant, attach and those of a contract")?;
        Ok(terms)
    }

    /// Returns the configuration of such a volume. Its size is that of its file. If it needs a
    /// socket, the socket is in the directory `sockets`.
    ///
    /// # Errors
    /// Returns an error if the name is too long for the path of a socket.
    pub(crate) fn words(
        &self,
        (name, drive): (&str, &str),
        file: &Path,
        sockets: &Path,
    ) -> Result<JsonTable, Status> {
        let mut words = self.contract.clone();
        words.insert("drive".to_owned(), drive.into());
        words.insert("file".to_owned(), json!(file));
        if let Some(tenant) = &self.tenant {
            words.insert("tenant".to_owned(), tenant.as_str().into());
        }
        match self.attach {
            AttachMethod::Nbd => {}
            AttachMethod::Ublk => {
                words.insert("ublk".to_owned(), true.into());
            }
            AttachMethod::Vhost => {
                let socket = vhost::path(sockets, name)?;
                words.insert("listen".to_owned(), json!({ "vhost": socket }));
            }
        }
        Ok(words)
    }

    /// Returns the edit that gives a volume exactly this contract. Keys that are not part of it are
    /// removed.
    pub(crate) fn whole(&self) -> JsonTable {
        // null removes a key that the contract does not have.
        let keys = weir_config::contract_keys().map(|key| (key.to_owned(), Value::Null));
        let mut words: JsonTable = keys.collect();
        words.extend(self.contract.clone());
        words
    }
}

/// Returns the keys of a contract in parameters that can be changed for an existing volume.
pub(crate) fn mutable(parameters: &HashMap<String, String>) -> Result<JsonTable, Status> {
    let own = parameters
        .iter()
        .filter(|(key, _)| !key.starts_with(OTHERS));
    contract(
        own.map(|(key, value)| (&key[..], &value[..])),
        "those of a contract",
    )
}

/// Checks that all keys belong to a contract, and parses their values.
fn contract<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    permitted: &str,
) -> Result<JsonTable, Status> {
    // A hash map has no order. Sorting makes the errors the same for the same parameters.
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_unstable();
    let keys = || weir_config::contract_keys();
    for (key, _) in &pairs {
        // `max.bandwidth` is a key of the table `max`.
        let first = key.split('.').next().unwrap_or_default();
        if !keys().any(|known| known == first) {
            let keys: Vec<_> = keys().collect();
            let said = format!(
                "unknown parameter {key:?}; use one of {permitted}: {}",
                keys.join(", ")
            );
            return Err(Status::invalid_argument(said));
        }
    }
    weir_manage::api::words(pairs).map_err(Status::invalid_argument)
}

fn attach(value: &str) -> Result<AttachMethod, Status> {
    match value {
        "nbd" => Ok(AttachMethod::Nbd),
        "ublk" => Ok(AttachMethod::Ublk),
        "vhost" => Ok(AttachMethod::Vhost),
        other => {
            let said =
                format!("attach = {other:?} is not supported; use \"nbd\", \"ublk\" or \"vhost\"");
            Err(Status::invalid_argument(said))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        let pairs = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        pairs.collect()
    }

    #[test]
    fn parameters_are_keys_of_the_file_and_mutable_ones_override_them() {
        let fixed = map(&[
            ("drive", "fast"),
            ("attach", "ublk"),
            ("min", "10MB/s"),
            ("max.bandwidth", "50MB/s"),
            ("csi.storage.k8s.io/pvc/name", "claim"),
        ]);
        let terms = ClassTerms::read(&fixed, &map(&[("min", "20MB/s"), ("share", "200")])).unwrap();
        let expected = json!({
            "min": "20MB/s", "share": 200, "max": { "bandwidth": "50MB/s" },
            "drive": "fast", "file": "/f", "ublk": true,
        });
        let words = |terms: &ClassTerms| {
            let words = terms.words(("a", "fast"), Path::new("/f"), Path::new("/s"));
            Value::Object(words.unwrap())
        };
        assert_eq!(words(&terms), expected);
        let fixed = map(&[("attach", "vhost")]);
        let socket = ClassTerms::read(&fixed, &map(&[])).unwrap();
        let expected =
            json!({ "drive": "fast", "file": "/f", "listen": { "vhost": "/s/a.vhost" } });
        assert_eq!(words(&socket), expected);
        for terms in [&terms, &socket, &ClassTerms::default()] {
            let words = words(terms);
            assert_eq!(AttachMethod::of(words.as_object().unwrap()), terms.attach);
        }
        assert_eq!(terms.whole()["class"], Value::Null);
        assert_eq!(terms.whole()["share"], 200);
    }

    #[test]
    fn unknown_parameters_are_refused_by_name() {
        for (fixed, changed) in [
            (&[("file", "/etc/passwd")][..], &[][..]),
            (&[("mni", "10MB/s")], &[]),
            (&[], &[("drive", "fast")]),
            (&[("attach", "scsi")], &[]),
            (&[], &[("max", "1"), ("max.iops", "1")]),
        ] {
            let refused = ClassTerms::read(&map(fixed), &map(changed)).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
        }
        assert!(mutable(&map(&[("min", "1MB/s")])).is_ok());
        assert!(mutable(&map(&[("attach", "nbd")])).is_err());
    }
}
