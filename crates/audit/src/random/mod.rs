//! Random operations on a layer under every auditor: the seed draws the configuration, too.
//!
//! The drive answers at random, so nothing is said of how long anything takes, nor of what is kept of a promise in a second
//! ([`crate::Promise`]). What is said of contracts is who may go before whom: [`crate::Precedence`], [`crate::Realtime`] and, where
//! [`Plan::idle`] says so, [`crate::Idle`] judge by what is sent.

mod driver;
mod plan;
mod source;

pub use plan::{Operation, Plan};
pub use source::{Bytes, Random, Source};

use crate::found::Violation;
use crate::{Tally, Witness};
use driver::Driver;
use std::fmt;
use weir_core::Counters;

/// A run that ended well.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Operations performed.
    pub steps: u64,
    /// The layer's totals at the end.
    pub counters: Counters,
    /// How often what happened.
    pub tally: Tally,
    /// Promised seconds of all groups.
    pub seconds: weir_measure::promise::Seconds,
}

/// A run in which something was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What to draw again.
    pub seed: u64,
    /// Operations performed until then.
    pub steps: u64,
    /// What was found first.
    pub violations: Vec<Violation>,
    /// What was drawn.
    pub plan: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, step {}: {}", self.seed, self.steps, self.plan)?;
        for violation in &self.violations {
            writeln!(f, "  {violation}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// Draws a configuration from `seed`, performs `steps` operations and lets everything come to its end.
///
/// # Errors
/// An auditor found something. The same seed and steps find it again.
pub fn run(seed: u64, steps: u64) -> Result<Summary, Box<Failure>> {
    let mut random = Random::new(seed);
    let plan = Plan::draw(&mut random);
    run_plan(&mut random, plan, steps).map_err(|failure| Box::new(Failure { seed, ..failure }))
}

/// As [`run`], and gives the record of every call, up to the end or to what was found.
pub fn record(seed: u64, steps: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let plan = Plan::draw(&mut random);
    let driver = perform(&mut random, plan, steps, true).0;
    let recorder = driver.layer.into_observer().recorder;
    recorder.expect("it was asked for").bytes().to_vec()
}

/// Performs `steps` operations, or as many as `source` has decisions for, as `plan` says. The seed of a failure is not known
/// here and left 0.
///
/// # Errors
/// An auditor found something.
pub fn run_plan(source: &mut impl Source, plan: Plan, steps: u64) -> Result<Summary, Failure> {
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
    Err(Failure {
        seed: 0,
        steps: done,
        violations: found.kept().to_vec(),
        plan: drawn,
    })
}

fn perform<S: Source>(
    source: &mut S,
    plan: Plan,
    steps: u64,
    record: bool,
) -> (Driver<'_, S>, u64) {
    let mut layer =
        Witness::beside(plan.config.clone(), record).expect("only valid configurations are drawn");
    if plan.idle {
        layer.observer_mut().audit.watch_idle();
    }
    let mut driver = Driver::new(source, plan, layer);
    let mut done = 0;
    while done < steps && driver.layer.observer().audit.found().is_empty() && !driver.is_exhausted()
    {
        driver.step();
        done += 1;
    }
    if driver.layer.observer().audit.found().is_empty() {
        driver.drain();
    }
    (driver, done)
}
