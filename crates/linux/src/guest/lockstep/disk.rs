//! A modelled drive as a virtio disk of a kernel in lockstep, over vhost-user.
//!
//! Kicks and calls are messages (in-band notifications), so that everything happens in the
//! calendar's time.

use super::calendar::Calendar;
use super::data::Data;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use weir_core::{Dispatch, Flags, Instant, Op, QueueId, SpaceId, StreamId, Tag};
use weir_model::drive::DriveModel;
use weir_uring::{GuestMemory, MappedRegion, Mapping, MappingPart};
use weir_wire::ring::Guest;
use weir_wire::ring::split::{Areas, BufferChain, Device, Settings, TakeError, lengths};
use weir_wire::vhost::{
    Assembler, CALL_ANSWER_LEN, CONFIG_MAX, DESCRIPTORS_MAX, Message, PROTOCOL_FEATURES,
    RingAddresses, VhostReply, VhostRequest, append_call, feature as protocol,
};
use weir_wire::virtio_blk::{
    BlkCommand, BlkRequest as Asked, BlkRules, ConfigSpace, SECTOR, Status, feature,
};

/// The virtio features that the disk offers.
const FEATURES: u64 = feature::VERSION_1
    | feature::INDIRECT
    | feature::SEG_MAX
    | feature::BLK_SIZE
    | feature::FLUSH
    | PROTOCOL_FEATURES;

/// The features of the vhost-user protocol that the disk offers.
const PROTOCOL: u64 =
    protocol::REPLY_ACK | protocol::CONFIG | protocol::BACKEND_REQ | protocol::INBAND_NOTIFICATIONS;

/// The maximum number of data buffers in a request.
const SEGMENTS: u32 = 254;

/// A request that waits for the drive or is in flight.
#[derive(Debug)]
struct DiskRequest {
    head: u16,
    asked: Asked,
}

/// A virtio disk, with the drive that times it and the data on it.
#[derive(Debug)]
pub(super) struct Disk {
    kernel: UnixStream,
    messages: Assembler<OwnedFd>,
    /// The channel for calls to the kernel, once the kernel has sent it.
    calls: Option<UnixStream>,
    memory: GuestMemory,
    size: u16,
    addresses: Option<RingAddresses>,
    queue: Option<Device<MappingPart>>,
    rules: BlkRules,
    drive: Box<dyn DriveModel>,
    /// The requests in flight, by the drive's tag.
    flights: Vec<Option<DiskRequest>>,
    /// The requests for which no tag is free.
    held: VecDeque<DiskRequest>,
    /// The time since which completions that need no drive time wait to be published.
    owed: Option<Instant>,
    data: Data,
}

impl Disk {
    /// A disk of `size` bytes with the drive's timing. `data` is an empty sparse file of that size.
    pub(super) fn new(
        kernel: UnixStream,
        drive: Box<dyn DriveModel>,
        size: u64,
        data: File,
    ) -> Self {
        let data = Data::new(data, size);
        let shape = drive.shape();
        let tags = usize::from(shape.queues) * usize::from(shape.tags);
        Self {
            kernel,
            messages: Assembler::default(),
            calls: None,
            memory: GuestMemory::default(),
            size: 0,
            addresses: None,
            queue: None,
            rules: BlkRules {
                capacity: size / SECTOR,
                block: SECTOR as u32,
                read_only: false,
                segments: SEGMENTS,
                length: u32::MAX,
                discard: None,
                write_zeroes: None,
            },
            drive,
            flights: std::iter::repeat_with(|| None).take(tags).collect(),
            held: VecDeque::new(),
            owed: None,
            data,
        }
    }

    /// Returns the time of the next completion.
    pub(super) fn next(&self) -> Option<Instant> {
        self.owed.or_else(|| self.drive.next_completion())
    }

    /// Receives bytes from the kernel, and carries out the message once it is complete.
    pub(super) fn hear(&mut self, calendar: &mut Calendar) -> io::Result<()> {
        let (count, descriptors) = self.receive()?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let message = self.messages.on_received(count, descriptors);
        match message.map_err(io::Error::other)? {
            Some(message) => self.carry_out(message, calendar),
            None => Ok(()),
        }
    }

    /// Receives bytes and descriptors. A message can arrive in several parts.
    fn receive(&mut self) -> io::Result<(usize, Vec<OwnedFd>)> {
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX + 1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(self.messages.room())];
        let received = recvmsg(
            &self.kernel,
            &mut into,
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        let rights = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        Ok((received.bytes, rights.flatten().collect()))
    }

    /// Carries out a message of the kernel, and replies if the kernel expects it.
    fn carry_out(&mut self, message: Message<OwnedFd>, calendar: &mut Calendar) -> io::Result<()> {
        let Message {
            code,
            needs_reply,
            request,
            ..
        } = message;
        let mut config = Vec::new();
        let reply = match request.map_err(|error| io::Error::other(format!("{code} {error}")))? {
            VhostRequest::GetFeatures => Some(VhostReply::Value(FEATURES)),
            VhostRequest::GetProtocolFeatures => Some(VhostReply::Value(PROTOCOL)),
            VhostRequest::GetConfig { offset, size } => {
                // GET_CONFIG may ask for up to CONFIG_MAX bytes. Those after the fields are zeroes.
                config.extend(self.config());
                config.resize(CONFIG_MAX, 0);
                let range = offset as usize..(offset + size) as usize;
                let data = config.get(range);
                Some(VhostReply::Config { offset, data })
            }
            VhostRequest::SetMemTable(table) => {
                let mapped = table.into_iter().map(|(region, file)| {
                    let mapping = Mapping::new(&file, region.offset, region.size)?;
                    Ok(MappedRegion { region, mapping })
                });
                let mapped: Result<Vec<_>, weir_uring::MapError> = mapped.collect();
                self.memory = GuestMemory::new(mapped.map_err(io::Error::other)?);
                None
            }
            VhostRequest::SetBackendReqFd(channel) => {
                self.calls = Some(channel.into());
                None
            }
            VhostRequest::SetVringNum { size, .. } => {
                self.size = size;
                None
            }
            VhostRequest::SetVringAddr(addresses) => {
                self.addresses = Some(addresses);
                None
            }
            // A ring is enabled after its size and addresses have been set.
            VhostRequest::SetVringEnable { enabled, .. } => {
                self.queue = if enabled { Some(self.start()?) } else { None };
                None
            }
            VhostRequest::VringKick { .. } => {
                // The drive can complete a new request before the kernel's grant ends.
                self.take(calendar.now())?;
                calendar.limit(self.next())?;
                None
            }
            _ => None,
        };
        let reply = reply.or_else(|| needs_reply.then_some(VhostReply::Ack { done: true }));
        let mut bytes = Vec::new();
        if let Some(reply) = reply {
            reply.append(code, &mut bytes);
        }
        self.kernel.write_all(&bytes)
    }

    /// Returns the configuration space of the disk.
    fn config(&self) -> [u8; weir_wire::virtio_blk::CONFIG_LEN] {
        let config = ConfigSpace {
            capacity: self.rules.capacity,
            segments: SEGMENTS,
            block: SECTOR as u32,
            ..ConfigSpace::default()
        };
        config.encode()
    }

    /// Maps the ring, whose size and addresses have been set.
    fn start(&self) -> io::Result<Device<MappingPart>> {
        let outside = || io::Error::other("the queue is not in the kernel's memory");
        let at = self.addresses.ok_or_else(outside)?;
        let [descriptors, available, used] = lengths(self.size);
        // The addresses of a ring are user addresses of the front end (SET_VRING_ADDR).
        let part = |address, length| self.memory.user_part(address, length).ok_or_else(outside);
        let areas = Areas {
            descriptors: part(at.descriptors, descriptors)?,
            available: part(at.available, available)?,
            used: part(at.used, used)?,
        };
        // FEATURES does not offer event indices.
        let settings = Settings {
            event_idx: false,
            ..Settings::new(self.size)
        };
        Device::new(areas, settings, 0).map_err(io::Error::other)
    }

    /// Takes all available requests from the queue.
    fn take(&mut self, now: Instant) -> io::Result<()> {
        let mut chain = BufferChain::default();
        while let Some(queue) = &mut self.queue {
            let head = match queue.take(&self.memory, &mut chain) {
                Ok(Some(head)) => head,
                Ok(None) => break,
                // The chain is invalid, so that there is no status byte to write: return it with
                // length 0.
                Err(TakeError::Chain { head, .. }) => {
                    queue.finish(head, 0);
                    self.owed = Some(now);
                    continue;
                }
                Err(TakeError::Broken(broken)) => return Err(io::Error::other(broken)),
            };
            let mut asked = Asked::default();
            match asked.parse(&chain, &self.memory, &self.rules) {
                // The identity needs no access to the medium, and therefore no drive time.
                Ok(()) if asked.command == BlkCommand::GetId => {
                    self.end(&DiskRequest { head, asked })?;
                    self.owed = Some(now);
                }
                Ok(()) => self.held.push_back(DiskRequest { head, asked }),
                Err(refused) => {
                    if let Some(status) = refused.status {
                        // If the guest's status byte is outside its memory, there is no place for
                        // an error.
                        let _ = self.memory.write(status, &[refused.code() as u8]);
                    }
                    queue.finish(head, 1);
                    self.owed = Some(now);
                }
            }
        }
        self.feed(now);
        Ok(())
    }

    /// Submits waiting requests to the drive, as long as it has free tags.
    fn feed(&mut self, now: Instant) {
        while let Some(tag) = self.flights.iter().position(Option::is_none)
            && let Some(flight) = self.held.pop_front()
        {
            let asked = &flight.asked;
            let op = match asked.command {
                BlkCommand::Out => Op::Write,
                BlkCommand::Flush => Op::Flush,
                _ => Op::Read,
            };
            let command = Dispatch {
                queue: QueueId(0),
                tag: Tag(tag as u32),
                stream: StreamId::from_bits(0),
                cookie: 0,
                space: SpaceId(0),
                op,
                flags: Flags::SYNC,
                offset: asked.offset,
                length: asked.length,
                within: 0,
            };
            // A drive can be busy although a tag is free. The request keeps its place in the queue.
            if self.drive.submit(now, &command).is_err() {
                self.held.push_front(flight);
                return;
            }
            self.flights[tag] = Some(flight);
        }
    }

    /// Returns the completed requests to the kernel, and calls it.
    pub(super) fn complete(&mut self, calendar: &mut Calendar) -> io::Result<()> {
        let now = calendar.now();
        self.owed = None;
        while let Some(ended) = self.drive.pop(now) {
            if let Some(flight) = self.flights[ended.completion.tag.0 as usize].take() {
                self.end(&flight)?;
            }
        }
        self.feed(now);
        if self.queue.as_mut().is_some_and(Device::publish) {
            self.call(calendar)?;
        }
        Ok(())
    }

    /// Transfers the data of a request, and returns its chain to the queue.
    fn end(&mut self, flight: &DiskRequest) -> io::Result<()> {
        let DiskRequest { head, asked } = flight;
        let (mut at, mut bytes) = (asked.offset, Vec::new());
        for buffer in &asked.data {
            bytes.resize(buffer.length as usize, 0);
            let outside = io::Error::other;
            if asked.command == BlkCommand::Out {
                self.memory
                    .read(buffer.address, &mut bytes)
                    .map_err(outside)?;
                self.data.write(&bytes, at)?;
            } else {
                if asked.command == BlkCommand::In {
                    self.data.read(&mut bytes, at)?;
                }
                self.memory.write(buffer.address, &bytes).map_err(outside)?;
            }
            at += u64::from(buffer.length);
        }
        // As in `take`: a status byte outside the guest's memory cannot be reported.
        let _ = self.memory.write(asked.status, &[Status::Ok as u8]);
        if let Some(queue) = &mut self.queue {
            queue.finish(*head, asked.written());
        }
        Ok(())
    }

    /// Calls the kernel. The clock is served in the meantime, because the kernel requests the time
    /// in the handler of the call.
    fn call(&mut self, calendar: &mut Calendar) -> io::Result<()> {
        let Some(calls) = &mut self.calls else {
            return Ok(());
        };
        let mut bytes = Vec::new();
        append_call(0, &mut bytes);
        calls.write_all(&bytes)?;
        calendar.serve_until(calls.as_fd())?;
        let mut answer = [0; CALL_ANSWER_LEN];
        calls.read_exact(&mut answer)
    }
}

impl AsFd for Disk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.kernel.as_fd()
    }
}
