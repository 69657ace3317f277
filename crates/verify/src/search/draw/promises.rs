//! Draws promises: parts of the service that clients get without the others.

use super::dice::Dice;
use crate::search::case::{SearchCase, max_bandwidth, round_interval};
use crate::search::trial::{RunFailure, play};
use weir_core::{Class, GroupId, ROOT, Span};
use weir_measure::promise::Second;
use weir_model::load::{Arrival, Size};
use weir_sim::Policy;

/// Gives realtime clients their max, and some groups a min.
pub(super) fn make(dice: &mut Dice, case: &mut SearchCase) -> Result<(), RunFailure> {
    realtime(dice, case)?;
    let mut chosen = choose(dice, case);
    // The groups are measured together with the realtime clients.
    let is_there = |client: usize| {
        let mut path = case.path(case.scenario.clients[client].group);
        path.any(|g| chosen.contains(&g)) || case.is_realtime(client)
    };
    let mut alone = case.only(is_there).steady();
    // Three seconds, of which the last two are measured.
    alone.scenario.duration = Span::from_secs(3);
    if alone.scenario.clients.is_empty() {
        return Ok(());
    }
    let watch = play(&alone, &Policy::none(), false)?.watch;
    // Members have larger numbers than their tenant, so the reverse order sets their mins first.
    chosen.sort_unstable();
    for &group in chosen.iter().rev() {
        // The first second contains the start, so that the mean is over the second and third.
        let seconds = &watch.group(group).seconds[1..3];
        let part = per_mille(dice);
        let requests = dice.chance(1, 5);
        promise(case, group, seconds, part, requests);
    }
    Ok(())
}

/// Chooses the groups with a promise, mostly one to six and sometimes all. Members of a tenant are
/// chosen only if the tenant is.
fn choose(dice: &mut Dice, case: &SearchCase) -> Vec<GroupId> {
    let ids = case.groups();
    let mut left: Vec<GroupId> = ids
        .filter(|g| case.group(*g).class == Class::BestEffort)
        .filter(|g| case.parent(*g) == ROOT)
        .filter(|g| !(case.clones && g.0 <= clones(case)))
        .collect();
    let number = if dice.chance(1, 10) {
        left.len() as u64
    } else {
        dice.log(1, 6)
    };
    let mut chosen = Vec::new();
    for _ in 0..number.min(left.len() as u64) {
        let at = dice.range(0, left.len() as u64 - 1) as usize;
        let group = left.swap_remove(at);
        chosen.push(group);
        let members = case.groups();
        for member in members.filter(|m| case.parent(*m) == group) {
            if dice.chance(1, 2) {
                chosen.push(member);
            }
        }
    }
    chosen
}

/// Returns how many of the first groups belong to clones.
fn clones(case: &SearchCase) -> u32 {
    let first = case.scenario.clients.first().map(|c| c.program);
    let alike = case
        .scenario
        .clients
        .iter()
        .take(3)
        .filter(|c| Some(c.program) == first);
    alike.count() as u32
}

/// Draws a part from 5 to 95 %, in thousandths. In half of the cases each order of magnitude is
/// equally likely.
fn per_mille(dice: &mut Dice) -> u64 {
    if dice.chance(1, 2) {
        dice.log(50, 950)
    } else {
        dice.range(50, 950)
    }
}

/// Sets the min of a group, within its max. A tenant gets at least the sum of its members' mins,
/// which are set before.
fn promise(case: &mut SearchCase, group: GroupId, seconds: &[Second], part: u64, requests: bool) {
    let mean = |of: fn(&Second) -> u64| seconds.iter().map(of).sum::<u64>() / seconds.len() as u64;
    let (bytes, iops) = (mean(|s| s.done.bytes), mean(|s| s.done.requests));
    let members = case.scenario.groups.iter().filter(|g| g.parent == group);
    let (below, below_iops) = members.fold((0, 0), |sum, g| {
        (sum.0 + g.contract.min, sum.1 + g.contract.min_iops)
    });
    let parent = case.parent(group);
    let contract = &mut case.group_mut(group).contract;
    let iops = (iops * part / 1000).max(below_iops);
    // Only groups outside of tenants are promised requests, because bytes and requests do not add
    // up in a tenant.
    if requests && parent == ROOT && below == 0 && below_iops == 0 && !contract.max.is_limited() {
        contract.min_iops = iops;
        return;
    }
    let mut min = (bytes * part / 1000).max(below);
    if contract.max.bandwidth > 0 {
        min = min.min(contract.max.bandwidth / 10 * 9);
    }
    contract.min = min;
}

/// Sets the max of each realtime client: a part of its bandwidth without contention, which some
/// clients reach and others do not.
fn realtime(dice: &mut Dice, case: &mut SearchCase) -> Result<(), RunFailure> {
    for index in 0..case.scenario.clients.len() {
        if !case.is_realtime(index) {
            continue;
        }
        let watch = play(&case.alone(index, 1), &Policy::none(), false)?.watch;
        let client = &mut case.scenario.clients[index];
        let rate = watch.group(client.group).seconds[0].done.bytes;
        // From 2 to 30 % of the bandwidth without contention, and at least 100 kB/s.
        let max = (rate * dice.log(20, 300) / 1000).max(100_000);
        if dice.chance(2, 3) && client.buffered.is_none() {
            let size = match client.program.size {
                Size::Fixed(bytes) => u64::from(bytes),
                Size::Range { min, max, .. } => u64::midpoint(min.into(), max.into()),
                split @ Size::Split(_) => u64::midpoint(split.least().into(), split.most().into()),
            };
            // A paced client demands 30 to 90 % of its max.
            let part = dice.range(300, 900);
            let interval = Span::from_nanos(size * 1_000_000_000 / (max * part / 1000).max(1));
            client.program.arrival = if dice.chance(1, 2) {
                Arrival::Even { interval }
            } else {
                Arrival::Poisson { interval }
            };
            // An open loop needs some queue depth, or its rate would be bounded by latency.
            client.program.depth = client.program.depth.max(4);
            round_interval(&mut client.program);
        }
        let group = client.group;
        let contract = &mut case.group_mut(group).contract;
        contract.max = max_bandwidth(max);
        contract.max.burst = Span::from_millis(*dice.pick(&[0, 10, 100]));
    }
    Ok(())
}
