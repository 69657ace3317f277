//! The description of a volume in NBD's handshake.

use weir_wire::nbd::{
    BlockSizes, Denial, ExportAccess, ExportInfo, Exports, TlsMode, TransmissionFlags,
};

use crate::acceptor::{PlaceOffer, VolumeExport};
use crate::access::{AccessVerdict, ClientIdentity, RefusalReason};
use crate::backend::Traits;

/// The volumes that are offered to one client.
pub(super) struct OfferedExports<'a> {
    pub(super) offer: &'a PlaceOffer<'a>,
    pub(super) client: ClientIdentity<'a>,
    /// True if the server offers TLS.
    pub(super) offers_tls: bool,
}

impl Exports for OfferedExports<'_> {
    fn list(&self, each: &mut dyn FnMut(&str, &str)) {
        // Clients need not learn the names of volumes that they cannot use.
        for export in self.offer.table.exports() {
            if export.access.verdict(self.client) == AccessVerdict::Granted {
                each(&export.name, "");
            }
        }
    }

    /// Finds an export by its name. If there is only one volume, the empty name means that volume.
    /// The key is the index in the table.
    fn find(&self, name: &str) -> Option<ExportInfo> {
        let all = self.offer.table.exports();
        let found = match all {
            [_] if name.is_empty() => Some(0),
            all => all.iter().position(|export| export.name == name),
        };
        found.map(|at| info(&all[at], at as u64))
    }

    fn refusal(&self, export: &ExportInfo) -> Option<&'static str> {
        self.offer.take_place(&export.name).err()
    }

    fn tls_mode(&self) -> TlsMode {
        let exports = self.offer.table.exports();
        if !self.offers_tls {
            TlsMode::Off
        } else if !exports.is_empty() && exports.iter().all(|e| e.access.tls_required) {
            TlsMode::Forced
        } else {
            TlsMode::Selective
        }
    }

    /// Returns the decision on an export. `secure` is true exactly if the client has names.
    fn access(&self, export: &ExportInfo, secure: bool) -> ExportAccess {
        let exports = self.offer.table.exports();
        let rules = exports.get(export.key as usize).map(|e| &e.access);
        match rules.map(|rules| rules.verdict(self.client)) {
            // Without TLS, the client is not identified. This holds even if the caller is wrong.
            Some(AccessVerdict::Granted) if secure == self.client.names.is_some() => {
                ExportAccess::Granted
            }
            Some(AccessVerdict::TlsRequired) => ExportAccess::TlsRequired,
            _ => ExportAccess::Denied,
        }
    }

    fn on_denied(&self, what: Denial<'_>) {
        let refusals = self.offer.refusals;
        match what {
            Denial::Plain(_) => refusals.count(RefusalReason::Plain),
            Denial::Access(_) => refusals.count(RefusalReason::Access),
            _ => {}
        }
        if !crate::log::allowed() {
            return;
        }
        let (connection, peer) = (self.offer.connection, self.offer.name);
        match what {
            Denial::Export(export) => tracing::warn!(
                connection,
                peer,
                export,
                "a client requested an unknown export; the server refused it"
            ),
            Denial::Plain(export) => tracing::warn!(
                connection,
                peer,
                export,
                "a client did not use TLS, which the volume requires; the server refused it"
            ),
            Denial::Access(export) => self.offer.log_not_permitted(export, self.client),
            _ => tracing::warn!(
                connection,
                peer,
                "a client requested TLS, but [listen.tls] is not set; the server refused it"
            ),
        }
    }
}

/// Returns the description of a volume that clients receive.
pub(super) fn info(export: &VolumeExport, key: u64) -> ExportInfo {
    ExportInfo {
        name: export.name.clone(),
        description: String::new(),
        key,
        size: export.size,
        flags: flags(&export.traits, export.rotational),
        block_sizes: BlockSizes {
            minimum: 1,
            preferred: export.traits.preferred,
            maximum: export.request_size,
        },
        allocation: export.traits.allocation,
    }
}

/// Returns the transmission flags of a volume, which show the supported commands.
fn flags(traits: &Traits, rotational: bool) -> TransmissionFlags {
    let writable = !traits.read_only;
    // Several connections are safe (NBD_FLAG_CAN_MULTI_CONN), because a flush on one connection
    // covers the writes that completed on all others.
    let mut flags = TransmissionFlags::SEND_FLUSH
        | TransmissionFlags::SEND_DF
        | TransmissionFlags::SEND_CACHE
        | TransmissionFlags::CAN_MULTI_CONN;
    for (set, flag) in [
        (traits.read_only, TransmissionFlags::READ_ONLY),
        (rotational, TransmissionFlags::ROTATIONAL),
        (writable, TransmissionFlags::SEND_FUA),
        (writable && traits.trim, TransmissionFlags::SEND_TRIM),
        (writable, TransmissionFlags::SEND_WRITE_ZEROES),
        (
            writable && traits.fast_zero,
            TransmissionFlags::SEND_FAST_ZERO,
        ),
    ] {
        if set {
            flags |= flag;
        }
    }
    flags
}
