//! The Network Block Device protocol, for the server and (in [`client`]) for the client.
//!
//! Source of all rules: `NetworkBlockDevice/nbd`, `doc/proto.md`.

pub mod client;
mod constants;
mod errno;
mod export;
mod fields;
mod flags;
pub mod fuzz;
mod handshake;
mod meta;
mod reply;
mod request;
mod rules;

pub use constants::*;
pub use errno::Errno;
pub use export::{BlockSizes, ExportInfo, Exports};
pub use flags::{CommandFlags, ExtentFlags, TransmissionFlags};
pub use handshake::{Handshake, HandshakeConfig, HandshakeError, Outcome, Session};
pub use meta::{Extent, ExtentList};
pub use reply::{
    DATA_HEADER_LEN, ERROR_LEN, ERROR_OFFSET_LEN, HOLE_LEN, MAX_CHUNK_DATA, MAX_EXTENTS,
    append_block_status, append_error, encode_data_header, encode_error, encode_error_offset,
    encode_hole, encode_none, encode_simple_reply,
};
pub use request::{Command, Fatal, Request, parse_request};
pub use rules::{RequestError, RuleSettings, Rules};
