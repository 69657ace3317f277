//! A steady state: closed-loop clients on a modelled drive in virtual time, for the auditors of shares, waits and promises.
//!
//! Random operations ([`crate::random`]) show that nothing is lost, whatever happens; that everyone gets a fair part shows only when
//! many wait for long. Here drawn clients keep requests outstanding for seconds of virtual time on a drive whose requests take
//! `service` each, side by side, and then cross one link; in some scenes they come and go, are put on hold, give requests up and are
//! sold other contracts, and the drive fails now and then.

mod contracts;
mod draft;
mod host;
mod kinds;
mod scene;

pub use scene::{Drive, Kind, Scene, Step, Watch};

use crate::random::Random;
use crate::{Margins, Violation};
use host::Host;
use std::fmt;

/// What a client does: keeps `depth` requests of `size` outstanding, each `think` after the answer before.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// The slot of its group.
    pub group: u32,
    /// Bytes a request.
    pub size: u32,
    /// Requests outstanding.
    pub depth: u32,
    /// Nanoseconds between an answer and the next request.
    pub think: u64,
    /// At random places, or one behind the other.
    pub random: bool,
    /// Asks for `on` nanoseconds, then for nothing for `off`, and so on. Zero `off`: all the time.
    pub on: u64,
    /// See there.
    pub off: u64,
    /// One in so many requests writes; zero: it only reads.
    pub write_in: u64,
}

/// How a run went.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// How near to their bounds things came.
    pub margins: Margins,
    /// Requests done.
    pub done: u64,
    /// Bytes of them, by client.
    pub bytes: Vec<u64>,
}

/// A run in which something was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What was found first.
    pub violations: Vec<Violation>,
    /// What ran.
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
/// An auditor found something.
pub fn run(kind: Kind, seed: u64) -> Result<Outcome, Box<Failure>> {
    let mut random = Random::new(seed);
    let scene = Scene::draw(kind, &mut random);
    run_scene(&scene, &mut random)
}

/// Runs a scene; `random` says at which places clients read.
///
/// # Errors
/// An auditor found something.
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
