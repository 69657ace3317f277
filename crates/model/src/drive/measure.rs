//! Measures the capacity of a drive model, by kind of request.
//!
//! The parameters of a model describe single parts of a drive, so that the capacity that results
//! from all of them is not a formula. Therefore the model is run on its own, without a scheduler,
//! with a full queue of one kind of command, until caches and buffers no longer help. The same
//! drive always gives exactly the same figures.

use crate::drive::{DriveConfig, hdd, volume};
use weir_core::random::Xorshift;
use weir_core::rule::RuleViolation;
use weir_core::{Capacity, Dispatch, Instant, Op, QueueId, Tag};

/// The maximum number of commands in flight.
const DEPTH: u32 = 256;

/// The length of a sequential command (`LONG`) and of a random command (`SHORT`), in bytes.
const LONG: u32 = 128 << 10;
const SHORT: u32 = 4096;

/// The number of commands that are counted, and the minimum number of warm-up commands before them.
const COUNTED: u64 = 2048;
const WARMING: u64 = 256;

/// The maximum number of warm-up commands, however large the drive's buffer is. It bounds the time
/// of a measurement.
const WARMING_MAX: u64 = 32_768;

/// The range in which a drive is fastest: its first GiB.
const BEST: u64 = 1 << 30;

impl DriveConfig {
    /// Measures the worst-case capacity on the first `span` bytes, by kind of request.
    ///
    /// Sequential reads and writes are measured at the slower end, and random requests of 4 KiB
    /// over the whole range. For a volume, all requests could be on its weakest member, so the
    /// result is that of the weakest. Returns `None` if the model has no bound.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn worst_case(&self, span: u64) -> Result<Option<Capacity>, RuleViolation> {
        self.validate()?;
        Ok(match self {
            Self::Null(config) => config.capacity(),
            Self::Volume(volume) => weakest_member(volume, span)?,
            Self::Hdd(_) | Self::Ssd(_) => Some(measure_worst_case(self, span)?),
        })
    }

    /// Measures the best-case capacity by kind of request.
    ///
    /// The requests are the same, but only at the beginning of the drive and from an empty buffer
    /// on. The result is never less than [`Self::worst_case`]. For a volume, it is the sum of the
    /// members. A figure without a bound is zero.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn best_case(&self) -> Result<Capacity, RuleViolation> {
        self.validate()?;
        match self {
            Self::Null(config) => Ok(config.best_case()),
            Self::Volume(volume) => sum_of_members(volume),
            Self::Hdd(_) | Self::Ssd(_) => {
                let (all, beginning) = (
                    measure_worst_case(self, u64::MAX)?,
                    measure_worst_case(self, BEST)?,
                );
                // The worst case of the whole drive is one of the candidates, so that the result is
                // never less than `worst_case`.
                Ok(all
                    .zip(beginning, u64::max)
                    .zip(measure_best_case(self)?, u64::max))
            }
        }
    }

    /// Measures random requests of `length` bytes per second with a full queue, all reads or all
    /// writes.
    ///
    /// The requests are spread over the whole drive, or over 1 GiB for a position-independent
    /// model.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn random_rate(&self, op: Op, length: u32) -> Result<u64, RuleViolation> {
        self.random_rate_in(op, length, self.size().unwrap_or(BEST))
    }

    /// Measures as [`Self::random_rate`] does, on the first `span` bytes only, or on the whole
    /// drive if that is smaller.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn random_rate_in(&self, op: Op, length: u32, span: u64) -> Result<u64, RuleViolation> {
        let load = CommandLoad {
            length,
            ..CommandLoad::random(op, self.size().map_or(span, |size| size.min(span)))
        };
        load.run(self, warm_up_commands(self, op, length))
    }

    /// Measures sequential requests of `length` bytes per second with a full queue, all reads or
    /// all writes, from the start of the drive on.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn sequential_rate(&self, op: Op, length: u32) -> Result<u64, RuleViolation> {
        let warming = warm_up_commands(self, op, length);
        let room = u64::from(length) * (warming + COUNTED);
        let load = CommandLoad {
            length,
            ..CommandLoad::sequence(op, 0, self.size().map_or(room, |size| size.min(room)))
        };
        load.run(self, warming)
    }

    /// The number of writes of `length` bytes that the buffer or cache absorbs before their speed
    /// is that of the medium.
    fn absorbed_writes(&self, length: u64) -> u64 {
        match self {
            Self::Hdd(config) => (config.write_cache / length).min(hdd::DIRTY_MAX as u64),
            // The buffer is drained while it is filled, so filling it takes several times its size.
            Self::Ssd(config) => 4 * config.write_buffer / length,
            Self::Null(_) | Self::Volume(_) => 0,
        }
    }
}

fn measure_worst_case(drive: &DriveConfig, span: u64) -> Result<Capacity, RuleViolation> {
    let size = drive.size().map_or(span, |size| size.min(span));
    let long = u64::from(LONG);
    let slower = |op| {
        let warming = warm_up_commands(drive, op, LONG);
        // The range is as long as all commands together, so that a cache cannot serve a second
        // pass, unless the drive is smaller.
        let room = (long * (warming + COUNTED)).min(size);
        let ends = match drive {
            // Tracks become shorter towards the end. In the other models, nothing depends on the
            // position.
            DriveConfig::Hdd(_) => &[0, (size - room) / long * long][..],
            _ => &[0],
        };
        let mut least = u64::MAX;
        for &from in ends {
            let rate = CommandLoad::sequence(op, from, from + room).run(drive, warming)?;
            least = least.min(rate.saturating_mul(long));
        }
        Ok(least)
    };
    let random = |op| CommandLoad::random(op, size).run(drive, warm_up_commands(drive, op, SHORT));
    let (read, write) = (slower(Op::Read)?, slower(Op::Write)?);
    let (read_iops, write_iops) = (random(Op::Read)?, random(Op::Write)?);
    Ok(Capacity {
        read,
        write,
        iops: read_iops.min(write_iops),
        read_iops,
        write_iops,
    })
}

fn measure_best_case(drive: &DriveConfig) -> Result<Capacity, RuleViolation> {
    let size = drive.size().map_or(BEST, |size| size.min(BEST));
    let sequence = |op| {
        let rate = CommandLoad::sequence(op, 0, size).run(drive, 0)?;
        Ok(rate.saturating_mul(LONG.into()))
    };
    let random = |op| CommandLoad::random(op, size).run(drive, 0);
    let (read_iops, write_iops) = (random(Op::Read)?, random(Op::Write)?);
    Ok(Capacity {
        read: sequence(Op::Read)?,
        write: sequence(Op::Write)?,
        iops: read_iops.min(write_iops),
        read_iops,
        write_iops,
    })
}

/// The number of warm-up commands after which the figures show the medium and not the buffer.
fn warm_up_commands(drive: &DriveConfig, op: Op, length: u32) -> u64 {
    match op {
        Op::Write => (2 * drive.absorbed_writes(length.into())).clamp(WARMING, WARMING_MAX),
        _ => WARMING,
    }
}

/// The smallest figure of any member, where zero stands for no bound.
fn weakest_member(
    volume: &volume::VolumeConfig,
    span: u64,
) -> Result<Option<Capacity>, RuleViolation> {
    let mut least: Option<Capacity> = None;
    for (member, _) in distinct_members(&volume.members) {
        let Some(this) = member.worst_case(span)? else {
            continue;
        };
        least = Some(least.map_or(this, |that| {
            this.zip(that, |a, b| match (a, b) {
                (0, bound) | (bound, 0) => bound,
                (a, b) => a.min(b),
            })
        }));
    }
    Ok(least)
}

/// The sum of the members, or no bound (zero) if one of them has none.
fn sum_of_members(volume: &volume::VolumeConfig) -> Result<Capacity, RuleViolation> {
    let mut sum: Option<Capacity> = None;
    for (member, count) in distinct_members(&volume.members) {
        let one = member.best_case()?;
        let these = one.zip(one, |rate, _| rate.saturating_mul(count));
        sum = Some(sum.map_or(these, |sum| {
            these.zip(sum, |a, b| match (a, b) {
                (0, _) | (_, 0) => 0,
                (a, b) => a.saturating_add(b),
            })
        }));
    }
    Ok(sum.unwrap_or(Capacity::NONE))
}

/// The distinct members, with the number of times that each occurs. Equal members are measured only
/// once.
fn distinct_members(members: &[DriveConfig]) -> Vec<(&DriveConfig, u64)> {
    let mut kinds: Vec<(&DriveConfig, u64)> = Vec::new();
    for member in members {
        match kinds.iter_mut().find(|kind| kind.0 == member) {
            Some(kind) => kind.1 += 1,
            None => kinds.push((member, 1)),
        }
    }
    kinds
}

/// Commands of one kind and one length in one range of a drive.
#[derive(Clone, Copy, Debug)]
struct CommandLoad {
    op: Op,
    length: u32,
    from: u64,
    end: u64,
    random: bool,
}

impl CommandLoad {
    fn sequence(op: Op, from: u64, end: u64) -> Self {
        Self {
            op,
            length: LONG,
            from,
            end,
            random: false,
        }
    }

    fn random(op: Op, end: u64) -> Self {
        Self {
            op,
            length: SHORT,
            from: 0,
            end,
            random: true,
        }
    }

    /// Runs the load and returns the commands per second after the first `warming` ones,
    /// rounded down, but at least 1.
    fn run(self, config: &DriveConfig, warming: u64) -> Result<u64, RuleViolation> {
        let mut drive = config.build()?;
        let shape = drive.shape();
        let depth = DEPTH.min(u32::from(shape.tags) * u32::from(shape.queues));
        let mut commands = self.commands(shape.queues);
        for tag in 0..depth {
            // A submission fails only if the drive has no tag for it. Fewer commands are then in
            // flight, as on a real drive.
            let _ = drive.submit(Instant::ZERO, &commands(tag));
        }
        let (mut ended, mut begin, mut now) = (0, Instant::ZERO, Instant::ZERO);
        while ended < warming + COUNTED
            && let Some(next) = drive.next_completion()
        {
            now = next;
            while let Some(done) = drive.pop(now) {
                ended += 1;
                if ended == warming {
                    begin = now;
                }
                let _ = drive.submit(now, &commands(done.completion.tag.0));
            }
        }
        let nanos = u128::from(now.since(begin).as_nanos().max(1));
        let rate = u128::from(ended - warming.min(ended)) * 1_000_000_000 / nanos;
        // Zero would mean that there is no bound.
        Ok(u64::try_from(rate).unwrap_or(u64::MAX).max(1))
    }

    /// Returns a generator of commands, whose argument is the free tag for the command.
    fn commands(self, queues: u16) -> impl FnMut(u32) -> Dispatch {
        let length = (self.end - self.from).min(self.length.into()).max(1);
        let places = (self.end - self.from).max(1) / length;
        // The seed is constant, so that the same drive always gives the same figures.
        let (mut next, mut random) = (0, Xorshift::new(1));
        move |tag| {
            let place = if self.random { random.next_u64() } else { next };
            next += 1;
            Dispatch {
                queue: QueueId((tag % u32::from(queues)) as u16),
                tag: Tag(tag),
                ..Dispatch::new(self.op, self.from + place % places * length, length as u32)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{null, ssd};
    use std::vec;
    use weir_core::Span;

    fn disk() -> hdd::HddConfig {
        hdd::HddConfig::generic()
    }

    fn near(figure: u64, of: u64) -> bool {
        figure.abs_diff(of) * 10 <= of
    }

    fn parts(c: Capacity) -> [u64; 5] {
        [c.read, c.write, c.iops, c.read_iops, c.write_iops]
    }

    #[test]
    fn the_inner_zone_of_a_disk_is_its_worst_case_and_the_outer_its_best() {
        let disk = DriveConfig::Hdd(disk());
        let (least, most) = (
            disk.worst_case(u64::MAX).unwrap().unwrap(),
            disk.best_case().unwrap(),
        );
        assert!(near(least.read, 60_000_000), "{least:?}");
        assert!(near(least.write, 60_000_000), "{least:?}");
        assert!(near(most.read, 110_000_000), "{most:?}");
        // Commands at the beginning of the drive meet neither the slow zones nor long seeks.
        let beginning = disk.worst_case(1 << 30).unwrap().unwrap();
        assert!(near(beginning.read, 110_000_000), "{beginning:?}");
        assert!(
            beginning.read_iops > 2 * least.read_iops,
            "{beginning:?} {least:?}"
        );
    }

    /// With a queue depth of 1, the average seek and half a revolution are the bound. A full queue
    /// is two to five times faster.
    #[test]
    fn a_full_queue_serves_two_to_five_times_as_many_random_reads() {
        let least = |tags| {
            let disk = hdd::HddConfig { tags, ..disk() };
            DriveConfig::Hdd(disk)
                .worst_case(u64::MAX)
                .unwrap()
                .unwrap()
        };
        let access = disk().seek.average + Span::from_nanos(disk().revolution().as_nanos() / 2);
        let one = 1_000_000_000 / access.as_nanos();
        let (alone, queued) = (least(1).read_iops, least(32).read_iops);
        assert!(near(alone, one), "{alone} of {one}");
        assert!((2 * one..5 * one).contains(&queued), "{queued} of {one}");
    }

    #[test]
    fn a_write_buffer_raises_only_the_best_case() {
        let flash = |write_buffer| {
            DriveConfig::Ssd(ssd::SsdConfig {
                write_buffer,
                ..ssd::SsdConfig::generic()
            })
        };
        let rate = |buffer| flash(buffer).worst_case(u64::MAX).unwrap().unwrap().write;
        let (small, large) = (rate(16 << 20), rate(64 << 20));
        assert!(near(small, large), "{small} {large}");
        let (least, most) = (rate(64 << 20), flash(64 << 20).best_case().unwrap().write);
        assert!(least * 11 < most * 10, "{least} {most}");
    }

    #[test]
    fn the_same_drive_gives_the_same_figures() {
        for drive in [
            DriveConfig::Hdd(disk()),
            DriveConfig::Ssd(ssd::SsdConfig::generic()),
        ] {
            assert_eq!(drive.worst_case(u64::MAX), drive.worst_case(u64::MAX));
            assert_eq!(drive.best_case(), drive.best_case());
        }
    }

    #[test]
    fn a_volume_has_its_weakest_member_as_worst_case_and_the_sum_as_best_case() {
        let (disk, quick) = (
            DriveConfig::Hdd(disk()),
            DriveConfig::Null(null::NullConfig::demo()),
        );
        let volume = |members| DriveConfig::Volume(volume::VolumeConfig::stripe(members));
        let least = |drive: &DriveConfig| drive.worst_case(u64::MAX).unwrap().map(parts);
        let two = volume(vec![disk.clone(), disk.clone()]);
        assert_eq!(least(&two), least(&disk));
        let one = parts(disk.best_case().unwrap());
        assert_eq!(parts(two.best_case().unwrap()), one.map(|n| 2 * n));
        let mixed = volume(vec![quick.clone(), disk.clone()]);
        assert_eq!(least(&mixed), least(&disk));
        // A member without a bound of its own does not change the worst case.
        let endless = DriveConfig::Null(null::NullConfig {
            service: Span::ZERO,
            link: 0,
            ..null::NullConfig::demo()
        });
        assert_eq!(least(&endless), None);
        let mixed = volume(vec![endless, disk.clone()]);
        assert_eq!(least(&mixed), least(&disk));
        assert_eq!(mixed.best_case(), Ok(Capacity::NONE));
    }

    #[test]
    fn the_link_bounds_long_requests_and_the_service_time_short_ones() {
        let slow = null::NullConfig {
            tags: 1,
            ..null::NullConfig::demo()
        };
        let drive = DriveConfig::Null(slow);
        assert_eq!(drive.worst_case(u64::MAX), Ok(slow.capacity()));
        let most = drive.best_case().unwrap();
        // 30 us of service with one tag are 33,333 requests per second, and the link carries 250
        // MB/s.
        assert_eq!(parts(most), [250_000_000, 250_000_000, 33_333, 0, 0]);
        let least = drive.worst_case(u64::MAX).unwrap().unwrap();
        assert_eq!(least.read, 33_333 * 4096);
    }

    #[test]
    fn an_invalid_drive_is_refused() {
        let disk = DriveConfig::Hdd(hdd::HddConfig { rpm: 0, ..disk() });
        assert!(disk.worst_case(u64::MAX).is_err() && disk.best_case().is_err());
    }
}
