//! What is done on both sides: a job file of fio, and a short file beside it with drive, elevator and groups.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Experiments on one job file.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Its name: that of its files.
    pub name: String,
    /// Its job file.
    pub jobs: PathBuf,
    /// What is set beside it.
    pub setting: Setting,
}

/// What a file of settings says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// What it is about, in a line.
    pub about: String,
    /// The job file beside it, where that is not called as it is.
    pub jobs: Option<String>,
    /// The drive.
    pub drive: NullBlk,
    /// Cases, in the order of the page.
    pub case: Vec<Case>,
}

/// `null_blk` as the lab loads it, with one hardware queue.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NullBlk {
    /// `hw_queue_depth`.
    pub tags: u16,
    /// `completion_nsec`, in microseconds.
    pub service_us: u64,
    /// `mbps`, MiB a second given out in ticks; 0: no bound.
    #[serde(default)]
    pub mbps: u64,
}

/// One setting of elevator and groups.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Weir's policy. Linux's elevator is called like that policy's.
    pub policy: String,
    /// `nr_requests`; without an elevator that is the number of tags.
    pub nr_requests: u32,
    /// Tunables of the elevator, none of which has a unit.
    #[serde(default)]
    pub iosched: BTreeMap<String, u64>,
    /// Tunables that Weir has where Linux has none: what is as in Linux 6.1 and off unless stated.
    #[serde(default)]
    pub weir: BTreeMap<String, u64>,
    /// `nomerges` of the queue.
    #[serde(default)]
    pub nomerges: u8,
    /// `io.cost.qos` of the root.
    pub qos: Option<String>,
    /// `io.cost.model` of the root.
    pub model: Option<String>,
    /// The groups below the root, parents first.
    #[serde(default)]
    pub group: Vec<Group>,
    /// Which of the job file's sections are played; all of them if none is named.
    #[serde(default)]
    pub jobs: Vec<String>,
}

/// A group, or several alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name; behind its parent's and a slash where it has one.
    pub name: String,
    /// Number of groups, called `NAME-1` and so on.
    #[serde(default = "one")]
    pub count: u32,
    /// `io.bfq.weight` under bfq, `io.weight` under io.cost.
    #[serde(default)]
    pub weight: u16,
    /// `io.max`.
    #[serde(default)]
    pub max: BTreeMap<String, u64>,
    /// `io.low`: low limits, and `idle` and `latency` in microseconds.
    #[serde(default)]
    pub low: BTreeMap<String, u64>,
    /// The target of `io.latency`, microseconds.
    #[serde(default)]
    pub latency_us: u64,
    /// Sections of the job file that run in it.
    #[serde(default)]
    pub jobs: Vec<String>,
}

const fn one() -> u32 {
    1
}

impl Group {
    /// The name of each of the groups that this stands for.
    pub fn names(&self) -> Vec<String> {
        match self.count {
            1 => vec![self.name.clone()],
            n => (1..=n).map(|i| format!("{}-{i}", self.name)).collect(),
        }
    }

    /// The name of its parent.
    pub fn parent(&self) -> Option<&str> {
        self.name.rsplit_once('/').map(|(parent, _)| parent)
    }
}

/// A section of the job file in one group, or in several alike: what has a row of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Player {
    /// Its name in rows.
    pub name: String,
    /// The section.
    pub section: String,
    /// The groups in each of which it runs once; none: the root.
    pub groups: Vec<String>,
}

impl Case {
    /// The players. Sections that no group names run in the root.
    pub fn players(&self, sections: &[String]) -> Vec<Player> {
        let mut players = Vec::new();
        for group in &self.group {
            for section in &group.jobs {
                let shared = self
                    .group
                    .iter()
                    .filter(|g| g.jobs.contains(section))
                    .count()
                    > 1;
                let name = if shared {
                    format!("{section} in {}", group.name)
                } else {
                    section.clone()
                };
                let (section, groups) = (section.clone(), group.names());
                players.push(Player {
                    name,
                    section,
                    groups,
                });
            }
        }
        let named = |s: &String| self.group.iter().any(|g| g.jobs.contains(s));
        let plays = |s: &&String| self.jobs.is_empty() || self.jobs.contains(s);
        for section in sections.iter().filter(|s| !named(s)).filter(plays) {
            let (name, section) = (section.clone(), section.clone());
            players.push(Player {
                name,
                section,
                groups: Vec::new(),
            });
        }
        players
    }
}

impl Experiment {
    /// All experiments of a directory, by name.
    ///
    /// # Errors
    /// A file that cannot be read, with what is wrong.
    pub fn all(directory: &Path) -> Result<Vec<Self>, String> {
        let entries =
            fs::read_dir(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let files = entries.filter_map(|entry| entry.ok().map(|e| e.path()));
        let mut files: Vec<PathBuf> = files
            .filter(|f| f.extension().is_some_and(|e| e == "toml"))
            .collect();
        files.sort();
        files.iter().map(|file| Self::read(file)).collect()
    }

    fn read(file: &Path) -> Result<Self, String> {
        let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
        let text = fs::read_to_string(file).map_err(|e| wrong(&e))?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let setting: Setting = toml::from_str(&text).map_err(|e| wrong(&e))?;
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

    /// The names of the job file's sections.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn sections(&self) -> Result<Vec<String>, String> {
        let text =
            fs::read_to_string(&self.jobs).map_err(|e| format!("{}: {e}", self.jobs.display()))?;
        let names = text
            .lines()
            .filter_map(|l| l.trim().strip_prefix('[')?.strip_suffix(']'));
        Ok(names
            .filter(|n| *n != "global")
            .map(str::to_owned)
            .collect())
    }
}
