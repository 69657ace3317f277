//! Tests of a session's hand-over: a guest that checks every response, and records that no server
//! writes.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use serde_json::Value;
use weir_core::random::Rng;
use weir_uring::Arena;
use weir_wire::ring::split::UsedHead;
use weir_wire::vhost::MessageCode;
use weir_wire::virtio_blk::feature;

use super::InheritedSession;
use super::handshake::ConnectedVmm;
use crate::front::tests::guest::{DATA, FEATURES, SIZE, TestGuest, words};
use crate::front::tests::{PATIENCE, TestImage, TestShard, until};
use crate::shard::{Attach, AttachError, HandedShard};
use crate::upgrade::{FrontRecord, FrontState, VhostRecord};

// The request types of virtio (virtio 1.2, section 5.2.6).
const IN: u32 = 0;
const OUT: u32 = 1;
const FLUSH: u32 = 4;

/// The number of blocks of the volume that the guest uses, each of [`BLOCK`] bytes.
const BLOCKS: u64 = 40;
const BLOCK: u32 = 4096;

/// Connects a guest to a shard, without queues.
fn connect(shard: &TestShard, features: u64) -> TestGuest {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    shard.arrive(Box::new(ConnectedVmm {
        socket: theirs.into(),
        export: Box::new(shard.export.clone()),
        ending: std::sync::Arc::default(),
    }));
    let mut guest = TestGuest::over(ours);
    guest.features = features;
    guest.agree();
    guest.tell_memory();
    guest
}

/// Returns the state of the only client, with a record that was sent as text.
fn only(handed: HandedShard) -> (VhostRecord, FrontState) {
    let mut clients = handed.clients;
    let state = clients.pop().expect("a client").front;
    assert!(clients.is_empty());
    let text = serde_json::to_string(&state.record).unwrap();
    let FrontRecord::Vhost(record) = serde_json::from_str(&text).unwrap() else {
        panic!("{text}");
    };
    (record, state)
}

fn inherited(shard: &TestShard, record: VhostRecord, state: FrontState) -> Box<InheritedSession> {
    Box::new(InheritedSession {
        record,
        descriptors: state.descriptors,
        bytes: state.bytes,
        export: Box::new(shard.export.clone()),
        ending: std::sync::Arc::default(),
    })
}

/// Returns the state of a shard's only client, and lets the shard go on.
fn peek(shard: &TestShard) -> (VhostRecord, FrontState) {
    let (record, state) = only(shard.hand_over());
    shard.resume();
    (record, state)
}

/// Ends a shard and serves its only client in another one.
fn transfer(shard: TestShard, volume: &str) -> TestShard {
    let (record, state) = only(shard.hand_over());
    transfer_state(shard, volume, record, state)
}

fn transfer_state(
    shard: TestShard,
    volume: &str,
    record: VhostRecord,
    state: FrontState,
) -> TestShard {
    shard.abandon();
    let next = TestShard::start(volume);
    next.arrive(inherited(&next, record, state));
    next
}

/// A request that the guest has submitted.
#[derive(Clone, Copy, Debug)]
struct GuestJob {
    kind: u32,
    block: u64,
}

/// A guest that checks every response, and the data of every read.
struct CheckedGuest {
    guest: TestGuest,
    rng: Rng,
    /// The seed of each block's content, which is zero at first.
    blocks: Vec<u8>,
    /// The offset of data within a page. Requests with an offset use memory of the shard.
    shift: u64,
    /// The requests of each queue in flight, by head. At most one of them is for each block.
    jobs: Vec<BTreeMap<u16, GuestJob>>,
    done: usize,
}

impl CheckedGuest {
    /// Starts the queues of a guest.
    fn new(mut guest: TestGuest, queues: usize, seed: u64) -> Self {
        guest.serve(queues);
        Self {
            rng: Rng::new(seed),
            ..Self::attached(guest, queues)
        }
    }

    /// Takes over a guest whose queues are being served.
    fn attached(guest: TestGuest, queues: usize) -> Self {
        Self {
            guest,
            rng: Rng::new(0),
            blocks: vec![0; BLOCKS as usize],
            shift: 0,
            jobs: vec![BTreeMap::new(); queues],
            done: 0,
        }
    }

    fn in_flight(&self) -> usize {
        self.jobs.iter().map(BTreeMap::len).sum()
    }

    /// Submits a request for a block that has none in flight. Returns its head.
    fn submit(&mut self, queue: usize, kind: u32, block: u64) -> u16 {
        let at = DATA + block * 0x3000;
        let data = at + 0x1000 + self.shift;
        if kind == OUT {
            let value = &mut self.blocks[block as usize];
            *value = value.wrapping_add(1);
        }
        let byte = if kind == OUT {
            self.blocks[block as usize]
        } else {
            0x5a
        };
        self.guest.put(data, &[byte; BLOCK as usize]);
        let data = [(data, BLOCK)];
        let data = if kind == FLUSH { &[][..] } else { &data };
        let buffers = self.guest.frame(at, kind, block * 8, data);
        let head = self.guest.submit(queue, &buffers);
        let twice = self.jobs[queue].insert(head, GuestJob { kind, block });
        assert!(twice.is_none());
        head
    }

    /// Submits up to `count` random requests.
    fn submit_some(&mut self, count: u64) {
        for _ in 0..count {
            let block = self.rng.range(0, BLOCKS - 1);
            let mut jobs = self.jobs.iter().flat_map(BTreeMap::values);
            if jobs.any(|job| job.block == block) {
                continue;
            }
            let kind = [IN, OUT, OUT, FLUSH][self.rng.range(0, 3) as usize];
            let queue = self.rng.range(0, self.jobs.len() as u64 - 1) as usize;
            self.submit(queue, kind, block);
        }
    }

    /// Checks a response. The driver has checked that its head was in flight.
    fn check(&mut self, queue: usize, used: UsedHead) {
        let job = self.jobs[queue].remove(&used.head).expect("one response");
        let at = DATA + job.block * 0x3000;
        assert_eq!(self.guest.get(at + 16, 1), [0], "the status of {job:?}");
        let read = if job.kind == IN { BLOCK } else { 0 };
        assert_eq!(used.written, read + 1, "{job:?}");
        if job.kind == IN {
            let value = self.blocks[job.block as usize];
            let found = self.guest.get(at + 0x1000 + self.shift, BLOCK as usize);
            assert_eq!(found, [value; BLOCK as usize], "{job:?}");
        }
        self.done += 1;
    }

    /// Checks the responses that have arrived.
    fn check_arrived(&mut self) {
        for queue in 0..self.jobs.len() {
            while let Some(used) = self.guest.queues[queue].driver.take().unwrap() {
                self.check(queue, used);
            }
        }
    }

    /// Waits for all responses.
    fn finish(&mut self) {
        self.finish_down_to(0);
    }

    /// Waits for calls and responses until at most `left` requests are in flight.
    fn finish_down_to(&mut self, left: usize) {
        for queue in 0..self.jobs.len() {
            while !self.jobs[queue].is_empty() && self.in_flight() > left {
                let used = self.guest.next(queue);
                self.check(queue, used);
            }
        }
    }

    /// Reads every block.
    fn verify(&mut self) {
        self.finish();
        for block in 0..BLOCKS {
            self.submit(0, IN, block);
        }
        self.finish();
    }
}

/// Hands a session under load over several times, to itself or to another shard. Returns the number
/// of requests that were taken back.
fn run_random(seed: u64) -> usize {
    let image = TestImage::new();
    // The limit makes requests wait in the core.
    let volume = format!("{}, max = {{ iops = 1000 }}", image.key());
    let mut shard = TestShard::start(&volume);
    let without = if seed & 1 == 0 { 0 } else { feature::EVENT_IDX };
    let guest = connect(&shard, FEATURES & !without);
    let _record = (seed & 2 == 0).then(|| guest.inflight(2));
    let mut guest = CheckedGuest::new(guest, 2, seed);
    guest.shift = if seed & 4 == 0 { 0 } else { 24 };
    let mut taken_back = 0;
    for _ in 0..5 {
        let count = guest.rng.range(1, BLOCKS);
        guest.submit_some(count);
        let some = guest.rng.range(0, guest.in_flight() as u64) as usize;
        guest.finish_down_to(some);
        let handing = shard.begin_hand_over(PATIENCE);
        guest.submit_some(5);
        let (record, state) = only(handing.recv_timeout(2 * PATIENCE).unwrap().unwrap());
        let left = record.queues.iter().filter_map(|queue| queue.left.as_ref());
        taken_back += left.map(Vec::len).sum::<usize>();
        // No process serves the guest at present.
        guest.check_arrived();
        guest.submit_some(5);
        let waiting = guest.in_flight();
        guest.check_arrived();
        assert_eq!(guest.in_flight(), waiting);
        if guest.rng.range(0, 2) == 0 {
            shard.resume();
        } else {
            shard = transfer_state(shard, &volume, record, state);
        }
    }
    guest.verify();
    assert!(guest.done >= BLOCKS as usize);
    shard.hand_over();
    shard.abandon();
    taken_back
}

#[test]
fn every_request_is_carried_out_once_whenever_a_session_is_handed_over() {
    let taken_back: usize = (0..12).map(run_random).sum();
    // Otherwise the test would only show that completed requests are not repeated.
    assert!(taken_back > 50, "{taken_back} requests were taken back");
}

/// Returns the heads that are left in queue 0, in their order.
fn left(record: &VhostRecord) -> Vec<u16> {
    record.queues[0].left.clone().unwrap_or_default()
}

#[test]
fn requests_are_taken_again_in_their_order() {
    for with_record in [false, true] {
        let image = TestImage::new();
        let volume = format!("{}, max = {{ iops = 20 }}", image.key());
        let mut shard = TestShard::start(&volume);
        let guest = connect(&shard, FEATURES);
        let _record = with_record.then(|| guest.inflight(1));
        let mut guest = CheckedGuest::new(guest, 1, 0);
        let order: Vec<u16> = (0..BLOCKS).map(|n| guest.submit(0, OUT, n)).collect();
        until("requests are not taken", || {
            left(&peek(&shard).0).len() > 20
        });
        for round in 0..4 {
            let (record, state) = only(shard.hand_over());
            let left = left(&record);
            let at = |head: &u16| {
                order
                    .iter()
                    .position(|h| h == head)
                    .expect("it was submitted")
            };
            assert!(left.is_sorted_by_key(at), "{left:?} of {order:?}");
            assert!(!left.is_empty(), "they are too few to show an order");
            if round % 2 == 0 {
                shard.resume();
            } else {
                shard = transfer_state(shard, &volume, record, state);
            }
        }
        shard.hand_over();
        shard.abandon();
    }
}

/// A session whose VMM has set everything that can be set, and has sent half of a message, is the
/// same after a transfer.
#[test]
fn a_session_keeps_everything_that_its_vmm_has_set_up() {
    let image = TestImage::new();
    let shard = TestShard::start(&image.key());
    let (guest, channel) = set_up(&shard);
    let whole = error_message(1);
    let (first, second) = whole.split_at(14);
    send(&guest.socket, first, Some(guest.queues[0].call.as_fd()));
    until("the message is not received", || {
        peek(&shard).1.bytes == first
    });
    let (record, _) = peek(&shard);
    assert_eq!((record.partial.len(), record.write_back), (1, false));
    assert!(record.inflight.is_some() && record.backend.is_some());
    assert_eq!(record.queues[1].error, None);

    let shard = transfer(shard, &image.key());
    // The VMM did not know the size, so it is notified.
    assert_eq!(receive(&channel).len(), weir_wire::vhost::HEADER_LEN);
    let (again, state) = peek(&shard);
    let known = |mut record: VhostRecord| {
        record.size = 0;
        record
    };
    assert_eq!((again.size, state.bytes.as_slice()), (1 << 20, first));
    assert_eq!(known(again), known(record));
    // The rest of the message sets the descriptor that came with the first part.
    send(&guest.socket, second, None);
    until("the message is not completed", || {
        peek(&shard).0.queues[1].error.is_some()
    });
    assert!(peek(&shard).0.partial.is_empty());
    let mut guest = CheckedGuest::attached(guest, 2);
    guest.verify();
    shard.hand_over();
    shard.abandon();
}

/// Returns a guest with two queues, a record of requests in flight, the write-through mode, and
/// another end of the channel for requests of the server.
fn set_up(shard: &TestShard) -> (TestGuest, UnixStream) {
    let mut guest = connect(shard, FEATURES | feature::CONFIG_WCE);
    let _kept = guest.inflight(2);
    guest.serve(2);
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    // Byte 32 of the configuration space is the write-back mode (virtio 1.2, section 5.2.4).
    let choice = [words(&[32, 1, 0]), vec![0]].concat();
    guest.tell(MessageCode::SET_CONFIG, &choice, &[]);
    guest.tell(MessageCode::SET_BACKEND_REQ_FD, &[], &[theirs.as_fd()]);
    // The reply shows that the messages before it were processed.
    guest.ask(MessageCode::GET_FEATURES);
    (guest, ours)
}

/// Returns the bytes of the message that sets the descriptor for errors of a queue.
fn error_message(queue: u64) -> Vec<u8> {
    let header = words(&[MessageCode::SET_VRING_ERR.0, 1, 8]);
    [header, queue.to_ne_bytes().to_vec()].concat()
}

fn send(socket: &UnixStream, bytes: &[u8], file: Option<std::os::fd::BorrowedFd<'_>>) {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(file) = &file {
        assert!(control.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(file))));
    }
    let parts = [std::io::IoSlice::new(bytes)];
    let sent = sendmsg(socket, &parts, &mut control, SendFlags::empty()).unwrap();
    assert_eq!(sent, bytes.len());
}

fn receive(mut socket: &UnixStream) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    let count = std::io::Read::read(&mut socket, &mut bytes).unwrap();
    bytes.truncate(count);
    bytes
}

/// The reply to a message that stops a queue comes from the process that completes the queue's last
/// request.
#[test]
fn a_queue_that_stops_is_stopped_by_the_other_process() {
    let image = TestImage::new();
    let volume = format!("{}, max = {{ iops = 50 }}", image.key());
    let shard = TestShard::start(&volume);
    let mut guest = CheckedGuest::new(connect(&shard, FEATURES), 1, 0);
    for block in 0..20 {
        guest.submit(0, OUT, block);
    }
    // All requests are taken before the queue is stopped.
    until("requests are not taken", || {
        left(&peek(&shard).0).len() > 10
    });
    let stop = words(&[0, 0]);
    guest.guest.send(MessageCode::GET_VRING_BASE, 0, &stop, &[]);
    until("the queue is not stopped", || {
        peek(&shard).0.stopping == Some(0)
    });
    let (record, state) = only(shard.hand_over());
    assert!(!left(&record).is_empty() && record.queues[0].kick.is_none());
    let shard = transfer_state(shard, &volume, record, state);
    let reply = guest.guest.answer(MessageCode::GET_VRING_BASE).unwrap();
    assert_eq!(reply, words(&[0, 20]));
    guest.check_arrived();
    assert_eq!(guest.in_flight(), 0);
    // The VMM starts the queue again.
    guest.guest.tell_queue(0, 20);
    guest.verify();
    shard.hand_over();
    shard.abandon();
}

/// A call that blocks does not prevent a hand-over, and is made afterwards.
#[test]
fn a_guest_that_does_not_take_its_calls_is_handed_over() {
    for moves in [false, true] {
        let image = TestImage::new();
        let mut shard = TestShard::start(&image.key());
        let mut guest = connect(&shard, FEATURES);
        guest.add_queue(0);
        // A counter at its maximum blocks further additions.
        let full = (u64::MAX - 1).to_ne_bytes();
        guest.queues[0].call = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&guest.queues[0].call, &full).unwrap();
        guest.tell_queue(0, 0);
        let mut guest = CheckedGuest::attached(guest, 1);
        guest.submit(0, OUT, 1);
        until("the request is not completed", || {
            guest.check_arrived();
            guest.in_flight() == 0
        });
        // The call for the response cannot be made, but the deadline has to be met.
        let handed = shard.begin_hand_over(Duration::from_millis(200));
        let (record, state) = only(handed.recv_timeout(PATIENCE).unwrap().unwrap());
        rustix::io::read(&guest.guest.queues[0].call, &mut [0; 8]).unwrap();
        if moves {
            shard = transfer_state(shard, &image.key(), record, state);
        } else {
            shard.resume();
        }
        let mut calls = [PollFd::new(&guest.guest.queues[0].call, PollFlags::IN)];
        let patience = Timespec::try_from(PATIENCE).unwrap();
        assert_eq!(poll(&mut calls, Some(&patience)), Ok(1), "the call is lost");
        guest.verify();
        shard.hand_over();
        shard.abandon();
    }
}

/// Returns all places in a value that hold neither a list nor a map.
fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(list) => {
            for (n, value) in list.iter().enumerate() {
                leaves(value, &format!("{at}/{n}"), found);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                leaves(value, &format!("{at}/{key}"), found);
            }
        }
        _ => found.push(at.to_owned()),
    }
}

fn duplicates(state: &FrontState) -> Vec<OwnedFd> {
    let descriptors = state.descriptors.iter();
    descriptors.map(|d| d.try_clone().unwrap()).collect()
}

/// Otherwise two processes could write the same ring.
#[test]
fn a_session_that_was_handed_over_leaves_the_rings_alone() {
    for without in [0, feature::EVENT_IDX] {
        let shard = TestShard::start("memory = true, max = { iops = 100 }");
        let guest = connect(&shard, FEATURES & !without);
        let mut guest = CheckedGuest::new(guest, 1, 0);
        guest.submit(0, OUT, 0);
        guest.finish();
        let handed = shard.hand_over();
        // The used ring of queue 0, whose flags tell the guest whether to kick.
        let ring = |guest: &CheckedGuest| guest.guest.get(0x2000, 0x1000);
        let kicks = [0; 2];
        guest.guest.put(0x2000, &kicks);
        let before = ring(&guest);
        guest.submit_some(20);
        // Each message takes at least one turn of the shard.
        for _ in 0..10 {
            shard.counts();
        }
        assert!(ring(&guest) == before, "the shard has written the ring");
        drop(handed);
        shard.resume();
        guest.verify();
        shard.hand_over();
        shard.abandon();
    }
}

/// Records that no server writes, and their refusal.
#[test]
fn an_impossible_record_is_refused() {
    let shard = TestShard::start("memory = true");
    let (guest, _channel) = set_up(&shard);
    let (record, state) = peek(&shard);
    let arena = Arena::new(1 << 20).unwrap();
    let attach = |record: VhostRecord, bytes: &[u8]| {
        let session = InheritedSession {
            record,
            descriptors: duplicates(&state),
            bytes: bytes.to_vec(),
            export: Box::new(shard.export.clone()),
            ending: std::sync::Arc::default(),
        };
        Box::new(session).attach(&arena).map(|_| ())
    };
    assert_eq!(attach(record.clone(), &[]), Ok(()));
    let refused = |what: &str, change: &dyn Fn(&mut VhostRecord)| {
        let mut record = record.clone();
        change(&mut record);
        assert_eq!(attach(record, &[]), Err(AttachError::Record), "{what}");
    };
    refused("a head outside of the queue", &|r| {
        r.queues[0].left = Some(vec![SIZE]);
    });
    refused("a head twice", &|r| r.queues[0].left = Some(vec![3, 4, 3]));
    refused("an unknown descriptor", &|r| r.queues[0].kick = Some(99));
    refused("a descriptor twice", &|r| {
        r.queues[0].kick = r.queues[0].call;
    });
    refused("too many queues", &|r| {
        let queue = r.queues[5].clone();
        r.queues.push(queue);
    });
    refused("a feature that is not offered", &|r| r.features |= 1 << 63);
    refused("an unknown queue", &|r| r.stopping = Some(16));
    refused("overlapping regions", &|r| r.regions.push(r.regions[0]));
    refused("an empty region", &|r| r.regions[0].size = 0);
    refused("a region beyond its file", &|r| {
        r.regions[0].offset = 1 << 40;
    });
    refused("too little memory for the record", &|r| {
        r.inflight.as_mut().unwrap().size = 64;
    });
    // A whole message is processed, and never handed over.
    let whole = words(&[MessageCode::GET_FEATURES.0, 1, 0]);
    assert_eq!(attach(record.clone(), &whole[..11]), Ok(()));
    assert_eq!(attach(record.clone(), &whole), Err(AttachError::Record));
    drop(guest);
}

/// A shard survives any value at any place of a record.
#[test]
fn a_hostile_record_harms_no_other_client() {
    let shard = TestShard::start("memory = true, max = { iops = 100 }");
    let (guest, _channel) = set_up(&shard);
    let mut guest = CheckedGuest::attached(guest, 2);
    guest.submit_some(10);
    until("no request is taken", || !left(&peek(&shard).0).is_empty());
    let (mut record, state) = peek(&shard);
    record.queues.truncate(2);
    let valid = serde_json::to_value(&record).unwrap();
    let mut places = Vec::new();
    leaves(&valid, "", &mut places);
    assert!(places.len() > 40, "{places:?}");
    let hostile = [
        "null",
        "0",
        "1",
        "2",
        "99",
        "true",
        "[]",
        "[0,0]",
        "[65535]",
        "65535",
        "18446744073709551615",
        "-1",
        "\"\"",
    ];
    let (mut refused, mut attached) = (0, 0);
    for place in &places {
        for value in hostile {
            let mut changed = valid.clone();
            *changed.pointer_mut(place).unwrap() = value.parse().unwrap();
            let Ok(record) = serde_json::from_value::<VhostRecord>(changed) else {
                refused += 1;
                continue;
            };
            let mut descriptors = duplicates(&state);
            let (ours, theirs) = UnixStream::pair().unwrap();
            descriptors[0] = theirs.into();
            let state = FrontState {
                descriptors,
                bytes: Vec::new(),
                record: FrontRecord::Vhost(record.clone()),
            };
            shard.arrive(inherited(&shard, record, state));
            attached += u32::from(shard.counts().1 > 1);
            drop(ours);
            until("the client stays", || shard.counts().1 == 1);
        }
    }
    assert!(refused > 0 && attached > 0, "{refused} {attached}");
    // The rings were served by all these sessions, so only a new guest can be correct.
    drop(guest);
    let mut guest = CheckedGuest::new(connect(&shard, FEATURES), 1, 0);
    guest.submit(0, IN, 0);
    guest.finish();
}
