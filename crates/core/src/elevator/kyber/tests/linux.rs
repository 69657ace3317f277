//! Rates and depths compared with those of Linux.
//!
//! The values of Linux 6.1 for the same clients were measured on `null_blk` (`irqmode=2
//! completion_nsec=3000000 hw_queue_depth=16`, one queue, `nr_requests` 64) with fio 3.33
//! (`--direct=1 --ioengine=libaio --bs=4k --ramp_time=1 --runtime=6`, random offsets in 16 GiB), in
//! virtual time with processors that take no time. The depths are those of `read_tokens` and
//! `write_tokens` in debugfs, sampled every 50 ms.
//!
//! After a command has completed, sometimes its client sends the next request first, and sometimes
//! Linux first searches for a request to dispatch. Both orders are run, and the rates of Linux must
//! be between theirs.

use super::{Config, tokens};
use crate::elevator::scripted::{CompletionOrder, ScriptedHost};
use crate::{Op, PriorityClass, Span};
use std::vec::Vec;

const SERVICE: u64 = 3_000_000;
const SECOND: u64 = 1_000_000_000;

/// The results of a run.
struct KyberRun {
    /// Requests per second of the reader and of the writer, from the second second to the seventh.
    rates: [u64; 2],
    /// The depths of reads and writes after each change.
    depths: Vec<[u32; 2]>,
    /// The time of the last change, in milliseconds.
    changed: u64,
}

/// Runs a reader and a writer with `outstanding` requests each.
fn run(config: &Config, outstanding: [u32; 2], order: CompletionOrder) -> KyberRun {
    let mut host = ScriptedHost::pulling_ahead(*config, (16, 1), 64, (SERVICE, 1));
    let clients = [(Op::Read, outstanding[0]), (Op::Write, outstanding[1])];
    let clients = clients.map(|(op, depth)| (host.open(PriorityClass::BestEffort), op, depth));
    let mut counts = [0; 2];
    let mut depths = std::vec![[256, 128]];
    let mut changed = 0;
    host.compete(&clients, order, 7 * SECOND, |host, client| {
        counts[client] += u64::from(host.now >= SECOND);
        let [(read, _), (write, _), ..] = tokens(&host.layer);
        if depths.last() != Some(&[read, write]) {
            depths.push([read, write]);
            changed = host.now / 1_000_000;
        }
    });
    KyberRun {
        rates: counts.map(|n| n / 6),
        depths,
        changed,
    }
}

/// Checks that Linux's rates are between those of the two orders, and that its depths are those of
/// the second order. Returns the time of the last change of the depths.
fn check(config: &Config, outstanding: [u32; 2], linux: [u64; 2], depths: &[[u32; 2]]) -> u64 {
    let asks = run(config, outstanding, CompletionOrder::AsksFirst);
    let looks = run(config, outstanding, CompletionOrder::LooksFirst);
    for (n, linux) in linux.into_iter().enumerate() {
        let (a, b) = (asks.rates[n], looks.rates[n]);
        std::println!("{outstanding:?}: {a} or {b}, Linux {linux}");
        // 5 % for the time that a command takes on its way.
        let between = 95 * a.min(b)..=105 * a.max(b);
        assert!(
            between.contains(&(100 * linux)),
            "{a} or {b}, Linux {linux}"
        );
    }
    assert_eq!(looks.depths, depths);
    looks.changed
}

/// The p99 of writes is in the last quarter of their target, so writes keep their tokens although
/// reads are too slow.
#[test]
fn a_congested_drive_and_writes_that_are_just_in_time() {
    let default = Config::default();
    check(&default, [32, 8], [3_976, 1_322], &[[256, 128]]);
}

/// Both domains miss their targets by so much that neither gives up tokens.
#[test]
fn a_congested_drive_with_both_domains_over_their_targets() {
    let config = Config {
        read_lat_nsec: Span::from_millis(5),
        write_lat_nsec: Span::from_millis(2),
    };
    check(&config, [8, 32], [1_766, 3_554], &[[256, 128]]);
}

/// Writes never meet their target, and reads always do.
#[test]
fn reads_give_their_places_to_writes() {
    let config = Config {
        read_lat_nsec: Span::from_secs(1),
        write_lat_nsec: Span::from_micros(500),
    };
    let depths = [[256, 128], [64, 128], [16, 128], [4, 128], [1, 128]];
    let changed = check(&config, [32, 8], [546, 2_610], &depths);
    // In Linux, the last change was 1.7 s after the clients started, with samples every 50 ms.
    assert!((1_500..=1_900).contains(&changed), "{changed}");
}
