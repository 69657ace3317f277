//! The file that keeps what was found, so that a calibration goes on after a break.

use crate::failure::Failure;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use weir_config::trusted::{self, Dir};
use weir_lab::calibrate::Calibration;

/// The bytes of a state file at most: more is something else.
const LARGEST: u64 = 16 << 20;

/// Names of state files begin and end with these where none is given; the target's name is between them.
const PREFIX: &str = "weir-calibration-";
const SUFFIX: &str = ".json";
/// The longest name of a target in that of a state file, bytes.
const NAME_MAX: usize = 100;

/// The state file of a target in this directory: the one that has its results, or else one that does not exist. Targets with the same
/// name in different directories have a number behind it.
///
/// # Errors
/// A file of such a name is not a result.
pub(super) fn of(target: &str) -> Result<PathBuf, Failure> {
    let name = name(target);
    let names = std::iter::once(name.clone()).chain((2_u32..).map(|n| format!("{name}-{n}")));
    for name in names {
        let path = PathBuf::from(format!("{PREFIX}{name}{SUFFIX}"));
        if load(&path)?.is_none_or(|known| known.target.path == target) {
            return Ok(path);
        }
    }
    unreachable!("there are more numbers than files")
}

/// What a target is called in the name of a file: the end of its path, or of an export the URI without its scheme.
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

/// The state files in this directory that have no name of their own choosing, sorted.
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

/// Reads what was found; `None` if there is no such file.
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
    if known.weir_calibration != Calibration::VERSION {
        return Err(none(&format!(
            "it has version {}, but this program supports version {}",
            known.weir_calibration,
            Calibration::VERSION
        )));
    }
    match known.nonsense() {
        Some(what) => Err(none(&what)),
        None => Ok(Some(known)),
    }
}

fn read(path: &Path) -> io::Result<String> {
    // What is written takes the place of what was there, which must be no device and no pipe.
    if !fs::metadata(path)?.is_file() {
        let why = "it is not a regular file";
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    }
    let mut text = String::new();
    let read = File::open(path)?.take(LARGEST).read_to_string(&mut text)?;
    if read as u64 == LARGEST {
        let why = "it is too large";
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(text)
}

/// Whether results can be written there; nothing is changed.
pub(super) fn writable(path: &Path) -> Result<(), Failure> {
    let mut probe = OsString::from(".");
    let written = place(path).and_then(|(directory, name)| {
        probe.push(name);
        probe.push(".weir-new");
        directory.remove(&probe)?;
        directory.create_new(&probe, MODE)?;
        directory.remove(&probe)
    });
    written.map_err(|error| Failure::file("write", path, &error))
}

/// Permission bits of a result, less those of the umask.
const MODE: u32 = 0o666;

/// The directory of a file, which is held open: nobody leads what is written elsewhere.
fn place(path: &Path) -> io::Result<(Dir, OsString)> {
    let path = std::path::absolute(path)?;
    let (directory, name) = trusted::split(&path)?;
    Ok((Dir::open(directory)?, name.to_owned()))
}

/// Writes what was found: a break at any time leaves the old text or the new one.
pub(super) fn save(path: &Path, known: &Calibration) -> Result<(), Failure> {
    let written = place(path)
        .and_then(|(directory, name)| directory.replace(&name, text(known).as_bytes(), MODE));
    written.map_err(|error| Failure::file("write", path, &error))
}

/// What was found as JSON.
pub(super) fn text(known: &Calibration) -> String {
    // Numbers, texts and lists of them: nothing that JSON has not.
    serde_json::to_string_pretty(known).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn names_of_targets_are_names_of_files() {
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
