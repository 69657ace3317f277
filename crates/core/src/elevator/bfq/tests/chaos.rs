//! Random clients and tunables, under which no client may starve.

use crate::elevator::bfq::{Charge, Config};
use crate::elevator::closed_loop::{self, Client, RANDOM, SECOND, STREAMER, ms, nth};
use crate::random::Rng;
use crate::{Op, Span};
use std::vec::Vec;

struct ChaosRandom(Rng);

impl ChaosRandom {
    fn draw(&mut self, n: u64) -> u64 {
        self.0.range(0, n - 1)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.draw(of.len() as u64) as usize]
    }

    fn config(&mut self) -> Config {
        Config::default()
            .slice_idle(Span::from_micros(self.pick(&[0, 100, 8_000])))
            .max_budget(self.pick(&[0, 1, 100, 1_500]))
            .timeout_sync(Span::from_millis(self.pick(&[1, 20, 125])))
            .strict_guarantees(self.draw(6) == 0)
            .charge(self.pick(&[Charge::Linux, Charge::Service]))
            .async_charge_factor(self.pick(&[1, 3]))
            .seeky_threshold(self.pick(&[0, 4, 19, 32]))
            .back_seek_max(self.pick(&[0, 16 * 1024]))
            .fifo_expire_sync(Span::from_millis(self.pick(&[0, 125])))
            .bounded()
    }
}

/// The duration of a run in seconds.
const RUN: u64 = 4;

/// Returns for each client of a random mix the longest time without a completion and its bound, in
/// milliseconds.
fn gaps(seed: u64) -> Vec<(u64, u64)> {
    let mut random = ChaosRandom(Rng::new(seed));
    let config = Config {
        strict_guarantees: false,
        slice_idle: Span::from_millis(random.pick(&[0, 2, 8])),
        timeout_sync: Span::from_millis(random.pick(&[20, 125])),
        charge: Charge::Linux,
        low_latency: false,
        injection: false,
        ..random.config()
    };
    // The longest turn, the idling after it, and 5 ms for requests that are still in the drive.
    let turn = (config.timeout_sync + config.slice_idle).as_nanos() / 1_000_000 + 5;
    let charged = u64::from(config.async_charge_factor);
    // A turn may exceed its budget by one request. A client with requests of 128 KiB (256 sectors)
    // therefore costs one with requests of 4 KiB (8 sectors) as many turns as fit into such an
    // excess. A measured budget is far larger than both.
    let budget = u64::from(config.max_budget);
    let turns = if budget == 0 {
        1
    } else {
        (budget + 256).div_ceil(budget.max(8))
    };
    let shares = [1, 2, 4].map(|share| (share * 50, None));
    let mut host = closed_loop::host(config, &shares);
    let clients = 2 + random.draw(6);
    // A client in the group of the smallest share waits for one turn of each other client there,
    // and for turns of the other groups: the shares are 1 : 2 : 4, which is 7 in total. A writer is
    // charged several times for its writes.
    let mut bounds = Vec::new();
    for _ in 0..clients {
        let client = random.pick(&[STREAMER, RANDOM]);
        let client = Client {
            depth: 1 + random.draw(8) as u32,
            think: random.pick(&[0, 0, ms(1), ms(5)]),
            op: random.pick(&[Op::Read, Op::Read, Op::Write]),
            ..client.of(nth(random.draw(3) as usize))
        };
        let charged = if client.op == Op::Write { charged } else { 1 };
        bounds.push(turn * turns * 7 * clients * charged);
        host.add(client);
    }
    host.run(RUN * SECOND);
    let gaps = (0..clients as usize).map(|c| host.gap_ms(c));
    gaps.zip(bounds).collect()
}

#[test]
fn every_client_is_served_within_its_bound() {
    let (mut telling, mut all) = (0, 0);
    for seed in 0..250 {
        for (gap, most) in gaps(seed) {
            assert!(gap <= most, "seed {seed}: {gap} of {most} ms");
            telling += u32::from(most < RUN * 1_000);
            all += 1;
        }
    }
    // A bound that is longer than the run proves nothing.
    assert!(telling > all / 4, "few could starve: {telling} of {all}");
}
