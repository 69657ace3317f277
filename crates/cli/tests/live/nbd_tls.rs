//! The kernel's NBD client over TLS, in a guest, because it needs root and the module `nbd`.
//!
//! The kernel does not speak TLS. `nbd-client` connects, gives the kernel one end of a pair of
//! sockets, and encrypts in a process that stays. The guest makes the certificates itself, because
//! its clock begins on a fixed day, on which certificates of today are not valid yet.

use super::compare_linux::guest;
use crate::common::{has, root};
use std::fs;
use std::time::Duration;

/// Each attempt prints its name and its status. A client that refuses the server's certificate
/// waits until the server ends the handshake.
const SCRIPT: &str = r#"
load nbd; mkdir /run/tls; cp /files/* /run/tls; chmod +x /run/tls/*
(cd /run/tls; exec ./run 10809 /run/a > /run/log 2>&1) &
/run/tls/certificates /run/other
# 2A39 is the port 10809.
tries=0; until grep -q ':2A39 ' /proc/net/tcp || [ $tries = 600 ]; do tries=$((tries + 1)); sleep 0.1; done
mkdir -p /etc; echo "127.0.0.1 other.example" > /etc/hosts
connect() { timeout 60 nbd-client -name a -enable-tls "$@" other.example 10809 /dev/nbd0 2>&1; }
try() { echo "try: $1"; shift; "$@"; echo "status: $?"; }
own="-certfile /run/a/client-cert.pem -keyfile /run/a/client-key.pem"
try unencrypted timeout 60 nbd-client -name a 127.0.0.1 10809 /dev/nbd0 2>&1
try uncertified connect -cacertfile /run/a/ca-cert.pem -tlshostname localhost
try misnamed connect -cacertfile /run/a/ca-cert.pem $own -tlshostname other.example
try unknown connect -cacertfile /run/other/ca-cert.pem $own -tlshostname localhost
try unnamed connect -cacertfile /run/a/ca-cert.pem $own
try connected connect -cacertfile /run/a/ca-cert.pem $own -tlshostname localhost
dd if=/dev/urandom of=/run/data bs=1M count=8 2>/dev/null
try written timeout 60 dd if=/run/data of=/dev/nbd0 bs=1M seek=24 oflag=direct conv=fsync 2>/dev/null
try disconnected timeout 60 nbd-client -d /dev/nbd0
tries=0; while pidof nbd-client >/dev/null && [ $tries != 600 ]; do tries=$((tries + 1)); sleep 0.1; done
echo "left: $(pidof nbd-client)"
try again connect -cacertfile /run/a/ca-cert.pem $own -tlshostname localhost
try read timeout 60 dd if=/dev/nbd0 of=/run/back bs=1M skip=24 count=8 iflag=direct 2>/dev/null
try compared cmp /run/data /run/back
try ended timeout 60 nbd-client -d /dev/nbd0
cat /run/log
"#;

#[test]
fn the_kernel_writes_and_reads_over_tls() {
    let programs = [("nbd-client", "nbd-client"), ("openssl", "openssl")];
    let Some(mut guest) = guest(SCRIPT, &programs) else {
        return;
    };
    guest.limit = Duration::from_mins(5);
    for name in ["certificates", "run"] {
        let text = fs::read(root().join("packaging/examples/tls").join(name)).expect(name);
        guest.files.insert(name.to_owned(), text);
    }
    let ran = guest.run().unwrap_or_else(|error| panic!("{error}"));
    let console = ran.console.join("\n");
    let status = |name: &str| {
        let (_, rest) = console
            .split_once(&format!("try: {name}\n"))
            .expect(&console);
        let (_, rest) = rest.split_once("status: ").expect(&console);
        rest.lines().next().unwrap_or_default().to_owned()
    };
    for refused in [
        "unencrypted",
        "uncertified",
        "misnamed",
        "unknown",
        "unnamed",
    ] {
        assert_eq!(status(refused), "1", "{refused}: {console}");
    }
    for done in [
        "connected",
        "written",
        "disconnected",
        "again",
        "read",
        "compared",
        "ended",
    ] {
        assert_eq!(status(done), "0", "{done}: {console}");
    }
    // The process that encrypts ends with the connection.
    assert!(
        console.lines().any(|line| line.trim() == "left:"),
        "{console}"
    );
    has(
        &console,
        "a client did not use TLS, which the volume requires",
    );
    has(&console, "peer sent no certificates");
    assert_eq!(console.matches("client connected").count(), 2, "{console}");
}
