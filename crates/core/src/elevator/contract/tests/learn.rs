//! What is learned of the drive.

use super::*;
use crate::event::{Event, Mask, Publish};

/// The last of what was learned.
#[derive(Default)]
struct Last(Option<Event>);

impl Publish for Last {
    fn publish(&mut self, _now: Instant, event: Event) {
        self.0 = Some(event);
    }
}

#[test]
fn what_a_piece_costs_and_how_long_it_takes_are_sampled() {
    let elevator = elevator::Config::Contract(Config::default());
    // Stated is a quarter of what it can do.
    let pipe = Pipe {
        link: 4 * LINK,
        ..PIPE
    };
    let clients = [READER; 4];
    let mut host = Host::new(elevator, pipe, &clients, 1);
    host.layer.listen(Mask::LEARNED);
    let mut last = Last::default();
    host.play(1);
    host.layer.drain(&mut last);
    let Some(Event::Learned {
        read, delay, away, ..
    }) = last.0
    else {
        panic!("nothing was learned");
    };
    // 64 KiB at 1 GB/s, and the 30 us that many take at a time.
    let took = read.as_nanos();
    assert!((45_000..90_000).contains(&took), "{took}");
    assert!(delay.as_nanos() <= SERVICE + 10_000, "{delay:?}");
    assert_eq!(away.as_nanos() / 200_000, 0, "it does not seek");
}
