//! The properties of a device, and its creation and removal.

use super::{guest, played};

const SERVER: &str = r#"
[drive.disk]
policy = "none"
tags = 31
rotational = true
max_transfer = "256KiB"
[drive.flash]
tags = 7
[listen]
metrics = "127.0.0.1:9809"
[manage]
socket = "/run/manage.sock"
[volume.a]
drive = "disk"
memory = true
size = "40MiB"
ublk = true
[volume.b]
drive = "flash"
memory = true
size = "8MiB"
read_only = true
ublk = true
"#;

const SCRIPT: &str = r#"
cp /files/weir.toml /run/weir.toml
serve /run/weir.toml --record /tmp/record
there /dev/ublkb0 && there /dev/ublkb1
for d in ublkb0 ublkb1; do
    q=/sys/block/$d/queue
    say $d $(cat /sys/block/$d/size) $(cat /sys/block/$d/ro) $(cat /sys/block/$d/mq/0/nr_tags) $(cat $q/max_sectors_kb) $(cat $q/rotational) \
        $(cat $q/logical_block_size) $(cat $q/fua) $(cat $q/discard_max_bytes) $(cat $q/write_zeroes_max_bytes)
done
verify --filename=/dev/ublkb0 --rw=randwrite --bsrange=512-300k --blockalign=512 --iodepth=40 --size=40m --io_size=30m
verify --filename=/dev/ublkb0 --rw=randtrimwrite --bs=8k --iodepth=4 --size=4m --fsync=7
dd if=/dev/zero of=/dev/ublkb1 bs=4k count=1 2>/dev/null && say readonly no || say readonly yes
/bin/blkdiscard -z -o 0 -l 1048576 /dev/ublkb0 && cmp -n 1048576 /dev/ublkb0 /dev/zero && say zeroed yes
wget -q -O - http://127.0.0.1:9809/metrics | grep -E 'weir_connections\{.*volume="a"' >/tmp/metrics; say metrics $(cat /tmp/metrics)
# A server that stands still and goes on: nobody sees an error.
verify --filename=/dev/ublkb0 --rw=randwrite --bs=4k --iodepth=16 --size=8m --offset=16m --rate_iops=2000 & job=$!
sleep 0.3; kill -STOP $(pidof weir); sleep 40; kill -CONT $(pidof weir); wait $job; say stopped $(complaints)
# A reload takes one away, and brings one.
sed -e '/volume.b/,$d' /files/weir.toml >/run/weir.toml
printf '[volume.c]\ndrive = "flash"\nmemory = true\nsize = "4MiB"\nublk = true\n' >>/run/weir.toml
kill -HUP $(pidof weir); n=0; until [ "$(cat /sys/block/ublkb1/size 2>/dev/null)" = 8192 ]; do sleep 0.05; n=$((n + 1)); [ $n = 100 ] && break; done
say reloaded $(cat /sys/block/ublkb*/size)
verify --filename=/dev/ublkb1 --rw=randwrite --bs=4k --size=4m --iodepth=8
# One that is mounted does not go.
mkfs.ext4 -q -F /dev/ublkb0; mkdir -p /mnt; mount /dev/ublkb0 /mnt; echo text >/mnt/file
awk '/^\[volume.a\]/ { skip = 1; next } /^\[/ { skip = 0 } !skip' /run/weir.toml >/tmp/other; cp /tmp/other /run/weir.toml
kill -HUP $(pidof weir); sleep 1; say refused $(grep -c 'cannot be removed while it has' /tmp/log) $(cat /mnt/file)
umount /mnt; kill -HUP $(pidof weir); gone /dev/ublkb0 && say removed yes
# One comes and goes by management, with a number that is chosen.
weir ctl --socket /run/manage.sock add d drive=flash memory=true size=4MiB ublk=true ublk_number=9 >/tmp/ctl 2>&1 || cat /tmp/ctl
there /dev/ublkb9 && dd if=/dev/ublkb9 of=/dev/null bs=4k 2>/dev/null && say added yes
weir ctl --socket /run/manage.sock show d | grep '^block_device' >/tmp/ctl; say shown $(cat /tmp/ctl)
weir ctl --socket /run/manage.sock grow d 12MiB >/tmp/ctl 2>&1; say told $(grep -c "volume.d: /dev/ublkb9 keeps its size until it is created again: resizing requires Linux 6.16 or later" /tmp/ctl)
say grown $(blockdev --getsize64 /dev/ublkb9)
verify --filename=/dev/ublkb9 --rw=randwrite --bs=4k --iodepth=8 --size=$(blockdev --getsize64 /dev/ublkb9)
weir ctl --socket /run/manage.sock remove d >/tmp/ctl 2>&1 || cat /tmp/ctl
gone /dev/ublkb9 && say gone yes
kill -TERM $(pidof weir); ended; say left $(ls /dev | grep -c '^ublk[bc]')
weir replay /tmp/record.disk >/tmp/replay 2>&1; say replay $?
say errors $(complaints)
grep -E "WARN|ERROR" /tmp/log
"#;

#[test]
fn a_device_has_the_properties_of_its_drive_and_can_be_removed() {
    let Some(mut guest) = guest(SCRIPT, &[("weir.toml", SERVER)]) else {
        return;
    };
    guest.add_program("mkfs.ext4", "e2fsprogs").unwrap();
    guest.add_program("blkdiscard", "util-linux").unwrap();
    let (said, console) = played(&guest);
    let expect = |name: &str, words: &str| {
        let there = said.get(name).map(String::as_str);
        assert_eq!(there, Some(words), "{name}: {console}");
    };
    // In this order: sectors, read-only, tags, longest request, rotational, block size, FUA,
    // discard, and zeroing.
    expect("ublkb0", "81920 0 31 256 1 512 1 1073741824 1073741824");
    expect("ublkb1", "16384 1 7 128 0 512 0 0 0");
    expect("readonly", "yes");
    expect("zeroed", "yes");
    assert!(said["metrics"].ends_with(" 1"), "{console}");
    expect("stopped", "0");
    expect("reloaded", "81920 8192");
    expect("refused", "1 text");
    expect("removed", "yes");
    expect("added", "yes");
    expect("shown", "block_device = \"/dev/ublkb9\"");
    // Kernels from 6.16 on can resize a device. The tests boot 6.12 and 7.
    let resizes = guest.kernel.release().starts_with('7');
    let (told, grown) = if resizes {
        ("0", "12582912")
    } else {
        ("1", "4194304")
    };
    expect("told", told);
    expect("grown", grown);
    expect("gone", "yes");
    expect("left", "0");
    expect("replay", "0");
    expect("errors", "0");
}
