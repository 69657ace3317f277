//! One server's side of a shared minimum: the part that it may promise now, and the next request to
//! the store.

use crate::gateway::fair::fair;
use crate::gateway::table::{Lease, MemberRow, MemberTable, MinimumPart, ONE, StatedMinimum};
use weir_core::{Instant, Span};

/// The smallest change of a part or demand that is written. Each write makes all other servers read
/// the table again.
const STEP: MinimumPart = ONE / 128;

/// The timing of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberConfig {
    /// The duration of a lease. The row of a dead server remains for this time.
    pub ttl: Span,
    /// The interval between two reads of the table.
    pub look: Span,
    /// The largest difference in speed between the clocks of server and store, in millionths.
    pub drift: u32,
}

impl Default for MemberConfig {
    /// Frees the part of a dead server after five seconds, and the part that a live server does not
    /// need within one second.
    fn default() -> Self {
        Self {
            ttl: Span::from_secs(5),
            look: Span::from_millis(500),
            drift: 10_000,
        }
    }
}

/// A request to the store. One at a time is outstanding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreRequest {
    /// Requests a new lease of [`MemberConfig::ttl`].
    Grant,
    /// Restarts the duration of a lease, from the time of the request.
    Renew(Lease),
    /// Ends a lease, which removes its row.
    Revoke(Lease),
    /// Reads the table.
    Read,
    /// Writes the row and a new generation, if the present generation is the stated one. Otherwise
    /// writes neither.
    Write {
        /// The generation of the table from which the row was computed.
        generation: u64,
        /// The row of this server.
        row: MemberRow,
    },
}

/// The reply of the store to a [`StoreRequest`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreReply {
    /// A new lease, in reply to [`StoreRequest::Grant`].
    Granted(Lease),
    /// The lease is renewed, in reply to [`StoreRequest::Renew`].
    Renewed,
    /// The lease has ended, because it expired or in reply to [`StoreRequest::Revoke`].
    Gone,
    /// The table, in reply to [`StoreRequest::Read`], or to [`StoreRequest::Write`] if its
    /// generation was outdated.
    Table(MemberTable),
    /// The row was written, in reply to [`StoreRequest::Write`]. Contains the new generation.
    Written(u64),
    /// The store did not answer, or failed. It may have carried out the request, or may still do
    /// so.
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct HeldLease {
    lease: Lease,
    /// The time from which the row may have been removed.
    until: Instant,
    renewed: Instant,
}

/// A write whose reply was lost. The store can still apply it as long as the generation is the one
/// that the write expects.
#[derive(Clone, Copy, Debug)]
struct UncertainWrite {
    generation: u64,
    /// The smallest part in such a write.
    part: MinimumPart,
}

/// One server of those that share a minimum. All times are of this server's clock.
#[derive(Clone, Debug, Default)]
pub struct GatewayMember {
    config: MemberConfig,
    demand: MinimumPart,
    stated: StatedMinimum,
    /// The smallest minimum that the other servers of the last table state.
    others: StatedMinimum,
    leaves: bool,
    held: Option<HeldLease>,
    part: MinimumPart,
    table: Option<MemberTable>,
    read: Instant,
    asked: Option<(StoreRequest, Instant)>,
    doubt: Option<UncertainWrite>,
    /// The time before which nothing is sent, after a request was lost.
    again: Instant,
    lapses: u64,
}

impl GatewayMember {
    /// Creates a server without a part and without demand.
    pub fn new(config: MemberConfig) -> Self {
        Self {
            config,
            others: StatedMinimum::ANY,
            ..Self::default()
        }
    }

    /// Sets the whole minimum, as the server's configuration states it.
    pub fn set_stated(&mut self, stated: StatedMinimum) {
        self.stated = stated;
    }

    /// Returns the whole minimum that is divided. If the servers state different ones, this is the
    /// smallest.
    pub fn agreed(&self) -> StatedMinimum {
        self.stated.least(self.others)
    }

    /// Returns true if another server states a different minimum.
    pub fn has_conflicting_minimum(&self) -> bool {
        self.others != StatedMinimum::ANY && self.others != self.stated
    }

    /// Sets the part of the minimum that the server's clients could use. It should be the whole
    /// minimum while clients wait for more than they get.
    pub fn set_demand(&mut self, demand: MinimumPart) {
        self.demand = demand.min(ONE);
    }

    /// Ends the server's membership. Its part is zero from now on, and [`Self::poll`] returns the
    /// lease.
    pub fn leave(&mut self) {
        self.leaves = true;
        self.part = 0;
    }

    /// Returns true if the server has left and holds no lease.
    pub fn has_left(&self) -> bool {
        self.leaves && self.held.is_none() && self.asked.is_none()
    }

    /// Returns the part of the minimum that the server may promise at `now`.
    pub fn part(&self, now: Instant) -> MinimumPart {
        match self.held {
            Some(held) if now < held.until => self.part,
            _ => 0,
        }
    }

    /// Returns the time when the server's lease ends. [`Self::part`] drops to zero then, if it
    /// does not change earlier.
    pub fn until(&self) -> Instant {
        self.held.map_or(Instant::ZERO, |held| held.until)
    }

    /// Returns the number of leases that expired without having been returned.
    pub fn lapses(&self) -> u64 {
        self.lapses
    }

    /// Returns the next time when [`Self::poll`] or [`Self::part`] can return something else
    /// without a reply.
    pub fn wake(&self, now: Instant) -> Instant {
        let until = self.held.map_or(Instant::MAX, |held| held.until);
        let next = match (&self.asked, self.held) {
            // A new request is possible only after the reply.
            (Some(_), _) => Instant::MAX,
            (None, Some(held)) => self.renew_at(&held).min(self.read + self.config.look),
            (None, None) => now,
        };
        next.max(self.again).min(until)
    }

    /// Returns the request to send to the store now, if there is one. [`Self::answer`] must follow,
    /// with [`StoreReply::Lost`] if there is no reply.
    pub fn poll(&mut self, now: Instant) -> Option<StoreRequest> {
        self.expire(now);
        if self.asked.is_some() || now < self.again {
            return None;
        }
        let ask = self.next(now)?;
        // The store can apply the write at any time from now on, so the part must not exceed the
        // written one any more.
        if let StoreRequest::Write { row, .. } = &ask {
            self.part = self.part.min(row.part);
        }
        self.asked = Some((ask, now));
        Some(ask)
    }

    /// Processes the reply to the last request.
    pub fn answer(&mut self, now: Instant, answer: StoreReply) {
        let Some((ask, asked_at)) = self.asked.take() else {
            return;
        };
        self.expire(now);
        match (ask, answer) {
            // A new lease has no row yet, and therefore no part.
            (StoreRequest::Grant, StoreReply::Granted(lease)) => {
                self.part = 0;
                self.hold(lease, asked_at);
            }
            (StoreRequest::Renew(lease), StoreReply::Renewed) if self.holds(lease) => {
                self.hold(lease, asked_at);
            }
            (StoreRequest::Renew(lease) | StoreRequest::Revoke(lease), StoreReply::Gone)
                if self.holds(lease) =>
            {
                self.drop_lease();
            }
            (StoreRequest::Write { row, .. }, StoreReply::Gone) if self.holds(row.lease) => {
                self.drop_lease();
            }
            (StoreRequest::Read | StoreRequest::Write { .. }, StoreReply::Table(table)) => {
                self.adopt_table(now, table);
            }
            (StoreRequest::Write { row, .. }, StoreReply::Written(generation)) => {
                // The own row is in the table now, as the store would return it.
                let mut table = self.table.take().unwrap_or_default();
                table.generation = generation;
                table.rows.retain(|other| other.lease != row.lease);
                table.rows.push(row);
                self.adopt_table(now, table);
            }
            (ask, _) => self.on_lost_request(now, ask),
        }
    }

    fn next(&self, now: Instant) -> Option<StoreRequest> {
        let Some(held) = self.held else {
            return (!self.leaves).then_some(StoreRequest::Grant);
        };
        if self.leaves {
            return Some(StoreRequest::Revoke(held.lease));
        }
        // Renewal has precedence, because everything else depends on the lease.
        if self.renew_at(&held) <= now {
            return Some(StoreRequest::Renew(held.lease));
        }
        match &self.table {
            Some(table) if now < self.read + self.config.look => self.change(held.lease, table),
            _ => Some(StoreRequest::Read),
        }
    }

    /// Returns the time of renewal. One third of the lease is over then. The second third remains
    /// for a reply that is lost, and the last third for another attempt.
    fn renew_at(&self, held: &HeldLease) -> Instant {
        held.renewed + self.config.ttl / 3
    }

    /// Returns the write that the table requires, if the row would change.
    fn change(&self, lease: Lease, table: &MemberTable) -> Option<StoreRequest> {
        let own = table.row(lease);
        let others = table.rows.iter().filter(|row| row.lease != lease);
        let mut demands = vec![self.demand];
        demands.extend(others.map(|row| row.demand));
        let stored = own.map_or(0, |row| row.part);
        let part = fair(&demands, 0).min(table.left_by_others(lease));
        let is_same = |row: &MemberRow| {
            row.part.abs_diff(part) < STEP
                && row.demand.abs_diff(self.demand) < STEP
                && row.stated == self.stated
        };
        // Small differences are ignored, unless the promised part is below the stored one, as after
        // a lost write.
        if own.is_some_and(is_same) && self.part == stored {
            return None;
        }
        Some(StoreRequest::Write {
            generation: table.generation,
            row: MemberRow {
                lease,
                part,
                demand: self.demand,
                stated: self.stated,
            },
        })
    }

    /// Adopts a table. The part in the server's own row applies, unless a lost write can still
    /// reduce it.
    fn adopt_table(&mut self, now: Instant, table: MemberTable) {
        // Once the generation has changed, the store rejects the lost write.
        if self.doubt.is_some_and(|d| d.generation != table.generation) {
            self.doubt = None;
        }
        let lease = self.held.map(|held| held.lease);
        let others = table.rows.iter().filter(|row| Some(row.lease) != lease);
        self.others = others.fold(StatedMinimum::ANY, |least, row| least.least(row.stated));
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

    fn on_lost_request(&mut self, now: Instant, ask: StoreRequest) {
        if let StoreRequest::Write { generation, row } = ask {
            let part = match self.doubt {
                Some(doubt) if doubt.generation == generation => doubt.part.min(row.part),
                _ => row.part,
            };
            self.doubt = Some(UncertainWrite { generation, part });
            // The table may be outdated now, so it is read again.
            self.table = None;
        }
        self.again = now + self.config.look / 4;
    }

    fn holds(&self, lease: Lease) -> bool {
        self.held.is_some_and(|held| held.lease == lease)
    }

    fn hold(&mut self, lease: Lease, asked_at: Instant) {
        let ttl = self.config.ttl.as_nanos();
        // The allowance for the difference between the clocks. At most the whole lease is
        // subtracted.
        let sure = ttl - ttl / 1_000_000 * u64::from(self.config.drift.min(1_000_000));
        self.held = Some(HeldLease {
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
        // A lease that ends while the server leaves is not counted as lost.
        self.lapses += u64::from(self.held.take().is_some() && !self.leaves);
        self.part = 0;
        self.table = None;
        self.doubt = None;
    }
}
