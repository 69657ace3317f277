//! Tests of the hand-over of a client that reads no replies.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use weir_wire::nbd::{CommandFlags, NbdCommand, NbdRequest, RuleSettings, TransmissionFlags};

use super::InheritedConnection;
use crate::front::tests::{PATIENCE, TestShard};
use crate::upgrade::{FrontRecord, NbdRecord};

/// The length of each read in bytes.
const READ: u32 = 16 << 10;
/// The number of reads, whose replies are much longer than the buffer of a socket.
const READS: u64 = 100;
/// The most that unread replies may occupy: the limit of a [`TestShard`], and their headers.
const UNSENT: usize = (64 << 10) + 1024;

/// A shard hands the client over without waiting for it, and keeps its limit on replies however
/// often it is handed over. No reply is lost.
#[test]
fn a_client_that_reads_no_replies_is_handed_over_at_once_and_gets_all_of_them() {
    let (mut client, socket) = UnixStream::pair().unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    for cookie in 0..READS {
        let request = NbdRequest {
            command: NbdCommand::Read,
            flags: CommandFlags::EMPTY,
            cookie,
            offset: 0,
            length: READ,
        };
        client.write_all(&request.encode()).unwrap();
    }
    let mut state = InheritedConnection {
        socket: socket.into(),
        record: NbdRecord::new(&RuleSettings {
            size: 1 << 20,
            flags: TransmissionFlags::EMPTY,
            meta_allocation: false,
            minimum_block: 1,
            maximum_payload: READ,
            maximum_range: u32::MAX,
        }),
        bytes: Vec::new(),
    };
    for round in 0..6 {
        let shard = TestShard::start("memory = true");
        shard.arrive(Box::new(state));
        // Each snapshot takes at least one turn of the shard.
        for _ in 0..50 {
            shard.counts();
        }
        // A shard that waited for the client would wait for a large part of this time.
        let handed = shard.begin_hand_over(Duration::from_hours(1));
        let handed = handed.recv_timeout(PATIENCE).expect("it waits");
        let mut front = handed.unwrap().clients.pop().unwrap().front;
        let FrontRecord::Nbd(record) = front.record else {
            panic!("{:?}", front.record);
        };
        let unsent = record.unsent;
        assert!((1..=UNSENT).contains(&unsent), "round {round}: {unsent}");
        state = InheritedConnection {
            socket: front.descriptors.pop().unwrap(),
            record,
            bytes: front.bytes,
        };
        shard.abandon();
    }
    let shard = TestShard::start("memory = true");
    shard.arrive(Box::new(state));
    let mut cookies: Vec<u64> = (0..READS)
        .map(|_| {
            let mut reply = vec![0; 16 + READ as usize];
            client.read_exact(&mut reply).unwrap();
            assert!(reply[16..].iter().all(|byte| *byte == 0));
            u64::from_be_bytes(reply[8..16].try_into().unwrap())
        })
        .collect();
    cookies.sort_unstable();
    assert!(cookies.into_iter().eq(0..READS));
}
