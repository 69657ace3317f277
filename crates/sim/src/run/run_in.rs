//! The run-in: reads before the run, so that elevators and controllers have learned the properties
//! of the drive.

use crate::{Scenario, SimError};
use std::borrow::Cow;
use weir_config::scenario::RUN_IN_DEPTH;
use weir_core::record::{ObservedLayer, Observer};
use weir_core::{
    Completion, Contract, Cookie, Edit, Flags, GroupId, Instant, Op, Output, Priority, ROOT,
    Request, SpaceId, Span, StreamId, StreamSpec,
};
use weir_model::drive::DriveModel;

/// The pause from the last read of the run-in to the beginning of the scenario.
const REST: Span = Span::from_secs(1);

/// The length of a read in bytes.
const LENGTH: u64 = 128 << 10;

/// The time that passes before the scenario itself begins.
pub(super) fn length(scenario: &Scenario) -> Span {
    match scenario.run_in {
        Span::ZERO => Span::ZERO,
        run_in => run_in + REST,
    }
}

/// The scenario as it is played: all events happen later by the length of the run-in.
pub(super) fn shifted_scenario(scenario: &Scenario) -> Cow<'_, Scenario> {
    let by = length(scenario);
    // Most scenarios have no run-in, and are not copied.
    if by == Span::ZERO {
        return Cow::Borrowed(scenario);
    }
    let mut scenario = scenario.clone();
    scenario.warm_up += by;
    for client in &mut scenario.clients {
        client.arrives += by;
        client.leaves = client.leaves.map(|at| at + by);
        client.program.start += by;
        client.program.stop = client.program.stop.map(|at| at + by);
    }
    for scheduled in &mut scenario.actions {
        scheduled.at += by;
    }
    for change in &mut scenario.changes {
        change.at += by;
    }
    if let Some(freeze) = &mut scenario.freeze {
        freeze.first += by;
    }
    Cow::Owned(scenario)
}

/// Reads the first space sequentially for the scenario's `run_in`, with the queue depth that a fast
/// drive needs.
///
/// Nothing is in flight afterwards. Returns the time at which the layer must be polled next.
///
/// # Errors
/// The layer has no space for a stream, or a read is never answered.
pub(super) fn play(
    scenario: &Scenario,
    layer: &mut ObservedLayer<Vec<&mut dyn Observer>>,
    drive: &mut dyn DriveModel,
    bases: &[u64],
) -> Result<Option<Instant>, SimError> {
    let size = scenario.spaces.first().copied().unwrap_or(0);
    // A space that is too small for one read has no run-in.
    if scenario.run_in == Span::ZERO || size < LENGTH {
        return Ok(None);
    }
    let (group, stream) = open(scenario, layer)?;
    let mut reader = RunInReader {
        stream,
        // A rest that is shorter than a read is left out.
        pieces: size / LENGTH,
        sent: 0,
        in_flight: 0,
    };
    let base = bases.first().copied().unwrap_or(0);
    let until = Instant::ZERO + scenario.run_in;
    let (mut now, mut completions, mut outputs) = (Instant::ZERO, Vec::new(), Vec::new());
    loop {
        while let Some(ended) = drive.pop(now) {
            completions.push(ended.completion);
        }
        if !completions.is_empty() {
            layer.complete(now, &completions);
            completions.clear();
        }
        if now < until {
            reader.fill(now, layer);
        }
        let wake = layer.poll(now, &mut outputs);
        let mut answered = false;
        for output in outputs.drain(..) {
            match output {
                Output::Dispatch(mut command) => {
                    command.offset += base;
                    if drive.submit(now, &command).is_err() {
                        completions.push(Completion::busy(command.tag));
                    }
                }
                Output::Done(_) => {
                    reader.in_flight -= 1;
                    answered = true;
                }
                // A refused request is sent again after the next completion, so pauses need no
                // state.
                Output::Pause(_) | Output::Resume(_) => {}
            }
        }
        if now >= until && reader.in_flight == 0 {
            // The stream and its group are removed, so that the scenario starts with its own groups
            // only.
            layer.close(now, stream);
            if group != ROOT {
                change(layer, now, Edit::RemoveGroup(group))?;
            }
            return Ok(layer.poll(now, &mut outputs).map(|wake| wake.at));
        }
        // An answer makes space for another read at the same instant.
        if !answered && completions.is_empty() {
            let next = [drive.next_completion(), wake.map(|wake| wake.at)];
            let next = next.into_iter().flatten().min();
            // Without a completion or a timer, the reads in flight would never end.
            now = next.ok_or(SimError::Stuck { at: now })?.max(now);
        }
    }
}

/// Opens the stream that reads. Streams belong to leaves, so if there are groups, the stream gets a
/// group of its own.
fn open(
    scenario: &Scenario,
    layer: &mut ObservedLayer<Vec<&mut dyn Observer>>,
) -> Result<(GroupId, StreamId), SimError> {
    let group = match scenario.groups.len() {
        0 => ROOT,
        groups => GroupId(groups as u32 + 1),
    };
    if group != ROOT {
        let add = Edit::add_group(group, ROOT, Contract::DEFAULT);
        change(layer, Instant::ZERO, add)?;
    }
    let spec = StreamSpec {
        group,
        priority: Priority::default(),
    };
    let opened = layer.open(Instant::ZERO, spec);
    let stream = opened.map_err(|error| {
        let client = "run_in".to_owned();
        SimError::Open { client, error }
    })?;
    Ok((group, stream))
}

fn change(
    layer: &mut ObservedLayer<Vec<&mut dyn Observer>>,
    now: Instant,
    edit: Edit,
) -> Result<(), SimError> {
    let changed = layer.change(now, &[edit]);
    changed.map(drop).map_err(SimError::Refused)
}

/// The reader of the run-in, which reads the space sequentially and starts again at its end.
struct RunInReader {
    stream: StreamId,
    pieces: u64,
    sent: Cookie,
    in_flight: u32,
}

impl RunInReader {
    fn fill(&mut self, now: Instant, layer: &mut ObservedLayer<Vec<&mut dyn Observer>>) {
        while self.in_flight < RUN_IN_DEPTH {
            let request = Request {
                stream: self.stream,
                space: SpaceId(0),
                op: Op::Read,
                flags: Flags::NONE,
                // The reader starts again at the end of the space.
                offset: self.sent % self.pieces * LENGTH,
                length: LENGTH as u32,
                cookie: self.sent,
                within: 0,
            };
            if layer.submit(now, &[request]).is_err() {
                return;
            }
            self.sent += 1;
            self.in_flight += 1;
        }
    }
}
