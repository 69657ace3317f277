//! Contracts and capacities as keys of a file.
//!
//! The structs are the core's, so their keys are connected with their fields here.

use crate::document::{Document, KeyEntry, ShapedTable};
use crate::field::{KeyField, Mirror, Printable, PrintedValue, Values, mirror};
use crate::key::{CAPACITY, CONTRACT, KeyDeclaration, MAX};
use crate::low;
use crate::words::words;
use weir_core::{Capacity, Class, Contract, Knobs, LowKnobs, Max, PriorityClass};

mirror! {
    Capacity: CAPACITY, read write iops read_iops write_iops;
    Contract: CONTRACT, min min_iops share max class;
    Knobs: CONTRACT, latency low;
    Max: MAX, bandwidth read_bandwidth write_bandwidth iops read_iops write_iops iops_size burst;
}

words! {
    Class: "realtime" Realtime, "best-effort" BestEffort, "idle" Idle;
    PriorityClass: "realtime" Realtime, "best-effort" BestEffort, "idle" Idle;
}

/// Returns the value of each key of a contract.
pub(crate) fn values(contract: &Contract, knobs: &Knobs) -> Values {
    [contract.values(), knobs.values()].concat()
}

/// Reads the contract of a table. Whether it can be kept is checked later by the core.
pub(crate) fn contract<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> Contract {
    Contract::DEFAULT.filled(doc, table)
}

/// Reads the settings of controllers in a table.
pub(crate) fn knobs<'a>(doc: &mut Document<'a>, table: &ShapedTable<'a>) -> Knobs {
    Knobs::NONE.filled(doc, table)
}

/// Returns the value of each key of a capacity. If it is unknown, no key is set.
pub(crate) fn capacity_values(capacity: Option<Capacity>) -> Values {
    capacity.map_or_else(|| CAPACITY.unset(), |capacity| capacity.values())
}

/// Reads a capacity. `None` if a rate is missing or a value is wrong.
pub(crate) fn capacity<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<Capacity> {
    let table = entry.table(doc, &CAPACITY)?;
    let before = doc.problem_count();
    let help = "set both; promises are checked against the slower of read and write";
    doc.required(&table, "read", help);
    doc.required(&table, "write", help);
    let capacity = Capacity::NONE.filled(doc, &table);
    (doc.problem_count() == before).then_some(capacity)
}

impl Printable for LowKnobs {
    fn value(&self, _: &KeyDeclaration) -> Option<PrintedValue> {
        (*self != Self::NONE).then(|| PrintedValue::Text(low::line(self)))
    }
}

impl KeyField for LowKnobs {
    fn read<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<Self> {
        let example = "\"rbps=10485760 idle=1000 latency=100\"";
        entry.parsed(
            doc,
            ("a line of settings in the form of Linux", example),
            low::read,
        )
    }

    fn absent(_: &KeyDeclaration) -> Self {
        Self::NONE
    }
}

impl Printable for Max {
    /// Returns a table. If nothing is limited, no key of it is set.
    fn value(&self, _: &KeyDeclaration) -> Option<PrintedValue> {
        Some(PrintedValue::Table(if self.is_limited() {
            self.values()
        } else {
            MAX.unset()
        }))
    }
}

impl KeyField for Max {
    /// Reads the limits. A single rate is that of reads and writes together.
    fn read<'a>(doc: &mut Document<'a>, entry: &KeyEntry<'a>) -> Option<Self> {
        if entry.is_text() {
            return Some(Self {
                bandwidth: entry.any_rate(doc)?,
                ..Self::NONE
            });
        }
        let before = doc.problem_count();
        let table = entry.table(doc, &MAX)?;
        let max = Self::NONE.filled(doc, &table);
        // The key changes the unit of the limits on requests, so it has no effect without one.
        if max.iops_size > 0 && max.iops | max.read_iops | max.write_iops == 0 {
            let what = "requires a limit on requests";
            let help = "add iops, read_iops or write_iops, or remove iops_size";
            table.refuse(doc, "iops_size", (true, what, help));
        }
        if !max.is_limited() && doc.problem_count() == before {
            let help = "set for example bandwidth = \"50MB/s\" or iops = 5000, or remove max";
            doc.report(entry, "must have at least one limit", help);
        }
        Some(max)
    }

    fn absent(_: &KeyDeclaration) -> Self {
        Self::NONE
    }
}
