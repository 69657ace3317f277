//! How much memory a model takes.

use weir_core::{Dispatch, Flags, Instant, Op, QueueId, SpaceId, StreamId, Tag};
use weir_drive::{Drive, ssd};

/// A flash drive of 512 GB with 8184 places, all of it written before.
fn large() -> ssd::Config {
    ssd::Config {
        size: 512_110_190_592,
        tags: 1023,
        queues: 8,
        filled: 100,
        write_buffer: 64 << 20,
        ..ssd::Config::generic()
    }
}

/// Writes at random with so many commands outstanding.
fn overwrite(drive: &mut ssd::Ssd, size: u64, commands: u64) {
    let (mut now, mut random) = (Instant::ZERO, 1u64);
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
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let command = Dispatch {
            queue: QueueId((tag / 1023) as u16),
            tag: Tag(tag),
            stream: StreamId::from_bits(0),
            cookie: 0,
            space: SpaceId(0),
            op: if tag.is_multiple_of(2) {
                Op::Write
            } else {
                Op::Read
            },
            flags: Flags::NONE,
            offset: random % (size / 4096) * 4096,
            length: 4096,
            within: 0,
        };
        assert!(drive.submit(now, &command).is_ok());
    }
}

/// The model keeps no table of where each page lies, which alone would be half a gigabyte.
#[test]
fn a_drive_of_512_gb_takes_less_than_ten_megabytes() {
    let config = large();
    let used = allocation_counter::measure(|| {
        let mut drive = config.build().expect("it is possible");
        overwrite(&mut drive, config.size, 20_000);
    });
    assert!(used.bytes_max < 10_000_000, "{} bytes", used.bytes_max);
}
