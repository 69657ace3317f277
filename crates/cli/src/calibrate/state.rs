//! The file that keeps what was found, so that a calibration goes on after a break.

use crate::failure::Failure;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use weir_calibrate::Calibration;
use weir_config::trusted::{self, Dir};

/// The bytes of a state file at most: more is something else.
const LARGEST: u64 = 16 << 20;

/// Reads what was found; `None` if there is no such file.
pub(crate) fn load(path: &Path) -> Result<Option<Calibration>, Failure> {
    let text = match read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::file("read", path, &error)),
    };
    let none = |why: &str| {
        let path = path.display();
        Failure::Run(format!("{path} is no result of weir calibrate: {why}"))
    };
    let known: Calibration =
        serde_json::from_str(&text).map_err(|error| none(&error.to_string()))?;
    if known.weir_calibration != Calibration::VERSION {
        return Err(none(&format!(
            "it has version {}, and this program reads {}",
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
        let why = "it is no regular file";
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    }
    let mut text = String::new();
    let read = File::open(path)?.take(LARGEST).read_to_string(&mut text)?;
    if read as u64 == LARGEST {
        let why = "it is larger than any result";
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
