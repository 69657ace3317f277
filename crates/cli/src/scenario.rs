//! `weir scenarios` lists and prints scenarios. The other functions find the scenarios that the
//! command line names.

use crate::check;
use crate::failure::Failure;
use crate::lists;
use crate::output;
use clap::Args;
use std::path::{Path, PathBuf};
use weir_config::scenario::{self, SUITES, Script, suite};

/// The file name extensions of scenarios.
const ENDINGS: [&str; 2] = ["toml", "fio"];

/// The arguments of `weir scenarios`.
#[derive(Debug, Args)]
pub(crate) struct ScenariosOptions {
    /// The scenario to print as a file, as a starting point, or the suite to list [default: list
    /// all scenarios]
    #[arg(conflicts_with = "from")]
    scenario: Option<String>,
    /// Convert a job file of fio, with any file name extension, to a scenario file and print it,
    /// for example to add contracts
    #[arg(long, value_name = "JOB.fio")]
    from: Option<PathBuf>,
}

pub(crate) fn run(options: &ScenariosOptions) -> Result<(), Failure> {
    if let Some(path) = &options.from {
        return from(path);
    }
    let Some(name) = &options.scenario else {
        let all = scenario::names().map(|name| scenario::find(name).map_err(|e| unknown(&e)));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        let suites = SUITES.iter().map(|s| (s.name, s.about));
        return lists::list(all.iter().map(|s| (s.name(), s.about())).chain(suites));
    };
    if let Some(suite) = suite(name) {
        let all = suite.scenarios.iter().map(|name| find(name));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        return lists::list(all.iter().map(|s| (s.name(), s.about())));
    }
    match scenario::source(name) {
        Some(text) => output::print(text),
        None => Err(scenario::find(name).map_or_else(|e| unknown(&e), |_| Failure::Said)),
    }
}

/// Prints the scenario that corresponds to a job file.
fn from(path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    if path.as_os_str() == "-" {
        return Err(Failure::Usage("--from requires a file".into()));
    }
    if path.extension().is_some_and(|e| e == "toml") {
        let reason = format!(
            "--from {shown}: the file is already a scenario; --from requires a job file of fio"
        );
        return Err(Failure::Usage(reason));
    }
    let script = scenario::load_jobs(path).map_err(|problems| check::refuse(&problems))?;
    for note in script.notes() {
        output::print_message(&note.to_string());
    }
    let printed = script.printed().ok_or(Failure::Said)?;
    output::print(&format!(
        "# The scenario of {shown}: unchanged, it plays the same.\n{printed}"
    ))
}

/// Returns a note on the drive of a job file, if the user has not chosen one. A job file does not
/// name a drive.
pub(crate) fn drive_of_jobs(script: &Script) -> Option<String> {
    let drive = script.drives().first()?;
    script.is_jobs().then(|| {
        let name = script.name();
        format!("no --drive given: {name} is played on {drive}; run `weir drives` for a list")
    })
}

/// Returns the scenario with a name or in a file, and prints the notes on the file.
///
/// # Errors
/// Returns the errors of [`all`].
pub(crate) fn find(word: &str) -> Result<Script, Failure> {
    let script = read(word)?;
    for note in script.notes() {
        output::print_message(&note.to_string());
    }
    Ok(script)
}

/// Returns the scenarios of a suite, or the scenario with a name or in a file. Nothing is printed.
///
/// # Errors
/// The name is unknown, in which case the error has the most similar name, or the file has
/// problems.
pub fn all(word: &str) -> Result<Vec<Script>, Failure> {
    match suite(word) {
        Some(suite) => suite.scenarios.iter().map(|name| read(name)).collect(),
        None => read(word).map(|script| vec![script]),
    }
}

fn read(word: &str) -> Result<Script, Failure> {
    if !lists::is_file(word, &ENDINGS) {
        return scenario::find(word).map_err(|e| unknown(&e));
    }
    scenario::load(Path::new(word)).map_err(|problems| check::refuse(&problems))
}

/// Returns the chosen cases of a scenario without repetitions, or all cases if none is chosen. The
/// result is a single `None` if the scenario has no cases.
///
/// # Errors
/// The scenario does not have one of the cases.
pub(crate) fn cases(script: &Script, asked: &[String]) -> Result<Vec<Option<String>>, Failure> {
    let all = script.cases();
    if let Some(unknown) = asked.iter().find(|c| !all.contains(c)) {
        let name = script.name();
        let there = match all {
            [] => "has no cases".to_owned(),
            all => format!("has the cases {}", all.join(", ")),
        };
        return Err(Failure::Usage(format!("--case {unknown}: {name} {there}")));
    }
    let chosen = if asked.is_empty() { all } else { asked };
    let mut cases: Vec<Option<String>> = Vec::new();
    for case in chosen.iter().cloned().map(Some) {
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    if cases.is_empty() {
        cases.push(None);
    }
    Ok(cases)
}

fn unknown(unknown: &scenario::UnknownScenario) -> Failure {
    lists::unknown(unknown, unknown.nearest, "scenarios", &ENDINGS)
}
