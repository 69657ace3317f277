//! Clients as fio has them, a drive as `null_blk` is, and a layer with `io.cost` between them, in virtual time.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use weir_core::control::{self, cost};
use weir_core::{
    Completion, Config, Contract, DriveShape, Edit, Flags, GroupId, Instant, Layer, Op, Outcome,
    Output, Priority, ROOT, Request, Sample, Sizes, SpaceId, Span, StreamId, StreamSpec, Tag,
    Wanted, elevator, merge,
};
use weir_random::Rng;

/// What a client does: a job of fio.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    pub(crate) group: u32,
    pub(crate) op: Op,
    pub(crate) size: u32,
    pub(crate) random: bool,
    pub(crate) depth: u32,
    /// `rate_iops`; zero: as fast as it can.
    pub(crate) rate: u64,
    /// `thinktime_blocks` and `thinktime`.
    pub(crate) think: Option<(u64, Span)>,
    pub(crate) meta: bool,
}

/// 16 random reads of 4 KiB at a time.
pub(crate) const READS: Job = Job {
    group: 1,
    op: Op::Read,
    size: 4096,
    random: true,
    depth: 16,
    rate: 0,
    think: None,
    meta: false,
};

/// The drive: how many requests it serves at a time, and how long each takes.
#[derive(Clone, Copy)]
pub(crate) struct Drive {
    pub(crate) tags: u16,
    pub(crate) service: Span,
}

struct Client {
    job: Job,
    stream: StreamId,
    issued: u64,
    outstanding: u32,
    position: u64,
    rests_until: Instant,
    /// Of its requests that are done: how many, and how long one took at most.
    done: u64,
    longest: Span,
}

/// One run.
pub(crate) struct Host {
    pub(crate) layer: Layer,
    pub(crate) now: Instant,
    drive: Drive,
    in_drive: VecDeque<(Instant, Tag)>,
    clients: Vec<Client>,
    rng: Rng,
    /// The layer wants to be called then.
    wake: Option<Instant>,
    pub(crate) wakes: u64,
}

const SPACE: u64 = 16 << 30;

impl Host {
    /// A tree of groups, numbered from one: the parent and the weight of each.
    pub(crate) fn new(
        config: cost::Config,
        drive: Drive,
        groups: &[(u32, u16)],
        seed: u64,
    ) -> Self {
        Self::merging(config, merge::Config::OFF, drive, groups, seed)
    }

    /// A host whose neighbouring requests are merged.
    pub(crate) fn merging(
        config: cost::Config,
        merge: merge::Config,
        drive: Drive,
        groups: &[(u32, u16)],
        seed: u64,
    ) -> Self {
        let config = Config {
            sizes: Sizes {
                groups: 64,
                scheduler_tags: drive.tags.into(),
                ..Sizes::default()
            },
            drive: DriveShape {
                tags: drive.tags,
                ..DriveShape::default()
            },
            controllers: control::Config {
                cost: Some(config),
                ..control::Config::default()
            },
            merge,
            elevator: elevator::Config::None,
        };
        let mut layer = Layer::new(config).unwrap();
        let adds = (1..)
            .zip(groups)
            .map(|(id, &(parent, share))| Edit::AddGroup {
                id: GroupId(id),
                parent: GroupId(parent),
                contract: Contract {
                    share,
                    ..Contract::DEFAULT
                },
            });
        let space = Edit::SetSpace {
            id: SpaceId(0),
            size: Some(SPACE),
        };
        let edits: Vec<Edit> = adds.chain([space]).collect();
        layer.change(Instant::ZERO, &edits).unwrap();
        Self {
            layer,
            now: Instant::ZERO,
            drive,
            in_drive: VecDeque::new(),
            clients: Vec::new(),
            rng: Rng::new(seed),
            wake: None,
            wakes: 0,
        }
    }

    /// One more client.
    pub(crate) fn client(&mut self, job: Job) {
        let spec = StreamSpec {
            group: GroupId(job.group),
            priority: Priority::default(),
        };
        let stream = self.layer.open(self.now, spec).unwrap();
        self.clients.push(Client {
            job,
            stream,
            issued: 0,
            outstanding: 0,
            position: 0,
            rests_until: Instant::ZERO,
            done: 0,
            longest: Span::ZERO,
        });
    }

    /// No client issues anything more.
    pub(crate) fn stop(&mut self) {
        for client in &mut self.clients {
            client.job.depth = 0;
        }
    }

    /// Another weight for a group.
    pub(crate) fn set_share(&mut self, group: u32, share: u16) {
        let contract = Contract {
            share,
            ..Contract::DEFAULT
        };
        let id = GroupId(group);
        let edit = Edit::SetContract { id, contract };
        self.layer.change(self.now, &[edit]).unwrap();
    }

    /// Requests done since the last call, by client.
    pub(crate) fn take_done(&mut self) -> Vec<u64> {
        let take = |c: &mut Client| std::mem::take(&mut c.done);
        self.clients.iter_mut().map(take).collect()
    }

    /// The longest that a request of each client took since the last call.
    pub(crate) fn take_longest(&mut self) -> Vec<Span> {
        let take = |c: &mut Client| std::mem::take(&mut c.longest);
        self.clients.iter_mut().map(take).collect()
    }

    /// How things stand.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        let mut all = Vec::new();
        self.layer.sample(Wanted::GROUPS, &mut |s| all.push(s));
        all
    }

    /// Vrate, in hundredths of a percent, and the level.
    pub(crate) fn vrate(&self) -> (u32, i32) {
        let rate = self.samples().into_iter().find_map(|s| match s {
            Sample::Rate {
                vrate, busy_level, ..
            } => Some((vrate, busy_level)),
            _ => None,
        });
        rate.expect("io.cost is there")
    }

    /// Runs for a length of time. `look` is shown the host after each instant at which something happened.
    pub(crate) fn run_with(&mut self, length: Span, mut look: impl FnMut(&Self)) {
        let end = self.now + length;
        loop {
            self.issue();
            self.poll();
            look(self);
            let next = self.next().min(end);
            assert!(next > self.now || next == end, "time stands still");
            self.now = next;
            if self.now == end {
                return;
            }
            self.wakes += u64::from(self.wake == Some(self.now));
            self.complete();
        }
    }

    pub(crate) fn run(&mut self, length: Span) {
        self.run_with(length, |_| {});
    }

    /// When something happens next; [`Instant::MAX`]: never.
    pub(crate) fn next(&self) -> Instant {
        let drive = self.in_drive.front().map(|d| d.0);
        let clients = self.clients.iter().filter_map(Client::due);
        let all = clients.chain(drive).chain(self.wake);
        all.filter(|&at| at > self.now)
            .min()
            .unwrap_or(Instant::MAX)
    }

    fn issue(&mut self) {
        for index in 0..self.clients.len() {
            let mut batch = Vec::new();
            while let Some(request) = self.next_request(index) {
                batch.push(request);
            }
            if !batch.is_empty() {
                self.layer.submit(self.now, &batch).unwrap();
            }
        }
    }

    fn next_request(&mut self, index: usize) -> Option<Request> {
        let client = &mut self.clients[index];
        if client.due()? > self.now {
            return None;
        }
        let job = &client.job;
        let size = u64::from(job.size);
        let offset = if job.random {
            let blocks = NonZeroU64::new(SPACE / size).unwrap();
            self.rng.below(blocks) * size
        } else {
            client.position
        };
        client.position = (offset + size) % SPACE;
        client.issued += 1;
        client.outstanding += 1;
        if let Some((blocks, time)) = job.think
            && client.issued.is_multiple_of(blocks)
        {
            client.rests_until = self.now + time;
        }
        Some(Request {
            stream: client.stream,
            space: SpaceId(0),
            op: job.op,
            flags: if job.meta { Flags::META } else { Flags::NONE },
            offset,
            length: job.size,
            cookie: index as u64,
            within: 0,
        })
    }

    fn poll(&mut self) {
        let mut out = Vec::new();
        let wake = self.layer.poll(self.now, &mut out);
        self.wake = wake.map(|w| w.at);
        for output in out {
            match output {
                Output::Dispatch(dispatch) => {
                    let end = self.now + self.drive.service;
                    self.in_drive.push_back((end, dispatch.tag));
                }
                Output::Done(done) => {
                    assert_eq!(done.outcome, Outcome::Ok);
                    let client = &mut self.clients[done.cookie as usize];
                    client.outstanding -= 1;
                    client.done += 1;
                    client.longest = client.longest.max(self.now.since(done.submitted));
                }
                Output::Pause(_) | Output::Resume(_) => {}
            }
        }
        if self
            .clients
            .iter()
            .any(|c| c.due().is_some_and(|at| at <= self.now))
        {
            self.issue();
            self.poll();
        }
    }

    fn complete(&mut self) {
        let mut ended = Vec::new();
        while let Some(&(at, tag)) = self.in_drive.front()
            && at <= self.now
        {
            self.in_drive.pop_front();
            ended.push(Completion::ok(tag));
        }
        if !ended.is_empty() {
            self.layer.complete(self.now, &ended);
        }
    }
}

impl Client {
    /// When it issues its next request; `None`: not before one is done.
    fn due(&self) -> Option<Instant> {
        if self.outstanding >= self.job.depth {
            return None;
        }
        let paced = match self.job.rate {
            0 => Instant::ZERO,
            rate => Instant::from_nanos(self.issued * 1_000_000_000 / rate),
        };
        Some(paced.max(self.rests_until))
    }
}

/// The root's number.
pub(crate) const TOP: u32 = ROOT.0;
