//! Parses cases from their text.

use super::TextError;
use crate::case::{Case, Change, Client, DriveChoice};
use std::fmt::Display;
use std::str::FromStr;
use weir_config::units::{Rate, Size as Bytes, Time};
use weir_config::{parameter, profile};
use weir_core::{Capacity, Class, Contract, GroupId, Knobs, Max, Span};
use weir_drive::{Config, Freeze, hdd, null, ssd};
use weir_load::{Arrival, Pattern, Program, Size, SyncMode};
use weir_sim::GroupSpec;

type Result<T> = std::result::Result<T, TextError>;

fn wrong<T>(what: impl Into<String>) -> Result<T> {
    Err(TextError(what.into()))
}

impl FromStr for Case {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.split(';').map(Words::new);
        let Some(mut head) = parts.next().filter(|p| p.what == "case") else {
            return wrong("a case begins with \"case\"");
        };
        let mut case = head.case()?;
        head.end()?;
        for mut part in parts {
            match part.what {
                "group" => {
                    let parent = GroupId(part.number("parent")?.unwrap_or(0));
                    let contract = part.contract()?;
                    let knobs = Knobs::NONE;
                    case.groups.push(GroupSpec {
                        parent,
                        contract,
                        knobs,
                    });
                }
                "client" => case.clients.push(part.client()?),
                "change" => case.changes.push(Change {
                    at: part.time("at")?.unwrap_or(Span::ZERO),
                    group: GroupId(part.needed("group")?),
                    contract: part.contract()?,
                }),
                what => return wrong(format!("{what:?} is no part of a case")),
            }
            part.end()?;
        }
        check(case)
    }
}

/// Checks that groups exist where they are named, and that parents come before their children.
fn check(case: Case) -> Result<Case> {
    let groups = case.groups.len() as u32;
    let exists = |g: GroupId| (1..=groups).contains(&g.0);
    let clients = case.clients.iter().all(|c| exists(c.group));
    let changes = case.changes.iter().all(|c| exists(c.group));
    let parents = (1..).zip(&case.groups).all(|(id, g)| g.parent.0 < id);
    if !(clients && changes && parents) || case.clients.is_empty() || case.seconds == 0 {
        return wrong(
            "clients or changes name a group that is not there, or a parent comes after its child",
        );
    }
    Ok(case)
}

/// A part: a word that names it, and words with or without a value.
struct Words<'a> {
    what: &'a str,
    words: Vec<(&'a str, Option<&'a str>)>,
}

impl<'a> Words<'a> {
    fn new(text: &'a str) -> Self {
        let mut words = text.split_whitespace();
        let what = words.next().unwrap_or_default();
        let split = |word: &'a str| match word.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (word, None),
        };
        Self {
            what,
            words: words.map(split).collect(),
        }
    }

    fn take(&mut self, key: &str) -> Option<(&'a str, Option<&'a str>)> {
        let at = self.words.iter().position(|w| w.0 == key)?;
        Some(self.words.remove(at))
    }

    fn flag(&mut self, key: &str) -> bool {
        self.take(key).is_some()
    }

    fn text(&mut self, key: &str) -> Option<&'a str> {
        self.take(key)?.1
    }

    fn number<T: FromStr<Err: Display>>(&mut self, key: &str) -> Result<Option<T>> {
        self.text(key).map(|text| value(key, text)).transpose()
    }

    fn needed<T: FromStr<Err: Display>>(&mut self, key: &str) -> Result<T> {
        match self.number(key)? {
            Some(value) => Ok(value),
            None => wrong(format!("{} needs {key}=", self.what)),
        }
    }

    fn time(&mut self, key: &str) -> Result<Option<Span>> {
        Ok(self.number::<Time>(key)?.map(|t| t.0))
    }

    fn rate(&mut self, key: &str) -> Result<u64> {
        Ok(self.number::<Rate>(key)?.map_or(0, |r| r.0))
    }

    /// Values separated by commas.
    fn list<T: FromStr<Err: Display>>(&mut self, key: &str) -> Result<Vec<T>> {
        let text = self.text(key).unwrap_or_default();
        let parts = text.split(',').filter(|p| !p.is_empty());
        parts.map(|part| value(key, part)).collect()
    }

    /// Checks that no word is left over.
    fn end(self) -> Result<()> {
        match self.words.first() {
            Some((key, _)) => wrong(format!("{}: {key:?} is unknown", self.what)),
            None => Ok(()),
        }
    }

    fn case(&mut self) -> Result<Case> {
        let capacity = self.text("capacity").unwrap_or_default();
        let capacity: Vec<&str> = capacity.split(',').collect();
        let [read, write, iops] = capacity[..] else {
            return wrong("capacity= is read,write,requests");
        };
        let freeze: Vec<Time> = self.list("freeze")?;
        let freeze = match freeze[..] {
            [] => None,
            [first, length, every] => Some(Freeze {
                first: first.0,
                length: length.0,
                every: every.0,
            }),
            _ => return wrong("freeze= is first,length,every"),
        };
        Ok(Case {
            name: self.needed("name")?,
            seconds: self.needed("seconds")?,
            drive: self.needed("drive")?,
            freeze,
            capacity: Capacity {
                read: value::<Rate>("capacity", read)?.0,
                write: value::<Rate>("capacity", write)?.0,
                iops: value("capacity", iops)?,
                ..Capacity::NONE
            },
            groups: Vec::new(),
            clients: Vec::new(),
            places: Vec::new(),
            changes: Vec::new(),
            clones: self.flag("clones"),
        })
    }

    fn contract(&mut self) -> Result<Contract> {
        let class = match self.text("class") {
            None => Class::BestEffort,
            Some("realtime") => Class::Realtime,
            Some("idle") => Class::Idle,
            Some(other) => return wrong(format!("{other:?} is no class: realtime or idle")),
        };
        Ok(Contract {
            min: self.rate("min")?,
            min_iops: self.number("iops")?.unwrap_or(0),
            share: self.number("share")?.unwrap_or(Contract::DEFAULT.share),
            max: Max {
                bandwidth: self.rate("max")?,
                burst: self.time("burst")?.unwrap_or(Span::ZERO),
                ..Max::NONE
            },
            class,
        })
    }

    fn client(&mut self) -> Result<Client> {
        let pattern = match self.text("at") {
            Some("sequential") => Pattern::Sequential,
            None | Some("random") => Pattern::Random,
            Some("shuffled") => Pattern::Shuffled,
            Some("zipf") => Pattern::ZIPF,
            Some(other) => return wrong(format!("{other:?} is no pattern")),
        };
        let sizes: Vec<Bytes> = self.list("size")?;
        let size = match sizes[..] {
            [one] => Size::Fixed(one.0 as u32),
            [min, max, step] => Size::Range {
                min: min.0 as u32,
                max: max.0 as u32,
                step: step.0 as u32,
            },
            _ => return wrong("size= is one size, or least,most,step"),
        };
        let program = Program {
            pattern,
            zones: None,
            files: 1,
            activity: None,
            writes: self.number("writes")?.unwrap_or(0),
            fua: self.flag("fua"),
            sync: self.sync()?,
            size,
            depth: self.number("depth")?.unwrap_or(1),
            arrival: self.arrival()?,
            think_every: 1,
            start: self.time("start")?.unwrap_or(Span::ZERO),
            start_spread: Span::ZERO,
            stop: self.time("stop")?,
            requests: None,
        };
        Ok(Client {
            group: GroupId(self.needed("group")?),
            program,
            size: self.number::<Bytes>("space")?.map_or(1 << 30, |s| s.0),
            buffered: self.flag("buffered"),
            arrives: self.time("arrives")?.unwrap_or(Span::ZERO),
            leaves: self.time("leaves")?,
        })
    }

    fn sync(&mut self) -> Result<SyncMode> {
        Ok(match (self.number("flush")?, self.number("fdatasync")?) {
            (Some(n), _) => SyncMode::Flush(n),
            (None, Some(n)) => SyncMode::Fdatasync(n),
            (None, None) => SyncMode::Never,
        })
    }

    fn arrival(&mut self) -> Result<Arrival> {
        let (even, poisson) = (self.time("even")?, self.time("poisson")?);
        let think = self.time("think")?.unwrap_or(Span::ZERO);
        Ok(match (even, poisson) {
            (Some(interval), _) => Arrival::Even { interval },
            (None, Some(interval)) => Arrival::Poisson { interval },
            (None, None) => Arrival::Closed { think },
        })
    }
}

fn value<T: FromStr<Err: Display>>(key: &str, text: &str) -> Result<T> {
    let read = text.parse();
    read.map_err(|e: T::Err| TextError(format!("{key}={text}: {e}")))
}

impl FromStr for DriveChoice {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self> {
        let Some((kind, parameters)) = text.split_once(':') else {
            let known = profile::names().find(|name| *name == text);
            return match known {
                Some(name) => Ok(Self::Profile(name)),
                None => wrong(format!("there is no drive {text:?}")),
            };
        };
        let mut config = match kind {
            "null" => Config::Null(null::Config::demo()),
            "ssd" => Config::Ssd(ssd::Config::generic()),
            "hdd" => Config::Hdd(hdd::Config::generic()),
            _ => return wrong(format!("{kind:?} is no kind of drive")),
        };
        for word in parameters.split(',') {
            let Some((key, text)) = word.split_once('=') else {
                return wrong(format!("{word:?} sets nothing"));
            };
            let Some(parameter) = parameter::find(&config, key) else {
                return wrong(format!("{kind} has no parameter {key:?}"));
            };
            parameter.set(&mut config, value(key, text)?);
        }
        Ok(Self::Drawn(config))
    }
}
