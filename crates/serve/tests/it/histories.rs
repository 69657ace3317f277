//! Random histories of servers that share a minimum, in virtual time. Messages are late or lost,
//! servers end and return, networks are partitioned, and clocks differ in speed. The promised parts
//! never exceed the whole, and after a quiet period each server has its part.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use weir_core::random::Rng;
use weir_core::{Instant, Span};
use weir_serve::gateway::{
    GatewayMember, Lease, MemberConfig, MemberRow, MemberTable, MinimumPart, ONE, StatedMinimum,
    StoreReply, StoreRequest, fair,
};

const MS: u64 = 1_000_000;
/// A second in nanoseconds.
const SECOND: u64 = 1_000 * MS;
/// The length of the period with failures, and of the quiet period after it. The latest message
/// takes [`LATE`], and a lease that it renews lasts six seconds.
const TROUBLE: u64 = 6 * SECOND;
const QUIET: u64 = 14 * SECOND;
const LATE: u64 = 3 * SECOND;

/// The shared store. Leases end no earlier than promised, and possibly later.
#[derive(Default)]
struct FakeStore {
    table: MemberTable,
    leases: BTreeMap<Lease, u64>,
    last: u64,
}

impl FakeStore {
    fn expire(&mut self, now: u64) {
        self.leases.retain(|_, until| *until > now);
        let leases = &self.leases;
        self.table
            .rows
            .retain(|row| leases.contains_key(&row.lease));
    }

    fn carry_out(&mut self, ask: &StoreRequest, now: u64, ttl: u64) -> StoreReply {
        self.expire(now);
        match *ask {
            StoreRequest::Grant => {
                self.last += 1;
                self.leases.insert(Lease(self.last), now + ttl);
                StoreReply::Granted(Lease(self.last))
            }
            StoreRequest::Renew(lease) => match self.leases.get_mut(&lease) {
                Some(until) => {
                    *until = now + ttl;
                    StoreReply::Renewed
                }
                None => StoreReply::Gone,
            },
            StoreRequest::Revoke(lease) => {
                self.leases.remove(&lease);
                self.expire(now);
                StoreReply::Gone
            }
            StoreRequest::Read => StoreReply::Table(self.table.clone()),
            // The comparison with the generation is that of a transaction in etcd.
            StoreRequest::Write { generation, .. } if generation != self.table.generation => {
                StoreReply::Table(self.table.clone())
            }
            StoreRequest::Write { row, .. } if !self.leases.contains_key(&row.lease) => {
                StoreReply::Gone
            }
            StoreRequest::Write { row, .. } => {
                self.table.generation += 1;
                self.table.rows.retain(|other| other.lease != row.lease);
                self.table.rows.push(row);
                StoreReply::Written(self.table.generation)
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum HistoryEvent {
    /// A server polls its member. Has the server and the number of its last request, by which
    /// outdated events are recognised.
    Wake(usize, u64),
    GivesUp(usize, u64),
    Asked(usize, u64, usize),
    Answered(usize, u64, usize),
    /// A server ends or returns, the network is partitioned or repaired, or demands change.
    Trouble,
}

struct GatewayServer {
    member: GatewayMember,
    /// The deviation of the server's clock, in millionths.
    drift: i64,
    alive: bool,
    reachable: bool,
    demand: MinimumPart,
    /// The number of the last request, and whether it is unanswered.
    asked: u64,
    open: bool,
}

impl GatewayServer {
    fn clock(&self, now: u64) -> Instant {
        let off = i128::from(now) * i128::from(self.drift) / 1_000_000;
        Instant::from_nanos((i128::from(now) + off) as u64)
    }

    fn part(&self, now: u64) -> MinimumPart {
        if self.alive {
            self.member.part(self.clock(now))
        } else {
            0
        }
    }
}

struct GatewayHistory {
    rng: Rng,
    now: u64,
    config: MemberConfig,
    servers: Vec<GatewayServer>,
    store: FakeStore,
    events: BTreeSet<(u64, u64, HistoryEvent)>,
    last: u64,
    asks: Vec<StoreRequest>,
    answers: Vec<StoreReply>,
    /// The number of messages in a thousand that are lost.
    lost: u64,
    /// The largest time between two failures, in milliseconds.
    pace: u64,
}

impl GatewayHistory {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let ttl = rng.range(400, 5_000);
        let drift = [2_000, 100_000][rng.range(0, 1) as usize];
        let config = MemberConfig {
            ttl: Span::from_millis(ttl),
            look: Span::from_millis(ttl / rng.range(5, 40)),
            drift,
        };
        let servers = (0..rng.range(1, 5)).map(|_| GatewayServer {
            member: GatewayMember::new(config),
            // The difference between any two clocks stays below the configured drift, which the
            // leases allow for.
            drift: rng.range(0, 95 * u64::from(drift) / 100).cast_signed()
                - i64::from(drift) * 47 / 100,
            alive: true,
            reachable: true,
            demand: 0,
            asked: 0,
            open: false,
        });
        let servers: Vec<GatewayServer> = servers.collect();
        let pace = [100, 2_000][rng.range(0, 1) as usize];
        let lost = [0, 10, 100, 300][rng.range(0, 3) as usize];
        let mut history = Self {
            rng,
            now: 0,
            config,
            servers,
            store: FakeStore::default(),
            events: BTreeSet::new(),
            last: 0,
            asks: Vec::new(),
            answers: Vec::new(),
            lost,
            pace,
        };
        for at in 0..history.servers.len() {
            history.wants(at);
            history.put(0, HistoryEvent::Wake(at, 0));
        }
        history.put(SECOND, HistoryEvent::Trouble);
        history
    }

    fn put(&mut self, after: u64, event: HistoryEvent) {
        self.last += 1;
        self.events.insert((self.now + after, self.last, event));
    }

    fn wants(&mut self, at: usize) {
        let demand = match self.rng.range(0, 3) {
            0 => 0,
            1 => ONE,
            _ => self.rng.range(0, u64::from(ONE) - 1) as MinimumPart,
        };
        self.servers[at].demand = demand;
        self.servers[at].member.set_demand(demand);
    }

    /// Returns the delivery time of a message, or `None` if it is lost.
    fn travels(&mut self, at: usize) -> Option<u64> {
        if !self.servers[at].reachable || self.rng.range(0, 999) < self.lost {
            return None;
        }
        let longest = if self.lost > 0 && self.rng.range(0, 9) == 0 {
            LATE
        } else {
            40 * MS
        };
        Some(self.rng.range(0, longest - 1))
    }

    fn turn(&mut self, at: usize) {
        let now = self.now;
        let server = &mut self.servers[at];
        if !server.alive {
            return;
        }
        let clock = server.clock(now);
        let ask = server.member.poll(clock);
        let wake = server.member.wake(clock).since(clock);
        let life = server.asked;
        if let Some(ask) = ask {
            server.asked += 1;
            server.open = true;
            let number = server.asked;
            self.asks.push(ask);
            let place = self.asks.len() - 1;
            if let Some(after) = self.travels(at) {
                self.put(after, HistoryEvent::Asked(at, number, place));
            }
            let patience = self.rng.range(50, 500) * MS;
            self.put(patience, HistoryEvent::GivesUp(at, number));
        } else if !server.open {
            self.put(
                wake.as_nanos().clamp(MS, SECOND),
                HistoryEvent::Wake(at, life),
            );
        }
    }

    fn answer(&mut self, at: usize, answer: StoreReply) {
        let clock = self.servers[at].clock(self.now);
        self.servers[at].open = false;
        self.servers[at].member.answer(clock, answer);
        self.turn(at);
    }

    fn step(&mut self, event: HistoryEvent) {
        match event {
            HistoryEvent::Wake(at, life) => {
                if self.servers[at].asked == life {
                    self.turn(at);
                }
            }
            HistoryEvent::Asked(at, number, place) => {
                let ttl = self.config.ttl.as_nanos()
                    // In half of all cases, the store keeps the lease for up to a second longer.
                    + self.rng.range(0, 1) * self.rng.range(0, SECOND - 1);
                let ask = self.asks[place];
                let answer = self.store.carry_out(&ask, self.now, ttl);
                self.answers.push(answer);
                let place = self.answers.len() - 1;
                if let Some(after) = self.travels(at) {
                    self.put(after, HistoryEvent::Answered(at, number, place));
                }
            }
            HistoryEvent::Answered(at, number, place) => {
                let server = &self.servers[at];
                if server.alive && server.open && server.asked == number {
                    let answer = self.answers[place].clone();
                    self.answer(at, answer);
                }
            }
            HistoryEvent::GivesUp(at, number) => {
                let server = &self.servers[at];
                if server.alive && server.open && server.asked == number {
                    self.answer(at, StoreReply::Lost);
                }
            }
            HistoryEvent::Trouble => self.trouble(),
        }
    }

    fn trouble(&mut self) {
        let at = self.rng.range(0, self.servers.len() as u64 - 1) as usize;
        match self.rng.range(0, 9) {
            0 => self.servers[at].alive = false,
            1 | 2 => self.begin(at),
            3 => self.servers[at].reachable ^= true,
            4 => self.servers[at].member.leave(),
            _ => self.wants(at),
        }
        self.turn(at);
        let next = self.rng.range(1, self.pace) * MS;
        if self.now + next < TROUBLE {
            self.put(next, HistoryEvent::Trouble);
        }
    }

    /// Starts a server again, or another process in its place. It has no memory of earlier events.
    fn begin(&mut self, at: usize) {
        let server = &mut self.servers[at];
        server.member = GatewayMember::new(self.config);
        server.member.set_demand(server.demand);
        server.alive = true;
        server.asked += 1;
        server.open = false;
    }

    fn run_until(&mut self, end: u64, seed: u64) {
        while let Some((at, _, event)) = self.events.pop_first() {
            if at > end {
                self.events.insert((at, 0, event));
                break;
            }
            self.now = at;
            self.step(event);
            let parts: Vec<MinimumPart> = self.servers.iter().map(|s| s.part(at)).collect();
            assert!(
                parts.iter().sum::<MinimumPart>() <= ONE,
                "seed {seed}: {parts:?} at {at} ns"
            );
        }
        self.now = end;
    }

    /// Ends all failures, except that one server may end now and stay away.
    fn be_quiet(&mut self) {
        self.lost = 0;
        for at in 0..self.servers.len() {
            self.servers[at].reachable = true;
            let left = self.servers[at].member.has_left() || self.rng.range(0, 3) == 0;
            if left || !self.servers[at].alive {
                self.begin(at);
            }
            self.turn(at);
        }
        if self.servers.len() > 1 && self.rng.range(0, 1) == 0 {
            self.servers[0].alive = false;
        }
    }

    fn check_parts(&self, seed: u64) {
        let living: Vec<&GatewayServer> = (self.servers.iter())
            .filter(|s| s.alive && !s.member.has_left())
            .collect();
        let demands: Vec<MinimumPart> = living.iter().map(|s| s.demand).collect();
        // A server without demand is given up to 1/64 of the whole, and small changes of demand are
        // not written.
        let slack = ONE / 64 * (living.len() as MinimumPart + 1);
        for (place, server) in living.iter().enumerate() {
            let part = server.part(self.now);
            let fair = fair(&demands, place);
            assert!(
                part + slack >= fair,
                "seed {seed}: {part} for {fair} of {demands:?}"
            );
        }
    }
}

fn play(seed: u64) {
    let mut history = GatewayHistory::new(seed);
    history.run_until(TROUBLE, seed);
    // The quiet period is long, so only every tenth history has one.
    if !seed.is_multiple_of(10) {
        return;
    }
    history.be_quiet();
    history.run_until(TROUBLE + QUIET, seed);
    history.check_parts(seed);
}

#[test]
fn parts_never_exceed_the_whole_and_settle_when_the_system_is_quiet() {
    (0..2_000).for_each(play);
}

#[test]
fn others_use_the_part_of_a_dead_server_within_ten_seconds() {
    for seed in 0..200 {
        let mut history = GatewayHistory::new(seed);
        (history.lost, history.events) = (0, BTreeSet::new());
        for at in 0..history.servers.len() {
            history.servers[at].demand = ONE;
            history.servers[at].member.set_demand(ONE);
            history.put(0, HistoryEvent::Wake(at, 0));
        }
        history.run_until(5 * SECOND, seed);
        history.check_parts(seed);
        history.servers[0].alive = false;
        history.run_until(15 * SECOND, seed);
        history.check_parts(seed);
    }
}

#[test]
#[ignore = "minutes; ./test --fleet plays it"]
fn a_hundred_thousand_histories_keep_the_sum() {
    thread::scope(|scope| {
        for first in 0..4 {
            scope.spawn(move || (first..100_000).step_by(4).for_each(play));
        }
    });
    println!("100000 histories: the sum of what was promised was at most what was admitted");
}

#[test]
fn a_late_write_does_not_lower_the_part_in_use() {
    let mut member = GatewayMember::new(MemberConfig::default());
    let at = |ms| Instant::ZERO + Span::from_millis(ms);
    let lease = Lease(1);
    let row = |part, demand| MemberRow {
        lease,
        part,
        demand,
        stated: StatedMinimum::default(),
    };
    member.set_demand(ONE);
    // Stage 1: the member obtains a lease and the whole minimum.
    assert_eq!(member.poll(at(0)), Some(StoreRequest::Grant));
    member.answer(at(1), StoreReply::Granted(lease));
    assert_eq!(member.poll(at(1)), Some(StoreRequest::Read));
    member.answer(at(2), StoreReply::Table(MemberTable::default()));
    let ask = StoreRequest::Write {
        generation: 0,
        row: row(ONE, ONE),
    };
    assert_eq!(member.poll(at(2)), Some(ask));
    assert_eq!(member.part(at(2)), 0, "it is not there yet");
    member.answer(at(3), StoreReply::Written(1));
    assert_eq!(member.part(at(3)), ONE);

    // Stage 2: it lowers its part, and the answer to the write is lost.
    member.set_demand(ONE / 2);
    let ask = StoreRequest::Write {
        generation: 1,
        row: row(ONE / 2, ONE / 2),
    };
    assert_eq!(member.poll(at(4)), Some(ask));
    assert_eq!(member.part(at(4)), ONE / 2, "less at once");
    member.answer(at(5), StoreReply::Lost);
    member.set_demand(ONE);
    assert_eq!(member.poll(at(200)), Some(StoreRequest::Read));
    let rows = vec![row(ONE, ONE)];
    member.answer(
        at(201),
        StoreReply::Table(MemberTable {
            generation: 1,
            rows,
        }),
    );
    // The lost write may still be carried out, so only the smaller part is safe.
    assert_eq!(member.part(at(201)), ONE / 2, "the write may be done yet");
    // Stage 3: a write with the same generation succeeds, which excludes the lost one.
    let ask = StoreRequest::Write {
        generation: 1,
        row: row(ONE, ONE),
    };
    assert_eq!(member.poll(at(201)), Some(ask));
    member.answer(at(202), StoreReply::Written(2));
    assert_eq!(member.part(at(202)), ONE, "now it cannot");
    assert_eq!(member.part(at(4_950)), 0, "the lease is nearly over");
}

#[test]
fn servers_with_different_minimums_split_the_smallest() {
    let mut member = GatewayMember::new(MemberConfig::default());
    let at = |ms| Instant::ZERO + Span::from_millis(ms);
    let stated = |bytes| StatedMinimum { bytes, requests: 0 };
    member.set_stated(stated(100));
    assert_eq!(member.agreed(), stated(100));
    assert_eq!(member.poll(at(0)), Some(StoreRequest::Grant));
    member.answer(at(1), StoreReply::Granted(Lease(1)));
    assert_eq!(member.poll(at(1)), Some(StoreRequest::Read));
    let other = |bytes| MemberRow {
        lease: Lease(2),
        part: 0,
        demand: 0,
        stated: stated(bytes),
    };
    let table = |generation, bytes| MemberTable {
        generation,
        rows: vec![other(bytes)],
    };
    // Another server states 60, so the smaller of 60 and 100 is shared.
    member.answer(at(2), StoreReply::Table(table(3, 60)));
    assert_eq!(member.agreed(), stated(60));
    let Some(StoreRequest::Write { row, .. }) = member.poll(at(2)) else {
        panic!("it has no row yet");
    };
    assert_eq!(row.stated, stated(100), "each says its own");
    member.answer(at(3), StoreReply::Table(table(4, 200)));
    assert_eq!(member.agreed(), stated(100));
    member.set_stated(stated(300));
    assert_eq!(member.agreed(), stated(200));
    assert_eq!(stated(100).part(ONE / 3), stated(33));
}
