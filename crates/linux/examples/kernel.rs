//! Downloads kernels for guests and prints their releases: `kernel VERSION...`. Boots a kernel with
//! a script, and prints its console and the sizes of the files that it left: `kernel --run VERSION
//! SCRIPT`.

use std::process::ExitCode;
use weir_linux::guest::{GuestError, Kernel, KernelGuest};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match &words[..] {
        ["--run", version, script] => run(version, script),
        versions => versions.iter().try_for_each(|version| {
            let kernel = Kernel::find(version, |line| eprintln!("{line}"))?;
            println!("{version}: {}", kernel.release());
            Ok(())
        }),
    };
    if let Err(error) = done {
        eprintln!("kernel: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn run(version: &str, script: &str) -> Result<(), GuestError> {
    let script = std::fs::read_to_string(script).unwrap_or_else(|_| script.to_owned());
    let guest = KernelGuest::new(Kernel::find(version, |line| eprintln!("{line}"))?, script);
    let ran = guest.run_while(|line| println!("{line}"), || true)?;
    for (name, bytes) in ran.files {
        println!("{name}: {} bytes", bytes.len());
    }
    Ok(())
}
