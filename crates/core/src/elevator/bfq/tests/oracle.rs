//! The engine compared with the same rules on plain arrays, in which every search is a scan.

use super::super::entity::{BEST_EFFORT, EntityState, IDLE, delta};
use super::super::wf2q::Wf2q;
use crate::Instant;
use crate::random::Rng;
use std::vec::Vec;

const GROUPS: u32 = 7;
const QUEUES: u32 = 24;
const NONE: u32 = u32::MAX;
const MS: u64 = 1_000_000;

/// Two groups are below the root, and four below those. Queues belong to the root or to one of the
/// four.
const GROUP_PARENTS: [u32; GROUPS as usize] = [NONE, 0, 0, 1, 1, 2, 2];
const HOMES: [u32; 5] = [0, 3, 4, 5, 6];

#[derive(Clone, Copy)]
struct OracleEntity {
    parent: u32,
    class: u8,
    place: EntityState,
    weight: u64,
    new_weight: u64,
    start: u64,
    finish: u64,
    budget: u64,
    service: u64,
    /// The time of insertion. Of equal finish times, the entity that was inserted earlier is first.
    since: u64,
}

struct Oracle {
    e: Vec<OracleEntity>,
    v: Vec<[u64; 3]>,
    in_service: Vec<u32>,
    next: Vec<u32>,
    idle_class_at: Vec<u64>,
    clock: u64,
}

impl Oracle {
    fn at(&mut self, e: u32) -> &mut OracleEntity {
        &mut self.e[e as usize]
    }

    fn members(&self, node: u32, class: u8) -> impl Iterator<Item = (u32, &OracleEntity)> {
        (1..).zip(&self.e[1..]).filter(move |(_, e)| {
            e.parent == node && e.class == class && e.place != EntityState::Out
        })
    }

    fn wsum(&self, node: u32, class: u8) -> u64 {
        self.members(node, class).map(|m| m.1.weight).sum()
    }

    fn lookup_class(&mut self, node: u32, class: u8) -> Option<u32> {
        let v = self.v[node as usize][usize::from(class)];
        let active = |o: &Self| {
            let all = o.members(node, class);
            all.filter(|m| m.1.place == EntityState::Active)
                .map(|(i, e)| (e.finish, e.since, e.start, i))
                .collect::<Vec<_>>()
        };
        let active = active(self);
        let v = v.max(active.iter().map(|a| a.2).min()?);
        if self.in_service[node as usize] == NONE {
            self.v[node as usize][usize::from(class)] = v;
        }
        active.iter().filter(|a| a.2 <= v).min().map(|a| a.3)
    }

    fn lookup(&mut self, node: u32) -> Option<u32> {
        (0..3).find_map(|class| self.lookup_class(node, class))
    }

    fn refresh(&mut self, node: u32) -> bool {
        let found = self.lookup(node).unwrap_or(NONE);
        let old = core::mem::replace(&mut self.next[node as usize], found);
        if found == NONE || node == 0 {
            return node != 0 && old != NONE;
        }
        let budget = self.e[found as usize].budget;
        let changed = old == NONE || self.e[node as usize].budget != budget;
        self.at(node).budget = budget;
        changed
    }

    fn enqueue(&mut self, e: u32, back_shifted: bool) {
        self.clock += 1;
        let OracleEntity { parent, class, .. } = *self.at(e);
        let (v, since) = (self.v[parent as usize][usize::from(class)], self.clock);
        let e = self.at(e);
        e.weight = e.new_weight;
        e.finish = e.start + delta(e.budget, e.weight);
        if back_shifted && e.finish < v {
            e.start += v - e.finish;
            e.finish = v;
        }
        e.place = EntityState::Active;
        e.since = since;
    }

    fn enter(&mut self, now: u64, e: u32, waited: bool) {
        let OracleEntity { parent, class, .. } = *self.at(e);
        let waiting = self
            .members(parent, IDLE)
            .any(|m| m.1.place == EntityState::Active);
        if class == IDLE && !waiting {
            self.idle_class_at[parent as usize] = now;
        }
        let v = self.v[parent as usize][usize::from(class)];
        let e_ = self.at(e);
        let back = waited && v > e_.finish;
        let least = if back { e_.finish } else { v };
        e_.start = match e_.place {
            EntityState::Idle => least.max(e_.finish),
            _ => least,
        };
        self.enqueue(e, back);
    }

    fn reposition(&mut self, e: u32) {
        let parent = self.at(e).parent;
        if self.in_service[parent as usize] == e {
            let e = self.at(e);
            e.start += delta(e.service, e.weight);
            e.service = 0;
        }
        if e < GROUPS && self.next[e as usize] == NONE {
            self.at(e).place = EntityState::Service;
        } else {
            self.enqueue(e, false);
        }
    }

    fn reposition_path(&mut self, e: u32) {
        self.reposition(e);
        let parent = self.at(e).parent;
        if self.refresh(parent) && parent != 0 {
            self.reposition_path(parent);
        }
    }

    fn activate(&mut self, now: u64, e: u32, waited: bool) {
        if matches!(self.at(e).place, EntityState::Active | EntityState::Service) {
            self.reposition(e);
        } else {
            self.enter(now, e, waited);
        }
        let parent = self.at(e).parent;
        if self.refresh(parent) && parent != 0 {
            self.activate(now, parent, waited);
        }
    }

    fn leave(&mut self, e: u32) {
        let OracleEntity { parent, class, .. } = *self.at(e);
        let v = self.v[parent as usize][usize::from(class)];
        let entity = self.at(e);
        entity.finish = entity.start + delta(entity.service, entity.weight);
        entity.place = if entity.finish > v {
            EntityState::Idle
        } else {
            EntityState::Out
        };
        if e < GROUPS {
            self.at(e).service = 0;
        }
    }

    fn deactivate(&mut self, e: u32) {
        self.leave(e);
        let parent = self.at(e).parent;
        self.refresh(parent);
        if parent == 0 {
        } else if self.next[parent as usize] == NONE && self.in_service[parent as usize] == NONE {
            self.deactivate(parent);
        } else {
            self.reposition_path(parent);
        }
    }

    fn expire(&mut self, e: u32, gone: bool) {
        if gone {
            self.leave(e);
        } else {
            self.reposition(e);
        }
        let parent = self.at(e).parent;
        self.in_service[parent as usize] = NONE;
        self.refresh(parent);
        if parent != 0 {
            self.expire(parent, gone && self.next[parent as usize] == NONE);
        }
    }

    fn select(&mut self, now: u64, node: u32) -> Option<u32> {
        // The idle class is promoted after 200 ms, as in `IDLE_CLASS_TIMEOUT`.
        let overdue = now > self.idle_class_at[node as usize] + 200 * MS;
        let promoted = overdue.then(|| self.lookup_class(node, IDLE)).flatten();
        let found = promoted.or_else(|| self.lookup(node))?;
        if self.at(found).class == IDLE {
            self.idle_class_at[node as usize] = now;
        }
        self.in_service[node as usize] = found;
        let active = |o: &Self, g: u32| {
            let all = (0..3).flat_map(|class| o.members(g, class));
            all.filter(|m| m.1.place == EntityState::Active).count()
        };
        // A group with several active members stays in the tree.
        if found >= GROUPS || active(self, found) == 1 {
            self.at(found).place = EntityState::Service;
        }
        let chosen = if found >= GROUPS {
            found
        } else {
            self.select(now, found)?
        };
        self.refresh(node);
        Some(chosen)
    }

    fn served(&mut self, e: u32, sectors: u64) {
        let OracleEntity { parent, class, .. } = *self.at(e);
        self.at(e).service += sectors;
        let wsum = self.wsum(parent, class);
        let v = &mut self.v[parent as usize][usize::from(class)];
        *v += delta(sectors, wsum);
        let v = *v;
        let idle = self.members(parent, class);
        let first = idle
            .filter(|m| m.1.place == EntityState::Idle)
            .min_by_key(|m| (m.1.finish, m.1.since))
            .map(|m| m.0);
        if let Some(first) = first.filter(|&f| self.e[f as usize].finish <= v) {
            self.at(first).place = EntityState::Out;
        }
        if parent != 0 {
            self.served(parent, sectors);
        }
    }
}

/// The engine and the oracle, which execute the same operations.
struct EnginePair {
    engine: Wf2q,
    oracle: Oracle,
    now: u64,
    current: Option<u32>,
    random: Rng,
}

impl EnginePair {
    fn new(seed: u64) -> Self {
        let new = OracleEntity {
            parent: NONE,
            class: BEST_EFFORT,
            place: EntityState::Out,
            weight: 1,
            new_weight: 1,
            start: 0,
            finish: 0,
            budget: 0,
            service: 0,
            since: 0,
        };
        let mut pair = Self {
            engine: Wf2q::new(GROUPS, QUEUES),
            oracle: Oracle {
                e: std::vec![new; (GROUPS + QUEUES) as usize],
                v: std::vec![[0; 3]; GROUPS as usize],
                in_service: std::vec![NONE; GROUPS as usize],
                next: std::vec![NONE; GROUPS as usize],
                idle_class_at: std::vec![0; GROUPS as usize],
                clock: 0,
            },
            now: 0,
            current: None,
            random: Rng::new(seed),
        };
        for e in 1..GROUPS + QUEUES {
            let (parent, class) = if e < GROUPS {
                (GROUP_PARENTS[e as usize], BEST_EFFORT)
            } else {
                let classes = [0, 1, 1, 1, 1, 2];
                (HOMES[pair.draw(5) as usize], classes[pair.draw(6) as usize])
            };
            let weight = 1 + pair.draw(1000);
            pair.engine.add(e, parent, class, weight as u32);
            let entity = pair.oracle.at(e);
            (entity.parent, entity.class) = (parent, class);
            (entity.weight, entity.new_weight) = (weight, weight);
        }
        pair
    }

    fn draw(&mut self, n: u64) -> u64 {
        self.random.range(0, n - 1)
    }

    fn set_budget(&mut self, e: u32) {
        let budget = [1, 8, 1 + self.draw(500), 4_000][self.draw(4) as usize];
        self.engine.entity_mut(e).budget = budget;
        self.oracle.at(e).budget = budget;
    }

    fn reset_service(&mut self, e: u32) {
        self.engine.entity_mut(e).service = 0;
        self.oracle.at(e).service = 0;
    }

    /// Executes one random operation on both. Returns false if they differ.
    fn step(&mut self) -> bool {
        let now = Instant::from_nanos(self.now);
        let e = GROUPS + self.draw(u64::from(QUEUES)) as u32;
        let is_current = self.current == Some(e);
        match (self.oracle.at(e).place, self.draw(8)) {
            (_, 0) => {
                let (e, weight) = (1 + self.draw(30) as u32, 1 + self.draw(1000));
                self.engine.set_weight(e, weight as u32);
                self.oracle.at(e).new_weight = weight;
            }
            (_, 1..=3) => match self.current {
                None => {
                    self.current = self.engine.select(now);
                    if self.current != self.oracle.select(self.now, 0) {
                        return false;
                    }
                }
                Some(current) => {
                    let sectors = 1 + self.draw(64);
                    self.engine.served(current, sectors);
                    self.oracle.served(current, sectors);
                }
            },
            (_, 4) if self.current.is_some() => self.end_turn(),
            (EntityState::Idle | EntityState::Out, _) => {
                self.set_budget(e);
                self.reset_service(e);
                let waited = self.draw(2) == 0;
                self.engine.activate(now, e, waited);
                self.oracle.activate(self.now, e, waited);
            }
            (EntityState::Active, 5) if !is_current => {
                self.engine.deactivate(e);
                self.oracle.deactivate(e);
            }
            (EntityState::Active, _) if !is_current => {
                self.set_budget(e);
                self.engine.rebudgeted(e);
                self.oracle.reposition_path(e);
            }
            _ => self.now += self.draw(20) * MS,
        }
        self.agree()
    }

    fn end_turn(&mut self) {
        let current = self.current.take().unwrap();
        let gone = self.draw(3) == 0;
        if gone {
            self.engine.retire(current);
        } else {
            self.set_budget(current);
            self.engine.requeue(current);
        }
        self.oracle.expire(current, gone);
    }

    fn agree(&self) -> bool {
        let entities = (1..).zip(&self.oracle.e[1..]).all(|(i, o)| {
            let e = self.engine.entity(i);
            // Times of an entity in no tree have no effect, so they may differ.
            let forgotten = o.place == EntityState::Out;
            e.place == o.place && (forgotten || (e.start, e.finish) == (o.start, o.finish))
        });
        let trees = (0..GROUPS).all(|node| {
            (0..3).all(|class| {
                let v = self.oracle.v[node as usize][usize::from(class)];
                self.engine.tree_state(node, class) == (v, self.oracle.wsum(node, class))
            })
        });
        let preempts = self.oracle.next[0] != self.oracle.in_service[0];
        entities && trees && preempts == self.engine.may_preempt()
    }
}

#[test]
fn the_engine_chooses_as_a_scan_does() {
    for seed in 1..=20 {
        let mut pair = EnginePair::new(seed);
        let difference = (0..10_000).find(|_| !pair.step());
        assert_eq!(difference, None, "seed {seed}");
    }
}
