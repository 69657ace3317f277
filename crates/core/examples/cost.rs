//! What a request costs in instructions: a closed loop of streams with eight requests of random size outstanding each, in two
//! levels of groups, on a drive that answers so many requests at a time.
//!
//! ```text
//! cost ELEVATOR STREAMS GROUPS BATCH REQUESTS        none, bfq or contract
//! ```
//!
//! Prints the requests done. Run it under `valgrind --tool=callgrind` (or `perf stat`) with two numbers of requests: the
//! difference in instructions over the difference in requests is the cost of one, this loop included and set-up not.

use std::collections::VecDeque;
use std::process::ExitCode;
use weir_core::elevator::{self, bfq, contract};
use weir_core::{
    Completion, Config, Contract, DriveShape, Edit, Flags, GroupId, Instant, Layer, Limits, Op,
    Output, Priority, ROOT, Request, SpaceId, StreamId, StreamSpec, Tag,
};

const DEPTH: u32 = 8;
const SPACE: u64 = 1 << 40;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let elevator = match args.first().map(String::as_str) {
        Some("none") => elevator::Config::None,
        Some("bfq") => elevator::Config::Bfq(bfq::Config::default()),
        Some("contract") => elevator::Config::Contract(contract::Config::default()),
        _ => return usage(),
    };
    let numbers: Vec<u32> = args[1..].iter().filter_map(|a| a.parse().ok()).collect();
    let [streams, groups, batch, requests] = numbers[..] else {
        return usage();
    };
    let mut load = Load::new(elevator, streams.max(1), groups);
    println!("{}", load.run(batch as usize, u64::from(requests)));
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: cost none|bfq|contract STREAMS GROUPS BATCH REQUESTS");
    ExitCode::FAILURE
}

struct Load {
    layer: Layer,
    streams: Vec<StreamId>,
    in_drive: VecDeque<(Tag, u32)>,
    now: u64,
    random: u64,
    out: Vec<Output>,
}

impl Load {
    fn new(elevator: elevator::Config, streams: u32, groups: u32) -> Self {
        let mut layer = Layer::new(Config {
            limits: Limits {
                requests: (streams * DEPTH).max(4096),
                streams,
                groups: 2 * groups + 1,
                scheduler_tags: (streams * DEPTH).max(4096),
                ..Limits::default()
            },
            drive: DriveShape::default(),
            elevator,
        })
        .expect("the configuration is within its bounds");
        let leaves = add_groups(&mut layer, groups);
        let open = |i: u32| {
            let group = leaves.get(i as usize % leaves.len().max(1));
            let spec = StreamSpec {
                group: group.copied().unwrap_or(ROOT),
                priority: Priority::default(),
            };
            layer.open(Instant::ZERO, spec).expect("there is room")
        };
        Self {
            streams: (0..streams).map(open).collect(),
            layer,
            in_drive: VecDeque::with_capacity(64),
            now: 0,
            random: 1,
            out: Vec::with_capacity(64),
        }
    }

    fn run(&mut self, batch: usize, requests: u64) -> u64 {
        let mut answered: Vec<(StreamId, u64)> = Vec::with_capacity(4096);
        for _ in 0..DEPTH {
            answered.extend(
                self.streams
                    .iter()
                    .zip(0..)
                    .map(|(&stream, cookie)| (stream, cookie)),
            );
        }
        let mut submitted = Vec::with_capacity(4096);
        let mut completed = Vec::with_capacity(batch);
        let mut done = 0;
        while done < requests {
            submitted.extend(
                answered
                    .drain(..)
                    .map(|(stream, cookie)| self.request(stream, cookie)),
            );
            let now = Instant::from_nanos(self.now);
            self.layer.submit(now, &submitted).expect("there is room");
            submitted.clear();
            let wake = self.layer.poll(now, &mut self.out);
            for output in self.out.drain(..) {
                match output {
                    Output::Dispatch(d) => self.in_drive.push_back((d.tag, d.length)),
                    Output::Done(d) => {
                        done += 1;
                        answered.push((d.stream, d.cookie));
                    }
                    Output::Pause(_) | Output::Resume(_) => {}
                }
            }
            for _ in 0..batch {
                let Some((tag, length)) = self.in_drive.pop_front() else {
                    break;
                };
                self.now += u64::from(length) / 2;
                completed.push(Completion::ok(tag));
            }
            if completed.is_empty() && answered.is_empty() {
                self.now = wake.map_or(self.now, |wake| wake.at.as_nanos());
            }
            self.layer
                .complete(Instant::from_nanos(self.now), &completed);
            completed.clear();
        }
        done
    }

    fn request(&mut self, stream: StreamId, cookie: u64) -> Request {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        Request {
            stream,
            space: SpaceId(0),
            op: Op::Read,
            flags: Flags::NONE,
            offset: (self.random >> 20) % (SPACE / 4096 - 32) * 4096,
            length: ((self.random >> 56) as u32 % 32 + 1) * 4096,
            cookie,
        }
    }
}

/// So many groups in two levels, about as many in each parent as there are parents; returns the leaves.
fn add_groups(layer: &mut Layer, groups: u32) -> Vec<GroupId> {
    let parents = groups.isqrt();
    let mut edits = vec![Edit::SetSpace {
        id: SpaceId(0),
        size: Some(SPACE),
    }];
    for i in 0..parents + groups {
        let parent = if i < parents {
            ROOT
        } else {
            GroupId(1 + i % parents)
        };
        edits.push(Edit::AddGroup {
            id: GroupId(1 + i),
            parent,
            contract: Contract {
                share: 100 + i as u16 % 4 * 50,
                ..Contract::DEFAULT
            },
        });
    }
    layer
        .change(Instant::ZERO, &edits)
        .expect("the groups form a tree");
    (parents..parents + groups)
        .map(|i| GroupId(1 + i))
        .collect()
}
