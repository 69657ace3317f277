//! How a connection begins on its shard.

use std::collections::VecDeque;

use weir_core::StreamSpec;
use weir_uring::{Handle, Ring};

use super::connection::{Connection, INPUT, Input, Output, State};
use super::drive::Open;
use super::{Arrival, Shard};

impl Shard {
    /// Takes a client in; if there is no room for it, it is gone with a line in the log.
    pub(super) fn arrive(&mut self, arrival: Arrival) {
        let (id, peer) = (arrival.id, arrival.peer.clone());
        match self.admit(arrival) {
            Ok(slot) => {
                if crate::log::passing() {
                    tracing::info!(connection = id, %peer, volume = %self.volume_name(slot), "connected");
                }
                self.look_at(slot);
            }
            Err(reason) if crate::log::allowed() => {
                tracing::warn!(connection = id, %peer, reason, "connection refused");
            }
            Err(_) => {}
        }
    }

    fn admit(&mut self, arrival: Arrival) -> Result<u32, &'static str> {
        if self.drain.is_some() {
            return Err("the server is shutting down");
        }
        let session = &arrival.session;
        let drive = &mut self.drives[arrival.drive];
        let volume = drive.volumes[arrival.space as usize].as_mut();
        let volume = volume
            .filter(|v| !v.leaving && v.name == session.export.name)
            .ok_or("the volume is gone")?;
        let buf = self.ring.arena().alloc(INPUT).ok_or("no memory for it")?;
        let mut input = Input::new(buf);
        if !input.preload(&arrival.rest) {
            return Err("too much was sent with the handshake");
        }
        let socket = Handle::new(arrival.socket).map_err(|_| "its socket is broken")?;
        let spec = StreamSpec {
            group: volume.group,
            priority: weir_core::Priority::default(),
        };
        let stream = drive
            .layer
            .open(self.now, spec)
            .map_err(|_| "the drive has no stream left")?;
        volume.connections += 1;
        let slot = self.connections.insert(Connection {
            id: arrival.id,
            peer: arrival.peer,
            drive: arrival.drive,
            space: arrival.space,
            stream,
            socket,
            rules: session.rules(u32::MAX),
            structured: session.structured,
            state: State::Open,
            input,
            gather: None,
            skip: 0,
            queue: VecDeque::new(),
            paused: false,
            held: false,
            blocked: false,
            ready: false,
            dirty: false,
            waiting: false,
            moved: self.now,
            receiving: None,
            output: Output::default(),
            outstanding: 0,
            live: 0,
            asking: 0,
            used: 0,
            taken: 0,
            filled: false,
            sparse: 0,
            spare: Vec::new(),
            ticket: arrival.ticket,
        });
        drive.streams[stream.slot() as usize] = Some(Open {
            connection: slot,
            space: arrival.space,
            stream,
        });
        Ok(slot)
    }
}
