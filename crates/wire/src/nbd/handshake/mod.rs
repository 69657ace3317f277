//! The server's side of the handshake.

mod option;
#[cfg(test)]
mod tests;

use std::mem;

use self::option::{InfoRequest, MetaRequest, append_reply};
use super::constants::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, CLIENT_FLAG_FIXED_NEWSTYLE, CLIENT_FLAG_NO_ZEROES,
    EXPORT_NAME_PADDING, FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, INFO_BLOCK_SIZE, INFO_DESCRIPTION,
    INFO_EXPORT, INFO_NAME, NBD_MAGIC, OPT_ABORT, OPT_EXPORT_NAME, OPT_GO, OPT_INFO, OPT_LIST,
    OPT_LIST_META_CONTEXT, OPT_SET_META_CONTEXT, OPT_STARTTLS, OPT_STRUCTURED_REPLY,
    OPTION_HEADER_LEN, OPTION_MAGIC, REP_ACK, REP_ERR_BLOCK_SIZE_REQD, REP_ERR_INVALID,
    REP_ERR_POLICY, REP_ERR_UNKNOWN, REP_ERR_UNSUP, REP_INFO, REP_META_CONTEXT, REP_SERVER,
};
use super::export::{Denied, ExportInfo, Exports};
use super::fields::{self, Fields};
use super::flags::TransmissionFlags;
use super::reply::MAX_CHUNK_DATA;
use super::rules::{RuleSettings, Rules};

/// Limits and policy of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeConfig {
    /// Maximum length of the data of one option in bytes; more ends the connection. 64 KiB by default.
    pub option_data: u32,
    /// Maximum number of options in one handshake; one more ends the connection. 64 by default.
    pub options: u32,
    /// Once the output holds this many bytes, [`Handshake::feed`] answers no further option in the same call. 64 KiB by default.
    pub output: usize,
    /// Refuse a client that did not ask for the block sizes of an export whose minimum block size
    /// is above 1.
    pub require_block_size: bool,
}

impl Default for HandshakeConfig {
    fn default() -> Self {
        Self {
            option_data: 64 << 10,
            options: 64,
            output: 64 << 10,
            require_block_size: false,
        }
    }
}

/// The result of a handshake that ended in the transmission phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The export, as [`Exports::find`] described it.
    pub export: ExportInfo,
    /// The flags as sent to the client.
    pub flags: TransmissionFlags,
    /// Structured replies were negotiated: READ and `BLOCK_STATUS` must be answered with chunks.
    pub structured: bool,
    /// `base:allocation` was selected for this export, with the ID [`BASE_ALLOCATION_ID`](super::BASE_ALLOCATION_ID).
    pub meta_allocation: bool,
    /// The client asked for no padding after `EXPORT_NAME`.
    pub no_zeroes: bool,
    /// The client asked for the block sizes with GO, and thus promised to obey them.
    pub block_sizes_requested: bool,
}

impl Session {
    /// The rules for this session's requests: READ and WRITE up to the export's maximum block size
    /// (and [`MAX_CHUNK_DATA`]), ranges without payload up to `maximum_range` bytes.
    pub fn rules(&self, maximum_range: u32) -> Rules {
        Rules::new(RuleSettings {
            size: self.export.size,
            flags: self.flags,
            meta_allocation: self.meta_allocation,
            minimum_block: self.export.block_sizes.minimum,
            maximum_payload: self.export.block_sizes.maximum.min(MAX_CHUNK_DATA),
            maximum_range,
        })
    }

    /// Size and flags of the export as they are sent.
    fn size_and_flags(&self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&self.export.size.to_be_bytes());
        bytes[8..].copy_from_slice(&self.flags.bits().to_be_bytes());
        bytes
    }
}

/// How a handshake ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The transmission phase begins with the first byte that was not consumed.
    Transmission(Box<Session>),
    /// The client aborted the handshake: send the output, then close the connection.
    Aborted,
}

/// The server's side of one connection's handshake (fixed newstyle), as a state machine: bytes in,
/// bytes out.
///
/// Memory: the data received of one option, and the name of one export.
#[derive(Debug, Clone)]
pub struct Handshake {
    config: HandshakeConfig,
    state: State,
    /// Received bytes of the message that `state` waits for.
    held: Vec<u8>,
    /// Number of options that have begun.
    options: u32,
    no_zeroes: bool,
    structured: bool,
    /// Name of the export for which `base:allocation` is selected.
    meta_allocation: Option<String>,
}

/// What the handshake waits for.
#[derive(Debug, Clone, Copy)]
enum State {
    ClientFlags,
    Header,
    Data { option: u32, length: u32 },
    Ended,
}

/// The outcome, if there is one yet.
type Step = Result<Option<Outcome>, HandshakeError>;

impl Handshake {
    /// A handshake that has not begun.
    pub fn new(config: HandshakeConfig) -> Self {
        Self {
            config,
            state: State::ClientFlags,
            held: Vec::new(),
            options: 0,
            no_zeroes: false,
            structured: false,
            meta_allocation: None,
        }
    }

    /// Appends the server's greeting to `out`. Call it once, before [`feed`](Self::feed).
    pub fn greet(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&NBD_MAGIC.to_be_bytes());
        out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        out.extend_from_slice(&(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
    }

    /// Takes what the client sent, in pieces of any size, and appends what must be sent to it to
    /// `out`.
    ///
    /// Returns how many bytes of `input` were consumed, and the outcome once there is one. Fewer bytes than given are consumed
    /// only if the handshake ended (the rest belongs to the transmission phase) or if `out` reached [`HandshakeConfig::output`]:
    /// send it, then call again with the rest. Until the handshake has ended, every call with input consumes some of it. `out`
    /// must always be sent, also with an outcome or an error. After either nothing more is consumed.
    ///
    /// # Errors
    /// Why the connection must be closed.
    pub fn feed(
        &mut self,
        input: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<Outcome>), HandshakeError> {
        let mut rest = input;
        while let Some(wanted) = self.wanted() {
            let take = (wanted - self.held.len()).min(rest.len());
            self.held.extend_from_slice(&rest[..take]);
            rest = &rest[take..];
            if self.held.len() < wanted {
                break;
            }
            let outcome = self.advance(exports, out)?;
            let between_options = matches!(self.state, State::Header);
            if outcome.is_some() || (between_options && out.len() >= self.config.output) {
                return Ok((input.len() - rest.len(), outcome));
            }
        }
        Ok((input.len() - rest.len(), None))
    }

    /// Memory held for the client, in bytes: at most [`HandshakeConfig::option_data`] and the longest name. A server accounts it to
    /// the connection.
    pub fn held_bytes(&self) -> usize {
        self.held.len() + self.meta_allocation.as_ref().map_or(0, String::len)
    }

    /// Length of the message that the state waits for, in bytes; `None` at the end.
    fn wanted(&self) -> Option<usize> {
        match self.state {
            State::ClientFlags => Some(size_of::<u32>()),
            State::Header => Some(OPTION_HEADER_LEN),
            State::Data { length, .. } => Some(length as usize),
            State::Ended => None,
        }
    }

    /// Processes the complete message in `held` and moves to the next state.
    fn advance(&mut self, exports: &dyn Exports, out: &mut Vec<u8>) -> Step {
        let mut piece = mem::take(&mut self.held);
        // After an error the handshake has ended.
        let outcome = match mem::replace(&mut self.state, State::Ended) {
            State::ClientFlags => self.client_flags(&piece).map(|()| None),
            State::Header => self.option_header(&piece).map(|()| None),
            State::Data { option, .. } => self.option(option, &piece, exports, out),
            State::Ended => Ok(None),
        };
        piece.clear();
        self.held = piece;
        outcome
    }

    fn client_flags(&mut self, piece: &[u8]) -> Result<(), HandshakeError> {
        let flags = Fields::new(piece).u32().unwrap_or(0);
        if flags & !(CLIENT_FLAG_FIXED_NEWSTYLE | CLIENT_FLAG_NO_ZEROES) != 0 {
            return Err(HandshakeError::ClientFlags(flags));
        }
        if flags & CLIENT_FLAG_FIXED_NEWSTYLE == 0 {
            return Err(HandshakeError::NotFixedNewstyle);
        }
        self.no_zeroes = flags & CLIENT_FLAG_NO_ZEROES != 0;
        self.state = State::Header;
        Ok(())
    }

    fn option_header(&mut self, piece: &[u8]) -> Result<(), HandshakeError> {
        let mut header = Fields::new(piece);
        let magic = header.u64().unwrap_or(0);
        if magic != OPTION_MAGIC {
            return Err(HandshakeError::BadMagic(magic));
        }
        let option = header.u32().unwrap_or(0);
        let length = header.u32().unwrap_or(0);
        let HandshakeConfig {
            option_data: limit,
            options,
            ..
        } = self.config;
        if self.options == options {
            return Err(HandshakeError::TooManyOptions { limit: options });
        }
        if length > limit {
            return Err(HandshakeError::OptionTooLong {
                option,
                length,
                limit,
            });
        }
        self.options += 1;
        self.state = State::Data { option, length };
        Ok(())
    }

    /// Answers an option whose data has arrived completely.
    fn option(
        &mut self,
        option: u32,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Step {
        match option {
            OPT_EXPORT_NAME => return self.export_name(data, exports, out).map(Some),
            OPT_ABORT => {
                append_reply(out, option, REP_ACK, &[]);
                return Ok(Some(Outcome::Aborted));
            }
            OPT_INFO | OPT_GO => {
                if let Some(session) = self.info(option, data, exports, out) {
                    return Ok(Some(Outcome::Transmission(Box::new(session))));
                }
            }
            OPT_LIST => list(data, exports, out),
            OPT_STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                append_reply(out, option, REP_ACK, &[]);
            }
            OPT_STRUCTURED_REPLY => refuse(
                out,
                option,
                REP_ERR_INVALID,
                "the option does not permit data",
            ),
            OPT_LIST_META_CONTEXT | OPT_SET_META_CONTEXT => {
                self.meta_context(option, data, exports, out);
            }
            _ => {
                if option == OPT_STARTTLS {
                    exports.denied(Denied::Tls);
                }
                refuse(out, option, REP_ERR_UNSUP, "option not supported");
            }
        }
        self.state = State::Header;
        Ok(None)
    }

    fn export_name(
        &mut self,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<Outcome, HandshakeError> {
        let name = fields::string(data).ok_or(HandshakeError::BadName)?;
        let Some(export) = exports.find(name) else {
            return Err(HandshakeError::UnknownExport(name.to_owned()));
        };
        if self.config.require_block_size && export.block_sizes.minimum > 1 {
            return Err(HandshakeError::BlockSizeRequired(name.to_owned()));
        }
        if let Some(reason) = exports.refuses(&export) {
            return Err(HandshakeError::Refused(reason));
        }
        let session = self.session(name, export, false);
        out.extend_from_slice(&session.size_and_flags());
        if !self.no_zeroes {
            out.extend_from_slice(&[0; EXPORT_NAME_PADDING]);
        }
        Ok(Outcome::Transmission(Box::new(session)))
    }

    /// Answers INFO and GO. Returns the session that GO starts.
    fn info(
        &self,
        option: u32,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Option<Session> {
        let Some(request) = InfoRequest::parse(data) else {
            refuse(
                out,
                option,
                REP_ERR_INVALID,
                "malformed request for information",
            );
            return None;
        };
        let Some(export) = exports.find(request.name) else {
            exports.denied(Denied::Export(request.name));
            refuse(out, option, REP_ERR_UNKNOWN, "unknown export");
            return None;
        };
        let sizes = export.block_sizes;
        let fits = sizes.minimum <= 1 || request.wants_block_sizes;
        let begins = option == OPT_GO && (fits || !self.config.require_block_size);
        if let Some(reason) = begins.then(|| exports.refuses(&export)).flatten() {
            refuse(out, option, REP_ERR_POLICY, reason);
            return None;
        }
        let session = self.session(request.name, export, request.wants_block_sizes);
        let export = &session.export;
        let refused = self.config.require_block_size && !fits;
        append_info(out, option, INFO_EXPORT, &session.size_and_flags());
        if request.wants_name {
            append_info(out, option, INFO_NAME, export.name.as_bytes());
        }
        if request.wants_description && !export.description.is_empty() {
            append_info(out, option, INFO_DESCRIPTION, export.description.as_bytes());
        }
        if request.wants_block_sizes || refused {
            let words = [sizes.minimum, sizes.preferred, sizes.maximum].map(u32::to_be_bytes);
            append_info(out, option, INFO_BLOCK_SIZE, words.as_flattened());
        }
        if refused {
            refuse(
                out,
                option,
                REP_ERR_BLOCK_SIZE_REQD,
                "request the block sizes first",
            );
            return None;
        }
        append_reply(out, option, REP_ACK, &[]);
        (option == OPT_GO).then_some(session)
    }

    fn meta_context(&mut self, option: u32, data: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) {
        let select = option == OPT_SET_META_CONTEXT;
        if select {
            // The previous selection is dropped even if this one fails.
            self.meta_allocation = None;
        }
        if !self.structured {
            return refuse(
                out,
                option,
                REP_ERR_INVALID,
                "structured replies must be negotiated first",
            );
        }
        let Some(request) = MetaRequest::parse(data) else {
            return refuse(out, option, REP_ERR_INVALID, "malformed query");
        };
        let Some(export) = exports.find(request.name) else {
            return refuse(out, option, REP_ERR_UNKNOWN, "unknown export");
        };
        let wildcard = !select && (request.unrestricted || request.base_wildcard);
        if export.allocation && (request.allocation || wildcard) {
            // In a list there are no context IDs: the field is reserved there.
            let id = if select { BASE_ALLOCATION_ID } else { 0 };
            let parts: [&[u8]; 2] = [&id.to_be_bytes(), BASE_ALLOCATION.as_bytes()];
            append_reply(out, option, REP_META_CONTEXT, &parts);
            if select {
                self.meta_allocation = Some(request.name.to_owned());
            }
        }
        append_reply(out, option, REP_ACK, &[]);
    }

    /// The session if transmission begins with `export`, which the client asked for as `name`.
    fn session(&self, name: &str, export: ExportInfo, block_sizes_requested: bool) -> Session {
        let mut flags = export.flags | TransmissionFlags::HAS_FLAGS;
        if !self.structured {
            flags = flags.without(TransmissionFlags::SEND_DF);
        }
        if !flags.contains(TransmissionFlags::SEND_WRITE_ZEROES) {
            flags = flags.without(TransmissionFlags::SEND_FAST_ZERO);
        }
        Session {
            flags,
            structured: self.structured,
            meta_allocation: self.meta_allocation.as_deref() == Some(name) && export.allocation,
            no_zeroes: self.no_zeroes,
            block_sizes_requested,
            export,
        }
    }
}

fn list(data: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) {
    if !data.is_empty() {
        return refuse(
            out,
            OPT_LIST,
            REP_ERR_INVALID,
            "the option does not permit data",
        );
    }
    exports.list(&mut |name, description| {
        let length = (name.len() as u32).to_be_bytes();
        let parts = [&length, name.as_bytes(), description.as_bytes()];
        append_reply(out, OPT_LIST, REP_SERVER, &parts);
    });
    append_reply(out, OPT_LIST, REP_ACK, &[]);
}

fn append_info(out: &mut Vec<u8>, option: u32, kind: u16, payload: &[u8]) {
    append_reply(out, option, REP_INFO, &[&kind.to_be_bytes(), payload]);
}

fn refuse(out: &mut Vec<u8>, option: u32, reply: u32, message: &str) {
    append_reply(out, option, reply, &[message.as_bytes()]);
}

/// Why a handshake ends with the connection closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The client set a flag it was not offered.
    #[error("the client flags {0:#x} contain bits that were not offered")]
    ClientFlags(u32),
    /// The client does not speak the fixed newstyle handshake.
    #[error("the client does not support the fixed newstyle handshake")]
    NotFixedNewstyle,
    /// An option starts with this instead of the magic number.
    #[error("the option starts with {0:#018x} instead of the magic number")]
    BadMagic(u64),
    /// An option with more data than allowed.
    #[error("option {option} has {length} bytes of data, which exceeds the limit of {limit} bytes")]
    OptionTooLong {
        /// The option's code.
        option: u32,
        /// Announced length in bytes.
        length: u32,
        /// Allowed length in bytes.
        limit: u32,
    },
    /// More options than allowed.
    #[error("the client sent more than {limit} options in one handshake")]
    TooManyOptions {
        /// How many are allowed.
        limit: u32,
    },
    /// `EXPORT_NAME` with a name that is too long or not UTF-8.
    #[error("the export name is too long or not UTF-8")]
    BadName,
    /// `EXPORT_NAME` of an export that does not exist, with its name.
    #[error("unknown export {0:?}")]
    UnknownExport(String),
    /// `EXPORT_NAME` of an export whose block sizes a client must ask for, with the export's name.
    #[error("export {0:?} requires a client that requests block sizes")]
    BlockSizeRequired(String),
    /// `EXPORT_NAME` when no transmission can begin, with the message from [`Exports::refuses`].
    #[error("{0}")]
    Refused(&'static str),
}
