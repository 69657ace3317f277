//! Runs the corpus of the fuzzers, and mutations of it.
//!
//! This file builds `corpus/TARGET/seed-*`. Run it with `WEIR_WRITE_CORPUS=1` to write them again.
//! A fuzzer found the inputs `found-*`. Together with the seeds, they reach all code that the
//! fuzzer reached.

use crate::fuzz;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::fuzz::ring::GUEST;
use weir_core::random::Rng;
use weir_wire::nbd::*;
use weir_wire::ring::split::{DESCRIPTOR, Descriptor};
use weir_wire::vhost;

/// A directory of the corpus, the fuzz target to run, and the seeds.
type FuzzTarget = (&'static str, fn(&[u8]), fn() -> Seeds);

const TARGETS: [FuzzTarget; 7] = [
    ("handshake", fuzz::nbd::handshake, handshake_seeds),
    ("requests", fuzz::nbd::requests, request_seeds),
    ("replies", fuzz::nbd::replies, reply_seeds),
    ("vhost", fuzz::vhost::messages, vhost_seeds),
    ("ring-device", fuzz::ring::device, device_seeds),
    ("ring-driver", fuzz::ring::driver, driver_seeds),
    ("ring-xen", fuzz::ring::xen, xen_seeds),
];

/// Inputs by the names of their files.
type Seeds = BTreeMap<&'static str, Vec<u8>>;

#[test]
fn seeds_are_committed_as_they_are_built() {
    for (target, _, seeds) in TARGETS {
        for (name, input) in seeds() {
            let path = directory(target).join(format!("seed-{name}"));
            if std::env::var_os("WEIR_WRITE_CORPUS").is_some() {
                fs::write(&path, &input).expect("the corpus can be written");
            }
            let committed = fs::read(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
            assert!(
                committed == input,
                "{path:?} is out of date: see the head of this file"
            );
        }
    }
}

#[test]
fn the_corpus_passes() {
    for (target, run, seeds) in TARGETS {
        let corpus = corpus(target);
        assert!(corpus.len() >= seeds().len(), "{target}: files are missing");
        for input in corpus {
            run(&input);
        }
    }
}

#[test]
fn mutations_of_the_corpus_pass() {
    for (target, run, _) in TARGETS {
        let corpus = corpus(target);
        // A fixed seed ("weir"), so that a failure can be repeated.
        let mut random = BoundedRandom(Rng::new(0x7765_6972));
        for round in 0..100_000 {
            let mut input = corpus[round % corpus.len()].clone();
            for _ in 0..=random.below(4) {
                mutate(&mut input, &corpus, &mut random);
            }
            run(&input);
        }
    }
}

fn directory(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target)
}

/// Returns the inputs of a target, in the order of their names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(directory(target)).expect("the corpus is there");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a file of the corpus").path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| fs::read(path).expect("a file of the corpus"))
        .collect()
}

struct BoundedRandom(Rng);

impl BoundedRandom {
    fn below(&mut self, bound: usize) -> usize {
        self.0.range(0, bound as u64 - 1) as usize
    }
}

fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut BoundedRandom) {
    let at = random.below(input.len() + 1);
    match random.below(6) {
        0 => input.truncate(at),
        1 => input.insert(at, random.below(256) as u8),
        2 => {
            let other = &corpus[random.below(corpus.len())];
            let from = random.below(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ if at == input.len() => input.push(0),
        3 => input[at] ^= 1 << random.below(8),
        4 => input[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
        _ => {
            input.remove(at);
        }
    }
}

/// Settings with every feature and with limits that are never reached.
const GENEROUS: [u8; fuzz::nbd::CONTROL_LEN] = [0b1_1110, 0xff, 64, 0xff, 1, 2, 3, 4];

fn with_control(control: [u8; fuzz::nbd::CONTROL_LEN], stream: &[&[u8]]) -> Vec<u8> {
    [&control[..], &stream.concat()].concat()
}

fn option(code: u32, data: &[u8]) -> Vec<u8> {
    let words = [code.to_be_bytes(), (data.len() as u32).to_be_bytes()];
    [&OPTION_MAGIC.to_be_bytes()[..], words.as_flattened(), data].concat()
}

fn counted(string: &str) -> Vec<u8> {
    [&(string.len() as u32).to_be_bytes(), string.as_bytes()].concat()
}

/// Encodes the data of INFO and GO with requests for the name, the description and the block sizes.
fn info(name: &str) -> Vec<u8> {
    [&counted(name)[..], &[0, 3, 0, 1, 0, 2, 0, 3]].concat()
}

fn meta(name: &str, query: &str) -> Vec<u8> {
    [&counted(name)[..], &[0, 0, 0, 1], &counted(query)].concat()
}

fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let words = [option, kind, data.len() as u32].map(u32::to_be_bytes);
    [
        &OPTION_REPLY_MAGIC.to_be_bytes()[..],
        words.as_flattened(),
        data,
    ]
    .concat()
}

fn handshake_seeds() -> Seeds {
    let mut seeds = client_seeds();
    seeds.append(&mut server_seeds());
    seeds
}

/// Inputs that clients send in the handshake.
fn client_seeds() -> Seeds {
    let go = option(OPT_GO, &info("alpha"));
    let select = option(OPT_SET_META_CONTEXT, &meta("alpha", BASE_ALLOCATION));
    let list = option(OPT_LIST, &[]);
    let everything = [
        option(OPT_STARTTLS, &[]),
        list.clone(),
        option(OPT_STRUCTURED_REPLY, &[]),
        option(OPT_LIST_META_CONTEXT, &meta("alpha", "base:")),
        select.clone(),
        go.clone(),
        b"the rest".to_vec(),
    ];
    let refused = [
        option(OPT_GO, &info("gamma")),
        option(OPT_GO, b"junk"),
        select.clone(),
    ];
    // Limits of 32 bytes of data, three options, and 17 bytes of output.
    let mut tight = GENEROUS;
    tight[1..4].copy_from_slice(&[1, 3, 1]);
    // Structured replies and a context are negotiated before TLS, and STARTTLS is repeated in it.
    let secured = [
        option(OPT_STRUCTURED_REPLY, &[]),
        select.clone(),
        option(OPT_GO, &info("beta")),
        option(OPT_STARTTLS, b"data"),
        option(OPT_STARTTLS, &[]),
        option(OPT_STARTTLS, &[]),
        option(OPT_LIST_META_CONTEXT, &meta("beta", "base:")),
        option(OPT_GO, &info("beta")),
    ];
    let secured = [&[0, 0, 0, 3], &secured.concat()[..]].concat();
    let tls = |mode: u8| {
        let mut control = GENEROUS;
        control[0] |= mode << 6;
        control
    };
    let client = |options: &[u8]| with_control(GENEROUS, &[&[0, 0, 0, 3], options]);
    Seeds::from([
        ("go", client(&go)),
        ("everything", client(&everything.concat())),
        ("tls-selective", with_control(tls(1), &[&secured])),
        ("tls-forced", with_control(tls(2), &[&secured])),
        ("export-name", client(&option(OPT_EXPORT_NAME, b"beta"))),
        ("abort", client(&option(OPT_ABORT, b"bye"))),
        ("info", client(&[option(OPT_INFO, &info("")), go].concat())),
        ("refused", client(&refused.concat())),
        (
            "tight",
            with_control(
                tight,
                &[&[0, 0, 0, 3], &list, &list, &option(99, &[0; 32]), &list],
            ),
        ),
        (
            "http",
            with_control(GENEROUS, &[b"GET / HTTP/1.1\r\nHost: alpha\r\n\r\n"]),
        ),
    ])
}

/// Inputs that servers send in the handshake.
fn server_seeds() -> Seeds {
    let ack = |option| reply(option, REP_ACK, &[]);
    let all = [
        ack(OPT_STRUCTURED_REPLY),
        reply(
            OPT_SET_META_CONTEXT,
            REP_META_CONTEXT,
            b"\0\0\0\x01base:allocation",
        ),
        ack(OPT_SET_META_CONTEXT),
        reply(
            OPT_GO,
            REP_INFO,
            &[0, 3, 0, 0, 0, 1, 0, 0, 0x10, 0, 2, 0, 0, 0],
        ),
        reply(
            OPT_GO,
            REP_INFO,
            &[0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0x85],
        ),
        ack(OPT_GO),
    ];
    let refusal = [
        reply(OPT_STRUCTURED_REPLY, REP_ERR_POLICY, b"no"),
        reply(OPT_GO, REP_ERR_UNKNOWN, b"no such export"),
    ];
    let knows_little = [
        reply(OPT_STRUCTURED_REPLY, REP_ERR_UNSUP, &[]),
        reply(OPT_GO, REP_ERR_UNSUP, &[]),
        vec![0, 0, 0, 0, 0, 0x10, 0, 0, 0, 1],
    ];
    // Bits 1 and 5: the export "alpha", by EXPORT_NAME.
    let mut by_export_name = GENEROUS;
    by_export_name[0] = 0b10_0010;
    let server = |replies: &[Vec<u8>]| {
        with_control(GENEROUS, &[b"NBDMAGICIHAVEOPT\x00\x03", &replies.concat()])
    };
    Seeds::from([
        ("server", server(&all)),
        ("server-refuses", server(&refusal)),
        ("server-knows-little", server(&knows_little)),
        (
            "server-old",
            with_control(by_export_name, &[b"NBDMAGICIHAVEOPT\x00\x01", &[0; 134]]),
        ),
    ])
}

fn request(command: u16, flags: u16, offset: u64, length: u32) -> Vec<u8> {
    let request = NbdRequest {
        command: NbdCommand::from_wire(command),
        flags: CommandFlags::from_bits(flags),
        cookie: 0x636f_6f6b_6965,
        offset,
        length,
    };
    request.encode().to_vec()
}

fn request_seeds() -> Seeds {
    // All features, 200 << 45 bytes, blocks of 512 bytes, payloads up to 4096 bytes, ranges up to
    // 8192.
    let able = [0xed, 0x0d, 200, 0x89, 64, 128, 0, 0];
    // Read-only, 200 << 2 bytes, blocks of 1 byte, no metadata contexts.
    let read_only = [0x02, 0, 200, 0, 64, 128, 0, 0];
    let one_of_each: Vec<u8> = [0, 4, 5, 6, 7]
        .map(|code| request(code, 0, 512, 512))
        .concat();
    let flags: Vec<u8> = [(0, 4), (0, 16), (6, 2), (6, 16), (7, 8), (1, 32)]
        .map(|(code, flags)| request(code, flags, 0, 0))
        .concat();
    Seeds::from([
        ("read", with_control(able, &[&request(0, 4, 4096, 4096)])),
        (
            "write",
            with_control(
                able,
                &[&request(1, 1, 0, 512), &[7; 512], &request(3, 0, 0, 0)],
            ),
        ),
        (
            "one-of-each",
            with_control(able, &[&one_of_each, &request(2, 0, 0, 0)]),
        ),
        ("flags", with_control(able, &[&flags])),
        (
            "refused",
            with_control(
                able,
                &[
                    &request(0, 0, u64::MAX, u32::MAX),
                    &request(6, 0, 1 << 60, 512),
                    &request(4, 0, 1, 1),
                    &request(5, 0, 0, 1 << 20),
                    &request(4711, 0, 0, 0),
                    &request(3, 0, 1, 1),
                ],
            ),
        ),
        (
            "read-only",
            with_control(
                read_only,
                &[
                    &request(0, 0, 0, 800),
                    &request(1, 0, 0, 1),
                    b"x",
                    &one_of_each,
                ],
            ),
        ),
        (
            "payload-too-long",
            with_control(able, &[&request(1, 0, 0, 8193)]),
        ),
        (
            "magic",
            with_control(able, &[&request(0, 0, 0, 512), &[0x25; 28]]),
        ),
    ])
}

fn reply_seeds() -> Seeds {
    let simple = encode_simple_reply(1, None);
    let data = encode_data_header(2, 4096, 16, false);
    let hole = encode_hole(2, 8192, 4096, false);
    let none = encode_none(2);
    let error = encode_error(3, Errno::Inval, true);
    let error_at = encode_error_offset(4, Errno::Io, 512, true);
    let mut message = Vec::new();
    append_error(&mut message, 5, Errno::NoSpc, "the drive is full", true);
    let extents = [
        Extent {
            length: 4096,
            flags: ExtentFlags::EMPTY,
        },
        Extent {
            length: 4096,
            flags: ExtentFlags::HOLE | ExtentFlags::ZERO,
        },
    ];
    let mut status = Vec::new();
    append_block_status(&mut status, 6, BASE_ALLOCATION_ID, &extents, true);
    // A hole without bytes is malformed.
    let mut broken = hole;
    broken[28..].fill(0);
    Seeds::from([
        ("simple", with_control(GENEROUS, &[&simple])),
        (
            "read",
            with_control(GENEROUS, &[&data, &[7; 16], &hole, &none]),
        ),
        (
            "errors",
            with_control(GENEROUS, &[&error, &error_at, &message]),
        ),
        ("status", with_control(GENEROUS, &[&status])),
        ("broken", with_control(GENEROUS, &[&none, &broken])),
        (
            "all",
            with_control(
                GENEROUS,
                &[&simple, &data, &[7; 16], &status, &message, &none],
            ),
        ),
    ])
}

/// Encodes a message of `vhost-user` as the front end sends it.
fn vhost(code: vhost::MessageCode, flags: u32, payload: &[u8]) -> Vec<u8> {
    let words = [code.0, flags, payload.len() as u32].map(u32::to_ne_bytes);
    [words.as_flattened(), payload].concat()
}

fn doubles(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

/// The messages that set up a queue.
fn vhost_ring(queue: u32) -> Vec<u8> {
    use vhost::MessageCode;
    let addresses = doubles(&[1 << 40, (1 << 40) + 4096, (1 << 40) + 8192, 0]);
    let addresses = [words(&[queue, 0]), addresses].concat();
    let kick = doubles(&[u64::from(queue) | 1 << 8]);
    [
        vhost(MessageCode::SET_VRING_NUM, 1, &words(&[queue, 128])),
        vhost(MessageCode::SET_VRING_BASE, 1, &words(&[queue, 0])),
        vhost(MessageCode::SET_VRING_ADDR, 1, &addresses),
        vhost(MessageCode::SET_VRING_KICK, 1, &kick),
        vhost(MessageCode::SET_VRING_ENABLE, 9, &words(&[queue, 1])),
    ]
    .concat()
}

/// The messages with which a session begins.
fn vhost_begin() -> Vec<u8> {
    use vhost::MessageCode;
    let nothing = |code| vhost(code, 1, &[]);
    [
        nothing(MessageCode::GET_FEATURES),
        nothing(MessageCode::GET_PROTOCOL_FEATURES),
        // The bits MQ, REPLY_ACK, BACKEND_REQ, CONFIG, INFLIGHT_SHMFD and CONFIGURE_MEM_SLOTS.
        vhost(MessageCode::SET_PROTOCOL_FEATURES, 1, &doubles(&[0x9229])),
        nothing(MessageCode::GET_QUEUE_NUM),
        nothing(MessageCode::GET_MAX_MEM_SLOTS),
        nothing(MessageCode::SET_OWNER),
    ]
    .concat()
}

fn vhost_seeds() -> Seeds {
    use vhost::MessageCode;
    let region = |n: u64| doubles(&[n << 20, 1 << 20, 1 << 40 | n << 20, 0]);
    let table = [words(&[2, 0]), region(0), region(1)].concat();
    let slot = |code| vhost(code, 9, &[vec![0; 8], region(0)].concat());
    let config = [words(&[0, 60, 0]), vec![0; 60]].concat();
    let config =
        [MessageCode::GET_CONFIG, MessageCode::SET_CONFIG].map(|code| vhost(code, 1, &config));
    let inflight = [doubles(&[4096, 0]), words(&[1 | 128 << 16, 0])].concat();
    let inflight = vhost(MessageCode::GET_INFLIGHT_FD, 1, &inflight);
    // A message that ends after 3 of its 8 bytes.
    let half = &vhost(MessageCode::SET_FEATURES, 1, &[0; 8])[..15];
    let answer = vhost(MessageCode::GET_FEATURES, 5, &[0; 8]);
    let slots = [
        slot(MessageCode::ADD_MEM_REG),
        slot(MessageCode::REM_MEM_REG),
    ]
    .concat();
    let overlapping = slot(MessageCode::ADD_MEM_REG).repeat(2);
    // This number of descriptors arrives with each message.
    let with = |descriptors, stream: &[u8]| {
        with_control([descriptors; fuzz::vhost::CONTROL_LEN], &[stream])
    };
    Seeds::from([
        ("begin", with(0, &vhost_begin())),
        (
            "table",
            with(2, &vhost(MessageCode::SET_MEM_TABLE, 9, &table)),
        ),
        ("slots", with(1, &slots)),
        ("overlapping", with(1, &overlapping)),
        ("rings", with(0, &[vhost_ring(0), vhost_ring(3)].concat())),
        ("config", with(0, &config.concat())),
        ("inflight", with(0, &inflight)),
        ("half", with(0, half)),
        ("too-long", with(0, &words(&[5, 1, 1 << 20, 0, 0, 0]))),
        ("answer", with(0, &answer)),
    ])
}

/// Settings: a queue of 8 entries whose indices wrap after two, events by index, tables of up to 64
/// descriptors. The disk has 255 sectors in blocks of 512 bytes and offers every command.
const QUEUE: [u8; fuzz::ring::CONTROL_LEN] = [0x1b, 64, 0xfe, 0xff, 255, 0x18, 0x8f, 64];

fn descriptor(address: u64, length: u32, flags: u16, next: u16) -> [u8; DESCRIPTOR] {
    let descriptor = Descriptor {
        address,
        length,
        flags,
        next,
    };
    descriptor.encode()
}

/// Encodes the operation that writes a descriptor at index `at`.
fn describe(at: u8, address: u64, length: u32, flags: u16, next: u16) -> Vec<u8> {
    [&[1, at][..], &descriptor(address, length, flags, next)].concat()
}

/// Encodes the operation that writes 16 bytes of guest memory: a header, a range or a descriptor.
fn put(at: u16, bytes: [u8; 16]) -> Vec<u8> {
    [&[3][..], &at.to_le_bytes(), &bytes].concat()
}

/// Encodes the header of a request, or the first half of one.
fn block_header(number: u8, sector: u8) -> [u8; 16] {
    let mut bytes = [0; 16];
    (bytes[0], bytes[8]) = (number, sector);
    bytes
}

/// Encodes a request with the head `head` and three buffers: header, data, status.
fn block_request(head: u8, number: u8, sector: u8, length: u32) -> Vec<u8> {
    let data = if number == 0 { 3 } else { 1 };
    let next = u16::from(head) + 1;
    [
        put(u16::from(head) * 16, block_header(number, sector)),
        describe(head, GUEST + u64::from(head) * 16, 16, 1, next),
        describe(head + 1, GUEST + 0xf00, length, data, next + 1),
        describe(head + 2, GUEST + 0x1f00, 1, 2, 0),
        vec![5, head],
    ]
    .concat()
}

/// Encodes a read whose three buffers are in a table, and its service.
fn read_by_table() -> Vec<u8> {
    [
        put(0, block_header(0, 1)),
        put(0x100, descriptor(GUEST, 16, 1, 1)),
        put(0x110, descriptor(GUEST + 0xe00, 512, 3, 2)),
        put(0x120, descriptor(GUEST + 0x1000, 1, 2, 0)),
        describe(0, GUEST + 0x100, 48, 4, 0),
        vec![5, 0],
        vec![7, 9, 0, 10],
    ]
    .concat()
}

fn device_seeds() -> Seeds {
    // Take a chain, finish and publish it, arm.
    let serve = [7, 9, 0, 10];
    let all = [
        block_request(0, 0, 8, 1024),
        block_request(3, 1, 16, 512),
        serve.repeat(2),
        block_request(0, 13, 0, 16),
        vec![7, 9, 1, 10],
    ];
    let table = read_by_table();
    let circle = [describe(0, GUEST, 16, 1, 1), describe(1, GUEST, 16, 1, 0)].concat();
    let flush = [
        put(0, block_header(4, 0)),
        describe(0, GUEST, 16, 1, 1),
        describe(1, GUEST + 0x1000, 1, 2, 0),
        vec![5, 0],
    ]
    .concat();
    let twice = [&flush[..], &[5, 0, 7, 7, 10, 11]].concat();
    let mut by_flag = QUEUE;
    by_flag[0] = 0x03;
    Seeds::from([
        ("all", with_control(QUEUE, &[&all.concat()])),
        ("table", with_control(QUEUE, &[&table])),
        ("circle", with_control(QUEUE, &[&circle, &[5, 0], &serve])),
        (
            "flush-by-flag",
            with_control(by_flag, &[&flush, &serve, &[11]]),
        ),
        (
            "left",
            with_control(QUEUE, &[&flush, &[0x83, 0, 7, 9, 0, 10]]),
        ),
        ("twice", with_control(QUEUE, &[&twice])),
        ("head", with_control(QUEUE, &[&[5, 8], &serve])),
        (
            "jump",
            with_control(QUEUE, &[&flush, &[0, 3, 9], &serve, &[11]]),
        ),
        ("no-tables", with_control(by_flag, &[&table])),
    ])
}

fn driver_seeds() -> Seeds {
    // The driver adds two chains, and the device returns the first.
    let give = [2, 1, 2, 2, 3];
    let returned = [0, 2, 0xff, 0, 3, 0xff, 4, 6, 1, 0];
    Seeds::from([
        (
            "returned",
            with_control(QUEUE, &[&give, &returned, &[4, 7]]),
        ),
        (
            "unknown",
            with_control(QUEUE, &[&give, &[0, 4, 5], &returned]),
        ),
        (
            "jump",
            with_control(QUEUE, &[&give, &[0, 2, 9, 4, 6, 0, 0]]),
        ),
        ("full", with_control(QUEUE, &[&[2, 4, 2, 4, 2, 1, 3]])),
    ])
}

fn xen_seeds() -> Seeds {
    // The indices wrap after two steps.
    let drained = [0xfe, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    let mut answered = drained;
    answered[4] = 1;
    let one = [7, 8, 3, 4, 6, 5, 9, 10, 11, 1];
    // The first request is in slot 2. It is a read of one segment that is taken, then one with an
    // invalid segment, then one with too many segments.
    let read = [1, 0x21, 1, 1, 2, 0, 3, 4];
    let bad = [1, 0x91, 1, 1, 1, 0xad, 1, 9, 2, 0, 3, 4];
    let many = [1, 0x41, 0, 12, 2, 0, 3, 4, 5, 5, 5, 6];
    Seeds::from([
        ("drained", with_control(drained, &[&one.repeat(5)])),
        ("answered", with_control(answered, &[&one.repeat(5)])),
        ("jump", with_control(drained, &[&[0, 0, 9, 3, 6, 3, 4]])),
        ("no-request", with_control(drained, &[&[2, 1, 9, 11, 0]])),
        ("segments", with_control(drained, &[&read, &bad, &many])),
        (
            "full",
            with_control(
                drained,
                &[&[7, 7, 7, 7, 7, 8, 3, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 9]],
            ),
        ),
    ])
}
