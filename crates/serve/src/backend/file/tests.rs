//! Images: what is read is what was written, whatever the sizes, and however much at a time.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_core::{Flags, Op};
use weir_uring::{Backend as Ringed, Config};

use super::super::{Data, Query};
use super::bench::{Bench, Rng};
use super::*;

/// A directory that goes with its owner.
#[derive(Debug)]
pub(in crate::backend) struct Directory(pub(in crate::backend) PathBuf);

impl Directory {
    pub(in crate::backend) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-storage-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(in crate::backend) fn options(&self, size: u64) -> ImageOptions {
        ImageOptions {
            path: self.0.join("image"),
            size: Some(size),
            read_only: false,
            direct: true,
            preallocate: false,
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(in crate::backend) fn ring(backend: Ringed) -> Config {
    Config {
        backend,
        arena_bytes: 8 << 20,
        in_flight: 64,
        ..Config::default()
    }
}

fn bench(options: &ImageOptions) -> Bench {
    let image = Image::open(options).unwrap();
    Bench::new(Box::new(image), &ring(Ringed::Auto))
}

const MIB: u64 = 1 << 20;

#[test]
fn an_image_is_made_once_and_keeps_what_was_written() {
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
    assert!(stat.blocks() * 512 < MIB, "it is sparse");
    assert_eq!(stat.mode() & 0o777, 0o600);
    let mut bytes = [0; 3];
    let file = fs::File::open(&options.path).unwrap();
    file.read_exact_at(&mut bytes, 100).unwrap();
    assert_eq!(bytes, [1, 2, 3]);
    let again = ImageOptions {
        size: None,
        read_only: true,
        ..options
    };
    let mut bench = self::bench(&again);
    assert_eq!(bench.read(12_287, 2), Ok(vec![7, 0]));
    assert_eq!(bench.write(0, &[1; 512], Flags::NONE), Err(1));
    assert_eq!(bench.plain(Op::Discard, Flags::NONE, 0, 4096), Err(1));
}
