//! Audits fairness: no entity gets ahead of a sibling that always waits by more than a stated lag,
//! in bytes by weight.
//!
//! The ideal system is a fluid that is shared by weight among the entities that have something to
//! send. In it, an entity never gains service divided by weight on a sibling that waits throughout,
//! however much the entity itself demands. A real elevator serves whole turns, so that an entity
//! may be ahead by a bounded amount. The auditor checks every pair of siblings, both of groups and
//! of streams in a group, over every window in which the second one waits all the time.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Violations;
use crate::audit::model::{LayerModel, StreamState};
use weir_core::{Event, GroupId, ROOT, StreamId, elevator};

/// The number of fraction bits of normalized service.
const SHIFT: u32 = 20;
/// The weight of every stream: all streams of a group have the same one.
const STREAM_WEIGHT: u64 = 100;

/// A group or a stream, with the service that it got.
#[derive(Clone, Debug)]
struct FairEntity {
    parent: GroupId,
    weight: u64,
    /// The min of a group, in bytes per second. A group with a promise may get ahead by that much.
    min: u64,
    /// The number of bytes served.
    served: u64,
    /// The number of bytes served, divided by weight, in fixed point.
    normal: i128,
    /// True if the entity has had something to send without a pause.
    waits: bool,
}

/// The start of the window in which an entity has gained most on a sibling.
#[derive(Clone, Copy, Debug, Default)]
struct GainWindow {
    ahead: i128,
    served: u64,
    at: u64,
}

/// The auditor of fairness, see the module's documentation.
#[derive(Debug)]
pub struct Fair {
    /// The amount by which an entity may get ahead: this many bytes of each of the pair, by weight.
    lag: u64,
    /// The additional amount that is allowed, in bytes of the lightest sibling. An entity is owed
    /// this much after it was briefly without a request.
    owed: u64,
    entities: Vec<Option<FairEntity>>,
    lows: Vec<GainWindow>,
    groups: usize,
    /// True if streams are compared. If streams may be merged, the merged ones share one queue.
    /// Merged streams are of one group, so groups can still be compared.
    streams: bool,
    worst: u64,
    /// The number of turns that are still to be ignored.
    skip: u64,
}

impl Fair {
    /// Checks an elevator that promises a lag of `lag` bytes after its first `skip` turns, and of
    /// `owed` bytes of the lightest sibling.
    pub fn new(model: &LayerModel, lag: u64, owed: u64, skip: u64) -> Self {
        let groups = model.config.sizes.groups as usize;
        let entities = groups + model.config.sizes.streams as usize;
        let mut fair = Self {
            lag,
            owed,
            entities: vec![None; entities],
            lows: vec![GainWindow::default(); entities * entities],
            groups,
            streams: !matches!(&model.config.elevator, elevator::Config::Bfq(bfq) if bfq.merge),
            worst: 0,
            skip,
        };
        fair.set_groups(model);
        fair
    }

    /// Returns the largest gain of one entity on another, in thousandths of the allowed amount.
    pub fn worst(&self) -> u64 {
        self.worst
    }

    fn set_groups(&mut self, model: &LayerModel) {
        for (id, group) in model.tree.iter() {
            let entity = FairEntity {
                parent: group.parent,
                weight: group.contract.share.into(),
                min: group.contract.min,
                served: 0,
                normal: 0,
                waits: false,
            };
            // The root is not in the iteration, because it has no siblings.
            let place = &mut self.entities[id.0 as usize];
            // A new weight applies to subsequent service. The counts of all groups restart, because
            // a lag across the change has no meaning.
            *place = Some(entity);
        }
        for entity in self.entities.iter_mut().flatten() {
            entity.waits = false;
        }
    }

    fn add_stream(&mut self, id: StreamId, group: GroupId) {
        let entity = FairEntity {
            parent: group,
            weight: STREAM_WEIGHT,
            min: 0,
            served: 0,
            normal: 0,
            waits: false,
        };
        self.entities[self.groups + id.slot() as usize] = Some(entity);
    }

    /// Counts bytes that are dispatched for a stream, for the stream and for every group above it.
    fn count_service(
        &mut self,
        model: &LayerModel,
        id: StreamId,
        bytes: u64,
        found: &mut Violations,
    ) {
        let mut at = self.groups + id.slot() as usize;
        while let Some(entity) = &mut self.entities[at] {
            entity.served += bytes;
            entity.normal += i128::from((bytes << SHIFT) / entity.weight);
            let parent = entity.parent;
            self.compare(model, at, found);
            // Groups directly below the root are the last ones that have siblings.
            if parent == ROOT {
                return;
            }
            at = parent.0 as usize;
        }
    }

    /// Compares an entity that was served with its siblings.
    fn compare(&mut self, model: &LayerModel, i: usize, found: &mut Violations) {
        let count = self.entities.len();
        let Some(own) = self.entities[i].clone() else {
            return;
        };
        let siblings = self.entities.iter().flatten();
        let weights = siblings
            .filter(|e| e.parent == own.parent)
            .map(|e| e.weight);
        let owed = (self.owed << SHIFT) / weights.min().unwrap_or(1);
        for (j, other) in self.entities.iter().enumerate() {
            let Some(other) = other else { continue };
            // Indices below `groups` are groups and the others are streams, which are never
            // compared with each other.
            let siblings =
                j != i && other.parent == own.parent && (i < self.groups) == (j < self.groups);
            // The elevator counts reserved service against the share of an entity, and the others
            // catch up with it. So nothing is expected for a waiting sibling with a min.
            if !siblings || !other.waits || other.min > 0 || (j >= self.groups && !self.streams) {
                continue;
            }
            let low = self.lows[i * count + j];
            let gained = own.normal - other.normal - low.ahead;
            let allowed: i128 =
                ((self.lag << SHIFT) / own.weight + (self.lag << SHIFT) / other.weight + owed)
                    .into();
            // A negative gain is a lead of the other entity, which its own comparison counts.
            self.worst = self.worst.max((gained * 1000 / allowed).max(0) as u64);
            // A min may be served with a headroom of a twelfth, and is made up for after an eighth
            // of a second behind.
            let (min, passed) = (
                u128::from(own.min),
                u128::from(model.now.as_nanos() - low.at),
            );
            let promised =
                (min + min / 12) * passed / 1_000_000_000 + min / 8 + u128::from(self.lag);
            if gained > allowed && u128::from(own.served - low.served) > promised {
                found.add(format_args!(
                    "{} has got {} bytes in {passed} ns, {} thousandths of the lag more than {}, which waits",
                    name(i, self.groups),
                    own.served - low.served,
                    gained * 1000 / allowed,
                    name(j, self.groups)
                ));
            }
        }
        // The other entities now have less service relative to this one, so their windows may start
        // here.
        for j in 0..count {
            self.update_window(j, i, model.now.as_nanos());
        }
    }

    /// Starts the window of `i` against `j` now, if that gives a larger gain.
    fn update_window(&mut self, i: usize, j: usize, now: u64) {
        let (Some(a), Some(b)) = (&self.entities[i], &self.entities[j]) else {
            return;
        };
        let ahead = a.normal - b.normal;
        let low = &mut self.lows[i * self.entities.len() + j];
        // The window with the lowest lead at its beginning shows the largest gain at its end.
        if ahead < low.ahead {
            *low = GainWindow {
                ahead,
                served: a.served,
                at: now,
            };
        }
    }

    /// Returns for each entity whether it has something to send.
    fn waiting(&self, model: &LayerModel) -> Vec<bool> {
        let mut waits = vec![false; self.entities.len()];
        for stream in model
            .streams()
            .filter(|s| s.sendable > 0 && s.state == StreamState::Open)
        {
            waits[self.groups + stream.id.slot() as usize] = true;
            for group in model.tree.path(stream.group) {
                waits[group.0 as usize] = true;
            }
        }
        waits
    }

    /// Marks entities that sent everything in this very poll as no longer waiting.
    fn end_finished_waits(&mut self, model: &LayerModel) {
        let waiting = self.waiting(model);
        for (entity, waits) in self.entities.iter_mut().zip(waiting) {
            if let Some(entity) = entity {
                // Waiting must be uninterrupted, so a pause can end a window here but not begin
                // one.
                entity.waits &= waits;
            }
        }
    }

    /// Updates at the end of a poll which entities wait, and starts the windows of those that began
    /// to wait.
    fn polled(&mut self, model: &LayerModel) {
        let count = self.entities.len();
        let waits = self.waiting(model);
        for (j, &waits) in waits.iter().enumerate() {
            let Some(entity) = &mut self.entities[j] else {
                continue;
            };
            let began = waits && !entity.waits;
            entity.waits = waits;
            let normal = entity.normal;
            // Service before the wait does not count: the entity itself had nothing to send then.
            if began {
                for i in 0..count {
                    if let Some(other) = &self.entities[i] {
                        let (ahead, served) = (other.normal - normal, other.served);
                        self.lows[i * count + j] = GainWindow {
                            ahead,
                            served,
                            at: model.now.as_nanos(),
                        };
                    }
                }
            }
        }
    }
}

impl Auditor for Fair {
    const NAME: &'static str = "fair";

    fn fact(&mut self, model: &LayerModel, fact: &Fact<'_>, found: &mut Violations) {
        match *fact {
            Fact::Changed(_, Ok(_)) => self.set_groups(model),
            Fact::Opened(id, spec) => self.add_stream(id, spec.group),
            Fact::Dispatched(Some(slot), piece, false) => {
                self.end_finished_waits(model);
                let bytes = model
                    .request(slot)
                    .request
                    .charge()
                    .min(piece.length.into());
                self.count_service(model, piece.stream, bytes, found);
            }
            Fact::Event(Event::Selected { .. }) => self.skip = self.skip.saturating_sub(1),
            // The first turns of an elevator may be larger than its configuration permits.
            Fact::Polled(..) if self.skip == 0 => self.polled(model),
            _ => {}
        }
    }
}

fn name(at: usize, groups: usize) -> String {
    if at < groups {
        format!("group {at}")
    } else {
        format!("stream {}", at - groups)
    }
}
