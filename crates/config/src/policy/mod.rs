//! Policies: how a drive is shared. The server's file, the command line, the simulator and the search all mean this one thing.
//!
//! A policy is an elevator with its tunables, controllers, and what becomes of each part of a contract under it. It is a file:
//!
//! ```toml
#![doc = include_str!("../../policies/bfq.toml")]
//! ```
//!
//! or a word: the name of one that comes with Weir, or such a name with controllers, as `"bfq + io.latency"`.

pub(crate) mod cost;
mod mapping;
mod print;
mod read;
mod unkept;
mod weight;
mod word;

pub use cost::{cost_model, cost_qos};
pub use mapping::{Budget, ClassKnob, Limit, Mapping, Min, Setup, Share, Target};
pub use print::print;
pub use unkept::Unkept;
pub use weight::Node;
pub use word::{Refused, Unknown, choose, find, is_file};

use crate::document::{Document, Table};
use crate::file::{text, whole};
use crate::problem::Problem;
use crate::value;
use std::path::Path;
use std::sync::LazyLock;
use weir_core::control;
use weir_core::elevator::{self, bfq};

/// A way of sharing a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Its name in results: letters, digits, dots and dashes; with controllers behind it where it was composed.
    pub name: String,
    /// What it does in its first line; behind that what else is to be known.
    pub about: String,
    /// How it is chosen: by its name, as it was composed, or by the path of its file.
    pub(crate) word: String,
    /// The elevator with its tunables.
    pub elevator: elevator::Config,
    /// The controllers before it, each once, in the order of [`Controller::ALL`].
    pub controllers: Vec<Controller>,
    /// The tunables of io.max, if it is among them.
    pub slices: control::slices::Config,
    /// The tunables of io.low, if it is among them.
    pub low: control::low::Config,
    /// The tunables of io.cost, if it is among them.
    pub cost: control::cost::Config,
    /// What becomes of contracts.
    pub mapping: Mapping,
    /// A largest budget that follows from the contracts, in place of the elevator's tunable.
    pub budget: Option<Budget>,
}

/// A controller: it holds requests back before the elevator sees them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Controller {
    /// `max`: nobody gets more than its max, exactly.
    Max,
    /// `io.max`: the same as Linux counts it, in slices; in the place of `max`.
    Slices,
    /// `io.low`: while a group that is not idle gets less than its min, all are held to theirs.
    Low,
    /// `io.latency`: a group beside one that misses its latency target is held back.
    Latency,
    /// `io.cost`: the drive's time is divided by shares.
    Cost,
}

impl Controller {
    /// All of them, in the order in which requests meet them.
    pub const ALL: [Self; 5] = [
        Self::Max,
        Self::Slices,
        Self::Low,
        Self::Latency,
        Self::Cost,
    ];

    /// Its name: as the file of a cgroup is called, where Linux has the controller.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::Slices => "io.max",
            Self::Low => "io.low",
            Self::Latency => "io.latency",
            Self::Cost => "io.cost",
        }
    }
}

impl Controller {
    /// Controllers in the place of which it is: one of them serves the same part of contracts.
    pub(crate) fn is_instead_of(self) -> impl Iterator<Item = Self> {
        let same = match self {
            Self::Max => Some(Self::Slices),
            Self::Slices => Some(Self::Max),
            Self::Low | Self::Latency | Self::Cost => None,
        };
        same.into_iter()
    }
}

impl Policy {
    /// First come, first served.
    pub fn none() -> Self {
        named("none").expect("it comes with Weir, as its tests show")
    }

    /// Contracts are kept.
    pub fn contract() -> Self {
        named("contract").expect("it comes with Weir, as its tests show")
    }

    /// What it does, in a line.
    pub fn summary(&self) -> &str {
        self.about.lines().next().unwrap_or_default()
    }

    /// How it is chosen: by its name, as it was composed, or by the path of its file.
    pub fn word(&self) -> &str {
        &self.word
    }

    /// True if it was read from a file, which its word is the path of.
    pub fn is_from_file(&self) -> bool {
        is_file(&self.word)
    }

    /// True if it says that the drive is a server across a network.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(&self.elevator, elevator::Config::Contract(contract) if contract.is_remote())
    }

    /// True if the min of every contract that is admitted is kept.
    pub fn keeps_min(&self) -> bool {
        self.mapping.min == Min::Kept
    }

    /// True if classes of contracts are kept.
    pub fn goes_by_classes(&self) -> bool {
        self.mapping.class == ClassKnob::Kept
    }

    /// True if its elevator is Linux's, to which long requests come in parts. One of our own cuts them itself.
    pub fn splits_before(&self) -> bool {
        match &self.elevator {
            elevator::Config::Contract(_) => false,
            elevator::Config::Bfq(bfq) => bfq.charge == bfq::Charge::Linux,
            _ => true,
        }
    }

    /// True if its elevator or one of its controllers is called so.
    pub fn uses(&self, name: &str) -> bool {
        self.elevator.kind().name == name || self.controllers.iter().any(|c| c.name() == name)
    }

    /// Sets a tunable of its elevator if it is of that name and has it; else nothing changes. What is beyond its bounds is moved inside.
    /// Returns whether there is such a tunable.
    pub fn tune(&mut self, elevator: &str, tunable: &str, value: u64) -> bool {
        if self.elevator.kind().name != elevator {
            return false;
        }
        let Some(tuned) = self.elevator.tuned_mut() else {
            return false;
        };
        let Some(place) = tuned.find(tunable) else {
            return false;
        };
        tuned.set(place, value);
        tuned.bound();
        if tunable == Budget::TUNABLE {
            self.budget = None;
        }
        true
    }
}

impl Policy {
    /// Sets the tunables that a table has. What is stated does not follow from contracts any more.
    pub(crate) fn tune_from<'a>(&mut self, doc: &mut Document<'a>, table: &Table<'a>) {
        if let Some(tuned) = self.elevator.tuned_mut() {
            value::tunables(doc, table, tuned);
        }
        if table.entry(Budget::TUNABLE).is_some() {
            self.budget = None;
        }
    }
}

/// What the server has where its file says nothing: contracts are kept.
impl Default for Policy {
    fn default() -> Self {
        Self::contract()
    }
}

built_in! { "policy" in "policies":
    "none"
    "bfq"
    "bfq-linux"
    "bfq-bytes"
    "bfq-4.18"
    "bfq-5.3"
    "mq-deadline"
    "kyber"
    "cfq"
    "contract"
    "io.max"
    "io.low"
    "io.latency"
    "io.cost"
    "io.cost-5.5"
    "io.cost-s"
    "io.cost-s-disk"
    "io.cost-s-nvme"
    "max-limits"
}

/// The policies that come with Weir, read.
static READ: LazyLock<Vec<Policy>> = LazyLock::new(|| {
    let all = BUILT_IN.iter().map(|(name, text)| {
        let read = read(text, name);
        read.expect("what comes with Weir can be read, as its tests show")
    });
    all.collect()
});

/// The policies that come with Weir.
pub fn all() -> &'static [Policy] {
    &READ
}

/// The policy of that name that comes with Weir.
fn named(name: &str) -> Option<Policy> {
    all().iter().find(|p| p.name == name).cloned()
}

/// Reads the text of a policy. `file` is its name in problems and may be empty.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file: an unknown key with the nearest known one, a value with what is permitted.
pub fn read(text: &str, file: &str) -> Result<Policy, Vec<Problem>> {
    whole(text, file, read::policy)
}

/// Reads a policy's file.
///
/// # Errors
/// As [`read`], or it cannot be read at all, or its name is that of another policy that comes with Weir.
pub fn load(path: &Path) -> Result<Policy, Vec<Problem>> {
    let (file, text) = text(path)?;
    let policy = whole(&text, &file, |doc, table| {
        let policy = read::policy(doc, table)?;
        read::name_is_free(doc, table, &policy);
        Some(policy)
    })?;
    Ok(Policy {
        word: file,
        ..policy
    })
}
