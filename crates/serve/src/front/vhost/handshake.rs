//! The connection of a virtual machine to its volume. Each volume has a socket of its own, so there
//! is nothing to negotiate.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use rustix::event::{PollFd, PollFlags};
use weir_uring::Arena;

use super::Session;
use crate::acceptor::{Export, Greet, Handshake, Next, Offer};
use crate::shard::{Attach, FrontEnd, Unattached};

/// A VMM that has connected and has not sent anything.
#[derive(Debug)]
struct Knock {
    socket: OwnedFd,
    volume: Arc<str>,
    export: Option<Box<Export>>,
    ending: Arc<AtomicU32>,
}

/// A VMM that is on its way to the shard of its volume.
#[derive(Debug)]
pub(super) struct Agreed {
    pub(super) socket: OwnedFd,
    pub(super) export: Box<Export>,
    /// The number of ended sessions at this socket that still have requests in progress.
    pub(super) ending: Arc<AtomicU32>,
}

/// Returns the function that accepts connections at the socket of a volume.
pub(crate) fn greeter(volume: &str) -> Greet {
    let volume: Arc<str> = volume.into();
    let ending = Arc::default();
    Arc::new(move |socket| {
        Box::new(Knock {
            socket,
            volume: Arc::clone(&volume),
            export: None,
            ending: Arc::clone(&ending),
        })
    })
}

impl Handshake for Knock {
    /// Waits for the first message, so that a VMM that sends nothing does not take a place from
    /// others.
    fn interest(&self) -> PollFd<'_> {
        PollFd::new(&self.socket, PollFlags::IN)
    }

    fn advance(&mut self, offer: &Offer<'_>) -> Next {
        let exports = offer.table.exports();
        let Some(export) = exports.iter().find(|e| *e.name == *self.volume) else {
            return Next::Over(Some("its volume was removed".to_owned()));
        };
        if let Err(full) = offer.take_place(&self.volume) {
            return Next::Over(Some(full.to_owned()));
        }
        self.export = Some(Box::new(export.clone()));
        Next::Chosen(export.place, export.name.clone())
    }

    fn is_silent(&self) -> bool {
        true
    }

    fn attach(self: Box<Self>) -> Option<Box<dyn Attach>> {
        Some(Box::new(Agreed {
            socket: self.socket,
            export: self.export?,
            ending: self.ending,
        }))
    }
}

impl Attach for Agreed {
    fn attach(self: Box<Self>, _arena: &Arena) -> Result<Box<dyn FrontEnd>, Unattached> {
        Ok(Box::new(Session::new(*self)?))
    }
}
