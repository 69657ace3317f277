//! Prepares and measures an image or device that the demo's clients read.

use crate::compare::on::serve::{CLIENTS, GRAIN, LiveServers};
use crate::failure::Failure;
use crate::leftovers::Leftovers;
use crate::progress::WorkProgress;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;
use weir_config::scenario::Scenario;
use weir_config::{Policy, Storage};
use weir_core::{Capacity, Contract, Span};
use weir_measure::{Record, TOTAL};
use weir_model::load::Program;

/// The size of an image that the demo creates, in bytes.
const SIZE: u64 = 1 << 30;

/// The length of a measurement. One half measures the bandwidth, the other half the request rate.
const MEASURING: Duration = Duration::from_secs(5);

/// Returns the size of an image or device in bytes. An image that does not exist is created.
///
/// # Errors
/// The storage cannot be read or created, or is too small.
pub(super) fn prepare(storage: &Storage, leftovers: &Leftovers) -> Result<u64, Failure> {
    let (path, size) = match storage {
        Storage::Device(path) => (path, device(path)?),
        Storage::File(path) => (path, image(path, leftovers)?),
        Storage::Nbd(_) | Storage::Memory | Storage::Model => return Ok(0),
    };
    let least = GRAIN * u64::from(CLIENTS);
    if size < least {
        let path = path.display();
        let reason = format!(
            "{path} is too small: it has {size} bytes, and {CLIENTS} clients need at least {least}"
        );
        return Err(Failure::Run(reason));
    }
    Ok(size)
}

/// Measures the capacity of an image or device: first with sixteen clients that read sequentially,
/// then with sixteen that read small blocks at random.
pub(super) fn measure(live: &LiveServers, name: &str) -> Result<Capacity, Failure> {
    let mut progress = WorkProgress::new(MEASURING, String::new());
    progress.name("measuring", "what the drive can do");
    let mut probe = |program| {
        let scenario = probe(live, program)?;
        let run = (&scenario, &Policy::none(), 0);
        let interrupt = live.leftovers.interrupt();
        let measured = live.measure(run, interrupt, |passed| progress.set(passed))?;
        progress.next(MEASURING / 2);
        let total = measured.map(|measured| measured.total(&scenario));
        let total = total.map(|total| weir_measure::RunId::default().record(TOTAL, &total));
        Ok::<Record, Failure>(total.unwrap_or_default())
    };
    let streams = probe(Program::sequential_reads(128 * 1024, 2))?;
    let random = probe(Program::random_reads(4096, 8))?;
    progress.clear();
    if let Some(errors) = streams.errors.or(random.errors) {
        let reason = format!("cannot read {name}: {errors} requests failed");
        return Err(Failure::Run(reason));
    }
    let rate = (streams.bandwidth_mb_per_s * 1e6) as u64;
    Ok(Capacity {
        read: rate,
        // The demo does not write to an image or device, so the value is never used.
        write: rate,
        // The lower bound of the time avoids a division by zero after an interrupt.
        iops: (random.requests as f64 / random.seconds.max(1e-3)) as u64,
        ..Capacity::NONE
    })
}

/// Returns the scenario of a measurement: sixteen clients with the same program, each on its own
/// part.
fn probe(live: &LiveServers, program: Program) -> Result<Scenario, Failure> {
    const WARM_UP: Span = Span::from_millis(500);
    let drive = weir_model::drive::DriveConfig::Null(weir_model::drive::null::NullConfig::demo());
    // Each half consists of the warm-up and the measurement.
    let half = Span::from_nanos(MEASURING.as_nanos() as u64 / 2);
    let mut scenario = Scenario::new("probe", drive, half.saturating_sub(WARM_UP));
    scenario.capacity = None;
    scenario.warm_up = WARM_UP;
    // The clients share the storage, of which each reads its own part.
    let size = live.storage.as_ref().map_or(0, |(_, size)| *size);
    for number in 0..CLIENTS {
        let name = format!("probe-{number:02}");
        scenario.add_client_with_group(name, Contract::DEFAULT, size, program);
    }
    live.divide(&mut scenario)?;
    Ok(scenario)
}

/// Returns the size of an image, and creates the image if it does not exist.
fn image(path: &Path, leftovers: &Leftovers) -> Result<u64, Failure> {
    let failed = |error: &io::Error| Failure::file("read", path, error);
    // Opening a pipe would wait for its other end, so the type is checked first.
    match path.metadata() {
        Ok(data) if data.is_file() => File::open(path).map(|_| data.len()).map_err(|e| failed(&e)),
        Ok(data) if data.is_dir() => Err(failed(&rustix::io::Errno::ISDIR.into())),
        Ok(_) => Err(Failure::Run(format!(
            "{} is not a regular file; use --device for a block device",
            path.display()
        ))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => create(path, leftovers),
        Err(e) => Err(failed(&e)),
    }
}

/// Creates an image and fills it with data, because reads of a hole do not reach the drive.
fn create(path: &Path, leftovers: &Leftovers) -> Result<u64, Failure> {
    const CHUNK: usize = 1 << 20;
    let failed = |error| Failure::file("create", path, &error);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let made = leftovers.make(path, |path| options.open(path));
    let (mut file, leftover) = made.map_err(failed)?;
    let size = "1 GiB".to_owned();
    let mut progress = WorkProgress::new(Duration::from_secs(SIZE >> 20), size);
    progress.name("image", "writing 1 GiB");
    let (mut chunk, mut word) = (Vec::with_capacity(CHUNK), 0_u64);
    for written in 0..SIZE / CHUNK as u64 {
        chunk.clear();
        while chunk.len() < CHUNK {
            // All words differ, so that a drive or file system cannot compress or deduplicate the
            // data. The increment is 2^64 divided by the golden ratio, as in SplitMix64.
            word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
            chunk.extend_from_slice(&(word ^ word >> 29).to_le_bytes());
        }
        file.write_all(&chunk).map_err(failed)?;
        progress.set(Duration::from_secs(written));
    }
    // Data that is only in the page cache would be written during the measurement, and would
    // disturb it.
    file.sync_all().map_err(failed)?;
    progress.clear();
    // From here on, an interrupt no longer removes the image.
    leftover.keep();
    Ok(SIZE)
}

/// Returns the size of a block device in bytes.
fn device(path: &Path) -> Result<u64, Failure> {
    let failed = |error: io::Error| Failure::file("read", path, &error);
    let kind = path.metadata().map_err(failed)?.file_type();
    if !kind.is_block_device() {
        let path = path.display();
        let reason = format!("{path} is not a block device; use --file for a file");
        return Err(Failure::Run(reason));
    }
    let mut file = File::open(path).map_err(failed)?;
    file.seek(SeekFrom::End(0)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn every_client_has_a_part_of_its_own() {
        let size = SIZE + 12_345;
        let live = LiveServers {
            storage: Some((Storage::File(PathBuf::new()), size)),
            priority: weir_config::ThreadPriority::Auto,
            leftovers: Leftovers::default(),
        };
        let scenario = probe(&live, Program::random_reads(4096, 1)).unwrap();
        let mut end = 0;
        for client in &scenario.clients {
            assert_eq!(client.region.start, end);
            assert!(client.region.length >= GRAIN && client.region.length.is_multiple_of(GRAIN));
            end += client.region.length;
        }
        // Rounding to whole grains wastes less than one grain for each client.
        assert!(end <= size && size - end < GRAIN * u64::from(CLIENTS));
    }
}
