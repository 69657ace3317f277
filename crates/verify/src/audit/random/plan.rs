//! The plan of a run: a configuration, and the frequencies of events.

use super::{DecisionSource, RandomDecisions};
use weir_core::elevator;
use weir_core::tunable::Tuned;
use weir_core::{
    Capacity, Class, Config, Contract, DriveShape, Edit, GroupId, Knobs, Max, MaxDebt, ROOT, Sizes,
    SpaceId, Span, control, merge,
};

/// A drawn configuration and the frequencies of operations. Every run draws its own plan, so that
/// all combinations occur sooner or later.
#[derive(Clone, Debug)]
pub struct RandomPlan {
    /// The configuration of the layer.
    pub config: Config,
    /// The initial groups, spaces and contracts, which the driver applies one by one.
    pub edits: Vec<Edit>,
    /// The relative frequency of each kind of operation, see [`RandomOperation`].
    pub weights: [u64; RandomOperation::ALL.len()],
    /// The maximum length of a request in bytes.
    pub length_max: u64,
    /// The maximum step of time, in nanoseconds.
    pub step_max: u64,
    /// True if the driver is never late for a wake-up.
    pub punctual: bool,
    /// The frequency of errors: one of this many completions fails.
    pub error_in: u64,
    /// The frequency of busy drives: one of this many completions reports that the drive was busy.
    pub busy_in: u64,
    /// The frequency of flushes: one of this many requests is a flush.
    pub flush_in: u64,
    /// The maximum number of open streams.
    pub streams: u32,
    /// True if the idle class is also checked, see [`crate::audit::Idle`].
    pub idle: bool,
}

listed! {
    /// The kinds of operations of a random run.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum RandomOperation {
        /// Submits a batch of requests.
        Submit,
        /// Completes a batch, in any order.
        Complete,
        /// Opens a stream.
        Open,
        /// Closes a stream.
        Close,
        /// Puts a stream on hold, or lifts the hold.
        Hold,
        /// Cancels a request.
        Cancel,
        /// Changes groups, contracts, spaces or capacity.
        Change,
        /// Completes tags that may not be in flight.
        Stray,
        /// Uses the id of a stream that may not exist any more.
        Stale,
        /// Only advances the time and polls.
        Nothing,
        /// Notifies the layer that a space stalls.
        Stall,
    }
}

impl RandomPlan {
    /// Draws a plan from a source of decisions.
    pub fn draw<S: DecisionSource>(source: &mut S) -> Self {
        let (sizes, drive) = (sizes(source), drive(source));
        let config = Config::of(elevator(source)).sizes(sizes).drive(drive);
        let groups = config.sizes.groups;
        let spaces = config.sizes.spaces;
        let mut edits: Vec<Edit> = (0..spaces).map(|id| set_space(source, id)).collect();
        for id in 1..groups {
            if !source.once_in(4) {
                edits.push(add_group(source, &config, id));
                edits.extend(set_knobs(source, id));
            }
        }
        // Rare operations are missing from a third of the runs, and occur in the others with any
        // order of magnitude.
        let rare = |source: &mut S| source.unless(3, |s| s.magnitude(200));
        let mut weights = [
            2_000 + source.below(2_000),
            2_000 + source.below(2_000),
            100,
            rare(source) / 2,
            rare(source),
            rare(source),
            rare(source) / 4,
            rare(source) / 4,
            rare(source) / 4,
            source.below(2_000),
            0,
        ];
        let mut config = config;
        config.merge = draw_merge(source, &config.elevator);
        // The random numbers of controllers are derived from the weights. They take nothing from
        // `source`, so that older seeds draw the same runs as before.
        let mix = |seed: u64, weight: &u64| seed.wrapping_mul(1_009).wrapping_add(*weight);
        let seed = weights.iter().fold(0, mix);
        let mut of_controllers = RandomDecisions::new(seed);
        config.controllers.cost = draw_cost(&mut of_controllers);
        config.controllers.slices = draw_slices(&mut of_controllers);
        if !config.merge.is_on() && !config.merge.ahead && of_controllers.once_in(3) {
            config.sizes.stalled = of_controllers.magnitude(128) as u32;
            weights[RandomOperation::Stall as usize] = 1 + of_controllers.magnitude(400);
        }
        Self {
            edits,
            weights,
            length_max: source.magnitude(1 << 23).max(512),
            step_max: 1 << (6 + source.below(18)),
            punctual: source.once_in(2),
            error_in: source.magnitude(1_000),
            busy_in: 1 + source.magnitude(1_000),
            flush_in: 1 + source.magnitude(200),
            streams: 1 + source.below(u64::from(config.sizes.streams)) as u32,
            idle: true,
            config,
        }
    }
}

/// Draws `io.cost`, once in four runs. The stated speed of the drive may be far from the real one,
/// but not so low that requests wait for days.
fn draw_cost(source: &mut impl DecisionSource) -> Option<control::cost::Config> {
    if !source.once_in(4) {
        return None;
    }
    let mut config = control::cost::Config::default();
    tunables(source, &mut config);
    for bps in [&mut config.rbps, &mut config.wbps] {
        // A slow model would make requests wait for days of virtual time.
        *bps = (*bps).max(10_000_000_000);
    }
    for iops in [
        &mut config.rseqiops,
        &mut config.rrandiops,
        &mut config.wseqiops,
        &mut config.wrandiops,
    ] {
        *iops = (*iops).max(100_000);
    }
    config.min = config.min.max(5_000);
    config.max = config.max.max(config.min);
    Some(config)
}

/// Draws limits that count in slices, once in four runs.
fn draw_slices(source: &mut impl DecisionSource) -> Option<control::slices::Config> {
    if !source.once_in(4) {
        return None;
    }
    let mut config = control::slices::Config::default();
    tunables(source, &mut config);
    Some(config)
}

/// Draws the merging of requests, which is off in half of the runs.
fn draw_merge(source: &mut impl DecisionSource, elevator: &elevator::Config) -> merge::Config {
    if !elevator.merges() || source.once_in(2) {
        return merge::Config::OFF;
    }
    merge::Config {
        nomerges: source.below(3) as u8,
        max_segments: 1 + source.magnitude(128) as u16,
        segment_size: 4096 << source.below(5),
        ahead: source.once_in(2),
    }
}

fn sizes(source: &mut impl DecisionSource) -> Sizes {
    // The requests must cover the reservations of all streams.
    let streams = source.magnitude(24) as u32;
    let reserved = source.below(4) as u32;
    Sizes {
        requests: streams * reserved + source.magnitude(200) as u32,
        streams,
        groups: 1 + source.below(12) as u32,
        spaces: 1 + source.below(3) as u32,
        per_stream: source.magnitude(64) as u32,
        reserved,
        scheduler_tags: source.magnitude(128) as u32,
        // More than the calls of a run publish, so that no event is lost.
        events: 4096,
        stalled: 0,
    }
}

fn drive(source: &mut impl DecisionSource) -> DriveShape {
    DriveShape {
        queues: 1 + source.below(3) as u16,
        tags: source.magnitude(32) as u16,
        max_transfer: 4096 * (1 + source.below(32)) as u32,
        rotational: source.once_in(2),
        capacity: None,
    }
}

/// Draws one of all elevators, in half of the cases with its defaults.
fn elevator(source: &mut impl DecisionSource) -> elevator::Config {
    let kind = &elevator::KINDS[source.below(elevator::KINDS.len() as u64) as usize];
    let mut config = (kind.default)();
    if let Some(tuned) = config.tuned_mut()
        && source.once_in(2)
    {
        tunables(source, tuned);
    }
    config
}

/// Draws tunables. Each is sometimes its default, sometimes its minimum, and otherwise of any order
/// of magnitude up to well above its default.
fn tunables(source: &mut impl DecisionSource, tuned: &mut dyn Tuned) {
    // Values of a small range (flags, small counts) are equally likely.
    const FEW: u64 = 64;
    for (place, tunable) in tuned.tunables().iter().enumerate() {
        let (least, most) = tunable.bounds;
        let value = match most - least {
            beyond if beyond < FEW => least + source.below(beyond + 1),
            _ if source.once_in(4) => tunable.default,
            _ if source.once_in(4) => least,
            _ => source.magnitude(most.min(16 * tunable.default.max(1 << 16))),
        };
        tuned.set(place, value);
    }
    tuned.bound();
}

pub(super) fn set_space(source: &mut impl DecisionSource, id: u32) -> Edit {
    // One space in 16 does not exist at first.
    let size = (!source.once_in(16)).then(|| source.magnitude(1 << 40).max(1 << 24));
    Edit::SetSpace {
        id: SpaceId(id),
        size,
    }
}

pub(super) fn add_group(source: &mut impl DecisionSource, config: &Config, id: u32) -> Edit {
    // Half of the groups are children of the root. The parent of the others is a group of smaller
    // number, which may not exist.
    let parent = if source.once_in(2) {
        ROOT
    } else {
        GroupId(source.below(u64::from(id.max(1))) as u32)
    };
    Edit::AddGroup {
        id: GroupId(id),
        parent,
        contract: draw_contract(source, config),
    }
}

pub(super) fn capacity(source: &mut impl DecisionSource) -> Option<Capacity> {
    (!source.once_in(8)).then(|| {
        let (read, write) = (source.magnitude(1 << 34), source.magnitude(1 << 34));
        let mut requests = |seldom| source.sometimes(seldom, |s| s.magnitude(1 << 22));
        Capacity {
            read,
            write,
            iops: requests(2),
            read_iops: requests(4),
            write_iops: requests(4),
        }
    })
}

/// Draws a contract. Its share is mostly within the range of the elevator, which ends at 1000 for
/// `bfq`.
pub(super) fn draw_contract(source: &mut impl DecisionSource, config: &Config) -> Contract {
    let share_max = u64::from(config.elevator.share_max());
    let odd = source.once_in(64);
    let (min, min_iops) = match source.below(16) {
        0 => (source.magnitude(1 << 24), 0),
        1 => (0, source.magnitude(1 << 12)),
        2 if odd => (1, 1),
        _ => (0, 0),
    };
    Contract {
        min,
        min_iops,
        share: if odd {
            source.below(20_000)
        } else {
            source.magnitude(share_max)
        } as u16,
        max: source.sometimes(2, draw_max),
        class: match source.below(8) {
            0 => Class::Realtime,
            1 => Class::Idle,
            _ => Class::BestEffort,
        },
    }
}

/// Draws the knobs of a group, which are mostly absent.
pub(super) fn set_knobs(source: &mut impl DecisionSource, id: u32) -> Option<Edit> {
    let latency = source.sometimes(8, |s| Span::from_nanos(s.magnitude(1 << 24)));
    let knobs = Knobs {
        latency,
        ..Knobs::NONE
    };
    let id = GroupId(id);
    (knobs != Knobs::NONE || source.once_in(8)).then_some(Edit::SetKnobs { id, knobs })
}

/// Draws the debts of a group, most of them up to 16 ms.
pub(super) fn set_debt(source: &mut impl DecisionSource, id: u32) -> Edit {
    let mut debt = || source.sometimes(2, |s| Span::from_nanos(s.magnitude(1 << 24)));
    Edit::SetDebt {
        id: GroupId(id),
        debt: MaxDebt {
            bandwidth: debt(),
            read_bandwidth: debt(),
            write_bandwidth: debt(),
            iops: debt(),
            read_iops: debt(),
            write_iops: debt(),
        },
    }
}

fn draw_max<S: DecisionSource>(source: &mut S) -> Max {
    let bytes = |source: &mut S| source.unless(2, |s| 1_000 + s.magnitude(1 << 33));
    let iops = |source: &mut S| source.unless(2, |s| s.magnitude(1 << 22));
    Max {
        bandwidth: bytes(source),
        read_bandwidth: source.sometimes(2, bytes),
        write_bandwidth: source.sometimes(2, bytes),
        iops: iops(source),
        read_iops: source.sometimes(2, iops),
        write_iops: source.sometimes(2, iops),
        iops_size: source.sometimes(4, |s| s.magnitude(1 << 20)),
        burst: source.unless(2, |s| Span::from_nanos(s.magnitude(1 << 30))),
    }
}
