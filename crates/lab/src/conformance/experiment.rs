//! Experiments that both sides run: a job file of fio, and a short settings file with drive,
//! elevator and groups.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// An experiment: several cases that run the same job file.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The name of the experiment and of its files.
    pub name: String,
    /// The path of the job file.
    pub jobs: PathBuf,
    /// The contents of the settings file.
    pub setting: ExperimentSetting,
}

/// The contents of a settings file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentSetting {
    /// A description of the experiment, in a line.
    pub about: String,
    /// The job file, if its name differs from that of the settings file.
    pub jobs: Option<String>,
    /// The drive of all cases.
    pub drive: NullBlk,
    /// The cases, in the order of the page.
    pub case: Vec<ConformanceCase>,
}

/// The parameters of `null_blk`, which the lab loads with one hardware queue.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NullBlk {
    /// The parameter `hw_queue_depth` of `null_blk`.
    pub tags: u16,
    /// The parameter `completion_nsec`, in microseconds.
    pub service_us: u64,
    /// The parameter `mbps`, in MiB per second that are granted in ticks. 0 means no bound.
    #[serde(default)]
    pub mbps: u64,
}

/// A setting of elevator and groups.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConformanceCase {
    /// The name of the case.
    pub name: String,
    /// The name of Weir's policy. Linux uses the elevator of this policy.
    pub policy: String,
    /// The setting `nr_requests`. Without an elevator it is the number of tags.
    pub nr_requests: u32,
    /// Tunables of the elevator, as plain numbers without a unit.
    #[serde(default)]
    pub iosched: BTreeMap<String, u64>,
    /// Tunables that Weir has and Linux has not. Unless they are stated here, Weir behaves as Linux
    /// 6.1.
    #[serde(default)]
    pub weir: BTreeMap<String, u64>,
    /// The setting `nomerges` of the queue.
    #[serde(default)]
    pub nomerges: u8,
    /// The line for `io.cost.qos` of the root.
    pub qos: Option<String>,
    /// The line for `io.cost.model` of the root.
    pub model: Option<String>,
    /// The groups below the root, parents first.
    #[serde(default)]
    pub group: Vec<ExperimentGroup>,
    /// The sections of the job file that run. All of them run if none is named.
    #[serde(default)]
    pub jobs: Vec<String>,
}

/// A group, or several groups with the same settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentGroup {
    /// The name of the group. If it has a parent, the parent's name and a slash precede it.
    pub name: String,
    /// The number of groups. Several groups are called `NAME-1`, `NAME-2` and so on.
    #[serde(default = "one")]
    pub count: u32,
    /// The weight: `io.bfq.weight` under bfq, and `io.weight` under io.cost.
    #[serde(default)]
    pub weight: u16,
    /// The limits for `io.max`.
    #[serde(default)]
    pub max: BTreeMap<String, u64>,
    /// The low limits for `io.low`, with `idle` and `latency` in microseconds.
    #[serde(default)]
    pub low: BTreeMap<String, u64>,
    /// The target for `io.latency`, in microseconds.
    #[serde(default)]
    pub latency_us: u64,
    /// The sections of the job file that run in the group.
    #[serde(default)]
    pub jobs: Vec<String>,
}

const fn one() -> u32 {
    1
}

impl ExperimentGroup {
    /// Returns the names of all groups that this setting describes.
    pub fn names(&self) -> Vec<String> {
        match self.count {
            1 => vec![self.name.clone()],
            n => (1..=n).map(|i| format!("{}-{i}", self.name)).collect(),
        }
    }

    /// Returns the name of the parent, if there is one.
    pub fn parent(&self) -> Option<&str> {
        self.name.rsplit_once('/').map(|(parent, _)| parent)
    }
}

/// A section of the job file in one group or in several alike. Each player has its own row in the
/// results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobPlayer {
    /// The name of the player in rows.
    pub name: String,
    /// The section of the job file.
    pub section: String,
    /// The groups in each of which it runs once. If there is none, it runs in the root.
    pub groups: Vec<String>,
}

impl ConformanceCase {
    /// Returns the players. Sections that no group names run in the root.
    pub fn players(&self, sections: &[String]) -> Vec<JobPlayer> {
        let mut players = Vec::new();
        for group in &self.group {
            for section in &group.jobs {
                let shared = self
                    .group
                    .iter()
                    .filter(|g| g.jobs.contains(section))
                    .count()
                    > 1;
                // If several groups run a section, its name does not identify the player.
                let name = if shared {
                    format!("{section} in {}", group.name)
                } else {
                    section.clone()
                };
                let (section, groups) = (section.clone(), group.names());
                players.push(JobPlayer {
                    name,
                    section,
                    groups,
                });
            }
        }
        let named = |s: &String| self.group.iter().any(|g| g.jobs.contains(s));
        // Without a list of jobs, all sections run.
        let plays = |s: &&String| self.jobs.is_empty() || self.jobs.contains(s);
        for section in sections.iter().filter(|s| !named(s)).filter(plays) {
            let (name, section) = (section.clone(), section.clone());
            players.push(JobPlayer {
                name,
                section,
                groups: Vec::new(),
            });
        }
        players
    }
}

impl Experiment {
    /// Reads all experiments of a directory, sorted by name.
    ///
    /// # Errors
    /// Returns the first file that cannot be read, with the reason.
    pub fn all(directory: &Path) -> Result<Vec<Self>, String> {
        let entries =
            fs::read_dir(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let files = entries.filter_map(|entry| entry.ok().map(|e| e.path()));
        let mut files: Vec<PathBuf> = files
            .filter(|f| f.extension().is_some_and(|e| e == "toml"))
            .collect();
        // The order of a directory depends on the file system.
        files.sort();
        files.iter().map(|file| Self::read(file)).collect()
    }

    fn read(file: &Path) -> Result<Self, String> {
        let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
        let text = fs::read_to_string(file).map_err(|e| wrong(&e))?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let setting: ExperimentSetting = toml::from_str(&text).map_err(|e| wrong(&e))?;
        let jobs = setting
            .jobs
            .clone()
            .unwrap_or_else(|| format!("{name}.fio"));
        Ok(Self {
            name: name.into_owned(),
            jobs: file.with_file_name(jobs),
            setting,
        })
    }

    /// Returns the names of the job file's sections.
    ///
    /// # Errors
    /// Returns an error if the job file cannot be read.
    pub fn sections(&self) -> Result<Vec<String>, String> {
        let text =
            fs::read_to_string(&self.jobs).map_err(|e| format!("{}: {e}", self.jobs.display()))?;
        let names = text
            .lines()
            .filter_map(|l| l.trim().strip_prefix('[')?.strip_suffix(']'));
        Ok(names
            // The section `global` contains defaults and is not a job.
            .filter(|n| *n != "global")
            .map(str::to_owned)
            .collect())
    }
}
