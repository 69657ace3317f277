//! `weir ctl` with a running server: its output, and its errors.

use crate::common::running::{RunningServer, open, serve};
use crate::common::{CommandOutput, Scratch, free_port, has, root, run, signal};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::process::Command;
use weir_model::client::Connection;

const CONFIG: &str = r#"
[drive.fast]
capacity = { read = "160MB/s", write = "120MB/s" }
[listen]
nbd = ["unix:SOCKET"]
[manage]
socket = "MANAGE"
[tenant.acme]
drive = "fast"
min = "30MB/s"
[volume.alpha]   # the first
drive = "fast"
memory = true
size = "1MiB"
min = "10MB/s"
"#;

struct ManagedServer {
    scratch: Scratch,
    server: Option<RunningServer>,
}

impl ManagedServer {
    fn new() -> Self {
        let scratch = Scratch::new();
        let path = |name| scratch.at(name);
        let text = CONFIG.replace("SOCKET", &path("nbd.sock"));
        scratch.file("weir.toml", &text.replace("MANAGE", &path("manage.sock")));
        let server = serve(&scratch);
        Self {
            scratch,
            server: Some(server),
        }
    }

    fn ctl(&self, arguments: &str) -> CommandOutput {
        let socket = if arguments.contains("--socket") {
            ""
        } else {
            "--socket manage.sock"
        };
        run(&self.scratch, &format!("ctl {arguments} {socket}"))
    }

    /// Connects a client to a volume.
    fn client(&self, volume: &str) -> Connection {
        let server = self.server.as_ref().expect("it runs");
        open(&server.address, volume).expect("it is served")
    }

    /// Kills the server, and starts another one.
    fn crash(&mut self) {
        let mut server = self.server.take().expect("it runs");
        signal(&server.child, Signal::KILL);
        server.child.wait().expect("it ends");
        server.reader.join().expect("it has read all");
        self.server = Some(serve(&self.scratch));
    }

    /// Returns the message on standard error of a command that must fail.
    fn refused(&self, arguments: &str) -> String {
        self.ctl(arguments).ended(1).err
    }

    /// Returns the output of a command that must succeed.
    fn said(&self, arguments: &str) -> String {
        let ended = self.ctl(arguments).ended(0);
        assert_eq!(ended.err, "", "{arguments}");
        ended.out
    }

    fn text(&self) -> String {
        self.scratch.read("weir.toml")
    }
}

impl Drop for ManagedServer {
    fn drop(&mut self) {
        if let Some(server) = self.server.take().filter(|_| !std::thread::panicking()) {
            server.end();
        }
    }
}

#[test]
fn ctl_queries_and_changes_a_server_with_the_keys_of_its_file() {
    let site = ManagedServer::new();
    let status = site.said("status");
    for part in [
        "fast",
        "40MB/s",
        "68MB/s",
        "acme",
        "30MB/s",
        "weir.toml",
        "volumes: 1",
    ] {
        assert!(status.contains(part), "{part} in\n{status}");
    }
    // A dry run shows the effect of a change.
    let tried = site.said("set alpha min=20MB/s --dry-run");
    // 50 of 120 MB/s are 41.7 %, and 58 MB/s are left of the 108 MB/s (90 %) that can be promised.
    assert_eq!(
        tried,
        "volume.alpha.min = \"20MB/s\" (was \"10MB/s\")\n\
         drive.fast: 50MB/s promised, 41.7 % of the drive's time; 58MB/s left\n\
         dry run: no change was made\n"
    );
    let made = site.said("set alpha min=20MB/s max.bandwidth=50MB/s share=200");
    assert!(made.ends_with("change 1, saved\n"), "{made}");
    site.said("add beta drive=fast memory=true size=1MiB tenant=acme");
    site.said("grow beta 2MiB");
    let list = site.said("list");
    for part in ["alpha", "20MB/s", "50MB/s", "200", "beta", "2MiB"] {
        assert!(list.contains(part), "{part} in\n{list}");
    }
    let shown = site.said("show alpha");
    has(&shown, "config.min = \"20MB/s\"\n");
    let shown = site.said("show tenant.acme --json");
    assert!(shown.starts_with("{\"name\":\"acme\","), "{shown}");
    site.said("remove beta");
    let undone = site.said("undo");
    assert!(undone.starts_with("volume.beta was added\n"), "{undone}");
    // A change that is not saved applies to the running server only.
    site.said("set drive.fast capacity.write=140MB/s --no-save");
    let changes = site.said("changes");
    // The six changes are set, add, grow, remove, undo and set.
    assert_eq!(changes.lines().count(), 6, "{changes}");
    assert!(
        changes.lines().next().unwrap().ends_with("in memory only"),
        "{changes}"
    );
    let text = site.text();
    assert!(
        text.contains("[volume.alpha]   # the first") && text.contains("120MB/s"),
        "{text}"
    );
    site.said("reload");
    assert!(site.said("status").contains("108MB/s") || site.said("status").contains("120MB/s"));
}

#[test]
fn wrong_commands_are_refused_with_a_remedy() {
    let site = ManagedServer::new();
    let before = site.text();
    for (arguments, status, said) in [
        (
            "set alpha min=200MB/s",
            1,
            "at most 108MB/s can be promised (90 % of its write capacity, 120MB/s)\n  help: ",
        ),
        (
            "set alpha min=20MB",
            1,
            "volume.alpha.min: \"20MB\" is a size, not a rate\n  help: write \"20MB/s\"\n",
        ),
        ("set alpha mni=20MB/s", 1, "did you mean"),
        (
            "set nobody min=1MB/s",
            1,
            "error: unknown volume \"nobody\"\n",
        ),
        ("set alpha min", 2, "is not of the form KEY=VALUE"),
        ("set alpha", 2, "KEY=VALUE"),
        (
            "add alpha drive=fast memory=true size=1MiB",
            1,
            "volume \"alpha\" already exists",
        ),
        ("grow alpha 1kiB", 1, "size"),
        ("remove drive.fast", 1, "problems were found"),
        ("undo", 1, "no change can be undone"),
        ("undo 7", 1, "unknown change 7"),
        (
            "set alpha share=3 --if-match \"x\"",
            1,
            "has been changed since it was read",
        ),
        (
            "status --socket /nowhere/x.sock",
            1,
            "help: start the server with a socket in [manage]",
        ),
        ("frobnicate", 2, "unrecognized subcommand"),
    ] {
        let ended = site.ctl(arguments).ended(status);
        has(&ended.err, said);
        assert_eq!(ended.out, "", "{arguments}");
    }
    assert_eq!(site.text(), before);
}

/// Writes bytes at an offset through a raw NBD request, and waits for the reply.
fn write(client: Connection, offset: u64, bytes: &[u8]) {
    let (socket, ..) = client.into_parts();
    let mut socket = UnixStream::from(socket);
    // A request of the NBD protocol: magic number, flags (0), type (1, write), cookie, offset,
    // length, and data.
    let mut request = [&0x2560_9513_u32.to_be_bytes()[..], &[0, 0, 0, 1], &[0; 8]].concat();
    request.extend(offset.to_be_bytes());
    request.extend(u32::try_from(bytes.len()).expect("few").to_be_bytes());
    request.extend(bytes);
    socket.set_nonblocking(false).expect("it is a socket");
    socket.write_all(&request).expect("the server reads");
    let mut reply = [0; 16];
    socket.read_exact(&mut reply).expect("the server answers");
}

#[test]
fn an_image_grows_with_its_volume_and_outlives_a_crash() {
    let mut site = ManagedServer::new();
    let image = site.scratch.path("beta.img");
    let add = format!(
        "add beta drive=fast file={} size=1MiB min=1MB/s",
        image.display()
    );
    site.said(&add);
    let before = site.client("beta");
    // The configuration file keeps the old size, as after a crash between the growth and the
    // writing of the file.
    let grown = site.said("grow beta 2MiB --no-save");
    let told = "volume.beta: 1 client keeps its size until it connects again, because NBD";
    has(&grown, told);
    let allocated = |size: u64| {
        let found = fs::metadata(&image).expect("it is there");
        assert_eq!(found.len(), size);
        // `st_blocks` counts units of 512 bytes, see stat(2).
        assert!(found.blocks() * 512 >= size, "{}", found.blocks());
    };
    allocated(2 << 20);
    // NBD cannot announce a new size to a connected client.
    assert_eq!(before.session().size, 1 << 20);
    write(site.client("beta"), (2 << 20) - 4096, &[7; 4096]);

    // A volume cannot shrink, and cannot grow beyond the free space. In both cases, nothing
    // changes.
    for shrinks in ["grow beta 1MiB", "undo"] {
        let said = site.refused(shrinks);
        for part in [
            "cannot be reduced from 2MiB to 1MiB",
            "help: ",
            "add a smaller",
        ] {
            assert!(said.contains(part), "{shrinks}: {said}");
        }
    }
    for huge in ["grow beta 1PiB --dry-run", "grow beta 1PiB"] {
        let said = site.refused(huge);
        has(&said, "from 2MiB to 1PiB");
        has(&said, "the volume is unchanged");
    }
    allocated(2 << 20);

    drop(before);
    site.crash();
    let server = site.server.as_ref().expect("it runs");
    assert!(server.says("an earlier server grew the file"));
    assert!(server.says("set size = \"2MiB\""));
    assert_eq!(site.client("beta").session().size, 2 << 20);
    let file = File::options().read(true).write(true).open(&image);
    let file = file.expect("it is there");
    let mut bytes = [0; 4096];
    file.read_exact_at(&mut bytes, (2 << 20) - 4096)
        .expect("it is as long");
    assert_eq!(bytes, [7; 4096]);

    // A file that another program has truncated is not silently extended again.
    file.set_len(1 << 20).expect("nothing keeps it");
    let said = site.refused("grow beta 4MiB");
    has(&said, "another program has truncated the file");
    assert_eq!(file.metadata().expect("it is there").len(), 1 << 20);
    file.set_len(2 << 20).expect("nothing keeps it");
    site.said("grow beta 4MiB");
    assert_eq!(file.metadata().expect("it is there").len(), 4 << 20);
    assert!(site.text().contains("4MiB"), "{}", site.text());
}

#[test]
fn a_server_is_inspected_and_changed_over_tls() {
    let scratch = Scratch::new();
    let script = root().join("packaging/examples/tls/certificates");
    let made = Command::new(script)
        .arg(scratch.path("tls"))
        .arg("ops.example")
        .status();
    if !made.is_ok_and(|made| made.success()) {
        assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "no openssl");
        return println!("skipped: openssl is not installed");
    }
    let (at, port) = (scratch.at("tls"), free_port());
    let text = CONFIG.replace("SOCKET", &scratch.at("nbd.sock")).replace(
        "socket = \"MANAGE\"",
        &format!("https = \"127.0.0.1:{port}\"\ncertificates = [\"ops.example\"]"),
    );
    let tls = format!(
        "[listen.tls]\ncertificate = \"{at}/server-cert.pem\"\nkey = \"{at}/server-key.pem\"\nclient_ca = \"{at}/ca-cert.pem\"\n"
    );
    scratch.file("weir.toml", &(text + &tls));
    let server = serve(&scratch);
    let there = format!("--server localhost:{port} --certificates {at}");
    let said = run(&scratch, &format!("ctl status {there}")).ended(0);
    has(&said.out, "fast");
    let said = run(&scratch, &format!("ctl set alpha min=11MB/s {there}")).ended(0);
    has(&said.out, "change 1, saved");
    has(
        &run(&scratch, &format!("explain alpha {there}"))
            .ended(0)
            .out,
        "alpha",
    );
    run(&scratch, &format!("top --once {there}")).ended(0);
    let said = run(&scratch, &format!("ctl list --server localhost:{port}")).ended(1);
    has(
        &said.err,
        "set --certificates to a directory with ca-cert.pem",
    );
    let said = run(
        &scratch,
        &format!("ctl list --server localhost --certificates {at}"),
    );
    has(&said.ended(1).err, "write for example server.example:9811");
    let said = run(
        &scratch,
        &format!("ctl list --server localhost:{port} --certificates /nowhere"),
    );
    has(&said.ended(1).err, "cannot read /nowhere/ca-cert.pem");
    // The authority of another server.
    fs::remove_file(scratch.path("tls/ca-cert.pem")).expect("it is there");
    let script = root().join("packaging/examples/tls/certificates");
    let made = Command::new(script).arg(scratch.path("other")).status();
    assert!(made.expect("it runs").success());
    fs::copy(
        scratch.path("other/ca-cert.pem"),
        scratch.path("tls/ca-cert.pem"),
    )
    .expect("a copy");
    let said = run(&scratch, &format!("ctl list {there}")).ended(1);
    has(&said.err, "invalid peer certificate");
    has(&said.err, "help: set --certificates to a directory");
    server.end();
}
