//! From bytes and descriptors to messages.

use super::constants::{
    CONFIG_HEADER_LEN, CONFIG_MAX, Code, DESCRIPTORS_MAX, HEADER_LEN, NEED_REPLY, NO_DESCRIPTOR,
    PAYLOAD_MAX, QUEUE_SIZE_MAX, REPLY, TABLE_REGIONS_MAX, VERSION, VERSION_MASK,
};
use super::region::Region;

/// Why the rest of a stream cannot be understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// Another version of the protocol, or bits that mean nothing.
    #[error("a message with flags {flags:#x} does not have version 1")]
    Version {
        /// The flags of the message.
        flags: u32,
    },
    /// An answer came that nobody asked for.
    #[error("a reply to {0} that was not requested")]
    Reply(Code),
    /// The message is longer than any that there is.
    #[error("{code} has {length} bytes; a message has at most {PAYLOAD_MAX}")]
    TooLong {
        /// What it would be.
        code: Code,
        /// Bytes behind its header.
        length: u32,
    },
    /// More descriptors came than any message has.
    #[error("a message has more than {DESCRIPTORS_MAX} descriptors")]
    Descriptors,
}

/// Why a message cannot be carried out, whatever the state of the device; the next one can be understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MessageError {
    /// What is asked for is not offered.
    #[error("was not offered")]
    Unknown,
    /// It has another length than it must have, bytes behind the header.
    #[error("has an invalid length of {0} bytes")]
    Length(u32),
    /// It came with this number of descriptors, and must have another.
    #[error("has an invalid number of descriptors ({0})")]
    Descriptors(usize),
    /// The number of regions of a table; there may be 1 to 8.
    #[error("has {0} regions; it must have 1 to {TABLE_REGIONS_MAX}")]
    Regions(u32),
    /// A queue's size that is zero, no power of two or more than 32,768.
    #[error("has a queue of {0} entries; it must be a power of two up to {QUEUE_SIZE_MAX}")]
    QueueSize(u32),
    /// A queue's index that its ring cannot have.
    #[error("has an index of {0}, which exceeds 16 bits")]
    QueueBase(u32),
    /// Bytes of a configuration space beyond its end: it has at most 256.
    #[error(
        "names {size} bytes from {offset} on of a configuration space, which has at most {CONFIG_MAX}"
    )]
    Config {
        /// First byte.
        offset: u32,
        /// Bytes.
        size: u32,
    },
    /// A number that is neither 0 nor 1 says whether a queue is enabled.
    #[error("has {0}, but must have 0 or 1")]
    Enable(u32),
}

/// A message of the front end. `D` stands for a descriptor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message<D> {
    /// What it is, by its number.
    pub code: Code,
    /// The front end asks what came of it (`REPLY_ACK`).
    pub needs_reply: bool,
    /// Bytes behind its header.
    pub length: u32,
    /// What it asks for, or what is wrong with it.
    pub request: Result<Request<D>, MessageError>,
}

/// Where a queue lies, as addresses of the front end's process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingAddresses {
    /// Number of the queue.
    pub queue: u32,
    /// What it writes is to be logged at `log`.
    pub logged: bool,
    /// Table of descriptors.
    pub descriptors: u64,
    /// Used ring.
    pub used: u64,
    /// Available ring.
    pub available: u64,
    /// Where to log, of no meaning unless `logged`.
    pub log: u64,
}

/// Memory in which is noted what is in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inflight {
    /// Bytes; zero if they are to be told.
    pub size: u64,
    /// First byte in the descriptor.
    pub offset: u64,
    /// Queues.
    pub queues: u16,
    /// Entries of each.
    pub queue_size: u16,
}

/// What the front end asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request<D> {
    /// Which features of virtio there are.
    GetFeatures,
    /// These are in use.
    SetFeatures(u64),
    /// The sender is the owner of the session.
    SetOwner,
    /// The session is over; not used any more.
    ResetOwner,
    /// The guest's memory is this and nothing else.
    SetMemTable(Vec<(Region, D)>),
    /// How many entries a queue has.
    SetVringNum {
        /// Number of the queue.
        queue: u32,
        /// A power of two.
        size: u16,
    },
    /// Where a queue lies.
    SetVringAddr(RingAddresses),
    /// From which entry of the available ring on a queue is served.
    SetVringBase {
        /// Number of the queue.
        queue: u32,
        /// The index.
        base: u16,
    },
    /// Stop a queue, and say how far it was served.
    GetVringBase {
        /// Number of the queue.
        queue: u32,
    },
    /// By which descriptor the guest says that there are requests; none: the queue is to be looked at by oneself.
    SetVringKick {
        /// Number of the queue.
        queue: u32,
        /// The descriptor.
        descriptor: Option<D>,
    },
    /// By which descriptor the guest is told that there are answers.
    SetVringCall {
        /// Number of the queue.
        queue: u32,
        /// The descriptor.
        descriptor: Option<D>,
    },
    /// By which descriptor the guest is told of errors.
    SetVringErr {
        /// Number of the queue.
        queue: u32,
        /// The descriptor.
        descriptor: Option<D>,
    },
    /// Which features of the protocol there are.
    GetProtocolFeatures,
    /// These are in use.
    SetProtocolFeatures(u64),
    /// How many queues there may be.
    GetQueueNum,
    /// Serve a queue, or do not.
    SetVringEnable {
        /// Number of the queue.
        queue: u32,
        /// Serve it.
        enabled: bool,
    },
    /// Over this the back end may say something by itself.
    SetBackendReqFd(D),
    /// Part of the configuration space.
    GetConfig {
        /// First byte.
        offset: u32,
        /// Bytes.
        size: u32,
    },
    /// Change part of the configuration space.
    SetConfig {
        /// First byte.
        offset: u32,
        /// What is to be there.
        data: Vec<u8>,
    },
    /// Make the memory in which is noted what is in flight.
    GetInflightFd(Inflight),
    /// This is that memory, perhaps of a back end that is gone.
    SetInflightFd(Inflight, D),
    /// A queue has requests, where notifications are messages.
    VringKick {
        /// Number of the queue.
        queue: u32,
    },
    /// Put the device back to what it was at first.
    ResetDevice,
    /// How many regions of memory there may be.
    GetMaxMemSlots,
    /// This is the guest's memory, too.
    AddMemReg(Region, D),
    /// This is not the guest's memory any more.
    RemMemReg(Region),
}

/// Puts messages together from what a socket gives.
///
/// It must be given no more bytes at a time than [`Assembler::room`] has: descriptors that come with them then belong to that message.
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
    /// Where the next bytes go; never empty.
    pub fn room(&mut self) -> &mut [u8] {
        let end = self.end();
        &mut self.bytes[self.have..end]
    }

    /// The end of what is wanted next.
    fn end(&self) -> usize {
        if self.have < HEADER_LEN {
            return HEADER_LEN;
        }
        // What is longer was refused with its header.
        HEADER_LEN + word(&self.bytes, 8) as usize
    }

    /// A message has begun and not ended: the end of the stream would be half of one.
    pub fn is_partial(&self) -> bool {
        self.have > 0
    }

    /// `count` bytes were put into the room, and `descriptors` came with them. Gives the message once it is whole.
    ///
    /// # Errors
    /// Why the stream cannot be understood from here on.
    pub fn filled(
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
        let header = Header::read(&self.bytes)?;
        if self.have < HEADER_LEN + header.length as usize {
            return Ok(None);
        }
        let payload = &self.bytes[HEADER_LEN..self.have];
        let request = request(header.code, payload, &mut self.descriptors);
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
struct Header {
    code: Code,
    needs_reply: bool,
    length: u32,
}

impl Header {
    fn read(bytes: &[u8]) -> Result<Self, FrameError> {
        let (code, flags, length) = (Code(word(bytes, 0)), word(bytes, 4), word(bytes, 8));
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

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn double(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

/// What a message asks for.
fn request<D>(
    code: Code,
    payload: &[u8],
    descriptors: &mut Vec<D>,
) -> Result<Request<D>, MessageError> {
    let body = Body {
        payload,
        descriptors,
    };
    match code {
        Code::SET_MEM_TABLE => body.table(),
        Code::SET_VRING_NUM | Code::SET_VRING_BASE | Code::GET_VRING_BASE | Code::VRING_KICK => {
            body.state(code)
        }
        Code::SET_VRING_ENABLE => body.enable(),
        Code::SET_VRING_ADDR => body.addresses(),
        Code::SET_VRING_KICK | Code::SET_VRING_CALL | Code::SET_VRING_ERR => body.event(code),
        Code::GET_CONFIG | Code::SET_CONFIG => body.config(code),
        Code::GET_INFLIGHT_FD | Code::SET_INFLIGHT_FD => body.inflight(code),
        Code::ADD_MEM_REG | Code::REM_MEM_REG => body.region(code),
        Code::SET_FEATURES => Ok(Request::SetFeatures(body.value()?)),
        Code::SET_PROTOCOL_FEATURES => Ok(Request::SetProtocolFeatures(body.value()?)),
        Code::SET_BACKEND_REQ_FD => {
            body.length(0)?;
            Ok(Request::SetBackendReqFd(body.one()?))
        }
        other => body.nothing(other),
    }
}

/// What is behind a header.
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

    /// The only descriptor.
    fn one(self) -> Result<D, MessageError> {
        self.descriptors(1)?;
        self.descriptors.pop().ok_or(MessageError::Descriptors(0))
    }

    /// Messages that are nothing but their number.
    fn nothing(self, code: Code) -> Result<Request<D>, MessageError> {
        let request = match code {
            Code::GET_FEATURES => Request::GetFeatures,
            Code::SET_OWNER => Request::SetOwner,
            Code::RESET_OWNER => Request::ResetOwner,
            Code::GET_PROTOCOL_FEATURES => Request::GetProtocolFeatures,
            Code::GET_QUEUE_NUM => Request::GetQueueNum,
            Code::RESET_DEVICE => Request::ResetDevice,
            Code::GET_MAX_MEM_SLOTS => Request::GetMaxMemSlots,
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

    fn table(self) -> Result<Request<D>, MessageError> {
        let length = self.payload.len() as u32;
        if length < 8 {
            return Err(MessageError::Length(length));
        }
        let count = word(self.payload, 0);
        if count == 0 || count as usize > TABLE_REGIONS_MAX {
            return Err(MessageError::Regions(count));
        }
        // User-mode Linux always sends room for two.
        let room = 8..=8 + TABLE_REGIONS_MAX * Region::LEN;
        let end = 8 + count as usize * Region::LEN;
        if !room.contains(&self.payload.len()) || self.payload.len() < end {
            return Err(MessageError::Length(length));
        }
        self.descriptors(count as usize)?;
        let regions = self.payload[8..end].chunks_exact(Region::LEN);
        Ok(Request::SetMemTable(
            regions
                .map(Region::read)
                .zip(self.descriptors.drain(..))
                .collect(),
        ))
    }

    fn state(self, code: Code) -> Result<Request<D>, MessageError> {
        self.length(8)?;
        self.descriptors(0)?;
        let (queue, value) = (word(self.payload, 0), word(self.payload, 4));
        match code {
            Code::SET_VRING_NUM => {
                let size = u16::try_from(value).ok();
                let size = size.filter(|s| s.is_power_of_two() && *s <= QUEUE_SIZE_MAX);
                let size = size.ok_or(MessageError::QueueSize(value))?;
                Ok(Request::SetVringNum { queue, size })
            }
            Code::SET_VRING_BASE => {
                let base = u16::try_from(value).map_err(|_| MessageError::QueueBase(value))?;
                Ok(Request::SetVringBase { queue, base })
            }
            Code::VRING_KICK => Ok(Request::VringKick { queue }),
            _ => Ok(Request::GetVringBase { queue }),
        }
    }

    fn enable(self) -> Result<Request<D>, MessageError> {
        self.length(8)?;
        self.descriptors(0)?;
        let queue = word(self.payload, 0);
        match word(self.payload, 4) {
            value @ (0 | 1) => Ok(Request::SetVringEnable {
                queue,
                enabled: value == 1,
            }),
            value => Err(MessageError::Enable(value)),
        }
    }

    fn addresses(self) -> Result<Request<D>, MessageError> {
        self.length(40)?;
        self.descriptors(0)?;
        Ok(Request::SetVringAddr(RingAddresses {
            queue: word(self.payload, 0),
            logged: word(self.payload, 4) & 1 != 0,
            descriptors: double(self.payload, 8),
            used: double(self.payload, 16),
            available: double(self.payload, 24),
            log: double(self.payload, 32),
        }))
    }

    fn event(self, code: Code) -> Result<Request<D>, MessageError> {
        self.length(8)?;
        let value = double(self.payload, 0);
        let queue = (value & 0xff) as u32;
        let descriptor = if value & NO_DESCRIPTOR != 0 {
            self.descriptors(0)?;
            None
        } else {
            Some(self.one()?)
        };
        Ok(match code {
            Code::SET_VRING_KICK => Request::SetVringKick { queue, descriptor },
            Code::SET_VRING_CALL => Request::SetVringCall { queue, descriptor },
            _ => Request::SetVringErr { queue, descriptor },
        })
    }

    fn config(self, code: Code) -> Result<Request<D>, MessageError> {
        let length = self.payload.len();
        if length < CONFIG_HEADER_LEN {
            return Err(MessageError::Length(length as u32));
        }
        let (offset, size) = (word(self.payload, 0), word(self.payload, 4));
        let end = offset.checked_add(size);
        if size == 0 || end.is_none_or(|end| end as usize > CONFIG_MAX) {
            return Err(MessageError::Config { offset, size });
        }
        self.length(CONFIG_HEADER_LEN + size as usize)?;
        self.descriptors(0)?;
        Ok(if code == Code::GET_CONFIG {
            Request::GetConfig { offset, size }
        } else {
            let data = self.payload[CONFIG_HEADER_LEN..].to_vec();
            Request::SetConfig { offset, data }
        })
    }

    /// The structure has 20 bytes, and 24 where a compiler has filled it up.
    fn inflight(self, code: Code) -> Result<Request<D>, MessageError> {
        if !matches!(self.payload.len(), 20 | 24) {
            return Err(MessageError::Length(self.payload.len() as u32));
        }
        let inflight = Inflight {
            size: double(self.payload, 0),
            offset: double(self.payload, 8),
            queues: half(self.payload, 16),
            queue_size: half(self.payload, 18),
        };
        if code == Code::SET_INFLIGHT_FD {
            return Ok(Request::SetInflightFd(inflight, self.one()?));
        }
        self.descriptors(0)?;
        Ok(Request::GetInflightFd(inflight))
    }

    fn region(self, code: Code) -> Result<Request<D>, MessageError> {
        self.length(8 + Region::LEN)?;
        let region = Region::read(&self.payload[8..]);
        if code == Code::ADD_MEM_REG {
            return Ok(Request::AddMemReg(region, self.one()?));
        }
        // Some front ends send the descriptor with it, which the protocol allows and nobody needs.
        if self.descriptors.len() > 1 {
            return Err(MessageError::Descriptors(self.descriptors.len()));
        }
        Ok(Request::RemMemReg(region))
    }
}
