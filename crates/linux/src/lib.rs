//! Linux's own controls for storage: translates policies and contracts into them, applies them to a
//! host, and undoes that.
//!
//! - [`translate`] turns a policy, a drive and groups with contracts into [`KnobSetting`]s, in the
//!   order in which the kernel needs them. It is used wherever a kernel has to do the same as the
//!   simulator.
//! - [`HostFiles`] is the interface to a host: a real directory tree ([`FileTree`]), a recorded one
//!   that behaves as the kernel does ([`FakeHost`]), or a recorded one that can only be read
//!   ([`RecordedHost`]).
//! - [`HostPlan`] has the settings of a host for a file of contracts. [`apply`] makes them, after
//!   it has written each old value to a [`ApplyJournal`]. [`restore`] undoes everything, even if
//!   [`apply`] was interrupted. [`warnings`] finds settings that have no effect.
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
pub use change::{HostChange, Ident, JournalEntry, SideEffect};
pub use check::{Warning, warnings};
pub use device::{HostDevice, NoDevice, StackKind};
pub use failed::StepError;
pub use fake::{FakeHost, Killed};
pub use files::{FileTree, HostFiles};
pub use journal::{ApplyJournal, JOURNAL, JournalError};
pub use knob::{InvalidKnobValue, Knob, Scope};
pub use place::{ApplyStep, DevicePaths};
pub use plan::{DeviceTarget, HostPlan, NO_LOW, PlanAction, UNIT_FOLDER, WithheldSetting};
pub use recorded::RecordedHost;
pub use run::{ApplyCounts, RestoreCounts, apply, preview, restore};
pub use said::StepReport;
pub use setting::{KnobSetting, SettingPlace};
pub use translate::{ContractGroup, Translation, TranslationRefusal, translate};
