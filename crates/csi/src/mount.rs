//! Makes, mounts and grows file systems.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use tonic::Status;

use crate::command::{ask, run};
use crate::error;

/// The file system to make if the request does not name one.
const DEFAULT: &str = "ext4";
/// The exit status of `blkid` if it recognises nothing.
const NOTHING: i32 = 2;

/// Mounts a device. If it is empty, a file system is made first. The file system is then grown to
/// the size of the device.
///
/// A device with another file system, or with other known content, is refused, so that nothing is
/// overwritten.
pub(crate) fn device(
    device: &Path,
    to: &Path,
    kind: &str,
    options: &[String],
) -> Result<(), Status> {
    fs::create_dir_all(to).map_err(error::file("create", to))?;
    // The interface requires that a repeated call succeeds.
    if is_mounted(to)? {
        return Ok(());
    }
    let kind = prepare(device, kind)?;
    let options = options.join(",");
    let mut arguments: Vec<&OsStr> = vec!["-t".as_ref(), kind.as_ref()];
    if !options.is_empty() {
        arguments.extend([OsStr::new("-o"), options.as_ref()]);
    }
    arguments.extend([device.as_os_str(), to.as_os_str()]);
    // The device can have grown while the volume was not mounted.
    run("mount", &arguments)?;
    grow(device, to)
}

/// Returns the file system of a device, or of a file that becomes the disk of a virtual machine. A
/// file system is made if it is empty.
///
/// # Errors
/// Returns an error if there is another file system or other known content, as for [`device`].
pub(crate) fn prepare(device: &Path, kind: &str) -> Result<String, Status> {
    let wanted = if kind.is_empty() { DEFAULT } else { kind };
    match kind_of(device)? {
        None => make(device, wanted).map(|()| wanted.to_owned()),
        Some(there) if kind.is_empty() || there == wanted => Ok(there),
        Some(there) => {
            let said = format!(
                "{} contains {there}, but {wanted} is required",
                device.display()
            );
            Err(Status::failed_precondition(said))
        }
    }
}

/// Returns the content of a device in the words of `blkid`, or `None` if it is empty.
pub(crate) fn kind_of(device: &Path) -> Result<Option<String>, Status> {
    // `blkid` ends with the same status if it cannot read the device, which must not count as
    // empty.
    fs::File::open(device).map_err(error::file("open", device))?;
    let probe = ["-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "value"].map(OsStr::new);
    ask(
        "blkid",
        &[&probe[..], &[device.as_os_str()]].concat(),
        NOTHING,
    )
}

fn make(device: &Path, kind: &str) -> Result<(), Status> {
    let tool = format!("mkfs.{kind}");
    // The caller has checked that the device is empty. Without force, mkfs can ask on the terminal.
    let force = if kind.starts_with("ext") { "-F" } else { "-f" };
    run(&tool, &[force.as_ref(), device.as_os_str()]).map(drop)
}

/// Grows a mounted file system to the size of its device.
pub(crate) fn grow(device: &Path, at: &Path) -> Result<(), Status> {
    // ext4 is grown through its device, XFS and btrfs through the directory at which they are
    // mounted.
    let (at, device) = (at.as_os_str(), device.as_os_str());
    match kind_of(Path::new(device))?.as_deref() {
        Some("ext2" | "ext3" | "ext4") => run("resize2fs", &[device]).map(drop),
        Some("xfs") => run("xfs_growfs", &[at]).map(drop),
        Some("btrfs") => {
            let resize = ["filesystem", "resize", "max"].map(OsStr::new);
            run("btrfs", &[&resize[..], &[at]].concat()).map(drop)
        }
        _ => Ok(()),
    }
}

/// Bind-mounts a directory or a device at another path.
pub(crate) fn bind(from: &Path, to: &Path, read_only: bool) -> Result<(), Status> {
    if is_mounted(to)? {
        return Ok(());
    }
    let parent = to.parent().unwrap_or(to);
    fs::create_dir_all(parent).map_err(error::file("create", parent))?;
    // The target of a bind mount must be of the same kind as the source.
    let made = if from.is_dir() {
        fs::create_dir_all(to)
    } else {
        fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(to)
            .map(drop)
    };
    made.map_err(error::file("create", to))?;
    let bind = ["-o", "bind"].map(OsStr::new);
    run(
        "mount",
        &[&bind[..], &[from.as_os_str(), to.as_os_str()]].concat(),
    )?;
    // The kernel ignores `ro` in the call that makes a bind mount, so that a second call is needed.
    if read_only {
        let again = ["-o", "remount,bind,ro"].map(OsStr::new);
        run("mount", &[&again[..], &[to.as_os_str()]].concat())?;
    }
    Ok(())
}

/// Unmounts everything that is mounted at a path. Succeeds if nothing is.
pub(crate) fn unmount(at: &Path) -> Result<(), Status> {
    // Several file systems can be mounted on top of each other.
    while is_mounted(at)? {
        run("umount", &[at.as_os_str()])?;
    }
    Ok(())
}

/// Unmounts a path and removes it: an empty directory, or the file at which a device was
/// bind-mounted.
pub(crate) fn unmount_and_remove(at: &Path) -> Result<(), Status> {
    unmount(at)?;
    let gone = match at.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir(at),
        Ok(_) => fs::remove_file(at),
        Err(error) => Err(error),
    };
    match gone {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error::file("remove", at)(error))
        }
        _ => Ok(()),
    }
}

/// Returns true if a file system is mounted at a path.
pub(crate) fn is_mounted(at: &Path) -> Result<bool, Status> {
    let table = Path::new("/proc/self/mountinfo");
    let text = fs::read(table).map_err(error::file("read", table))?;
    // The paths in the kernel's table contain no symbolic links.
    let at = at.canonicalize().unwrap_or_else(|_| at.to_owned());
    Ok(text.split(|b| *b == b'\n').any(|line| {
        let mut fields = line.split(|b| *b == b' ');
        fields
            .nth(4)
            .is_some_and(|point| unescaped(point) == at.as_os_str())
    }))
}

/// Decodes a path of the table, in which space, tab, line feed and backslash are escaped as `\040`
/// and so on (proc(5)).
fn unescaped(text: &[u8]) -> OsString {
    let (mut bytes, mut at) = (Vec::with_capacity(text.len()), 0);
    while at < text.len() {
        let digits = text.get(at + 1..at + 4).filter(|_| text[at] == b'\\');
        let code = digits.and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 8).ok());
        bytes.push(code.unwrap_or(text[at]));
        at += if code.is_some() { 4 } else { 1 };
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn paths_of_the_table_are_read_as_they_are_meant() {
        assert_eq!(
            unescaped(b"/a\\040b\\134c\\0"),
            OsStr::from_bytes(b"/a b\\c\\0")
        );
        assert!(is_mounted(Path::new("/proc")).unwrap());
        assert!(!is_mounted(Path::new("/proc/self/no-such")).unwrap());
    }

    #[test]
    fn unmounted_targets_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let (inner, file) = (directory.path().join("d"), directory.path().join("f"));
        fs::create_dir(&inner).unwrap();
        fs::write(&file, "").unwrap();
        for path in [&inner, &file, &file] {
            unmount_and_remove(path).unwrap();
            assert!(!path.exists());
        }
    }
}
