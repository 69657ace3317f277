//! The storage of a volume, and the priority of the server's threads.

use crate::words::words;
use std::path::PathBuf;
use weir_core::Span;
use weir_wire::nbd::Uri;

/// The storage of a volume's data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Storage {
    /// A regular file, by its absolute path. It is created if it does not exist, and preallocated
    /// if the volume has a promise.
    File(PathBuf),
    /// A block device, by its absolute path.
    Device(PathBuf),
    /// An export of another NBD server.
    Nbd(Remote),
    /// Memory that is zero at the start, without a timing model.
    Memory,
    /// Memory behind the timing model of the volume's drive ([`crate::ServerDrive::model`]).
    Model,
}

/// An export of another NBD server, with the settings of the connection (`nbd`,
/// `[volume.NAME.remote]`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remote {
    /// The URI of the export.
    pub uri: Uri,
    /// The text of the URI in the file.
    pub text: String,
    /// The number of connections to the remote server.
    pub connections: u32,
    /// The maximum number of requests in flight on each connection.
    pub requests: u32,
    /// The maximum time that requests wait while the remote server is unreachable.
    pub wait: Span,
    /// The memory in bytes for copies of data that were written but not flushed.
    pub unflushed: u64,
}

impl Remote {
    /// Returns an export whose settings are still to be read.
    pub(crate) fn new(uri: Uri, text: &str) -> Self {
        Self {
            uri,
            text: text.to_owned(),
            connections: 0,
            requests: 0,
            wait: Span::ZERO,
            unflushed: 0,
        }
    }
}

/// The use of the host's page cache for a volume's file or device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cache {
    /// The page cache is bypassed (`O_DIRECT`).
    #[default]
    Direct,
    /// The page cache is used. Such a volume cannot have a promise.
    Host,
}

/// The scheduling priority of the threads that serve drives (`priority` in `[server]`). It cannot
/// be changed while the server runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ThreadPriority {
    /// [`ThreadPriority::High`] if that is permitted, otherwise [`ThreadPriority::Normal`].
    #[default]
    Auto,
    /// The priority of the process that started the server.
    Normal,
    /// Nice -10. If CPU time is scarce, such a thread gets about nine times the time of an ordinary
    /// thread, and runs sooner.
    ///
    /// It requires the capability `CAP_SYS_NICE` or a `RLIMIT_NICE` of 30 (`LimitNICE=-10` in a
    /// systemd unit). Without it, the server logs that and runs with the normal priority.
    High,
}

words! {
    Cache: "direct" Direct, "host" Host;
    ThreadPriority: "auto" Auto, "normal" Normal, "high" High;
}

/// Returns the block size in bytes. The volume's size must be a multiple of it.
pub(crate) fn block(storage: &Storage, cache: Cache) -> u64 {
    match (storage, cache) {
        // `O_DIRECT` requires aligned offsets and lengths (open(2)).
        (Storage::File(_) | Storage::Device(_), Cache::Direct) => 4096,
        _ => 512,
    }
}
