//! Linux's own controls for storage: translates policies and contracts into them, applies them to a
//! host, and undoes that.
//!
//! - [`translate`] turns a policy, a drive and groups with contracts into [`Setting`]s, in the
//!   order in which the kernel needs them. It is used wherever a kernel has to do the same as the
//!   simulator.
//! - [`Files`] is the interface to a host: a real directory tree ([`Tree`]), a recorded one that
//!   behaves as the kernel does ([`Fake`]), or a recorded one that can only be read ([`Recorded`]).
//! - [`Plan`] has the settings of a host for a file of contracts. [`apply`] makes them, after it
//!   has written each old value to a [`Journal`]. [`restore`] undoes everything, even if [`apply`]
//!   was interrupted. [`warnings`] finds settings that have no effect.
//! - [`guest`] boots kernels in virtual machines, and [`play`] runs scenarios under them.

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
