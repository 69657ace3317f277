//! Magic numbers, codes and sizes of the NBD protocol (`NetworkBlockDevice/nbd`, `doc/proto.md`,
//! Values).
//!
//! Every number on the wire is big-endian.

/// First eight bytes of a server's greeting, "NBDMAGIC".
pub const NBD_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second eight bytes of a newstyle greeting, and first eight bytes of every option, "IHAVEOPT".
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// First eight bytes of every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// First four bytes of every request of the transmission phase.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// First four bytes of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// First four bytes of each chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Length of a server's greeting in bytes: two magics and the handshake flags.
pub const GREETING_LEN: usize = 18;
/// Length of an option's header in bytes.
pub const OPTION_HEADER_LEN: usize = 16;
/// Length of an option reply's header in bytes.
pub const OPTION_REPLY_HEADER_LEN: usize = 20;
/// Length of a request's header in bytes.
pub const REQUEST_LEN: usize = 28;
/// Length of a simple reply without its payload, in bytes.
pub const SIMPLE_REPLY_LEN: usize = 16;
/// Length of a structured reply chunk's header in bytes.
pub const CHUNK_HEADER_LEN: usize = 20;
/// Length in bytes of the zero padding after the reply to `EXPORT_NAME`, which is sent unless
/// `NO_ZEROES` was negotiated.
pub const EXPORT_NAME_PADDING: usize = 124;
/// Longest string that the protocol permits (export names, descriptions, queries and messages), in
/// bytes.
pub const MAX_STRING: usize = 4096;

/// Handshake flag of the server: it speaks the fixed newstyle handshake.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake flag of the server: it can leave out the padding after `EXPORT_NAME`.
pub const FLAG_NO_ZEROES: u16 = 1 << 1;
/// Handshake flag of the client: it speaks the fixed newstyle handshake.
pub const CLIENT_FLAG_FIXED_NEWSTYLE: u32 = 1 << 0;
/// Handshake flag of the client: the server must leave out the padding after `EXPORT_NAME`.
pub const CLIENT_FLAG_NO_ZEROES: u32 = 1 << 1;

/// Option: choose an export and enter transmission. There is no way to report an error.
pub const OPT_EXPORT_NAME: u32 = 1;
/// Option: end the session.
pub const OPT_ABORT: u32 = 2;
/// Option: list the exports.
pub const OPT_LIST: u32 = 3;
/// Option: start an encrypted session.
pub const OPT_STARTTLS: u32 = 5;
/// Option: describe an export without choosing it.
pub const OPT_INFO: u32 = 6;
/// Option: choose an export and enter transmission.
pub const OPT_GO: u32 = 7;
/// Option: use structured replies.
pub const OPT_STRUCTURED_REPLY: u32 = 8;
/// Option: list the metadata contexts of an export.
pub const OPT_LIST_META_CONTEXT: u32 = 9;
/// Option: select metadata contexts of an export.
pub const OPT_SET_META_CONTEXT: u32 = 10;

/// Option reply: the option is done or accepted.
pub const REP_ACK: u32 = 1;
/// Option reply: one export of a list.
pub const REP_SERVER: u32 = 2;
/// Option reply: one piece of information on an export.
pub const REP_INFO: u32 = 3;
/// Option reply: one metadata context.
pub const REP_META_CONTEXT: u32 = 4;
/// Bit that marks an option reply as an error.
pub const REP_ERROR_BIT: u32 = 1 << 31;
/// Option reply: the option is unknown or not supported.
pub const REP_ERR_UNSUP: u32 = REP_ERROR_BIT | 1;
/// Option reply: forbidden by the server's policy.
pub const REP_ERR_POLICY: u32 = REP_ERROR_BIT | 2;
/// Option reply: the option is malformed.
pub const REP_ERR_INVALID: u32 = REP_ERROR_BIT | 3;
/// Option reply: the option is not supported on this platform.
pub const REP_ERR_PLATFORM: u32 = REP_ERROR_BIT | 4;
/// Option reply: the client must start TLS first.
pub const REP_ERR_TLS_REQD: u32 = REP_ERROR_BIT | 5;
/// Option reply: there is no such export.
pub const REP_ERR_UNKNOWN: u32 = REP_ERROR_BIT | 6;
/// Option reply: the server is shutting down.
pub const REP_ERR_SHUTDOWN: u32 = REP_ERROR_BIT | 7;
/// Option reply: the client must ask for the block sizes first.
pub const REP_ERR_BLOCK_SIZE_REQD: u32 = REP_ERROR_BIT | 8;
/// Option reply: the request or its answer is too large.
pub const REP_ERR_TOO_BIG: u32 = REP_ERROR_BIT | 9;

/// Information: size and transmission flags of the export.
pub const INFO_EXPORT: u16 = 0;
/// Information: the export's canonical name.
pub const INFO_NAME: u16 = 1;
/// Information: the export's description.
pub const INFO_DESCRIPTION: u16 = 2;
/// Information: minimum, preferred and maximum block size.
pub const INFO_BLOCK_SIZE: u16 = 3;

/// Chunk: no content. It ends a structured reply.
pub const CHUNK_NONE: u16 = 0;
/// Chunk: data that was read.
pub const CHUNK_OFFSET_DATA: u16 = 1;
/// Chunk: a range that reads as zeroes.
pub const CHUNK_OFFSET_HOLE: u16 = 2;
/// Chunk: extents of one metadata context.
pub const CHUNK_BLOCK_STATUS: u16 = 5;
/// Bit that marks a chunk as an error.
pub const CHUNK_ERROR_BIT: u16 = 1 << 15;
/// Chunk: an error of the whole request.
pub const CHUNK_ERROR: u16 = CHUNK_ERROR_BIT | 1;
/// Chunk: an error at an offset of the export.
pub const CHUNK_ERROR_OFFSET: u16 = CHUNK_ERROR_BIT | 2;
/// Chunk flag: the last chunk of this reply.
pub const CHUNK_FLAG_DONE: u16 = 1 << 0;

/// Name of the only metadata context that the protocol itself defines.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// The ID that this server assigns to the context `base:allocation`.
pub const BASE_ALLOCATION_ID: u32 = 1;
