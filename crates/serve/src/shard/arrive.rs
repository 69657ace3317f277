//! The arrival of a client on its shard.

use std::collections::VecDeque;

use weir_core::StreamSpec;
use weir_uring::Ring;

use super::client::{ClientState, ShardClient};
use super::drive::OpenStream;
use super::front::AttachError;
use super::front::Attached;
use super::{ClientArrival, Shard};

/// The reason why a client is refused after its handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
enum ArrivalError {
    #[error("the server is shutting down")]
    Draining,
    #[error("the volume was removed")]
    Volume,
    #[error("the drive has no free place for a connection")]
    Stream,
    #[error(transparent)]
    Front(#[from] AttachError),
}

impl Shard {
    /// Accepts a client. If there is no room for it, its connection is closed and the reason is
    /// logged.
    pub(super) fn arrive(&mut self, arrival: ClientArrival) {
        let (id, peer) = (arrival.id, arrival.peer.clone());
        let is_new = !arrival.is_inherited;
        match self.admit(arrival) {
            Ok(slot) => {
                if is_new && crate::log::connection_line_allowed() {
                    tracing::info!(connection = id, %peer, volume = %self.volume_name(slot), "client connected");
                }
                self.with_front(slot, |front, cx| front.reserve_inherited(cx));
                self.mark_ready(slot);
            }
            Err(reason) if crate::log::allowed() => {
                let reason = reason.to_string();
                tracing::warn!(connection = id, %peer, reason, "the server refused a connection");
            }
            Err(_) => {}
        }
    }

    /// Opens a stream for a client and adds the client to the shard. Returns its slot.
    fn admit(&mut self, arrival: ClientArrival) -> Result<u32, ArrivalError> {
        if self.drain.is_some() {
            return Err(ArrivalError::Draining);
        }
        // `join` requires that the schedule knows the volume, which may have been added in this
        // turn.
        self.schedule_terms();
        let drive = &mut self.drives[arrival.drive];
        let volume = drive.volumes[arrival.space as usize].as_mut();
        let volume = volume
            // While the client was on its way, the space can have been given to another volume.
            .filter(|v| !v.leaving && v.name == arrival.volume)
            .ok_or(ArrivalError::Volume)?;
        let mut front = arrival.front.attach(self.ring.arena())?;
        // The volume may have grown since the client chose it.
        front.resized(volume.size, self.now);
        let spec = StreamSpec {
            group: volume.group,
            priority: weir_core::Priority::default(),
        };
        let opened = drive.layer.open(self.now, spec);
        let stream = opened.map_err(|_| ArrivalError::Stream)?;
        volume.connections += 1;
        volume.kernel += u32::from(front.is_kernel());
        let peer = arrival.ticket.peer();
        let client = ShardClient {
            id: arrival.id,
            peer: arrival.peer,
            drive: arrival.drive,
            space: arrival.space,
            align: volume.traits.align,
            stream,
            state: ClientState::Open,
            queue: VecDeque::new(),
            paused: false,
            held: false,
            blocked: false,
            ready: false,
            marked: false,
            waiting: false,
            flow: 0,
            arrived: None,
            partial: None,
            last_activity: self.now,
            outstanding: 0,
            live: 0,
            non_flush: 0,
            transferred: 0,
            used: 0,
            unsent: 0,
            ticket: arrival.ticket,
        };
        let shared = front.is_shared();
        let slot = self.clients.insert(Attached { client, front });
        let volume = (arrival.drive, arrival.space);
        self.clients[slot].client.flow = self.schedule.join(volume, peer);
        if shared {
            self.shared.push(slot);
        }
        drive.streams[stream.slot() as usize] = Some(OpenStream {
            client: slot,
            space: arrival.space,
            stream,
        });
        Ok(slot)
    }

    pub(super) fn volume_name(&self, slot: u32) -> &str {
        let client = &self.clients[slot].client;
        let volume = self.drives[client.drive].volumes[client.space as usize].as_ref();
        volume.map_or("", |v| &v.name)
    }
}
