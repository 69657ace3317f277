//! A server that is killed or upgraded, and the next one, which recovers its device. It runs as a
//! user with only the one capability that it needs.

use super::{guest, played};

const SERVER: &str = r#"
[manage]
socket = "/run/weir/weir.sock"
[drive.d]
policy = "none"
[volume.v]
drive = "d"
file = "/run/weir/v.img"
size = "32MiB"
ublk = true
"#;

/// Starts a server and fio. On other systems, udev gives the user access to the device files.
const BEGIN: &str = r#"
user() { /bin/setpriv --reuid 1000 --clear-groups --bounding-set=-all,+sys_admin "$@"; }
mkdir /run/weir; chown 1000 /run/weir
user weir serve /files/weir.toml >/tmp/refused 2>&1; say file $(grep -c "/dev/ublk-control: Permission denied; give the server's user" /tmp/refused)
chown 1000 /dev/ublk-control
user weir serve /files/weir.toml >/tmp/refused 2>&1; say right $(grep -c "add a device: .*; give the server CAP_SYS_ADMIN" /tmp/refused)
while sleep 0.05; do chown 1000 /dev/ublk*; done & rule=$!
serve() { user --inh-caps=+sys_admin --ambient-caps=+sys_admin weir serve "$@" >>/tmp/log 2>&1 & }
serve /files/weir.toml; there /dev/ublkb0
fio --name=j --filename=/dev/ublkb0 --ioengine=libaio --direct=1 --iodepth=24 --rw=randrw --rwmixread=30 --bsrange=4k-96k --size=32m \
    --verify=crc32c --verify_backlog=64 --verify_fatal=1 --time_based --runtime=100000 --minimal >/tmp/fio 2>&1 &
job=$!; n=0; bad=0
"#;

/// Replaces the server `COUNT` times with the command `REPLACE`, and waits until the next one has
/// recovered the device.
const REPLACEMENTS: &str = r#"
while [ $n -lt COUNT ]; do
    n=$((n + 1)); usleep $((50000 + n * 37 % 11 * 9000))
    REPLACE || { bad=$((bad + 1)); cat /tmp/log; break; }
    i=0; until [ $(grep -c "has recovered the block device" /tmp/log) = $n ]; do i=$((i + 1)); [ $i -gt 200 ] && { bad=$((bad + 1)); cat /tmp/log; break 2; }; sleep 0.05; done
    [ -d /proc/$job ] || { bad=$((bad + 1)); cat /tmp/fio; break; }
done
"#;

const END: &str = r"
usleep 200000; kill -INT $job; wait $job; say fields $(tail -n 1 /tmp/fio | cut -d';' -f5,6,47)
say replaced $n $bad
say errors $(complaints)
# The server receives the signal again from the first process, which must not end it at once.
kill -TERM $(pidof weir); ended; kill $rule; say left $(ls /dev | grep -c '^ublk[bc]')
";

/// Kills the server, and starts the next one after up to 120 ms.
const KILL: &str =
    "{ kill -9 $(pidof weir); usleep $((n * 53 % 7 * 20000)); serve /files/weir.toml; }";

/// Hands the server over to a new process.
const UPGRADE: &str = "user weir ctl --socket /run/weir/weir.sock upgrade";

/// Replaces the server `count` times with a command of the guest's shell, and checks that fio
/// notices nothing.
fn replaced(count: u32, command: &str) {
    let replacements = REPLACEMENTS
        .replace("COUNT", &count.to_string())
        .replace("REPLACE", command);
    let script = [BEGIN, &replacements, END].concat();
    let Some(mut guest) = guest(&script, &[("weir.toml", SERVER)]) else {
        return;
    };
    guest.add_program("setpriv", "util-linux").unwrap();
    let (said, console) = played(&guest);
    // Without access to the control device, and then without the capability, the message tells the
    // missing right.
    assert_eq!((&*said["file"], &*said["right"]), ("1", "1"), "{console}");
    // All replacements took place, and no recovery failed.
    assert_eq!(said["replaced"], format!("{count} 0"), "{console}");
    // In this order: the error with which fio ends, KiB read, and KiB written.
    let fields: Vec<u64> = said["fields"]
        .split(';')
        .map(|field| field.parse().unwrap_or(u64::MAX))
        .collect();
    println!(
        "{count} times `{command}` under fio with verify: error {}, {} KiB read and {} KiB written",
        fields[0], fields[1], fields[2]
    );
    assert!(
        fields[0] == 0 && fields[1] > 0 && fields[2] > 0,
        "{console}"
    );
    assert_eq!((&*said["errors"], &*said["left"]), ("0", "0"), "{console}");
}

#[test]
fn a_restarted_server_takes_the_device_of_a_killed_server_back() {
    replaced(5, KILL);
}

#[test]
fn an_upgraded_server_takes_the_device_of_its_old_process_back() {
    replaced(5, UPGRADE);
}

#[test]
#[ignore = "a figure: ./bench ublk"]
fn sixty_kills_of_the_server_cause_no_errors_in_fio() {
    replaced(60, KILL);
}
