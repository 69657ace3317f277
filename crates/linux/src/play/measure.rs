//! Turns the logs of fio into the measurements that the simulator makes.

use crate::play::jobs::played;
use crate::play::log::FioLog;
use weir_config::scenario::Scenario;
use weir_core::{Instant, Op, Span};
use weir_measure::Meter;
use weir_model::load::{Arrival, LoadClient, Pattern, Program, Size, SyncMode, seed};
use weir_sim::{ClientResult, ClientSpec};

const MS: u64 = 1_000_000;

/// The measurements of a run under a real kernel.
#[derive(Clone, Debug)]
pub struct KernelMeasurements {
    /// The results of each client, in the order of the scenario.
    pub clients: Vec<ClientResult>,
    /// The measurements of all clients together.
    pub total: Meter,
}

/// An event in the life of a request.
#[derive(Clone, Copy)]
enum RequestEvent {
    /// A request or flush has completed: its operation, the time at which it was sent, and its
    /// bytes.
    Done(Op, u64, u64),
    /// A request was sent: its operation and its bytes.
    Sent(Op, u64),
}

/// Measures the clients from their logs, in the order of the scenario. `began_ns` is the beginning
/// of the run in nanoseconds since 1970. If `step` is set, latencies over time are recorded in
/// steps of that length.
///
/// fio logs the time of completion in whole milliseconds. Requests that complete in the same
/// millisecond are spread evenly over it.
pub fn measure(
    scenario: &Scenario,
    repetition: u32,
    logs: &[FioLog],
    began_ns: u64,
    step: Option<Span>,
) -> KernelMeasurements {
    let (latest, over) = scenario.ends();
    let start = (Instant::ZERO + scenario.warm_up).as_nanos();
    let length = latest.as_nanos() - start;
    let mut ends = Vec::new();
    let clients = scenario.clients.iter().zip(logs).enumerate();
    let mut clients: Vec<ClientResult> = clients
        .map(|(at, (spec, log))| {
            let mut meter = Meter::new(start, length);
            meter.measure_kinds(spec.program.kinds());
            if let Some(deadline) = spec.deadline {
                meter.deadline(deadline.as_nanos());
            }
            if let Some(step) = step {
                meter.record_course(step.as_nanos());
            }
            // The same seed as in the job and in the simulator, so that the drawn start agrees.
            let seed = seed(&scenario.name, repetition, spec.sequence);
            let (program, ended) = (drawn(spec, seed), feed(&mut meter, spec, log, began_ns));
            let issued = log.entries.len() as u64 + log.flushes;
            let is_complete = program.requests.is_some_and(|n| issued >= n);
            let took = is_complete.then(|| Span::from_nanos(ended).saturating_sub(program.start));
            ends.push((program, is_complete, ended));
            let members = scenario.clients.iter().filter(|c| c.group == spec.group);
            ClientResult {
                name: spec.name.clone(),
                contract: scenario.promised_to(at),
                group: spec.group,
                alone: members.count() == 1,
                depth: played(spec).depth,
                issued,
                runtime: took,
                meter,
            }
        })
        .collect();
    let last = |at: Option<usize>| Some(ends.get(at?)?.2);
    // `exits` ends the run together with its client. `awaits` extends it until its client has
    // ended.
    let until = match (last(scenario.exits), last(scenario.awaits)) {
        (Some(last), _) => last.min(over.as_nanos()),
        (None, Some(last)) => (last + 1).max(over.as_nanos()),
        (None, None) => over.as_nanos(),
    };
    let now = Instant::from_nanos(until);
    let specs = scenario.clients.iter().zip(&ends);
    for (client, (spec, (program, is_complete, ended))) in clients.iter_mut().zip(specs) {
        // Requests after the end of the run do not count.
        client.meter.cut(until);
        let ends = program.end(*is_complete, Instant::from_nanos(*ended), now);
        let (begins, ends) = spec.time(Instant::ZERO + program.start, ends, now);
        client.meter.set_own_time(begins, ends);
    }
    let total = Meter::total(start, length, clients.iter().map(|client| &client.meter));
    KernelMeasurements { clients, total }
}

/// Returns the client's program with the start that was drawn for it.
fn drawn(spec: &ClientSpec, seed: u64) -> Program {
    let program = played(spec);
    let client = LoadClient::new(&program, seed, spec.region);
    client.map_or(program, |client| *client.program())
}

/// Feeds the requests of a client to its meter. Returns the time of the last completion.
fn feed(meter: &mut Meter, spec: &ClientSpec, log: &FioLog, began_ns: u64) -> u64 {
    let mut events = Vec::with_capacity(2 * log.entries.len());
    let mut ended = 0;
    for (sent, done, op, bytes) in spread(spec, log, began_ns) {
        events.push((sent, RequestEvent::Sent(op, bytes)));
        events.push((done, RequestEvent::Done(op, sent, bytes)));
        ended = ended.max(done);
    }
    // At the same time, completions precede submissions, as in a client that waits for a free slot
    // before it sends.
    events.sort_by_key(|(at, what)| (*at, matches!(what, RequestEvent::Sent(..))));
    for (now, what) in events {
        match what {
            RequestEvent::Sent(op, bytes) => meter.issued(op, now, bytes),
            RequestEvent::Done(op, sent, bytes) => meter.ended(op, sent, now, bytes, false),
        }
    }
    ended
}

/// A request or flush: the times at which it was sent and completed, its operation, and its bytes.
type TimedRequest = (u64, u64, Op, u64);

/// Returns the requests with times from the beginning of the run.
///
/// If a client has one request in flight, a request cannot complete before the previous one plus
/// its own latency. Flushes are not in the log. They are inserted after the writes that they
/// follow, with their mean time.
fn spread(spec: &ClientSpec, log: &FioLog, began_ns: u64) -> Vec<TimedRequest> {
    let every = match spec.program.sync {
        SyncMode::Flush(every) | SyncMode::Fdatasync(every) => u64::from(every),
        SyncMode::Never => 0,
    };
    let depth = played(spec).depth;
    let (mut played, mut writes, mut before) = (Vec::with_capacity(log.entries.len()), 0, 0u64);
    let mut flushes = log.flushes;
    for same in log.entries.chunk_by(|a, b| a.ended_ms == b.ended_ms) {
        let from = (same[0].ended_ms * MS).saturating_sub(began_ns);
        let each = MS / (same.len() as u64 + 1);
        for (entry, place) in same.iter().zip(1..) {
            let latency = entry.latency_ns.max(1);
            let after = if depth == 1 { before + latency } else { before };
            let done = (from + place * each).max(after);
            played.push((done.saturating_sub(latency), done, entry.op, entry.bytes));
            before = done;
            writes += u64::from(entry.op == Op::Write);
            if every > 0 && writes == every && flushes > 0 {
                (writes, flushes) = (0, flushes - 1);
                played.push((done, done + log.flush_ns, Op::Flush, 0));
                before = done + log.flush_ns;
            }
        }
    }
    played
}

/// Returns true if anything about the clients is random, so that repetitions differ.
pub fn is_random(scenario: &Scenario) -> bool {
    scenario.clients.iter().any(|client| {
        let program = &client.program;
        program.pattern != Pattern::Sequential
            || !matches!(program.writes, 0 | 100)
            || !matches!(program.size, Size::Fixed(_))
            || matches!(
                program.arrival,
                Arrival::Poisson { .. } | Arrival::Apart { poisson: true, .. }
            )
            || program.start_spread > Span::ZERO
    })
}
