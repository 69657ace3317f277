//! The rows on either side.

use super::row::Row;
use super::{Figures, Linux};
use weir_measure::Meter;
use weir_play::guest::Lab;
use weir_play::measure;
use weir_sim::Run;

/// Repetitions in the simulator, which differ in what is drawn.
pub const RUNS: u32 = 8;

/// Plays a row in the simulator, several times, and returns the means.
///
/// # Errors
/// What does not go together.
pub fn weir(row: &Row) -> Result<Figures, String> {
    let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", row.name());
    let (scenario, policy) = row.build()?;
    let at = target(&scenario, row)?;
    let mut sum = Sum::default();
    for run in 1..=RUNS {
        let results = Run::new(&scenario, &policy, run).and_then(|run| run.run(|_| {}));
        let results = results.map_err(|e| wrong(&e))?;
        sum.add(&results.clients[at].meter, &results.total);
    }
    Ok(sum.figures())
}

/// Plays a row once in a guest.
///
/// # Errors
/// It cannot be played there.
pub fn linux(row: &Row, lab: &Lab) -> Result<Linux, String> {
    let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", row.name());
    let (scenario, policy) = row.build()?;
    let at = target(&scenario, row)?;
    let outcome = lab.play(&scenario, &policy, 0, || true);
    let outcome = outcome.map_err(|e| wrong(&e))?;
    let played = &outcome.played;
    let measured = measure(&scenario, 0, &played.logs, played.began_ns, None);
    let mut sum = Sum::default();
    sum.add(&measured.clients[at].meter, &measured.total);
    Ok(Linux {
        figures: sum.figures(),
        path_us: outcome.path_ns as f64 / 1e3,
        left_us: outcome.left_ns as f64 / 1e3,
        processor: Some(played.processor_percent),
    })
}

/// The place of the target.
fn target(scenario: &weir_sim::Scenario, row: &Row) -> Result<usize, String> {
    let name = row.target()?;
    let found = scenario.clients.iter().position(|c| c.name == name);
    found.ok_or_else(|| format!("{}: no client {name}", row.name()))
}

/// What several runs come to.
#[derive(Default)]
struct Sum {
    requests: u64,
    waited_us: f64,
    target_mb: f64,
    total_mb: f64,
    runs: f64,
}

impl Sum {
    fn add(&mut self, target: &Meter, total: &Meter) {
        let mbps = |m: &Meter| weir_measure::mbps(m.bytes(), m.length_ns());
        self.requests += target.requests();
        self.waited_us += target.latency().mean() / 1e3 * target.requests() as f64;
        self.target_mb += mbps(target);
        self.total_mb += mbps(total);
        self.runs += 1.0;
    }

    fn figures(&self) -> Figures {
        Figures {
            requests: self.requests,
            latency_us: self.waited_us / (self.requests as f64).max(1.0),
            target_mb: self.target_mb / self.runs,
            total_mb: self.total_mb / self.runs,
        }
    }
}
