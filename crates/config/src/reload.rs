//! From a running server's file to the next one: what changes, or why it cannot.

use crate::plan::Plan;
use weir_core::Edit;

/// What a new file changes: all of it is to be put in force, or nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reload {
    /// For each drive, in the order of the plans given.
    pub drives: Vec<DriveReload>,
}

/// What a new file changes on one drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveReload {
    /// The plan from now on; what stays keeps its slot, what comes takes slots that were free before. Its `edits` are those of a
    /// fresh start.
    pub plan: Plan,
    /// What brings the running layer there: one [`Layer::change`](weir_core::Layer::change). Empty if nothing changes. A volume
    /// that goes must have no streams left, one that comes without a written size needs its [`Edit::SetSpace`].
    pub edits: Vec<Edit>,
    /// Volumes that come, by name.
    pub added: Vec<String>,
    /// Volumes that go, by name.
    pub removed: Vec<String>,
    /// Volumes whose contract changes, by name.
    pub changed: Vec<String>,
}
