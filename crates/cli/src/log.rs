//! What is logged, and how much of it.

use crate::failure::Failure;
use clap::ValueEnum;
use tracing_subscriber::filter::LevelFilter;

/// How much is logged: everything at least as grave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The environment's word where the command line has none.
const VARIABLE: &str = "WEIR_LOG";

/// Logs from here on to standard error: what was asked for, or what the environment says, or the usual.
pub(crate) fn start(asked: Option<Level>, usual: Level) -> Result<(), Failure> {
    let level = match (asked, std::env::var_os(VARIABLE)) {
        (Some(level), _) => level,
        (None, Some(text)) if !text.is_empty() => named(&text.to_string_lossy())?,
        _ => usual,
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(level.filter())
        .with_target(level >= Level::Debug)
        .init();
    Ok(())
}

fn named(text: &str) -> Result<Level, Failure> {
    Level::from_str(text, true).map_err(|_| {
        let names = Level::value_variants().iter().map(|l| l.name());
        let names: Vec<String> = names.collect();
        Failure::Usage(format!(
            "{VARIABLE} is {text:?}: there are {}",
            names.join(", ")
        ))
    })
}

impl Level {
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |v| v.get_name().to_owned())
    }

    fn filter(self) -> LevelFilter {
        match self {
            Self::Off => LevelFilter::OFF,
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}
