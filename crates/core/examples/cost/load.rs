//! A closed loop around a layer, which only submits requests and completes pieces.

use std::collections::VecDeque;
use weir_core::testing::{self, SPACE, child, share};
use weir_core::{
    Completion, Config, Edit, GroupId, Instant, Layer, Output, ROOT, Request, Sizes, StreamId, Tag,
};

/// The number of requests that each stream has outstanding.
const DEPTH: u32 = 8;

/// The loop with its buffers, which are allocated once.
#[derive(Debug)]
pub(crate) struct Load {
    layer: Layer,
    in_drive: VecDeque<(Tag, u32)>,
    now: u64,
    random: u64,
    out: Vec<Output>,
    /// Streams that can submit again, with their cookies.
    answered: Vec<(StreamId, u64)>,
    submitted: Vec<Request>,
    completed: Vec<Completion>,
}

impl Load {
    /// Creates a loop of `streams` streams in `groups` groups, which determine the sizes in the
    /// configuration.
    pub(crate) fn new(config: Config, streams: u32, groups: u32) -> Self {
        let (leaves, edits) = tree(groups);
        let sizes = Sizes::default()
            .requests((streams * DEPTH).max(4096))
            .streams(streams)
            .groups(2 * groups + 1)
            .scheduler_tags((streams * DEPTH).max(4096));
        let mut layer =
            testing::layer(config.sizes(sizes), &edits).expect("the groups form a tree");
        let open = |i: u32| {
            let group = leaves.get(i as usize % leaves.len().max(1));
            testing::open(&mut layer, group.copied().unwrap_or(ROOT))
        };
        let streams: Vec<StreamId> = (0..streams).map(open).collect();
        let places = streams.len() * DEPTH as usize;
        let mut answered = Vec::with_capacity(places);
        for _ in 0..DEPTH {
            answered.extend(streams.iter().copied().zip(0..));
        }
        Self {
            answered,
            submitted: Vec::with_capacity(places),
            completed: Vec::with_capacity(64),
            layer,
            in_drive: VecDeque::with_capacity(64),
            now: 0,
            random: 1,
            out: Vec::with_capacity(64),
        }
    }

    /// Runs until `requests` more requests have completed, with `batch` completions of the drive at
    /// a time. Returns the number of completed requests.
    pub(crate) fn run(&mut self, batch: usize, requests: u64) -> u64 {
        let mut done = 0;
        while done < requests {
            for next in 0..self.answered.len() {
                let (stream, cookie) = self.answered[next];
                let request = self.request(stream, cookie);
                self.submitted.push(request);
            }
            self.answered.clear();
            let now = Instant::from_nanos(self.now);
            let room = self.layer.submit(now, &self.submitted);
            room.expect("there is room");
            self.submitted.clear();
            let wake = self.layer.poll(now, &mut self.out);
            for output in self.out.drain(..) {
                match output {
                    Output::Dispatch(d) => self.in_drive.push_back((d.tag, d.length)),
                    Output::Done(d) => {
                        done += 1;
                        self.answered.push((d.stream, d.cookie));
                    }
                    Output::Pause(_) | Output::Resume(_) => {}
                }
            }
            for _ in 0..batch {
                let Some((tag, length)) = self.in_drive.pop_front() else {
                    break;
                };
                // 2 GB/s: half a nanosecond for each byte.
                self.now += u64::from(length) / 2;
                self.completed.push(Completion::ok(tag));
            }
            // If nothing is in progress, only the wake-up of the layer moves the time on.
            if self.completed.is_empty() && self.answered.is_empty() {
                self.now = wake.map_or(self.now, |wake| wake.at.as_nanos());
            }
            let now = Instant::from_nanos(self.now);
            self.layer.complete(now, &self.completed);
            self.completed.clear();
        }
        done
    }

    fn request(&mut self, stream: StreamId, cookie: u64) -> Request {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let length = ((self.random >> 56) as u32 % 32 + 1) * 4096;
        testing::read(stream, cookie, length)
            .offset((self.random >> 20) % (SPACE / 4096 - 32) * 4096)
    }
}

/// Returns the leaves and the edits of a tree of groups in two levels. Each parent has about as
/// many children as there are parents.
fn tree(groups: u32) -> (Vec<GroupId>, Vec<Edit>) {
    let parents = groups.isqrt();
    let add = |i: u32| {
        let parent = if i < parents {
            ROOT
        } else {
            GroupId(1 + i % parents)
        };
        child(1 + i, parent, share(100 + i as u16 % 4 * 50))
    };
    let leaves = (parents..parents + groups).map(|i| GroupId(1 + i));
    (leaves.collect(), (0..parents + groups).map(add).collect())
}
