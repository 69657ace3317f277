//! Tools for tests of a running server: a server with its directory, clients that send raw bytes,
//! attackers, and programs of other projects.
#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod attack;
pub(crate) mod certificates;
pub(crate) mod guest;
pub(crate) mod load;
pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod process;
pub(crate) mod program;
pub(crate) mod raw;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_config::ListenAddress;
use weir_serve::{LiveServer, ReloadError, ServerOptions};

/// Waits until a condition holds. Fails if that takes longer than a working server needs.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < raw::PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A temporary directory that is removed with its owner.
#[derive(Debug)]
pub(crate) struct Temp(PathBuf);

impl Temp {
    /// Creates a directory with a short path, because the paths of sockets are limited.
    pub(crate) fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    /// Creates a directory on the file system of the build, for files that are opened with
    /// `O_DIRECT`.
    pub(crate) fn on_disk() -> Self {
        Self::within(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    fn within(parent: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("weir-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        // The result is ignored, because a test that has failed already should not panic again.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running server that listens on a Unix socket and on a TCP port.
#[derive(Debug)]
pub(crate) struct TestSite {
    pub(crate) server: LiveServer,
    pub(crate) unix: ListenAddress,
    pub(crate) tcp: ListenAddress,
    /// The directory of the volumes' files.
    pub(crate) files: Temp,
    socket: Temp,
    /// A lock that keeps other sites from being [started](Self::start) in the meantime.
    alone: Option<MutexGuard<'static, ()>>,
}

impl TestSite {
    /// Starts a server with `config`, once no other site runs. Two processors are not enough for
    /// several servers with their clients. The addresses are added to the configuration, and
    /// `{files}` is replaced by the directory of the volumes' files.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_with(config, &ServerOptions::default())
    }

    pub(crate) fn start_with(config: &str, options: &ServerOptions) -> Self {
        static ONE: Mutex<()> = Mutex::new(());
        // A failed test has poisoned the lock. The other tests should run anyway.
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        Self {
            alone: Some(alone),
            ..Self::beside(config, options)
        }
    }

    /// Starts a server even if other sites run.
    pub(crate) fn beside(config: &str, options: &ServerOptions) -> Self {
        let (socket, files) = (Temp::new(), Temp::on_disk());
        let text = Self::text(config, &socket, &files);
        let server = LiveServer::start(&parse(&text), options).unwrap_or_else(|e| panic!("{e}"));
        let addresses = server.addresses().to_vec();
        Self {
            server,
            unix: addresses[0].clone(),
            tcp: addresses[1].clone(),
            files,
            socket,
            alone: None,
        }
    }

    /// Applies another configuration. Returns false if it is refused.
    pub(crate) fn reload(&mut self, config: &str) -> bool {
        let text = Self::text(config, &self.socket, &self.files);
        let parsed = weir_config::parse("", &text);
        parsed.is_ok_and(|config| self.server.reload(&config).is_ok())
    }

    /// Applies another valid configuration. Returns the changes.
    pub(crate) fn change(&mut self, config: &str) -> Result<Vec<String>, ReloadError> {
        let config = self.parse(config);
        self.server.reload(&config)
    }

    /// Parses another configuration of the same server.
    pub(crate) fn parse(&self, config: &str) -> weir_config::Server {
        parse(&Self::text(config, &self.socket, &self.files))
    }

    fn text(config: &str, socket: &Temp, files: &Temp) -> String {
        let listen = format!(
            "listen.nbd = [\"unix:{}/nbd.sock\", \"127.0.0.1:0\"]\n",
            socket.path().display()
        );
        listen + &config.replace("{files}", &files.path().display().to_string())
    }
}

/// Parses a configuration, which must be valid.
pub(crate) fn parse(text: &str) -> weir_config::Server {
    weir_config::parse("", text).unwrap_or_else(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        panic!("{}\n{text}", lines.join("\n"))
    })
}

/// Returns the NBD URI of an export.
pub(crate) fn uri(address: &ListenAddress, export: &str) -> String {
    match address {
        ListenAddress::Unix(path) => format!("nbd+unix:///{export}?socket={}", path.display()),
        ListenAddress::Tcp(address) => format!("nbd://{address}/{export}"),
    }
}

/// Returns the address for Weir's own client.
pub(crate) fn client_address(address: &ListenAddress) -> weir_model::client::Address {
    match address {
        ListenAddress::Unix(path) => weir_model::client::Address::Unix(path.clone()),
        ListenAddress::Tcp(address) => weir_model::client::Address::Tcp(address.to_string()),
    }
}

/// Returns bytes that depend on the seed and differ from place to place. They are not zeroes.
pub(crate) fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = weir_core::random::Rng::new(seed);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&rng.range(0, u64::MAX).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
