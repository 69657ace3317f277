//! Drawn mixes of clients and tunables: nobody starves.

use crate::elevator::bfq::{Charge, Config};
use crate::elevator::closed_loop::{self, Client, RANDOM, SECOND, STREAMER, ms, nth};
use crate::random::Rng;
use crate::{Op, Span};
use std::vec::Vec;

struct Random(Rng);

impl Random {
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

/// Seconds that a mix of clients runs.
const RUN: u64 = 4;

/// The longest that each of a drawn mix of clients went without an answer, in milliseconds, and what it may be.
fn gaps(seed: u64) -> Vec<(u64, u64)> {
    let mut random = Random(Rng::new(seed));
    let config = Config {
        strict_guarantees: false,
        slice_idle: Span::from_millis(random.pick(&[0, 2, 8])),
        timeout_sync: Span::from_millis(random.pick(&[20, 125])),
        charge: Charge::Linux,
        low_latency: false,
        injection: false,
        ..random.config()
    };
    let turn = (config.timeout_sync + config.slice_idle).as_nanos() / 1_000_000 + 5;
    let charged = u64::from(config.async_charge_factor);
    // A turn may go beyond its budget by a request: a stream that sends 128 KiB pays for as many turns as fit in there of one that sends
    // 4 KiB. A budget that is not stated is far larger than either.
    let budget = u64::from(config.max_budget);
    let turns = if budget == 0 {
        1
    } else {
        (budget + 256).div_ceil(budget.max(8))
    };
    let shares = [1, 2, 4].map(|share| (share * 50, None));
    let mut host = closed_loop::host(config, &shares);
    let clients = 2 + random.draw(6);
    // One of k in the group of least share waits for one turn of each of the others there, and for seven of the other groups'
    // turns with each; a writer is charged several times for what it writes.
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
fn nobody_starves() {
    let (mut telling, mut all) = (0, 0);
    for seed in 0..250 {
        for (gap, most) in gaps(seed) {
            assert!(gap <= most, "seed {seed}: {gap} of {most} ms");
            telling += u32::from(most < RUN * 1_000);
            all += 1;
        }
    }
    assert!(telling > all / 4, "few could starve: {telling} of {all}");
}
