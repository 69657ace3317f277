//! Scenes of contracts: promises in requests and of tenants, the realtime class, the idle class,
//! and changes of contracts.

use super::draft::{FITTING, PROMISABLE, SceneDraft};
use super::kinds::{MS, SIZES, share};
use super::{SceneStep, SceneWatch, SteadyScene};
use crate::audit::random::{DecisionSource, RandomDecisions};
use weir_core::{Class, GroupId, Instant, ROOT, Span};

const fn promises(least: u64) -> SceneWatch {
    SceneWatch::Promises {
        from: Instant::ZERO,
        least,
    }
}

/// Draws the speed of a drive that reaches its stated capacity or more, in percent of the capacity.
fn fast_enough(random: &mut RandomDecisions) -> u64 {
    random.pick(&[100, 100, 200, 400])
}

pub(super) fn requests(random: &mut RandomDecisions) -> SteadyScene {
    let speed = fast_enough(random);
    let mut draft = SceneDraft::new(random, speed, vec![promises(1_000)]);
    draft.promised_requests(300_000, 1);
    for _ in 0..2 + draft.random.below(6) {
        match draft.random.below(4) {
            0 => draft.promised_requests(100_000, 1),
            1 => {
                let depth = 2 + draft.random.below(7) as u32;
                draft.promised_requests(300_000, depth);
            }
            2 => draft.promised_stream(300_000),
            _ => {
                draft.greedy_below(ROOT);
            }
        }
    }
    draft.scene
}

/// Adds a tenant with members, some with a min of their own. The tenant's min is at least the sum
/// of its members' mins.
fn tenant(draft: &mut SceneDraft<'_>, most: u64) {
    let part = draft.take(most);
    let (min, own) = (draft.bytes(part), draft.share());
    let tenant = draft.group(ROOT, own.min(min));
    let mut left = min;
    for member in 0..=draft.random.below(3) {
        let min = if draft.random.once_in(2) {
            draft.random.below(left / 2 + 1)
        } else {
            0
        };
        left -= min;
        let own = draft.share();
        let group = draft.group(tenant, own.min(min));
        let pauses = draft.random.once_in(3);
        let (on, off) = (
            MS * (50 + draft.random.below(200)),
            MS * (50 + draft.random.below(200)),
        );
        let client = draft.streams(group);
        if pauses && member > 0 {
            (client.on, client.off) = (on, off);
        }
    }
}

pub(super) fn tenants(random: &mut RandomDecisions) -> SteadyScene {
    let speed = fast_enough(random);
    let mut draft = SceneDraft::new(random, speed, vec![promises(1_000)]);
    for _ in 0..=draft.random.below(3) {
        tenant(&mut draft, 500_000);
    }
    for _ in 0..=draft.random.below(3) {
        if draft.random.once_in(2) {
            draft.promised_requests(200_000, 1);
        }
        draft.greedy_below(ROOT);
    }
    draft.scene
}

/// Draws realtime clients among others. `bursts` are the possible bursts of their limits in
/// milliseconds, and `sizes` their request sizes.
fn among_others(
    random: &mut RandomDecisions,
    watch: Vec<SceneWatch>,
    bursts: &[u64],
    sizes: &[u32],
) -> SteadyScene {
    let speed = fast_enough(random);
    let mut draft = SceneDraft::new(random, speed, watch);
    for _ in 0..=draft.random.below(2) {
        let burst = draft.random.pick(bursts);
        draft.realtime(400_000, Span::from_millis(burst), sizes);
    }
    draft.promised_requests(200_000, 1);
    for _ in 0..=draft.random.below(3) {
        draft.promised_stream(400_000);
        draft.greedy_below(ROOT);
    }
    if bursts == [0] {
        // A realtime client that sends no faster than its limit waits for no other promise, so that
        // its wait is bounded.
        draft.watch_realtime();
    }
    draft.scene
}

pub(super) fn realtime(random: &mut RandomDecisions) -> SteadyScene {
    among_others(random, vec![], &[0], FITTING)
}

pub(super) fn realtime_beside(random: &mut RandomDecisions) -> SteadyScene {
    among_others(random, vec![promises(1_000)], &[0], FITTING)
}

pub(super) fn realtime_bursts(random: &mut RandomDecisions) -> SteadyScene {
    among_others(random, vec![promises(1_000)], &[10, 100], FITTING)
}

pub(super) fn realtime_large(random: &mut RandomDecisions) -> SteadyScene {
    among_others(random, vec![promises(1_000)], &[0], &SIZES[3..])
}

/// Draws a realtime client whose limit lets it take the whole drive, because it sends promised
/// bytes in minimal requests.
pub(super) fn realtime_small(random: &mut RandomDecisions) -> SteadyScene {
    let mut draft = SceneDraft::new(random, 100, vec![promises(1_000)]);
    draft.realtime(600_000, Span::ZERO, &[4096]);
    for client in &mut draft.scene.clients {
        client.depth = 32;
    }
    for _ in 0..=draft.random.below(3) {
        draft.promised_stream(300_000);
    }
    draft.scene
}

/// Draws promised clients, and a realtime one if `realtime` is true, on a drive that is slower than
/// stated.
fn slow(random: &mut RandomDecisions, realtime: bool) -> SteadyScene {
    let speed = random.pick(&[25, 50]);
    let mut draft = SceneDraft::new(random, speed, vec![]);
    if realtime {
        draft.realtime(600_000, Span::ZERO, FITTING);
        if draft.random.once_in(2) {
            // A realtime client with as many requests as the drive has tags would leave nothing to
            // others.
            draft.scene.clients[0].depth = 64;
        }
    }
    for _ in 0..=draft.random.below(3) {
        draft.promised_stream(400_000);
    }
    draft.greedy_below(ROOT);
    // All promises slow down in proportion. The check that each promise gets at least half of its
    // proportion shows that no client starves. It does not show that the proportion is exact.
    let promised = (PROMISABLE - draft.left).max(1);
    let proportion = (speed * 10 * 1_000_000 / promised).min(1_000);
    draft.scene.watch.push(promises(proportion / 2));
    draft.scene
}

pub(super) fn slow_drive(random: &mut RandomDecisions) -> SteadyScene {
    slow(random, false)
}

pub(super) fn slow_realtime(random: &mut RandomDecisions) -> SteadyScene {
    slow(random, true)
}

/// Draws tenants of equal share, each with an ordinary client and one of the idle class.
pub(super) fn idle_members(random: &mut RandomDecisions) -> SteadyScene {
    let speed = fast_enough(random);
    let mut draft = SceneDraft::new(random, speed, vec![SceneWatch::Idle]);
    for _ in 0..2 + draft.random.below(2) {
        let contract = draft.share();
        let tenant = draft.group(ROOT, contract);
        draft.greedy_below(tenant);
        draft.idle(tenant);
    }
    if draft.random.once_in(2) {
        draft.idle(ROOT);
    }
    // The clients have the same request size, so that turns are equal.
    let size = draft.random.pick(&SIZES);
    for client in &mut draft.scene.clients {
        client.size = size;
    }
    draft.scene
}

pub(super) fn idle_deep(random: &mut RandomDecisions) -> SteadyScene {
    let speed = random.pick(&[50, 100, 200]);
    let mut draft = SceneDraft::new(random, speed, vec![SceneWatch::Idle]);
    for _ in 0..=draft.random.below(3) {
        let class = draft.random.pick(&[Class::BestEffort, Class::Idle]);
        let own = draft.random.pick(&[1, 100, 10_000]);
        let tenant = draft.group(ROOT, share(own).class(class));
        draft.greedy_below(tenant);
        for _ in 0..=draft.random.below(2) {
            draft.idle(tenant);
        }
    }
    if draft.random.once_in(2) {
        draft.realtime(500_000, Span::ZERO, FITTING);
    }
    for _ in 0..=draft.random.below(2) {
        draft.promised_stream(600_000);
    }
    draft.scene
}

/// Draws contracts of all kinds with all possible events. Those of the classes realtime and idle
/// are included if `classes` is true.
fn restless(random: &mut RandomDecisions, classes: bool) -> SteadyScene {
    let speed = fast_enough(random);
    let mut draft = SceneDraft::new(random, speed, vec![promises(1_000), SceneWatch::Idle]);
    draft.scene.drive.error_in = draft.random.pick(&[0, 50, 1_000]);
    draft.scene.drive.busy_in = draft.random.pick(&[0, 1_000]);
    draft.scene.duration = Span::from_millis(4_000);
    draft.promised_requests(100_000, 1);
    tenant(&mut draft, 300_000);
    for _ in 0..=draft.random.below(3) {
        match draft.random.below(5) {
            0 if classes => draft.realtime(200_000, Span::ZERO, FITTING),
            3 if classes => draft.idle(ROOT),
            1 => draft.promised_requests(200_000, 4),
            2 => draft.promised_stream(300_000),
            _ => tenant(&mut draft, 200_000),
        }
    }
    draft.greedy_below(ROOT);
    for client in &mut draft.scene.clients {
        if draft.random.once_in(4) {
            client.think = draft.random.magnitude(MS / 10);
        }
    }
    draft.watch_realtime();
    disturb(&mut draft);
    draft.scene
}

pub(super) fn unrest(random: &mut RandomDecisions) -> SteadyScene {
    restless(random, false)
}

pub(super) fn unrest_of_classes(random: &mut RandomDecisions) -> SteadyScene {
    restless(random, true)
}

/// Adds other events to the script, a few of each kind.
fn disturb(draft: &mut SceneDraft<'_>) {
    let SceneDraft { random, scene, .. } = draft;
    let end = scene.duration.as_nanos() / MS;
    let at = |ms: u64| Span::from_millis(ms);
    for client in 0..scene.clients.len() as u32 {
        let (from, to) = (random.below(end), random.below(end));
        let (from, to) = (from.min(to), from.max(to));
        match random.below(6) {
            0 => {
                scene.script.push((at(from), SceneStep::Disconnect(client)));
                scene.script.push((at(to), SceneStep::Connect(client)));
            }
            1 => {
                scene.script.push((at(from), SceneStep::Hold(client, true)));
                scene.script.push((at(to), SceneStep::Hold(client, false)));
            }
            2 => {
                for _ in 0..20 {
                    let when = random.below(end);
                    scene.script.push((at(when), SceneStep::Cancel(client)));
                }
            }
            _ => {}
        }
    }
    // A changed min is at most the initial one, because the rest may be promised to others. Tenants
    // are left out, because the mins of their members must fit in theirs.
    for (i, &(parent, contract)) in scene.groups.iter().enumerate() {
        let id = GroupId(i as u32 + 1);
        let has_members = scene.groups.iter().any(|g| g.0 == id);
        if has_members || parent != ROOT || random.once_in(2) {
            continue;
        }
        for _ in 0..3 {
            let other = contract
                .min(random.below(contract.min + 1))
                .min_iops(random.below(contract.min_iops + 1))
                .share(50 + random.below(100) as u16);
            let (when, back) = (random.below(end), random.below(end));
            scene.script.push((at(when), SceneStep::Change(id, other)));
            scene
                .script
                .push((at(back), SceneStep::Change(id, contract)));
        }
    }
}
