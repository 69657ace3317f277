//! Devices with random numbers of queues and queue depths.

use std::fmt::Write;
use std::time::Duration;

use weir_core::random::Rng;

use super::{guest, played};

/// The number of random servers, which `WEIR_DRAWS` replaces.
const DRAWS: u32 = 128;
const PROCESSORS: u8 = 4;

/// Reads lines of `/files/draws`: number, queues, tags, longest request (KiB), fio's depth, its
/// longest block (KiB), and its access pattern.
const SCRIPT: &str = r#"
good=0
while read n queues tags longest depth block way; do
    printf '[drive.d]\npolicy = "none"\nqueues = %s\ntags = %s\nmax_transfer = "%sKiB"\n[volume.v]\ndrive = "d"\nmemory = true\nsize = "16MiB"\nublk = true\n' \
        $queues $tags $longest >/tmp/weir.toml
    serve /tmp/weir.toml; there /dev/ublkb0 || break
    q=/sys/block/ublkb0
    has="$(ls $q/mq | wc -l) $(cat $q/mq/0/nr_tags) $(cat $q/queue/max_hw_sectors_kb)"
    verify --filename=/dev/ublkb0 --rw=$way --bsrange=4k-${block}k --blockalign=4k --iodepth=$depth --numjobs=4 --cpus_allowed=0-3 \
        --cpus_allowed_policy=split --size=1m --offset_increment=4m --group_reporting
    kill -TERM $(pidof weir); ended; gone /dev/ublkb0 || break
    if [ "$has" = "$queues $tags $longest" ]; then good=$((good + 1)); else echo "draw $n: $has for $queues $tags $longest"; fi
done </files/draws
say good $good; say errors $(complaints)
"#;

fn draws(count: u32) -> String {
    // The seed is fixed, so that a failure can be repeated.
    let mut rng = Rng::new(39);
    let mut lines = String::new();
    for number in 0..count {
        let queues = rng.range(1, PROCESSORS.into());
        // The number is uniform in its logarithm, so that few tags are as frequent as many.
        let tags = (1 << rng.range(0, 9)) + rng.range(0, 3);
        let longest = 4 << rng.range(0, 8);
        let depth = 1 << rng.range(0, 7);
        let block = 4 << rng.range(0, 6);
        let way = ["write", "randwrite", "randrw"][rng.range(0, 2) as usize];
        let _ = writeln!(
            lines,
            "{number} {queues} {tags} {longest} {depth} {block} {way}"
        );
    }
    lines
}

#[test]
#[ignore = "a figure: ./bench ublk"]
fn queues_and_depths_that_are_drawn_work() {
    let count = std::env::var("WEIR_DRAWS").ok();
    let count = count.and_then(|count| count.parse().ok()).unwrap_or(DRAWS);
    let table = draws(count);
    let Some(mut guest) = guest(SCRIPT, &[("draws", &table)]) else {
        return;
    };
    guest.processors = PROCESSORS;
    guest.limit = Duration::from_secs(60 * u64::from(count));
    let (said, console) = played(&guest);
    assert_eq!(said["good"], count.to_string(), "{console}");
    assert_eq!(said["errors"], "0", "{console}");
    println!(
        "{count} draws of queues (1 to {PROCESSORS}) and depths (1 to 515): all of them verified, none with an error"
    );
}
