//! Admission: all promises together are at most nine tenths of the drive, and a group promises its members at most what it was
//! promised itself.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Found;
use crate::audit::model::Model;
use weir_core::{Capacity, Class, Contract, GroupId, Promised, ROOT, Refusal};

/// Nine tenths.
const PROMISABLE: u128 = 900_000;
/// Fractions of the drive are rounded up to a millionth each, for bytes and for requests.
const ROUNDING: u128 = 2;
/// The least that a request moves, bytes.
const SECTOR: u128 = 512;

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Admission {}

impl Auditor for Admission {
    const NAME: &'static str = "admission";

    fn fact(&mut self, model: &Model, fact: &Fact<'_>, found: &mut Found) {
        match *fact {
            Fact::Changed(_, Ok(promised)) => {
                if let Some(fault) = fault(model, *promised) {
                    found.add(format_args!(
                        "{fault}: {promised:?} of {:?}",
                        model.config.drive.capacity
                    ));
                }
            }
            Fact::Changed(_, Err(refusal @ Refusal::OverCapacity { promised, capacity }))
                if fits(Sum::of(*promised), *capacity, PROMISABLE - ROUNDING) =>
            {
                found.add(format_args!("refused although it fits: {refusal:?}"));
            }
            _ => {}
        }
    }
}

/// Bytes and requests per second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sum {
    bytes: u128,
    iops: u128,
}

impl Sum {
    fn of(promised: Promised) -> Self {
        Self {
            bytes: promised.bytes.into(),
            iops: promised.iops.into(),
        }
    }
}

fn fault(model: &Model, promised: Promised) -> Option<&'static str> {
    for (_, group) in model.tree.iter() {
        let Contract {
            min,
            min_iops,
            class,
            max,
            ..
        } = group.contract;
        let most = Sum {
            bytes: ceiling(max.bandwidth, max.read_bandwidth, max.write_bandwidth),
            iops: ceiling(max.iops, max.read_iops, max.write_iops),
        };
        if class == Class::Realtime && most == Sum::default() {
            return Some("realtime without a max");
        }
        if class == Class::Idle && (min > 0 || min_iops > 0) {
            return Some("idle with a min");
        }
        let above = |min: u128, most: u128| most > 0 && min > most;
        let (min, min_iops) = (u128::from(min), u128::from(min_iops));
        let longest = match max.iops_size {
            0 => u64::from(u32::MAX),
            size => size.min(u32::MAX.into()),
        };
        // A request moves a sector at the least, and what counts as one 2^32 - 1 bytes or its max's size at the most.
        if above(min, most.bytes)
            || above(min_iops, most.iops)
            || above(min_iops * SECTOR, most.bytes)
            || above(min.div_ceil(longest.into()), most.iops)
        {
            return Some("a min above the max");
        }
    }
    let Some(total) = below(model, ROOT) else {
        return Some("a group promised its members more than it has");
    };
    if total != Sum::of(promised) {
        return Some("the sums are others");
    }
    match model.config.drive.capacity {
        None => (total != Sum::default()).then_some("promises on a drive of unknown capacity"),
        Some(capacity) => {
            (!fits(total, capacity, PROMISABLE)).then_some("more than nine tenths is promised")
        }
    }
}

/// The sum of the promises to a group's members; `None` if one of them promised more than it has.
fn below(model: &Model, id: GroupId) -> Option<Sum> {
    let mut sum = Sum::default();
    for (member, group) in model.tree.iter().filter(|(_, g)| g.parent == id) {
        let (own, inner) = (own(&group.contract), below(model, member)?);
        let counted = if own == Sum::default() { inner } else { own };
        if inner.bytes > counted.bytes || inner.iops > counted.iops {
            return None;
        }
        sum.bytes += counted.bytes;
        sum.iops += counted.iops;
    }
    Some(sum)
}

/// What a contract reserves: a realtime one its max, and its min where that says nothing; any other its min.
fn own(contract: &Contract) -> Sum {
    let max = &contract.max;
    let (min, min_iops) = (contract.min.into(), contract.min_iops.into());
    match contract.class {
        Class::Realtime => Sum {
            bytes: ceiling(max.bandwidth, max.read_bandwidth, max.write_bandwidth).max(min),
            iops: ceiling(max.iops, max.read_iops, max.write_iops).max(min_iops),
        },
        Class::BestEffort => Sum {
            bytes: min,
            iops: min_iops,
        },
        Class::Idle => Sum::default(),
    }
}

/// The tightest limit on reads and writes together; zero for none.
fn ceiling(both: u64, read: u64, write: u64) -> u128 {
    let apart = if read == 0 || write == 0 {
        0
    } else {
        u128::from(read) + u128::from(write)
    };
    match (u128::from(both), apart) {
        (0, one) | (one, 0) => one,
        (a, b) => a.min(b),
    }
}

/// Whether bytes and requests take at most `part` millionths of the drive, `bytes / worst + iops / most`, in whole numbers.
fn fits(sum: Sum, capacity: Capacity, millionths: u128) -> bool {
    // For whatever kind of request the promised clients use, and for what those move at the least.
    let moved = Sum {
        bytes: sum.bytes + sum.iops * SECTOR,
        iops: 0,
    };
    [capacity.iops, capacity.read_iops, capacity.write_iops]
        .into_iter()
        .all(|most| fits_kind(sum, capacity, most, millionths))
        && fits_kind(moved, capacity, 0, millionths)
}

/// The same, with at most `most` requests per second.
fn fits_kind(sum: Sum, capacity: Capacity, most: u64, millionths: u128) -> bool {
    let worst = u128::from(capacity.read.min(capacity.write));
    // A drive without a bound on requests needs nothing for them.
    let (iops, most) = match most {
        0 => (0, 1),
        most => (sum.iops, u128::from(most)),
    };
    if worst == 0 && sum.bytes > 0 {
        return false;
    }
    let worst = worst.max(1);
    // Values beyond 2^50 per second are not exact, and not real.
    let product = |a: u128, b: u128, c: u128| a.saturating_mul(b).saturating_mul(c);
    product(sum.bytes, most, 1_000_000).saturating_add(product(iops, worst, 1_000_000))
        <= product(worst, most, millionths)
}
