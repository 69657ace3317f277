//! The driver for Kubernetes against what Kubernetes is made of, for `./test --fleet`: `csi-sanity` in a guest whose kernel has NBD and ublk, and a
//! real API server with its provisioner and resizer.
//!
//! They need Go, `etcd-server`, `qemu-system-x86_64` and Debian's kernel 6.12; `packaging/fleet/kubernetes target/fleet` makes the programs of Kubernetes
//! under `target/fleet/` and keeps them.

#[path = "../csi/bench.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod bench;
mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod lab;
mod manifests;
mod node;
mod sanity;

use std::path::PathBuf;

/// A program of Kubernetes; `None`, with a line, if it was not built.
fn program(name: &str) -> Option<PathBuf> {
    let directory = std::env::var_os("WEIR_FLEET").map_or_else(
        || {
            PathBuf::from(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../target/fleet/bin"
            ))
        },
        PathBuf::from,
    );
    let path = directory.join(name);
    if path.exists() {
        return Some(path);
    }
    let said = format!(
        "{} is not there: packaging/fleet/kubernetes target/fleet makes it",
        path.display()
    );
    assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "{said}");
    println!("skipped: {said}");
    None
}
