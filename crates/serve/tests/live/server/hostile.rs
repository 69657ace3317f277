//! Clients that stop sending, do not read, or disconnect at any time cannot harm others.
//! `live/hostile.rs` has more such clients.

use std::io::Write;

use weir_wire::nbd::{CommandFlags, NbdCommand, REQUEST_LEN};

use crate::server::client::{ONE, serve};
use crate::tools::metrics::MetricsSnapshot;
use crate::tools::raw::{deaf, header};
use crate::tools::until;

const NONE: CommandFlags = CommandFlags::EMPTY;

#[test]
fn a_payload_that_is_longer_than_allowed_is_skipped() {
    let bench = serve(&format!("limits.request_size = \"1MiB\"\n{ONE}"));
    let mut client = bench.connect("v");
    // The payload is skipped, so the next request is parsed correctly.
    let answer = client.call(NbdCommand::Write, NONE, 0, 2 << 20, &vec![1; 2 << 20]);
    assert_eq!(answer.error, Some(weir_wire::nbd::Errno::Inval));
    assert_eq!(client.read(0, 10), [0; 10]);
}

#[test]
fn a_client_that_stops_within_a_request_harms_no_other_client() {
    let bench = serve(ONE);
    let mut stopped = Vec::new();
    // The write of 1 MiB stops within its header, after it, and within its payload.
    for length in [1, REQUEST_LEN - 1, REQUEST_LEN, REQUEST_LEN + 5000] {
        let mut client = bench.connect("v");
        let request = header(NbdCommand::Write, NONE, 1, 0, 1 << 20);
        let bytes = [&request[..], &[7; 5000]].concat();
        client.stream.write_all(&bytes[..length]).unwrap();
        stopped.push(client);
    }
    let mut honest = bench.connect("v");
    honest.write(0, &[1; 5000]);
    drop(stopped);
    // The incomplete writes had no effect.
    assert_eq!(honest.read(0, 5000), [1; 5000]);
}

#[test]
fn clients_that_do_not_send_their_payload_leave_memory_for_others() {
    let bench = serve(&format!("limits.arena = \"64MiB\"\n{ONE}"));
    let mut stingy = Vec::new();
    // Each client announces 16 MiB, which is 25 times the arena for all of them.
    for _ in 0..100 {
        let mut client = bench.connect("v");
        client.send(NbdCommand::Write, NONE, 0, 16 << 20, &[1, 2, 3]);
        stingy.push(client);
    }
    let mut honest = bench.connect("v");
    for round in 0..50 {
        let bytes = vec![round; 128 << 10];
        honest.write(0, &bytes);
        assert_eq!(honest.read(0, 128 << 10), bytes);
    }
}

#[test]
fn a_request_beyond_the_guaranteed_memory_is_served_after_evictions() {
    let bench = serve(&format!(
        "limits = {{ arena = \"64MiB\", connections = 256 }}\n{ONE}"
    ));
    let mut honest = bench.connect("v");
    let address = bench.server.addresses()[0].clone();
    let slow: Vec<_> = (0..100).map(|_| deaf(&address, "v", 128 << 10)).collect();
    // Until the slow clients have reserved as much memory as they can get.
    for _ in 0..20 {
        honest.read(0, 4096);
    }
    // An eighth of the arena is set aside, and half of the remaining 56 MiB is guaranteed in parts
    // of 112 KiB. The request needs 12 MiB of the other half, which the slow clients hold until
    // they are disconnected.
    assert_eq!(honest.read(0, 12 << 20).len(), 12 << 20);
    drop(slow);
}

#[test]
fn clients_that_come_and_go_in_the_middle_of_everything_leave_nothing_behind() {
    let bench = serve(
        "limits = { arena = \"32MiB\", connections = 64, request_size = \"16MiB\" }\n\
         drive.d = { policy = \"contract\", model = \"demo\" }\n\
         volume.v = { drive = \"d\", size = \"16MiB\" }\n\
         volume.w = { drive = \"d\", size = \"16MiB\", max = { bandwidth = \"40MB/s\" } }\n",
    );
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let bench = &bench;
            scope.spawn(move || {
                for round in 0..25u64 {
                    let name = if (thread + round) % 2 == 0 { "v" } else { "w" };
                    rude(&mut bench.connect(name), thread * 1000 + round);
                }
            });
        }
    });
    // All their memory is free again, because this request takes more than half of it.
    let mut last = bench.connect("v");
    assert_eq!(last.read(0, 12 << 20).len(), 12 << 20);
    assert!(last.leave());
    until("requests of clients long gone are still there", || {
        MetricsSnapshot::of(&bench.server).sum("weir_drive_live", &[]) < 1.0
    });
}

/// Sends many requests, reads some answers, and disconnects without a disconnect request.
fn rude(client: &mut crate::server::client::NbdTestClient, seed: u64) {
    let mut rng = weir_core::random::Rng::new(seed);
    let mut draw = |below: u64| rng.range(0, below - 1);
    let (count, mut sent) = (1 + draw(60), 0);
    for _ in 0..count {
        let (offset, length) = (draw(8 << 20), 1 + draw(200_000) as u32);
        match draw(6) {
            0 => client.send(
                NbdCommand::Write,
                NONE,
                offset,
                length,
                &vec![9; length as usize],
            ),
            1 => client.send(NbdCommand::Flush, NONE, 0, 0, &[]),
            2 => client.send(NbdCommand::Trim, CommandFlags::FUA, offset, length, &[]),
            3 => client.send(NbdCommand::BlockStatus, NONE, offset, length, &[]),
            _ => client.send(NbdCommand::Read, NONE, offset, length, &[]),
        };
        sent += 1;
        if draw(3) > 0 {
            assert!(client.receive().is_some());
            sent -= 1;
        }
    }
    for _ in 0..draw(sent + 1) {
        assert!(client.receive().is_some());
    }
}
