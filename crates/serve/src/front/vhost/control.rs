//! The messages of the VMM and their replies (QEMU: docs/interop/vhost-user.rst).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{Errno, IoSlice};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, send, sendmsg,
};
use weir_core::Instant;
use weir_uring::{GuestMemory, Handle, MapError, MappedRegion, Mapping};
use weir_wire::vhost::{
    DESCRIPTORS_MAX, Inflight, Message, MessageCode, MessageError, PROTOCOL_FEATURES, Region,
    RegionError, VhostReply, VhostRequest, append_config_changed, check_joining, feature,
};
use weir_wire::virtio_blk::ConfigSpace;

use super::disk::{PROTOCOL, QUEUES};
use super::queue::Virtqueue;
use super::{InflightMemory, VhostSession, inflight};

/// The largest number of memory regions of one guest.
pub(super) const REGIONS_MAX: usize = 64;
/// The largest number of parts of messages (headers and payloads) that are read in one turn.
const MESSAGES: usize = 16;

/// The reason why a message was refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum MessageRefusal {
    #[error("{0}")]
    Message(MessageError),
    /// The VMM selects features that were not offered.
    #[error("contains features {0:#x} that were not offered")]
    Features(u64),
    /// There is no queue with this number.
    #[error("names queue {0}, but there are {QUEUES}")]
    Queue(u32),
    /// The queue is being served, and the parameter cannot be changed in that state.
    #[error("names queue {0}, which is already being served")]
    Running(u32),
    #[error(transparent)]
    Region(#[from] RegionError),
    #[error(transparent)]
    Map(#[from] MapError),
    /// The VMM requests logging of the queue's writes, which was not offered.
    #[error("requests a log of writes, which was not offered")]
    Logged,
    /// A queue without a kick descriptor is not supported, because it would have to be polled all
    /// the time.
    #[error("has no descriptor, but queues without kicks are not supported")]
    NoKick,
    /// This part of the configuration space is read-only.
    #[error("changes a part of the configuration that is read-only")]
    Config,
    /// The numbers of queues and entries are not supported, or the memory is too small for them.
    #[error("has not enough memory for that number of queues of that size")]
    Inflight,
    #[error(transparent)]
    System(#[from] Errno),
}

/// The result of reading messages from the socket.
pub(super) enum MessageProgress {
    /// There are no more messages at present, or they are processed later.
    All,
    /// The VMM has disconnected.
    End,
    /// The VMM sent a message that makes serving it impossible.
    Broken(Cow<'static, str>),
}

/// The reply to a message.
#[derive(Debug)]
pub(super) enum MessageReply {
    /// No reply except an acknowledgement, if the message requests one.
    Plain,
    Value(u64),
    Base(u32, u16),
    Config(u32, Option<Vec<u8>>),
    Inflight(Inflight, OwnedFd),
    /// The reply is sent later, when the queue has stopped.
    Later,
}

impl VhostSession {
    /// Processes messages of the VMM until reading would block, but at most [`MESSAGES`] parts of
    /// them.
    pub(super) fn read_messages(&mut self) -> MessageProgress {
        for _ in 0..MESSAGES {
            if self.stopping.is_some() {
                // The reply to the last message has to be sent first.
                return MessageProgress::All;
            }
            let (count, descriptors) = match self.receive() {
                Ok((0, _)) => return MessageProgress::End,
                Ok(received) => received,
                Err(Errno::AGAIN | Errno::INTR) => return MessageProgress::All,
                Err(_) => return MessageProgress::End,
            };
            match self.messages.on_received(count, descriptors) {
                Ok(None) => {}
                Ok(Some(message)) => {
                    if let Err(reason) = self.answer_message(message) {
                        return MessageProgress::Broken(reason);
                    }
                }
                Err(error) => return MessageProgress::Broken(error.to_string().into()),
            }
        }
        MessageProgress::All
    }

    /// Receives a part of a message, with its descriptors.
    fn receive(&mut self) -> Result<(usize, Vec<OwnedFd>), Errno> {
        // There is space for one descriptor more than permitted, so that too many of them are
        // noticed.
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX + 1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(self.messages.room())];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(&self.socket, &mut into, &mut control, flags)?;
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        Ok((received.bytes, descriptors))
    }

    /// Carries out a message and sends its reply. Returns an error if the connection must end.
    fn answer_message(&mut self, message: Message<OwnedFd>) -> Result<(), Cow<'static, str>> {
        let Message {
            code,
            needs_reply,
            length,
            request,
        } = message;
        let acknowledges = needs_reply && self.protocol & feature::REPLY_ACK != 0;
        let answer = request
            .map_err(MessageRefusal::Message)
            .and_then(|request| self.handle_request(request));
        match answer {
            Ok(MessageReply::Plain) if acknowledges => {
                self.reply(code, VhostReply::Ack { done: true })
            }
            Ok(MessageReply::Plain | MessageReply::Later) => Ok(()),
            Ok(MessageReply::Value(value)) => self.reply(code, VhostReply::Value(value)),
            Ok(MessageReply::Base(queue, base)) => {
                self.reply(code, VhostReply::Base { queue, base })
            }
            Ok(MessageReply::Config(offset, data)) => {
                let data = data.as_deref();
                self.reply(code, VhostReply::Config { offset, data })
            }
            Ok(MessageReply::Inflight(inflight, memory)) => self.send(
                code,
                VhostReply::Inflight { inflight, length },
                Some(&memory),
            ),
            Err(refused) => {
                let reason = format!("{code} {refused}");
                // A VMM that asks for a value waits for it, and an acknowledgement is no
                // substitute.
                if !acknowledges || has_own_reply(code) {
                    return Err(reason.into());
                }
                self.warn(format_args!("{reason}"));
                self.reply(code, VhostReply::Ack { done: false })
            }
        }
    }

    fn reply(&self, code: MessageCode, reply: VhostReply<'_>) -> Result<(), Cow<'static, str>> {
        self.send(code, reply, None)
    }

    fn send(
        &self,
        code: MessageCode,
        reply: VhostReply<'_>,
        descriptor: Option<&OwnedFd>,
    ) -> Result<(), Cow<'static, str>> {
        let mut bytes = Vec::new();
        reply.append(code, &mut bytes);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<_> = descriptor.iter().map(|d| d.as_fd()).collect();
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut control, flags) {
            Ok(sent) if sent == bytes.len() => Ok(()),
            // At most one reply is outstanding at a time, and the socket buffer has space for
            // hundreds.
            Ok(_) | Err(Errno::AGAIN) => Err("it does not read its replies".into()),
            Err(_) => Err("its socket failed".into()),
        }
    }

    /// Notifies the VMM that the configuration space has changed, if it has set up a channel for
    /// that.
    pub(super) fn notify_config_changed(&mut self) {
        let Some(channel) = &self.backend else {
            return;
        };
        let mut bytes = Vec::new();
        append_config_changed(&mut bytes);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match send(channel, &bytes, flags) {
            Ok(sent) if sent == bytes.len() => {}
            // Hundreds of notifications are unread. The VMM reads the whole configuration space
            // after each of them, so this one is not needed.
            Err(Errno::AGAIN) => {}
            // The VMM has closed its end of the channel, so this end is of no use.
            Ok(_) | Err(_) => self.backend = None,
        }
    }

    /// Replies to `GET_VRING_BASE` as soon as no request of the queue is in flight.
    pub(super) fn stopped(&mut self) -> Result<(), &'static str> {
        let Some(number) = self.stopping else {
            return Ok(());
        };
        let queue = &mut self.queues[number as usize];
        if !queue.can_stop() {
            return Ok(());
        }
        self.stopping = None;
        queue.stop();
        let base = queue.base;
        let reply = VhostReply::Base {
            queue: number,
            base,
        };
        self.reply(MessageCode::GET_VRING_BASE, reply)
            .map_err(|_| "it does not read its replies")
    }

    fn queue(&mut self, number: u32) -> Result<&mut Virtqueue, MessageRefusal> {
        let queue = self.queues.get_mut(number as usize);
        queue.ok_or(MessageRefusal::Queue(number))
    }

    /// Returns a queue that is not being served.
    fn idle_queue(&mut self, number: u32) -> Result<&mut Virtqueue, MessageRefusal> {
        let queue = self.queue(number)?;
        if queue.device.is_some() {
            return Err(MessageRefusal::Running(number));
        }
        Ok(queue)
    }

    /// Carries out a message.
    pub(super) fn handle_request(
        &mut self,
        request: VhostRequest<OwnedFd>,
    ) -> Result<MessageReply, MessageRefusal> {
        match request {
            VhostRequest::GetFeatures => return Ok(MessageReply::Value(self.disk.features)),
            VhostRequest::GetProtocolFeatures => return Ok(MessageReply::Value(PROTOCOL)),
            VhostRequest::GetQueueNum => return Ok(MessageReply::Value(QUEUES.into())),
            VhostRequest::GetMaxMemSlots => return Ok(MessageReply::Value(REGIONS_MAX as u64)),
            VhostRequest::SetFeatures(features) => self.set_features(features)?,
            VhostRequest::SetProtocolFeatures(features) => {
                if features & !PROTOCOL != 0 {
                    return Err(MessageRefusal::Features(features & !PROTOCOL));
                }
                self.protocol = features;
            }
            VhostRequest::SetOwner => {}
            VhostRequest::ResetOwner | VhostRequest::ResetDevice => self.reset(),
            VhostRequest::SetMemTable(table) => self.set_table(table)?,
            VhostRequest::AddMemReg(region, file) => self.add_region(region, file)?,
            VhostRequest::RemMemReg(region) => self.remove_region(region)?,
            VhostRequest::GetConfig { offset, size } => return Ok(self.read_config(offset, size)),
            VhostRequest::SetConfig { offset, data } => self.write_config(offset, &data)?,
            VhostRequest::GetInflightFd(asked) => return make_inflight(asked),
            VhostRequest::SetInflightFd(inflight, file) => self.set_inflight(inflight, file)?,
            VhostRequest::SetBackendReqFd(channel) => {
                self.backend = Some(channel);
                // The channel belongs to a new connection, and the VMM may know the size of an
                // earlier one. The notification is due as soon as the VMM is quiet.
                self.news = Some(Instant::MAX);
            }
            other => return self.handle_ring_request(other),
        }
        Ok(MessageReply::Plain)
    }

    /// Carries out messages about queues.
    fn handle_ring_request(
        &mut self,
        request: VhostRequest<OwnedFd>,
    ) -> Result<MessageReply, MessageRefusal> {
        match request {
            VhostRequest::SetVringNum { queue, size } => self.idle_queue(queue)?.size = size,
            VhostRequest::SetVringBase { queue, base } => self.idle_queue(queue)?.base = base,
            VhostRequest::SetVringAddr(addresses) => {
                if addresses.logged {
                    return Err(MessageRefusal::Logged);
                }
                // For a queue that is being served, this message repeats the address of the same
                // ring in a new memory table. The old mapping remains valid.
                self.queue(addresses.queue)?.addresses = Some(addresses);
            }
            VhostRequest::SetVringKick { queue, descriptor } => {
                let kick = descriptor.ok_or(MessageRefusal::NoKick)?;
                let queue = self.queue(queue)?;
                queue.kick = Some(Handle::from_shared(kick));
                queue.started = true;
                // The poll on the previous descriptor is cancelled in `VhostSession::watch`.
                queue.exchanged = queue.polling.is_some();
            }
            VhostRequest::SetVringCall { queue, descriptor } => {
                let queue = self.queue(queue)?;
                queue.call = descriptor.map(Handle::from_shared);
                // Responses may have been published while there was no descriptor to call with.
                queue.call_again = queue.call.is_some() && queue.device.is_some();
                self.calls = true;
            }
            VhostRequest::SetVringErr { queue, descriptor } => {
                self.queue(queue)?.error = descriptor.map(Handle::from_shared);
            }
            VhostRequest::SetVringEnable { queue, enabled } => self.queue(queue)?.enabled = enabled,
            VhostRequest::GetVringBase { queue: number } => {
                // The VMM's message stops the queue, so further kicks are ignored.
                let queue = self.queue(number)?;
                queue.kick = None;
                queue.exchanged = queue.polling.is_some();
                if !queue.can_stop() {
                    queue.stopping = true;
                    self.stopping = Some(number);
                    return Ok(MessageReply::Later);
                }
                queue.stop();
                return Ok(MessageReply::Base(number, queue.base));
            }
            _ => return Err(MessageRefusal::Message(MessageError::Unknown)),
        }
        Ok(MessageReply::Plain)
    }

    fn set_features(&mut self, features: u64) -> Result<(), MessageRefusal> {
        let unknown = features & !self.disk.features;
        // The virtio specification forbids drivers to accept features that were not offered (virtio
        // 1.2, section 2.2.1).
        if unknown != 0 {
            return Err(MessageRefusal::Features(unknown));
        }
        self.features = features;
        // Queues are disabled at first. A VMM that does not negotiate protocol features never sends
        // `SET_VRING_ENABLE`, so its queues are enabled here (vhost-user, "Ring states").
        if features & PROTOCOL_FEATURES == 0 {
            self.queues
                .iter_mut()
                .for_each(|queue| queue.enabled = true);
        }
        Ok(())
    }

    /// Resets all queues to their initial state, for `RESET_OWNER` and `RESET_DEVICE`.
    fn reset(&mut self) {
        for queue in &mut self.queues {
            // Operations that are on the ring stay there, and the new queue has to wait for
            // them.
            let (polling, calling) = (queue.polling.take(), queue.calling.take());
            let generation = queue.generation.wrapping_add(1);
            *queue = Virtqueue::new(false);
            queue.generation = generation;
            queue.exchanged = polling.is_some();
            (queue.polling, queue.calling) = (polling, calling);
        }
        self.write_back = true;
    }

    /// Replaces the guest's memory. Requests in flight keep the old mappings.
    fn set_table(&mut self, table: Vec<(Region, OwnedFd)>) -> Result<(), MessageRefusal> {
        let mut mapped: Vec<MappedRegion> = Vec::new();
        let mut files = BTreeMap::new();
        for (region, file) in table {
            let others = mapped.iter().map(|m| m.region);
            check_joining(&region, others, REGIONS_MAX)?;
            mapped.push(map(region, &file)?);
            files.insert(region.guest, file);
        }
        self.files = files;
        self.memory = GuestMemory::new(mapped);
        Ok(())
    }

    fn add_region(&mut self, region: Region, file: OwnedFd) -> Result<(), MessageRefusal> {
        let mut mapped = self.memory.regions().to_vec();
        check_joining(&region, mapped.iter().map(|m| m.region), REGIONS_MAX)?;
        mapped.push(map(region, &file)?);
        self.files.insert(region.guest, file);
        self.memory = GuestMemory::new(mapped);
        Ok(())
    }

    /// Removes the region with the same addresses and size. The descriptor's offset is not
    /// compared.
    fn remove_region(&mut self, region: Region) -> Result<(), MessageRefusal> {
        let mut mapped = self.memory.regions().to_vec();
        let same = |m: &MappedRegion| {
            let Region {
                guest, size, user, ..
            } = m.region;
            (guest, size, user) == (region.guest, region.size, region.user)
        };
        let at = mapped.iter().position(same).ok_or(RegionError::Unknown)?;
        mapped.remove(at);
        self.files.remove(&region.guest);
        self.memory = GuestMemory::new(mapped);
        Ok(())
    }

    fn read_config(&self, offset: u32, size: u32) -> MessageReply {
        let mut all = self.disk.config(self.write_back).to_vec();
        // VMMs read the largest configuration space that they know, which can be longer than this
        // one.
        all.resize(weir_wire::vhost::CONFIG_MAX, 0);
        let range = offset as usize..(offset + size) as usize;
        MessageReply::Config(offset, all.get(range).map(<[u8]>::to_vec))
    }

    /// Changes between write-back and write-through, which is the only field that a driver can
    /// write.
    fn write_config(&mut self, offset: u32, data: &[u8]) -> Result<(), MessageRefusal> {
        match data {
            [choice @ (0 | 1)] if offset as usize == ConfigSpace::WRITE_BACK => {
                self.write_back = *choice == 1;
                Ok(())
            }
            _ => Err(MessageRefusal::Config),
        }
    }

    /// Uses memory of the VMM for the record of requests in flight.
    fn set_inflight(&mut self, inflight: Inflight, file: OwnedFd) -> Result<(), MessageRefusal> {
        let Inflight {
            size,
            offset,
            queues,
            queue_size,
        } = inflight;
        let wanted = inflight_length(queues, queue_size).ok_or(MessageRefusal::Inflight)?;
        if size < wanted {
            return Err(MessageRefusal::Inflight);
        }
        self.notes = Some(InflightMemory {
            mapping: Mapping::new(&file, offset, wanted)?,
            file,
            offset,
            queues,
            queue_size,
        });
        Ok(())
    }
}

/// Returns true if the message has a reply of its own.
fn has_own_reply(code: MessageCode) -> bool {
    matches!(
        code,
        MessageCode::GET_FEATURES
            | MessageCode::GET_PROTOCOL_FEATURES
            | MessageCode::GET_QUEUE_NUM
            | MessageCode::GET_MAX_MEM_SLOTS
            | MessageCode::GET_VRING_BASE
            | MessageCode::GET_CONFIG
            | MessageCode::GET_INFLIGHT_FD
    )
}

fn map(region: Region, file: &OwnedFd) -> Result<MappedRegion, MapError> {
    let mapping = Mapping::new(file, region.offset, region.size)?;
    Ok(MappedRegion { region, mapping })
}

/// Returns the size of the memory that records requests in flight, or `None` if the numbers of
/// queues or entries are not supported.
fn inflight_length(queues: u16, queue_size: u16) -> Option<u64> {
    let fits = (1..=QUEUES).contains(&queues) && queue_size.is_power_of_two();
    fits.then(|| u64::from(queues) * inflight::length(queue_size) as u64)
}

/// Creates the memory for the record of requests in flight, which the VMM keeps.
fn make_inflight(asked: Inflight) -> Result<MessageReply, MessageRefusal> {
    use rustix::fs::{MemfdFlags, SealFlags};
    let length = inflight_length(asked.queues, asked.queue_size).ok_or(MessageRefusal::Inflight)?;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create("weir-inflight", flags)?;
    rustix::fs::ftruncate(&memory, length)?;
    // Sealing keeps the VMM from truncating the memory while the server has it mapped.
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&memory, seals)?;
    let inflight = Inflight {
        size: length,
        offset: 0,
        ..asked
    };
    Ok(MessageReply::Inflight(inflight, memory))
}
