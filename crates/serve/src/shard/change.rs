//! A changed configuration: volumes and contracts that come, go and change while clients are served.
//!
//! Everything that can be refused has been checked before a shard hears of it. A volume that goes takes no further request; its
//! clients get the answers to what they have under way, then their connections end (at the deadline in any case), then what was
//! written to it is made durable. Then the change is prepared: the storage of what comes belongs to the shard, and the core has said
//! that it takes the edits. When that is so on every drive, each drive changes as a whole, in one call into the core; when one
//! refuses, none changes, and the volumes that were to go stay. All other connections go on.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::time::Duration;

use weir_config::DriveReload;
use weir_core::{Edit, Instant, Span};

use super::client::State;
use super::volume::Started;
use super::{Shard, ShardError, VolumeSetup, VolumeTerms, sized};

/// What changes on one drive.
#[derive(Debug)]
pub(crate) struct Change {
    /// The drive's number within the shard.
    pub(crate) drive: usize,
    pub(crate) reload: DriveReload,
    pub(crate) added: Vec<VolumeSetup>,
    /// Each volume's terms from now on.
    pub(crate) terms: BTreeMap<String, VolumeTerms>,
    /// How long clients of volumes that go have for what is under way.
    pub(crate) patience: Duration,
}

/// A change that waits for clients of volumes that go.
#[derive(Debug)]
pub(super) struct Pending {
    change: Change,
    result: Sender<Result<(), ShardError>>,
    pub(super) deadline: Instant,
}

/// A change that can be put in force at once.
#[derive(Debug)]
pub(super) struct Prepared {
    drive: usize,
    reload: DriveReload,
    edits: Vec<Edit>,
    started: Vec<Started>,
    terms: BTreeMap<String, VolumeTerms>,
}

impl Shard {
    pub(super) fn begin_change(&mut self, change: Change, result: Sender<Result<(), ShardError>>) {
        let drive = &mut self.drives[change.drive];
        for volume in drive.volumes.iter_mut().flatten() {
            volume.leaving = change.reload.removed.contains(&volume.name);
        }
        for slot in self.clients.slots() {
            let client = &mut self.clients[slot].client;
            let drive = &self.drives[client.drive];
            let volume = drive.volumes[client.space as usize].as_ref();
            if client.drive == change.drive
                && client.state == State::Open
                && volume.is_some_and(|v| v.leaving)
            {
                client.state = State::Leaving;
                self.mark_ready(slot);
            }
        }
        let patience = Span::from_nanos(change.patience.as_nanos() as u64);
        self.changes.push(Pending {
            change,
            result,
            deadline: self.now + patience,
        });
    }

    /// Prepares changes for which nothing has to be waited any more.
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
            for slot in self.clients.slots() {
                let client = &self.clients[slot].client;
                let drive = &self.drives[client.drive];
                let volume = drive.volumes[client.space as usize].as_ref();
                if client.drive == number && volume.is_some_and(|v| v.leaving) {
                    self.disconnect(slot, Some("its volume was removed"));
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
        let outcome = self.prepare(change);
        if outcome.is_err() {
            self.decide(number, false);
        }
        // Whoever asked waits for this.
        let _ = result.send(outcome);
        None
    }

    fn prepare(&mut self, change: Change) -> Result<(), ShardError> {
        let Change {
            drive: number,
            reload,
            added,
            terms,
            ..
        } = change;
        let drive = &mut self.drives[number];
        let mut edits = reload.edits.clone();
        edits.extend(added.iter().map(|setup| sized(&reload.plan, setup)));
        if !edits.is_empty() {
            let asked = drive.layer.layer().would_change(&edits);
            asked.map_err(|error| ShardError::Promises {
                drive: drive.name.clone(),
                error,
            })?;
        }
        let mut started = Vec::with_capacity(added.len());
        for setup in added {
            started.push(setup.start(&reload.plan)?);
        }
        self.prepared.push(Prepared {
            drive: number,
            reload,
            edits,
            started,
            terms,
        });
        Ok(())
    }

    /// Puts what was prepared for a drive in force, or throws it away: what was to go stays then.
    pub(super) fn decide(&mut self, number: usize, in_force: bool) {
        let at = self.prepared.iter().position(|p| p.drive == number);
        let prepared = at.map(|at| self.prepared.swap_remove(at));
        let drive = &mut self.drives[number];
        let Some(mut prepared) = prepared.filter(|_| in_force) else {
            for volume in drive.volumes.iter_mut().flatten() {
                volume.leaving = false;
            }
            return;
        };
        if !prepared.edits.is_empty() {
            let changed = drive.layer.change(self.now, &prepared.edits);
            // It has said that it would, and nothing that it depends on can have changed since.
            debug_assert!(changed.is_ok(), "{changed:?}");
            drive.touched = true;
        }
        drive.remove_leaving();
        drive.plan = prepared.reload.plan;
        for volume in drive.volumes.iter_mut().flatten() {
            if let Some(terms) = prepared.terms.remove(&volume.name) {
                volume.terms = terms;
            }
        }
        for started in prepared.started {
            drive.add(started);
        }
        drive.put_terms_in_force(self.now);
    }
}
