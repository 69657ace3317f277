//! `weir replay` with `--policy`, `--set` or `--drive` predicts the results of the recorded load
//! under other conditions, next to the recorded results.
//!
//! [`run`] measures the recording, and plays its load again under each policy. The function
//! [`plan_run`] builds such a run.

use super::recommend;
use crate::drives;
use crate::failure::Failure;
use crate::output;
use crate::policies;
use crate::record::{self, RecordingNames};
use clap::Args;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weir_config::policy::GroupNode;
use weir_config::{Policy, ServerDrive, Setting};
use weir_core::record::{Call, Observer};
use weir_core::{Contract, Edit, GroupId, Instant, Knobs, Layer, Outcome, Output, ROOT};
use weir_lab::report::{Column, ReportTable};
use weir_measure::Histogram;
use weir_measure::explain::{Cause, Explanation, JudgingJournal, PromiseSummary};
use weir_measure::number::figure;
use weir_sim::{LoadRecord, Playback};

/// The options that select a prediction.
pub(super) const ASKED: [&str; 4] = ["policy", "set", "drive", "recommend"];

/// The options that change the conditions of the load.
#[derive(Debug, Args)]
pub(super) struct WhatIf {
    /// Predict the results under this policy: a name, a combination, or a file. Can be repeated,
    /// for a table of all
    #[arg(long, value_name = "NAME")]
    policy: Vec<String>,
    /// Predict the results with this key of a contract, for example alpha.min=20MB/s (min,
    /// `min_iops`, share, max, max.iops, class). Can be repeated
    #[arg(long, value_name = "VOLUME.KEY=VALUE")]
    set: Vec<Setting>,
    /// Predict the results on this modelled drive: a name, or a profile file [default: the model of
    /// --config's drive]
    #[arg(long, value_name = "NAME")]
    drive: Option<String>,
    /// Recommend contracts that match the clients' load, as lines to copy into the configuration
    #[arg(long, conflicts_with_all = ["policy", "set"])]
    recommend: bool,
    /// The server's configuration, for the names of volumes and the model of the drive [default:
    /// recordings contain no names, so groups are shown by number]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Issue each request at its recorded time, instead of at its recorded delay after the reply
    /// before it
    #[arg(long)]
    open: bool,
}

/// The size of a journal in bytes.
const JOURNAL: usize = 64 << 20;

impl WhatIf {
    pub(super) fn is_asked(&self) -> bool {
        !self.policy.is_empty() || !self.set.is_empty() || self.drive.is_some() || self.recommend
    }
}

/// Prints the table of the recorded and the predicted results, or the recommended contracts.
pub(super) fn run(file: &Path, options: &WhatIf) -> Result<(), Failure> {
    let mut load = LoadRecord::new();
    let mut seen = RunMeasurements::new();
    let replay = record::replay(file, |layer, now, call| {
        load.call(now, call, layer);
        seen.call(now, call, layer);
    })?;
    let refused = |error| record::refused(file, &error);
    let mut replay = replay.map_err(refused)?;
    let Some((layer, header)) = replay.layer().zip(load.config().cloned()) else {
        let what = format!("{}: the recording is empty", file.display());
        return Err(Failure::Run(what));
    };
    let names = RecordingNames::load(options.config.as_ref(), &header)?;
    // The memory for the recorded load is limited.
    if load.lost() > 0 {
        let most = LoadRecord::MOST;
        output::print_message(&format!(
            "warning: the recording is too long; only its first {most} requests are played again"
        ));
    }
    let was = seen.explained(load.end(), layer, &names);
    if options.recommend {
        let drive = options.drive.as_deref().map(drives::find).transpose()?;
        let model = drive.map(|profile| profile.drive);
        return recommend::run(file, &load, &names, model.as_ref());
    }
    let mut runs = vec![("recorded".to_owned(), was)];
    for policy in asked(options)? {
        let name = policy.as_ref().map_or("what if", |policy| &policy.name);
        let (again, stated) = plan_run(options, policy.as_ref(), &load, &names, &seen)?;
        let mut would = StatedObserver::new(&stated);
        let layer = again.play(&load, &mut would);
        let layer = layer.map_err(|error| {
            let whose = |group| format!("volume or tenant {}", names.of(group));
            let error = error.message_with_names(whose, |space| names.of_space(space));
            Failure::Run(format!("{name}: {error}"))
        })?;
        let would = would.seen.explained(load.end(), &layer, &names);
        runs.push((name.to_owned(), would));
    }
    output::print(&table(&runs).text(output::width()))
}

/// Returns the policies under which the load is played. `None` stands for the recorded policy.
fn asked(options: &WhatIf) -> Result<Vec<Option<Policy>>, Failure> {
    let policies = policies::all(&options.policy)?;
    Ok(match policies.len() {
        0 => vec![None],
        _ => policies.into_iter().map(Some).collect(),
    })
}

/// Edits of groups, with the time of each.
type Edits = Vec<(Instant, Vec<Edit>)>;

/// Returns the run under a policy, and the contracts as they are stated. Promises are judged by the
/// stated contracts.
fn plan_run(
    options: &WhatIf,
    policy: Option<&Policy>,
    load: &LoadRecord,
    names: &RecordingNames,
    seen: &RunMeasurements,
) -> Result<(Playback, Edits), Failure> {
    let drive = model(options, names)?;
    let mut config = load.config().cloned().ok_or(Failure::Said)?;
    // The recorded capacity is kept, so that admission accepts the recorded contracts on any model.
    let capacity = config.drive.capacity;
    let groups: Vec<GroupId> = seen.watch.groups().map(|g| g.0).collect();
    let sets = options.set.iter();
    let sets: Vec<(GroupId, &Setting)> = sets
        .map(|set| Ok((names.find(&set.whose, &groups)?, set)))
        .collect::<Result<_, Failure>>()?;
    if let Some(policy) = policy {
        let first = load.edits().first().map(|edits| contracts(&edits.1));
        let nodes = nodes(&first.unwrap_or_default());
        let setup = policy.set_up(capacity, nodes);
        (config.controllers, config.elevator) = (setup.controllers, setup.elevator);
    }
    config.drive = weir_core::DriveShape {
        capacity,
        ..drive.shape()
    };
    let stated = stated(load, &sets, capacity)?;
    let again = Playback {
        edits: match policy {
            Some(policy) => edits_for_core(&stated, policy, capacity),
            None => stated.clone(),
        },
        config,
        drive,
        at_recorded_times: options.open,
        until: load.end(),
    };
    Ok((again, stated))
}

/// Returns the model of the drive. A recording has the times of its own requests only, so it does
/// not tell how long the drive would have taken for another order of requests.
fn model(
    options: &WhatIf,
    names: &RecordingNames,
) -> Result<weir_model::drive::DriveConfig, Failure> {
    if let Some(word) = &options.drive {
        return Ok(drives::find(word)?.drive);
    }
    let drive: Option<&ServerDrive> = names.drive.as_ref();
    drive.and_then(|drive| drive.model.clone()).ok_or_else(|| {
        let reason = "a model of the drive is required, because a recording contains only the times of its own requests; set --drive (`weir \
                      drives` lists models, and `weir drives fit` creates one from measurements), or --config with a configuration that has a model";
        Failure::Usage(reason.into())
    })
}

/// The groups of a layer, each with its parent and its contract.
pub(super) type GroupContracts = BTreeMap<GroupId, (GroupId, Contract)>;

/// Returns the groups that exist after these edits.
pub(super) fn contracts<'a>(edits: impl IntoIterator<Item = &'a Edit>) -> GroupContracts {
    let mut groups = GroupContracts::new();
    for edit in edits {
        change(&mut groups, edit);
    }
    groups
}

/// Applies an edit to the groups. Edits of spaces, capacities, settings and debts do not change
/// contracts.
fn change(groups: &mut GroupContracts, edit: &Edit) {
    match *edit {
        Edit::AddGroup {
            id,
            parent,
            contract,
        } => {
            groups.insert(id, (parent, contract));
        }
        Edit::SetContract { id, contract } => {
            if let Some(group) = groups.get_mut(&id) {
                group.1 = contract;
            }
        }
        Edit::RemoveGroup(id) => {
            groups.remove(&id);
        }
        Edit::SetSpace { .. }
        | Edit::SetCapacity(_)
        | Edit::SetKnobs { .. }
        | Edit::SetDebt { .. } => {}
    }
}

/// Returns the groups as a tree, in which parents are indices. A group in the root has no parent.
fn nodes(groups: &GroupContracts) -> Vec<GroupNode> {
    let place = |id: &GroupId| groups.keys().position(|key| key == id);
    let groups = groups.values().map(|(parent, contract)| GroupNode {
        parent: place(parent),
        contract: *contract,
    });
    groups.collect()
}

/// Returns the recorded edits with the contracts that `--set` changes.
fn stated(
    load: &LoadRecord,
    sets: &[(GroupId, &Setting)],
    capacity: Option<weir_core::Capacity>,
) -> Result<Edits, Failure> {
    let mut all = Vec::new();
    for (at, recorded) in load.edits() {
        let mut edits = Vec::new();
        for edit in recorded {
            let mut edit = *edit;
            if let Edit::AddGroup { id, contract, .. } | Edit::SetContract { id, contract } =
                &mut edit
            {
                for (_, set) in sets.iter().filter(|set| set.0 == *id) {
                    let applied = set.apply(contract, capacity);
                    *contract = applied.map_err(|p| Failure::Usage(format!("--set {p}")))?;
                }
            }
            edits.push(edit);
        }
        all.push((*at, edits));
    }
    Ok(all)
}

/// Returns the edits in the form in which a policy passes them to the core.
fn edits_for_core(stated: &Edits, policy: &Policy, capacity: Option<weir_core::Capacity>) -> Edits {
    let (mut groups, mut told) = (GroupContracts::new(), BTreeMap::new());
    let mut all = stated.clone();
    for (_, edits) in &mut all {
        for edit in &*edits {
            change(&mut groups, edit);
        }
        translate_edits(policy, capacity, &groups, &mut told, edits);
    }
    all
}

/// Replaces the contracts in a list of edits by those that the policy passes to the core. Contracts
/// of other groups that change as a consequence are added.
fn translate_edits(
    policy: &Policy,
    capacity: Option<weir_core::Capacity>,
    groups: &GroupContracts,
    told: &mut BTreeMap<GroupId, Contract>,
    edits: &mut Vec<Edit>,
) {
    let setup = policy.set_up(capacity, nodes(groups));
    let now: BTreeMap<GroupId, Contract> = groups
        .keys()
        .copied()
        .zip(setup.contracts().iter().copied())
        .collect();
    for edit in edits.iter_mut() {
        match edit {
            Edit::AddGroup { id, contract, .. } | Edit::SetContract { id, contract } => {
                if let Some(told) = now.get(id) {
                    *contract = *told;
                }
            }
            Edit::SetKnobs { knobs, .. } => *knobs = setup.knobs(*knobs),
            _ => {}
        }
    }
    // A policy can clear all settings of an edit, which then has no effect.
    edits.retain(|edit| !matches!(edit, Edit::SetKnobs { knobs, .. } if *knobs == Knobs::NONE));
    let mentioned = |id: &GroupId| {
        edits.iter().any(|edit| {
            matches!(edit, Edit::AddGroup { id: of, .. } | Edit::SetContract { id: of, .. } if of == id)
        })
    };
    let changed = now.iter().filter(|(id, contract)| {
        told.get(id).is_some_and(|before| before != *contract) && !mentioned(id)
    });
    let changed: Vec<Edit> = changed
        .map(|(id, contract)| Edit::SetContract {
            id: *id,
            contract: *contract,
        })
        .collect();
    edits.extend(changed);
    *told = now;
}

/// The measurements of a run.
struct RunMeasurements {
    watch: JudgingJournal,
    /// The groups of streams, by the slot of the stream.
    groups: BTreeMap<u32, GroupId>,
    latencies: BTreeMap<GroupId, Histogram>,
}

impl Observer for RunMeasurements {
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        self.watch.call(now, call, layer);
        match *call {
            Call::Open {
                spec,
                result: Ok(id),
            } => {
                self.groups.insert(id.slot(), spec.group);
            }
            Call::Poll { outputs, .. } => {
                for output in outputs {
                    let Output::Done(done) = output else { continue };
                    let group = self.groups.get(&done.stream.slot());
                    // Requests that failed or were cancelled have no meaningful latency.
                    if let Some(group) = group.filter(|_| done.outcome == Outcome::Ok) {
                        let waits = done.waits;
                        let latency = waits.limit + waits.elevator + waits.drive;
                        let all = self.latencies.entry(*group).or_default();
                        all.record(latency.as_nanos());
                    }
                }
            }
            _ => {}
        }
    }
}

impl RunMeasurements {
    fn new() -> Self {
        Self {
            watch: JudgingJournal::new(JOURNAL),
            groups: BTreeMap::new(),
            latencies: BTreeMap::new(),
        }
    }

    /// Returns the results of each group that had requests.
    fn explained(
        &mut self,
        now: Instant,
        layer: &Layer,
        names: &RecordingNames,
    ) -> BTreeMap<GroupId, VolumeResult> {
        let groups: Vec<GroupId> = self
            .watch
            .groups()
            .map(|g| g.0)
            .filter(|g| *g != ROOT)
            .collect();
        let mut all = BTreeMap::new();
        for group in groups {
            let Some(latency) = self.latencies.remove(&group) else {
                continue;
            };
            if let Some(view) = self.watch.view(now, layer, group) {
                let why = view.explain(None, &|group| names.of(group));
                all.insert(group, VolumeResult { why, latency });
            }
        }
        all
    }
}

/// Measures a run by the contracts as they are stated. A policy that does not keep a min passes a
/// weight or a limit to the core instead, but its promises are judged like all others.
struct StatedObserver<'a> {
    seen: RunMeasurements,
    /// The edits that have not been made yet.
    left: std::slice::Iter<'a, (Instant, Vec<Edit>)>,
}

impl<'a> StatedObserver<'a> {
    fn new(stated: &'a Edits) -> Self {
        Self {
            seen: RunMeasurements::new(),
            left: stated.iter(),
        }
    }
}

impl Observer for StatedObserver<'_> {
    fn call(&mut self, now: Instant, call: &Call<'_>, layer: &mut Layer) {
        let mut call = *call;
        if let Call::Change { edits, .. } = &mut call
            && let Some((_, stated)) = self.left.next()
        {
            *edits = stated;
        }
        self.seen.call(now, &call, layer);
    }
}

/// The results of a volume in one run.
struct VolumeResult {
    why: Explanation,
    latency: Histogram,
}

/// Returns a table with a row of each run for each volume. The first run is the recording, and the
/// others are predictions.
fn table(runs: &[(String, BTreeMap<GroupId, VolumeResult>)]) -> ReportTable {
    let mut table = ReportTable::new([
        Column::text("volume"),
        Column::text("policy"),
        Column::number("MB/s"),
        Column::number("mean us"),
        Column::number("p99 us"),
        Column::number("promised s"),
        Column::number("kept"),
        Column::number("short"),
        Column::text("cause"),
    ]);
    let recorded = runs.first().into_iter().flat_map(|(_, was)| was);
    for (group, was) in recorded {
        for (number, (policy, all)) in runs.iter().enumerate() {
            let volume = if number == 0 { &was.why.volume } else { "" };
            match all.get(group) {
                Some(told) => row(&mut table, volume, policy, told),
                None => table.row(["", policy, "0.00", "-", "-", "-", "-", "-", "no answer"]),
            }
        }
    }
    for (number, (policy, all)) in runs.iter().enumerate() {
        let sum: f64 = all.values().map(|told| told.why.bandwidth_mb_per_s).sum();
        let first = if number == 0 { "all" } else { "" };
        table.row([first, policy, &figure(sum), "", "", "", "", "", ""]);
    }
    table
}

fn row(table: &mut ReportTable, volume: &str, what: &str, told: &VolumeResult) {
    let why = &told.why;
    let promise = why.promise.as_ref();
    let seconds = |of: Option<u64>| of.map_or_else(|| "-".to_owned(), |n| n.to_string());
    table.row([
        volume.to_owned(),
        what.to_owned(),
        figure(why.bandwidth_mb_per_s),
        figure(why.latency_us),
        figure(told.latency.quantile(99, 100) as f64 / 1e3),
        seconds(promise.map(|p| p.promised)),
        seconds(promise.map(|p| p.kept)),
        seconds(promise.map(PromiseSummary::all_short)),
        why.cause.map_or("-", Cause::words).to_owned(),
    ]);
}
