//! `weir drives` lists and shows drive models, compares them with published figures, and fits them
//! to these figures.

pub(crate) mod show;
mod validation;

use crate::check;
use crate::failure::Failure;
use crate::lists::{is_file, unknown};
use crate::output;
use clap::{Args, Subcommand};
use std::path::Path;
use weir_config::profile::{self, DriveProfile};
use weir_config::sheet::{self, Sheet};

/// The arguments of `weir drives`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct DrivesOptions {
    /// A drive that comes with Weir, or a profile file [default: list all drives that come with
    /// Weir]
    drive: Option<String>,
    #[command(subcommand)]
    command: Option<DrivesCommand>,
}

#[derive(Debug, Subcommand)]
enum DrivesCommand {
    /// Fit a drive's unknown parameters to published figures, and print its profile
    Fit {
        /// A drive that comes with Weir, or a sheet's file
        drive: String,
    },
    /// Print every published figure next to that of the model, in Markdown
    Validation(validation::ValidationOptions),
    /// List the figures that a sheet can contain
    Figures,
}

pub(crate) fn run(options: &DrivesOptions) -> Result<(), Failure> {
    match (&options.command, &options.drive) {
        (Some(DrivesCommand::Fit { drive }), _) => fit(drive),
        (Some(DrivesCommand::Validation(options)), _) => validation::run(options),
        (Some(DrivesCommand::Figures), _) => show::figures(),
        (None, Some(drive)) => show::drive(&find(drive)?),
        (None, None) => show::list(),
    }
}

/// Returns the drive model with a name, in a file or in an inline table.
///
/// # Errors
/// The name is unknown, in which case the error has the most similar name, or the file has
/// problems.
pub fn find(drive: &str) -> Result<DriveProfile, Failure> {
    if drive.starts_with('{') {
        return profile::read_inline(drive).map_err(|problems| check::refuse(&problems));
    }
    if is_file(drive, &["toml"]) {
        return profile::load(Path::new(drive)).map_err(|problems| check::refuse(&problems));
    }
    profile::find(drive).map_err(|e| unknown(&e, e.nearest, "drives", &["toml"]))
}

/// Returns the sheet with a name or in a file.
fn sheet(drive: &str) -> Result<Sheet, Failure> {
    if is_file(drive, &["toml"]) {
        return sheet::load(Path::new(drive)).map_err(|problems| check::refuse(&problems));
    }
    let profile = find(drive)?;
    sheet::find(&profile.name).ok_or_else(|| {
        let name = &profile.name;
        Failure::Usage(format!(
            "{name} has no sheet with published figures to which it could be fitted"
        ))
    })
}

/// Runs `weir drives fit NAME`, which prints the fitted profile.
fn fit(drive: &str) -> Result<(), Failure> {
    let sheet = sheet(drive)?;
    let fitted = weir_lab::fit::fit(&sheet).map_err(Failure::run)?;
    let profile = DriveProfile {
        drive: fitted,
        ..sheet.profile
    };
    output::print(&profile::print(&profile))
}
