//! Audits the domains of `kyber`: none has more pieces in the drive than its maximum (Linux:
//! `kyber_depth` in `block/kyber-iosched.c`). The current limit of a domain follows from latencies
//! and is not computed here.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::LayerModel;
use weir_core::{Config, Op, elevator};

/// The maximum depths of the domains: reads, writes, discards, and all other operations.
const MOST: [(&str, usize); 4] = [
    ("reads", 256),
    ("writes", 128),
    ("discards", 64),
    ("others", 16),
];

/// The auditor of `kyber`'s domains, see the module's documentation.
#[derive(Debug)]
pub struct Domains {
    is_kyber: bool,
}

impl Domains {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            is_kyber: matches!(config.elevator, elevator::Config::Kyber(_)),
        }
    }
}

impl Auditor for Domains {
    const NAME: &'static str = "domains";

    #[inline]
    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
        if !self.is_kyber || !matches!(fact, Fact::Polled(..)) {
            return;
        }
        let mut in_drive = [0; MOST.len()];
        for flight in model.tags.iter().flatten() {
            match flight.dispatch.op {
                Op::Read => in_drive[0] += 1,
                Op::Write => in_drive[1] += 1,
                Op::Discard => in_drive[2] += 1,
                Op::WriteZeroes | Op::Extents => in_drive[3] += 1,
                // Flushes bypass the elevator, so that they are in no domain.
                Op::Flush => {}
            }
        }
        for ((name, most), in_drive) in MOST.into_iter().zip(in_drive) {
            if in_drive > most {
                found.add(format_args!(
                    "{in_drive} {name} are in the drive, of {most}"
                ));
            }
        }
    }
}
