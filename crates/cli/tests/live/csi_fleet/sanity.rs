//! The whole of `csi-sanity`: controller, node and clones, over NBD and through ublk, in a guest.

use super::program;
use crate::common::program_of;
use std::time::Duration;
use weir_linux::guest::{GuestOutput, Kernel, KernelGuest};

/// Starts a server with a drive whose files are on XFS, the driver, and `csi-sanity`.
const SCRIPT: &str = r#"
load null_blk nr_devices=1 gb=1 memory_backed=1 irqmode=0; load xfs; load ext4; load nbd; load ublk_drv
mkdir -p /vol/fast /run/csi /tmp
mkfs.xfs -q -f /dev/nullb0 && mount -t xfs /dev/nullb0 /vol/fast || echo "no xfs"
cp /files/weir.toml /run/weir.toml
weir serve /run/weir.toml >/tmp/serve.log 2>&1 &
sleep 1
weir-csi --socket /run/manage.sock --endpoint /run/csi/csi.sock --volumes /vol --node guest >/tmp/csi.log 2>&1 &
sleep 1
for way in nbd-mount nbd-block ublk-mount ublk-block; do
    attach=${way%-*}
    echo "attach: $attach" >/tmp/parameters
    csi-sanity --ginkgo.no-color --csi.endpoint /run/csi/csi.sock --csi.testvolumesize 33554432 --csi.testvolumeexpandsize 67108864 \
        --csi.testvolumeparameters /tmp/parameters --csi.testvolumeaccesstype ${way#*-} --csi.mountdir /tmp/mount-$way --csi.stagingdir /tmp/stage-$way >/tmp/sanity 2>&1
    echo "said: status-$way $?"
    grep -A6 -E '\[(FAILED|PANICKED)\]' /tmp/sanity
    echo "said: ran-$way $(grep '^Ran ' /tmp/sanity)"
    echo "said: sums-$way $(grep ' Passed ' /tmp/sanity)"
    cp /tmp/sanity /out/sanity-$way
done
cp /tmp/serve.log /tmp/csi.log /out/
echo "said: volumes $(weir ctl --socket /run/manage.sock list | tail -n +3 | wc -l)"
echo "said: files $(ls -A /vol/fast | wc -l)"
echo "said: devices $(cat /sys/block/nbd*/pid 2>/dev/null | wc -l) $(ls /dev | grep -c ublkb)"
echo "said: mounts $(grep -c -E ' /tmp/(mount|stage)' /proc/mounts)"
"#;

const SERVER: &str = r#"
[drive.fast]
capacity = { read = "160MB/s", write = "120MB/s", iops = 5000 }
[listen]
nbd = ["unix:/run/nbd.sock"]
[manage]
socket = "/run/manage.sock"
"#;

/// The ways in which volumes are attached and used.
const WAYS: [&str; 4] = ["nbd-mount", "nbd-block", "ublk-mount", "ublk-block"];

/// The programs of the guest, with their packages.
const TOOLS: [(&str, &str); 6] = [
    ("blkid", "util-linux"),
    ("mount", "mount"),
    ("umount", "mount"),
    ("mkfs.ext4", "e2fsprogs"),
    ("resize2fs", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
];

/// Returns a guest with the command and the usual tools. `None`, with a message, if a part is
/// missing.
pub(super) fn guest(script: &str) -> Option<KernelGuest> {
    let strict = std::env::var_os("WEIR_NO_SKIP").is_some();
    let made = Kernel::find("6.12", |line| println!("{line}")).and_then(|kernel| {
        let mut guest = KernelGuest::new(kernel, script);
        // A release build of these programs takes a third of the time of a debug build.
        let programs = ["weir", "weir-csi"].map(program_of);
        guest.programs.extend(programs);
        for (tool, package) in TOOLS {
            guest.add_program(tool, package)?;
        }
        guest.modules.push("xfs");
        // The drive is in the memory of the guest.
        guest.memory_mib = 3072;
        // `csi-sanity` runs four times in an emulated guest.
        guest.limit = Duration::from_mins(30);
        Ok(guest)
    });
    match made {
        Ok(guest) => Some(guest),
        Err(error) if strict => panic!("{error}"),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

/// Prints the files that a guest has left, if `WEIR_SHOW` is set.
pub(super) fn show(ran: &GuestOutput) {
    if std::env::var_os("WEIR_SHOW").is_some() {
        for (name, log) in &ran.files {
            println!("--- {name}\n{}", String::from_utf8_lossy(log));
        }
    }
}

#[test]
fn csi_sanity_passes_whole_in_a_guest() {
    let (Some(sanity), Some(mut guest)) = (program("csi-sanity"), guest(SCRIPT)) else {
        return;
    };
    guest.programs.push(sanity);
    guest
        .files
        .insert("weir.toml".into(), SERVER.as_bytes().to_vec());
    let ran = guest.run().unwrap_or_else(|error| panic!("{error}"));
    let console = ran.console.join("\n");
    let said = |name: &str| {
        let lines = ran.console.iter();
        let mut words = lines.filter_map(|line| line.strip_prefix("said: ")?.strip_prefix(name));
        words
            .next_back()
            .map(str::trim)
            .unwrap_or_default()
            .to_owned()
    };
    for way in WAYS {
        println!(
            "csi-sanity by {way}: {} {}",
            said(&format!("ran-{way}")),
            said(&format!("sums-{way}"))
        );
    }
    show(&ran);
    for way in WAYS {
        assert_eq!(said(&format!("status-{way}")), "0", "{console}");
        assert!(
            said(&format!("sums-{way}")).contains(" 0 Failed"),
            "{console}"
        );
    }
    // No volume, file, device or mount is left behind.
    assert_eq!(said("volumes"), "0", "{console}");
    assert_eq!(said("files"), "0", "{console}");
    assert_eq!(said("devices"), "0 0", "{console}");
    assert_eq!(said("mounts"), "0", "{console}");
}
