//! The bandwidth and latency that clients would get without contention.

use crate::{ClientSpec, Policy, Scenario, SimError, SimRun};
use weir_core::{Contract, Span};
use weir_measure::{Histogram, MeasuredKind, Meter, mb_per_s, promise};

/// The performance of a client that has the drive to itself.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PerformanceAlone {
    /// The client's bandwidth in MB/s.
    pub mb_per_s: f64,
    /// The mean latency and size of the client's requests.
    pub request: promise::AloneRequest,
}

/// The time for which each client is measured.
const TIME: Span = Span::from_secs(1);

/// Measures each client with a promise alone on the drive, without a policy.
///
/// Clients that do the same are played once. The result is `None` for clients without a promise,
/// and for clients that would not get any answer.
///
/// # Errors
/// As [`SimRun::new`] and [`SimRun::run`].
pub fn measure_alone(scenario: &Scenario) -> Result<Vec<Option<PerformanceAlone>>, SimError> {
    let mut known: Vec<(ClientSpec, Contract, Option<PerformanceAlone>)> = Vec::new();
    let mut all = Vec::new();
    for (at, client) in scenario.clients.iter().enumerate() {
        let contract = scenario.contract(at);
        if contract.min == 0 && contract.min_iops == 0 {
            all.push(None);
            continue;
        }
        let same = |k: &&(ClientSpec, Contract, _)| k.1 == contract && is_alike(&k.0, client);
        if let Some(found) = known.iter().find(same) {
            all.push(found.2);
            continue;
        }
        let alone = play(scenario, client)?;
        known.push((client.clone(), contract, alone));
        all.push(alone);
    }
    Ok(all)
}

/// Returns true if both clients do the same, each in its own part of the drive.
fn is_alike(a: &ClientSpec, b: &ClientSpec) -> bool {
    let length = |c: &ClientSpec| c.region.length;
    let way = |c: &ClientSpec| (c.program, c.buffered, c.priority, c.flags);
    length(a) == length(b) && way(a) == way(b) && a.trace == b.trace
}

fn play(scenario: &Scenario, client: &ClientSpec) -> Result<Option<PerformanceAlone>, SimError> {
    let mut client = client.clone();
    (client.arrives, client.leaves) = (Span::ZERO, None);
    // The measurement needs the steady state of the client, so that times and counts that would end
    // its program early are removed.
    client.program.stop = None;
    client.program.requests = None;
    client.deadline = None;
    let scenario = Scenario {
        clients: vec![client],
        changes: Vec::new(),
        actions: Vec::new(),
        freeze: None,
        awaits: None,
        exits: None,
        duration: TIME,
        ..scenario.clone()
    };
    let results = SimRun::new(&scenario, &Policy::none(), 0)?.run(|_| {})?;
    let meter = &results.clients[0].meter;
    let latency = promised_latency(meter);
    Ok((!latency.is_empty()).then(|| PerformanceAlone {
        mb_per_s: mb_per_s(meter.bytes(), meter.length_ns()),
        request: promise::AloneRequest {
            latency_ns: latency.mean() as u64,
            bytes: meter.bytes() / latency.count(),
        },
    }))
}

/// The latency of the requests that a promise covers, which excludes flushes.
fn promised_latency(meter: &Meter) -> Histogram {
    if meter.of(MeasuredKind::Flush).is_none() {
        return meter.latency().clone();
    }
    let mut latency = Histogram::new();
    for apart in [MeasuredKind::Read, MeasuredKind::Write]
        .iter()
        .filter_map(|kind| meter.of(*kind))
    {
        latency.merge(apart.latency());
    }
    latency
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::demo;
    use weir_model::load::{Program, SyncMode};

    #[test]
    fn a_client_alone_waits_for_the_drive_only() {
        let scenario = demo(Span::from_secs(3));
        let all = measure_alone(&scenario).unwrap();
        let target = all[0].unwrap();
        // 30 us and 16.384 us for 4096 bytes.
        assert!(
            (target.mb_per_s - 4096.0 / 46.384).abs() < 0.1,
            "{target:?}"
        );
        assert_eq!(
            (target.request.latency_ns, target.request.bytes),
            (46_384, 4096)
        );
        assert!(all[1..].iter().all(|a| *a == all[1]), "they do the same");
        assert!(all[1].unwrap().mb_per_s > 200.0);
    }

    #[test]
    fn flushes_are_no_requests_of_a_promise() {
        let mut scenario = Scenario::new("log", demo(Span::ZERO).drive, TIME);
        let contract = Contract::DEFAULT.with_min_iops(100);
        let program = Program {
            writes: 100,
            sync: SyncMode::Fdatasync(1),
            ..Program::random_reads(4096, 1)
        };
        scenario.add_client_with_group("log", contract, 1 << 20, program);
        let request = measure_alone(&scenario).unwrap()[0].unwrap().request;
        assert_eq!((request.latency_ns, request.bytes), (46_384, 4096));
    }
}
