//! The command `weir`. The library of this crate contains all of it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    weir::main()
}
