//! Policies: the ways of sharing a drive.
//!
//! The server's file, the command line, the simulator and the search all use the same policies.
//!
//! A [`Policy`] consists of an elevator with its tunables, controllers, and the effect of each part
//! of a contract. It is described by a file:
//!
//! ```toml
#![doc = include_str!("../../policies/bfq.toml")]
//! ```
//!
//! It is selected by the path of its file, by the name of a policy that comes with Weir, or by such
//! a name with controllers, as in `"bfq + io.latency"` ([`choose`]).

pub(crate) mod cost;
mod mapping;
mod print;
mod read;
mod unkept;
mod weight;
mod word;

pub use cost::{cost_model, cost_qos};
pub use mapping::{
    Budget, ClassEffect, ContractMapping, LatencyEffect, MaxEffect, MinEffect, Setup, ShareEffect,
};
pub use print::print;
pub use unkept::UnkeptPart;
pub use weight::GroupNode;
pub use word::{PolicyError, UnknownPolicy, choose, find, is_file};

use crate::document::{Document, ShapedTable};
use crate::file::{parse_whole, text};
use crate::problem::Problem;
use crate::value;
use std::path::Path;
use std::sync::LazyLock;
use weir_core::control;
use weir_core::elevator::{self, bfq};

/// A way of sharing a drive: an elevator, controllers, and the effect of contracts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// The name in results: letters, digits, dots and dashes, followed by the controllers if the
    /// policy was composed.
    pub name: String,
    /// The description. Its first line is a summary, and the other lines give further information.
    pub about: String,
    /// The word that selects the policy: its name, its composition, or the path of its file.
    pub(crate) word: String,
    /// The elevator with its tunables.
    pub elevator: elevator::Config,
    /// The controllers in front of the elevator, each at most once, in the order of
    /// [`PolicyController::ALL`].
    pub controllers: Vec<PolicyController>,
    /// The tunables of `io.max`, which apply only if it is among the controllers.
    pub slices: control::slices::Config,
    /// The tunables of `io.low`, which apply only if it is among the controllers.
    pub low: control::low::Config,
    /// The tunables of `io.cost`, which apply only if it is among the controllers.
    pub cost: control::cost::Config,
    /// The effect of each part of a contract.
    pub mapping: ContractMapping,
    /// The maximum budget that is derived from the contracts. It replaces the tunable of the
    /// elevator.
    pub budget: Option<Budget>,
}

/// A controller, which throttles requests before they reach the elevator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PolicyController {
    /// `max`: no client exceeds its max, exactly.
    Max,
    /// `io.max`: limits in time slices as in Linux. It takes the place of `max`.
    Slices,
    /// `io.low`: while a group that is not idle gets less than its min, all groups are limited to
    /// their mins.
    Low,
    /// `io.latency`: while a group misses its latency target, other groups are throttled.
    Latency,
    /// `io.cost`: the drive's time is divided by shares.
    Cost,
}

impl PolicyController {
    /// All controllers in the order that requests pass them.
    pub const ALL: [Self; 5] = [
        Self::Max,
        Self::Slices,
        Self::Low,
        Self::Latency,
        Self::Cost,
    ];

    /// Returns the name of the controller. If Linux has the controller, it is that of the cgroup's
    /// file.
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

impl PolicyController {
    /// Iterates over the controllers that this controller replaces, because both keep the same part
    /// of contracts.
    pub(crate) fn replaced_controllers(self) -> impl Iterator<Item = Self> {
        let same = match self {
            Self::Max => Some(Self::Slices),
            Self::Slices => Some(Self::Max),
            Self::Low | Self::Latency | Self::Cost => None,
        };
        same.into_iter()
    }
}

impl Policy {
    /// Returns the policy `none`, which serves requests in the order of their arrival.
    pub fn none() -> Self {
        named("none").expect("it comes with Weir, as its tests show")
    }

    /// Returns the policy `contract`, which keeps contracts.
    pub fn contract() -> Self {
        named("contract").expect("it comes with Weir, as its tests show")
    }

    /// Returns the first line of the description.
    pub fn summary(&self) -> &str {
        self.about.lines().next().unwrap_or_default()
    }

    /// Returns the word that selects the policy: its name, its composition, or the path of its
    /// file.
    pub fn word(&self) -> &str {
        &self.word
    }

    /// Returns true if the policy was read from a file. Its word is then the path of the file.
    pub fn is_from_file(&self) -> bool {
        is_file(&self.word)
    }

    /// Returns true if the policy states that the drive is a server across a network.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(&self.elevator, elevator::Config::Contract(contract) if contract.is_remote())
    }

    /// Returns true if the min of every admitted contract is guaranteed.
    pub fn keeps_min(&self) -> bool {
        self.mapping.min == MinEffect::Kept
    }

    /// Returns true if the classes of contracts have an effect.
    pub fn uses_classes(&self) -> bool {
        self.mapping.class == ClassEffect::Kept
    }

    /// Returns true if long requests must be split before they reach the elevator, as Linux does.
    /// Weir's own elevators split them themselves.
    pub fn needs_split_requests(&self) -> bool {
        match &self.elevator {
            elevator::Config::Contract(_) => false,
            elevator::Config::Bfq(bfq) => bfq.charge == bfq::Charge::Linux,
            _ => true,
        }
    }

    /// Returns true if the elevator or one of the controllers has this name.
    pub fn uses(&self, name: &str) -> bool {
        self.elevator.kind().name == name || self.controllers.iter().any(|c| c.name() == name)
    }

    /// Sets a tunable if the policy has this elevator and the elevator has the tunable. Values
    /// outside of the bounds are moved inside. Returns true if the tunable exists.
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
            // A stated value takes precedence over the derived one.
            self.budget = None;
        }
        true
    }
}

impl Policy {
    /// Sets the tunables that a table contains. A budget that is set there is no longer derived
    /// from the contracts.
    pub(crate) fn tune_from<'a>(&mut self, doc: &mut Document<'a>, table: &ShapedTable<'a>) {
        if let Some(tuned) = self.elevator.tuned_mut() {
            value::tunables(doc, table, tuned);
        }
        if table.entry(Budget::TUNABLE).is_some() {
            self.budget = None;
        }
    }
}

/// Returns the policy of a drive whose table does not name one, which is `contract`.
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
    "io.cost-5.5-s"
    "io.cost-s"
    "io.cost-s-disk"
    "io.cost-s-nvme"
    "max-limits"
}

/// The policies that come with Weir, parsed once.
static READ: LazyLock<Vec<Policy>> = LazyLock::new(|| {
    let all = BUILT_IN.iter().map(|(name, text)| {
        let read = read(text, name);
        read.expect("what comes with Weir can be read, as its tests show")
    });
    all.collect()
});

/// Returns all policies that come with Weir.
pub fn all() -> &'static [Policy] {
    &READ
}

/// Returns the policy of this name if it comes with Weir.
fn named(name: &str) -> Option<Policy> {
    all().iter().find(|p| p.name == name).cloned()
}

/// Reads the text of a policy. `file` is its name in problems and may be empty.
///
/// # Errors
/// Everything that is wrong with the text, in the order of the file. An unknown key comes with the
/// nearest known key, and a wrong value with the permitted values.
pub fn read(text: &str, file: &str) -> Result<Policy, Vec<Problem>> {
    parse_whole(text, file, read::policy)
}

/// Reads a policy's file.
///
/// # Errors
/// The problems that [`read`] returns. Also a problem if the file cannot be read, or if its name is
/// that of a different policy that comes with Weir.
pub fn load(path: &Path) -> Result<Policy, Vec<Problem>> {
    let (file, text) = text(path)?;
    let policy = parse_whole(&text, &file, |doc, table| {
        let policy = read::policy(doc, table)?;
        read::name_is_free(doc, table, &policy);
        Some(policy)
    })?;
    Ok(Policy {
        word: file,
        ..policy
    })
}
