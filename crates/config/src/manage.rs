//! Where the running server is asked and changed.

use crate::listen::{Id, Owner};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where the management interface is, and for which processes (`[manage]`), fixed while the server runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manage {
    /// A Unix socket, at an absolute path of at most 107 bytes.
    pub socket: Option<PathBuf>,
    /// Its permission bits, at most `0o777`; by default `0o600`.
    pub socket_mode: u32,
    /// Its owner; by default the user that runs the server.
    pub socket_owner: Owner,
    /// Users whose processes may use the socket, beside root and the server's own.
    pub users: Vec<Id>,
    /// Groups whose processes may.
    pub groups: Vec<Id>,
    /// Absolute paths at or below which other clients than root and the server's own user may put the storage of volumes. `None`: the
    /// directories of the volumes' files.
    pub storage: Option<Vec<PathBuf>>,
    /// A loopback address for browsers.
    pub http: Option<SocketAddr>,
    /// The file with the token that requests there need; there if `http` is.
    pub token_file: Option<PathBuf>,
    /// An absolute path of a directory with the manual as web pages, whose files browsers may read without the token. `None`: where the
    /// package puts it, if it is there.
    pub manual: Option<PathBuf>,
}

impl Default for Manage {
    fn default() -> Self {
        Self {
            socket: None,
            socket_mode: 0o600,
            socket_owner: Owner::default(),
            users: Vec::new(),
            groups: Vec::new(),
            storage: None,
            http: None,
            token_file: None,
            manual: None,
        }
    }
}
