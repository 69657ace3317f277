//! Runs of a case under every policy, and the outcome.

use crate::case::{Case, work};
use crate::judge::{self, Judged};
use crate::watch::Watch;
use std::panic::{AssertUnwindSafe, catch_unwind};
use weir_config::{policy, profile};
use weir_core::{Class, Instant, Sizes, Span};
use weir_sim::{Auditors, Observer, Policy, Results, Run};

/// The results of a run of a case.
#[derive(Debug)]
pub struct Played {
    /// For each client.
    pub clients: Vec<Got>,
    /// For each group.
    pub watch: Watch,
    /// The number of violations that auditors found, and the first of them, if there were auditors.
    pub findings: (u64, String),
    /// Changes that were refused.
    pub refusals: usize,
}

/// The results of a client.
#[derive(Clone, Debug)]
pub struct Got {
    /// Total bytes.
    pub bytes: u64,
    /// Bytes by second.
    pub seconds: Vec<u64>,
    /// The 99th percentile of its latency, in nanoseconds; zero if no request completed.
    pub p99: u64,
}

/// The outcome of a case.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Its seed, if it was drawn.
    pub seed: u64,
    /// Its kind of drive: an index into [`KINDS`](crate::case::KINDS).
    pub kind: usize,
    /// The drive's name and the number of clients.
    pub title: String,
    /// Whether there are promises.
    pub promised: bool,
    /// Whether the promises are feasible: the promised clients alone keep them with some reserve, or BFQ keeps them.
    pub feasible: bool,
    /// Whether there is a realtime client.
    pub realtime: bool,
    /// The least part of what it was owed that any group got in any second under the contract policy; 1 if all promises were kept.
    pub worst: f64,
    /// The second and the group.
    pub worst_at: (u64, u32),
    /// Whether BFQ keeps every promise.
    pub bfq_keeps: bool,
    /// The sum over clients of the bandwidth under contract relative to that alone, divided by the same sum under none.
    pub total: Option<f64>,
    /// For each realtime client, the 99th percentile of its latency relative to that alone.
    pub latency: Vec<f64>,
    /// The same relative to that alone or to one far access of the drive, whichever is longer.
    pub latency_far: Vec<f64>,
    /// Where clients must get their shares: the relative difference between the two farthest apart.
    pub share_off: Option<f64>,
    /// The longest wait of the idle class, in milliseconds.
    pub idle_wait: Option<f64>,
    /// The number of violations that auditors found, and the first of them.
    pub findings: (u64, String),
    /// Why there is no outcome: a panic or an error.
    pub broken: Option<String>,
}

impl Outcome {
    /// Whether every promise was kept in every second.
    pub fn kept(&self) -> bool {
        self.worst >= 1.0
    }
}

/// All runs of a case.
#[derive(Debug)]
pub struct Trial {
    /// All clients under `none`.
    pub none: Played,
    /// All clients under `bfq-bytes`.
    pub bfq: Played,
    /// All clients under `contract`.
    pub contract: Played,
    /// By client: bytes per second alone on the drive, without contract; `None` if that was not run.
    pub alone: Vec<Option<f64>>,
    /// By client: for realtime ones the 99th percentile alone, in nanoseconds.
    pub realtime: Vec<Option<u64>>,
    /// The 99th percentile of far reads alone, in nanoseconds, if there is a realtime client.
    pub far: Option<u64>,
    /// Whether the promised clients alone keep every promise with some reserve.
    pub alone_keeps: bool,
    /// The promises under contract, second by second.
    pub judged: Vec<Judged>,
    /// The promises under `bfq-bytes`.
    pub judged_bfq: Vec<Judged>,
}

/// Maximum number of different programs that are run alone.
const ALONE: usize = 8;

/// Event capacity of an audited layer: more than any call publishes.
const EVENTS: u32 = 1 << 16;

/// Length of the runs alone, in seconds.
const ALONE_SECONDS: u64 = 2;

/// The panic or the error in which a case, or a run of it, ended.
pub type Broken = String;

/// Runs a case under a policy.
///
/// # Errors
/// Why the case cannot be run, in words.
pub fn play(case: &Case, policy: &Policy, audited: bool) -> Result<Played, Broken> {
    if !audited {
        return observed(case, policy, None, None);
    }
    let mut auditors = Auditors::new();
    let played = observed(case, policy, Some(EVENTS), Some(&mut auditors))?;
    let found = auditors.end(false);
    let first = found.kept().first().map(ToString::to_string);
    Ok(Played {
        findings: (found.total(), first.unwrap_or_default()),
        ..played
    })
}

/// Runs a case under a policy, and somebody watches.
///
/// # Errors
/// Why the case cannot be run, in words.
pub fn play_with(
    case: &Case,
    policy: &Policy,
    observer: &mut dyn Observer,
) -> Result<Played, Broken> {
    observed(case, policy, None, Some(observer))
}

fn observed(
    case: &Case,
    policy: &Policy,
    events: Option<u32>,
    observer: Option<&mut dyn Observer>,
) -> Result<Played, Broken> {
    let mut scenario = case.scenario.clone();
    if let Some(events) = events {
        scenario.sizes = Some(Sizes {
            events,
            ..scenario.sizes(policy)
        });
    }
    let mut watch = Watch::new(case);
    let mut observers: Vec<&mut dyn Observer> = vec![&mut watch];
    if let Some(observer) = observer {
        observers.push(observer);
    }
    let run = Run::observed(&scenario, policy, 0, observers)
        .map_err(|e| format!("{}: {e}", policy.name))?;
    let results = run
        .run(|_| {})
        .map_err(|e| format!("{}: {e}", policy.name))?;
    watch.end(Instant::ZERO + case.scenario.duration);
    Ok(Played {
        clients: got(&results),
        watch,
        findings: (0, String::new()),
        refusals: results.refusals.len(),
    })
}

fn got(results: &Results) -> Vec<Got> {
    let clients = results.clients.iter().map(|client| {
        let meter = &client.meter;
        let seconds = meter.seconds().complete(meter.end_ns());
        Got {
            bytes: meter.bytes(),
            seconds: seconds.iter().map(|w| w.bytes).collect(),
            p99: if meter.latency().is_empty() {
                0
            } else {
                meter.latency().quantile(99, 100)
            },
        }
    });
    clients.collect()
}

/// Does all runs of a case.
///
/// # Errors
/// Why one of them failed.
pub fn trial(case: &Case, audited: bool) -> Result<Trial, Broken> {
    let none = play(case, &Policy::none(), false)?;
    let bfq = play(
        case,
        &policy::find("bfq-bytes").expect("it comes with Weir"),
        false,
    )?;
    let contract = play(case, &Policy::contract(), audited)?;
    Ok(Trial {
        alone: alone(case)?,
        realtime: realtime(case)?,
        far: far(case)?,
        alone_keeps: alone_keeps(case)?,
        judged: judge::judge(case, &contract.watch, 100),
        judged_bfq: judge::judge(case, &bfq.watch, 100),
        none,
        bfq,
        contract,
    })
}

/// Bytes per second of each client with the drive to itself.
fn alone(case: &Case) -> Result<Vec<Option<f64>>, Broken> {
    let mut known: Vec<(_, f64)> = Vec::new();
    let mut all = Vec::new();
    for (index, client) in case.scenario.clients.iter().enumerate() {
        let rate = known.iter().find(|(known, _)| *known == work(client));
        let mut rate = rate.map(|(_, rate)| *rate);
        if rate.is_none() && known.len() < ALONE {
            let played = play(&case.alone(index, ALONE_SECONDS), &Policy::none(), false)?;
            let alone = played.clients[0].bytes as f64 / ALONE_SECONDS as f64;
            known.push((work(client), alone));
            rate = Some(alone);
        }
        all.push(rate);
    }
    Ok(all)
}

/// The latency of each realtime client alone, under contract.
fn realtime(case: &Case) -> Result<Vec<Option<u64>>, Broken> {
    let one = |index| {
        if !case.is_realtime(index) {
            return Ok(None);
        }
        let played = play(&case.only(|c| c == index), &Policy::contract(), false)?;
        Ok(Some(played.clients[0].p99))
    };
    (0..case.scenario.clients.len()).map(one).collect()
}

/// The latency of one far access after another, with the drive otherwise idle. A realtime client that a disk serves from its read cache
/// alone is not served from there beside others.
fn far(case: &Case) -> Result<Option<u64>, Broken> {
    let Some(far) = case.far_accesses(1).filter(|_| case.has_realtime()) else {
        return Ok(None);
    };
    let played = play(&far, &Policy::none(), false)?;
    Ok(Some(played.clients[0].p99))
}

/// Whether promised and realtime clients keep their promises without the other clients.
fn alone_keeps(case: &Case) -> Result<bool, Broken> {
    let case = case.only(|c| case.is_client_promised(c) || case.is_realtime(c));
    if case.scenario.clients.is_empty() {
        return Ok(true);
    }
    for policy in [Policy::contract(), Policy::none()] {
        let played = play(&case, &policy, false)?;
        let judged = judge::judge(&case, &played.watch, judge::SPARE);
        if judged.iter().all(Judged::is_kept) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Trial {
    /// The outcome of all runs.
    pub fn outcome(&self, case: &Case) -> Outcome {
        let worst = judge::worst(&self.judged);
        let bfq_keeps = self.judged_bfq.iter().all(Judged::is_kept);
        let promised = case.groups().any(|g| case.is_promised(g));
        Outcome {
            seed: 0,
            kind: case.kind(),
            title: title(case),
            promised,
            feasible: promised && (self.alone_keeps || bfq_keeps),
            realtime: case.has_realtime(),
            worst: worst.map_or(1.0, Judged::part),
            worst_at: worst.map_or((0, 0), |w| (w.second, w.group.0)),
            bfq_keeps,
            total: self.total(),
            latency: self.latency(0),
            latency_far: self.latency(self.far.unwrap_or(0)),
            share_off: case.clones.then(|| self.share_off(case)).flatten(),
            idle_wait: self.idle_wait(case),
            findings: self.contract.findings.clone(),
            broken: None,
        }
    }

    fn total(&self) -> Option<f64> {
        let sum = |played: &Played| -> f64 {
            let clients = played.clients.iter().zip(&self.alone);
            let parts = clients.filter_map(|(got, alone)| {
                let alone = alone.filter(|a| *a > 0.0)?;
                Some(got.bytes as f64 / alone)
            });
            parts.sum()
        };
        let none = sum(&self.none);
        (none > 0.0).then(|| sum(&self.contract) / none)
    }

    /// Of each realtime client, relative to its latency alone, which counts as `least` at the least.
    fn latency(&self, least: u64) -> Vec<f64> {
        let clients = self.contract.clients.iter().zip(&self.realtime);
        let ratios = clients.filter_map(|(got, alone)| {
            let alone = alone.filter(|a| *a > 0)?;
            (got.p99 > 0).then(|| got.p99 as f64 / alone.max(least) as f64)
        });
        ratios.collect()
    }

    fn idle_wait(&self, case: &Case) -> Option<f64> {
        if case.scenario.freeze.is_some() {
            return None;
        }
        self.contract.watch.starved().map(|ns| ns as f64 / 1e6)
    }

    /// How far clients that differ only in their shares are from these shares, over the ten seconds from the second on: the
    /// largest bandwidth per share divided by the smallest, less one. A client that gets nine tenths of what it gets alone cannot
    /// use more, and is not compared with those of smaller shares.
    fn share_off(&self, case: &Case) -> Option<f64> {
        let mut most: Option<f64> = None;
        let clients: Vec<usize> = (0..case.scenario.clients.len())
            .filter(|&c| is_clone(case, c))
            .collect();
        for (n, &a) in clients.iter().enumerate() {
            for &b in &clients[n + 1..] {
                if work(&case.scenario.clients[a]) == work(&case.scenario.clients[b]) {
                    let off = self.apart(case, a, b);
                    most = [most, off].into_iter().flatten().reduce(f64::max);
                }
            }
        }
        most
    }

    /// The relative difference between two clients, less one request of each: no share is kept more finely than that.
    fn apart(&self, case: &Case, a: usize, b: usize) -> Option<f64> {
        const SECONDS: u64 = 10;
        let bytes = |c: usize| -> u64 {
            let seconds = &self.contract.clients[c].seconds;
            seconds.iter().skip(2).take(SECONDS as usize).sum()
        };
        let share = |c: usize| f64::from(case.scenario.contract(c).share);
        let (less, more) = if share(a) <= share(b) { (a, b) } else { (b, a) };
        let alone = self.alone[more]?;
        if bytes(more) as f64 >= 0.9 * alone * SECONDS as f64 {
            return None;
        }
        let each = |c: usize| bytes(c) as f64 / share(c);
        let (low, high) = if each(less) <= each(more) {
            (less, more)
        } else {
            (more, less)
        };
        let one = |c: usize| f64::from(case.scenario.clients[c].program.size.most()) / share(c);
        let [low, high] = [each(low) + one(low), each(high) - one(high)];
        Some((high / low - 1.0).max(0.0))
    }
}

/// Whether a client is one of those that must get their shares.
fn is_clone(case: &Case, at: usize) -> bool {
    let client = &case.scenario.clients[at];
    let (group, program) = (client.group, &client.program);
    let contract = case.group(group);
    let still = client.arrives == Span::ZERO
        && client.leaves.is_none()
        && program.start == Span::ZERO
        && program.stop.is_none();
    let free = contract.class == Class::BestEffort
        && !contract.max.is_limited()
        && !case.is_client_promised(at);
    let closed = program.arrival == (weir_load::Arrival::Closed { think: Span::ZERO });
    let below_root = case.path(group).count() == 1;
    let alone = case
        .scenario
        .clients
        .iter()
        .filter(|c| c.group == group)
        .count()
        == 1;
    let unchanged = case.scenario.changes.iter().all(|c| c.group != group);
    case.seconds() >= 12
        && still
        && free
        && closed
        && program.depth >= 4
        && client.buffered.is_none()
        && below_root
        && alone
        && unchanged
}

/// The drive and the number of clients, in a few words.
pub fn title(case: &Case) -> String {
    let drive = &case.scenario.drive;
    let name = profile::name_of(drive).map(str::to_owned);
    let drive = name.unwrap_or_else(|| format!("a drawn {}", drive.name()));
    let frozen = if case.scenario.freeze.is_some() {
        " that freezes"
    } else {
        ""
    };
    format!(
        "{drive}{frozen}, {} clients, {} s",
        case.scenario.clients.len(),
        case.seconds()
    )
}

/// As [`trial`] and its outcome; a panic is an outcome, too.
pub fn outcome(case: &Case, audited: bool) -> Outcome {
    let played = catch_unwind(AssertUnwindSafe(|| trial(case, audited)));
    match played {
        Ok(Ok(trial)) => trial.outcome(case),
        Ok(Err(why)) => broken(case, why),
        Err(panic) => broken(case, panicked(panic.as_ref())),
    }
}

fn broken(case: &Case, why: String) -> Outcome {
    Outcome {
        kind: case.kind(),
        title: title(case),
        worst: 1.0,
        broken: Some(why),
        ..Outcome::default()
    }
}

/// The message of a panic.
pub fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panic: {}", text.unwrap_or_default())
}
