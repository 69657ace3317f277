//! Reads recordings of a server, and finds the names of their groups.

use crate::check;
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use weir_config::DrivePlan;
use weir_core::record::{Call, Malformed, Replay, ReplayError};
use weir_core::{Config, GroupId, Instant, Layer, SpaceId};

/// The number of bytes that are read at once.
const CHUNK: usize = 1 << 20;

/// Repeats every call of a recording and passes each to `watch`. The recording is read in chunks,
/// because it can be long. The returned replay is at the end of the recording.
pub(crate) fn replay(
    path: &Path,
    mut watch: impl FnMut(&mut Layer, Instant, &Call<'_>),
) -> Result<Result<Replay, ReplayError>, Failure> {
    let failed = |error| Failure::file("read", path, &error);
    // Opening a pipe would wait for its other end, and a device can be endless.
    let metadata = path.metadata().map_err(failed)?;
    if !metadata.is_file() {
        let what = format!(
            "cannot read {}: it is not a regular file; use a file from `weir serve --record`",
            path.display()
        );
        return Err(Failure::Run(what));
    }
    let mut file = File::open(path).map_err(failed)?;
    let (mut replay, mut chunk) = (Replay::new(), vec![0; CHUNK]);
    loop {
        let bytes = file.read(&mut chunk).map_err(failed)?;
        if bytes == 0 {
            return Ok(Ok(replay));
        }
        if let Err(error) = replay.feed_watched(&chunk[..bytes], &mut watch) {
            return Ok(Err(error));
        }
    }
}

/// Returns the failure for a recording that could not be replayed.
pub(crate) fn refused(path: &Path, error: &ReplayError) -> Failure {
    let path = path.display();
    match error {
        ReplayError::Divergence(_) => Failure::Run(format!("{path}: the replay diverged: {error}")),
        ReplayError::Malformed(Malformed::Version(_)) => Failure::Run(format!(
            "{path}: {error}; use the release of Weir that made the recording"
        )),
        _ => Failure::Run(format!(
            "{path}: {error}; use a file from `weir serve --record`"
        )),
    }
}

/// The names that a recording lacks: those of the drive and of its groups.
#[derive(Debug, Default)]
pub(crate) struct RecordingNames {
    /// The names and numbers of volumes and tenants, or `None` without a configuration.
    plan: Option<DrivePlan>,
    pub(crate) drive: Option<weir_config::ServerDrive>,
}

impl RecordingNames {
    /// Finds the drive of the recording in the configuration that the server had, if the user has
    /// named one.
    pub(crate) fn load(config: Option<&PathBuf>, record: &Config) -> Result<Self, Failure> {
        let Some(path) = config else {
            return Ok(Self::default());
        };
        let server = check::load(path)?;
        let plans = server.drives.iter();
        let plans = plans.filter_map(|d| Some((d, weir_config::plan(&server, &d.name)?)));
        let plans: Vec<_> = plans.collect();
        let is_of = |plan: &DrivePlan| is_alike(&plan.config, record);
        let found = match &plans[..] {
            // The only drive of a configuration must be that of the recording, even if its settings
            // have changed since.
            [one] => Some(one),
            several => several.iter().find(|(_, plan)| is_of(plan)),
        };
        let Some((drive, plan)) = found else {
            return Err(Failure::Run(format!(
                "{}: no drive in it matches the recording; use the configuration that the server had",
                path.display()
            )));
        };
        Ok(Self {
            plan: Some(plan.clone()),
            drive: Some((*drive).clone()),
        })
    }

    /// Returns the name of a group in the configuration, or its number.
    pub(crate) fn of(&self, group: GroupId) -> String {
        let plan = self.plan.as_ref();
        let volumes = plan.into_iter().flat_map(|plan| &plan.volumes);
        let tenants = plan.into_iter().flat_map(|plan| &plan.tenants);
        let mut all = volumes
            .map(|(name, slot)| (name, slot.group))
            .chain(tenants.map(|(name, group)| (name, *group)));
        let named = all.find(|named| named.1 == group);
        named.map_or_else(|| group.0.to_string(), |(name, _)| name.clone())
    }

    /// Returns the name of the volume with an address space, or its number.
    pub(crate) fn of_space(&self, space: SpaceId) -> String {
        let volumes = self.plan.iter().flat_map(|plan| &plan.volumes);
        let mut named = volumes.filter(|(_, slot)| slot.space == space);
        named.next().map_or_else(
            || format!("volume {}", space.0),
            |(name, _)| format!("volume {name}"),
        )
    }

    /// Returns the group with a name, if it is one of `groups`.
    pub(crate) fn find(&self, name: &str, groups: &[GroupId]) -> Result<GroupId, Failure> {
        let named: BTreeMap<String, GroupId> = groups
            .iter()
            .map(|group| (self.of(*group), *group))
            .collect();
        if let Some(group) = named.get(name) {
            return Ok(*group);
        }
        let mut known: Vec<&str> = named.keys().map(String::as_str).collect();
        let more = if known.len() > 10 { " and others" } else { "" };
        known.truncate(10);
        let help = if self.plan.is_none() {
            "; set --config to the server's file to use names, which a recording does not contain"
        } else {
            ""
        };
        Err(Failure::Usage(format!(
            "unknown volume {name}: the recording has {}{more}{help}",
            known.join(", ")
        )))
    }
}

/// Returns true if two layers were created with the same configuration. The capacity is ignored,
/// because it can change while a server runs.
fn is_alike(a: &Config, b: &Config) -> bool {
    let without = |config: &Config| {
        let mut config = config.clone();
        config.drive.capacity = None;
        config
    };
    without(a) == without(b)
}
