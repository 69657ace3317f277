use super::*;
use crate::nbd::constants::*;
use crate::nbd::export::BlockSizes;
use crate::nbd::request::{NbdCommand, NbdRequest};

/// A server with the exports `alpha` (also the default) and `beta`.
struct Two;

impl Exports for Two {
    fn list(&self, each: &mut dyn FnMut(&str, &str)) {
        each("alpha", "first");
        each("beta", "");
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        match name {
            "" | "alpha" => Some(alpha()),
            "beta" => Some(ExportInfo {
                name: "beta".into(),
                description: String::new(),
                key: 2,
                size: 4096,
                flags: TransmissionFlags::READ_ONLY | TransmissionFlags::SEND_FAST_ZERO,
                block_sizes: BlockSizes {
                    minimum: 512,
                    preferred: 4096,
                    maximum: 4096,
                },
                allocation: false,
            }),
            _ => None,
        }
    }
}

fn alpha() -> ExportInfo {
    ExportInfo {
        name: "alpha".into(),
        description: "first".into(),
        key: 1,
        size: 1 << 20,
        flags: TransmissionFlags::SEND_FLUSH | TransmissionFlags::SEND_DF,
        block_sizes: BlockSizes {
            minimum: 1,
            preferred: 4096,
            maximum: 32 << 20,
        },
        allocation: true,
    }
}

const FIXED: [u8; 4] = CLIENT_FLAG_FIXED_NEWSTYLE.to_be_bytes();
const FIXED_NO_ZEROES: [u8; 4] = (CLIENT_FLAG_FIXED_NEWSTYLE | CLIENT_FLAG_NO_ZEROES).to_be_bytes();

fn option(code: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend_from_slice(&code.to_be_bytes());
    bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 3, 0xe8, 0x89, 4, 0x55, 0x65, 0xa9];
    for word in [option, kind, data.len() as u32] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    bytes.extend_from_slice(data);
    bytes
}

fn counted(string: &[u8]) -> Vec<u8> {
    [&(string.len() as u32).to_be_bytes(), string].concat()
}

/// Encodes the data of INFO or GO.
fn info(name: &str, kinds: &[u16]) -> Vec<u8> {
    let mut data = counted(name.as_bytes());
    data.extend_from_slice(&(kinds.len() as u16).to_be_bytes());
    data.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

/// Encodes the data of `LIST_META_CONTEXT` or `SET_META_CONTEXT`.
fn meta(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = counted(name.as_bytes());
    data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    data.extend(queries.iter().flat_map(|query| counted(query.as_bytes())));
    data
}

struct HandshakeRun {
    out: Vec<u8>,
    end: Result<Option<HandshakeOutcome>, HandshakeError>,
}

impl HandshakeRun {
    fn session(self) -> Session {
        match self.end {
            Ok(Some(HandshakeOutcome::Transmission(session))) => *session,
            other => panic!("no session: {other:?}"),
        }
    }
}

/// Feeds `input` after the greeting.
///
/// The corpus of the fuzzers and its mutations show that splitting the input changes nothing, and
/// that memory and output are bounded (`tests/it/corpus.rs`).
fn run_with(config: HandshakeConfig, input: &[u8]) -> HandshakeRun {
    let mut handshake = Handshake::new(config);
    let (mut rest, mut out) = (input, Vec::new());
    while !rest.is_empty() {
        match handshake.feed(rest, &Two, &mut out) {
            Ok((used, None)) => rest = &rest[used..],
            Ok((_, outcome)) => {
                let end = Ok(outcome);
                return HandshakeRun { out, end };
            }
            Err(error) => {
                let end = Err(error);
                return HandshakeRun { out, end };
            }
        }
    }
    let end = Ok(None);
    HandshakeRun { out, end }
}

/// Feeds the options of a client that speaks the fixed newstyle handshake.
fn run(options: &[Vec<u8>]) -> HandshakeRun {
    run_with(
        HandshakeConfig::default(),
        &[&FIXED[..], &options.concat()].concat(),
    )
}

/// Asserts the reply to one option, optionally after structured replies were negotiated.
fn assert_answer(structured: bool, code: u32, data: &[u8], answer: &[Vec<u8>]) {
    let mut options = vec![option(code, data)];
    let mut expected = answer.concat();
    if structured {
        options.insert(0, option(OPT_STRUCTURED_REPLY, &[]));
        expected = [reply(OPT_STRUCTURED_REPLY, REP_ACK, &[]), expected].concat();
    }
    assert_eq!(run(&options).out, expected, "option {code}");
}

#[test]
fn the_greeting_in_bytes() {
    let mut out = vec![0xee];
    Handshake::new(HandshakeConfig::default()).greet(&mut out);
    assert_eq!(out, b"\xeeNBDMAGICIHAVEOPT\x00\x03");
}

#[test]
fn go_in_bytes() {
    // Client flags, then GO with 13 bytes: "alpha" with its length, and one request for block sizes
    // (3).
    let input = b"\x00\x00\x00\x01IHAVEOPT\x00\x00\x00\x07\x00\x00\x00\x0d\
        \x00\x00\x00\x05alpha\x00\x01\x00\x03";
    let run = run_with(HandshakeConfig::default(), input);
    // INFO_EXPORT with 1 MiB and the flags HAS_FLAGS and SEND_FLUSH, INFO_BLOCK_SIZE with 1, 4096
    // and 32 MiB, and ACK.
    let expected =
        b"\x00\x03\xe8\x89\x04\x55\x65\xa9\x00\x00\x00\x07\x00\x00\x00\x03\x00\x00\x00\x0c\
        \x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x05\
        \x00\x03\xe8\x89\x04\x55\x65\xa9\x00\x00\x00\x07\x00\x00\x00\x03\x00\x00\x00\x0e\
        \x00\x03\x00\x00\x00\x01\x00\x00\x10\x00\x02\x00\x00\x00\
        \x00\x03\xe8\x89\x04\x55\x65\xa9\x00\x00\x00\x07\x00\x00\x00\x01\x00\x00\x00\x00";
    assert_eq!(run.out, expected);
    let session = run.session();
    assert_eq!(session.export, alpha());
    assert_eq!(
        session.flags,
        TransmissionFlags::HAS_FLAGS | TransmissionFlags::SEND_FLUSH
    );
    assert!(session.block_sizes_requested);
    assert!(!session.structured && !session.meta_allocation && !session.no_zeroes);
}

#[test]
fn info_returns_the_requested_details_and_the_handshake_continues() {
    // 1 MiB and the flags 0x85: HAS_FLAGS, SEND_FLUSH, SEND_DF, since structured replies are
    // negotiated.
    let export = [0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0x85];
    let sizes = [0, 3, 0, 0, 0, 1, 0, 0, 0x10, 0, 2, 0, 0, 0];
    // 99 is unknown information, which must be ignored.
    let kinds = [
        INFO_NAME,
        INFO_BLOCK_SIZE,
        INFO_DESCRIPTION,
        INFO_EXPORT,
        99,
    ];
    let answer = [
        reply(OPT_INFO, REP_INFO, &export),
        reply(OPT_INFO, REP_INFO, b"\x00\x01alpha"),
        reply(OPT_INFO, REP_INFO, b"\x00\x02first"),
        reply(OPT_INFO, REP_INFO, &sizes),
        reply(OPT_INFO, REP_ACK, &[]),
    ];
    assert_answer(true, OPT_INFO, &info("", &kinds), &answer);
    // INFO does not begin the session, so a GO for another export may follow.
    let run = run(&[
        option(OPT_INFO, &info("alpha", &[])),
        option(OPT_GO, &info("beta", &[])),
    ]);
    assert_eq!(run.session().export.key, 2);
}

#[test]
fn list_names_every_export() {
    let answer = [
        reply(OPT_LIST, REP_SERVER, b"\x00\x00\x00\x05alphafirst"),
        reply(OPT_LIST, REP_SERVER, b"\x00\x00\x00\x04beta"),
        reply(OPT_LIST, REP_ACK, &[]),
    ];
    assert_answer(false, OPT_LIST, &[], &answer);
}

#[test]
fn invalid_options_are_refused_and_the_handshake_continues() {
    let unsupported = |code| (code, REP_ERR_UNSUP);
    // Options that are unknown or not supported, options with data that must have none, and
    // metadata options without structured replies.
    let mut cases = vec![
        (unsupported(0), vec![]),
        (unsupported(4), vec![1, 2, 3]),
        (unsupported(OPT_STARTTLS), vec![]),
        (unsupported(11), vec![0; 5000]),
        (unsupported(u32::MAX), vec![0xff; 16]),
        ((OPT_LIST, REP_ERR_INVALID), vec![0]),
        ((OPT_STRUCTURED_REPLY, REP_ERR_INVALID), vec![0]),
        (
            (OPT_SET_META_CONTEXT, REP_ERR_INVALID),
            meta("alpha", &["base:allocation"]),
        ),
        ((OPT_LIST_META_CONTEXT, REP_ERR_INVALID), meta("alpha", &[])),
    ];
    for code in [OPT_INFO, OPT_GO] {
        cases.push(((code, REP_ERR_UNKNOWN), info("gamma", &[])));
        cases.push(((code, REP_ERR_INVALID), vec![]));
        cases.push(((code, REP_ERR_INVALID), info(&"x".repeat(4097), &[])));
        cases.push(((code, REP_ERR_INVALID), info("al\0pha", &[])));
    }
    for ((code, error), data) in cases {
        // ABORT afterwards proves that the handshake continues. Its data is ignored.
        let run = run(&[option(code, &data), option(OPT_ABORT, b"ignored")]);
        assert_eq!(
            run.end,
            Ok(Some(HandshakeOutcome::Aborted)),
            "option {code}"
        );
        let head = [code.to_be_bytes(), error.to_be_bytes()].concat();
        assert_eq!(run.out[8..16], head, "option {code}");
        assert!(
            run.out.ends_with(&reply(OPT_ABORT, REP_ACK, &[])),
            "option {code}"
        );
    }
}

#[test]
fn export_name_answers_with_padding_unless_agreed_otherwise() {
    let name = option(OPT_EXPORT_NAME, b"beta");
    let run_with =
        |flags: [u8; 4]| run_with(HandshakeConfig::default(), &[&flags[..], &name].concat());
    // 4096 bytes, HAS_FLAGS and READ_ONLY. SEND_FAST_ZERO is removed without SEND_WRITE_ZEROES.
    let answer = [0, 0, 0, 0, 0, 0, 0x10, 0, 0, 3];
    let padded = run_with(FIXED);
    assert_eq!(padded.out, [&answer[..], &[0; 124]].concat());
    assert!(!padded.session().no_zeroes);
    let short = run_with(FIXED_NO_ZEROES);
    assert_eq!(short.out, answer);
    let session = short.session();
    assert!(session.no_zeroes && !session.block_sizes_requested);
    assert_eq!(session.export.key, 2);
}

#[test]
fn an_unknown_export_name_ends_the_connection_without_a_reply() {
    for (name, error) in [
        (&b"gamma"[..], HandshakeError::UnknownExport("gamma".into())),
        (&[0xff], HandshakeError::BadName),
        (&[b'x'; 4097], HandshakeError::BadName),
    ] {
        let run = run(&[option(OPT_EXPORT_NAME, name)]);
        assert_eq!(run.end, Err(error));
        assert_eq!(run.out, []);
    }
}

/// A server with the exports of [`Two`] that lets no session begin, and that records denials.
#[derive(Default)]
struct FullServer(std::cell::RefCell<Vec<String>>);

impl Exports for FullServer {
    fn list(&self, each: &mut dyn FnMut(&str, &str)) {
        Two.list(each);
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        Two.find(name)
    }

    fn refusal(&self, _export: &ExportInfo) -> Option<&'static str> {
        Some("full")
    }

    fn on_denied(&self, what: Denial<'_>) {
        self.0.borrow_mut().push(format!("{what:?}"));
    }
}

#[test]
fn a_refused_client_learns_the_reason_and_may_continue() {
    // GO is refused with a policy error, but the handshake continues.
    let go = |name| [&FIXED[..], &option(OPT_GO, &go_data(name))].concat();
    let mut out = Vec::new();
    let mut handshake = Handshake::new(HandshakeConfig::default());
    let fed = handshake.feed(&go(b"alpha"), &FullServer::default(), &mut out);
    assert_eq!(fed.unwrap().1, None);
    assert_eq!(out, reply(OPT_GO, REP_ERR_POLICY, b"full"));
    out.clear();
    // INFO does not begin a session, so it is answered.
    let info = option(OPT_INFO, &go_data(b"alpha"));
    assert_eq!(
        handshake
            .feed(&info, &FullServer::default(), &mut out)
            .unwrap()
            .1,
        None
    );
    assert!(out.ends_with(&reply(OPT_INFO, REP_ACK, &[])), "{out:?}");
    // EXPORT_NAME has no error reply, so the connection ends.
    let mut handshake = Handshake::new(HandshakeConfig::default());
    let named = [&FIXED[..], &option(OPT_EXPORT_NAME, b"alpha")].concat();
    let fed = handshake.feed(&named, &FullServer::default(), &mut Vec::new());
    assert_eq!(fed, Err(HandshakeError::Refused("full")));
}

#[test]
fn every_session_is_checked_whether_block_sizes_are_required_or_not() {
    // The client asks for no block sizes. In the first case they are not required, in the second
    // the export accepts every size.
    for (require_block_size, name) in [(false, "beta"), (true, "alpha")] {
        let config = HandshakeConfig {
            require_block_size,
            ..HandshakeConfig::default()
        };
        let go = [&FIXED[..], &option(OPT_GO, &info(name, &[]))].concat();
        let mut out = Vec::new();
        let fed = Handshake::new(config).feed(&go, &FullServer::default(), &mut out);
        assert_eq!(fed.unwrap().1, None, "{name}");
        assert_eq!(out, reply(OPT_GO, REP_ERR_POLICY, b"full"), "{name}");
    }
}

#[test]
fn denials_are_reported_to_the_server() {
    let options = [
        option(OPT_STARTTLS, &[]),
        option(OPT_GO, &info("gamma", &[])),
        option(OPT_INFO, &info("alpha", &[])),
        option(77, &[]),
    ];
    let input = [&FIXED[..], &options.concat()].concat();
    let exports = FullServer::default();
    Handshake::new(HandshakeConfig::default())
        .feed(&input, &exports, &mut Vec::new())
        .unwrap();
    assert_eq!(exports.0.into_inner(), ["Tls", "Export(\"gamma\")"]);
}

#[test]
fn held_memory_consists_of_the_incomplete_message_and_selected_name() {
    let mut handshake = Handshake::new(HandshakeConfig::default());
    let mut feed = |input: &[u8]| {
        handshake.feed(input, &Two, &mut Vec::new()).unwrap();
        handshake.held_bytes()
    };
    // The client flags and the first option are processed completely, so nothing is held.
    assert_eq!(feed(&FIXED), 0);
    assert_eq!(feed(&option(OPT_STRUCTURED_REPLY, &[])), 0);
    let select = option(OPT_SET_META_CONTEXT, &meta("alpha", &[BASE_ALLOCATION]));
    // The selection keeps the name "alpha", which has 5 bytes, and then 3 bytes of an incomplete
    // option.
    assert_eq!(feed(&select), 5);
    assert_eq!(feed(&option(OPT_LIST, &[])[..3]), 5 + 3);
}

/// Encodes the data of GO and INFO without requests for information.
fn go_data(name: &[u8]) -> Vec<u8> {
    [&(name.len() as u32).to_be_bytes()[..], name, &[0, 0]].concat()
}

#[test]
fn contexts_are_listed_by_wildcard_and_selected_by_name() {
    let list = OPT_LIST_META_CONTEXT;
    let set = OPT_SET_META_CONTEXT;
    let listed = reply(list, REP_META_CONTEXT, b"\x00\x00\x00\x00base:allocation");
    let selected = reply(set, REP_META_CONTEXT, b"\x00\x00\x00\x01base:allocation");
    let ack = |code| reply(code, REP_ACK, &[]);
    // No query, the namespace, and the full name each list the context.
    for queries in [
        &[][..],
        &["base:"],
        &["qemu:", "base:allocation", "base:allocation"],
    ] {
        assert_answer(true, list, &meta("", queries), &[listed.clone(), ack(list)]);
        assert_answer(true, list, &meta("beta", queries), &[ack(list)]);
    }
    // Unknown contexts and namespaces are ignored.
    assert_answer(
        true,
        list,
        &meta("alpha", &["base:other", "x"]),
        &[ack(list)],
    );
    // A second query for the same context has no effect. Wildcards do not select.
    let both = ["x-y:z", "base:allocation", "base:allocation"];
    assert_answer(true, set, &meta("alpha", &both), &[selected, ack(set)]);
    for queries in [&[][..], &["base:"], &["base:allocations"]] {
        assert_answer(true, set, &meta("alpha", queries), &[ack(set)]);
    }
    assert_answer(true, set, &meta("beta", &["base:allocation"]), &[ack(set)]);
}

#[test]
fn a_selection_applies_to_its_export_until_the_next_selection() {
    let select = |name| option(OPT_SET_META_CONTEXT, &meta(name, &["base:allocation"]));
    let structured = option(OPT_STRUCTURED_REPLY, &[]);
    let go = |name| option(OPT_GO, &info(name, &[]));
    // The selection holds for the name with which it was made, until the next selection, even if
    // that one fails.
    let cases: [(&[Vec<u8>], bool); 9] = [
        (&[structured.clone(), select("alpha"), go("alpha")], true),
        (
            &[
                structured.clone(),
                select("alpha"),
                option(OPT_EXPORT_NAME, b"alpha"),
            ],
            true,
        ),
        (&[structured.clone(), select(""), go("")], true),
        (&[structured.clone(), select("alpha"), go("")], false),
        (&[structured.clone(), select("alpha"), go("beta")], false),
        (
            &[
                structured.clone(),
                select("alpha"),
                select("gamma"),
                go("alpha"),
            ],
            false,
        ),
        (
            &[
                structured.clone(),
                select("alpha"),
                option(OPT_SET_META_CONTEXT, b"junk"),
                go("alpha"),
            ],
            false,
        ),
        (
            &[
                structured.clone(),
                select("beta"),
                select("alpha"),
                go("alpha"),
            ],
            true,
        ),
        (&[select("alpha"), structured.clone(), go("alpha")], false),
    ];
    for (index, (options, expected)) in cases.into_iter().enumerate() {
        let session = run(options).session();
        assert_eq!(session.meta_allocation, expected, "case {index}");
        assert_eq!(
            session.rules(1).settings().meta_allocation,
            expected,
            "case {index}"
        );
    }
}

#[test]
fn flags_depend_on_each_other() {
    let structured = option(OPT_STRUCTURED_REPLY, &[]);
    let go = |name| option(OPT_GO, &info(name, &[]));
    // `alpha` offers SEND_DF, which is sent because structured replies are negotiated.
    let with = run(&[structured, go("alpha")]).session();
    assert!(with.structured && with.flags.contains(TransmissionFlags::SEND_DF));
    assert_eq!(
        run(&[go("beta")]).session().flags,
        TransmissionFlags::HAS_FLAGS | TransmissionFlags::READ_ONLY
    );
}

#[test]
fn rules_have_the_settings_of_the_session() {
    let session = run(&[option(OPT_GO, &info("beta", &[]))]).session();
    let expected = RuleSettings {
        size: 4096,
        flags: TransmissionFlags::HAS_FLAGS | TransmissionFlags::READ_ONLY,
        meta_allocation: false,
        minimum_block: 512,
        maximum_payload: 4096,
        maximum_range: 8192,
    };
    assert_eq!(*session.rules(8192).settings(), expected);
}

#[test]
fn block_sizes_can_be_demanded() {
    let config = HandshakeConfig {
        require_block_size: true,
        ..HandshakeConfig::default()
    };
    let run = |options: &[Vec<u8>]| run_with(config, &[&FIXED[..], &options.concat()].concat());
    // The client did not ask for block sizes, so GO is refused after the export and its block
    // sizes.
    let refused = run(&[option(OPT_GO, &info("beta", &[])), option(OPT_ABORT, &[])]);
    assert_eq!(refused.end, Ok(Some(HandshakeOutcome::Aborted)));
    // The first reply has a header of 20 bytes and 12 bytes of INFO_EXPORT. The second has 20 + 14
    // bytes.
    let second = &refused.out[20 + 12..];
    assert_eq!(
        second[..22],
        reply(
            OPT_GO,
            REP_INFO,
            &[0, 3, 0, 0, 2, 0, 0, 0, 0x10, 0, 0, 0, 0x10, 0]
        )[..22]
    );
    assert_eq!(second[34..][12..16], REP_ERR_BLOCK_SIZE_REQD.to_be_bytes());
    let asked = run(&[option(OPT_GO, &info("beta", &[INFO_BLOCK_SIZE]))]);
    assert!(asked.session().block_sizes_requested);
    assert!(
        !run(&[option(OPT_GO, &info("alpha", &[]))])
            .session()
            .block_sizes_requested
    );
    let error = run(&[option(OPT_EXPORT_NAME, b"beta")]).end;
    assert_eq!(error, Err(HandshakeError::BlockSizeRequired("beta".into())));
    // An export whose minimum block size is one byte has no sizes to obey.
    let session = run(&[option(OPT_EXPORT_NAME, b"alpha")]).session();
    assert_eq!(session.export.name, "alpha");
}

#[test]
fn client_flags_that_were_not_offered_are_refused() {
    let run = |flags: u32| run_with(HandshakeConfig::default(), &flags.to_be_bytes());
    // Flag 2 is NO_ZEROES without the fixed newstyle handshake, and 5 contains an unknown bit.
    assert_eq!(run(0).end, Err(HandshakeError::NotFixedNewstyle));
    assert_eq!(run(2).end, Err(HandshakeError::NotFixedNewstyle));
    assert_eq!(run(5).end, Err(HandshakeError::ClientFlags(5)));
    assert_eq!(run(3).end, Ok(None));
}

#[test]
fn options_are_bounded_in_number_and_length() {
    let list = option(OPT_LIST, &[]);
    // The limits are 64 options and 64 KiB of data.
    assert_eq!(run(&vec![list.clone(); 64]).end, Ok(None));
    assert_eq!(
        run(&vec![list; 65]).end,
        Err(HandshakeError::TooManyOptions { limit: 64 })
    );
    assert_eq!(run(&[option(77, &vec![0; 65_536])]).end, Ok(None));
    // The header is enough for the refusal. The data need not arrive.
    let mut header = option(77, &vec![0; 65_537]);
    header.truncate(OPTION_HEADER_LEN);
    let expected = HandshakeError::OptionTooLong {
        option: 77,
        length: 65_537,
        limit: 65_536,
    };
    assert_eq!(run(&[header]).end, Err(expected));
    // The client speaks HTTP. The first eight bytes are "GET / HT".
    let run = run(&[b"GET / HTTP/1.1\r\n".to_vec()]);
    assert_eq!(
        run.end,
        Err(HandshakeError::BadMagic(0x4745_5420_2f20_4854))
    );
}

#[test]
fn a_handshake_consumes_no_bytes_after_its_end() {
    let read = NbdRequest {
        command: NbdCommand::Read,
        flags: crate::nbd::flags::CommandFlags::EMPTY,
        cookie: 1,
        offset: 0,
        length: 512,
    };
    let go = [&FIXED[..], &option(OPT_GO, &info("", &[]))].concat();
    let input = [&go[..], &read.encode()].concat();
    // The request after GO belongs to the transmission phase.
    let mut handshake = Handshake::new(HandshakeConfig::default());
    let (used, outcome) = handshake
        .feed(&input, &Two, &mut Vec::new())
        .expect("a good client");
    assert_eq!(used, go.len());
    assert!(matches!(outcome, Some(HandshakeOutcome::Transmission(_))));
    assert_eq!(
        handshake.feed(&input[used..], &Two, &mut Vec::new()),
        Ok((0, None))
    );

    // An error ends the handshake as well.
    let mut broken = Handshake::new(HandshakeConfig::default());
    assert!(broken.feed(&[0xff; 64], &Two, &mut Vec::new()).is_err());
    assert_eq!(broken.feed(&input, &Two, &mut Vec::new()), Ok((0, None)));
}

/// A server with the exports of [`Two`] that offers TLS. `beta` requires it, and `alpha` is denied
/// to encrypted clients.
struct SecureServer(TlsMode);

impl Exports for SecureServer {
    fn list(&self, each: &mut dyn FnMut(&str, &str)) {
        Two.list(each);
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        Two.find(name)
    }

    fn tls_mode(&self) -> TlsMode {
        self.0
    }

    fn access(&self, export: &ExportInfo, secure: bool) -> ExportAccess {
        match (&*export.name, secure) {
            ("beta", false) => ExportAccess::TlsRequired,
            ("alpha", true) => ExportAccess::Denied,
            _ => ExportAccess::Granted,
        }
    }
}

/// Feeds client flags and options to a handshake with [`SecureServer`]. Returns the rest that was
/// not consumed, the output and the end.
type SecureRun = (
    usize,
    Vec<u8>,
    Result<Option<HandshakeOutcome>, HandshakeError>,
);

fn secure_run(handshake: &mut Handshake, mode: TlsMode, options: &[Vec<u8>]) -> SecureRun {
    let input = options.concat();
    let mut out = Vec::new();
    match handshake.feed(&input, &SecureServer(mode), &mut out) {
        Ok((used, outcome)) => (input.len() - used, out, Ok(outcome)),
        Err(error) => (0, out, Err(error)),
    }
}

fn begun() -> Handshake {
    let mut handshake = Handshake::new(HandshakeConfig::default());
    handshake.feed(&FIXED, &Two, &mut Vec::new()).unwrap();
    handshake
}

const REQUIRED: &[u8] = b"TLS is required";

#[test]
fn an_export_that_requires_tls_is_refused_in_plain_text() {
    let mode = TlsMode::Selective;
    for code in [OPT_GO, OPT_INFO] {
        let run = secure_run(&mut begun(), mode, &[option(code, &info("beta", &[]))]);
        assert_eq!(run, (0, reply(code, REP_ERR_TLS_REQD, REQUIRED), Ok(None)));
    }
    let run = secure_run(&mut begun(), mode, &[option(OPT_EXPORT_NAME, b"beta")]);
    assert_eq!(run, (0, vec![], Err(HandshakeError::TlsRequired)));
    // The other export needs no TLS.
    let run = secure_run(&mut begun(), mode, &[option(OPT_EXPORT_NAME, b"alpha")]);
    assert!(matches!(run.2, Ok(Some(HandshakeOutcome::Transmission(_)))));
    // A server without TLS must not reply that TLS is required.
    let run = secure_run(
        &mut begun(),
        TlsMode::Off,
        &[option(OPT_GO, &info("beta", &[]))],
    );
    let denied = b"this client is not permitted to use the export";
    assert_eq!(run, (0, reply(OPT_GO, REP_ERR_POLICY, denied), Ok(None)));
}

#[test]
fn if_tls_is_forced_every_option_requires_it() {
    let mode = TlsMode::Forced;
    for code in [OPT_GO, OPT_INFO, OPT_LIST, OPT_STRUCTURED_REPLY, 77] {
        let run = secure_run(&mut begun(), mode, &[option(code, &info("alpha", &[]))]);
        assert_eq!(run, (0, reply(code, REP_ERR_TLS_REQD, REQUIRED), Ok(None)));
    }
    let run = secure_run(&mut begun(), mode, &[option(OPT_EXPORT_NAME, b"alpha")]);
    assert_eq!(run, (0, vec![], Err(HandshakeError::TlsRequired)));
    let run = secure_run(&mut begun(), mode, &[option(OPT_ABORT, &[])]);
    let expected = reply(OPT_ABORT, REP_ACK, &[]);
    assert_eq!(run, (0, expected, Ok(Some(HandshakeOutcome::Aborted))));
}

#[test]
fn tls_begins_with_a_clean_state_and_without_the_pipelined_options() {
    let mut handshake = begun();
    let mode = TlsMode::Selective;
    let plain = [
        option(OPT_STRUCTURED_REPLY, &[]),
        option(OPT_STARTTLS, b"data"),
        option(OPT_STARTTLS, &[]),
        // Another party could have inserted this option.
        option(OPT_GO, &info("beta", &[])),
    ];
    let (rest, out, end) = secure_run(&mut handshake, mode, &plain);
    assert_eq!(
        (rest, end),
        (plain[3].len(), Ok(Some(HandshakeOutcome::StartTls)))
    );
    let answers = [
        reply(OPT_STRUCTURED_REPLY, REP_ACK, &[]),
        reply(
            OPT_STARTTLS,
            REP_ERR_INVALID,
            b"the option does not permit data",
        ),
        reply(OPT_STARTTLS, REP_ACK, &[]),
    ];
    assert_eq!(out, answers.concat());
    let encrypted = [
        option(OPT_STARTTLS, &[]),
        option(OPT_GO, &info("alpha", &[])),
        option(OPT_GO, &info("beta", &[])),
    ];
    let (_, out, end) = secure_run(&mut handshake, mode, &encrypted);
    let again = reply(OPT_STARTTLS, REP_ERR_INVALID, b"TLS has already begun");
    assert!(out.starts_with(&again));
    let Ok(Some(HandshakeOutcome::Transmission(session))) = end else {
        panic!("{end:?}")
    };
    assert_eq!(session.export.name, "beta");
    assert!(!session.structured, "it was negotiated in plain text");
}
