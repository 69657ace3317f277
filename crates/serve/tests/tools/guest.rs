//! A substitute for a virtual machine and its VMM: memory, virtqueues, and arbitrary vhost-user
//! messages.

use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::MemfdFlags;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use weir_uring::{GuestSlice, Mapping, MappingPart};
use weir_wire::ring::split::{Areas, Buffer, Driver, Settings, UsedHead, lengths};
use weir_wire::vhost::{HEADER_LEN, MessageCode, PROTOCOL_FEATURES, feature};
use weir_wire::virtio_blk;

/// The patience with a server. One that does not answer for longer counts as hung.
const PATIENCE: Duration = Duration::from_secs(20);

/// The address of the guest's memory, for the guest and for its VMM.
pub(crate) const GUEST: u64 = 0x10_0000;
const USER: u64 = 0x7000_0000_0000;
/// The size of the guest's memory in bytes.
pub(crate) const MEMORY: u64 = 8 << 20;
/// The distance between the rings of two queues. Queue 0 is at the beginning of the memory.
const QUEUE: u64 = 0x4000;
/// The number of entries of each queue.
pub(crate) const SIZE: u16 = 128;
/// The offset of the memory for buffers. The queues are in front of it.
pub(crate) const DATA: u64 = 1 << 20;

/// The features of virtio that the guest accepts by default.
pub(crate) const FEATURES: u64 = virtio_blk::feature::VERSION_1
    | virtio_blk::feature::EVENT_IDX
    | virtio_blk::feature::INDIRECT
    | virtio_blk::feature::FLUSH
    | PROTOCOL_FEATURES;

/// A queue with its driver and descriptors.
pub(crate) struct GuestQueue {
    pub(crate) driver: Driver<MappingPart>,
    pub(crate) kick: OwnedFd,
    pub(crate) call: OwnedFd,
}

/// A guest with its VMM.
pub(crate) struct TestGuest {
    pub(crate) socket: UnixStream,
    pub(crate) file: OwnedFd,
    pub(crate) memory: Mapping,
    pub(crate) queues: Vec<GuestQueue>,
    pub(crate) features: u64,
}

/// A status that no device writes, so that a missing status is recognised.
pub(crate) const NO_STATUS: u8 = 0xee;

impl TestGuest {
    /// Creates a guest with memory, and connects it without sending a message.
    pub(crate) fn connect(path: &Path) -> Self {
        Self::over(dial(path))
    }

    /// Creates a guest with memory, whose VMM is connected through this socket.
    pub(crate) fn over(socket: UnixStream) -> Self {
        let file = rustix::fs::memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, MEMORY).unwrap();
        let memory = Mapping::new(&file, 0, MEMORY).unwrap();
        Self {
            socket,
            file,
            memory,
            queues: Vec::new(),
            features: FEATURES,
        }
    }

    /// Creates a guest with this number of queues, all of which are served.
    pub(crate) fn start(path: &Path, queues: usize) -> Self {
        let mut guest = Self::connect(path);
        guest.agree();
        guest.tell_memory();
        guest.serve(queues);
        guest
    }

    /// Adds this number of queues, and lets the server serve them.
    pub(crate) fn serve(&mut self, queues: usize) {
        for number in 0..queues {
            self.add_queue(number);
            self.tell_queue(number, 0);
        }
    }

    /// Reconnects like a VMM that was disconnected, with its record of requests in flight.
    pub(crate) fn come_back(&mut self, path: &Path, notes: &OwnedFd) {
        self.socket = dial(path);
        self.agree();
        self.tell_memory();
        let said = inflight(1 << 12, 1);
        self.tell(MessageCode::SET_INFLIGHT_FD, &said, &[notes.as_fd()]);
    }

    /// Negotiates features, like VMMs do at the beginning.
    pub(crate) fn agree(&mut self) {
        self.tell(MessageCode::SET_OWNER, &[], &[]);
        let offered = self.ask(MessageCode::GET_FEATURES);
        assert_eq!(self.features & !offered, 0, "{offered:#x} is offered");
        let protocol = self.ask(MessageCode::GET_PROTOCOL_FEATURES);
        let least = feature::REPLY_ACK | feature::CONFIG | feature::MQ;
        assert_eq!(least & !protocol, 0, "{protocol:#x} is offered");
        let bytes = (protocol & (least | feature::INFLIGHT_SHMFD)).to_ne_bytes();
        self.tell(MessageCode::SET_PROTOCOL_FEATURES, &bytes, &[]);
        let features = self.features.to_ne_bytes();
        self.tell(MessageCode::SET_FEATURES, &features, &[]);
    }

    pub(crate) fn tell_memory(&self) {
        let table = [words(&[1, 0]), doubles(&[GUEST, MEMORY, USER, 0])].concat();
        self.tell(MessageCode::SET_MEM_TABLE, &table, &[self.file.as_fd()]);
    }

    fn areas(&self, number: usize) -> Areas<MappingPart> {
        let [descriptors, available, used] = lengths(SIZE);
        let at = QUEUE * number as u64;
        Areas {
            descriptors: self.memory.part(at, descriptors).unwrap(),
            available: self.memory.part(at + 0x1000, available).unwrap(),
            used: self.memory.part(at + 0x2000, used).unwrap(),
        }
    }

    /// Adds a queue without notifying the server.
    pub(crate) fn add_queue(&mut self, number: usize) {
        assert_eq!(number, self.queues.len());
        let settings = Settings {
            event_idx: self.features & virtio_blk::feature::EVENT_IDX != 0,
            ..Settings::new(SIZE)
        };
        self.queues.push(GuestQueue {
            driver: Driver::new(self.areas(number), settings).unwrap(),
            kick: eventfd(0, EventfdFlags::CLOEXEC).unwrap(),
            call: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap(),
        });
    }

    /// Sends the addresses and descriptors of a queue, and enables it.
    pub(crate) fn tell_queue(&self, number: usize, base: u32) {
        let n = number as u32;
        let at = USER + QUEUE * number as u64;
        let places = doubles(&[at, at + 0x2000, at + 0x1000, 0]);
        let queue = &self.queues[number];
        self.tell(MessageCode::SET_VRING_NUM, &words(&[n, SIZE.into()]), &[]);
        self.tell(MessageCode::SET_VRING_BASE, &words(&[n, base]), &[]);
        self.tell(
            MessageCode::SET_VRING_ADDR,
            &[words(&[n, 0]), places].concat(),
            &[],
        );
        let event = u64::from(n).to_ne_bytes();
        self.tell(MessageCode::SET_VRING_CALL, &event, &[queue.call.as_fd()]);
        self.tell(MessageCode::SET_VRING_KICK, &event, &[queue.kick.as_fd()]);
        self.tell(MessageCode::SET_VRING_ENABLE, &words(&[n, 1]), &[]);
    }

    /// Sends an arbitrary message.
    pub(crate) fn send(
        &self,
        code: MessageCode,
        flags: u32,
        payload: &[u8],
        files: &[BorrowedFd<'_>],
    ) {
        let head = words(&[code.0, 1 | flags, payload.len() as u32]);
        // Bits 0 and 1 of the flags are the version, which is 1.
        let bytes = [&head[..], payload].concat();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(files)));
        }
        let parts = [IoSlice::new(&bytes)];
        // The result is ignored, because the server may have closed the connection, which the next
        // request for a reply notices.
        let _ = rustix::net::sendmsg(&self.socket, &parts, &mut control, SendFlags::NOSIGNAL);
    }

    /// Sends a message and requests an acknowledgement. Returns false if the message was refused.
    pub(crate) fn try_tell(
        &self,
        code: MessageCode,
        payload: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> bool {
        // Flag 8 is `VHOST_USER_NEED_REPLY`. A reply of 0 means success.
        self.send(code, 8, payload, files);
        self.answer(code) == Some(vec![0; 8])
    }

    /// Sends a message that must succeed.
    pub(crate) fn tell(&self, code: MessageCode, payload: &[u8], files: &[BorrowedFd<'_>]) {
        self.send(code, 0, payload, files);
    }

    /// Requests a number.
    pub(crate) fn ask(&self, code: MessageCode) -> u64 {
        self.send(code, 0, &[], &[]);
        let answer = self.answer(code).expect("an answer");
        u64::from_ne_bytes(answer.try_into().unwrap())
    }

    /// Returns the reply to a message, or `None` if the connection has ended.
    pub(crate) fn answer(&self, code: MessageCode) -> Option<Vec<u8>> {
        self.answer_with(code).map(|(payload, _)| payload)
    }

    /// Returns the reply like [`TestGuest::answer`], with the descriptor that came with it.
    pub(crate) fn answer_with(&self, code: MessageCode) -> Option<(Vec<u8>, Option<OwnedFd>)> {
        let mut head = [0; HEADER_LEN];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [std::io::IoSliceMut::new(&mut head)];
        let received =
            rustix::net::recvmsg(&self.socket, &mut into, &mut control, RecvFlags::WAITALL);
        if received.map_or(0, |received| received.bytes) < HEADER_LEN {
            return None;
        }
        let mut descriptor = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(mut rights) = message {
                descriptor = rights.next();
            }
        }
        let word = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().unwrap());
        // The flags of a reply are the version 1 and the reply bit 4.
        assert_eq!((word(0), word(4)), (code.0, 5), "the answer to {code}");
        let mut payload = vec![0; word(8) as usize];
        (&self.socket).read_exact(&mut payload).ok()?;
        Some((payload, descriptor))
    }

    /// Returns true as soon as the server has closed the connection.
    pub(crate) fn is_ended(&self) -> bool {
        self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
        match (&self.socket).read(&mut [0; 64]) {
            Ok(count) => count == 0,
            // The server closed the connection with unread messages in its buffer.
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    pub(crate) fn slice(&self, at: u64, length: usize) -> GuestSlice {
        self.memory.slice(at, length as u32).unwrap()
    }

    pub(crate) fn put(&self, at: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.slice(at, bytes.len()).copy_from(0, bytes);
        }
    }

    pub(crate) fn get(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.slice(at, length).copy_to(0, &mut bytes);
        bytes
    }

    /// Writes the header of a request and an invalid status at `at`. Returns the buffers of the
    /// request.
    pub(crate) fn frame(
        &self,
        at: u64,
        kind: u32,
        sector: u64,
        data: &[(u64, u32)],
    ) -> Vec<Buffer> {
        let header = [words(&[kind, 0]), doubles(&[sector])].concat();
        self.put(at, &header);
        self.put(at + 16, &[NO_STATUS]);
        // Requests 0 (read) and 8 (get id) return data.
        let writable = matches!(kind, 0 | 8);
        let buffer = |at, length, writable| Buffer {
            address: GUEST + at,
            length,
            writable,
        };
        let mut buffers = vec![buffer(at, 16, false)];
        buffers.extend(data.iter().map(|(at, n)| buffer(*at, *n, writable)));
        buffers.push(buffer(at + 16, 1, true));
        buffers
    }

    /// Adds a chain, and notifies the server if it wants a notification. Returns the head of the
    /// chain.
    pub(crate) fn submit(&mut self, number: usize, buffers: &[Buffer]) -> u16 {
        let queue = &mut self.queues[number];
        let head = queue.driver.add(buffers).unwrap();
        if queue.driver.publish() {
            kick(&queue.kick);
        }
        head
    }

    /// Submits a request with one data buffer, in part `place` of the memory for requests. Returns
    /// its head.
    pub(crate) fn submit_at(
        &mut self,
        number: usize,
        place: u64,
        kind: u32,
        sector: u64,
        bytes: u32,
    ) -> u16 {
        let at = DATA + place * 0x3000;
        let buffers = self.frame(at, kind, sector, &[(at + 0x1000, bytes)]);
        self.submit(number, &buffers)
    }

    /// Returns the next head that is returned, or `None` if none is within `patience`.
    pub(crate) fn next_within(&mut self, number: usize, patience: Duration) -> Option<UsedHead> {
        let deadline = Instant::now() + patience;
        let queue = &mut self.queues[number];
        loop {
            if let Some(used) = queue.driver.take().unwrap() {
                return Some(used);
            }
            if queue.driver.arm().unwrap() {
                // Arming found another entry, so the guest must not sleep.
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let mut fds = [PollFd::new(&queue.call, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec::try_from(left).unwrap())).unwrap();
            let _ = rustix::io::read(&queue.call, &mut [0; 8]);
        }
    }

    pub(crate) fn next(&mut self, number: usize) -> UsedHead {
        let used = self.next_within(number, PATIENCE);
        used.expect("a request that is never answered, or a call that is never made")
    }

    /// Carries out one request with its header at [`DATA`] and its data after it. Returns its
    /// status.
    pub(crate) fn request(&mut self, number: usize, kind: u32, sector: u64, data: &[u8]) -> u8 {
        let at = DATA + 0x1000;
        self.put(at, data);
        let parts = [(at, data.len() as u32)];
        let parts = if data.is_empty() { &[][..] } else { &parts };
        let buffers = self.frame(DATA, kind, sector, parts);
        let head = self.submit(number, &buffers);
        assert_eq!(self.next(number).head, head);
        self.get(DATA + 16, 1)[0]
    }

    pub(crate) fn write(&mut self, sector: u64, data: &[u8]) {
        assert_eq!(self.request(0, 1, sector, data), 0);
    }

    pub(crate) fn read(&mut self, sector: u64, length: usize) -> Vec<u8> {
        assert_eq!(self.request(0, 0, sector, &vec![0x55; length]), 0);
        self.get(DATA + 0x1000, length)
    }

    /// Lets the server create the memory that records requests in flight, and passes it back for
    /// use.
    pub(crate) fn inflight(&self, queues: u16) -> OwnedFd {
        let asked = inflight(0, queues);
        self.send(MessageCode::GET_INFLIGHT_FD, 0, &asked, &[]);
        let (answer, memory) = self.answer_with(MessageCode::GET_INFLIGHT_FD).unwrap();
        let memory = memory.expect("a descriptor");
        self.tell(MessageCode::SET_INFLIGHT_FD, &answer, &[memory.as_fd()]);
        memory
    }
}

/// Returns the payload of messages about the record of requests in flight.
pub(crate) fn inflight(size: u64, queues: u16) -> Vec<u8> {
    [
        doubles(&[size, 0]),
        [queues, SIZE, 0, 0].map(u16::to_ne_bytes).concat(),
    ]
    .concat()
}

pub(crate) fn kick(event: &OwnedFd) {
    rustix::io::write(event, &1u64.to_ne_bytes()).unwrap();
}

fn dial(path: &Path) -> UnixStream {
    let socket = UnixStream::connect(path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

pub(crate) fn doubles(doubles: &[u64]) -> Vec<u8> {
    doubles.iter().flat_map(|w| w.to_ne_bytes()).collect()
}
