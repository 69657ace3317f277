//! What holds the data of a volume, and how the server's threads run.

use crate::words::words;
use std::path::PathBuf;
use weir_core::Span;
use weir_wire::nbd::Uri;

/// What holds a volume's data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Storage {
    /// A regular file, by its absolute path; created if absent, preallocated if something is promised.
    File(PathBuf),
    /// A block device, by its absolute path.
    Device(PathBuf),
    /// An export of another NBD server.
    Nbd(Remote),
    /// Memory, zeroes at first, as fast as memory is.
    Memory,
    /// Memory behind the timing model of the volume's drive ([`crate::Drive::model`], which is there then).
    Model,
}

/// An export of another NBD server, and how it is used (`nbd`, `[volume.NAME.remote]`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remote {
    /// Where it is.
    pub uri: Uri,
    /// That as it was written.
    pub text: String,
    /// Connections to its server.
    pub connections: u32,
    /// The most that each of them has unanswered.
    pub requests: u32,
    /// How long requests wait for a server that is away.
    pub wait: Span,
    /// Bytes of memory for copies of what was written and not flushed.
    pub unflushed: u64,
}

impl Remote {
    /// An export, with settings that are still to be read.
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

/// Whether the host's page cache stands between a volume and its file or device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cache {
    /// No: opened `O_DIRECT`.
    #[default]
    Direct,
    /// Yes; such a volume can be promised nothing.
    Host,
}

/// How the threads that serve drives stand to those of other programs on the machine (`priority` in `[server]`), fixed while the
/// server runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ThreadPriority {
    /// [`ThreadPriority::High`] where that is permitted, else [`ThreadPriority::Normal`].
    #[default]
    Auto,
    /// As the process that started the server.
    Normal,
    /// Nice -10: where processors are short they get about nine times the time of an ordinary thread, and run sooner. It takes the
    /// capability `CAP_SYS_NICE` or a `RLIMIT_NICE` of 30 (`LimitNICE=-10` in a unit of systemd); without, the server says so and
    /// serves as usual.
    High,
}

words! {
    Cache: "direct" Direct, "host" Host;
    ThreadPriority: "auto" Auto, "normal" Normal, "high" High;
}

/// What a volume's size must be a multiple of.
pub(crate) fn block(storage: &Storage, cache: Cache) -> u64 {
    match (storage, cache) {
        (Storage::File(_) | Storage::Device(_), Cache::Direct) => 4096,
        _ => 512,
    }
}
