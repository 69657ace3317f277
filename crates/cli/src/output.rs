//! The output of commands: results on standard output and in files, and messages on standard error.
//!
//! [`OutputFiles`] opens all files before a run, so that a run never ends with results that cannot
//! be written.

use crate::failure::Failure;
use crate::leftovers::{Leftover, Leftovers};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
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

    /// Writes all files, and prints the tables unless lines of results go to standard output.
    pub(crate) fn write(
        self,
        page: impl FnOnce() -> String,
        lines: [&dyn Fn() -> String; N],
        tables: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let quiet = self.is_quiet();
        // The page is written first, so it exists even if the reader closes standard output.
        let written = self.page.map(|draft| draft.write(&page())).transpose()?;
        for (output, lines) in self.lines.into_iter().zip(lines) {
            if let Some(output) = output {
                output.write(&lines())?;
            }
        }
        if !quiet {
            print(&tables())?;
        }
        // The path is printed last, so that it is not lost above a long table.
        if let Some(path) = written {
            print_message(&format!("wrote {}", path.display()));
        }
        Ok(())
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
        Ok(Self {
            path: path.to_owned(),
            file,
            fresh,
        })
    }

    /// Writes the results, and returns the path of the file.
    pub(crate) fn write(mut self, text: &str) -> Result<PathBuf, Failure> {
        // Only regular files can be truncated. Pipes and devices return an error.
        let cut = match self.file.metadata() {
            Ok(data) if data.is_file() => self.file.set_len(0),
            _ => Ok(()),
        };
        let written = cut.and_then(|()| self.file.write_all(text.as_bytes()));
        written.map_err(|e| Failure::file("write", &self.path, &e))?;
        // The file has results now, so it must stay.
        if let Some(fresh) = self.fresh.take() {
            fresh.keep();
        }
        Ok(self.path)
    }
}
