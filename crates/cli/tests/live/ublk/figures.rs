//! The cost of a request over each path to a volume of the same server, in the same guest. It is
//! counted in instructions, each of which takes a nanosecond there.

use super::{guest, played};

const SERVER: &str = r#"
[drive.d]
tags = 128
[listen]
nbd = ["unix:/run/nbd.sock"]
[volume.v]
drive = "d"
memory = true
size = "64MiB"
ublk = true
"#;

/// Prints the requests of each job (name, block, depth, pattern) and their mean latency in us, for
/// each device.
const SCRIPT: &str = r#"
load nbd; load null_blk nr_devices=1 queue_mode=2 irqmode=0 gb=1 hw_queue_depth=128 submit_queues=1
serve /files/weir.toml; there /dev/ublkb0
nbd-client -unix /run/nbd.sock /dev/nbd0 -N v -b 512 >/dev/null 2>&1
for d in nbd0 ublkb0 nullb0; do echo none >/sys/block/$d/queue/scheduler; done
while read name block depth way; do
    for d in nullb0 nbd0 ublkb0; do
        fio --name=j --filename=/dev/$d --ioengine=libaio --direct=1 --rw=$way --bs=$block --iodepth=$depth --size=64m --time_based \
            --ramp_time=100ms --runtime=300ms --minimal >/tmp/fio 2>&1 || { echo "fio failed"; cat /tmp/fio; }
        # Of reads or of writes: run time in ms, requests a second, mean of the latency in us.
        case $way in *read) set -- 9 8 40 ;; *) set -- 50 49 81 ;; esac
        say $name.$d $(tail -n 1 /tmp/fio | cut -d';' -f$2,$3 | tr ';' ' ')
    done
done <<END
read1 4k 1 randread
read32 4k 32 randread
write1 4k 1 randwrite
write32 4k 32 randwrite
large 128k 8 read
END
nbd-client -d /dev/nbd0 >/dev/null 2>&1; kill -TERM $(pidof weir); ended
say errors $(complaints)
"#;

#[test]
#[ignore = "a figure: ./bench ublk"]
fn a_request_over_ublk_costs_less_than_over_nbd() {
    let Some(mut guest) = guest(SCRIPT, &[("weir.toml", SERVER)]) else {
        return;
    };
    guest.add_program("nbd-client", "nbd-client").unwrap();
    let (said, console) = played(&guest);
    println!(
        "{:30} {:>14} {:>10} {:>10} {:>10} {:>8}",
        "instructions a request", "fio, null_blk", "NBD", "ublk", "ublk / NBD", "latency"
    );
    let mut ratios = Vec::new();
    for (name, title) in [
        ("read1", "4 KiB random read, depth 1"),
        ("read32", "4 KiB random read, depth 32"),
        ("write1", "4 KiB random write, depth 1"),
        ("write32", "4 KiB random write, depth 32"),
        ("large", "128 KiB read, depth 8"),
    ] {
        let of = |device: &str| -> (f64, f64) {
            let words = said.get(&format!("{name}.{device}")).cloned();
            let words = words.unwrap_or_default();
            let mut numbers = words.split(' ').map(|w| w.parse().unwrap_or(f64::NAN));
            let mut next = || numbers.next().unwrap_or(f64::NAN);
            // One second has 10^9 instructions, so that requests per second give instructions per
            // request.
            (1e9 / next(), next())
        };
        let ((floor, _), (nbd, slow), (ublk, fast)) = (of("nullb0"), of("nbd0"), of("ublkb0"));
        // The cost of fio and the block layer, measured with null_blk, is subtracted from both.
        let ratio = (ublk - floor) / (nbd - floor);
        println!(
            "{title:30} {floor:14.0} {nbd:10.0} {ublk:10.0} {ratio:10.2} {slow:.1} us, {fast:.1} us"
        );
        ratios.push(ratio);
    }
    println!("(the ratio is that of what goes beyond fio and null_blk)");
    assert!(ratios.iter().all(|ratio| *ratio < 1.0), "{console}");
    assert_eq!(said["errors"], "0", "{console}");
}
