//! `weir explain`: why a volume's requests take as long as they do.

use crate::failure::Failure;
use crate::output;
use crate::record::{self, Names};
use clap::Args;
use std::path::PathBuf;
use weir_config::units::Time;
use weir_core::record::{Observer, ReplayError};
use weir_core::{GroupId, Instant, Span};
use weir_explain::{Explanation, Watch};

/// What to explain.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The volume, or the tenant
    volume: String,
    /// Explain from what `weir serve --record` wrote, in virtual time
    #[arg(long, value_name = "FILE")]
    record: PathBuf,
    /// The configuration that the server had, for the names of volumes [default: they are called by the numbers of their groups]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only the last while, as 30s or 5m [default: all that is known]
    #[arg(long, value_name = "TIME", value_parser = span)]
    since: Option<Span>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Bytes of the journal: more than the server's, since nothing else is to be kept.
const JOURNAL: usize = 256 << 20;

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let explanation = recorded(options)?;
    show(&explanation, options.json)
}

/// Prints an explanation.
fn show(explanation: &Explanation, json: bool) -> Result<(), Failure> {
    if json {
        let text = serde_json::to_string_pretty(explanation).map_err(Failure::run)?;
        return output::print(&format!("{text}\n"));
    }
    let width = output::width();
    let lines = explanation
        .said
        .iter()
        .map(|said| weir_report::wrap(said, width));
    let lines: Vec<String> = lines.collect();
    output::print(&lines.concat())
}

/// From a record.
fn recorded(options: &Options) -> Result<Explanation, Failure> {
    let path = &options.record;
    let (mut watch, mut now) = (Watch::new(JOURNAL), Instant::ZERO);
    let replay = record::replay(path, |layer, at, call| {
        now = at;
        watch.call(at, call, layer);
    })?;
    let refused = |error: &ReplayError| record::refused(path, error);
    let mut replay = replay.map_err(|error| refused(&error))?;
    let mut view = None;
    let mut names = Names::default();
    if let Some(layer) = replay.layer() {
        names = Names::load(options.config.as_ref(), layer.config())?;
        let groups: Vec<GroupId> = watch.groups().map(|group| group.0).collect();
        let group = names.find(&options.volume, &groups)?;
        view = watch.view(now, layer, group);
    }
    let done = replay.end().map_err(|error| refused(&error))?;
    if !done.whole {
        let (path, bytes) = (path.display(), done.bytes);
        output::tell(&format!(
            "warning: {path}: the record is cut behind byte {bytes}"
        ));
    }
    let empty = || Failure::Run(format!("{}: nothing happens in it", path.display()));
    let view = view.ok_or_else(empty)?;
    Ok(view.explain(options.since, &|group| names.of(group)))
}

fn span(text: &str) -> Result<Span, String> {
    let minutes = text.strip_suffix('m').and_then(|n| n.parse::<u64>().ok());
    if let Some(minutes) = minutes {
        return Ok(Span::from_secs(minutes.saturating_mul(60)));
    }
    text.parse()
        .map(|Time(span)| span)
        .map_err(|error: weir_config::units::UnitError| {
            let help = "write it as 30s or 5m";
            format!("{error}; {help}")
        })
}
