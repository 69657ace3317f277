//! Scenes and the decisions in them.

use weir_core::testing::{self, Client, Host, child, ms};
use weir_core::{Config, Contract, Dispatch, Done, Edit, GroupId, Knobs, Layer, Output, Refusal};

use crate::decisions::drive::{SceneDrive, SceneDriveKind};
use crate::decisions::listing::sampled;

/// The number, parent, contract and knobs of a group.
pub(crate) type SceneGroup = (u32, GroupId, Contract, Knobs);

/// A drive, a policy, and the loads of its clients.
pub(crate) struct Scene {
    pub(crate) drive: SceneDriveKind,
    pub(crate) config: Config,
    pub(crate) groups: Vec<SceneGroup>,
    pub(crate) clients: Vec<Client>,
    /// Other events, with their times in milliseconds.
    pub(crate) changes: Vec<(u64, Change)>,
    pub(crate) millis: u64,
}

/// An event while clients are at work.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    /// An edit, which may be refused.
    Edit(Edit),
    /// A client that disconnects and connects again as another stream.
    Reconnect(usize),
}

/// A decision with its time: a piece that was dispatched, or a request that was completed.
pub(crate) enum Decision {
    Sent(u64, usize, Dispatch),
    Answered(u64, usize, Done),
    /// All samples at that time.
    Sampled(u64, Vec<u64>),
}

/// The nanoseconds between two samples.
const SAMPLE_EVERY: u64 = 5_000_000;

/// Runs a scene and returns its decisions.
pub(crate) fn run(scene: &Scene) -> Vec<Decision> {
    let mut host = Host::over(layer(scene).unwrap(), SceneDrive::new(scene.drive));
    // One nanosecond keeps a completion and the next request apart, except on the drive on which
    // events must coincide.
    host.pause = u64::from(!matches!(scene.drive, SceneDriveKind::Even));
    for client in &scene.clients {
        host.add(*client);
    }
    let mut decisions = Decisions::default();
    let mut changes = scene.changes.clone();
    changes.sort_by_key(|change| change.0);
    for (at, change) in changes.into_iter().filter(|c| c.0 < scene.millis) {
        decisions.run(&mut host, ms(at));
        match change {
            // An excessive promise is refused and has no effect.
            Change::Edit(edit) => drop(host.layer.change(host.instant(), &[edit])),
            Change::Reconnect(client) => host.reconnect(client),
        }
        host.call_at(host.now);
    }
    decisions.run(&mut host, ms(scene.millis));
    decisions.all
}

/// Returns the layer of a scene, or the reason why its promises are refused.
pub(crate) fn layer(scene: &Scene) -> Result<Layer, Refusal> {
    let groups = scene.groups.iter();
    let edits = groups.flat_map(|&(id, parent, contract, knobs)| {
        let knobs = Edit::SetKnobs {
            id: GroupId(id),
            knobs,
        };
        [child(id, parent, contract), knobs]
    });
    testing::layer(scene.config.clone(), &edits.collect::<Vec<_>>())
}

/// The decisions so far, and the time of the next sample.
#[derive(Default)]
struct Decisions {
    all: Vec<Decision>,
    sample_at: u64,
}

impl Decisions {
    fn run(&mut self, host: &mut Host<SceneDrive>, until: u64) {
        while host.step(until) {
            let now = host.now;
            if now >= self.sample_at {
                self.sample_at = now + SAMPLE_EVERY;
                self.all.push(Decision::Sampled(now, sampled(&host.layer)));
            }
            self.all
                .extend(host.out.iter().filter_map(|output| match *output {
                    Output::Dispatch(piece) => {
                        Some(Decision::Sent(now, piece.cookie as usize, piece))
                    }
                    Output::Done(done) => Some(Decision::Answered(now, done.cookie as usize, done)),
                    Output::Pause(_) | Output::Resume(_) => None,
                }));
        }
    }
}
