//! A start that is refused leaves all files as they were. The tests cover everything that a start
//! creates, and every reason for a refusal after that.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use crate::tools::Temp;
use weir_serve::{LiveServer, ServerOptions, preflight};

/// The directory of a test.
struct StartDirectory(Temp);

/// Returns the configuration of a volume with an image that uses the page cache.
fn volume(name: &str, path: &str, more: &str) -> String {
    format!("[volume.{name}]\ndrive = \"a\"\nfile = \"DIR/{path}\"\ncache = \"host\"\n{more}")
}

const SIZE: &str = "size = \"1MiB\"\n";

impl StartDirectory {
    /// Creates a directory with an old image, an old recording, and a socket that nobody listens
    /// on.
    fn new() -> Self {
        let scratch = Self(Temp::new());
        fs::write(scratch.path("old.img"), vec![7; 1 << 20]).unwrap();
        fs::write(scratch.path("old.record"), "old").unwrap();
        drop(UnixListener::bind(scratch.path("dead.sock")).unwrap());
        scratch
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns each file with its inode and its contents.
    fn state(&self) -> BTreeMap<PathBuf, (u64, Option<Vec<u8>>)> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let paths = entries.map(|e| e.unwrap().path());
        let each = paths.map(|path| {
            let inode = fs::symlink_metadata(&path).unwrap().ino();
            let bytes = fs::read(&path).ok();
            (path, (inode, bytes))
        });
        each.collect()
    }

    /// Returns the time of the last change of each file and of the directory. A start may change
    /// these by its requests to the kernel, but a check must not.
    fn times(&self) -> Vec<(i64, i64)> {
        let paths = self.state().into_keys().chain([self.0.path().to_owned()]);
        let each = paths.map(|path| {
            let m = fs::symlink_metadata(&path).unwrap();
            (m.ctime(), m.ctime_nsec())
        });
        each.collect()
    }

    /// Returns a configuration with a volume in a new image, a volume in an old image, a socket in
    /// place of one that nobody listens on, and the given text.
    fn config(&self, listen: &str, more: &str) -> weir_config::Server {
        let text = format!(
            "drive.a = {{}}\n[listen]\nnbd = [\"unix:DIR/nbd.sock\", \"unix:DIR/dead.sock\"{listen}\n{}{}{more}",
            volume("a-new", "new.img", SIZE),
            volume("b-old", "old.img", SIZE)
        );
        let text = text.replace("DIR", &self.0.path().display().to_string());
        weir_config::parse("weir.toml", &text).unwrap()
    }
}

/// Checks that a start with this configuration is refused with these words, and leaves everything
/// as it was.
fn refused(
    scratch: &StartDirectory,
    config: &weir_config::Server,
    record: Option<&str>,
    words: &str,
) {
    let before = scratch.state();
    let options = ServerOptions {
        record: record.map(|name| scratch.path(name)),
        ..ServerOptions::default()
    };
    let error = LiveServer::start(config, &options)
        .expect_err(words)
        .to_string();
    assert!(error.contains(words), "{words}: {error}");
    assert_eq!(scratch.state(), before, "{words}");
}

/// Checks that a start is refused with these words, and that `weir check` reports the same problem
/// and changes nothing either.
fn refused_and_said(scratch: &StartDirectory, config: &weir_config::Server, words: &str) {
    refused(scratch, config, None, words);
    let (before, times) = (scratch.state(), scratch.times());
    let found = preflight(config);
    assert_eq!(scratch.times(), times, "{words}");
    let said: Vec<String> = found
        .findings
        .iter()
        .map(|f| f.problem.to_string())
        .collect();
    assert!(said.iter().any(|s| s.contains(words)), "{words}: {said:?}");
    assert!(said.iter().all(|s| s.starts_with("weir.toml:")), "{said:?}");
    assert_eq!(scratch.state(), before, "{words}");
}

#[test]
fn a_volume_that_cannot_be_opened_refuses_the_start() {
    let scratch = StartDirectory::new();
    let c = |path: &str, more: &str| volume("c", path, more);
    for (volume, words) in [
        (c("none/x.img", SIZE), "create the directory"),
        (c("old.img/x.img", SIZE), "Not a directory"),
        (c("x.img", ""), "set `size`"),
        (c("old.record", SIZE), "has 3B"),
        (c("dead.sock", ""), "is a socket, not a regular file"),
        (
            "[volume.c]\ndrive = \"a\"\ndevice = \"/dev/zero\"\n".to_owned(),
            "is a character device, not a block device",
        ),
        (
            "[volume.c]\ndrive = \"a\"\nmemory = true\nsize = \"4096PiB\"\n".to_owned(),
            "for its table alone",
        ),
    ] {
        refused_and_said(&scratch, &scratch.config("]", &volume), words);
    }
}

#[test]
fn an_image_that_is_too_large_refuses_the_start() {
    let scratch = StartDirectory::new();
    let capacity = "[drive.b]\ncapacity = { read = \"100MB/s\", write = \"100MB/s\" }\n";
    let volume =
        "[volume.c]\ndrive = \"b\"\nfile = \"DIR/huge.img\"\nsize = \"1PiB\"\nmin = \"1MB/s\"\n";
    let config = scratch.config("]", &format!("{capacity}{volume}"));
    // The message of the kernel depends on the file system, some of which report that the size is
    // too large for a file.
    let before = scratch.state();
    let error = LiveServer::start(&config, &ServerOptions::default()).unwrap_err();
    assert!(error.to_string().contains("cannot create "), "{error}");
    assert_eq!(scratch.state(), before);
    let found = preflight(&config);
    assert!(
        found
            .findings
            .iter()
            .any(|f| f.certain && f.problem.key == "volume.c.file")
    );
    assert_eq!(scratch.state(), before);
}

#[test]
fn images_that_do_not_fit_together_are_reported() {
    let scratch = StartDirectory::new();
    let capacity = "[drive.b]\ncapacity = { read = \"100MB/s\", write = \"100MB/s\" }\n";
    let free = match preflight(&scratch.config("]", "")).storages["a-new"]
        .place
        .clone()
    {
        Some(place) => place.free.unwrap(),
        None => panic!("a file has a place"),
    };
    // Each image takes 60 % of the free space, so that one fits and two do not.
    let size = free / 5 * 3 / 4096 * 4096;
    let volume = |name: &str| {
        format!(
            "[volume.{name}]\ndrive = \"b\"\nfile = \"DIR/{name}.img\"\nsize = \"{size}B\"\nmin = \"1MB/s\"\n"
        )
    };
    let volumes = volume("c") + &volume("d");
    let before = scratch.state();
    let found = preflight(&scratch.config("]", &(capacity.to_owned() + &volumes)));
    let keys: Vec<&str> = found.findings.iter().map(|f| &f.problem.key[..]).collect();
    // If the file system does not support O_DIRECT, the findings report that for both volumes.
    assert!(keys.contains(&"volume.d.file"), "{:?}", found.findings);
    assert_eq!(scratch.state(), before);
}

/// A file or an address that the same configuration uses twice is also in use.
#[test]
fn a_file_or_port_used_twice_refuses_the_start() {
    let scratch = StartDirectory::new();
    std::os::unix::fs::symlink(scratch.path("old.img"), scratch.path("link.img")).unwrap();
    std::os::unix::fs::symlink(scratch.0.path(), scratch.path("here")).unwrap();
    for (path, other) in [("link.img", "b-old"), ("here/new.img", "a-new")] {
        let config = scratch.config("]", &volume("c", path, SIZE));
        let words = format!("volume.c.file: is already used by volume.{other} under another name");
        refused(&scratch, &config, None, &words);
        let said: Vec<String> = preflight(&config)
            .findings
            .iter()
            .map(|f| f.problem.to_string())
            .collect();
        assert!(said.len() == 1 && said[0].contains(&words), "{said:?}");
    }
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let twice = format!(", \"127.0.0.1:{port}\"]\nmetrics = \"0.0.0.0:{port}\"\ninsecure = true");
    refused_and_said(
        &scratch,
        &scratch.config(&twice, ""),
        "Address already in use",
    );
}

#[test]
fn an_unavailable_address_refuses_the_start() {
    let scratch = StartDirectory::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let live = UnixListener::bind(scratch.path("live.sock")).unwrap();
    // The binding keeps the listener alive until the end of the test.
    let _ = &live;
    for (listen, words) in [
        (format!(", \"127.0.0.1:{port}\"]"), "Address already in use"),
        (", \"unix:DIR/live.sock\"]".to_owned(), "listens there"),
        (
            ", \"unix:DIR/old.img\"]".to_owned(),
            "exists and is not a socket",
        ),
        (
            ", \"unix:DIR/none/nbd.sock\"]".to_owned(),
            "create the directory",
        ),
        (
            format!("]\nmetrics = \"127.0.0.1:{port}\""),
            "Address already in use",
        ),
        (
            "]\nmetrics = \"192.0.2.1:9\"\ninsecure = true".to_owned(),
            "use an address of this machine",
        ),
        (
            "]\nsocket_owner = \"nobody-of-that-name\"".to_owned(),
            "unknown user",
        ),
        (
            "]\nsocket_owner = \":nobody-of-that-name\"".to_owned(),
            "unknown group",
        ),
    ] {
        refused_and_said(&scratch, &scratch.config(&listen, ""), words);
    }
}

#[test]
fn a_record_that_cannot_be_written_refuses_the_start() {
    let scratch = StartDirectory::new();
    let config = scratch.config("]", "");
    refused(
        &scratch,
        &config,
        Some("none/record"),
        "cannot write the record",
    );
    // Each drive has a recording of its own, and that of the first drive is created before that of
    // the second is refused.
    let two = scratch.config("]", "[drive.b]\n");
    fs::create_dir(scratch.path("record.b")).unwrap();
    refused(&scratch, &two, Some("record"), "cannot write the record");
}

/// Shards are started last. The arena is so large that no address space can hold it.
#[test]
fn a_shard_that_cannot_start_refuses_the_server() {
    let scratch = StartDirectory::new();
    let arena = "[limits]\narena = \"1TiB\"\nconnections = 3840\n";
    // The kernel may be able to promise that memory, so a limit of this process makes it refuse.
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::As);
    limit.current = Some(64 << 30);
    rustix::process::setrlimit(rustix::process::Resource::As, limit).unwrap();
    let config = scratch.config("]", arena);
    refused(&scratch, &config, Some("new.record"), "");
    refused(&scratch, &config, Some("old.record"), "");
    assert_eq!(fs::read(scratch.path("old.record")).unwrap(), b"old");
}

/// A start that succeeds keeps the files that it has created. Its sockets are removed when it ends.
#[test]
fn a_start_that_succeeds_keeps_its_files() {
    let scratch = StartDirectory::new();
    let config = scratch.config("]", "");
    let options = ServerOptions {
        record: Some(scratch.path("old.record")),
        ..ServerOptions::default()
    };
    let server = LiveServer::start(&config, &options).unwrap();
    assert!(scratch.path("nbd.sock").exists());
    assert!(server.shutdown());
    let names: Vec<String> = scratch
        .state()
        .keys()
        .map(|p| p.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names, ["new.img", "old.img", "old.record", "old.record.1"]);
    assert_eq!(fs::read(scratch.path("old.record")).unwrap(), b"old");
    assert_eq!(
        fs::metadata(scratch.path("new.img")).unwrap().len(),
        1 << 20
    );
}

/// A refused reload removes the images that it has created.
#[test]
fn a_refused_reload_removes_its_images() {
    let scratch = StartDirectory::new();
    let mut server =
        LiveServer::start(&scratch.config("]", ""), &ServerOptions::default()).unwrap();
    let before = scratch.state();
    let coming = volume("c", "c.img", SIZE);
    let more = coming.clone() + &volume("d", "none/d.img", SIZE);
    assert!(server.reload(&scratch.config("]", &more)).is_err());
    assert_eq!(scratch.state(), before);
    server.reload(&scratch.config("]", &coming)).unwrap();
    assert!(scratch.path("c.img").exists());
    assert!(server.shutdown());
    assert!(scratch.path("c.img").exists());
}
