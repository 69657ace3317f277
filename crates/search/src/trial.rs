//! A case played under every policy, and what came of it.

use crate::case::{Case, Client};
use crate::judge::{self, Judged};
use crate::watch::Watch;
use std::panic::{AssertUnwindSafe, catch_unwind};
use weir_core::{Class, Instant, Limits, Span};
use weir_sim::{Auditors, Observer, Policy, Results, Run};

/// A run of a case and what was seen of it.
#[derive(Debug)]
pub struct Played {
    /// Of each client.
    pub clients: Vec<Got>,
    /// Of each group.
    pub watch: Watch,
    /// What the auditors found, if there were any: how much, and the first of it.
    pub findings: (u64, String),
    /// Changes that were refused.
    pub refusals: usize,
}

/// What a client got.
#[derive(Clone, Debug)]
pub struct Got {
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes by second.
    pub seconds: Vec<u64>,
    /// The 99th percentile of its latency, in nanoseconds; zero if nothing was answered.
    pub p99: u64,
}

/// What came of a case.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Its seed, where it was drawn.
    pub seed: u64,
    /// Its kind: a place in [`KINDS`](crate::case::KINDS).
    pub kind: usize,
    /// The drive's name and how many clients there are.
    pub title: String,
    /// Whether something was promised.
    pub promised: bool,
    /// Whether the promises can be kept: the promised clients alone keep them with something to spare, or BFQ keeps them.
    pub feasible: bool,
    /// Whether there is a realtime client.
    pub realtime: bool,
    /// What the contract policy gave in the worst second of what it had to; infinite if nothing was judged.
    pub worst: f64,
    /// The second of that and whose promise it was.
    pub worst_at: (u64, u32),
    /// Whether BFQ keeps every promise.
    pub bfq_keeps: bool,
    /// The sum of what clients got under contract, each by what it gets alone, by the same sum under none.
    pub total: Option<f64>,
    /// For each realtime client, the 99th percentile of its latency by that alone.
    pub latency: Vec<f64>,
    /// Where clients were to get what their shares say: how far the farthest two are apart, as a part.
    pub share_off: Option<f64>,
    /// The longest wait of the idle class, in milliseconds.
    pub idle_wait: Option<f64>,
    /// What auditors found: how much, and the first of it.
    pub findings: (u64, String),
    /// Why there is no result: a panic or an error.
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
    /// Everybody, under `none`.
    pub none: Played,
    /// Everybody, under `bfq`.
    pub bfq: Played,
    /// Everybody, under `contract`.
    pub contract: Played,
    /// By client: bytes a second alone on the drive, without contract; `None` for what was not played.
    pub alone: Vec<Option<f64>>,
    /// By client: for realtime ones the 99th percentile alone, in nanoseconds.
    pub realtime: Vec<Option<u64>>,
    /// Whether the promised clients alone keep every promise with something to spare.
    pub alone_keeps: bool,
    /// The promises under contract, second by second.
    pub judged: Vec<Judged>,
    /// The promises under `bfq`.
    pub judged_bfq: Vec<Judged>,
}

/// Different programs that are played alone, at most.
const ALONE: usize = 8;

/// Events that a layer holds for auditors: more than any call publishes.
const EVENTS: u32 = 1 << 16;

/// Seconds for which they are.
const ALONE_SECONDS: u64 = 2;

/// A case, or a run of it, that ended in a panic or an error.
pub type Broken = String;

/// Plays a case under a policy.
///
/// # Errors
/// What is wrong with the case, in words.
pub fn play(case: &Case, policy: &Policy, audited: bool) -> Result<Played, Broken> {
    let mut scenario = case.scenario(policy);
    if audited {
        scenario.limits = Some(Limits {
            events: EVENTS,
            ..scenario.limits()
        });
    }
    let mut watch = Watch::new(case);
    let mut auditors = audited.then(Auditors::new);
    let mut observers: Vec<&mut dyn Observer> = vec![&mut watch];
    if let Some(auditors) = &mut auditors {
        observers.push(auditors);
    }
    let run = Run::observed(&scenario, policy, 0, observers)
        .map_err(|e| format!("{}: {e}", policy.name))?;
    let results = run
        .run(|_| {})
        .map_err(|e| format!("{}: {e}", policy.name))?;
    watch.end(Instant::ZERO + Span::from_secs(case.seconds));
    let found = auditors.map(|a| a.end(false)).unwrap_or_default();
    let first = found.kept().first().map(ToString::to_string);
    Ok(Played {
        clients: got(&results),
        watch,
        findings: (found.total(), first.unwrap_or_default()),
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

/// Plays all runs of a case.
///
/// # Errors
/// What went wrong in one of them.
pub fn trial(case: &Case, audited: bool) -> Result<Trial, Broken> {
    let everybody = case.untranslated();
    let none = play(case, &Policy::none(), false)?;
    let bfq = play(case, &Policy::bfq(&everybody), false)?;
    let contract = play(case, &Policy::contract(), audited)?;
    Ok(Trial {
        alone: alone(case)?,
        realtime: realtime(case)?,
        alone_keeps: alone_keeps(case)?,
        judged: judge::judge(case, &contract.watch, judge::KEPT),
        judged_bfq: judge::judge(case, &bfq.watch, judge::KEPT),
        none,
        bfq,
        contract,
    })
}

/// Bytes a second of each client with the drive to itself.
fn alone(case: &Case) -> Result<Vec<Option<f64>>, Broken> {
    let mut known: Vec<(_, f64)> = Vec::new();
    let mut all = Vec::new();
    for (index, client) in case.clients.iter().enumerate() {
        let rate = known.iter().find(|(work, _)| *work == client.work());
        let mut rate = rate.map(|(_, rate)| *rate);
        if rate.is_none() && known.len() < ALONE {
            let played = play(&case.alone(index, ALONE_SECONDS), &Policy::none(), false)?;
            let alone = played.clients[0].bytes as f64 / ALONE_SECONDS as f64;
            known.push((client.work(), alone));
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
    (0..case.clients.len()).map(one).collect()
}

/// Whether promised and realtime clients keep their promises when nobody else is there.
fn alone_keeps(case: &Case) -> Result<bool, Broken> {
    let case = case.only(|c| case.is_client_promised(c) || case.is_realtime(c));
    if case.clients.is_empty() {
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
    /// What came of it.
    pub fn outcome(&self, case: &Case) -> Outcome {
        let worst = judge::worst(&self.judged);
        let bfq_keeps = self.judged_bfq.iter().all(Judged::is_kept);
        let promised =
            (1..=case.groups.len() as u32).any(|g| case.is_promised(weir_core::GroupId(g)));
        Outcome {
            seed: 0,
            kind: case.kind(),
            title: title(case),
            promised,
            feasible: promised && (self.alone_keeps || bfq_keeps),
            realtime: case.has_realtime(),
            worst: worst.map_or(f64::INFINITY, Judged::ratio),
            worst_at: worst.map_or((0, 0), |w| (w.second, w.group.0)),
            bfq_keeps,
            total: self.total(),
            latency: self.latency(),
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

    fn latency(&self) -> Vec<f64> {
        let clients = self.contract.clients.iter().zip(&self.realtime);
        let ratios = clients.filter_map(|(got, alone)| {
            let alone = alone.filter(|a| *a > 0)?;
            (got.p99 > 0).then(|| got.p99 as f64 / alone as f64)
        });
        ratios.collect()
    }

    fn idle_wait(&self, case: &Case) -> Option<f64> {
        if case.freeze.is_some() {
            return None;
        }
        self.contract.watch.starved().map(|ns| ns as f64 / 1e6)
    }

    /// How far clients that differ in their shares only are from these, over the ten seconds from the second on: the most for its
    /// share by the least, less one. Who gets nine tenths of what it gets alone cannot use more and is not to be compared with those of
    /// smaller shares.
    fn share_off(&self, case: &Case) -> Option<f64> {
        let mut most: Option<f64> = None;
        let clients: Vec<usize> = (0..case.clients.len())
            .filter(|&c| is_clone(case, c))
            .collect();
        for (n, &a) in clients.iter().enumerate() {
            for &b in &clients[n + 1..] {
                if case.clients[a].work() == case.clients[b].work() {
                    let off = self.apart(case, a, b);
                    most = [most, off].into_iter().flatten().reduce(f64::max);
                }
            }
        }
        most
    }

    /// How far two clients are apart.
    fn apart(&self, case: &Case, a: usize, b: usize) -> Option<f64> {
        const SECONDS: u64 = 10;
        let bytes = |c: usize| -> u64 {
            let seconds = &self.contract.clients[c].seconds;
            seconds.iter().skip(2).take(SECONDS as usize).sum()
        };
        let share = |c: usize| f64::from(case.contract(c).share);
        let (less, more) = if share(a) <= share(b) { (a, b) } else { (b, a) };
        let alone = self.alone[more]?;
        if bytes(more) as f64 >= 0.9 * alone * SECONDS as f64 {
            return None;
        }
        let [less, more] = [less, more].map(|c| bytes(c) as f64 / share(c));
        let (low, high) = (less.min(more), less.max(more));
        Some(if low > 0.0 {
            high / low - 1.0
        } else {
            f64::INFINITY
        })
    }
}

/// Whether a client is one of those that have to get what their shares say.
fn is_clone(case: &Case, client: usize) -> bool {
    let Client {
        group,
        program,
        buffered,
        arrives,
        leaves,
        ..
    } = case.clients[client];
    let contract = case.group(group);
    let still = arrives == Span::ZERO
        && leaves.is_none()
        && program.start == Span::ZERO
        && program.stop.is_none();
    let free = contract.class == Class::BestEffort
        && !contract.max.is_limited()
        && !case.is_client_promised(client);
    let closed = program.arrival == (weir_load::Arrival::Closed { think: Span::ZERO });
    let below_root = case.path(group).count() == 1;
    let alone = case.clients.iter().filter(|c| c.group == group).count() == 1;
    let unchanged = case.changes.iter().all(|c| c.group != group);
    case.seconds >= 12
        && still
        && free
        && closed
        && program.depth >= 4
        && !buffered
        && below_root
        && alone
        && unchanged
}

/// The drive and how many clients there are, in a few words.
pub fn title(case: &Case) -> String {
    let drive = match &case.drive {
        crate::case::DriveChoice::Profile(name) => (*name).to_owned(),
        crate::case::DriveChoice::Drawn(config) => format!("a drawn {}", config.name()),
    };
    let frozen = if case.freeze.is_some() {
        " that freezes"
    } else {
        ""
    };
    format!(
        "{drive}{frozen}, {} clients, {} s",
        case.clients.len(),
        case.seconds
    )
}

/// As [`trial`] and its outcome; a panic, too, is an outcome.
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
        worst: f64::INFINITY,
        broken: Some(why),
        ..Outcome::default()
    }
}

/// What a panic said.
pub fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panic: {}", text.unwrap_or_default())
}
