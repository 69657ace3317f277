//! A drive that is compared on, and what it can do.

use super::kind::Scenario;
use crate::check;
use crate::failure::Failure;
use std::path::Path;
use std::sync::OnceLock;
use weir_config::profile;
use weir_core::{Capacity, Contract, Span};
use weir_load::Program;
use weir_sim::{Policy, Run};

/// A drive.
#[derive(Debug)]
pub(super) struct Drive {
    /// Its name in results.
    pub(super) name: String,
    /// What it is, in a line.
    pub(super) about: String,
    /// The model.
    pub(super) config: weir_drive::Config,
    capacity: OnceLock<Capacity>,
}

/// Time of a measurement, and how many commands are in the drive meanwhile at most.
const TIME: Span = Span::from_millis(500);
const DEPTH: u32 = 256;

/// Bytes that are measured on: the beginning of the drive.
const SPACE: u64 = 1 << 30;

impl Drive {
    /// A drive by name, or by its profile's file, whose name ends in `.toml`.
    pub(super) fn find(name: &str) -> Result<Self, Failure> {
        let path = Path::new(name);
        let profile = if path.extension().is_some_and(|e| e == "toml") {
            profile::load(path).map_err(|problems| check::refuse(&problems))?
        } else {
            profile::find(name).map_err(|e| unknown(&e))?
        };
        Ok(Self {
            about: profile.summary().to_owned(),
            name: profile.name,
            config: profile.drive,
            capacity: OnceLock::new(),
        })
    }

    /// Bytes a second that one client reads in sequence with as many requests as the drive takes.
    pub(super) fn peak(&self) -> Result<u64, Failure> {
        let reads = Program::sequential_reads(128 * 1024, 1);
        let (bytes, _) = self.measure(reads)?;
        Ok(bytes)
    }

    /// What it can do, as far as contracts count with it: sequential reads and writes, and random reads of 4 KiB, at full depth. Of
    /// drives whose model has no bound of its own, measured.
    pub(super) fn capacity(&self) -> Result<Capacity, Failure> {
        if let Some(capacity) = self
            .config
            .capacity()
            .or_else(|| self.capacity.get().copied())
        {
            return Ok(capacity);
        }
        let reads = Program::sequential_reads(128 * 1024, 1);
        let writes = Program {
            writes: 100,
            ..reads
        };
        let capacity = Capacity {
            read: self.measure(reads)?.0,
            write: self.measure(writes)?.0,
            iops: self.measure(Program::random_reads(4096, 1))?.1,
        };
        Ok(*self.capacity.get_or_init(|| capacity))
    }

    /// Bytes a second that the target of a scenario gets alone; `None` if the scenario does not ask.
    pub(super) fn alone(&self, scenario: Scenario) -> Result<Option<u64>, Failure> {
        let Some(scenario) = scenario.alone(self) else {
            return Ok(None);
        };
        let run = Run::new(&scenario, &Policy::none(), 0).map_err(Failure::run)?;
        let total = run.run(|_| {}).map_err(Failure::run)?.total;
        Ok(Some(rate(total.bytes(), total.length_ns())))
    }

    /// Bytes and requests a second of one client that does nothing else, at full depth.
    fn measure(&self, program: Program) -> Result<(u64, u64), Failure> {
        let shape = self.config.shape();
        let tags = u32::from(shape.tags) * u32::from(shape.queues);
        let size = self.config.size().map_or(SPACE, |size| size.min(SPACE));
        let mut scenario = weir_sim::Scenario::new("probe", self.config.clone(), TIME);
        scenario.warm_up = TIME;
        let program = Program {
            depth: tags.min(DEPTH),
            ..program
        };
        scenario.tenant("probe", Contract::DEFAULT, size, program);
        let run = Run::new(&scenario, &Policy::none(), 0).map_err(Failure::run)?;
        let total = run.run(|_| {}).map_err(Failure::run)?.total;
        let length = total.length_ns();
        Ok((rate(total.bytes(), length), rate(total.requests(), length)))
    }
}

/// There is no such drive.
fn unknown(unknown: &profile::Unknown) -> Failure {
    let mut reason = unknown.to_string();
    if unknown.nearest.is_none() {
        let names: Vec<&str> = profile::names().collect();
        reason = format!("{reason}; there are {}", names.join(", "));
    }
    Failure::Usage(format!(
        "{reason}; a profile of your own is named by its file, NAME.toml"
    ))
}

/// So many in `ns`, a second.
fn rate(count: u64, ns: u64) -> u64 {
    let second = u128::from(count) * 1_000_000_000 / u128::from(ns.max(1));
    u64::try_from(second).unwrap_or(u64::MAX)
}
