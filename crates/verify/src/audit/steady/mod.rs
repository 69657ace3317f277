//! Steady states: closed-loop clients on a modelled drive in virtual time, for the auditors of
//! shares, waits and promises.
//!
//! Random operations ([`crate::audit::random`]) show that no request is lost. Fairness shows only
//! when many clients wait for a long time. Here drawn clients keep requests outstanding for seconds
//! of virtual time. The drive serves requests in parallel, in `service` each, and then moves their
//! bytes over one link. In some scenes clients connect and disconnect, are put on hold, cancel
//! requests and get other contracts, and the drive fails from time to time.
//!
//! [`run`] draws a [`SteadyScene`] of a [`Kind`] and runs it.

mod contracts;
mod draft;
mod host;
mod kinds;
mod scene;

pub use scene::{Kind, SceneStep, SceneWatch, SteadyDrive, SteadyScene};

use crate::audit::random::RandomDecisions;
use crate::audit::{AuditMargins, Violation};
use host::SceneHost;
use std::fmt;

/// A client that keeps `depth` requests of `size` bytes outstanding. Each is sent `think` after the
/// previous completion.
#[derive(Clone, Copy, Debug, Default)]
pub struct SceneClient {
    /// The slot of its group.
    pub group: u32,
    /// The length of a request in bytes.
    pub size: u32,
    /// The queue depth of the client.
    pub depth: u32,
    /// The think time: nanoseconds between a completion and the next request.
    pub think: u64,
    /// True for random offsets, false for sequential ones.
    pub random: bool,
    /// The length of its active periods in nanoseconds, which alternate with pauses of `off`.
    pub on: u64,
    /// The length of its pauses in nanoseconds. With zero it is always active.
    pub off: u64,
    /// The frequency of writes: one of this many requests writes. With zero it only reads.
    pub write_in: u64,
}

/// The results of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SceneOutcome {
    /// The margins to the bounds that are checked.
    pub margins: AuditMargins,
    /// The number of completed requests.
    pub done: u64,
    /// The bytes of completed requests, by client.
    pub bytes: Vec<u64>,
}

/// The description of a run with violations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SceneFailure {
    /// The first violations of the run.
    pub violations: Vec<Violation>,
    /// The scene that was run, as text.
    pub scene: String,
}

impl fmt::Display for SceneFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.scene)?;
        for violation in &self.violations {
            writeln!(f, "  {violation}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SceneFailure {}

/// Draws a scene of a kind from `seed` and runs it.
///
/// # Errors
/// Returns a failure if an auditor found a violation.
pub fn run(kind: Kind, seed: u64) -> Result<SceneOutcome, Box<SceneFailure>> {
    let mut random = RandomDecisions::new(seed);
    let scene = SteadyScene::draw(kind, &mut random);
    run_scene(&scene, &mut random)
}

/// Runs a scene. `random` draws the clients' offsets.
///
/// # Errors
/// Returns a failure if an auditor found a violation.
pub fn run_scene(
    scene: &SteadyScene,
    random: &mut RandomDecisions,
) -> Result<SceneOutcome, Box<SceneFailure>> {
    let mut host = SceneHost::new(scene, random);
    host.run();
    let (outcome, layer) = host.into_parts();
    let audit = &layer.observer().audit;
    if audit.found().is_empty() {
        return Ok(SceneOutcome {
            margins: audit.margins(),
            ..outcome
        });
    }
    Err(Box::new(SceneFailure {
        violations: audit.found().violations().to_vec(),
        scene: format!("{scene:?}"),
    }))
}
