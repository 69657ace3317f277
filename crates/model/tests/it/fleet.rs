//! Clients against a minimal server, which replies correctly, incorrectly, or not at all.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};
use weir_core::Span;
use weir_measure::Meter;
use weir_model::client::{
    Address, ConnectError, Connection, Fleet, FleetError, FleetMember, RunError,
};
use weir_model::load::{LoadClient, Pattern, Program, Region, SyncMode};
use weir_wire::nbd::client::ClientHandshakeConfig as ClientConfig;
use weir_wire::nbd::{
    BlockSizes, Errno, ExportInfo, Exports, Handshake, HandshakeConfig, HandshakeOutcome,
    NbdCommand, NbdRequest, REQUEST_LEN, TransmissionFlags, append_error, encode_data_header,
    encode_hole, encode_simple_reply, parse_request,
};

const SIZE: u64 = 1 << 20;

struct One;

impl Exports for One {
    fn list(&self, _each: &mut dyn FnMut(&str, &str)) {}

    fn find(&self, name: &str) -> Option<ExportInfo> {
        (name == "one").then(|| ExportInfo {
            name: "one".into(),
            description: String::new(),
            key: 0,
            size: SIZE,
            flags: TransmissionFlags::SEND_FLUSH | TransmissionFlags::SEND_FUA,
            block_sizes: BlockSizes::DEFAULT,
            allocation: false,
        })
    }
}

/// A function that appends the reply to a request to the output. It returns false to end the
/// connection.
type ReplyFunction = fn(&NbdRequest, &mut Vec<u8>) -> bool;

/// Starts a server on a free port, which replies to every request with `answer`.
fn server(answer: ReplyFunction) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap().to_string());
    thread::spawn(move || {
        for socket in listener.incoming() {
            let socket = socket.unwrap();
            thread::spawn(move || serve(socket, answer));
        }
    });
    address
}

/// Serves one connection until either side closes it. Errors need no handling here, because the
/// client under test notices them.
fn serve(mut socket: TcpStream, answer: ReplyFunction) -> Option<()> {
    let mut shake = Handshake::new(HandshakeConfig::default());
    let (mut input, mut output, mut chunk) = (Vec::new(), Vec::new(), vec![0; 65536]);
    shake.greet(&mut output);
    loop {
        socket.write_all(&output).ok()?;
        output.clear();
        let n = socket.read(&mut chunk).ok().filter(|n| *n > 0)?;
        input.extend_from_slice(&chunk[..n]);
        let (used, outcome) = shake.feed(&input, &One, &mut output).ok()?;
        input.drain(..used);
        if let Some(HandshakeOutcome::Transmission(_)) = outcome {
            break;
        }
    }
    socket.write_all(&output).ok()?;
    loop {
        output.clear();
        while let Some(request) = parse_request(&input).ok()? {
            let payload = request.payload_len() as usize;
            if input.len() < REQUEST_LEN + payload {
                break;
            }
            input.drain(..REQUEST_LEN + payload);
            if !answer(&request, &mut output) {
                return None;
            }
        }
        socket.write_all(&output).ok()?;
        let n = socket.read(&mut chunk).ok().filter(|n| *n > 0)?;
        input.extend_from_slice(&chunk[..n]);
    }
}

fn well(request: &NbdRequest, out: &mut Vec<u8>) -> bool {
    let NbdRequest {
        cookie,
        offset,
        length,
        ..
    } = *request;
    if request.command == NbdCommand::Read {
        // Two chunks of data with a hole between them.
        let (data, hole) = (length / 4, length / 2);
        out.extend(encode_data_header(cookie, offset, data, false));
        out.extend(vec![7; data as usize]);
        let empty = offset + u64::from(data);
        out.extend(encode_hole(cookie, empty, hole, false));
        let (last, rest) = (empty + u64::from(hole), length - data - hole);
        out.extend(encode_data_header(cookie, last, rest, true));
        out.extend(vec![9; rest as usize]);
    } else if request.command != NbdCommand::Disconnect {
        out.extend(encode_simple_reply(cookie, None));
    }
    true
}

/// A server on which every second request fails.
fn half(request: &NbdRequest, out: &mut Vec<u8>) -> bool {
    if request.cookie.is_multiple_of(2) || request.command == NbdCommand::Disconnect {
        return well(request, out);
    }
    append_error(out, request.cookie, Errno::Io, "as agreed", true);
    true
}

fn reads(count: u64) -> Program {
    Program {
        requests: Some(count),
        ..Program::random_reads(4096, 4)
    }
}

fn member(name: &str, program: Program) -> FleetMember {
    FleetMember {
        name: name.into(),
        export: "one".into(),
        program,
        trace: None,
        region: None,
        seed: 1,
    }
}

fn fleet(address: Address, members: Vec<FleetMember>) -> Fleet {
    Fleet {
        address,
        members,
        warm_up: Duration::ZERO,
        length: Duration::from_mins(1),
        patience: Duration::from_mins(1),
    }
}

/// Runs a program on one connection to its end.
fn run(
    answer: ReplyFunction,
    program: &Program,
    patience: Duration,
) -> (Meter, Result<(), RunError>) {
    let config = ClientConfig::new("one");
    let connection = Connection::open(&server(answer), config, Duration::from_mins(1)).unwrap();
    assert_eq!(connection.session().size, SIZE);
    let region = Region::new(0, SIZE);
    let client = LoadClient::new(program, 1, region).unwrap();
    let mut meter = Meter::new(0, 60_000_000_000);
    let settings = weir_model::client::Settings {
        origin: Instant::now(),
        stop: &AtomicBool::new(false),
        patience,
    };
    let result = weir_model::client::run(connection, client, &mut meter, &settings);
    (meter, result)
}

const LONG: Duration = Duration::from_mins(1);

#[test]
fn every_answer_is_counted_once() {
    let members = vec![member("a", reads(100)), member("b", reads(50))];
    let mut last = Duration::ZERO;
    let outcomes = fleet(server(well), members)
        .run(|passed| last = passed)
        .unwrap();
    let counts: Vec<u64> = outcomes.iter().map(|o| o.meter.requests()).collect();
    assert_eq!(counts, [100, 50]);
    assert_eq!(outcomes[0].meter.bytes(), 100 * 4096);
    assert!(outcomes.iter().all(|o| o.error.is_none()));
    assert!(
        last < LONG,
        "the run does not wait for clients that have finished"
    );
}

#[test]
fn writes_carry_their_data_and_flushes_move_none() {
    let program = Program {
        writes: 100,
        sync: SyncMode::Fdatasync(4),
        pattern: Pattern::Sequential,
        ..reads(50)
    };
    let (meter, result) = run(well, &program, LONG);
    result.unwrap();
    // Ten rounds of four writes and a flush.
    assert_eq!((meter.requests(), meter.bytes()), (50, 40 * 4096));
}

#[test]
fn errors_are_counted_apart_and_end_nothing() {
    let (meter, result) = run(half, &reads(10), LONG);
    result.unwrap();
    assert_eq!(
        (meter.requests(), meter.failures(), meter.bytes()),
        (5, 5, 5 * 4096)
    );
}

#[test]
fn a_fleet_stops_when_its_time_is_up() {
    let endless = Program::random_reads(4096, 2);
    let fleet = Fleet {
        length: Duration::from_millis(200),
        warm_up: Duration::from_millis(50),
        ..fleet(server(well), vec![member("a", endless)])
    };
    let mut seen = Vec::new();
    let outcomes = fleet.run(|passed| seen.push(passed)).unwrap();
    assert!(outcomes[0].error.is_none() && outcomes[0].meter.requests() > 0);
    assert_eq!(outcomes[0].meter.length_ns(), 200_000_000);
    assert!(seen.len() >= 3 && seen.is_sorted());
}

#[test]
fn an_abandoned_fleet_ends_its_clients_without_results() {
    let endless = Program::random_reads(4096, 2);
    let fleet = Fleet {
        length: LONG,
        ..fleet(server(well), vec![member("a", endless)])
    };
    let mut asked = 0;
    let abandoned = fleet.run_while(|_| {
        asked += 1;
        asked < 3
    });
    assert!(abandoned.unwrap().is_none());
    assert_eq!(asked, 3);
}

#[test]
fn a_paced_client_waits_for_its_time() {
    let interval = Span::from_millis(5);
    let program = Program {
        arrival: weir_model::load::Arrival::Even { interval },
        ..reads(10)
    };
    let begin = Instant::now();
    let (meter, result) = run(well, &program, LONG);
    result.unwrap();
    assert_eq!(meter.requests(), 10);
    // Ten requests are 9 intervals of 5 ms.
    assert!(begin.elapsed() >= Duration::from_millis(45));
}

#[test]
fn a_closed_connection_is_an_error_with_the_requests_in_flight() {
    let (_, result) = run(|_, _| false, &reads(10), LONG);
    assert!(
        matches!(result, Err(RunError::Closed(4) | RunError::Socket(_))),
        "{result:?}"
    );
}

#[test]
fn a_client_stops_waiting_for_a_silent_server() {
    let (meter, result) = run(|_, _| true, &reads(10), Duration::from_millis(100));
    assert!(matches!(result, Err(RunError::Silent(_))), "{result:?}");
    assert_eq!(meter.requests(), 0);
}

#[test]
fn a_reply_without_a_request_is_an_error() {
    fn stray(request: &NbdRequest, out: &mut Vec<u8>) -> bool {
        let other = NbdRequest {
            cookie: request.cookie + 1000,
            ..*request
        };
        well(&other, out)
    }
    let (_, result) = run(stray, &reads(1), LONG);
    assert!(matches!(result, Err(RunError::Stray(_))), "{result:?}");
}

#[test]
fn a_fleet_that_cannot_start_names_the_faulty_client() {
    let other = FleetMember {
        export: "two".into(),
        ..member("b", reads(1))
    };
    let error = fleet(server(well), vec![member("a", reads(1)), other])
        .run(|_| {})
        .unwrap_err();
    assert!(
        matches!(&error, FleetError::Connect { name, error: ConnectError::Refused { export, .. } } if name == "b" && export == "two"),
        "{error}"
    );
    let large = FleetMember {
        region: Some(Region::new(0, 512)),
        ..member("c", reads(1))
    };
    let error = fleet(server(well), vec![large]).run(|_| {}).unwrap_err();
    assert!(error.to_string().starts_with("client c: region.length"));
    let nowhere = Address::Unix("/nonexistent/socket".into());
    let error = fleet(nowhere, vec![member("d", reads(1))])
        .run(|_| {})
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "client d: cannot connect to unix:/nonexistent/socket: No such file or directory (os error 2)"
    );
}
