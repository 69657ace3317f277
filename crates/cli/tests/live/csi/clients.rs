//! Clients in other languages, as the bytes that they send. They differ in the name of the host
//! that they request.

use crate::csi::bench::CsiBench;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Returns a frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let header = [kind, flags, 0, 0, 0, stream];
    [&length[1..], &header, payload].concat()
}

/// Returns a header field that enters the dynamic table of HPACK, with its name as text, as the C
/// core of gRPC writes it.
fn field(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).expect("short");
    let [name_length, value_length] = [&[length(name)], &[length(value)]];
    [
        // A literal field with incremental indexing and a new name (RFC 7541, section 6.2.1).
        &[0x40],
        name_length,
        name.as_bytes(),
        value_length,
        value.as_bytes(),
    ]
    .concat()
}

/// Returns the payloads of a stream's `DATA` frames, up to the end of the stream.
fn answer(stream: &mut UnixStream, number: u8) -> Vec<u8> {
    let mut data = Vec::new();
    loop {
        let mut header = [0; 9];
        stream.read_exact(&mut header).expect("a frame");
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).expect("a payload");
        let (kind, flags) = (header[3], header[4]);
        // Frame types of HTTP/2: 0 is DATA, 1 is HEADERS, 3 is RST_STREAM, 7 is GOAWAY (RFC 9113,
        // section 6).
        assert_ne!(kind, 3, "stream {} is reset: {payload:?}", header[8]);
        assert_ne!(kind, 7, "the connection ends: {payload:?}");
        if header[8] == number {
            if kind == 0 {
                data.extend_from_slice(&payload);
            }
            // The flag END_STREAM.
            if kind < 2 && flags & 1 != 0 {
                return data;
            }
        }
    }
}

#[test]
fn clients_that_call_the_host_by_the_path_of_the_socket_are_answered() {
    let bench = CsiBench::new(None);
    bench.driver(None);
    // In this order: the C core (Python, C++, Ruby), .NET and Java, `grpcurl` with an option, and
    // Go.
    for authority in [
        "tmp%2Fcsi.sock",
        "/tmp/csi.sock",
        "unix:///tmp/csi.sock",
        "localhost",
    ] {
        let mut stream =
            UnixStream::connect(bench.scratch.path("csi")).expect("the driver listens");
        let patience = Some(Duration::from_secs(30));
        stream.set_read_timeout(patience).expect("a time");
        let first = [
            field(":path", "/csi.v1.Identity/GetPluginInfo"),
            field(":authority", authority),
            // The indexed fields `:method: POST` and `:scheme: http` of HPACK's static table.
            vec![0x83, 0x86],
            field("content-type", "application/grpc"),
            field("te", "trailers"),
        ];
        // The second request refers to the same fields in the dynamic table. 0xbe is index 62,
        // which is the field that was added last.
        let second = [0xc1, 0xc0, 0x83, 0x86, 0xbf, 0xbe];
        let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        // The connection preface is followed by an empty SETTINGS frame (type 4).
        sent.extend(frame(4, 0, 0, &[]));
        for (number, block) in [(1, first.concat().as_slice()), (3, &second)] {
            sent.extend(frame(1, 4, number, block));
            // An empty message, which is not compressed: five bytes of zero.
            sent.extend(frame(0, 1, number, &[0; 5]));
            stream.write_all(&sent).expect("the driver reads");
            let data = answer(&mut stream, number);
            let text = String::from_utf8_lossy(&data);
            assert!(
                text.contains("weir.csi"),
                "{authority}, stream {number}: {text:?}"
            );
            sent.clear();
        }
    }
}
