//! The client's side of the handshake. [`NbdClientHandshake`] is the state machine,
//! [`ClientSession`] its result.

#[cfg(test)]
mod tests;

use std::mem;

use crate::nbd::constants::{
    BASE_ALLOCATION, CLIENT_FLAG_FIXED_NEWSTYLE, CLIENT_FLAG_NO_ZEROES, EXPORT_NAME_PADDING,
    FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, GREETING_LEN, INFO_BLOCK_SIZE, INFO_EXPORT, MAX_STRING,
    NBD_MAGIC, OPT_ABORT, OPT_EXPORT_NAME, OPT_GO, OPT_SET_META_CONTEXT, OPT_STARTTLS,
    OPT_STRUCTURED_REPLY, OPTION_MAGIC, OPTION_REPLY_HEADER_LEN, OPTION_REPLY_MAGIC, REP_ACK,
    REP_ERR_UNSUP, REP_ERROR_BIT, REP_INFO, REP_META_CONTEXT,
};
use crate::nbd::export::BlockSizes;
use crate::nbd::fields::Fields;
use crate::nbd::flags::TransmissionFlags;

/// The features that a client requests, and the limits that it enforces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientHandshakeConfig {
    /// The name of the export, at most 4096 bytes. If it is empty, the server chooses its default
    /// export.
    pub export: String,
    /// Requests structured replies from the server.
    pub structured: bool,
    /// Requests `base:allocation`, which requires `structured`.
    pub meta_allocation: bool,
    /// Requests the block sizes, and promises to obey them.
    pub block_sizes: bool,
    /// Uses `EXPORT_NAME` at once instead of GO.
    pub export_name: bool,
    /// Begins TLS before every other option. A server without TLS is refused.
    pub tls: bool,
    /// Maximum length of the data of one option reply, in bytes. 64 KiB by default.
    pub reply_data: u32,
    /// Maximum number of replies in one handshake. 1024 by default.
    pub replies: u32,
}

impl ClientHandshakeConfig {
    /// Requests every feature, with the default limits.
    pub fn new(export: impl Into<String>) -> Self {
        Self {
            export: export.into(),
            structured: true,
            meta_allocation: true,
            block_sizes: true,
            export_name: false,
            tls: false,
            reply_data: 64 << 10,
            replies: 1024,
        }
    }
}

/// The session that a handshake negotiated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientSession {
    /// Size of the export in bytes.
    pub size: u64,
    /// The features of the export.
    pub flags: TransmissionFlags,
    /// True if READ is answered with structured reply chunks.
    pub structured: bool,
    /// The ID of the metadata context `base:allocation`, if it was selected.
    pub allocation: Option<u32>,
    /// The block sizes, if the server sent them.
    pub block_sizes: Option<BlockSizes>,
}

/// The end of a handshake that followed the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientHandshakeOutcome {
    /// The transmission phase begins.
    Transmission(ClientSession),
    /// TLS begins. Bytes that were received and not consumed must be refused, because another party
    /// can have inserted them. [`NbdClientHandshake::encrypted`] continues the handshake.
    StartTls,
    /// The server refused. The output contains the client's abort: send it, then close the
    /// connection.
    Refused {
        /// The option that was refused.
        option: u32,
        /// The error reply of the server (`REP_ERR_*`).
        reply: u32,
        /// The message of the server, which may be empty.
        message: String,
    },
}

/// The client's side of one connection's handshake, as a state machine without I/O. It sends
/// nothing before the server's greeting has arrived.
///
/// It requests the features of its [`ClientHandshakeConfig`], one option at a time. If the server
/// refuses structured replies or `base:allocation`, the handshake continues without them. If the
/// server does not know GO, it falls back to `EXPORT_NAME`.
#[derive(Debug, Clone)]
pub struct NbdClientHandshake {
    config: ClientHandshakeConfig,
    state: ClientHandshakeState,
    /// The bytes received so far of the message that `state` expects.
    held: Vec<u8>,
    no_zeroes: bool,
    /// The number of option replies whose headers were accepted.
    replies: u32,
    /// The results of the negotiation so far.
    session: ClientSession,
    /// True if the server has sent size and flags.
    described: bool,
}

/// The message that the handshake expects next. `option` is the option that was sent.
#[derive(Debug, Clone, Copy)]
enum ClientHandshakeState {
    Greeting,
    Header {
        option: u32,
    },
    Data {
        option: u32,
        reply: u32,
        length: u32,
    },
    ExportNameAnswer,
    Ended,
}

/// The result of one step: the outcome, if the handshake has ended.
type ClientHandshakeStep = Result<Option<ClientHandshakeOutcome>, ClientHandshakeError>;

impl NbdClientHandshake {
    /// Creates a handshake that has not begun.
    ///
    /// # Panics
    /// If the name of the export is longer than 4096 bytes.
    pub fn new(config: ClientHandshakeConfig) -> Self {
        assert!(
            config.export.len() <= MAX_STRING,
            "export name of {} bytes",
            config.export.len()
        );
        Self {
            config,
            state: ClientHandshakeState::Greeting,
            held: Vec::new(),
            no_zeroes: false,
            replies: 0,
            session: ClientSession::default(),
            described: false,
        }
    }

    /// Takes bytes that the server sent, in parts of any size, and appends the answer to `out`.
    ///
    /// Returns the number of consumed bytes of `input`, and the outcome once the handshake has
    /// ended. Until then all bytes are consumed. The rest belongs to the transmission phase. After
    /// an outcome or an error, no further input is consumed.
    ///
    /// # Errors
    /// Returns the way in which the server violated the protocol. The connection must be closed.
    pub fn feed(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<ClientHandshakeOutcome>), ClientHandshakeError> {
        let mut rest = input;
        while let Some(wanted) = self.wanted() {
            let take = (wanted - self.held.len()).min(rest.len());
            self.held.extend_from_slice(&rest[..take]);
            rest = &rest[take..];
            if self.held.len() < wanted {
                break;
            }
            if let Some(outcome) = self.advance(out)? {
                return Ok((input.len() - rest.len(), Some(outcome)));
            }
        }
        Ok((input.len() - rest.len(), None))
    }

    /// Returns the length in bytes of the message that the state expects, or `None` after the end.
    fn wanted(&self) -> Option<usize> {
        match self.state {
            ClientHandshakeState::Greeting => Some(GREETING_LEN),
            ClientHandshakeState::Header { .. } => Some(OPTION_REPLY_HEADER_LEN),
            ClientHandshakeState::Data { length, .. } => Some(length as usize),
            // The reply to `EXPORT_NAME` has no header: 8 bytes of size, 2 bytes of flags, and the
            // padding.
            ClientHandshakeState::ExportNameAnswer if self.no_zeroes => Some(10),
            ClientHandshakeState::ExportNameAnswer => Some(10 + EXPORT_NAME_PADDING),
            ClientHandshakeState::Ended => None,
        }
    }

    /// Processes the complete message in `held` and moves to the next state.
    fn advance(&mut self, out: &mut Vec<u8>) -> ClientHandshakeStep {
        let mut piece = mem::take(&mut self.held);
        // A step that fails leaves this state, so that the handshake has ended after an error.
        let outcome = match mem::replace(&mut self.state, ClientHandshakeState::Ended) {
            ClientHandshakeState::Greeting => self.greeting(&piece, out).map(|()| None),
            ClientHandshakeState::Header { option } => {
                self.reply_header(option, &piece).map(|()| None)
            }
            ClientHandshakeState::Data { option, reply, .. } if reply & REP_ERROR_BIT != 0 => {
                Ok(self.error_reply(option, reply, &piece, out))
            }
            ClientHandshakeState::Data { option, reply, .. } => {
                self.reply(option, reply, &piece, out)
            }
            ClientHandshakeState::ExportNameAnswer => self
                .describe(&mut Fields::new(&piece))
                .map(|()| Some(ClientHandshakeOutcome::Transmission(self.session.clone()))),
            ClientHandshakeState::Ended => Ok(None),
        };
        piece.clear();
        self.held = piece;
        outcome
    }

    fn greeting(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), ClientHandshakeError> {
        let mut greeting = Fields::new(piece);
        let magics = (greeting.u64(), greeting.u64());
        let flags = greeting.u16().unwrap_or(0);
        if magics != (Some(NBD_MAGIC), Some(OPTION_MAGIC)) || flags & FLAG_FIXED_NEWSTYLE == 0 {
            return Err(ClientHandshakeError::NotFixedNewstyle);
        }
        self.no_zeroes = flags & FLAG_NO_ZEROES != 0;
        let no_zeroes = if self.no_zeroes {
            CLIENT_FLAG_NO_ZEROES
        } else {
            0
        };
        out.extend_from_slice(&(CLIENT_FLAG_FIXED_NEWSTYLE | no_zeroes).to_be_bytes());
        if self.config.tls {
            self.send(out, OPT_STARTTLS, &[]);
        } else {
            self.encrypted(out);
        }
        Ok(())
    }

    /// Continues the handshake after [`ClientHandshakeOutcome::StartTls`], when TLS has begun.
    pub fn encrypted(&mut self, out: &mut Vec<u8>) {
        if self.config.structured {
            self.send(out, OPT_STRUCTURED_REPLY, &[]);
        } else {
            self.choose_export(out);
        }
    }

    fn reply_header(&mut self, option: u32, piece: &[u8]) -> Result<(), ClientHandshakeError> {
        // `wanted` guarantees the length of the header, so that the defaults below are never used.
        let mut header = Fields::new(piece);
        let magic = header.u64().unwrap_or(0);
        if magic != OPTION_REPLY_MAGIC {
            return Err(ClientHandshakeError::BadMagic(magic));
        }
        let found = header.u32().unwrap_or(0);
        if found != option {
            return Err(ClientHandshakeError::WrongOption {
                sent: option,
                found,
            });
        }
        let reply = header.u32().unwrap_or(0);
        let length = header.u32().unwrap_or(0);
        if length > self.config.reply_data {
            return Err(ClientHandshakeError::ReplyTooLong {
                length,
                limit: self.config.reply_data,
            });
        }
        if self.replies == self.config.replies {
            return Err(ClientHandshakeError::TooManyReplies {
                limit: self.config.replies,
            });
        }
        self.replies += 1;
        self.state = ClientHandshakeState::Data {
            option,
            reply,
            length,
        };
        Ok(())
    }

    /// Processes a reply that is not an error.
    fn reply(
        &mut self,
        option: u32,
        reply: u32,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> ClientHandshakeStep {
        match (option, reply) {
            (_, REP_ACK) if !data.is_empty() => {
                return Err(ClientHandshakeError::BadReply(
                    "an acknowledgement contains data",
                ));
            }
            (OPT_STARTTLS, REP_ACK) => return Ok(Some(ClientHandshakeOutcome::StartTls)),
            (OPT_STRUCTURED_REPLY, REP_ACK) => {
                self.session.structured = true;
                if self.config.meta_allocation {
                    self.select_allocation(out);
                } else {
                    self.choose_export(out);
                }
            }
            (OPT_SET_META_CONTEXT, REP_META_CONTEXT) => {
                self.meta_context(data)?;
                self.state = ClientHandshakeState::Header { option };
            }
            (OPT_SET_META_CONTEXT, REP_ACK) => self.choose_export(out),
            (OPT_GO, REP_INFO) => {
                self.information(data)?;
                self.state = ClientHandshakeState::Header { option };
            }
            (OPT_GO, REP_ACK) => return self.accepted().map(Some),
            _ => {
                return Err(ClientHandshakeError::BadReply(
                    "a reply does not belong to its option",
                ));
            }
        }
        Ok(None)
    }

    /// Processes an error reply: continues without the feature, or ends the handshake.
    fn error_reply(
        &mut self,
        option: u32,
        reply: u32,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<ClientHandshakeOutcome> {
        match option {
            OPT_STRUCTURED_REPLY => self.choose_export(out),
            OPT_SET_META_CONTEXT => {
                // Contexts that arrived before the error do not count.
                self.session.allocation = None;
                self.choose_export(out);
            }
            // If a server does not know GO, the client should fall back to `EXPORT_NAME`
            // (`proto.md`, Option types).
            OPT_GO if reply == REP_ERR_UNSUP => self.send_export_name(out),
            _ => {
                append_option(out, OPT_ABORT, &[]);
                let message = String::from_utf8_lossy(data).into_owned();
                return Some(ClientHandshakeOutcome::Refused {
                    option,
                    reply,
                    message,
                });
            }
        }
        None
    }

    fn meta_context(&mut self, data: &[u8]) -> Result<(), ClientHandshakeError> {
        let mut fields = Fields::new(data);
        let (Some(id), Some(name)) = (fields.u32(), fields.last_string()) else {
            return Err(ClientHandshakeError::BadReply(
                "a metadata context is malformed",
            ));
        };
        if name != BASE_ALLOCATION {
            return Err(ClientHandshakeError::BadReply(
                "a metadata context was not requested",
            ));
        }
        self.session.allocation = Some(id);
        Ok(())
    }

    fn information(&mut self, data: &[u8]) -> Result<(), ClientHandshakeError> {
        let mut fields = Fields::new(data);
        match fields.u16() {
            Some(INFO_EXPORT) => {
                self.describe(&mut fields)?;
                if !fields.is_empty() {
                    return Err(ClientHandshakeError::BadReply(
                        "the description of the export is malformed",
                    ));
                }
            }
            Some(INFO_BLOCK_SIZE) => {
                let words = (fields.u32(), fields.u32(), fields.u32());
                let (Some(minimum), Some(preferred), Some(maximum)) = words else {
                    return Err(ClientHandshakeError::BadReply(
                        "the block sizes are malformed",
                    ));
                };
                self.session.block_sizes = Some(BlockSizes {
                    minimum,
                    preferred,
                    maximum,
                });
            }
            // Unknown information is ignored, as the protocol demands (`proto.md`, Option reply
            // types).
            Some(_) => {}
            None => return Err(ClientHandshakeError::BadReply("information has no type")),
        }
        Ok(())
    }

    /// Stores the size and the flags that the server sent.
    fn describe(&mut self, fields: &mut Fields<'_>) -> Result<(), ClientHandshakeError> {
        let (Some(size), Some(flags)) = (fields.u64(), fields.u16()) else {
            return Err(ClientHandshakeError::BadReply(
                "the description of the export is malformed",
            ));
        };
        self.session.size = size;
        self.session.flags = TransmissionFlags::from_bits(flags);
        self.described = true;
        Ok(())
    }

    fn accepted(&self) -> Result<ClientHandshakeOutcome, ClientHandshakeError> {
        // An acknowledgement of GO must follow the size and the flags of the export.
        if !self.described {
            return Err(ClientHandshakeError::BadReply(
                "the export has no description",
            ));
        }
        if self
            .session
            .block_sizes
            .is_some_and(|sizes| !sizes.is_valid(self.session.size))
        {
            return Err(ClientHandshakeError::BadReply(
                "the protocol does not permit these block sizes",
            ));
        }
        Ok(ClientHandshakeOutcome::Transmission(self.session.clone()))
    }

    fn select_allocation(&mut self, out: &mut Vec<u8>) {
        let mut data = counted(&self.config.export);
        data.extend_from_slice(&1u32.to_be_bytes());
        data.extend_from_slice(&counted(BASE_ALLOCATION));
        self.send(out, OPT_SET_META_CONTEXT, &data);
    }

    fn choose_export(&mut self, out: &mut Vec<u8>) {
        if self.config.export_name {
            return self.send_export_name(out);
        }
        let mut data = counted(&self.config.export);
        data.extend_from_slice(&u16::from(self.config.block_sizes).to_be_bytes());
        if self.config.block_sizes {
            data.extend_from_slice(&INFO_BLOCK_SIZE.to_be_bytes());
        }
        self.send(out, OPT_GO, &data);
    }

    fn send_export_name(&mut self, out: &mut Vec<u8>) {
        append_option(out, OPT_EXPORT_NAME, self.config.export.as_bytes());
        self.state = ClientHandshakeState::ExportNameAnswer;
    }

    fn send(&mut self, out: &mut Vec<u8>, option: u32, data: &[u8]) {
        append_option(out, option, data);
        self.state = ClientHandshakeState::Header { option };
    }
}

fn append_option(out: &mut Vec<u8>, option: u32, data: &[u8]) {
    out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

/// Encodes a string preceded by its length in 32 bits.
fn counted(string: &str) -> Vec<u8> {
    let mut bytes = (string.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(string.as_bytes());
    bytes
}

/// The way in which the server violated the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientHandshakeError {
    /// The greeting is not that of an NBD server with the fixed newstyle handshake.
    #[error("the server does not support the fixed newstyle handshake of NBD")]
    NotFixedNewstyle,
    /// An option reply starts with this number instead of the magic number.
    #[error("the option reply starts with {0:#018x} instead of the magic number")]
    BadMagic(u64),
    /// A reply belongs to an option that was not sent.
    #[error("the server replied to option {found}, but option {sent} was sent")]
    WrongOption {
        /// The option that the client sent.
        sent: u32,
        /// The option that the reply names.
        found: u32,
    },
    /// A reply has more data than the limit permits.
    #[error("an option reply of {length} bytes exceeds the limit of {limit} bytes")]
    ReplyTooLong {
        /// The announced length in bytes.
        length: u32,
        /// The permitted length in bytes.
        limit: u32,
    },
    /// The server sent more replies than the limit permits.
    #[error("the server sent more than {limit} option replies")]
    TooManyReplies {
        /// The permitted number of replies.
        limit: u32,
    },
    /// An option reply is malformed. Contains the reason.
    #[error("malformed option reply: {0}")]
    BadReply(&'static str),
}
