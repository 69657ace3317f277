//! Volumes whose min several servers keep: their parts come in force and are over.
//!
//! The whole was admitted on the drive, so any part has room. The core and the judge of promises know the part alone. It is over at its time
//! whatever the thread does that tells of parts: the shard looks before it does anything else in a turn.

use weir_config::Plan;
use weir_core::{Contract, Edit, GroupId, Instant};
use weir_measure::Window;

use super::drive::Drive;
use super::shared::{Held, Shared, Used};
use super::volume::Volume;

impl Drive {
    /// From now on a volume's part is this; what it used, or nothing if it is not this drive's.
    pub(super) fn hold(
        &mut self,
        now: Instant,
        (name, held, until): (&str, &Held, Instant),
    ) -> Option<Used> {
        let space = self.plan.volumes.get(name)?.space.0 as usize;
        self.pass(now);
        let volume = self.volumes[space].as_mut()?;
        let (before, was) = (volume.shared, volume.contract());
        volume.shared = if until > now {
            Shared::new(held, until)
        } else {
            Shared::nothing(held.lapses)
        };
        if volume.contract() != was && !self.put_parts_in_force(now, now, |v| v.name == name) {
            self.volumes[space].as_mut()?.shared = before;
        }
        self.find_lapse();
        let tally = &mut self.volumes[space].as_mut()?.tally;
        tally.promise.pass(now.as_nanos(), Window::default(), 0);
        Some(Used {
            bytes: tally.bytes.iter().sum(),
            requests: tally.requests.iter().sum(),
            waited_ns: tally.promise.waited_ns(),
        })
    }

    /// Ends the parts whose time is over.
    pub(super) fn lapse(&mut self, now: Instant) {
        if self.lapses_at > now {
            return;
        }
        // What was promised until then is judged until then.
        let at = self.lapses_at;
        self.pass(at);
        let mut lapsed = Vec::new();
        for volume in self.volumes.iter_mut().flatten() {
            if volume.shared.until <= now {
                volume.shared = Shared::nothing(volume.shared.lapses);
                lapsed.push(volume.group);
            }
        }
        self.put_parts_in_force(now, at, |v| lapsed.contains(&v.group));
        self.find_lapse();
    }

    fn find_lapse(&mut self) {
        let volumes = self.volumes.iter().flatten();
        let next = volumes.map(|volume| volume.shared.until).min();
        self.lapses_at = next.unwrap_or(Instant::MAX);
    }

    /// Tells the core, and from `since` on those that judge, what is promised here to the volumes that `which` picks; whether the core takes
    /// it.
    pub(super) fn put_parts_in_force(
        &mut self,
        now: Instant,
        since: Instant,
        which: impl Fn(&Volume) -> bool,
    ) -> bool {
        let plan = &self.plan;
        let volumes = self.volumes.iter().flatten();
        let edits = volumes.filter(|volume| which(volume)).filter_map(|volume| {
            let whole = told(plan, volume.group)?;
            Some(Edit::SetContract {
                id: volume.group,
                contract: volume.here(&whole),
            })
        });
        let edits: Vec<Edit> = edits.collect();
        if edits.is_empty() {
            return true;
        }
        if let Err(refused) = self.layer.change(now, &edits) {
            // The whole was admitted.
            let drive = &self.name;
            tracing::error!(
                drive,
                ?refused,
                "the server could not apply its part of a shared min, and keeps the previous part"
            );
            return false;
        }
        self.touched = true;
        self.put_promises_in_force(since);
        true
    }
}

/// The contract that the core is told of a group on a fresh start.
fn told(plan: &Plan, group: GroupId) -> Option<Contract> {
    plan.edits.iter().find_map(|edit| match edit {
        Edit::AddGroup { id, contract, .. } if *id == group => Some(*contract),
        _ => None,
    })
}
