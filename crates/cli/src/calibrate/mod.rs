//! `weir calibrate` measures the capacity of a drive.
//!
//! [`medium`] opens the target, [`session`] measures the steps of a plan one after the other,
//! [`state`] saves them, and [`report`] shows the results.

mod disk;
mod export;
pub(crate) mod lines;
mod medium;
mod profile;
mod report;
mod session;
pub(crate) mod state;
mod watched;

use crate::drives::show;
use crate::failure::Failure;
use crate::leftovers::Leftovers;
use crate::output::{self, OutputFile, OutputTarget};
use clap::Args;
use medium::{TargetAccess, TargetMedium};
use session::CalibrationSession;
use std::path::{self, Path, PathBuf};
use std::time::{Duration, Instant};
use weir_config::units::{ByteSize, Time, UnitError};
use weir_core::Span;
use weir_lab::calibrate::{Calibration, CalibrationPlan, CalibrationTarget};
use weir_model::client::Uri;

/// The arguments of `weir calibrate`.
#[derive(Debug, Args)]
pub(crate) struct CalibrateOptions {
    /// The file, block device or NBD URI to measure
    path: String,
    /// The maximum duration of the measurement, divided among the figures
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    time: Time,
    /// Also measure writes. The target must be empty, or written only by this command before
    #[arg(long)]
    write: bool,
    /// Create a file of this size for the writes if it does not exist
    #[arg(long, value_name = "SIZE", requires = "write", value_parser = size)]
    size: Option<ByteSize>,
    /// The state file with the results, so that the same command continues after an interruption
    /// [default: weir-calibration-NAME.json, with the name of the target]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Discard earlier results
    #[arg(long)]
    again: bool,
    /// Write a profile that is fitted to the results, for `weir compare --drive ./FILE`. Fitting
    /// takes some more seconds
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Write all results as JSON to this file. With `-`, write only this to standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The shortest duration of a measurement, in which each figure gets a window of time.
const TIME_LEAST: Span = Span::from_secs(5);

fn time(text: &str) -> Result<Time, String> {
    let time: Time = text.parse().map_err(|e| unit_error_text(&e))?;
    if time.0 < TIME_LEAST {
        return Err(format!("must be at least {}", Time(TIME_LEAST)));
    }
    Ok(time)
}

fn size(text: &str) -> Result<ByteSize, String> {
    text.parse().map_err(|e| unit_error_text(&e))
}

/// Returns the error of a size or a time, with the notation that is expected.
pub(crate) fn unit_error_text(error: &UnitError) -> String {
    if error.help.is_empty() {
        error.to_string()
    } else {
        format!("{error}; {}", error.help)
    }
}

pub(crate) fn run(options: &CalibrateOptions) -> Result<(), Failure> {
    output::check_apart([
        ("--json", options.json.as_deref()),
        ("--profile", options.profile.as_deref()),
        ("--state", options.state.as_deref()),
    ])?;
    let leftovers = Leftovers::watch()?;
    // All output files are opened before the measurement, which can take a minute.
    let json = options.json.as_deref();
    let json = json
        .map(|path| OutputTarget::open(path, &leftovers))
        .transpose()?;
    let draft = options.profile.as_deref();
    let draft = draft
        .map(|path| OutputFile::open(path, &leftovers))
        .transpose()?;
    let path = target_name(&options.path)?;
    let state = match &options.state {
        Some(state) => state.clone(),
        None => state::of(&path)?,
    };
    let known = state::load(&state)?.filter(|_| !options.again);
    if let Some(known) = &known {
        // Results of another target must not be mixed with those of this one.
        refuse_other_target(known, &path, &state)?;
    }
    let (known, interrupted) = match known {
        Some(known) if is_complete(&known, options) => {
            let state = state.display();
            output::print_message(&format!(
                "note: {state} contains the results of an earlier run; use --again to measure again"
            ));
            (known, None)
        }
        known => measure(options, (known, &state), &leftovers)?,
    };
    // The results are shown even after an interrupt.
    let shown = show(&known, json);
    if let (Some(draft), Some(path), None) = (draft, &options.profile, interrupted) {
        fit(&known, path, draft)?;
    }
    let Some(signal) = interrupted else {
        output::print_message(&next(&known, &state));
        return shown;
    };
    let (state, found) = (state.display(), known.steps.len());
    let missing =
        format!("{found} steps are in {state}; run the same command again to measure the others");
    Err(Failure::Interrupted(signal, missing).beside(shown))
}

/// Returns a message with the next step for the user.
fn next(known: &Calibration, state: &Path) -> String {
    let state = state.display();
    if known.target.write {
        return format!(
            "next: run `weir init --calibrated {state}` to write a configuration with these figures"
        );
    }
    format!(
        "next: run `weir init --calibrated {state}` to write a configuration with these figures; promises also require figures of writes, \
         which you can measure with `--write --again` on an empty drive"
    )
}

/// Prints the results, unless there are none, and writes them as JSON if that is requested.
fn show(known: &Calibration, json: Option<OutputTarget>) -> Result<(), Failure> {
    let is_read = json.as_ref().is_some_and(OutputTarget::is_standard);
    let printed = if is_read || known.steps.is_empty() {
        Ok(())
    } else {
        output::print(&report::text(known))
    };
    match json {
        Some(json) => json.write(&state::text(known)).and(printed),
        None => printed,
    }
}

/// Writes the profile, and prints the differences between the model and the measurement.
fn fit(known: &Calibration, path: &Path, draft: OutputFile) -> Result<(), Failure> {
    let sheet = profile::sheet(known, path)?;
    let (profile, rows) = profile::fitted(sheet)?;
    let path = draft.write(&weir_config::profile::print(&profile))?;
    output::print_message(&format!("wrote {}", path.display()));
    output::print_message(show::published(&rows).trim_end());
    Ok(())
}

/// Returns the name of the target in results: an absolute path, or the URI.
fn target_name(text: &str) -> Result<String, Failure> {
    if Uri::has_nbd_scheme(text) {
        return Ok(text.to_owned());
    }
    let whole = path::absolute(text).map_err(|e| Failure::file("open", Path::new(text), &e))?;
    Ok(whole.display().to_string())
}

/// Refuses results of another target.
fn refuse_other_target(known: &Calibration, path: &str, state: &Path) -> Result<(), Failure> {
    let of = &known.target.path;
    if of == path {
        return Ok(());
    }
    let state = state.display();
    Err(Failure::Usage(format!(
        "{state} contains results of {of}; use another file with --state, or discard them with --again"
    )))
}

/// Returns true if the results have all figures that the user requests.
fn is_complete(known: &Calibration, options: &CalibrateOptions) -> bool {
    let plan = CalibrationPlan::new(&known.target);
    plan.next(known, TIME_LEAST).is_none() && (known.target.write || !options.write)
}

/// Measures the missing figures. Returns all results, and the signal if an interrupt has ended the
/// measurement.
fn measure(
    options: &CalibrateOptions,
    (known, state): (Option<Calibration>, &Path),
    leftovers: &Leftovers,
) -> Result<(Calibration, Option<i32>), Failure> {
    let began = Instant::now();
    let access = TargetAccess {
        write: options.write,
        size: options.size.map(|size| size.0),
    };
    // Results with and without writes cannot be combined. This is checked before a file is created
    // or anything is measured.
    match known.as_ref().map(|known| known.target.write) {
        Some(true) if !options.write => return Err(mismatched_results(state, "with --write")),
        Some(false) if options.write => return Err(mismatched_results(state, "without --write")),
        _ => {}
    }
    state::writable(state)?;
    let (mut medium, target) = TargetMedium::open(&options.path, access)?;
    let known = continued(known, target, state)?;
    let limit = Duration::from_nanos(options.time.0.as_nanos());
    let session = CalibrationSession::new((began, limit), known, state, leftovers);
    session.carry_out(&mut medium)
}

/// Returns the earlier results, or empty ones. Earlier results must be of the same target with the
/// same properties.
fn continued(
    known: Option<Calibration>,
    target: CalibrationTarget,
    state: &Path,
) -> Result<Calibration, Failure> {
    let Some(known) = known else {
        return Ok(Calibration::new(target));
    };
    if known.target != target {
        let size = known.target.size != target.size;
        let what = if size {
            "with another size"
        } else {
            "on another device, or with other properties"
        };
        return Err(mismatched_results(state, what));
    }
    if !known.steps.is_empty() {
        let count = known.steps.len();
        output::print_message(&format!(
            "note: continuing; {count} steps were measured before"
        ));
    }
    Ok(known)
}

/// Returns the failure for results that do not match the request.
fn mismatched_results(state: &Path, what: &str) -> Failure {
    let state = state.display();
    Failure::Usage(format!(
        "{state} contains results that were measured {what}; discard them with --again, or use another file with --state"
    ))
}
