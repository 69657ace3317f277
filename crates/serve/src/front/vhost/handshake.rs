//! The connection of a virtual machine to its volume. Each volume has a socket of its own, so there
//! is nothing to negotiate.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use rustix::event::{PollFd, PollFlags};
use weir_uring::Arena;

use super::VhostSession;
use crate::acceptor::{ClientHandshake, Greet, HandshakeProgress, PlaceOffer, VolumeExport};
use crate::access::{ClientCredentials, ClientIdentity, Origin, RefusalReason};
use crate::shard::{Attach, AttachError, FrontEnd};

/// A VMM that has connected and has not sent anything.
#[derive(Debug)]
struct VhostHandshake {
    socket: OwnedFd,
    volume: Arc<str>,
    export: Option<Box<VolumeExport>>,
    ending: Arc<AtomicU32>,
}

/// A VMM that is on its way to the shard of its volume.
#[derive(Debug)]
pub(super) struct ConnectedVmm {
    pub(super) socket: OwnedFd,
    pub(super) export: Box<VolumeExport>,
    /// The number of ended sessions at this socket that still have requests in progress.
    pub(super) ending: Arc<AtomicU32>,
}

/// The numbers of ended sessions that still have requests in progress, by volume.
#[derive(Debug, Default)]
pub(crate) struct EndingSessions(BTreeMap<String, Arc<AtomicU32>>);

impl EndingSessions {
    /// Returns the number of a volume, which all sessions at its socket share.
    pub(crate) fn of(&mut self, volume: &str) -> Arc<AtomicU32> {
        Arc::clone(self.0.entry(volume.to_owned()).or_default())
    }
}

/// Returns the function that accepts connections at the socket of a volume.
pub(crate) fn greeter(volume: &str, endings: &mut EndingSessions) -> Greet {
    let ending = endings.of(volume);
    let volume: Arc<str> = volume.into();
    Arc::new(move |socket| {
        Box::new(VhostHandshake {
            socket,
            volume: Arc::clone(&volume),
            export: None,
            ending: Arc::clone(&ending),
        })
    })
}

impl ClientHandshake for VhostHandshake {
    /// Waits for the first message, so that a VMM that sends nothing does not take a place from
    /// others.
    fn interest(&self) -> PollFd<'_> {
        PollFd::new(&self.socket, PollFlags::IN)
    }

    fn advance(&mut self, offer: &PlaceOffer<'_>) -> HandshakeProgress {
        let exports = offer.table.exports();
        let Some(export) = exports.iter().find(|e| *e.name == *self.volume) else {
            return HandshakeProgress::Over(Some("its volume was removed".to_owned()));
        };
        let client = ClientIdentity {
            origin: offer.origin,
            names: None,
        };
        // `tls` is for NBD. The socket of a volume is on this machine.
        if !export.access.permits(client) {
            offer.refusals.count(RefusalReason::Access);
            if crate::log::allowed() {
                offer.log_not_permitted(&self.volume, client);
            }
            return HandshakeProgress::Over(None);
        }
        if let Err(full) = offer.take_place(&self.volume) {
            return HandshakeProgress::Over(Some(full.to_owned()));
        }
        self.export = Some(Box::new(export.clone()));
        HandshakeProgress::Chosen(export.place, export.name.clone())
    }

    fn is_silent(&self) -> bool {
        true
    }

    fn credentials(&self, origin: Origin) -> ClientCredentials {
        ClientCredentials {
            origin,
            names: None,
            has_tls: false,
        }
    }

    fn attach(self: Box<Self>) -> Option<Box<dyn Attach>> {
        Some(Box::new(ConnectedVmm {
            socket: self.socket,
            export: self.export?,
            ending: self.ending,
        }))
    }
}

impl Attach for ConnectedVmm {
    fn attach(self: Box<Self>, _arena: &Arena) -> Result<Box<dyn FrontEnd>, AttachError> {
        Ok(Box::new(VhostSession::new(*self)?))
    }
}
