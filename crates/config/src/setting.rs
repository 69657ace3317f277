//! Changes of contracts on a command line: `--set alpha.min=20MB/s`.

use crate::field;
use crate::key::MAX;
use crate::terms::capacity_values;
use crate::{ContractText, Problem};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use toml::{Table, Value};
use weir_core::{Capacity, Contract};

/// A key of a contract with its new value, in the words of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The name of the volume, client or group whose contract changes.
    pub whose: String,
    /// The path of the key: `min`, or `max` followed by `iops`.
    key: Vec<String>,
    /// The new value. If it is empty, the key is removed.
    value: String,
}

/// The keys of a contract that can be set.
const KEYS: [&str; 5] = ["min", "min_iops", "share", "max", "class"];
/// The help for a text that is not a setting.
const HELP: &str =
    "write for example alpha.min=20MB/s or alpha.max.iops=500; alpha.max= removes a key";

impl FromStr for Setting {
    type Err = String;

    /// Reads `NAME.KEY=VALUE`. The name can contain dots.
    fn from_str(text: &str) -> Result<Self, String> {
        let (path, value) = text.split_once('=').ok_or(HELP)?;
        let of_max = MAX.names().into_iter().map(|key| format!("max.{key}"));
        let keys: Vec<String> = KEYS.map(str::to_owned).into_iter().chain(of_max).collect();
        let named = |key: &String| {
            let whose = path.trim().strip_suffix(key.as_str())?.strip_suffix('.')?;
            (!whose.is_empty()).then(|| (whose.to_owned(), key.clone()))
        };
        // The longest key applies: `a.max.iops` is a limit of `a`, not a key of `a.max`.
        let longest = keys
            .iter()
            .filter_map(named)
            .max_by_key(|(_, key)| key.len());
        let Some((whose, key)) = longest else {
            let known = KEYS.join(", ");
            return Err(format!(
                "{path} does not end in one of the keys {known}; {HELP}"
            ));
        };
        Ok(Self {
            whose,
            key: key.split('.').map(str::to_owned).collect(),
            value: value.trim().to_owned(),
        })
    }
}

impl Display for Setting {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (whose, key) = (&self.whose, self.key.join("."));
        write!(f, "{whose}.{key}={}", self.value)
    }
}

impl Setting {
    /// Returns the contract with this setting applied, as the server's file would be read on a
    /// drive of this capacity. `None` stands for a drive without limits.
    ///
    /// # Errors
    /// The problem of a server's file with this setting.
    pub fn apply(
        &self,
        contract: &Contract,
        capacity: Option<Capacity>,
    ) -> Result<Contract, Problem> {
        // A printed contract is always valid TOML.
        let mut terms: Table = (ContractText(contract).to_string().parse()).unwrap_or_default();
        self.put(&mut terms);
        // The contract is read as that of a volume, so that all rules for a server's file apply to
        // it.
        let own = toml::to_string(&Table::from_iter([(
            "volume".to_owned(),
            Value::Table(Table::from_iter([("v".to_owned(), Value::Table(terms))])),
        )]));
        let text = format!(
            "listen.nbd = [\"unix:/run/weir.sock\"]\n[drive.d]\npolicy = \"none\"\ncapacity = {}\n{}\n",
            field::PrintedValue::Table(capacity_values(capacity.or(Some(ENDLESS)))),
            own.unwrap_or_default()
        );
        let server = crate::parse("", &text).map_err(|problems| {
            let first = problems.into_iter().next();
            let (message, help) = first.map_or_else(Default::default, |p| (p.message, p.help));
            self.problem(self.own(&message), help.map(|help| self.own(&help)))
        })?;
        Ok(server.volumes.first().map_or(*contract, |v| v.contract))
    }

    /// Replaces the names of the auxiliary file in a text by those of the setting.
    fn own(&self, text: &str) -> String {
        text.replace("drive.d.capacity", "the drive's capacity")
            .replace("drive.d", "the drive")
            .replace("volume.v", &self.whose)
    }

    /// Returns a problem with the setting.
    pub(crate) fn problem(&self, message: String, help: Option<String>) -> Problem {
        let help = help.unwrap_or_default();
        Problem::new("", (0, 0), &self.to_string(), message, &help)
    }

    /// Adds the setting to the keys of a volume in the auxiliary file.
    fn put(&self, terms: &mut Table) {
        let rest = [
            ("drive", Value::from("d")),
            ("memory", Value::from(true)),
            ("size", Value::from("1GiB")),
        ];
        terms.extend(rest.map(|(key, value)| (key.to_owned(), value)));
        // A number is a plain value in TOML, and any other value a string.
        let value = match self.value.parse::<i64>() {
            Ok(number) => Value::from(number),
            Err(_) => Value::from(&self.value[..]),
        };
        let (key, below) = (&self.key[0], self.key.get(1));
        if key.starts_with("min") {
            // A min in bytes replaces one in requests, and the reverse.
            terms.retain(|key, _| !key.starts_with("min"));
        }
        let Some(below) = below else {
            terms.remove(key);
            if !self.value.is_empty() {
                terms.insert(key.clone(), value);
            }
            return;
        };
        let table = terms
            .entry(key.clone())
            .or_insert(Value::Table(Table::new()));
        if let Some(table) = table.as_table_mut() {
            table.remove(below);
            if !self.value.is_empty() {
                table.insert(below.clone(), value);
            }
            // A `max` without a rate limits nothing and would be refused, so it is removed.
            if !table
                .keys()
                .any(|key| !["burst", "iops_size"].contains(&&key[..]))
            {
                terms.remove(key);
            }
        }
    }
}

/// A capacity above that of any drive, for a contract on a drive whose capacity is not stated. The
/// core then decides.
const ENDLESS: Capacity = Capacity {
    read: 1_000_000_000_000_000,
    write: 1_000_000_000_000_000,
    iops: 1_000_000_000_000,
    ..Capacity::NONE
};

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> Contract {
        let mut contract = Contract::DEFAULT.with_min_iops(100);
        contract.max.iops = 5000;
        let setting: Setting = text.parse().unwrap();
        assert_eq!(setting.to_string(), text);
        setting.apply(&contract, None).unwrap()
    }

    #[test]
    fn a_key_of_the_file_is_changed_and_the_rest_stays() {
        let share = set("a.b.share=300");
        assert_eq!((share.share, share.min_iops), (300, 100));
        let min = set("alpha.min=20MB/s");
        // The new min in bytes replaces the min of 100 requests per second.
        assert_eq!((min.min, min.min_iops), (20_000_000, 0));
        assert_eq!(set("alpha.min_iops=").min_iops, 0);
        let both = set("alpha.max.bandwidth=5MB/s");
        assert_eq!((both.max.bandwidth, both.max.iops), (5_000_000, 5000));
        let max = set("alpha.max=5MB/s").max;
        // A single rate replaces the whole max, and sets its bandwidth.
        assert_eq!((max.bandwidth, max.iops), (5_000_000, 0));
        assert!(!set("alpha.max=").max.is_limited());
        assert!(!set("alpha.max.iops=").max.is_limited());
        let counted = set("alpha.max.iops_size=256KiB").max;
        assert_eq!((counted.iops, counted.iops_size), (5000, 256 << 10));
    }

    #[test]
    fn settings_are_refused_for_the_same_errors_as_keys_of_the_file() {
        for text in ["alpha", "alpha.min", "min=2MB/s", "alpha.size=2GiB"] {
            assert!(text.parse::<Setting>().is_err(), "{text}");
        }
        let setting: Setting = "alpha.min=20MB".parse().unwrap();
        let refused = setting.apply(&Contract::DEFAULT, None).unwrap_err();
        assert_eq!(refused.key, "alpha.min=20MB");
        assert!(refused.message.contains("a size, not a rate"), "{refused}");
    }
}
