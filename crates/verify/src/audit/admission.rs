//! Audits admission: all promises together take at most 90 % of the drive, and a group promises its
//! members at most as much as it was promised itself.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::LayerModel;
use weir_core::{Capacity, Class, Contract, GroupId, PromiseSums, ROOT, Refusal};

/// The part of the drive that can be promised, in millionths.
const PROMISABLE: u128 = 900_000;
/// The error of admission's own sum, in millionths. It rounds fractions of the drive up to a
/// millionth each, for bytes and for requests.
const ROUNDING: u128 = 2;
/// The smallest amount that a request moves, in bytes.
const SECTOR: u128 = 512;

/// The auditor of admission, see the module's documentation.
#[derive(Debug, Default)]
pub struct Admission {}

impl Auditor for Admission {
    const NAME: &'static str = "admission";

    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
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
                // The layer may refuse up to `ROUNDING` too early, because it rounds up.
                if fits(RateSum::of(*promised), *capacity, PROMISABLE - ROUNDING) =>
            {
                found.add(format_args!("refused although it fits: {refusal:?}"));
            }
            _ => {}
        }
    }
}

/// A total of promises: bytes and requests per second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct RateSum {
    bytes: u128,
    iops: u128,
}

impl RateSum {
    fn of(promised: PromiseSums) -> Self {
        Self {
            bytes: promised.bytes.into(),
            iops: promised.iops.into(),
        }
    }
}

/// Returns what is wrong with the contracts that the layer accepted, or `None` if they are sound.
fn fault(model: &LayerModel, promised: PromiseSums) -> Option<&'static str> {
    for (_, group) in model.tree.iter() {
        let Contract {
            min,
            min_iops,
            class,
            max,
            ..
        } = group.contract;
        // Limits of zero do not exist, so a sum of zero means that the client has no max.
        let most = RateSum {
            bytes: ceiling(max.bandwidth, max.read_bandwidth, max.write_bandwidth),
            iops: ceiling(max.iops, max.read_iops, max.write_iops),
        };
        // A realtime client is served before all others, so only its max bounds it.
        if class == Class::Realtime && most == RateSum::default() {
            return Some("realtime without a max");
        }
        // The idle class is served with the time that is left, so it cannot be promised any.
        if class == Class::Idle && (min > 0 || min_iops > 0) {
            return Some("idle with a min");
        }
        let above = |min: u128, most: u128| most > 0 && min > most;
        let (min, min_iops) = (u128::from(min), u128::from(min_iops));
        let longest = match max.iops_size {
            0 => u64::from(u32::MAX),
            size => size.min(u32::MAX.into()),
        };
        // A request moves at least a sector. One counted request is at most 2^32 - 1 bytes, or the
        // size that its max states.
        if above(min, most.bytes)
            || above(min_iops, most.iops)
            || above(min_iops * SECTOR, most.bytes)
            || above(min.div_ceil(longest.into()), most.iops)
        {
            return Some("a min above the max");
        }
    }
    // The root has no contract of its own, so all of its members count.
    let Some(total) = promised_to_members(model, ROOT) else {
        return Some("a group promised its members more than it has");
    };
    if total != RateSum::of(promised) {
        return Some("the sums are others");
    }
    match model.config.drive.capacity {
        None => (total != RateSum::default()).then_some("promises on a drive of unknown capacity"),
        Some(capacity) => {
            (!fits(total, capacity, PROMISABLE)).then_some("more than nine tenths is promised")
        }
    }
}

/// Returns the sum of the promises to a group's members, or `None` if one of them promised its
/// members more than it has.
fn promised_to_members(model: &LayerModel, id: GroupId) -> Option<RateSum> {
    let mut sum = RateSum::default();
    for (member, group) in model.tree.iter().filter(|(_, g)| g.parent == id) {
        let (own, inner) = (
            reserved_rate(&group.contract),
            promised_to_members(model, member)?,
        );
        // The promise of a tenant includes the promises to its members. A tenant without one only
        // adds up theirs.
        let counted = if own == RateSum::default() {
            inner
        } else {
            own
        };
        if inner.bytes > counted.bytes || inner.iops > counted.iops {
            return None;
        }
        sum.bytes += counted.bytes;
        sum.iops += counted.iops;
    }
    Some(sum)
}

/// Returns the amount that a contract reserves. This is the max of a realtime contract (or its min
/// where it has no max), and the min of any other.
fn reserved_rate(contract: &Contract) -> RateSum {
    let max = &contract.max;
    let (min, min_iops) = (contract.min.into(), contract.min_iops.into());
    match contract.class {
        Class::Realtime => RateSum {
            bytes: ceiling(max.bandwidth, max.read_bandwidth, max.write_bandwidth).max(min),
            iops: ceiling(max.iops, max.read_iops, max.write_iops).max(min_iops),
        },
        Class::BestEffort => RateSum {
            bytes: min,
            iops: min_iops,
        },
        Class::Idle => RateSum::default(),
    }
}

/// Returns the tightest limit on reads and writes together, or zero if there is none.
fn ceiling(both: u64, read: u64, write: u64) -> u128 {
    // A limit on one direction alone leaves the other unlimited, so that it bounds no sum.
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

/// Returns true if bytes and requests take at most `millionths` of the drive: `bytes / worst + iops
/// / most`, in whole numbers.
fn fits(sum: RateSum, capacity: Capacity, millionths: u128) -> bool {
    // Checks both bounds: the requests that the promised clients send, of each kind, and the bytes
    // that these requests move at least.
    let moved = RateSum {
        bytes: sum.bytes + sum.iops * SECTOR,
        iops: 0,
    };
    [capacity.iops, capacity.read_iops, capacity.write_iops]
        .into_iter()
        .all(|most| fits_request_kind(sum, capacity, most, millionths))
        && fits_request_kind(moved, capacity, 0, millionths)
}

/// Checks the same sum for one kind of request, of which the drive serves at most `most` per second
/// (zero: no bound).
fn fits_request_kind(sum: RateSum, capacity: Capacity, most: u64, millionths: u128) -> bool {
    let worst = u128::from(capacity.read.min(capacity.write));
    // A drive without a bound on requests needs nothing for them.
    let (iops, most) = match most {
        0 => (0, 1),
        most => (sum.iops, u128::from(most)),
    };
    // A drive of rate zero cannot serve any promised byte. The division below needs at least one.
    if worst == 0 && sum.bytes > 0 {
        return false;
    }
    let worst = worst.max(1);
    // Values beyond 2^50 per second are not exact, and no drive reaches them.
    let product = |a: u128, b: u128, c: u128| a.saturating_mul(b).saturating_mul(c);
    product(sum.bytes, most, 1_000_000).saturating_add(product(iops, worst, 1_000_000))
        <= product(worst, most, millionths)
}
