//! What a device or an image can be counted on to read.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::FileType;
use weir_uring::{AnyRing, Buf, Config, Handle, Ring};

use super::super::file::{Image, ImageOptions, OpenError, error};
use super::{Device, DeviceOptions};

/// Requests under way at a time.
const DEPTH: usize = 32;
/// Bytes of a request of the first half, which reads from the beginning on.
const STREAM: u64 = 128 << 10;
/// Bytes of a request of the second half, which reads anywhere.
const BLOCK: u64 = 4096;
/// How often progress is told at least.
const TICK: Duration = Duration::from_millis(100);

/// What was measured. Nothing is written, so nothing is known of writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadCapacity {
    /// Bytes a second of 128 KiB requests in order, 32 at a time.
    pub sequential: u64,
    /// Requests a second of 4 KiB anywhere, 32 at a time.
    pub iops: u64,
}

impl ReadCapacity {
    /// Bytes a second in the worst case: small requests, anywhere.
    pub fn worst(&self) -> u64 {
        self.sequential.min(self.iops * BLOCK)
    }
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It is smaller than one request.
    #[error("{path} has {size} bytes; measuring needs 131072 or more")]
    Small {
        /// The image or device.
        path: String,
        /// Its size in bytes.
        size: u64,
    },
    /// It cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The image or device.
        path: String,
        /// What the system answered.
        source: io::Error,
    },
}

/// Measures for about `time`, half of it each in order and at random, what an image or a block device can read. It is opened for
/// reading only, past the page cache. A device may be mounted meanwhile, which then shows in the figures. What was never written
/// to an image reads faster than the drive is. `progress` is told how much of `time` has passed, ten times a second or more
/// often.
///
/// # Errors
/// See [`MeasureError`].
pub fn measure_capacity(
    path: &Path,
    time: Duration,
    progress: &mut dyn FnMut(Duration),
) -> Result<ReadCapacity, MeasureError> {
    let mut probe = Probe::open(path)?;
    let half = time / 2;
    let blocks = probe.size / STREAM;
    let mut next = 0;
    let streamed = probe.run(STREAM, half, progress, || {
        next = (next + 1) % blocks;
        next * STREAM
    })?;
    let blocks = probe.size / BLOCK;
    let mut random = 1u64;
    let mut told = |passed| progress(half + passed);
    let read = probe.run(BLOCK, half, &mut told, || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 20) % blocks * BLOCK
    })?;
    Ok(ReadCapacity {
        sequential: (streamed * STREAM as f64) as u64,
        iops: read as u64,
    })
}

struct Probe {
    path: String,
    size: u64,
    file: Handle,
    ring: AnyRing,
}

impl Probe {
    fn open(path: &Path) -> Result<Self, MeasureError> {
        let stat = rustix::fs::stat(path).map_err(OpenError::system(path, "look at"))?;
        let (fd, size) = match FileType::from_raw_mode(stat.st_mode) {
            FileType::BlockDevice => {
                let device = Device::open(&DeviceOptions {
                    path: path.to_path_buf(),
                    size: None,
                    read_only: true,
                })?;
                (device.fd, device.size)
            }
            FileType::RegularFile => Image::open(&ImageOptions {
                path: path.to_path_buf(),
                size: None,
                read_only: true,
                direct: true,
                preallocate: false,
            })?
            .into_parts(),
            kind => {
                let found = error::name(kind);
                let path = path.to_path_buf();
                return Err(OpenError::NotADevice { path, found }.into());
            }
        };
        let path = path.display().to_string();
        if size < STREAM {
            return Err(MeasureError::Small { path, size });
        }
        let config = Config {
            arena_bytes: 2 * DEPTH * STREAM as usize,
            in_flight: DEPTH,
            ..Config::default()
        };
        let ring = AnyRing::open(&config).map_err(io::Error::other);
        let opened = ring.and_then(|ring| Ok((Handle::new(fd)?, ring)));
        match opened {
            Ok((file, ring)) => Ok(Self {
                path,
                size,
                file,
                ring,
            }),
            Err(source) => Err(MeasureError::Read { path, source }),
        }
    }

    /// Reads `bytes` at a time from where `place` says; gives requests a second.
    fn run(
        &mut self,
        bytes: u64,
        time: Duration,
        progress: &mut dyn FnMut(Duration),
        mut place: impl FnMut() -> u64,
    ) -> Result<f64, MeasureError> {
        let begun = Instant::now();
        let mut free: Vec<Buf> = (0..DEPTH)
            .filter_map(|_| self.ring.arena().alloc(bytes as usize))
            .collect();
        let (mut done, mut passed) = (0u64, Duration::ZERO);
        let mut outcome = Ok(());
        while passed < time || self.ring.in_flight() > 0 {
            while passed < time
                && outcome.is_ok()
                && let Some(buf) = free.pop()
            {
                let queued = self.ring.read(0, &self.file, place(), buf);
                outcome = queued.map(drop).map_err(|e| io::Error::other(e.reason));
            }
            if outcome.is_err() && self.ring.in_flight() == 0 {
                break;
            }
            let waited = self.ring.submit_and_wait(Some(TICK));
            passed = begun.elapsed();
            waited.map_err(|source| self.failed(source))?;
            while let Some(completion) = self.ring.pop() {
                match completion.result {
                    Ok(_) => done += u64::from(passed < time),
                    Err(errno) => outcome = Err(errno.into()),
                }
                free.extend(completion.payload.into_buf());
            }
            progress(passed.min(time));
        }
        outcome.map_err(|source| self.failed(source))?;
        Ok(done as f64 / time.as_secs_f64())
    }

    fn failed(&self, source: io::Error) -> MeasureError {
        MeasureError::Read {
            path: self.path.clone(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_core::Flags;

    use super::super::super::file::bench::Bench;
    use super::super::super::file::tests::{Directory, open_soon, ring, soon};
    use super::*;

    #[test]
    fn an_image_is_measured_and_not_changed() {
        let directory = Directory::new();
        let options = directory.options(1 << 20);
        let image = Box::new(open_soon(&options));
        let mut bench = Bench::new(image, &ring(weir_uring::Backend::Auto));
        bench.write(0, &vec![9; 1 << 20], Flags::NONE).unwrap();
        drop(bench);
        let time = Duration::from_millis(100);
        let mut told = Vec::new();
        let mut progress = |passed| told.push(passed);
        let measured = soon(
            || match measure_capacity(&options.path, time, &mut progress) {
                Err(MeasureError::Open(OpenError::Locked { .. })) => None,
                measured => Some(measured.unwrap()),
            },
        );
        assert!(measured.sequential > 0 && measured.iops > 0, "{measured:?}");
        assert!(measured.worst() <= measured.sequential);
        assert!(told.is_sorted() && told.last() == Some(&time), "{told:?}");
        assert!(std::fs::read(&options.path).unwrap() == vec![9; 1 << 20]);
    }

    #[test]
    fn what_cannot_be_measured_is_said() {
        let directory = Directory::new();
        let small = directory.0.join("small");
        std::fs::write(&small, vec![0; 4096]).unwrap();
        let error = |path: &Path| {
            let measured = measure_capacity(path, Duration::from_millis(1), &mut |_| {});
            measured.unwrap_err().to_string()
        };
        assert!(error(&small).ends_with("has 4096 bytes; measuring needs 131072 or more"));
        assert!(error(Path::new("/dev/null")).contains("is a character device"));
        assert!(error(&directory.0.join("none")).starts_with("cannot look at "));
    }
}
