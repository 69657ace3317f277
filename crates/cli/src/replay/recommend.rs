//! `weir replay --recommend` recommends contracts that match the recorded load.
//!
//! A client is recommended a min of the bandwidth that was sufficient in 95 % of the seconds in
//! which it sent requests. Some clients send few and small requests, one or two at a time, and wait
//! for each of them. These are recommended the realtime class with a max of twice their largest
//! bandwidth.
//!
//! If the sum exceeds the capacity of the drive, all mins are reduced by the same factor. A tenant
//! that has a min is recommended the sum of its volumes.

use super::what_if::{GroupContracts, contracts};
use crate::drive;
use crate::failure::Failure;
use crate::output;
use crate::record::RecordingNames;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use weir_config::units::BytesPerSecond;
use weir_config::{ContractText, Quoted};
use weir_core::{Capacity, Class, Contract, Edit, GroupId, Layer, Max, Op, ROOT};
use weir_measure::SECOND_NS;
use weir_measure::number::percent;
use weir_sim::LoadRecord;

/// The fraction of seconds in which the recommended min is sufficient.
const QUANTILE: (usize, usize) = (95, 100);
/// The largest mean length of requests, in bytes, for which a client is assumed to wait for each of
/// them. The other limits are [`FEW`] requests at a time and the fraction [`LITTLE`] of the drive.
const SMALL: u64 = 64 << 10;
const FEW: u32 = 2;
const LITTLE: f64 = 0.05;

/// The recorded load of a group.
#[derive(Debug, Default)]
struct RecordedLoad {
    /// The bytes in each second in which there were requests.
    seconds: BTreeMap<u64, u64>,
    requests: u64,
    /// The largest number of requests outstanding at a time.
    most: u32,
}

impl RecordedLoad {
    fn quantile(&self, (num, den): (usize, usize)) -> u64 {
        let mut all: Vec<u64> = self.seconds.values().copied().collect();
        all.sort_unstable();
        // The nearest rank of the quantile, counted from 0.
        let place = (all.len() * num).div_ceil(den).saturating_sub(1);
        all.get(place).copied().unwrap_or(0)
    }

    fn mean(&self) -> u64 {
        self.seconds.values().sum::<u64>() / self.requests.max(1)
    }
}

/// Prints the recommended contracts as lines of a configuration.
pub(super) fn run(
    file: &Path,
    load: &LoadRecord,
    names: &RecordingNames,
    model: Option<&weir_model::drive::DriveConfig>,
) -> Result<(), Failure> {
    let stated = load.config().and_then(|config| config.drive.capacity);
    let capacity = match (stated, model) {
        (_, Some(model)) => drive::capacity(model)?,
        (Some(stated), None) => stated,
        (None, None) => {
            let reason = "the recording does not contain the capacity of the drive; set --drive to a model of it";
            return Err(Failure::Usage(reason.into()));
        }
    };
    let did = did(load);
    let mut contracts: BTreeMap<GroupId, Contract> = did
        .iter()
        .map(|(group, did)| (*group, contract(did, capacity)))
        .collect();
    let part = fit(&mut contracts, load, capacity)?;
    let tenants = tenants(&contracts, load);
    let seconds = load.end().as_nanos() as f64 / 1e9;
    let mut text = format!(
        "# By what clients did in {} ({seconds:.0} s): add the lines to the tables of the same names. They promise {} of the drive.\n",
        file.display(),
        percent(part)
    );
    for (group, contract) in &contracts {
        let name = names.of(*group);
        let _ = write!(
            text,
            "\n[volume.{}]\n{}",
            Quoted(&name),
            ContractText(contract)
        );
    }
    for (group, min) in &tenants {
        let (name, min) = (names.of(*group), BytesPerSecond(*min));
        let _ = write!(text, "\n[tenant.{}]\nmin = \"{min}\"\n", Quoted(&name));
    }
    output::print(&text)
}

/// Returns the mins that tenants need for the mins of their volumes. Tenants without a min are left
/// out, because they have nothing to divide.
fn tenants(contracts: &BTreeMap<GroupId, Contract>, load: &LoadRecord) -> BTreeMap<GroupId, u64> {
    let groups = groups(load);
    let mut tenants = BTreeMap::new();
    for (group, contract) in contracts {
        // A realtime client reserves its max.
        let reserved = match contract.class {
            Class::Realtime => contract.max.bandwidth,
            _ => contract.min,
        };
        let parent = groups.get(group).map_or(ROOT, |group| group.0);
        if groups.get(&parent).is_some_and(|tenant| tenant.1.min > 0) {
            *tenants.entry(parent).or_default() += reserved;
        }
    }
    tenants
}

/// Returns the groups at the end of the recording.
fn groups(load: &LoadRecord) -> GroupContracts {
    let edits = load.edits().iter();
    contracts(edits.flat_map(|(_, edits)| edits))
}

/// Returns the recorded load of each group.
fn did(load: &LoadRecord) -> BTreeMap<GroupId, RecordedLoad> {
    let mut all: BTreeMap<GroupId, RecordedLoad> = BTreeMap::new();
    for sent in load.sent() {
        let moved = match sent.op {
            Op::Read | Op::Write | Op::WriteZeroes => u64::from(sent.length),
            // Requests without data are counted as one sector.
            Op::Discard | Op::Extents => 512,
            Op::Flush => continue,
        };
        let did = all.entry(sent.group).or_default();
        *did.seconds
            .entry(sent.at.as_nanos() / SECOND_NS)
            .or_default() += moved;
        did.requests += 1;
        did.most = did.most.max(sent.outstanding);
    }
    all
}

/// Returns the recommended contract for a recorded load.
fn contract(did: &RecordedLoad, capacity: Capacity) -> Contract {
    let wanted = rounded(did.quantile(QUANTILE));
    let is_little = wanted as f64 <= LITTLE * capacity.bytes() as f64;
    if is_little && did.mean() <= SMALL && did.most <= FEW {
        return Contract {
            class: Class::Realtime,
            max: Max {
                bandwidth: rounded(2 * did.seconds.values().max().copied().unwrap_or(0)),
                ..Max::NONE
            },
            ..Contract::DEFAULT
        };
    }
    Contract {
        min: wanted,
        ..Contract::DEFAULT
    }
}

/// Rounds a rate down to two digits, and to at least one page of 4096 bytes per second.
fn rounded(rate: u64) -> u64 {
    let mut unit = 1;
    while rate / unit >= 100 {
        unit *= 10;
    }
    (rate / unit * unit).max(4096)
}

/// Reduces the mins until the core admits them. Returns the fraction of the drive that is promised.
fn fit(
    contracts: &mut BTreeMap<GroupId, Contract>,
    load: &LoadRecord,
    capacity: Capacity,
) -> Result<f64, Failure> {
    let mut config = load.config().cloned().ok_or(Failure::Said)?;
    config.drive.capacity = Some(capacity);
    let asked = contracts.clone();
    // The factor decreases in steps of one percent, from the complete mins.
    for hundredths in (1..=100).rev() {
        for (group, contract) in &mut *contracts {
            let min = asked[group].min * hundredths / 100;
            contract.min = if min == 0 { 0 } else { rounded(min) };
        }
        let edits = proposed(contracts, load);
        // A new layer admits the contracts exactly as a server would.
        let mut layer = Layer::new(config.clone()).map_err(Failure::run)?;
        if let Ok(promised) = layer.change(load.end(), &edits) {
            return Ok(promised.millionths as f64 / 1e6);
        }
    }
    Err(Failure::Run(format!(
        "a drive with {} cannot guarantee any part of the recorded load",
        BytesPerSecond(capacity.bytes())
    )))
}

/// Returns the edits that apply the contracts. Tenants come before their volumes, because a group
/// must exist before its members.
fn proposed(contracts: &BTreeMap<GroupId, Contract>, load: &LoadRecord) -> Vec<Edit> {
    let (groups, tenants) = (groups(load), tenants(contracts, load));
    let parent = |id: &GroupId| groups.get(id).map_or(ROOT, |group| group.0);
    let above: BTreeSet<GroupId> = contracts
        .keys()
        .map(parent)
        .filter(|id| *id != ROOT)
        .collect();
    let above = above.into_iter().map(|id| Edit::AddGroup {
        id,
        parent: ROOT,
        contract: Contract {
            min: tenants.get(&id).copied().unwrap_or(0),
            ..Contract::DEFAULT
        },
    });
    let volumes = contracts.iter().map(|(id, contract)| Edit::AddGroup {
        id: *id,
        parent: parent(id),
        contract: *contract,
    });
    above.chain(volumes).collect()
}
