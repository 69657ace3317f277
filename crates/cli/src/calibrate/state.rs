//! The file that keeps what was found, so that a calibration goes on after a break.

use crate::failure::Failure;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use weir_calibrate::Calibration;

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
    let draft = draft(path);
    let made = File::create(&draft).and_then(|_| fs::remove_file(&draft));
    made.map_err(|error| Failure::file("write", path, &error))
}

/// The file beside it that is written first.
fn draft(path: &Path) -> PathBuf {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    PathBuf::from(draft)
}

/// Writes what was found: a break at any time leaves the old text or the new one.
pub(super) fn save(path: &Path, known: &Calibration) -> Result<(), Failure> {
    let failed = |error: &io::Error| Failure::file("write", path, error);
    let draft = draft(path);
    let write = || {
        let mut file = File::create(&draft)?;
        file.write_all(text(known).as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&draft);
        failed(&error)
    })
}

/// What was found as JSON.
pub(super) fn text(known: &Calibration) -> String {
    // Numbers, texts and lists of them: nothing that JSON has not.
    serde_json::to_string_pretty(known).unwrap_or_default() + "\n"
}
