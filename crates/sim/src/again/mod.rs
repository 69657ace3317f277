//! A recorded load, played again on another drive or under other contracts and policies.
//!
//! A recorded client ([`LoadRecord`]) sent each of its requests some time after an answer. When the
//! load is played again, the client sends the request at the same distance from the same answer,
//! whenever that arrives. Therefore a client that is served sooner sends sooner, a client with
//! several requests in flight keeps as many, and think times stay as they were.
//!
//! A client also stays as long as it did in the record. If it has sent all its requests before
//! that, it waits for as long as it stayed after its last answer in the record, and begins again.
//! With [`Playback::at_recorded_times`], requests are sent at their recorded times instead, whether
//! or not earlier ones have completed.

mod load;
mod player;

pub use load::{LoadRecord, RecordedRequest};

use crate::SimError;
use player::Player;
use weir_core::record::Observer;
use weir_core::{Config, Edit, Instant, Layer};

/// The conditions under which a load is played again: the layer, the drive and the duration.
#[derive(Clone, Debug)]
pub struct Playback {
    /// The configuration of the layer.
    pub config: Config,
    /// The changes of the layer with their times. The first ones are made before anything else.
    pub edits: Vec<(Instant, Vec<Edit>)>,
    /// The configuration of the drive model.
    pub drive: weir_model::drive::DriveConfig,
    /// True to send requests at the times of the record instead of after answers.
    pub at_recorded_times: bool,
    /// The virtual time at which the playing ends.
    pub until: Instant,
}

impl Playback {
    /// Plays `load`, passes every call into the layer to `observer`, and returns the layer.
    ///
    /// # Errors
    /// The drive or the layer has an invalid configuration, volumes do not fit onto the drive, the
    /// contracts are refused, a client cannot connect, or virtual time does not advance.
    pub fn play(&self, load: &LoadRecord, observer: &mut dyn Observer) -> Result<Layer, SimError> {
        let mut player = Player::new(self, load, observer)?;
        while let Some(at) = player.next().filter(|at| *at <= self.until) {
            player.turn(at)?;
        }
        Ok(player.layer.into_layer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, Scenario, SimRun};
    use std::collections::BTreeMap;
    use weir_core::record::{Call, ObservedLayer};
    use weir_core::{
        Completion, Contract, Flags, GroupId, Op, Output, Priority, Request, SpaceId, Span,
        StreamSpec,
    };
    use weir_model::drive::null;
    use weir_model::load::{Arrival, Program};

    /// An observer that adds up completed bytes by the group of the stream.
    #[derive(Debug, Default)]
    struct CompletedBytes {
        groups: BTreeMap<u32, GroupId>,
        bytes: BTreeMap<GroupId, u64>,
    }

    impl Observer for CompletedBytes {
        fn call(&mut self, _now: Instant, call: &Call<'_>, _layer: &mut Layer) {
            match *call {
                Call::Open {
                    spec,
                    result: Ok(id),
                } => {
                    self.groups.insert(id.slot(), spec.group);
                }
                Call::Poll { outputs, .. } => {
                    for output in outputs {
                        if let Output::Done(done) = output {
                            let group = self.groups[&done.stream.slot()];
                            *self.bytes.entry(group).or_default() += u64::from(done.length);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Plays two seconds of three clients: a random reader with a queue depth of 4, a sequential
    /// reader, and a reader that pauses for 10 ms after each answer.
    fn recorded(link: u64, policy: &Policy) -> (Scenario, LoadRecord, CompletedBytes) {
        let drive = null::NullConfig {
            link,
            ..null::NullConfig::demo()
        };
        let drive = weir_model::drive::DriveConfig::Null(drive);
        let mut scenario = Scenario::new("again", drive, Span::from_secs(2));
        let contract = Contract::DEFAULT;
        scenario.add_client_with_group(
            "random",
            contract,
            1 << 30,
            Program::random_reads(16 << 10, 4),
        );
        scenario.add_client_with_group(
            "streams",
            contract,
            1 << 30,
            Program::sequential_reads(128 << 10, 8),
        );
        let think = Span::from_millis(10);
        let pauses = Program {
            arrival: Arrival::Closed { think },
            ..Program::random_reads(4096, 1)
        };
        scenario.add_client_with_group("pauses", contract, 1 << 30, pauses);
        let (mut load, mut answered) = (LoadRecord::new(), CompletedBytes::default());
        let observers: Vec<&mut dyn Observer> = vec![&mut load, &mut answered];
        let run = SimRun::observed(&scenario, policy, 0, observers).unwrap();
        run.run(|_| {}).unwrap();
        (scenario, load, answered)
    }

    fn played(
        load: &LoadRecord,
        scenario: &Scenario,
        link: u64,
        at_recorded_times: bool,
    ) -> BTreeMap<GroupId, u64> {
        let drive = null::NullConfig {
            link,
            ..null::NullConfig::demo()
        };
        let again = Playback {
            config: SimRun::config(scenario, &Policy::contract()),
            edits: load.edits().to_vec(),
            drive: weir_model::drive::DriveConfig::Null(drive),
            at_recorded_times,
            until: load.end(),
        };
        let mut answered = CompletedBytes::default();
        again.play(load, &mut answered).unwrap();
        answered.bytes
    }

    /// Returns true if `got` is `part` times `of`, within 3 %.
    fn about(got: u64, of: u64, part: f64) -> bool {
        (got as f64 / of as f64 - part).abs() < 0.03 * part
    }

    #[test]
    fn playback_on_the_same_drive_repeats_the_throughput() {
        let (scenario, load, answered) = recorded(200_000_000, &Policy::contract());
        let again = played(&load, &scenario, 200_000_000, false);
        for (group, bytes) in &answered.bytes {
            assert!(about(again[group], *bytes, 1.0), "{again:?} {answered:?}");
        }
    }

    #[test]
    fn playback_on_a_faster_drive_completes_more_and_keeps_think_times() {
        let (scenario, load, answered) = recorded(200_000_000, &Policy::contract());
        let twice = played(&load, &scenario, 400_000_000, false);
        let all = |bytes: &BTreeMap<GroupId, u64>| bytes.values().sum::<u64>();
        // The link is the bottleneck of the closed loops, so that twice the rate completes
        // twice as much.
        assert!(
            about(all(&twice), all(&answered.bytes), 2.0),
            "{twice:?} {answered:?}"
        );
        let pauses = GroupId(3);
        // The think time of 10 ms dominates the cycle of this client, so that a faster drive hardly
        // shortens it.
        assert!(
            about(twice[&pauses], answered.bytes[&pauses], 1.0),
            "{twice:?} {answered:?}"
        );
        let open = played(&load, &scenario, 400_000_000, true);
        // At recorded times, the load does not follow the drive.
        assert!(
            about(all(&open), all(&answered.bytes), 1.0),
            "{open:?} {answered:?}"
        );
    }

    #[test]
    fn playback_under_another_policy_agrees_with_a_run() {
        let (scenario, load, _) = recorded(200_000_000, &Policy::none());
        let again = played(&load, &scenario, 200_000_000, false);
        let (_, _, run) = recorded(200_000_000, &Policy::contract());
        for (group, bytes) in &run.bytes {
            assert!(about(again[group], *bytes, 1.0), "{again:?} {run:?}");
        }
    }

    /// Records clients that send one request each, leave after the reply, and have a group of their
    /// own that is removed with them.
    fn record_of_visits(count: u32, config: &Config) -> LoadRecord {
        let space = SpaceId(0);
        let layer = Layer::new(config.clone()).unwrap();
        let mut layer = ObservedLayer::new(layer, LoadRecord::new());
        let (mut at, mut outputs) = (Instant::ZERO, Vec::new());
        let size = Some(1 << 20);
        let edits = [Edit::SetSpace { id: space, size }];
        layer.change(at, &edits).unwrap();
        for _ in 0..count {
            let add = Edit::add_group(GroupId(1), weir_core::ROOT, Contract::DEFAULT);
            layer.change(at, &[add]).unwrap();
            let spec = StreamSpec {
                group: GroupId(1),
                priority: Priority::default(),
            };
            let stream = layer.open(at, spec).unwrap();
            let read = Request {
                stream,
                cookie: 0,
                space,
                op: Op::Read,
                flags: Flags::NONE,
                offset: 0,
                length: 4096,
                within: 0,
            };
            layer.submit(at, &[read]).unwrap();
            layer.poll(at, &mut outputs);
            let Some(Output::Dispatch(piece)) = outputs.pop() else {
                panic!("{outputs:?}")
            };
            at += Span::from_micros(1);
            layer.complete(at, &[Completion::ok(piece.tag)]);
            layer.poll(at, &mut outputs);
            outputs.clear();
            layer.close(at, stream);
            layer.change(at, &[Edit::RemoveGroup(GroupId(1))]).unwrap();
        }
        layer.into_observer()
    }

    /// On a drive that takes longer than the recorded one, a client leaves while its request is in
    /// the drive. The removal of its group and the next client wait for that request.
    #[test]
    fn clients_leave_as_recorded_even_with_requests_in_flight() {
        let mut config = Config::of(weir_core::elevator::Config::None);
        config.sizes.streams = 1;
        let load = record_of_visits(3, &config);
        for at_recorded_times in [false, true] {
            let again = Playback {
                config: config.clone(),
                edits: load.edits().to_vec(),
                drive: weir_model::drive::DriveConfig::Null(null::NullConfig::demo()),
                at_recorded_times,
                until: load.end() + Span::from_secs(1),
            };
            let mut answered = CompletedBytes::default();
            again.play(&load, &mut answered).unwrap();
            assert_eq!(answered.bytes[&GroupId(1)], 3 * 4096);
        }
    }

    #[test]
    fn volumes_that_do_not_fit_are_refused() {
        let (scenario, load, _) = recorded(200_000_000, &Policy::contract());
        let drive = weir_config::profile::find("seagate-no-ncq").unwrap().drive;
        let mut edits = load.edits().to_vec();
        edits[0].1.push(Edit::SetSpace {
            id: SpaceId(2),
            size: Some(u64::MAX),
        });
        let again = Playback {
            config: SimRun::config(&scenario, &Policy::none()),
            edits,
            drive,
            at_recorded_times: false,
            until: load.end(),
        };
        let refused = again.play(&load, &mut CompletedBytes::default());
        assert!(
            matches!(refused, Err(SimError::Place { space: 2, .. })),
            "{refused:?}"
        );
    }
}
