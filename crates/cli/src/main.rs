//! The command `weir`, all of which is in the library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    weir::main()
}
