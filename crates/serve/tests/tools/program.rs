//! Programs of other projects: detecting and running them.

use std::path::Path;
use std::process::{Command, Stdio};

/// Returns true if all of these programs are installed. Otherwise prints a line, and fails if tests
/// must not be skipped (`WEIR_NO_SKIP=1`).
pub(crate) fn have(programs: &[&str]) -> bool {
    let missing = |program: &&&str| {
        let mut command = program_named(program);
        let status = command
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        !status.is_ok_and(|s| s.success())
    };
    let Some(program) = programs.iter().find(missing) else {
        return true;
    };
    skip(&format!("{program} is not installed"));
    false
}

/// Prints why a test is skipped, and fails if tests must not be skipped (`WEIR_NO_SKIP=1`).
pub(crate) fn skip(why: &str) {
    println!("skipped: {why}");
    assert!(
        std::env::var_os("WEIR_NO_SKIP").is_none_or(|v| v != "1"),
        "{why}, and WEIR_NO_SKIP forbids skipping"
    );
}

/// Returns a command by its name. The directories of the system come first, because nbdsh runs the
/// first python3, which must be the one with libnbd.
pub(crate) fn program_named(name: &str) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(if Path::new("/usr/bin").join(name).exists() {
        Path::new("/usr/bin").join(name)
    } else {
        name.into()
    });
    command.env("PATH", format!("/usr/bin:/bin:{path}"));
    command
}

/// Runs a program and returns its output. Fails if the program fails or takes longer than a minute.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    run_with(program, arguments, Stdio::null())
}

/// Runs a program like [`run`], with an input.
pub(crate) fn run_with(program: &str, arguments: &[&str], input: impl Into<Stdio>) -> String {
    let mut command = program_named("timeout");
    let output = command
        .arg("60")
        .arg(program)
        .args(arguments)
        .stdin(input)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{out}\n{err}",
        output.status
    );
    out
}
