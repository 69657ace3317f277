//! Flushes and promises on a drive that serves one command after the other: reads and writes are
//! short, and flushes are long.

use super::*;
use crate::testing::{Drive, SPACE, space};
use crate::{Completion, Dispatch, Output, SpaceId, Tag};
use std::collections::BTreeMap;

// Times of commands in nanoseconds.
const READ: u64 = 60_000;
const WRITE: u64 = 20_000;
const FLUSH: u64 = 1_000_000;
const WRITERS: usize = 8;

/// Writes 4 KiB and flushes, again and again.
const SYNCS: Client = SMALL.op(Op::Write).other((2, Op::Flush, Flags::SYNC));

/// A drive that serves one command after the other.
struct SerialDrive {
    free: u64,
    flush: u64,
    /// The flushes that run, and the end of each, on a drive that serves all other commands first.
    last: Option<BTreeMap<Tag, u64>>,
}

impl Drive for SerialDrive {
    fn take(&mut self, now: u64, command: &Dispatch) -> u64 {
        let begin = self.free.max(now);
        let time = match command.op {
            Op::Flush => self.flush,
            Op::Read => READ,
            _ => WRITE,
        };
        match &mut self.last {
            Some(flushes) if command.op == Op::Flush => {
                flushes.insert(command.tag, begin + time);
                return begin + time;
            }
            Some(flushes) => flushes.values_mut().for_each(|end| *end += time),
            None => {}
        }
        self.free = begin + time;
        self.free
    }

    fn end(&mut self, now: u64, tag: Tag) -> Result<Completion, u64> {
        if let Some(flushes) = &mut self.last
            && let Some(&end) = flushes.get(&tag)
        {
            if end > now {
                return Err(end);
            }
            flushes.remove(&tag);
        }
        Ok(Completion::ok(tag))
    }
}

/// A run with the number of flush commands, and the longest delay of a flush: from the time at
/// which it could have begun, or the end of the previous flush, to its dispatch.
struct FlushRun {
    host: crate::testing::Host<SerialDrive>,
    begun: u64,
    longest: u64,
}

impl FlushRun {
    /// Returns the number of requests of 4 KiB of a client. A flush follows each of them if the
    /// client writes.
    fn done(&self, client: usize) -> u64 {
        self.host.bytes(client) / 4096
    }
}

/// Runs each client in a group of its own.
fn play(config: elevator::Config, flush: u64, clients: &[Client], seconds: u64) -> FlushRun {
    let last = None;
    play_on(
        SerialDrive {
            free: 0,
            flush,
            last,
        },
        config,
        clients,
        seconds,
    )
}

fn play_on(
    drive: SerialDrive,
    config: elevator::Config,
    clients: &[Client],
    seconds: u64,
) -> FlushRun {
    let config = crate::Config::of(config).drive(PIPE.shape());
    let mut host = crate::testing::Host::new(config, &[], drive);
    for (id, client) in clients.iter().enumerate() {
        let id = id as u32;
        host.edit(space(id, SPACE));
        host.add(Client {
            space: SpaceId(id),
            ..*client
        });
    }
    let (mut begun, mut longest) = (0, 0);
    // Number of flushes that wait, and the time since which the first one waits.
    let (mut waiting, mut since) = (0, 0);
    while host.step(seconds * SECOND) {
        for output in &host.out {
            match output {
                Output::Done(d) if d.op == Op::Flush => since = host.now,
                Output::Done(d) if d.op == Op::Write => {
                    since = if waiting == 0 { host.now } else { since };
                    waiting += 1;
                }
                Output::Dispatch(d) if d.op == Op::Flush => {
                    begun += 1;
                    waiting -= 1;
                    longest = longest.max(host.now - since);
                }
                _ => {}
            }
        }
    }
    FlushRun {
        host,
        begun,
        longest,
    }
}

fn keeping() -> elevator::Config {
    elevator::Config::Contract(Config::default())
}

/// A client that reads and has a min of `mb` MB/s, and eight clients that sync.
fn beside(mb: u64) -> Vec<Client> {
    let mut clients = std::vec![SMALL.with(min(mb * 1_000_000))];
    clients.resize(WRITERS + 1, SYNCS);
    clients
}

#[test]
fn a_reader_keeps_its_min_next_to_clients_that_sync() {
    for mb in [1, 10, 30, 50] {
        let none = play(elevator::Config::None, FLUSH, &beside(mb), 4);
        assert!(none.host.rate(0) < 2_000, "{}", none.host.rate(0));
        let kept = play(keeping(), FLUSH, &beside(mb), 4);
        let rate = kept.host.rate(0);
        assert!(rate >= mb * 1_000, "{rate} of {mb} MB/s");
        // Flushes use all of the time that the reads leave.
        let busy = kept.begun * (FLUSH + WRITE) + kept.done(0) * READ;
        assert!(busy >= 4 * SECOND * 95 / 100, "{busy} beside {mb} MB/s");
    }
}

#[test]
fn flushes_without_promises_are_as_many_as_under_none() {
    let clients = beside(0);
    let none = play(elevator::Config::None, FLUSH, &clients, 2);
    let kept = play(keeping(), FLUSH, &clients, 2);
    let (before, now) = (none.begun, kept.begun);
    assert!(now * 100 >= before * 95, "{now} of {before}");
}

#[test]
fn flushes_wait_no_longer_than_their_bound_for_impossible_promises() {
    // A read takes 60 us, so the drive reads 68 MB/s with one request at a time. A single client
    // with a larger min would delay a flush only for the duration of one flush, because not even an
    // idle drive would keep its promise. But the writers have promises that can be kept, and so
    // does each of two readers that together need more than the drive can do. So the factor is 16
    // in all cases.
    let cases: [(u64, &[u64]); 3] = [(16, &[100]), (16, &[40, 40]), (16, &[60, 60])];
    for flush in [100_000, FLUSH, 100 * FLUSH] {
        for (times, promised) in cases {
            let mut clients: Vec<_> = promised
                .iter()
                .map(|mb| SMALL.with(min(mb * 1_000_000)))
                .collect();
            clients.resize(clients.len() + WRITERS, SYNCS.with(min(1_000_000)));
            let slow = play(keeping(), flush, &clients, 20);
            let what = std::format!("{promised:?} MB/s beside flushes of {flush} ns");
            let reads: u64 = (0..promised.len()).map(|c| slow.done(c)).sum();
            // The work that is in the drive when a flush begins counts as a part of the flush's
            // duration.
            let taken = flush + 4 * READ + 4 * WRITE;
            let bound = (times * taken).min(SECOND) + READ;
            let longest = slow.longest;
            assert!(longest <= bound, "{longest} of {bound}: {what}");
            assert!(reads * READ >= 20 * SECOND * 45 / 100, "{reads}: {what}");
        }
    }
}

#[test]
fn a_client_that_syncs_does_not_wait_for_its_own_promise() {
    let promised = [SYNCS.with(min(10_000_000))];
    let none = play(elevator::Config::None, FLUSH, &promised, 2);
    let kept = play(keeping(), FLUSH, &promised, 2);
    assert_eq!(kept.done(0), none.done(0));
}

#[test]
fn readers_do_not_delay_the_flush_of_a_client_that_is_behind() {
    // 10 syncs per second are promised. The drive completes 50 if it has no other work.
    let mut clients = std::vec![SYNCS.with(min(40_960))];
    clients.resize(4, SMALL.depth(16));
    let last_flushes = SerialDrive {
        free: 0,
        flush: 20 * FLUSH,
        last: Some(BTreeMap::new()),
    };
    let kept = play_on(last_flushes, keeping(), &clients, 4);
    let syncs = kept.done(0);
    assert!(syncs >= 4 * 10, "{syncs} syncs");
    // The readers get the time that the flushes leave.
    let reads: u64 = (1..4).map(|c| kept.done(c)).sum();
    let busy = syncs * (20 * FLUSH + WRITE) + reads * READ;
    assert!(busy >= 4 * SECOND * 95 / 100, "{busy}");
}

#[test]
fn a_long_flush_of_a_promised_client_delays_no_other_promise() {
    // A flush takes 2 s, during which the drive serves everything else.
    let clients = [SYNCS.with(min(50_000)), SMALL.with(min(5_000_000))];
    let last_flushes = SerialDrive {
        free: 0,
        flush: 2 * SECOND,
        last: Some(BTreeMap::new()),
    };
    let kept = play_on(last_flushes, keeping(), &clients, 9);
    // Each flush delays the reader for 0.3 s, so that at least 0.7 of each second remain.
    kept.host.assert_rate(1, 10..90, 5_000_000 * 7 / 10);
    assert!(kept.done(0) >= 4, "{} syncs", kept.done(0));
}
