//! Linux's own knobs for storage: which there are, what a policy and its contracts come to in them, and how a host is set and put back.
//!
//! [`translate`] turns a policy, a drive and groups with contracts into [`Setting`]s, in the order in which the kernel wants them; for
//! every place in which a kernel is to do what the simulator does. [`Files`] is where they go: a real tree ([`Tree`]), a recorded one that
//! behaves as the kernel does ([`Fake`]), or a recorded one that is only read ([`Recorded`]).
//!
//! [`Plan`] is what a file of contracts comes to on a host; [`apply`] does it, with each value that it changes in a [`Journal`] first, and
//! [`restore`] puts everything back, whenever [`apply`] was interrupted. [`warnings`] says which knobs do nothing.

#![forbid(unsafe_code)]

mod boot;
mod cgroups;
mod change;
mod check;
mod device;
mod failed;
mod fake;
mod files;
pub mod guest;
mod journal;
mod knob;
mod place;
mod plan;
pub mod play;
mod recorded;
mod run;
mod said;
mod setting;
mod translate;
mod tunable;

pub use cgroups::Cgroups;
pub use change::{Also, Change, Entry, Ident};
pub use check::{Warning, warnings};
pub use device::{Device, Layer, NoDevice};
pub use failed::Failed;
pub use fake::{Fake, Killed};
pub use files::{Files, Tree};
pub use journal::{JOURNAL, Journal, JournalError};
pub use knob::{Knob, Scope, Wrong};
pub use place::{Place, Step};
pub use plan::{Action, NO_LOW, Plan, Target, UNIT_FOLDER, Withheld};
pub use recorded::Recorded;
pub use run::{Applied, Restored, apply, preview, restore};
pub use said::Said;
pub use setting::{At, Setting};
pub use translate::{Group, Refused, Translation, translate};
