//! Restarts of a server under clients that write, after a planned end and after `kill -9`.
//!
//! `cargo test -p weir --test live restart:: -- --nocapture` prints figures.

use crate::common;
use crate::common::program::skip;
use crate::common::running::{fleet, serve};
use crate::common::{Scratch, signal, words};
use rustix::process::Signal;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use weir_model::client::Address;
use weir_model::load::Program;

const PLANNED: usize = 10;
const KILLED: usize = 20;

/// Writes the configuration of a server with one volume in an image.
fn config(scratch: &Scratch, image: &Path, rest: &str) {
    let text = format!(
        "[drive.fast]\n[listen]\nnbd = [\"unix:{}\"]\n[volume.alpha]\ndrive = \"fast\"\nfile = \"{}\"\nsize = \"64MiB\"\n{rest}",
        scratch.path("nbd.sock").display(),
        image.display()
    );
    scratch.file("weir.toml", &text);
}

#[test]
fn planned_restarts_are_no_errors_for_a_client_that_reconnects() {
    if Command::new("qemu-img").arg("--version").output().is_err() {
        skip("qemu-img is not installed");
        return;
    }
    let scratch = Scratch::new();
    // The max and the limit ensure that at every end there are requests in flight and requests that
    // the server has not read yet (QEMU sends 16 at once), and that the client is not done before
    // the last restart.
    let max = "cache = \"host\"\nmax = { iops = 500 }\n[limits]\nrequests_per_connection = 4\n";
    config(&scratch, &scratch.path("image"), max);
    let mut server = serve(&scratch);
    let image = format!(
        "driver=nbd,server.type=unix,server.path={},export=alpha,reconnect-delay=60",
        scratch.path("nbd.sock").display()
    );
    let mut client = Command::new("qemu-img");
    client
        // 2,000 writes at 500 per second take 4 s.
        .args(words("bench -w -c 2000 -d 64 -s 4096 --image-opts"))
        .arg(&image);
    let piped = client.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = piped.spawn().unwrap();
    let begun = Instant::now();
    for _ in 0..PLANNED {
        common::wait("the client comes", || {
            server.says(" connected ") || client.try_wait().unwrap().is_some()
        });
        thread::sleep(Duration::from_millis(50));
        assert!(
            client.try_wait().unwrap().is_none(),
            "it writes all the time"
        );
        server.end();
        server = serve(&scratch);
    }
    let said = client.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{text}");
    println!(
        "{PLANNED} planned restarts in {:.1} s under qemu-img bench -w: no error",
        begun.elapsed().as_secs_f64()
    );
    server.end();
}

/// Writes until the server is gone.
fn write(address: &Address) {
    let program = Program {
        writes: 100,
        ..Program::random_reads(256 << 10, 32)
    };
    // The server is killed while the client writes.
    let _ = fleet(address, &[("alpha", program)], Duration::from_mins(1)).run(|_| {});
}

#[test]
fn a_start_right_after_a_kill_under_writes_succeeds_at_the_first_try() {
    let scratch = Scratch::new();
    let image = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let image = image.join(format!("killed-{}.img", std::process::id()));
    config(&scratch, &image, "");
    let mut longest = Duration::ZERO;
    for _ in 0..KILLED {
        let begun = Instant::now();
        // If the server does not start, this fails with the server's message.
        let mut server = serve(&scratch);
        longest = longest.max(begun.elapsed());
        thread::scope(|scope| {
            scope.spawn(|| write(&server.address));
            common::wait("the writer comes", || server.says(" connected "));
            thread::sleep(Duration::from_millis(50));
            signal(&server.child, Signal::KILL);
        });
        server.child.wait().unwrap();
        server.reader.join().unwrap();
    }
    println!(
        "{KILLED} starts right after kill -9: all at the first try, {longest:.1?} at the most"
    );
    std::fs::remove_file(image).unwrap();
}
