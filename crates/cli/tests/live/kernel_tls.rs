//! The NBD client of a real kernel over TLS, in a guest.
//!
//! The kernel itself knows no TLS. `nbd-client` conducts the handshake and relays.

use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::Scratch;
use crate::ublk::{guest, played};

const SERVER: &str = r#"
[drive.d]
[listen]
nbd = ["127.0.0.1:10809"]
tls = { certificate = "/files/server-cert.pem", key = "/files/server-key.pem", client_ca = "/files/ca-cert.pem" }
[volume.v]
drive = "d"
memory = true
size = "32MiB"
tls = "required"
allow = ["certificate:alice.example"]
"#;

/// Writes and verifies the volume, then tries it without a certificate.
const SCRIPT: &str = r#"
ip link set lo up; load nbd
echo "127.0.0.1 localhost" >/etc/hosts
serve /files/weir.toml
n=0; until grep -q ":2A39 " /proc/net/tcp; do n=$((n + 1)); [ $n -gt 200 ] && { cat /tmp/log; break; }; sleep 0.05; done
secure() { nbd-client 127.0.0.1 10809 $1 -N v -b 512 -x -H localhost -A /files/ca-cert.pem $2 >/tmp/nbd 2>&1; }
secure /dev/nbd0 "-F /files/client-cert.pem -K /files/client-key.pem" || cat /tmp/nbd
verify --filename=/dev/nbd0 --rw=randrw --bsrange=512-128k --iodepth=16 --size=32m
say size $(cat /sys/block/nbd0/size)
nbd-client -d /dev/nbd0 >/dev/null 2>&1
secure /dev/nbd1 ""; say anonymous $(cat /sys/block/nbd1/size)
say refused $(grep -c "TLS failed" /tmp/log)
kill -TERM $(pidof weir); ended
say errors $(complaints)
"#;

#[test]
fn the_kernels_client_uses_a_volume_over_tls() {
    let scratch = Scratch::new();
    let script = "../../packaging/examples/tls/certificates";
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let directory = scratch.path("tls");
    if !Command::new(script)
        .arg(&directory)
        .status()
        .is_ok_and(|made| made.success())
    {
        assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "no openssl");
        return println!("skipped: openssl is not installed");
    }
    // The clock of the guest does not start today, and certificates have a time.
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let script = format!("date -s @{} >/dev/null\n{SCRIPT}", now + 60);
    let Some(mut guest) = guest(&script, &[("weir.toml", SERVER)]) else {
        return;
    };
    guest.add_program("nbd-client", "nbd-client").unwrap();
    for file in std::fs::read_dir(&directory).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        guest
            .files
            .insert(name, std::fs::read(file.path()).unwrap());
    }
    let (said, console) = played(&guest);
    assert_eq!(
        said.get("size").map(String::as_str),
        Some("65536"),
        "{console}"
    );
    assert_eq!(said["anonymous"], "0", "{console}");
    assert_ne!(said["refused"], "0", "{console}");
    assert_eq!(said["errors"], "0", "{console}");
}
