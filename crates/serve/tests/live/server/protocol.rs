//! Clients that follow the protocol get the answers that it specifies.

use weir_serve::{RingKind, ServerOptions};
use weir_wire::nbd::client::ClientHandshakeConfig;
use weir_wire::nbd::{CommandFlags, Errno, NbdCommand, TransmissionFlags};

use crate::server::client::{ONE, serve};
use crate::tools::raw::fua;
use crate::tools::{TestSite, pattern};

const NONE: CommandFlags = CommandFlags::EMPTY;

fn plain(export: &str) -> ClientHandshakeConfig {
    ClientHandshakeConfig {
        structured: false,
        meta_allocation: false,
        ..ClientHandshakeConfig::new(export)
    }
}

/// Returns the payload of a command, which is empty except for writes.
fn payload(command: NbdCommand, length: u32) -> Vec<u8> {
    let bytes = if command == NbdCommand::Write {
        length
    } else {
        0
    };
    vec![1; bytes as usize]
}

/// Compares random operations on a volume with the same operations on a vector of bytes.
fn model(bench: &TestSite, config: ClientHandshakeConfig) {
    let mut client = bench.connect_with(config).unwrap();
    let size = client.session.size;
    let mut bytes = client.read(0, size as u32);
    let mut rng = weir_core::random::Rng::new(77);
    let mut draw = |below: u64| rng.range(0, below - 1);
    for round in 0..300 {
        let offset = draw(size - 1);
        let longest = if round % 30 == 0 { 4 << 20 } else { 20_000 };
        let length = 1 + draw((size - offset).min(longest));
        let range = offset as usize..(offset + length) as usize;
        let flags = fua(round % 3 == 0);
        match draw(5) {
            0 | 1 => {
                let data = pattern(round, length as usize);
                let answer = client.call(NbdCommand::Write, flags, offset, length as u32, &data);
                assert_eq!(answer.error, None);
                bytes[range].copy_from_slice(&data);
            }
            2 => {
                let command = [NbdCommand::Trim, NbdCommand::WriteZeroes][round as usize % 2];
                let answer = client.call(command, flags, offset, length as u32, &[]);
                assert_eq!(answer.error, None);
                bytes[range].fill(0);
            }
            _ => assert!(
                client.read(offset, length as u32) == bytes[range],
                "round {round}"
            ),
        }
    }
    assert_eq!(client.call(NbdCommand::Flush, NONE, 0, 0, &[]).error, None);
    assert!(client.leave());
}

#[test]
fn a_volume_is_a_vector_of_bytes() {
    let bench = serve(ONE);
    model(&bench, ClientHandshakeConfig::new("v"));
    model(&bench, plain("v"));
}

#[test]
fn the_poll_ring_serves_like_io_uring() {
    let options = ServerOptions {
        ring: RingKind::Poll,
        ..ServerOptions::default()
    };
    model(
        &TestSite::beside(ONE, &options),
        ClientHandshakeConfig::new(""),
    );
}

#[test]
fn a_volume_works_under_every_policy_and_behind_a_model() {
    for policy in ["bfq", "contract"] {
        let text = format!(
            "drive.d = {{ policy = \"{policy}\", model = \"demo\" }}\n\
             volume.v = {{ drive = \"d\", size = \"4MiB\", max = {{ bandwidth = \"500MB/s\" }} }}\n"
        );
        model(&serve(&text), ClientHandshakeConfig::new("v"));
    }
}

#[test]
fn a_volume_works_behind_another_on_a_modelled_drive() {
    let stripe = "{ kind = \"stripe\", members = [\"samsung-970-pro\", \"samsung-860-500gb\"] }";
    for drive in ["\"plextor-px-256m5s\"", stripe] {
        let text = format!(
            "drive.d = {{ model = {drive} }}\n\
             volume.a = {{ drive = \"d\", size = \"200GB\" }}\n\
             volume.v = {{ drive = \"d\", size = \"4MiB\" }}\n"
        );
        model(&serve(&text), ClientHandshakeConfig::new("v"));
    }
}

#[test]
fn more_requests_than_the_limit_are_all_answered() {
    let bench = serve(ONE);
    let mut client = bench.connect("v");
    let data = pattern(1, 1 << 20);
    client.write(0, &data);
    // These are more requests than a connection may have outstanding. The others wait in the
    // socket.
    let mut wanted = std::collections::BTreeMap::new();
    for n in 0..500u64 {
        let (offset, length) = (n * 1999, 1 + (n * 37 % 1500) as u32);
        let cookie = client.send(NbdCommand::Read, NONE, offset, length, &[]);
        wanted.insert(cookie, offset as usize..offset as usize + length as usize);
    }
    while !wanted.is_empty() {
        let (cookie, answer) = client.receive().unwrap();
        assert!(answer.data == data[wanted.remove(&cookie).unwrap()]);
    }
}

#[test]
fn requests_longer_than_the_memory_guaranteed_are_answered() {
    let bench = serve(
        "limits = { arena = \"64MiB\", connections = 64 }\n\
         drive.d.policy = \"none\"\n\
         volume.v = { drive = \"d\", memory = true, size = \"64MiB\" }\n",
    );
    let mut client = bench.connect("v");
    let data = pattern(5, 24 << 20);
    client.write(12_345, &data);
    assert!(client.read(12_345, 24 << 20) == data);
    let mut others: Vec<_> = (0..4).map(|_| bench.connect("v")).collect();
    for other in &mut others {
        other.send(NbdCommand::Read, NONE, 12_345, 24 << 20, &[]);
    }
    // All clients read at the same time, because a client that does not take its answer for five
    // seconds while others wait for memory is disconnected.
    std::thread::scope(|scope| {
        for other in &mut others {
            scope.spawn(|| assert!(other.receive().unwrap().1.data == data));
        }
    });
}

#[test]
fn errors_are_answered_and_the_connection_lives_on() {
    let bench = serve(ONE);
    for config in [ClientHandshakeConfig::new("v"), plain("v")] {
        let mut client = bench.connect_with(config).unwrap();
        let end = client.session.size;
        let mut error = |command, flags, offset, length: u32| {
            let payload = payload(command, length);
            client.call(command, flags, offset, length, &payload).error
        };
        assert_eq!(
            error(NbdCommand::Read, NONE, end - 1, 2),
            Some(Errno::Inval)
        );
        assert_eq!(
            error(NbdCommand::Read, NONE, u64::MAX, 2),
            Some(Errno::Inval)
        );
        assert_eq!(error(NbdCommand::Read, NONE, 0, 0), Some(Errno::Inval));
        assert_eq!(
            error(NbdCommand::Write, NONE, end - 1, 100_000),
            Some(Errno::NoSpc)
        );
        assert_eq!(
            error(NbdCommand::WriteZeroes, NONE, end, 1),
            Some(Errno::NoSpc)
        );
        assert_eq!(
            error(NbdCommand::Unknown(99), NONE, 0, 1),
            Some(Errno::Inval)
        );
        assert_eq!(
            error(NbdCommand::Trim, CommandFlags::DF, 0, 1),
            Some(Errno::Inval)
        );
        assert_eq!(error(NbdCommand::Flush, NONE, 1, 0), Some(Errno::Inval));
        assert_eq!(error(NbdCommand::Cache, NONE, 0, 4096), None);
        let zeroes = CommandFlags::NO_HOLE | CommandFlags::FAST_ZERO;
        assert_eq!(error(NbdCommand::WriteZeroes, zeroes, 0, 4096), None);
        assert_eq!(error(NbdCommand::Read, NONE, 0, 512), None);
        assert!(client.leave());
    }
}

#[test]
fn a_read_only_volume_says_so() {
    let bench = serve(
        "drive.d.policy = \"none\"\n\
         volume.v = { drive = \"d\", memory = true, size = \"1MiB\", read_only = true }\n",
    );
    let mut client = bench.connect("v");
    assert!(client.session.flags.contains(TransmissionFlags::READ_ONLY));
    for command in [NbdCommand::Write, NbdCommand::Trim, NbdCommand::WriteZeroes] {
        let answer = client.call(command, NONE, 0, 512, &payload(command, 512));
        assert_eq!(answer.error, Some(Errno::Perm), "{command:?}");
    }
    assert_eq!(client.read(0, 512), [0; 512]);
}

#[test]
fn extents_follow_the_writes() {
    let bench = serve(ONE);
    let mut client = bench.connect("v");
    client.write(256 << 10, &[1; 100]);
    // Volumes in memory are allocated in chunks of 64 KiB. The state 3 is a hole that reads as
    // zeroes, and 0 is data.
    let chunk = 64 << 10;
    let all = client.call(NbdCommand::BlockStatus, NONE, 0, 16 << 20, &[]);
    assert_eq!(all.error, None);
    assert_eq!(
        all.extents,
        [(4 * chunk, 3), (chunk, 0), ((16 << 20) - 5 * chunk, 3)]
    );
    let one = client.call(
        NbdCommand::BlockStatus,
        CommandFlags::REQ_ONE,
        256 << 10,
        1 << 20,
        &[],
    );
    assert_eq!(one.extents, [(chunk, 0)]);
    client.call(NbdCommand::Trim, NONE, 0, 16 << 20, &[]);
    let all = client.call(NbdCommand::BlockStatus, NONE, 0, 16 << 20, &[]);
    assert_eq!(all.extents, [(16 << 20, 3)]);
}

#[test]
fn the_default_export_is_the_only_one() {
    let one = serve(ONE);
    assert!(one.connect_with(ClientHandshakeConfig::new("")).is_ok());
    assert!(one.connect_with(ClientHandshakeConfig::new("w")).is_err());
    let two = serve(
        "drive.d.policy = \"none\"\n\
         volume.v = { drive = \"d\", memory = true, size = \"1MiB\" }\n\
         volume.w = { drive = \"d\", memory = true, size = \"2MiB\" }\n",
    );
    assert!(two.connect_with(ClientHandshakeConfig::new("")).is_err());
    assert_eq!(two.connect("w").session.size, 2 << 20);
}

#[test]
fn connections_to_one_volume_see_each_other() {
    let bench = serve(ONE);
    let (mut a, mut b) = (bench.connect("v"), bench.connect("v"));
    assert!(a.session.flags.contains(TransmissionFlags::CAN_MULTI_CONN));
    a.write(99, b"from a");
    assert_eq!(b.read(99, 6), b"from a");
}

#[test]
fn a_max_is_kept() {
    let bench = serve(
        "drive.d.policy = \"none\"\n\
         volume.v = { drive = \"d\", memory = true, size = \"1MiB\", max = { iops = 100 } }\n",
    );
    let mut client = bench.connect("v");
    let started = std::time::Instant::now();
    for _ in 0..31 {
        client.read(0, 512);
    }
    // The first request passes immediately, and each of the other 30 waits for 10 ms.
    assert!(started.elapsed() >= std::time::Duration::from_millis(290));
}
