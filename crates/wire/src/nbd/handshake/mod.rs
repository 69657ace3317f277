//! The server's side of the handshake. [`Handshake`] is the state machine, [`Session`] its result.

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
    REP_ERR_POLICY, REP_ERR_TLS_REQD, REP_ERR_UNKNOWN, REP_ERR_UNSUP, REP_INFO, REP_META_CONTEXT,
    REP_SERVER,
};
use super::export::{Denial, ExportAccess, ExportInfo, Exports, TlsMode};
use super::fields::{self, Fields};
use super::flags::TransmissionFlags;
use super::reply::MAX_CHUNK_DATA;
use super::rules::{RuleSettings, Rules};

/// Limits and policy of a server's handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeConfig {
    /// Maximum length of the data of one option in bytes. A longer option ends the connection. 64
    /// KiB by default.
    pub option_data: u32,
    /// Maximum number of options in one handshake. One more ends the connection. 64 by default.
    pub options: u32,
    /// Length of the output in bytes from which [`Handshake::feed`] answers no further option in
    /// the same call. 64 KiB by default.
    pub output: usize,
    /// Refuses clients that did not ask for the block sizes of an export whose minimum block size
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
    /// The transmission flags that were sent to the client.
    pub flags: TransmissionFlags,
    /// True if structured replies were negotiated: READ and `BLOCK_STATUS` must be answered with
    /// chunks.
    pub structured: bool,
    /// True if `base:allocation` was selected for this export, with the ID
    /// [`BASE_ALLOCATION_ID`](super::BASE_ALLOCATION_ID).
    pub meta_allocation: bool,
    /// True if the client asked to leave out the padding after `EXPORT_NAME`.
    pub no_zeroes: bool,
    /// True if the client asked for the block sizes with GO, and thus promised to obey them.
    pub block_sizes_requested: bool,
}

impl Session {
    /// Returns the rules for this session's requests. READ and WRITE may be as long as the export's
    /// maximum block size (and [`MAX_CHUNK_DATA`]), ranges without payload up to `maximum_range`
    /// bytes.
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

    /// Encodes the size and the flags of the export.
    fn size_and_flags(&self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&self.export.size.to_be_bytes());
        bytes[8..].copy_from_slice(&self.flags.bits().to_be_bytes());
        bytes
    }
}

/// The end of a handshake that followed the protocol, or of its unencrypted part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeOutcome {
    /// TLS begins after the output. Send the output unencrypted, discard the bytes that were not
    /// consumed, and negotiate TLS. Then pass only decrypted bytes to [`Handshake::feed`], and send
    /// its output only encrypted.
    ///
    /// The discarded bytes were sent unencrypted, so another party can have inserted them.
    StartTls,
    /// The transmission phase begins with the first byte that was not consumed.
    Transmission(Box<Session>),
    /// The client aborted the handshake. Send the output, then close the connection.
    Aborted,
}

/// The server's side of one connection's handshake (fixed newstyle), as a state machine without
/// I/O.
///
/// Its memory is bounded by the data of one option and the name of one export.
#[derive(Debug, Clone)]
pub struct Handshake {
    config: HandshakeConfig,
    state: ServerHandshakeState,
    /// The bytes received so far of the message that `state` expects.
    held: Vec<u8>,
    /// The number of options whose headers were accepted.
    options: u32,
    no_zeroes: bool,
    structured: bool,
    /// The name of the export for which `base:allocation` is selected.
    meta_allocation: Option<String>,
    /// The use of TLS, from the first option on.
    tls: Option<TlsMode>,
    /// True from [`HandshakeOutcome::StartTls`] on.
    secure: bool,
}

/// The message that the handshake expects next.
#[derive(Debug, Clone, Copy)]
enum ServerHandshakeState {
    ClientFlags,
    Header,
    Data { option: u32, length: u32 },
    Ended,
}

/// The reason why a client may not learn about an export.
#[derive(Debug, Clone, Copy)]
enum ExportDenial {
    /// The export requires TLS, and the connection is not encrypted.
    Plain,
    /// The client is not permitted to use the export.
    Access,
}

/// The message for a client that must begin TLS first.
const TLS_REQUIRED: &str = "TLS is required";
/// The message for a client that is not permitted to use an export.
const NOT_PERMITTED: &str = "this client is not permitted to use the export";

/// The result of one step: the outcome, if the handshake has ended.
type HandshakeStep = Result<Option<HandshakeOutcome>, HandshakeError>;

impl Handshake {
    /// Creates a handshake that has not begun.
    pub fn new(config: HandshakeConfig) -> Self {
        Self {
            config,
            state: ServerHandshakeState::ClientFlags,
            held: Vec::new(),
            options: 0,
            no_zeroes: false,
            structured: false,
            meta_allocation: None,
            tls: None,
            secure: false,
        }
    }

    /// Appends the server's greeting to `out`. Call it once, before [`feed`](Self::feed).
    pub fn greet(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&NBD_MAGIC.to_be_bytes());
        out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        out.extend_from_slice(&(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
    }

    /// Takes bytes that the client sent, in parts of any size, and appends the reply to `out`.
    ///
    /// Returns the number of consumed bytes of `input`, and the outcome once the handshake has
    /// ended. Fewer bytes than given are consumed only in three cases. If the handshake has ended,
    /// the rest belongs to the transmission phase. If TLS begins, the rest must be discarded. If
    /// `out` has reached [`HandshakeConfig::output`], send it and call again with the rest.
    ///
    /// Until the handshake has ended, every call with input consumes some of it. `out` must always
    /// be sent, even with an outcome or an error. After an error, or an outcome other than
    /// [`HandshakeOutcome::StartTls`], no further input is consumed.
    ///
    /// # Errors
    /// Returns the reason why the connection must be closed.
    pub fn feed(
        &mut self,
        input: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<HandshakeOutcome>), HandshakeError> {
        let mut rest = input;
        while let Some(wanted) = self.wanted() {
            let take = (wanted - self.held.len()).min(rest.len());
            self.held.extend_from_slice(&rest[..take]);
            rest = &rest[take..];
            if self.held.len() < wanted {
                break;
            }
            let outcome = self.advance(exports, out)?;
            let between_options = matches!(self.state, ServerHandshakeState::Header);
            if outcome.is_some() || (between_options && out.len() >= self.config.output) {
                return Ok((input.len() - rest.len(), outcome));
            }
        }
        Ok((input.len() - rest.len(), None))
    }

    /// Returns the memory held for the client in bytes, which is at most
    /// [`HandshakeConfig::option_data`] plus the longest name. A server accounts it to the
    /// connection.
    pub fn held_bytes(&self) -> usize {
        self.held.len() + self.meta_allocation.as_ref().map_or(0, String::len)
    }

    /// Returns the length in bytes of the message that the state expects, or `None` after the end.
    fn wanted(&self) -> Option<usize> {
        match self.state {
            ServerHandshakeState::ClientFlags => Some(size_of::<u32>()),
            ServerHandshakeState::Header => Some(OPTION_HEADER_LEN),
            ServerHandshakeState::Data { length, .. } => Some(length as usize),
            ServerHandshakeState::Ended => None,
        }
    }

    /// Processes the complete message in `held` and moves to the next state.
    fn advance(&mut self, exports: &dyn Exports, out: &mut Vec<u8>) -> HandshakeStep {
        // The buffer is put back after use, so that its allocation serves all messages of the
        // handshake.
        let mut piece = mem::take(&mut self.held);
        // A step that fails leaves this state, so that the handshake has ended after an error.
        let outcome = match mem::replace(&mut self.state, ServerHandshakeState::Ended) {
            ServerHandshakeState::ClientFlags => self.client_flags(&piece).map(|()| None),
            ServerHandshakeState::Header => self.option_header(&piece).map(|()| None),
            ServerHandshakeState::Data { option, .. } => self.option(option, &piece, exports, out),
            ServerHandshakeState::Ended => Ok(None),
        };
        piece.clear();
        self.held = piece;
        outcome
    }

    fn client_flags(&mut self, piece: &[u8]) -> Result<(), HandshakeError> {
        // `wanted` guarantees the length, so that the default is never used.
        let flags = Fields::new(piece).u32().unwrap_or(0);
        // `proto.md` (Newstyle negotiation): the server must close the connection if it does not
        // recognise a client flag.
        if flags & !(CLIENT_FLAG_FIXED_NEWSTYLE | CLIENT_FLAG_NO_ZEROES) != 0 {
            return Err(HandshakeError::ClientFlags(flags));
        }
        if flags & CLIENT_FLAG_FIXED_NEWSTYLE == 0 {
            return Err(HandshakeError::NotFixedNewstyle);
        }
        self.no_zeroes = flags & CLIENT_FLAG_NO_ZEROES != 0;
        self.state = ServerHandshakeState::Header;
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
        self.state = ServerHandshakeState::Data { option, length };
        Ok(())
    }

    /// Answers an option whose data has arrived completely.
    fn option(
        &mut self,
        option: u32,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> HandshakeStep {
        let tls = *self.tls.get_or_insert_with(|| exports.tls_mode());
        let forced = tls == TlsMode::Forced && !self.secure;
        match option {
            OPT_STARTTLS => {
                if self.start_tls(tls, data, exports, out) {
                    return Ok(Some(HandshakeOutcome::StartTls));
                }
            }
            OPT_EXPORT_NAME if forced => {
                exports.on_denied(Denial::Plain(None));
                return Err(HandshakeError::TlsRequired);
            }
            _ if forced && option != OPT_ABORT => {
                exports.on_denied(Denial::Plain(None));
                refuse(out, option, REP_ERR_TLS_REQD, TLS_REQUIRED);
            }
            OPT_EXPORT_NAME => return self.export_name(data, exports, out).map(Some),
            OPT_ABORT => {
                // Data of ABORT is ignored rather than refused, as `proto.md` recommends (Option
                // types).
                append_reply(out, option, REP_ACK, &[]);
                return Ok(Some(HandshakeOutcome::Aborted));
            }
            OPT_INFO | OPT_GO => {
                if let Some(session) = self.info(option, data, exports, out) {
                    return Ok(Some(HandshakeOutcome::Transmission(Box::new(session))));
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
            _ => refuse(out, option, REP_ERR_UNSUP, "option not supported"),
        }
        self.state = ServerHandshakeState::Header;
        Ok(None)
    }

    /// Answers STARTTLS. Returns true if TLS begins.
    fn start_tls(
        &mut self,
        tls: TlsMode,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> bool {
        if tls == TlsMode::Off {
            exports.on_denied(Denial::Tls);
            refuse(out, OPT_STARTTLS, REP_ERR_UNSUP, "option not supported");
        } else if self.secure || !data.is_empty() {
            let reason = if self.secure {
                "TLS has already begun"
            } else {
                "the option does not permit data"
            };
            refuse(out, OPT_STARTTLS, REP_ERR_INVALID, reason);
        } else {
            append_reply(out, OPT_STARTTLS, REP_ACK, &[]);
            self.secure = true;
            // Options that were sent unencrypted must not affect the encrypted session, because
            // another party can have inserted or removed them (`proto.md`, Option types).
            self.structured = false;
            self.meta_allocation = None;
            self.state = ServerHandshakeState::Header;
            return true;
        }
        false
    }

    /// Returns the reason for which the client may not learn about an export.
    fn denial(&self, export: &ExportInfo, exports: &dyn Exports) -> Option<ExportDenial> {
        match exports.access(export, self.secure) {
            ExportAccess::Granted => None,
            // A server without TLS must not reply that TLS is required, and neither must a server
            // on an encrypted connection (`proto.md`, Server-side requirements).
            ExportAccess::TlsRequired if !self.secure && self.tls != Some(TlsMode::Off) => {
                exports.on_denied(Denial::Plain(Some(&export.name)));
                Some(ExportDenial::Plain)
            }
            ExportAccess::TlsRequired | ExportAccess::Denied => {
                exports.on_denied(Denial::Access(&export.name));
                Some(ExportDenial::Access)
            }
        }
    }

    fn export_name(
        &mut self,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<HandshakeOutcome, HandshakeError> {
        // `EXPORT_NAME` has no error reply, so that closing the connection is the only way to
        // refuse (`proto.md`, Option types).
        let name = fields::string(data).ok_or(HandshakeError::BadName)?;
        let Some(export) = exports.find(name) else {
            return Err(HandshakeError::UnknownExport(name.to_owned()));
        };
        match self.denial(&export, exports) {
            Some(ExportDenial::Plain) => return Err(HandshakeError::TlsRequired),
            Some(ExportDenial::Access) => return Err(HandshakeError::Refused(NOT_PERMITTED)),
            None => {}
        }
        if self.config.require_block_size && export.block_sizes.minimum > 1 {
            return Err(HandshakeError::BlockSizeRequired(name.to_owned()));
        }
        if let Some(reason) = exports.refusal(&export) {
            return Err(HandshakeError::Refused(reason));
        }
        let session = self.session(name, export, false);
        out.extend_from_slice(&session.size_and_flags());
        if !self.no_zeroes {
            out.extend_from_slice(&[0; EXPORT_NAME_PADDING]);
        }
        Ok(HandshakeOutcome::Transmission(Box::new(session)))
    }

    /// Answers INFO and GO. Returns the session that a successful GO starts.
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
            exports.on_denied(Denial::Export(request.name));
            refuse(out, option, REP_ERR_UNKNOWN, "unknown export");
            return None;
        };
        if let Some(denial) = self.denial(&export, exports) {
            let (reply, reason) = match denial {
                ExportDenial::Plain => (REP_ERR_TLS_REQD, TLS_REQUIRED),
                ExportDenial::Access => (REP_ERR_POLICY, NOT_PERMITTED),
            };
            refuse(out, option, reply, reason);
            return None;
        }
        let sizes = export.block_sizes;
        let fits = sizes.minimum <= 1 || request.wants_block_sizes;
        let begins = option == OPT_GO && (fits || !self.config.require_block_size);
        // INFO does not begin a session, so it must not reserve a connection.
        if let Some(reason) = begins.then(|| exports.refusal(&export)).flatten() {
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
        // `proto.md` (Option types): the block sizes should precede the refusal for lack of them,
        // which saves the client a round trip.
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
            // `proto.md` (Option types): the previous selection is dropped even if this one fails.
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
        // The reply that TLS is required is reserved for options that choose an export, unless all
        // options require TLS (`proto.md`, SELECTIVETLS mode).
        if self.denial(&export, exports).is_some() {
            return refuse(out, option, REP_ERR_POLICY, NOT_PERMITTED);
        }
        // Wildcards list contexts but do not select any (`proto.md`, The `base:` metadata
        // namespace).
        let wildcard = !select && (request.unrestricted || request.base_wildcard);
        if export.allocation && (request.allocation || wildcard) {
            // The field for the context ID is reserved in a list.
            let id = if select { BASE_ALLOCATION_ID } else { 0 };
            let parts: [&[u8]; 2] = [&id.to_be_bytes(), BASE_ALLOCATION.as_bytes()];
            append_reply(out, option, REP_META_CONTEXT, &parts);
            if select {
                self.meta_allocation = Some(request.name.to_owned());
            }
        }
        append_reply(out, option, REP_ACK, &[]);
    }

    /// Returns the session that begins with `export`, for which the client sent `name`.
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
            // The selection holds only for the name that the client sent with it (`proto.md`,
            // Metadata querying).
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

/// The reason why a handshake fails and the connection is closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The client set a flag that it was not offered.
    #[error("the client flags {0:#x} contain bits that were not offered")]
    ClientFlags(u32),
    /// The client does not speak the fixed newstyle handshake.
    #[error("the client does not support the fixed newstyle handshake")]
    NotFixedNewstyle,
    /// An option starts with this number instead of the magic number.
    #[error("the option starts with {0:#018x} instead of the magic number")]
    BadMagic(u64),
    /// An option has more data than the limit permits.
    #[error("option {option} has {length} bytes of data, which exceeds the limit of {limit} bytes")]
    OptionTooLong {
        /// The code of the option.
        option: u32,
        /// The announced length in bytes.
        length: u32,
        /// The permitted length in bytes.
        limit: u32,
    },
    /// The client sent more options than the limit permits.
    #[error("the client sent more than {limit} options in one handshake")]
    TooManyOptions {
        /// The permitted number of options.
        limit: u32,
    },
    /// The name in `EXPORT_NAME` is too long, contains a zero byte, or is not UTF-8.
    #[error("the export name is too long or not UTF-8")]
    BadName,
    /// The export in `EXPORT_NAME` does not exist. Contains its name.
    #[error("unknown export {0:?}")]
    UnknownExport(String),
    /// The export in `EXPORT_NAME` requires that the client asks for block sizes. Contains its
    /// name.
    #[error("export {0:?} requires a client that requests block sizes")]
    BlockSizeRequired(String),
    /// The client chose an export with `EXPORT_NAME` on an unencrypted connection, and the export
    /// requires TLS.
    #[error("the client chose an export that requires TLS without encryption")]
    TlsRequired,
    /// The export in `EXPORT_NAME` cannot begin a session. Contains the message for the client, for
    /// example from [`Exports::refusal`].
    #[error("{0}")]
    Refused(&'static str),
}
