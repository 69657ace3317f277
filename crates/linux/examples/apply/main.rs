//! Applies ten files of contracts in a guest with an unmodified kernel, kills the process at every
//! write, and restores everything.
//!
//! `apply WEIR KERNEL...`: the program `weir`, and names of kernels for
//! `weir_linux::guest::Kernel`. Prints the results. The exit status is 1 if a file was not restored
//! or a warning was missing.
//!
//! Environment variables: `ONLY='03*'` selects files. `CALLS=fsync,mkdir` kills at other system
//! calls. `STEP=5` kills at every fifth call of a restore. `SHOW` prints the whole console.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weir_linux::guest::{GuestError, Kernel, KernelGuest};

/// The script that runs in the guest.
const SCRIPT: &str = include_str!("guest.sh");

/// The directory of the files of contracts.
const CONTRACTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/contracts");

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let weir = arguments.next().map(PathBuf::from);
    let kernels: Vec<String> = arguments.collect();
    let (Some(weir), false) = (weir, kernels.is_empty()) else {
        eprintln!("usage: apply WEIR KERNEL...");
        return ExitCode::from(2);
    };
    let mut is_right = true;
    for kernel in kernels {
        match play(&weir, &kernel) {
            Ok(right) => is_right &= right,
            Err(error) => {
                eprintln!("{kernel}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::from(u8::from(!is_right))
}

/// Runs the script under a kernel. Returns true if it found no error.
fn play(weir: &std::path::Path, kernel: &str) -> Result<bool, GuestError> {
    let kernel = Kernel::find(kernel, |line| eprintln!("{line}"))?;
    let only = std::env::var("ONLY").unwrap_or_default();
    let step = std::env::var("STEP").unwrap_or_else(|_| "1".into());
    let calls = std::env::var("CALLS").unwrap_or_else(|_| "write,mkdir,mkdirat".into());
    let set = format!("ONLY='{only}'\nSTEP={step}\nCALLS={calls}\n");
    let mut guest = KernelGuest::new(kernel, set + SCRIPT);
    guest.programs.push(weir.to_owned());
    guest.add_program("strace", "strace")?;
    guest.add_program("dmsetup", "dmsetup")?;
    guest.disks_mib.push(64);
    guest.limit = Duration::from_hours(2);
    for entry in std::fs::read_dir(CONTRACTS).map_err(|e| file(CONTRACTS, e))? {
        let path = entry.map_err(|e| file(CONTRACTS, e))?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let text = std::fs::read(&path).map_err(|e| file(CONTRACTS, e))?;
        guest.files.insert(name, text);
    }
    let began = Instant::now();
    let show = std::env::var_os("SHOW").is_some();
    let line = |line: &str| {
        // A run takes long, so that its progress is printed.
        if show || line.contains(" kills so far") {
            eprintln!("{line}");
        }
    };
    let ran = guest.run_while(line, || true)?;
    println!("Linux {}:", guest.kernel.release());
    let mut wrong = 0;
    for line in &ran.console {
        if let Some(figure) = line.strip_prefix("figure: ") {
            println!("  {figure}");
        } else if line.starts_with("WRONG: ") || line.contains(" is refused: ") {
            println!("  {line}");
        }
        wrong += usize::from(line.starts_with("WRONG: "));
    }
    println!("  {wrong} wrong, {} s", began.elapsed().as_secs());
    Ok(wrong == 0)
}

fn file(path: &str, source: std::io::Error) -> GuestError {
    GuestError::File {
        path: path.into(),
        source,
    }
}
