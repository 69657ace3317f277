//! Tunables of elevators that a scenario states.

use crate::document::{Document, Table};
use crate::key::{BFQ, CONTRACT};
use crate::read::{bfq_tunables, contract_tunables};
use weir_core::elevator::{Config, bfq, contract};

/// Checks the tunables that stand in a file, and sets those of `elevator`.
pub(crate) fn tune<'a>(doc: &mut Document<'a>, root: &Table<'a>, elevator: &mut Config) {
    let (mut other_bfq, mut other_contract) = (bfq::Config::default(), contract::Config::default());
    let (bfq, contract) = match elevator {
        Config::Bfq(config) => (config, &mut other_contract),
        Config::Contract(config) => (&mut other_bfq, config),
        _ => (&mut other_bfq, &mut other_contract),
    };
    if let Some(table) = root.entry("bfq").and_then(|e| e.table(doc, &BFQ)) {
        bfq_tunables(doc, &table, bfq);
    }
    if let Some(table) = root.entry("contract").and_then(|e| e.table(doc, &CONTRACT)) {
        contract_tunables(doc, &table, contract);
    }
}
