//! A server's side: which part of the minimum it may promise now, and what to ask of the store next.

use crate::gateway::fair::fair;
use crate::gateway::table::{Lease, ONE, Part, Row, Stated, Table};
use weir_core::{Instant, Span};

/// Parts and demands that differ by less are left as they are: each write makes all others read anew.
const STEP: Part = ONE / 128;

/// How a server behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// How long its row outlives it.
    pub ttl: Span,
    /// How often it reads the table.
    pub look: Span,
    /// By how much, in millionths, the clocks of server and store may differ in speed.
    pub drift: u32,
}

impl Default for Config {
    /// A dead server's part is free after five seconds, a living one's after one.
    fn default() -> Self {
        Self {
            ttl: Span::from_secs(5),
            look: Span::from_millis(500),
            drift: 10_000,
        }
    }
}

/// What a server asks of the store. One thing at a time is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// A new lease of [`Config::ttl`].
    Grant,
    /// The same lease for as long again, from when it is asked.
    Renew(Lease),
    /// The lease is over, and the row with it.
    Revoke(Lease),
    /// The table.
    Read,
    /// Sets the row and a new generation, both or neither: only if the generation is this one.
    Write {
        /// That of the table which the row was worked out by.
        generation: u64,
        /// The row.
        row: Row,
    },
}

/// What the store answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// A lease.
    Granted(Lease),
    /// To [`Ask::Renew`]: it is renewed.
    Renewed,
    /// The lease is over, by its time or by [`Ask::Revoke`].
    Gone,
    /// The table: to [`Ask::Read`], or to [`Ask::Write`] where its generation was another one.
    Table(Table),
    /// To [`Ask::Write`]: the row is there, and this is the generation.
    Written(u64),
    /// Nobody answered, or the store cannot. What was asked may have been done, or be done yet.
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    lease: Lease,
    /// From here on the row may be gone.
    until: Instant,
    renewed: Instant,
}

/// A write that was lost may be done as long as the generation is the one that it is for.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    generation: u64,
    /// The least part in such a write.
    part: Part,
}

/// A server among those that keep a minimum together. Times are its own clock's.
#[derive(Clone, Debug, Default)]
pub struct Member {
    config: Config,
    demand: Part,
    stated: Stated,
    /// What all others of the last table state.
    others: Stated,
    leaves: bool,
    held: Option<Held>,
    part: Part,
    table: Option<Table>,
    read: Instant,
    asked: Option<(Ask, Instant)>,
    doubt: Option<Doubt>,
    /// After something was lost: no sooner than this.
    again: Instant,
    lapses: u64,
}

impl Member {
    /// A server that has no part yet and wants none.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            others: Stated::ANY,
            ..Self::default()
        }
    }

    /// The whole minimum, as the server's configuration states it.
    pub fn set_stated(&mut self, stated: Stated) {
        self.stated = stated;
    }

    /// The whole minimum of which parts are taken: what all servers state, so the least where they differ.
    pub fn agreed(&self) -> Stated {
        self.stated.least(self.others)
    }

    /// Whether another server states less than this one, or more.
    pub fn differs(&self) -> bool {
        self.others != Stated::ANY && self.others != self.stated
    }

    /// The part of the minimum that the server's clients could use; all of it while they wait for more than they get.
    pub fn set_demand(&mut self, demand: Part) {
        self.demand = demand.min(ONE);
    }

    /// The server ends: its part is nothing from now on, and [`Self::poll`] gives it back.
    pub fn leave(&mut self) {
        self.leaves = true;
        self.part = 0;
    }

    /// It has left and holds nothing.
    pub fn has_left(&self) -> bool {
        self.leaves && self.held.is_none() && self.asked.is_none()
    }

    /// The part of the minimum that the server may promise at an instant.
    pub fn part(&self, now: Instant) -> Part {
        match self.held {
            Some(held) if now < held.until => self.part,
            _ => 0,
        }
    }

    /// Until when [`Self::part`] holds, unless something happens before.
    pub fn until(&self) -> Instant {
        self.held.map_or(Instant::ZERO, |held| held.until)
    }

    /// How often a lease was lost that the server did not give back.
    pub fn lapses(&self) -> u64 {
        self.lapses
    }

    /// The next instant at which [`Self::poll`] or [`Self::part`] may say something else without an answer.
    pub fn wake(&self, now: Instant) -> Instant {
        let until = self.held.map_or(Instant::MAX, |held| held.until);
        let next = match (&self.asked, self.held) {
            (Some(_), _) => Instant::MAX,
            (None, Some(held)) => self.renew_at(&held).min(self.read + self.config.look),
            (None, None) => now,
        };
        next.max(self.again).min(until)
    }

    /// What to ask of the store now. [`Self::answer`] is to follow, with [`Answer::Lost`] if nothing else does.
    pub fn poll(&mut self, now: Instant) -> Option<Ask> {
        self.expire(now);
        if self.asked.is_some() || now < self.again {
            return None;
        }
        let ask = self.next(now)?;
        if let Ask::Write { row, .. } = &ask {
            self.part = self.part.min(row.part);
        }
        self.asked = Some((ask, now));
        Some(ask)
    }

    /// Takes the answer to what was asked last.
    pub fn answer(&mut self, now: Instant, answer: Answer) {
        let Some((ask, asked_at)) = self.asked.take() else {
            return;
        };
        self.expire(now);
        match (ask, answer) {
            (Ask::Grant, Answer::Granted(lease)) => {
                self.part = 0;
                self.hold(lease, asked_at);
            }
            (Ask::Renew(lease), Answer::Renewed) if self.holds(lease) => self.hold(lease, asked_at),
            (Ask::Renew(lease) | Ask::Revoke(lease), Answer::Gone) if self.holds(lease) => {
                self.drop_lease();
            }
            (Ask::Write { row, .. }, Answer::Gone) if self.holds(row.lease) => self.drop_lease(),
            (Ask::Read | Ask::Write { .. }, Answer::Table(table)) => self.take(now, table),
            (Ask::Write { row, .. }, Answer::Written(generation)) => {
                let mut table = self.table.take().unwrap_or_default();
                table.generation = generation;
                table.rows.retain(|other| other.lease != row.lease);
                table.rows.push(row);
                self.take(now, table);
            }
            (ask, _) => self.lose(now, ask),
        }
    }

    fn next(&self, now: Instant) -> Option<Ask> {
        let Some(held) = self.held else {
            return (!self.leaves).then_some(Ask::Grant);
        };
        if self.leaves {
            return Some(Ask::Revoke(held.lease));
        }
        if self.renew_at(&held) <= now {
            return Some(Ask::Renew(held.lease));
        }
        match &self.table {
            Some(table) if now < self.read + self.config.look => self.change(held.lease, table),
            _ => Some(Ask::Read),
        }
    }

    /// A third of a lease is left for an answer that is lost, and a third for the next.
    fn renew_at(&self, held: &Held) -> Instant {
        held.renewed + self.config.ttl / 3
    }

    /// The row that the table calls for, if it is another one.
    fn change(&self, lease: Lease, table: &Table) -> Option<Ask> {
        let own = table.row(lease);
        let others = table.rows.iter().filter(|row| row.lease != lease);
        let mut demands = vec![self.demand];
        demands.extend(others.map(|row| row.demand));
        let stored = own.map_or(0, |row| row.part);
        let part = fair(&demands, 0).min(table.left_by_others(lease));
        let is_same = |row: &Row| {
            row.part.abs_diff(part) < STEP
                && row.demand.abs_diff(self.demand) < STEP
                && row.stated == self.stated
        };
        if own.is_some_and(is_same) && self.part == stored {
            return None;
        }
        Some(Ask::Write {
            generation: table.generation,
            row: Row {
                lease,
                part,
                demand: self.demand,
                stated: self.stated,
            },
        })
    }

    /// What the table says of the server's own row holds, unless a lost write can still lower it.
    fn take(&mut self, now: Instant, table: Table) {
        if self.doubt.is_some_and(|d| d.generation != table.generation) {
            self.doubt = None;
        }
        let lease = self.held.map(|held| held.lease);
        let others = table.rows.iter().filter(|row| Some(row.lease) != lease);
        self.others = others.fold(Stated::ANY, |least, row| least.least(row.stated));
        let row = lease.and_then(|lease| table.row(lease));
        let stored = row.map_or(0, |row| row.part);
        self.part = if self.leaves {
            0
        } else {
            self.doubt.map_or(stored, |doubt| stored.min(doubt.part))
        };
        self.table = Some(table);
        self.read = now;
    }

    fn lose(&mut self, now: Instant, ask: Ask) {
        if let Ask::Write { generation, row } = ask {
            let part = match self.doubt {
                Some(doubt) if doubt.generation == generation => doubt.part.min(row.part),
                _ => row.part,
            };
            self.doubt = Some(Doubt { generation, part });
            self.table = None;
        }
        self.again = now + self.config.look / 4;
    }

    fn holds(&self, lease: Lease) -> bool {
        self.held.is_some_and(|held| held.lease == lease)
    }

    fn hold(&mut self, lease: Lease, asked_at: Instant) {
        let ttl = self.config.ttl.as_nanos();
        let sure = ttl - ttl / 1_000_000 * u64::from(self.config.drift.min(1_000_000));
        self.held = Some(Held {
            lease,
            until: asked_at + Span::from_nanos(sure),
            renewed: asked_at,
        });
    }

    fn expire(&mut self, now: Instant) {
        if self.held.is_some_and(|held| held.until <= now) {
            self.drop_lease();
        }
    }

    fn drop_lease(&mut self) {
        self.lapses += u64::from(self.held.take().is_some() && !self.leaves);
        self.part = 0;
        self.table = None;
        self.doubt = None;
    }
}
