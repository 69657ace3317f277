//! Direct volumes of Kata Containers: files that tell its runtime to attach a disk to the pod's
//! virtual machine and to mount it there.
//!
//! The format is that of Kata's `docs/design/direct-blk-device-assignment.md` and
//! `src/libs/kata-types/src/mount.rs`: for each path that a pod mounts, a directory named by the
//! path in URL-safe base64, with a file `mountInfo.json`.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde_json::{Value, json};
use tonic::Status;

use crate::error;

/// The file that describes the volume of a path.
const FILE: &str = "mountInfo.json";
/// The name of the file while it is being written.
const PART: &str = "mountInfo.json.part";
/// Kata's name for a `vhost-user` disk, regardless of the server.
const KIND: &str = "spdkvol";

/// Records that the volume at a path is the file system on the disk at a socket.
pub(crate) fn add(
    root: &Path,
    path: &Path,
    socket: &Path,
    file_system: &str,
    options: &[String],
) -> Result<(), Status> {
    let directory = directory(root, path);
    let said = json!({
        "volume-type": KIND,
        "device": socket,
        "fstype": file_system,
        "metadata": {},
        "options": options,
    });
    let (part, file) = (directory.join(PART), directory.join(FILE));
    // The rename makes the file appear complete, because the runtime can read it at any time.
    let written = fs::create_dir_all(&directory)
        .and_then(|()| fs::write(&part, said.to_string()))
        .and_then(|()| fs::rename(&part, &file));
    written.map_err(error::file("write", &file))
}

/// Removes the record of a path, and the runtime's files next to it. Succeeds if there is none.
pub(crate) fn remove(root: &Path, path: &Path) -> Result<(), Status> {
    let directory = directory(root, path);
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error::file("remove", &directory)(error))
        }
        _ => Ok(()),
    }
}

/// Returns another path that is recorded with the disk at a socket, if there is one.
pub(crate) fn other(root: &Path, path: &Path, socket: &Path) -> Result<Option<String>, Status> {
    let entries = match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries.map_err(error::file("read", root))?,
    };
    let own = directory(root, path);
    for entry in entries {
        let entry = entry.map_err(error::file("read", root))?.path();
        let text = fs::read_to_string(entry.join(FILE)).unwrap_or_default();
        // Other programs can have written other text there.
        let said: Value = serde_json::from_str(&text).unwrap_or_default();
        if entry != own && said["device"].as_str().map(Path::new) == Some(socket) {
            let name = entry.file_name().unwrap_or_default().as_bytes();
            let path = URL_SAFE.decode(name).unwrap_or_else(|_| name.to_vec());
            return Ok(Some(String::from_utf8_lossy(&path).into_owned()));
        }
    }
    Ok(None)
}

/// Returns the directory of the record of a path.
fn directory(root: &Path, path: &Path) -> PathBuf {
    root.join(URL_SAFE.encode(path.as_os_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_found_by_their_socket_and_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("direct-volumes");
        // The example of Kata's documents.
        let path = Path::new("/kubelet/kata-test-vol-001/volume001");
        let socket = Path::new("/run/weir/a.vhost");
        assert_eq!(other(&root, path, socket).unwrap(), None);
        for _ in 0..2 {
            add(&root, path, socket, "ext4", &["noatime".to_owned()]).unwrap();
        }
        let file = root.join("L2t1YmVsZXQva2F0YS10ZXN0LXZvbC0wMDEvdm9sdW1lMDAx/mountInfo.json");
        let said: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let expected = json!({
            "volume-type": "spdkvol", "device": "/run/weir/a.vhost", "fstype": "ext4", "metadata": {}, "options": ["noatime"],
        });
        assert_eq!(said, expected);
        assert_eq!(other(&root, path, socket).unwrap(), None);
        let another = Path::new("/another");
        let found = other(&root, another, socket).unwrap();
        assert_eq!(found.as_deref(), path.to_str());
        assert_eq!(other(&root, another, Path::new("/b")).unwrap(), None);
        fs::write(root.join("strange"), "x").unwrap();
        for _ in 0..2 {
            remove(&root, path).unwrap();
            assert_eq!(other(&root, another, socket).unwrap(), None);
        }
    }
}
