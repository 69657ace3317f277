//! Parser that assembles messages from bytes and descriptors. [`Assembler`] is the main type.

use super::constants::{
    CONFIG_HEADER_LEN, CONFIG_MAX, DESCRIPTORS_MAX, HEADER_LEN, MessageCode, NEED_REPLY,
    NO_DESCRIPTOR, PAYLOAD_MAX, QUEUE_SIZE_MAX, REPLY, TABLE_REGIONS_MAX, VERSION, VERSION_MASK,
};
use super::region::Region;

/// The reason why the rest of a stream cannot be parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// The header does not have version 1 of the protocol.
    #[error("a message with flags {flags:#x} does not have version 1")]
    Version {
        /// The flags of the message.
        flags: u32,
    },
    /// The message is a reply that was not requested.
    #[error("a reply to {0} that was not requested")]
    Reply(MessageCode),
    /// The message is longer than any message that the parser knows.
    #[error("{code} has {length} bytes; a message has at most {PAYLOAD_MAX}")]
    TooLong {
        /// The code of the message.
        code: MessageCode,
        /// The length of the payload in bytes.
        length: u32,
    },
    /// The message has more descriptors than any message of the protocol.
    #[error("a message has more than {DESCRIPTORS_MAX} descriptors")]
    Descriptors,
}

/// The reason why a message cannot be executed, whatever the state of the device is. The next
/// message can be parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MessageError {
    /// The message is unknown or not offered.
    #[error("was not offered")]
    Unknown,
    /// The payload has an invalid length. Contains its length in bytes.
    #[error("has an invalid length of {0} bytes")]
    Length(u32),
    /// The message has an invalid number of descriptors. Contains their number.
    #[error("has an invalid number of descriptors ({0})")]
    Descriptors(usize),
    /// The table has an invalid number of regions. Contains their number, which must be 1 to 8.
    #[error("has {0} regions; it must have 1 to {TABLE_REGIONS_MAX}")]
    Regions(u32),
    /// The size of a queue is zero, not a power of two, or more than 32,768. Contains the size.
    #[error("has a queue of {0} entries; it must be a power of two up to {QUEUE_SIZE_MAX}")]
    QueueSize(u32),
    /// The index of a queue does not fit into 16 bits. Contains the index.
    #[error("has an index of {0}, which exceeds 16 bits")]
    QueueBase(u32),
    /// A range of the configuration space is empty or ends beyond the maximum of 256 bytes.
    #[error(
        "names {size} bytes from {offset} on of a configuration space, which has at most {CONFIG_MAX}"
    )]
    Config {
        /// The first byte of the range.
        offset: u32,
        /// The length of the range in bytes.
        size: u32,
    },
    /// The state of a queue is neither 0 (disabled) nor 1 (enabled). Contains the number.
    #[error("has {0}, but must have 0 or 1")]
    Enable(u32),
}

/// A message of the front end. `D` is the caller's type for a descriptor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message<D> {
    /// The code of the message.
    pub code: MessageCode,
    /// True if the front end requests a reply with the result (`REPLY_ACK`).
    pub needs_reply: bool,
    /// The length of the payload in bytes.
    pub length: u32,
    /// The parsed request, or the reason why it is invalid.
    pub request: Result<VhostRequest<D>, MessageError>,
}

/// The addresses of a queue in the front end's process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingAddresses {
    /// The number of the queue.
    pub queue: u32,
    /// True if writes to the queue must be logged at `log`.
    pub logged: bool,
    /// The address of the table of descriptors.
    pub descriptors: u64,
    /// The address of the used ring.
    pub used: u64,
    /// The address of the available ring.
    pub available: u64,
    /// The address of the log. It has no meaning unless `logged` is true.
    pub log: u64,
}

/// The memory in which requests in flight are recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inflight {
    /// The length in bytes, or zero in a request for the back end to choose it.
    pub size: u64,
    /// The first byte of the memory in its descriptor.
    pub offset: u64,
    /// The number of queues whose requests are recorded.
    pub queues: u16,
    /// The number of entries of each queue.
    pub queue_size: u16,
}

/// A request of the front end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VhostRequest<D> {
    /// Returns the supported features of virtio.
    GetFeatures,
    /// Sets the features of virtio that are used.
    SetFeatures(u64),
    /// Makes the sender the owner of the session.
    SetOwner,
    /// Ends the session. This request is deprecated.
    ResetOwner,
    /// Replaces the guest's memory by these regions.
    SetMemTable(Vec<(Region, D)>),
    /// Sets the number of entries of a queue.
    SetVringNum {
        /// The number of the queue.
        queue: u32,
        /// The number of entries, a power of two.
        size: u16,
    },
    /// Sets the addresses of a queue.
    SetVringAddr(RingAddresses),
    /// Sets the index of the available ring at which a queue starts to be served.
    SetVringBase {
        /// The number of the queue.
        queue: u32,
        /// The index of the next entry.
        base: u16,
    },
    /// Stops a queue and returns the index up to which it was served.
    GetVringBase {
        /// The number of the queue.
        queue: u32,
    },
    /// Sets the descriptor through which the guest kicks a queue. Without a descriptor, the back
    /// end must poll the queue.
    SetVringKick {
        /// The number of the queue.
        queue: u32,
        /// The descriptor, if there is one.
        descriptor: Option<D>,
    },
    /// Sets the descriptor through which the guest is called.
    SetVringCall {
        /// The number of the queue.
        queue: u32,
        /// The descriptor, if there is one.
        descriptor: Option<D>,
    },
    /// Sets the descriptor through which errors are reported.
    SetVringErr {
        /// The number of the queue.
        queue: u32,
        /// The descriptor, if there is one.
        descriptor: Option<D>,
    },
    /// Returns the supported features of the protocol.
    GetProtocolFeatures,
    /// Sets the features of the protocol that are used.
    SetProtocolFeatures(u64),
    /// Returns the maximum number of queues.
    GetQueueNum,
    /// Enables or disables a queue.
    SetVringEnable {
        /// The number of the queue.
        queue: u32,
        /// True to serve the queue.
        enabled: bool,
    },
    /// Sets the descriptor on which the back end can send requests to the front end.
    SetBackendReqFd(D),
    /// Returns a range of the configuration space.
    GetConfig {
        /// The first byte of the range.
        offset: u32,
        /// The length of the range in bytes.
        size: u32,
    },
    /// Changes a range of the configuration space.
    SetConfig {
        /// The first byte of the range.
        offset: u32,
        /// The new content of the range.
        data: Vec<u8>,
    },
    /// Allocates the memory in which requests in flight are recorded.
    GetInflightFd(Inflight),
    /// Passes that memory, which may contain the records of an earlier back end.
    SetInflightFd(Inflight, D),
    /// Kicks a queue, if notifications are messages.
    VringKick {
        /// The number of the queue.
        queue: u32,
    },
    /// Resets the device to its initial state.
    ResetDevice,
    /// Returns the maximum number of memory regions.
    GetMaxMemSlots,
    /// Adds a region to the guest's memory.
    AddMemReg(Region, D),
    /// Removes a region from the guest's memory.
    RemMemReg(Region),
}

/// Assembles messages from the bytes and descriptors that a socket delivers.
///
/// Do not read more bytes at a time than fit into [`Assembler::room`]. The descriptors that arrive
/// with these bytes then belong to the same message.
#[derive(Debug)]
pub struct Assembler<D> {
    bytes: [u8; HEADER_LEN + PAYLOAD_MAX],
    have: usize,
    descriptors: Vec<D>,
}

impl<D> Default for Assembler<D> {
    fn default() -> Self {
        Self {
            bytes: [0; HEADER_LEN + PAYLOAD_MAX],
            have: 0,
            descriptors: Vec::new(),
        }
    }
}

impl<D> Assembler<D> {
    /// Returns the place for the next bytes, which is never empty.
    pub fn room(&mut self) -> &mut [u8] {
        let end = self.end();
        &mut self.bytes[self.have..end]
    }

    /// Returns the end of the part that is read next: the header, or the payload.
    fn end(&self) -> usize {
        if self.have < HEADER_LEN {
            return HEADER_LEN;
        }
        // Messages that are too long were refused with their header, so this is within the array.
        HEADER_LEN + word(&self.bytes, 8) as usize
    }

    /// Returns true if a message is incomplete, so that the stream must not end here.
    pub fn is_partial(&self) -> bool {
        self.have > 0
    }

    /// Returns the bytes and the descriptors of the incomplete message, so that another process can
    /// pass them to [`resume`](Self::resume).
    pub fn partial(&self) -> (&[u8], &[D]) {
        (&self.bytes[..self.have], &self.descriptors)
    }

    /// Continues with the beginning of a message that another process has received
    /// ([`partial`](Self::partial)). Returns false if the bytes and descriptors are not the
    /// beginning of a message.
    pub fn resume(&mut self, mut bytes: &[u8], descriptors: impl IntoIterator<Item = D>) -> bool {
        let mut descriptors = Some(descriptors);
        loop {
            let room = self.room();
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            let descriptors = descriptors.take().into_iter().flatten();
            if !matches!(self.on_received(count, descriptors), Ok(None)) {
                return false;
            }
            if bytes.is_empty() {
                return true;
            }
        }
    }

    /// Reports that `count` bytes were written into the room and that `descriptors` arrived with
    /// them. Returns the message once it is complete.
    ///
    /// # Errors
    /// Returns the reason why the rest of the stream cannot be parsed.
    pub fn on_received(
        &mut self,
        count: usize,
        descriptors: impl IntoIterator<Item = D>,
    ) -> Result<Option<Message<D>>, FrameError> {
        self.have = (self.have + count).min(self.end());
        for descriptor in descriptors {
            if self.descriptors.len() == DESCRIPTORS_MAX {
                return Err(FrameError::Descriptors);
            }
            self.descriptors.push(descriptor);
        }
        if self.have < HEADER_LEN {
            return Ok(None);
        }
        let header = MessageHeader::read(&self.bytes)?;
        if self.have < HEADER_LEN + header.length as usize {
            return Ok(None);
        }
        let payload = &self.bytes[HEADER_LEN..self.have];
        let request = request(header.code, payload, &mut self.descriptors);
        // Descriptors that the parser did not take are dropped with the message, and thereby closed
        // if `D` owns them.
        self.descriptors.clear();
        self.have = 0;
        Ok(Some(Message {
            code: header.code,
            needs_reply: header.needs_reply,
            length: header.length,
            request,
        }))
    }
}

#[derive(Clone, Copy, Debug)]
struct MessageHeader {
    code: MessageCode,
    needs_reply: bool,
    length: u32,
}

impl MessageHeader {
    fn read(bytes: &[u8]) -> Result<Self, FrameError> {
        let (code, flags, length) = (MessageCode(word(bytes, 0)), word(bytes, 4), word(bytes, 8));
        if flags & VERSION_MASK != VERSION {
            return Err(FrameError::Version { flags });
        }
        if flags & REPLY != 0 {
            return Err(FrameError::Reply(code));
        }
        if length as usize > PAYLOAD_MAX {
            return Err(FrameError::TooLong { code, length });
        }
        Ok(Self {
            code,
            needs_reply: flags & NEED_REPLY != 0,
            length,
        })
    }
}

// The callers have checked the length before they read a number.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn double(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

/// Parses the request in a payload.
fn request<D>(
    code: MessageCode,
    payload: &[u8],
    descriptors: &mut Vec<D>,
) -> Result<VhostRequest<D>, MessageError> {
    let body = Body {
        payload,
        descriptors,
    };
    match code {
        MessageCode::SET_MEM_TABLE => body.table(),
        MessageCode::SET_VRING_NUM
        | MessageCode::SET_VRING_BASE
        | MessageCode::GET_VRING_BASE
        | MessageCode::VRING_KICK => body.state(code),
        MessageCode::SET_VRING_ENABLE => body.enable(),
        MessageCode::SET_VRING_ADDR => body.addresses(),
        MessageCode::SET_VRING_KICK | MessageCode::SET_VRING_CALL | MessageCode::SET_VRING_ERR => {
            body.event(code)
        }
        MessageCode::GET_CONFIG | MessageCode::SET_CONFIG => body.config(code),
        MessageCode::GET_INFLIGHT_FD | MessageCode::SET_INFLIGHT_FD => body.inflight(code),
        MessageCode::ADD_MEM_REG | MessageCode::REM_MEM_REG => body.region(code),
        MessageCode::SET_FEATURES => Ok(VhostRequest::SetFeatures(body.value()?)),
        MessageCode::SET_PROTOCOL_FEATURES => Ok(VhostRequest::SetProtocolFeatures(body.value()?)),
        MessageCode::SET_BACKEND_REQ_FD => {
            body.length(0)?;
            Ok(VhostRequest::SetBackendReqFd(body.take_descriptor()?))
        }
        other => body.parse_empty(other),
    }
}

/// The payload and the descriptors of a message.
struct Body<'a, D> {
    payload: &'a [u8],
    descriptors: &'a mut Vec<D>,
}

impl<D> Body<'_, D> {
    fn length(&self, wanted: usize) -> Result<(), MessageError> {
        if self.payload.len() == wanted {
            Ok(())
        } else {
            Err(MessageError::Length(self.payload.len() as u32))
        }
    }

    fn descriptors(&self, wanted: usize) -> Result<(), MessageError> {
        if self.descriptors.len() == wanted {
            Ok(())
        } else {
            Err(MessageError::Descriptors(self.descriptors.len()))
        }
    }

    /// Takes the only descriptor of the message.
    fn take_descriptor(self) -> Result<D, MessageError> {
        self.descriptors(1)?;
        self.descriptors.pop().ok_or(MessageError::Descriptors(0))
    }

    /// Parses messages that consist of their code alone.
    fn parse_empty(self, code: MessageCode) -> Result<VhostRequest<D>, MessageError> {
        let request = match code {
            MessageCode::GET_FEATURES => VhostRequest::GetFeatures,
            MessageCode::SET_OWNER => VhostRequest::SetOwner,
            MessageCode::RESET_OWNER => VhostRequest::ResetOwner,
            MessageCode::GET_PROTOCOL_FEATURES => VhostRequest::GetProtocolFeatures,
            MessageCode::GET_QUEUE_NUM => VhostRequest::GetQueueNum,
            MessageCode::RESET_DEVICE => VhostRequest::ResetDevice,
            MessageCode::GET_MAX_MEM_SLOTS => VhostRequest::GetMaxMemSlots,
            _ => return Err(MessageError::Unknown),
        };
        self.length(0)?;
        self.descriptors(0)?;
        Ok(request)
    }

    fn value(self) -> Result<u64, MessageError> {
        self.length(8)?;
        self.descriptors(0)?;
        Ok(double(self.payload, 0))
    }

    fn table(self) -> Result<VhostRequest<D>, MessageError> {
        let length = self.payload.len() as u32;
        if length < 8 {
            return Err(MessageError::Length(length));
        }
        let count = word(self.payload, 0);
        if count == 0 || count as usize > TABLE_REGIONS_MAX {
            return Err(MessageError::Regions(count));
        }
        // User-mode Linux always sends room for two regions, so the payload may be longer than the
        // table.
        let room = 8..=8 + TABLE_REGIONS_MAX * Region::LEN;
        let end = 8 + count as usize * Region::LEN;
        if !room.contains(&self.payload.len()) || self.payload.len() < end {
            return Err(MessageError::Length(length));
        }
        self.descriptors(count as usize)?;
        let regions = self.payload[8..end].chunks_exact(Region::LEN);
        Ok(VhostRequest::SetMemTable(
            regions
                .map(Region::read)
                .zip(self.descriptors.drain(..))
                .collect(),
        ))
    }

    fn state(self, code: MessageCode) -> Result<VhostRequest<D>, MessageError> {
        self.length(8)?;
        self.descriptors(0)?;
        let (queue, value) = (word(self.payload, 0), word(self.payload, 4));
        match code {
            MessageCode::SET_VRING_NUM => {
                // The size is sent in 32 bits, but a split queue has at most 2^15 entries.
                let size = u16::try_from(value).ok();
                let size = size.filter(|s| s.is_power_of_two() && *s <= QUEUE_SIZE_MAX);
                let size = size.ok_or(MessageError::QueueSize(value))?;
                Ok(VhostRequest::SetVringNum { queue, size })
            }
            MessageCode::SET_VRING_BASE => {
                let base = u16::try_from(value).map_err(|_| MessageError::QueueBase(value))?;
                Ok(VhostRequest::SetVringBase { queue, base })
            }
            MessageCode::VRING_KICK => Ok(VhostRequest::VringKick { queue }),
            _ => Ok(VhostRequest::GetVringBase { queue }),
        }
    }

    fn enable(self) -> Result<VhostRequest<D>, MessageError> {
        self.length(8)?;
        self.descriptors(0)?;
        let queue = word(self.payload, 0);
        match word(self.payload, 4) {
            value @ (0 | 1) => Ok(VhostRequest::SetVringEnable {
                queue,
                enabled: value == 1,
            }),
            value => Err(MessageError::Enable(value)),
        }
    }

    fn addresses(self) -> Result<VhostRequest<D>, MessageError> {
        self.length(40)?;
        self.descriptors(0)?;
        Ok(VhostRequest::SetVringAddr(RingAddresses {
            queue: word(self.payload, 0),
            // Bit 0 is `VHOST_VRING_F_LOG`, the only flag.
            logged: word(self.payload, 4) & 1 != 0,
            descriptors: double(self.payload, 8),
            used: double(self.payload, 16),
            available: double(self.payload, 24),
            log: double(self.payload, 32),
        }))
    }

    fn event(self, code: MessageCode) -> Result<VhostRequest<D>, MessageError> {
        self.length(8)?;
        let value = double(self.payload, 0);
        // The lowest byte is the number of the queue, and bit 8 states that there is no descriptor.
        let queue = (value & 0xff) as u32;
        let descriptor = if value & NO_DESCRIPTOR != 0 {
            self.descriptors(0)?;
            None
        } else {
            Some(self.take_descriptor()?)
        };
        Ok(match code {
            MessageCode::SET_VRING_KICK => VhostRequest::SetVringKick { queue, descriptor },
            MessageCode::SET_VRING_CALL => VhostRequest::SetVringCall { queue, descriptor },
            _ => VhostRequest::SetVringErr { queue, descriptor },
        })
    }

    fn config(self, code: MessageCode) -> Result<VhostRequest<D>, MessageError> {
        let length = self.payload.len();
        if length < CONFIG_HEADER_LEN {
            return Err(MessageError::Length(length as u32));
        }
        let (offset, size) = (word(self.payload, 0), word(self.payload, 4));
        // Both numbers come from the front end, so their sum may overflow.
        let end = offset.checked_add(size);
        if size == 0 || end.is_none_or(|end| end as usize > CONFIG_MAX) {
            return Err(MessageError::Config { offset, size });
        }
        self.length(CONFIG_HEADER_LEN + size as usize)?;
        self.descriptors(0)?;
        Ok(if code == MessageCode::GET_CONFIG {
            VhostRequest::GetConfig { offset, size }
        } else {
            let data = self.payload[CONFIG_HEADER_LEN..].to_vec();
            VhostRequest::SetConfig { offset, data }
        })
    }

    /// Parses the description of in-flight memory. The structure has 20 bytes, or 24 if a compiler
    /// has padded it.
    fn inflight(self, code: MessageCode) -> Result<VhostRequest<D>, MessageError> {
        if !matches!(self.payload.len(), 20 | 24) {
            return Err(MessageError::Length(self.payload.len() as u32));
        }
        let inflight = Inflight {
            size: double(self.payload, 0),
            offset: double(self.payload, 8),
            queues: half(self.payload, 16),
            queue_size: half(self.payload, 18),
        };
        if code == MessageCode::SET_INFLIGHT_FD {
            return Ok(VhostRequest::SetInflightFd(
                inflight,
                self.take_descriptor()?,
            ));
        }
        self.descriptors(0)?;
        Ok(VhostRequest::GetInflightFd(inflight))
    }

    fn region(self, code: MessageCode) -> Result<VhostRequest<D>, MessageError> {
        self.length(8 + Region::LEN)?;
        let region = Region::read(&self.payload[8..]);
        if code == MessageCode::ADD_MEM_REG {
            return Ok(VhostRequest::AddMemReg(region, self.take_descriptor()?));
        }
        // Some front ends send the region's descriptor. The protocol advises against it, but
        // permits a back end to accept the message. The descriptor is not used.
        if self.descriptors.len() > 1 {
            return Err(MessageError::Descriptors(self.descriptors.len()));
        }
        Ok(VhostRequest::RemMemReg(region))
    }
}
