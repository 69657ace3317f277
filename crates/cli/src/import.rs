//! `weir import` translates the limits of libvirt and QEMU to contracts.

use crate::check;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The maximum size of the text on standard input in bytes, as for files.
const INPUT_MAX: u64 = 16 << 20;

/// The arguments of `weir import`.
#[derive(Debug, Args)]
pub(crate) struct ImportOptions {
    /// The XML of a domain or a disk of libvirt (`virsh dumpxml`), a command line of QEMU, or JSON
    /// of its monitor. `-` reads standard input
    file: PathBuf,
    /// The name of the drive in the configuration on which the volumes are
    #[arg(long, value_name = "NAME", default_value = "disk")]
    drive: String,
    /// Fail and print nothing if there is a warning: a limit that a contract cannot express
    /// exactly, or a part that is missing
    #[arg(long)]
    exact: bool,
}

pub(crate) fn run(options: &ImportOptions) -> Result<(), Failure> {
    let (name, text) = if options.file == Path::new("-") {
        (String::new(), standard_input()?)
    } else {
        weir_config::file_text(&options.file).map_err(|problems| check::refuse(&problems))?
    };
    let imported = weir_config::import(&name, &text, &options.drive)
        .map_err(|problems| check::refuse(&problems))?;
    // An approximation must not reach a configuration by a script that ignores warnings.
    if options.exact && !imported.remarks.is_empty() {
        return Err(check::refuse(&imported.remarks));
    }
    for remark in &imported.remarks {
        output::print_message(&format!("warning: {remark}"));
    }
    output::print(&imported.text)
}

/// Reads standard input to its end.
fn standard_input() -> Result<String, Failure> {
    let mut text = Vec::new();
    // One byte beyond the limit suffices to recognise a text that is too long.
    let read = io::stdin()
        .lock()
        .take(INPUT_MAX + 1)
        .read_to_end(&mut text);
    read.map_err(|error| Failure::file("read", Path::new("standard input"), &error))?;
    if text.len() as u64 > INPUT_MAX {
        return Err(Failure::run(
            "standard input is longer than 16MiB, the maximum",
        ));
    }
    String::from_utf8(text).map_err(|_| Failure::run("standard input is not UTF-8"))
}
