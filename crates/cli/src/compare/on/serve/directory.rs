//! Creates a private temporary directory, for the socket of a server.

use crate::failure::Failure;
use crate::leftovers::{Leftover, Leftovers};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Creates a directory that only this user can enter. It is removed when the returned value is
/// dropped, or when the command is interrupted.
pub(crate) fn private(leftovers: &Leftovers) -> Result<Leftover, Failure> {
    let base = std::env::temp_dir();
    // A directory that exists is not used, because another user could have created it.
    for attempt in 0..100 {
        let path = base.join(format!("weir-demo-{}-{attempt}", std::process::id()));
        let make = |path: &Path| DirBuilder::new().mode(0o700).create(path);
        match leftovers.make(&path, make) {
            Ok(((), leftover)) => return Ok(leftover),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(Failure::file("create a directory in", &base, &e)),
        }
    }
    let error = io::Error::from(io::ErrorKind::AlreadyExists);
    Err(Failure::file("create a directory in", &base, &error))
}
