//! Fairness: nobody gets ahead of a sibling that always waits by more than a stated lag, in bytes by weight.
//!
//! In the ideal system (a fluid shared by weight among those that have something to send) an entity never gains, in service
//! divided by weight, on a sibling that waits throughout, whatever its own demand is. A real elevator serves whole turns, so an
//! entity may be ahead by a bounded amount. This is checked for every pair of siblings, of groups and of streams in a group, over
//! every window in which the second one waits all the time.

use crate::audit::auditor::{Auditor, Fact};
use crate::audit::found::Found;
use crate::audit::model::{Model, State};
use weir_core::{Event, GroupId, ROOT, StreamId, elevator};

/// Fraction bits of normalized service.
const SHIFT: u32 = 20;
/// All streams of a group have the same weight.
const STREAM_WEIGHT: u64 = 100;

/// A group or a stream.
#[derive(Clone, Debug)]
struct Entity {
    parent: GroupId,
    weight: u64,
    /// Its min in bytes per second: a group with a promise may get ahead by that much.
    min: u64,
    /// Bytes served.
    served: u64,
    /// Bytes served, divided by weight.
    normal: i128,
    /// It has had something to send without a pause.
    waits: bool,
}

/// Start of the window in which an entity has gained most on a sibling.
#[derive(Clone, Copy, Debug, Default)]
struct Low {
    ahead: i128,
    served: u64,
    at: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Fair {
    /// How far ahead an entity may get: this many bytes of each of the pair, by weight.
    lag: u64,
    /// And this many more of the lightest sibling: what one is owed that has been without a request for a moment.
    owed: u64,
    entities: Vec<Option<Entity>>,
    lows: Vec<Low>,
    groups: usize,
    /// Whether streams are compared. Where streams may be merged, those that are share one queue; but they are of one group, so
    /// groups can still be compared.
    streams: bool,
    worst: u64,
    /// Number of turns that are still to be ignored.
    skip: u64,
}

impl Fair {
    /// Checks an elevator that promises a lag of `lag` bytes after its first `skip` turns, and of `owed` bytes of the lightest sibling.
    pub fn new(model: &Model, lag: u64, owed: u64, skip: u64) -> Self {
        let groups = model.config.sizes.groups as usize;
        let entities = groups + model.config.sizes.streams as usize;
        let mut fair = Self {
            lag,
            owed,
            entities: vec![None; entities],
            lows: vec![Low::default(); entities * entities],
            groups,
            streams: !matches!(&model.config.elevator, elevator::Config::Bfq(bfq) if bfq.merge),
            worst: 0,
            skip,
        };
        fair.set_groups(model);
        fair
    }

    /// The most by which one got ahead of another, in thousandths of what is allowed.
    pub fn worst(&self) -> u64 {
        self.worst
    }

    fn set_groups(&mut self, model: &Model) {
        for (id, group) in model.tree.iter() {
            let entity = Entity {
                parent: group.parent,
                weight: group.contract.share.into(),
                min: group.contract.min,
                served: 0,
                normal: 0,
                waits: false,
            };
            let place = &mut self.entities[id.0 as usize];
            // A new weight applies to what follows; the past is forgotten for all, as a lag across the change is meaningless.
            *place = Some(entity);
        }
        for entity in self.entities.iter_mut().flatten() {
            entity.waits = false;
        }
    }

    fn opened(&mut self, id: StreamId, group: GroupId) {
        let entity = Entity {
            parent: group,
            weight: STREAM_WEIGHT,
            min: 0,
            served: 0,
            normal: 0,
            waits: false,
        };
        self.entities[self.groups + id.slot() as usize] = Some(entity);
    }

    /// Bytes are dispatched for a stream: it and every group above it are served.
    fn served(&mut self, model: &Model, id: StreamId, bytes: u64, found: &mut Found) {
        let mut at = self.groups + id.slot() as usize;
        while let Some(entity) = &mut self.entities[at] {
            entity.served += bytes;
            entity.normal += i128::from((bytes << SHIFT) / entity.weight);
            let parent = entity.parent;
            self.compare(model, at, found);
            if parent == ROOT {
                return;
            }
            at = parent.0 as usize;
        }
    }

    /// Compares an entity that was served with its siblings.
    fn compare(&mut self, model: &Model, i: usize, found: &mut Found) {
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
            let siblings =
                j != i && other.parent == own.parent && (i < self.groups) == (j < self.groups);
            // Reserved service counts against the entity's share: the others catch up with it.
            if !siblings || !other.waits || other.min > 0 || (j >= self.groups && !self.streams) {
                continue;
            }
            let low = self.lows[i * count + j];
            let gained = own.normal - other.normal - low.ahead;
            let allowed: i128 =
                ((self.lag << SHIFT) / own.weight + (self.lag << SHIFT) / other.weight + owed)
                    .into();
            self.worst = self.worst.max((gained * 1000 / allowed).max(0) as u64);
            // A min may be kept with a sixteenth of headroom, and made up for after an eighth of a second behind.
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
        // For later comparisons the others now have less service relative to it.
        for j in 0..count {
            self.lower(j, i, model.now.as_nanos());
        }
    }

    /// The window of `i` against `j` starts now, if that gives a larger gain.
    fn lower(&mut self, i: usize, j: usize, now: u64) {
        let (Some(a), Some(b)) = (&self.entities[i], &self.entities[j]) else {
            return;
        };
        let ahead = a.normal - b.normal;
        let low = &mut self.lows[i * self.entities.len() + j];
        if ahead < low.ahead {
            *low = Low {
                ahead,
                served: a.served,
                at: now,
            };
        }
    }

    /// Whether each entity has something to send.
    fn waiting(&self, model: &Model) -> Vec<bool> {
        let mut waits = vec![false; self.entities.len()];
        for stream in model
            .streams()
            .filter(|s| s.sendable > 0 && s.state == State::Open)
        {
            waits[self.groups + stream.id.slot() as usize] = true;
            for group in model.tree.path(stream.group) {
                waits[group.0 as usize] = true;
            }
        }
        waits
    }

    /// An entity that sent all it had, in this very poll, no longer waits.
    fn forget(&mut self, model: &Model) {
        let waiting = self.waiting(model);
        for (entity, waits) in self.entities.iter_mut().zip(waiting) {
            if let Some(entity) = entity {
                entity.waits &= waits;
            }
        }
    }

    /// At the end of a poll: updates which entities wait, and which began to.
    fn polled(&mut self, model: &Model) {
        let count = self.entities.len();
        let waits = self.waiting(model);
        for (j, &waits) in waits.iter().enumerate() {
            let Some(entity) = &mut self.entities[j] else {
                continue;
            };
            let began = waits && !entity.waits;
            entity.waits = waits;
            let normal = entity.normal;
            if began {
                for i in 0..count {
                    if let Some(other) = &self.entities[i] {
                        let (ahead, served) = (other.normal - normal, other.served);
                        self.lows[i * count + j] = Low {
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

    fn fact(&mut self, model: &Model, fact: &Fact<'_>, found: &mut Found) {
        match *fact {
            Fact::Changed(_, Ok(_)) => self.set_groups(model),
            Fact::Opened(id, spec) => self.opened(id, spec.group),
            Fact::Dispatched(Some(slot), piece, false) => {
                self.forget(model);
                let bytes = model
                    .request(slot)
                    .request
                    .charge()
                    .min(piece.length.into());
                self.served(model, piece.stream, bytes, found);
            }
            Fact::Event(Event::Selected { .. }) => self.skip = self.skip.saturating_sub(1),
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
