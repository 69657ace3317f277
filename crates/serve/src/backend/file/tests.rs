//! Tests of images: reads return the data that were written, for all sizes and for many concurrent
//! jobs.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use weir_core::{Flags, Op};
use weir_uring::{Backend as Ringed, IoRingConfig, Ring};

use super::super::Data;
use super::bench::{BackendBench, Rng};
use super::*;

/// A directory that is removed when it is dropped.
#[derive(Debug)]
pub(in crate::backend) struct Directory(pub(in crate::backend) PathBuf);

impl Directory {
    /// Creates a directory for temporary files, which are on a disk on most systems.
    pub(in crate::backend) fn new() -> Self {
        Self::under(&std::env::temp_dir())
    }

    /// Creates a directory in memory, if its file system supports direct I/O (tmpfs since Linux
    /// 6.6), and one for temporary files otherwise.
    fn in_memory() -> Self {
        let memory = Self::under(Path::new("/dev/shm"));
        let probe = ImageOptions {
            path: memory.0.join("probe"),
            ..memory.options(4096)
        };
        match OpenStorage::image(&probe) {
            Ok(_) => memory,
            Err(_) => Self::new(),
        }
    }

    fn under(parent: &Path) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-storage-{}-{number}", std::process::id());
        let path = parent.join(name);
        let made = fs::create_dir(&path);
        assert!(made.is_ok(), "{}: {made:?}", parent.display());
        Self(path)
    }

    pub(in crate::backend) fn options(&self, size: u64) -> ImageOptions {
        ImageOptions {
            path: self.0.join("image"),
            size: Some(size),
            read_only: false,
            direct: true,
            preallocate: false,
            patience: Duration::ZERO,
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(in crate::backend) fn ring(backend: Ringed) -> IoRingConfig {
    IoRingConfig {
        backend,
        arena_bytes: 8 << 20,
        in_flight: 64,
        ..IoRingConfig::default()
    }
}

/// Repeats `attempt` until it succeeds. A process that another test is just starting has a copy of
/// all descriptors of this process until it calls execve(2), and with them all locks. A lock that
/// was released is therefore free only a moment later.
pub(in crate::backend) fn soon<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    for _ in 0..500 {
        if let Some(done) = attempt() {
            return done;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it stays locked");
}

/// Opens an image that no other process uses.
pub(in crate::backend) fn open_soon(options: &ImageOptions) -> OpenStorage {
    soon(|| match OpenStorage::image(options) {
        Err(OpenError::Locked { .. }) => None,
        opened => Some(opened.unwrap()),
    })
}

fn bench(options: &ImageOptions) -> BackendBench {
    let image = open_soon(options);
    BackendBench::new(Box::new(image), &ring(Ringed::Auto))
}

const MIB: u64 = 1 << 20;

#[test]
fn an_image_is_created_once_and_keeps_its_data() {
    let directory = Directory::new();
    let options = directory.options(8 * MIB);
    let mut bench = bench(&options);
    assert_eq!(bench.size, 8 * MIB);
    bench.write(4096, &[7; 8192], Flags::NONE).unwrap();
    bench.write(100, &[1, 2, 3], Flags::FUA).unwrap();
    assert_eq!(bench.read(99, 5), Ok(vec![0, 1, 2, 3, 0]));
    assert_eq!(bench.read(4095, 3), Ok(vec![0, 7, 7]));
    bench.flush().unwrap();
    drop(bench);
    let stat = fs::metadata(&options.path).unwrap();
    assert_eq!(stat.len(), 8 * MIB);
    // `blocks` counts in units of 512 bytes (stat(2)).
    assert!(stat.blocks() * 512 < MIB, "it is sparse");
    assert_eq!(stat.mode() & 0o777, 0o600);
    let mut bytes = [0; 3];
    let file = File::open(&options.path).unwrap();
    file.read_exact_at(&mut bytes, 100).unwrap();
    assert_eq!(bytes, [1, 2, 3]);
    let again = ImageOptions {
        size: None,
        read_only: true,
        ..options
    };
    let mut bench = self::bench(&again);
    assert_eq!(bench.read(12_287, 2), Ok(vec![7, 0]));
    // 1 is `EPERM`.
    assert_eq!(bench.write(0, &[1; 512], Flags::NONE), Err(1));
    assert_eq!(bench.plain(Op::Discard, Flags::NONE, 0, 4096), Err(1));
}

/// The random properties of a disk.
#[derive(Clone, Copy, Debug)]
struct RandomDisk {
    ring: Ringed,
    direct: bool,
    /// The block size, which can be larger than that of the file.
    block: u32,
    keep: bool,
    arena: usize,
    in_flight: usize,
}

impl RandomDisk {
    fn draw(rng: &mut Rng) -> Self {
        Self {
            ring: [Ringed::Auto, Ringed::Poll][rng.below(2) as usize],
            direct: !rng.one_in(4),
            block: 512 << rng.below(4),
            keep: rng.one_in(4),
            arena: [512 << 10, 8 << 20][rng.below(2) as usize],
            in_flight: [3, 64][rng.below(2) as usize],
        }
    }

    fn bench(self, directory: &Directory, size: u64) -> BackendBench {
        let mut image = OpenStorage::image(&ImageOptions {
            direct: self.direct,
            preallocate: self.keep,
            ..directory.options(size)
        })
        .unwrap();
        if self.direct {
            // A file system can accept smaller blocks than are drawn. The block must not be smaller
            // than the file system requires.
            let least = alignment(&image.fd)
                .unwrap()
                .map_or(512, |(block, _)| block);
            let block = self.block.max(least);
            image.geometry.block = block;
            image.traits.align = block;
        }
        let config = IoRingConfig {
            arena_bytes: self.arena,
            in_flight: self.in_flight,
            ..ring(self.ring)
        };
        BackendBench::new(Box::new(image), &config)
    }
}

/// A job of a batch, with the data that a read must return.
struct SubmittedJob {
    tag: u32,
    expected: Option<Vec<u8>>,
}

/// Submits a random job. No other job of the batch uses the bytes `start` to `end`, but others may
/// use the same blocks.
fn ask(
    bench: &mut BackendBench,
    rng: &mut Rng,
    model: &mut [u8],
    start: usize,
    end: usize,
) -> SubmittedJob {
    let (offset, length) = (start as u64, (end - start) as u32);
    let fua = [Flags::NONE, Flags::FUA][usize::from(rng.one_in(8))];
    let grain = if bench.traits.align == 1 { 1 } else { 4096 };
    let part = &mut model[start..end];
    let (tag, expected) = match rng.below(8) {
        0 | 1 => {
            let expected = part.to_vec();
            let data = loop {
                match bench.target(offset, length, rng.one_in(3)) {
                    Some(data) => break data,
                    None => bench.turn(Duration::from_millis(1)),
                }
            };
            (
                bench.submit(Op::Read, Flags::NONE, offset, length, data),
                Some(expected),
            )
        }
        2 => {
            let inner = (start.next_multiple_of(grain), end / grain * grain);
            if inner.0 < inner.1 {
                model[inner.0..inner.1].fill(0);
            }
            (
                bench.submit(Op::Discard, fua, offset, length, Data::None),
                None,
            )
        }
        3 => {
            part.fill(0);
            let flags = [fua, fua.with(Flags::NO_HOLE)][rng.below(2) as usize];
            (
                bench.submit(Op::WriteZeroes, flags, offset, length, Data::None),
                None,
            )
        }
        _ => {
            part.fill_with(|| rng.below(256) as u8);
            let bytes = part.to_vec();
            let data = loop {
                let mut cuts = rng.clone();
                let many = rng.one_in(3);
                let cut = |left: usize| match (many, cuts.below(3)) {
                    (false, _) => left,
                    (true, 0) => 512,
                    (true, 1) => 4096,
                    (true, _) => 1 + cuts.below(9000) as usize,
                };
                match bench.source(&bytes, cut) {
                    Some(data) => break data,
                    None => bench.turn(Duration::from_millis(1)),
                }
            };
            (bench.submit(Op::Write, fua, offset, length, data), None)
        }
    };
    SubmittedJob { tag, expected }
}

/// Batches of concurrent jobs share blocks but no bytes, so that the expected content of each byte
/// is known.
#[test]
fn concurrent_jobs_on_shared_blocks_undo_nothing() {
    let mut busy = 0;
    for seed in 0..120 {
        let mut rng = Rng::new(seed);
        let drawn = RandomDisk::draw(&mut rng);
        // The first seeds use a disk, in fewer rounds because that is slower.
        let (directory, rounds) = if seed < 4 {
            (Directory::new(), 3)
        } else {
            (Directory::in_memory(), 20)
        };
        let size = 65_536 * (1 + rng.below(8));
        let mut bench = drawn.bench(&directory, size);
        let mut model = vec![0; size as usize];
        for _ in 0..rounds {
            let mut asked = Vec::new();
            let mut at = rng.below(size / 2) as usize;
            let spread = [600, 5_000, 60_000][rng.below(3) as usize];
            while asked.len() < 12 {
                let aligned = if rng.one_in(3) { 4096 } else { 1 };
                let start = (at + rng.below(300) as usize).next_multiple_of(aligned);
                let length = (1 + rng.below(spread) as usize).next_multiple_of(aligned);
                let end = (start + length).min(size as usize);
                if start >= end {
                    break;
                }
                asked.push(ask(&mut bench, &mut rng, &mut model, start, end));
                at = end;
            }
            if rng.one_in(4) {
                assert_eq!(bench.flush(), Ok(()));
            }
            for SubmittedJob { tag, expected } in asked {
                let (result, bytes) = bench.wait(tag);
                assert_eq!(result, Ok(()), "{drawn:?}");
                if let Some(expected) = expected {
                    assert!(bytes == expected, "seed {seed}: a read among {drawn:?}");
                }
            }
            for from in (0..size).step_by(65_536) {
                let got = bench.read(from, 65_536).unwrap();
                let right = &model[from as usize..][..65_536];
                assert!(got == right, "seed {seed}, from {from}: {drawn:?}");
            }
        }
        busy += bench.busy;
        let arena = bench.ring.arena().clone();
        drop(bench);
        assert_eq!(
            arena.available(),
            arena.capacity(),
            "every buffer came back"
        );
        assert!(fs::read(directory.0.join("image")).unwrap() == model);
    }
    assert!(busy > 0, "small rings and small arenas were full at times");
}

/// Whole blocks change while a part of one of them changes. Regardless of the order, the previous
/// content of the block must not return.
#[test]
fn read_modify_write_restores_no_old_data() {
    let directory = Directory::in_memory();
    let mut bench = bench(&directory.options(65_536));
    let mut rng = Rng::new(3);
    for round in 1..=255u8 {
        let part = |rng: &mut Rng, bench: &mut BackendBench| {
            let data = bench.source(&[round; 10], |left| left).unwrap();
            let at = 10 + rng.below(4096);
            (at, bench.submit(Op::Write, Flags::NONE, at, 10, data))
        };
        let first = rng.one_in(2).then(|| part(&mut rng, &mut bench));
        let zeroes = rng.one_in(3);
        let whole = if zeroes {
            bench.submit(Op::WriteZeroes, Flags::NONE, 0, 8192, Data::None)
        } else {
            let data = bench.source(&[!round; 8192], |left| left).unwrap();
            bench.submit(Op::Write, Flags::NONE, 0, 8192, data)
        };
        let second = first.is_none().then(|| part(&mut rng, &mut bench));
        let (at, tag) = first.or(second).unwrap();
        assert_eq!((bench.wait(tag).0, bench.wait(whole).0), (Ok(()), Ok(())));
        let got = bench.read(0, 8192).unwrap();
        let around = if zeroes { 0 } else { !round };
        for (place, byte) in (0u64..).zip(got) {
            let inside = (at..at + 10).contains(&place) && byte == round;
            assert!(byte == around || inside, "round {round}: {byte} at {place}");
        }
    }
}

#[test]
fn after_a_failed_flush_none_succeeds_until_the_image_is_opened_again() {
    for direct in [true, false] {
        let directory = Directory::new();
        let options = ImageOptions {
            direct,
            ..directory.options(MIB)
        };
        let mut bench = bench(&options);
        bench.write(0, &[1; 4096], Flags::NONE).unwrap();
        bench.flush().unwrap();
        bench.sync_result = Some(Errno::IO);
        // 5 is `EIO`.
        assert_eq!(bench.flush(), Err(5));
        assert_eq!(bench.flush(), Err(5));
        assert_eq!(bench.write(0, &[2; 4096], Flags::FUA), Err(5));
        assert_eq!(bench.plain(Op::WriteZeroes, Flags::FUA, 0, 4096), Err(5));
        // Writes that need not be durable still succeed.
        assert_eq!(bench.write(0, &[3; 4096], Flags::NONE), Ok(()));
        assert_eq!(bench.read(0, 2), Ok(vec![3, 3]));
        drop(bench);
        assert_eq!(self::bench(&options).flush(), Ok(()));
    }
}

/// A failure of a durable write can contain the error of earlier writes, which later flushes would
/// not report.
#[test]
fn only_a_failed_durable_write_fails_later_flushes() {
    let failing = |flags: Flags, offset: u64, errno: Errno| {
        let directory = Directory::new();
        let mut bench = bench(&directory.options(MIB));
        bench.write_result = Some(errno);
        let failed = bench.write(offset, &[1; 4096], flags);
        (failed, bench.flush())
    };
    assert_eq!(failing(Flags::FUA, 0, Errno::IO), (Err(5), Err(5)));
    assert_eq!(failing(Flags::NONE, 0, Errno::IO), (Err(5), Ok(())));
    assert_eq!(failing(Flags::FUA, 0, Errno::NOSPC), (Err(28), Ok(())));
    // The read of the first block fails here. It says nothing about earlier writes.
    assert_eq!(failing(Flags::FUA, 1, Errno::IO), (Err(5), Ok(())));
}

/// A failed fdatasync fails all flushes that wait for it, and all that arrive while it runs.
#[test]
fn a_failed_flush_fails_all_that_depend_on_it() {
    let directory = Directory::new();
    let options = ImageOptions {
        direct: false,
        ..directory.options(MIB)
    };
    let mut bench = bench(&options);
    bench.sync_result = Some(Errno::NOSPC);
    let mut tags = vec![bench.submit(Op::Flush, Flags::NONE, 0, 0, Data::None)];
    let data = bench.source(&[1; 100], |left| left).unwrap();
    tags.push(bench.submit(Op::Write, Flags::FUA, 0, 100, data));
    tags.push(bench.submit(Op::Flush, Flags::NONE, 0, 0, Data::None));
    for tag in tags {
        assert_eq!(bench.wait(tag).0, Err(5));
    }
}

#[test]
fn discards_free_space_and_zeroing_can_keep_it() {
    let directory = Directory::new();
    let options = directory.options(4 * MIB);
    let mut bench = bench(&options);
    assert!(bench.traits.trim && bench.traits.fast_zero && bench.traits.allocation);
    let blocks = || fs::metadata(&options.path).unwrap().blocks() * 512;
    for at in (0..2 * MIB).step_by(65_536) {
        bench.write(at, &vec![9; 65_536], Flags::NONE).unwrap();
    }
    bench.flush().unwrap();
    assert!(blocks() >= 2 * MIB);
    // The range from 1 to 1 MiB + 1 contains the whole 4-KiB grains from 4096 to 1 MiB.
    bench
        .plain(Op::Discard, Flags::NONE, 1, MIB as u32)
        .unwrap();
    assert!(blocks() < 2 * MIB - MIB / 2);
    assert_eq!(
        bench.read(0, 1),
        Ok(vec![9]),
        "what is not a whole block stays"
    );
    assert_eq!(
        bench.extents(Flags::NONE, 0, 4 << 20),
        [
            (4096, true),
            ((1 << 20) - 4096, false),
            (1 << 20, true),
            (2 << 20, false)
        ]
    );
    assert_eq!(
        bench.extents(Flags::FIRST_ONLY, 5000, 4 << 20),
        [((1 << 20) - 5000, false)]
    );
    assert_eq!(bench.extents(Flags::NONE, MIB + 1, 77), [(77, true)]);

    let before = blocks();
    let keep = Flags::NO_HOLE.with(Flags::FAST_ZERO);
    bench.plain(Op::WriteZeroes, keep, MIB, MIB as u32).unwrap();
    assert!(blocks() >= before, "it stays allocated");
    assert_eq!(bench.read(2 * MIB - 2, 2), Ok(vec![0, 0]));
    bench
        .plain(Op::WriteZeroes, Flags::NONE, MIB, MIB as u32)
        .unwrap();
    assert!(blocks() < before, "and need not");
    // Zeroing less than a grain cannot be faster than writing it. 95 is `EOPNOTSUPP`.
    assert_eq!(
        bench.plain(Op::WriteZeroes, Flags::FAST_ZERO, 512, 512),
        Err(95)
    );
    assert_eq!(bench.plain(Op::WriteZeroes, Flags::NONE, 0, 1), Ok(()));
    assert_eq!(bench.read(0, 2), Ok(vec![0, 9]));
}

/// Reads and writes with more buffers than one operation of the ring takes.
#[test]
fn requests_with_more_buffers_than_an_operation_takes_complete() {
    let directory = Directory::in_memory();
    let options = directory.options(8 * MIB);
    let config = IoRingConfig {
        arena_bytes: 32 << 20,
        ..ring(Ringed::Auto)
    };
    let mut bench = BackendBench::new(Box::new(open_soon(&options)), &config);
    let bytes: Vec<u8> = (0..5_000_000u32).map(|n| (n / 7) as u8).collect();
    // 5,000,000 / 4096 are 1,221 buffers.
    let data = bench.source(&bytes, |_| 4096).unwrap();
    let write = bench.submit(Op::Write, Flags::NONE, 4096, bytes.len() as u32, data);
    assert_eq!(bench.wait(write).0, Ok(()));
    for (offset, length) in [(4096, 5_000_000u32), (5000, 4_900_001)] {
        let data = bench.target(offset, length, true).unwrap();
        assert!(matches!(&data, Data::ReadMany(bufs) if bufs.len() > weir_uring::MAX_PIECES));
        let read = bench.submit(Op::Read, Flags::NONE, offset, length, data);
        let (result, got) = bench.wait(read);
        assert_eq!(result, Ok(()));
        let from = (offset - 4096) as usize;
        assert!(got == bytes[from..from + length as usize], "from {offset}");
    }
}

#[test]
fn promised_space_is_allocated_and_stays() {
    let directory = Directory::new();
    let options = ImageOptions {
        preallocate: true,
        ..directory.options(4 * MIB)
    };
    let mut bench = bench(&options);
    let blocks = || fs::metadata(&options.path).unwrap().blocks() * 512;
    assert!(blocks() >= 4 * MIB);
    bench.write(0, &[1; 4096], Flags::NONE).unwrap();
    bench.plain(Op::Discard, Flags::NONE, 0, 2 << 20).unwrap();
    bench
        .plain(Op::WriteZeroes, Flags::NONE, 0, 2 << 20)
        .unwrap();
    assert!(blocks() >= 4 * MIB);
    assert_eq!(bench.read(0, 1), Ok(vec![0]));
}

/// On a file system without holes and zeroing, zeroes are written as data, and a discard does
/// nothing.
#[test]
fn zeroes_are_written_where_there_is_no_other_way() {
    let directory = Directory::new();
    let mut image = OpenStorage::image(&directory.options(MIB)).unwrap();
    image.medium.kind = MediumKind::Bare;
    let mut bench = BackendBench::new(Box::new(image), &ring(Ringed::Auto));
    bench.write(0, &vec![1; 400_000], Flags::NONE).unwrap();
    let fast = Flags::NO_HOLE.with(Flags::FAST_ZERO);
    let zeroes = Op::WriteZeroes;
    assert_eq!(bench.plain(zeroes, fast, 0, 8192), Err(95));
    assert_eq!(bench.plain(Op::Discard, Flags::FUA, 0, 8192), Ok(()));
    assert_eq!(bench.plain(zeroes, Flags::FUA, 1, 300_000), Ok(()));
    assert_eq!(bench.read(0, 2), Ok(vec![1, 0]));
    assert_eq!(bench.read(300_000, 2), Ok(vec![0, 1]));
}
