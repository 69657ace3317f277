//! Cases as a line of text, to be printed, edited and run again.
//!
//! A case is a few words for each of its parts, separated by `;`:
//!
//! ```text
//! case name=7 seconds=5 drive=demo capacity=250MB/s,250MB/s,0; group min=10MB/s; group share=200 max=5MB/s; client group=1
//! at=random size=4KiB depth=4; client group=2 at=sequential size=1MiB depth=8 arrives=1s; change at=2s group=2 share=50
//! ```

mod read;

use crate::case::{Case, Client, DriveChoice};
use std::fmt::{self, Display, Formatter};
use weir_config::parameter;
use weir_config::units::{Rate, Size as Bytes, Time};
use weir_core::{Capacity, Class, Contract, Span};
use weir_drive::Freeze;
use weir_load::{Arrival, Pattern, Size, SyncMode};

/// What is wrong with a case's text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextError(String);

impl Display for TextError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TextError {}

impl Display for Case {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Capacity {
            read, write, iops, ..
        } = self.capacity;
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

/// The fields of a contract that differ from the default.
pub(crate) fn contract(f: &mut Formatter<'_>, contract: &Contract) -> fmt::Result {
    let Contract {
        min,
        min_iops,
        share,
        max,
        class,
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
            // The search draws no other.
            Pattern::Skewed(_) | Pattern::Partly { .. } => "zipf",
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
            // The search draws no such size.
            Size::Split(split) => write!(f, " size={:?}", split.parts())?,
        }
        write!(f, " depth={}", program.depth)?;
        match program.arrival {
            Arrival::Closed { think } if think == Span::ZERO => {}
            // The search draws none.
            Arrival::Batches { low } => write!(f, " low={low}")?,
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
