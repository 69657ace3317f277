//! What is learned of the drive.

use super::*;
use crate::sample::{Sample, Wanted};

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
    host.play(1);
    let mut drive = None;
    host.layer
        .sample(Wanted::DRIVE, &mut |sample| drive = Some(sample));
    let Some(Sample::Drive {
        read, delay, away, ..
    }) = drive
    else {
        panic!("nothing was learned");
    };
    // 64 KiB at 1 GB/s, and the 30 us that many take at a time.
    let took = read.as_nanos();
    assert!((45_000..90_000).contains(&took), "{took}");
    assert!(delay.as_nanos() <= SERVICE + 10_000, "{delay:?}");
    assert_eq!(away.as_nanos() / 200_000, 0, "it does not seek");
}
