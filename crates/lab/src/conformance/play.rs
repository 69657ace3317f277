//! Weir's side: runs the same job file, drive, elevator and groups in the simulator.

use crate::conformance::experiment::{
    ConformanceCase, Experiment, ExperimentGroup, JobPlayer, NullBlk,
};
use crate::conformance::sample::PlayerSample;
use std::collections::BTreeMap;
use weir_config::policy::{self, Policy};
use weir_config::scenario::{self, Choice};
use weir_core::random::Rng;
use weir_core::{Capacity, Contract, GroupId, Knobs, Max, ROOT, Span, control};
use weir_measure::Meter;
use weir_sim::{ClientSpec, GroupSpec, MergeSettings, NrRequests, Scenario, SimRun};

/// The number of bytes per second in one of `null_blk`'s megabytes: 20,971 in each of 50 ticks per
/// second.
const MEGABYTE: u64 = 20_971 * 50;

/// The maximum number of sectors of a command. `null_blk` has the kernel's safe default
/// (`BLK_SAFE_MAX_SECTORS`).
const SECTORS: u32 = 255;

/// A rate in bytes or requests per second that exceeds all promises.
const BOUNDLESS: u64 = 1 << 40;

/// Runs a case once, and measures `seconds` seconds.
///
/// # Errors
/// Returns an error if experiment, case and policy do not fit together.
pub fn play(
    experiment: &Experiment,
    case: &ConformanceCase,
    run: u32,
    seconds: u32,
) -> Result<Vec<PlayerSample>, String> {
    let policy = policy(case)?;
    let players = case.players(&experiment.sections()?);
    let (scenario, owners) = scenario(experiment, case, run, seconds, &players, &policy)?;
    let results = SimRun::new(&scenario, &policy, run).and_then(|run| run.run(|_| {}));
    let results = results.map_err(|e| format!("{}: {e}", case.name))?;
    let mut meters: BTreeMap<(usize, usize), Meter> = BTreeMap::new();
    for (client, owner) in results.clients.into_iter().zip(owners) {
        meters
            .entry(owner)
            .and_modify(|m| m.merge(&client.meter))
            .or_insert(client.meter);
    }
    let samples = players.iter().enumerate().filter_map(|(n, player)| {
        let parts = meters.iter().filter(|(owner, _)| owner.0 == n);
        let parts: Vec<PlayerSample> = parts
            .map(|(_, meter)| sample(case, run, player, meter, seconds))
            .collect();
        PlayerSample::pooled(&parts)
    });
    Ok(samples.collect())
}

fn sample(
    case: &ConformanceCase,
    run: u32,
    player: &JobPlayer,
    meter: &Meter,
    seconds: u32,
) -> PlayerSample {
    let latency = meter.latency();
    let us = |num| latency.quantile(num, 100) as f64 / 1e3;
    PlayerSample {
        case: case.name.clone(),
        run,
        player: player.name.clone(),
        bandwidth: meter.bytes() as f64 / f64::from(seconds),
        latency: [latency.mean() / 1e3, us(50), us(99)],
    }
}

/// Returns the policy with the settings of the case.
fn policy(case: &ConformanceCase) -> Result<Policy, String> {
    let policy = policy::find(&case.policy).map_err(|e| e.to_string())?;
    let stated = [("qos", &case.qos), ("model", &case.model)];
    let stated = stated
        .into_iter()
        .filter_map(|(key, line)| Some((key, line.as_deref()?)));
    let mut policy = with_cost(&policy, &stated.collect::<Vec<_>>())
        .map_err(|e| format!("{}: {e}", case.name))?;
    // The low limits of cases apply to reads.
    policy.low.limits = control::low::Directions::Reads;
    // Weir's settings apply to all groups. The longest value that a group states is used, because
    // groups that reach their limits do not depend on it.
    let longest = |name: &str| {
        let stated = case.group.iter().filter_map(|g| g.low.get(name));
        stated.max().map(|us| Span::from_micros(*us))
    };
    policy.low.idle = longest("idle").unwrap_or(policy.low.idle);
    policy.low.latency = longest("latency").unwrap_or(policy.low.latency);
    let elevator = policy.elevator.kind().name;
    for (name, value) in case.iosched.iter().chain(&case.weir) {
        if !policy.tune(elevator, name, *value) {
            return Err(format!("{elevator} has no tunable {name}"));
        }
    }
    Ok(policy)
}

/// Returns a policy in which lines of `io.cost` are replaced by the stated ones, given by their
/// keys.
///
/// # Errors
/// Returns an error if a line is not one of `io.cost`.
pub(crate) fn with_cost(policy: &Policy, stated: &[(&str, &str)]) -> Result<Policy, String> {
    if stated.is_empty() {
        return Ok(policy.clone());
    }
    let text = policy::print(policy);
    let lines = text.lines().map(|l| {
        let stated = stated
            .iter()
            .find(|(key, _)| l.starts_with(&format!("{key} = ")));
        stated.map_or_else(|| l.to_owned(), |(key, line)| format!("{key} = {line:?}"))
    });
    policy::read(&lines.collect::<Vec<_>>().join("\n"), "").map_err(|e| format!("{e:?}"))
}

fn drive(null_blk: NullBlk) -> weir_model::drive::DriveConfig {
    // `null_blk` grants its bandwidth 50 times per second (`TICKS_PER_SEC`).
    let tick = if null_blk.mbps > 0 {
        Span::from_millis(20)
    } else {
        Span::ZERO
    };
    weir_model::drive::DriveConfig::Null(weir_model::drive::null::NullConfig {
        service: Span::from_micros(null_blk.service_us),
        tags: null_blk.tags,
        queues: 1,
        link: null_blk.mbps * MEGABYTE,
        tick,
        wake: Span::ZERO,
        command: SECTORS * 512,
    })
}

/// The indices of a client's player and of the player's group.
type ClientOwner = (usize, usize);

/// Returns a job file's scenario without clients and groups.
fn without_groups(all: &Scenario) -> Scenario {
    // Linux admits every low limit, so that the capacity must not refuse any.
    let boundless = Capacity {
        read: BOUNDLESS,
        write: BOUNDLESS,
        iops: BOUNDLESS,
        ..Capacity::NONE
    };
    Scenario {
        clients: Vec::new(),
        // The groups are stated by the case, and not by the job file.
        groups: Vec::new(),
        capacity: Some(boundless),
        // The drive of the lab is new, so that there is no run-in.
        run_in: Span::ZERO,
        ..all.clone()
    }
}

fn scenario(
    experiment: &Experiment,
    case: &ConformanceCase,
    run: u32,
    seconds: u32,
    players: &[JobPlayer],
    policy: &Policy,
) -> Result<(Scenario, Vec<ClientOwner>), String> {
    let script = scenario::load(&experiment.jobs)
        .map_err(|e| format!("{}: {e:?}", experiment.jobs.display()))?;
    let drive = drive(experiment.setting.drive);
    let choice = Choice {
        drive: &drive,
        capacity: None,
        case: None,
        policy: &policy.name,
        seconds: Some(seconds),
    };
    let all = script
        .scenario(&choice)
        .map_err(|e| format!("{}: {e:?}", case.name))?;
    let mut scenario = without_groups(&all);
    scenario.name = format!("{}: {}", experiment.name, case.name);
    scenario.adapter.nr_requests = NrRequests::Each(case.nr_requests);
    scenario.merging = MergeSettings {
        nomerges: case.nomerges,
        ..MergeSettings::LINUX
    };
    let mut groups = BTreeMap::new();
    for group in &case.group {
        for name in group.names() {
            let parent = group.parent().and_then(|p| groups.get(p)).copied();
            scenario.groups.push(spec(group, parent.unwrap_or(ROOT))?);
            groups.insert(name, GroupId(scenario.groups.len() as u32));
        }
    }
    // In Linux, processes can run in the root next to groups. Here they run in a group of their own
    // without limits.
    let mut root = ROOT;
    if !groups.is_empty() && players.iter().any(|p| p.groups.is_empty()) {
        scenario.groups.push(GroupSpec {
            parent: ROOT,
            contract: Contract::DEFAULT,
            knobs: Knobs::NONE,
        });
        root = GroupId(scenario.groups.len() as u32);
    }
    let mut owners = Vec::new();
    // Each run has its own start times.
    let mut rng = Rng::new(u64::from(run));
    for (n, player) in players.iter().enumerate() {
        let clients = all.clients.iter().filter(|c| of(&player.section, &c.name));
        let clients: Vec<&ClientSpec> = clients.collect();
        for place in 0..player.groups.len().max(1) {
            // In the lab, the jobs of one process begin together, one to two milliseconds after the
            // groups were created.
            let late = Span::from_micros(rng.range(1000, 1999));
            for client in &clients {
                let name = player.groups.get(place);
                let group = name.and_then(|g| groups.get(g)).copied().unwrap_or(root);
                let mut client = ClientSpec {
                    group,
                    sequence: scenario.clients.len() as u32,
                    ..(*client).clone()
                };
                client.program.start = late;
                scenario.clients.push(client);
                owners.push((n, place));
            }
        }
    }
    Ok((scenario, owners))
}

/// Returns true if a client belongs to this section: it has the section's name, or that name with a
/// number.
fn of(section: &str, client: &str) -> bool {
    let rest = client.strip_prefix(section);
    rest.is_some_and(|r| {
        r.is_empty()
            || r.strip_prefix('-')
                .is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    })
}

fn spec(group: &ExperimentGroup, parent: GroupId) -> Result<GroupSpec, String> {
    let mut max = Max::NONE;
    for (name, value) in &group.max {
        let limit = match name.as_str() {
            "rbps" => &mut max.read_bandwidth,
            "wbps" => &mut max.write_bandwidth,
            "riops" => &mut max.read_iops,
            "wiops" => &mut max.write_iops,
            _ => return Err(format!("io.max has no {name}")),
        };
        *limit = *value;
    }
    let limit = |name: &str| group.low.get(name).copied().unwrap_or_default();
    // The cases have low limits on reads only.
    let known = ["rbps", "riops", "idle", "latency"];
    if let Some(name) = group.low.keys().find(|n| !known.contains(&n.as_str())) {
        return Err(format!("io.low has no {name} here"));
    }
    let share = if group.weight > 0 {
        group.weight
    } else {
        Contract::DEFAULT.share
    };
    Ok(GroupSpec {
        parent,
        contract: Contract {
            share,
            min: limit("rbps"),
            min_iops: limit("riops"),
            max,
            ..Contract::DEFAULT
        },
        knobs: Knobs {
            latency: Span::from_micros(group.latency_us),
            ..Knobs::NONE
        },
    })
}
