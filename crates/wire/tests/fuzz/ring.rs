//! Fuzz targets for the rings. A hostile side writes arbitrary values into the shared memory
//! between our calls, and the targets assert the invariants.
//!
//! The first [`CONTROL_LEN`] bytes are settings. The rest is a program in which each operation has
//! one byte and some operands. Operands that are missing at the end are 0.

use std::cell::Cell;
use std::collections::VecDeque;
use weir_wire::ring::plain::{Memory, Regions};
use weir_wire::ring::split::{
    Areas, Buffer, BufferChain, DESCRIPTOR, Descriptor, Device, Driver, QueueError, Settings,
    TakeError,
};
use weir_wire::ring::xen::{self, Rearm, Response, XenBackEnd, XenFrontEnd, XenRequest, XenStatus};
use weir_wire::ring::{Guest, Load, OutsideGuestError, Shared, Store};
use weir_wire::virtio_blk::{self, BlkCommand, BlkRules, RangeLimits, SECTOR};

/// The number of bytes at the start of the input that are settings.
pub(crate) const CONTROL_LEN: usize = 8;
/// The start of the guest's memory: two adjacent regions of [`REGION`] bytes each.
pub(crate) const GUEST: u64 = 0x1_0000;
/// The length of each region in bytes.
pub(crate) const REGION: u64 = 0x1000;
/// The length of Xen's page in bytes, which has room for four slots.
const PAGE: usize = 64 + 4 * xen::SLOT;

/// A program, whose bytes are taken from the front.
struct FuzzProgram<'a>(&'a [u8]);

impl FuzzProgram<'_> {
    /// Returns the next operation, if there is one.
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let length = N.min(self.0.len());
        let (first, rest) = self.0.split_at(length);
        bytes[..length].copy_from_slice(first);
        self.0 = rest;
        bytes
    }

    fn byte(&mut self) -> u8 {
        self.bytes::<1>()[0]
    }

    fn word(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes())
    }
}

/// Guest memory that counts its reads.
struct CountingGuest {
    guest: Regions,
    reads: Cell<usize>,
}

impl Guest for CountingGuest {
    fn contiguous(&self, address: u64, length: u64) -> Option<u64> {
        self.guest.contiguous(address, length)
    }

    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), OutsideGuestError> {
        self.reads.set(self.reads.get() + 1);
        self.guest.read(address, into)
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), OutsideGuestError> {
        self.guest.write(address, from)
    }
}

fn guest() -> CountingGuest {
    let mut guest = Regions::new();
    guest.add(GUEST, Memory::new(REGION as usize));
    guest.add(GUEST + REGION, Memory::new(REGION as usize));
    let reads = Cell::new(0);
    CountingGuest { guest, reads }
}

/// Decodes the settings. In the first byte, bits 0 to 2 are the size as an exponent of two, bit 3
/// selects events by index, and bit 4 tables. The second byte is the maximum length of a table.
fn settings(control: &[u8; CONTROL_LEN]) -> Settings {
    Settings {
        size: 1 << (control[0] & 7),
        event_idx: control[0] & 8 != 0,
        indirect: control[0] & 16 != 0,
        table: u16::from(control[1]),
    }
}

fn contents(memory: &Memory) -> Vec<u8> {
    let mut bytes = vec![0; memory.len()];
    memory.read(0, &mut bytes);
    bytes
}

/// Drives the device's side of virtio's queue, with its requests, against a hostile driver.
///
/// # Panics
/// If an invariant does not hold.
pub(crate) fn device(data: &[u8]) {
    let Some((control, program)) = data.split_first_chunk::<CONTROL_LEN>() else {
        return;
    };
    let settings = settings(control);
    let areas = Areas::new(settings.size);
    let start = u16::from_le_bytes([control[2], control[3]]);
    // Position 2 is the index of each ring. A random start makes indices wrap early.
    areas.used.store16(2, start, Store::Relaxed);
    areas.available.store16(2, start, Store::Relaxed);
    let mut attacked = AttackedDevice {
        device: Device::new(areas.clone(), settings, start).expect("it fits"),
        areas,
        settings,
        guest: guest(),
        rules: rules(control),
        chain: BufferChain::default(),
        request: virtio_blk::BlkRequest::default(),
        in_flight: VecDeque::new(),
        available: start,
        broken: None,
    };
    let mut program = FuzzProgram(program);
    while let Some(operation) = program.next() {
        attacked.step(operation, &mut program);
    }
}

fn rules(control: &[u8; CONTROL_LEN]) -> BlkRules {
    let limits = RangeLimits {
        sectors: u32::from(control[7]),
        ranges: 2,
    };
    BlkRules {
        capacity: u64::from(control[4]),
        block: 512 << (control[5] & 3),
        read_only: control[5] & 4 != 0,
        segments: u32::from(control[6] & 15),
        length: u32::from(control[6] >> 4) * 512,
        discard: (control[5] & 8 != 0).then_some(limits),
        write_zeroes: (control[5] & 16 != 0).then_some(limits),
    }
}

/// A device, the driver that attacks it, and the expected state of both.
struct AttackedDevice {
    device: Device<Memory>,
    areas: Areas<Memory>,
    settings: Settings,
    guest: CountingGuest,
    rules: BlkRules,
    chain: BufferChain,
    request: virtio_blk::BlkRequest,
    /// The heads in flight, the oldest first.
    in_flight: VecDeque<u16>,
    /// The last index that the driver has written.
    available: u16,
    broken: Option<QueueError>,
}

impl AttackedDevice {
    fn step(&mut self, operation: u8, program: &mut FuzzProgram<'_>) {
        match operation % 12 {
            0 => {
                let at = usize::from(program.byte()) % self.areas.available.len();
                self.areas.available.write(at, &program.bytes::<1>());
            }
            1 => {
                let at = usize::from(program.byte()) % usize::from(self.settings.size);
                let descriptor = program.bytes::<DESCRIPTOR>();
                self.areas.descriptors.write(at * DESCRIPTOR, &descriptor);
            }
            // A more plausible descriptor, in the guest's memory or slightly beyond it.
            2 => {
                let [at, flags, next] = program.bytes();
                let descriptor = Descriptor {
                    address: GUEST + u64::from(program.word() % 0x2100),
                    length: u32::from(program.word()),
                    flags: u16::from(flags & 7),
                    next: u16::from(next),
                };
                let at = usize::from(at) % usize::from(self.settings.size);
                self.areas
                    .descriptors
                    .write(at * DESCRIPTOR, &descriptor.encode());
            }
            3 => {
                let address = GUEST + u64::from(program.word());
                // Writes beyond the end have no effect.
                let _ = self.guest.write(address, &program.bytes::<16>());
            }
            4 => {
                let at = usize::from(program.byte()) % self.areas.used.len();
                self.areas.used.write(at, &program.bytes::<1>());
            }
            // The driver adds one more head, as an honest driver does.
            5 | 6 => {
                let size = self.settings.size;
                let at = 4 + 2 * usize::from(self.available % size);
                let head = u16::from(program.byte());
                self.areas.available.store16(at, head, Store::Relaxed);
                self.available = self.available.wrapping_add(1);
                self.areas
                    .available
                    .store16(2, self.available, Store::Release);
            }
            // An earlier server recorded heads in flight in memory that the guest may write.
            11 if operation >= 128 => {
                let head = u16::from(program.byte());
                self.take(Some(head));
            }
            other => self.act(other, program),
        }
    }

    /// Executes a call of ours, during which only the used ring may change.
    fn act(&mut self, operation: u8, program: &mut FuzzProgram<'_>) {
        let before = [&self.areas.descriptors, &self.areas.available].map(contents);
        match operation {
            7 | 8 => self.take(None),
            9 => {
                let newest = program.byte() & 1 == 0;
                let head = if newest {
                    self.in_flight.pop_back()
                } else {
                    self.in_flight.pop_front()
                };
                if let Some(head) = head {
                    self.device.finish(head, u32::from(operation));
                }
                let _ = self.device.publish();
                let published = self.areas.used.load16(2, Load::Acquire);
                // The driver may have overwritten the index. The device does not read it back, and
                // writes its own as soon as there is a new entry.
                assert!(head.is_none() || published == self.device.used_index());
            }
            10 => {
                let armed = self.device.arm();
                self.note(armed.err());
            }
            _ => {
                self.device.disarm();
                // The number of available chains never exceeds the size of the queue.
                let looked = self.device.poll_available();
                assert!(looked.unwrap_or(0) <= self.settings.size);
                self.note(looked.err());
            }
        }
        assert_eq!(self.device.in_flight() as usize, self.in_flight.len());
        let after = [&self.areas.descriptors, &self.areas.available].map(contents);
        assert_eq!(before, after, "the device writes what is the driver's");
    }

    /// Asserts that a broken queue stays broken, for the same reason.
    fn note(&mut self, broken: Option<QueueError>) {
        assert!(self.broken.is_none() || broken == self.broken);
        self.broken = broken;
        assert_eq!(self.device.broken(), broken);
    }

    /// Takes the next chain, or takes the chain of `head` again.
    fn take(&mut self, head: Option<u16>) {
        self.guest.reads.set(0);
        let taken = match head {
            None => self.device.take(&self.guest, &mut self.chain),
            Some(head) => {
                let taken = self.device.retake(head, &self.guest, &mut self.chain);
                taken.map(|()| Some(head))
            }
        };
        // Each descriptor of a table is read once, and a chain leads to at most one table.
        let most = usize::from(self.settings.table);
        assert!(
            self.guest.reads.get() <= most,
            "a table is read more than once"
        );
        match taken {
            Ok(None) => self.note(None),
            Ok(Some(head)) => {
                self.note(None);
                self.hold(head);
                self.check_chain();
                self.parse();
            }
            Err(TakeError::Chain { head, .. }) => {
                self.note(None);
                self.hold(head);
            }
            Err(TakeError::Broken(broken)) => self.note(Some(broken)),
        }
    }

    fn hold(&mut self, head: u16) {
        assert!(head < self.settings.size && !self.in_flight.contains(&head));
        self.in_flight.push_back(head);
    }

    fn check_chain(&self) {
        let BufferChain {
            buffers,
            readable,
            writable,
        } = &self.chain;
        // The descriptors of the queue before the table, and those of the table.
        let most = usize::from(self.settings.size) + usize::from(self.settings.table);
        assert!(!buffers.is_empty() && buffers.len() <= most);
        let sum = |writable| -> u64 {
            let those = buffers.iter().filter(|buffer| buffer.writable == writable);
            those.map(|buffer| u64::from(buffer.length)).sum()
        };
        assert_eq!((*readable, *writable), (sum(false), sum(true)));
        assert!(readable + writable <= 1 << 32);
        // Readable buffers come first.
        assert!(buffers.is_sorted_by_key(|buffer| buffer.writable));
        for buffer in buffers {
            let last = u64::from(buffer.length.checked_sub(1).expect("it has a byte"));
            assert!(buffer.address.checked_add(last).is_some());
        }
    }

    fn parse(&mut self) {
        self.guest.reads.set(0);
        let parsed = self.request.parse(&self.chain, &self.guest, &self.rules);
        // Only the header and at most two ranges are read, in one read for each byte or for each
        // buffer.
        let most = (HEADER_READS + 2 * virtio_blk::RANGE).min(3 * self.chain.buffers.len());
        assert!(
            self.guest.reads.get() <= most,
            "more is read than there is to be read"
        );
        match parsed {
            Ok(()) => self.check_request(),
            Err(refused) => {
                assert!(refused.code() != virtio_blk::Status::Ok);
                assert!(
                    refused
                        .status
                        .is_none_or(|at| self.guest.check(at, 1).is_ok())
                );
            }
        }
    }

    /// Checks an accepted request against a second formulation of the rules.
    fn check_request(&self) {
        let (request, rules) = (&self.request, &self.rules);
        assert_eq!(self.guest.check(request.status, 1), Ok(()));
        assert!(u64::from(request.written()) <= self.chain.writable);
        let writes = matches!(
            request.command,
            BlkCommand::Out | BlkCommand::Discard | BlkCommand::WriteZeroes
        );
        assert!(!(writes && rules.read_only));
        let data: u64 = request
            .data
            .iter()
            .map(|buffer| u64::from(buffer.length))
            .sum();
        assert_eq!(data, u64::from(request.length));
        assert!(request.length <= rules.length && request.data.len() <= rules.segments as usize);
        for Buffer {
            address,
            length,
            writable,
        } in &request.data
        {
            assert_eq!(self.guest.check(*address, u64::from(*length)), Ok(()));
            assert_eq!(*writable, !writes);
        }
        let ranges = request
            .ranges
            .iter()
            .map(|range| (range.offset, range.length));
        let whole = matches!(request.command, BlkCommand::In | BlkCommand::Out)
            .then_some((request.offset, u64::from(request.length)));
        for (offset, length) in ranges.chain(whole) {
            assert!(length > 0 && offset + length <= rules.capacity * SECTOR);
            assert!((offset | length).is_multiple_of(u64::from(rules.block)));
        }
    }
}

/// The header is read in at most as many parts as it has bytes.
const HEADER_READS: usize = virtio_blk::HEADER;

/// Drives the driver's side of virtio's queue against a hostile device.
///
/// # Panics
/// If an invariant does not hold.
pub(crate) fn driver(data: &[u8]) {
    let Some((control, program)) = data.split_first_chunk::<CONTROL_LEN>() else {
        return;
    };
    let settings = settings(control);
    let areas = Areas::new(settings.size);
    let start = u16::from_le_bytes([control[2], control[3]]);
    let mut driver = Driver::at(areas.clone(), settings, start).expect("it fits");
    let mut in_flight = Vec::new();
    let mut program = FuzzProgram(program);
    let mut free = driver.free();
    while let Some(operation) = program.next() {
        match operation % 8 {
            0 | 1 => {
                let at = usize::from(program.byte()) % areas.used.len();
                areas.used.write(at, &program.bytes::<1>());
            }
            2 => {
                let count = usize::from(program.byte() % 5);
                let buffers = vec![
                    Buffer {
                        address: 0,
                        length: 1,
                        writable: true
                    };
                    count
                ];
                match driver.add(&buffers) {
                    Ok(head) => in_flight.push((head, count)),
                    // `add` may refuse only chains without buffers, or with more than there are
                    // free descriptors.
                    Err(_) => assert!(count == 0 || count > free),
                }
            }
            3 => {
                let _ = driver.publish();
            }
            4 | 5 => {
                if let Ok(Some(used)) = driver.take() {
                    let place = in_flight.iter().position(|(head, _)| *head == used.head);
                    in_flight.swap_remove(place.expect("it was in flight"));
                }
            }
            6 => {
                let _ = driver.arm_after(program.word());
            }
            _ => driver.disarm(),
        }
        free = driver.free();
        let held: usize = in_flight.iter().map(|(_, count)| count).sum();
        // Whatever the device returns, every descriptor is either free or in flight.
        assert_eq!(
            free + held,
            usize::from(settings.size),
            "descriptors are lost"
        );
    }
}

/// Drives both sides of Xen's ring, each against arbitrary writes to the page.
///
/// # Panics
/// If an invariant does not hold.
pub(crate) fn xen(data: &[u8]) {
    let Some((control, program)) = data.split_first_chunk::<CONTROL_LEN>() else {
        return;
    };
    let start = u32::from_le_bytes([control[0], control[1], control[2], control[3]]);
    let rearm = if control[4] & 1 == 0 {
        Rearm::Drained
    } else {
        Rearm::Answered
    };
    let page = Memory::new(PAGE);
    xen::init_at(&page, start);
    let mut ring = AttackedRing {
        back: XenBackEnd::at(page.clone(), rearm, start).expect("it fits"),
        front: XenFrontEnd::at(page.clone(), start).expect("it fits"),
        page,
        in_drive: VecDeque::new(),
        broken: [None; 2],
    };
    let mut program = FuzzProgram(program);
    while let Some(operation) = program.next() {
        match operation % 12 {
            0..=2 => ring.attack(operation % 12, &mut program),
            3..=6 => ring.step_back(operation % 12),
            _ => ring.step_front(operation % 12, &mut program),
        }
        assert_eq!(ring.back.in_flight() as usize, ring.in_drive.len());
        // The page has four slots.
        assert!(ring.in_drive.len() <= 4 && ring.front.free() <= 4);
    }
}

/// Xen's ring with both sides, and a page to which an attacker writes on behalf of either side.
struct AttackedRing {
    page: Memory,
    back: XenBackEnd<Memory>,
    front: XenFrontEnd<Memory>,
    in_drive: VecDeque<Response>,
    /// The errors with which the back end and the front end stopped.
    broken: [Option<xen::RingError>; 2],
}

impl AttackedRing {
    fn attack(&mut self, operation: u8, program: &mut FuzzProgram<'_>) {
        match operation {
            // Any byte of the four indices.
            0 => {
                let at = usize::from(program.byte() % 16);
                self.page.write(at, &program.bytes::<1>());
            }
            // Any byte of the page, slots included.
            1 => {
                let at = usize::from(program.word()) % PAGE;
                self.page.write(at, &program.bytes::<1>());
            }
            // An index advances by one, as an honest side writes it.
            _ => {
                let at = if program.byte() & 1 == 0 { 0 } else { 8 };
                let index = self.page.load32(at, Load::Relaxed).wrapping_add(1);
                self.page.store32(at, index, Store::Release);
            }
        }
    }

    fn step_back(&mut self, operation: u8) {
        let back = &mut self.back;
        let told = match operation {
            3 => {
                let looked = back.poll_requests();
                assert!(looked.unwrap_or(0) <= 4);
                looked.err()
            }
            4 => {
                match back.take() {
                    Some(Ok(request)) => {
                        check_xen(&request);
                        self.in_drive
                            .push_back(Response::to(&request, XenStatus::Okay));
                    }
                    Some(Err(refused)) => self.in_drive.push_back(refused.response()),
                    None => {}
                }
                None
            }
            5 => self.in_drive.pop_front().and_then(|response| {
                back.answer(&response);
                let _ = back.publish();
                back.on_answered().err()
            }),
            _ => back.on_drained().err(),
        };
        keep(&mut self.broken[0], told);
    }

    fn step_front(&mut self, operation: u8, program: &mut FuzzProgram<'_>) {
        let front = &mut self.front;
        let told = match operation {
            7 => {
                assert!(front.push(&XenRequest::flush(7)).is_ok() || front.free() == 0);
                None
            }
            8 => {
                let _ = front.publish();
                None
            }
            9 => {
                let looked = front.poll_responses();
                assert!(looked.unwrap_or(0) <= 4);
                looked.err()
            }
            10 => {
                let _ = front.take();
                None
            }
            _ => front.arm_after(u32::from(program.byte())).err(),
        };
        keep(&mut self.broken[1], told);
    }
}

/// Asserts that a broken ring reports the same reason whenever it is asked.
fn keep(known: &mut Option<xen::RingError>, broken: Option<xen::RingError>) {
    if let (Some(known), Some(broken)) = (&known, &broken) {
        assert_eq!(known, broken);
    }
    *known = known.or(broken);
}

/// Checks an accepted request of Xen's ring.
fn check_xen(request: &XenRequest) {
    assert_eq!(XenRequest::decode(&request.encode()), Ok(*request));
    assert!(request.segments().len() <= xen::MAX_SEGMENTS);
    // 11 segments of at most 8 sectors.
    assert!(request.sectors() <= 88);
    for segment in request.segments() {
        assert!(segment.first <= segment.last && segment.last < xen::SECTORS_IN_PAGE);
    }
}
