//! The runs of a case under every policy, and their outcome.

use crate::audit::Auditors;
use crate::search::case::{SearchCase, client_work};
use crate::search::judge::{self, JudgedSecond};
use crate::search::watch::GroupWatch;
use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind};
use weir_config::{policy, profile};
use weir_core::{Class, Instant, Span};
use weir_sim::{Observer, Policy, Results, SimRun};

/// The results of one run of a case.
#[derive(Debug)]
pub struct PlayedCase {
    /// The results of each client.
    pub clients: Vec<ClientService>,
    /// The service of each group, second by second.
    pub watch: GroupWatch,
    /// The number of violations that auditors found, and the first of them. Zero if there were no
    /// auditors.
    pub findings: (u64, String),
    /// The number of changes that were refused.
    pub refusals: usize,
}

/// The service of a client in a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClientService {
    /// The total bytes of the run.
    pub bytes: u64,
    /// The bytes of each second.
    pub seconds: Vec<u64>,
    /// The 99th percentile of its latency, in nanoseconds, or zero if no request completed.
    pub p99: u64,
}

/// The outcome of all runs of a case.
#[derive(Clone, Debug, Default)]
pub struct TrialOutcome {
    /// The seed of the case, if it was drawn.
    pub seed: u64,
    /// The kind of drive, an index into [`KINDS`](crate::search::case::KINDS).
    pub kind: usize,
    /// The name of the drive and the number of clients.
    pub title: String,
    /// True if there are promises.
    pub promised: bool,
    /// True if the promises are feasible: the promised and realtime clients without the others keep
    /// them with some reserve, or BFQ keeps them.
    pub feasible: bool,
    /// True if there is a realtime client.
    pub realtime: bool,
    /// The part of the drive's time that is promised, relative to its worst case.
    pub part: f64,
    /// The smallest part of the owed amount that any group got in any second under `contract`, or 1
    /// if all promises were kept.
    pub worst: f64,
    /// The second and the group of [`Self::worst`].
    pub worst_at: (u64, u32),
    /// The number of judged seconds in which a promise got 90 % of the owed amount, and the number
    /// of all judged seconds.
    pub nearly: (usize, usize),
    /// The number of promises that `contract` keeps in every second.
    pub promises_kept: usize,
    /// The number of promises that `none` keeps in every second.
    pub kept_by_none: usize,
    /// True if BFQ keeps every promise.
    pub bfq_keeps: bool,
    /// The total under `contract`, divided by that under `none`. The total is the sum over clients
    /// of the bandwidth relative to that without contention.
    pub total: Option<f64>,
    /// The total under `contract`, divided by that under BFQ.
    pub total_bfq: Option<f64>,
    /// The service of each realtime client.
    pub served: Vec<RealtimeService>,
    /// The 99th percentile of each realtime client's latency, relative to that without contention.
    pub latency: Vec<f64>,
    /// The 99th percentile of each realtime client's latency, relative to the longer of two: that
    /// without contention, and that of a far access of the drive.
    pub latency_far: Vec<f64>,
    /// The relative difference between the two clients that are furthest apart, if clients must get
    /// their shares.
    pub share_off: Option<f64>,
    /// The longest wait of the idle class, in milliseconds.
    pub idle_wait: Option<f64>,
    /// True if auditors observed the run.
    pub audited: bool,
    /// The number of violations that auditors found, and the first of them.
    pub findings: (u64, String),
    /// The reason why there is no outcome: a panic or an error.
    pub broken: Option<String>,
}

impl TrialOutcome {
    /// Returns true if every promise was kept in every second.
    pub fn kept(&self) -> bool {
        self.worst >= 1.0
    }
}

/// The service of a realtime client with its max in force, relative to that without contention.
#[derive(Clone, Copy, Debug)]
pub struct RealtimeService {
    /// The part that it gets among all other clients.
    pub among_all: f64,
    /// The part that it gets among only the promised and the realtime clients.
    pub beside_promised: f64,
}

impl RealtimeService {
    /// Returns true if it gets 90 % among the promised and realtime clients.
    pub fn is_feasible(&self) -> bool {
        self.beside_promised >= 0.9
    }

    /// Returns true if it gets less than 90 % among all clients.
    pub fn is_short(&self) -> bool {
        self.among_all < 0.9
    }
}

/// The runs with which a case is compared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reference {
    /// The service of all clients under `none`.
    pub none: Vec<ClientService>,
    /// The number of promises that `none` keeps in every second.
    pub kept_by_none: usize,
    /// The service of all clients under `bfq-bytes`.
    pub bfq: Vec<ClientService>,
    /// The verdicts about promises under `bfq-bytes`, second by second.
    pub judged_bfq: Vec<JudgedSecond>,
    /// The bytes per second of each client alone on the drive, without contract. `None` if that was
    /// not run.
    pub alone: Vec<Option<f64>>,
    /// The service of each realtime client alone on the drive, under `contract`.
    pub realtime: Vec<Option<ClientService>>,
    /// The 99th percentile of far reads alone, in nanoseconds, if there is a realtime client.
    pub far: Option<u64>,
    /// The service of promised and realtime clients without the others.
    pub promised: ReservedRun,
    /// The part of the drive's time that is promised, in millionths.
    pub time: u64,
}

/// The run of promised and realtime clients without the others.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReservedRun {
    /// The service of each of these clients under `contract`.
    pub clients: Vec<Option<ClientService>>,
    /// True if every promise is kept with some reserve, under `contract` or `none`.
    pub keeps: bool,
}

/// All runs of a case.
#[derive(Debug)]
pub struct Trial {
    /// The runs with which `contract` is compared.
    pub reference: Reference,
    /// The results of all clients under `contract`.
    pub contract: PlayedCase,
    /// The verdicts about promises under `contract`, second by second.
    pub judged: Vec<JudgedSecond>,
    /// True if auditors observed the run.
    pub audited: bool,
}

/// The maximum number of different programs that are run alone.
const ALONE: usize = 8;

/// The event capacity of an audited layer, which is more than any call publishes.
const EVENTS: u32 = 1 << 16;

/// The length of the runs alone, in seconds.
const ALONE_SECONDS: u64 = 2;

/// The panic or error that ended a case or a run of it, in words.
pub type RunFailure = String;

/// Runs a case under a policy, with auditors if `audited` is true.
///
/// # Errors
/// Returns the reason if the case cannot be run, in words.
pub fn play(case: &SearchCase, policy: &Policy, audited: bool) -> Result<PlayedCase, RunFailure> {
    if !audited {
        return observed(case, policy, None, None);
    }
    let mut auditors = Auditors::new();
    let played = observed(case, policy, Some(EVENTS), Some(&mut auditors))?;
    // The run ends with requests in flight, so that nothing can be checked for being left over.
    let found = auditors.end(false);
    let first = found.violations().first().map(ToString::to_string);
    Ok(PlayedCase {
        findings: (found.total(), first.unwrap_or_default()),
        ..played
    })
}

/// Runs a case under a policy, with an additional observer.
///
/// # Errors
/// Returns the reason if the case cannot be run, in words.
pub fn play_with(
    case: &SearchCase,
    policy: &Policy,
    observer: &mut dyn Observer,
) -> Result<PlayedCase, RunFailure> {
    observed(case, policy, None, Some(observer))
}

fn observed(
    case: &SearchCase,
    policy: &Policy,
    events: Option<u32>,
    observer: Option<&mut dyn Observer>,
) -> Result<PlayedCase, RunFailure> {
    let mut scenario = case.scenario.clone();
    if let Some(events) = events {
        // Auditors listen to all events, for which the default capacity may be too small.
        scenario.sizes = Some(scenario.sizes(policy).events(events));
    }
    let mut watch = GroupWatch::new(case, policy);
    let mut observers: Vec<&mut dyn Observer> = vec![&mut watch];
    if let Some(observer) = observer {
        observers.push(observer);
    }
    let run = SimRun::observed(&scenario, policy, 0, observers)
        .map_err(|e| format!("{}: {e}", policy.name))?;
    let results = run
        .run(|_| {})
        .map_err(|e| format!("{}: {e}", policy.name))?;
    watch.end(Instant::ZERO + case.scenario.duration);
    Ok(PlayedCase {
        clients: got(&results),
        watch,
        findings: (0, String::new()),
        refusals: results.refusals.len(),
    })
}

fn got(results: &Results) -> Vec<ClientService> {
    let clients = results.clients.iter().map(|client| {
        let meter = &client.meter;
        let seconds = meter.seconds().complete(meter.end_ns());
        ClientService {
            bytes: meter.bytes(),
            seconds: seconds.iter().map(|w| w.bytes).collect(),
            // A histogram without values has no quantiles.
            p99: if meter.latency().is_empty() {
                0
            } else {
                meter.latency().quantile(99, 100)
            },
        }
    });
    clients.collect()
}

/// Performs all runs of a case.
///
/// # Errors
/// Returns the reason if one of the runs fails.
pub fn trial(case: &SearchCase, audited: bool) -> Result<Trial, RunFailure> {
    compare_with(case, reference(case)?, audited)
}

/// Performs the runs with which a case is compared.
///
/// # Errors
/// Returns the reason if one of the runs fails.
pub fn reference(case: &SearchCase) -> Result<Reference, RunFailure> {
    let none = play(case, &Policy::none(), false)?;
    let bfq = play(
        case,
        &policy::find("bfq-bytes").expect("it comes with Weir"),
        false,
    )?;
    Ok(Reference {
        kept_by_none: judge::count_kept(&judge::judge(case, &none.watch, 100)),
        none: none.clients,
        judged_bfq: judge::judge(case, &bfq.watch, 100),
        bfq: bfq.clients,
        alone: alone(case)?,
        realtime: realtime(case)?,
        far: far(case)?,
        promised: promised(case)?,
        time: case.promised_time(),
    })
}

/// Runs a case under `contract`, and compares it with the reference runs of the same case.
///
/// # Errors
/// Returns the reason if the run fails.
pub fn compare_with(
    case: &SearchCase,
    reference: Reference,
    audited: bool,
) -> Result<Trial, RunFailure> {
    let contract = play(case, &Policy::contract(), audited)?;
    Ok(Trial {
        reference,
        judged: judge::judge(case, &contract.watch, 100),
        contract,
        audited,
    })
}

/// Measures the bytes per second of each client with the drive to itself. Clients with equal work
/// share a run.
fn alone(case: &SearchCase) -> Result<Vec<Option<f64>>, RunFailure> {
    let mut known: Vec<(_, f64)> = Vec::new();
    let mut all = Vec::new();
    for (index, client) in case.scenario.clients.iter().enumerate() {
        let rate = known
            .iter()
            .find(|(known, _)| *known == client_work(client));
        let mut rate = rate.map(|(_, rate)| *rate);
        // Each different program takes a run of its own, so their number is bounded.
        if rate.is_none() && known.len() < ALONE {
            let played = play(&case.alone(index, ALONE_SECONDS), &Policy::none(), false)?;
            let alone = played.clients[0].bytes as f64 / ALONE_SECONDS as f64;
            known.push((client_work(client), alone));
            rate = Some(alone);
        }
        all.push(rate);
    }
    Ok(all)
}

/// Runs each realtime client alone, under `contract`.
fn realtime(case: &SearchCase) -> Result<Vec<Option<ClientService>>, RunFailure> {
    let one = |index| {
        if !case.is_realtime(index) {
            return Ok(None);
        }
        let mut played = play(&case.only(|c| c == index), &Policy::contract(), false)?;
        Ok(played.clients.pop())
    };
    (0..case.scenario.clients.len()).map(one).collect()
}

/// Measures the latency of one far access after another, with the drive otherwise idle. A disk may
/// serve a realtime client from its read cache if the client is alone, but not among other clients.
fn far(case: &SearchCase) -> Result<Option<u64>, RunFailure> {
    let Some(far) = case.far_accesses(1).filter(|_| case.has_realtime()) else {
        return Ok(None);
    };
    let played = play(&far, &Policy::none(), false)?;
    Ok(Some(played.clients[0].p99))
}

/// Runs the promised and realtime clients without the other clients.
fn promised(case: &SearchCase) -> Result<ReservedRun, RunFailure> {
    let all = 0..case.scenario.clients.len();
    let is_there = |c: usize| case.is_client_promised(c) || case.is_realtime(c);
    let there = case.only(is_there);
    if there.scenario.clients.is_empty() {
        let (clients, keeps) = (vec![None; all.len()], true);
        return Ok(ReservedRun { clients, keeps });
    }
    let keeps = |played: &PlayedCase| {
        let judged = judge::judge(&there, &played.watch, judge::SPARE);
        judged.iter().all(JudgedSecond::is_kept)
    };
    let played = play(&there, &Policy::contract(), false)?;
    // A promise is feasible if any schedule keeps it. One of two policies suffices as evidence.
    let keeps = keeps(&played) || keeps(&play(&there, &Policy::none(), false)?);
    let mut got = played.clients.into_iter();
    let clients = all.map(|c| is_there(c).then(|| got.next()).flatten());
    Ok(ReservedRun {
        clients: clients.collect(),
        keeps,
    })
}

impl Trial {
    /// Returns the outcome of all runs.
    pub fn outcome(&self, case: &SearchCase) -> TrialOutcome {
        let worst = judge::worst(&self.judged);
        let reference = &self.reference;
        let bfq_keeps = reference.judged_bfq.iter().all(JudgedSecond::is_kept);
        // Seconds just short of a promise are counted apart from those that are far off.
        let near = self.judged.iter().filter(|j| j.part() >= 0.9);
        let promised = case.groups().any(|g| case.is_promised(g));
        TrialOutcome {
            // The caller knows the seed, if the case was drawn.
            seed: 0,
            kind: case.kind(),
            title: title(case),
            promised,
            feasible: promised && (reference.promised.keeps || bfq_keeps),
            realtime: case.has_realtime(),
            part: millionths(reference.time),
            worst: worst.map_or(1.0, JudgedSecond::part),
            worst_at: worst.map_or((0, 0), |w| (w.second, w.group.0)),
            nearly: (near.count(), self.judged.len()),
            promises_kept: judge::count_kept(&self.judged),
            kept_by_none: reference.kept_by_none,
            bfq_keeps,
            total: self.total(&reference.none),
            total_bfq: self.total(&reference.bfq),
            served: self.served(),
            latency: self.latency(0),
            latency_far: self.latency(reference.far.unwrap_or(0)),
            share_off: case.clones.then(|| self.share_off(case)).flatten(),
            idle_wait: self.idle_wait(case),
            audited: self.audited,
            findings: self.contract.findings.clone(),
            broken: None,
        }
    }

    /// Returns the total under `contract` divided by that under another policy. Both totals are
    /// relative to the clients' bandwidth alone.
    fn total(&self, other: &[ClientService]) -> Option<f64> {
        let sum = |clients: &[ClientService]| -> f64 {
            let clients = clients.iter().zip(&self.reference.alone);
            let parts = clients.filter_map(|(got, alone)| {
                // A client that got nothing alone has no relative bandwidth.
                let alone = alone.filter(|a| *a > 0.0)?;
                Some(got.bytes as f64 / alone)
            });
            parts.sum()
        };
        let other = sum(other);
        (other > 0.0).then(|| sum(&self.contract.clients) / other)
    }

    /// Returns the service of the realtime clients that get any service alone.
    fn served(&self) -> Vec<RealtimeService> {
        let Reference {
            realtime, promised, ..
        } = &self.reference;
        let beside = realtime.iter().zip(&promised.clients);
        let clients = self.contract.clients.iter().zip(beside);
        let parts = clients.filter_map(|(got, (alone, beside))| {
            let alone = alone.as_ref().filter(|a| a.bytes > 0)?;
            let part = |got: &ClientService| got.bytes as f64 / alone.bytes as f64;
            Some(RealtimeService {
                among_all: part(got),
                beside_promised: part(beside.as_ref()?),
            })
        });
        parts.collect()
    }

    /// Returns the latency of each realtime client relative to its latency alone, which counts as
    /// at least `least`.
    fn latency(&self, least: u64) -> Vec<f64> {
        let clients = self.contract.clients.iter().zip(&self.reference.realtime);
        let ratios = clients.filter_map(|(got, alone)| {
            let alone = alone.as_ref().map(|a| a.p99).filter(|a| *a > 0)?;
            // Without a completed request, there is no latency to compare.
            (got.p99 > 0).then(|| got.p99 as f64 / alone.max(least) as f64)
        });
        ratios.collect()
    }

    fn idle_wait(&self, case: &SearchCase) -> Option<f64> {
        // A freeze makes the idle class wait under every policy.
        if case.scenario.freeze.is_some() {
            return None;
        }
        self.contract.watch.starved().map(|ns| ns as f64 / 1e6)
    }

    /// Returns how far clients that differ only in their shares are from these shares, over the ten
    /// seconds from the third on. It is the largest bandwidth per share divided by the smallest,
    /// less one. A client that gets 90 % of its bandwidth alone cannot use more, and is not
    /// compared with clients of smaller shares.
    fn share_off(&self, case: &SearchCase) -> Option<f64> {
        let mut most: Option<f64> = None;
        let clients: Vec<usize> = (0..case.scenario.clients.len())
            .filter(|&c| is_clone(case, c))
            .collect();
        for (n, &a) in clients.iter().enumerate() {
            for &b in &clients[n + 1..] {
                if client_work(&case.scenario.clients[a]) == client_work(&case.scenario.clients[b])
                {
                    let off = self.share_difference(case, a, b);
                    most = [most, off].into_iter().flatten().reduce(f64::max);
                }
            }
        }
        most
    }

    /// Returns the relative difference between two clients, less one request of each, because no
    /// share is kept more finely than that.
    fn share_difference(&self, case: &SearchCase, a: usize, b: usize) -> Option<f64> {
        const SECONDS: u64 = 10;
        let bytes = |c: usize| -> u64 {
            let seconds = &self.contract.clients[c].seconds;
            // The first two seconds contain the start of the clients.
            seconds.iter().skip(2).take(SECONDS as usize).sum()
        };
        let share = |c: usize| f64::from(case.scenario.contract(c).share);
        let (less, more) = if share(a) <= share(b) { (a, b) } else { (b, a) };
        let alone = self.reference.alone[more]?;
        // The client is bounded by its own program, and not by the scheduler.
        if bytes(more) as f64 >= 0.9 * alone * SECONDS as f64 {
            return None;
        }
        // With correct shares, the bandwidth per share is the same for all.
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

/// Returns true if a client is one of those that must get their shares.
fn is_clone(case: &SearchCase, at: usize) -> bool {
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
    // Only a client that always has requests uses all of its share.
    let closed = program.arrival == (weir_model::load::Arrival::Closed { think: Span::ZERO });
    let below_root = case.path(group).count() == 1;
    let alone = case
        .scenario
        .clients
        .iter()
        .filter(|c| c.group == group)
        .count()
        == 1;
    let unchanged = case.scenario.changes.iter().all(|c| c.group != group);
    // Two seconds of start, and ten that are measured.
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

/// Describes the drive and the number of clients, in a few words.
pub fn title(case: &SearchCase) -> String {
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

/// Performs all runs of a case and returns the outcome. A panic is an outcome as well.
pub fn outcome(case: &SearchCase, audited: bool) -> TrialOutcome {
    outcome_against(case, catch_panic(|| reference(case)), audited)
}

/// Compares a case with its reference runs, as [`compare_with`], and returns the outcome. A panic
/// is an outcome as well.
pub fn outcome_against(
    case: &SearchCase,
    reference: Result<Reference, RunFailure>,
    audited: bool,
) -> TrialOutcome {
    let trial = reference.and_then(|r| catch_panic(|| compare_with(case, r, audited)));
    trial.map_or_else(|why| broken(case, why), |trial| trial.outcome(case))
}

fn broken(case: &SearchCase, why: String) -> TrialOutcome {
    TrialOutcome {
        kind: case.kind(),
        title: title(case),
        part: millionths(case.promised_time()),
        worst: 1.0,
        broken: Some(why),
        ..TrialOutcome::default()
    }
}

fn millionths(time: u64) -> f64 {
    time as f64 / 1e6
}

/// Runs a function and converts a panic into an error.
pub(crate) fn catch_panic<T>(run: impl FnOnce() -> Result<T, RunFailure>) -> Result<T, RunFailure> {
    // The state behind a panic is dropped, so that it cannot be seen broken.
    let came = catch_unwind(AssertUnwindSafe(run));
    came.unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

/// Returns the message of a panic.
fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    // A panic with arguments carries a `String`, and one without them a `&str`.
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panic: {}", text.unwrap_or_default())
}
