//! The state file, which keeps the results so that a calibration can continue after an
//! interruption.

use crate::failure::Failure;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use weir_config::trusted::{self, Dir};
use weir_lab::calibrate::Calibration;

/// The largest size of a state file in bytes. A larger file is not a state file.
const LARGEST: u64 = 16 << 20;

/// The first part of a default name, which is followed by the name of the target.
const PREFIX: &str = "weir-calibration-";
const SUFFIX: &str = ".json";
/// The longest name of a target in the name of a state file, in bytes.
const NAME_MAX: usize = 100;

/// Returns the default state file of a target in the current directory: the file with its results,
/// or one that does not exist. If targets in different directories have the same name, a number is
/// appended.
///
/// # Errors
/// A file with such a name is not a state file.
pub(super) fn of(target: &str) -> Result<PathBuf, Failure> {
    let name = name(target);
    let names = std::iter::once(name.clone()).chain((2_u32..).map(|n| format!("{name}-{n}")));
    for name in names {
        let path = PathBuf::from(format!("{PREFIX}{name}{SUFFIX}"));
        // The file is free, or it has the results of this target.
        if load(&path)?.is_none_or(|known| known.target.path == target) {
            return Ok(path);
        }
    }
    unreachable!("there are more numbers than files")
}

/// Returns the name of a target in the name of a file: the last part of its path, or the URI of an
/// export without the scheme.
fn name(target: &str) -> String {
    let own = match target.split_once("://") {
        Some((_, rest)) => rest,
        None => target.rsplit('/').next().unwrap_or_default(),
    };
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '.' {
            c
        } else {
            '-'
        }
    };
    let name: String = own.chars().map(plain).take(NAME_MAX).collect();
    name.trim_matches(['-', '.']).to_owned()
}

/// Returns all state files in the current directory that have default names, in sorted order.
///
/// # Errors
/// The directory cannot be listed.
pub(crate) fn all() -> Result<Vec<PathBuf>, Failure> {
    let here = Path::new(".");
    let failed = |error: io::Error| Failure::file("list", here, &error);
    let mut all = Vec::new();
    for entry in fs::read_dir(here).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
            all.push(PathBuf::from(name.as_ref()));
        }
    }
    all.sort_unstable();
    Ok(all)
}

/// Reads results, or returns `None` if the file does not exist.
pub(crate) fn load(path: &Path) -> Result<Option<Calibration>, Failure> {
    let text = match read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::file("read", path, &error)),
    };
    let none = |why: &str| {
        let path = path.display();
        Failure::Run(format!(
            "{path} is not a `weir calibrate` state file: {why}"
        ))
    };
    let known: Calibration =
        serde_json::from_str(&text).map_err(|error| none(&error.to_string()))?;
    // Results of another version can have figures with another meaning.
    if known.weir_calibration != Calibration::VERSION {
        return Err(none(&format!(
            "it has version {}, but this program supports version {}",
            known.weir_calibration,
            Calibration::VERSION
        )));
    }
    match known.invalid_value() {
        Some(what) => Err(none(&what)),
        None => Ok(Some(known)),
    }
}

fn read(path: &Path) -> io::Result<String> {
    // New results replace the file, so it must not be a device or a pipe.
    if !fs::metadata(path)?.is_file() {
        let why = "it is not a regular file";
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    }
    let mut text = String::new();
    // A file could grow while it is read, so the limit is on the bytes that are read and not on the
    // size.
    let read = File::open(path)?.take(LARGEST).read_to_string(&mut text)?;
    if read as u64 == LARGEST {
        let why = "it is too large";
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(text)
}

/// Checks that results can be written. A temporary file is created and removed, and nothing else
/// changes.
pub(super) fn writable(path: &Path) -> Result<(), Failure> {
    let mut probe = OsString::from(".");
    let written = place(path).and_then(|(directory, name)| {
        probe.push(name);
        // The name begins with a dot, so that a listing does not show the temporary file.
        probe.push(".weir-new");
        // A temporary file can remain of an earlier attempt.
        directory.remove(&probe)?;
        directory.create_new(&probe, MODE)?;
        directory.remove(&probe)
    });
    written.map_err(|error| Failure::file("write", path, &error))
}

/// The permission bits of a state file, before the umask is applied.
const MODE: u32 = 0o666;

/// Returns the open directory and the name of a file. While the directory is open, nobody can
/// redirect writes to another one.
fn place(path: &Path) -> io::Result<(Dir, OsString)> {
    let path = std::path::absolute(path)?;
    let (directory, name) = trusted::split(&path)?;
    Ok((Dir::open(directory)?, name.to_owned()))
}

/// Writes results. If the write is interrupted, the file has either the old or the new content.
pub(super) fn save(path: &Path, known: &Calibration) -> Result<(), Failure> {
    let written = place(path)
        .and_then(|(directory, name)| directory.replace(&name, text(known).as_bytes(), MODE));
    written.map_err(|error| Failure::file("write", path, &error))
}

/// Returns results as JSON.
pub(super) fn text(known: &Calibration) -> String {
    // The results consist of numbers, texts and lists, which can always be converted.
    serde_json::to_string_pretty(known).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn targets_have_names_that_are_valid_file_names() {
        for (target, expected) in [
            ("/dev/nvme0n1", "nvme0n1"),
            ("/srv/weir/my disk.img", "my-disk.img"),
            (
                "nbd+unix:///disk?socket=/run/n.sock",
                "disk-socket--run-n.sock",
            ),
            ("nbd://[::1]:10809/../a", "1--10809-..-a"),
            ("/dev/..", ""),
        ] {
            assert_eq!(name(target), expected, "{target}");
        }
    }
}
