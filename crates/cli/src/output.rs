//! The output of commands: results on standard output and in files, and messages on standard error.
//!
//! [`OutputFiles`] opens all files before a run, so that a run never ends with results that cannot
//! be written. If writing fails nevertheless, for example because the disk is full, an existing
//! file keeps its content.

use crate::failure::Failure;
use crate::leftovers::{Leftover, Leftovers};
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process;
use weir_lab::report::NO_TERMINAL;
use weir_manage::api::log;

/// Writes results to standard output.
///
/// # Errors
/// Returns [`Failure::Unread`] if the reader has closed the pipe.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::Unread,
        _ => Failure::Run(format!("cannot write to standard output: {error}")),
    })
}

/// Prints a message for the user that is not a result, on standard error.
pub(crate) fn print_message(text: &str) {
    log::print(&format!("{text}\n"));
}

/// Returns the width of the terminal to which results go, in columns: its own width, or the value
/// of `COLUMNS`. The width for a file or a pipe is unlimited, so that programs receive the complete
/// text.
pub(crate) fn width() -> usize {
    let (stdout, terminal) = (io::stdout(), is_terminal());
    let size = terminal.then(|| rustix::termios::tcgetwinsize(&stdout).ok());
    match size.flatten().map(|s| usize::from(s.ws_col)) {
        // Some terminals report a width of 0 or another meaningless value.
        Some(columns) if (20..=1000).contains(&columns) => columns,
        _ => weir_lab::report::terminal_width().unwrap_or(if terminal { 80 } else { NO_TERMINAL }),
    }
}

/// Returns true if results go to a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// The destination of a run's results, which is opened before the run.
#[derive(Debug)]
pub(crate) enum OutputTarget {
    /// Standard output, which is selected by `-`.
    Standard,
    /// A file that is written after the run.
    File(OutputFile),
}

/// A file that is open but not written yet. If it did not exist before and nothing is written, it
/// is removed.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    file: File,
    /// The new file, as long as nothing is written to it.
    fresh: Option<Leftover>,
    /// The path without links of a regular file that existed before. The results replace this file.
    existing: Option<PathBuf>,
    leftovers: Leftovers,
}

/// The files to which a command writes its results, in addition to its tables: `N` files of lines,
/// and a page.
#[derive(Debug)]
pub(crate) struct OutputFiles<const N: usize> {
    lines: [Option<OutputTarget>; N],
    page: Option<OutputFile>,
}

/// Refuses a page on standard output.
pub(crate) fn check_page(html: Option<&Path>) -> Result<(), Failure> {
    if html.is_some_and(|path| path.as_os_str() == "-") {
        let reason = "--html cannot write to standard output; write a file name";
        return Err(Failure::Usage(reason.into()));
    }
    Ok(())
}

/// Refuses two options that write to the same file, or both to standard output. Each output is an
/// option with its value. Results in a device or a pipe follow each other, so they are accepted.
pub(crate) fn check_apart<const N: usize>(
    outputs: [(&str, Option<&Path>); N],
) -> Result<(), Failure> {
    let given = outputs
        .into_iter()
        .filter_map(|(option, path)| Some((option, path?)));
    let given: Vec<_> = given.collect();
    for (at, (option, path)) in given.iter().enumerate() {
        let Some((first, _)) = given[..at]
            .iter()
            .find(|(_, earlier)| is_same(earlier, path))
        else {
            continue;
        };
        let (place, help) = if path.as_os_str() == "-" {
            ("standard output".to_owned(), "a file name")
        } else {
            (path.display().to_string(), "another file name")
        };
        return Err(Failure::Usage(format!(
            "{first} and {option} cannot both write to {place}; write {help} for one of them"
        )));
    }
    Ok(())
}

/// Returns true if two paths lead to the same file, or to the same place for a new file, or if both
/// select standard output.
fn is_same(one: &Path, other: &Path) -> bool {
    if one.as_os_str() == "-" || other.as_os_str() == "-" {
        return one == other;
    }
    let new = |path: &Path| {
        let directory = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let directory = fs::canonicalize(directory.unwrap_or_else(|| Path::new("."))).ok()?;
        Some(directory.join(path.file_name()?))
    };
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => {
            one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino())
        }
        (Err(_), Err(_)) => new(one).is_some_and(|one| new(other) == Some(one)),
        _ => false,
    }
}

impl<const N: usize> OutputFiles<N> {
    /// Opens all files. It must be called before the first run.
    pub(crate) fn open(
        lines: [Option<&Path>; N],
        html: Option<&Path>,
        leftovers: &Leftovers,
    ) -> Result<Self, Failure> {
        let mut opened = [const { None }; N];
        for (opened, path) in opened.iter_mut().zip(lines) {
            *opened = path
                .map(|path| OutputTarget::open(path, leftovers))
                .transpose()?;
        }
        let page = html
            .map(|path| OutputFile::open(path, leftovers))
            .transpose()?;
        Ok(Self {
            lines: opened,
            page,
        })
    }

    /// Returns these files with `page` as the file for the page.
    pub(crate) fn with_page(self, page: OutputFile) -> Self {
        Self {
            page: Some(page),
            ..self
        }
    }

    /// Returns true if standard output has lines of results, so that no tables may be printed
    /// there.
    fn is_quiet(&self) -> bool {
        self.lines.iter().flatten().any(OutputTarget::is_standard)
    }

    /// Prints a line in front of the tables, or as a message if no tables are printed.
    pub(crate) fn announce(&self, line: Option<String>) -> Result<(), Failure> {
        match line {
            // Standard output has only lines of results then, so the message goes to standard
            // error.
            Some(line) if self.is_quiet() => print_message(&line),
            Some(line) => print(&(line + "\n\n"))?,
            None => {}
        }
        Ok(())
    }

    /// Writes all files, and prints the tables unless lines of results go to standard output. If
    /// one of them fails, the others are written nevertheless.
    ///
    /// # Errors
    /// Returns all failures as one.
    pub(crate) fn write(
        self,
        page: impl FnOnce() -> String,
        lines: [&dyn Fn() -> String; N],
        tables: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let quiet = self.is_quiet();
        // The page is written first, so it exists even if the reader closes standard output.
        let written = self.page.map(|draft| draft.write(&page())).transpose();
        let (path, mut result) = match written {
            Ok(path) => (path, Ok(())),
            Err(failure) => (None, Err(failure)),
        };
        for (output, lines) in self.lines.into_iter().zip(lines) {
            if let Some(output) = output {
                result = Failure::both(result, output.write(&lines()));
            }
        }
        if !quiet {
            result = Failure::both(result, print(&tables()));
        }
        // The path is printed last, so that it is not lost above a long table.
        if let Some(path) = path {
            print_message(&format!("wrote {}", path.display()));
        }
        result
    }
}

impl OutputTarget {
    /// Opens the destination that an option names. An existing file keeps its content until there
    /// are results.
    pub(crate) fn open(path: &Path, leftovers: &Leftovers) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            return Ok(Self::Standard);
        }
        OutputFile::open(path, leftovers).map(Self::File)
    }

    /// Returns true for standard output.
    pub(crate) fn is_standard(&self) -> bool {
        matches!(self, Self::Standard)
    }

    /// Writes the results to the destination.
    pub(crate) fn write(self, text: &str) -> Result<(), Failure> {
        match self {
            Self::Standard => print(text),
            Self::File(draft) => draft.write(text).map(|_| ()),
        }
    }
}

impl OutputFile {
    /// Opens a file for writing. An existing file keeps its content until there are results.
    pub(crate) fn open(path: &Path, leftovers: &Leftovers) -> Result<Self, Failure> {
        let mut options = OpenOptions::new();
        options.write(true);
        let failed = |error: &io::Error| Failure::file("write", path, error);
        let make = |path: &Path| options.clone().create_new(true).open(path);
        let (file, fresh) = match leftovers.make(path, make) {
            Ok((file, leftover)) => (file, Some(leftover)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                (options.open(path).map_err(|e| failed(&e))?, None)
            }
            Err(e) => return Err(failed(&e)),
        };
        let is_regular = file.metadata().is_ok_and(|data| data.is_file());
        let is_replaced = fresh.is_none() && is_regular;
        // A file that has no path any more, for example in /dev/stdout, is overwritten.
        let existing = is_replaced.then(|| fs::canonicalize(path).ok()).flatten();
        Ok(Self {
            path: path.to_owned(),
            file,
            fresh,
            existing,
            leftovers: leftovers.clone(),
        })
    }

    /// Writes the results, and returns the path of the file. An existing file keeps its content if
    /// that fails.
    pub(crate) fn write(mut self, text: &str) -> Result<PathBuf, Failure> {
        let written = match &self.existing {
            Some(existing) => match self.replace(existing, text) {
                // The directory cannot be changed, or the file is a mount point.
                Err(e) if is_fixed(&e) => self.overwrite(text),
                replaced => replaced,
            },
            None => self.overwrite(text),
        };
        written.map_err(|e| Failure::file("write", &self.path, &e))?;
        // The file has results now, so it must stay.
        if let Some(fresh) = self.fresh.take() {
            fresh.keep();
        }
        Ok(self.path)
    }

    /// Writes the results to a new file with the permissions and the owner of the existing one, and
    /// replaces the existing file when the new one is complete.
    fn replace(&self, existing: &Path, text: &str) -> io::Result<()> {
        let old = self.file.metadata()?;
        // Other names and open descriptors would still lead to the old content.
        if old.nlink() > 1 || is_open(&old) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        // The name is short, because a name can be as long as the file system permits.
        let new = existing.with_file_name(format!(".weir-new.{}", process::id()));
        // A killed process with the same number can have left the file behind.
        match fs::remove_file(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        // The file is private until it has the owner and the permissions of the old one.
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let (mut file, leftover) = self.leftovers.make(&new, |new| options.open(new))?;
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
            fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
        file.set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
        file.write_all(text.as_bytes())?;
        // Some file systems report only here that there is no room. After a crash, the file has
        // either the old or the new content.
        file.sync_all()?;
        fs::rename(&new, existing)?;
        leftover.keep();
        Ok(())
    }

    /// Writes the results to the open file.
    fn overwrite(&mut self, text: &str) -> io::Result<()> {
        // Only regular files can be truncated. Pipes and devices return an error.
        if self.file.metadata().is_ok_and(|data| data.is_file()) {
            self.file.set_len(0)?;
        }
        self.file.write_all(text.as_bytes())
    }
}

/// Returns true if a file cannot be replaced although it can be written.
fn is_fixed(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(
        error.kind(),
        PermissionDenied | ReadOnlyFilesystem | ResourceBusy
    )
}

/// Returns true if a descriptor that this process has inherited, such as its standard output, leads
/// to the file.
fn is_open(file: &Metadata) -> bool {
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten();
    let same = open.flatten().filter(|entry| {
        let open = fs::metadata(entry.path());
        open.is_ok_and(|open| (open.dev(), open.ino()) == (file.dev(), file.ino()))
    });
    // One of them is the descriptor with which the file was opened for the results.
    same.count() > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn an_existing_file_keeps_its_permissions_links_and_names() {
        let directory = std::env::temp_dir().join(format!("weir-output-{}", process::id()));
        fs::create_dir(&directory).unwrap();
        let [file, link, name] = ["file", "link", "name"].map(|name| directory.join(name));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        let write = |path: &Path, text| {
            let output = OutputFile::open(path, &Leftovers::default()).unwrap();
            output.write(text).unwrap();
        };
        let inode = || fs::metadata(&file).unwrap().ino();
        let before = inode();
        write(&link, "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o640);
        assert_ne!(inode(), before);
        // A second name or an open descriptor would keep the old content, so the file stays.
        fs::hard_link(&file, &name).unwrap();
        write(&file, "both");
        assert_eq!(fs::read_to_string(&name).unwrap(), "both");
        fs::remove_file(&name).unwrap();
        let open = File::open(&file).unwrap();
        write(&file, "open");
        assert_eq!(io::read_to_string(open).unwrap(), "open");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
        fs::remove_dir_all(&directory).unwrap();
    }
}
