//! The Network Block Device protocol, for the server and (in [`client`]) for the client.
//!
//! The source of all rules is `doc/proto.md` of `NetworkBlockDevice/nbd`, which comments cite as
//! `proto.md` with a heading. This module implements the fixed newstyle handshake with `LIST`,
//! `INFO`, `GO`, `EXPORT_NAME`, `ABORT`, `STRUCTURED_REPLY`, `LIST_META_CONTEXT`,
//! `SET_META_CONTEXT` (`base:allocation`) and, for the server, `STARTTLS`, all commands except
//! `RESIZE`, and simple and structured replies. It does not implement extended headers or the
//! oldstyle handshake. TLS itself is the task of the caller.
//!
//! # The server's side
//! 1. Create a [`Handshake`] and send the bytes that [`Handshake::greet`] appends. Then pass
//!    received bytes to [`Handshake::feed`] and send its output until it returns an
//!    [`HandshakeOutcome`]. Bytes that were not consumed by then are the first requests, except
//!    after [`HandshakeOutcome::StartTls`], which the caller must answer with TLS.
//! 2. Get the rules of the session from [`Session::rules`] and parse the requests with
//!    [`parse_request`]. Check each request with [`NbdRequest::check_payload`] (an error ends the
//!    connection) and [`NbdRequest::validate`] (an error is sent as the reply). A WRITE's payload
//!    follows its header. The server must receive or skip it even if it refuses the request.
//! 3. Reply. If [`Session::structured`] is set, READ and `BLOCK_STATUS` are answered with chunks,
//!    even in case of an error. All other commands, and all commands without structured replies,
//!    are answered with [`encode_simple_reply`]. DISC has no reply: reply to the requests in
//!    flight, then close the connection.
//!
//! # The client's side
//! Parse the address of an export with [`Uri`], negotiate with [`client::NbdClientHandshake`], send
//! requests with [`NbdRequest::encode`] and read replies with [`client::ReplyParser`].
//!
//! # Example
//! ```
//! use weir_wire::nbd::{self, client, *};
//!
//! struct One;
//! impl Exports for One {
//!     fn list(&self, each: &mut dyn FnMut(&str, &str)) {
//!         each("alpha", "the only one");
//!     }
//!     fn find(&self, name: &str) -> Option<ExportInfo> {
//!         matches!(name, "" | "alpha").then(|| ExportInfo {
//!             name: "alpha".into(),
//!             description: "the only one".into(),
//!             key: 0,
//!             size: 1 << 20,
//!             flags: TransmissionFlags::SEND_FLUSH | TransmissionFlags::SEND_FUA,
//!             block_sizes: BlockSizes { minimum: 1, preferred: 4096, maximum: 32 << 20 },
//!             allocation: true,
//!         })
//!     }
//! }
//!
//! // The handshake. Two vectors stand for the two directions of a socket.
//! let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
//! let mut server = Handshake::new(HandshakeConfig::default());
//! server.greet(&mut to_client);
//! let mut client = client::NbdClientHandshake::new(client::ClientHandshakeConfig::new("alpha"));
//! let mut accepted = None;
//! let agreed = loop {
//!     let (used, outcome) = client.feed(&to_client, &mut to_server)?;
//!     to_client.drain(..used);
//!     match outcome {
//!         Some(client::ClientHandshakeOutcome::Transmission(session)) => break session,
//!         Some(client::ClientHandshakeOutcome::Refused { message, .. }) => panic!("{message}"),
//!         // Only a client with `ClientHandshakeConfig::tls` begins TLS.
//!         Some(client::ClientHandshakeOutcome::StartTls) | None => {}
//!     }
//!     let (used, outcome) = server.feed(&to_server, &One, &mut to_client)?;
//!     to_server.drain(..used);
//!     accepted = outcome.or(accepted);
//! };
//! let Some(HandshakeOutcome::Transmission(session)) = accepted else { panic!("no session") };
//! assert_eq!(agreed.size, session.export.size);
//! assert!(agreed.structured && session.structured && session.meta_allocation);
//!
//! // A READ, from the client to the server.
//! let read = NbdRequest {
//!     command: NbdCommand::Read,
//!     flags: CommandFlags::EMPTY,
//!     cookie: 7,
//!     offset: 512,
//!     length: 4,
//! };
//! let header = read.encode();
//!
//! let rules = session.rules(u32::MAX);
//! let request = nbd::parse_request(&header)?.expect("a whole header");
//! let payload = request.check_payload(32 << 20)?;
//! assert_eq!(payload, 0);
//! request.validate(&rules)?;
//!
//! // The answer: a header, and the data as a segment of its own.
//! let head = encode_data_header(request.cookie, request.offset, request.length, true);
//!
//! let mut replies = client::ReplyParser::new();
//! let (used, reply) = replies.feed(&head)?;
//! assert_eq!(used, head.len()); // the client now takes `length` bytes from the stream
//! assert_eq!(reply, Some(client::Reply::Data { cookie: 7, offset: 512, length: 4, done: true }));
//!
//! // A BLOCK_STATUS answer, from what the storage reports.
//! let data = Extent { length: 4096, flags: ExtentFlags::EMPTY };
//! let hole = Extent { length: 4096, flags: ExtentFlags::HOLE | ExtentFlags::ZERO };
//! let mut out = Vec::new();
//! append_block_status(&mut out, 8, BASE_ALLOCATION_ID, &[data, hole], true);
//! let (_, reply) = replies.feed(&out)?;
//! let expected = client::Reply::BlockStatus { cookie: 8, context: 1, extents: 2, done: true };
//! assert_eq!(reply, Some(expected));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
pub mod client;
mod constants;
mod errno;
mod export;
mod fields;
mod flags;
mod handshake;
mod meta;
mod reply;
mod request;
mod rules;
mod uri;

pub use address::{Address, AddressError};
pub use constants::*;
pub use errno::Errno;
pub use export::{BlockSizes, Denial, ExportAccess, ExportInfo, Exports, TlsMode};
pub use flags::{CommandFlags, ExtentFlags, TransmissionFlags};
pub use handshake::{Handshake, HandshakeConfig, HandshakeError, HandshakeOutcome, Session};
pub use meta::Extent;
pub use reply::{
    DATA_HEADER_LEN, ERROR_LEN, ERROR_OFFSET_LEN, HOLE_LEN, MAX_CHUNK_DATA, MAX_EXTENTS,
    append_block_status, append_error, encode_data_header, encode_error, encode_error_offset,
    encode_hole, encode_none, encode_simple_reply,
};
pub use request::{FatalError, NbdCommand, NbdRequest, parse_request};
pub use rules::{RequestError, RuleSettings, Rules};
pub use uri::{Uri, UriError, UriTls};
