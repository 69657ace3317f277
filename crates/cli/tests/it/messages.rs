//! The exact messages for errors in configurations, in commands and on machines.

use crate::common;
use crate::common::running::{fleet, open, serve};
use crate::common::{Scratch, golden_text, run, weir};
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::time::Duration;
use weir_model::load::Program;

/// A configuration without errors, which the cases change.
const GOOD: &str = r#"[drive.fast]
capacity = { read = "160MB/s", write = "120MB/s", iops = 10000 }

[drive.plain]

[listen]
nbd = ["unix:DIR/nbd.sock"]

[tenant.acme]
drive = "fast"
min = "30MB/s"

[volume.alpha]
drive = "fast"
memory = true
size = "1GiB"
tenant = "acme"
min = "20MB/s"

[volume.beta]
drive = "fast"
memory = true
size = "1GiB"
min = "10MB/s"

[volume.gamma]
drive = "plain"
memory = true
size = "1GiB"
"#;

/// The keys of the last volume in the file.
const GAMMA: &str = "drive = \"plain\"\nmemory = true\nsize = \"1GiB\"\n";
const BETA: &str = "size = \"1GiB\"\nmin = \"10MB/s\"";
const CAPACITY: &str = "capacity = { read = \"160MB/s\", write = \"120MB/s\", iops = 10000 }";
const NBD: &str = "nbd = [\"unix:DIR/nbd.sock\"]";

/// Errors in a configuration: the name of the case, the replaced part of the good file, and the
/// replacement. The golden files of `weir-config` cover all other refusals of a file.
const CONFIGURATIONS: &[(&str, &str, &str)] = &[
    ("an unknown key", "min = \"10MB/s\"", "mni = \"10MB/s\""),
    ("an unknown table", "[volume.gamma]", "[volumes.gamma]"),
    (
        "a rate where a table is wanted",
        "min = \"10MB/s\"",
        "max = 50",
    ),
    ("a number without a unit", BETA, "size = 1073741824"),
    ("a size that is out of range", BETA, "size = \"8192PiB\""),
    ("more memory than there is", BETA, "size = \"4096PiB\""),
    (
        "more promised than the drive can do",
        "min = \"10MB/s\"",
        "min = \"100MB/s\"",
    ),
    (
        "a promise on a drive of unknown capacity",
        GAMMA,
        "drive = \"plain\"\nmemory = true\nsize = \"1GiB\"\nmin = \"1MB/s\"\n",
    ),
    (
        "requests promised where only bytes are stated",
        "[drive.plain]\n\n[listen]",
        "[drive.plain]\ncapacity = { read = \"160MB/s\", write = \"120MB/s\" }\n\n[volume.delta]\ndrive = \"plain\"\nmemory = true\nsize = \"1GiB\"\nmin_iops = 100\n\n[listen]",
    ),
    (
        "one file for two volumes",
        GAMMA,
        "drive = \"plain\"\nfile = \"DIR/a.img\"\nsize = \"1GiB\"\n[volume.delta]\ndrive = \"plain\"\nfile = \"DIR/a.img\"\n",
    ),
    (
        "an unknown policy",
        "[drive.plain]",
        "[drive.plain]\npolicy = \"noop\"",
    ),
    (
        "more than the model can do",
        CAPACITY,
        "model = \"hitachi-hts72755\"\ncapacity = { read = \"1GB/s\", write = \"100MB/s\" }",
    ),
    (
        "a key twice",
        "min = \"10MB/s\"",
        "min = \"10MB/s\"\nmin = \"20MB/s\"",
    ),
    ("a table twice", "[volume.gamma]", "[volume.beta]"),
    (
        "a string without its end",
        "min = \"10MB/s\"",
        "min = \"10MB/s",
    ),
    ("no listen", "[listen]\nnbd = [\"unix:DIR/nbd.sock\"]\n", ""),
    (
        "a name with a line break",
        "[volume.gamma]",
        "[volume.\"gam\\nma\"]",
    ),
    // The following errors depend on this machine.
    (
        "a socket without its directory",
        NBD,
        "nbd = [\"unix:DIR/none/nbd.sock\"]",
    ),
    (
        "a socket in a file",
        NBD,
        "nbd = [\"unix:DIR/text/nbd.sock\"]",
    ),
    (
        "a socket in the place of a file",
        NBD,
        "nbd = [\"unix:DIR/text\"]",
    ),
    (
        "a socket that another program has",
        NBD,
        "nbd = [\"unix:DIR/taken.sock\"]",
    ),
    (
        "a port that another program has",
        NBD,
        "nbd = [\"127.0.0.1:PORT\"]",
    ),
    (
        "a port for metrics that another program has",
        NBD,
        "nbd = [\"unix:DIR/nbd.sock\"]\nmetrics = \"127.0.0.1:PORT\"",
    ),
    (
        "an address of another machine",
        NBD,
        "nbd = [\"192.0.2.1:10809\"]\ninsecure = true",
    ),
    (
        "an unknown user",
        NBD,
        "nbd = [\"unix:DIR/nbd.sock\"]\nsocket_owner = \"no-such-user\"",
    ),
    (
        "an unknown group",
        NBD,
        "nbd = [\"unix:DIR/nbd.sock\"]\nsocket_owner = \":no-such-group\"",
    ),
    (
        "an image without its directory",
        GAMMA,
        "drive = \"plain\"\nfile = \"DIR/none/a.img\"\nsize = \"1GiB\"\n",
    ),
    (
        "an image that is not there",
        GAMMA,
        "drive = \"plain\"\nfile = \"DIR/a.img\"\n",
    ),
    (
        "an image to be read that is not there",
        GAMMA,
        "drive = \"plain\"\nfile = \"DIR/a.img\"\nsize = \"1GiB\"\nread_only = true\n",
    ),
    (
        "an image of another size",
        GAMMA,
        "drive = \"plain\"\nfile = \"DIR/text\"\nsize = \"1GiB\"\ncache = \"host\"\n",
    ),
    (
        "an image that is empty",
        GAMMA,
        "drive = \"plain\"\nfile = \"DIR/empty\"\ncache = \"host\"\n",
    ),
    (
        "an image that is a directory",
        GAMMA,
        "drive = \"plain\"\nfile = \"DIR\"\n",
    ),
    (
        "an image that is a pipe",
        GAMMA,
        "drive = \"plain\"\nfile = \"DIR/pipe\"\n",
    ),
    (
        "an image that another program has",
        GAMMA,
        "drive = \"plain\"\nfile = \"DIR/held.img\"\ncache = \"host\"\n",
    ),
    (
        "an image for which there is no room",
        "memory = true\nsize = \"1GiB\"\nmin = \"10MB/s\"",
        "file = \"DIR/a.img\"\nsize = \"4096PiB\"\nmin = \"10MB/s\"",
    ),
    (
        "a device that is a file",
        GAMMA,
        "drive = \"plain\"\ndevice = \"DIR/text\"\n",
    ),
    (
        "a device that is not there",
        GAMMA,
        "drive = \"plain\"\ndevice = \"/dev/no-such-device\"\n",
    ),
];

/// Commands that are refused, with files that are not of the expected kind.
const COMMANDS: &str = "\
check missing.toml
check empty
check binary
check .
check pipe
check /dev/zero
check endless
serve pipe
serve /dev/zero
serve --log off --record none/record weir.toml
replay missing
replay .
replay pipe
replay /dev/zero
replay text
compare latency --drive missing.toml
compare latency --drive ./pipe
compare latency --drive /dev/zero
drives floppy
drives hitachi
drives ./pipe
drives fit /dev/zero
demo --file pipe
demo --device pipe
demo --drive /dev/zero
";

/// The machine on which the commands run. Its port, socket and image are in use as long as this
/// value lives.
struct TestMachine {
    scratch: Scratch,
    port: TcpListener,
    // The socket and the image stay open until the machine is dropped.
    _socket: UnixListener,
    _image: Box<dyn weir_serve::backend::Prepare>,
}

impl TestMachine {
    fn new() -> Self {
        let scratch = Scratch::new();
        scratch.file("text", "this is text\n");
        scratch.file("empty", "");
        fs::write(scratch.path("binary"), [b'a', 0xff, 0]).unwrap();
        let endless = fs::File::create(scratch.path("endless")).unwrap();
        // A sparse file of 1 TiB, which a command must not read as a whole.
        endless.set_len(1 << 40).unwrap();
        let pipe = Command::new("mkfifo").arg(scratch.path("pipe")).status();
        assert!(pipe.unwrap().success());
        fs::write(scratch.path("held.img"), [0; 4096]).unwrap();
        let held = "drive.d = {}\nlisten.nbd = [\"127.0.0.1:0\"]\nvolume.v = { drive = \"d\", file = \"DIR/held.img\", cache = \"host\" }\n";
        let held = held.replace("DIR", &scratch.at(""));
        let held = weir_config::parse("", &held).unwrap();
        // An open image holds a lock.
        let image = weir_serve::backend::open(&held.volumes[0]).unwrap();
        Self {
            port: TcpListener::bind("127.0.0.1:0").unwrap(),
            _socket: UnixListener::bind(scratch.path("taken.sock")).unwrap(),
            _image: image,
            scratch,
        }
    }

    fn port(&self) -> String {
        self.port.local_addr().unwrap().port().to_string()
    }

    fn directory(&self) -> String {
        let path = self.scratch.at("");
        path.trim_end_matches('/').to_owned()
    }

    /// Returns the text of a file with the paths and the port of this machine.
    fn here(&self, text: &str) -> String {
        let text = text.replace("DIR", &self.directory());
        text.replace("PORT", &self.port())
    }

    /// Returns the messages of a command, without parts that differ between machines and runs.
    fn says(&self, line: &str) -> String {
        let said = run(&self.scratch, line);
        let mut text = String::new();
        // Notes about whether the disk rotates depend on this machine.
        let mut lines = said.err.lines();
        while let Some(line) = lines.next() {
            // The help follows on the next line.
            if line.contains(".rotational: ") {
                lines.next();
                continue;
            }
            let _ = writeln!(text, "! {line}");
        }
        let _ = writeln!(text, "= {}", said.status.unwrap_or(-1));
        let own = fs::read_to_string("/proc/self/comm").unwrap();
        let port = format!("127.0.0.1:{}", self.port());
        let text = text.replace(&self.directory(), "DIR");
        let text = text.replace(&port, "127.0.0.1:PORT");
        let text = text.replace(own.trim_end(), "PROGRAM");
        let text = masked(&text, "(pid ", ")", "PID");
        let text = masked(&text, "file system has ", " free", "SOME");
        masked(&text, "and the machine has ", ";", "LESS")
    }
}

/// Returns a text in which every part between two other texts is replaced.
fn masked(text: &str, before: &str, after: &str, by: &str) -> String {
    let mut parts = text.split(before);
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.find(after).map_or(part, |at| &part[at..]);
        masked.extend([before, by, rest]);
    }
    masked
}

#[test]
fn errors_are_reported_with_their_place_and_a_remedy() {
    let machine = TestMachine::new();
    machine.scratch.file("weir.toml", &machine.here(GOOD));
    let before = machine.scratch.names();
    let mut text = format!("The file that is changed below:\n\n{GOOD}\n");
    assert_eq!(machine.says("check weir.toml"), "= 0\n");
    for (number, (what, from, to)) in (1..).zip(CONFIGURATIONS) {
        assert!(GOOD.contains(from), "{what}: {from}");
        // The last occurrence is replaced if there are several.
        let at = GOOD.rfind(from).unwrap();
        let changed = [&GOOD[..at], to, &GOOD[at + from.len()..]].concat();
        machine.scratch.file("weir.toml", &machine.here(&changed));
        let _ = writeln!(text, "{number}. {what}");
        for line in to.lines() {
            let _ = writeln!(text, "| {line}");
        }
        let _ = writeln!(text, "{}", machine.says("check weir.toml"));
        assert_eq!(machine.scratch.names(), before, "{what}: nothing is made");
    }
    machine.scratch.file("weir.toml", &machine.here(GOOD));
    for (number, line) in (CONFIGURATIONS.len() + 1..).zip(COMMANDS.lines()) {
        let _ = writeln!(text, "{number}. weir {line}");
        let _ = writeln!(text, "{}", machine.says(line));
        assert_eq!(machine.scratch.names(), before, "{line}: nothing is left");
    }
    golden_text("messages", &text);
}

/// `serve` refuses everything about this machine that `check` refuses, with the same message.
#[test]
fn serve_and_check_refuse_with_the_same_message() {
    let machine = TestMachine::new();
    let before = machine.scratch.names().len() + 1;
    let first = CONFIGURATIONS
        .iter()
        .position(|c| c.0 == "a socket without its directory");
    for (what, from, to) in &CONFIGURATIONS[first.unwrap()..] {
        let at = GOOD.rfind(from).unwrap();
        let changed = [&GOOD[..at], to, &GOOD[at + from.len()..]].concat();
        machine.scratch.file("weir.toml", &machine.here(&changed));
        let checked = machine.says("check weir.toml");
        let served = machine.says("serve --log off weir.toml");
        let (checked, served) = (first_line(&checked), first_line(&served));
        // `check` lists problems, and `serve` ends with the first one as an error.
        let served = served.replacen("error: ", "", 1);
        // If there is no space left, `serve` shows the message of the kernel.
        if *what != "an image for which there is no room" {
            assert_eq!(served, checked, "{what}");
        }
        assert!(served.starts_with("! weir.toml:"), "{what}: {served}");
        assert_eq!(
            machine.scratch.names().len(),
            before,
            "{what}: nothing is left"
        );
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Resources of a running server are no errors in the file that it would reload. For another file,
/// they are warnings.
#[test]
fn resources_of_a_running_server_are_a_note_or_a_warning() {
    let machine = TestMachine::new();
    let image = "drive = \"plain\"\nfile = \"DIR/a.img\"\nsize = \"1MiB\"\ncache = \"host\"\n";
    let text = machine.here(&GOOD.replace(GAMMA, image));
    machine.scratch.file("weir.toml", &text);
    let server = serve(&machine.scratch);
    let said = machine.says("check weir.toml");
    assert_eq!(
        said,
        "! note: weir (pid PID) uses this file; run `weir check --reload` to see what a reload would change\n= 0\n"
    );
    // For another file with the same image, a start would be refused.
    machine.scratch.file("other.toml", &text);
    let said = machine.says("check other.toml");
    assert_eq!(
        said,
        "! warning: other.toml:7:8: listen.nbd[0]: cannot listen on unix:DIR/nbd.sock: weir (pid PID) already listens there\n\
         !   help: stop weir (pid PID) before you start another server, or reload its file instead\n\
         ! warning: other.toml:28:8: volume.gamma.file: DIR/a.img is in use by weir (pid PID), which holds a lock on it; stop that program first\n\
         !   help: stop weir (pid PID) before you start another server, or reload its file instead\n\
         = 0\n"
    );
    server.end();
    assert_eq!(machine.says("check weir.toml"), "= 0\n");
}

/// A path that the user may not read is reported as a warning, because it is not an error in the
/// file.
#[test]
fn a_path_without_permission_is_a_warning() {
    let machine = TestMachine::new();
    let hidden = machine.scratch.path("hidden");
    fs::create_dir(&hidden).unwrap();
    fs::write(hidden.join("a.img"), [0; 4096]).unwrap();
    let image = "drive = \"plain\"\nfile = \"DIR/hidden/a.img\"\ncache = \"host\"\n";
    let text = GOOD
        .replace(GAMMA, image)
        .replace("DIR/nbd.sock", "DIR/hidden/nbd.sock");
    machine.scratch.file("weir.toml", &machine.here(&text));
    let mut open = fs::metadata(&hidden).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut open, 0o700);
    fs::set_permissions(&hidden, open).unwrap();
    let command = weir(&machine.scratch, "check weir.toml");
    // 65534 is the user `nobody`.
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let mut dropped = Command::new("setpriv");
    dropped
        .args(nobody)
        .arg(command.get_program())
        .args(command.get_args());
    let output = dropped.current_dir(machine.directory()).output();
    let Some(output) = output.ok().filter(|o| !o.stderr.starts_with(b"setpriv")) else {
        println!("skipped: setpriv(1) is not there or not permitted");
        return;
    };
    let said = String::from_utf8(output.stderr)
        .unwrap()
        .replace(&machine.directory(), "DIR");
    let help = "  help: run the check as the user that runs the server; this user does not have the permission\n";
    assert_eq!(
        said,
        format!(
            "warning: weir.toml:7:8: listen.nbd[0]: cannot listen on unix:DIR/hidden/nbd.sock: Permission denied\n{help}\
             warning: weir.toml:28:8: volume.gamma.file: cannot open DIR/hidden/a.img: Permission denied; give the server's user permission to read and write it\n{help}"
        )
    );
    assert_eq!(output.status.code(), Some(0));
}

/// A name with a line break must not split an entry of the log into two lines.
#[test]
fn a_record_of_the_log_is_one_line() {
    let machine = TestMachine::new();
    let text = GOOD.replace("[volume.gamma]", "[volume.\"nothing here\"]");
    let text = text.replace("DIR/nbd.sock", "DIR/li\\nne.sock");
    machine.scratch.file("weir.toml", &machine.here(&text));
    let mut server = weir(&machine.scratch, "serve weir.toml");
    let child = server
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let socket = machine.scratch.path("li\nne.sock");
    // The socket exists shortly before a client can connect to it.
    common::wait("it listens", || UnixStream::connect(&socket).is_ok());
    let address = weir_model::client::Address::Unix(socket);
    for export in ["no\nsuch", "none"] {
        assert!(open(&address, export).is_err());
    }
    common::signal(&child, rustix::process::Signal::TERM);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success());
    let log = String::from_utf8(ended.stderr).unwrap();
    let lines = log.lines().filter(|l| l.contains("unknown export"));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(
        lines[0].contains("li\\nne.sock") && lines[0].contains("no\\nsuch"),
        "{log}"
    );
}

/// The log reports clients that request something unavailable, and storage that fails.
#[test]
fn the_log_names_refused_clients_and_failed_storage() {
    let machine = TestMachine::new();
    let image = "drive = \"plain\"\nfile = \"DIR/a.img\"\nsize = \"1MiB\"\ncache = \"host\"\n";
    machine
        .scratch
        .file("weir.toml", &machine.here(&GOOD.replace(GAMMA, image)));
    let server = serve(&machine.scratch);
    // The handshake up to an option: STARTTLS (5), without data (NBD protocol, newstyle
    // negotiation).
    let mut stream = UnixStream::connect(machine.scratch.path("nbd.sock")).unwrap();
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    let option = [
        &1_u32.to_be_bytes()[..],
        b"IHAVEOPT",
        &5_u32.to_be_bytes(),
        &0_u32.to_be_bytes(),
    ];
    stream.write_all(&option.concat()).unwrap();
    common::wait("TLS is said", || server.says("requested TLS"));
    drop(stream);
    assert!(open(&server.address, "delta").is_err());
    // The log can be read in the middle of an entry, so both parts of the entry are awaited.
    common::wait("the export is said", || {
        server.says("a client requested an unknown export; the server refused it")
            && server.says("export=\"delta\"")
    });
    // Another program truncates the image, and a client reads the part that is gone.
    let file = fs::File::options()
        .write(true)
        .open(machine.scratch.path("a.img"));
    file.unwrap().set_len(0).unwrap();
    let one = Program {
        requests: Some(1),
        ..Program::sequential_reads(4096, 1)
    };
    let reader = fleet(&server.address, &[("gamma", one)], Duration::from_mins(1));
    reader.run(|_| {}).unwrap();
    let failed = "the storage failed a request volume=gamma operation=\"read\" offset=0 length=4096 error=\"Input/output error\"";
    common::wait("the request is said", || server.says(failed));
    server.end();
}
