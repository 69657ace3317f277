//! `weir completion` and `weir man` write completion scripts and manual pages from the definitions
//! of the commands.

use crate::failure::Failure;
use crate::output;
use clap::{Args, Command};
use clap_complete::Shell;
use std::fs;
use std::path::PathBuf;

/// The arguments of `weir completion`.
#[derive(Debug, Args)]
pub(crate) struct CompletionOptions {
    /// The shell for which to print the script
    shell: Shell,
}

/// The arguments of `weir man`.
#[derive(Debug, Args)]
pub(crate) struct ManOptions {
    /// The directory for `weir.1` and a page for each command. It is created if it does not exist
    directory: PathBuf,
}

/// Prints the completion script of a shell for `command`.
pub(crate) fn complete(options: &CompletionOptions, command: Command) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut without_help(command), "weir", &mut text);
    output::print(&String::from_utf8_lossy(&text))
}

/// Writes `weir.1` and a manual page for each command into a directory.
pub(crate) fn write(options: &ManOptions, command: Command) -> Result<(), Failure> {
    let directory = &options.directory;
    fs::create_dir_all(directory).map_err(|e| Failure::file("make", directory, &e))?;
    clap_mangen::generate_to(without_help(command), directory)
        .map_err(|e| Failure::file("write to", directory, &e))
}

/// Removes the subcommands `help`. Otherwise each of them would get a manual page for each command.
fn without_help(command: Command) -> Command {
    let command = command.disable_help_subcommand(true);
    command.mut_subcommands(without_help)
}
