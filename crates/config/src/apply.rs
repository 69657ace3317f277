//! Contracts for the kernel of a host: the file of `weir apply`.

use crate::check;
use crate::document::Document;
use crate::file::{tables, text};
use crate::key::APPLIES;
use crate::policy::Policy;
use crate::problem::Problem;
use crate::read;
use crate::server::Server;
use std::path::{Path, PathBuf};
use weir_core::{Capacity, Contract, Knobs, Span};

/// Drives of a host, and the cgroups that share them: what [`load`] returns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// The drives by name, at least one; no two are one device.
    pub drives: Vec<Drive>,
    /// The same contracts, of volumes in memory.
    pub(crate) server: Server,
}

impl Host {
    /// A problem at a key (as `volume.alpha.cgroup`).
    pub fn problem(&self, key: &str, message: String, help: Option<String>) -> Problem {
        self.server.problem(key, message, help)
    }

    /// Parts of contracts that the policies of their drives do not keep.
    pub fn unkept(&self) -> Vec<Problem> {
        check::warnings(&self.server)
    }
}

/// A block device (`[drive.NAME]`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drive {
    /// Its name.
    pub name: String,
    /// Its path, absolute.
    pub device: PathBuf,
    /// How it is shared.
    pub policy: Policy,
    /// What it can do at the least, if stated or found by running the model.
    pub capacity: Option<Capacity>,
    /// A model of it.
    pub model: Option<weir_drive::Config>,
    /// What else is set of its queue.
    pub queue: Queue,
    /// The cgroups on it: tenants by name, then volumes by name.
    pub members: Vec<Member>,
}

/// What is set of a device's queue (`[drive.NAME.queue]`); `None` stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Queue {
    /// Requests in the elevator and the drive together.
    pub nr_requests: Option<u32>,
    /// Read-ahead in bytes, a multiple of 4096.
    pub read_ahead: Option<u64>,
    /// 0 merges, 1 what is simple, 2 nothing.
    pub nomerges: Option<u8>,
    /// Whether it seeks.
    pub rotational: Option<bool>,
    /// Bytes of one command, a multiple of 1024.
    pub max_transfer: Option<u64>,
    /// The target of write-back throttling; zero is off.
    pub write_back_latency: Option<Span>,
}

/// A cgroup with a contract.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Where it is in the file, as `volume.alpha`.
    pub key: String,
    /// Its name.
    pub name: String,
    /// Which cgroup it is.
    pub cgroup: Cgroup,
    /// The place of its tenant, which comes before it.
    pub parent: Option<usize>,
    /// Its contract.
    pub contract: Contract,
    /// How controllers are set for it.
    pub knobs: Knobs,
    /// What becomes of priorities (`io.prio.class`).
    pub prio_class: Option<&'static str>,
}

/// Which cgroup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cgroup {
    /// That of this path, which begins with a slash and is not the root's.
    Path(String),
    /// That of this unit of systemd.
    Unit(String),
}

/// Reads and checks a file. The host is not looked at.
///
/// # Errors
/// Everything that is wrong with it, as [`crate::load`].
pub fn load(path: &Path) -> Result<Host, Vec<Problem>> {
    let (file, text) = text(path)?;
    parse(&file, &text)
}

/// Reads and checks the text of a file. `file` is its name in problems and may be empty.
///
/// # Errors
/// As [`load`].
pub fn parse(file: &str, text: &str) -> Result<Host, Vec<Problem>> {
    let mut doc = Document::new(file, text);
    doc.family = APPLIES;
    let Some(table) = tables(&mut doc, text) else {
        return Err(doc.into_problems());
    };
    let (mut draft, drives) = read::host(&mut doc, table.get_ref());
    check::check(&mut doc, &mut draft, None);
    if doc.found() > 0 {
        return Err(doc.into_problems());
    }
    let mut server = draft.server;
    server.places = std::mem::take(&mut doc.places);
    Ok(Host { drives, server })
}

#[cfg(test)]
mod tests;
