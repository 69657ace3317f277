//! Tests that a change of one min, which is made in place, leads to the same decisions as a general
//! change.

use std::num::NonZeroU64;

use super::{at, open};
use weir_core::random::Rng;
use weir_core::testing::{SPACE, change, child, min, read, space};
use weir_core::{
    Capacity, Completion, Config, Edit, GroupId, Layer, Op, Output, StreamId, Tag, elevator,
};

/// The parents of the groups. There are two tenants with two groups each, of which the second
/// tenant has a min of its own. The last group is a child of the root.
const PARENTS: [u32; 7] = [0, 0, 1, 1, 2, 2, 0];

fn edits() -> Vec<Edit> {
    let groups = (1..).zip(PARENTS).map(|(id, parent)| {
        let contract = min(if id == 2 { 60_000_000 } else { 0 });
        child(id, GroupId(parent), contract)
    });
    let capacity = Capacity::NONE.read(300_000_000).write(200_000_000);
    std::iter::once(Edit::SetCapacity(Some(capacity)))
        .chain(groups)
        .collect()
}

/// Two layers that receive the same calls, except that one of them changes mins by general changes.
struct ChangePair {
    layers: [Layer; 2],
    rng: Rng,
    us: u64,
    streams: Vec<StreamId>,
    /// The streams of the outstanding requests.
    live: Vec<StreamId>,
    in_drive: Vec<Tag>,
    cookie: u64,
}

impl ChangePair {
    fn new(seed: u64) -> Self {
        let config = || {
            let mut config = Config::of(elevator::contract::Config::default());
            // Few tags, so that requests wait in the elevator and its choice matters.
            config.drive.tags = 4;
            config
        };
        let mut layers = [super::layer(config()), super::layer(config())];
        let mut streams = Vec::new();
        for layer in &mut layers {
            layer.change(at(0), &edits()).unwrap();
            streams = [3, 4, 5, 6, 7]
                .map(|group| open(layer, GroupId(group)))
                .into();
        }
        Self {
            layers,
            rng: Rng::new(seed),
            us: 0,
            streams,
            live: Vec::new(),
            in_drive: Vec::new(),
            cookie: 0,
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.below(NonZeroU64::new(n).unwrap())
    }

    fn step(&mut self) {
        self.us += self.below(2_000);
        let now = at(self.us);
        // The clients take turns of 20 ms.
        let which = (self.us / 20_000 % 5) as usize;
        // A general change resets the counters of other promises, so no other client may have
        // requests.
        let own = self.streams[which];
        let is_own = |stream: &StreamId| *stream == own && !(2..4).contains(&which);
        match self.below(8) {
            0..4 => {
                self.cookie += 1;
                let op = [Op::Read, Op::Write][self.below(2) as usize];
                let request = read(self.streams[which], self.cookie, 0)
                    .op(op)
                    .offset(self.below(1 << 10) << 20)
                    .length(4096 << self.below(6));
                let taken = self.layers.each_mut().map(|l| l.submit(now, &[request]));
                assert_eq!(taken[0], taken[1]);
                self.live.extend(taken[0].map(|()| self.streams[which]));
            }
            4..7 if !self.in_drive.is_empty() => {
                let done: Vec<_> = self.in_drive.drain(..).map(Completion::ok).collect();
                self.layers.iter_mut().for_each(|l| l.complete(now, &done));
            }
            7 if self.live.iter().all(is_own) => {
                let contract = min(self.below(5) * 20_000_000);
                let edit = change(GroupId(3 + which as u32), contract);
                let [one, whole] = &mut self.layers;
                let changed = [
                    one.change(now, &[edit]),
                    // The additional edit does nothing, but makes the change a general one.
                    whole.change(now, &[space(0, SPACE), edit]),
                ];
                assert_eq!(changed[0], changed[1], "{edit:?}");
            }
            _ => {}
        }
        let mut told = self.layers.each_mut().map(|layer| {
            let mut out = Vec::new();
            let wake = layer.poll(now, &mut out);
            (out, wake)
        });
        assert_eq!(told[0], told[1], "at {} us", self.us);
        for output in told[0].0.drain(..) {
            match output {
                Output::Dispatch(d) => self.in_drive.push(d.tag),
                Output::Done(d) => {
                    let at = self.live.iter().position(|stream| *stream == d.stream);
                    self.live.swap_remove(at.unwrap());
                }
                Output::Pause(_) | Output::Resume(_) => {}
            }
        }
    }
}

#[test]
fn a_change_of_one_min_decides_as_a_whole_change_does() {
    for seed in 0..50 {
        let mut pair = ChangePair::new(seed);
        for _ in 0..4_000 {
            pair.step();
        }
    }
}
