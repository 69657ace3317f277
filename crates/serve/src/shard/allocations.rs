//! Tests that count the cost of requests on the shard's thread. At steady state, a request
//! allocates no memory, and requests are not submitted to a full layer in vain.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use weir_core::random::Rng;
use weir_uring::Backend;
use weir_wire::nbd::{CommandFlags, NbdCommand, NbdRequest, REQUEST_LEN, SIMPLE_REPLY_LEN};
use weir_wire::ublk::{DESCRIPTOR_LEN, UblkDescriptor, UblkRules};

use super::*;
use crate::front::ublk::FakeUblkQueue;
use crate::places::Ticket;

/// A shard that this thread runs, and its clients.
struct ShardBench {
    shard: Shard,
    clients: Vec<UnixStream>,
    _mailbox: Sender<Mail>,
}

impl ShardBench {
    /// Serves `config` with two clients of each of its volumes.
    fn new(config: &str) -> Self {
        Self::with_clients(config, 2)
    }

    /// Serves `config` with `each` clients of each of its volumes, one of each volume before the
    /// next of each.
    fn with_clients(config: &str, each: usize) -> Self {
        let text = format!("listen.nbd = [\"unix:/run/weir.sock\"]\n{config}");
        let config = weir_config::parse("test.toml", &text);
        let config = config.unwrap();
        let mut opened = crate::setup::open(&config, &mut crate::backend::open, 1).unwrap();
        let (mailbox, mail) = channel();
        let setup = ShardSetup {
            number: 0,
            clock: ServerClock::start(),
            limits: config.limits,
            priority: config.process.priority,
            ring: RingConfig {
                backend: Backend::Uring,
                arena_bytes: 16 << 20,
                ..RingConfig::default()
            },
            drives: opened.shards.remove(0),
            journal: 1 << 20,
        };
        let mut bench = Self {
            shard: Shard::new(setup, mail).unwrap(),
            clients: Vec::new(),
            _mailbox: mailbox,
        };
        for export in opened
            .exports
            .iter()
            .cycle()
            .take(each * opened.exports.len())
        {
            let (ours, theirs) = UnixStream::pair().unwrap();
            theirs.set_nonblocking(true).unwrap();
            bench.shard.arrive(ClientArrival {
                id: bench.clients.len() as u64,
                peer: String::new(),
                drive: export.place.drive,
                space: export.place.space,
                volume: export.name.clone(),
                front: crate::front::nbd::agreed(ours.into(), export),
                ticket: Ticket::uncounted(0),
                is_inherited: false,
            });
            bench.clients.push(theirs);
        }
        bench
    }

    /// Adds to the volume `v` a block device whose requests never end.
    fn add_device(&mut self, descriptors: Vec<UblkDescriptor>) {
        let rules = UblkRules {
            sectors: 2048,
            read_only: false,
            longest: 128 << 10,
            discard: 1 << 20,
            write_zeroes: 1 << 20,
        };
        self.shard.arrive(ClientArrival {
            id: 0,
            peer: String::new(),
            drive: 0,
            space: 0,
            volume: "v".to_owned(),
            front: Box::new(FakeUblkQueue { rules, descriptors }),
            ticket: Ticket::uncounted(0),
            is_inherited: false,
        });
    }

    /// Runs the shard until `requests` more requests have completed. Returns the number of
    /// allocations.
    fn turn_until_done(&mut self, requests: u64) -> u64 {
        let counters = |bench: &Self| bench.shard.drives[0].layer.layer().counters();
        let end = counters(self).done + requests;
        let mut count = 0;
        while counters(self).done < end {
            assert!(self.shard.clients.len() > 0, "the device is gone");
            count += allocation_counter::measure(|| {
                assert!(self.shard.turn().unwrap() == leave::DrainState::No);
            })
            .count_total;
        }
        count
    }

    /// Sends `bytes` from every client, and runs the shard until each has received `expected`
    /// bytes. Returns the number of the shard's allocations.
    fn exchange(&mut self, bytes: &[u8], expected: usize) -> u64 {
        let mut sent = vec![0; self.clients.len()];
        let mut got = vec![0; self.clients.len()];
        let mut into = vec![0; 64 << 10];
        let mut count = 0;
        while got.iter().any(|&got| got < expected) {
            for (n, client) in self.clients.iter_mut().enumerate() {
                // Sending in parts lets the payloads of all clients arrive at the same time.
                let end = bytes.len().min(sent[n] + 20_000);
                sent[n] += waits(client.write(&bytes[sent[n]..end]));
                got[n] += waits(client.read(&mut into));
            }
            // The shard must not wait for clients, because they run on this thread.
            self.shard.ring.waker().wake();
            count += allocation_counter::measure(|| {
                assert!(self.shard.turn().unwrap() == leave::DrainState::No);
            })
            .count_total;
        }
        assert!(got.iter().all(|&got| got == expected));
        count
    }
}

fn waits(result: io::Result<usize>) -> usize {
    match result {
        Ok(count) => count,
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        Err(error) => panic!("{error}"),
    }
}

fn request(command: NbdCommand, offset: u64, length: u32) -> Vec<u8> {
    let request = NbdRequest {
        command,
        flags: CommandFlags::EMPTY,
        cookie: 1,
        offset,
        length,
    };
    let mut bytes = request.encode().to_vec();
    bytes.resize(REQUEST_LEN + request.payload_len() as usize, 7);
    bytes
}

/// Returns the number of allocations in twenty rounds of reads, writes and flushes, at the best of
/// twenty attempts.
fn allocations(config: &str) -> u64 {
    let mut bench = ShardBench::new(config);
    let mut bytes = Vec::new();
    for n in 0..8 {
        bytes.extend(request(NbdCommand::Read, n * 12_288, 4096));
        bytes.extend(request(NbdCommand::Write, n * 12_288, 4096));
    }
    bytes.extend(request(NbdCommand::Write, 65_536, 100_000));
    bytes.extend(request(NbdCommand::Read, 65_536, 100_000));
    bytes.extend(request(NbdCommand::Flush, 0, 0));
    // Nine reads, nine writes and a flush are answered with 19 headers, and the reads with data.
    let expected = 19 * SIMPLE_REPLY_LEN + 8 * 4096 + 100_000;
    // Vectors grow to the largest number of elements in use at a time. On a modelled drive, that
    // depends on the end times of pieces, so that vectors can grow once more later. An allocation
    // for each request would show in every attempt.
    let mut least = u64::MAX;
    for _ in 0..20 {
        let window = (0..20).map(|_| bench.exchange(&bytes, expected)).sum();
        least = least.min(window);
        if least == 0 {
            break;
        }
    }
    least
}

/// The modelled drive of these tests.
const MODEL: &str = "{ kind = \"null\", service = \"20us\", tags = 8, link = \"1GB/s\" }";

#[test]
fn the_allocation_counter_counts_a_shard() {
    if !has_uring() {
        return;
    }
    let text = "drive.d = {}\nvolume.v = { drive = \"d\", memory = true, size = \"1MiB\" }\n";
    let mut bench = ShardBench::new(text);
    // The first request fills empty vectors, so the counter must not be 0.
    let first = request(NbdCommand::Write, 0, 4096);
    assert!(bench.exchange(&first, SIMPLE_REPLY_LEN) > 0);
}

/// Returns true if `io_uring` is available. The ring over poll(2) allocates windows in each call,
/// and servers normally use `io_uring`.
fn has_uring() -> bool {
    let config = RingConfig {
        backend: Backend::Uring,
        arena_bytes: 1 << 20,
        ..RingConfig::default()
    };
    let Err(error) = AnyRing::open(&config) else {
        return true;
    };
    println!("skipped: {error}");
    assert!(std::env::var_os("WEIR_NO_SKIP").is_none_or(|v| v != "1"));
    false
}

#[test]
fn a_request_allocates_no_memory_at_steady_state() {
    if !has_uring() {
        return;
    }
    for policy in ["none", "bfq", "contract"] {
        let memory = format!(
            "drive.d.policy = \"{policy}\"\n\
             volume.v = {{ drive = \"d\", memory = true, size = \"1MiB\" }}\n\
             volume.w = {{ drive = \"d\", memory = true, size = \"1MiB\", share = 200 }}\n"
        );
        let model = format!(
            "drive.d = {{ policy = \"{policy}\", model = {MODEL} }}\n\
             volume.v = {{ drive = \"d\", model = {MODEL}, size = \"1MiB\" }}\n"
        );
        for config in [&memory, &model] {
            assert_eq!(allocations(config), 0, "{config}");
        }
    }
}

/// The volume of the tests of clients that wait for each answer.
const SHALLOW: &str =
    "drive.d = {}\nvolume.v = { drive = \"d\", memory = true, size = \"1MiB\" }\n";

/// The send of an answer and the wait for the next request are one system call.
#[test]
fn a_client_that_waits_for_each_answer_takes_one_turn_a_request() {
    if !has_uring() {
        return;
    }
    let mut bench = ShardBench::with_clients(SHALLOW, 1);
    let mut client = bench.clients.remove(0);
    client.set_nonblocking(false).unwrap();
    let requests = 200;
    let reader = std::thread::spawn(move || {
        let read = request(NbdCommand::Read, 0, 4096);
        for _ in 0..requests {
            client.write_all(&read).unwrap();
            client
                .read_exact(&mut [0; SIMPLE_REPLY_LEN + 4096])
                .unwrap();
        }
    });
    let mut turns = 0;
    while bench.shard.drives[0].layer.layer().counters().done < requests {
        assert!(bench.shard.turn().unwrap() == leave::DrainState::No);
        turns += 1;
    }
    // The last answer leaves at the beginning of the next turn.
    bench.shard.ring.waker().wake();
    assert!(bench.shard.turn().unwrap() == leave::DrainState::No);
    reader.join().unwrap();
    // Other events, such as the end of a second, take turns as well.
    assert!(turns <= requests + 20, "{turns} turns");
}

/// The layer has room for a quarter of the requests of four clients.
#[test]
fn clients_submit_again_only_when_the_layer_has_room() {
    if !has_uring() {
        return;
    }
    let mut bench = ShardBench::new(&format!(
        "limits = {{ connections = 4, requests_per_connection = 64 }}\n\
         drive.d = {{ policy = \"none\", model = {MODEL}, limits = {{ requests = 64 }} }}\n\
         volume.v = {{ drive = \"d\", model = {MODEL}, size = \"1MiB\" }}\n\
         volume.w = {{ drive = \"d\", model = {MODEL}, size = \"1MiB\" }}\n"
    ));
    let bytes = request(NbdCommand::Read, 0, 512).repeat(64);
    for _ in 0..20 {
        bench.exchange(&bytes, 64 * (SIMPLE_REPLY_LEN + 512));
    }
    let counters = bench.shard.drives[0].layer.layer().counters();
    // Each request that completes makes room once, so there is at most one rejection for each of
    // the 20 x 4 x 64 requests.
    assert!(
        counters.rejected > 0 && counters.rejected <= 20 * 4 * 64,
        "{counters:?}"
    );
}

/// Returns the largest number of answers to a flood while a request of a promised client waited, in
/// twenty attempts. The first volume has a min. The clients of the second volume send as many
/// requests without data as they can.
fn answered_before(flood: &[u8]) -> usize {
    let mut bench = ShardBench::with_clients(
        "drive.d = { capacity = { read = \"400MB/s\", write = \"400MB/s\" } }\n\
         volume.a = { drive = \"d\", memory = true, size = \"1MiB\", min = \"20MB/s\" }\n\
         volume.b = { drive = \"d\", memory = true, size = \"1MiB\" }\n",
        100,
    );
    let mut into = vec![0; 1 << 20];
    let mut turn = |bench: &mut ShardBench| {
        let mut answered = 0;
        for client in bench.clients.iter_mut().skip(1).step_by(2) {
            // Only whole requests are written, because the socket holds more than that.
            while waits(client.write(flood)) == flood.len() {}
            answered += waits(client.read(&mut into)) / SIMPLE_REPLY_LEN;
        }
        bench.shard.ring.waker().wake();
        assert!(bench.shard.turn().unwrap() == leave::DrainState::No);
        answered
    };
    let mut most = 0;
    for _ in 0..20 {
        for _ in 0..20 {
            turn(&mut bench);
        }
        // Throttling of the flood must have ended, because this test is not about it.
        std::thread::sleep(Duration::from_millis(60));
        bench.clients[0]
            .write_all(&request(NbdCommand::Read, 0, 4096))
            .unwrap();
        let (mut got, mut answered) = (0, 0);
        while got < SIMPLE_REPLY_LEN + 4096 {
            answered += turn(&mut bench);
            got += waits(bench.clients[0].read(&mut vec![0; 8192]));
        }
        most = most.max(answered);
    }
    most
}

#[test]
fn a_flood_keeps_a_promised_client_waiting_for_a_few_turns_only() {
    if !has_uring() {
        return;
    }
    // Two turns at the cost of a refused request, and as many for answers that were made before the
    // request arrived.
    let bound = 4 * (schedule::TURN / schedule::REQUEST) as usize;
    for (name, one) in [
        ("refused", request(NbdCommand::Read, 1 << 40, 4096)),
        ("flush", request(NbdCommand::Flush, 0, 0)),
        ("cache", request(NbdCommand::Cache, 0, 4096)),
    ] {
        let most = answered_before(&one.repeat(100));
        println!("{name}: {most} answers before the promised client's");
        assert!(most <= bound, "{name}: {most} > {bound}");
    }
}

/// Returns the descriptor of a request of a block device.
fn descriptor(operation: u32, sectors: u32, first: u64) -> UblkDescriptor {
    let mut bytes = [0; DESCRIPTOR_LEN];
    bytes[0..4].copy_from_slice(&operation.to_ne_bytes());
    bytes[4..8].copy_from_slice(&sectors.to_ne_bytes());
    bytes[8..16].copy_from_slice(&first.to_ne_bytes());
    bytes
}

const ONE: &str =
    "drive.d.policy = \"none\"\nvolume.v = { drive = \"d\", memory = true, size = \"1MiB\" }\n";

/// Returns true if /dev/null accepts uring commands, as it does from Linux 6.0 on.
fn has_toy() -> bool {
    let mut bench = ShardBench::new(ONE);
    // Operation 2 is a flush.
    bench.add_device(vec![descriptor(2, 0, 0)]);
    for _ in 0..10 {
        bench.shard.turn().unwrap();
    }
    bench.shard.drives[0].layer.layer().counters().done > 0
}

#[test]
fn a_block_device_allocates_no_memory_at_steady_state() {
    if !has_uring() || !has_toy() {
        return;
    }
    let mut bench = ShardBench::new(ONE);
    // A read of 4 KiB, a read of 128 KiB, a flush, a discard and a write of zeroes. There is no
    // write, because /dev/null provides no payload.
    let places = [
        (0, 8, 0),
        (0, 256, 64),
        (2, 0, 0),
        (3, 64, 1024),
        (5, 8, 16),
    ];
    let places = places.map(|(operation, sectors, first)| descriptor(operation, sectors, first));
    bench.add_device(places.to_vec());
    let windows = (0..20).map(|_| bench.turn_until_done(2000));
    assert_eq!(windows.min(), Some(0));
}

/// Whatever the descriptors contain, requests are answered, and those that reach the core are
/// within the volume.
#[test]
fn any_descriptors_are_answered() {
    if !has_uring() || !has_toy() {
        return;
    }
    let mut rng = Rng::new(39);
    for _ in 0..200 {
        let mut bench = ShardBench::new(ONE);
        let mut places: Vec<UblkDescriptor> = Vec::new();
        for _ in 0..rng.range(1, 64) {
            let mut bytes = [0; DESCRIPTOR_LEN];
            bytes.fill_with(|| rng.range(0, 255) as u8);
            // Three of four descriptors are made plausible: a known operation, and a short range
            // near the beginning of the volume.
            if rng.range(0, 3) > 0 {
                bytes[0] %= 6;
                bytes[5..8].fill(0);
                bytes[10..16].fill(0);
            }
            places.push(bytes);
        }
        // A valid read makes sure that some requests complete.
        places.push(descriptor(0, 8, rng.range(0, 255) * 8));
        bench.add_device(places);
        bench.turn_until_done(50);
        let counters = bench.shard.drives[0].layer.layer().counters();
        assert_eq!(counters.rejected, 0, "{counters:?}");
    }
}
