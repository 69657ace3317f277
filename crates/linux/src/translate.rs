//! Translates a policy with its contracts into the kernel's knobs. Hosts, guests and comparisons
//! all use this translation.

use crate::knob::{InvalidKnobValue, Knob};
use crate::setting::{KnobSetting, SettingPlace};
use crate::tunable;
use std::fmt;
use weir_config::Policy;
use weir_config::apply::Queue;
use weir_config::policy::{self, GroupNode, Setup};
use weir_core::control::low::{self, Directions};
use weir_core::elevator::Config;
use weir_core::{Capacity, Contract, DriveShape, Knobs, LowKnobs, Max, Span};

/// A cgroup with the contract of its members together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContractGroup {
    /// The index of the parent, which precedes the group. `None` if the parent is the root.
    pub parent: Option<usize>,
    /// The contract of the group, as it is written in the file.
    pub contract: Contract,
    /// The settings of controllers for the group.
    pub knobs: Knobs,
}

/// The knobs for a policy on one device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Translation {
    /// The settings, in the order in which they are written.
    pub settings: Vec<KnobSetting>,
    /// The differences between the kernel and the policy, a sentence for each.
    pub notes: Vec<String>,
}

/// The reason why the kernel cannot do what a policy does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TranslationRefusal {
    /// The part of the policy that is refused, and the reason.
    pub what: String,
    /// The remedy for the user.
    pub help: String,
}

impl fmt::Display for TranslationRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.help)
    }
}

impl std::error::Error for TranslationRefusal {}

impl From<InvalidKnobValue> for TranslationRefusal {
    fn from(wrong: InvalidKnobValue) -> Self {
        Self {
            what: format!("{} cannot be \"{}\"", wrong.knob, wrong.value),
            help: format!("the kernel takes {}", wrong.allowed),
        }
    }
}

/// Translates a policy for a drive of this capacity with these groups. Weights, limits and tunables
/// are those of the simulator ([`Policy::set_up`]).
///
/// `shape` is the shape of the drive, if it is known. The lines of io.cost are then completed with
/// the values that Linux has for such a drive, because Linux otherwise keeps the values that were
/// set before.
///
/// # Errors
/// Returns an error if the kernel has no equivalent: for an elevator or controller that Linux does
/// not have (any more), for a tunable that only Weir has, and for a value that a knob does not
/// accept.
pub fn translate(
    policy: &Policy,
    queue: &Queue,
    (capacity, shape): (Option<Capacity>, Option<&DriveShape>),
    groups: &[ContractGroup],
) -> Result<Translation, TranslationRefusal> {
    can_be(policy)?;
    let nodes = groups.iter().map(|group| GroupNode {
        parent: group.parent,
        contract: group.contract,
    });
    let setup = policy.set_up(capacity, nodes);
    let mut settings = of_device(&setup, queue)?;
    if let Some(cost) = &setup.controllers.cost {
        let cost = shape.map_or(*cost, |shape| cost.filled(shape));
        let model = policy::cost_model(&cost);
        let qos = policy::cost_qos(&cost);
        settings.push(KnobSetting::new(
            SettingPlace::Root,
            Knob::CostModel,
            model,
        )?);
        settings.push(KnobSetting::new(
            SettingPlace::Root,
            Knob::CostQos,
            format!("enable=1 {qos}"),
        )?);
    }
    let mut notes = notes(policy, &setup);
    for (place, (told, group)) in setup.contracts().iter().zip(groups).enumerate() {
        let at = SettingPlace::Group(place);
        if matches!(setup.elevator, Config::Bfq(_)) {
            settings.push(KnobSetting::new(
                at,
                Knob::BfqWeight,
                told.share.to_string(),
            )?);
        }
        if setup.controllers.cost.is_some() {
            settings.push(KnobSetting::new(at, Knob::Weight, told.share.to_string())?);
        }
        if setup.controllers.max && told.max.is_limited() {
            settings.push(KnobSetting::new(at, Knob::Max, limits(&told.max))?);
            let both = told.max.bandwidth > 0 || told.max.iops > 0;
            note_once(&mut notes, both, BOTH_WAYS);
            note_once(&mut notes, told.max.burst > Span::ZERO, NO_BURST);
            // It only matters whether any of them is set.
            let requests = told.max.iops | told.max.read_iops | told.max.write_iops;
            note_once(&mut notes, requests > 0, COMMANDS);
            note_once(&mut notes, told.max.iops_size > 0, NO_SIZE);
        }
        let knobs = setup.knobs(group.knobs);
        let low = setup.controllers.low.as_ref();
        if let Some(low) = low.and_then(|tunables| low_limits(told, &knobs.low, tunables)) {
            settings.push(KnobSetting::new(at, Knob::Low, low)?);
        }
        let latency = knobs.latency;
        if latency > Span::ZERO {
            // The file is in microseconds, and 0 would switch the target off.
            let target = format!("target={}", (latency.as_nanos() / 1_000).max(1));
            settings.push(KnobSetting::new(at, Knob::Latency, target)?);
        }
    }
    // The sort is stable, so that the groups of a knob stay in their order.
    settings.sort_by_key(|setting| setting.knob);
    Ok(Translation { settings, notes })
}

const BOTH_WAYS: &str = "io.max has no common limit for reads and writes, so that each of the two can reach the max, as under \
                         the simulator's io.max";
const NO_BURST: &str =
    "io.max has no burst; its slices (20 to 100 ms) determine how much is possible at once";

const COMMANDS: &str = "riops and wiops count the commands of at most max_sectors_kb into which a request is split, while Weir's max counts the \
                        request as its client sent it";
const NO_SIZE: &str = "io.max does not support iops_size, which is ignored";

fn note_once(notes: &mut Vec<String>, is_so: bool, note: &str) {
    if is_so && !notes.iter().any(|n| n == note) {
        notes.push(note.to_owned());
    }
}

/// Refuses elevators and tunables for which Linux has no equivalent.
fn can_be(policy: &Policy) -> Result<(), TranslationRefusal> {
    let refused = |what: &str, help: &str| {
        Err(TranslationRefusal {
            what: format!("policy \"{}\": {what}", policy.word()),
            help: help.to_owned(),
        })
    };
    match &policy.elevator {
        Config::Contract(_) => {
            return refused(
                "Linux has no elevator that guarantees a min",
                "use `weir serve`, or the kernel's \"bfq\" or \"io.cost\", which work by weights",
            );
        }
        Config::Cfq(_) => {
            return refused(
                "cfq was removed from Linux in 5.0",
                "use \"bfq\" for weights",
            );
        }
        // Only Weir's bfq has the tunable `charge`.
        config if tunable::constants(config).contains(&"charge") => {
            return refused(
                "Linux's bfq charges by service and time, which cannot be changed",
                "use \"bfq\", which charges like Linux",
            );
        }
        _ => {}
    }
    Ok(())
}

/// Returns the differences between the kernel and the policy.
fn notes(policy: &Policy, setup: &Setup) -> Vec<String> {
    let mut notes = Vec::new();
    let constants: Vec<_> = tunable::constants(&setup.elevator);
    if !constants.is_empty() {
        notes.push(format!(
            "{} of policy \"{}\" cannot be set in Linux; the kernel's {} is used without it",
            constants.join(", "),
            policy.word(),
            setup.elevator.kind().name,
        ));
    }
    if setup.controllers.cost.is_some() && policy.name.contains("io.cost-5.5") {
        notes.push(
            "the kernel determines how io.cost distributes unused weight (as a tree since 5.10)"
                .to_owned(),
        );
    }
    let limited = setup.contracts().iter().any(|c| c.max.is_limited());
    // With the controller `slices`, the simulator does the same as the kernel.
    if setup.controllers.max && setup.controllers.slices.is_none() && limited {
        notes.push(
            "io.max enforces a max in slices of 20 to 100 ms, while the simulator's \"max\" is exact; use \"+ io.max\" to simulate it like Linux"
                .to_owned(),
        );
    }
    notes
}

/// Returns the settings of the device itself.
fn of_device(setup: &Setup, queue: &Queue) -> Result<Vec<KnobSetting>, InvalidKnobValue> {
    let mut settings = Vec::new();
    let mut set = |knob, value: String| {
        settings.push(KnobSetting::new(SettingPlace::Device, knob, value)?);
        Ok(())
    };
    set(Knob::Scheduler, setup.elevator.kind().name.to_owned())?;
    let kib = |bytes: u64| bytes / 1024;
    let micros = |time: Span| time.as_nanos() / 1000;
    // Attributes that the file does not mention keep the kernel's values.
    for (knob, value) in [
        (Knob::NrRequests, queue.nr_requests.map(u64::from)),
        (Knob::ReadAhead, queue.read_ahead.map(kib)),
        (Knob::NoMerges, queue.nomerges.map(u64::from)),
        (Knob::Rotational, queue.rotational.map(u64::from)),
        (Knob::MaxSectors, queue.max_transfer.map(kib)),
        (Knob::Wbt, queue.write_back_latency.map(micros)),
    ] {
        if let Some(value) = value {
            set(knob, value.to_string())?;
        }
    }
    // 0 is the kernel's default, which follows nr_requests.
    match tunable::value(&setup.elevator, tunable::ASYNC_DEPTH) {
        Some(0) | None => {}
        Some(depth) => set(Knob::AsyncDepth, depth.to_string())?,
    }
    for (file, value) in tunable::values(&setup.elevator) {
        set(Knob::Tunable(file), value.to_string())?;
    }
    Ok(settings)
}

/// Formats a max for `io.max`. A common limit of reads and writes applies to each of them, as in
/// the simulator's io.max.
fn limits(max: &Max) -> String {
    let least = |a: u64, b: u64| match (a, b) {
        // In a contract, 0 means that there is no limit.
        (0, 0) => "max".to_owned(),
        (0, n) | (n, 0) => n.to_string(),
        (a, b) => a.min(b).to_string(),
    };
    format!(
        "rbps={} wbps={} riops={} wiops={}",
        least(max.bandwidth, max.read_bandwidth),
        least(max.bandwidth, max.write_bandwidth),
        least(max.iops, max.read_iops),
        least(max.iops, max.write_iops),
    )
}

/// Formats the `io.low` of a group as the simulator has it, or returns `None` if the group has no
/// limit.
///
/// The limits are the group's own, or else its min in the directions that the tunables name. A
/// limit of 0 is left out, because "max" would be the highest limit instead of none. The times
/// follow, without which Linux ignores the limits.
fn low_limits(contract: &Contract, own: &LowKnobs, tunables: &low::Config) -> Option<String> {
    let min = |other_direction| {
        if tunables.limits == other_direction {
            (0, 0)
        } else {
            (contract.min, contract.min_iops)
        }
    };
    let limits = if own.is_limited() {
        [
            ("rbps", own.read_bandwidth),
            ("wbps", own.write_bandwidth),
            ("riops", own.read_iops),
            ("wiops", own.write_iops),
        ]
    } else {
        let (rbps, riops) = min(Directions::Writes);
        let (wbps, wiops) = min(Directions::Reads);
        [
            ("rbps", rbps),
            ("wbps", wbps),
            ("riops", riops),
            ("wiops", wiops),
        ]
    };
    let limits = limits.into_iter().filter(|(_, limit)| *limit > 0);
    let limits: Vec<String> = limits.map(|(name, n)| format!("{name}={n}")).collect();
    let micros = |own: Span, all: Span| {
        let time = if own == Span::ZERO { all } else { own };
        (time.as_nanos() / 1_000).max(1)
    };
    let times = format!(
        "idle={} latency={}",
        micros(own.idle, tunables.idle),
        micros(own.latency, tunables.latency)
    );
    (!limits.is_empty()).then(|| format!("{} {times}", limits.join(" ")))
}

#[cfg(test)]
mod tests;
