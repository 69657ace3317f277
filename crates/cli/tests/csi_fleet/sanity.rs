//! `csi-sanity`, whole: controller, node and clones, by NBD and by ublk, in a guest.

use super::program;
use std::time::Duration;
use weir_guest::{Guest, Kernel};

/// A server with a drive whose files lie on XFS, the driver, and `csi-sanity`.
const SCRIPT: &str = r#"
load virtio_pci; load virtio_blk; load xfs; load ext4; load nbd; load ublk_drv
mkdir -p /vol/fast /run/csi /tmp
mkfs.xfs -q -f /dev/vda && mount -t xfs /dev/vda /vol/fast || echo "no xfs"
cp /files/weir.toml /run/weir.toml
weir serve /run/weir.toml >/tmp/serve.log 2>&1 &
sleep 1
weir csi --socket /run/manage.sock --endpoint /run/csi/csi.sock --volumes /vol --node guest >/tmp/csi.log 2>&1 &
sleep 1
for attach in nbd ublk; do
    echo "attach: $attach" >/tmp/parameters
    csi-sanity --ginkgo.no-color --csi.endpoint /run/csi/csi.sock --csi.testvolumesize 33554432 --csi.testvolumeexpandsize 67108864 \
        --csi.testvolumeparameters /tmp/parameters --csi.mountdir /tmp/mount-$attach --csi.stagingdir /tmp/stage-$attach >/tmp/sanity 2>&1
    echo "said: status-$attach $?"
    grep -A6 -E '\[(FAILED|PANICKED)\]' /tmp/sanity
    echo "said: ran-$attach $(grep '^Ran ' /tmp/sanity)"
    echo "said: sums-$attach $(grep ' Passed ' /tmp/sanity)"
    cp /tmp/sanity /out/sanity-$attach
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

/// Size of the drive, MiB: more than XFS has to have, and room for the volumes of a test.
const DISK_MIB: u32 = 768;

#[test]
fn csi_sanity_passes_whole_in_a_guest() {
    let Some(sanity) = program("csi-sanity") else {
        return;
    };
    let kernel = Kernel::find("6.12", |line| println!("{line}")).expect("a kernel");
    let mut guest = Guest::new(kernel, SCRIPT);
    guest
        .programs
        .extend([env!("CARGO_BIN_EXE_weir").into(), sanity]);
    for (tool, package) in [
        ("blkid", "util-linux"),
        ("mount", "mount"),
        ("umount", "mount"),
        ("mkfs.ext4", "e2fsprogs"),
        ("resize2fs", "e2fsprogs"),
        ("mkfs.xfs", "xfsprogs"),
    ] {
        guest.add_program(tool, package).expect("the usual tools");
    }
    guest.modules.push("xfs");
    guest.disks_mib.push(DISK_MIB);
    guest
        .files
        .insert("weir.toml".into(), SERVER.as_bytes().to_vec());
    guest.limit = Duration::from_mins(30);
    let ran = guest.run().unwrap_or_else(|error| panic!("{error}"));
    let console = ran.console.join("\n");
    let said = |name: &str| {
        let lines = ran.console.iter();
        let words = lines.filter_map(|line| line.strip_prefix("said: ")?.strip_prefix(name));
        words.last().map(str::trim).unwrap_or_default().to_owned()
    };
    for attach in ["nbd", "ublk"] {
        println!(
            "csi-sanity by {attach}: {} {}",
            said(&format!("ran-{attach}")),
            said(&format!("sums-{attach}"))
        );
    }
    for (name, log) in &ran.files {
        if std::env::var_os("WEIR_SHOW").is_some() {
            println!("--- {name}\n{}", String::from_utf8_lossy(log));
        }
    }
    for attach in ["nbd", "ublk"] {
        assert_eq!(said(&format!("status-{attach}")), "0", "{console}");
        assert!(
            said(&format!("sums-{attach}")).contains(" 0 Failed"),
            "{console}"
        );
    }
    // Nothing is left behind.
    assert_eq!(said("volumes"), "0", "{console}");
    assert_eq!(said("files"), "0", "{console}");
    assert_eq!(said("devices"), "0 0", "{console}");
    assert_eq!(said("mounts"), "0", "{console}");
}
