//! The learned model of the drive, as samples show it.

use super::*;
use crate::sample::{Sample, SampleMask};
use crate::testing::bandwidth;

#[test]
fn the_cost_and_the_latency_of_a_piece_are_sampled() {
    let elevator = elevator::Config::Contract(Config::default());
    // The stated link is a quarter of the actual one.
    let pipe = PIPE.link(4 * LINK);
    let clients = [READER; 4];
    let host = run_on(pipe, elevator, &clients, 1);
    let mut drive = None;
    host.layer
        .sample(SampleMask::DRIVE, &mut |sample| drive = Some(sample));
    let Some(Sample::Drive {
        read, delay, away, ..
    }) = drive
    else {
        panic!("nothing was learned");
    };
    // 64 KiB at 1 GB/s take 66 us. The 30 us of a request are shared by many requests.
    let took = read.as_nanos();
    assert!((45_000..90_000).contains(&took), "{took}");
    assert!(delay.as_nanos() <= PIPE.service + 10_000, "{delay:?}");
    assert_eq!(away.as_nanos() / 200_000, 0, "it does not seek");
}

/// A drive that takes one command at a time never has pieces that wait for one another. It still
/// shows its speed, because all of its tags are in use.
#[test]
fn a_drive_with_one_tag_is_given_pieces_as_large_as_it_needs() {
    let pipe = PIPE
        .stated(Some(CAPACITY.read(700_000_000).write(700_000_000)))
        .link(1_000_000_000_000)
        .service(188_000)
        .tags(1);
    let reader = READER.length(1024 * KIB).depth(8).with(min(200_000_000));
    let small = SMALL.with(
        Contract::DEFAULT
            .class(Class::Realtime)
            .max(bandwidth(2_000_000)),
    );
    let kept = contract_on(pipe, &[small, reader, reader], 3);
    for reader in 1..3 {
        kept.assert_rate(reader, 10..30, 200_000_000);
    }
}

/// Flash that programs for longer than it reads, and three clients that read and write with a queue
/// depth of 1. The first client has a min.
fn programming(stable: bool) -> (Pipe, [Client; 3]) {
    let pipe = PIPE
        .stated(Some(CAPACITY.read(80_000_000).write(80_000_000)))
        .service(200_000)
        .program(1_500_000);
    let target = Client {
        length: 16 * KIB,
        depth: 1,
        other: writes(20, stable),
        contract: Some(min(36_000_000)),
        ..READER
    };
    let other = target.think(400_000).with(Contract::DEFAULT);
    (pipe, [target, other, other])
}

/// The writes of a client take longer than its reads. That does not show that the drive had other
/// work.
#[test]
fn a_write_that_takes_its_time_does_not_show_hidden_work() {
    for stable in [false, true] {
        let (pipe, clients) = programming(stable);
        let none = run_on(pipe, elevator::Config::None, &clients, 4);
        let kept = contract_on(pipe, &clients, 4);
        let worst = kept.tally(0).worst_second_bytes(0, 40);
        assert!(worst >= 36_000_000, "{worst}");
        let (all, whole) = (kept.all(), none.all());
        assert!(all * 100 >= whole * 90, "{stable}: {all} of {whole}");
    }
}

/// A stable write is on stable storage when it completes, whatever other work the drive hides.
#[test]
fn a_completed_stable_write_hides_no_work() {
    let hidden = |stable| {
        // The drive stalls from 0.5 s to 1 s, so that some request is late.
        let (pipe, clients) = programming(stable);
        let pipe = pipe.frozen([SECOND / 2, SECOND]);
        let elevator = elevator::Config::Contract(Config::default());
        let mut host = host(elevator, pipe, &clients[..1]);
        let mut most = 0;
        for tenth in 5..15 {
            host.run(tenth * SECOND / 10);
            host.layer.sample(SampleMask::DRIVE, &mut |sample| {
                if let Sample::Drive { hidden, .. } = sample {
                    most = most.max(hidden.as_nanos());
                }
            });
        }
        most
    };
    assert!(hidden(false) > 0, "it stood still with something to write");
    assert_eq!(hidden(true), 0);
}
