//! Steady states: closed-loop clients on a modelled drive in virtual time, for the auditors of shares, waits and promises.
//!
//! Random operations ([`crate::audit::random`]) show that nothing is lost; that everyone gets a fair part only shows when many clients
//! wait for a long time. Here drawn clients keep requests outstanding for seconds of virtual time on a drive whose requests take
//! `service` each, in parallel, and then cross one link; in some scenes clients come and go, are put on hold, cancel requests and
//! get other contracts, and the drive fails from time to time.

mod contracts;
mod draft;
mod host;
mod kinds;
mod scene;

pub use scene::{Drive, Kind, Scene, Step, Watch};

use crate::audit::random::Random;
use crate::audit::{Margins, Violation};
use host::Host;
use std::fmt;

/// A client: keeps `depth` requests of `size` outstanding, each `think` after the previous completion.
#[derive(Clone, Copy, Debug, Default)]
pub struct Client {
    /// The slot of its group.
    pub group: u32,
    /// Bytes per request.
    pub size: u32,
    /// Its queue depth.
    pub depth: u32,
    /// Think time: nanoseconds between a completion and the next request.
    pub think: u64,
    /// Random or sequential offsets.
    pub random: bool,
    /// It is active for `on` nanoseconds, then pauses for `off`, and so on. Zero `off`: always active.
    pub on: u64,
    /// See [`Self::on`].
    pub off: u64,
    /// One of this many requests writes; zero: it only reads.
    pub write_in: u64,
}

/// The results of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// How close to their bounds things came.
    pub margins: Margins,
    /// Requests done.
    pub done: u64,
    /// Their bytes, by client.
    pub bytes: Vec<u64>,
}

/// A run with violations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The first violations.
    pub violations: Vec<Violation>,
    /// The scene.
    pub scene: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.scene)?;
        for violation in &self.violations {
            writeln!(f, "  {violation}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// Draws a scene of a kind from `seed` and runs it.
///
/// # Errors
/// An auditor found a violation.
pub fn run(kind: Kind, seed: u64) -> Result<Outcome, Box<Failure>> {
    let mut random = Random::new(seed);
    let scene = Scene::draw(kind, &mut random);
    run_scene(&scene, &mut random)
}

/// Runs a scene; `random` draws the clients' offsets.
///
/// # Errors
/// An auditor found a violation.
pub fn run_scene(scene: &Scene, random: &mut Random) -> Result<Outcome, Box<Failure>> {
    let mut host = Host::new(scene, random);
    host.run();
    let (outcome, layer) = host.into_parts();
    let audit = &layer.observer().audit;
    if audit.found().is_empty() {
        return Ok(Outcome {
            margins: audit.margins(),
            ..outcome
        });
    }
    Err(Box::new(Failure {
        violations: audit.found().kept().to_vec(),
        scene: format!("{scene:?}"),
    }))
}
