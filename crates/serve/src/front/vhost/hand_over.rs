//! The hand-over of a session to another process.
//!
//! The process that hands over takes back the requests that have not reached the drive, completes
//! the others, and publishes their responses. From then on it accesses neither the rings nor the
//! record of requests in flight, so that only one process does.
//!
//! The other process sets up a session with the messages that a VMM would send, so the rules for
//! them hold for a record as well. Two things differ. The record contains the heads that have to be
//! taken again, so that a session without a record of requests in flight continues. Every guest is
//! called once, because the earlier process may have delayed a call. The policies for notifications
//! start from scratch, and the rings are read at once, because kicks may have arrived in the
//! meantime.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use weir_uring::{AnyRing, Arena, Ring};
use weir_wire::ring::split::Device;
use weir_wire::vhost::{Inflight, Region, RingAddresses, VhostRequest};
use weir_wire::virtio_blk::ConfigSpace;

use super::handshake::ConnectedVmm;
use super::queue::{TakenHead, Virtqueue};
use super::{SessionStage, VhostSession};
use crate::acceptor::VolumeExport;
use crate::shard::{Attach, AttachError, FrontEnd};
use crate::upgrade::{
    FrontRecord, FrontState, InflightRecord, RegionRecord, VhostRecord, VirtqueueRecord,
};

/// A session that another process has handed over.
#[derive(Debug)]
pub(crate) struct InheritedSession {
    pub(crate) record: VhostRecord,
    /// The socket, and the other descriptors of the state ([`FrontState::descriptors`]).
    pub(crate) descriptors: Vec<OwnedFd>,
    /// The beginning of a message that has not arrived completely ([`FrontState::bytes`]).
    pub(crate) bytes: Vec<u8>,
    pub(crate) export: Box<VolumeExport>,
    /// The number of ended sessions at the volume's socket that still have requests in progress.
    pub(crate) ending: Arc<AtomicU32>,
}

impl Attach for InheritedSession {
    fn attach(self: Box<Self>, _arena: &Arena) -> Result<Box<dyn FrontEnd>, AttachError> {
        Ok(Box::new(self.session()?))
    }
}

impl InheritedSession {
    /// Returns the session in the state of the record.
    fn session(self) -> Result<VhostSession, AttachError> {
        let mut files = InheritedDescriptors::new(self.descriptors);
        let mut session = VhostSession::new(ConnectedVmm {
            socket: files.take(0)?,
            export: self.export,
            ending: self.ending,
        })?;
        for message in messages(&self.record, &mut files)? {
            let done = session.handle_request(message);
            done.map_err(|_| AttachError::Record)?;
        }
        session.inherit(&self.record)?;
        let partial: Result<Vec<_>, _> = self
            .record
            .partial
            .iter()
            .map(|at| files.take(*at))
            .collect();
        if session.messages.resume(&self.bytes, partial?) {
            Ok(session)
        } else {
            Err(AttachError::Record)
        }
    }
}

/// The descriptors of a record that were not taken yet.
struct InheritedDescriptors(Vec<Option<OwnedFd>>);

impl InheritedDescriptors {
    fn new(descriptors: Vec<OwnedFd>) -> Self {
        Self(descriptors.into_iter().map(Some).collect())
    }

    /// Takes the descriptor at a position, which a valid record names once.
    fn take(&mut self, at: usize) -> Result<OwnedFd, AttachError> {
        let descriptor = self.0.get_mut(at).and_then(Option::take);
        descriptor.ok_or(AttachError::Record)
    }
}

/// Returns the messages that set up the session of a record.
fn messages(
    record: &VhostRecord,
    files: &mut InheritedDescriptors,
) -> Result<Vec<VhostRequest<OwnedFd>>, AttachError> {
    let mut messages = vec![
        VhostRequest::SetProtocolFeatures(record.protocol),
        VhostRequest::SetFeatures(record.features),
        VhostRequest::SetConfig {
            offset: ConfigSpace::WRITE_BACK as u32,
            data: vec![record.write_back.into()],
        },
    ];
    // Regions are added one by one, because a table of the first message has room for fewer.
    for region in &record.regions {
        let file = files.take(region.file)?;
        messages.push(VhostRequest::AddMemReg(region.region(), file));
    }
    if let Some(inflight) = &record.inflight {
        let file = files.take(inflight.file)?;
        messages.push(VhostRequest::SetInflightFd(inflight.inflight(), file));
    }
    if let Some(channel) = record.backend {
        messages.push(VhostRequest::SetBackendReqFd(files.take(channel)?));
    }
    for (queue, record) in (0..).zip(&record.queues) {
        add_queue(&mut messages, queue, record, files)?;
    }
    Ok(messages)
}

/// Adds the messages that set up a queue.
fn add_queue(
    messages: &mut Vec<VhostRequest<OwnedFd>>,
    queue: u32,
    record: &VirtqueueRecord,
    files: &mut InheritedDescriptors,
) -> Result<(), AttachError> {
    let VirtqueueRecord { size, base, .. } = *record;
    messages.push(VhostRequest::SetVringNum { queue, size });
    messages.push(VhostRequest::SetVringBase { queue, base });
    if let Some([descriptors, used, available]) = record.addresses {
        messages.push(VhostRequest::SetVringAddr(RingAddresses {
            queue,
            logged: false,
            descriptors,
            used,
            available,
            log: 0,
        }));
    }
    let mut file = |at: Option<usize>| at.map(|at| files.take(at)).transpose();
    let (error, call, kick) = (file(record.error)?, file(record.call)?, file(record.kick)?);
    messages.push(VhostRequest::SetVringErr {
        queue,
        descriptor: error,
    });
    messages.push(VhostRequest::SetVringCall {
        queue,
        descriptor: call,
    });
    // A message without a descriptor is refused, and a queue that the VMM has stopped has none.
    if kick.is_some() {
        messages.push(VhostRequest::SetVringKick {
            queue,
            descriptor: kick,
        });
    }
    let enabled = record.enabled;
    messages.push(VhostRequest::SetVringEnable { queue, enabled });
    Ok(())
}

impl VhostSession {
    /// Stops reading from the VMM and from the rings.
    pub(super) fn begin_hand_over(&mut self, ring: &mut AnyRing) {
        self.stage = SessionStage::Detached;
        // The request was taken from the ring, but it has no memory yet, so that the shard does not
        // know it.
        if let Some(waiting) = self.waiting.take() {
            self.put_back(waiting.queue, waiting.generation, waiting.taken);
        }
        let polling = self.queues.iter().map(|queue| queue.polling);
        for id in polling.chain([self.watching]).flatten() {
            ring.cancel(id);
        }
    }

    /// Takes back a request of a queue, unless the queue was set up again since.
    pub(super) fn put_back(&mut self, queue: usize, generation: u32, taken: TakenHead) {
        let queue = &mut self.queues[queue];
        if queue.generation == generation {
            queue.put_back(taken);
        }
    }

    /// Returns the state of a session that is settled.
    pub(super) fn state(&self) -> io::Result<FrontState> {
        let mut files = vec![self.socket.as_fd().try_clone_to_owned()?];
        let (bytes, descriptors) = self.messages.partial();
        let queues = self.queues.iter();
        let partial = descriptors.iter().map(|file| add(&mut files, file));
        let partial = partial.collect::<io::Result<_>>()?;
        let record = VhostRecord {
            // A VMM that was not notified of a size yet has to be notified by the other process,
            // which notices the difference.
            size: if self.news.is_some() {
                0
            } else {
                self.disk.size()
            },
            features: self.features,
            protocol: self.protocol,
            write_back: self.write_back,
            regions: self.regions(&mut files)?,
            inflight: self.inflight(&mut files)?,
            backend: add_some(&mut files, self.backend.as_ref())?,
            queues: queues
                .map(|queue| queue.record(&mut files))
                .collect::<io::Result<_>>()?,
            stopping: self.stopping,
            partial,
        };
        Ok(FrontState {
            record: FrontRecord::Vhost(record),
            descriptors: files,
            bytes: bytes.to_vec(),
        })
    }

    fn regions(&self, files: &mut Vec<OwnedFd>) -> io::Result<Vec<RegionRecord>> {
        let regions = self.memory.regions().iter().map(|mapped| mapped.region);
        let described = regions.filter_map(|region| Some((region, self.files.get(&region.guest)?)));
        let records = described.map(|(region, file)| {
            Ok(RegionRecord {
                guest: region.guest,
                size: region.size,
                user: region.user,
                offset: region.offset,
                file: add(files, file)?,
            })
        });
        records.collect()
    }

    fn inflight(&self, files: &mut Vec<OwnedFd>) -> io::Result<Option<InflightRecord>> {
        let Some(notes) = &self.notes else {
            return Ok(None);
        };
        Ok(Some(InflightRecord {
            size: notes.mapping.len() as u64,
            offset: notes.offset,
            queues: notes.queues,
            queue_size: notes.queue_size,
            file: add(files, &notes.file)?,
        }))
    }

    /// Adds the parts of a record that no message of a VMM sets.
    fn inherit(&mut self, record: &VhostRecord) -> Result<(), AttachError> {
        // The shard reports the current size as soon as the session is attached, which notifies the
        // VMM if it does not know that size.
        self.disk.resize(record.size);
        self.news = None;
        for (queue, record) in self.queues.iter_mut().zip(&record.queues) {
            queue.inherit(record)?;
        }
        if let Some(number) = record.stopping {
            let queue = self.queues.get_mut(number as usize);
            queue.ok_or(AttachError::Record)?.stopping = true;
            self.stopping = Some(number);
        }
        Ok(())
    }
}

impl Virtqueue {
    /// Returns the record of the queue, and adds its descriptors to `files`.
    fn record(&self, files: &mut Vec<OwnedFd>) -> io::Result<VirtqueueRecord> {
        let served = self.device.as_ref();
        let left = || self.left.values().copied().collect();
        let addresses = self.addresses.as_ref();
        Ok(VirtqueueRecord {
            size: self.size,
            base: served.map_or(self.base, Device::base),
            addresses: addresses.map(|at| [at.descriptors, at.used, at.available]),
            enabled: self.enabled,
            started: self.started,
            broken: self.broken,
            kick: add_some(files, self.kick.as_ref())?,
            call: add_some(files, self.call.as_ref())?,
            error: add_some(files, self.error.as_ref())?,
            left: (served.is_some() || self.is_inherited).then(left),
        })
    }

    /// Adds the parts of a record that no message of a VMM sets.
    fn inherit(&mut self, record: &VirtqueueRecord) -> Result<(), AttachError> {
        self.started = record.started;
        self.broken = record.broken;
        self.call_again = self.call.is_some();
        if let Some(left) = &record.left {
            let within = left.iter().all(|head| *head < record.size);
            let distinct = left.iter().collect::<BTreeSet<_>>().len() == left.len();
            if !within || !distinct {
                return Err(AttachError::Record);
            }
            self.set_left(left.clone());
            self.is_inherited = true;
        }
        Ok(())
    }
}

/// Adds a duplicate of a descriptor. Returns its position.
fn add(files: &mut Vec<OwnedFd>, file: &impl AsFd) -> io::Result<usize> {
    files.push(file.as_fd().try_clone_to_owned()?);
    Ok(files.len() - 1)
}

/// Adds a duplicate of a descriptor, if it exists. Returns its position.
fn add_some(files: &mut Vec<OwnedFd>, file: Option<&impl AsFd>) -> io::Result<Option<usize>> {
    file.map(|file| add(files, file)).transpose()
}

impl RegionRecord {
    fn region(&self) -> Region {
        Region {
            guest: self.guest,
            size: self.size,
            user: self.user,
            offset: self.offset,
        }
    }
}

impl InflightRecord {
    fn inflight(&self) -> Inflight {
        Inflight {
            size: self.size,
            offset: self.offset,
            queues: self.queues,
            queue_size: self.queue_size,
        }
    }
}
