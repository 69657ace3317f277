//! Volumes with a shared minimum: the parts that this server holds are applied and lapse.
//!
//! The whole minimum was admitted on the drive, so that any part of it has room. The core and the
//! judge of promises know only the part. A part lapses on time even if the thread that reports
//! parts hangs, because the shard checks at the beginning of each turn.

use weir_core::{Edit, Instant};
use weir_measure::WindowTotals;
use weir_measure::promise::PromisedRate;

use super::drive::ShardDrive;
use super::shared::{HeldPart, PartUsage, SharedPart};

impl ShardDrive {
    /// Applies the part of a volume's minimum. Returns how much the volume has used, or `None` if
    /// it is not on this drive.
    pub(super) fn set_held_part(
        &mut self,
        now: Instant,
        (name, held, until): (&str, &HeldPart, Instant),
    ) -> Option<PartUsage> {
        let space = self.plan.volumes.get(name)?.space.0 as usize;
        self.pass_seconds(now);
        let volume = self.volumes[space].as_mut()?;
        let (before, was) = (volume.shared, volume.contract());
        volume.shared = if until > now {
            SharedPart::new(held, until)
        } else {
            SharedPart::nothing(held.lapses)
        };
        // If the part was renewed, this time is earlier than the end of the part. In that case
        // `end_lapsed_parts` finds nothing to do and computes the next time.
        self.lapses_at = self.lapses_at.min(volume.shared.until);
        // If the core refuses the part, the previous one stays in force.
        if volume.contract() != was && !self.apply_parts(now, now, &[space as u32]) {
            self.volumes[space].as_mut()?.shared = before;
        }
        let tally = &mut self.volumes[space].as_mut()?.tally;
        tally
            .promise
            .pass(now.as_nanos(), WindowTotals::default(), 0);
        Some(PartUsage {
            bytes: tally.bytes.iter().sum(),
            requests: tally.requests.iter().sum(),
            waited_ns: tally.promise.waited_ns(),
        })
    }

    /// Ends the parts that have lapsed.
    pub(super) fn end_lapsed_parts(&mut self, now: Instant) {
        if self.lapses_at > now {
            return;
        }
        let lapsed = self.spaces(|volume| volume.shared.until <= now);
        let volumes = lapsed.iter().map(|space| &self.volumes[*space as usize]);
        // The seconds until the end of the parts are judged by the promises that were in force in
        // them.
        if let Some(at) = volumes.flatten().map(|volume| volume.shared.until).min() {
            self.pass_seconds(at);
            for &space in &lapsed {
                if let Some(volume) = &mut self.volumes[space as usize] {
                    volume.shared = SharedPart::nothing(volume.shared.lapses);
                }
            }
            self.apply_parts(now, at, &lapsed);
        }
        let volumes = self.volumes.iter().flatten();
        let next = volumes.map(|volume| volume.shared.until).min();
        self.lapses_at = next.unwrap_or(Instant::MAX);
    }

    /// Applies the parts of the volumes in these spaces, in the core now and for the judgement of
    /// promises from `since` on. Returns false if the core refuses them.
    pub(super) fn apply_parts(&mut self, now: Instant, since: Instant, spaces: &[u32]) -> bool {
        let volumes = spaces
            .iter()
            .filter_map(|s| self.volumes[*s as usize].as_ref());
        let edits = volumes.filter_map(|volume| {
            let contract = volume.here(self.whole.get(&volume.group)?);
            let id = volume.group;
            Some(Edit::SetContract { id, contract })
        });
        let edits: Vec<Edit> = edits.collect();
        if edits.is_empty() {
            return true;
        }
        if let Err(refused) = self.layer.change(now, &edits) {
            // The whole minimum was admitted, so the core should accept any part of it.
            let drive = &self.name;
            tracing::error!(
                drive,
                ?refused,
                "the server could not apply its part of a shared min, and keeps the previous part"
            );
            return false;
        }
        self.touched = true;
        for &space in spaces {
            if let Some(volume) = &mut self.volumes[space as usize] {
                let rate = PromisedRate::of(&volume.contract());
                let promise = &mut volume.tally.promise;
                promise.pass(since.as_nanos(), WindowTotals::default(), 0);
                promise.change(rate);
                self.new_mins.push(space);
            }
        }
        true
    }
}
