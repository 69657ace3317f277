//! Fuzz targets for NBD. Each target takes arbitrary bytes, drives the parsers with them, and
//! asserts their invariants.
//!
//! The first [`CONTROL_LEN`] bytes select limits, features and the places at which the stream is
//! cut. The rest is the stream. Every stream is fed once as a whole and once in parts, and both
//! must have the same result.

use weir_core::random::Xorshift;
use weir_wire::nbd::client::{self, Reply, ReplyParser};
use weir_wire::nbd::*;

/// The number of bytes at the start of the input that are settings.
pub(crate) const CONTROL_LEN: usize = 8;

/// Drives the server's handshake with the stream, and then the client's, as if the other side had
/// sent it.
///
/// # Panics
/// If an invariant does not hold.
pub(crate) fn handshake(data: &[u8]) {
    let Some((control, stream)) = data.split_first_chunk::<CONTROL_LEN>() else {
        return;
    };
    let [bits, option_data, options, output, ..] = *control;
    let config = HandshakeConfig {
        option_data: u32::from(option_data) * 32,
        options: u32::from(options),
        output: usize::from(output) * 16 + 1,
        require_block_size: bits & 1 != 0,
    };
    let exports = FuzzExports {
        tls: match bits >> 6 {
            0 => TlsMode::Off,
            1 => TlsMode::Selective,
            _ => TlsMode::Forced,
        },
    };
    let serve = |limit, cuts: &mut Cuts| serve_all(config, &exports, stream, limit, cuts);
    let whole = serve(usize::MAX, &mut Cuts::none());
    let pieces = serve(usize::MAX, &mut Cuts::new(control));
    assert_eq!(whole, pieces, "pieces change what the server does");
    check_tls(exports.tls, &whole);
    if let ServerRun {
        consumed,
        end: Ok(Some(_)),
        ..
    } = whole
    {
        // The outcome may not depend on bytes that belong to the transmission phase.
        let exact = serve(consumed, &mut Cuts::none());
        assert_eq!(whole, exact, "the server needs bytes it did not consume");
    }

    let config = client::ClientHandshakeConfig {
        export: if bits & 2 != 0 {
            "alpha".into()
        } else {
            String::new()
        },
        structured: bits & 4 != 0,
        meta_allocation: bits & 8 != 0,
        block_sizes: bits & 16 != 0,
        export_name: bits & 32 != 0,
        tls: bits & 64 != 0,
        reply_data: u32::from(option_data) * 32,
        replies: u32::from(options),
    };
    let whole = connect(&config, stream, &mut Cuts::none());
    let pieces = connect(&config, stream, &mut Cuts::new(control));
    assert_eq!(whole, pieces, "pieces change what the client does");
    // The client sends at most four options with one name of five bytes, so 256 bytes are generous.
    assert!(
        whole.out.len() <= 256,
        "the client sends {} bytes",
        whole.out.len()
    );
    let plain = FuzzExports { tls: TlsMode::Off };
    let limits = HandshakeConfig::default();
    let served = serve_all(limits, &plain, &whole.out, usize::MAX, &mut Cuts::none());
    assert!(
        served.end.is_ok(),
        "our server leaves our client: {:?}",
        served.end
    );
}

/// Drives the parser and the rules of requests as a server does, and skips payloads.
///
/// # Panics
/// If an invariant does not hold.
pub(crate) fn requests(data: &[u8]) {
    let Some((control, mut stream)) = data.split_first_chunk::<CONTROL_LEN>() else {
        return;
    };
    let [bits, more_bits, size, shift, payload, range, ..] = *control;
    let settings = RuleSettings {
        size: u64::from(size) << (bits & 63),
        flags: TransmissionFlags::from_bits(u16::from_be_bytes([more_bits, bits])),
        meta_allocation: shift & 0x80 != 0,
        minimum_block: 1 << (shift & 15),
        maximum_payload: u32::from(payload) * 64,
        maximum_range: u32::from(range) * 64,
    };
    let rules = Rules::new(settings);
    // A server skips payloads up to a limit of its own, which exceeds the longest valid write.
    let skippable = 2 * settings.maximum_payload;
    loop {
        let request = match parse_request(stream) {
            Ok(Some(request)) => request,
            Ok(None) => return assert!(stream.len() < REQUEST_LEN, "a whole header is not read"),
            Err(FatalError::BadMagic { found }) => {
                return assert!(stream.starts_with(&found.to_be_bytes()));
            }
            Err(fatal) => panic!("the parser knows no limit: {fatal:?}"),
        };
        // Every shorter prefix must be recognised as incomplete.
        for end in 0..REQUEST_LEN {
            assert_eq!(
                parse_request(&stream[..end]),
                Ok(None),
                "a header of {end} bytes"
            );
        }
        assert_eq!(
            request.encode(),
            stream[..REQUEST_LEN],
            "encoding does not give back the header"
        );
        check_verdict(&request, &settings, request.validate(&rules));
        match request.check_payload(skippable) {
            Ok(length) => {
                stream = &stream[REQUEST_LEN..];
                stream = &stream[stream.len().min(length as usize)..];
            }
            Err(error) => {
                let expected = FatalError::PayloadTooLong {
                    length: request.length,
                    limit: skippable,
                };
                return assert_eq!(error, expected);
            }
        }
    }
}

/// Drives the parser of replies as a client does, and skips payloads.
///
/// # Panics
/// If an invariant does not hold.
pub(crate) fn replies(data: &[u8]) {
    let Some((control, stream)) = data.split_first_chunk::<CONTROL_LEN>() else {
        return;
    };
    let whole = receive(stream, &mut Cuts::none());
    let pieces = receive(stream, &mut Cuts::new(control));
    assert_eq!(whole, pieces, "pieces change what the client reads");
}

/// The result of a server's handshake.
#[derive(Debug, PartialEq)]
struct ServerRun {
    consumed: usize,
    out: Vec<u8>,
    /// The length of the output up to and including the reply to STARTTLS, if TLS began.
    plain: Option<usize>,
    end: Result<Option<HandshakeOutcome>, HandshakeError>,
}

/// Checks that no plain connection gets an export that requires TLS, and that the reply that TLS is
/// required is sent only in the modes that permit it.
fn check_tls(mode: TlsMode, run: &ServerRun) {
    let plain = run.plain.unwrap_or(run.out.len());
    let required = |bytes: &[u8]| {
        let magic = OPTION_REPLY_MAGIC.to_be_bytes();
        let replies = bytes.windows(16).filter(|head| head.starts_with(&magic));
        let code = REP_ERR_TLS_REQD.to_be_bytes();
        replies.filter(|head| head[12..] == code).count()
    };
    assert_eq!(
        required(&run.out[plain..]),
        0,
        "TLS is required after it began"
    );
    assert!(mode != TlsMode::Off || required(&run.out) == 0 && run.plain.is_none());
    if let Ok(Some(HandshakeOutcome::Transmission(session))) = &run.end {
        let name = &*session.export.name;
        let open = mode == TlsMode::Off || mode == TlsMode::Selective && name != "beta";
        assert!(open || run.plain.is_some(), "{name} in plain text");
    }
}

/// Runs a server's handshake on the first `limit` bytes of `stream`. If TLS begins, the rest of the
/// stream stands for the decrypted bytes.
fn serve_all(
    config: HandshakeConfig,
    exports: &FuzzExports,
    stream: &[u8],
    limit: usize,
    cuts: &mut Cuts,
) -> ServerRun {
    let stream = &stream[..stream.len().min(limit)];
    let mut handshake = Handshake::new(config);
    let mut served = ServerRun {
        consumed: 0,
        out: Vec::new(),
        plain: None,
        end: Ok(None),
    };
    handshake.greet(&mut served.out);
    while served.consumed < stream.len() {
        let piece = cuts.piece(&stream[served.consumed..]);
        // Like a caller that sends the output between calls.
        let mut out = Vec::new();
        let end = handshake.feed(piece, exports, &mut out);
        // `feed` stops after the answer that reached the limit, so it exceeds the limit by at most
        // one answer.
        assert!(
            out.len() < config.output + FuzzExports::LONGEST_ANSWER,
            "{} bytes at once",
            out.len()
        );
        let held = handshake.held_bytes();
        // A message is at most the data of an option or a header of 16 bytes, and a selection keeps
        // one name.
        assert!(
            held <= config.option_data.max(16) as usize + MAX_STRING,
            "{held} bytes held"
        );
        served.out.extend_from_slice(&out);
        match end {
            Ok((used, outcome)) => {
                assert!(
                    used > 0 && used <= piece.len(),
                    "{used} bytes of {}",
                    piece.len()
                );
                served.consumed += used;
                if outcome == Some(HandshakeOutcome::StartTls) {
                    assert_eq!(served.plain, None, "TLS begins twice");
                    served.plain = Some(served.out.len());
                } else if outcome.is_some() {
                    served.end = Ok(outcome);
                    return served;
                }
            }
            Err(error) => {
                // The progress before the error depends on the parts.
                served.consumed = 0;
                served.end = Err(error);
                return served;
            }
        }
    }
    served
}

/// The result of a client's handshake.
#[derive(Debug, PartialEq)]
struct ClientRun {
    consumed: usize,
    out: Vec<u8>,
    end: Result<Option<client::ClientHandshakeOutcome>, client::ClientHandshakeError>,
}

fn connect(config: &client::ClientHandshakeConfig, stream: &[u8], cuts: &mut Cuts) -> ClientRun {
    let mut handshake = client::NbdClientHandshake::new(config.clone());
    let mut connected = ClientRun {
        consumed: 0,
        out: Vec::new(),
        end: Ok(None),
    };
    while connected.consumed < stream.len() {
        let piece = cuts.piece(&stream[connected.consumed..]);
        match handshake.feed(piece, &mut connected.out) {
            Ok((used, None)) => {
                assert_eq!(
                    used,
                    piece.len(),
                    "bytes are left though there is no outcome"
                );
                connected.consumed += used;
            }
            Ok((used, outcome)) => {
                connected.consumed += used;
                connected.end = Ok(outcome);
                return connected;
            }
            Err(error) => {
                connected.consumed = 0;
                connected.end = Err(error);
                return connected;
            }
        }
    }
    connected
}

/// Checks the verdict against a second, independent formulation of the rules.
fn check_verdict(request: &NbdRequest, settings: &RuleSettings, verdict: Result<(), RequestError>) {
    let NbdRequest {
        command,
        flags,
        offset,
        length,
        ..
    } = *request;
    let end = u128::from(offset) + u128::from(length);
    let read_only = settings.flags.contains(TransmissionFlags::READ_ONLY);
    match verdict {
        Ok(()) if matches!(command, NbdCommand::Flush | NbdCommand::Disconnect) => {
            assert_eq!(end, 0);
        }
        Ok(()) => {
            assert!(
                length > 0 && end <= u128::from(settings.size),
                "a range outside the export"
            );
            assert_eq!(
                end % u128::from(settings.minimum_block),
                0,
                "an end that is not aligned"
            );
            assert!(
                !(read_only && command.modifies()),
                "a write to a read-only export"
            );
            assert!(
                !matches!(command, NbdCommand::Unknown(_)),
                "an unknown command"
            );
            assert!(command != NbdCommand::BlockStatus || settings.meta_allocation);
            if matches!(command, NbdCommand::Read | NbdCommand::Write) {
                assert!(
                    length <= settings.maximum_payload,
                    "a payload that is too long"
                );
            }
            let fua = settings.flags.contains(TransmissionFlags::SEND_FUA);
            assert!(
                fua || !flags.contains(CommandFlags::FUA),
                "FUA that was not offered"
            );
            // The five known flags occupy the bits 0 to 4.
            assert!(flags.bits() < 32, "a flag nobody knows");
        }
        Err(error) => match error.errno() {
            Errno::Perm => assert!(read_only && command.modifies()),
            Errno::NoSpc => {
                assert!(command.modifies() && end > u128::from(settings.size));
            }
            errno => assert_eq!(errno, Errno::Inval),
        },
    }
}

/// Returns the heads of all replies in the stream, and the violation with which it ended, if any.
fn receive(stream: &[u8], cuts: &mut Cuts) -> (Vec<Reply>, Option<client::ReplyError>) {
    let mut parser = ReplyParser::new();
    let (mut at, mut heads) = (0, Vec::new());
    while at < stream.len() {
        let piece = cuts.piece(&stream[at..]);
        let (used, reply) = match parser.feed(piece) {
            Ok(read) => read,
            Err(error) => return (heads, Some(error)),
        };
        assert!(
            used > 0 && used <= piece.len(),
            "{used} bytes of {}",
            piece.len()
        );
        assert!(
            reply.is_some() || used == piece.len(),
            "bytes are left though there is no reply"
        );
        let held = parser.held_bytes();
        assert!(held <= ReplyParser::MAX_HEAD, "{held} bytes held");
        at += used;
        let payload = match reply {
            Some(Reply::Data { length, .. }) => u64::from(length),
            Some(Reply::BlockStatus { extents, .. }) => u64::from(extents) * Extent::LEN as u64,
            _ => 0,
        };
        heads.extend(reply);
        // The caller skips the payload. It may end beyond the stream.
        at = at.saturating_add(usize::try_from(payload).unwrap_or(usize::MAX));
    }
    (heads, None)
}

/// The places at which a stream is cut, chosen by random numbers that the control bytes seed.
struct Cuts {
    /// The source of the places, or `None` for no cuts.
    random: Option<Xorshift>,
}

impl Cuts {
    fn none() -> Self {
        Self { random: None }
    }

    fn new(control: &[u8; CONTROL_LEN]) -> Self {
        // The seed is made odd, because it must not be zero.
        Self {
            random: Some(Xorshift::new(u64::from_be_bytes(*control) | 1)),
        }
    }

    /// Returns the next part of `rest`, which is at least one byte if there is one. Most parts are
    /// short, so that headers are cut.
    fn piece<'a>(&mut self, rest: &'a [u8]) -> &'a [u8] {
        let Some(random) = &mut self.random else {
            return rest;
        };
        let drawn = random.next_u64();
        let longest = if drawn.is_multiple_of(4) { 64 } else { 7 };
        let length = 1 + (drawn >> 8) % longest;
        &rest[..rest.len().min(length as usize)]
    }
}

/// The exports of the server: `alpha`, also the default, and `beta`, which is small, read-only and
/// has blocks of 512 bytes. If TLS is offered, `beta` requires it.
struct FuzzExports {
    tls: TlsMode,
}

impl FuzzExports {
    /// An upper limit in bytes for the answer to one option.
    const LONGEST_ANSWER: usize = 256;
}

impl Exports for FuzzExports {
    fn list(&self, each: &mut dyn FnMut(&str, &str)) {
        each("alpha", "first");
        each("beta", "");
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        let alpha = match name {
            "" | "alpha" => true,
            "beta" => false,
            _ => return None,
        };
        Some(ExportInfo {
            name: if alpha { "alpha".into() } else { "beta".into() },
            description: if alpha { "first".into() } else { String::new() },
            key: u64::from(alpha),
            size: if alpha { 1 << 20 } else { 4096 },
            flags: if alpha {
                // All features except READ_ONLY.
                TransmissionFlags::from_bits(0x0dff).without(TransmissionFlags::READ_ONLY)
            } else {
                TransmissionFlags::READ_ONLY
            },
            block_sizes: BlockSizes {
                minimum: if alpha { 1 } else { 512 },
                preferred: 4096,
                maximum: 1 << 20,
            },
            allocation: alpha,
        })
    }

    fn tls_mode(&self) -> TlsMode {
        self.tls
    }

    fn access(&self, export: &ExportInfo, secure: bool) -> ExportAccess {
        if export.name == "beta" && self.tls != TlsMode::Off && !secure {
            ExportAccess::TlsRequired
        } else {
            ExportAccess::Granted
        }
    }
}
