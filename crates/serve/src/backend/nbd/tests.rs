//! Tests of volumes on exports: of nbdkit and QEMU if they are installed, and of servers that
//! violate the protocol.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_core::{Flags, Op, Span};
use weir_uring::IoRingConfig;
use weir_wire::nbd::{
    self, BlockSizes, ExportInfo, Exports, Handshake, HandshakeConfig, HandshakeOutcome,
    REQUEST_LEN, TransmissionFlags,
};

use super::super::Data;
use super::super::file::bench::{BackendBench, Rng};
use super::super::file::tests::Directory;
use super::*;
use crate::errno::{EIO, ENOTCONN, ENOTSUP};

const SIZE: u64 = 4 << 20;

/// Returns the configuration of a volume on an export, and the settings of the remote server.
fn settings(socket: &Path, export: &str, wait: Span) -> (Volume, Settings) {
    let text = format!(
        "[drive.d]\n[listen]\nnbd = [\"unix:/s\"]\n[volume.v]\ndrive = \"d\"\nnbd = \"nbd+unix:///{export}?socket={}\"\n",
        socket.display()
    );
    let server = weir_config::parse("", &text).unwrap();
    let mut volume = server.volumes[0].clone();
    let weir_config::Storage::Nbd(remote) = &mut volume.storage else {
        panic!("it is remote");
    };
    remote.wait = wait;
    let settings = remote.clone();
    (volume, settings)
}

fn bench(volume: &Volume, settings: &Settings) -> BackendBench {
    let export = RemoteExport::open(volume, settings).unwrap();
    BackendBench::new(
        Box::new(export),
        &IoRingConfig {
            arena_bytes: 64 << 20,
            in_flight: 64,
            ..IoRingConfig::default()
        },
    )
}

fn refused(volume: &Volume, settings: &Settings) -> String {
    RemoteExport::open(volume, settings)
        .unwrap_err()
        .to_string()
}

/// A server program that is killed when this is dropped.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        println!("skipped: {program} is not installed");
    }
    there
}

fn nbdkit(directory: &Directory, arguments: &[&str]) -> (PathBuf, Program) {
    let socket = directory.0.join("pool.sock");
    let _ = std::fs::remove_file(&socket);
    let mut command = Command::new("nbdkit");
    command.args(["-f", "-U"]).arg(&socket).args(arguments);
    serve(command, socket)
}

/// Creates a volume in nbdkit's memory, or returns `None` if nbdkit is not installed.
fn on_nbdkit(arguments: &[&str], wait: Span) -> Option<(Directory, Program, BackendBench)> {
    let directory = is_there("nbdkit").then(Directory::new)?;
    let (socket, program) = nbdkit(&directory, arguments);
    let (volume, settings) = settings(&socket, "", wait);
    let bench = bench(&volume, &settings);
    Some((directory, program, bench))
}

/// Creates an image of zeroes.
fn blank(image: &Path) {
    let file = std::fs::File::create(image).unwrap();
    file.set_len(SIZE).unwrap();
}

/// Waits until an unreachable server is reachable again.
fn wait_until_back(bench: &mut BackendBench) {
    while bench.backend.remote().unwrap().away {
        bench.turn(Duration::from_millis(100));
    }
}

fn serve(mut command: Command, socket: PathBuf) -> (PathBuf, Program) {
    let child = command.stdin(Stdio::null()).spawn().unwrap();
    let program = Program(child);
    for _ in 0..1000 {
        if UnixStream::connect(&socket).is_ok() {
            return (socket, program);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{command:?} does not listen");
}

/// Compares random jobs, of short and long ranges, with a model.
fn random_jobs(bench: &mut BackendBench, seed: u64, jobs: u64, zero_trims: bool) {
    let mut rng = Rng::new(seed);
    let mut model = vec![0_u8; SIZE as usize];
    for _ in 0..jobs {
        let most = [600, 9000, 300_000, 1 << 20][rng.below(4) as usize];
        let length = 1 + rng.below(most);
        let offset = rng.below(SIZE - length);
        let range = offset as usize..(offset + length) as usize;
        let length = length as u32;
        match rng.below(8) {
            0..=2 => {
                let byte = rng.below(256) as u8;
                let bytes = vec![byte; length as usize];
                let fua = [Flags::NONE, Flags::FUA][rng.below(2) as usize];
                assert_eq!(bench.write(offset, &bytes, fua), Ok(()));
                model[range].fill(byte);
            }
            3 => {
                assert_eq!(
                    bench.plain(Op::WriteZeroes, Flags::NONE, offset, length),
                    Ok(())
                );
                model[range].fill(0);
            }
            4 if zero_trims => {
                assert_eq!(
                    bench.plain(Op::Discard, Flags::NONE, offset, length),
                    Ok(())
                );
                // A discarded range may read as zeroes or as before, in each byte.
                let found = bench.read(offset, length).unwrap();
                let same = found.iter().zip(&model[range.clone()]);
                assert!(same.clone().all(|(found, had)| *found == 0 || found == had));
                model[range].copy_from_slice(&found);
            }
            5 => assert_eq!(bench.flush(), Ok(())),
            6 => {
                let extents = bench.extents(Flags::NONE, offset, length);
                let mut at = offset as usize;
                for (bytes, data) in extents {
                    let bytes = bytes as usize;
                    assert!(data || model[at..at + bytes].iter().all(|b| *b == 0));
                    at += bytes;
                }
                assert!(at <= (offset + u64::from(length)) as usize && at > offset as usize);
            }
            _ => assert!(bench.read(offset, length).unwrap() == model[range]),
        }
    }
    assert!(bench.read(0, SIZE as u32).unwrap() == model);
}

#[test]
fn writes_to_nbdkit_are_read_back() {
    if !is_there("nbdkit") {
        return;
    }
    let directory = Directory::new();
    for arguments in [
        &["memory", "4M"][..],
        // Block sizes, a server without WRITE_ZEROES, one without extents and with a single
        // connection, and one without structured replies.
        &[
            "--filter=blocksize-policy",
            "memory",
            "4M",
            "blocksize-minimum=1024",
            "blocksize-maximum=64K",
            "blocksize-error-policy=error",
        ],
        &["--filter=nozero", "memory", "4M"],
        &[
            "--filter=noextents",
            "--filter=multi-conn",
            "memory",
            "4M",
            "multi-conn-mode=disable",
        ],
        &["--no-sr", "memory", "4M"],
    ] {
        let (socket, program) = nbdkit(&directory, arguments);
        let (volume, settings) = settings(&socket, "", Span::from_secs(5));
        assert_eq!(inspect(&volume, &settings).unwrap().size, SIZE);
        let mut bench = bench(&volume, &settings);
        assert_eq!(bench.size, SIZE);
        random_jobs(&mut bench, 1, 200, true);
        let fast = bench.plain(Op::WriteZeroes, Flags::FAST_ZERO, 0, 4096);
        assert!(matches!(fast, Ok(()) | Err(ENOTSUP)), "{fast:?}");
        drop((bench, program));
    }
}

#[test]
fn errors_and_delays_of_the_server_reach_the_client() {
    let error = [
        "--filter=error",
        "memory",
        "4M",
        "error-pread=EIO",
        "error-pread-rate=100%",
    ];
    let Some((_directory, _program, mut failing)) = on_nbdkit(&error, Span::from_secs(5)) else {
        return;
    };
    assert_eq!(failing.write(0, &[1; 512], Flags::NONE), Ok(()));
    assert_eq!(failing.read(0, 512), Err(EIO));
    // nbdkit's minimum block size is one byte, so that no block must be read before this write.
    assert_eq!(failing.write(3, &[1; 5], Flags::NONE), Ok(()));
    let delay = [
        "--filter=delay",
        "memory",
        "4M",
        "rdelay=50ms",
        "wdelay=20ms",
    ];
    let (_directory, _program, mut slow) = on_nbdkit(&delay, Span::from_secs(5)).unwrap();
    random_jobs(&mut slow, 2, 12, true);
}

/// nbdkit's memory is lost with the process, even if it was flushed. The test therefore uses a file
/// behind a cache that loses unflushed data.
#[test]
fn completed_writes_survive_repeated_kills_of_the_server() {
    if !is_there("nbdkit") {
        return;
    }
    let directory = Directory::new();
    let image = directory.0.join("image");
    blank(&image);
    let file = format!("file={}", image.display());
    let arguments = ["--filter=cache", "file", &file, "cache=writeback"];
    let (socket, program) = nbdkit(&directory, &arguments);
    let mut program = Some(program);
    let (volume, settings) = settings(&socket, "", Span::from_secs(60));
    let mut bench = bench(&volume, &settings);
    let mut rng = Rng::new(3);
    let mut model = vec![0_u8; SIZE as usize];
    for round in 0..60 {
        let length = 1 + rng.below(100_000);
        let offset = rng.below(SIZE - length);
        let bytes = vec![round as u8 + 1; length as usize];
        let data = bench.source(&bytes, |left| left).unwrap();
        let tag = bench.submit(Op::Write, Flags::NONE, offset, length as u32, data);
        if rng.one_in(4) {
            // The clock advances, so that the session has lasted and the server is dialled at once.
            bench.pass(Duration::from_mins(1));
            drop(program.take());
            program = Some(nbdkit(&directory, &arguments).1);
        }
        assert_eq!(bench.wait(tag).0, Ok(()));
        model[offset as usize..(offset + length) as usize].copy_from_slice(&bytes);
        if rng.one_in(10) {
            assert_eq!(bench.flush(), Ok(()));
        }
    }
    assert!(bench.read(0, SIZE as u32).unwrap() == model);
    let state = bench.backend.remote().unwrap();
    assert!(state.losses > 3 && state.replayed_bytes > 0, "{state:?}");
    assert_eq!(bench.flush(), Ok(()));
    drop(bench);
    drop(program);
    assert!(
        std::fs::read(&image).unwrap() == model,
        "what was flushed is in the file"
    );
}

#[test]
fn requests_wait_for_a_server_that_is_away_and_then_fail_until_it_is_back() {
    let wait = Span::from_millis(300);
    let Some((directory, program, mut bench)) = on_nbdkit(&["memory", "4M"], wait) else {
        return;
    };
    assert_eq!(bench.write(0, &[7; 8192], Flags::NONE), Ok(()));
    drop(program);
    let begun = std::time::Instant::now();
    assert_eq!(bench.read(0, 512), Err(ENOTCONN));
    assert!(begun.elapsed() >= Duration::from_millis(300), "it waited");
    assert_eq!(bench.flush(), Err(ENOTCONN), "at once, now");
    assert!(bench.backend.remote().unwrap().away);
    // The new server's memory is empty. The kept data are replayed to it, and flushes succeed
    // again.
    let (_, _program) = nbdkit(&directory, &["memory", "4M"]);
    wait_until_back(&mut bench);
    assert_eq!(bench.flush(), Ok(()));
    assert_eq!(bench.read(0, 8192), Ok(vec![7; 8192]));
}

#[test]
fn a_server_that_returns_with_other_properties_is_refused() {
    let wait = Span::from_millis(500);
    let Some((directory, program, mut bench)) = on_nbdkit(&["memory", "4M"], wait) else {
        return;
    };
    assert_eq!(bench.write(0, &[7; 512], Flags::NONE), Ok(()));
    drop(program);
    // Another size, read-only, and a larger minimum block size.
    for other in [
        &["memory", "8M"][..],
        &["-r", "memory", "4M"],
        &[
            "--filter=blocksize-policy",
            "memory",
            "4M",
            "blocksize-minimum=512",
        ],
    ] {
        let (_, program) = nbdkit(&directory, other);
        assert_eq!(bench.read(0, 512), Err(ENOTCONN), "{other:?}");
        drop(program);
    }
    let (_, _program) = nbdkit(&directory, &["memory", "4M"]);
    wait_until_back(&mut bench);
    assert_eq!(bench.read(0, 512), Ok(vec![7; 512]));
}

#[test]
fn unsuitable_exports_are_refused_with_a_reason() {
    let directory = Directory::new();
    let (volume, of) = settings(&directory.0.join("none"), "", Span::ZERO);
    let said = refused(&volume, &of);
    assert!(
        said.contains("cannot connect to unix:") && said.contains("No such file"),
        "{said}"
    );
    if !is_there("nbdkit") {
        return;
    }
    for (arguments, words) in [
        (
            &["-r", "memory", "4M"][..],
            "is read-only: set read_only = true",
        ),
        (&["memory", "1000"], "not a multiple of its block size (512"),
        (
            &[
                "--filter=blocksize-policy",
                "memory",
                "4M",
                "blocksize-minimum=64K",
                "blocksize-preferred=64K",
                "blocksize-maximum=1M",
            ],
            "at least 65536 bytes",
        ),
        (
            &["--tls=require", "--tls-psk=/dev/null", "memory", "4M"],
            "TLS",
        ),
    ] {
        let (socket, _program) = nbdkit(&directory, arguments);
        let (volume, settings) = settings(&socket, "", Span::ZERO);
        let said = refused(&volume, &settings);
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    let (socket, _program) = nbdkit(&directory, &["memory", "4M"]);
    let (mut volume, of) = settings(&socket, "", Span::ZERO);
    volume.size = Some(8 << 20);
    assert!(refused(&volume, &of).contains("`size` is 8MiB"));
}

#[test]
fn export_names_with_special_characters_reach_qemu() {
    if !is_there("qemu-storage-daemon") {
        return;
    }
    let directory = Directory::new();
    let socket = directory.0.join("qsd.sock");
    let image = directory.0.join("image");
    blank(&image);
    let mut command = Command::new("qemu-storage-daemon");
    let file = format!(
        "driver=file,node-name=d,filename={},discard=unmap",
        image.display()
    );
    command.args(["--blockdev", &file, "--nbd-server"]);
    command.arg(format!("addr.type=unix,addr.path={}", socket.display()));
    command.args([
        "--export",
        "type=nbd,id=e,node-name=d,name=a b/%?ü,writable=on",
    ]);
    let (socket, _program) = serve(command, socket);
    let (volume, of) = settings(&socket, "a%20b/%25%3F%c3%bc", Span::from_secs(5));
    let mut bench = bench(&volume, &of);
    random_jobs(&mut bench, 4, 200, true);
    let (volume, of) = settings(&socket, "other", Span::ZERO);
    let said = refused(&volume, &of);
    assert!(said.contains("refused export \"other\""), "{said}");
}

/// The single export of a server that the test implements.
struct TestExport(TransmissionFlags);

impl Exports for TestExport {
    fn list(&self, _: &mut dyn FnMut(&str, &str)) {}

    fn find(&self, _: &str) -> Option<ExportInfo> {
        Some(ExportInfo {
            name: String::new(),
            description: String::new(),
            key: 0,
            size: SIZE,
            flags: self.0,
            block_sizes: BlockSizes::DEFAULT,
            allocation: true,
        })
    }
}

const USUAL: TransmissionFlags = TransmissionFlags::SEND_FLUSH.with(TransmissionFlags::SEND_FUA);

/// Accepts one connection, and conducts its handshake until it has completed or the client
/// disconnects.
fn accept(listener: &UnixListener, flags: TransmissionFlags) -> UnixStream {
    let (mut socket, _) = listener.accept().unwrap();
    let mut handshake = Handshake::new(HandshakeConfig::default());
    let (mut out, mut byte, mut ended) = (Vec::new(), [0], false);
    handshake.greet(&mut out);
    loop {
        socket.write_all(&out).unwrap();
        out.clear();
        if ended || socket.read(&mut byte).unwrap_or(0) == 0 {
            return socket;
        }
        let (_, outcome) = handshake.feed(&byte, &TestExport(flags), &mut out).unwrap();
        ended = matches!(outcome, Some(HandshakeOutcome::Transmission(_)));
    }
}

/// Accepts one connection, and returns it with the cookie of the first request.
fn first_request(listener: &UnixListener) -> (UnixStream, u64) {
    let mut socket = accept(listener, USUAL);
    let mut header = [0; REQUEST_LEN];
    socket.read_exact(&mut header).unwrap();
    let request = nbd::parse_request(&header).unwrap().unwrap();
    (socket, request.cookie)
}

/// A function that returns the reply to a read with this cookie.
type Lie = Box<dyn Fn(u64) -> Vec<u8> + Send>;

/// Creates a volume on a server that answers the first read of its first connections with `lies`,
/// one for each connection, and that of the next connection truthfully.
fn liar(lies: Vec<Lie>, wait: Span) -> (Directory, BackendBench, JoinHandle<()>) {
    let directory = Directory::new();
    let socket = directory.0.join("liar.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let thread = std::thread::spawn(move || {
        for lie in lies {
            let (mut socket, cookie) = first_request(&listener);
            socket.write_all(&lie(cookie)).unwrap();
        }
        let (mut socket, cookie) = first_request(&listener);
        socket.write_all(&data(cookie, 0, &[9; 512], true)).unwrap();
        // Wait until the client disconnects.
        let _ = socket.read_to_end(&mut Vec::new());
    });
    let (volume, settings) = settings(&socket, "", wait);
    (directory, bench(&volume, &settings), thread)
}

fn data(cookie: u64, offset: u64, bytes: &[u8], done: bool) -> Vec<u8> {
    let head = nbd::encode_data_header(cookie, offset, bytes.len() as u32, done);
    [&head[..], bytes].concat()
}

#[test]
fn an_invalid_reply_ends_the_session_and_requests_repeat() {
    let simple = |cookie| nbd::encode_simple_reply(cookie, None).to_vec();
    let lies: Vec<Lie> = vec![
        // An end of file, an invalid head, a cookie of another request and of another session, too
        // few bytes, too many, an overflow of the offset, a truncated reply, overlapping chunks, a
        // simple reply, and extents.
        Box::new(|_| Vec::new()),
        Box::new(|_| b"nonsense, and as much as a head takes".to_vec()),
        Box::new(|cookie| data(cookie + 1, 0, &[1; 512], true)),
        Box::new(|cookie| data(cookie ^ 1 << 40, 0, &[1; 512], true)),
        Box::new(|cookie| data(cookie, 0, &[1; 256], true)),
        Box::new(|cookie| data(cookie, 0, &[1; 1024], true)),
        Box::new(|cookie| data(cookie, u64::MAX - 100, &[1; 512], true)),
        Box::new(|cookie| data(cookie, 0, &[1; 512], true)[..100].to_vec()),
        Box::new(|cookie| {
            [
                data(cookie, 0, &[1; 256], false),
                data(cookie, 128, &[1; 256], true),
            ]
            .concat()
        }),
        Box::new(simple),
        Box::new(|cookie| {
            let mut out = Vec::new();
            let extent = nbd::Extent {
                length: 512,
                flags: nbd::ExtentFlags::EMPTY,
            };
            nbd::append_block_status(&mut out, cookie, nbd::BASE_ALLOCATION_ID, &[extent], true);
            out
        }),
    ];
    for lie in lies {
        let (_directory, mut bench, thread) = liar(vec![lie], Span::from_secs(60));
        assert_eq!(bench.read(0, 512), Ok(vec![9; 512]));
        assert_eq!(bench.backend.remote().unwrap().losses, 1);
        drop(bench);
        thread.join().unwrap();
    }
}

/// Five sessions are broken, before or after a reply. The pauses after them are 0, 50, 100, 200 and
/// 400 ms, which are 750 ms together.
#[test]
fn a_server_that_breaks_every_session_is_dialled_at_growing_pauses() {
    let truth = |cookie| data(cookie, 0, &[1; 512], true);
    let lies: Vec<Lie> = vec![
        Box::new(|_| Vec::new()),
        Box::new(truth),
        Box::new(|_| Vec::new()),
        Box::new(truth),
        Box::new(truth),
    ];
    let (_directory, mut bench, thread) = liar(lies, Span::from_secs(60));
    let begun = std::time::Instant::now();
    while bench.read(0, 512) != Ok(vec![9; 512]) {}
    assert!(begun.elapsed() >= Duration::from_millis(750));
    assert_eq!(bench.backend.remote().unwrap().losses, 5);
    drop(bench);
    thread.join().unwrap();
}

/// A server that completes handshakes only does not extend the waiting time of requests.
#[test]
fn requests_fail_in_time_at_a_server_that_breaks_every_session() {
    let lies: Vec<Lie> = (0..20).map(|_| Box::new(|_| Vec::new()) as Lie).collect();
    let (_directory, mut bench, _thread) = liar(lies, Span::from_millis(300));
    assert_eq!(bench.read(0, 512), Err(ENOTCONN));
}

#[test]
fn a_server_that_says_nothing_is_given_up_in_time_and_one_without_a_flush_is_refused() {
    let directory = Directory::new();
    let socket = directory.0.join("silent.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    let (volume, of) = settings(&socket, "", Span::ZERO);
    let error = dial(&of, volume.read_only, Duration::from_millis(100)).unwrap_err();
    assert!(
        error.to_string().contains("did not respond in time"),
        "{error}"
    );

    let socket = directory.0.join("flushless.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let thread = std::thread::spawn(move || accept(&listener, TransmissionFlags::EMPTY));
    let (volume, of) = settings(&socket, "", Span::ZERO);
    assert!(refused(&volume, &of).contains("does not support flush"));
    thread.join().unwrap();
}

/// The test writes 48 MiB with a limit of 16 MiB for unflushed data, and does not flush.
#[test]
fn memory_for_unflushed_data_is_bounded() {
    if !is_there("nbdkit") {
        return;
    }
    let directory = Directory::new();
    let (socket, _program) = nbdkit(&directory, &["memory", "64M"]);
    let (volume, mut settings) = settings(&socket, "", Span::from_secs(5));
    settings.unflushed = 16 << 20;
    let mut bench = bench(&volume, &settings);
    let bytes = vec![5; 1 << 20];
    let mut tags = Vec::new();
    for at in 0..48 {
        let data = bench.source(&bytes, |left| left).unwrap();
        tags.push(bench.submit(Op::Write, Flags::NONE, at << 20, 1 << 20, data));
        assert!(bench.backend.remote().unwrap().kept_bytes <= 16 << 20);
    }
    for tag in tags {
        assert_eq!(bench.wait(tag).0, Ok(()));
        assert!(bench.backend.remote().unwrap().kept_bytes <= 16 << 20);
    }
    let tag = bench.submit(Op::Flush, Flags::NONE, 0, 0, Data::None);
    assert_eq!(bench.wait(tag).0, Ok(()));
    assert_eq!(bench.backend.remote().unwrap().kept_bytes, 0);
}
