//! Protocols: bytes in, values out (NBD).
