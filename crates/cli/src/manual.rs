//! `weir manual DIR`: manual pages and completions of shells, from the commands' own definitions. Only with the feature `manual`, by which
//! the package is made: nobody else needs it, so it is no command among the others.

use crate::failure::Failure;
use clap::Command;
use clap_complete::Shell;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// The directory, if that is what is asked for.
pub(crate) fn asked() -> Option<PathBuf> {
    let mut words = std::env::args_os().skip(1);
    let asked = words.next()? == OsStr::new("manual");
    words.next().filter(|_| asked).map(PathBuf::from)
}

/// Writes `weir.1` and a page for each command into `man`, and completions into `completions`.
pub(crate) fn write(directory: &Path, command: Command) -> Result<(), Failure> {
    let mut command = without_help(command);
    let man = directory.join("man");
    let completions = directory.join("completions");
    for directory in [&man, &completions] {
        fs::create_dir_all(directory).map_err(|e| Failure::file("make", directory, &e))?;
    }
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut command, "weir", &completions)
            .map_err(|e| Failure::file("write to", &completions, &e))?;
    }
    clap_mangen::generate_to(command, &man).map_err(|e| Failure::file("write to", &man, &e))
}

/// Without the commands `help`, each of which would have a page for each command.
fn without_help(command: Command) -> Command {
    let command = command.disable_help_subcommand(true);
    command.mut_subcommands(without_help)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_has_a_page_and_is_completed() {
        let directory = std::env::temp_dir().join(format!("weir-manual-{}", std::process::id()));
        write(&directory, crate::Arguments::command()).unwrap();
        let completions = fs::read_to_string(directory.join("completions/weir.bash")).unwrap();
        let arguments = crate::Arguments::command();
        let shown = arguments.get_subcommands();
        for command in shown.filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let page = fs::read_to_string(directory.join(format!("man/weir-{name}.1"))).unwrap();
            assert!(page.contains(".SH SYNOPSIS"), "{page}");
            assert!(completions.contains(name), "{name}");
        }
        fs::remove_dir_all(directory).unwrap();
    }
}
