//! `weir explain` explains the latency of a volume's requests, from a running server or from a
//! recording.

use crate::ctl::{self, ChangeTarget};
use crate::failure::Failure;
use crate::output;
use crate::record::{self, RecordingNames};
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};
use weir_config::units::Time;
use weir_core::record::{Observer, ReplayError};
use weir_core::{GroupId, Instant, Span};
use weir_manage::api::ManagementServer;
use weir_measure::explain::{Explanation, JudgingJournal};

/// The arguments of `weir explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainOptions {
    /// The name of a volume or a tenant
    volume: String,
    #[command(flatten)]
    server: ManagementServer,
    /// Explain a recording of `weir serve --record` by replaying it in virtual time, instead of
    /// querying a running server
    #[arg(long, value_name = "FILE", conflicts_with = "socket")]
    record: Option<PathBuf>,
    /// The server's configuration, for the names of volumes [default: recordings contain no names,
    /// so groups are shown by number]
    #[arg(long, value_name = "FILE", requires = "record")]
    config: Option<PathBuf>,
    /// Explain only the most recent period, for example 30s or 5m [default: the whole period that
    /// is known]
    #[arg(long, value_name = "TIME", value_parser = span)]
    since: Option<Span>,
    /// Print the explanation as JSON
    #[arg(long)]
    json: bool,
}

/// The size of the journal in bytes. It is larger than that of the server, because the command
/// needs no memory for anything else.
const JOURNAL: usize = 256 << 20;

pub(crate) fn run(options: &ExplainOptions) -> Result<(), Failure> {
    match &options.record {
        Some(record) => {
            let explanation = explain_recording(options, record)?;
            let value = serde_json::to_value(&explanation).map_err(Failure::run)?;
            show(&value, options.json)
        }
        None => show(&explain_running(options)?, options.json),
    }
}

/// Requests the explanation from a running server.
fn explain_running(options: &ExplainOptions) -> Result<Value, Failure> {
    let target = ChangeTarget::parse(&options.volume);
    if target.kind != "volume" {
        let reason =
            "a running server can explain only volumes; use --record for tenants and drives";
        return Err(Failure::Usage(reason.into()));
    }
    let since = options.since.map_or_else(String::new, |since| {
        // The interface has whole seconds. A longer period contains the requested one.
        let seconds = since.as_nanos().div_ceil(1_000_000_000);
        format!("?since_seconds={seconds}")
    });
    let path = format!("{}/explain{since}", target.path());
    let client = options.server.client().map_err(Failure::run)?;
    let answer = client.get(&path);
    answer.map_err(|error| ctl::refused(&error))
}

/// Prints an explanation, as text or as JSON.
fn show(explanation: &Value, json: bool) -> Result<(), Failure> {
    if json {
        let text = serde_json::to_string_pretty(explanation).map_err(Failure::run)?;
        return output::print(&format!("{text}\n"));
    }
    let width = output::width();
    let said = explanation["said"].as_array().into_iter().flatten();
    let said = said.filter_map(Value::as_str);
    let lines: Vec<String> = said
        .map(|said| weir_lab::report::wrap(said, width))
        .collect();
    output::print(&lines.concat())
}

/// Derives the explanation from a recording.
fn explain_recording(options: &ExplainOptions, path: &Path) -> Result<Explanation, Failure> {
    let (mut watch, mut now) = (JudgingJournal::new(JOURNAL), Instant::ZERO);
    let replay = record::replay(path, |layer, at, call| {
        now = at;
        watch.call(at, call, layer);
    })?;
    let refused = |error: &ReplayError| record::refused(path, error);
    let mut replay = replay.map_err(|error| refused(&error))?;
    let mut view = None;
    let mut names = RecordingNames::default();
    if let Some(layer) = replay.layer() {
        names = RecordingNames::load(options.config.as_ref(), layer.config())?;
        let groups: Vec<GroupId> = watch.groups().map(|group| group.0).collect();
        let group = names.find(&options.volume, &groups)?;
        // The view must be taken before the replay ends, because it needs the layer.
        view = watch.view(now, layer, group);
    }
    let done = replay.end().map_err(|error| refused(&error))?;
    // A recording that is cut off is explained up to its end.
    if !done.whole {
        let (path, bytes) = (path.display(), done.bytes);
        output::print_message(&format!(
            "warning: {path}: the recording is cut off after byte {bytes}; the rest is missing"
        ));
    }
    let empty = || Failure::Run(format!("{}: the recording is empty", path.display()));
    let view = view.ok_or_else(empty)?;
    Ok(view.explain(options.since, &|group| names.of(group)))
}

/// Parses a period. Unlike in other times, minutes can be written as `m`.
fn span(text: &str) -> Result<Span, String> {
    let minutes = text.strip_suffix('m').and_then(|n| n.parse::<u64>().ok());
    if let Some(minutes) = minutes {
        return Ok(Span::from_secs(minutes.saturating_mul(60)));
    }
    text.parse()
        .map(|Time(span)| span)
        .map_err(|error: weir_config::units::UnitError| {
            let help = "write for example 30s or 5m";
            format!("{error}; {help}")
        })
}
