//! Detection of the parts of a contract that a policy does not keep.

use super::{
    ClassEffect, LatencyEffect, MaxEffect, MinEffect, Policy, PolicyController, ShareEffect,
};
use crate::text::quoted;
use weir_core::elevator::Config;
use weir_core::{Class, Contract, Knobs, LowKnobs, Span};

/// A part of a contract that a policy does not keep, with the advice to the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnkeptPart {
    /// The key of the part, such as `min`.
    pub key: &'static str,
    /// The effect that the policy gives to the part instead, as a verb phrase.
    pub does: &'static str,
    /// A change that lets the policy keep the part.
    pub help: String,
}

impl Policy {
    /// Returns the parts of a contract, and of the settings of its controllers, that the policy
    /// does not keep.
    pub fn unkept(&self, contract: &Contract, knobs: Knobs) -> Vec<UnkeptPart> {
        let mut all = Vec::new();
        let mut say = |key, does, help: &str| {
            all.push(UnkeptPart {
                key,
                does,
                help: help.to_owned(),
            });
        };
        let keep = "use policy \"contract\", which guarantees it";
        // A min counts in admission even if the policy does not keep it.
        let counts = format!("{keep}; it counts against the capacity in any case");
        if contract.min > 0 || contract.min_iops > 0 {
            let does = match self.mapping.min {
                MinEffect::Kept => None,
                MinEffect::Weight => Some("uses it as a weight only"),
                MinEffect::Limit => Some("uses it as a limit"),
                MinEffect::Low => Some("uses it as a low limit, which is not a guarantee"),
                MinEffect::Ignored => Some(self.ignores()),
            };
            let key = if contract.min > 0 { "min" } else { "min_iops" };
            if let Some(does) = does {
                say(key, does, &counts);
            }
        }
        if contract.share != Contract::DEFAULT.share && self.mapping.share == ShareEffect::Ignored {
            say("share", self.ignores(), keep);
        }
        if contract.class != Class::BestEffort && self.mapping.class == ClassEffect::Ignored {
            // A realtime class counts in admission with its max.
            let help = match contract.class {
                Class::Realtime => &counts,
                _ => keep,
            };
            say("class", self.ignores(), help);
        }
        if contract.max.is_limited() && self.mapping.max == MaxEffect::Ignored {
            say("max", "has no controller for it", &self.with("max"));
        }
        if contract.max.iops_size > 0 && self.counts_commands() {
            let does = "counts each command of at most max_transfer as a request, as Linux does";
            say(
                "max.iops_size",
                does,
                "use the controller max in place of io.max",
            );
        }
        if knobs.latency > Span::ZERO && self.mapping.latency == LatencyEffect::Ignored {
            say(
                "latency",
                "does not include io.latency",
                &self.with("io.latency"),
            );
        }
        if knobs.low != LowKnobs::NONE && self.mapping.min != MinEffect::Low {
            say("low", "does not include io.low", &self.with("io.low"));
        }
        all
    }

    /// Returns true if limits count commands, as those of Linux do, instead of requests as the
    /// client sent them.
    fn counts_commands(&self) -> bool {
        self.controllers.contains(&PolicyController::Slices)
    }

    /// Returns a verb phrase for an elevator that has no use for a part.
    fn ignores(&self) -> &'static str {
        match self.elevator {
            Config::None => "serves first come, first served",
            _ => "ignores it",
        }
    }

    /// Returns the advice for adding a controller to the policy.
    fn with(&self, controller: &str) -> String {
        if self.is_from_file() {
            return format!("add {controller} to the controllers in the policy's file");
        }
        let word = quoted(&format!("{} + {controller}", self.word()));
        format!("use policy {word}, which enforces it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::find;
    use weir_core::Max;

    #[test]
    fn every_part_is_kept_or_named() {
        let contract = Contract {
            min: 1,
            share: 200,
            class: Class::Idle,
            max: Max::of_iops(1),
            ..Contract::DEFAULT
        };
        let knobs = Knobs {
            latency: Span::from_millis(1),
            ..Knobs::NONE
        };
        for (policy, unkept) in [
            ("none", &["min", "share", "class", "latency"][..]),
            ("kyber", &["min", "share", "class", "latency"]),
            ("bfq", &["min", "class", "latency"]),
            ("io.cost", &["min", "class", "latency"]),
            ("max-limits", &["min", "share", "class", "latency"]),
            ("io.latency", &["min", "share", "class"]),
            ("contract", &[]),
        ] {
            let found = find(policy).unwrap().unkept(&contract, knobs);
            let keys: Vec<&str> = found.iter().map(|u| u.key).collect();
            assert_eq!(keys, unkept, "{policy}");
            let nothing = find(policy)
                .unwrap()
                .unkept(&Contract::DEFAULT, Knobs::NONE);
            assert_eq!(nothing, [], "{policy}");
        }
        // Second stage: a limit whose unit `io.max` does not have.
        let counted = Contract {
            max: Max {
                iops_size: 512,
                ..contract.max
            },
            ..Contract::DEFAULT
        };
        let keys = |policy: &str| {
            let unkept = find(policy).unwrap().unkept(&counted, Knobs::NONE);
            unkept.iter().map(|u| u.key).collect::<Vec<_>>()
        };
        assert_eq!(keys("none"), [""; 0]);
        assert_eq!(keys("io.max"), ["max.iops_size"]);
        // Third stage: the key of a min in requests is `min_iops`.
        let requests = Contract::DEFAULT.with_min_iops(1);
        let found = find("bfq").unwrap().unkept(&requests, Knobs::NONE);
        assert_eq!(
            (found[0].key, found[0].does),
            ("min_iops", "uses it as a weight only")
        );
    }
}
