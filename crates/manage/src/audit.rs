//! The audit file: one line of JSON for each change and each refused change. It outlives the server
//! and is bounded in size.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use weir_config::trusted::{Dir, Untrusted};
use weir_config::{Problem, Server, Volume};

use crate::api::Change;
use crate::error::RequestRefusal;

/// The maximum size of a line in bytes. Two lines fit into the smallest file.
const LINE_MAX: usize = 16 << 10;
/// The maximum number of characters of a text in a line.
const TEXT_MAX: usize = 1000;

/// The result of a request for a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AuditResult {
    /// The request is an upgrade in place, which begins. If it fails, a refusal follows.
    Begun,
    Made,
    /// The request was permitted, but nothing differed from the state before.
    Unchanged,
    Refused,
}

/// A line of the audit file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AuditRecord {
    /// The time in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// The client, as in [`Change::by`].
    pub(crate) by: String,
    /// The request: the edited keys with their values, `undo`, `reload`, or `upgrade`.
    pub(crate) request: String,
    pub(crate) result: AuditResult,
    /// The reason of a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// The change, if one was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) change: Option<Change>,
}

/// The audit file, open for appending.
#[derive(Debug)]
pub(crate) struct AuditLog {
    path: PathBuf,
    directory: Dir,
    name: OsString,
    file: File,
    /// The size of the file in bytes.
    size: u64,
    /// The size in bytes at which the file is renamed.
    limit: u64,
    /// A line that could not be written. No change is made until it is written.
    unwritten: Option<Vec<u8>>,
}

impl AuditLog {
    /// Opens the file, or creates it. Returns it with the changes that it and its predecessor
    /// contain, oldest first. `size` is the maximum size of both files in bytes.
    ///
    /// # Errors
    /// Returns the problem and what to do.
    pub(crate) fn open(path: &Path, size: u64) -> Result<(Self, Vec<Change>), String> {
        Self::opened(path, size).map_err(|error| cannot_open(path, &error))
    }

    fn opened(path: &Path, size: u64) -> io::Result<(Self, Vec<Change>)> {
        let (directory, name) = Dir::of_file(path)?;
        let mut changes = Vec::new();
        match directory.read(&earlier(&name)) {
            Ok(file) => changes = read(file)?.1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if let Err(error) = directory.metadata(&name)
            && error.kind() == io::ErrorKind::NotFound
        {
            check_directory(&directory)?;
        }
        let file = directory.create(&name, 0o600)?;
        let (is_torn, newer) = read(&file)?;
        changes.extend(newer);
        let mut log = Self {
            path: path.to_owned(),
            size: file.metadata()?.len(),
            directory,
            name,
            file,
            limit: size / 2,
            unwritten: None,
        };
        // After a crash, the last line can be incomplete, and the next one begins after it.
        if is_torn {
            log.append(b"\n")?;
        }
        Ok((log, changes))
    }

    /// Checks that all earlier lines are written, so that a full disk hides at most one change.
    ///
    /// # Errors
    /// Returns 507 if the file cannot be written.
    pub(crate) fn check(&mut self) -> Result<(), RequestRefusal> {
        let Some(line) = self.unwritten.take() else {
            return Ok(());
        };
        self.append(&line).map_err(|error| {
            self.unwritten = Some(line);
            let (path, error) = (self.path.display(), weir_config::os_error::message(&error));
            let why = format!(
                "cannot write {path}: {error}; make room for it, or remove audit_file from [manage] and restart the server"
            );
            RequestRefusal::new(StatusCode::INSUFFICIENT_STORAGE, why)
        })
    }

    /// Appends a record durably. If that fails, the record is kept for the next
    /// [check](Self::check).
    pub(crate) fn record(&mut self, record: AuditRecord) {
        let line = line(record);
        if let Err(error) = self.append(&line) {
            let (path, error) = (self.path.display(), weir_config::os_error::message(&error));
            tracing::error!(%path, error, "the server cannot write the audit file and refuses further changes");
            self.unwritten = Some(line);
        }
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if self.size > 0 && self.size + length > self.limit {
            self.begin_again()?;
        }
        self.file.write_all_at(line, self.size)?;
        self.file.sync_data()?;
        // After an error, the next line overwrites what was written of this one.
        self.size += length;
        Ok(())
    }

    /// Renames the file to that of its predecessor, and begins a new one.
    fn begin_again(&mut self) -> io::Result<()> {
        let directory = &self.directory;
        rustix::fs::renameat(directory, &self.name, directory, earlier(&self.name))?;
        self.file = directory.create_new(&self.name, 0o600)?;
        self.size = 0;
        directory.sync()
    }
}

fn cannot_open(path: &Path, error: &io::Error) -> String {
    let (path, error) = (path.display(), weir_config::os_error::message(error));
    format!(
        "manage.audit_file: cannot open {path}: {error}; use a file in a directory of the server's user"
    )
}

/// Checks whether the audit file could be opened, without creating it.
///
/// # Errors
/// Returns the error that [`AuditLog::open`] would return for this user.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    let checked = Dir::of_file(path).and_then(|(directory, name)| {
        match directory.read(&earlier(&name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        match directory.read(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => check_directory(&directory),
            found => found.map(drop),
        }
    });
    checked.map_err(|error| cannot_open(path, &error))
}

/// Checks that a file that this process creates in a directory could be opened again. In a
/// directory that several users can change, only the files of the directory's owner can be.
fn check_directory(directory: &Dir) -> io::Result<()> {
    let (owner, expected) = (directory.owner().0, rustix::process::geteuid().as_raw());
    if directory.is_trusted() || owner == expected {
        return Ok(());
    }
    let path = directory.path().to_owned();
    Err(match owner {
        0 => Untrusted::Shared(path).into(),
        owner => Untrusted::Owner {
            path,
            owner,
            expected,
        }
        .into(),
    })
}

/// Returns the problem of each of these volumes whose storage is the audit file or its predecessor,
/// which the server overwrites. Files that exist are compared by their identity as well.
pub(crate) fn conflicts<'a>(
    config: &Server,
    volumes: impl Iterator<Item = &'a Volume>,
) -> Vec<Problem> {
    let Some(audit) = &config.manage.audit_file else {
        return Vec::new();
    };
    let own = [audit.clone(), PathBuf::from(earlier(audit))];
    let own = own.map(|path| (resolved(&path), identity(&path)));
    let problem = |volume: &'a Volume| {
        let path = volume.path()?;
        let (resolved, identity) = (resolved(path), identity(path));
        let is_own = |(path, number): &(PathBuf, Option<(u64, u64)>)| {
            *path == resolved || number.is_some() && *number == identity
        };
        let what = format!("{} belongs to manage.audit_file", path.display());
        let help = "use a different file; the server would overwrite the volume's data";
        own.iter().any(is_own).then(|| Problem {
            help: Some(help.to_owned()),
            ..config.storage_problem(volume, what)
        })
    };
    volumes.filter_map(problem).collect()
}

/// Returns a path without links, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let at = || {
        Some(
            fs::canonicalize(path.parent()?)
                .ok()?
                .join(path.file_name()?),
        )
    };
    let whole = fs::canonicalize(path).ok();
    whole.or_else(at).unwrap_or_else(|| path.to_owned())
}

/// Returns the device and the number of a file, if it exists.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Returns the path of the predecessor of an audit file.
pub(crate) fn earlier(path: impl Into<OsString>) -> OsString {
    let mut path = path.into();
    path.push(".1");
    path
}

/// Reads the changes in a file, oldest first, and whether its last line is incomplete. Lines that
/// are not readable are skipped.
fn read(mut file: impl io::Read) -> io::Result<(bool, Vec<Change>)> {
    let mut bytes = Vec::new();
    file.by_ref().read_to_end(&mut bytes)?;
    let records = bytes.split(|byte| *byte == b'\n').filter_map(|line| {
        let record: AuditRecord = serde_json::from_slice(line).ok()?;
        record.change
    });
    let is_torn = bytes.last().is_some_and(|last| *last != b'\n');
    Ok((is_torn, records.collect()))
}

/// Returns a record as a line of at most [`LINE_MAX`] bytes. Longer texts and lists are cut.
fn line(mut record: AuditRecord) -> Vec<u8> {
    let cut = |text: &mut String| {
        if let Some((at, _)) = text.char_indices().nth(TEXT_MAX) {
            text.truncate(at);
            text.push('…');
        }
    };
    let lines = record
        .change
        .iter_mut()
        .flat_map(|change| &mut change.lines);
    lines
        .chain([&mut record.request])
        .chain(&mut record.error)
        .for_each(cut);
    loop {
        // Serialising strings and numbers cannot fail.
        let mut line = serde_json::to_vec(&record).unwrap_or_default();
        let lines = record.change.iter_mut().map(|change| &mut change.lines);
        match lines.into_iter().find(|lines| lines.len() > 1) {
            Some(lines) if line.len() >= LINE_MAX => {
                lines.truncate(lines.len() / 2);
                lines.push("and more, which the log of the server lists".to_owned());
            }
            _ => {
                line.push(b'\n');
                return line;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, lines: usize) -> AuditRecord {
        let change = Change {
            number,
            lines: vec!["x".repeat(100); lines],
            ..Change::default()
        };
        AuditRecord {
            at_ms: number,
            by: "uid 0 pid 1".to_owned(),
            request: "volume.alpha.min = \"1MB/s\"".to_owned(),
            result: AuditResult::Made,
            error: None,
            change: Some(change),
        }
    }

    #[test]
    fn the_last_changes_survive_and_both_files_are_bounded() {
        let base = std::env::temp_dir().join(format!("weir-audit-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let path = base.join("audit.jsonl");
        let (mut log, none) = AuditLog::open(&path, 64 << 10).unwrap();
        assert!(none.is_empty());
        for number in 1..=2000 {
            log.record(record(number, (number % 300) as usize));
        }
        assert!(log.unwritten.is_none());
        let size = |path: &Path| fs::metadata(path).unwrap().len();
        let predecessor = base.join("audit.jsonl.1");
        assert!(size(&path) + size(&predecessor) <= 64 << 10);
        let (_, changes) = AuditLog::open(&path, 64 << 10).unwrap();
        let numbers: Vec<u64> = changes.iter().map(|change| change.number).collect();
        assert!(numbers.len() > 2, "{numbers:?}");
        assert!(
            numbers.is_sorted() && numbers.last() == Some(&2000),
            "{numbers:?}"
        );
        // A line that a crash has cut does not spoil the next one.
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 10]).unwrap();
        let (mut log, cut) = AuditLog::open(&path, 64 << 10).unwrap();
        assert_eq!(cut.len(), changes.len() - 1);
        log.record(record(2001, 1));
        let (_, changes) = AuditLog::open(&path, 64 << 10).unwrap();
        assert_eq!(changes.last().unwrap().number, 2001);
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn no_change_is_made_while_a_line_cannot_be_written() {
        let base = std::env::temp_dir().join(format!("weir-audit-full-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let path = base.join("audit.jsonl");
        let (mut log, _) = AuditLog::open(&path, 64 << 10).unwrap();
        // Every write to this device fails as on a full disk (full(4)).
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let file = std::mem::replace(&mut log.file, full.unwrap());
        log.check().unwrap();
        log.record(record(1, 1));
        let refused = log.check().unwrap_err();
        assert_eq!(refused.status, StatusCode::INSUFFICIENT_STORAGE);
        assert!(
            refused.refusal.error.contains("No space left on device"),
            "{refused:?}"
        );
        log.file = file;
        log.check().unwrap();
        let (_, changes) = AuditLog::open(&path, 64 << 10).unwrap();
        assert_eq!(changes.len(), 1, "the change before is not lost");
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn a_file_that_could_not_be_opened_again_is_not_created() {
        // Only root can give a directory to another user.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let base = std::env::temp_dir().join(format!("weir-audit-other-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        std::os::unix::fs::chown(&base, Some(65_534), None).unwrap();
        let path = base.join("audit.jsonl");
        let refused = AuditLog::open(&path, 64 << 10).unwrap_err();
        assert!(refused.contains("belongs to user 65534"), "{refused}");
        assert_eq!(check(&path).unwrap_err(), refused);
        assert!(!path.exists());
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn no_volume_can_be_in_the_audit_file() {
        let base = std::env::temp_dir().join(format!("weir-audit-same-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let at = |name: &str| base.join(name).display().to_string();
        std::os::unix::fs::symlink(&base, at("link")).unwrap();
        fs::write(at("audit"), "").unwrap();
        fs::hard_link(at("audit"), at("second")).unwrap();
        for (file, is_own) in [
            ("audit", true),
            ("audit.1", true),
            ("link/audit", true),
            ("link/audit.1", true),
            ("second", true),
            ("audit.2", false),
        ] {
            let text = format!(
                "listen.nbd = [\"127.0.0.1:0\"]\nmanage = {{ socket = \"{}\", audit_file = \"{}\" }}\n[drive.d]\n[volume.v]\ndrive = \"d\"\nfile = \"{}\"\n",
                at("m.sock"),
                at("audit"),
                at(file)
            );
            let config = weir_config::parse("", &text).unwrap();
            let keys: Vec<_> = conflicts(&config, config.volumes.iter())
                .into_iter()
                .map(|problem| problem.key)
                .collect();
            let expected: &[&str] = if is_own { &["volume.v.file"] } else { &[] };
            assert_eq!(keys, expected, "{file}");
        }
        fs::remove_dir_all(base).unwrap();
    }
}
