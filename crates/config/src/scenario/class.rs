//! I/O priorities as classes of contracts, under policies that use classes.

use super::Scenario;
use crate::admission::contradiction_in;
use crate::policy::Policy;
use weir_core::{Class, Contract, PriorityClass};

/// The message for an I/O priority that does not result in a class.
pub(super) const UNCLASSED: &str = "has no effect under policies with classes, such as contract";

/// The reason why an I/O priority does not result in a class, and the help.
pub(super) type ClassProblem = (&'static str, &'static str);

/// Returns the class that follows from an I/O priority if the contract states none. `None` stands
/// for the default class.
pub(super) fn of_priority(
    priority: PriorityClass,
    contract: &Contract,
) -> Result<Option<Class>, ClassProblem> {
    let (class, why) = match priority {
        PriorityClass::BestEffort => return Ok(None),
        PriorityClass::Idle => (
            Class::Idle,
            (
                "an idle client cannot have a min, and the min takes precedence",
                "set class = \"best-effort\", or remove the min",
            ),
        ),
        PriorityClass::Realtime => (
            Class::Realtime,
            (
                "a realtime client requires a max",
                "set a max, for example max = { bandwidth = \"20MB/s\" }, or set class",
            ),
        ),
    };
    // Admission refuses an idle class with a min and a realtime class without a max. A priority
    // must not make a contract invalid.
    let contract = Contract { class, ..*contract };
    match contradiction_in(&contract) {
        None => Ok(Some(class)),
        Some(_) => Err(why),
    }
}

impl Scenario {
    /// Returns the scenario as it runs under a policy. If the policy uses classes, an I/O priority
    /// becomes the class of a contract that states none. If all clients are in the root group, as
    /// `fio` jobs are, each then gets a group of its own.
    #[must_use]
    pub fn under(mut self, policy: &Policy) -> Self {
        if !policy.uses_classes() {
            return self;
        }
        // A class belongs to a group's contract, and the root has none.
        if self.groups.is_empty() && !self.classes.is_empty() {
            self.give_own_groups();
        }
        for (client, class) in std::mem::take(&mut self.classes) {
            let group = (self.clients[client].group.0 as usize).checked_sub(1);
            if let Some(group) = group.and_then(|at| self.groups.get_mut(at)) {
                group.contract.class = class;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::find;
    use crate::scenario::{Choice, parse};

    /// Returns the classes of all clients under a policy, and the remarks about priorities that do
    /// not result in a class.
    fn played(text: &str, file: &str, policy: &str) -> (Vec<Class>, Vec<String>) {
        let drive =
            weir_model::drive::DriveConfig::Null(weir_model::drive::null::NullConfig::demo());
        let choice = Choice::new(&drive, None, policy);
        let scenario = parse(text, file).unwrap().scenario(&choice).unwrap();
        let remarks = scenario.unclassed.iter().map(ToString::to_string);
        let remarks = remarks.collect();
        let scenario = scenario.under(&find(policy).unwrap());
        let classes = (0..scenario.clients.len()).map(|at| scenario.contract(at).class);
        (classes.collect(), remarks)
    }

    fn client(keys: &str) -> String {
        format!("[[client]]\nname = \"a\"\ndirect = true\nsize = \"1MiB\"\n{keys}\n")
    }

    #[test]
    fn a_priority_sets_an_unstated_class_if_the_contract_permits() {
        let (idle, ordinary, realtime) = (Class::Idle, Class::BestEffort, Class::Realtime);
        for (keys, class, remark) in [
            ("ionice = \"idle\"", idle, ""),
            // A stated class takes precedence over the I/O priority.
            ("ionice = \"idle:7\"\nclass = \"best-effort\"", ordinary, ""),
            // The level has no effect on the class.
            ("ionice = \"best-effort:0\"", ordinary, ""),
            (
                "ionice = \"idle\"\nmin = \"1MB/s\"",
                ordinary,
                "an idle client cannot have a min",
            ),
            (
                "ionice = \"realtime\"",
                ordinary,
                "a realtime client requires a max",
            ),
            ("ionice = \"realtime\"\nmax = { iops = 5 }", realtime, ""),
            (
                "ionice = \"idle\"\ngroup = \"g\"",
                ordinary,
                "the client has the class of its group",
            ),
        ] {
            let text = format!("[[group]]\nname = \"g\"\n\n{}", client(keys));
            let (classes, remarks) = played(&text, "x.toml", "contract");
            assert_eq!(classes, [class], "{keys}");
            assert_eq!(remarks.len(), usize::from(!remark.is_empty()), "{keys}");
            assert!(remarks.iter().all(|r| r.contains(remark)), "{remarks:?}");
            assert!(
                remarks
                    .iter()
                    .all(|r| r.starts_with("x.toml:8:10: client[0].ionice: ")),
                "{remarks:?}"
            );
            assert_eq!(
                played(&text, "x.toml", "bfq").0,
                [ordinary],
                "{keys}: Linux's own go by the priority"
            );
        }
    }

    #[test]
    fn jobs_of_fio_have_groups_where_one_has_a_class() {
        let job = |more: &str| {
            format!("[global]\nruntime=1\n[a]\nrw=read\nsize=1m\n[b]\nrw=read\nsize=1m\n{more}")
        };
        let classes = |more: &str, policy: &str| played(&job(more), "x.fio", policy);
        let both = vec![Class::BestEffort, Class::Idle];
        let none = vec![Class::BestEffort; 2];
        assert_eq!(classes("prioclass=3\n", "contract"), (both, Vec::new()));
        assert_eq!(classes("prioclass=3\n", "bfq").0, none);
        assert_eq!(classes("", "contract").0, none);
        // The class realtime requires a max, which a job cannot have.
        let (realtime, remarks) = classes("prioclass=1\n", "contract");
        assert_eq!((realtime, remarks.len()), (none, 1));
        assert!(
            remarks[0].starts_with("x.fio:9:1: prioclass: "),
            "{remarks:?}"
        );
    }
}
