//! Scenes, and the decisions in each.

use weir_core::testing::{self, Client, Host, child, ms};
use weir_core::{Config, Contract, Dispatch, Done, Edit, GroupId, Knobs, Layer, Output, Refusal};

use crate::decisions::drive::{Drive, Kind};
use crate::decisions::listing::sampled;

/// Number, parent, contract and knobs.
pub(crate) type Group = (u32, GroupId, Contract, Knobs);

/// A drive, a policy, and its clients' loads.
pub(crate) struct Scene {
    pub(crate) drive: Kind,
    pub(crate) config: Config,
    pub(crate) groups: Vec<Group>,
    pub(crate) clients: Vec<Client>,
    /// What else happens, and after how many milliseconds.
    pub(crate) changes: Vec<(u64, Change)>,
    pub(crate) millis: u64,
}

/// Something that happens while clients are at work.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    /// The tree is changed, if that is allowed.
    Edit(Edit),
    /// A client leaves, and comes back as another stream.
    Reconnect(usize),
}

/// Something that was decided: a piece was sent to the drive, or a request was answered.
pub(crate) enum Decision {
    Sent(u64, usize, Dispatch),
    Answered(u64, usize, Done),
    /// What could be sampled.
    Sampled(u64, Vec<u64>),
}

/// Nanoseconds between two samples.
const SAMPLE_EVERY: u64 = 5_000_000;

/// Runs the scene.
pub(crate) fn run(scene: &Scene) -> Vec<Decision> {
    let mut host = Host::over(layer(scene).unwrap(), Drive::new(scene.drive));
    host.pause = u64::from(!matches!(scene.drive, Kind::Even));
    for client in &scene.clients {
        host.add(*client);
    }
    let mut decisions = Decisions::default();
    let mut changes = scene.changes.clone();
    changes.sort_by_key(|change| change.0);
    for (at, change) in changes.into_iter().filter(|c| c.0 < scene.millis) {
        decisions.run(&mut host, ms(at));
        match change {
            // A promise too many is refused, and nothing is changed.
            Change::Edit(edit) => drop(host.layer.change(host.instant(), &[edit])),
            Change::Reconnect(client) => host.reconnect(client),
        }
        host.call_at(host.now);
    }
    decisions.run(&mut host, ms(scene.millis));
    decisions.all
}

/// The scene's layer, or why nobody can promise that.
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

#[derive(Default)]
struct Decisions {
    all: Vec<Decision>,
    sample_at: u64,
}

impl Decisions {
    fn run(&mut self, host: &mut Host<Drive>, until: u64) {
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
