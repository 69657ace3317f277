//! `weir replay --recommend`: contracts by what clients did.
//!
//! A client is proposed what it got in 95 of 100 seconds in which it asked for something. One that asks for little, in small requests and
//! one or two at a time, waits for each: it is proposed a realtime class, with twice as much as its max. If all of that is more than may
//! be promised of the drive, the mins are made smaller by the same part. A tenant to which something is promised is proposed as much as its volumes.

use super::what_if::{Groups, contracts};
use crate::drive;
use crate::failure::Failure;
use crate::output;
use crate::record::Names;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use weir_config::units::Rate;
use weir_config::{Quoted, Terms};
use weir_core::{Capacity, Class, Contract, Edit, GroupId, Layer, Max, Op, ROOT};
use weir_measure::SECOND_NS;
use weir_measure::number::percent;
use weir_sim::Load;

/// In this part of the seconds a client gets what is proposed or less.
const QUANTILE: (usize, usize) = (95, 100);
/// A client waits for each of its requests if they are no longer than this on average, no more at a time, and take no more than this
/// part of the drive.
const SMALL: u64 = 64 << 10;
const FEW: u32 = 2;
const LITTLE: f64 = 0.05;

/// What a group's clients did.
#[derive(Debug, Default)]
struct Did {
    /// Bytes in each second in which there were requests.
    seconds: BTreeMap<u64, u64>,
    requests: u64,
    most: u32,
}

impl Did {
    fn quantile(&self, (num, den): (usize, usize)) -> u64 {
        let mut all: Vec<u64> = self.seconds.values().copied().collect();
        all.sort_unstable();
        let place = (all.len() * num).div_ceil(den).saturating_sub(1);
        all.get(place).copied().unwrap_or(0)
    }

    fn mean(&self) -> u64 {
        self.seconds.values().sum::<u64>() / self.requests.max(1)
    }
}

pub(super) fn run(
    file: &Path,
    load: &Load,
    names: &Names,
    model: Option<&weir_model::drive::Config>,
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
        let _ = write!(text, "\n[volume.{}]\n{}", Quoted(&name), Terms(contract));
    }
    for (group, min) in &tenants {
        let (name, min) = (names.of(*group), Rate(*min));
        let _ = write!(text, "\n[tenant.{}]\nmin = \"{min}\"\n", Quoted(&name));
    }
    output::print(&text)
}

/// What tenants have to be promised, of those to which something is, so that their volumes may be.
fn tenants(contracts: &BTreeMap<GroupId, Contract>, load: &Load) -> BTreeMap<GroupId, u64> {
    let groups = groups(load);
    let mut tenants = BTreeMap::new();
    for (group, contract) in contracts {
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

/// The groups that there were at the end.
fn groups(load: &Load) -> Groups {
    let edits = load.edits().iter();
    contracts(edits.flat_map(|(_, edits)| edits))
}

/// What the clients of each group did.
fn did(load: &Load) -> BTreeMap<GroupId, Did> {
    let mut all: BTreeMap<GroupId, Did> = BTreeMap::new();
    for sent in load.sent() {
        let moved = match sent.op {
            Op::Read | Op::Write | Op::WriteZeroes => u64::from(sent.length),
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

fn contract(did: &Did, capacity: Capacity) -> Contract {
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

/// Two digits of a rate, and a page a second at the least.
fn rounded(rate: u64) -> u64 {
    let mut unit = 1;
    while rate / unit >= 100 {
        unit *= 10;
    }
    (rate / unit * unit).max(4096)
}

/// Makes the mins smaller until they are admitted. The part of the drive that is promised then.
fn fit(
    contracts: &mut BTreeMap<GroupId, Contract>,
    load: &Load,
    capacity: Capacity,
) -> Result<f64, Failure> {
    let mut config = load.config().cloned().ok_or(Failure::Said)?;
    config.drive.capacity = Some(capacity);
    let asked = contracts.clone();
    for hundredths in (1..=100).rev() {
        for (group, contract) in &mut *contracts {
            let min = asked[group].min * hundredths / 100;
            contract.min = if min == 0 { 0 } else { rounded(min) };
        }
        let edits = proposed(contracts, load);
        let mut layer = Layer::new(config.clone()).map_err(Failure::run)?;
        if let Ok(promised) = layer.change(load.end(), &edits) {
            return Ok(promised.millionths as f64 / 1e6);
        }
    }
    Err(Failure::Run(format!(
        "a drive with {} cannot guarantee any part of the recorded load",
        Rate(capacity.bytes())
    )))
}

/// What would be put in force: tenants before their volumes.
fn proposed(contracts: &BTreeMap<GroupId, Contract>, load: &Load) -> Vec<Edit> {
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
