//! Bandwidth that is granted in ticks, as in Linux's `null_blk`.

use weir_core::{Instant, Span};

/// A budget of bytes that is refilled at the beginning of every tick.
///
/// It follows `null_blk` with `mbps` (`null_handle_throttled` and `nullb_bwtimer_fn` in
/// `drivers/block/null_blk/main.c`). A command that the budget does not cover waits for the next
/// tick, and all later commands wait as well. The rest of the budget is lost. The timer stops after
/// a tick in which no budget was used, and starts again with the next command.
///
/// There is one difference: a command that is larger than a whole budget would never pass in
/// `null_blk`. Here it waits for as many ticks as it needs.
#[derive(Debug)]
pub(super) struct Ticks {
    tick: Span,
    lump: u64,
    /// The beginning of the tick in which the last command passed, possibly in the future. `None`
    /// before the first command.
    began: Option<Instant>,
    left: u64,
}

impl Ticks {
    pub(super) fn new(tick: Span, lump: u64) -> Self {
        debug_assert!(tick > Span::ZERO && lump > 0);
        Self {
            tick,
            lump,
            began: None,
            left: lump,
        }
    }

    /// The time at which a command of `bytes` that arrives at `now` passes.
    pub(super) fn pass(&mut self, now: Instant, bytes: u32) -> Instant {
        let mut began = self.current(now);
        let bytes = u64::from(bytes);
        if bytes > self.left {
            // If the budget is untouched, the present tick is the first of those that the command
            // needs.
            if self.left < self.lump {
                began += self.tick;
            }
            let ticks = bytes.div_ceil(self.lump);
            began += self.tick.saturating_mul(ticks - 1);
            self.left = ticks * self.lump;
        }
        self.left -= bytes;
        self.began = Some(began);
        began.max(now)
    }

    /// The beginning of the tick that applies at `now`. A new tick refills the budget.
    fn current(&mut self, now: Instant) -> Instant {
        let began = self.began.unwrap_or(now);
        if now < began + self.tick {
            return began;
        }
        self.left = self.lump;
        // The timer has continued for one more tick, so that tick keeps its rhythm. After a longer
        // pause, the timer starts again with this command.
        if now < began + self.tick.saturating_mul(2) {
            began + self.tick
        } else {
            now
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Span::from_millis(n)
    }

    #[test]
    fn each_tick_grants_a_lump_and_its_unused_rest_is_lost() {
        let mut ticks = Ticks::new(Span::from_millis(20), 10_000);
        assert_eq!(ticks.pass(ms(3), 4096), ms(3));
        assert_eq!(ticks.pass(ms(4), 4096), ms(4));
        assert_eq!(ticks.pass(ms(4), 4096), ms(23), "1808 are left");
        assert_eq!(ticks.pass(ms(5), 1), ms(23), "behind the one before it");
        assert_eq!(ticks.pass(ms(30), 5_903), ms(30));
        assert_eq!(ticks.pass(ms(30), 1), ms(43));
    }

    #[test]
    fn the_timer_stops_after_an_unused_tick() {
        let mut ticks = Ticks::new(Span::from_millis(20), 10_000);
        ticks.pass(ms(0), 10_000);
        assert_eq!(ticks.pass(ms(39), 10_000), ms(39), "the tick from 20");
        assert_eq!(ticks.pass(ms(39), 1), ms(40));
        assert_eq!(ticks.pass(ms(85), 10_000), ms(85), "stopped at 80");
        assert_eq!(ticks.pass(ms(86), 1), ms(105));
    }

    #[test]
    fn a_command_larger_than_a_lump_takes_several() {
        let mut ticks = Ticks::new(Span::from_millis(20), 10_000);
        assert_eq!(ticks.pass(ms(0), 25_000), ms(40));
        assert_eq!(ticks.pass(ms(0), 5_000), ms(40));
        assert_eq!(ticks.pass(ms(0), 1), ms(60));
        assert_eq!(ticks.pass(ms(0), 10_001), ms(100));
    }
}
