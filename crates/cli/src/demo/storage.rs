//! What the demo's clients read.

use super::{On, Options, Priority, live};
use crate::drives;
use crate::failure::Failure;
use crate::leftovers::Leftovers;
use crate::progress::Progress;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_config::Policy;
use weir_config::profile::Profile;
use weir_core::{Capacity, Contract, Span};
use weir_load::{Program, Region};
use weir_measure::{Record, TOTAL};

/// What the clients read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Storage {
    /// A modelled drive.
    Model(Profile),
    /// An image.
    File(PathBuf),
    /// A block device.
    Device(PathBuf),
}

/// The drive that is embedded.
const EMBEDDED: &str = "demo";

/// Bytes of an image that is created.
const SIZE: u64 = 1 << 30;

/// Clients' parts of an image or device are multiples of this, and at least as long.
const GRAIN: u64 = 1 << 20;

/// Most clients of the scenarios that come with Weir, and clients of a measurement.
const CLIENTS: u32 = 16;

/// What a measurement takes: half of it each for bandwidth and for requests.
pub(crate) const MEASURING: Duration = Duration::from_secs(5);

impl Storage {
    /// What the options name, if they agree with each other.
    pub(crate) fn new(options: &Options) -> Result<Self, Failure> {
        let storage = match (&options.file, &options.device) {
            (Some(path), _) => Self::File(path.clone()),
            (None, Some(path)) => Self::Device(path.clone()),
            (None, None) => {
                let name = options.drive.as_deref().unwrap_or(EMBEDDED);
                return Ok(Self::Model(drives::find(name)?));
            }
        };
        if options.on == On::Sim {
            let reason =
                "--on sim supports modelled drives only; use --on serve with --file or --device";
            return Err(Failure::Usage(reason.into()));
        }
        Ok(storage)
    }

    /// The drive's name in results.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Model(profile) => profile.name.clone(),
            Self::File(path) | Self::Device(path) => path.display().to_string(),
        }
    }

    /// Its size, after an image that is not there was made. `None` for a modelled drive, whose volumes have a size each.
    pub(crate) fn prepare(&self, leftovers: &Leftovers) -> Result<Option<u64>, Failure> {
        let (path, size) = match self {
            Self::Model(_) => return Ok(None),
            Self::File(path) => (path, image(path, leftovers)?),
            Self::Device(path) => (path, device(path)?),
        };
        let least = GRAIN * u64::from(CLIENTS);
        if size < least {
            let path = path.display();
            let reason = format!(
                "{path} is too small: it has {size} bytes, and {CLIENTS} clients need at least {least}"
            );
            return Err(Failure::Run(reason));
        }
        Ok(Some(size))
    }
}

/// Gives each client a part of its own of an image or device of `size` bytes.
///
/// # Errors
/// There are too many clients for it.
pub(crate) fn divide(scenario: &mut weir_sim::Scenario, size: u64) -> Result<(), Failure> {
    let clients = (scenario.clients.len() as u64).max(CLIENTS.into());
    let part = size / clients / GRAIN * GRAIN;
    if part == 0 {
        let least = GRAIN * clients;
        let reason = format!(
            "the storage is too small: it has {size} bytes, and {clients} clients need at least {least}"
        );
        return Err(Failure::Run(reason));
    }
    for (client, number) in scenario.clients.iter_mut().zip(0..) {
        client.region = Region {
            start: number * part,
            length: part,
        };
    }
    Ok(())
}

/// What an image or device of `size` bytes can do: sixteen clients that stream, then sixteen that read small blocks at random.
pub(crate) fn measure(
    storage: &Storage,
    size: u64,
    leftovers: &Leftovers,
    progress: &mut Progress,
) -> Result<Capacity, Failure> {
    let mut probe = |program| {
        let half = MEASURING / 2;
        let scenario = probe(program, size, half)?;
        let stage = live::Stage {
            scenario: &scenario,
            storage,
            leftovers,
            priority: Priority::Auto,
        };
        let run = live::play(stage, &Policy::none(), |passed| progress.set(passed))?;
        progress.next(half);
        let records = live::records(stage, run.as_slice(), &[]).into_iter();
        let total = records.flat_map(|r| r.records).find(|r| r.client == TOTAL);
        Ok::<Record, Failure>(total.unwrap_or_default())
    };
    let streams = probe(Program::sequential_reads(128 * 1024, 2))?;
    let random = probe(Program::random_reads(4096, 8))?;
    if let Some(errors) = streams.errors.or(random.errors) {
        let reason = format!("cannot read {}: {errors} requests failed", storage.name());
        return Err(Failure::Run(reason));
    }
    let rate = (streams.bandwidth_mb_per_s * 1e6) as u64;
    Ok(Capacity {
        read: rate,
        // Nothing is written.
        write: rate,
        iops: (random.requests as f64 / random.seconds.max(1e-3)) as u64,
        ..Capacity::NONE
    })
}

fn probe(program: Program, size: u64, time: Duration) -> Result<weir_sim::Scenario, Failure> {
    const WARM_UP: Span = Span::from_millis(500);
    let drive = weir_drive::Config::Null(weir_drive::null::Config::demo());
    let time = Span::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let mut scenario = weir_sim::Scenario::new("probe", drive, time.saturating_sub(WARM_UP));
    scenario.capacity = None;
    scenario.warm_up = WARM_UP;
    for number in 0..CLIENTS {
        scenario.tenant(
            format!("probe-{number:02}"),
            Contract::DEFAULT,
            size,
            program,
        );
    }
    divide(&mut scenario, size)?;
    Ok(scenario)
}

/// The size of an image, which is made if it is not there.
fn image(path: &Path, leftovers: &Leftovers) -> Result<u64, Failure> {
    let failed = |error: &io::Error| Failure::file("read", path, error);
    // Not opened: that would wait for the other end of a pipe.
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

/// Makes an image and fills it: what was never written is not read from the drive.
fn create(path: &Path, leftovers: &Leftovers) -> Result<u64, Failure> {
    const CHUNK: usize = 1 << 20;
    let failed = |error| Failure::file("create", path, &error);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let made = leftovers.make(path, |path| options.open(path));
    let (mut file, leftover) = made.map_err(failed)?;
    let size = "1 GiB".to_owned();
    let mut progress = Progress::new(Duration::from_secs(SIZE >> 20), size);
    progress.name("image", "writing 1 GiB");
    let (mut chunk, mut word) = (Vec::with_capacity(CHUNK), 0_u64);
    for written in 0..SIZE / CHUNK as u64 {
        chunk.clear();
        while chunk.len() < CHUNK {
            // A different word everywhere, so that no drive can make less of it.
            word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
            chunk.extend_from_slice(&(word ^ word >> 29).to_le_bytes());
        }
        file.write_all(&chunk).map_err(failed)?;
        progress.set(Duration::from_secs(written));
    }
    file.sync_all().map_err(failed)?;
    progress.clear();
    leftover.keep();
    Ok(SIZE)
}

/// The size of a block device.
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

    #[test]
    fn every_client_has_a_part_of_its_own() {
        let size = SIZE + 12_345;
        let scenario = probe(Program::random_reads(4096, 1), size, MEASURING).unwrap();
        let mut end = 0;
        for client in &scenario.clients {
            assert_eq!(client.region.start, end);
            assert!(client.region.length >= GRAIN && client.region.length.is_multiple_of(GRAIN));
            end += client.region.length;
        }
        assert!(end <= size && size - end < GRAIN * u64::from(CLIENTS));
    }
}
