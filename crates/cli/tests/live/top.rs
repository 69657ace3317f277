//! `weir top` with a running server, printed once and on a terminal of its own.

use crate::common::running::{self, RunningServer};
use crate::common::{Scratch, has, records, run, signal, wait, weir};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

/// The sequence that restores the previous screen of the terminal.
const GIVEN_BACK: &str = "\u{1b}[?1049l";

fn serve(scratch: &Scratch) -> RunningServer {
    let path = |name| scratch.at(name);
    let text = format!(
        "[drive.fast]\nmodel = \"demo\"\n[listen]\nnbd = [\"unix:{}\"]\n[manage]\nsocket = \"{}\"\n[volume.alpha]\ndrive = \"fast\"\nsize = \"64MiB\"\nmin = \"10MB/s\"\n",
        path("nbd.sock"),
        path("manage.sock")
    );
    scratch.file("weir.toml", &text);
    let server = running::serve(scratch);
    wait("it is managed", || {
        server.says("serving the management interface at ")
    });
    server
}

#[test]
fn a_second_is_printed_as_a_table_or_as_json() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let said = run(&scratch, "top --once --socket manage.sock").ended(0);
    assert!(said.out.starts_with("drive fast: 0% busy"), "{}", said.out);
    has(&said.out, "alpha  10.0MB/s");
    let said = run(&scratch, "top --once --json --socket manage.sock");
    let [status] = records(&said.out).try_into().expect("one object");
    assert_eq!(
        status["volumes"][0]["contract"]["min_bytes_per_second"],
        10_000_000
    );
    server.end();
}

#[test]
fn top_prints_seconds_as_json_until_the_pipe_is_closed() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let mut command = weir(&scratch, "top --json");
    command.env("WEIR_SOCKET", scratch.path("manage.sock"));
    let mut top = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = top.stdout.take().unwrap();
    let mut text = String::new();
    let mut bytes = [0; 4096];
    // Three lines show that output continues. The reader then closes its end of the pipe.
    while text.lines().count() < 3 {
        let read = out.read(&mut bytes).unwrap();
        text += std::str::from_utf8(&bytes[..read]).unwrap();
    }
    drop(out);
    assert_eq!(top.wait().unwrap().code(), Some(0));
    let (whole, _) = text.rsplit_once('\n').unwrap();
    for second in records(whole) {
        assert_eq!(second["drives"][0]["name"], "fast");
        assert!(second["at_ms"].as_u64().unwrap() > 0);
    }
    server.end();
}

#[test]
fn a_missing_server_or_terminal_is_reported() {
    let scratch = Scratch::new();
    let said = run(&scratch, "top --once --socket none.sock").ended(1);
    has(
        &said.err,
        "none.sock: No such file or directory; start the server",
    );
    let server = serve(&scratch);
    let said = run(&scratch, "top --socket manage.sock").ended(2);
    // Standard output is a pipe here and not a terminal.
    has(&said.err, "--once or --json");
    server.end();
}

/// `weir top` on a terminal that `script` creates.
struct Terminal {
    script: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<String>>,
    reader: std::thread::JoinHandle<()>,
}

impl Terminal {
    fn start(scratch: &Scratch) -> Self {
        let mut command = Command::new("script");
        let top = format!(
            // The shell replaces itself by `weir top`, so that the noted process id is that of
            // `weir top`.
            "stty rows 24 cols 80; echo $$ > pid; exec {} top --socket manage.sock",
            env!("CARGO_BIN_EXE_weir")
        );
        command
            .args([
                "--quiet",
                "--return",
                "--flush",
                "--command",
                &top,
                "/dev/null",
            ])
            .current_dir(scratch.path(""))
            .env("TERM", "xterm")
            // Colours are switched off, so that the shown text has fewer escape sequences.
            .env("NO_COLOR", "1")
            .env("SHELL", "/bin/sh");
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script = piped.spawn().expect("every Debian has script(1)");
        let shown = Arc::<Mutex<String>>::default();
        let (mut out, kept) = (script.stdout.take().unwrap(), Arc::clone(&shown));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = out.read(&mut bytes) {
                *kept.lock().unwrap() += &String::from_utf8_lossy(&bytes[..read]);
            }
        });
        Self {
            keys: script.stdin.take().unwrap(),
            script,
            shown,
            reader,
        }
    }

    fn shows(&self, text: &str) -> bool {
        self.shown.lock().unwrap().contains(text)
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits for the end, and returns the status with everything that was shown.
    fn end(mut self) -> (Option<i32>, String) {
        let status = self.script.wait().unwrap().code();
        self.reader.join().unwrap();
        let shown = self.shown.lock().unwrap().clone();
        (status, shown)
    }
}

#[test]
fn the_terminal_is_restored_after_the_quit_key() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let mut terminal = Terminal::start(&scratch);
    wait("a volume is shown", || terminal.shows("alpha"));
    terminal.press("?");
    // Only cells that differ are sent, so the test looks for single words.
    wait("keys are explained", || terminal.shows("another"));
    terminal.press(" /al\rq");
    let (status, shown) = terminal.end();
    assert_eq!(status, Some(0));
    assert!(shown.contains(GIVEN_BACK), "{shown:?}");
    // This sequence would set a colour.
    assert!(!shown.contains("\u{1b}[38;"), "NO_COLOR: {shown:?}");
    server.end();
}

#[test]
fn the_terminal_is_restored_after_a_signal() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let terminal = Terminal::start(&scratch);
    wait("a volume is shown", || terminal.shows("alpha"));
    let pid = scratch.read("pid");
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap());
    rustix::process::kill_process(pid.unwrap(), Signal::TERM).unwrap();
    let (status, shown) = terminal.end();
    // 128 + SIGTERM (15).
    assert_eq!(status, Some(128 + 15), "{shown:?}");
    assert!(shown.contains(GIVEN_BACK), "{shown:?}");
    server.end();
}

#[test]
fn top_reports_the_end_and_the_return_of_a_server() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let mut terminal = Terminal::start(&scratch);
    wait("a volume is shown", || terminal.shows("alpha"));
    signal(&server.child, Signal::TERM);
    wait("it is said", || terminal.shows("NOT CONNECTED"));
    server.end();
    // Only output after this point can come from the new server.
    let before = terminal.shown.lock().unwrap().len();
    let server = serve(&scratch);
    wait("it is found", || {
        terminal.shown.lock().unwrap()[before..].contains("weir 0.")
    });
    terminal.press("q");
    assert_eq!(terminal.end().0, Some(0));
    server.end();
}
