//! Boots a user-mode kernel in lockstep with a drive's model, and prints its console and the sizes
//! of the files that it left: `lockstep KERNEL DRIVE SCRIPT`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;
use weir_linux::guest::Lockstep;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [kernel, drive, script] = &words[..] else {
        eprintln!("usage: lockstep KERNEL DRIVE SCRIPT");
        return ExitCode::FAILURE;
    };
    let drive = match weir_config::profile::find(drive) {
        Ok(profile) => profile.drive,
        Err(problem) => {
            eprintln!("lockstep: {problem}");
            return ExitCode::FAILURE;
        }
    };
    let guest = Lockstep {
        kernel: kernel.into(),
        programs: Vec::new(),
        files: BTreeMap::new(),
        script: std::fs::read_to_string(script).unwrap_or_else(|_| script.clone()),
        drive,
        size: 64 << 30,
        memory_mib: 1024,
        limit: Duration::from_mins(10),
    };
    match guest.run_while(|line| println!("{line}"), || true) {
        Ok(ran) => {
            for (name, bytes) in ran.files {
                println!("{name}: {} bytes", bytes.len());
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("lockstep: {error}");
            ExitCode::FAILURE
        }
    }
}
