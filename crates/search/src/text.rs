//! Cases as a line of text, to be printed, changed and played again.
//!
//! A case is a few words for each of its parts, parts apart by `;`:
//!
//! ```text
//! case name=7 seconds=5 drive=demo capacity=250MB/s,250MB/s,0; group min=10MB/s; group share=200 max=5MB/s; client group=1
//! read=random size=4KiB depth=4; client group=2 read=sequential size=1MiB depth=8 arrives=1s; change at=2s group=2 share=50
//! ```

use crate::case::{Case, Change, Client, DriveChoice};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use weir_config::units::{Rate, Size as Bytes, Time};
use weir_config::{parameter, profile};
use weir_core::{Capacity, Class, Contract, GroupId, Max, Span};
use weir_drive::{Config, Freeze, hdd, null, ssd};
use weir_load::{Arrival, Pattern, Program, Size, SyncMode};
use weir_sim::GroupSpec;

/// What is wrong with a case's text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextError(String);

impl Display for TextError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TextError {}

type Result<T> = std::result::Result<T, TextError>;

fn wrong<T>(what: impl Into<String>) -> Result<T> {
    Err(TextError(what.into()))
}

impl Display for Case {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Capacity { read, write, iops } = self.capacity;
        write!(
            f,
            "case name={} seconds={} drive={}",
            self.name, self.seconds, self.drive
        )?;
        write!(f, " capacity={},{},{iops}", Rate(read), Rate(write))?;
        if let Some(Freeze {
            first,
            length,
            every,
        }) = self.freeze
        {
            write!(
                f,
                " freeze={},{},{}",
                Time(first),
                Time(length),
                Time(every)
            )?;
        }
        if self.clones {
            f.write_str(" clones")?;
        }
        for group in &self.groups {
            f.write_str("; group")?;
            if group.parent.0 > 0 {
                write!(f, " parent={}", group.parent.0)?;
            }
            contract(f, &group.contract)?;
        }
        for client in &self.clients {
            write!(f, "; {client}")?;
        }
        for change in &self.changes {
            write!(
                f,
                "; change at={} group={}",
                Time(change.at),
                change.group.0
            )?;
            contract(f, &change.contract)?;
        }
        Ok(())
    }
}

impl Display for DriveChoice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let config = match self {
            Self::Profile(name) => return f.write_str(name),
            Self::Drawn(config) => config,
        };
        f.write_str(config.name())?;
        for (i, parameter) in parameter::parameters(config).iter().enumerate() {
            let before = if i == 0 { ':' } else { ',' };
            write!(f, "{before}{}={}", parameter.key, parameter.get(config))?;
        }
        Ok(())
    }
}

/// What of a contract is not as usual.
pub(crate) fn contract(f: &mut Formatter<'_>, contract: &Contract) -> fmt::Result {
    let Contract {
        min,
        min_iops,
        share,
        max,
        class,
        ..
    } = contract;
    if *min > 0 {
        write!(f, " min={}", Rate(*min))?;
    }
    if *min_iops > 0 {
        write!(f, " iops={min_iops}")?;
    }
    if *share != Contract::DEFAULT.share {
        write!(f, " share={share}")?;
    }
    if max.bandwidth > 0 {
        write!(f, " max={}", Rate(max.bandwidth))?;
    }
    if max.burst > Span::ZERO {
        write!(f, " burst={}", Time(max.burst))?;
    }
    match class {
        Class::Realtime => f.write_str(" class=realtime"),
        Class::Idle => f.write_str(" class=idle"),
        Class::BestEffort => Ok(()),
    }
}

impl Display for Client {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let program = &self.program;
        let pattern = match program.pattern {
            Pattern::Sequential => "sequential",
            Pattern::Random => "random",
            Pattern::Shuffled => "shuffled",
            Pattern::Zipf => "zipf",
        };
        write!(
            f,
            "client group={} at={pattern} writes={}",
            self.group.0, program.writes
        )?;
        match program.size {
            Size::Fixed(bytes) => write!(f, " size={}", Bytes(bytes.into()))?,
            Size::Range { min, max, step } => {
                let [min, max, step] = [min, max, step].map(|n| Bytes(n.into()));
                write!(f, " size={min},{max},{step}")?;
            }
        }
        write!(f, " depth={}", program.depth)?;
        match program.arrival {
            Arrival::Closed { think } if think == Span::ZERO => {}
            Arrival::Closed { think } => write!(f, " think={}", Time(think))?,
            Arrival::Even { interval } => write!(f, " even={}", Time(interval))?,
            Arrival::Poisson { interval } => write!(f, " poisson={}", Time(interval))?,
        }
        match program.sync {
            SyncMode::Never => {}
            SyncMode::Flush(n) => write!(f, " flush={n}")?,
            SyncMode::Fdatasync(n) => write!(f, " fdatasync={n}")?,
        }
        let spans = [
            ("start", Some(program.start).filter(|s| *s > Span::ZERO)),
            ("stop", program.stop),
            ("arrives", Some(self.arrives).filter(|s| *s > Span::ZERO)),
            ("leaves", self.leaves),
        ];
        for (key, span) in spans {
            if let Some(span) = span {
                write!(f, " {key}={}", Time(span))?;
            }
        }
        let flags = [("fua", program.fua), ("buffered", self.buffered)];
        for (flag, _) in flags.iter().filter(|flag| flag.1) {
            write!(f, " {flag}")?;
        }
        write!(f, " space={}", Bytes(self.size))
    }
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
                    case.groups.push(GroupSpec { parent, contract });
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

/// Groups that are named exist, parents before their children.
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

/// A part: a word that says what it is, and words with or without a value.
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

    fn take(&mut self, key: &str) -> Option<Option<&'a str>> {
        let at = self.words.iter().position(|w| w.0 == key)?;
        Some(self.words.remove(at).1)
    }

    fn flag(&mut self, key: &str) -> bool {
        self.take(key).is_some()
    }

    fn text(&mut self, key: &str) -> Option<&'a str> {
        self.take(key).flatten()
    }

    fn number<T: FromStr>(&mut self, key: &str) -> Result<Option<T>> {
        self.text(key).map(|text| value(key, text)).transpose()
    }

    fn needed<T: FromStr>(&mut self, key: &str) -> Result<T> {
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

    /// Values apart by commas.
    fn list<T: FromStr>(&mut self, key: &str) -> Result<Vec<T>> {
        let text = self.text(key).unwrap_or_default();
        let parts = text.split(',').filter(|p| !p.is_empty());
        parts.map(|part| value(key, part)).collect()
    }

    /// Nothing is left over.
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
            },
            groups: Vec::new(),
            clients: Vec::new(),
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
            latency: Span::ZERO,
        })
    }

    fn client(&mut self) -> Result<Client> {
        let pattern = match self.text("at") {
            Some("sequential") => Pattern::Sequential,
            None | Some("random") => Pattern::Random,
            Some("shuffled") => Pattern::Shuffled,
            Some("zipf") => Pattern::Zipf,
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
            writes: self.number("writes")?.unwrap_or(0),
            fua: self.flag("fua"),
            sync: self.sync()?,
            size,
            depth: self.number("depth")?.unwrap_or(1),
            arrival: self.arrival()?,
            start: self.time("start")?.unwrap_or(Span::ZERO),
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

fn value<T: FromStr>(key: &str, text: &str) -> Result<T> {
    let read = text.parse();
    read.or_else(|_| wrong(format!("{key}={text} cannot be read")))
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
