//! Rates compared with those of Linux.
//!
//! The rates of Linux 6.1 for the same clients were measured on `null_blk` (`irqmode=2
//! completion_nsec=100000 hw_queue_depth=1`, one queue, `nr_requests` 64, `async_depth` 64, because
//! it otherwise stays at three quarters of the earlier `nr_requests`) with fio 3.33 (`--direct=1
//! --ioengine=libaio --bs=4k --runtime=4`, random offsets in 4 GiB for each client), in virtual
//! time with processors that take no time.
//!
//! Linux pulls a request out of the elevator before the drive has a place for it, and the host does
//! the same. After a command has completed, sometimes its client sends the next request first, and
//! sometimes Linux first searches for a request to dispatch, because two threads of its kernel
//! compete for the processor. Both orders are run, and the rates of Linux must be between theirs.
//! [`replay`](super::replay) compares each decision.

use super::super::Config;
use crate::PriorityClass::{self, BestEffort, Idle, Realtime};
use crate::elevator::scripted::{CompletionOrder, ScriptedHost};
use crate::{Op, Span};
use std::format;
use std::vec::Vec;

const SECONDS: u64 = 4;
/// A command takes 100 us in the drive, and about 1 us on its way.
const SERVICE: u64 = 101_000;
/// The kernel counts time in ticks of 4 ms.
const TICK: u64 = 4_000_000;

/// A client that keeps `depth` requests of one block outstanding, and its rate under Linux in
/// requests per second.
struct MeasuredClient {
    op: Op,
    depth: u32,
    class: PriorityClass,
    linux: u64,
}

const fn client(op: Op, depth: u32, class: PriorityClass, linux: u64) -> MeasuredClient {
    MeasuredClient {
        op,
        depth,
        class,
        linux,
    }
}

/// Returns the number of completed requests of each client.
fn requests(config: &Config, clients: &[MeasuredClient], order: CompletionOrder) -> Vec<u64> {
    let mut host = ScriptedHost::pulling_ahead(*config, (1, 1), 64, (SERVICE, TICK));
    let clients = clients.iter().map(|c| (host.open(c.class), c.op, c.depth));
    let clients: Vec<_> = clients.collect();
    let mut counts = std::vec![0; clients.len()];
    let end = SECONDS * 1_000_000_000;
    host.compete(&clients, order, end, |_, client| counts[client] += 1);
    counts
}

/// Checks that each client gets the rate of Linux within 5 %.
fn check(config: &Config, clients: &[MeasuredClient]) {
    check_within(config, clients, 5);
}

/// Checks that each client gets the rate of Linux within a number of percent. The rate of Linux may
/// also be between those of the two orders.
fn check_within(config: &Config, clients: &[MeasuredClient], percent: u64) {
    let orders = [CompletionOrder::AsksFirst, CompletionOrder::LooksFirst];
    let [asks, looks] = orders.map(|order| requests(config, clients, order));
    let mut wrong = false;
    let mut table = Vec::new();
    for (n, c) in clients.iter().enumerate() {
        let (least, most) = (asks[n].min(looks[n]), asks[n].max(looks[n]));
        wrong |= !((100 - percent) * least..=(100 + percent) * most)
            .contains(&(100 * SECONDS * c.linux));
        let name = format!("{:?} {:?} at depth {}", c.class, c.op, c.depth);
        table.push(format!(
            "{name}: {} or {}, Linux {}",
            asks[n] / SECONDS,
            looks[n] / SECONDS,
            c.linux
        ));
    }
    assert!(!wrong, "{table:#?}");
}

fn aging(millis: u64) -> Config {
    Config::default().prio_aging_expire(Span::from_millis(millis))
}

fn reader_and_writer(depths: (u32, u32), linux: (u64, u64)) -> [MeasuredClient; 2] {
    [
        client(Op::Read, depths.0, BestEffort, linux.0),
        client(Op::Write, depths.1, BestEffort, linux.1),
    ]
}

#[test]
fn batches_of_reads_and_writes() {
    let default = Config::default();
    check(&default, &reader_and_writer((16, 16), (6_504, 3_401)));
    check(&default, &reader_and_writer((4, 32), (3_033, 6_858)));
    let single = default.fifo_batch(1);
    check(&single, &reader_and_writer((16, 16), (6_576, 3_293)));
}

#[test]
fn writes_that_are_starved_for_longer() {
    let config = Config::default().writes_starved(6);
    check(&config, &reader_and_writer((16, 16), (8_465, 1_472)));
}

#[test]
fn deadlines_that_are_always_missed() {
    let config = Config::default()
        .read_expire(Span::from_millis(4))
        .write_expire(Span::from_millis(8));
    check(&config, &reader_and_writer((24, 32), (6_407, 3_484)));
}

/// The idle class is served in bursts of aged requests. A burst ends when the next request by
/// position has not aged. The bursts are short, and their length depends on chance: there are 90 to
/// 95 requests per second under Linux, and 67 to 84 here.
#[test]
fn the_idle_class_beside_another() {
    let clients = [
        client(Op::Read, 16, BestEffort, 9_866),
        client(Op::Read, 16, Idle, 90),
    ];
    check_within(&aging(100), &clients, 20);
}

#[test]
fn three_priorities() {
    let clients = [
        client(Op::Read, 4, Realtime, 9_175),
        client(Op::Read, 16, BestEffort, 384),
        client(Op::Read, 16, Idle, 381),
    ];
    check(&aging(20), &clients);
}

/// A client of another priority costs the writes nearly all of their rate, even if it sends few
/// requests. When Linux searches for aged requests, it already chooses a direction. So reads have
/// come first once more, although nothing was dispatched.
#[test]
fn writes_beside_reads_and_another_priority() {
    let clients = [
        client(Op::Read, 16, BestEffort, 9_496),
        client(Op::Write, 16, BestEffort, 432),
        client(Op::Read, 2, Idle, 20),
    ];
    check(&aging(100), &clients);
}
