//! Tests of the clock and the disk with a simulated kernel, which is a thread of the test.

use super::*;
use rustix::io::IoSlice;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use weir_core::Span;
use weir_uring::{Mapping, MappingPart};
use weir_wire::ring::split::{Areas, Buffer, Driver, Settings};
use weir_wire::vhost::{CALL_ANSWER_LEN, MessageCode};

/// The size of the kernel's memory in bytes. The queue is at its beginning, and requests follow
/// from `REQUESTS` on.
const MEMORY: u64 = 1 << 20;
const REQUESTS: u64 = 0x10000;
const SIZE: u16 = 16;

/// The drive's time for each command in nanoseconds.
const SERVICE: u64 = 100_000;

/// The argument of a message that has no time.
const WAITS: u64 = u64::MAX;

/// The kernel's side of the connections.
struct FakeKernel {
    clock: UnixStream,
    disk: UnixStream,
    calls: UnixStream,
    mapping: Mapping,
    queue: Driver<MappingPart>,
    number: u32,
}

impl FakeKernel {
    /// Negotiates the disk as a kernel does at its boot.
    fn new(clock: UnixStream, disk: UnixStream, memory: &File) -> Self {
        let mapping = Mapping::new(memory, 0, MEMORY).unwrap();
        let area = |at, bytes| mapping.part(at, bytes).unwrap();
        let areas = Areas {
            descriptors: area(0, 0x1000),
            available: area(0x1000, 0x1000),
            used: area(0x2000, 0x1000),
        };
        let settings = Settings {
            event_idx: false,
            ..Settings::new(SIZE)
        };
        let queue = Driver::new(areas, settings).unwrap();
        let (calls, theirs) = UnixStream::pair().unwrap();
        let mut fake = Self {
            clock,
            disk,
            calls,
            mapping,
            queue,
            number: 0,
        };
        // START.
        assert_eq!(fake.ask(1, 0), 0);
        // The table has space for two regions, of which one is used.
        let table = [1, 0, MEMORY, 0, 0, 0, 0, 0, 0]
            .map(u64::to_ne_bytes)
            .concat();
        fake.tell(MessageCode::SET_MEM_TABLE, &table, Some(memory.as_fd()));
        fake.tell(MessageCode::SET_BACKEND_REQ_FD, &[], Some(theirs.as_fd()));
        fake.tell(MessageCode::SET_VRING_NUM, &pair(0, SIZE.into()), None);
        let addresses = [0, 0, 0x2000, 0x1000, 0].map(u64::to_ne_bytes).concat();
        fake.tell(MessageCode::SET_VRING_ADDR, &addresses, None);
        fake.tell(MessageCode::SET_VRING_ENABLE, &pair(0, 1), None);
        fake
    }

    /// Sends a request to the disk, and waits for its acknowledgement.
    fn tell(&mut self, code: MessageCode, payload: &[u8], descriptor: Option<BorrowedFd<'_>>) {
        // Version 1 of the protocol, and the flag for a reply.
        let mut bytes = [code.0, 1 | 1 << 3, payload.len() as u32]
            .map(u32::to_ne_bytes)
            .concat();
        bytes.extend(payload);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<_> = descriptor.into_iter().collect();
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let flags = SendFlags::empty();
        sendmsg(&self.disk, &[IoSlice::new(&bytes)], &mut control, flags).unwrap();
        // The disk can send a message to the clock before it replies.
        loop {
            let mut fds = [
                PollFd::new(&self.clock, PollFlags::IN),
                PollFd::new(&self.disk, PollFlags::IN),
            ];
            assert!(poll(&mut fds, None).unwrap() > 0);
            if fds[0].revents().is_empty() {
                break;
            }
            self.heard();
        }
        let mut answer = [0; 20];
        self.disk.read_exact(&mut answer).unwrap();
        // With REPLY_ACK, 0 means success.
        assert_eq!(answer[12..], [0; 8], "{code}");
    }

    /// Sends a message to the calendar, and returns the value of the reply.
    fn ask(&mut self, op: u32, time: u64) -> u64 {
        self.number += 1;
        let message = [u64::from(op) | u64::from(self.number) << 32, time];
        self.clock
            .write_all(&message.map(u64::to_ne_bytes).concat())
            .unwrap();
        loop {
            let (said, number, time) = self.next();
            if said == 0 {
                assert_eq!(number, self.number);
                return time;
            }
            self.acknowledge(number);
        }
    }

    fn next(&mut self) -> (u32, u32, u64) {
        let mut message = [0; 16];
        self.clock.read_exact(&mut message).unwrap();
        let word = |at: usize| u64::from_ne_bytes(message[at..at + 8].try_into().unwrap());
        (word(0) as u32, (word(0) >> 32) as u32, word(8))
    }

    /// Receives a message of the calendar, and acknowledges it.
    fn heard(&mut self) -> (u32, u64) {
        let (op, number, time) = self.next();
        self.acknowledge(number);
        (op, time)
    }

    fn acknowledge(&mut self, number: u32) {
        let message = [u64::from(number) << 32, 0];
        self.clock
            .write_all(&message.map(u64::to_ne_bytes).concat())
            .unwrap();
    }

    /// Adds a request to the queue, and kicks the disk at a time.
    fn request(&mut self, slot: u64, kind: u32, sector: u64, data: &[u8], now: u64) {
        let at = REQUESTS + slot * 0x2000;
        // struct virtio_blk_req: type, reserved, sector.
        let mut header = [kind, 0].map(u32::to_le_bytes).concat();
        header.extend(sector.to_le_bytes());
        self.mapping.slice(at, 16).unwrap().copy_from(0, &header);
        self.mapping
            .slice(at + 16, data.len() as u32)
            .unwrap()
            .copy_from(0, data);
        self.mapping
            .slice(at + 0x1fff, 1)
            .unwrap()
            .copy_from(0, &[9]);
        let buffer = |address, length, writable| Buffer {
            address,
            length,
            writable,
        };
        // A request has a header, the data and a status byte (virtio, "Block Device").
        let chain = [
            buffer(at, 16, false),
            buffer(at + 16, data.len() as u32, kind != 1),
            buffer(at + 0x1fff, 1, true),
        ];
        self.queue.add(&chain).unwrap();
        assert!(self.queue.publish());
        // UPDATE: the kick is made at this time.
        self.ask(5, now);
        self.tell(MessageCode::VRING_KICK, &pair(0, 0), None);
    }

    /// Waits until `wanted`. Returns the times of the calls, and the time at which the kernel was
    /// told to run.
    fn sleep(&mut self, wanted: u64) -> (Vec<u64>, u64) {
        // REQUEST and WAIT.
        self.ask(2, wanted);
        self.ask(3, WAITS);
        let mut called = Vec::new();
        loop {
            let mut fds = [
                PollFd::new(&self.calls, PollFlags::IN),
                PollFd::new(&self.clock, PollFlags::IN),
            ];
            poll(&mut fds, None).unwrap();
            if fds[0].revents().is_empty() {
                match self.heard() {
                    // 6 is RUN, and 7 is FREE_UNTIL.
                    (6, time) => return (called, time),
                    (op, _) => assert_eq!(op, 7),
                }
                continue;
            }
            let mut call = [0; 20];
            self.calls.read_exact(&mut call).unwrap();
            // GET: a kernel reads the time when it handles the call.
            let now = self.ask(4, WAITS);
            called.push(now);
            self.ask(2, now);
            self.calls.write_all(&[0; CALL_ANSWER_LEN]).unwrap();
        }
    }
}

fn pair(first: u32, second: u32) -> Vec<u8> {
    [first, second].map(u32::to_ne_bytes).concat()
}

/// Serves a simulated kernel in the way in which [`serve`] serves a real one. Returns the kernel's
/// result.
fn with<T: Send>(kernel: impl FnOnce(FakeKernel) -> T + Send) -> T {
    let (clock, theirs) = UnixStream::pair().unwrap();
    let (disk, blocks) = UnixStream::pair().unwrap();
    let memory = tempfile::tempfile().unwrap();
    memory.set_len(MEMORY).unwrap();
    let data = tempfile::tempfile().unwrap();
    data.set_len(MEMORY).unwrap();
    let mut config = weir_model::drive::null::NullConfig::demo();
    (config.service, config.link) = (Span::from_nanos(SERVICE), 0);
    let drive = weir_model::drive::DriveConfig::Null(config)
        .build()
        .unwrap();
    thread::scope(|scope| {
        let kernel = scope.spawn(move || kernel(FakeKernel::new(clock, disk, &memory)));
        let (mut calendar, mut disk) = (
            Calendar::new(theirs),
            Disk::new(blocks, drive, MEMORY, data),
        );
        while let LockstepTurn::On = serve_kernel(&mut calendar, &mut disk, &|| Ok(())).unwrap() {}
        kernel.join().unwrap()
    })
}

#[test]
fn the_kernel_runs_in_drive_time_and_reads_its_writes_back() {
    let (wrote, ran, read) = with(|mut kernel| {
        kernel.request(0, 1, 8, &[7; 4096], 1000);
        let (wrote, ran) = kernel.sleep(50_000_000);
        assert!(kernel.queue.take().unwrap().is_some());
        kernel.request(1, 0, 8, &[0; 4096], ran + 5);
        let (read, _) = kernel.sleep(50_000_000);
        let mut back = [0; 4097];
        let at = REQUESTS + 0x2000;
        kernel
            .mapping
            .slice(at + 16, 4096)
            .unwrap()
            .copy_to(0, &mut back[..4096]);
        kernel
            .mapping
            .slice(at + 0x1fff, 1)
            .unwrap()
            .copy_to(0, &mut back[4096..]);
        assert_eq!((back[0], back[4095], back[4096]), (7, 7, 0));
        (wrote, ran, read)
    });
    // The write was kicked at 1000 ns, and the read 5 ns after the kernel ran again.
    assert_eq!(wrote, [1000 + SERVICE]);
    assert_eq!(ran, 1000 + SERVICE);
    assert_eq!(read, [ran + 5 + SERVICE]);
}

#[test]
fn requests_without_drive_time_complete_at_once() {
    let (called, name) = with(|mut kernel| {
        // 8 is VIRTIO_BLK_T_GET_ID.
        kernel.request(0, 8, 0, &[7; 20], 1000);
        let (called, _) = kernel.sleep(50_000_000);
        let name = kernel.queue.take().unwrap();
        // An unknown command.
        kernel.request(1, 99, 0, &[0; 20], 2000);
        let (refused, _) = kernel.sleep(50_000_000);
        ([called, refused].concat(), name)
    });
    assert_eq!(called, [1000, 2000]);
    assert!(name.is_some());
}

#[test]
fn only_regular_files_are_taken_from_the_output_of_a_guest() {
    let left = tempfile::tempdir().unwrap();
    fs::create_dir(left.path().join("run")).unwrap();
    fs::write(left.path().join("run/report"), "1").unwrap();
    let _other = UnixListener::bind(left.path().join("run/other")).unwrap();
    let files = out(left.path()).unwrap();
    assert_eq!(
        files,
        BTreeMap::from([("run/report".to_owned(), b"1".to_vec())])
    );
}

#[test]
fn a_kernel_that_wants_to_run_before_the_drive_is_done_runs_first() {
    let (called, ran, later) = with(|mut kernel| {
        // The kernel runs at 2000 ns, and the read completes at 1000 ns plus the service time of
        // 100 us.
        kernel.request(0, 0, 0, &[0; 512], 1000);
        let (called, ran) = kernel.sleep(2000);
        let (later, _) = kernel.sleep(500_000);
        (called, ran, later)
    });
    assert_eq!((called, ran), (vec![], 2000));
    assert_eq!(later, [1000 + SERVICE]);
}

/// Returns a guest whose kernel is a shell script with this command.
fn program(does: &str, place: &Path) -> Lockstep {
    let kernel = place.join("kernel");
    fs::write(&kernel, format!("#!/bin/sh\n{does}\n")).unwrap();
    fs::set_permissions(&kernel, Permissions::from_mode(0o755)).unwrap();
    Lockstep {
        kernel,
        programs: Vec::new(),
        files: BTreeMap::new(),
        script: String::new(),
        drive: weir_model::drive::DriveConfig::Null(weir_model::drive::null::NullConfig::demo()),
        size: MEMORY,
        memory_mib: 64,
        limit: Duration::from_millis(300),
    }
}

#[test]
fn a_guest_that_takes_too_long_is_shown_with_the_last_that_it_said() {
    let place = tempfile::tempdir().unwrap();
    let guest = program("echo it says this; exec sleep 600", place.path());
    let ended = guest.run_while(|_| (), || true);
    assert!(matches!(ended, Err(GuestError::Late { said, .. }) if said == "it says this"));
}

#[test]
fn a_kernel_that_does_not_halt_after_its_end_is_not_waited_for() {
    let place = tempfile::tempdir().unwrap();
    let mut guest = program("echo guest: end; exec sleep 600", place.path());
    guest.limit = Duration::from_mins(5);
    let ran = guest.run_while(|_| (), || true).unwrap();
    assert_eq!(ran.console, ["guest: end"]);
}
