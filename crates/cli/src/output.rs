//! Where results go.

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
/// [`Failure::Unread`] when nobody reads them any more.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::Unread,
        _ => Failure::Run(format!("cannot write to standard output: {error}")),
    })
}

/// Tells the user something that is no result.
pub(crate) fn tell(text: &str) {
    log::print(&format!("{text}\n"));
}

/// Columns of the terminal that results go to: its own width, or what `COLUMNS` says. What goes to a file or into a pipe has no bound,
/// so that nothing that a program looks for is left out or cut.
pub(crate) fn width() -> usize {
    let (stdout, terminal) = (io::stdout(), is_terminal());
    let size = terminal.then(|| rustix::termios::tcgetwinsize(&stdout).ok());
    match size.flatten().map(|s| usize::from(s.ws_col)) {
        Some(columns) if (20..=1000).contains(&columns) => columns,
        _ => weir_lab::report::terminal_width().unwrap_or(if terminal { 80 } else { NO_TERMINAL }),
    }
}

/// Whether results go to a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Where a run's results are to go: found to be writable before the run.
#[derive(Debug)]
pub(crate) enum Output {
    /// Standard output: `-`.
    Standard,
    /// A file.
    File(Draft),
}

/// A file that is not written yet. If it did not exist before and nothing is written, it goes again.
#[derive(Debug)]
pub(crate) struct Draft {
    path: PathBuf,
    file: File,
    /// Set while the file is there for nothing.
    fresh: Option<Leftover>,
}

/// The files to which a command writes its results, next to its tables: `N` of lines, and a page.
#[derive(Debug)]
pub(crate) struct Files<const N: usize> {
    lines: [Option<Output>; N],
    page: Option<Draft>,
}

/// Refuses a page on standard output.
pub(crate) fn check_page(html: Option<&Path>) -> Result<(), Failure> {
    if html.is_some_and(|path| path.as_os_str() == "-") {
        let reason = "--html cannot write to standard output; write a file name";
        return Err(Failure::Usage(reason.into()));
    }
    Ok(())
}

impl<const N: usize> Files<N> {
    /// Opens everything before the first run.
    pub(crate) fn open(
        lines: [Option<&Path>; N],
        html: Option<&Path>,
        leftovers: &Leftovers,
    ) -> Result<Self, Failure> {
        let mut opened = [const { None }; N];
        for (opened, path) in opened.iter_mut().zip(lines) {
            *opened = path.map(|path| Output::open(path, leftovers)).transpose()?;
        }
        let page = html.map(|path| Draft::open(path, leftovers)).transpose()?;
        Ok(Self {
            lines: opened,
            page,
        })
    }

    /// The same files, with this one for the page.
    pub(crate) fn with_page(self, page: Draft) -> Self {
        Self {
            page: Some(page),
            ..self
        }
    }

    /// Whether something else than the tables goes to standard output.
    fn is_quiet(&self) -> bool {
        self.lines.iter().flatten().any(Output::is_standard)
    }

    /// Says something before the tables, if there is something to say.
    pub(crate) fn announce(&self, line: Option<String>) -> Result<(), Failure> {
        match line {
            Some(line) if self.is_quiet() => tell(&line),
            Some(line) => print(&(line + "\n\n"))?,
            None => {}
        }
        Ok(())
    }

    /// Writes everything, and prints the tables unless something else goes to standard output.
    pub(crate) fn write(
        self,
        page: impl FnOnce() -> String,
        lines: [&dyn Fn() -> String; N],
        tables: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let quiet = self.is_quiet();
        let written = self.page.map(|draft| draft.write(&page())).transpose()?;
        for (output, lines) in self.lines.into_iter().zip(lines) {
            if let Some(output) = output {
                output.write(&lines())?;
            }
        }
        if !quiet {
            print(&tables())?;
        }
        if let Some(path) = written {
            tell(&format!("wrote {}", path.display()));
        }
        Ok(())
    }
}

impl Output {
    /// Opens what an option names; an existing file keeps what is in it until there are results.
    pub(crate) fn open(path: &Path, leftovers: &Leftovers) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            return Ok(Self::Standard);
        }
        Draft::open(path, leftovers).map(Self::File)
    }

    /// Whether it is standard output.
    pub(crate) fn is_standard(&self) -> bool {
        matches!(self, Self::Standard)
    }

    /// Writes the results.
    pub(crate) fn write(self, text: &str) -> Result<(), Failure> {
        match self {
            Self::Standard => print(text),
            Self::File(draft) => draft.write(text).map(|_| ()),
        }
    }
}

impl Draft {
    /// Opens a file for writing; what is in it stays until there are results.
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

    /// Writes the results, and gives the file's name.
    pub(crate) fn write(mut self, text: &str) -> Result<PathBuf, Failure> {
        // What is no regular file has no length to cut.
        let cut = match self.file.metadata() {
            Ok(data) if data.is_file() => self.file.set_len(0),
            _ => Ok(()),
        };
        let written = cut.and_then(|()| self.file.write_all(text.as_bytes()));
        written.map_err(|e| Failure::file("write", &self.path, &e))?;
        if let Some(fresh) = self.fresh.take() {
            fresh.keep();
        }
        Ok(self.path)
    }
}
