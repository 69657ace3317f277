//! Contracts as a command line changes them: `--set alpha.min=20MB/s`.

use crate::failure::Failure;
use std::str::FromStr;
use weir_config::Terms;
use weir_core::{Capacity, Contract};

/// One change.
#[derive(Clone, Debug)]
pub(super) struct Set {
    /// Whose contract.
    pub(super) volume: String,
    key: String,
    value: String,
}

impl FromStr for Set {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = "write it as alpha.min=20MB/s";
        let (key, value) = text.split_once('=').ok_or(help)?;
        let (volume, key) = key.rsplit_once('.').ok_or(help)?;
        if volume.is_empty() || value.is_empty() {
            return Err(help.into());
        }
        let known = ["min", "min_iops", "share", "max", "class"];
        if !known.contains(&key) {
            return Err(format!(
                "{key} is none of {}; max is a bandwidth",
                known.join(", ")
            ));
        }
        Ok(Self {
            volume: volume.into(),
            key: key.into(),
            value: value.into(),
        })
    }
}

impl Set {
    /// The contract with this change, as the server's file would be read.
    pub(super) fn apply(
        &self,
        contract: &Contract,
        capacity: Option<Capacity>,
    ) -> Result<Contract, Failure> {
        let kept = Terms(contract).to_string();
        // A min in bytes takes the place of one in requests, and the other way round.
        let replaced = |line: &str| {
            let key = line.split_once(" = ").map_or(line, |l| l.0);
            key == self.key || (key.starts_with("min") && self.key.starts_with("min"))
        };
        let mut lines: Vec<String> = kept
            .lines()
            .filter(|l| !replaced(l))
            .map(str::to_owned)
            .collect();
        let value = match (self.value.parse::<u64>(), self.key.as_str()) {
            (_, "max") => format!("{{ bandwidth = \"{}\" }}", self.value),
            (Ok(number), _) => number.to_string(),
            _ => format!("\"{}\"", self.value),
        };
        lines.push(format!("{} = {value}", self.key));
        let text = format!(
            "[listen]\nnbd = [\"unix:/run/weir.sock\"]\n[drive.d]\npolicy = \"none\"\n{}\n[volume.v]\ndrive = \"d\"\nmemory = true\nsize = \"1GiB\"\n{}\n",
            stated(capacity.unwrap_or(ENDLESS)),
            lines.join("\n")
        );
        let server = weir_config::parse("", &text).map_err(|problems| {
            let said = problems.first().map_or_else(String::new, |problem| {
                let help = problem.help.iter().map(|help| format!("; {help}"));
                problem.message.clone() + &help.collect::<String>()
            });
            let Self { volume, key, value } = self;
            Failure::Usage(format!("--set {volume}.{key}={value}: {said}"))
        })?;
        Ok(server.volumes.first().map_or(*contract, |v| v.contract))
    }
}

/// More than any drive does: where nothing is stated, the core has the last word.
const ENDLESS: Capacity = Capacity {
    read: 1_000_000_000_000_000,
    write: 1_000_000_000_000_000,
    iops: 1_000_000_000_000,
    ..Capacity::NONE
};

/// A drive's capacity as a line of the file.
fn stated(capacity: Capacity) -> String {
    let requests = [
        ("iops", capacity.iops),
        ("read_iops", capacity.read_iops),
        ("write_iops", capacity.write_iops),
    ];
    let requests = requests.into_iter().filter(|(_, rate)| *rate > 0);
    let requests: Vec<String> = requests
        .map(|(key, rate)| format!(", {key} = {rate}"))
        .collect();
    let Capacity { read, write, .. } = capacity;
    format!(
        "capacity = {{ read = \"{read}B/s\", write = \"{write}B/s\"{} }}",
        requests.concat()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> Contract {
        let contract = Contract {
            min_iops: 100,
            ..Contract::DEFAULT
        };
        let set: Set = text.parse().unwrap();
        set.apply(&contract, None).unwrap()
    }

    #[test]
    fn a_key_of_the_file_is_changed_and_the_rest_stays() {
        let share = set("a.b.share=300");
        assert_eq!((share.share, share.min_iops), (300, 100));
        let min = set("alpha.min=20MB/s");
        assert_eq!((min.min, min.min_iops), (20_000_000, 0));
        let max = set("alpha.max=5MB/s");
        assert_eq!((max.max.bandwidth, max.min_iops), (5_000_000, 100));
    }

    #[test]
    fn what_the_file_would_be_refused_for_is_refused() {
        for text in [
            "alpha",
            "alpha.min",
            "min=2MB/s",
            "alpha.size=2GiB",
            "alpha.min=",
        ] {
            assert!(text.parse::<Set>().is_err(), "{text}");
        }
        let set: Set = "alpha.min=20MB".parse().unwrap();
        let refused = set.apply(&Contract::DEFAULT, None).unwrap_err();
        let Failure::Usage(said) = refused else {
            panic!("{refused:?}");
        };
        assert!(said.contains("a size, not a rate"), "{said}");
    }
}
