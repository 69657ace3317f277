//! Tests of a queue's hand-over, with a substitute for the driver.

use weir_wire::ublk::{DESCRIPTOR_LEN, UblkDescriptor, UblkRules};

use super::FakeUblkQueue;
use crate::front::tests::{TestShard, has_uring, until};

/// Returns a queue of 8 places with reads and write-zeroes requests of 4 KiB. There is no write,
/// because the substitute for the driver provides no payload.
fn queue() -> FakeUblkQueue {
    let descriptors = (0..8u8).map(|tag| {
        let mut descriptor: UblkDescriptor = [0; DESCRIPTOR_LEN];
        // The operation (read 0, write-zeroes 5), the number of sectors, and the first sector.
        descriptor[0] = tag % 2 * 5;
        descriptor[4] = 8;
        descriptor[8] = tag * 8;
        descriptor
    });
    FakeUblkQueue {
        rules: UblkRules {
            sectors: 2048,
            read_only: false,
            longest: 128 << 10,
            discard: 1 << 20,
            write_zeroes: 1 << 20,
        },
        descriptors: descriptors.collect(),
    }
}

/// Most requests are taken back at each hand-over, because the limit delays them. A place that was
/// lost then would end the requests of the queue after a few rounds.
#[test]
fn a_queue_that_resumes_takes_every_request_again() {
    if !has_uring() {
        return;
    }
    let shard = TestShard::start("memory = true, max = { iops = 500 }");
    shard.arrive(Box::new(queue()));
    until("the queue does nothing", || {
        let (done, connections) = shard.counts();
        done > 0 || connections == 0
    });
    // /dev/null accepts commands from Linux 6.0 on.
    if shard.counts().1 == 0 {
        return;
    }
    for _ in 0..20 {
        let handed = shard.hand_over();
        // The driver passes the queue to the other process.
        assert!(handed.clients.is_empty());
        let (done, connections) = shard.counts();
        assert_eq!(connections, 1);
        shard.resume();
        until("no request is completed", || shard.counts().0 > done);
    }
    let _ = shard.hand_over();
    let done = shard.counts();
    assert_eq!(shard.counts(), done, "no request is taken while detached");
    shard.abandon();
}
