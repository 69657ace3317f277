//! A changed configuration: volumes and contracts are added, changed and removed while clients are
//! served.
//!
//! The server has checked everything that depends on the configuration alone. A shard then proceeds
//! in these steps:
//!
//! 1. If a volume to be removed has clients, the change is refused, unless the configuration
//!    permits their disconnection.
//! 2. A volume to be removed takes no further requests. Its clients get the answers to requests in
//!    progress and are disconnected, at the deadline in any case. Then its written data is made
//!    durable.
//! 3. The change is prepared ([`PreparedChange`]). The shard takes over the storage of new volumes,
//!    and the core confirms that it would accept the edits.
//! 4. When all drives are prepared, each of them applies its change in one call into the core. If
//!    one drive refuses, none is changed, and the volumes that were to be removed stay.
//!
//! All other connections continue without interruption.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use weir_config::DriveReload;
use weir_core::{Edit, Instant, Span};

use super::client::ClientState;
use super::drive::ShardDrive;
use super::front::Attached;
use super::volume::{ShardVolume, StartedVolume};
use super::{Shard, ShardError, VolumeSetup, VolumeTerms, sized};
use crate::backend::Grow;

/// The change of one drive.
#[derive(Debug)]
pub(crate) struct DriveChange {
    /// The drive's number within the shard.
    pub(crate) drive: usize,
    pub(crate) reload: DriveReload,
    pub(crate) added: Vec<VolumeSetup>,
    /// The new terms of each volume.
    pub(crate) terms: BTreeMap<String, VolumeTerms>,
    /// The configured sizes of the volumes that stay.
    pub(crate) sizes: BTreeMap<String, Option<u64>>,
    /// True if volumes can be removed although they have clients.
    pub(crate) in_use: bool,
    /// The time that clients of removed volumes have for their requests in progress.
    pub(crate) patience: Duration,
}

/// A change that waits until clients of removed volumes are disconnected.
#[derive(Debug)]
pub(super) struct PendingChange {
    change: DriveChange,
    result: Sender<Result<GrownSizes, ShardError>>,
    pub(super) deadline: Instant,
}

/// A change that can be applied immediately.
#[derive(Debug)]
pub(super) struct PreparedChange {
    drive: usize,
    reload: DriveReload,
    edits: Vec<Edit>,
    started: Vec<StartedVolume>,
    terms: BTreeMap<String, VolumeTerms>,
    grown: GrownSizes,
}

/// Volumes that grow, with their new size in bytes.
pub(crate) type GrownSizes = BTreeMap<String, u64>;

/// Storage that can be enlarged, by the name of the volume.
pub(crate) type GrowableStorage = BTreeMap<String, Arc<dyn Grow>>;

/// The number of clients that do not learn that their volume has grown, by its name.
pub(crate) type UnnotifiedClients = BTreeMap<String, u32>;

impl Shard {
    /// Returns the storage of these volumes, as far as it can be enlarged.
    pub(super) fn growable(&self, names: &[String]) -> GrowableStorage {
        let volumes = self.drives.iter().flat_map(|d| d.volumes.iter().flatten());
        let volumes = volumes.filter(|v| !v.leaving && names.contains(&v.name));
        volumes
            .filter_map(|v| Some((v.name.clone(), v.backend.growable()?)))
            .collect()
    }

    /// Begins a change: refuses it, or lets the clients of removed volumes leave.
    pub(super) fn begin_change(
        &mut self,
        change: DriveChange,
        result: Sender<Result<GrownSizes, ShardError>>,
    ) {
        let drive = &mut self.drives[change.drive];
        let goes = |name: &String| change.reload.removed.contains(name);
        let volumes = drive.volumes.iter().flatten();
        let in_use = volumes.filter(|v| !change.in_use && v.in_use() > 0 && goes(&v.name));
        let in_use: Vec<_> = in_use.map(|v| (v.name.clone(), v.in_use())).collect();
        if !in_use.is_empty() {
            // The send cannot fail, because the sender of the mail waits for it.
            let _ = result.send(Err(ShardError::InUse { volumes: in_use }));
            return;
        }
        for volume in drive.volumes.iter_mut().flatten() {
            // From here on, `admit` refuses new clients of the volume.
            volume.leaving = change.reload.removed.contains(&volume.name);
        }
        for slot in self.clients.slots() {
            let client = &mut self.clients[slot].client;
            let drive = &self.drives[client.drive];
            let volume = drive.volumes[client.space as usize].as_ref();
            if client.drive == change.drive
                && client.state == ClientState::Open
                && volume.is_some_and(|v| v.leaving)
            {
                client.state = ClientState::Leaving;
                self.mark_ready(slot);
            }
        }
        let patience = Span::from_nanos(change.patience.as_nanos() as u64);
        self.changes.push(PendingChange {
            change,
            result,
            deadline: self.now + patience,
        });
    }

    /// Prepares changes that have nothing to wait for any more.
    pub(super) fn poll_changes(&mut self) {
        for pending in std::mem::take(&mut self.changes) {
            if let Some(pending) = self.try_change(pending) {
                self.changes.push(pending);
            }
        }
    }

    /// Prepares a change if its clients have left. Otherwise returns the change, which has to wait.
    fn try_change(&mut self, mut pending: PendingChange) -> Option<PendingChange> {
        let number = pending.change.drive;
        if pending.deadline <= self.now {
            // The connections are closed from here on. What is left of them ends when the drive has
            // completed their pieces, for which there is no deadline.
            pending.deadline = Instant::MAX;
            for slot in self.clients.slots() {
                let client = &self.clients[slot].client;
                let drive = &self.drives[client.drive];
                let volume = drive.volumes[client.space as usize].as_ref();
                if client.drive == number && volume.is_some_and(|v| v.leaving) {
                    self.disconnect(slot, Some("its volume was removed"));
                }
            }
            self.serve_clients();
        }
        let drive = &mut self.drives[number];
        let leaving = drive.volumes.iter().flatten().filter(|v| v.leaving);
        if leaving.map(|v| v.connections).sum::<u32>() > 0
            || !drive.sync(&mut self.ring, self.now, |v| v.leaving)
        {
            return Some(pending);
        }
        let PendingChange { change, result, .. } = pending;
        let outcome = self.prepare(change);
        if outcome.is_err() {
            // The volumes that were to be removed accept clients again.
            self.apply_or_discard(number, false);
        }
        // The send cannot fail, because the sender of the mail waits for it.
        let _ = result.send(outcome);
        None
    }

    /// Checks a change and starts the storage of its new volumes, without applying it.
    fn prepare(&mut self, change: DriveChange) -> Result<GrownSizes, ShardError> {
        let DriveChange {
            drive: number,
            reload,
            added,
            terms,
            sizes,
            ..
        } = change;
        let drive = &mut self.drives[number];
        let grown = grown_volumes(drive, &sizes)?;
        let mut edits = reload.edits.clone();
        let sizes = added.iter().map(|s| (s.name.as_str(), s.storage.size()));
        let sizes = sizes.chain(grown.iter().map(|(name, size)| (name.as_str(), *size)));
        edits.extend(sizes.map(|(name, size)| sized(&reload.plan, name, size)));
        if !edits.is_empty() {
            // Nothing is changed yet, because another drive may still refuse.
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
        self.prepared.push(PreparedChange {
            drive: number,
            reload,
            edits,
            started,
            terms,
            grown: grown.clone(),
        });
        Ok(grown)
    }

    /// Applies the change that was prepared for a drive, or discards it. If it is discarded, the
    /// volumes that were to be removed stay.
    pub(super) fn apply_or_discard(&mut self, number: usize, in_force: bool) -> UnnotifiedClients {
        let at = self.prepared.iter().position(|p| p.drive == number);
        let prepared = at.map(|at| self.prepared.swap_remove(at));
        let drive = &mut self.drives[number];
        let Some(mut prepared) = prepared.filter(|_| in_force) else {
            for volume in drive.volumes.iter_mut().flatten() {
                volume.leaving = false;
            }
            return UnnotifiedClients::new();
        };
        if !prepared.edits.is_empty() {
            let changed = drive.layer.change(self.now, &prepared.edits);
            // `prepare` has asked the core, and nothing on which its answer depends can have
            // changed since.
            debug_assert!(changed.is_ok(), "{changed:?}");
            drive.touched = true;
        }
        // After the core's change, which has removed the spaces and groups of these volumes.
        drive.remove_leaving();
        drive.set_plan(prepared.reload.plan);
        let mut alone = Vec::new();
        for volume in drive.volumes.iter_mut().flatten() {
            if let Some(terms) = prepared.terms.remove(&volume.name) {
                // A volume that is no longer shared gets its whole min back.
                if volume.terms.shared && !terms.shared {
                    alone.push(volume.group);
                }
                volume.terms = terms;
            }
        }
        for (name, size) in &prepared.grown {
            drive.resize(drive.plan.volumes[name].space.0, *size);
        }
        for started in prepared.started {
            drive.add(started);
        }
        let of_parts = |v: &ShardVolume| v.terms.shared || alone.contains(&v.group);
        let spaces = drive.spaces(of_parts);
        drive.apply_parts(self.now, self.now, &spaces);
        drive.apply_terms(self.now);
        self.notify_sizes(number, &prepared.grown)
    }

    /// Notifies the clients of a drive of the sizes of their volumes. Returns the number of clients
    /// of grown volumes that cannot be notified.
    fn notify_sizes(&mut self, number: usize, grown: &GrownSizes) -> UnnotifiedClients {
        let mut untold = UnnotifiedClients::new();
        for slot in self.clients.slots() {
            let Attached { client, front } = &mut self.clients[slot];
            let drive = &self.drives[client.drive];
            if client.drive == number
                && let Some(volume) = &drive.volumes[client.space as usize]
            {
                let told = front.resized(volume.size, self.now);
                if !told && grown.contains_key(&volume.name) {
                    *untold.entry(volume.name.clone()).or_default() += 1;
                }
            }
        }
        untold
    }
}

/// Returns those of the remaining volumes that grow, with their new size.
fn grown_volumes(
    drive: &ShardDrive,
    sizes: &BTreeMap<String, Option<u64>>,
) -> Result<GrownSizes, ShardError> {
    let mut grown = GrownSizes::new();
    for volume in drive.volumes.iter().flatten().filter(|v| !v.leaving) {
        let Some(&wanted) = sizes.get(&volume.name) else {
            continue;
        };
        let now = volume.backend.size(wanted);
        let now = now.map_err(|error| ShardError::Volume {
            volume: volume.name.clone(),
            error,
        })?;
        let was = volume.size;
        if now < was {
            let volume = volume.name.clone();
            return Err(ShardError::Shrunk { volume, was, now });
        }
        if now > was {
            grown.insert(volume.name.clone(), now);
        }
    }
    Ok(grown)
}
