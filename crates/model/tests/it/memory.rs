//! The memory use of a drive model.

use weir_core::random::Rng;
use weir_core::{Dispatch, Instant, Op, QueueId, Tag};
use weir_model::drive::{DriveModel, ssd};

/// A flash drive of 512 GB with 8184 tags, fully written.
fn large() -> ssd::SsdConfig {
    ssd::SsdConfig {
        size: 512_110_190_592,
        tags: 1023,
        queues: 8,
        filled: 100,
        write_buffer: 64 << 20,
        ..ssd::SsdConfig::generic()
    }
}

/// Sends random writes and reads with a constant number of commands in flight.
fn overwrite(drive: &mut ssd::Ssd, size: u64, commands: u64) {
    let (mut now, mut random) = (Instant::ZERO, Rng::new(1));
    let mut free: Vec<u32> = (0..1023 * 8).collect();
    for _ in 0..commands {
        let tag = free.pop().unwrap_or_else(|| {
            loop {
                now = drive.next_completion().expect("commands are in the drive");
                if let Some(ended) = drive.pop(now) {
                    return ended.completion.tag.0;
                }
            }
        });
        let op = [Op::Write, Op::Read][tag as usize % 2];
        let command = Dispatch {
            queue: QueueId((tag / 1023) as u16),
            tag: Tag(tag),
            ..Dispatch::new(op, random.range(0, size / 4096 - 1) * 4096, 4096)
        };
        assert!(drive.submit(now, &command).is_ok());
    }
}

/// The model has no mapping table, which alone would take half a gigabyte: 125 million units of 4
/// bytes.
#[test]
fn a_drive_of_512_gb_takes_less_than_ten_megabytes() {
    let config = large();
    let used = allocation_counter::measure(|| {
        let mut drive = config.build().expect("it is possible");
        overwrite(&mut drive, config.size, 20_000);
    });
    assert!(used.bytes_max < 10_000_000, "{} bytes", used.bytes_max);
}
