//! Plays a scenario with `weir compare --on linux` on a loop device, as root and on cgroups of
//! version 2: in a guest, because the machine of the tests need not have them.
//!
//! The guest also tests what is refused before the first run. It needs the programs of
//! `compare --on guest`, `blkid` and `mke2fs`.

use crate::common::{has, program::skip};
use serde_json::Value;
use std::time::Duration;
use weir_linux::guest::{GuestError, Kernel, KernelGuest};

const SCENARIO: &str = r#"
name = "short"
duration = "2s"
run_in = "0s"
warm_up = "200ms"
host = { nr_requests = "linux", nomerges = 0 }
[[client]]
name = "reader"
rw = "randread"
bs = "4KiB"
direct = true
size = "64MiB"
share = 300
min = "1MB/s"
[[client]]
name = "writer"
rw = "write"
bs = "128KiB"
iodepth = 8
direct = true
writeback = true
size = "64MiB"
share = 100
[under."io.latency"]
client.reader.latency = "10ms"
"#;

/// Each attempt prints its name, what it said, its status, and whether the device has the same
/// content as before.
const SCRIPT: &str = r#"
load loop; load ext4; load bfq; mkdir -p /run/d; truncate -s 256M /run/disk
yes weir | head -c 1048576 | dd of=/run/disk conv=notrunc 2>/dev/null; losetup /dev/loop0 /run/disk
content() { md5sum < /run/disk; }
try() {
    echo "try: $1"; shift; before=$(content)
    weir compare /files/short.toml --on linux --device /dev/loop0 --repetitions 1 "$@" 2>&1
    echo "status: $?"; [ "$(content)" = "$before" ] && echo "content: the same" || echo "content: another"
}
confirmed="--destroy /dev/loop0 --policy none"
try unconfirmed --policy none
mke2fs -q /dev/loop0; mount -t ext4 /dev/loop0 /run/d
try mounted $confirmed
umount /run/d
try signature --policy none
losetup -d /dev/loop0; losetup -r /dev/loop0 /run/disk
try read-only $confirmed
losetup -d /dev/loop0; losetup /dev/loop0 /run/disk
umount /sys/fs/cgroup; try groups $confirmed; mount -t cgroup2 cg /sys/fs/cgroup
try played $confirmed --policy bfq --policy io.cost --policy io.latency --json /out/records --trace /out/states
echo "settings: $(cat /sys/block/loop0/queue/scheduler) $(ls -d /sys/fs/cgroup/weir-* 2>/dev/null) $(ls /sys/kernel/debug/tracing/instances)"
"#;

/// Returns a guest with Linux 6.12, this program, and programs of this machine, each with the
/// package that has it. `None`, with a message, if a part is missing.
pub(super) fn guest(
    script: &str,
    programs: &[(&'static str, &'static str)],
) -> Option<KernelGuest> {
    let made = Kernel::find("6.12", |line| println!("{line}")).and_then(|kernel| {
        let mut guest = KernelGuest::new(kernel, script);
        for (name, package) in programs {
            guest.add_program(name, package)?;
        }
        guest.add_program("qemu-system-x86_64", "qemu-system-x86")?;
        // QEMU itself is needed on the host only. Adding it checks that it is installed.
        guest.programs.pop();
        Ok::<_, GuestError>(guest)
    });
    let mut guest = match made {
        Ok(guest) => guest,
        Err(error) => {
            skip(&error.to_string());
            return None;
        }
    };
    guest.programs.push(env!("CARGO_BIN_EXE_weir").into());
    Some(guest)
}

/// Returns the guest of this test, with its script and the scenario.
fn guest_with_scenario() -> Option<KernelGuest> {
    let programs = [
        ("fio", "fio"),
        ("blkid", "util-linux"),
        ("mke2fs", "e2fsprogs"),
    ];
    let mut guest = guest(SCRIPT, &programs)?;
    guest.modules.extend(["loop", "ext4"]);
    guest.limit = Duration::from_mins(10);
    let scenario = SCENARIO.as_bytes().to_vec();
    guest.files.insert("short.toml".to_owned(), scenario);
    Some(guest)
}

/// Returns what an attempt printed, and its status and what became of the content.
fn attempt(console: &str, name: &str) -> (String, [String; 2]) {
    let (_, rest) = console
        .split_once(&format!("try: {name}\n"))
        .expect(console);
    let (said, rest) = rest.split_once("status: ").expect(rest);
    let mut after = rest.lines().map(str::trim);
    let after = [after.next(), after.next()].map(Option::unwrap_or_default);
    (said.to_owned(), after.map(str::to_owned))
}

#[test]
fn linux_plays_on_a_loop_device_and_refuses_before_the_first_run() {
    let Some(guest) = guest_with_scenario() else {
        return;
    };
    let ran = guest.run().unwrap_or_else(|error| panic!("{error}"));
    let console = ran.console.join("\n");
    let attempt = |name: &str| attempt(&console, name);
    for (name, reason) in [
        (
            "unconfirmed",
            "the scenario would overwrite /dev/loop0; add --destroy /dev/loop0",
        ),
        ("mounted", "is mounted"),
        ("signature", "/dev/loop0 contains ext"),
        (
            "read-only",
            "/dev/loop0 cannot be written: the device is read-only",
        ),
        ("groups", "groups require cgroups of version 2"),
    ] {
        let (said, after) = attempt(name);
        has(&said, reason);
        assert_eq!(after, ["2", "content: the same"], "{name}: {said}");
    }
    let (said, after) = attempt("played");
    assert_eq!(after, ["0", "content: another"], "{said}");
    // Debian's kernels have no io.latency.
    let left_out = "Left out: policy \"io.latency\"";
    for part in ["none @linux", "bfq @linux", "io.cost @linux", left_out] {
        has(&said, part);
    }
    // Everything is as it was: the elevator, the cgroups, and the instances of tracefs.
    let settings = console.lines().find(|line| line.starts_with("settings: "));
    assert_eq!(settings.map(str::trim_end), Some("settings: [none] bfq"));
    let lines = |name: &str| {
        let text = String::from_utf8(ran.files[name].clone()).expect("it is JSON");
        let lines = text
            .lines()
            .map(|line| serde_json::from_str(line).expect(line));
        lines.collect::<Vec<Value>>()
    };
    let records = lines("records");
    for client in ["reader", "writer"] {
        let of = |r: &&Value| r["policy"] == "io.cost" && r["client"] == client;
        let record = records.iter().find(of).expect(client);
        assert!(
            record["bandwidth_mb_per_s"].as_f64() > Some(0.1),
            "{record}"
        );
    }
    let states = lines("states");
    let of = |state: &str, subject: &str| {
        let found =
            |s: &&Value| s["policy"] == "io.cost" && s["state"] == state && s["of"] == subject;
        let points = &states
            .iter()
            .find(found)
            .unwrap_or_else(|| panic!("{state}"))["points"];
        let value = |point: &Value| point[1].as_f64().expect("a number");
        points
            .as_array()
            .expect("points")
            .iter()
            .map(value)
            .collect::<Vec<f64>>()
    };
    assert!(
        of("vrate", "drive")
            .iter()
            .all(|vrate| (1.0..10_000.0).contains(vrate))
    );
    assert!(of("io.stat reads", "reader").iter().any(|rate| *rate > 0.1));
}
