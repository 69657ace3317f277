//! The Network Block Device protocol, for the server and (in [`client`]) for the client.
//!
//! Source of all rules: `NetworkBlockDevice/nbd`, `doc/proto.md`. Implemented are the fixed
//! newstyle handshake with `LIST`, `INFO`, `GO`, `EXPORT_NAME`, `ABORT`, `STRUCTURED_REPLY`,
//! `LIST_META_CONTEXT` and `SET_META_CONTEXT` (`base:allocation`); all commands but `RESIZE`;
//! simple and structured replies. Not implemented: TLS (`STARTTLS` is answered as unknown),
//! extended headers, the oldstyle handshake.
//!
//! # The server's side
//! 1. Create a [`Handshake`] and send what [`Handshake::greet`] appends. Then pass received bytes to [`Handshake::feed`] and send
//!    its output until there is an [`Outcome`]. Bytes that were not consumed by then are the first requests.
//! 2. Take the rules of the session ([`Session::rules`]), and parse one request after the other with [`parse_request`]; check each
//!    with [`Request::check_payload`] (an error ends the connection) and [`Request::validate`] (an error is replied). A WRITE's
//!    payload follows its header, and must be received or skipped even if the request is refused.
//! 3. Reply. With [`Session::structured`], READ and `BLOCK_STATUS` are answered with chunks only, also in case of an error; all
//!    other commands, and all of them without it, with [`encode_simple_reply`]. DISC has no reply: reply to the requests in
//!    flight, then close the connection.
//!
//! # The client's side
//! [`Uri`] says where an export is; then [`client::Handshake`], [`Request::encode`] and [`client::ReplyParser`].
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
//! let mut client = client::Handshake::new(client::HandshakeConfig::new("alpha"));
//! let mut accepted = None;
//! let agreed = loop {
//!     let (used, outcome) = client.feed(&to_client, &mut to_server)?;
//!     to_client.drain(..used);
//!     match outcome {
//!         Some(client::Outcome::Transmission(session)) => break session,
//!         Some(client::Outcome::Refused { message, .. }) => panic!("refused: {message}"),
//!         None => {}
//!     }
//!     let (used, outcome) = server.feed(&to_server, &One, &mut to_client)?;
//!     to_server.drain(..used);
//!     accepted = outcome.or(accepted);
//! };
//! let Some(Outcome::Transmission(session)) = accepted else { panic!("no session") };
//! assert_eq!(agreed.size, session.export.size);
//! assert!(agreed.structured && session.structured && session.meta_allocation);
//!
//! // A READ, from the client to the server.
//! let read = Request {
//!     command: Command::Read,
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
pub use export::{BlockSizes, Denied, ExportInfo, Exports};
pub use flags::{CommandFlags, ExtentFlags, TransmissionFlags};
pub use handshake::{Handshake, HandshakeConfig, HandshakeError, Outcome, Session};
pub use meta::Extent;
pub use reply::{
    DATA_HEADER_LEN, ERROR_LEN, ERROR_OFFSET_LEN, HOLE_LEN, MAX_CHUNK_DATA, MAX_EXTENTS,
    append_block_status, append_error, encode_data_header, encode_error, encode_error_offset,
    encode_hole, encode_none, encode_simple_reply,
};
pub use request::{Command, Fatal, Request, parse_request};
pub use rules::{RequestError, RuleSettings, Rules};
pub use uri::{Uri, UriError};
