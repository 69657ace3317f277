//! Volumes as block devices of a real kernel, through ublk, in guests whose time is counted in
//! instructions.
//!
//! The tests need `qemu-system-x86_64`, fio, and Debian's kernel 6.12, which `weir-linux`
//! downloads. Two short boots belong to `./test --guest`, of 6.12 and of 7 (`WEIR_KERNEL`).
//! `./bench ublk` runs the others with `cargo test --release -p weir --test live ublk:: --
//! --ignored --nocapture`.

mod device;
mod draws;
mod figures;
mod recovery;

use std::collections::BTreeMap;
use std::time::Duration;

use weir_linux::guest::{Kernel, KernelGuest};

/// The functions of every script: a server with `/files/NAME.toml`, and jobs of fio with
/// verification.
const WORDS: &str = r#"
load ublk_drv
serve() { weir serve "$@" >>/tmp/log 2>&1 & }
there() { n=0; until [ -b $1 ]; do n=$((n + 1)); [ $n -gt 200 ] && { echo "late=$1"; cat /tmp/log; return 1; }; sleep 0.05; done; }
gone() { n=0; while [ -e $1 ]; do n=$((n + 1)); [ $n -gt 200 ] && { echo "stays=$1"; return 1; }; sleep 0.05; done; }
ended() { n=0; while pidof weir >/dev/null; do n=$((n + 1)); [ $n -gt 200 ] && { echo "runs=weir"; return 1; }; sleep 0.05; done; }
verify() { fio --name=j --ioengine=libaio --direct=1 --verify=crc32c --verify_fatal=1 --minimal "$@" >/tmp/fio 2>&1 || { echo "fio failed"; cat /tmp/fio; }; }
complaints() { dmesg | grep -c -E "I/O error|blocked for more than|BUG:|WARNING:"; }
say() { echo "said: $*"; }
"#;

/// Returns a guest with the server and fio. `None`, with a message, if a part is missing.
fn guest(script: &str, configs: &[(&str, &str)]) -> Option<KernelGuest> {
    let strict = std::env::var_os("WEIR_NO_SKIP").is_some();
    let kernel = std::env::var("WEIR_KERNEL");
    let found = Kernel::find(kernel.as_deref().unwrap_or("6.12"), |line| {
        println!("{line}");
    });
    let made = found.and_then(|kernel| {
        let mut guest = KernelGuest::new(kernel, format!("{WORDS}\n{script}"));
        guest.add_program("fio", "fio")?;
        guest.add_program("qemu-system-x86_64", "qemu-system-x86")?;
        // QEMU itself is needed on the host only. Adding it checks that it is installed.
        guest.programs.pop();
        Ok(guest)
    });
    let mut guest = match made {
        Ok(guest) => guest,
        Err(error) if !strict => {
            println!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    guest.programs.push(env!("CARGO_BIN_EXE_weir").into());
    for (name, text) in configs {
        guest
            .files
            .insert((*name).to_owned(), text.as_bytes().to_vec());
    }
    guest.limit = Duration::from_mins(20);
    Some(guest)
}

/// Boots the guest. Returns the results that the script has printed (`say NAME WORDS`), and the
/// whole console.
fn played(guest: &KernelGuest) -> (BTreeMap<String, String>, String) {
    let ran = guest.run().unwrap_or_else(|error| panic!("{error}"));
    let said = ran.console.iter().filter_map(|line| {
        let (name, words) = line.strip_prefix("said: ")?.split_once(' ')?;
        Some((name.to_owned(), words.trim().to_owned()))
    });
    let console = ran.console.join("\n");
    assert!(!console.contains("fio failed"), "{console}");
    (said.collect(), console)
}
