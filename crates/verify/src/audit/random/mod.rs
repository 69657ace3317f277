//! Random operations on a layer under every auditor. The seed also draws the configuration.
//!
//! The drive answers at random. So no durations are checked, and not the part of a promise that is
//! kept in a second ([`crate::audit::PromiseAuditor`]). Contracts are checked by the order of
//! dispatches: [`crate::audit::Precedence`], [`crate::audit::Realtime`] and, with
//! [`RandomPlan::idle`], [`crate::audit::Idle`].

mod driver;
mod plan;
mod source;

pub use plan::{RandomOperation, RandomPlan};
pub use source::{ByteDecisions, DecisionSource, RandomDecisions};

use crate::audit::found::Violation;
use crate::audit::{Tally, Witness};
use driver::RandomDriver;
use std::fmt;
use weir_core::Counters;

/// The summary of a run without violations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// The number of operations performed.
    pub steps: u64,
    /// The totals of the layer at the end.
    pub counters: Counters,
    /// The number of occurrences of each kind of event.
    pub tally: Tally,
    /// The verdicts about the promised seconds of all groups.
    pub seconds: weir_measure::promise::Seconds,
}

/// The description of a run with violations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RandomFailure {
    /// The seed that reproduces it.
    pub seed: u64,
    /// The number of operations performed before the violation.
    pub steps: u64,
    /// The first violations that were found.
    pub violations: Vec<Violation>,
    /// The configuration that was drawn, as text.
    pub plan: String,
}

impl fmt::Display for RandomFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, step {}: {}", self.seed, self.steps, self.plan)?;
        for violation in &self.violations {
            writeln!(f, "  {violation}")?;
        }
        Ok(())
    }
}

impl std::error::Error for RandomFailure {}

/// Draws a configuration from `seed`, performs `steps` operations and lets every request complete.
///
/// # Errors
/// Returns a failure if an auditor found a violation. The same seed and steps reproduce it.
pub fn run(seed: u64, steps: u64) -> Result<Summary, Box<RandomFailure>> {
    let mut random = RandomDecisions::new(seed);
    let plan = RandomPlan::draw(&mut random);
    run_plan(&mut random, plan, steps)
        .map_err(|failure| Box::new(RandomFailure { seed, ..failure }))
}

/// Performs the same operations as [`run`], but returns the record of every call, up to the end or
/// the violation.
pub fn record(seed: u64, steps: u64) -> Vec<u8> {
    let mut random = RandomDecisions::new(seed);
    let plan = RandomPlan::draw(&mut random);
    let driver = perform(&mut random, plan, steps, true).0;
    let recorder = driver.layer.into_observer().recorder;
    recorder.expect("it was asked for").bytes().to_vec()
}

/// Performs `steps` operations according to `plan`, or as many as `source` has decisions for. The
/// seed of a failure is not known here and stays 0.
///
/// # Errors
/// Returns a failure if an auditor found a violation.
pub fn run_plan(
    source: &mut impl DecisionSource,
    plan: RandomPlan,
    steps: u64,
) -> Result<Summary, RandomFailure> {
    // The plan is consumed by the run, but a failure must show it.
    let drawn = format!("{:?}", plan.config);
    let (driver, done) = perform(source, plan, steps, false);
    let found = driver.layer.observer().audit.found();
    if found.is_empty() {
        return Ok(Summary {
            steps: done,
            counters: driver.layer.layer().counters(),
            tally: *driver.layer.observer().audit.tally(),
            seconds: driver.layer.observer().audit.seconds(),
        });
    }
    Err(RandomFailure {
        seed: 0,
        steps: done,
        violations: found.violations().to_vec(),
        plan: drawn,
    })
}

fn perform<S: DecisionSource>(
    source: &mut S,
    plan: RandomPlan,
    steps: u64,
    record: bool,
) -> (RandomDriver<'_, S>, u64) {
    let mut layer = Witness::audited_layer(plan.config.clone(), record)
        .expect("only valid configurations are drawn");
    if plan.idle {
        layer.observer_mut().audit.watch_idle();
    }
    let mut driver = RandomDriver::new(source, plan, layer);
    let mut done = 0;
    while done < steps && driver.layer.observer().audit.found().is_empty() && !driver.is_exhausted()
    {
        driver.step();
        done += 1;
    }
    if driver.layer.observer().audit.found().is_empty() {
        // After a violation, the layer may never become idle.
        driver.drain();
    }
    (driver, done)
}
