//! What clients that do not keep to the protocol, or do not read, can do: nothing to others.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use weir_wire::nbd::client::HandshakeConfig;
use weir_wire::nbd::{Command, CommandFlags, REQUEST_LEN, Request};

use crate::client::{Bench, ONE, pattern, serve};

const NONE: CommandFlags = CommandFlags::EMPTY;

/// Bytes of this process in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// True once the peer has closed, whatever it has sent before.
fn closes(socket: &mut impl Read) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match socket.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn garbage_ends_its_connection_only() {
    let bench = serve(ONE);
    let mut honest = bench.connect("v");
    honest.write(0, &pattern(3, 100_000));
    for seed in 0..20 {
        let mut socket = bench.socket();
        let _ = socket.write_all(&pattern(seed, 10_000));
        assert!(closes(&mut socket), "in the handshake");
        let mut client = bench.connect("v");
        client.send(Command::Read, NONE, 0, 100_000, &[]);
        let _ = client.socket.write_all(&pattern(seed, 10_000));
        assert!(closes(&mut client.socket), "in the transmission phase");
        assert!(honest.read(0, 100_000) == pattern(3, 100_000));
    }
}

#[test]
fn a_payload_beyond_all_bounds_ends_the_connection() {
    let bench = serve(ONE);
    let mut client = bench.connect("v");
    client.send(Command::Write, NONE, 0, u32::MAX, &[]);
    assert!(closes(&mut client.socket));
    // One that is only longer than allowed is skipped.
    let bench = serve(&format!("limits.request_size = \"1MiB\"\n{ONE}"));
    let mut client = bench.connect("v");
    let answer = client.call(Command::Write, NONE, 0, 2 << 20, &vec![1; 2 << 20]);
    assert_eq!(answer.error, Some(weir_wire::nbd::Errno::Inval));
    assert_eq!(client.read(0, 10), [0; 10]);
}

#[test]
fn a_client_that_stops_in_the_middle_harms_nobody() {
    let bench = serve(ONE);
    let mut stopped = Vec::new();
    for length in [1, REQUEST_LEN - 1, REQUEST_LEN, REQUEST_LEN + 5000] {
        let mut client = bench.connect("v");
        let mut bytes = [0; REQUEST_LEN];
        let request = Request {
            command: Command::Write,
            flags: NONE,
            cookie: 1,
            offset: 0,
            length: 1 << 20,
        };
        request.encode(&mut bytes);
        let mut bytes = bytes.to_vec();
        bytes.extend(vec![7; 5000]);
        client.socket.write_all(&bytes[..length]).unwrap();
        stopped.push(client);
    }
    let mut honest = bench.connect("v");
    honest.write(0, &[1; 5000]);
    drop(stopped);
    // What was not sent whole was not written.
    assert_eq!(honest.read(0, 5000), [1; 5000]);
}

#[test]
fn handshakes_that_stall_do_not_keep_others_out() {
    let bench = serve(&format!(
        "limits = {{ handshake_timeout = \"200ms\", connections = 400 }}\n{ONE}"
    ));
    let mut stalled: Vec<_> = (0..300).map(|_| bench.socket()).collect();
    let mut honest = bench.connect("v");
    honest.write(0, b"here");
    for socket in &mut stalled {
        assert!(closes(socket));
    }
    assert_eq!(honest.read(0, 4), b"here");
}

#[test]
fn there_are_no_more_connections_than_configured() {
    let bench = serve(&format!("limits.connections = 3\n{ONE}"));
    let mut some: Vec<_> = (0..3).map(|_| bench.connect("v")).collect();
    assert!(bench.connect_with(HandshakeConfig::new("v")).is_err());
    assert!(some.pop().unwrap().leave());
    let deadline = Instant::now() + Duration::from_secs(10);
    while bench.connect_with(HandshakeConfig::new("v")).is_err() {
        assert!(Instant::now() < deadline, "the place is free again");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Fills the socket with reads of 128 KiB and never takes an answer.
fn deaf(bench: &Bench) -> crate::client::Client {
    let mut client = bench.connect("v");
    client.socket.set_nonblocking(true).unwrap();
    let mut bytes = [0; REQUEST_LEN];
    for cookie in 0..1_000 {
        let request = Request {
            command: Command::Read,
            flags: NONE,
            cookie,
            offset: 0,
            length: 128 << 10,
        };
        request.encode(&mut bytes);
        if client.socket.write_all(&bytes).is_err() {
            break;
        }
    }
    client
}

#[test]
fn clients_that_never_read_leave_memory_bounded_and_others_served() {
    let bench = serve(ONE);
    let before = resident();
    let mut honest = bench.connect("v");
    honest.write(0, &pattern(8, 1 << 20));
    let mut slow: Vec<_> = (0..200).map(|_| deaf(&bench)).collect();
    let started = Instant::now();
    let mut answered = 0;
    while answered < 200 || started.elapsed() < Duration::from_millis(300) {
        assert!(honest.read(4096, 128 << 10) == pattern(8, 1 << 20)[4096..4096 + (128 << 10)]);
        honest.write(1 << 20, &vec![answered as u8; 64 << 10]);
        answered += 1;
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 256 << 20, "{} MiB", grown >> 20);
    // And they are served as soon as they read.
    for client in slow.iter_mut().step_by(50) {
        client.socket.set_nonblocking(false).unwrap();
        for _ in 0..100 {
            let (_, answer) = client.receive().unwrap();
            assert_eq!(answer.data.len(), 128 << 10);
        }
    }
}

#[test]
fn clients_that_announce_and_do_not_send_leave_room_for_others() {
    let bench = serve(&format!("limits.arena = \"64MiB\"\n{ONE}"));
    let mut stingy = Vec::new();
    for _ in 0..100 {
        let mut client = bench.connect("v");
        client.send(Command::Write, NONE, 0, 16 << 20, &[1, 2, 3]);
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
fn a_request_beyond_what_is_guaranteed_is_served_once_idle_hogs_are_ended() {
    let bench = serve(&format!(
        "limits = {{ arena = \"64MiB\", connections = 256 }}\n{ONE}"
    ));
    let mut honest = bench.connect("v");
    let slow: Vec<_> = (0..100).map(|_| deaf(&bench)).collect();
    // Wait until they hold what they can get.
    for _ in 0..20 {
        honest.read(0, 4096);
    }
    assert_eq!(honest.read(0, 12 << 20).len(), 12 << 20);
    drop(slow);
}

#[test]
fn clients_that_come_and_go_in_the_middle_of_everything_leave_nothing_behind() {
    let bench = serve(
        "listen.metrics = \"127.0.0.1:0\"\n\
         limits = { arena = \"32MiB\", connections = 64, request_size = \"16MiB\" }\n\
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
    // Everything they had is free again: this takes more than half of the memory.
    let mut last = bench.connect("v");
    assert_eq!(last.read(0, 12 << 20).len(), 12 << 20);
    assert!(last.leave());
    let deadline = Instant::now() + Duration::from_secs(10);
    while !crate::metrics::get(&bench, "GET /metrics HTTP/1.1\r\n\r\n")
        .contains("weir_drive_live{drive=\"d\"} 0\n")
    {
        assert!(
            Instant::now() < deadline,
            "requests of clients long gone are still there"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a lot, reads some answers, and goes without a word.
fn rude(client: &mut crate::client::Client, seed: u64) {
    let mut rng = weir_random::Rng::new(seed);
    let mut draw = |below: u64| rng.range(0, below - 1);
    let (count, mut sent) = (1 + draw(60), 0);
    for _ in 0..count {
        let (offset, length) = (draw(8 << 20), 1 + draw(200_000) as u32);
        match draw(6) {
            0 => client.send(
                Command::Write,
                NONE,
                offset,
                length,
                &vec![9; length as usize],
            ),
            1 => client.send(Command::Flush, NONE, 0, 0, &[]),
            2 => client.send(Command::Trim, CommandFlags::FUA, offset, length, &[]),
            3 => client.send(Command::BlockStatus, NONE, offset, length, &[]),
            _ => client.send(Command::Read, NONE, offset, length, &[]),
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
