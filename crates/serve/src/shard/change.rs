//! A changed configuration: volumes and contracts that come, go and change while clients are served.
//!
//! Everything that can be refused has been checked before a shard hears of it. A volume that goes takes no further request; its
//! clients get the answers to what they have under way, then their connections end (at the deadline in any case), then what was
//! written to it is made durable, and only then the drive changes as a whole, in one call into the core. All other connections go
//! on.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::time::Duration;

use weir_config::DriveReload;
use weir_core::{Instant, Span};

use super::connection::State;
use super::{Shard, Sold, VolumeSetup, sized};
use crate::acceptor::Export;

/// What changes on one drive.
#[derive(Debug)]
pub(crate) struct Change {
    /// The drive's number within the shard.
    pub(crate) drive: usize,
    pub(crate) reload: DriveReload,
    pub(crate) added: Vec<VolumeSetup>,
    /// What clients can choose from beside, once it is in force.
    pub(crate) exports: Vec<Export>,
    /// What each volume's client is sold from now on.
    pub(crate) sold: BTreeMap<String, Sold>,
    /// How long clients of volumes that go have for what is under way.
    pub(crate) patience: Duration,
}

/// A change that waits for clients of volumes that go.
#[derive(Debug)]
pub(super) struct Pending {
    change: Change,
    result: Sender<Result<(), String>>,
    pub(super) deadline: Instant,
}

impl Shard {
    pub(super) fn begin_change(&mut self, change: Change, result: Sender<Result<(), String>>) {
        let drive = &mut self.drives[change.drive];
        for volume in drive.volumes.iter_mut().flatten() {
            volume.leaving = change.reload.removed.contains(&volume.name);
        }
        for slot in self.connections.slots() {
            let connection = &mut self.connections[slot];
            let drive = &self.drives[connection.drive];
            let volume = drive.volumes[connection.space as usize].as_ref();
            if connection.drive == change.drive
                && connection.state == State::Open
                && volume.is_some_and(|v| v.leaving)
            {
                connection.state = State::Leaving;
                self.look_at(slot);
            }
        }
        let patience = Span::from_nanos(change.patience.as_nanos() as u64);
        self.changes.push(Pending {
            change,
            result,
            deadline: self.now + patience,
        });
    }

    /// Puts changes in force for which nothing has to be waited any more.
    pub(super) fn change(&mut self) {
        for pending in std::mem::take(&mut self.changes) {
            if let Some(pending) = self.try_change(pending) {
                self.changes.push(pending);
            }
        }
    }

    /// Gives a change back that has to wait.
    fn try_change(&mut self, mut pending: Pending) -> Option<Pending> {
        let number = pending.change.drive;
        if pending.deadline <= self.now {
            // Those that are gone are waited for as long as the drive takes.
            pending.deadline = Instant::MAX;
            for slot in self.connections.slots() {
                let connection = &self.connections[slot];
                let drive = &self.drives[connection.drive];
                let volume = drive.volumes[connection.space as usize].as_ref();
                if connection.drive == number && volume.is_some_and(|v| v.leaving) {
                    self.gone(slot, Some("its volume was removed"));
                }
            }
            self.work();
        }
        let drive = &mut self.drives[number];
        let leaving = drive.volumes.iter().flatten().filter(|v| v.leaving);
        if leaving.map(|v| v.connections).sum::<u32>() > 0
            || !drive.sync(&mut self.ring, self.now, |v| v.leaving)
        {
            return Some(pending);
        }
        let Pending { change, result, .. } = pending;
        let outcome = self.put_in_force(number, change);
        // Whoever asked waits for this.
        let _ = result.send(outcome);
        None
    }

    fn put_in_force(&mut self, number: usize, change: Change) -> Result<(), String> {
        let Change {
            reload,
            added,
            mut sold,
            ..
        } = change;
        let drive = &mut self.drives[number];
        let mut edits = reload.edits;
        edits.extend(added.iter().map(|setup| sized(&reload.plan, setup)));
        if !edits.is_empty() {
            let refused = |refusal| format!("drive {}: {refusal}", drive.name);
            drive.layer.change(self.now, &edits).map_err(refused)?;
            drive.touched = true;
        }
        drive.remove_leaving();
        drive.plan = reload.plan;
        for volume in drive.volumes.iter_mut().flatten() {
            if let Some(sold) = sold.remove(&volume.name) {
                volume.terms = sold;
            }
        }
        for setup in added {
            let name = setup.name.clone();
            drive
                .add(setup)
                .map_err(|error| format!("volume {name}: {error}"))?;
        }
        Ok(())
    }
}
