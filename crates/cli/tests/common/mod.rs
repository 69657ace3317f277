//! Helpers of all tests: the command, a scratch directory, and golden texts.

#![allow(dead_code, reason = "each test file uses its part")]

#[path = "../../../serve/tests/tools/program.rs"]
pub(crate) mod program;
pub(crate) mod running;

use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Returns every file below a directory whose name has this extension.
pub(crate) fn files_below(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("it is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            found.append(&mut files_below(&path, extension));
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found
}

/// A directory that is removed at the end of the test.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        // Tests run in parallel in one process, so the process id alone is not unique.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("there is room for a directory");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the path of a file as text.
    pub(crate) fn at(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Returns the content of a file.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect(name)
    }

    /// Writes a text to a file, and returns the path of the file.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        self.bytes(name, text.as_bytes())
    }

    /// Writes bytes to a file, and returns the path of the file.
    pub(crate) fn bytes(&self, name: &str, text: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("there is room for a file");
        path
    }

    /// Returns the names of the entries of the directory, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("it is there");
        let names = entries.map(|e| e.expect("it can be read").file_name());
        let mut names: Vec<String> = names.map(|n| n.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the path of a program of the workspace, which is in the directory of `WEIR_PROGRAM`, or
/// otherwise in that of the build.
pub(crate) fn program_of(name: &str) -> PathBuf {
    let weir =
        std::env::var_os("WEIR_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_weir").into());
    let program = PathBuf::from(weir).with_file_name(name);
    assert!(
        program.exists(),
        "{} does not exist; cargo build --workspace makes it",
        program.display()
    );
    program
}

/// Splits a command line into words. Words in single quotes are kept together.
pub(crate) fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        // Parts with an odd index are between quotes.
        match at % 2 {
            0 => words.extend(part.split_whitespace()),
            _ => words.push(part),
        }
    }
    words
}

/// Returns the command with the arguments of a line. It runs in `scratch`, in an environment that
/// does not depend on the user who runs the test.
pub(crate) fn weir(scratch: &Scratch, line: &str) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_weir"));
    in_scratch(scratch, program, &words(line))
}

/// Returns a command that runs a program of the workspace in the same environment as [`weir`].
pub(crate) fn in_scratch(scratch: &Scratch, program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(&scratch.0)
        // The width of tables and help must not depend on the terminal.
        .env("COLUMNS", "100")
        .env("TMPDIR", &scratch.0)
        .env_remove("WEIR_LOG")
        // A service manager of the user who runs the tests must not receive messages.
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::null());
    command
}

/// Returns a shell in `directory` whose `PATH` has `weir`, and whose terminal has no particular
/// width.
pub(crate) fn shell(directory: &Path, script: &str) -> Command {
    let binary = Path::new(env!("CARGO_BIN_EXE_weir"));
    let mut folders = vec![binary.parent().expect("it is in a folder").to_owned()];
    folders.extend(std::env::split_paths(
        &std::env::var_os("PATH").expect("there is a PATH"),
    ));
    let mut command = Command::new("bash");
    command
        .args(["-c", script])
        .current_dir(directory)
        .env(
            "PATH",
            std::env::join_paths(folders).expect("names of folders"),
        )
        .env_remove("COLUMNS")
        .env_remove("WEIR_LOG")
        .env_remove("WEIR_SOCKET")
        .env_remove("WEIR_SERVER")
        .env_remove("WEIR_CERTIFICATES")
        .env_remove("NOTIFY_SOCKET");
    command
}

/// Returns true if a program is installed and works with these arguments. Otherwise, the test that
/// needs it is [skipped](program::skip).
pub(crate) fn works(name: &str, arguments: &[&str]) -> bool {
    let output = Command::new(name).args(arguments).output();
    let works = output.is_ok_and(|output| output.status.success());
    if !works {
        program::skip(&format!(
            "{name} {} does not work here",
            arguments.join(" ")
        ));
    }
    works
}

/// Returns a port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    free.local_addr().expect("it is bound").port()
}

/// Returns the body of the HTTP response for a path, or `None` if no server responds with 200.
pub(crate) fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    // With HTTP/1.0, the server closes the connection after the response.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.to_owned())
}

/// The output of a command, with its exit status.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    /// The arguments of the command.
    line: String,
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutput {
    /// Checks that the command ended with this status.
    #[track_caller]
    pub(crate) fn ended(self, status: i32) -> Self {
        assert_eq!(self.status, Some(status), "{self:#?}");
        self
    }
}

/// Checks that a text contains a part.
#[track_caller]
pub(crate) fn has(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in\n{text}");
}

/// Runs the command with the arguments of a line until it ends.
pub(crate) fn run(scratch: &Scratch, line: &str) -> CommandOutput {
    run_with(scratch, &words(line))
}

/// Runs the command with these arguments until it ends.
pub(crate) fn run_with(scratch: &Scratch, arguments: &[&str]) -> CommandOutput {
    let output = in_scratch(scratch, Path::new(env!("CARGO_BIN_EXE_weir")), arguments).output();
    let output = output.expect("the command can be started");
    CommandOutput {
        line: arguments.join(" "),
        status: output.status.code(),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Compares the output of commands, one per line, with the file `tests/golden/NAME.txt`. With
/// `WEIR_BLESS=1` in the environment, it writes the file instead. The path of the scratch directory
/// is replaced by `DIR`.
pub(crate) fn golden(name: &str, scratch: &Scratch, commands: &str) {
    let mut text = String::new();
    for line in commands.lines() {
        let said = run(scratch, line);
        let end = said.status.unwrap_or(-1);
        text.extend(["$ weir ", &said.line, "\n"]);
        text += &said.out;
        for line in said.err.lines() {
            text += format!("! {line}").trim_end();
            text += "\n";
        }
        // Lines of standard error begin with "!", and the exit status with "=".
        text.extend(["= ", &end.to_string(), "\n\n"]);
    }
    golden_text(name, &text.replace(&scratch.0.display().to_string(), "DIR"));
}

/// Compares a text with the file `tests/golden/NAME.txt`, or writes it there like [`golden`].
pub(crate) fn golden_text(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var_os("WEIR_BLESS").is_some_and(|v| v == "1") {
        fs::write(&path, actual).expect("the golden file can be written");
        return;
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        wanted == actual,
        "{name} differs; if that is meant: WEIR_BLESS=1 cargo test -p weir\n--- golden\n{wanted}\n--- actual\n{actual}"
    );
}

/// Returns the part of the document `docs/NAME` from `begin` up to the next `end`. Prose is written
/// only in the document itself, so the generated parts are put around it.
pub(crate) fn prose(name: &str, begin: &str, end: &str) -> String {
    let page = fs::read_to_string(root().join("docs").join(name)).expect("a document");
    let (at, _) = page.split_once(begin).expect(begin);
    let said = &page[at.len()..];
    said[..said.find(end).expect(end)].to_owned()
}

/// Returns the directory of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a text with the document `docs/NAME`. With `WEIR_BLESS=1` in the environment, it writes
/// the document first. `test` is the module of tests that generates it.
pub(crate) fn document(name: &str, test: &str, text: &str) {
    let path = root().join("docs").join(name);
    if std::env::var_os("WEIR_BLESS").is_some() {
        fs::write(&path, text).expect("writable");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "docs/{name} is not what it is made from; WEIR_BLESS=1 cargo test -p weir --test it {test}:: writes it again"
    );
}

/// Parses lines of JSON, each of which is an object.
pub(crate) fn records(text: &str) -> Vec<Value> {
    let read = |line| serde_json::from_str(line).expect("an object a line");
    text.lines().map(read).collect()
}

/// Returns the first record whose keys have these values.
#[track_caller]
pub(crate) fn record_of<'a>(records: &'a [Value], values: &[(&str, &str)]) -> &'a Value {
    let is = |r: &&Value| values.iter().all(|(key, value)| r[key] == *value);
    let found = records.iter().find(is);
    found.unwrap_or_else(|| panic!("no record of {values:?}"))
}

/// Waits until `done` returns true. Fails after one minute, which is enough on any machine.
pub(crate) fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_mins(1), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal to a child process.
pub(crate) fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).expect("it is our child");
}
