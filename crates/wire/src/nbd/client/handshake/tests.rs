use proptest::prelude::*;

use super::*;
use crate::nbd::constants::*;
use crate::nbd::export::{ExportInfo, Exports};
use crate::nbd::handshake as server;

const GREETING: &[u8] = b"NBDMAGICIHAVEOPT\x00\x03";

fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    for word in [option, kind, data.len() as u32] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    bytes.extend_from_slice(data);
    bytes
}

fn plain(export: &str) -> ClientHandshakeConfig {
    ClientHandshakeConfig {
        structured: false,
        meta_allocation: false,
        block_sizes: false,
        ..ClientHandshakeConfig::new(export)
    }
}

/// Feeds the whole of `input` at once. Returns the output and the outcome.
fn run(
    config: ClientHandshakeConfig,
    input: &[u8],
) -> (
    Vec<u8>,
    Result<Option<ClientHandshakeOutcome>, ClientHandshakeError>,
) {
    let mut out = Vec::new();
    let end = NbdClientHandshake::new(config)
        .feed(input, &mut out)
        .map(|(_, outcome)| outcome);
    (out, end)
}

/// `INFO_EXPORT` with 1 MiB and the flags 0x85.
const EXPORT: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0x85];

#[test]
fn a_plain_client_in_bytes() {
    // Without options, the client sends its flags and then GO for "alpha" (11 bytes) with no
    // requests for information.
    let (out, end) = run(plain("alpha"), GREETING);
    assert_eq!(end, Ok(None));
    assert_eq!(
        out,
        b"\x00\x00\x00\x03IHAVEOPT\x00\x00\x00\x07\x00\x00\x00\x0b\x00\x00\x00\x05alpha\x00\x00"
    );
}

#[test]
fn a_client_with_every_option_in_bytes() {
    let ack = |option| reply(option, REP_ACK, &[]);
    let context = reply(
        OPT_SET_META_CONTEXT,
        REP_META_CONTEXT,
        b"\x00\x00\x00\x07base:allocation",
    );
    // INFO_BLOCK_SIZE with 1, 4096 and 32 MiB.
    let sizes = [0, 3, 0, 0, 0, 1, 0, 0, 0x10, 0, 2, 0, 0, 0];
    let input = [
        GREETING.to_vec(),
        ack(OPT_STRUCTURED_REPLY),
        context,
        ack(OPT_SET_META_CONTEXT),
        reply(OPT_GO, REP_INFO, &sizes),
        reply(OPT_GO, REP_INFO, b"\x00\x01alpha"),
        reply(OPT_GO, REP_INFO, &EXPORT),
        ack(OPT_GO),
    ]
    .concat();
    // Client flags, STRUCTURED_REPLY (8), SET_META_CONTEXT (10), and GO (7).
    let (out, end) = run(ClientHandshakeConfig::new("alpha"), &input);
    let expected = b"\x00\x00\x00\x03\
        IHAVEOPT\x00\x00\x00\x08\x00\x00\x00\x00\
        IHAVEOPT\x00\x00\x00\x0a\x00\x00\x00\x20\
        \x00\x00\x00\x05alpha\x00\x00\x00\x01\x00\x00\x00\x0fbase:allocation\
        IHAVEOPT\x00\x00\x00\x07\x00\x00\x00\x0d\x00\x00\x00\x05alpha\x00\x01\x00\x03";
    assert_eq!(out, expected);
    let session = ClientSession {
        size: 1 << 20,
        flags: TransmissionFlags::from_bits(0x85),
        structured: true,
        allocation: Some(7),
        block_sizes: Some(BlockSizes {
            minimum: 1,
            preferred: 4096,
            maximum: 32 << 20,
        }),
    };
    assert_eq!(end, Ok(Some(ClientHandshakeOutcome::Transmission(session))));
}

#[test]
fn a_server_without_options_is_used_without_them() {
    let unknown = |option| reply(option, REP_ERR_UNSUP, b"what?");
    // The reply to EXPORT_NAME has no type, and the four bytes after it belong to the transmission
    // phase.
    let mut answer = EXPORT[2..].to_vec();
    answer.extend_from_slice(b"next");
    let input = [
        GREETING.to_vec(),
        unknown(OPT_STRUCTURED_REPLY),
        unknown(OPT_GO),
        answer,
    ]
    .concat();
    let mut out = Vec::new();
    let (used, end) = NbdClientHandshake::new(ClientHandshakeConfig::new("alpha"))
        .feed(&input, &mut out)
        .unwrap();
    assert_eq!(used, input.len() - 4);
    // The client falls back from GO to EXPORT_NAME (1).
    assert!(out.ends_with(b"IHAVEOPT\x00\x00\x00\x01\x00\x00\x00\x05alpha"));
    let Some(ClientHandshakeOutcome::Transmission(session)) = end else {
        panic!("{end:?}")
    };
    assert_eq!((session.size, session.flags.bits()), (1 << 20, 0x85));
    assert_eq!(
        (session.structured, session.allocation, session.block_sizes),
        (false, None, None)
    );
}

#[test]
fn an_old_server_pads_its_answer() {
    let config = ClientHandshakeConfig {
        export_name: true,
        ..plain("alpha")
    };
    // The server does not know NO_ZEROES, so 124 bytes of padding follow size and flags. The last
    // one is missing at first.
    let mut input = b"NBDMAGICIHAVEOPT\x00\x01".to_vec();
    input.extend_from_slice(&EXPORT[2..]);
    input.extend_from_slice(&[0; 123]);
    let (out, end) = run(config.clone(), &input);
    assert_eq!(
        out,
        b"\x00\x00\x00\x01IHAVEOPT\x00\x00\x00\x01\x00\x00\x00\x05alpha"
    );
    assert_eq!(end, Ok(None));
    input.push(0);
    assert!(matches!(
        run(config, &input).1,
        Ok(Some(ClientHandshakeOutcome::Transmission(_)))
    ));
}

#[test]
fn contexts_before_an_error_do_not_count() {
    let input = [
        GREETING.to_vec(),
        reply(OPT_STRUCTURED_REPLY, REP_ACK, &[]),
        reply(
            OPT_SET_META_CONTEXT,
            REP_META_CONTEXT,
            b"\x00\x00\x00\x07base:allocation",
        ),
        reply(OPT_SET_META_CONTEXT, REP_ERR_TOO_BIG, &[]),
        reply(OPT_GO, REP_INFO, &EXPORT),
        reply(OPT_GO, REP_ACK, &[]),
    ]
    .concat();
    let end = run(ClientHandshakeConfig::new("alpha"), &input).1;
    let Ok(Some(ClientHandshakeOutcome::Transmission(session))) = end else {
        panic!("{end:?}")
    };
    assert_eq!((session.structured, session.allocation), (true, None));
}

#[test]
fn tls_comes_before_every_option_or_the_client_leaves() {
    let config = || ClientHandshakeConfig {
        tls: true,
        ..plain("alpha")
    };
    // Another party can insert bytes after the reply. They are not consumed.
    let go = reply(OPT_GO, REP_ACK, &[]);
    let input = [
        GREETING.to_vec(),
        reply(OPT_STARTTLS, REP_ACK, &[]),
        go.clone(),
    ]
    .concat();
    let mut handshake = NbdClientHandshake::new(config());
    let mut out = Vec::new();
    let (used, end) = handshake.feed(&input, &mut out).unwrap();
    assert_eq!(
        (used, end),
        (
            input.len() - go.len(),
            Some(ClientHandshakeOutcome::StartTls)
        )
    );
    assert_eq!(
        out,
        b"\x00\x00\x00\x03IHAVEOPT\x00\x00\x00\x05\x00\x00\x00\x00"
    );
    out.clear();
    handshake.encrypted(&mut out);
    assert!(
        out.starts_with(b"IHAVEOPT\x00\x00\x00\x07"),
        "GO is the first option in TLS"
    );
    // A server without TLS, or a party that removes it, cannot make the client continue.
    for refusal in [REP_ERR_UNSUP, REP_ERR_POLICY, REP_ERR_INVALID] {
        let input = [GREETING.to_vec(), reply(OPT_STARTTLS, refusal, &[])].concat();
        let (out, end) = run(config(), &input);
        assert!(matches!(
            end,
            Ok(Some(ClientHandshakeOutcome::Refused {
                option: OPT_STARTTLS,
                ..
            }))
        ));
        assert!(!out.windows(5).any(|bytes| bytes == b"alpha"), "{out:?}");
    }
}

#[test]
fn a_refusal_says_goodbye_and_carries_the_message() {
    let input = [
        GREETING.to_vec(),
        reply(OPT_GO, REP_ERR_UNKNOWN, b"no such \xff export"),
    ]
    .concat();
    let (out, end) = run(plain("alpha"), &input);
    // The client ends with ABORT (2). The message is decoded with a replacement character.
    assert!(out.ends_with(b"IHAVEOPT\x00\x00\x00\x02\x00\x00\x00\x00"));
    let refused = ClientHandshakeOutcome::Refused {
        option: OPT_GO,
        reply: REP_ERR_UNKNOWN,
        message: "no such \u{fffd} export".into(),
    };
    assert_eq!(end, Ok(Some(refused)));
}

#[test]
fn servers_that_violate_the_protocol_are_errors() {
    let after = |replies: &[Vec<u8>]| {
        let input = [GREETING.to_vec(), replies.concat()].concat();
        run(plain("alpha"), &input).1
    };
    // A server without the fixed newstyle handshake, one that is none, and an oldstyle server.
    for greeting in [
        &b"NBDMAGICIHAVEOPT\x00\x02"[..],
        &[0; 18],
        b"NBDMAGIC\x00\x00\x42\x02\x81\x86\x12\x53\x00\x00",
    ] {
        assert_eq!(
            run(plain("alpha"), greeting).1,
            Err(ClientHandshakeError::NotFixedNewstyle)
        );
    }
    assert_eq!(
        after(&[vec![7; 20]]),
        Err(ClientHandshakeError::BadMagic(0x0707_0707_0707_0707))
    );
    assert_eq!(
        // The reply names an option that the client did not send.
        after(&[reply(OPT_LIST, REP_ACK, &[])]),
        Err(ClientHandshakeError::WrongOption {
            sent: OPT_GO,
            found: OPT_LIST
        })
    );
    // The limit is 64 KiB of data and 1024 replies.
    let mut long = reply(OPT_GO, REP_INFO, &vec![0; 65_537]);
    long.truncate(OPTION_REPLY_HEADER_LEN);
    assert_eq!(
        after(&[long]),
        Err(ClientHandshakeError::ReplyTooLong {
            length: 65_537,
            limit: 65_536
        })
    );
    let chatter = vec![reply(OPT_GO, REP_INFO, b"\x12\x34"); 1025];
    assert_eq!(after(&chatter[..1024]), Ok(None));
    assert_eq!(
        after(&chatter),
        Err(ClientHandshakeError::TooManyReplies { limit: 1024 })
    );
    // ACK without a description, with data, a reply of another option, and malformed information.
    for malformed in [
        reply(OPT_GO, REP_ACK, &[]),
        reply(OPT_GO, REP_ACK, &[0]),
        reply(OPT_GO, REP_SERVER, &[]),
        reply(OPT_GO, REP_INFO, &[]),
        reply(OPT_GO, REP_INFO, &EXPORT[..11]),
        reply(OPT_GO, REP_INFO, &[&EXPORT[..], &[0]].concat()),
        reply(OPT_GO, REP_INFO, &[0, 3, 0, 0, 0, 1]),
    ] {
        let end = after(std::slice::from_ref(&malformed));
        assert!(
            matches!(end, Err(ClientHandshakeError::BadReply(_))),
            "{end:?} after {malformed:?}"
        );
    }
    // A minimum block size of 3 is not a power of two.
    let odd = [0, 3, 0, 0, 0, 3, 0, 0, 0x10, 0, 2, 0, 0, 0];
    let end = after(&[
        reply(OPT_GO, REP_INFO, &odd),
        reply(OPT_GO, REP_INFO, &EXPORT),
        reply(OPT_GO, REP_ACK, &[]),
    ]);
    assert!(
        matches!(end, Err(ClientHandshakeError::BadReply(_))),
        "{end:?}"
    );
}

#[test]
fn the_longest_reply_is_taken_and_an_acknowledgement_has_no_data() {
    let after = |replies: &[Vec<u8>]| {
        let input = [GREETING.to_vec(), replies.concat()].concat();
        run(plain("alpha"), &input).1
    };
    let longest = reply(OPT_GO, REP_INFO, &vec![0x12; 65_536]);
    assert_eq!(after(&[longest]), Ok(None));
    let described = reply(OPT_GO, REP_INFO, &EXPORT);
    assert_eq!(
        after(&[described, reply(OPT_GO, REP_ACK, &[0])]),
        Err(ClientHandshakeError::BadReply(
            "an acknowledgement contains data"
        ))
    );
}

/// A server with one random export.
#[derive(Debug, Clone)]
struct OneExport(ExportInfo);

impl Exports for OneExport {
    fn list(&self, each: &mut dyn FnMut(&str, &str)) {
        each(&self.0.name, &self.0.description);
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        (name == self.0.name).then(|| self.0.clone())
    }
}

fn exports() -> impl Strategy<Value = OneExport> {
    let name = prop_oneof![Just(String::new()), "[a-z]{1,12}", "\\PC{1,40}"];
    (name, any::<u64>(), any::<u16>(), 0..=16u32, any::<bool>()).prop_map(
        |(name, size, bits, shift, allocation)| {
            let minimum = 1 << shift;
            OneExport(ExportInfo {
                name,
                description: "drawn".into(),
                key: 9,
                size,
                flags: TransmissionFlags::from_bits(bits),
                block_sizes: BlockSizes {
                    minimum,
                    preferred: minimum.max(4096),
                    maximum: 1 << 25,
                },
                allocation,
            })
        },
    )
}

fn configs() -> impl Strategy<Value = ClientHandshakeConfig> {
    prop::array::uniform4(any::<bool>()).prop_map(
        |[structured, meta_allocation, block_sizes, export_name]| ClientHandshakeConfig {
            structured,
            meta_allocation,
            block_sizes,
            export_name,
            ..ClientHandshakeConfig::new("")
        },
    )
}

/// Passes at most `most` bytes of `from` to `take`, which returns how many it consumed. Returns
/// true if it consumed any.
fn deliver(from: &mut Vec<u8>, most: usize, take: impl FnOnce(&[u8]) -> usize) -> bool {
    let used = take(&from[..most.min(from.len())]);
    from.drain(..used);
    used > 0
}

proptest! {
    /// The client and the server agree, whatever their settings are and however the bytes are
    /// split.
    #[test]
    fn client_and_server_agree(
        only in exports(),
        mut config in configs(),
        pieces in (1..40usize, 1..40usize),
        found in any::<bool>(),
    ) {
        // In half of the cases, the client asks for an export that does not exist.
        config.export = if found { only.0.name.clone() } else { only.0.name.clone() + "?" };
        let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
        let mut server = server::Handshake::new(server::HandshakeConfig::default());
        server.greet(&mut to_client);
        let mut client = NbdClientHandshake::new(config.clone());
        let (mut agreed, mut accepted, mut error) = (None, None, None);
        let mut moved = true;
        while moved {
            moved = false;
            moved |= deliver(&mut to_client, pieces.0, |bytes| {
                let (used, outcome) = client.feed(bytes, &mut to_server).expect("our server");
                agreed = outcome.or_else(|| agreed.take());
                used
            });
            moved |= deliver(&mut to_server, pieces.1, |bytes| {
                match server.feed(bytes, &only, &mut to_client) {
                    Ok((used, outcome)) => {
                        accepted = outcome.or_else(|| accepted.take());
                        used
                    }
                    Err(found) => {
                        error = Some(found);
                        bytes.len()
                    }
                }
            });
        }
        // Without the export, EXPORT_NAME ends the connection, and GO is refused, so the client
        // aborts.
        if !found {
            if config.export_name {
                prop_assert_eq!(error, Some(server::HandshakeError::UnknownExport(config.export)));
                prop_assert_eq!(agreed, None);
            } else {
                prop_assert_eq!(accepted, Some(server::HandshakeOutcome::Aborted));
                let unknown = matches!(
                    agreed,
                    Some(ClientHandshakeOutcome::Refused { option: OPT_GO, reply: REP_ERR_UNKNOWN, .. })
                );
                prop_assert!(unknown);
            }
            return Ok(());
        }
        let Some(server::HandshakeOutcome::Transmission(theirs)) = accepted else { panic!("{accepted:?}") };
        let Some(ClientHandshakeOutcome::Transmission(ours)) = agreed else { panic!("{agreed:?}") };
        prop_assert_eq!(ours.size, only.0.size);
        prop_assert_eq!(ours.flags, theirs.flags);
        prop_assert_eq!(ours.structured, theirs.structured);
        prop_assert_eq!(ours.structured, config.structured);
        prop_assert_eq!(ours.allocation.is_some(), theirs.meta_allocation);
        // A context is selected only with structured replies, on request, and if the export
        // supports it.
        let selected = config.structured && config.meta_allocation && only.0.allocation;
        prop_assert_eq!(theirs.meta_allocation, selected);
        let sizes = config.block_sizes && !config.export_name;
        prop_assert_eq!(theirs.block_sizes_requested, sizes);
        prop_assert_eq!(ours.block_sizes, sizes.then_some(only.0.block_sizes));
        prop_assert_eq!(&theirs.export, &only.0);
    }
}
