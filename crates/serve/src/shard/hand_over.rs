//! Hands the clients of a shard over to another process.
//!
//! The shard stops taking requests, answers those that have reached the drives, and takes back all
//! others. When no operation refers to a client any more, its front end returns the state from
//! which another process continues. The shard keeps the clients until it is told the outcome: it
//! ends without touching them ([`Mail::Abandon`]), or serves them again ([`Mail::Resume`]).
//!
//! [`Mail::Abandon`]: super::Mail::Abandon
//! [`Mail::Resume`]: super::Mail::Resume

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::time::Duration;

use weir_core::{Instant, Op, Span, StreamSpec};

use super::Shard;
use super::client::ClientState;
use super::drive::OpenStream;
use super::front::{Attached, QueuedRequest};
use crate::upgrade::{DebtRecord, FrontState};
use weir_config::os_error;

/// The interval in which the shard checks whether its clients are settled. A quiet send, for
/// example, completes without waking the shard.
const LOOK: Span = Span::from_millis(1);

/// The time limit of a client that leaves for the last answers, once its requests are completed.
/// All other clients wait for it.
const LAST_ANSWERS: Span = Span::from_millis(50);

/// A client that is ready for another process.
#[derive(Debug)]
pub(crate) struct HandedClient {
    /// The number of the connection.
    pub(crate) id: u64,
    /// The name of the client for the log.
    pub(crate) peer: String,
    pub(crate) volume: String,
    pub(crate) front: FrontState,
}

/// The storage of a volume for another process.
#[derive(Debug)]
pub(crate) struct VolumeStorage {
    /// The name of the volume.
    pub(crate) name: String,
    /// The descriptors of the storage ([`crate::backend::inherit`]).
    pub(crate) descriptors: Vec<OwnedFd>,
    /// The size of the content that exists only in memory, in bytes.
    pub(crate) memory: u64,
}

/// Everything that a shard hands over.
#[derive(Debug, Default)]
pub(crate) struct HandedShard {
    pub(crate) clients: Vec<HandedClient>,
    /// The debts of the volumes and tenants of all drives that have any.
    pub(crate) debts: Vec<DebtRecord>,
    /// The contents of the volumes in memory that were written to, by the name of the volume
    /// ([`Backend::save`](crate::backend::Backend::save)).
    pub(crate) memory: Vec<(String, File)>,
}

/// The reason why a shard cannot hand over its clients. It serves them again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandOverError {
    #[error("the drives did not complete the requests in flight within {} ms", .0.as_millis())]
    Late(Duration),
    #[error("the state of a client cannot be duplicated: {}", os_error::message(.0))]
    System(#[from] io::Error),
    #[error(
        "a flush of volume.{0} has failed, which a restart would forget; check the drive and the data first"
    )]
    SyncFailed(String),
    #[error("the content of volume.{volume} cannot be copied: {}", os_error::message(.error))]
    Memory { volume: String, error: io::Error },
}

/// The progress of a hand-over.
#[derive(Debug)]
pub(super) enum HandOver {
    /// Requests in flight are completed, and answers are sent.
    Settling(Settling),
    /// The states were handed over, and the outcome is awaited.
    Waiting,
    /// The clients are served again, but some still lack a stream of the core, because earlier
    /// requests occupy them.
    Resuming,
}

/// The first part of a hand-over.
#[derive(Debug)]
pub(super) struct Settling {
    within: Duration,
    /// The time after which clients that leave are disconnected if they lack only answers.
    last_answers_at: Instant,
    /// The time after which all clients that leave are disconnected.
    leave_at: Instant,
    deadline: Instant,
    done: HandOverReceiver,
}

/// The receiver of the result of a hand-over.
type HandOverReceiver = Sender<Result<HandedShard, HandOverError>>;

impl HandOver {
    /// Returns when the shard has to check the hand-over again, or `None` if it waits for the
    /// outcome.
    pub(super) fn next_look(&self, now: Instant) -> Option<Instant> {
        match self {
            Self::Settling(_) | Self::Resuming => Some(now + LOOK),
            Self::Waiting => None,
        }
    }
}

impl Shard {
    /// Returns the storage of each volume.
    pub(super) fn storage(&self) -> io::Result<Vec<VolumeStorage>> {
        let volumes = self.drives.iter().flat_map(|d| d.volumes.iter().flatten());
        let storage = volumes.map(|volume| {
            Ok(VolumeStorage {
                name: volume.name.clone(),
                descriptors: volume.backend.descriptors()?,
                memory: volume.backend.memory(),
            })
        });
        storage.collect()
    }

    /// Returns copies of the contents of all volumes in memory.
    fn memory(&self) -> Result<Vec<(String, File)>, HandOverError> {
        let mut all = Vec::new();
        for volume in self.drives.iter().flat_map(|d| d.volumes.iter().flatten()) {
            let saved = volume.backend.save();
            let saved = saved.map_err(|error| HandOverError::Memory {
                volume: volume.name.clone(),
                error,
            })?;
            all.extend(saved.map(|content| (volume.name.clone(), content)));
        }
        Ok(all)
    }

    /// Stops serving all clients, so that their states can be handed over.
    pub(super) fn begin_hand_over(&mut self, within: Duration, done: HandOverReceiver) {
        let volumes = self.drives.iter().flat_map(|d| d.volumes.iter().flatten());
        if let Some(failed) = volumes.into_iter().find(|volume| volume.sync_failed) {
            let _ = done.send(Err(HandOverError::SyncFailed(failed.name.clone())));
            return;
        }
        let span = Span::from_nanos(within.as_nanos() as u64);
        self.hand_over = Some(HandOver::Settling(Settling {
            within,
            last_answers_at: self.now + LAST_ANSWERS,
            leave_at: self.now + span / 2,
            deadline: self.now + span,
            done,
        }));
        for slot in self.clients.slots() {
            self.detach(slot);
        }
    }

    /// Stops serving a client, and takes back its requests that have not reached the drive.
    fn detach(&mut self, slot: u32) {
        let Attached { client, front } = &mut self.clients[slot];
        if client.state != ClientState::Open {
            return;
        }
        // The front end stops first. Otherwise a request could arrive after the stream was closed.
        if !front.detach(&mut self.ring) {
            return self.disconnect(slot, Some("it cannot be handed over to another process"));
        }
        // The core knows no hold of a stream that is closed, and a stream that is opened later
        // begins without one.
        if client.held {
            self.set_held(slot, false);
        }
        let Attached { client, .. } = &mut self.clients[slot];
        client.state = ClientState::Detached;
        let drive = &mut self.drives[client.drive];
        // The core returns the requests that are not in the drive as cancelled. The others complete
        // normally.
        drive.layer.close(self.now, client.stream);
        drive.touched = true;
        let mut returned = Vec::new();
        for id in std::mem::take(&mut client.queue) {
            // The core never got these requests, so it will not return them.
            if let Some(pending) = drive.requests.remove(id) {
                client.live -= 1;
                let op = pending.ask.op;
                client.non_flush -= u32::from(op != Op::Flush);
                drive.uncount_request(self.now, client.space, op, client.held);
                returned.push(pending);
            }
        }
        for pending in returned {
            self.take_back(slot, pending);
        }
    }

    /// Returns a request that was not carried out to the front end of a detached client.
    pub(super) fn take_back(&mut self, slot: u32, pending: QueuedRequest) {
        let QueuedRequest {
            ask, cost, payload, ..
        } = pending;
        let Attached { front, .. } = &mut self.clients[slot];
        front.take_back(&ask, &payload);
        self.spare.put(payload);
        self.release(slot, 1, cost);
    }

    /// Advances the hand-over, and sends its result when everything is settled or too late.
    pub(super) fn poll_hand_over(&mut self) {
        let settling = match self.hand_over.take() {
            Some(HandOver::Settling(settling)) => settling,
            Some(HandOver::Resuming) => return self.resume(),
            other => {
                self.hand_over = other;
                return;
            }
        };
        // A hand-over that is both settled and late succeeds, because nothing is left to wait for.
        let is_settled = self.is_settled();
        if !is_settled && self.now < settling.deadline {
            self.stop_sending(&settling);
            self.hand_over = Some(HandOver::Settling(settling));
            return;
        }
        let handed = if is_settled {
            self.handed()
        } else {
            Err(HandOverError::Late(settling.within))
        };
        // The clients stay detached after a success. This process can still be told that the other
        // one has failed.
        if handed.is_ok() {
            self.hand_over = Some(HandOver::Waiting);
        } else {
            self.resume();
        }
        // If the receiver has given up, it sends `Resume`.
        let _ = settling.done.send(handed);
    }

    /// Stops waiting for clients that do not take their answers.
    fn stop_sending(&mut self, settling: &Settling) {
        for slot in self.clients.slots() {
            let Attached { client, front } = &mut self.clients[slot];
            let is_answered = client.live == 0;
            let is_late = self.now >= settling.leave_at
                || (is_answered && self.now >= settling.last_answers_at);
            match client.state {
                // A send completes at once unless the client's socket is full. The rest is handed
                // over, so that nobody waits for the client.
                ClientState::Detached if is_answered => front.stop_sending(&mut self.ring),
                ClientState::Leaving if is_late => {
                    self.disconnect(slot, Some("it had to end, and the client read no reply"));
                }
                ClientState::Open
                | ClientState::Detached
                | ClientState::Leaving
                | ClientState::Gone => {}
            }
        }
    }

    /// Returns true if no operation on clients or storage is left.
    fn is_settled(&mut self) -> bool {
        let mut clients = self.clients.slots().into_iter();
        let clients = clients.all(|slot| {
            let Attached { client, front } = &self.clients[slot];
            // A client that leaves or is gone is waited for as well, because it may still use the
            // drive.
            client.state == ClientState::Detached && client.live == 0 && front.is_settled()
        });
        let mut settled = clients && self.returned.is_empty();
        for drive in &mut self.drives {
            settled &= drive.is_idle();
            // What the server keeps for a remote server is lost with this process.
            // The successor reads files and devices through the same open files, so that their
            // caches need not be flushed.
            let remote = |volume: &super::volume::ShardVolume| volume.remote.is_some();
            settled = settled && drive.sync(&mut self.ring, self.now, remote);
        }
        settled
    }

    /// Returns the states of all clients and volumes.
    pub(super) fn handed(&mut self) -> Result<HandedShard, HandOverError> {
        let mut handed = HandedShard {
            debts: self.drives.iter().flat_map(|d| d.debts(self.now)).collect(),
            memory: self.memory()?,
            ..HandedShard::default()
        };
        for slot in self.clients.slots() {
            let front = self.with_front(slot, |front, cx| front.hand_over(cx))?;
            if let Some(front) = front {
                let client = &self.clients[slot].client;
                handed.clients.push(HandedClient {
                    id: client.id,
                    peer: client.peer.clone(),
                    volume: self.volume_name(slot).to_owned(),
                    front,
                });
            }
        }
        Ok(handed)
    }

    /// Serves all clients again that were to be handed over.
    pub(super) fn resume(&mut self) {
        let mut all = true;
        for slot in self.clients.slots() {
            if self.clients[slot].client.state == ClientState::Detached {
                all &= self.resume_client(slot);
            }
        }
        self.hand_over = (!all).then_some(HandOver::Resuming);
    }

    /// Serves a client again. Returns false if the core has no stream for it yet.
    fn resume_client(&mut self, slot: u32) -> bool {
        let client = &mut self.clients[slot].client;
        let drive = &mut self.drives[client.drive];
        let Some(volume) = &drive.volumes[client.space as usize] else {
            return true;
        };
        let spec = StreamSpec {
            group: volume.group,
            priority: weir_core::Priority::default(),
        };
        // The requests that were in the drive still occupy the stream from before, if the hand-over
        // was too late.
        let Ok(stream) = drive.layer.open(self.now, spec) else {
            return false;
        };
        client.stream = stream;
        client.state = ClientState::Open;
        client.paused = false;
        self.clients[slot].front.resume();
        let client = &self.clients[slot].client;
        drive.streams[stream.slot() as usize] = Some(OpenStream {
            client: slot,
            space: client.space,
            stream,
        });
        self.mark_ready(slot);
        self.mark_for_send(slot);
        true
    }
}
