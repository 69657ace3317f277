//! The tunables of elevators: the files below `queue/iosched`, and the kernel's units of them.

use weir_core::elevator::Config;

/// A file below `queue/iosched`, with the tunable of Weir that it corresponds to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TunableFile {
    /// The elevator that has the file.
    elevator: &'static str,
    /// The tunable of Weir's elevator of that name.
    tunable: &'static str,
    /// The name of the file.
    pub(crate) file: &'static str,
    /// The unit of the file in the units of the tunable. For a time, that is in nanoseconds.
    unit: u64,
    /// True if the kernel keeps the value in ticks, so that the value that is read back differs by
    /// up to a tick.
    pub(crate) ticks: bool,
    /// The least and the greatest accepted value (`STORE_FUNCTION` in `block/bfq-iosched.c` and
    /// `mq-deadline.c`).
    pub(crate) bounds: (u64, u64),
}

/// The greatest `int`, in which bfq and mq-deadline keep most values.
const INT: u64 = i32::MAX as u64;
const MS: u64 = 1_000_000;
const US: u64 = 1_000;

const fn file(
    elevator: &'static str,
    file: &'static str,
    unit: u64,
    bounds: (u64, u64),
) -> TunableFile {
    TunableFile {
        elevator,
        tunable: file,
        file,
        unit,
        ticks: false,
        bounds,
    }
}

const fn ticks(mut tunable: TunableFile) -> TunableFile {
    tunable.ticks = true;
    tunable
}

/// All files of all elevators.
pub(crate) const ALL: &[TunableFile] = &[
    file("bfq", "strict_guarantees", 1, (0, 1)),
    file("bfq", "low_latency", 1, (0, 1)),
    TunableFile {
        // slice_idle has two files. The one in microseconds loses nothing by rounding.
        tunable: "slice_idle",
        ..file("bfq", "slice_idle_us", US, (0, INT))
    },
    file("bfq", "fifo_expire_sync", MS, (0, INT)),
    file("bfq", "fifo_expire_async", MS, (0, INT)),
    file("bfq", "back_seek_max", 1, (0, INT)),
    file("bfq", "back_seek_penalty", 1, (1, INT)),
    file("bfq", "max_budget", 1, (0, INT)),
    ticks(file("bfq", "timeout_sync", MS, (1, INT))),
    ticks(file("mq-deadline", "read_expire", MS, (0, INT))),
    ticks(file("mq-deadline", "write_expire", MS, (0, INT))),
    file("mq-deadline", "writes_starved", 1, (0, INT)),
    file("mq-deadline", "fifo_batch", 1, (0, INT)),
    file("mq-deadline", "front_merges", 1, (0, 1)),
    ticks(file("mq-deadline", "prio_aging_expire", MS, (0, INT))),
    file("kyber", "read_lat_nsec", 1, (0, u64::MAX)),
    file("kyber", "write_lat_nsec", 1, (0, u64::MAX)),
];

/// The tunable for the depth of writes. Its file was below `iosched`, and is in `queue` since 7.x.
pub(crate) const ASYNC_DEPTH: &str = "async_depth";

/// Returns the tunable whose file has this name.
pub(crate) fn find(name: &str) -> Option<&'static TunableFile> {
    ALL.iter().find(|t| t.file == name)
}

/// Returns the value of each file for an elevator's configuration.
pub(crate) fn values(config: &Config) -> Vec<(&'static str, u64)> {
    let Some(tuned) = config.tuned() else {
        return Vec::new();
    };
    let kind = config.kind().name;
    let own = ALL.iter().filter(|t| t.elevator == kind);
    let values = own.filter_map(|t| Some((t.file, tuned.get(tuned.find(t.tunable)?) / t.unit)));
    values.collect()
}

/// Returns the value of a tunable of an elevator.
pub(crate) fn value(config: &Config, name: &str) -> Option<u64> {
    let tuned = config.tuned()?;
    tuned.find(name).map(|place| tuned.get(place))
}

/// A constant of Linux that is a tunable of Weir with another default. The value is that of Linux
/// since 5.13. Weir's default is that of the published measurements.
const STABLE_MERGE: (&str, u64) = ("stable_merge", 1);

/// Returns the tunables of an elevator that have no file in Linux and differ from Linux's
/// constants.
pub(crate) fn constants(config: &Config) -> Vec<&'static str> {
    let Some(tuned) = config.tuned() else {
        return Vec::new();
    };
    let kind = config.kind().name;
    let has_file =
        |name| name == ASYNC_DEPTH || ALL.iter().any(|t| t.elevator == kind && t.tunable == name);
    let all = tuned.tunables().iter().enumerate();
    let linux = |name, default| match name {
        name if name == STABLE_MERGE.0 => STABLE_MERGE.1,
        _ => default,
    };
    let other =
        all.filter(|(place, t)| !has_file(t.name) && tuned.get(*place) != linux(t.name, t.default));
    other.map(|(_, t)| t.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::elevator;

    #[test]
    fn each_file_is_a_tunable_and_its_default_is_linuxs() {
        for tunable in ALL {
            let config = (elevator::find(tunable.elevator).unwrap().default)();
            assert!(value(&config, tunable.tunable).is_some(), "{tunable:?}");
        }
        let bfq = (elevator::find("bfq").unwrap().default)();
        let values = values(&bfq);
        for (file, value) in [
            ("slice_idle_us", 8_000),
            ("fifo_expire_sync", 125),
            ("back_seek_max", 16_384),
            ("timeout_sync", 125),
            ("low_latency", 1),
        ] {
            assert!(values.contains(&(file, value)), "{file}: {values:?}");
        }
        assert_eq!(constants(&bfq), ["stable_merge"]);
    }
}
