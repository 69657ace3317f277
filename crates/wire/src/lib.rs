//! Protocols as parsers and encoders: bytes in, values out.
//!
//! No sockets, no clocks, no threads: the caller moves the bytes. [`nbd`] is the Network Block
//! Device protocol, for the server and for the client.
#![forbid(unsafe_code)]

pub mod nbd;
